/* tools/run/data_graph.c - the pipeline is built by the C API, and its nodes are put into the GraphDef. */
#include "tools/run/data_graph.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "protos/wire.h"
#include "tensor/dtype.h"
#include "tensorflow/c/c_api.h"

enum { AUTOTUNE = -1, NAME = 300, MAX_INPUTS = 4096 };

/* What feeds one input. */
typedef struct fed_input {
  const weft_signature_tensor_t *input;
  int *fields; /* of the files, num_fields of them: several become its last dimension */
  int num_fields;
  TF_DataType read_as;         /* cast to the input's type */
  int64_t dims[WEFT_MAX_DIMS]; /* of one row */
  int rank;
  int parsed; /* of Examples: which of the parsed features it is */
} fed_input_t;

typedef struct pipeline {
  const weft_data_files_t *d;
  const weft_signature_def_t *signature;
  const weft_data_graph_options_t *o;
  TF_Graph *graph;
  TF_Status *status; /* the first failure: nothing is added behind it */
  weft_arena_t arena;
  fed_input_t *inputs;
  int num_inputs;
} pipeline_t;

static weft_status_t *no_memory(void) { return WEFT_NO_MEMORY("a pipeline for data"); }

/* ---- which fields feed which input ---- */

static weft_status_t *no_field(const pipeline_t *p, const weft_signature_tensor_t *t, weft_str_t name) {
  weft_strbuf_t there = WEFT_STRBUF_INIT;
  weft_data_files_print_fields(p->d, &there);
  weft_status_t *s = WEFT_ERROR(
      INVALID_ARGUMENT, "%s: input '%.*s' needs %s '%.*s', but %s has %s; --columns %.*s=NAME says another",
      p->o->option, WEFT_STR_ARGS(t->key), p->d->is_csv ? "the column" : "the feature", WEFT_STR_ARGS(name),
      p->d->files.paths[0], there.data == NULL ? "none" : there.data, WEFT_STR_ARGS(t->key));
  weft_strbuf_deinit(&there);
  return s;
}

/* "FIELD+FIELD", or the input's own name. */
static weft_str_t fields_of(const pipeline_t *p, weft_str_t input) {
  weft_str_t name, rest;
  for (int i = 0; p->o->columns != NULL && i < p->o->columns->n; i++) {
    if (weft_str_split(weft_str(p->o->columns->items[i]), '=', &name, &rest) && weft_str_eq(name, input))
      return rest;
  }
  return input;
}

static weft_status_t *find_fields(pipeline_t *p, fed_input_t *f) {
  weft_str_t rest = fields_of(p, f->input->key), name, tail;
  int most = 1;
  for (size_t i = 0; i < rest.length; i++) most += rest.data[i] == '+';
  f->fields = weft_arena_calloc(&p->arena, (size_t)most, sizeof *f->fields);
  if (f->fields == NULL) return no_memory();
  for (bool more = true; more; rest = tail) {
    more = weft_str_split(rest, '+', &name, &tail);
    if (!more) name = rest;
    const int at = weft_data_files_find(p->d, name);
    if (at < 0) return no_field(p, f->input, name);
    f->fields[f->num_fields++] = at;
  }
  return NULL;
}

/* Features have three types; columns five. */
static int read_as(const pipeline_t *p, int dtype) {
  if (dtype == WEFT_STRING) return WEFT_STRING;
  if (weft_dtype_is_floating(dtype)) return p->d->is_csv && dtype == WEFT_F64 ? WEFT_F64 : WEFT_F32;
  return p->d->is_csv && dtype == WEFT_I32 ? WEFT_I32 : WEFT_I64;
}

