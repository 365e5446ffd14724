/* ops/state.c - shapes of queues, stacks, tensor arrays, tensor lists, files and summaries.
 *
 * A tensor list or array carries the shape and dtype of its elements as its handle data.
 */
#include <inttypes.h>

#include "ops/infer.h"

/* ---- queues and other old handles ---- */

/* A handle of the old kind is two strings: container and name. */
weft_status_t *weft_infer_old_handle(weft_shape_ctx_t *c) {
  c->outputs[0] = weft_shape_vector(2);
  return NULL;
}

static weft_status_t *check_handle(weft_shape_ctx_t *c) {
  if (c->input_types[0] == WEFT_RESOURCE) return NULL;
  weft_shape_t handle;
  WEFT_RETURN_IF_ERROR(weft_shape_with_rank(c, 0, 1, &handle));
  return weft_infer_dim_is(handle.dims[0], 2);
}

weft_status_t *weft_infer_use_handle(weft_shape_ctx_t *c) { return check_handle(c); }

weft_status_t *weft_infer_scalar_of_handle(weft_shape_ctx_t *c) {
  WEFT_RETURN_IF_ERROR(check_handle(c));
  return weft_infer_scalar(c);
}

weft_status_t *weft_infer_take_gradient(weft_shape_ctx_t *c) {
  WEFT_RETURN_IF_ERROR(check_handle(c));
  return weft_infer_scalars(c, 1, 1);
}

weft_status_t *weft_infer_sparse_take_gradient(weft_shape_ctx_t *c) {
  WEFT_RETURN_IF_ERROR(check_handle(c));
  c->outputs[0] = c->outputs[2] = weft_shape_vector(WEFT_UNKNOWN_DIM);
  return weft_infer_scalars(c, 1, 1);
}

weft_status_t *weft_infer_barrier_insert(weft_shape_ctx_t *c) {
  weft_shape_t keys;
  int64_t n = 0;
  WEFT_RETURN_IF_ERROR(check_handle(c));
  WEFT_RETURN_IF_ERROR(weft_shape_with_rank(c, 1, 1, &keys));
  WEFT_RETURN_IF_ERROR(weft_shape_with_rank_at_least(c, 2, 1, NULL));
  return weft_shape_merge_dim(keys.dims[0], weft_infer_dim(&c->inputs[2], 0), &n);
}

weft_status_t *weft_infer_barrier_take(weft_shape_ctx_t *c) {
  WEFT_RETURN_IF_ERROR(check_handle(c));
  WEFT_RETURN_IF_ERROR(weft_infer_scalars(c, 1, 1));
  c->outputs[0] = c->outputs[1] = weft_shape_vector(WEFT_UNKNOWN_DIM);
  return NULL;
}

/* ---- stacks ---- */

weft_status_t *weft_infer_stack_push(weft_shape_ctx_t *c) {
  c->outputs[0] = c->inputs[1];
  weft_infer_pass_handle(c, 1, 0);
  return NULL;
}

/* ---- tensor arrays ---- */

static weft_shape_t elements_of(const weft_shape_ctx_t *c, int input) {
  bool is_known = c->handles != NULL && c->handles[input].dtype != 0;
  return is_known ? c->handles[input].shape : WEFT_UNKNOWN_SHAPE;
}

weft_status_t *weft_infer_tensor_array(weft_shape_ctx_t *c) {
  WEFT_RETURN_IF_ERROR(weft_infer_scalars(c, 0, 0));
  weft_shape_t element = weft_infer_shape(c, "element_shape");
  c->outputs[0] = weft_shape_vector(2);
  c->outputs[1] = WEFT_SCALAR;
  if (weft_infer_bool(c, "identical_element_shapes") || weft_shape_is_known(&element)) {
    weft_infer_set_handle(c, 0, &element, weft_infer_type(c, "dtype"));
  }
  return NULL;
}

weft_status_t *weft_infer_tensor_array_v2(weft_shape_ctx_t *c) {
  WEFT_RETURN_IF_ERROR(weft_infer_scalars(c, 0, 0));
  return weft_infer_old_handle(c);
}

weft_status_t *weft_infer_tensor_array_grad(weft_shape_ctx_t *c) {
  WEFT_RETURN_IF_ERROR(check_handle(c));
  c->outputs[0] = weft_shape_vector(2);
  c->outputs[1] = WEFT_SCALAR;
  weft_infer_pass_handle(c, 0, 0);
  return NULL;
}

