/* strategies/strategy.c - the list of strategies, and how one is found and applied. */
#include "strategies/strategy.h"

#include <string.h>

#include "base/similar.h"
#include "strategies/trial.h"

#define WEFT_STRATEGY(name) extern const weft_strategy_t weft_##name##_strategy;
#include "strategies/strategies.def"
#undef WEFT_STRATEGY

const weft_strategy_t *const weft_strategies[] = {
#define WEFT_STRATEGY(name) &weft_##name##_strategy,
#include "strategies/strategies.def"
#undef WEFT_STRATEGY
    NULL,
};

weft_status_t *weft_strategy_find(weft_str_t text, const weft_strategy_t **out, weft_str_t *options) {
  weft_str_t name = text, rest = {"", 0};
  if (!weft_str_split(text, ':', &name, &rest)) rest = weft_str("");
  for (int i = 0; weft_strategies[i] != NULL; i++) {
    if (weft_str_is(name, weft_strategies[i]->name)) {
      *out = weft_strategies[i];
      *options = rest;
      return NULL;
    }
  }
  weft_strbuf_t b = WEFT_STRBUF_INIT;
  weft_similar_t similar;
  weft_similar_init(&similar, name);
  for (int i = 0; weft_strategies[i] != NULL; i++) {
    weft_strbuf_printf(&b, "%s%s", i == 0 ? "" : ", ", weft_strategies[i]->name);
    weft_similar_offer(&similar, weft_str(weft_strategies[i]->name));
  }
  weft_status_t *s = WEFT_ERROR(NOT_FOUND, "no strategy '%.*s'; there are %s", WEFT_STR_ARGS(name),
                                b.failed || b.data == NULL ? "none" : b.data);
  if (similar.best.data != NULL)
    s = weft_status_annotate(s, "did you mean '%.*s'?", WEFT_STR_ARGS(similar.best));
  weft_strbuf_deinit(&b);
  return s;
}

weft_status_t *weft_strategy_check(weft_str_t text) {
  const weft_strategy_t *strategy = NULL;
  weft_str_t options;
  WEFT_RETURN_IF_ERROR(weft_strategy_find(text, &strategy, &options));
  return strategy->check(strategy, options);
}

static weft_status_t *apply(weft_str_t text, const weft_strategy_request_t *r, weft_rewrite_t *out) {
  const weft_strategy_t *strategy = NULL;
  weft_strategy_request_t request = *r;
  WEFT_RETURN_IF_ERROR(weft_strategy_find(text, &strategy, &request.options));
  *out = (weft_rewrite_t){.arena = WEFT_ARENA_INIT};
  weft_status_t *s = strategy->rewrite(strategy, &request, out);
  if (s == NULL) s = weft_strategy_finish(strategy, &request, out);
  if (s != NULL) weft_rewrite_deinit(out);
  if (s == NULL) out->strategy = strategy;
  return s;
}

/* Of a graph that cannot be split over replicas: is there a strategy here whose workers take whole batches?
 */
static const char *find_unsplit(const weft_strategy_request_t *r) {
  static const char *const texts[] = {"parameter_server:mode=async", "parameter_server:mode=async,workers=2"};
  for (size_t i = 0; r->cluster != NULL && i < sizeof texts / sizeof texts[0]; i++) {
    weft_rewrite_t trial;
    weft_status_t *s = apply(weft_str(texts[i]), r, &trial);
    if (s == NULL) {
      weft_rewrite_deinit(&trial);
      return texts[i];
    }
    weft_status_free(s);
  }
  return NULL;
}

weft_status_t *weft_strategy_apply(weft_str_t text, const weft_strategy_request_t *r, weft_rewrite_t *out) {
  weft_status_t *s = apply(text, r, out);
  const char *message = weft_status_message(s);
  if (weft_status_code(s) != WEFT_INVALID_ARGUMENT || strstr(message, "cannot be split over") == NULL ||
      strstr(message, "on one device") != NULL)
    return s;
  const char *unsplit = find_unsplit(r);
  return weft_status_annotate(s, "train it on one device%s%s%s", unsplit == NULL ? "" : ", or under ",
                              unsplit == NULL ? "" : unsplit,
                              unsplit == NULL ? "" : ", whose workers take whole batches");
}

weft_status_t *weft_strategy_explain(const weft_rewrite_t *r, weft_strbuf_t *out) {
  return r->strategy->explain(r->strategy, r, out);
}