static weft_status_t *find_shape(pipeline_t *p, fed_input_t *f) {
  const weft_shape_t *shape = &f->input->shape;
  const weft_signature_tensor_t *t = f->input;
  f->rank = shape->rank > 1 ? shape->rank - 1 : 0;
  for (int d = 0; d < f->rank; d++) {
    f->dims[d] = shape->dims[d + 1];
    if (f->dims[d] >= 0 || (d == 0 && !p->d->is_csv)) continue;
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "%s: input '%.*s' has shape %s: how large a row of it is cannot be known", p->o->option,
                      WEFT_STR_ARGS(t->key), WEFT_SHAPE_TEXT(shape));
  }
  const int64_t columns = f->rank == 0 ? 1 : f->dims[0];
  if (p->d->is_csv && (f->rank > 1 || f->num_fields != columns))
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "%s: input '%.*s' has shape %s, which %d column%s cannot fill; --columns "
                      "%.*s=NAME+NAME+... names more",
                      p->o->option, WEFT_STR_ARGS(t->key), WEFT_SHAPE_TEXT(shape), f->num_fields,
                      f->num_fields == 1 ? "" : "s", WEFT_STR_ARGS(t->key));
  if (!p->d->is_csv && f->num_fields > 1)
    return WEFT_ERROR(INVALID_ARGUMENT, "%s: input '%.*s' is one feature, not %d", p->o->option,
                      WEFT_STR_ARGS(t->key), f->num_fields);
  return NULL;
}

static weft_status_t *check_type(const pipeline_t *p, const fed_input_t *f) {
  const weft_data_field_t *field = &p->d->fields[f->fields[0]];
  if (p->d->is_csv || field->dtype == 0 || field->dtype == (int)f->read_as) return NULL;
  return WEFT_ERROR(INVALID_ARGUMENT, "%s: feature '%.*s' of %s holds %s, but input '%.*s' wants %s",
                    p->o->option, WEFT_STR_ARGS(field->name), p->d->files.paths[0],
                    weft_dtype_name(field->dtype), WEFT_STR_ARGS(f->input->key),
                    weft_dtype_name(f->input->dtype));
}

static weft_status_t *find_inputs(pipeline_t *p) {
  const int n = p->signature->num_inputs;
  if (n == 0 || n > MAX_INPUTS)
    return WEFT_ERROR(INVALID_ARGUMENT, "%s: '%.*s' has no inputs: the file reads its own data", p->o->option,
                      WEFT_STR_ARGS(p->signature->key));
  p->inputs = weft_arena_calloc(&p->arena, (size_t)n, sizeof *p->inputs);
  if (p->inputs == NULL) return no_memory();
  for (; p->num_inputs < n; p->num_inputs++) {
    fed_input_t *f = &p->inputs[p->num_inputs];
    f->input = &p->signature->inputs[p->num_inputs];
    f->read_as = (TF_DataType)read_as(p, f->input->dtype);
    WEFT_RETURN_IF_ERROR(find_fields(p, f));
    WEFT_RETURN_IF_ERROR(find_shape(p, f));
    WEFT_RETURN_IF_ERROR(check_type(p, f));
  }
  return NULL;
}

/* ---- nodes ---- */

static bool has_failed(const pipeline_t *p) { return TF_GetCode(p->status) != TF_OK; }

/* A node "data/<entry>/<name>". */
static WEFT_PRINTF(3, 4) TF_OperationDescription *begin(pipeline_t *p, const char *op, const char *fmt, ...) {
  char name[NAME], last[NAME / 2];
  va_list args;
  va_start(args, fmt);
  vsnprintf(last, sizeof last, fmt, args);
  va_end(args);
  snprintf(name, sizeof name, "data/%.*s/%s", WEFT_STR_ARGS(p->signature->key), last);
  return TF_NewOperation(p->graph, op, name);
}

/* Output 0 of the finished node; without one after a failure, which stays. */
static TF_Output finish(pipeline_t *p, TF_OperationDescription *d) {
  TF_Status *own = TF_NewStatus();
  TF_Operation *op = TF_FinishOperation(d, own);
  if (TF_GetCode(own) != TF_OK && !has_failed(p)) TF_SetStatus(p->status, TF_GetCode(own), TF_Message(own));
  TF_DeleteStatus(own);
  return (TF_Output){op, 0};
}

static void add_input(pipeline_t *p, TF_OperationDescription *d, TF_Output o) {
  if (o.oper != NULL && !has_failed(p)) TF_AddInput(d, o);
}

