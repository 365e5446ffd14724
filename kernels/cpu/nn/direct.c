/* kernels/cpu/nn/direct.c - see the header: forward, and the gradient of the input. */
#include "kernels/cpu/nn/direct.h"

#include "base/alloc.h"
#include "kernels/cpu/nn/axis.h"
#include "kernels/cpu/nn/lines.h"
#include "kernels/cpu/tile/tile.h"

/* Bytes of lines that a task lays out at a time: a part of a usual second-level cache, beside a panel of the
 * filter. Pixels of a row where the image is one long row. Multiplications of a task, at least. */
enum { LINE_BYTES = 256 * 1024, MOST_LINE_BYTES = 1024 * 1024, SEGMENT = 112, TASK_WORK = 1 << 18 };
/* Rows of so many pixels, with panels that all fit into half of a usual second-level cache, are computed one
 * by one for all panels: then the lines of a row are read from the first level, and the result is written
 * page by page. */
enum { LONG_ROW = 48, PANELS_BYTES = 512 * 1024 };
/* Panels are kept where laying them out is more than a hundredth of the work: it is that of some 40 pixels.
 * And where they are not much larger than the filter, as they are with few channels. */
enum { MOST_KEPT_PIXELS = 4096, MOST_KEPT_SIZE = 2 };

/* A convolution, or one of those that a gradient is made of: src [n,in...,groups*k] to dst
 * [n,out...,groups*m]. */
typedef struct direct {
  weft_dtype_t dtype;
  size_t size;
  int64_t n, groups, k, m;
  weft_axis_t ax[WEFT_SPACE];
  const char *src, *f;
  char *dst;
  int64_t pitch; /* elements from a pixel of the source to the next */
  /* The filter: element (tap, i < k, o < m) of group g is at tap * f_tap + i * f_k + o * f_m + g * f_group.
   */
  int64_t f_tap, f_k, f_m, f_group;
  int64_t filter_w, filter_h;      /* sizes of the filter, to number its taps */
  int64_t pixels;                  /* of a row of pixels of which the image's rows are parts; 0: none */
  const weft_epilogue_t *epilogue; /* NULL: none */
  weft_kept_t *kept;               /* NULL: panels are made anew each time */
  weft_tensor_t *filter;
  /* What follows is worked out by plan(). */
  bool has_lines, is_merged; /* rows are laid out; the taps of a row are one product */
  bool is_by_rows;           /* a row of pixels is computed for all panels before the next row */
  weft_lines_t lines;
  int64_t taps, panels, panel_width;
  size_t panel_bytes;   /* of each panel of the filter but the last, which may be narrower */
  char *packed;         /* [groups][panels][taps][k][panel_width] */
  int64_t slices, rows; /* a block: (image, depth) pairs, and rows of each */
  int64_t slice_blocks, row_blocks, panel_groups;
  int64_t line_rows; /* lines of one (slice, depth tap) */
  weft_status_t *_Atomic status;
} direct_t;

static void keep_first(direct_t *d, weft_status_t *s) {
  weft_status_t *none = NULL;
  if (s != NULL && !atomic_compare_exchange_strong(&d->status, &none, s)) weft_status_free(s);
}

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t blocks_of(int64_t total, int64_t block) { return (total + block - 1) / block; }

/* ---- panels of the filter ---- */

static int64_t panel_columns(const direct_t *d, int64_t panel) {
  return least(d->m - panel * d->panel_width, d->panel_width);
}

/* Elements of a row of a panel: one vector where that is enough. */
static int64_t panel_stride(const direct_t *d, int64_t panel) {
  const int64_t vector = weft_tile_vector(d->dtype);
  return panel_columns(d, panel) <= vector ? vector : d->panel_width;
}

static char *panel_at(const direct_t *d, int64_t group, int64_t panel) {
  return d->packed + (size_t)(group * d->panels + panel) * d->panel_bytes;
}

/* Rows [k, k + rows) of a panel, whose columns lie apart in the filter: in blocks, so that what is read of a
 * column is a line of the cache. */
static void pack_turned(const direct_t *d, const char *from, int64_t rows, int64_t columns, int64_t stride,
                        char *to) {
  if (d->size == sizeof(float)) {
    for (int64_t o = 0; o < columns; o++) {
      const float *in = (const float *)from + o * d->f_m;
      for (int64_t i = 0; i < rows; i++) ((float *)to)[i * stride + o] = in[i];
    }
  } else {
    for (int64_t o = 0; o < columns; o++) {
      const double *in = (const double *)from + o * d->f_m;
      for (int64_t i = 0; i < rows; i++) ((double *)to)[i * stride + o] = in[i];
    }
  }
}

