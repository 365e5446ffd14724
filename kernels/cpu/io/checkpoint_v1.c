/* kernels/cpu/io/checkpoint_v1.c - saving and restoring in TensorFlow's first checkpoint format, for old
 * graphs.
 *
 * A Restore reads one tensor: it opens the file, reads its contents and one record.
 */
#include <inttypes.h>

#include "base/alloc.h"
#include "io/checkpoint_v1.h"
#include "kernels/kernel.h"

/* ---- Save, SaveSlices ---- */

static weft_status_t *check_save(const weft_kernel_ctx_t *c, bool has_slices) {
  int fixed = has_slices ? 3 : 2;
  int64_t n = weft_in(c, 1)->count;
  if (weft_in(c, 0)->count != 1) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "Input 0 (filename) must be a string scalar; got a tensor of %" PRId64 "elements",
                      weft_in(c, 0)->count);
  }
  if (has_slices && weft_in(c, 2)->count != n) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "Expected %" PRId64 " elements for the tensor shapes and slices but got %" PRId64, n,
                      weft_in(c, 2)->count);
  }
  if (n + fixed != c->node->num_inputs) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "Expected totally %" PRId64
                      " inputs as input #1 (which is a string tensor of saved names) contains "
                      "%" PRId64 " names, but received %d inputs",
                      n + fixed, n, c->node->num_inputs);
  }
  return NULL;
}

static weft_status_t *save_one(weft_checkpoint_v1_writer_t *w, weft_str_t name, weft_str_t spec,
                               weft_tensor_t *t) {
  weft_shape_t full = t->shape, shape;
  weft_tensor_slice_t slice = weft_tensor_slice_whole(&full);
  if (spec.length > 0) {
    WEFT_RETURN_IF_ERROR(weft_tensor_slice_parse(spec, &full, &slice, &shape));
    if (!weft_shape_eq(&shape, &t->shape)) {
      return WEFT_ERROR(
          INVALID_ARGUMENT,
          "Slice in shape_and_slice specification does not match the shape of the tensor to  save: %.*s, "
          "tensor: %s",
          WEFT_STR_ARGS(spec), WEFT_SHAPE_TEXT(&t->shape));
    }
  }
  return weft_checkpoint_v1_writer_add(w, name, &full, &slice, t);
}

static weft_status_t *save_all(weft_kernel_ctx_t *c, bool has_slices) {
  weft_checkpoint_v1_writer_t *w = NULL;
  int fixed = has_slices ? 3 : 2;
  WEFT_RETURN_IF_ERROR(check_save(c, has_slices));
  weft_status_t *s = weft_checkpoint_v1_writer_create(weft_tensor_str_at(weft_in(c, 0), 0), &w);
  for (int i = 0; s == NULL && i < c->node->num_inputs - fixed; i++) {
    weft_str_t spec = has_slices ? weft_tensor_str_at(weft_in(c, 2), i) : WEFT_STR("");
    s = save_one(w, weft_tensor_str_at(weft_in(c, 1), i), spec, weft_in(c, i + fixed));
  }
  if (s == NULL) return weft_checkpoint_v1_writer_finish(w);
  weft_checkpoint_v1_writer_abandon(w);
  return s;
}

static weft_status_t *save(weft_kernel_ctx_t *c) { return save_all(c, false); }
static weft_status_t *save_slices(weft_kernel_ctx_t *c) { return save_all(c, true); }

/* ---- Restore, RestoreSlice ---- */

typedef struct save_slices_state {
  int64_t preferred_shard;
} save_slices_state_t;

static weft_status_t *prepare_restore(const weft_kernel_setup_t *setup, void **out) {
  int64_t preferred = weft_knode_int(setup, "preferred_shard");
  if (preferred < -1) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Attribute 'preferred_shard' must be greater or equal to -1");
  }
  save_slices_state_t *state = weft_calloc(1, sizeof *state);
  if (state == NULL) return WEFT_NO_MEMORY("preparing %.*s", WEFT_STR_ARGS(setup->node.name));
  state->preferred_shard = preferred;
  *out = state;
  return NULL;
}

static weft_status_t *check_restore(const weft_kernel_ctx_t *c, bool has_slice) {
  if (weft_in(c, 0)->count != 1) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "Input 0 (file_pattern) must be a string scalar; got a tensor of %" PRId64 " elements",
                      weft_in(c, 0)->count);
  }
  /* More than one name, or one slice, is no error: the first is taken, as in TensorFlow. */
  if (weft_in(c, 1)->count == 0) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Input 1 (tensor_name) must be a have at least 1 element");
  }
  if (has_slice && weft_in(c, 2)->count == 0) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Input 2 (shape_and_slice) must be a have at least 1 element");
  }
  return NULL;
}

static weft_status_t *restore_one(weft_kernel_ctx_t *c, bool has_slice) {
  const save_slices_state_t *state = c->state;
  weft_checkpoint_v1_reader_t *r = NULL;
  WEFT_RETURN_IF_ERROR(check_restore(c, has_slice));
  weft_str_t spec = has_slice ? weft_tensor_str_at(weft_in(c, 2), 0) : WEFT_STR("");
  WEFT_RETURN_IF_ERROR(
      weft_checkpoint_v1_reader_open(weft_tensor_str_at(weft_in(c, 0), 0), state->preferred_shard, &r));
  weft_status_t *s =
      weft_checkpoint_v1_reader_restore(r, weft_tensor_str_at(weft_in(c, 1), 0), spec,
                                        weft_dtype_base(c->node->output_types[0]), &c->outputs[0].tensor);
  weft_checkpoint_v1_reader_close(r);
  return s;
}

static weft_status_t *restore(weft_kernel_ctx_t *c) { return restore_one(c, false); }
static weft_status_t *restore_slice(weft_kernel_ctx_t *c) { return restore_one(c, true); }

const weft_kernel_t weft_cpu_checkpoint_v1_kernels[] = {
    {.op = "Restore", .prepare = prepare_restore, .compute = restore, .destroy = weft_free},
    {.op = "RestoreSlice", .prepare = prepare_restore, .compute = restore_slice, .destroy = weft_free},
    {.op = "Save", .compute = save},
    {.op = "SaveSlices", .compute = save_slices},
    {0},
};