/* A constant; consumes the tensor. */
static TF_Output constant(pipeline_t *p, TF_Tensor *t, const char *name, int at) {
  TF_OperationDescription *d = begin(p, "Const", "%s_%d", name, at);
  TF_Status *own = TF_NewStatus();
  if (t == NULL || own == NULL) {
    if (!has_failed(p)) TF_SetStatus(p->status, TF_RESOURCE_EXHAUSTED, "out of memory");
  } else {
    TF_SetAttrType(d, "dtype", TF_TensorType(t));
    TF_SetAttrTensor(d, "value", t, own);
    if (TF_GetCode(own) != TF_OK && !has_failed(p)) TF_SetStatus(p->status, TF_GetCode(own), TF_Message(own));
  }
  TF_DeleteStatus(own);
  if (t != NULL) TF_DeleteTensor(t);
  return finish(p, d);
}

static TF_Output number(pipeline_t *p, int64_t value, const char *name) {
  TF_Tensor *t = TF_AllocateTensor(TF_INT64, NULL, 0, sizeof value);
  if (t != NULL) memcpy(TF_TensorData(t), &value, sizeof value);
  return constant(p, t, name, 0);
}

static TF_Output boolean(pipeline_t *p, bool value, const char *name) {
  TF_Tensor *t = TF_AllocateTensor(TF_BOOL, NULL, 0, 1);
  if (t != NULL) *(unsigned char *)TF_TensorData(t) = value;
  return constant(p, t, name, 0);
}

static TF_Output numbers(pipeline_t *p, const int64_t *values, int64_t n, const char *name) {
  TF_Tensor *t = TF_AllocateTensor(TF_INT64, &n, 1, (size_t)n * sizeof *values);
  if (t != NULL && n > 0) memcpy(TF_TensorData(t), values, (size_t)n * sizeof *values);
  return constant(p, t, name, 0);
}

static TF_Output texts(pipeline_t *p, char *const *values, int64_t n, bool is_scalar, const char *name) {
  TF_Tensor *t = TF_AllocateTensor(TF_STRING, &n, is_scalar ? 0 : 1, (size_t)n * sizeof(TF_TString));
  TF_TString *to = t == NULL ? NULL : TF_TensorData(t);
  for (int64_t i = 0; to != NULL && i < n; i++) {
    TF_StringInit(&to[i]);
    TF_StringCopy(&to[i], values[i], strlen(values[i]));
  }
  return constant(p, t, name, 0);
}

static TF_Output text(pipeline_t *p, const char *value, const char *name) {
  char *one = (char *)(uintptr_t)value;
  return texts(p, &one, 1, true, name);
}

/* No element: a value that must be there. One: what stands for values that are missing. */
static TF_Output fallback(pipeline_t *p, TF_DataType type, int64_t n, int at) {
  const size_t size = type == TF_STRING ? sizeof(TF_TString) : TF_DataTypeSize(type);
  TF_Tensor *t = TF_AllocateTensor(type, &n, 1, (size_t)n * size);
  if (t != NULL && n > 0) memset(TF_TensorData(t), 0, (size_t)n * size); /* also the empty string */
  return constant(p, t, "default", at);
}

/* ---- data sets ---- */

/* The types and shapes of elements. */
typedef struct element_kind {
  TF_DataType *types;
  int64_t (*storage)[WEFT_MAX_DIMS + 1];
  const int64_t **dims;
  int *ranks;
  int n;
} element_kind_t;

static weft_status_t *kind_create(pipeline_t *p, int n, element_kind_t *out) {
  *out = (element_kind_t){weft_arena_calloc(&p->arena, (size_t)n, sizeof *out->types),
                          weft_arena_calloc(&p->arena, (size_t)n, sizeof *out->storage),
                          weft_arena_calloc(&p->arena, (size_t)n, sizeof *out->dims),
                          weft_arena_calloc(&p->arena, (size_t)n, sizeof *out->ranks), n};
  if (out->types == NULL || out->storage == NULL || out->dims == NULL || out->ranks == NULL)
    return no_memory();
  for (int i = 0; i < n; i++) out->dims[i] = out->storage[i];
  return NULL;
}

static void set_kind(TF_OperationDescription *d, const element_kind_t *k) {
  TF_SetAttrTypeList(d, "output_types", k->types, k->n);
  TF_SetAttrShapeList(d, "output_shapes", k->dims, k->ranks, k->n);
}

