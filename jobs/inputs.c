/* jobs/inputs.c - arrays are cut, callbacks are asked and what they give is checked. */
#include "jobs/inputs.h"

#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "client/tensor.h"
#include "jobs/c_api.h"
#include "protos/wire.h"

static weft_status_t *no_memory(void) { return WEFT_NO_MEMORY("inputs"); }

void weft_job_inputs_init(weft_job_inputs_t *f, TF_Graph *graph, const weft_job_batching_t *how,
                          const weft_job_words_t *words) {
  *f = (weft_job_inputs_t){.words = words,
                           .graph = graph,
                           .arena = WEFT_ARENA_INIT,
                           .batch = how->batch,
                           .is_shuffled = how->is_shuffled,
                           .seed = how->seed,
                           .state = how->seed};
}

void weft_job_inputs_deinit(weft_job_inputs_t *f) {
  for (int i = 0; i < f->n; i++) {
    weft_tensor_release(f->items[i].data);
    TF_DeleteTensor(f->items[i].whole);
  }
  weft_free(f->items);
  weft_free(f->sources);
  weft_free(f->order);
  weft_job_names_deinit(&f->names);
  weft_arena_deinit(&f->arena);
  TF_DeleteStatus(f->status);
  *f = (weft_job_inputs_t){.arena = WEFT_ARENA_INIT};
}

/* ---- one input ---- */

static const char *name_of(const weft_job_inputs_t *f, int i) { return f->names.names[i].data; }

/* Arrays that differ in their rows: which of them are the batch? Names those that have as many rows as the
 * first. */
static weft_status_t *differing_rows(const weft_job_inputs_t *f, int at, const char *text) {
  weft_strbuf_t names = WEFT_STRBUF_INIT, hint = WEFT_STRBUF_INIT;
  for (int i = 0; i < at; i++) {
    const weft_job_input_t *other = &f->items[i];
    if (other->data == NULL || !other->is_rows || other->data->shape.rank == 0 ||
        other->data->shape.dims[0] != f->rows)
      continue;
    weft_strbuf_printf(&names, "%s%s", names.length == 0 ? "" : "+",
                       TF_OperationName(f->names.outputs[i].oper));
  }
  const char *batch = names.data == NULL ? "" : names.data;
  if (f->words->lists_batches) {
    weft_strbuf_printf(&hint,
                       "if not all arrays are batches, name those that are: %s %" PRId64
                       ":%s (with %s also NAME:batch=%s)",
                       f->words->batch, f->batch, batch, f->words->strategy, batch);
  } else {
    weft_strbuf_puts(&hint, "an array that is no batch is given as WEFT_JOB_WHOLE");
  }
  weft_status_t *s =
      WEFT_ERROR(INVALID_ARGUMENT, "%s %s: %s has %" PRId64 " rows, but %s has %" PRId64 "; %s",
                 f->words->input, name_of(f, at), text, f->items[at].data->shape.dims[0], batch, f->rows,
                 hint.data == NULL ? "" : hint.data);
  weft_strbuf_deinit(&names);
  weft_strbuf_deinit(&hint);
  return s;
}

/* All arrays that are cut into batches have the same rows. */
static weft_status_t *check_rows(weft_job_inputs_t *f, int i, const char *text) {
  const weft_tensor_t *data = f->items[i].data;
  if (!f->items[i].is_rows || f->batch == 0) return NULL;
  int64_t rows = data->shape.rank > 0 ? data->shape.dims[0] : 0;
  if (rows < 1)
    return WEFT_ERROR(INVALID_ARGUMENT, "%s %s: %s has no rows to make batches of", f->words->input,
                      name_of(f, i), text);
  if (!weft_dtype_is_plain(data->dtype)) {
    return WEFT_ERROR(INVALID_ARGUMENT, "%s %s: %s holds %s, which cannot be split into rows",
                      f->words->input, name_of(f, i), text, weft_dtype_name(data->dtype));
  }
  if (f->rows != 0 && f->rows != rows) return differing_rows(f, i, text);
  f->rows = rows;
  return NULL;
}

/* VersionDef: producer = 1. */
static int64_t producer_of(TF_Graph *graph, TF_Status *status) {
  int64_t producer = 0;
  weft_wire_field_t field;
  TF_Buffer *versions = TF_NewBuffer();
  if (versions == NULL) return 0;
  TF_GraphVersions(graph, versions, status);
  weft_wire_reader_t r = weft_wire_reader(weft_str_of(versions->data, versions->length));
  while (weft_wire_next(&r, &field)) {
    if (field.tag == WEFT_WIRE_TAG(1, WEFT_WIRE_VARINT)) producer = (int64_t)field.value;
  }
  TF_DeleteBuffer(versions);
  return producer;
}

