/* kernels/cpu/linalg/linalg.c - see the header. */
#include "kernels/cpu/linalg/linalg.h"

int weft_linalg_index(weft_dtype_t dtype) {
  switch (dtype) {
    case WEFT_F16:
    case WEFT_F32: return 0;
    case WEFT_F64: return 1;
    case WEFT_C64: return 2;
    case WEFT_C128: return 3;
    default: return -1;
  }
}

weft_status_t *weft_linalg_prepare(const weft_kernel_setup_t *setup, void **out_state) {
  weft_linalg_flags_t *f = weft_calloc(1, sizeof *f);
  if (f == NULL) return WEFT_NO_MEMORY("a kernel");
  f->vectors =
      weft_knode_bool_or(setup, "compute_v", false) || weft_knode_bool_or(setup, "compute_uv", false);
  f->full_matrices = weft_knode_bool_or(setup, "full_matrices", false);
  f->adjoint = weft_knode_bool_or(setup, "adjoint", false);
  f->lower = weft_knode_bool_or(setup, "lower", false);
  f->fast = weft_knode_bool_or(setup, "fast", false);
  f->partial_pivoting = weft_knode_bool_or(setup, "partial_pivoting", false);
  f->perturb_singular = weft_knode_bool_or(setup, "perturb_singular", false);
  *out_state = f;
  return NULL;
}

weft_status_t *weft_linalg_check_square(const weft_linalg_call_t *c) {
  if (c->in[0].rows == c->in[0].cols) return NULL;
  return WEFT_ERROR(INVALID_ARGUMENT, "Input matrix must be square.");
}

weft_status_t *weft_linalg_square(weft_linalg_call_t *c) {
  c->out[0] = c->in[0];
  return weft_linalg_check_square(c);
}

/* ---- the batch ---- */

static weft_status_t *check_inputs(weft_linalg_call_t *c, int num_in) {
  const weft_shape_t *first = &weft_in(c->ctx, 0)->shape;
  if (first->rank < 2)
    return WEFT_ERROR(INVALID_ARGUMENT, "Input tensor 0 must have rank >= 2, got %d", first->rank);
  for (int i = 0; i < num_in; i++) {
    const weft_shape_t *s = &weft_in(c->ctx, i)->shape;
    if (s->rank != first->rank)
      return WEFT_ERROR(INVALID_ARGUMENT, "All input tensors must have the same rank.");
    for (int d = 0; d < s->rank - 2; d++) {
      if (s->dims[d] != first->dims[d])
        return WEFT_ERROR(INVALID_ARGUMENT, "All input tensors must have the same outer dimensions.");
    }
    c->in[i] = (weft_linalg_shape_t){2, s->dims[s->rank - 2], s->dims[s->rank - 1]};
  }
  return NULL;
}

typedef struct batch {
  const weft_linalg_call_t *call;
  weft_linalg_fn *fn;
  bool is_half;
  int num_in, num_out;
  const char *in[WEFT_LINALG_MAX_IN];
  char *out[WEFT_LINALG_MAX_OUT];
  int64_t in_count[WEFT_LINALG_MAX_IN], out_count[WEFT_LINALG_MAX_OUT]; /* elements of one matrix */
  size_t in_size, out_size[WEFT_LINALG_MAX_OUT];                        /* of an element */
  weft_status_t *_Atomic status;                                        /* the first failure */
} batch_t;

static weft_status_t *run_one(const batch_t *b, int64_t i) {
  const void *in[WEFT_LINALG_MAX_IN] = {NULL};
  void *out[WEFT_LINALG_MAX_OUT] = {NULL};
  for (int k = 0; k < b->num_in; k++) in[k] = b->in[k] + (size_t)(i * b->in_count[k]) * b->in_size;
  for (int k = 0; k < b->num_out; k++) out[k] = b->out[k] + (size_t)(i * b->out_count[k]) * b->out_size[k];
  return b->fn(b->call, in, out);
}

