/* tools/submit/feeds.c - parsing and cutting. */
#include "tools/submit/feeds.h"

#include <inttypes.h>

#include "base/alloc.h"
#include "io/npy.h"
#include "tools/submit/names.h"
#include "tools/submit/value.h"

static weft_status_t *no_memory(void) { return WEFT_ERROR(RESOURCE_EXHAUSTED, "no memory for feeds"); }

/* ---- one feed ---- */

static weft_status_t *check_type(const weft_feed_t *feed, weft_str_t name, const char *value, int dtype) {
  if ((int)feed->data->dtype == dtype) return NULL;
  return WEFT_ERROR(INVALID_ARGUMENT, "--feed %.*s: %s holds %s, but the graph wants %s; save the array as that", WEFT_STR_ARGS(name),
                    value, weft_dtype_name(feed->data->dtype), weft_dtype_name(dtype));
}

static weft_str_t without_zero(weft_str_t name) {
  if (weft_str_ends_with(name, ":0")) name.length -= 2;
  return name;
}

/* The next name of "x+y:0". */
static bool next_name(weft_str_t *rest, weft_str_t *out) {
  if (rest->length == 0) return false;
  weft_str_t head = *rest, tail = WEFT_STR("");
  weft_str_split(*rest, '+', &head, &tail);
  *rest = tail;
  *out = without_zero(head);
  return true;
}

static bool is_named(const char *names, weft_str_t name) {
  weft_str_t rest = weft_str(names), one;
  while (next_name(&rest, &one)) {
    if (weft_str_eq(one, without_zero(name))) return true;
  }
  return false;
}

/* Arrays that differ in their rows: which of them are the batch? Names those that have as many rows as the first. */
static weft_status_t *differing_rows(const weft_feeds_t *f, const weft_feed_t *feed, weft_str_t name, const char *value) {
  weft_strbuf_t names = WEFT_STRBUF_INIT;
  for (int i = 0; i < f->n; i++) {
    const weft_feed_t *other = &f->feeds[i];
    if (other == feed || !other->is_batch || other->data->shape.rank == 0 || other->data->shape.dims[0] != f->rows) continue;
    weft_strbuf_printf(&names, "%s%s", names.length == 0 ? "" : "+", TF_OperationName(other->output.oper));
  }
  const char *batch = names.data == NULL ? "" : names.data;
  weft_status_t *s = WEFT_ERROR(
      INVALID_ARGUMENT,
      "--feed %.*s: %s has %" PRId64 " rows, but %s has %" PRId64 "; if not all arrays are batches, name those that are: --batch %" PRId64
      ":%s (with --strategy also NAME:batch=%s)",
      WEFT_STR_ARGS(name), value, feed->data->shape.dims[0], batch, f->rows, f->batch, batch, batch);
  weft_strbuf_deinit(&names);
  return s;
}

/* All arrays that are cut into batches have the same rows. */
static weft_status_t *check_rows(weft_feeds_t *f, const weft_feed_t *feed, weft_str_t name, const char *value) {
  if (!weft_feed_is_cut(f, feed)) return NULL;
  int64_t rows = feed->data->shape.rank > 0 ? feed->data->shape.dims[0] : 0;
  if (rows < 1) return WEFT_ERROR(INVALID_ARGUMENT, "--feed %.*s: %s has no rows to make batches of", WEFT_STR_ARGS(name), value);
  if (f->rows != 0 && f->rows != rows) return differing_rows(f, feed, name, value);
  f->rows = rows;
  return NULL;
}

static weft_status_t *read_value(weft_feed_t *feed, weft_str_t name, const char *value, int dtype) {
  feed->is_array = weft_str_ends_with(weft_str(value), ".npy");
  weft_status_t *s = feed->is_array ? weft_npy_read(value, &feed->data) : weft_value_parse(weft_str(value), dtype, &feed->data);
  if (s == NULL) return NULL;
  const char *hint = feed->is_array || strchr(value, '/') == NULL ? "" : "; a file's name ends with .npy";
  bool is_named = !feed->is_array || strstr(weft_status_message(s), value) != NULL;
  weft_status_t *told = weft_status_new(weft_status_code(s), __FILE__, __LINE__, "--feed %.*s: %s%s%s%s", WEFT_STR_ARGS(name),
                                        is_named ? "" : value, is_named ? "" : ": ", weft_status_message(s), hint);
  weft_status_free(s);
  return told;
}

