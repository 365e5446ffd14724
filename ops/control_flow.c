/* ops/control_flow.c - shapes through switches, merges, frames and functions; constants and checks. */
#include <inttypes.h>

#include "ops/infer.h"

weft_status_t *weft_infer_switch(weft_shape_ctx_t *c) {
  WEFT_RETURN_IF_ERROR(weft_infer_scalars(c, 1, 1));
  for (int i = 0; i < c->num_outputs; i++) {
    c->outputs[i] = c->inputs[0];
    weft_infer_pass_handle(c, 0, i);
  }
  return NULL;
}

/* What holds for every input: a loop's first merge sees its back edge as unknown. */
weft_status_t *weft_infer_merge(weft_shape_ctx_t *c) {
  weft_shape_t common = c->inputs[0];
  for (int i = 1; i < c->num_inputs && common.rank >= 0; i++) {
    const weft_shape_t *in = &c->inputs[i];
    if (in->rank != common.rank) {
      common = WEFT_UNKNOWN_SHAPE;
      break;
    }
    for (int k = 0; k < common.rank; k++) {
      if (in->dims[k] != common.dims[k]) common.dims[k] = WEFT_UNKNOWN_DIM;
    }
  }
  c->outputs[0] = common;
  c->outputs[1] = WEFT_SCALAR;
  if (c->num_inputs > 0) weft_infer_pass_handle(c, 0, 0);
  return NULL;
}

/* A loop variable may change its shape from one iteration to the next; a constant of the loop may not. */
weft_status_t *weft_infer_enter(weft_shape_ctx_t *c) {
  if (weft_infer_bool(c, "is_constant") || c->input_types[0] == WEFT_RESOURCE) c->outputs[0] = c->inputs[0];
  weft_infer_pass_handle(c, 0, 0);
  return NULL;
}

weft_status_t *weft_infer_scalar_unchanged(weft_shape_ctx_t *c) {
  return weft_shape_with_rank(c, 0, 0, &c->outputs[0]);
}

weft_status_t *weft_infer_ref_select(weft_shape_ctx_t *c) {
  WEFT_RETURN_IF_ERROR(weft_infer_scalars(c, 0, 0));
  if (c->num_inputs < 2 || !weft_shape_is_known(&c->inputs[1])) return NULL;
  for (int i = 2; i < c->num_inputs; i++) {
    if (!weft_shape_eq(&c->inputs[i], &c->inputs[1])) return NULL;
  }
  c->outputs[0] = c->inputs[1];
  return NULL;
}

/* ---- functions ---- */

weft_status_t *weft_infer_output_shapes(weft_shape_ctx_t *c) {
  const weft_attr_t *shapes = weft_shape_attr(c, "output_shapes");
  if (!shapes->is_list || shapes->n == 0 || shapes->kind != WEFT_ATTR_SHAPE) return NULL;
  if (shapes->n != c->num_outputs) {
    return WEFT_ERROR(INVALID_ARGUMENT, "`output_shapes` must be the same length as num outputs (%d vs. %d",
                      shapes->n, c->num_outputs);
  }
  for (int i = 0; i < c->num_outputs; i++) c->outputs[i] = shapes->list.shapes[i];
  return NULL;
}

/* A row for each row of the arguments. */
weft_status_t *weft_infer_map_defun(weft_shape_ctx_t *c) {
  const weft_attr_t *shapes = weft_shape_attr(c, "output_shapes");
  const int num_args = weft_infer_list_length(c, "Targuments");
  int64_t rows = WEFT_UNKNOWN_DIM;
  if (shapes->n != c->num_outputs) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "`output_shapes` must be the same length as `output_types` (%d vs. %d)", shapes->n,
                      c->num_outputs);
  }
  for (int i = 0; i < num_args; i++) {
    if (c->inputs[i].rank == 0) {
      return WEFT_ERROR(INVALID_ARGUMENT, "Arguments must have at least rank 1. Input #%d has rank 0.", i);
    }
    const int64_t dim = weft_infer_dim(&c->inputs[i], 0);
    if (dim == WEFT_UNKNOWN_DIM) continue;
    if (rows == WEFT_UNKNOWN_DIM) rows = dim;
    if (dim != rows) return WEFT_ERROR(INVALID_ARGUMENT, "Arguments must have the same dimension 0.");
  }
  for (int i = 0; i < c->num_outputs; i++) {
    weft_shape_t out = WEFT_SCALAR;
    WEFT_RETURN_IF_ERROR(weft_infer_push(&out, rows));
    WEFT_RETURN_IF_ERROR(weft_infer_append(&out, &shapes->list.shapes[i], 0, shapes->list.shapes[i].rank));
    c->outputs[i] = out;
  }
  return NULL;
}

/* A loop without declared shapes keeps what goes in only where nothing can change it: handles. */
weft_status_t *weft_infer_while(weft_shape_ctx_t *c) {
  for (int i = 0; i < c->num_outputs && i < c->num_inputs; i++) {
    if (c->input_types[i] != WEFT_RESOURCE) continue;
    c->outputs[i] = c->inputs[i];
    weft_infer_pass_handle(c, i, i);
  }
  return weft_infer_output_shapes(c);
}

weft_status_t *weft_infer_shape_attr(weft_shape_ctx_t *c) {
  c->outputs[0] = weft_infer_shape(c, "shape");
  return NULL;
}

weft_status_t *weft_infer_all_unchanged(weft_shape_ctx_t *c) {
  for (int i = 0; i < c->num_outputs; i++) {
    c->outputs[i] = c->inputs[i];
    weft_infer_pass_handle(c, i, i);
  }
  return NULL;
}

/* ---- constants, placeholders, checks ---- */

weft_status_t *weft_infer_const(weft_shape_ctx_t *c) {
  const weft_attr_t *value = weft_shape_attr(c, "value");
  if (value->kind == WEFT_ATTR_RAW) return NULL; /* refused by a step that needs it */
  if (value->kind != WEFT_ATTR_TENSOR || value->tensor == NULL) {
    return WEFT_ERROR(INVALID_ARGUMENT, "a constant has no value");
  }
  c->outputs[0] = value->tensor->shape;
  return NULL;
}

weft_status_t *weft_infer_placeholder_with_default(weft_shape_ctx_t *c) {
  weft_shape_t declared = weft_infer_shape(c, "shape"), merged;
  WEFT_RETURN_IF_ERROR(weft_shape_merge(&c->inputs[0], &declared, &merged));
  c->outputs[0] = declared; /* a feed may differ from the default */
  return NULL;
}

/* A gradient has the shape of the argument. */
weft_status_t *weft_infer_symbolic_gradient(weft_shape_ctx_t *c) {
  if (c->num_inputs < c->num_outputs)
    return WEFT_ERROR(INVALID_ARGUMENT, "len(inputs) < len(outputs): %d < %d", c->num_inputs, c->num_outputs);
  for (int i = 0; i < c->num_outputs; i++) c->outputs[i] = c->inputs[i];
  return NULL;
}
