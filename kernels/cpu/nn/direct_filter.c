/* kernels/cpu/nn/direct_filter.c - see direct.h: the gradient of the filter, a sum over all output pixels.
 *
 * Pixels are taken in blocks of some rows. For each block the rows of the input are laid out so that the
 * channels of a tile lie together, and those of the output's gradient in panels; then each tile of the filter
 * takes its sum over the block.
 */
#include <string.h>

#include "base/alloc.h"
#include "kernels/cpu/nn/direct.h"
#include "kernels/cpu/nn/lines.h"
#include "kernels/cpu/tile/tile.h"
#include "tensor/update.h"

/* Pixels of a block: so many that loading and storing a tile of the filter costs little beside its sum, so
 * few that a panel of them stays in the cache. More where the filter does not stay there. */
enum { BLOCK_PIXELS = 224, MORE_PIXELS = 448, LARGE_FILTER = 1 << 20 };
/* Pixels for each piece of the sum: adding pieces up costs less than a thirtieth then. */
enum { PIECE_PIXELS = 1792, MOST_PIECES = 8 };
/* Channels that are read as they lie in memory; above it the pixels of a tile's channels are too far apart.
 */
enum { NEAR_CHANNELS = 64 };
/* Tiles of channels for which a task lays out the gradient of the output, at least. */
enum { NEAR_BLOCKS = 4 };

typedef struct filter_job {
  const weft_conv_t *v;
  size_t size;
  const char *x, *dy;
  char *df; /* [pieces] filters */
  int64_t n, m;
  weft_window_t s[WEFT_SPACE]; /* of v, or of an image that is one row */
  int64_t pixels;              /* of that row; 0: there is none */
  int64_t slices, rows;        /* a block: (image, depth) pairs, and rows of each */
  int64_t slice_blocks, row_blocks, pieces, panels, panel_width;
  int64_t channel_groups, panel_groups, tap_groups; /* parts of the filter that are tasks */
  bool has_lines, is_merged;                        /* a tile is made of the channels of all taps of a row */
  weft_lines_t lines;
  int64_t line_rows; /* lines of one (slice, depth tap) */
  weft_status_t *_Atomic status;
} filter_job_t;

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t blocks_of(int64_t total, int64_t block) { return (total + block - 1) / block; }

/* What a thread has for itself. */
typedef struct filter_space {
  char *lines, *panel;
  const void **a, **b;
} filter_space_t;

/* The rows of a block that are summed up: those of slices [slice, slice + slices); and for what part of the
 * filter: channels [c, c_end) of each (depth, row) tap [tap, tap_end), for some panels. */
typedef struct filter_block {
  int64_t slice, slices, row, rows;
  int64_t c, c_end, tap, tap_end;
} filter_block_t;

static int64_t row_pixels(const filter_job_t *j, int64_t row) {
  return j->pixels == 0 ? j->s[2].out : least(j->s[2].out, j->pixels - row * j->s[2].out);
}

static const char *input_row(const filter_job_t *j, int64_t group, int64_t slice, int64_t kd, int64_t y) {
  const weft_window_t *s = j->s;
  const int64_t z = slice % s[0].out * s[0].stride - s[0].before + kd * s[0].dilation;
  const int64_t pixel = ((slice / s[0].out * s[0].in + z) * s[1].in + y) * s[2].in;
  return j->x + (size_t)(pixel * j->v->c + group * j->v->cg) * j->size;
}

static bool has_depth(const filter_job_t *j, int64_t slice, int64_t kd) {
  const weft_window_t *w = &j->s[0];
  const int64_t z = slice % w->out * w->stride - w->before + kd * w->dilation;
  return z >= 0 && z < w->in;
}

static char *line_at(const filter_job_t *j, const filter_space_t *w, int64_t s, int64_t kd, int64_t y) {
  return w->lines + (size_t)((s * j->s[0].k + kd) * j->line_rows + y) * weft_line_bytes(&j->lines);
}

static void fill_lines(const filter_job_t *j, const filter_space_t *w, const filter_block_t *b,
                       int64_t group) {
  const weft_window_t *h = &j->s[1];
  const int64_t first = b->row * h->stride - h->before;
  weft_lines_t lines = j->lines;
  lines.channels = b->c_end - b->c;
  if (j->pixels > 0) lines.in = row_pixels(j, b->row);
  for (int64_t s = 0; s < b->slices; s++) {
    for (int64_t kd = b->tap / h->k; kd * h->k < b->tap_end; kd++) {
      if (!has_depth(j, b->slice + s, kd)) continue;
      const int64_t k0 = b->tap > kd * h->k ? b->tap - kd * h->k : 0,
                    k1 = least(b->tap_end - kd * h->k, h->k) - 1; /* the first tap, the last */
      const int64_t end = least((b->rows - 1) * h->stride + k1 * h->dilation + 1, h->in - first);
      for (int64_t y = first + k0 * h->dilation < 0 ? -first : k0 * h->dilation; y < end; y++) {
        weft_line_fill(&lines, input_row(j, group, b->slice + s, kd, first + y) + (size_t)b->c * j->size,
                       line_at(j, w, s, kd, y));
      }
    }
  }
}