/* Lays out taps [begin, end) of all (group, panel, tap). */
static void pack_range(void *arg, int64_t begin, int64_t end) {
  enum { BLOCK = 16 };
  const direct_t *d = arg;
  for (int64_t unit = begin; unit < end; unit++) {
    const int64_t t = unit % d->taps, panel = unit / d->taps % d->panels, group = unit / d->taps / d->panels;
    const weft_axis_t *ax = d->ax;
    const int64_t w = t % ax[2].taps, h = t / ax[2].taps % ax[1].taps, z = t / ax[2].taps / ax[1].taps;
    const int64_t tap =
        ((ax[0].tap + z * ax[0].tap_step) * d->filter_h + ax[1].tap + h * ax[1].tap_step) * d->filter_w +
        ax[2].tap + w * ax[2].tap_step;
    const int64_t columns = panel_columns(d, panel), stride = panel_stride(d, panel);
    const size_t row = (size_t)stride * d->size;
    const char *from =
        d->f + (size_t)(tap * d->f_tap + group * d->f_group + panel * d->panel_width * d->f_m) * d->size;
    char *to = panel_at(d, group, panel) + (size_t)(t * d->k) * row;
    if (columns < stride) memset(to, 0, (size_t)d->k * row);
    if (d->f_m == 1) {
      for (int64_t i = 0; i < d->k; i++) {
        memcpy(to + (size_t)i * row, from + (size_t)(i * d->f_k) * d->size, (size_t)columns * d->size);
      }
      continue;
    }
    for (int64_t i = 0; i < d->k; i += BLOCK) {
      pack_turned(d, from + (size_t)(i * d->f_k) * d->size, least(d->k - i, BLOCK), columns, stride,
                  to + (size_t)i * row);
    }
  }
}

/* ---- a task: a block of rows, for some panels ---- */

/* What a task has for itself. */
typedef struct workspace {
  char *lines;
  const void **a, **b; /* of each tap of a row */
} workspace_t;

/* Row `y` of depth `z` of an image of the source, at the first channel of the group. */
static const char *source_row(const direct_t *d, int64_t image, int64_t z, int64_t y, int64_t group) {
  const weft_axis_t *ax = d->ax;
  const int64_t pixel = ((image * ax[0].in + z) * ax[1].in + y) * ax[2].in;
  return d->src + (size_t)(pixel * d->pitch + group * d->k) * d->size;
}

static char *line_at(const direct_t *d, const workspace_t *w, int64_t slice, int64_t z, int64_t y) {
  return w->lines + (size_t)((slice * d->ax[0].taps + z) * d->line_rows + y) * weft_line_bytes(&d->lines);
}

/* Lays out the lines under rows [row, row + rows) of slices [slice, slice + slices). */
static void fill_lines(const direct_t *d, const workspace_t *w, int64_t group, int64_t slice, int64_t slices,
                       int64_t row, int64_t rows) {
  const weft_axis_t *deep = &d->ax[0], *high = &d->ax[1];
  const int64_t first = high->from + row * high->stride,
                count = (rows - 1) * high->stride + (high->taps - 1) * high->dist + 1;
  for (int64_t s = 0; s < slices; s++) {
    const int64_t image = (slice + s) / deep->count, at = (slice + s) % deep->count;
    for (int64_t t = 0; t < deep->taps; t++) {
      const int64_t z = deep->from + at * deep->stride + t * deep->dist;
      if (z < 0 || z >= deep->in) continue;
      for (int64_t y = first < 0 ? -first : 0; y < count && first + y < high->in; y++) {
        weft_line_fill(&d->lines, source_row(d, image, z, first + y, group), line_at(d, w, s, t, y));
      }
    }
  }
}

