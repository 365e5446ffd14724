/* kernels/cpu/reader/record_input.c - RecordInput: the records of many TFRecord files in random order, epoch
 * after epoch.
 *
 * A buffer of records is filled from the files, in an order that is drawn anew for each epoch; what leaves it
 * is drawn from all that is in it. An epoch ends when the buffer is empty: each record leaves once in each.
 * TensorFlow fills the buffer with threads, so that its order is another one in every run.
 */
#include <inttypes.h>

#include "base/mutex.h"
#include "io/match_files.h"
#include "io/record_reader.h"
#include "kernels/cpu/loops/common.h"
#include "kernels/cpu/random/philox.h"

typedef struct record_input {
  weft_str_t pattern; /* lent by the plan */
  double shift_ratio;
  int64_t buffer_size, batch_size;
  weft_compression_t compression;
  weft_mutex_t mu;
  weft_philox_t random; /* guarded by mu, with what follows */
  weft_path_list_t files;
  size_t next_file;
  weft_byte_stream_t *stream; /* of the file before next_file; NULL: it has ended */
  weft_record_reader_t reader;
  weft_str_t *buffer; /* owned texts */
  size_t n, capacity;
} record_input_t;

static void close_file(record_input_t *r) {
  weft_record_reader_deinit(&r->reader);
  weft_byte_stream_close(r->stream);
  r->stream = NULL;
}

static void destroy(void *state) {
  record_input_t *r = state;
  if (r == NULL) return;
  close_file(r);
  for (size_t i = 0; i < r->n; i++) weft_free((char *)(uintptr_t)r->buffer[i].data);
  weft_free(r->buffer);
  weft_path_list_deinit(&r->files);
  weft_mutex_deinit(&r->mu);
  weft_free(r);
}

static weft_status_t *prepare(const weft_kernel_setup_t *setup, void **out_state) {
  int64_t parallelism = weft_knode_int(setup, "file_parallelism"),
          batch_size = weft_knode_int(setup, "batch_size");
  if (parallelism < 0) {
    return WEFT_ERROR(INVALID_ARGUMENT, "file_parallelism should >= 0, got %" PRId64, parallelism);
  }
  if (batch_size < 0) {
    return WEFT_ERROR(INVALID_ARGUMENT, "batch_size must be non-negative but got %" PRId64, batch_size);
  }
  record_input_t *r = weft_calloc(1, sizeof *r);
  if (r == NULL) return WEFT_NO_MEMORY("preparing %.*s", WEFT_STR_ARGS(setup->node.name));
  weft_mutex_init(&r->mu);
  r->pattern = weft_knode_string(setup, "file_pattern");
  r->shift_ratio = weft_knode_float(setup, "file_shuffle_shift_ratio");
  r->buffer_size = weft_knode_int(setup, "file_buffer_size");
  r->batch_size = batch_size;
  uint64_t seed = (uint64_t)weft_knode_int(setup, "file_random_seed");
  r->random.key[0] = (uint32_t)seed;
  r->random.key[1] = (uint32_t)(seed >> 32);
  (void)weft_compression_find(weft_knode_string(setup, "compression_type"),
                              &r->compression); /* unknown: none, as in TensorFlow */
  *out_state = r;
  return NULL;
}

/* ---- an epoch ---- */

static size_t draw(record_input_t *r, size_t n) {
  uint32_t words[4];
  weft_philox_next(&r->random, words);
  return (size_t)(((uint64_t)words[1] << 32 | words[0]) % n);
}

/* Shuffled, then turned to the left. */
static void order_files(record_input_t *r) {
  char **paths = r->files.paths;
  size_t n = r->files.n;
  for (size_t i = n; i > 1; i--) {
    size_t k = draw(r, i);
    char *swapped = paths[k];
    paths[k] = paths[i - 1];
    paths[i - 1] = swapped;
  }
  size_t shift = r->shift_ratio >= 0 && r->shift_ratio < 1 ? (size_t)(r->shift_ratio * (double)n) : 0;
  for (; shift > 0; shift--) {
    char *first = paths[0];
    memmove(paths, paths + 1, (n - 1) * sizeof paths[0]);
    paths[n - 1] = first;
  }
}

