/* kernels/cpu/loops/move.c - see the header.
 *
 * Adjacent dimensions that step alike on both sides are merged first. What is left ends in a run that is
 * contiguous on both sides (memcpy), or in one that is not: then, if another dimension is the contiguous one
 * of the source, the two are walked in tiles, so that each cache line of the source is used whole before it
 * is dropped.
 */
#include "kernels/cpu/loops/move.h"

enum { TILE = 32 }; /* elements a side: 32 x 32 x 8 bytes is a quarter of a first-level cache */

void weft_strides_of(const weft_shape_t *shape, int64_t *strides) {
  uint64_t stride = 1; /* unsigned: beside a dimension of 0 the others may be of any size */
  for (int d = shape->rank - 1; d >= 0; d--) {
    strides[d] = (int64_t)stride;
    stride *= (uint64_t)shape->dims[d];
  }
}

static void strided_copy(const char *from, int64_t from_stride, char *to, int64_t to_stride, int64_t n,
                         size_t size) {
#define ELEM_COPY(type)           \
  for (int64_t i = 0; i < n; i++) \
  ((type *)(void *)to)[i * to_stride] = ((const type *)(const void *)from)[i * from_stride]
  switch (size) {
    case 1: ELEM_COPY(uint8_t); break;
    case 2: ELEM_COPY(uint16_t); break;
    case 4: ELEM_COPY(uint32_t); break;
    case 8: ELEM_COPY(uint64_t); break;
    case 16: ELEM_COPY(weft_c128_t); break;
    default: break;
  }
#undef ELEM_COPY
}

typedef struct move_job {
  weft_move_t m;
  int last;                            /* the innermost dimension */
  int tiled;                           /* the other dimension of a tile; -1: none */
  int outer[WEFT_MAX_DIMS], num_outer; /* the dimensions in front */
  const weft_tensor_t *from;
  weft_tensor_t *to;
  size_t size;
  weft_status_t *_Atomic status;
} move_job_t;

static void copy_run(move_job_t *j, int64_t from, int64_t to, int64_t n) {
  int64_t fs = j->m.from_strides[j->last], ts = j->m.to_strides[j->last];
  if (!weft_dtype_is_plain(j->from->dtype)) {
    for (int64_t i = 0; i < n && j->status == NULL; i++) {
      weft_status_t *s = weft_tensor_copy_elements(j->to, to + i * ts, j->from, from + i * fs, 1),
                    *none = NULL;
      if (s != NULL && !atomic_compare_exchange_strong(&j->status, &none, s)) weft_status_free(s);
    }
    return;
  }
  const char *src = (const char *)j->from->data + from * (int64_t)j->size;
  char *dst = (char *)j->to->data + to * (int64_t)j->size;
  if (fs == 1 && ts == 1) {
    memcpy(dst, src, (size_t)n * j->size);
  } else {
    strided_copy(src, fs, dst, ts, n, j->size);
  }
}

static void copy_tiles(move_job_t *j, int64_t from, int64_t to) {
  const weft_move_t *m = &j->m;
  int a = j->tiled, b = j->last;
  for (int64_t i = 0; i < m->dims[a]; i += TILE) {
    int64_t rows = m->dims[a] - i < TILE ? m->dims[a] - i : TILE;
    for (int64_t k = 0; k < m->dims[b]; k += TILE) {
      int64_t n = m->dims[b] - k < TILE ? m->dims[b] - k : TILE;
      for (int64_t r = i; r < i + rows; r++) {
        copy_run(j, from + r * m->from_strides[a] + k * m->from_strides[b],
                 to + r * m->to_strides[a] + k * m->to_strides[b], n);
      }
    }
  }
}

static void outer_range(void *arg, int64_t begin, int64_t end) {
  move_job_t *j = arg;
  const weft_move_t *m = &j->m;
  int64_t index[WEFT_MAX_DIMS] = {0}, from = m->from_base, to = m->to_base, rest = begin;
  for (int o = j->num_outer - 1; o >= 0; o--) {
    int d = j->outer[o];
    index[o] = rest % m->dims[d];
    rest /= m->dims[d];
    from += index[o] * m->from_strides[d];
    to += index[o] * m->to_strides[d];
  }
  for (int64_t i = begin; i < end; i++) {
    if (j->tiled >= 0) {
      copy_tiles(j, from, to);
    } else {
      copy_run(j, from, to, m->dims[j->last]);
    }
    for (int o = j->num_outer - 1; o >= 0; o--) {
      int d = j->outer[o];
      from += m->from_strides[d];
      to += m->to_strides[d];
      if (++index[o] < m->dims[d]) break;
      index[o] = 0;
      from -= m->dims[d] * m->from_strides[d];
      to -= m->dims[d] * m->to_strides[d];
    }
  }
}

static void merge(const weft_move_t *m, weft_move_t *out) {
  *out = (weft_move_t){.from_base = m->from_base, .to_base = m->to_base};
  for (int d = 0; d < m->rank; d++) {
    if (m->dims[d] == 1) continue;
    int p = out->rank - 1;
    if (p >= 0 && out->from_strides[p] == m->from_strides[d] * m->dims[d] &&
        out->to_strides[p] == m->to_strides[d] * m->dims[d]) {
      out->dims[p] *= m->dims[d];
      out->from_strides[p] = m->from_strides[d];
      out->to_strides[p] = m->to_strides[d];
      continue;
    }
    out->dims[out->rank] = m->dims[d];
    out->from_strides[out->rank] = m->from_strides[d];
    out->to_strides[out->rank++] = m->to_strides[d];
  }
  if (out->rank == 0) {
    out->rank = 1;
    out->dims[0] = out->from_strides[0] = out->to_strides[0] = 1;
  }
}

weft_status_t *weft_move_run(const weft_move_t *m, weft_thread_pool_t *pool, const weft_tensor_t *from,
                             weft_tensor_t *to) {
  for (int d = 0; d < m->rank; d++) {
    if (m->dims[d] <= 0) return NULL;
  }
  move_job_t j = {.tiled = -1, .from = from, .to = to, .size = weft_dtype_size(from->dtype)};
  merge(m, &j.m);
  j.last = j.m.rank - 1;
  for (int d = 0; j.m.from_strides[j.last] != 1 && d < j.last; d++) {
    if (j.m.from_strides[d] == 1 && j.m.dims[d] >= 4 && j.m.dims[j.last] >= 4) j.tiled = d;
  }
  int64_t units = 1, unit = j.m.dims[j.last] * (j.tiled >= 0 ? j.m.dims[j.tiled] : 1);
  for (int d = 0; d < j.last; d++) {
    if (d == j.tiled) continue;
    j.outer[j.num_outer++] = d;
    units *= j.m.dims[d];
  }
  int64_t grain = WEFT_CPU_GRAIN / unit + 1;
  if (units <= grain || !weft_dtype_is_plain(from->dtype)) {
    outer_range(&j, 0, units);
  } else {
    weft_parallel_for(pool, units, grain, outer_range, &j);
  }
  return atomic_load(&j.status);
}