/* One row of output pixels for one panel. `y_first`: the source row that the lines begin with. */
static void compute_row(const direct_t *d, const workspace_t *w, int64_t group, int64_t panel, int64_t slice,
                        int64_t s, int64_t row, int64_t y_first) {
  const weft_axis_t *deep = &d->ax[0], *high = &d->ax[1], *wide = &d->ax[2];
  const int64_t image = (slice + s) / deep->count, at = (slice + s) % deep->count;
  const int64_t stride = panel_stride(d, panel), columns = panel_columns(d, panel);
  const int64_t pitch = d->has_lines ? d->k : d->pitch;
  const int64_t parts = d->is_merged ? 1 : wide->taps, depth = d->is_merged ? wide->taps * d->k : d->k;
  const char *b = panel_at(d, group, panel);
  weft_tile_t t = {
      .a = w->a, .b = w->b, .depth = depth, .a_stride = wide->stride * pitch, .b_stride = stride};
  for (int64_t p = 0; p < deep->taps; p++) {
    const int64_t z = deep->from + at * deep->stride + p * deep->dist;
    for (int64_t q = 0; q < high->taps; q++) {
      const int64_t y = high->from + row * high->stride + q * high->dist;
      if (z < 0 || z >= deep->in || y < 0 || y >= high->in) continue;
      const char *line = d->has_lines
                             ? line_at(d, w, s, p, y - y_first)
                             : source_row(d, image, z, y, group) + (size_t)(wide->from * pitch) * d->size;
      for (int64_t r = 0; r < parts; r++) {
        w->a[t.taps] = line + (size_t)(r * wide->dist * pitch) * d->size;
        w->b[t.taps++] = b + (size_t)((((p * high->taps + q) * wide->taps) + r) * d->k * stride) * d->size;
      }
    }
  }
  const int64_t out_pitch = d->groups * d->m;
  const int64_t pixel =
      ((image * deep->out + deep->first + at * deep->step) * high->out + high->first + row * high->step) *
          wide->out +
      wide->first;
  const int64_t count = d->pixels == 0 ? wide->count : least(wide->count, d->pixels - row * wide->count);
  const int64_t channel = group * d->m + panel * d->panel_width;
  t.c_stride = wide->step * out_pitch;
  t.epilogue = d->epilogue;
  t.row = pixel;
  t.column = channel;
  weft_tile_run(d->dtype, &t, count, columns, d->dst + (size_t)(pixel * out_pitch + channel) * d->size);
}

static void compute_block(const direct_t *d, const workspace_t *w, int64_t group, int64_t panel_group,
                          int64_t slice_block, int64_t row_block) {
  const weft_axis_t *ax = d->ax;
  const int64_t slice = slice_block * d->slices, slices = least(d->slices, d->n * ax[0].count - slice);
  const int64_t row = row_block * d->rows, rows = least(d->rows, ax[1].count - row);
  if (d->has_lines) fill_lines(d, w, group, slice, slices, row, rows);
  const int64_t begin = d->panels * panel_group / d->panel_groups,
                end = d->panels * (panel_group + 1) / d->panel_groups;
  const int64_t strip = d->is_by_rows ? end - begin : 1, y_first = ax[1].from + row * ax[1].stride;
  for (int64_t first = begin; first < end; first += strip) { /* of one panel, or of all */
    for (int64_t at = 0; at < slices * rows; at++) {
      for (int64_t panel = first; panel < first + strip; panel++) {
        compute_row(d, w, group, panel, slice, at / rows, row + at % rows, y_first);
      }
    }
  }
}

static weft_status_t *workspace_new(const direct_t *d, workspace_t *out) {
  const size_t taps = (size_t)d->taps;
  size_t lines = 0, bytes = 0;
  bool fits =
      weft_mul_size((size_t)(d->slices * d->ax[0].taps * d->line_rows), weft_line_bytes(&d->lines), &lines);
  fits = fits && weft_mul_size(taps, 2 * sizeof(void *), &bytes);
  out->lines = fits && d->has_lines ? weft_aligned_alloc(64, lines + 64) : NULL;
  out->a = fits ? weft_malloc(bytes) : NULL;
  if (out->a != NULL && (out->lines != NULL || !d->has_lines)) {
    out->b = out->a + taps;
    return NULL;
  }
  weft_free(out->a);
  weft_free(out->lines);
  return WEFT_NO_MEMORY("a convolution");
}

/* Tasks in the order (group, panel group, slice block, row block): a thread's next one has the same panels.
 */