/* Lays out the block's part of the output's gradient for a panel: [slices][rows][width][stride]. */
static void fill_panel(const filter_job_t *j, const filter_block_t *b, int64_t column, int64_t columns,
                       int64_t stride, char *to) {
  const size_t bytes = (size_t)columns * j->size, pitch = (size_t)j->v->oc * j->size,
               row = (size_t)stride * j->size;
  for (int64_t s = 0; s < b->slices; s++) {
    for (int64_t r = b->row; r < b->row + b->rows; r++) {
      const int64_t pixel = ((b->slice + s) * j->s[1].out + r) * j->s[2].out;
      const char *from = j->dy + (size_t)(pixel * j->v->oc + column) * j->size;
      for (int64_t i = 0, n = row_pixels(j, r); i < n; i++, to += row, from += pitch) {
        if (bytes == 2 * WEFT_TILE_BYTES) { /* a constant: no call */
          memcpy(to, from, 2 * WEFT_TILE_BYTES);
        } else {
          memcpy(to, from, bytes);
          memset(to + bytes, 0, row - bytes);
        }
      }
    }
  }
}

/* Adds the block's sum to the tiles of one (depth, row) tap of the filter. `panel`: columns from `column` of
 * df. */
static void add_tap(const filter_job_t *j, const filter_space_t *w, const filter_block_t *b, int64_t group,
                    int64_t tap, int64_t column, int64_t columns, int64_t stride, char *df) {
  const weft_conv_t *v = j->v;
  const weft_window_t *h = &j->s[1], *wide = &j->s[2];
  const int64_t kd = tap / h->k, kh = tap % h->k, parts = j->is_merged ? 1 : wide->k;
  const int64_t block = j->has_lines ? j->lines.block : v->cg;
  for (int64_t c = b->c; c < b->c_end; c += block) {
    const int64_t width = least(b->c_end - c, block), pitch = j->has_lines ? width : v->c;
    weft_tile_t t = {.a = w->a,
                     .b = w->b,
                     .depth = row_pixels(j, b->row),
                     .a_by_columns = true,
                     .a_stride = wide->stride * pitch,
                     .b_stride = stride,
                     .c_stride = v->oc,
                     .accumulate = true};
    for (int64_t s = 0; s < b->slices; s++) {
      if (!has_depth(j, b->slice + s, kd)) continue;
      for (int64_t r = 0; r < b->rows; r++) {
        const int64_t y = (b->row + r) * h->stride - h->before + kh * h->dilation;
        if (y < 0 || y >= h->in) continue;
        w->a[t.taps] = j->has_lines ? line_at(j, w, s, kd, r * h->stride + kh * h->dilation) +
                                          (size_t)((c - b->c) * j->lines.width) * j->size
                                    : input_row(j, group, b->slice + s, kd, y);
        w->b[t.taps++] = w->panel + (size_t)((s * b->rows + r) * wide->out * stride) * j->size;
      }
    }
    if (t.taps == 0) return;
    for (int64_t kw = 0; kw < parts; kw++) {
      const int64_t to = ((tap * wide->k + kw) * v->cg + c) * v->oc + column;
      weft_tile_run(v->dtype, &t, j->is_merged ? wide->k * v->cg : width, columns, df + (size_t)to * j->size);
      for (int64_t i = 0; i < t.taps; i++) {
        w->a[i] = (const char *)w->a[i] + (size_t)(wide->dilation * pitch) * j->size;
      }
    }
  }
}

static void add_block(const filter_job_t *j, const filter_space_t *w, const filter_block_t *b, int64_t group,
                      int64_t panel_group, char *df) {
  if (j->has_lines) fill_lines(j, w, b, group);
  const int64_t end = j->panels * (panel_group + 1) / j->panel_groups, vector = weft_tile_vector(j->v->dtype);
  for (int64_t p = j->panels * panel_group / j->panel_groups; p < end; p++) {
    const int64_t columns = least(j->m - p * j->panel_width, j->panel_width),
                  stride = columns <= vector ? vector : j->panel_width,
                  column = group * j->m + p * j->panel_width;
    fill_panel(j, b, column, columns, stride, w->panel);
    for (int64_t tap = b->tap; tap < b->tap_end; tap++) {
      add_tap(j, w, b, group, tap, column, columns, stride, df);
    }
  }
}

