/* jobs/checkpoint/save.c - values of variables into a bundle. */
#include "base/alloc.h"
#include "jobs/checkpoint/checkpoint.h"

static weft_status_t *no_memory(void) { return WEFT_NO_MEMORY("saving a checkpoint"); }

uint64_t weft_checkpoint_bytes(const weft_saved_variables_t *variables) {
  uint64_t bytes = 0;
  for (int i = 0; i < variables->n; i++) {
    const weft_saved_variable_t *v = &variables->items[i];
    int64_t count = weft_shape_is_known(&v->shape) ? weft_shape_count(&v->shape) : 0;
    if (count > 0) bytes += (uint64_t)count * weft_dtype_size(v->dtype);
  }
  return bytes;
}

void weft_checkpoint_extras_deinit(weft_checkpoint_extras_t *e) {
  for (int i = 0; i < e->n; i++) weft_tensor_release(e->tensors[i]);
  weft_free(e->names);
  weft_free(e->tensors);
  *e = (weft_checkpoint_extras_t){0};
}

static weft_status_t *got(void *arg, const weft_access_part_t *part, const weft_tensor_t *value) {
  weft_bundle_writer_t *w = arg;
  const weft_saved_variable_t *v = part->variable;
  weft_tensor_slice_t at;
  weft_saved_variable_place(v, part->first_row, &value->shape, &at);
  if (!v->is_part && part->first_row == 0 &&
      (!weft_shape_is_known(&v->shape) || weft_shape_eq(&v->shape, &value->shape))) {
    return weft_bundle_writer_add(w, v->tensor, value);
  }
  return weft_bundle_writer_add_slice(w, v->tensor, v->is_part ? &v->full : &v->shape, &at, value);
}

static weft_status_t *add_numbers(weft_bundle_writer_t *w, weft_str_t name, const weft_shape_t *shape,
                                  const int64_t *values) {
  weft_tensor_t *t = NULL;
  WEFT_RETURN_IF_ERROR(weft_tensor_new(WEFT_I64, shape, NULL, &t));
  memcpy(t->data, values, t->bytes);
  weft_status_t *s = weft_bundle_writer_add(w, name, t);
  weft_tensor_release(t);
  return s;
}

/* TensorFlow's readers of objects find variables by it. */
static weft_status_t *add_object_graph(weft_bundle_writer_t *w, const weft_saved_variables_t *v) {
  return v->object_graph == NULL ? NULL
                                 : weft_bundle_writer_add(w, WEFT_STR(WEFT_OBJECT_GRAPH), v->object_graph);
}

static weft_status_t *add_position(weft_bundle_writer_t *w, const weft_job_position_t *at) {
  const int64_t batches[5] = {at->epoch, at->row, at->rows, at->is_shuffled, (int64_t)at->seed};
  const weft_shape_t scalar = WEFT_SCALAR, five = weft_shape_vector(5);
  WEFT_RETURN_IF_ERROR(add_numbers(w, WEFT_STR(WEFT_CHECKPOINT_STEP), &scalar, &at->step));
  return add_numbers(w, WEFT_STR(WEFT_CHECKPOINT_BATCHES), &five, batches);
}

weft_status_t *weft_checkpoint_save(const weft_access_t *access, TF_Session *session,
                                    const weft_job_position_t *at, const weft_checkpoint_extras_t *extras,
                                    weft_series_t *series, weft_str_t *out_path) {
  weft_bundle_writer_t *w = NULL;
  bool *is_there = weft_calloc((size_t)access->n + 1, sizeof *is_there);
  weft_status_t *s = is_there == NULL ? no_memory() : weft_access_ask(access, session, is_there);
  if (s == NULL) s = weft_series_begin(series, at->step, out_path, &w);
  if (s == NULL) s = weft_access_read(access, session, is_there, got, w);
  if (s == NULL) s = add_object_graph(w, access->variables);
  if (s == NULL) s = add_position(w, at);
  for (int i = 0; s == NULL && i < extras->n; i++)
    s = weft_bundle_writer_add(w, extras->names[i], extras->tensors[i]);
  if (s == NULL) {
    s = weft_series_commit(series, *out_path, w);
  } else {
    weft_bundle_writer_abandon(w);
  }
  weft_free(is_there);
  return s;
}
