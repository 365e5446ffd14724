/* tools/submit/feeds.c - parsing and cutting. */
#include "tools/submit/feeds.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "io/npy.h"

static weft_status_t *no_memory(void) { return WEFT_ERROR(RESOURCE_EXHAUSTED, "no memory for feeds"); }

weft_status_t *weft_find_output(TF_Graph *graph, const char *text, TF_Output *out) {
  weft_str_t whole = weft_str(text), name = whole;
  int64_t index = 0;
  ptrdiff_t colon = weft_str_rfind(whole, ':');
  if (colon > 0) {
    if (!weft_str_to_i64(weft_str_of(text + colon + 1, whole.length - (size_t)colon - 1), &index)) {
      return WEFT_ERROR(INVALID_ARGUMENT, "'%s' is not NODE or NODE:OUTPUT", text);
    }
    name = weft_str_of(text, (size_t)colon);
  }
  char *node = weft_strndup(name.data, name.length);
  if (node == NULL) return no_memory();
  TF_Operation *op = TF_GraphOperationByName(graph, node);
  weft_free(node);
  if (op == NULL) return WEFT_ERROR(NOT_FOUND, "the graph has no node '%.*s'; `weft inspect` lists inputs and outputs", WEFT_STR_ARGS(name));
  if (index < 0 || index >= TF_OperationNumOutputs(op)) {
    return WEFT_ERROR(NOT_FOUND, "node '%.*s' has %d outputs, so there is no '%s'", WEFT_STR_ARGS(name), TF_OperationNumOutputs(op), text);
  }
  *out = (TF_Output){op, (int)index};
  return NULL;
}

/* ---- one feed ---- */

static weft_status_t *bad_value(const char *name, const char *value, int dtype) {
  return WEFT_ERROR(INVALID_ARGUMENT, "--feed %s: '%s' is neither a %s nor a .npy file", name, value, weft_dtype_name(dtype));
}

static weft_status_t *parse_scalar(const char *name, const char *value, int dtype, weft_tensor_t **out) {
  if (dtype == WEFT_STRING) return weft_tensor_string(weft_str(value), out);
  char *end = NULL;
  errno = 0;
  double number = strtod(value, &end);
  bool is_number = end != value && *end == '\0' && errno == 0;
  int64_t integer = 0;
  bool is_integer = weft_str_to_i64(weft_str(value), &integer);
  weft_tensor_t *t = NULL;
  WEFT_RETURN_IF_ERROR(weft_tensor_new((weft_dtype_t)dtype, &WEFT_SCALAR, NULL, &t));
  bool ok = true;
  switch (dtype) {
    case WEFT_F32: *(float *)t->data = (float)number; ok = is_number; break;
    case WEFT_F64: *(double *)t->data = number; ok = is_number; break;
    case WEFT_F16: *(uint16_t *)t->data = weft_f32_to_f16((float)number); ok = is_number; break;
    case WEFT_BF16: *(uint16_t *)t->data = weft_f32_to_bf16((float)number); ok = is_number; break;
    case WEFT_I8: *(int8_t *)t->data = (int8_t)integer; ok = is_integer && integer >= INT8_MIN && integer <= INT8_MAX; break;
    case WEFT_U8: *(uint8_t *)t->data = (uint8_t)integer; ok = is_integer && integer >= 0 && integer <= UINT8_MAX; break;
    case WEFT_I16: *(int16_t *)t->data = (int16_t)integer; ok = is_integer && integer >= INT16_MIN && integer <= INT16_MAX; break;
    case WEFT_U16: *(uint16_t *)t->data = (uint16_t)integer; ok = is_integer && integer >= 0 && integer <= UINT16_MAX; break;
    case WEFT_I32: *(int32_t *)t->data = (int32_t)integer; ok = is_integer && integer >= INT32_MIN && integer <= INT32_MAX; break;
    case WEFT_U32: *(uint32_t *)t->data = (uint32_t)integer; ok = is_integer && integer >= 0 && integer <= UINT32_MAX; break;
    case WEFT_I64: *(int64_t *)t->data = integer; ok = is_integer; break;
    case WEFT_U64: ok = weft_str_to_u64(weft_str(value), t->data); break;
    case WEFT_BOOL:
      ok = strcmp(value, "true") == 0 || strcmp(value, "false") == 0 || (is_integer && (integer == 0 || integer == 1));
      *(uint8_t *)t->data = strcmp(value, "true") == 0 || integer == 1;
      break;
    default: ok = false;
  }
  if (!ok) {
    weft_tensor_release(t);
    return bad_value(name, value, dtype);
  }
  *out = t;
  return NULL;
}