/* Graphs of TensorFlow 1.0 and before say a scalar also where they do not know the shape. */
static bool may_be_unknown(const weft_job_inputs_t *f, TF_Output output, TF_Status *status) {
  enum { LAST_AMBIGUOUS = 21 };
  return strcmp(TF_OperationOpType(output.oper), "Placeholder") == 0 &&
         producer_of(f->graph, status) <= LAST_AMBIGUOUS;
}

/* The shape that the graph declares for an input; the unknown shape if it declares none. */
static weft_status_t *declared_shape(const weft_job_inputs_t *f, int i, weft_shape_t *out) {
  int64_t dims[WEFT_MAX_DIMS];
  *out = WEFT_UNKNOWN_SHAPE;
  TF_Status *status = TF_NewStatus();
  if (status == NULL) return no_memory();
  const int rank = TF_GraphGetTensorNumDims(f->graph, f->names.outputs[i], status);
  const bool is_known = TF_GetCode(status) == TF_OK && rank >= 0 && rank <= WEFT_MAX_DIMS &&
                        (rank > 0 || !may_be_unknown(f, f->names.outputs[i], status));
  if (is_known) TF_GraphGetTensorShape(f->graph, f->names.outputs[i], dims, rank, status);
  TF_DeleteStatus(status);
  return is_known ? weft_client_shape(dims, rank, out) : NULL;
}

/* An array as TensorFlow's session takes a fed value: of the declared shape. As many rows as a batch has are
 * fed of it. */
static weft_status_t *check_array(const weft_job_inputs_t *f, int i, const char *text) {
  const weft_tensor_t *data = f->items[i].data;
  weft_shape_t declared, fed = data->shape;
  WEFT_RETURN_IF_ERROR(declared_shape(f, i, &declared));
  if (f->items[i].is_rows && f->batch > 0 && fed.rank > 0) fed.dims[0] = WEFT_UNKNOWN_DIM;
  if (weft_shape_compatible(&declared, &fed)) return NULL;
  return WEFT_ERROR(
      INVALID_ARGUMENT, "%s %s: cannot feed %s of shape %s for tensor %s:%d, which has shape %s",
      f->words->input, name_of(f, i), text, WEFT_SHAPE_TEXT(&data->shape),
      TF_OperationName(f->names.outputs[i].oper), f->names.outputs[i].index, WEFT_SHAPE_TEXT(&declared));
}

/* Finds the name and makes room; the new input has the index f->n - 1. */
static weft_status_t *add_name(weft_job_inputs_t *f, weft_str_t name) {
  TF_Output output;
  WEFT_RETURN_IF_ERROR(weft_job_find_output(f->graph, f->words, f->words->input, name, &output));
  for (int k = 0; k < f->n; k++) {
    if (f->names.outputs[k].oper != output.oper || f->names.outputs[k].index != output.index) continue;
    return WEFT_ERROR(INVALID_ARGUMENT, "%s %.*s is given twice", f->words->input, WEFT_STR_ARGS(name));
  }
  if (f->n == f->capacity) {
    int capacity = f->capacity == 0 ? 8 : 2 * f->capacity;
    weft_job_input_t *more = weft_realloc(f->items, (size_t)capacity, sizeof *more);
    if (more == NULL) return no_memory();
    f->items = more;
    f->capacity = capacity;
  }
  WEFT_RETURN_IF_ERROR(weft_job_names_add(&f->names, &f->arena, name, output));
  f->items[f->n++] = (weft_job_input_t){.data = NULL};
  return NULL;
}

static void drop_from(weft_job_inputs_t *f, int n) {
  while (f->n > n) weft_tensor_release(f->items[--f->n].data);
  f->names.n = n;
}

weft_status_t *weft_job_inputs_add(weft_job_inputs_t *f, weft_str_t name, weft_tensor_t *data, bool is_rows,
                                   const char *text) {
  int at = f->n;
  weft_status_t *s = add_name(f, name);
  if (s != NULL) {
    weft_tensor_release(data);
    return s;
  }
  f->items[at] = (weft_job_input_t){.data = data, .is_rows = is_rows};
  int dtype = (int)TF_OperationOutputType(f->names.outputs[at]);
  if ((int)data->dtype != dtype) {
    s = WEFT_ERROR(INVALID_ARGUMENT, "%s %s: %s holds %s, but the graph expects %s; save the array as that",
                   f->words->input, name_of(f, at), text, weft_dtype_name(data->dtype),
                   weft_dtype_name(dtype));
  }
  if (s == NULL) s = check_array(f, at, text);
  if (s == NULL) s = check_rows(f, at, text);
  if (s != NULL) drop_from(f, at);
  return s;
}

