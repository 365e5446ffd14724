/* kernels/cuda/common.c - types, shapes, grids and walks of the rows. */
#include "kernels/cuda/common.h"

#include <stdio.h>
#include <string.h>

weft_cuda_function_t *weft_cuda_pick(const weft_cuda_instances_t *instances, int dtype) {
  if (dtype < 0 || dtype > 31) return NULL;
  const uint32_t bit = UINT32_C(1) << dtype;
  if ((instances->types & bit) == 0) return NULL;
  return &instances->functions[__builtin_popcount(instances->types & (bit - 1))];
}

weft_cuda_function_t *weft_cuda_pick_size(weft_cuda_function_t *functions, int dtype) {
  return &functions[__builtin_ctz((unsigned)weft_cuda_size(dtype))];
}

size_t weft_cuda_size(int dtype) {
  switch (dtype) {
    case WEFT_CUDA_u8:
    case WEFT_CUDA_i8:
    case WEFT_CUDA_boolean: return 1;
    case WEFT_CUDA_f16:
    case WEFT_CUDA_bf16:
    case WEFT_CUDA_i16:
    case WEFT_CUDA_u16: return 2;
    case WEFT_CUDA_c128: return 16;
    case WEFT_CUDA_f64:
    case WEFT_CUDA_i64:
    case WEFT_CUDA_u64:
    case WEFT_CUDA_c64: return 8;
    default: return 4;
  }
}

int weft_cuda_part_type(int dtype) {
  return dtype == WEFT_CUDA_c64 ? WEFT_CUDA_f32 : dtype == WEFT_CUDA_c128 ? WEFT_CUDA_f64 : dtype;
}

weft_cuda_text_t weft_cuda_shape_text(const WEFT_TensorView *v) {
  weft_cuda_text_t t;
  size_t at = 0;
  t.s[at++] = '[';
  for (int d = 0; d < v->rank && at + 24 < sizeof t.s; d++)
    at += (size_t)snprintf(t.s + at, sizeof t.s - at, d == 0 ? "%lld" : ",%lld", (long long)v->dims[d]);
  t.s[at++] = ']';
  t.s[at] = '\0';
  return t;
}

bool weft_cuda_same_shape(const WEFT_TensorView *a, const WEFT_TensorView *b) {
  return a->rank == b->rank &&
         (a->rank == 0 || memcmp(a->dims, b->dims, (size_t)a->rank * sizeof *a->dims) == 0);
}

WEFT_Failure *weft_cuda_size_read(const WEFT_TensorView *v, const char *what, int64_t out[2]) {
  if (v->rank != 1)
    return WEFT_CUDA_INVALID("%s must be 1-dimensional, got shape %s", what, WEFT_CUDA_SHAPE(v));
  if (v->count != 2)
    return WEFT_CUDA_INVALID("%s must have two elements, got shape %s", what, WEFT_CUDA_SHAPE(v));
  for (int d = 0; d < 2; d++) out[d] = weft_cuda_int_at(v, d);
  if (out[0] > 0 && out[1] > 0) return NULL;
  return WEFT_CUDA_INVALID("%s's elements must be positive, got %lld and %lld", what, (long long)out[0],
                           (long long)out[1]);
}

weft_cuda_shape_t weft_cuda_shape_of(const WEFT_TensorView *v) {
  weft_cuda_shape_t s = {.rank = v->rank};
  for (int d = 0; d < v->rank; d++) s.dims[d] = v->dims[d];
  return s;
}

int64_t weft_cuda_product(const int64_t *dims, int begin, int end) {
  int64_t n = 1;
  for (int d = begin; d < end; d++) n *= dims[d];
  return n;
}

int64_t weft_cuda_int_at(const WEFT_TensorView *v, int64_t i) {
  return v->dtype == WEFT_CUDA_i32 ? ((const int32_t *)v->data)[i] : ((const int64_t *)v->data)[i];
}

WEFT_Failure *weft_cuda_shapes_differ(WEFT_KernelContext *c, int other) {
  WEFT_TensorView a, b;
  weft_cuda_host->input(c, 0, &a);
  weft_cuda_host->input(c, other, &b);
  return WEFT_CUDA_INVALID(
      "Inputs to operation %s must have the same size and shape.  Input 0: %s != input %d: %s",
      weft_cuda_host->node_name(c), WEFT_CUDA_SHAPE(&a), other, WEFT_CUDA_SHAPE(&b));
}

WEFT_Failure *weft_cuda_output_like(WEFT_KernelContext *c, int in, int i, WEFT_TensorView *out) {
  WEFT_TensorView v;
  weft_cuda_host->input(c, in, &v);
  const weft_cuda_shape_t s = weft_cuda_shape_of(&v);
  return weft_cuda_host->output_forwarded(c, in, i, s.rank, s.dims, out);
}

/* ---- launches ---- */

int32_t weft_cuda_sharers(int64_t elements) {
  enum { EACH = 4 };
  int32_t sharers = 1;
  while (sharers < WEFT_CUDA_BLOCK && (int64_t)sharers * EACH < elements) sharers *= 2;
  return sharers;
}

