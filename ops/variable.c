/* ops/variable.c - shapes of variables of both kinds, and of what reads and writes them. */
#include <inttypes.h>

#include "ops/infer.h"

/* Before there was a way to say "unknown", a scalar meant that. */
weft_status_t *weft_infer_variable_v1(weft_shape_ctx_t *c) {
  weft_shape_t shape = weft_infer_shape(c, "shape");
  c->outputs[0] = shape.rank <= 0 ? WEFT_UNKNOWN_SHAPE : shape;
  return NULL;
}

weft_status_t *weft_infer_handle(weft_shape_ctx_t *c) {
  c->outputs[0] = WEFT_SCALAR;
  const weft_shape_t shape = weft_infer_shape(c, "shape");
  weft_infer_set_handle(c, 0, &shape, weft_infer_type(c, "dtype"));
  return NULL;
}

/* The value's dtype is that of the variable behind input 0. */
static weft_status_t *check_dtype(const weft_shape_ctx_t *c, int dtype) {
  int actual = c->handles == NULL ? 0 : c->handles[0].dtype;
  if (actual == 0 || actual == dtype) return NULL;
  return WEFT_ERROR(INVALID_ARGUMENT, "Trying to read variable with wrong dtype. Expected %s got %s",
                    weft_dtype_name(actual), weft_dtype_name(dtype));
}

weft_status_t *weft_infer_read_variable(weft_shape_ctx_t *c) {
  WEFT_RETURN_IF_ERROR(check_dtype(c, weft_infer_type(c, "dtype")));
  c->outputs[0] = weft_infer_variable(c, 0);
  return NULL;
}

weft_status_t *weft_infer_assign_variable(weft_shape_ctx_t *c) {
  WEFT_RETURN_IF_ERROR(check_dtype(c, weft_infer_type(c, "dtype")));
  weft_shape_t variable = weft_infer_variable(c, 0), merged;
  return weft_shape_merge(&variable, &c->inputs[1], &merged);
}

weft_status_t *weft_infer_variable_shape(weft_shape_ctx_t *c) {
  c->outputs[0] = weft_shape_vector(weft_infer_variable(c, 0).rank);
  return NULL;
}

weft_status_t *weft_infer_assign(weft_shape_ctx_t *c) {
  c->outputs[0] = c->inputs[1];
  if (!weft_infer_bool(c, "validate_shape")) return NULL;
  return weft_shape_merge(&c->inputs[0], &c->inputs[1], &c->outputs[0]);
}

/* ---- scatter and gather ---- */

weft_status_t *weft_infer_scatter(weft_shape_ctx_t *c) {
  weft_shape_t variable = weft_infer_variable(c, 0), wanted = c->inputs[1], merged;
  WEFT_RETURN_IF_ERROR(weft_infer_rank_at_least(&variable, 1, NULL));
  if (c->num_outputs > 0) c->outputs[0] = variable;
  if (c->op->num_inputs > 0 && c->op->inputs[0].kind == WEFT_ARG_FIXED) {
    WEFT_RETURN_IF_ERROR(check_dtype(c, weft_infer_type(c, "dtype")));
  }
  if (c->inputs[2].rank == 0) return NULL; /* one value for all rows */
  WEFT_RETURN_IF_ERROR(weft_infer_append(&wanted, &variable, 1, variable.rank));
  return weft_shape_merge(&c->inputs[2], &wanted, &merged);
}

weft_status_t *weft_infer_scatter_nd_update(weft_shape_ctx_t *c) {
  weft_shape_t variable = weft_infer_variable(c, 0);
  WEFT_RETURN_IF_ERROR(weft_infer_rank_at_least(&c->inputs[1], 1, NULL));
  WEFT_RETURN_IF_ERROR(weft_infer_rank_at_least(&c->inputs[2], 1, NULL));
  if (c->num_outputs > 0) c->outputs[0] = variable;
  return weft_infer_scatter_nd_check(&c->inputs[1], &c->inputs[2], &variable);
}

