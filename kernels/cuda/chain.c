/* kernels/cuda/chain.c - the row of _WeftChain: ops that feed only each other, as one kernel that NVRTC
 * compiles (chain_source.c). */
#include "kernels/cuda/chain.h"

#include "kernels/cuda/kernels.h"

/* ---- arguments ---- */

static bool joins(const weft_cuda_chain_t *c, int outer, int inner) {
  for (int k = 0; k < c->num_inputs; k++) {
    if (c->steps[k][outer] != c->steps[k][inner] * c->dims[inner]) return false;
  }
  return true;
}

/* Joins dimensions that all inputs cross as one, and drops those of 1. */
static void collapse(weft_cuda_chain_t *c) {
  int kept = 0;
  for (int d = 0; d < c->rank; d++) {
    if (c->dims[d] == 1) continue;
    const bool join = kept > 0 && joins(c, kept - 1, d);
    if (!join) kept++;
    c->dims[kept - 1] = join ? c->dims[kept - 1] * c->dims[d] : c->dims[d];
    for (int k = 0; k < c->num_inputs; k++) c->steps[k][kept - 1] = c->steps[k][d];
  }
  c->rank = kept;
  for (int k = 0; kept == 0 && k < c->num_inputs; k++) c->steps[k][0] = 0;
}

static void add_input(weft_cuda_chain_t *c, int k, const weft_cuda_shape_t *shape) {
  int64_t step = 1;
  for (int d = shape->rank - 1; d >= 0; d--) {
    c->steps[k][c->rank - shape->rank + d] = shape->dims[d] == 1 ? 0 : step;
    step *= shape->dims[d];
  }
}

/* Which links compute rows of one element, though the result's rows have more. */
static uint64_t find_singles(const weft_cuda_chain_plan_t *p, const weft_cuda_shape_t *shapes,
                             int64_t width) {
  bool is_single[WEFT_CUDA_CHAIN_INPUTS + WEFT_CUDA_CHAIN_LINKS];
  uint64_t singles = 0;
  for (int k = 0; k < p->num_inputs; k++)
    is_single[k] = width != 1 && (shapes[k].rank == 0 || shapes[k].dims[shapes[k].rank - 1] == 1);
  for (int i = 0; i < p->num_links; i++) {
    const weft_cuda_chain_link_t *l = &p->links[i];
    bool *own = &is_single[p->num_inputs + i];
    *own = true;
    for (int k = 0; k < l->num_operands; k++) *own = *own && is_single[p->operands[l->first_operand + k]];
    if (l->is_by_rows && *own) singles |= UINT64_C(1) << i;
  }
  return singles;
}

void weft_cuda_chain_lay_out(const weft_cuda_chain_plan_t *p, const weft_cuda_shape_t *shapes,
                             const weft_cuda_shape_t *result, weft_cuda_chain_t *out) {
  const int last = result->rank - 1;
  *out = (weft_cuda_chain_t){.rank = result->rank, .num_inputs = p->num_inputs, .width = 1, .sharers = 1};
  memcpy(out->dims, result->dims, (size_t)result->rank * sizeof out->dims[0]);
  for (int k = 0; k < p->num_inputs; k++) add_input(out, k, &shapes[k]);
  if (p->has_rows) {
    out->rank = last;
    out->width = result->dims[last];
    out->sharers = weft_cuda_sharers(out->width);
    out->singles = find_singles(p, shapes, out->width);
    for (int k = 0; k < p->num_inputs; k++) out->row_steps[k] = out->steps[k][last];
  }
  out->n = out->width == 0 ? 0 : weft_cuda_product(out->dims, 0, out->rank);
  collapse(out);
}

WEFT_Failure *weft_cuda_chain_launch(WEFT_KernelContext *c, const weft_cuda_chain_plan_t *p,
                                     weft_cuda_chain_t *args) {
  void *all[] = {args};
  return weft_cuda_launch_over(c, p->function, args->n * args->sharers, 1, all);
}

/* ---- _WeftChain ---- */

static WEFT_Failure *chain_prepare(const WEFT_KernelSetup *s, const void *param, void **out) {
  weft_cuda_chain_plan_t *p = NULL;
  (void)param;
  WEFT_Failure *f = weft_cuda_chain_make(s, 0, &p);
  if (f == NULL) *out = p;
  return f;
}

/* The result in the bytes of an input of its shape and type, which is read exactly where it is written, or
 * whose row is read by all threads that share it before one of them writes. */
static WEFT_Failure *make_output(WEFT_KernelContext *c, const weft_cuda_chain_plan_t *p,
                                 const weft_cuda_shape_t *shapes, WEFT_TensorView *out) {
  const int result = p->links[p->num_links - 1].type;
  bool are_equal = !p->has_rows || shapes[0].rank > 0; /* else the shape function says what is wrong */
  for (int k = 1; k < p->num_inputs; k++) {
    are_equal =
        are_equal && shapes[k].rank == shapes[0].rank &&
        memcmp(shapes[k].dims, shapes[0].dims, (size_t)shapes[0].rank * sizeof shapes[0].dims[0]) == 0;
  }
  for (int k = 0; are_equal && k < p->num_inputs; k++) {
    if (p->types[k] == result)
      return weft_cuda_host->output_forwarded(c, k, 0, shapes[0].rank, shapes[0].dims, out);
  }
  return weft_cuda_host->output_inferred(c, 0, out);
}

static WEFT_Failure *chain_compute(WEFT_KernelContext *ctx) {
  const weft_cuda_chain_plan_t *p = weft_cuda_host->state(ctx);
  weft_cuda_shape_t shapes[WEFT_CUDA_CHAIN_INPUTS];
  const void *data[WEFT_CUDA_CHAIN_INPUTS]; /* stays valid when the output takes one over */
  WEFT_TensorView v, out;
  for (int k = 0; k < p->num_inputs; k++) {
    weft_cuda_host->input(ctx, k, &v);
    shapes[k] = weft_cuda_shape_of(&v);
    data[k] = v.data;
  }
  WEFT_CUDA_TRY(make_output(ctx, p, shapes, &out));
  if (out.count == 0) return NULL;
  const weft_cuda_shape_t result = weft_cuda_shape_of(&out);
  weft_cuda_chain_t c;
  weft_cuda_chain_lay_out(p, shapes, &result, &c);
  memcpy(c.inputs, data, (size_t)p->num_inputs * sizeof data[0]);
  c.out = out.data;
  return weft_cuda_chain_launch(ctx, p, &c);
}

const WEFT_DeviceKernel weft_cuda_chain_kernels[] = {
    {.op = "_WeftChain", .prepare = chain_prepare, .compute = chain_compute, .destroy = free},
    {0},
};