weft_cuda_geometry_t weft_cuda_geometry(WEFT_KernelContext *c, int64_t n, int64_t per_thread) {
  enum { WAVES = 16 }; /* blocks for each multiprocessor: two sets of as many as it holds at once */
  const int64_t per_block = WEFT_CUDA_BLOCK * per_thread, blocks = (n + per_block - 1) / per_block;
  const int64_t most = (int64_t)weft_cuda_num_processors(c) * WAVES;
  return (weft_cuda_geometry_t){
      {(unsigned)(blocks < most ? blocks : most), 1, 1}, {WEFT_CUDA_BLOCK, 1, 1}, 0};
}

WEFT_Failure *weft_cuda_launch_over(WEFT_KernelContext *c, weft_cuda_function_t *f, int64_t n,
                                    int64_t per_thread, void **args) {
  if (n <= 0) return NULL;
  const weft_cuda_geometry_t g = weft_cuda_geometry(c, n, per_thread);
  return weft_cuda_launch(c, f, &g, args);
}

/* ---- notes ---- */

WEFT_Failure *weft_cuda_note_new(WEFT_KernelContext *c, void **out) {
  void *told = NULL;
  WEFT_CUDA_TRY(weft_cuda_host->host_scratch(c, sizeof(int32_t), &told));
  WEFT_CUDA_TRY(weft_cuda_host->scratch(c, sizeof(int32_t), out));
  return weft_cuda_fill(c, *out, 0, sizeof(int32_t));
}

WEFT_Failure *weft_cuda_note_send(WEFT_KernelContext *c, const void *note) {
  void *told = NULL;
  WEFT_CUDA_TRY(weft_cuda_host->host_scratch(c, sizeof(int32_t), &told));
  return weft_cuda_read(c, told, note, sizeof(int32_t));
}

WEFT_Failure *weft_cuda_note_value(WEFT_KernelContext *c, int32_t *out) {
  void *told = NULL;
  WEFT_CUDA_TRY(weft_cuda_host->host_scratch(c, sizeof(int32_t), &told));
  *out = *(const int32_t *)told;
  return NULL;
}

WEFT_Failure *weft_cuda_note_read(WEFT_KernelContext *c, bool *out) {
  int32_t value = 0;
  WEFT_CUDA_TRY(weft_cuda_note_value(c, &value));
  *out = value != 0;
  return NULL;
}

/* ---- walks ---- */

void weft_cuda_walk_init(weft_cuda_walk_t *w, int rank, const int64_t *dims) {
  memset(w, 0, sizeof *w);
  w->rank = rank;
  w->n = 1;
  for (int d = 0; d < rank; d++) {
    w->dims[d] = dims[d];
    w->n *= dims[d];
  }
}

bool weft_cuda_walk_broadcast(weft_cuda_walk_t *w, int k, int rank, const int64_t *dims) {
  int64_t step = 1;
  if (rank > w->rank) return false;
  for (int d = rank - 1; d >= 0; d--) {
    const int at = w->rank - rank + d;
    if (dims[d] != w->dims[at] && dims[d] != 1) return false;
    w->steps[k][at] = dims[d] == 1 ? 0 : step;
    step *= dims[d];
  }
  return true;
}

void weft_cuda_dense_steps(int rank, const int64_t *dims, int64_t *steps) {
  int64_t step = 1;
  for (int d = rank - 1; d >= 0; d--) {
    steps[d] = step;
    step *= dims[d];
  }
}

static bool joins(const weft_cuda_walk_t *w, int outer, int inner, int num_tensors) {
  for (int k = 0; k < num_tensors; k++) {
    if (w->steps[k][outer] != w->steps[k][inner] * w->dims[inner]) return false;
  }
  return true;
}

void weft_cuda_walk_collapse(weft_cuda_walk_t *w, int num_tensors) {
  int kept = 0;
  for (int d = 0; d < w->rank; d++) {
    if (w->dims[d] == 1) continue;
    const bool join = kept > 0 && joins(w, kept - 1, d, num_tensors);
    if (!join) kept++;
    w->dims[kept - 1] = join ? w->dims[kept - 1] * w->dims[d] : w->dims[d];
    for (int k = 0; k < num_tensors; k++) w->steps[k][kept - 1] = w->steps[k][d];
  }
  w->rank = kept;
  w->is_flat = kept == 0;
  if (kept == 1) {
    w->is_flat = 1;
    for (int k = 0; k < num_tensors; k++) w->is_flat = w->is_flat && w->steps[k][0] == 1;
  }
}

WEFT_Failure *weft_cuda_prepare_channels(const WEFT_KernelSetup *s, const void *param, void **out) {
  static const char channels_first = 1;
  const char *format = NULL;
  size_t length = 0;
  (void)param;
  const bool is_nchw = weft_cuda_host->attr_string(s, "data_format", &format, &length) != 0 && length > 1 &&
                       memcmp(format, "NC", 2) == 0;
  *out = is_nchw ? (void *)(uintptr_t)&channels_first : NULL;
  return NULL;
}