weft_status_t *weft_infer_resource_gather(weft_shape_ctx_t *c) {
  const weft_shape_t *indices = &c->inputs[1];
  weft_shape_t variable = weft_infer_variable(c, 0);
  WEFT_RETURN_IF_ERROR(check_dtype(c, weft_infer_type(c, "dtype")));
  WEFT_RETURN_IF_ERROR(weft_infer_rank_at_least(&variable, 1, NULL));
  int64_t batch = weft_infer_int(c, "batch_dims");
  if (variable.rank < 0 || indices->rank < 0) return NULL;
  if (batch < 0) batch += indices->rank;
  if (batch < 0 || batch > indices->rank || batch >= variable.rank) {
    return WEFT_ERROR(INVALID_ARGUMENT, "batch_dims (%" PRId64 ") must be less than rank(params) (%d)", batch,
                      variable.rank);
  }
  weft_shape_t out = WEFT_SCALAR;
  WEFT_RETURN_IF_ERROR(weft_infer_append(&out, indices, 0, indices->rank));
  WEFT_RETURN_IF_ERROR(weft_infer_append(&out, &variable, (int)batch + 1, variable.rank));
  c->outputs[0] = out;
  return NULL;
}

weft_status_t *weft_infer_resource_gather_nd(weft_shape_ctx_t *c) {
  weft_shape_t variable = weft_infer_variable(c, 0);
  WEFT_RETURN_IF_ERROR(check_dtype(c, weft_infer_type(c, "dtype")));
  return weft_infer_gather_nd_shape(c, &variable, &c->inputs[1]);
}

weft_status_t *weft_infer_resource_count_up_to(weft_shape_ctx_t *c) {
  WEFT_RETURN_IF_ERROR(check_dtype(c, weft_infer_type(c, "T")));
  c->outputs[0] = weft_infer_variable(c, 0);
  return weft_infer_rank(&c->outputs[0], 0, &c->outputs[0]);
}

/* ---- optimizers ---- */

static bool is_variable(const weft_shape_ctx_t *c, int i) {
  return c->op->inputs[i].is_ref || c->input_types[i] == WEFT_RESOURCE;
}

/* Row k of the gradient belongs to row indices[k] of the variable. */
static weft_status_t *merge_rows(const weft_shape_t *grad, const weft_shape_t *indices,
                                 weft_shape_t *variable) {
  weft_shape_t rows = *grad, ids;
  int64_t n = 0;
  WEFT_RETURN_IF_ERROR(weft_infer_rank(indices, 1, &ids));
  WEFT_RETURN_IF_ERROR(weft_infer_rank_at_least(grad, 1, NULL));
  WEFT_RETURN_IF_ERROR(weft_shape_merge_dim(ids.dims[0], weft_infer_dim(grad, 0), &n));
  if (rows.rank > 0) rows.dims[0] = WEFT_UNKNOWN_DIM;
  return weft_shape_merge(variable, &rows, variable);
}

/* For every optimizer: variables and slots have one shape, the gradient (or its rows) fits it, all else is
 * scalar. Which input is which, the signature tells. */
weft_status_t *weft_infer_apply(weft_shape_ctx_t *c) {
  int grad = c->op->update_grad_input;
  weft_shape_t variable = weft_infer_variable(c, 0);
  for (int i = 1; i < c->num_inputs; i++) {
    if (is_variable(c, i)) {
      weft_shape_t slot = weft_infer_variable(c, i);
      WEFT_RETURN_IF_ERROR(weft_shape_merge(&variable, &slot, &variable));
    } else if (i == grad) {
      bool is_sparse = i + 1 < c->num_inputs && weft_str_is(c->op->inputs[i + 1].name, "indices");
      /* TensorFlow leaves the gradient of a variable behind a handle to the kernel, but for plain descent. */
      bool is_checked = c->input_types[0] != WEFT_RESOURCE || c->num_inputs == 3;
      weft_shape_t gradient = is_checked ? c->inputs[i] : WEFT_UNKNOWN_SHAPE;
      WEFT_RETURN_IF_ERROR(is_sparse ? merge_rows(&gradient, &c->inputs[i + 1], &variable)
                                     : weft_shape_merge(&variable, &gradient, &variable));
      if (is_sparse) i++;
    } else {
      WEFT_RETURN_IF_ERROR(weft_infer_scalars(c, i, i));
    }
  }
  if (c->num_outputs > 0) c->outputs[0] = variable;
  return NULL;
}