weft_status_t *weft_infer_tensor_array_write(weft_shape_ctx_t *c) {
  WEFT_RETURN_IF_ERROR(weft_infer_scalars(c, 1, 1));
  WEFT_RETURN_IF_ERROR(weft_infer_scalars(c, 3, 3));
  weft_shape_t merged, element = elements_of(c, 0);
  WEFT_RETURN_IF_ERROR(weft_shape_merge(&element, &c->inputs[2], &merged));
  c->outputs[0] = WEFT_SCALAR;
  return NULL;
}

weft_status_t *weft_infer_tensor_array_read(weft_shape_ctx_t *c) {
  WEFT_RETURN_IF_ERROR(weft_infer_scalars(c, 1, 2));
  c->outputs[0] = elements_of(c, 0);
  return NULL;
}

weft_status_t *weft_infer_tensor_array_gather(weft_shape_ctx_t *c) {
  weft_shape_t indices, element = elements_of(c, 0), declared = weft_infer_shape(c, "element_shape");
  WEFT_RETURN_IF_ERROR(weft_shape_with_rank(c, 1, 1, &indices));
  WEFT_RETURN_IF_ERROR(weft_infer_scalars(c, 2, 2));
  WEFT_RETURN_IF_ERROR(weft_shape_merge(&element, &declared, &element));
  WEFT_RETURN_IF_ERROR(weft_infer_append(&indices, &element, 0, element.rank));
  c->outputs[0] = indices;
  return NULL;
}

weft_status_t *weft_infer_tensor_array_scatter(weft_shape_ctx_t *c) {
  WEFT_RETURN_IF_ERROR(weft_shape_with_rank(c, 1, 1, NULL));
  WEFT_RETURN_IF_ERROR(weft_infer_scalars(c, 3, 3));
  c->outputs[0] = WEFT_SCALAR;
  return NULL;
}

weft_status_t *weft_infer_tensor_array_concat(weft_shape_ctx_t *c) {
  WEFT_RETURN_IF_ERROR(weft_infer_scalars(c, 1, 1));
  c->outputs[1] = weft_shape_vector(WEFT_UNKNOWN_DIM);
  return NULL;
}

weft_status_t *weft_infer_tensor_array_split(weft_shape_ctx_t *c) {
  WEFT_RETURN_IF_ERROR(weft_shape_with_rank(c, 2, 1, NULL));
  WEFT_RETURN_IF_ERROR(weft_infer_scalars(c, 3, 3));
  c->outputs[0] = WEFT_SCALAR;
  return NULL;
}

/* ---- tensor lists ---- */

/* The element shape that input i holds, as far as it tells (a scalar -1 is "unknown"). */
static weft_shape_t element_input(weft_shape_ctx_t *c, int i) {
  weft_shape_t s = WEFT_UNKNOWN_SHAPE;
  weft_status_t *failed = weft_shape_from_input(c, i, &s);
  weft_status_free(failed); /* the kernel says what is wrong with it */
  return failed == NULL ? s : WEFT_UNKNOWN_SHAPE;
}

weft_status_t *weft_infer_list_new(weft_shape_ctx_t *c) {
  const weft_shape_t element = element_input(c, 0);
  c->outputs[0] = WEFT_SCALAR;
  weft_infer_set_handle(c, 0, &element, weft_infer_type(c, "element_dtype"));
  return NULL;
}

weft_status_t *weft_infer_list_scatter(weft_shape_ctx_t *c) {
  const weft_shape_t element = element_input(c, 2);
  c->outputs[0] = WEFT_SCALAR;
  weft_infer_set_handle(c, 0, &element, weft_infer_type(c, "element_dtype"));
  return NULL;
}

weft_status_t *weft_infer_list_from_tensor(weft_shape_ctx_t *c) {
  weft_shape_t rows = WEFT_SCALAR, declared = element_input(c, 1);
  const weft_shape_t *tensor = &c->inputs[0];
  WEFT_RETURN_IF_ERROR(weft_infer_rank_at_least(tensor, 1, NULL));
  WEFT_RETURN_IF_ERROR(weft_infer_append(&rows, tensor, 1, tensor->rank));
  WEFT_RETURN_IF_ERROR(weft_shape_merge(&rows, &declared, &rows));
  c->outputs[0] = WEFT_SCALAR;
  weft_infer_set_handle(c, 0, &rows, weft_infer_type(c, "element_dtype"));
  return NULL;
}

weft_status_t *weft_infer_list_same(weft_shape_ctx_t *c) {
  c->outputs[0] = WEFT_SCALAR;
  weft_infer_pass_handle(c, 0, 0);
  return NULL;
}

weft_status_t *weft_infer_list_pop(weft_shape_ctx_t *c) {
  weft_shape_t declared = element_input(c, 1), element = elements_of(c, 0);
  WEFT_RETURN_IF_ERROR(weft_infer_list_same(c));
  return weft_shape_merge(&element, &declared, &c->outputs[1]);
}