/* The same elements, rows of them. */
static void add_rows(element_kind_t *k) {
  for (int i = 0; i < k->n; i++) {
    memmove(&k->storage[i][1], &k->storage[i][0], (size_t)k->ranks[i] * sizeof(int64_t));
    k->storage[i][0] = -1;
    k->ranks[i]++;
  }
}

static TF_Output read_records(pipeline_t *p) {
  const TF_Output files = texts(p, p->d->files.paths, (int64_t)p->d->files.n, false, "files");
  const TF_Output compression = text(p, p->d->compression, "compression"),
                  buffer = number(p, 256 << 10, "read_buffer");
  TF_OperationDescription *d = begin(p, "TFRecordDataset", "records");
  add_input(p, d, files);
  add_input(p, d, compression);
  add_input(p, d, buffer);
  return finish(p, d);
}

/* The columns that are read, each once, in the files' order. */
static int select_columns(const pipeline_t *p, int64_t *columns, TF_DataType *types) {
  int n = 0;
  for (int c = 0; c < p->d->num_fields; c++) {
    bool is_read = false;
    for (int i = 0; i < p->num_inputs; i++) {
      for (int k = 0; k < p->inputs[i].num_fields; k++) {
        if (p->inputs[i].fields[k] != c) continue;
        if (!is_read) types[n] = p->inputs[i].read_as;
        if (types[n] != p->inputs[i].read_as) types[n] = TF_DOUBLE; /* holds integers that a float does not */
        is_read = true;
      }
    }
    if (is_read) columns[n++] = c;
  }
  return n;
}

static TF_Output read_lines(pipeline_t *p, const int64_t *columns, element_kind_t *k) {
  const char delimiter[] = {p->d->delimiter, '\0'};
  const TF_Output inputs[] = {texts(p, p->d->files.paths, (int64_t)p->d->files.n, false, "files"),
                              text(p, p->d->compression, "compression"),
                              number(p, 256 << 10, "read_buffer"),
                              boolean(p, true, "header"),
                              text(p, delimiter, "delimiter"),
                              boolean(p, true, "quotes"),
                              text(p, "", "missing"),
                              numbers(p, columns, k->n, "columns")};
  TF_Output *defaults = weft_arena_calloc(&p->arena, (size_t)k->n, sizeof *defaults);
  for (int i = 0; defaults != NULL && i < k->n; i++) defaults[i] = fallback(p, k->types[i], 0, i);
  const TF_Output none = numbers(p, NULL, 0, "excluded");
  TF_OperationDescription *d = begin(p, "CSVDatasetV2", "lines");
  for (size_t i = 0; i < sizeof inputs / sizeof inputs[0]; i++) add_input(p, d, inputs[i]);
  if (defaults != NULL && !has_failed(p)) TF_AddInputList(d, defaults, k->n);
  add_input(p, d, none);
  set_kind(d, k);
  return finish(p, d);
}

static TF_Output shuffle(pipeline_t *p, TF_Output from, const element_kind_t *k) {
  if (!p->o->is_shuffled) return from;
  const TF_Output window = number(p, WEFT_SHUFFLE_WINDOW, "window"),
                  seed = number(p, (int64_t)p->o->seed, "seed"), seed2 = number(p, 0, "seed2");
  TF_OperationDescription *d = begin(p, "ShuffleDataset", "shuffled");
  add_input(p, d, from);
  add_input(p, d, window);
  add_input(p, d, seed);
  add_input(p, d, seed2);
  set_kind(d, k);
  return finish(p, d);
}

static TF_Output batch(pipeline_t *p, TF_Output from, const element_kind_t *k) {
  const TF_Output size = number(p, p->o->batch, "batch_size"), drops = boolean(p, false, "drop_remainder");
  TF_OperationDescription *d = begin(p, "BatchDatasetV2", "batches");
  add_input(p, d, from);
  add_input(p, d, size);
  add_input(p, d, drops);
  set_kind(d, k);
  return finish(p, d);
}

/* The features that are parsed, each once: for each an input that it feeds. In the order of their names, as
 * the files' fields are: a parsed element has its dense features so, whatever the order of dense_keys. */
