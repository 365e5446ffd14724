/* ops/rnn.c - shapes of cells and layers of recurrent networks. */
#include <inttypes.h>

#include "ops/infer.h"

/* Outputs `first` to `last` are matrices of [batch of x, cells of the state in input 1]. */
static weft_status_t *states(weft_shape_ctx_t *c, int first, int last) {
  weft_shape_t x, state;
  WEFT_RETURN_IF_ERROR(weft_shape_with_rank(c, 0, 2, &x));
  WEFT_RETURN_IF_ERROR(weft_shape_with_rank(c, 1, 2, &state));
  for (int i = first; i <= last; i++) c->outputs[i] = weft_shape_matrix(x.dims[0], state.dims[1]);
  return NULL;
}

weft_status_t *weft_infer_rnn_cell(weft_shape_ctx_t *c) { return states(c, 0, c->num_outputs - 1); }

weft_status_t *weft_infer_gru_cell_grad(weft_shape_ctx_t *c) {
  weft_shape_t x, w;
  WEFT_RETURN_IF_ERROR(states(c, 1, 2));
  WEFT_RETURN_IF_ERROR(weft_shape_with_rank(c, 0, 2, &x));
  WEFT_RETURN_IF_ERROR(weft_shape_with_rank(c, 2, 2, &w));
  c->outputs[0] = x;
  c->outputs[3] = weft_shape_matrix(x.dims[0], w.dims[1]);
  return NULL;
}

weft_status_t *weft_infer_lstm_cell_grad(weft_shape_ctx_t *c) {
  int64_t gates = 0;
  WEFT_RETURN_IF_ERROR(states(c, 0, 0));
  WEFT_RETURN_IF_ERROR(weft_infer_multiply(c->outputs[0].dims[1], 4, &gates));
  c->outputs[1] = weft_shape_matrix(c->outputs[0].dims[0], gates);
  for (int i = 2; i < 5; i++) c->outputs[i] = weft_shape_vector(c->outputs[0].dims[1]);
  return NULL;
}

/* The number of cells is a quarter of the bias, which is the last input. */
weft_status_t *weft_infer_lstm_layer(weft_shape_ctx_t *c) {
  weft_shape_t x, b;
  WEFT_RETURN_IF_ERROR(weft_shape_with_rank(c, 1, 3, &x));
  WEFT_RETURN_IF_ERROR(weft_shape_with_rank(c, c->num_inputs - 1, 1, &b));
  int64_t cells = b.dims[0] < 0 ? WEFT_UNKNOWN_DIM : b.dims[0] / 4;
  if (b.dims[0] > 0 && b.dims[0] % 4 != 0) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Dimension size must be evenly divisible by 4 but is %" PRId64,
                      b.dims[0]);
  }
  weft_shape_t out = {.rank = 3, .dims = {x.dims[0], x.dims[1], cells}};
  for (int i = 0; i < c->num_outputs; i++) c->outputs[i] = out;
  return NULL;
}

weft_status_t *weft_infer_lstm_layer_grad(weft_shape_ctx_t *c) {
  static const int ranks[] = {3, 2, 2, 2, 1, 1, 1, 1};
  for (int i = 0; i < 8; i++) WEFT_RETURN_IF_ERROR(weft_shape_with_rank(c, i + 1, ranks[i], &c->outputs[i]));
  return NULL;
}
