/* kernels/cpu/loops/move.c - see the header.
 *
 * Adjacent dimensions that step alike on both sides are merged first. What is left ends in runs that are
 * contiguous on both sides, or in some that are not: then, if another dimension is the contiguous one of the
 * source, the two are a plane that is transposed in blocks, each of which reads and writes whole cache lines;
 * if one of the two has few elements, as the channels of an image, runs are woven into one, or taken apart.
 * Else the last two dimensions are a sheet of runs, so that short ones cost no more than they hold. Long
 * runs, sheets and planes are cut, so that threads share them.
 */
#include "kernels/cpu/loops/move.h"

#include "kernels/cpu/loops/turn.h"

enum {
  BLOCK = 16,       /* elements a side: a cache line of floats */
  ROWS = 2 * BLOCK, /* written side by side: two lines of each page of the source while it is known */
  PIECE = 1 << 17,  /* bytes: what is cut off a run, a sheet or a plane */
  SHORT_RUN = 8,    /* elements, not contiguous, that do not pay a loop */
  SHORT_ROWS = 256, /* of them that are copied element by element while they are in the cache */
  MOST_WOVEN = 4,   /* runs that are woven into one, or taken apart */
};

void weft_strides_of(const weft_shape_t *shape, int64_t *strides) {
  uint64_t stride = 1; /* unsigned: beside a dimension of 0 the others may be of any size */
  for (int d = shape->rank - 1; d >= 0; d--) {
    strides[d] = (int64_t)stride;
    stride *= (uint64_t)shape->dims[d];
  }
}

static int64_t at_most(int64_t n, int64_t limit) { return n < limit ? n : limit; }

/* Elements of one size. Steps of 0 and -1, of which a compiler makes vectors, have loops of their own. */
#define ELEM_COPY(type)                                                      \
  do {                                                                       \
    const type *x = (const void *)from;                                      \
    type *y = (void *)to;                                                    \
    if (from_stride == 0 && to_stride == 1) {                                \
      const type value = *x;                                                 \
      for (int64_t i = 0; i < n; i++) y[i] = value;                          \
    } else if (from_stride == -1 && to_stride == 1) {                        \
      for (int64_t i = 0; i < n; i++) y[i] = x[-i];                          \
    } else if (from_stride == 2 && to_stride == 1) {                         \
      for (int64_t i = 0; i < n; i++) y[i] = x[2 * i];                       \
    } else {                                                                 \
      for (int64_t i = 0; i < n; i++) y[i * to_stride] = x[i * from_stride]; \
    }                                                                        \
  } while (0)

static void strided_copy(const char *restrict from, int64_t from_stride, char *restrict to, int64_t to_stride,
                         int64_t n, size_t size) {
  switch (size) {
    case 1: ELEM_COPY(uint8_t); break;
    case 2: ELEM_COPY(uint16_t); break;
    case 4: ELEM_COPY(uint32_t); break;
    case 8: ELEM_COPY(uint64_t); break;
    case 16: ELEM_COPY(weft_c128_t); break;
    default: break;
  }
}
#undef ELEM_COPY

/* to[i][j] = from[j][i] for `rows` rows and `columns` columns of `to`; steps in bytes from one row to the
 * next. */
static void turn_scalar(const char *from, int64_t from_step, char *to, int64_t to_step, int64_t rows,
                        int64_t columns, size_t size) {
#define TURN(type)                                                                                       \
  for (int64_t i = 0; i < rows; i++) {                                                                   \
    for (int64_t j = 0; j < columns; j++) {                                                              \
      ((type *)(void *)(to + i * to_step))[j] = ((const type *)(const void *)(from + j * from_step))[i]; \
    }                                                                                                    \
  }
  switch (size) {
    case 1: TURN(uint8_t) break;
    case 2: TURN(uint16_t) break;
    case 4: TURN(uint32_t) break;
    case 8: TURN(uint64_t) break;
    case 16: TURN(weft_c128_t) break;
    default: break;
  }
#undef TURN
}

/* At most BLOCK rows and columns: whole squares in registers, and the rest element by element. Of 1 and of 16
 * bytes the compiler's own loops are as good. */