static void compute_range(void *arg, int64_t begin, int64_t end) {
  direct_t *d = arg;
  workspace_t w = {NULL};
  weft_status_t *s = workspace_new(d, &w);
  if (s != NULL) {
    keep_first(d, s);
    return;
  }
  for (int64_t task = begin; task < end; task++) {
    const int64_t block = task / d->row_blocks, part = block / d->slice_blocks;
    compute_block(d, &w, part / d->panel_groups, part % d->panel_groups, block % d->slice_blocks,
                  task % d->row_blocks);
  }
  weft_free(w.a);
  weft_free(w.lines);
}

/* ---- the plan ----
 *
 * A task has a block of rows for a part of the panels. Smaller blocks read the panels more often, more parts
 * read the lines more often, and with fewer tasks threads wait longer for the end of the last ones. The plan
 * takes the blocks and parts that cost least, in bytes from the third-level cache (docs/decisions/0053). */

/* Multiplications in the time of a byte: a core makes 75 in a nanosecond and reads 20 bytes. Bytes in the
 * time that a task takes to begin. Lines that stay in a usual second-level cache while a task reads them for
 * each of its panels. */
enum { BYTE_WORK = 4, TASK_BYTES = 32 * 1024, CACHED_LINE_BYTES = 512 * 1024 };

typedef struct conv_cut {
  int64_t slices, rows, panel_groups;
  double cost;
} conv_cut_t;

/* Lines of one (slice, depth tap) under `rows` rows. */
static int64_t lines_under(const direct_t *d, int64_t rows) {
  const weft_axis_t *high = &d->ax[1];
  return (rows - 1) * high->stride + (high->taps - 1) * high->dist + 1;
}

/* The cost of the work and of what is read for it, and of the end: half of the largest task, for which the
 * other threads wait. */
static double cost_of(const direct_t *d, const conv_cut_t *c, int threads) {
  const weft_axis_t *ax = d->ax;
  const int64_t all = d->n * ax[0].count;
  const double blocks =
      (double)d->groups * (double)(blocks_of(all, c->slices) * blocks_of(ax[1].count, c->rows));
  const double filter = (double)d->panel_bytes * (double)d->panels, parts = (double)c->panel_groups;
  const double lines =
      (double)weft_line_bytes(&d->lines) * (double)(c->slices * ax[0].taps) * (double)lines_under(d, c->rows);
  const double walks = lines > CACHED_LINE_BYTES && !d->is_by_rows ? (double)d->panels : parts;
  const double read = blocks * (walks * lines + parts * TASK_BYTES + (filter > LINE_BYTES ? filter : 0));
  const double rows = (double)all * (double)ax[1].count,
               part = (double)blocks_of(d->panels, c->panel_groups) / (double)d->panels;
  const double work = rows * (double)ax[2].count * (double)(d->taps * d->k) * (double)(d->m * d->groups);
  const double largest = (double)(c->slices * c->rows) / rows * part / (double)d->groups;
  return (work / BYTE_WORK + read) * (1 + (threads - 1) * largest / 2);
}

/* Blocks of at most so many slices and rows, all of about the same size, with each number of parts. */
static void try_blocks(const direct_t *d, int64_t slices, int64_t rows, int threads, conv_cut_t *best) {
  const int64_t all = d->n * d->ax[0].count, height = d->ax[1].count;
  conv_cut_t c = {.slices = blocks_of(all, blocks_of(all, slices)),
                  .rows = blocks_of(height, blocks_of(height, rows))};
  for (int64_t parts = 1, last = 0; parts > last; last = parts, parts = least(2 * parts, d->panels)) {
    c.panel_groups = parts;
    c.cost = cost_of(d, &c, threads);
    if (best->slices == 0 || c.cost < best->cost) *best = c;
  }
}

static void plan_blocks(direct_t *d, int threads) {
  const weft_axis_t *ax = d->ax;
  const int64_t all = d->n * ax[0].count, row_bytes = (int64_t)weft_line_bytes(&d->lines) * ax[0].taps;
  const int64_t room = d->panel_bytes * (size_t)d->panels > LINE_BYTES ? MOST_LINE_BYTES : LINE_BYTES;
  int64_t rows = (room / (row_bytes + 1) - (ax[1].taps - 1) * ax[1].dist - 1) / ax[1].stride + 1, slices = 1;
  rows = rows < 1 ? 1 : least(rows, ax[1].count);
  if (rows == ax[1].count) {
    const int64_t slice_bytes = row_bytes * lines_under(d, rows);
    slices = least(all, room / (slice_bytes + 1) < 1 ? 1 : room / (slice_bytes + 1));
  }
  conv_cut_t best = {.slices = 0};
  try_blocks(d, slices, rows, threads, &best);
  while (slices > 1) {
    slices = blocks_of(slices, 2);
    try_blocks(d, slices, rows, threads, &best);
  }
  while (rows > 1) {
    rows = blocks_of(rows, 2);
    try_blocks(d, 1, rows, threads, &best);
  }
  d->slices = best.slices;
  d->rows = best.rows;
  d->panel_groups = best.panel_groups;
  d->slice_blocks = blocks_of(all, d->slices);
  d->row_blocks = blocks_of(ax[1].count, d->rows);
  d->line_rows = lines_under(d, d->rows);
}