static weft_status_t *init_feed(weft_feeds_t *f, int i, TF_Graph *graph, const char *spec, const char *batch_names) {
  weft_feed_t *feed = &f->feeds[i];
  weft_str_t name, rest;
  if (!weft_str_split(weft_str(spec), '=', &name, &rest) || name.length == 0) {
    return WEFT_ERROR(INVALID_ARGUMENT, "--feed %s: give NAME=VALUE or NAME=FILE.npy", spec);
  }
  const char *value = rest.data; /* up to the end of the argument */
  WEFT_RETURN_IF_ERROR(weft_find_output(graph, "--feed", name, &feed->output));
  for (int k = 0; k < i; k++) {
    if (f->feeds[k].output.oper != feed->output.oper || f->feeds[k].output.index != feed->output.index) continue;
    return WEFT_ERROR(INVALID_ARGUMENT, "--feed %.*s is given twice", WEFT_STR_ARGS(name));
  }
  int dtype = (int)TF_OperationOutputType(feed->output);
  WEFT_RETURN_IF_ERROR(read_value(feed, name, value, dtype));
  WEFT_RETURN_IF_ERROR(check_type(feed, name, value, dtype));
  feed->is_batch = feed->is_array && (batch_names == NULL || is_named(batch_names, name));
  return check_rows(f, feed, name, value);
}

/* ---- batches ---- */

static void no_dealloc(void *data, size_t length, void *arg) {
  (void)length;
  (void)arg;
  weft_free(data);
}

weft_status_t *weft_gather_rows(const weft_tensor_t *t, const int64_t *order, int64_t begin, int64_t rows, TF_Tensor **out) {
  int64_t dims[WEFT_MAX_DIMS];
  for (int i = 0; i < t->shape.rank; i++) dims[i] = t->shape.dims[i];
  size_t row_bytes = rows < 0 ? t->bytes : t->bytes / (size_t)t->shape.dims[0];
  size_t bytes = rows < 0 ? t->bytes : row_bytes * (size_t)rows;
  if (rows >= 0) dims[0] = rows;
  if (!weft_dtype_is_plain(t->dtype)) { /* a string scalar */
    TF_TString *text = weft_calloc(1, sizeof *text);
    if (text == NULL) return no_memory();
    weft_str_t s = weft_tensor_str_at(t, 0);
    TF_StringInit(text);
    TF_StringCopy(text, s.data, s.length);
    *out = TF_NewTensor(TF_STRING, NULL, 0, text, sizeof *text, no_dealloc, NULL);
    return *out == NULL ? no_memory() : NULL;
  }
  TF_Tensor *copy = TF_AllocateTensor((TF_DataType)t->dtype, dims, t->shape.rank, bytes);
  if (copy == NULL) return no_memory();
  char *to = TF_TensorData(copy);
  if (rows < 0 || order == NULL) {
    if (bytes > 0) memcpy(to, (const char *)t->data + (rows < 0 ? 0 : (size_t)begin * row_bytes), bytes);
  } else {
    for (int64_t i = 0; i < rows; i++) {
      memcpy(to + (size_t)i * row_bytes, (const char *)t->data + (size_t)order[begin + i] * row_bytes, row_bytes);
    }
  }
  *out = copy;
  return NULL;
}

