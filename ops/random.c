/* ops/random.c - shapes of random numbers. */
#include <inttypes.h>

#include "ops/infer.h"

/* ---- with a stream ---- */

weft_status_t *weft_infer_random_int(weft_shape_ctx_t *c) {
  static const char *const names[] = {"minval", "maxval"};
  for (int i = 1; i < 3; i++) {
    if (c->inputs[i].rank > 0) {
      return WEFT_ERROR(INVALID_ARGUMENT, "%s must be a scalar; got a tensor of shape %s", names[i - 1],
                        WEFT_SHAPE_TEXT(&c->inputs[i]));
    }
  }
  return weft_infer_from_input0(c);
}

weft_status_t *weft_infer_multinomial(weft_shape_ctx_t *c) {
  weft_shape_t logits;
  WEFT_RETURN_IF_ERROR(weft_shape_with_rank(c, 0, 2, &logits));
  WEFT_RETURN_IF_ERROR(weft_infer_scalars(c, 1, 1));
  int64_t n = weft_infer_is_known(c, 1) ? weft_infer_value(c, 1, 0) : WEFT_UNKNOWN_DIM;
  if (weft_infer_is_known(c, 1) && n < 0) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "Dimension size, given by scalar input 1, must be non-negative but is %" PRId64, n);
  }
  c->outputs[0] = weft_shape_matrix(logits.dims[0], n);
  return NULL;
}

/* RandomGamma, RandomPoisson: numbers of that shape for each parameter. */
weft_status_t *weft_infer_random_per_parameter(weft_shape_ctx_t *c) {
  WEFT_RETURN_IF_ERROR(weft_infer_from_input0(c));
  return weft_infer_append(&c->outputs[0], &c->inputs[1], 0, c->inputs[1].rank);
}

/* ParameterizedTruncatedNormal: parameters for all or for each row. */
weft_status_t *weft_infer_random_truncated(weft_shape_ctx_t *c) {
  for (int i = 1; i < 5; i++) WEFT_RETURN_IF_ERROR(weft_infer_rank_at_most(c, i, 1));
  return weft_infer_from_input0(c);
}

/* The shape that input 0 says, but for the axis of the rows. */
weft_status_t *weft_infer_random_rows(weft_shape_ctx_t *c) {
  int64_t axis = weft_infer_int(c, "axis");
  WEFT_RETURN_IF_ERROR(weft_infer_from_input0(c));
  if (axis < c->outputs[0].rank) c->outputs[0].dims[axis] = WEFT_UNKNOWN_DIM;
  return NULL;
}

/* ---- without state ---- */

static weft_status_t *check_seed(weft_shape_ctx_t *c, int i) {
  weft_shape_t seed;
  WEFT_RETURN_IF_ERROR(weft_shape_with_rank(c, i, 1, &seed));
  return weft_infer_dim_is(seed.dims[0], 2);
}

/* Inputs 1 to 3: key, counter, algorithm. */
static weft_status_t *check_key(weft_shape_ctx_t *c) {
  weft_shape_t key;
  WEFT_RETURN_IF_ERROR(weft_shape_with_rank(c, 1, 1, &key));
  WEFT_RETURN_IF_ERROR(weft_shape_with_rank(c, 2, 1, NULL));
  WEFT_RETURN_IF_ERROR(weft_infer_scalars(c, 3, 3));
  return weft_infer_dim_is(key.dims[0], 1);
}

weft_status_t *weft_infer_stateless(weft_shape_ctx_t *c) {
  WEFT_RETURN_IF_ERROR(check_seed(c, 1));
  return weft_infer_from_input0(c);
}

/* Bounds follow the seed. */
weft_status_t *weft_infer_stateless_int(weft_shape_ctx_t *c) {
  WEFT_RETURN_IF_ERROR(weft_infer_scalars(c, 2, 3));
  return weft_infer_stateless(c);
}

weft_status_t *weft_infer_stateless_v2(weft_shape_ctx_t *c) {
  WEFT_RETURN_IF_ERROR(check_key(c));
  WEFT_RETURN_IF_ERROR(weft_infer_scalars(c, 4, c->num_inputs - 1)); /* bounds */
  return weft_infer_from_input0(c);
}