static weft_status_t *init_feed(weft_feeds_t *f, weft_feed_t *feed, TF_Graph *graph, const char *spec) {
  const char *equals = strchr(spec, '=');
  if (equals == NULL || equals == spec) return WEFT_ERROR(INVALID_ARGUMENT, "--feed %s: give NAME=VALUE or NAME=FILE.npy", spec);
  char *name = weft_strndup(spec, (size_t)(equals - spec));
  if (name == NULL) return no_memory();
  const char *value = equals + 1;
  weft_status_t *s = weft_find_output(graph, name, &feed->output);
  int dtype = s == NULL ? (int)TF_OperationOutputType(feed->output) : 0;
  feed->is_array = weft_str_ends_with(weft_str(value), ".npy");
  if (s == NULL) s = feed->is_array ? weft_npy_read(value, &feed->data) : parse_scalar(name, value, dtype, &feed->data);
  if (s == NULL && (int)feed->data->dtype != dtype) {
    s = WEFT_ERROR(INVALID_ARGUMENT, "--feed %s: %s holds %s, but the graph wants %s", name, value, weft_dtype_name(feed->data->dtype),
                   weft_dtype_name(dtype));
  }
  if (s == NULL && feed->is_array && f->batch > 0) {
    int64_t rows = feed->data->shape.rank > 0 ? feed->data->shape.dims[0] : 0;
    if (rows < 1) s = WEFT_ERROR(INVALID_ARGUMENT, "--feed %s: %s has no rows to make batches of", name, value);
    if (s == NULL && f->rows != 0 && f->rows != rows) {
      s = WEFT_ERROR(INVALID_ARGUMENT, "--feed %s: %s has %" PRId64 " rows, another feed has %" PRId64, name, value, rows, f->rows);
    }
    f->rows = rows;
  }
  weft_free(name);
  return s;
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

weft_status_t *weft_feeds_init(weft_feeds_t *f, TF_Graph *graph, const char *const *specs, int n, int64_t batch, bool is_shuffled,
                               uint64_t seed) {
  *f = (weft_feeds_t){.batch = batch, .state = seed};
  f->feeds = weft_calloc((size_t)n + 1, sizeof *f->feeds);
  f->outputs = weft_calloc((size_t)n + 1, sizeof *f->outputs);
  f->tensors = weft_calloc((size_t)n + 1, sizeof(TF_Tensor *));
  weft_status_t *s = f->feeds == NULL || f->outputs == NULL || f->tensors == NULL ? no_memory() : NULL;
  for (int i = 0; s == NULL && i < n; i++) {
    f->n = i + 1;
    s = init_feed(f, &f->feeds[i], graph, specs[i]);
    f->outputs[i] = f->feeds[i].output;
  }
  if (s == NULL && batch > 0 && f->rows == 0) s = WEFT_ERROR(INVALID_ARGUMENT, "--batch needs a --feed NAME=FILE.npy to cut");
  if (s == NULL && is_shuffled && batch == 0) s = WEFT_ERROR(INVALID_ARGUMENT, "--shuffle needs --batch");
  if (s == NULL && is_shuffled) {
    f->order = weft_calloc((size_t)f->rows, sizeof *f->order);
    if (f->order == NULL) s = no_memory();
    for (int64_t i = 0; s == NULL && i < f->rows; i++) f->order[i] = i;
    if (s == NULL) shuffle(f);
  }
  if (s != NULL) weft_feeds_deinit(f);
  return s;
}

void weft_feeds_deinit(weft_feeds_t *f) {
  for (int i = 0; i < f->n; i++) {
    weft_tensor_release(f->feeds[i].data);
    TF_DeleteTensor(f->feeds[i].batch);
  }
  weft_free(f->feeds);
  weft_free(f->outputs);
  weft_free(f->tensors);
  weft_free(f->order);
  *f = (weft_feeds_t){0};
}

weft_status_t *weft_feeds_next(weft_feeds_t *f) {
  if (f->batch > 0 && f->next >= f->rows) {
    f->next = 0;
    shuffle(f);
  }
  int64_t rows = f->rows - f->next < f->batch ? f->rows - f->next : f->batch;
  for (int i = 0; i < f->n; i++) {
    weft_feed_t *feed = &f->feeds[i];
    bool is_cut = feed->is_array && f->batch > 0;
    if (feed->batch != NULL && !is_cut) continue; /* the same at every step */
    TF_DeleteTensor(feed->batch);
    feed->batch = NULL;
    WEFT_RETURN_IF_ERROR(weft_gather_rows(feed->data, f->order, f->next, is_cut ? rows : -1, &feed->batch));
    f->tensors[i] = feed->batch;
  }
  f->next += rows;
  return NULL;
}
