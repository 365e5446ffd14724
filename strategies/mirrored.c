/* strategies/mirrored.c - replicas on the devices of one task, a copy of every variable on each.
 *
 * Source: reference strategies 3.25 (tf.distribute.MirroredStrategy), 3.5 (buckets), 3.7 (fusion).
 */
#include "strategies/replicas.h"
#include "strategies/strategy.h"

#define NAME "mirrored"
#define OPTIONS(OPTION)     \
  WEFT_TASK_OPTIONS(OPTION) \
  WEFT_SUM_OPTIONS(OPTION)

enum { OPTIONS(WEFT_OPTION_ID) NUM_OPTIONS };
static const weft_option_def_t defs[] = {OPTIONS(WEFT_OPTION_DEF)};

static weft_status_t *check(const weft_strategy_t *self, weft_str_t options) {
  weft_option_value_t values[NUM_OPTIONS];
  WEFT_RETURN_IF_ERROR(weft_options_parse(self->name, defs, NUM_OPTIONS, options, values));
  return weft_replicas_check_sums(self->name, &values[OPTION_batch]);
}

static weft_status_t *rewrite(const weft_strategy_t *self, const weft_strategy_request_t *r,
                              weft_rewrite_t *out) {
  weft_option_value_t values[NUM_OPTIONS];
  weft_replicate_options_t o = {.variables = WEFT_VARIABLES_MIRRORED};
  WEFT_RETURN_IF_ERROR(weft_replicas_begin(self, r, defs, NUM_OPTIONS, values, out, &o));
  WEFT_RETURN_IF_ERROR(weft_replicas_sum_options(self->name, &values[OPTION_batch], &out->arena, &o));
  return weft_replicate(r, &o, out);
}

const weft_strategy_t weft_mirrored_strategy = {
    .name = NAME,
    .about = "replicas on the devices of one task, variables copied to each, gradients all-reduced",
    .usage = NAME "[:N][,option=value...]\n" OPTIONS(WEFT_OPTION_USAGE),
    .check = check,
    .probe = weft_strategy_probe_by_trial,
    .rewrite = rewrite,
    .explain = weft_strategy_explain_rewrite,
};