/* In float, and back. */
static weft_status_t *run_half(const batch_t *b, int64_t i) {
  const void *in[WEFT_LINALG_MAX_IN] = {NULL};
  void *out[WEFT_LINALG_MAX_OUT] = {NULL};
  int64_t total = 0;
  for (int k = 0; k < b->num_in; k++) total += b->in_count[k];
  for (int k = 0; k < b->num_out; k++) total += b->out_count[k];
  float *wide = weft_calloc((size_t)total + 1, sizeof *wide), *at = wide;
  if (wide == NULL) return WEFT_NO_MEMORY("a matrix of half");
  for (int k = 0; k < b->num_in; k++) {
    const uint16_t *x = (const uint16_t *)(const void *)b->in[k] + i * b->in_count[k];
    for (int64_t e = 0; e < b->in_count[k]; e++) at[e] = weft_f16_to_f32(x[e]);
    in[k] = at;
    at += b->in_count[k];
  }
  for (int k = 0; k < b->num_out; k++) {
    out[k] = at;
    at += b->out_count[k];
  }
  weft_status_t *s = b->fn(b->call, in, out);
  for (int k = 0; s == NULL && k < b->num_out; k++) {
    const float *x = out[k];
    uint16_t *y = (uint16_t *)(void *)b->out[k] + i * b->out_count[k];
    for (int64_t e = 0; e < b->out_count[k]; e++) y[e] = weft_f32_to_f16(x[e]);
  }
  weft_free(wide);
  return s;
}

static void run_range(void *arg, int64_t begin, int64_t end) {
  batch_t *b = arg;
  for (int64_t i = begin; i < end; i++) {
    weft_status_t *s = b->is_half ? run_half(b, i) : run_one(b, i), *none = NULL;
    if (s != NULL && !atomic_compare_exchange_strong(&b->status, &none, s)) weft_status_free(s);
  }
}

static weft_status_t *new_output(const weft_linalg_call_t *c, int i, const weft_shape_t *batch,
                                 weft_tensor_t **out) {
  weft_shape_t shape =
      WEFT_SCALAR; /* of what is not computed: as TensorFlow's kernels, not its shape functions */
  if (i < c->num_out) {
    shape = *batch;
    if (shape.rank + c->out[i].rank > WEFT_MAX_DIMS)
      return WEFT_ERROR(INVALID_ARGUMENT, "too many dimensions");
    if (c->out[i].rank > 0) shape.dims[shape.rank++] = c->out[i].rows;
    if (c->out[i].rank > 1) shape.dims[shape.rank++] = c->out[i].cols;
  }
  return weft_out_new(c->ctx, i, weft_dtype_base(c->ctx->node->output_types[i]), &shape, out);
}

static int64_t elements_of(const weft_linalg_shape_t *s) {
  return s->rank == 0 ? 1 : s->rank == 1 ? s->rows : s->rows * s->cols;
}

weft_status_t *weft_linalg_compute(weft_kernel_ctx_t *ctx) {
  const weft_linalg_t *op = ctx->node->param;
  weft_linalg_call_t c = {.ctx = ctx, .flags = ctx->state, .num_out = ctx->node->num_outputs};
  WEFT_RETURN_IF_ERROR(check_inputs(&c, op->num_in));
  WEFT_RETURN_IF_ERROR(op->shapes(&c));
  weft_shape_t batch = weft_in(ctx, 0)->shape;
  batch.rank -= 2;
  weft_dtype_t dtype = weft_in(ctx, 0)->dtype;
  batch_t b = {.call = &c,
               .fn = op->fns[weft_linalg_index(dtype)],
               .is_half = dtype == WEFT_F16,
               .num_in = op->num_in,
               .num_out = c.num_out,
               .in_size = weft_dtype_size(dtype)};
  for (int i = 0; i < ctx->node->num_outputs; i++) {
    weft_tensor_t *t = NULL;
    WEFT_RETURN_IF_ERROR(new_output(&c, i, &batch, &t));
    if (i >= c.num_out) {
      weft_cpu_zero(t);
      continue;
    }
    b.out[i] = t->data;
    b.out_size[i] = weft_dtype_size(t->dtype);
    b.out_count[i] = elements_of(&c.out[i]);
  }
  double work = 1;
  for (int i = 0; i < op->num_in; i++) {
    b.in[i] = weft_in(ctx, i)->data;
    b.in_count[i] = elements_of(&c.in[i]);
    work += (double)b.in_count[i] * (double)(c.in[i].rows < c.in[i].cols ? c.in[i].rows : c.in[i].cols);
  }
  int64_t count = weft_cpu_product(&batch, 0, batch.rank);
  weft_parallel_for(ctx->device->pool, count, (int64_t)(WEFT_CPU_GRAIN / work) + 1, run_range, &b);
  return atomic_load(&b.status);
}