static void turn_block(const char *from, int64_t from_step, char *to, int64_t to_step, int64_t rows,
                       int64_t columns, size_t size) {
  const int64_t s = (int64_t)size, f = from_step / s, t = to_step / s,
                side = size == 4 || size == 2 ? 8
                       : size == 8            ? 4
                                              : BLOCK + 1,
                whole_rows = rows / side * side, whole_columns = columns / side * side;
  for (int64_t i = 0; i < whole_rows; i += side) {
    for (int64_t j = 0; j < whole_columns; j += side) {
      const char *x = from + j * from_step + i * s;
      char *y = to + i * to_step + j * s;
      if (size == 4) {
        weft_turn_4bytes(x, f, y, t);
      } else if (size == 2) {
        weft_turn_2bytes(x, f, y, t);
      } else {
        weft_turn_8bytes(x, f, y, t);
      }
    }
  }
  if (whole_columns < columns && whole_rows > 0) {
    turn_scalar(from + whole_columns * from_step, from_step, to + whole_columns * s, to_step, whole_rows,
                columns - whole_columns, size);
  }
  if (whole_rows < rows) {
    turn_scalar(from + whole_rows * s, from_step, to + whole_rows * to_step, to_step, rows - whole_rows,
                columns, size);
  }
}

/* Blocks of at most BLOCK columns below each other. Their successors' lines are asked for first: the source's
 * rows lie too far apart for the processor to guess them. */
static void turn_strip(const char *from, int64_t from_step, char *to, int64_t to_step, int64_t rows,
                       int64_t columns, int64_t next, size_t size) {
  const int64_t s = (int64_t)size;
  for (int64_t j = 0; j < next; j++) {
    for (int64_t i = 0; i < rows * s; i += 64) __builtin_prefetch(from + (BLOCK + j) * from_step + i);
  }
  for (int64_t i = 0; i < rows; i += BLOCK) {
    turn_block(from + i * s, from_step, to + i * to_step, to_step, at_most(rows - i, BLOCK), columns, size);
  }
}

static void turn_plane(const char *from, int64_t from_step, char *to, int64_t to_step, int64_t rows,
                       int64_t columns, size_t size) {
  const int64_t s = (int64_t)size;
  for (int64_t i = 0; i < rows; i += ROWS) {
    for (int64_t j = 0; j < columns; j += BLOCK) {
      turn_strip(from + j * from_step + i * s, from_step, to + i * to_step + j * s, to_step,
                 at_most(rows - i, ROWS), at_most(columns - j, BLOCK),
                 columns - j > BLOCK ? at_most(columns - j - BLOCK, BLOCK) : 0, size);
    }
  }
}

#define WORD uint8_t
#define SUFFIX 1byte
#include "kernels/cpu/loops/weave_one.tmpl.h"
#undef WORD
#undef SUFFIX
#define WORD uint16_t
#define SUFFIX 2bytes
#include "kernels/cpu/loops/weave_one.tmpl.h"
#undef WORD
#undef SUFFIX
#define WORD uint32_t
#define SUFFIX 4bytes
#include "kernels/cpu/loops/weave_one.tmpl.h"
#undef WORD
#undef SUFFIX
#define WORD uint64_t
#define SUFFIX 8bytes
#include "kernels/cpu/loops/weave_one.tmpl.h"
#undef WORD
#undef SUFFIX

/* A sheet of rows of few elements, which are dense on one side, and columns on the other. False: it is none.
 */
static bool weave_sheet(const weft_sheet_t *h, const void *from, void *to, size_t size) {
  if (h->n < 2 || h->n > MOST_WOVEN || size > 8) return false;
  if (h->from_row == 1 && h->to_step == 1 && h->to_row == h->n) {
    switch (size) {
      case 1: weave_few_1byte(from, h->from_step, to, h->rows, h->n); return true;
      case 2: weave_few_2bytes(from, h->from_step, to, h->rows, h->n); return true;
      case 4: weave_few_4bytes(from, h->from_step, to, h->rows, h->n); return true;
      default: weave_few_8bytes(from, h->from_step, to, h->rows, h->n); return true;
    }
  }
  if (h->from_row == h->n && h->from_step == 1 && h->to_row == 1) {
    switch (size) {
      case 1: part_few_1byte(from, to, h->to_step, h->rows, h->n); return true;
      case 2: part_few_2bytes(from, to, h->to_step, h->rows, h->n); return true;
      case 4: part_few_4bytes(from, to, h->to_step, h->rows, h->n); return true;
      default: part_few_8bytes(from, to, h->to_step, h->rows, h->n); return true;
    }
  }
  return false;
}