weft_status_t *weft_job_inputs_add_source(weft_job_inputs_t *f, const char *const *names, int n,
                                          WEFT_JobSourceFn fn, void *arg) {
  int first = f->n;
  if (n < 1 || fn == NULL)
    return WEFT_ERROR(INVALID_ARGUMENT, "%s: a source needs a function and at least one input",
                      f->words->input);
  if (f->status == NULL) f->status = TF_NewStatus();
  weft_job_source_t *more = weft_realloc(f->sources, (size_t)f->num_sources + 1, sizeof *more);
  if (more != NULL) f->sources = more;
  weft_status_t *s = f->status == NULL || more == NULL ? no_memory() : NULL;
  for (int i = 0; s == NULL && i < n; i++) {
    s = add_name(f, weft_str(names[i]));
    if (s == NULL)
      f->items[f->n - 1].is_rows =
          TF_GraphGetTensorNumDims(f->graph, f->names.outputs[f->n - 1], f->status) != 0;
  }
  if (s != NULL) {
    drop_from(f, first);
    return s;
  }
  f->sources[f->num_sources++] = (weft_job_source_t){.fn = fn, .arg = arg, .first = first, .n = n};
  return NULL;
}

bool weft_job_input_is_batch(const weft_job_inputs_t *f, int i) {
  return f->items[i].is_rows && (f->items[i].data == NULL || f->batch > 0);
}

/* ---- rows ---- */

