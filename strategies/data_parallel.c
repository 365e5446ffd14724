/* strategies/data_parallel.c - replicas on the devices of one task, variables on the first.
 *
 * In every step replicas are given the parameters of device 0, outputs are gathered and gradients
 * are added up there, and the optimizer runs there once. Source: reference strategies 3.4
 * (torch.nn.DataParallel).
 */
#include "strategies/replicas.h"
#include "strategies/strategy.h"

#define NAME "data_parallel"
#define OPTIONS(OPTION)     \
  WEFT_TASK_OPTIONS(OPTION) \
  WEFT_BATCH_OPTION(OPTION)

enum { OPTIONS(WEFT_OPTION_ID) NUM_OPTIONS };
static const weft_option_def_t defs[] = {OPTIONS(WEFT_OPTION_DEF)};

static weft_status_t *check(const weft_strategy_t *self, weft_str_t options) {
  weft_option_value_t values[NUM_OPTIONS];
  return weft_options_parse(self->name, defs, NUM_OPTIONS, options, values);
}

static weft_status_t *rewrite(const weft_strategy_t *self, const weft_strategy_request_t *r,
                              weft_rewrite_t *out) {
  weft_option_value_t values[NUM_OPTIONS];
  weft_replicate_options_t o = {.variables = WEFT_VARIABLES_CENTRAL, .sum = WEFT_SUM_ON_ONE};
  WEFT_RETURN_IF_ERROR(weft_replicas_begin(self, r, defs, NUM_OPTIONS, values, out, &o));
  WEFT_RETURN_IF_ERROR(weft_replicas_batch_option(&values[OPTION_batch], &out->arena, &o.batch));
  o.variable_devices = o.devices;
  o.num_variable_devices = 1;
  return weft_replicate(r, &o, out);
}

const weft_strategy_t weft_data_parallel_strategy = {
    .name = NAME,
    .about = "variables on the first device, sent to replicas in every step, gradients added up there",
    .usage = NAME "[:N][,option=value...]\n" OPTIONS(WEFT_OPTION_USAGE),
    .check = check,
    .probe = weft_strategy_probe_by_trial,
    .rewrite = rewrite,
    .explain = weft_strategy_explain_rewrite,
};