static weft_status_t *space_new(const filter_job_t *j, filter_space_t *out) {
  const size_t rows = (size_t)(j->slices * j->rows);
  size_t lines = 0;
  const bool fits =
      weft_mul_size((size_t)(j->slices * j->s[0].k * j->line_rows), weft_line_bytes(&j->lines), &lines);
  out->lines = fits && j->has_lines ? weft_aligned_alloc(64, lines + 64) : NULL;
  out->panel = weft_aligned_alloc(64, rows * (size_t)(j->s[2].out * j->panel_width) * j->size);
  out->a = weft_malloc(rows * 2 * sizeof(void *));
  if (out->a != NULL && out->panel != NULL && (out->lines != NULL || !j->has_lines)) {
    out->b = out->a + rows;
    return NULL;
  }
  weft_free(out->lines);
  weft_free(out->panel);
  weft_free(out->a);
  return WEFT_NO_MEMORY("the gradient of a filter");
}

/* Tasks in the order (piece, group, channel group, panel group, tap group). */
static void filter_range(void *arg, int64_t begin, int64_t end) {
  filter_job_t *j = arg;
  filter_space_t w = {NULL};
  weft_status_t *s = space_new(j, &w), *none = NULL;
  if (s != NULL) {
    if (!atomic_compare_exchange_strong(&j->status, &none, s)) weft_status_free(s);
    return;
  }
  const int64_t taps = j->s[0].k * j->s[1].k, cg = j->v->cg;
  const size_t filter = (size_t)(taps * j->s[2].k * cg * j->v->oc) * j->size;
  const int64_t blocks = j->slice_blocks * j->row_blocks, slices = j->n * j->s[0].out;
  const int64_t channel_block = j->lines.block, channel_blocks = blocks_of(cg, channel_block);
  for (int64_t task = begin; task < end; task++) {
    const int64_t tap_group = task % j->tap_groups, a = task / j->tap_groups,
                  panel_group = a % j->panel_groups, c = a / j->panel_groups,
                  channel_group = c % j->channel_groups, d = c / j->channel_groups, group = d % j->v->groups,
                  piece = d / j->v->groups;
    const int64_t last = blocks * (piece + 1) / j->pieces;
    for (int64_t i = blocks * piece / j->pieces; i < last; i++) {
      filter_block_t b = {
          .slice = i / j->row_blocks * j->slices,
          .row = i % j->row_blocks * j->rows,
          .c = channel_blocks * channel_group / j->channel_groups * channel_block,
          .c_end = least(channel_blocks * (channel_group + 1) / j->channel_groups * channel_block, cg),
          .tap = taps * tap_group / j->tap_groups,
          .tap_end = taps * (tap_group + 1) / j->tap_groups};
      b.slices = least(j->slices, slices - b.slice);
      b.rows = least(j->rows, j->s[1].out - b.row);
      add_block(j, &w, &b, group, panel_group, j->df + (size_t)piece * filter);
    }
  }
  weft_free(w.a);
  weft_free(w.panel);
  weft_free(w.lines);
}

/* A convolution whose images are its columns: as one row of pixels, cut in blocks. */
static void flatten(filter_job_t *j, int64_t block) {
  const weft_conv_t *v = j->v;
  if (v->groups != 1) return;
  for (int i = 0; i < WEFT_SPACE; i++) {
    const weft_window_t *w = &j->s[i];
    if (w->k != 1 || w->stride != 1 || w->before != 0 || w->out != w->in) return;
  }
  j->pixels = v->n * j->s[0].out * j->s[1].out * j->s[2].out;
  j->n = 1;
  const int64_t width = least(block, j->pixels);
  j->s[0] = j->s[1] = j->s[2] = WEFT_WINDOW_ONE;
  j->s[1].in = j->s[1].out = blocks_of(j->pixels, width);
  j->s[2].in = j->s[2].out = width;
}