static void plan(direct_t *d, int threads) {
  const weft_axis_t *wide = &d->ax[2];
  const int64_t width = (wide->count - 1) * wide->stride + (wide->taps - 1) * wide->dist + 1;
  d->size = weft_dtype_size(d->dtype);
  d->has_lines = d->groups > 1 || wide->from < 0 || (d->pixels == 0 && wide->from + width > wide->in);
  d->is_merged = wide->dist == 1 || wide->taps == 1;
  d->lines = (weft_lines_t){.size = d->size,
                            .in = wide->in,
                            .pitch = d->pitch,
                            .from = wide->from,
                            .width = width,
                            .channels = d->k,
                            .block = d->k};
  d->taps = d->ax[0].taps * d->ax[1].taps * wide->taps;
  d->panel_width = 2 * weft_tile_vector(d->dtype);
  d->panels = blocks_of(d->m, d->panel_width);
  d->panel_bytes = (size_t)(d->taps * d->k * d->panel_width) * d->size;
  d->is_by_rows = wide->count >= LONG_ROW && d->panel_bytes * (size_t)d->panels <= PANELS_BYTES;
  plan_blocks(d, threads);
}

static weft_status_t *pack(weft_thread_pool_t *pool, direct_t *d) {
  size_t bytes = 0;
  if (weft_mul_size(d->panel_bytes, (size_t)(d->groups * d->panels), &bytes))
    d->packed = weft_aligned_alloc(64, bytes);
  if (d->packed == NULL) return WEFT_NO_MEMORY("a convolution");
  const int64_t each = d->k * least(d->panel_width, d->m);
  weft_parallel_for(pool, d->groups * d->panels * d->taps, WEFT_CPU_GRAIN / each + 1, pack_range, d);
  return NULL;
}

static bool may_keep(const direct_t *d) {
  const double pixels =
      (double)d->n * (double)d->ax[0].count * (double)d->ax[1].count * (double)d->ax[2].count;
  return d->kept != NULL && pixels < MOST_KEPT_PIXELS &&
         d->panel_bytes / (size_t)MOST_KEPT_SIZE * (size_t)(d->groups * d->panels) <= d->filter->bytes;
}

/* Computes all outputs of d; there is a tap, and each dimension is 1 or more. */
static weft_status_t *run(weft_thread_pool_t *pool, direct_t *d) {
  const double work = (double)(d->n * d->groups * d->m) *
                      (double)(d->ax[0].count * d->ax[1].count * d->ax[2].count) * (double)d->k *
                      (double)(d->ax[0].taps * d->ax[1].taps * d->ax[2].taps);
  if (work < 2 * TASK_WORK) pool = NULL;
  plan(d, pool == NULL ? 1 : weft_thread_pool_size(pool));
  bool is_wanted = false;
  weft_kept_copy_t *copy = may_keep(d) ? weft_kept_find(d->kept, d->filter, d->groups, &is_wanted) : NULL;
  d->packed = copy != NULL ? copy->data : NULL;
  if (copy == NULL) WEFT_RETURN_IF_ERROR(pack(pool, d));
  weft_parallel_for(pool, d->groups * d->panel_groups * d->slice_blocks * d->row_blocks, 1, compute_range, d);
  if (is_wanted) {
    weft_kept_offer(d->kept, d->filter, d->groups, d->packed);
  } else if (copy == NULL) {
    weft_free(d->packed);
  }
  weft_kept_copy_release(copy);
  d->packed = NULL;
  return atomic_load(&d->status);
}

/* ---- forward ---- */

