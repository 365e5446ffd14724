/* kernels/cpu/kv/kv_common.c - inputs of the kernels of clocks and tables. */
#include "kernels/cpu/kv/kv_common.h"

weft_status_t *weft_kv_in_clocked(weft_kernel_ctx_t *c, weft_clocked_t **out) {
  const weft_handle_t *h = NULL;
  weft_object_t *o = NULL;
  WEFT_RETURN_IF_ERROR(weft_state_in_handle(c, 0, &h));
  bool is_table = weft_str_is(h->type_name, weft_kv_table_type.name);
  WEFT_RETURN_IF_ERROR(weft_state_in(c, 0, is_table ? &weft_kv_table_type : &weft_clock_type, &o));
  *out = (weft_clocked_t *)o;
  return NULL;
}

weft_status_t *weft_kv_scalar(const weft_kernel_ctx_t *c, int i, const char *what, int64_t *out) {
  const weft_tensor_t *t = weft_in(c, i);
  int n = 0;
  if (t->shape.rank != 0) {
    return WEFT_ERROR(INVALID_ARGUMENT, "%s must be a scalar, but has shape %s", what,
                      WEFT_SHAPE_TEXT(&t->shape));
  }
  return weft_read_ints(t, what, 1, out, &n);
}

weft_status_t *weft_kv_read_workers(const weft_kernel_setup_t *setup, int *out_num,
                                    const weft_attr_t **out_tasks) {
  int64_t workers = weft_knode_int(setup, "num_workers");
  if (workers > WEFT_MAX_CLOCK_WORKERS) {
    return WEFT_ERROR(INVALID_ARGUMENT, "num_workers must be at most %d, but is %lld", WEFT_MAX_CLOCK_WORKERS,
                      (long long)workers);
  }
  *out_num = (int)workers;
  *out_tasks = weft_knode_attr(setup, "worker_tasks");
  return NULL;
}

weft_clock_timeout_t weft_kv_timeout(const weft_kernel_ctx_t *c, float timeout_seconds) {
  return (weft_clock_timeout_t){weft_resource_timer(c->device->resources), (double)timeout_seconds};
}