/* Runs of `bytes` each, at steps in bytes. A short one is copied by two vectors that may overlap. */
static void copy_runs(const char *from, int64_t from_step, char *to, int64_t to_step, int64_t rows,
                      size_t bytes) {
#define ROWS_OF(...)                                                     \
  for (int64_t r = 0; r < rows; r++, from += from_step, to += to_step) { \
    __VA_ARGS__;                                                         \
  }
#define ENDS(n) ROWS_OF(memcpy(to, from, n), memcpy(to + bytes - (n), from + bytes - (n), n))
  switch (bytes) {
    case 1: ROWS_OF(*to = *from) return;
    case 2: ROWS_OF(memcpy(to, from, 2)) return;
    case 4: ROWS_OF(memcpy(to, from, 4)) return;
    case 8: ROWS_OF(memcpy(to, from, 8)) return;
    case 16: ROWS_OF(memcpy(to, from, 16)) return;
    default: break;
  }
  if (bytes < 4) {
    ENDS(2)
  } else if (bytes < 8) {
    ENDS(4)
  } else if (bytes < 16) {
    ENDS(8)
  } else if (bytes <= 32) {
    ENDS(16)
  } else if (bytes <= 64) {
    ROWS_OF(memcpy(to, from, 32), memcpy(to + bytes - 32, from + bytes - 32, 32))
  } else if (bytes <= 128) {
    ROWS_OF(memcpy(to, from, 64), memcpy(to + bytes - 64, from + bytes - 64, 64))
  } else {
    ROWS_OF(memcpy(to, from, bytes))
  }
#undef ENDS
#undef ROWS_OF
}

void weft_move_sheet(const weft_sheet_t *h, const void *from, void *to, size_t size) {
  const int64_t s = (int64_t)size;
  const char *x = from;
  char *y = to;
  if (weave_sheet(h, from, to, size)) return;
  if (h->from_step == 1 && h->to_row == 1 && h->n > 1 && h->rows > 1) {
    turn_plane(x, h->from_row * s, y, h->to_step * s, h->n, h->rows, size);
    return;
  }
  if (h->from_step == 1 && h->to_step == 1) {
    copy_runs(x, h->from_row * s, y, h->to_row * s, h->rows, (size_t)h->n * size);
  } else if (h->n < SHORT_RUN && h->rows > h->n) { /* the loop is over the rows */
    for (int64_t r = 0; r < h->rows; r += SHORT_ROWS) {
      const int64_t m = at_most(h->rows - r, SHORT_ROWS);
      for (int64_t i = 0; i < h->n; i++) {
        strided_copy(x + (r * h->from_row + i * h->from_step) * s, h->from_row,
                     y + (r * h->to_row + i * h->to_step) * s, h->to_row, m, size);
      }
    }
  } else {
    for (int64_t r = 0; r < h->rows; r++) {
      strided_copy(x + r * h->from_row * s, h->from_step, y + r * h->to_row * s, h->to_step, h->n, size);
    }
  }
}

typedef struct move_job {
  weft_move_t m;
  int last;                            /* the innermost dimension */
  int other;                           /* of a sheet or a plane; -1: of runs that are cut themselves */
  bool is_turned;                      /* a plane */
  int outer[WEFT_MAX_DIMS], num_outer; /* the dimensions in front */
  int64_t cut, cuts;                   /* the dimension `other`, or else `last`, in pieces of so many */
  const weft_tensor_t *from;
  weft_tensor_t *to;
  size_t size;
  weft_status_t *_Atomic status;
} move_job_t;

static void copy_elements(move_job_t *j, int64_t from, int64_t to, int64_t n) {
  int64_t fs = j->m.from_strides[j->last], ts = j->m.to_strides[j->last];
  for (int64_t i = 0; i < n && j->status == NULL; i++) {
    weft_status_t *s = weft_tensor_copy_elements(j->to, to + i * ts, j->from, from + i * fs, 1), *none = NULL;
    if (s != NULL && !atomic_compare_exchange_strong(&j->status, &none, s)) weft_status_free(s);
  }
}

/* Elements [begin, begin + n) of the cut dimension, at an index of the outer ones. */
static void copy_piece(move_job_t *j, int64_t from, int64_t to, int64_t begin, int64_t n) {
  const weft_move_t *m = &j->m;
  const int d = j->other >= 0 ? j->other : j->last;
  const int64_t s = (int64_t)j->size, fs = m->from_strides[j->last], ts = m->to_strides[j->last];
  const char *src = (const char *)j->from->data + (from + begin * m->from_strides[d]) * s;
  char *dst = (char *)j->to->data + (to + begin * m->to_strides[d]) * s;
  if (j->is_turned) {
    turn_plane(src, fs * s, dst, m->to_strides[d] * s, n, m->dims[j->last], j->size);
    return;
  }
  weft_sheet_t h = {.rows = 1, .n = n, .from_step = fs, .to_step = ts};
  if (j->other >= 0) {
    h.rows = n;
    h.n = m->dims[j->last];
    h.from_row = m->from_strides[d];
    h.to_row = m->to_strides[d];
  }
  weft_move_sheet(&h, src, dst, j->size);
}