/* A C API tensor with a copy of `rows` rows of `t`, in an order (NULL: as they lie); rows < 0: all of it. */
static weft_status_t *gather(const weft_tensor_t *t, const int64_t *order, int64_t begin, int64_t rows,
                             TF_Tensor **out) {
  int64_t dims[WEFT_MAX_DIMS];
  for (int i = 0; i < t->shape.rank; i++) dims[i] = t->shape.dims[i];
  size_t row_bytes = rows < 0 ? t->bytes : t->bytes / (size_t)t->shape.dims[0];
  size_t bytes = rows < 0 ? t->bytes : row_bytes * (size_t)rows;
  if (rows >= 0) dims[0] = rows;
  TF_Tensor *copy = TF_AllocateTensor((TF_DataType)t->dtype, dims, t->shape.rank, bytes);
  if (copy == NULL) return no_memory();
  char *to = TF_TensorData(copy);
  if (rows < 0 || order == NULL) {
    if (bytes > 0) memcpy(to, (const char *)t->data + (rows < 0 ? 0 : (size_t)begin * row_bytes), bytes);
  } else {
    for (int64_t i = 0; i < rows; i++) {
      memcpy(to + (size_t)i * row_bytes, (const char *)t->data + (size_t)order[begin + i] * row_bytes,
             row_bytes);
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
static void shuffle(weft_job_inputs_t *f) {
  for (int64_t i = f->rows - 1; f->order != NULL && i > 0; i--) {
    int64_t k = (int64_t)(random_number(&f->state) % (uint64_t)(i + 1)), swap = f->order[i];
    f->order[i] = f->order[k];
    f->order[k] = swap;
  }
}

weft_status_t *weft_job_inputs_begin(weft_job_inputs_t *f) {
  bool asks = f->num_sources > 0;
  if (f->batch > 0 && f->rows == 0 && !asks)
    return WEFT_ERROR(INVALID_ARGUMENT, "%s needs a %s to cut", f->words->batch, f->words->array);
  if (f->is_shuffled && f->batch == 0)
    return WEFT_ERROR(INVALID_ARGUMENT, "%s needs %s", f->words->shuffle, f->words->batch);
  f->epoch = f->next = f->num_given = 0;
  f->state = f->seed;
  if (!f->is_shuffled || f->rows == 0) return NULL;
  weft_free(f->order);
  f->order = weft_calloc((size_t)f->rows, sizeof *f->order);
  if (f->order == NULL) return no_memory();
  for (int64_t i = 0; i < f->rows; i++) f->order[i] = i;
  shuffle(f);
  return NULL;
}

void weft_job_inputs_seek(weft_job_inputs_t *f, int64_t epoch, int64_t next) {
  for (; f->epoch < epoch; f->epoch++) shuffle(f); /* each order is made of the one before it */
  f->next = next;
  int64_t per_epoch = f->batch > 0 ? (f->rows + f->batch - 1) / f->batch : 0;
  f->num_given = epoch * per_epoch + (f->batch > 0 ? (next + f->batch - 1) / f->batch : 0);
}

static weft_job_rows_t advance(weft_job_inputs_t *f) {
  if (f->rows > 0 && f->next >= f->rows) {
    f->next = 0;
    f->epoch++;
    shuffle(f);
  }
  weft_job_rows_t b = {.begin = f->next, .rows = f->rows - f->next < f->batch ? f->rows - f->next : f->batch};
  f->next += b.rows;
  return b;
}

/* Arrays are shared with the caller's, strings too. */
static weft_status_t *box(weft_tensor_t *t, TF_Tensor **out) {
  return weft_client_tensor_new(weft_tensor_retain(t), out);
}

weft_status_t *weft_job_input_whole(const weft_job_inputs_t *f, int i, TF_Tensor **out) {
  if (f->items[i].data != NULL) return box(f->items[i].data, out);
  return WEFT_ERROR(FAILED_PRECONDITION,
                    "%s %s: initialisers need it, and it comes from a function; give an array",
                    f->words->input, name_of(f, i));
}

/* ---- callbacks ---- */

static weft_status_t *wrong(const weft_job_inputs_t *f, int i, const char *what) {
  return WEFT_ERROR(INVALID_ARGUMENT, "%s %s: the source's batch %" PRId64 " %s", f->words->input,
                    name_of(f, i), f->num_given, what);
}

static weft_status_t *check_shape(const weft_job_inputs_t *f, int i, const TF_Tensor *value) {
  int64_t dims[WEFT_MAX_DIMS];
  weft_shape_t shape, wanted;
  WEFT_RETURN_IF_ERROR(declared_shape(f, i, &wanted));
  int given = TF_NumDims(value);
  for (int d = 0; d < given && d < WEFT_MAX_DIMS; d++) dims[d] = TF_Dim(value, d);
  WEFT_RETURN_IF_ERROR(weft_shape_make(dims, given, &shape));
  if (weft_shape_compatible(&wanted, &shape)) return NULL;
  return WEFT_ERROR(
      INVALID_ARGUMENT, "%s %s: the source's batch %" PRId64 " has the shape %s, but the graph expects %s",
      f->words->input, name_of(f, i), f->num_given, WEFT_SHAPE_TEXT(&shape), WEFT_SHAPE_TEXT(&wanted));
}

static weft_status_t *check_value(const weft_job_inputs_t *f, const weft_job_source_t *from, int i,
                                  TF_Tensor *const *tensors) {
  const TF_Tensor *value = tensors[i];
  int dtype = (int)TF_OperationOutputType(f->names.outputs[i]);
  if (value == NULL) return wrong(f, i, "lacks its value, and has others");
  if ((int)TF_TensorType(value) != dtype) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "%s %s: the source's batch %" PRId64 " holds %s, but the graph expects %s",
                      f->words->input, name_of(f, i), f->num_given,
                      weft_dtype_name((int)TF_TensorType(value)), weft_dtype_name(dtype));
  }
  WEFT_RETURN_IF_ERROR(check_shape(f, i, value));
  if (from->n == 1) return NULL;
  int64_t rows = TF_NumDims(value) > 0 ? TF_Dim(value, 0) : -1;
  int64_t first = TF_NumDims(tensors[from->first]) > 0 ? TF_Dim(tensors[from->first], 0) : -1;
  if (rows == first && rows >= 0) return NULL;
  return wrong(f, i, "has another number of rows than the source's other values");
}

static weft_status_t *ask(weft_job_inputs_t *f, const weft_job_source_t *from, TF_Tensor **tensors,
                          bool *is_owned, bool *out_has_ended) {
  int num_null = 0;
  TF_SetStatus(f->status, TF_OK, "");
  from->fn(from->arg, f->num_given, tensors + from->first, from->n, f->status);
  for (int i = from->first; i < from->first + from->n; i++) {
    is_owned[i] = tensors[i] != NULL;
    num_null += tensors[i] == NULL;
  }
  weft_status_t *s = weft_job_c_api_status(f->status);
  if (s != NULL)
    return weft_status_annotate(s, "%s %s: the source of batch %" PRId64, f->words->input,
                                name_of(f, from->first), f->num_given);
  *out_has_ended = num_null == from->n;
  for (int i = from->first; s == NULL && !*out_has_ended && i < from->first + from->n; i++)
    s = check_value(f, from, i, tensors);
  return s;
}

weft_status_t *weft_job_inputs_next(weft_job_inputs_t *f, TF_Tensor **tensors, bool *is_owned,
                                    bool *out_has_ended) {
  weft_status_t *s = NULL;
  *out_has_ended = false;
  for (int i = 0; i < f->n; i++) tensors[i] = NULL;
  for (int k = 0; s == NULL && !*out_has_ended && k < f->num_sources; k++)
    s = ask(f, &f->sources[k], tensors, is_owned, out_has_ended);
  if (s != NULL || *out_has_ended) return s;
  f->num_given++;
  weft_job_rows_t rows = advance(f);
  for (int i = 0; s == NULL && i < f->n; i++) {
    weft_job_input_t *input = &f->items[i];
    if (input->data == NULL) continue;
    is_owned[i] = weft_job_input_is_batch(f, i);
    if (is_owned[i]) {
      s = gather(input->data, f->order, rows.begin, rows.rows, &tensors[i]);
    } else {
      if (input->whole == NULL) s = box(input->data, &input->whole);
      tensors[i] = input->whole;
    }
  }
  return s;
}