/* SplitMix64 (Steele, Lea & Flood 2014, fig. 19). */
static uint64_t random_number(uint64_t *state) {
  uint64_t z = (*state += 0x9e3779b97f4a7c15u);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

/* Fisher and Yates. The modulo's bias is below 2^-40 for any number of rows that fits in memory. */
static void shuffle(weft_feeds_t *f) {
  for (int64_t i = f->rows - 1; f->order != NULL && i > 0; i--) {
    int64_t k = (int64_t)(random_number(&f->state) % (uint64_t)(i + 1)), swap = f->order[i];
    f->order[i] = f->order[k];
    f->order[k] = swap;
  }
}

/* All that are named to be batches are arrays that are fed. */
static weft_status_t *check_names(const weft_feeds_t *f, const weft_batching_t *how) {
  weft_str_t rest = weft_str(how->names), name;
  while (next_name(&rest, &name)) {
    bool is_fed = false;
    for (int i = 0; i < f->n; i++) is_fed = is_fed || (f->feeds[i].is_batch && weft_str_is(name, TF_OperationName(f->feeds[i].output.oper)));
    if (!is_fed) {
      return WEFT_ERROR(INVALID_ARGUMENT, "--batch %" PRId64 ":%s: there is no --feed %.*s=FILE.npy", how->batch, how->names, WEFT_STR_ARGS(name));
    }
  }
  return NULL;
}

static weft_status_t *init_order(weft_feeds_t *f) {
  f->order = weft_calloc((size_t)f->rows, sizeof *f->order);
  if (f->order == NULL) return no_memory();
  for (int64_t i = 0; i < f->rows; i++) f->order[i] = i;
  shuffle(f);
  return NULL;
}

weft_status_t *weft_feeds_init(weft_feeds_t *f, TF_Graph *graph, const char *const *specs, int n, const weft_batching_t *how) {
  *f = (weft_feeds_t){.batch = how->batch, .is_shuffled = how->is_shuffled, .seed = how->seed, .state = how->seed};
  f->feeds = weft_calloc((size_t)n + 1, sizeof *f->feeds);
  weft_status_t *s = f->feeds == NULL ? no_memory() : NULL;
  for (int i = 0; s == NULL && i < n; i++) {
    f->n = i + 1;
    s = init_feed(f, i, graph, specs[i], how->names);
  }
  if (s == NULL && how->names != NULL) s = check_names(f, how);
  if (s == NULL && f->batch > 0 && f->rows == 0) s = WEFT_ERROR(INVALID_ARGUMENT, "--batch needs a --feed NAME=FILE.npy to cut");
  if (s == NULL && f->is_shuffled && f->batch == 0) s = WEFT_ERROR(INVALID_ARGUMENT, "--shuffle needs --batch");
  if (s == NULL && f->is_shuffled) s = init_order(f);
  if (s != NULL) weft_feeds_deinit(f);
  return s;
}

void weft_feeds_deinit(weft_feeds_t *f) {
  for (int i = 0; i < f->n; i++) {
    weft_tensor_release(f->feeds[i].data);
    TF_DeleteTensor(f->feeds[i].whole);
  }
  weft_free(f->feeds);
  weft_free(f->order);
  *f = (weft_feeds_t){0};
}

weft_batch_t weft_feeds_advance(weft_feeds_t *f) {
  if (f->batch > 0 && f->next >= f->rows) {
    f->next = 0;
    f->epoch++;
    shuffle(f);
  }
  weft_batch_t b = {.begin = f->next, .rows = f->rows - f->next < f->batch ? f->rows - f->next : f->batch};
  f->next += b.rows;
  return b;
}

void weft_feeds_seek(weft_feeds_t *f, int64_t epoch, int64_t next) {
  for (; f->epoch < epoch; f->epoch++) shuffle(f); /* each order is made of the one before it */
  f->next = next;
}

bool weft_feed_is_cut(const weft_feeds_t *f, const weft_feed_t *feed) { return feed->is_batch && f->batch > 0; }

weft_status_t *weft_feed_rows(weft_feeds_t *f, weft_feed_t *feed, int64_t begin, int64_t rows, TF_Tensor **out) {
  if (weft_feed_is_cut(f, feed)) return weft_gather_rows(feed->data, f->order, begin, rows, out);
  weft_status_t *s = feed->whole != NULL ? NULL : weft_gather_rows(feed->data, NULL, 0, -1, &feed->whole);
  *out = feed->whole;
  return s;
}