static weft_status_t *select_features(pipeline_t *p, const fed_input_t **features, int *out_n) {
  int n = 0;
  for (int c = 0; c < p->d->num_fields; c++) {
    const fed_input_t *first = NULL;
    for (int i = 0; i < p->num_inputs; i++) {
      fed_input_t *f = &p->inputs[i];
      if (f->fields[0] != c) continue;
      if (first == NULL) features[n++] = first = f;
      f->parsed = n - 1;
      const size_t bytes = (size_t)f->rank * sizeof *f->dims;
      if (f->read_as == first->read_as && f->rank == first->rank && memcmp(f->dims, first->dims, bytes) == 0)
        continue;
      return WEFT_ERROR(INVALID_ARGUMENT,
                        "%s: inputs '%.*s' and '%.*s' are the feature '%.*s', but differ in type or shape",
                        p->o->option, WEFT_STR_ARGS(first->input->key), WEFT_STR_ARGS(f->input->key),
                        WEFT_STR_ARGS(p->d->fields[c].name));
    }
  }
  *out_n = n;
  return NULL;
}

static TF_Output parse(pipeline_t *p, TF_Output from, const fed_input_t *const *features,
                       const element_kind_t *k) {
  const int n = k->n;
  const TF_Output calls = number(p, AUTOTUNE, "parallel");
  const void **keys = weft_arena_calloc(&p->arena, (size_t)n, sizeof *keys);
  size_t *lengths = weft_arena_calloc(&p->arena, (size_t)n, sizeof *lengths);
  const int64_t **dims = weft_arena_calloc(&p->arena, (size_t)n, sizeof *dims);
  int *ranks = weft_arena_calloc(&p->arena, (size_t)n, sizeof *ranks);
  TF_Output *defaults = weft_arena_calloc(&p->arena, (size_t)n, sizeof *defaults);
  if (keys == NULL || lengths == NULL || dims == NULL || ranks == NULL || defaults == NULL) {
    TF_SetStatus(p->status, TF_RESOURCE_EXHAUSTED, "out of memory");
    return from;
  }
  for (int i = 0; i < n; i++) {
    const fed_input_t *f = features[i];
    const weft_str_t name = p->d->fields[f->fields[0]].name;
    keys[i] = name.data;
    lengths[i] = name.length;
    dims[i] = f->dims;
    ranks[i] = f->rank;
    defaults[i] = fallback(p, f->read_as, f->rank > 0 && f->dims[0] < 0 ? 1 : 0, i);
  }
  TF_OperationDescription *d = begin(p, "ParseExampleDatasetV2", "parsed");
  add_input(p, d, from);
  add_input(p, d, calls);
  if (!has_failed(p)) TF_AddInputList(d, defaults, n);
  TF_SetAttrStringList(d, "sparse_keys", NULL, NULL, 0);
  TF_SetAttrTypeList(d, "sparse_types", NULL, 0);
  TF_SetAttrStringList(d, "dense_keys", keys, lengths, n);
  TF_SetAttrTypeList(d, "Tdense", k->types, n);
  TF_SetAttrShapeList(d, "dense_shapes", dims, ranks, n);
  set_kind(d, k);
  return finish(p, d);
}

/* A data set of the same elements, made of another one and a number. */
static TF_Output remake(pipeline_t *p, const char *op, const char *name, TF_Output from, int64_t value,
                        const element_kind_t *k) {
  char of_number[NAME / 2];
  snprintf(of_number, sizeof of_number, "%s/number", name);
  const TF_Output count = number(p, value, of_number);
  TF_OperationDescription *d = begin(p, op, "%s", name);
  add_input(p, d, from);
  add_input(p, d, count);
  set_kind(d, k);
  return finish(p, d);
}

static TF_Output repeat(pipeline_t *p, TF_Output from, const element_kind_t *k) {
  return remake(p, "RepeatDataset", "repeated", from, p->o->epochs, k);
}

static TF_Output prefetch(pipeline_t *p, TF_Output from, const element_kind_t *k) {
  return remake(p, "PrefetchDataset", "prefetched", from, AUTOTUNE, k);
}

