/* strategies/central_storage.c - replicas on the devices of one task, variables on a device of their own.
 *
 * Source: reference strategies 3.27 (tf.distribute's CentralStorageStrategy).
 */
#include "strategies/replicas.h"
#include "strategies/strategy.h"

#define NAME "central_storage"
#define OPTIONS(OPTION)                                                   \
  WEFT_TASK_OPTIONS(OPTION)                                               \
  OPTION(variable_device, TEXT, "CPU:0", "CPU:0", "where variables live") \
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
  weft_str_t device = weft_replicas_named_device(&out->arena, weft_replicas_task(r->cluster),
                                                 values[OPTION_variable_device].text);
  o.variable_devices = &device;
  o.num_variable_devices = 1;
  if (device.data == NULL) return WEFT_ERROR(RESOURCE_EXHAUSTED, NAME ": no memory for the name of a device");
  out->num_local_cpus = weft_replicas_count_local(r->cluster, out->num_local_cpus, device);
  return weft_replicate(r, &o, out);
}

const weft_strategy_t weft_central_storage_strategy = {
    .name = NAME,
    .about = "variables on one device, read there by all replicas; updates are added up and applied there",
    .usage = NAME "[:N][,option=value...]\n" OPTIONS(WEFT_OPTION_USAGE),
    .check = check,
    .probe = weft_strategy_probe_by_trial,
    .rewrite = rewrite,
    .explain = weft_strategy_explain_rewrite,
};
