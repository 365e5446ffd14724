/* client/step.c - one step: names and tensors in, tensors out. */
#include "base/alloc.h"
#include "client/buffer.h"
#include "client/config.h"
#include "client/session.h"
#include "client/tensor.h"

static weft_status_t *no_memory(void) { return WEFT_NO_MEMORY("a step"); }

weft_status_t *weft_client_step_init(weft_client_step_t *s, int num_feeds, int num_outputs, int num_targets) {
  s->num_feeds = s->num_fetches = s->num_targets = s->num_outputs = 0;
  s->block = NULL;
  if (num_feeds <= WEFT_CLIENT_STEP_INLINE && num_outputs <= WEFT_CLIENT_STEP_INLINE &&
      num_targets <= WEFT_CLIENT_STEP_INLINE) {
    s->feeds = s->few_feeds;
    s->fetches = s->few_fetches;
    s->targets = s->few_targets;
    s->results = s->few_results;
    s->fetch_of = s->few_fetch_of;
    return NULL;
  }
  if (num_feeds < 0 || num_outputs < 0 || num_targets < 0) {
    return WEFT_ERROR(INVALID_ARGUMENT, "a step with a negative number of feeds, fetches or targets");
  }
  size_t f = (size_t)num_feeds, o = (size_t)num_outputs, t = (size_t)num_targets;
  char *at =
      weft_calloc(f + o + t, sizeof(weft_named_tensor_t) + sizeof(weft_str_t) + sizeof(void *) + sizeof(int));
  if (at == NULL) return no_memory();
  s->block = at;
  s->feeds = (weft_named_tensor_t *)(void *)at;
  at += f * sizeof *s->feeds;
  s->fetches = (weft_str_t *)(void *)at;
  at += o * sizeof *s->fetches;
  s->targets = (weft_str_t *)(void *)at;
  at += t * sizeof *s->targets;
  s->results = (weft_tensor_t **)(void *)at;
  at += o * sizeof(*s->results);
  s->fetch_of = (int *)(void *)at;
  return NULL;
}

void weft_client_step_deinit(weft_client_step_t *s) {
  for (int i = 0; i < s->num_feeds; i++) weft_tensor_release(s->feeds[i].tensor);
  for (int i = 0; i < s->num_fetches; i++) weft_tensor_release(s->results[i]);
  weft_free(s->block);
}

weft_status_t *weft_client_step_feed(weft_client_step_t *s, weft_str_t name, const TF_Tensor *value) {
  if (name.data == NULL) return no_memory();
  if (value == NULL)
    return WEFT_ERROR(INVALID_ARGUMENT, "no tensor is given for feed '%.*s'", WEFT_STR_ARGS(name));
  weft_named_tensor_t *f = &s->feeds[s->num_feeds];
  f->name = name;
  WEFT_RETURN_IF_ERROR(weft_client_tensor_get(value, &f->tensor));
  s->num_feeds++;
  return NULL;
}

/* Names of one output are mostly one text, so that a look at the pointers tells. */
static int find_fetch(const weft_client_step_t *s, weft_str_t name) {
  for (int i = 0; i < s->num_fetches && s->num_fetches <= WEFT_CLIENT_STEP_INLINE; i++) {
    if (s->fetches[i].data == name.data || weft_str_eq(s->fetches[i], name)) return i;
  }
  return -1;
}

void weft_client_step_fetch(weft_client_step_t *s, weft_str_t name) {
  int at = find_fetch(s, name);
  if (at < 0) {
    at = s->num_fetches++;
    s->fetches[at] = name;
    s->results[at] = NULL;
  }
  s->fetch_of[s->num_outputs++] = at;
}

/* Equal fetches of steps with many: by a map instead. */
static weft_status_t *unite_fetches(weft_client_step_t *s) {
  if (s->num_fetches <= WEFT_CLIENT_STEP_INLINE) return NULL;
  weft_map_t seen = WEFT_MAP_INIT;
  weft_status_t *status = NULL;
  int n = 0;
  for (int i = 0; i < s->num_outputs && status == NULL; i++) {
    weft_str_t name = s->fetches[s->fetch_of[i]];
    weft_str_t *first = weft_map_get(&seen, name);
    if (first != NULL) {
      s->fetch_of[i] = (int)(first - s->fetches);
      continue;
    }
    s->fetches[n] = name; /* n never overtakes fetch_of[i], so no name is lost */
    s->fetch_of[i] = n;
    status = weft_map_put(&seen, name, &s->fetches[n], NULL);
    n++;
  }
  weft_map_deinit(&seen);
  if (status == NULL) s->num_fetches = n;
  return status;
}

/* A tensor that is fetched twice is one tensor in two boxes. */
static weft_status_t *box_results(weft_client_step_t *s, TF_Tensor **outputs) {
  for (int i = 0; i < s->num_outputs; i++) {
    weft_tensor_t *t = s->results[s->fetch_of[i]];
    if (t == NULL)
      return WEFT_ERROR(INTERNAL, "fetch '%.*s' has no value", WEFT_STR_ARGS(s->fetches[s->fetch_of[i]]));
    WEFT_RETURN_IF_ERROR(weft_client_tensor_new(weft_tensor_retain(t), &outputs[i]));
  }
  return NULL;
}

weft_status_t *weft_client_step_run(weft_client_step_t *s, weft_connection_t *c, const char *handle,
                                    const TF_Buffer *run_options, TF_Tensor **outputs,
                                    TF_Buffer *run_metadata) {
  for (int i = 0; i < s->num_outputs; i++) outputs[i] = NULL;
  if (run_metadata != NULL && run_metadata->data != NULL) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Passing non-empty run_metadata is invalid.");
  }
  weft_strbuf_t metadata = WEFT_STRBUF_INIT;
  weft_run_step_t r = {.feeds = s->feeds,
                       .fetches = s->fetches,
                       .targets = s->targets,
                       .num_feeds = s->num_feeds,
                       .num_targets = s->num_targets,
                       .partial_run_handle = weft_str(handle)};
  weft_status_t *status = NULL;
  if (run_options != NULL) status = weft_client_run_options_read(weft_client_bytes(run_options), &r.options);
  if (status == NULL) status = unite_fetches(s);
  r.num_fetches = s->num_fetches;
  if (status == NULL)
    status = weft_connection_run(c, &r, s->results, run_metadata == NULL ? NULL : &metadata);
  if (status == NULL) status = box_results(s, outputs);
  if (status == NULL && run_metadata != NULL) status = weft_client_fill(run_metadata, &metadata);
  weft_strbuf_deinit(&metadata);
  for (int i = 0; status != NULL && i < s->num_outputs; i++) {
    TF_DeleteTensor(outputs[i]);
    outputs[i] = NULL;
  }
  return status;
}