/* *out_init: the name of the node that begins it. */
static TF_Operation *iterate(pipeline_t *p, TF_Output data, const element_kind_t *k, const char **out_init) {
  char shared[NAME];
  snprintf(shared, sizeof shared, "data/%.*s/iterator", WEFT_STR_ARGS(p->signature->key));
  TF_OperationDescription *d = begin(p, "IteratorV2", "iterator");
  TF_SetAttrString(d, "shared_name", shared, strlen(shared));
  TF_SetAttrString(d, "container", "", 0);
  set_kind(d, k);
  const TF_Output iterator = finish(p, d);
  d = begin(p, "MakeIterator", "begin");
  add_input(p, d, data);
  add_input(p, d, iterator);
  const TF_Operation *made = finish(p, d).oper;
  *out_init = made == NULL ? "" : TF_OperationName((TF_Operation *)(uintptr_t)made);
  d = begin(p, "IteratorGetNext", "next");
  add_input(p, d, iterator);
  set_kind(d, k);
  return finish(p, d).oper;
}

/* ---- inputs ---- */

static TF_Output cast(pipeline_t *p, TF_Output from, TF_DataType to, int at) {
  if (has_failed(p) || TF_OperationOutputType(from) == to) return from;
  TF_OperationDescription *d = begin(p, "Cast", "cast_%d", at);
  add_input(p, d, from);
  TF_SetAttrType(d, "DstT", to);
  return finish(p, d);
}

/* Several columns as one matrix. */
static TF_Output stack(pipeline_t *p, TF_Operation *next, const fed_input_t *f, const int64_t *columns, int n,
                       int at) {
  TF_Output *parts = weft_arena_calloc(&p->arena, (size_t)f->num_fields, sizeof *parts), none = {NULL, 0};
  if (parts == NULL) {
    TF_SetStatus(p->status, TF_RESOURCE_EXHAUSTED, "out of memory");
    return none;
  }
  for (int k = 0; k < f->num_fields; k++) {
    int c = 0;
    while (c < n && columns[c] != f->fields[k]) c++;
    parts[k] = cast(p, (TF_Output){next, c}, f->read_as, at * 4096 + k);
  }
  if (f->rank == 0 || has_failed(p)) return parts[0];
  TF_OperationDescription *d = begin(p, "Pack", "stacked_%d", at);
  TF_AddInputList(d, parts, f->num_fields);
  TF_SetAttrInt(d, "axis", 1);
  return finish(p, d);
}

/* The placeholder's node, without ":0". */
static weft_str_t node_of(const weft_signature_tensor_t *t) {
  weft_str_t name = t->tensor;
  if (weft_str_ends_with(name, ":0")) name.length -= 2;
  return name;
}

static void name_input(pipeline_t *p, const fed_input_t *f, TF_Output from, int at) {
  from = cast(p, from, (TF_DataType)f->input->dtype, at);
  const weft_str_t name = weft_arena_str(&p->arena, node_of(f->input));
  if (name.data == NULL || has_failed(p)) return;
  TF_OperationDescription *d = TF_NewOperation(p->graph, "Identity", name.data);
  add_input(p, d, from);
  finish(p, d);
}

static weft_status_t *build_examples(pipeline_t *p, const char **out_init) {
  element_kind_t record, parsed;
  int n = 0;
  const fed_input_t **features = weft_arena_calloc(&p->arena, (size_t)p->num_inputs, sizeof *features);
  if (features == NULL) return no_memory();
  WEFT_RETURN_IF_ERROR(select_features(p, features, &n));
  WEFT_RETURN_IF_ERROR(kind_create(p, 1, &record));
  WEFT_RETURN_IF_ERROR(kind_create(p, n, &parsed));
  record.types[0] = TF_STRING;
  for (int i = 0; i < n; i++) {
    parsed.types[i] = features[i]->read_as;
    parsed.ranks[i] = features[i]->rank;
    memcpy(parsed.storage[i], features[i]->dims, (size_t)features[i]->rank * sizeof(int64_t));
  }
  add_rows(&parsed);
  TF_Output data = shuffle(p, read_records(p), &record);
  add_rows(&record);
  data = parse(p, batch(p, data, &record), features, &parsed);
  data = prefetch(p, repeat(p, data, &parsed), &parsed);
  TF_Operation *next = iterate(p, data, &parsed, out_init);
  for (int i = 0; i < p->num_inputs && !has_failed(p); i++)
    name_input(p, &p->inputs[i], (TF_Output){next, p->inputs[i].parsed}, i);
  return NULL;
}