weft_status_t *weft_infer_list_get(weft_shape_ctx_t *c) {
  weft_shape_t declared = element_input(c, 2), element = elements_of(c, 0);
  return weft_shape_merge(&element, &declared, &c->outputs[0]);
}

weft_status_t *weft_infer_list_stack(weft_shape_ctx_t *c) {
  weft_shape_t declared = element_input(c, 1), element = elements_of(c, 0);
  int64_t n = weft_infer_int(c, "num_elements");
  weft_shape_t out = weft_shape_vector(n < 0 ? WEFT_UNKNOWN_DIM : n);
  WEFT_RETURN_IF_ERROR(weft_shape_merge(&element, &declared, &element));
  WEFT_RETURN_IF_ERROR(weft_infer_append(&out, &element, 0, element.rank));
  c->outputs[0] = out;
  return NULL;
}

weft_status_t *weft_infer_list_gather(weft_shape_ctx_t *c) {
  weft_shape_t declared = element_input(c, 2), element = elements_of(c, 0), indices;
  WEFT_RETURN_IF_ERROR(weft_shape_with_rank(c, 1, 1, &indices));
  WEFT_RETURN_IF_ERROR(weft_shape_merge(&element, &declared, &element));
  WEFT_RETURN_IF_ERROR(weft_infer_append(&indices, &element, 0, element.rank));
  c->outputs[0] = indices;
  return NULL;
}

weft_status_t *weft_infer_list_concat(weft_shape_ctx_t *c) {
  c->outputs[1] = weft_shape_vector(WEFT_UNKNOWN_DIM);
  return NULL;
}

/* ---- files, strings, summaries ---- */

weft_status_t *weft_infer_scalars_to_scalar(weft_shape_ctx_t *c) {
  WEFT_RETURN_IF_ERROR(weft_infer_scalars(c, 0, c->num_inputs - 1));
  return weft_infer_scalar(c);
}

weft_status_t *weft_infer_string_join(weft_shape_ctx_t *c) {
  weft_shape_t out = WEFT_SCALAR;
  bool is_unknown = false;
  for (int i = 0; i < c->num_inputs; i++) {
    if (c->inputs[i].rank < 0) is_unknown = true;
    if (c->inputs[i].rank <= 0) continue;
    if (out.rank == 0) out = c->inputs[i];
    WEFT_RETURN_IF_ERROR(weft_shape_merge(&out, &c->inputs[i], &out));
  }
  c->outputs[0] = is_unknown && out.rank == 0 ? WEFT_UNKNOWN_SHAPE : out;
  return NULL;
}

weft_status_t *weft_infer_matching_files(weft_shape_ctx_t *c) {
  WEFT_RETURN_IF_ERROR(weft_infer_rank_at_most(c, 0, 1));
  return weft_infer_vector(c);
}

weft_status_t *weft_infer_regex(weft_shape_ctx_t *c) {
  WEFT_RETURN_IF_ERROR(weft_infer_scalars(c, 1, c->num_inputs - 1));
  return weft_infer_unchanged(c);
}

weft_status_t *weft_infer_save(weft_shape_ctx_t *c) {
  weft_shape_t names, slices;
  int64_t n = 0;
  WEFT_RETURN_IF_ERROR(weft_infer_scalars(c, 0, 0));
  WEFT_RETURN_IF_ERROR(weft_shape_with_rank(c, 1, 1, &names));
  WEFT_RETURN_IF_ERROR(weft_shape_with_rank(c, 2, 1, &slices));
  WEFT_RETURN_IF_ERROR(weft_infer_dim_is(names.dims[0], c->num_inputs - 3));
  return weft_shape_merge_dim(names.dims[0], slices.dims[0], &n);
}

/* "4,3 0,2:-" and the like declare a slice's shape in constants; without one nothing is known of a
 * checkpoint. */
weft_status_t *weft_infer_restore(weft_shape_ctx_t *c) {
  weft_shape_t names, slices;
  WEFT_RETURN_IF_ERROR(weft_infer_scalars(c, 0, 0));
  WEFT_RETURN_IF_ERROR(weft_shape_with_rank(c, 1, 1, &names));
  WEFT_RETURN_IF_ERROR(weft_shape_with_rank(c, 2, 1, &slices));
  return weft_shape_merge(&names, &slices, &names);
}

weft_status_t *weft_infer_merge_checkpoints(weft_shape_ctx_t *c) {
  WEFT_RETURN_IF_ERROR(weft_shape_with_rank(c, 0, 1, NULL));
  return weft_infer_scalars(c, 1, 1);
}
