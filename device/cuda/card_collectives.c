/* device/cuda/card_collectives.c - launches of kernels/cuda/collective.cu. */
#include "device/cuda/card_collectives.h"

#include "base/status.h"
#include "device/cuda/collective_args.h"
#include "device/cuda/collectives.h"
#include "device/cuda/launch.h"

enum { BLOCK = 256, MAX_TYPE = 32 };

static weft_cuda_function_t reduce_f32 = WEFT_CUDA_FUNCTION("weft_collective_reduce_f32"),
                            reduce_f64 = WEFT_CUDA_FUNCTION("weft_collective_reduce_f64"),
                            reduce_i32 = WEFT_CUDA_FUNCTION("weft_collective_reduce_i32"),
                            reduce_i64 = WEFT_CUDA_FUNCTION("weft_collective_reduce_i64"),
                            reduce_bf16 = WEFT_CUDA_FUNCTION("weft_collective_reduce_bf16"),
                            reduce_f16 = WEFT_CUDA_FUNCTION("weft_collective_reduce_f16"),
                            move = WEFT_CUDA_FUNCTION("weft_collective_move");
static weft_cuda_function_t *const reductions[MAX_TYPE] =
    {/* by TF_DataType */
     [1] = &reduce_f32, [2] = &reduce_f64,   [3] = &reduce_i32,
     [9] = &reduce_i64, [14] = &reduce_bf16, [19] = &reduce_f16};

/* Blocks for `items` in each of n rows of blocks, but no more than keep the card busy: kernels step on. */
static weft_cuda_geometry_t geometry(const weft_cuda_device_t *d, int64_t items, int n) {
  const int64_t most = ((int64_t)d->physical->num_processors * 8 + n - 1) / n;
  int64_t blocks = (items + BLOCK - 1) / BLOCK;
  if (blocks > most) blocks = most;
  return (weft_cuda_geometry_t){{blocks < 1 ? 1 : (unsigned)blocks, (unsigned)n, 1}, {BLOCK, 1, 1}, 0};
}

static WEFT_Failure *launch(weft_cuda_device_t *d, weft_cuda_function_t *f, int64_t items, int n,
                            void *args) {
  const weft_cuda_geometry_t g = geometry(d, items, n);
  return weft_cuda_launch_on(d, "a collective", f, &g, &args);
}

static WEFT_Failure *reduce(weft_cuda_device_t *first, int n, const WEFT_Collective *what,
                            const WEFT_CollectiveRank *ranks) {
  weft_cuda_function_t *f = (unsigned)what->dtype < MAX_TYPE ? reductions[what->dtype] : NULL;
  if (f == NULL) {
    return weft_cuda_host->failure(WEFT_UNIMPLEMENTED, "no reduction of type %d between devices of a card",
                                   what->dtype);
  }
  const bool is_cut = what->kind == WEFT_COLLECTIVE_REDUCE_SCATTER;
  weft_cuda_ranks_t r = {
      .n = n, .shift = is_cut ? 1 : 0, .reduction = (int32_t)what->reduction, .is_divided = what->is_divided};
  int64_t longest = 0;
  for (int i = 0; i < n; i++) {
    r.in[i] = ranks[i].input;
    r.out[i] = ranks[i].output;
  }
  for (int i = 0; i <= n; i++) { /* floor(count * i / n) without overflow */
    r.bounds[i] = is_cut ? what->bounds[i] : what->count / n * i + what->count % n * i / n;
    if (i > 0 && r.bounds[i] - r.bounds[i - 1] > longest) longest = r.bounds[i] - r.bounds[i - 1];
  }
  return longest == 0 ? NULL : launch(first, f, longest, n, &r);
}

/* ---- moves ---- */

typedef struct card_mover {
  weft_cuda_device_t *first;
  weft_cuda_moves_t moves;
  int64_t longest;
} card_mover_t;

static WEFT_Failure *flush(card_mover_t *m) {
  if (m->moves.n == 0) return NULL;
  WEFT_Failure *f = launch(m->first, &move, (m->longest + 15) / 16, m->moves.n, &m->moves);
  m->moves.n = 0;
  m->longest = 0;
  return f;
}

static WEFT_Failure *add(card_mover_t *m, const void *from, int64_t from_at, void *to, int64_t to_at,
                         int64_t bytes) {
  const char *a = (const char *)from + from_at;
  char *b = (char *)to + to_at;
  if (bytes == 0 || a == b) return NULL;
  const int at = m->moves.n++;
  m->moves.from[at] = a;
  m->moves.to[at] = b;
  m->moves.bytes[at] = bytes;
  if (bytes > m->longest) m->longest = bytes;
  return m->moves.n == WEFT_CUDA_MOVES ? flush(m) : NULL;
}

/* What rank `to` gets of rank `from`. */
static WEFT_Failure *add_pair(card_mover_t *m, const WEFT_Collective *what, const WEFT_CollectiveRank *ranks,
                              int from, int to) {
  const int64_t size = (int64_t)weft_cuda_element_bytes(what->dtype), block = what->count * size;
  const void *in = ranks[from].input;
  void *out = ranks[to].output;
  switch (what->kind) {
    case WEFT_COLLECTIVE_BROADCAST: return from == what->root ? add(m, in, 0, out, 0, block) : NULL;
    case WEFT_COLLECTIVE_GATHER:
      return add(m, in, 0, out, what->bounds[from] * size,
                 (what->bounds[from + 1] - what->bounds[from]) * size);
    case WEFT_COLLECTIVE_ALL_TO_ALL: return add(m, in, to * block, out, from * block, block);
    case WEFT_COLLECTIVE_REDUCE:
    case WEFT_COLLECTIVE_REDUCE_SCATTER: break;
  }
  return NULL;
}

WEFT_Failure *weft_cuda_card_collective(weft_cuda_device_t *const *devices, int n,
                                        const WEFT_Collective *what, const WEFT_CollectiveRank *ranks) {
  if (what->kind == WEFT_COLLECTIVE_REDUCE || what->kind == WEFT_COLLECTIVE_REDUCE_SCATTER)
    return reduce(devices[0], n, what, ranks);
  card_mover_t m = {.first = devices[0]};
  WEFT_Failure *f = NULL;
  for (int from = 0; from < n && f == NULL; from++) {
    for (int to = 0; to < n && f == NULL; to++) f = add_pair(&m, what, ranks, from, to);
  }
  return f != NULL ? f : flush(&m);
}