static void outer_range(void *arg, int64_t begin, int64_t end) {
  move_job_t *j = arg;
  const weft_move_t *m = &j->m;
  const bool is_plain = weft_dtype_is_plain(j->from->dtype);
  const int64_t whole = m->dims[j->other >= 0 ? j->other : j->last];
  int64_t index[WEFT_MAX_DIMS] = {0}, from = m->from_base, to = m->to_base, rest = begin / j->cuts;
  for (int o = j->num_outer - 1; o >= 0; o--) {
    int d = j->outer[o];
    index[o] = rest % m->dims[d];
    rest /= m->dims[d];
    from += index[o] * m->from_strides[d];
    to += index[o] * m->to_strides[d];
  }
  for (int64_t i = begin, piece = begin % j->cuts; i < end; i++) {
    const int64_t at = piece * j->cut, n = whole - at < j->cut ? whole - at : j->cut;
    if (is_plain) {
      copy_piece(j, from, to, at, n);
    } else {
      copy_elements(j, from, to, n);
    }
    if (++piece < j->cuts) continue;
    piece = 0;
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

/* Whether dimension d and the last one are a few runs that are woven into one, or that are taken apart: then
 * the last one becomes that of few elements, as weave_sheet() takes it. */
static bool is_woven(move_job_t *j, int d) {
  weft_move_t *m = &j->m;
  const int last = j->last;
  if (j->size > 8 || m->from_strides[d] != 1 || m->to_strides[last] != 1) return false;
  if (m->dims[last] <= MOST_WOVEN && m->to_strides[d] == m->dims[last]) return true;
  if (m->dims[d] > MOST_WOVEN || m->from_strides[last] != m->dims[d]) return false;
  const int64_t few = m->dims[d], step = m->to_strides[d];
  m->dims[d] = m->dims[last];
  m->from_strides[d] = few;
  m->to_strides[d] = 1;
  m->dims[last] = few;
  m->from_strides[last] = 1;
  m->to_strides[last] = step;
  return true;
}

/* The dimension that makes a sheet or a plane with the last one. */
static void choose_other(move_job_t *j) {
  const weft_move_t *m = &j->m;
  for (int d = 0; d < j->last; d++) {
    if (!is_woven(j, d)) continue;
    j->other = d;
    return;
  }
  const int64_t step = m->from_strides[j->last]; /* 0: one element that is repeated */
  for (int d = 0; step != 0 && step != 1 && m->to_strides[j->last] == 1 && d < j->last; d++) {
    if (m->from_strides[d] == 1 && m->dims[d] >= 4 && m->dims[j->last] >= 4) j->other = d;
  }
  j->is_turned = j->other >= 0;
  if (!j->is_turned && j->last > 0 && (int64_t)j->size * m->dims[j->last] < PIECE) j->other = j->last - 1;
}

weft_status_t *weft_move_run(const weft_move_t *m, weft_thread_pool_t *pool, const weft_tensor_t *from,
                             weft_tensor_t *to) {
  for (int d = 0; d < m->rank; d++) {
    if (m->dims[d] <= 0) return NULL;
  }
  move_job_t j = {.other = -1, .from = from, .to = to, .size = weft_dtype_size(from->dtype)};
  const bool is_plain = weft_dtype_is_plain(from->dtype);
  merge(m, &j.m);
  j.last = j.m.rank - 1;
  if (is_plain) choose_other(&j);
  int64_t units = 1;
  for (int d = 0; d < j.last; d++) {
    if (d == j.other) continue;
    j.outer[j.num_outer++] = d;
    units *= j.m.dims[d];
  }
  /* Bytes of the cut dimension's one place; a piece is whole blocks. */
  const int64_t each = (int64_t)j.size * (j.other >= 0 ? j.m.dims[j.last] : 1),
                whole = j.m.dims[j.other >= 0 ? j.other : j.last];
  j.cut = is_plain ? (PIECE / (each < PIECE ? each : PIECE) / ROWS + 1) * ROWS : whole;
  if (j.cut > whole) j.cut = whole;
  j.cuts = (whole - 1) / j.cut + 1;
  units *= j.cuts;
  if (is_plain) {
    const int64_t unit = each * j.cut, grain = unit < PIECE ? PIECE / unit : 1;
    weft_parallel_for(pool, units, grain, outer_range, &j);
  } else {
    outer_range(&j, 0, units);
  }
  return atomic_load(&j.status);
}

typedef struct fill_job {
  char *to;
  const void *value;
  size_t size;
} fill_job_t;

static void fill_range(void *arg, int64_t begin, int64_t end) {
  const fill_job_t *f = arg;
  strided_copy(f->value, 0, f->to + begin * (int64_t)f->size, 1, end - begin, f->size);
}

void weft_move_fill(weft_thread_pool_t *pool, void *to, const void *value, size_t size, int64_t n) {
  fill_job_t f = {to, value, size};
  weft_parallel_for(pool, n, PIECE / (int64_t)size, fill_range, &f);
}