weft_status_t *weft_infer_key_counter(weft_shape_ctx_t *c) {
  WEFT_RETURN_IF_ERROR(check_seed(c, 0));
  c->outputs[0] = weft_shape_vector(1);
  c->outputs[1] = weft_shape_vector(2);
  if (c->num_outputs > 2) c->outputs[2] = WEFT_SCALAR;
  return NULL;
}

weft_status_t *weft_infer_stateless_multinomial(weft_shape_ctx_t *c) {
  WEFT_RETURN_IF_ERROR(check_seed(c, 2));
  return weft_infer_multinomial(c);
}

/* Parameters follow the key: they are no scalars. */
weft_status_t *weft_infer_stateless_gamma(weft_shape_ctx_t *c) {
  WEFT_RETURN_IF_ERROR(check_key(c));
  return weft_infer_from_input0(c);
}

weft_status_t *weft_infer_keyed_unchanged(weft_shape_ctx_t *c) {
  WEFT_RETURN_IF_ERROR(check_key(c));
  return weft_infer_unchanged(c);
}

/* A scalar if all inputs are for one index; else a vector, as long as the inputs that are. */
weft_status_t *weft_infer_random_index_shuffle(weft_shape_ctx_t *c) {
  const weft_shape_t *index = &c->inputs[0], *seed = &c->inputs[1], *max = &c->inputs[2];
  WEFT_RETURN_IF_ERROR(weft_infer_rank_at_most(c, 0, 1));
  WEFT_RETURN_IF_ERROR(weft_shape_with_rank_at_least(c, 1, 1, NULL));
  WEFT_RETURN_IF_ERROR(weft_infer_rank_at_most(c, 1, 2));
  WEFT_RETURN_IF_ERROR(weft_infer_rank_at_most(c, 2, 1));
  if (seed->rank > 0 && seed->dims[seed->rank - 1] != 3) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Seed must have shape [3] or [n, 3] but got %s.",
                      WEFT_SHAPE_TEXT(seed));
  }
  if (index->rank == 0 && seed->rank == 1 && max->rank == 0) return weft_infer_scalar(c);
  if (index->rank != 1 && seed->rank != 2 && max->rank != 1) return NULL;
  int64_t n = WEFT_UNKNOWN_DIM;
  const weft_shape_t *many[] = {index->rank == 1 ? index : NULL, seed->rank == 2 ? seed : NULL,
                                max->rank == 1 ? max : NULL};
  for (int i = 0; i < 3; i++) {
    if (many[i] == NULL) continue;
    int64_t mine = many[i]->dims[0];
    if (n == WEFT_UNKNOWN_DIM) {
      n = mine;
    } else if (n > 1 && mine > 1 && mine != n) {
      return WEFT_ERROR(INVALID_ARGUMENT, "%s has %" PRId64 " rows but must have %" PRId64,
                        i == 1 ? "Seed" : "Max index", mine, n);
    }
  }
  c->outputs[0] = weft_shape_vector(n);
  return NULL;
}

/* ---- with the state in a variable ---- */

/* Inputs: variable, algorithm, shape, perhaps bounds. */
weft_status_t *weft_infer_stateful(weft_shape_ctx_t *c) {
  WEFT_RETURN_IF_ERROR(weft_infer_scalars(c, 1, 1));
  WEFT_RETURN_IF_ERROR(weft_infer_scalars(c, 3, c->num_inputs - 1));
  return weft_shape_from_input(c, 2, &c->outputs[0]);
}

weft_status_t *weft_infer_stateful_v1(weft_shape_ctx_t *c) {
  return weft_shape_from_input(c, 1, &c->outputs[0]);
}

weft_status_t *weft_infer_stateful_binomial(weft_shape_ctx_t *c) {
  WEFT_RETURN_IF_ERROR(weft_infer_rank_at_most(c, 3, 1));
  WEFT_RETURN_IF_ERROR(weft_infer_rank_at_most(c, 4, 1));
  return weft_shape_from_input(c, 2, &c->outputs[0]);
}

/* RngSkip, RngReadAndSkip: inputs variable, algorithm, how far; the old state. */
weft_status_t *weft_infer_rng_skip(weft_shape_ctx_t *c) {
  WEFT_RETURN_IF_ERROR(weft_infer_scalars(c, 1, 2));
  if (c->num_outputs > 0) c->outputs[0] = weft_shape_vector(3);
  return NULL;
}