bool weft_direct_fits(const weft_conv_t *v) {
  enum { MOST_PANELS = 1 << 20, MOST_PHASES = 64, MOST_LINE = 1 << 26 };
  if (v->dtype != WEFT_F32 && v->dtype != WEFT_F64) return false;
  const int64_t width = 2 * weft_tile_vector(v->dtype), k = v->cg, m = v->oc / v->groups;
  /* Panels of the filter that hold little but zeros, forward or backward. */
  const int64_t taps = v->s[0].k * v->s[1].k * v->s[2].k;
  const double panels = (double)taps * (double)v->groups *
                        (double)(k * blocks_of(m, width) + m * blocks_of(k, width)) * (double)width;
  if (panels > MOST_PANELS && panels > 8.0 * (double)taps * (double)(k * v->oc)) return false;
  int64_t phases = 1;
  double line =
      (double)(k > m ? k : m) * (double)(v->s[0].k * v->s[1].k); /* elements of the lines of a row */
  for (int i = 0; i < WEFT_SPACE; i++) {
    const weft_window_t *w = &v->s[i];
    /* A padded row, or as many of them as windows reach, is not much more than the image. */
    const double reach = (double)(w->k - 1) * (double)w->dilation + (double)w->stride;
    if (reach > 4.0 * (double)w->in + 64 || reach > 4.0 * (double)w->out * (double)w->stride + 64)
      return false;
    if (w->stride > 8 || w->k > 1024) return false;
    phases *= w->stride;
    if (i == WEFT_SPACE - 1) line *= (double)w->out * (double)w->stride + (double)w->in + reach;
  }
  return phases <= MOST_PHASES && line < MOST_LINE;
}

bool weft_direct_sums_in_place(const weft_conv_t *v) {
  return v->oc / v->groups % weft_tile_vector(v->dtype) == 0; /* no block is stored before its epilogue */
}

bool weft_direct_fits_input(const weft_conv_t *v) {
  enum { FEW_CHANNELS = 4 };
  return v->cg >= FEW_CHANNELS && weft_direct_fits(v);
}

/* A convolution whose images are its columns, as one row of pixels, cut in segments. */
static void flatten(direct_t *d) {
  d->pixels = d->n * d->ax[0].out * d->ax[1].out * d->ax[2].out;
  const int64_t width = least(d->pixels, SEGMENT), rows = blocks_of(d->pixels, width);
  d->n = 1;
  for (int i = 0; i < WEFT_SPACE; i++) {
    const int64_t size = i == 0 ? 1 : i == 1 ? rows : width;
    d->ax[i] =
        (weft_axis_t){.in = size, .out = size, .count = size, .step = 1, .stride = 1, .dist = 1, .taps = 1};
  }
}

/* Is each output pixel made of one input pixel? */
static bool is_pixelwise(const weft_conv_t *v) {
  for (int i = 0; i < WEFT_SPACE; i++) {
    const weft_window_t *w = &v->s[i];
    if (w->k != 1 || w->before != 0 || (w->out - 1) * w->stride >= w->in) return false;
  }
  return v->groups == 1;
}

static bool is_pointwise(const weft_conv_t *v) {
  for (int i = 0; i < WEFT_SPACE; i++) {
    if (v->s[i].stride != 1 || v->s[i].out != v->s[i].in) return false;
  }
  return is_pixelwise(v);
}

/* ---- pixels apart ----
 *
 * The rows of a tile are pixels side by side. Where these lie a multiple of 4 KiB apart, they fall on the
 * same sets of the first-level cache, and each number of a row would come from the second level. A
 * convolution of single pixels, which reads each from where it is, then gets a copy in which they lie
 * otherwise. */

enum { SETS_BYTES = 4096, LINE_OF_CACHE = 64, FEW_PIXELS = 8 };

typedef struct apart {
  const weft_conv_t *v;
  const char *x;
  char *to;
  size_t pixel, pitch; /* bytes */
} apart_t;

static void copy_pixels(void *arg, int64_t begin, int64_t end) {
  const apart_t *j = arg;
  const weft_window_t *s = j->v->s;
  for (int64_t p = begin; p < end; p++) {
    const int64_t x = p % s[2].out * s[2].stride, y = p / s[2].out % s[1].out * s[1].stride;
    const int64_t z = p / s[2].out / s[1].out % s[0].out * s[0].stride,
                  n = p / s[2].out / s[1].out / s[0].out;
    const int64_t from = ((n * s[0].in + z) * s[1].in + y) * s[2].in + x;
    memcpy(j->to + (size_t)p * j->pitch, j->x + (size_t)from * j->pixel, j->pixel);
  }
}