static weft_status_t *build_columns(pipeline_t *p, const char **out_init) {
  int64_t *columns = weft_arena_calloc(&p->arena, (size_t)p->d->num_fields, sizeof *columns);
  TF_DataType *types = weft_arena_calloc(&p->arena, (size_t)p->d->num_fields + 1, sizeof *types);
  element_kind_t row;
  if (columns == NULL || types == NULL) return no_memory();
  const int n = select_columns(p, columns, types);
  WEFT_RETURN_IF_ERROR(kind_create(p, n, &row));
  memcpy(row.types, types, (size_t)n * sizeof *types);
  TF_Output data = shuffle(p, read_lines(p, columns, &row), &row);
  add_rows(&row);
  data = prefetch(p, repeat(p, batch(p, data, &row), &row), &row);
  TF_Operation *next = iterate(p, data, &row, out_init);
  for (int i = 0; i < p->num_inputs && !has_failed(p); i++)
    name_input(p, &p->inputs[i], stack(p, next, &p->inputs[i], columns, n, i), p->num_inputs + i);
  return NULL;
}

/* ---- the graph ---- */

static bool is_replaced(const pipeline_t *p, weft_str_t node) {
  weft_wire_reader_t r = weft_wire_reader(node);
  weft_wire_field_t f;
  weft_str_t name = WEFT_STR("");
  while (weft_wire_next(&r, &f)) {
    if (f.tag == WEFT_WIRE_TAG(1, WEFT_WIRE_BYTES)) name = f.bytes;
  }
  for (int i = 0; i < p->num_inputs; i++) {
    if (weft_str_eq(name, node_of(p->inputs[i].input))) return true;
  }
  return false;
}

/* GraphDef: node = 1. Of the pipeline the nodes alone are taken. */
static void copy_nodes(const pipeline_t *p, weft_str_t graph_def, bool is_own, weft_strbuf_t *out) {
  weft_wire_reader_t r = weft_wire_reader(graph_def);
  weft_wire_field_t f;
  for (weft_str_t before = weft_wire_rest(&r); weft_wire_next(&r, &f); before = weft_wire_rest(&r)) {
    const weft_str_t raw = weft_str_of(before.data, before.length - weft_wire_rest(&r).length);
    const bool is_node = f.tag == WEFT_WIRE_TAG(1, WEFT_WIRE_BYTES);
    if (is_own ? is_node : !is_node || !is_replaced(p, f.bytes)) weft_strbuf_append(out, raw);
  }
}

static weft_status_t *write_graph(pipeline_t *p, weft_str_t graph_def, weft_strbuf_t *out) {
  TF_Buffer *own = TF_NewBuffer();
  if (own == NULL) return no_memory();
  TF_GraphToGraphDef(p->graph, own, p->status);
  if (!has_failed(p)) {
    copy_nodes(p, graph_def, false, out);
    copy_nodes(p, weft_str_of(own->data, own->length), true, out);
  }
  TF_DeleteBuffer(own);
  return out->failed ? no_memory() : NULL;
}

weft_status_t *weft_data_graph_attach(const weft_data_files_t *d, const weft_signature_def_t *signature,
                                      const weft_data_graph_options_t *o, weft_str_t graph_def,
                                      weft_strbuf_t *out, weft_arena_t *arena, weft_str_t *out_init) {
  pipeline_t p = {.d = d, .signature = signature, .o = o, .arena = WEFT_ARENA_INIT};
  const char *init = "";
  p.graph = TF_NewGraph();
  p.status = TF_NewStatus();
  weft_status_t *s = p.graph == NULL || p.status == NULL ? no_memory() : find_inputs(&p);
  if (s == NULL) s = d->is_csv ? build_columns(&p, &init) : build_examples(&p, &init);
  if (s == NULL && !has_failed(&p)) s = write_graph(&p, graph_def, out);
  if (s == NULL && has_failed(&p))
    s = WEFT_ERROR(INTERNAL, "%s: the pipeline could not be built: %s", o->option, TF_Message(p.status));
  if (s == NULL) {
    *out_init = weft_arena_str(arena, weft_str(init));
    if (out_init->data == NULL) s = no_memory();
  }
  TF_DeleteStatus(p.status);
  TF_DeleteGraph(p.graph);
  weft_arena_deinit(&p.arena);
  return s;
}
