/* graph/passes/settings.c - which passes run, as a command line says it. */
#include "graph/passes/optimize.h"

static uint32_t find_pass(weft_str_t name) {
  if (weft_str_is(name, "all")) return WEFT_ALL_PASSES;
  for (int p = 0; p < WEFT_NUM_PASSES; p++) {
    if (weft_str_is(name, weft_pass_name(p))) return WEFT_PASS_BIT(p);
  }
  return 0;
}

weft_pass_settings_t weft_pass_defaults(void) {
  return (weft_pass_settings_t){
      .passes = WEFT_ALL_PASSES, .min_nodes = 4, .rounds = 2, .max_folded_bytes = 10 * 1024 * 1024};
}

static weft_status_t *no_such_pass(weft_str_t name) {
  weft_strbuf_t names = WEFT_STRBUF_INIT;
  for (int p = 0; p < WEFT_NUM_PASSES; p++) weft_strbuf_printf(&names, "%s, ", weft_pass_name(p));
  weft_status_t *s = WEFT_ERROR(INVALID_ARGUMENT, "no pass '%.*s'; there are %sall and none",
                                WEFT_STR_ARGS(name), names.failed ? "" : names.data);
  weft_strbuf_deinit(&names);
  return s;
}

weft_status_t *weft_pass_settings_parse(weft_str_t text, weft_pass_settings_t *inout) {
  uint32_t passes = inout->passes;
  bool has_added = false;
  for (weft_str_t item, rest; text.length > 0; text = rest) {
    if (!weft_str_split(text, ',', &item, &rest)) {
      item = text;
      rest = weft_str_of(NULL, 0);
    }
    const bool is_off = item.length > 0 && item.data[0] == '-';
    const weft_str_t name = is_off ? weft_str_of(item.data + 1, item.length - 1) : item;
    const bool is_none = !is_off && weft_str_is(name, "none");
    const uint32_t which = is_none ? 0 : find_pass(name);
    if (which == 0 && !is_none) return no_such_pass(item);
    if (!is_off && !has_added) passes = 0;
    has_added |= !is_off;
    passes = is_off ? passes & ~which : passes | which;
  }
  inout->passes = passes;
  return NULL;
}