static bool falls_on_few_sets(const weft_conv_t *v) {
  const int64_t distance = v->s[2].stride * v->c * (int64_t)weft_dtype_size(v->dtype);
  return is_pixelwise(v) && distance % SETS_BYTES == 0 && v->s[2].out * v->s[1].out > FEW_PIXELS;
}

/* The source of d becomes the copy, which the caller frees. */
static weft_status_t *copy_apart(weft_thread_pool_t *pool, const weft_conv_t *v, direct_t *d, char **out) {
  const int64_t pixels = v->n * v->s[0].out * v->s[1].out * v->s[2].out;
  const size_t size = weft_dtype_size(v->dtype);
  apart_t j = {.v = v, .x = d->src, .pixel = (size_t)v->c * size};
  size_t bytes = 0;
  j.pitch = j.pixel + LINE_OF_CACHE;
  j.to = weft_mul_size(j.pitch, (size_t)pixels, &bytes) ? weft_aligned_alloc(LINE_OF_CACHE, bytes) : NULL;
  if (j.to == NULL) return WEFT_NO_MEMORY("a convolution");
  weft_parallel_for(pool, pixels, WEFT_CPU_GRAIN / v->c + 1, copy_pixels, &j);
  d->src = *out = j.to;
  d->pitch = (int64_t)(j.pitch / size);
  return NULL;
}

weft_status_t *weft_direct_forward(weft_thread_pool_t *pool, const weft_conv_t *v, const void *x,
                                   const void *f, void *y) {
  direct_t d = {.dtype = v->dtype,
                .n = v->n,
                .groups = v->groups,
                .k = v->cg,
                .m = v->oc / v->groups,
                .src = x,
                .f = f,
                .dst = y,
                .pitch = v->c,
                .epilogue = v->epilogue,
                .kept = v->kept,
                .filter = v->filter,
                .f_tap = v->cg * v->oc,
                .f_k = v->oc,
                .f_m = 1,
                .f_group = v->oc / v->groups,
                .filter_h = v->s[1].k,
                .filter_w = v->s[2].k};
  for (int i = 0; i < WEFT_SPACE; i++) d.ax[i] = weft_axis_forward(&v->s[i]);
  char *apart = NULL;
  if (falls_on_few_sets(v)) WEFT_RETURN_IF_ERROR(copy_apart(pool, v, &d, &apart));
  if (apart != NULL || is_pointwise(v)) flatten(&d);
  weft_status_t *s = run(pool, &d);
  weft_free(apart);
  return s;
}

/* ---- the gradient of the input ---- */

weft_status_t *weft_direct_input(weft_thread_pool_t *pool, const weft_conv_t *v, const void *dy,
                                 const void *f, void *dx) {
  const weft_window_t *s = v->s;
  direct_t base = {.dtype = v->dtype,
                   .n = v->n,
                   .groups = v->groups,
                   .k = v->oc / v->groups,
                   .m = v->cg,
                   .src = dy,
                   .f = f,
                   .dst = dx,
                   .pitch = v->oc,
                   .f_tap = v->cg * v->oc,
                   .f_k = 1,
                   .f_m = v->oc,
                   .f_group = v->oc / v->groups,
                   .filter_h = s[1].k,
                   .filter_w = s[2].k};
  if (weft_axis_has_gaps(&s[0]) || weft_axis_has_gaps(&s[1]) || weft_axis_has_gaps(&s[2])) {
    memset(dx, 0, (size_t)(v->n * s[0].in * s[1].in * s[2].in * v->c) * weft_dtype_size(v->dtype));
  }
  for (int64_t phase = 0; phase < s[0].stride * s[1].stride * s[2].stride; phase++) {
    const int64_t at[WEFT_SPACE] = {phase / s[2].stride / s[1].stride, phase / s[2].stride % s[1].stride,
                                    phase % s[2].stride};
    direct_t d = base;
    bool has_any = true;
    for (int i = 0; i < WEFT_SPACE; i++) {
      d.ax[i] = weft_axis_backward(&s[i], at[i]);
      has_any &= d.ax[i].count > 0 && d.ax[i].taps > 0;
    }
    if (!has_any) continue;
    if (is_pointwise(v)) flatten(&d);
    WEFT_RETURN_IF_ERROR(run(pool, &d));
  }
  return NULL;
}