static void plan_lines(filter_job_t *j) {
  const weft_conv_t *v = j->v;
  const weft_window_t *h = &j->s[1], *w = &j->s[2];
  const int64_t width = (w->out - 1) * w->stride + (w->k - 1) * w->dilation + 1;
  const bool is_padded = w->before > 0 || (j->pixels == 0 && width - w->before > w->in);
  j->has_lines = is_padded || v->groups > 1 || v->c > NEAR_CHANNELS;
  j->is_merged = w->dilation == 1 && w->k > 1 && (v->cg < WEFT_TILE_ROWS / 2 || !j->has_lines);
  const int64_t block =
      j->is_merged ? v->cg
                   : blocks_of(v->cg, blocks_of(v->cg, (int64_t)WEFT_TILE_ROWS)); /* tiles of even height */
  j->lines = (weft_lines_t){.size = j->size,
                            .in = w->in,
                            .pitch = v->c,
                            .from = -w->before,
                            .width = width,
                            .channels = v->cg,
                            .block = block};
  j->line_rows = (j->rows - 1) * h->stride + (h->k - 1) * h->dilation + 1;
}

static void plan(filter_job_t *j, int threads) {
  const weft_conv_t *v = j->v;
  const int64_t taps = j->s[0].k * j->s[1].k, filter = taps * j->s[2].k * v->cg * v->oc;
  const int64_t block = filter * (int64_t)j->size > LARGE_FILTER ? MORE_PIXELS : BLOCK_PIXELS;
  flatten(j, block);
  /* These decide the order of the sum, so they depend on the shape alone. */
  const int64_t slices = j->n * j->s[0].out, all = slices * j->s[1].out * j->s[2].out;
  j->rows = j->pixels > 0 ? 1 : block / j->s[2].out < 1 ? 1 : least(block / j->s[2].out, j->s[1].out);
  j->slices = j->rows < j->s[1].out
                  ? 1
                  : least(slices, block / (j->rows * j->s[2].out) < 1 ? 1 : block / (j->rows * j->s[2].out));
  if (j->pixels > 0) j->slices = 1;
  j->slice_blocks = blocks_of(slices, j->slices);
  j->row_blocks = blocks_of(j->s[1].out, j->rows);
  j->pieces = least(least(all / PIECE_PIXELS, MOST_PIECES), j->slice_blocks * j->row_blocks);
  if (j->pieces < 1) j->pieces = 1;
  /* These do not. */
  j->panel_width = 2 * weft_tile_vector(v->dtype);
  j->panels = blocks_of(j->m, j->panel_width);
  plan_lines(j);
  /* Channels first: what a task lays out of the input is its own then. */
  const int64_t wanted = threads <= 1 ? 1 : 3 * (int64_t)threads;
  int64_t there = j->pieces * v->groups;
  const bool is_blocked = j->has_lines && !j->is_merged;
  j->channel_groups =
      is_blocked ? least(blocks_of(v->cg, j->lines.block * NEAR_BLOCKS), blocks_of(wanted, there)) : 1;
  there *= j->channel_groups;
  j->panel_groups = least(j->panels, blocks_of(wanted, there));
  there *= j->panel_groups;
  j->tap_groups = least(taps, blocks_of(wanted, there));
}

weft_status_t *weft_direct_filter(weft_thread_pool_t *pool, const weft_conv_t *v, const void *x,
                                  const void *dy, void *df) {
  enum { ALONE = 1 << 19 }; /* multiplications below which a second thread costs more than it saves */
  filter_job_t j = {.v = v,
                    .size = weft_dtype_size(v->dtype),
                    .x = x,
                    .dy = dy,
                    .df = df,
                    .n = v->n,
                    .m = v->oc / v->groups,
                    .s = {v->s[0], v->s[1], v->s[2]}};
  const int64_t filter = v->s[0].k * v->s[1].k * v->s[2].k * v->cg * v->oc;
  const double work = (double)(v->n * v->s[0].out) * (double)(v->s[1].out * v->s[2].out) * (double)filter;
  if (work < ALONE) pool = NULL;
  plan(&j, pool == NULL ? 1 : weft_thread_pool_size(pool));
  const size_t bytes = (size_t)filter * j.size;
  if (j.pieces > 1) j.df = weft_malloc(bytes * (size_t)j.pieces);
  if (j.df == NULL) return WEFT_NO_MEMORY("the gradient of a filter");
  memset(j.df, 0, bytes * (size_t)j.pieces);
  weft_parallel_for(pool, j.pieces * v->groups * j.channel_groups * j.panel_groups * j.tap_groups, 1,
                    filter_range, &j);
  if (j.pieces > 1) {
    weft_update_fn *add = weft_update_find(WEFT_UPDATE_ADD, v->dtype);
    memcpy(df, j.df, bytes);
    for (int64_t p = 1; p < j.pieces; p++) add(df, j.df + (size_t)p * bytes, filter, false);
    weft_free(j.df);
  }
  return atomic_load(&j.status);
}