static weft_status_t *begin_epoch(record_input_t *r) {
  weft_path_list_deinit(&r->files);
  r->files = (weft_path_list_t){0};
  r->next_file = 0;
  weft_str_t rest = r->pattern;
  weft_status_t *s = NULL;
  for (bool is_last = false; s == NULL && !is_last;) {
    const char *comma = rest.length == 0 ? NULL : memchr(rest.data, ',', rest.length);
    size_t n = comma == NULL ? rest.length : (size_t)(comma - rest.data);
    is_last = comma == NULL;
    s = weft_match_files(weft_str_of(rest.data, n), &r->files);
    if (!is_last) rest = weft_str_of(rest.data + n + 1, rest.length - n - 1);
  }
  if (s == NULL && r->files.n == 0) {
    s = WEFT_ERROR(NOT_FOUND, "Found no files at %.*s", WEFT_STR_ARGS(r->pattern));
  }
  weft_path_list_sort(&r->files);
  if (s == NULL) order_files(r);
  return s;
}

/* ---- the buffer ---- */

static weft_status_t *open_next(record_input_t *r) {
  const char *path = r->files.paths[r->next_file];
  weft_status_t *s = weft_byte_stream_open(path, r->compression, &r->stream);
  if (s != NULL) {
    weft_status_free(s);
    return WEFT_ERROR(INVALID_ARGUMENT, "Can't open %s", path);
  }
  r->reader = (weft_record_reader_t){.stream = r->stream};
  r->next_file++;
  return NULL;
}

/* A record joins the buffer, at its end. */
static weft_status_t *buffer_add(record_input_t *r, weft_strbuf_t *record) {
  if (r->n == r->capacity) {
    size_t capacity = r->capacity == 0 ? 64 : r->capacity * 2;
    weft_str_t *more = weft_realloc(r->buffer, capacity, sizeof *more);
    if (more == NULL) return WEFT_NO_MEMORY("buffering %zu records", r->n);
    r->buffer = more;
    r->capacity = capacity;
  }
  char *data = NULL;
  size_t length = 0;
  WEFT_RETURN_IF_ERROR(weft_strbuf_finish(record, &data, &length));
  r->buffer[r->n++] = weft_str_of(data, length);
  return NULL;
}

/* Until the buffer is full or the epoch has no more records. */
static weft_status_t *fill_buffer(record_input_t *r) {
  weft_strbuf_t record = WEFT_STRBUF_INIT;
  weft_status_t *s = NULL;
  while (s == NULL && (r->n == 0 || (int64_t)r->n < r->buffer_size)) {
    bool is_end = false;
    if (r->stream == NULL && r->next_file == r->files.n) break;
    if (r->stream == NULL) s = open_next(r);
    if (s == NULL) s = weft_record_reader_next(&r->reader, &record, &is_end);
    if (is_end) close_file(r);
    if (s == NULL && !is_end) s = buffer_add(r, &record);
  }
  weft_strbuf_deinit(&record);
  return s;
}

static weft_status_t *yield_one(record_input_t *r, weft_tensor_t *out, int64_t i) {
  WEFT_RETURN_IF_ERROR(fill_buffer(r));
  if (r->n == 0) { /* the epoch has ended */
    WEFT_RETURN_IF_ERROR(begin_epoch(r));
    WEFT_RETURN_IF_ERROR(fill_buffer(r));
  }
  if (r->n == 0) return WEFT_ERROR(NOT_FOUND, "Found no records at %.*s", WEFT_STR_ARGS(r->pattern));
  size_t k = draw(r, r->n);
  weft_str_t text = r->buffer[k];
  r->buffer[k] = r->buffer[--r->n];
  weft_status_t *s = weft_tensor_set_str(out, i, text);
  weft_free((char *)(uintptr_t)text.data);
  return s;
}

static weft_status_t *record_input(weft_kernel_ctx_t *c) {
  record_input_t *r = c->state;
  weft_shape_t shape = weft_shape_vector(r->batch_size);
  weft_tensor_t *out = NULL;
  WEFT_RETURN_IF_ERROR(weft_out_new(c, 0, WEFT_STRING, &shape, &out));
  weft_status_t *s = NULL;
  weft_mutex_lock(&r->mu);
  for (int64_t i = 0; s == NULL && i < r->batch_size; i++) s = yield_one(r, out, i);
  weft_mutex_unlock(&r->mu);
  return s;
}

const weft_kernel_t weft_cpu_record_input_kernels[] = {
    {.op = "RecordInput", .prepare = prepare, .compute = record_input, .destroy = destroy},
    {0},
};
