/* kernels/cpu/parsing/parse_sequence.c - ParseSequenceExample, ParseSequenceExampleV2 and
 * ParseSingleSequenceExample: the context and the lists of features of serialized SequenceExamples.
 *
 * A first pass finds where each feature that is asked for lies in each example. Then features are read one by
 * one, on several threads: each is dense, sparse or ragged, of the context (a row for each example) or a list
 * (a row for each of its features, examples having any number of them).
 */
#include <inttypes.h>

#include "base/hash_map.h"
#include "kernels/cpu/loops/common.h"
#include "kernels/cpu/loops/each_row.h"
#include "kernels/cpu/parsing/feature.h"
#include "protos/wire.h"

enum {
  FIELD_1 = WEFT_WIRE_TAG(1, WEFT_WIRE_BYTES),
  FIELD_2 = WEFT_WIRE_TAG(2, WEFT_WIRE_BYTES),
};

typedef enum sequence_part { PART_CONTEXT, PART_LISTS, NUM_PARTS } sequence_part_t;
typedef enum sequence_kind { KIND_DENSE, KIND_SPARSE, KIND_RAGGED, NUM_KINDS } sequence_kind_t;

/* The param of a row of the table. */
typedef struct sequence_form {
  bool is_single;        /* one example; keys are inputs, and it is read as protobuf does */
  bool keys_are_vectors; /* V2; else, and if not single, keys are attributes */
} sequence_form_t;

/* What the attributes say. */
typedef struct sequence_plan {
  int n[NUM_PARTS][NUM_KINDS];
  const weft_shape_t *shapes[NUM_PARTS];        /* of dense features */
  const weft_str_t *keys[NUM_PARTS][NUM_KINDS]; /* where they are attributes */
  const weft_str_t *may_lack;                   /* dense lists that may be missing: likewise */
  int num_may_lack;
} sequence_plan_t;

static const char *const types_attr[NUM_PARTS][NUM_KINDS] = {
    {"Tcontext_dense", "context_sparse_types", "context_ragged_value_types"},
    {"feature_list_dense_types", "feature_list_sparse_types", "feature_list_ragged_value_types"},
};
static const char *const shapes_attr[NUM_PARTS] = {"context_dense_shapes", "feature_list_dense_shapes"};
static const char *const splits_attr[NUM_PARTS] = {"context_ragged_split_types",
                                                   "feature_list_ragged_split_types"};
static const char *const number_attr[NUM_PARTS][NUM_KINDS] = {
    {"Ncontext_dense", "Ncontext_sparse", NULL},
    {"Nfeature_list_dense", "Nfeature_list_sparse", NULL},
};
static const char *const keys_attr[NUM_PARTS][NUM_KINDS] = {
    {"context_dense_keys", "context_sparse_keys", NULL},
    {"feature_list_dense_keys", "feature_list_sparse_keys", NULL},
};

static int length_of(const weft_attr_t *list) { return list == NULL ? 0 : list->n; }

static weft_status_t *same_length(int64_t n, const weft_kernel_setup_t *setup, const char *list,
                                  const char *what) {
  if (n == length_of(weft_knode_attr(setup, list))) return NULL;
  return WEFT_ERROR(INVALID_ARGUMENT, "len(%s) != len(%s)", what, list);
}

static weft_status_t *read_kind(const weft_kernel_setup_t *setup, sequence_part_t part, sequence_kind_t kind,
                                sequence_plan_t *p) {
  const sequence_form_t *form = setup->node.param;
  const char *number = number_attr[part][kind], *types = types_attr[part][kind];
  p->n[part][kind] = length_of(weft_knode_attr(setup, types));
  if (number != NULL) {
    int64_t n = weft_knode_int_or(setup, number, p->n[part][kind]);
    WEFT_RETURN_IF_ERROR(same_length(n, setup, types, number));
  }
  if (form->is_single || form->keys_are_vectors || kind == KIND_RAGGED) return NULL;
  const weft_attr_t *keys = weft_knode_attr(setup, keys_attr[part][kind]);
  WEFT_RETURN_IF_ERROR(same_length(p->n[part][kind], setup, keys_attr[part][kind], types));
  if (p->n[part][kind] > 0) p->keys[part][kind] = keys->list.strings;
  return NULL;
}

static weft_status_t *read_part(const weft_kernel_setup_t *setup, sequence_part_t part, sequence_plan_t *p) {
  for (int k = 0; k < NUM_KINDS; k++) WEFT_RETURN_IF_ERROR(read_kind(setup, part, (sequence_kind_t)k, p));
  WEFT_RETURN_IF_ERROR(
      same_length(p->n[part][KIND_DENSE], setup, shapes_attr[part], types_attr[part][KIND_DENSE]));
  WEFT_RETURN_IF_ERROR(
      same_length(p->n[part][KIND_RAGGED], setup, splits_attr[part], types_attr[part][KIND_RAGGED]));
  const weft_attr_t *shapes = weft_knode_attr(setup, shapes_attr[part]);
  if (p->n[part][KIND_DENSE] > 0) p->shapes[part] = shapes->list.shapes;
  for (int i = 0; i < p->n[part][KIND_DENSE]; i++) {
    if (weft_shape_is_known(&p->shapes[part][i]) && weft_shape_count(&p->shapes[part][i]) >= 0) continue;
    return WEFT_ERROR(INVALID_ARGUMENT, "Shape %s is not fully defined",
                      WEFT_SHAPE_TEXT(&p->shapes[part][i]));
  }
  return NULL;
}

static weft_status_t *sequence_prepare(const weft_kernel_setup_t *setup, void **out_state) {
  const sequence_form_t *form = setup->node.param;
  sequence_plan_t plan = {0};
  WEFT_RETURN_IF_ERROR(read_part(setup, PART_CONTEXT, &plan));
  WEFT_RETURN_IF_ERROR(read_part(setup, PART_LISTS, &plan));
  if (!form->is_single && !form->keys_are_vectors) {
    const weft_attr_t *may_lack = weft_knode_attr(setup, "feature_list_dense_missing_assumed_empty");
    plan.num_may_lack = length_of(may_lack);
    if (plan.num_may_lack > 0) plan.may_lack = may_lack->list.strings;
  }
  sequence_plan_t *p = weft_malloc(sizeof *p);
  if (p == NULL) return WEFT_NO_MEMORY("preparing %.*s", WEFT_STR_ARGS(setup->node.name));
  *p = plan;
  *out_state = p;
  return NULL;
}

/* ---- what is wanted ---- */

typedef struct sequence_feature {
  weft_str_t key;
  sequence_part_t part;
  sequence_kind_t kind;
  weft_dtype_t dtype;
  int out, out_step;             /* the first of its outputs, and how far the next ones are */
  int out_inner;                 /* of a ragged list's inner splits */
  const weft_shape_t *shape;     /* of a dense one */
  int64_t stride;                /* likewise: elements */
  const weft_tensor_t *fallback; /* likewise, of the context */
  bool may_lack;                 /* of a dense list */
  weft_str_t *found;             /* lent; in each example; data NULL: not there */
} sequence_feature_t;

typedef struct sequence_run {
  weft_kernel_ctx_t *ctx;
  const sequence_plan_t *plan;
  const sequence_form_t *form;
  const weft_tensor_t *serialized, *names;
  bool is_scalar;
  sequence_feature_t *wanted; /* owned */
  int num_wanted;
  weft_map_t by_key[NUM_PARTS];
  weft_str_t *found; /* owned; of all features */
} sequence_run_t;

/* The input of the key of feature i, or of the vector of such keys. */
static int keys_input(const sequence_run_t *r, sequence_part_t part, sequence_kind_t kind) {
  const sequence_plan_t *p = r->plan;
  if (r->form->keys_are_vectors) {
    static const int at[NUM_PARTS][NUM_KINDS] = {{3, 2, 4}, {6, 5, 7}};
    return at[part][kind];
  }
  int in = 2;
  if (part == PART_CONTEXT && kind == KIND_SPARSE) return in;
  in += p->n[PART_CONTEXT][KIND_SPARSE];
  if (part == PART_CONTEXT) return in;
  in += p->n[PART_CONTEXT][KIND_DENSE];
  return kind == KIND_SPARSE ? in : in + p->n[PART_LISTS][KIND_SPARSE];
}

static int defaults_input(const sequence_run_t *r) {
  if (r->form->keys_are_vectors) return 9;
  return r->form->is_single ? keys_input(r, PART_LISTS, KIND_DENSE) + r->plan->n[PART_LISTS][KIND_DENSE] : 2;
}

/* The first output of a kind. */
static int kind_output(const sequence_run_t *r, sequence_part_t part, sequence_kind_t kind) {
  const sequence_plan_t *p = r->plan;
  int out = 0;
  if (part == PART_LISTS) {
    out += 3 * p->n[PART_CONTEXT][KIND_SPARSE] + p->n[PART_CONTEXT][KIND_DENSE] +
           2 * p->n[PART_CONTEXT][KIND_RAGGED];
  }
  if (kind == KIND_SPARSE) return out;
  out += 3 * p->n[part][KIND_SPARSE];
  if (kind == KIND_DENSE) return out;
  return out + p->n[part][KIND_DENSE] * (part == PART_LISTS ? 2 : 1);
}

static weft_status_t *read_key(const sequence_run_t *r, const sequence_feature_t *f, int i, weft_str_t *out) {
  if (r->plan->keys[f->part][f->kind] != NULL) {
    *out = r->plan->keys[f->part][f->kind][i];
    return NULL;
  }
  int in = keys_input(r, f->part, f->kind);
  const weft_tensor_t *t = weft_in(r->ctx, r->form->keys_are_vectors ? in : in + i);
  if (!r->form->keys_are_vectors && t->shape.rank != 0) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Expected a key to be a scalar, got shape: %s",
                      WEFT_SHAPE_TEXT(&t->shape));
  }
  *out = weft_tensor_str_at(t, r->form->keys_are_vectors ? i : 0);
  return NULL;
}

static bool may_lack(const sequence_run_t *r, weft_str_t key, int i) {
  if (r->form->keys_are_vectors) return ((const uint8_t *)weft_in(r->ctx, 8)->data)[i] != 0;
  if (r->form->is_single) {
    const weft_tensor_t *t = weft_in(r->ctx, 1);
    for (int64_t k = 0; k < t->count; k++) {
      if (weft_str_eq(weft_tensor_str_at(t, k), key)) return true;
    }
    return false;
  }
  for (int k = 0; k < r->plan->num_may_lack; k++) {
    if (weft_str_eq(r->plan->may_lack[k], key)) return true;
  }
  return false;
}

static weft_status_t *read_default(const sequence_run_t *r, sequence_feature_t *f, int i) {
  f->fallback = weft_in(r->ctx, defaults_input(r) + i);
  if (f->fallback->count == 0 || weft_shape_eq(&f->fallback->shape, f->shape)) return NULL;
  return WEFT_ERROR(INVALID_ARGUMENT, "default_value[%d].shape() == %s != context_dense_shapes[%d] == %s", i,
                    WEFT_SHAPE_TEXT(&f->fallback->shape), i, WEFT_SHAPE_TEXT(f->shape));
}

static weft_status_t *want(sequence_run_t *r, sequence_part_t part, sequence_kind_t kind, int i) {
  sequence_feature_t *f = &r->wanted[r->num_wanted++];
  *f = (sequence_feature_t){.part = part, .kind = kind, .out_step = r->plan->n[part][kind]};
  f->out = kind_output(r, part, kind) + i;
  f->out_inner = f->out + 2 * f->out_step;
  int values = kind == KIND_SPARSE ? f->out + f->out_step : f->out;
  f->dtype = (weft_dtype_t)r->ctx->node->output_types[values];
  f->found = r->found + (int64_t)(r->num_wanted - 1) * r->serialized->count;
  WEFT_RETURN_IF_ERROR(read_key(r, f, i, &f->key));
  if (kind == KIND_DENSE) {
    f->shape = &r->plan->shapes[part][i];
    f->stride = weft_shape_count(f->shape);
    if (part == PART_CONTEXT) WEFT_RETURN_IF_ERROR(read_default(r, f, i));
    if (part == PART_LISTS) f->may_lack = may_lack(r, f->key, i);
  }
  void *before = NULL;
  WEFT_RETURN_IF_ERROR(weft_map_put(&r->by_key[part], f->key, f, &before));
  if (before == NULL || r->form->is_single) return NULL;
  return WEFT_ERROR(INVALID_ARGUMENT, "%s feature %.*s is asked for more than once",
                    part == PART_CONTEXT ? "Context" : "Sequence", WEFT_STR_ARGS(f->key));
}

static weft_status_t *want_all(sequence_run_t *r) {
  static const sequence_kind_t order[] = {KIND_SPARSE, KIND_DENSE, KIND_RAGGED};
  size_t total = 0;
  for (int part = 0; part < NUM_PARTS; part++) {
    for (int k = 0; k < NUM_KINDS; k++) total += (size_t)r->plan->n[part][k];
  }
  r->wanted = weft_calloc(total + 1, sizeof *r->wanted);
  r->found = weft_calloc((size_t)r->serialized->count + 1, (total + 1) * sizeof *r->found);
  if (r->wanted == NULL || r->found == NULL) return WEFT_NO_MEMORY("the features of sequence examples");
  for (int part = 0; part < NUM_PARTS; part++) {
    for (int k = 0; k < NUM_KINDS; k++) {
      for (int i = 0; i < r->plan->n[part][order[k]]; i++) {
        WEFT_RETURN_IF_ERROR(want(r, (sequence_part_t)part, order[k], i));
      }
    }
  }
  return NULL;
}

static weft_status_t *check_inputs(const sequence_run_t *r) {
  const weft_tensor_t *s = r->serialized;
  if (r->form->is_single ? s->shape.rank != 0 : s->shape.rank > 1) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Expected serialized to be a %s, got shape: %s",
                      r->form->is_single ? "scalar" : "scalar or vector", WEFT_SHAPE_TEXT(&s->shape));
  }
  if (r->form->is_single) {
    if (weft_in(r->ctx, 1)->shape.rank != 1) {
      return WEFT_ERROR(INVALID_ARGUMENT,
                        "Expected feature_list_dense_missing_assumed_empty to be a vector, got shape: %s",
                        WEFT_SHAPE_TEXT(&weft_in(r->ctx, 1)->shape));
    }
    if (r->names->count > 0 && r->names->shape.rank != 0) {
      return WEFT_ERROR(INVALID_ARGUMENT, "Expected debug_name to be a scalar, got shape: %s",
                        WEFT_SHAPE_TEXT(&r->names->shape));
    }
  }
  if (!r->form->keys_are_vectors) return NULL;
  for (int part = 0; part < NUM_PARTS; part++) {
    for (int k = 0; k < NUM_KINDS; k++) {
      int in = keys_input(r, (sequence_part_t)part, (sequence_kind_t)k);
      if (weft_in(r->ctx, in)->count == r->plan->n[part][k]) continue;
      return WEFT_ERROR(INVALID_ARGUMENT, "Expected as many keys as %s has types", types_attr[part][k]);
    }
  }
  if (weft_in(r->ctx, 8)->count == r->plan->n[PART_LISTS][KIND_DENSE]) return NULL;
  return WEFT_ERROR(INVALID_ARGUMENT,
                    "Expected len(feature_list_dense_missing_assumed_empty to match Nfeature_list_dense");
}

/* ---- the first pass ---- */

static weft_str_t name_of(const sequence_run_t *r, int64_t example) {
  return example < r->names->count ? weft_tensor_str_at(r->names, example) : WEFT_STR("<unknown>");
}

static weft_status_t *malformed(const sequence_run_t *r, int64_t example) {
  weft_str_t name = name_of(r, example);
  return WEFT_ERROR(INVALID_ARGUMENT, "Invalid protocol message input, example id: %.*s",
                    WEFT_STR_ARGS(name));
}

/* The fields of an entry, in any order; others are skipped. */
static bool read_entry(weft_example_cursor_t *c, weft_str_t *key, weft_str_t *value) {
  weft_example_cursor_t in;
  *key = *value = WEFT_STR("");
  if (!weft_example_limit(c, &in)) return false;
  while (in.p < in.end) {
    uint32_t tag = 0;
    if (!weft_example_varint(&in, &tag)) return false;
    bool is_read = tag == FIELD_1   ? weft_example_bytes(&in, key)
                   : tag == FIELD_2 ? weft_example_bytes(&in, value)
                                    : weft_example_skip(&in, tag);
    if (!is_read) return false;
  }
  c->p = in.p;
  return true;
}

static bool find_in_part(const sequence_run_t *r, sequence_part_t part, weft_example_cursor_t *c,
                         int64_t example) {
  weft_example_cursor_t in;
  weft_str_t key, value;
  if (!weft_example_limit(c, &in)) return false;
  while (in.p < in.end) {
    if (!weft_example_expect(&in, FIELD_1) || !read_entry(&in, &key, &value)) return false;
    sequence_feature_t *f = weft_map_get(&r->by_key[part], key);
    if (f != NULL) f->found[example] = value;
    for (int k = 0; f != NULL && r->form->is_single && k < r->num_wanted;
         k++) { /* a key may be asked for twice */
      sequence_feature_t *same = &r->wanted[k];
      if (same->part == part && weft_str_eq(same->key, key)) same->found[example] = value;
    }
  }
  c->p = in.p;
  return true;
}

static bool find_in_example(const sequence_run_t *r, int64_t example) {
  weft_example_cursor_t c = weft_example_cursor(weft_tensor_str_at(r->serialized, example));
  while (c.p < c.end) {
    uint32_t tag = 0;
    if (!weft_example_varint(&c, &tag)) return false;
    if (tag == FIELD_1 || tag == FIELD_2) {
      if (!find_in_part(r, tag == FIELD_1 ? PART_CONTEXT : PART_LISTS, &c, example)) return false;
    } else if (!weft_example_skip(&c, tag)) {
      return (tag & 7) == WEFT_WIRE_BYTES; /* an unknown field that is cut off ends the example */
    }
  }
  return true;
}

/* ---- protobuf's own view: is it a SequenceExample? ---- */

typedef enum message_kind {
  MESSAGE_OTHER,
  MESSAGE_SEQUENCE_EXAMPLE,
  MESSAGE_FEATURES,
  MESSAGE_FEATURE_ENTRY,
  MESSAGE_FEATURE,
  MESSAGE_VALUES,
  MESSAGE_LISTS,
  MESSAGE_LIST_ENTRY,
  MESSAGE_LIST,
  NUM_MESSAGES,
} message_kind_t;

/* The kind of the message in fields 1, 2 and 3 of each kind. */
static const message_kind_t nested[NUM_MESSAGES][3] = {
    [MESSAGE_SEQUENCE_EXAMPLE] = {MESSAGE_FEATURES, MESSAGE_LISTS, MESSAGE_OTHER},
    [MESSAGE_FEATURES] = {MESSAGE_FEATURE_ENTRY, MESSAGE_OTHER, MESSAGE_OTHER},
    [MESSAGE_FEATURE_ENTRY] = {MESSAGE_OTHER, MESSAGE_FEATURE, MESSAGE_OTHER},
    [MESSAGE_FEATURE] = {MESSAGE_VALUES, MESSAGE_VALUES, MESSAGE_VALUES},
    [MESSAGE_LISTS] = {MESSAGE_LIST_ENTRY, MESSAGE_OTHER, MESSAGE_OTHER},
    [MESSAGE_LIST_ENTRY] = {MESSAGE_OTHER, MESSAGE_LIST, MESSAGE_OTHER},
    [MESSAGE_LIST] = {MESSAGE_FEATURE, MESSAGE_OTHER, MESSAGE_OTHER},
};
enum { MAX_NESTED = 8 };

/* Walks all nested messages, which are no deeper than `nested` has them. */
static bool is_valid(weft_str_t bytes) {
  weft_wire_reader_t open[MAX_NESTED] = {weft_wire_reader(bytes)};
  message_kind_t kinds[MAX_NESTED] = {MESSAGE_SEQUENCE_EXAMPLE};
  weft_wire_field_t f;
  for (int depth = 0; depth >= 0;) {
    if (!weft_wire_next(&open[depth], &f)) {
      if (open[depth].failed) return false;
      depth--;
      continue;
    }
    uint32_t number = weft_wire_number(&f);
    if (weft_wire_type(&f) != WEFT_WIRE_BYTES || number > 3 || depth + 1 == MAX_NESTED) continue;
    message_kind_t kind = nested[kinds[depth]][number - 1];
    if (kind == MESSAGE_OTHER) continue;
    depth++;
    open[depth] = weft_wire_reader(f.bytes);
    kinds[depth] = kind;
  }
  return true;
}

static weft_status_t *find_all(const sequence_run_t *r) {
  for (int64_t e = 0; e < r->serialized->count; e++) {
    weft_str_t bytes = weft_tensor_str_at(r->serialized, e);
    if (r->form->is_single && !is_valid(bytes)) {
      return WEFT_ERROR(INVALID_ARGUMENT, "Could not parse example input, value: '%.*s'",
                        WEFT_STR_ARGS(bytes));
    }
    if (!find_in_example(r, e)) return malformed(r, e);
  }
  return NULL;
}

/* ---- reading a feature ---- */

/* All values of a feature. A row is a Feature; an example has one row in the context, any number in a list.
 */
typedef struct sequence_rows {
  weft_feature_values_t values;
  int64_t *ends; /* owned; of the values of each row */
  int64_t n, capacity;
  int64_t *row_ends;     /* owned; of the rows of each example */
  int64_t longest, most; /* values of a row, rows of an example */
} sequence_rows_t;

static weft_status_t *wrong_type(const sequence_run_t *r, const sequence_feature_t *f, int64_t example) {
  weft_str_t name = name_of(r, example);
  return WEFT_ERROR(INVALID_ARGUMENT, "Name: %.*s, %s: %.*s.  Data types don't match. Expected type: %s",
                    WEFT_STR_ARGS(name), f->part == PART_CONTEXT ? "Context feature" : "Feature list",
                    WEFT_STR_ARGS(f->key), weft_dtype_name(f->dtype));
}

static weft_status_t *end_row(sequence_rows_t *rows) {
  if (rows->n == rows->capacity) {
    int64_t more = rows->capacity == 0 ? 16 : 2 * rows->capacity;
    int64_t *ends = weft_realloc(rows->ends, (size_t)more, sizeof *ends);
    if (ends == NULL) return WEFT_NO_MEMORY("the rows of a feature");
    rows->ends = ends;
    rows->capacity = more;
  }
  int64_t n = rows->values.n - (rows->n == 0 ? 0 : rows->ends[rows->n - 1]);
  if (n > rows->longest) rows->longest = n;
  rows->ends[rows->n++] = rows->values.n;
  return NULL;
}

static weft_status_t *read_row(const sequence_run_t *r, const sequence_feature_t *f, int64_t example,
                               weft_str_t feature, sequence_rows_t *rows) {
  int dtype = 0;
  int64_t before = rows->values.n;
  weft_str_t rest;
  weft_status_t *s = NULL;
  WEFT_RETURN_IF_ERROR(weft_feature_dtype(feature, &dtype, &rest));
  if (dtype != (int)f->dtype && (dtype != 0 || f->kind == KIND_DENSE)) return wrong_type(r, f, example);
  if (dtype != 0 && !weft_feature_read(rest, &rows->values, &s)) return s != NULL ? s : malformed(r, example);
  if (f->kind == KIND_DENSE && rows->values.n - before != f->stride) {
    weft_str_t name = name_of(r, example);
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "Name: %.*s, Key: %.*s, Index: %" PRId64
                      ".  Number of values != expected.  values size: %" PRId64 " but output shape: %s",
                      WEFT_STR_ARGS(name), WEFT_STR_ARGS(f->key), example, rows->values.n - before,
                      WEFT_SHAPE_TEXT(f->shape));
  }
  return end_row(rows);
}

static weft_status_t *read_list(const sequence_run_t *r, const sequence_feature_t *f, int64_t example,
                                sequence_rows_t *rows) {
  weft_example_cursor_t c = weft_example_cursor(f->found[example]);
  weft_str_t feature;
  while (c.p < c.end) {
    uint32_t tag = 0;
    if (!weft_example_varint(&c, &tag)) return malformed(r, example);
    if (tag != FIELD_1) {
      if (!weft_example_skip(&c, tag)) return malformed(r, example);
      continue;
    }
    if (!weft_example_bytes(&c, &feature)) return malformed(r, example);
    WEFT_RETURN_IF_ERROR(read_row(r, f, example, feature, rows));
  }
  return NULL;
}

static weft_status_t *missing(const sequence_run_t *r, const sequence_feature_t *f, int64_t example) {
  weft_str_t name = name_of(r, example);
  if (f->part == PART_CONTEXT) {
    return WEFT_ERROR(
        INVALID_ARGUMENT,
        "Name: %.*s, Context feature '%.*s' (data type: %s) is required but could not be found.",
        WEFT_STR_ARGS(name), WEFT_STR_ARGS(f->key), weft_dtype_name(f->dtype));
  }
  return WEFT_ERROR(
      INVALID_ARGUMENT,
      "Name: %.*s, Feature list '%.*s' is required but could not be found.  Did you mean to include "
      "it in feature_list_dense_missing_assumed_empty or feature_list_dense_defaults?",
      WEFT_STR_ARGS(name), WEFT_STR_ARGS(f->key));
}

/* What stands for a feature that an example lacks. */
static weft_status_t *read_missing(const sequence_run_t *r, const sequence_feature_t *f, int64_t example,
                                   sequence_rows_t *rows) {
  if (f->kind == KIND_DENSE && f->part == PART_LISTS) return f->may_lack ? NULL : missing(r, f, example);
  if (f->kind == KIND_DENSE && f->fallback->count == 0) return missing(r, f, example);
  return f->part == PART_CONTEXT ? end_row(rows) : NULL;
}

static weft_status_t *read_feature(const sequence_run_t *r, const sequence_feature_t *f,
                                   sequence_rows_t *rows) {
  int64_t n = r->serialized->count;
  rows->values.dtype = f->dtype;
  rows->row_ends = weft_calloc((size_t)n + 1, sizeof *rows->row_ends);
  if (rows->row_ends == NULL) return WEFT_NO_MEMORY("the rows of a feature");
  for (int64_t e = 0; e < n; e++) {
    int64_t before = rows->n;
    weft_status_t *s = f->found[e].data == NULL  ? read_missing(r, f, e, rows)
                       : f->part == PART_CONTEXT ? read_row(r, f, e, f->found[e], rows)
                                                 : read_list(r, f, e, rows);
    if (s != NULL) return s;
    rows->row_ends[e] = rows->n;
    if (rows->n - before > rows->most) rows->most = rows->n - before;
  }
  return NULL;
}

/* ---- writing it ---- */

static int64_t row_begin(const sequence_rows_t *rows, int64_t row) {
  return row == 0 ? 0 : rows->ends[row - 1];
}
static int64_t example_begin(const sequence_rows_t *rows, int64_t e) {
  return e == 0 ? 0 : rows->row_ends[e - 1];
}

static weft_status_t *put_dense_context(const sequence_run_t *r, const sequence_feature_t *f,
                                        const sequence_rows_t *rows) {
  int64_t dims[WEFT_MAX_DIMS + 1] = {r->serialized->count}, n = r->serialized->count, num_found = 0;
  weft_shape_t shape;
  weft_tensor_t *out = NULL;
  int extra = r->is_scalar ? 0 : 1;
  memcpy(dims + extra, f->shape->dims, (size_t)f->shape->rank * sizeof *dims);
  WEFT_RETURN_IF_ERROR(weft_shape_make(dims, f->shape->rank + extra, &shape));
  WEFT_RETURN_IF_ERROR(weft_out_new(r->ctx, f->out, f->dtype, &shape, &out));
  for (int64_t e = 0; e < n; e++) {
    bool is_found = f->found[e].data != NULL;
    num_found += is_found;
    WEFT_RETURN_IF_ERROR(
        is_found ? weft_feature_copy(&rows->values, row_begin(rows, e), f->stride, out, e * f->stride)
                 : weft_cpu_copy(out, e * f->stride, f->fallback, 0, f->stride));
  }
  if (num_found > 0 || f->fallback->count > 0 || f->stride == 0) return NULL;
  return WEFT_ERROR(INVALID_ARGUMENT,
                    "Inconsistent max number of elements for feature %.*s: expected %" PRId64 ", but found 0",
                    WEFT_STR_ARGS(f->key), f->stride);
}

static weft_status_t *put_dense_list(const sequence_run_t *r, const sequence_feature_t *f,
                                     const sequence_rows_t *rows) {
  int64_t dims[WEFT_MAX_DIMS + 2] = {r->serialized->count}, n = r->serialized->count;
  weft_shape_t shape;
  weft_tensor_t *out = NULL, *lengths = NULL;
  int extra = r->is_scalar ? 0 : 1;
  dims[extra] = rows->most;
  memcpy(dims + extra + 1, f->shape->dims, (size_t)f->shape->rank * sizeof *dims);
  WEFT_RETURN_IF_ERROR(weft_shape_make(dims, f->shape->rank + extra + 1, &shape));
  WEFT_RETURN_IF_ERROR(weft_out_new(r->ctx, f->out, f->dtype, &shape, &out));
  weft_cpu_zero(out);
  for (int64_t e = 0; e < n; e++) {
    int64_t begin = example_begin(rows, e), count = (rows->row_ends[e] - begin) * f->stride;
    WEFT_RETURN_IF_ERROR(
        weft_feature_copy(&rows->values, row_begin(rows, begin), count, out, e * rows->most * f->stride));
  }
  if (r->form->is_single) return NULL;
  WEFT_RETURN_IF_ERROR(weft_out_new(r->ctx, f->out + f->out_step, WEFT_I64, &r->serialized->shape, &lengths));
  for (int64_t e = 0; e < n; e++) ((int64_t *)lengths->data)[e] = rows->row_ends[e] - example_begin(rows, e);
  return NULL;
}

static weft_status_t *put_values(const sequence_run_t *r, const sequence_feature_t *f,
                                 const sequence_rows_t *rows, int out) {
  weft_shape_t shape = weft_shape_vector(rows->values.n);
  weft_tensor_t *t = NULL;
  WEFT_RETURN_IF_ERROR(weft_out_new(r->ctx, out, f->dtype, &shape, &t));
  return weft_feature_copy(&rows->values, 0, rows->values.n, t, 0);
}

/* An index has the example (but of a single one), the row (in lists), the place in the row. */
static weft_status_t *put_sparse(const sequence_run_t *r, const sequence_feature_t *f,
                                 const sequence_rows_t *rows) {
  bool is_list = f->part == PART_LISTS;
  int rank = 1 + is_list + !r->is_scalar, d = 0;
  weft_shape_t shape = weft_shape_matrix(rows->values.n, rank), sizes_shape = weft_shape_vector(rank);
  weft_tensor_t *indices = NULL, *sizes = NULL;
  WEFT_RETURN_IF_ERROR(weft_out_new(r->ctx, f->out, WEFT_I64, &shape, &indices));
  WEFT_RETURN_IF_ERROR(put_values(r, f, rows, f->out + f->out_step));
  WEFT_RETURN_IF_ERROR(weft_out_new(r->ctx, f->out + 2 * f->out_step, WEFT_I64, &sizes_shape, &sizes));
  int64_t *size = sizes->data, *at = indices->data;
  if (!r->is_scalar) size[d++] = r->serialized->count;
  if (is_list) size[d++] = rows->most;
  size[d] = rows->longest;
  for (int64_t e = 0; e < r->serialized->count; e++) {
    int64_t first = example_begin(rows, e);
    for (int64_t row = first; row < rows->row_ends[e]; row++) {
      for (int64_t k = row_begin(rows, row); k < rows->ends[row]; k++) {
        if (!r->is_scalar) *at++ = e;
        if (is_list) *at++ = row - first;
        *at++ = k - row_begin(rows, row);
      }
    }
  }
  return NULL;
}

/* Splits behind each of n parts. Those of a single example have no meaning: TensorFlow makes them a scalar.
 */
static weft_status_t *put_splits(const sequence_run_t *r, int out, const int64_t *ends, int64_t n,
                                 bool is_scalar) {
  weft_dtype_t dtype = (weft_dtype_t)r->ctx->node->output_types[out];
  weft_shape_t shape = is_scalar ? WEFT_SCALAR : weft_shape_vector(n + 1);
  weft_tensor_t *t = NULL;
  if (dtype == WEFT_I32 && n > 0 && ends[n - 1] > INT32_MAX) {
    return WEFT_ERROR(INVALID_ARGUMENT, "%" PRId64 " values do not fit row splits of int32", ends[n - 1]);
  }
  WEFT_RETURN_IF_ERROR(weft_out_new(r->ctx, out, dtype, &shape, &t));
  weft_cpu_zero(t);
  for (int64_t i = 0; !is_scalar && i < n; i++) {
    if (dtype == WEFT_I32) ((int32_t *)t->data)[i + 1] = (int32_t)ends[i];
    if (dtype == WEFT_I64) ((int64_t *)t->data)[i + 1] = ends[i];
  }
  return NULL;
}

static weft_status_t *put_ragged(const sequence_run_t *r, const sequence_feature_t *f,
                                 const sequence_rows_t *rows) {
  WEFT_RETURN_IF_ERROR(put_values(r, f, rows, f->out));
  if (f->part == PART_CONTEXT) return put_splits(r, f->out + f->out_step, rows->ends, rows->n, r->is_scalar);
  WEFT_RETURN_IF_ERROR(
      put_splits(r, f->out + f->out_step, rows->row_ends, r->serialized->count, r->is_scalar));
  return put_splits(r, f->out_inner, rows->ends, rows->n, false);
}

static weft_status_t *put_feature(void *arg, int64_t i, weft_strbuf_t *text) {
  const sequence_run_t *r = arg;
  const sequence_feature_t *f = &r->wanted[i];
  sequence_rows_t rows = {0};
  (void)text;
  weft_status_t *s = read_feature(r, f, &rows);
  if (s == NULL) {
    switch (f->kind) {
      case KIND_DENSE:
        s = f->part == PART_CONTEXT ? put_dense_context(r, f, &rows) : put_dense_list(r, f, &rows);
        break;
      case KIND_SPARSE: s = put_sparse(r, f, &rows); break;
      case KIND_RAGGED: s = put_ragged(r, f, &rows); break;
      case NUM_KINDS: break;
    }
  }
  weft_feature_values_deinit(&rows.values);
  weft_free(rows.ends);
  weft_free(rows.row_ends);
  return s;
}

/* ---- the kernel ---- */

static weft_status_t *parse_sequence(weft_kernel_ctx_t *ctx) {
  sequence_run_t r = {.ctx = ctx,
                      .plan = ctx->state,
                      .form = ctx->node->param,
                      .serialized = weft_in(ctx, 0),
                      .by_key = {WEFT_MAP_INIT, WEFT_MAP_INIT}};
  r.names = weft_in(ctx, r.form->is_single ? ctx->node->num_inputs - 1 : 1);
  r.is_scalar = r.serialized->shape.rank == 0;
  weft_status_t *s = check_inputs(&r);
  if (s == NULL) s = want_all(&r);
  if (s == NULL) s = find_all(&r);
  if (s == NULL) s = weft_each_row(ctx, r.num_wanted, 1, put_feature, &r);
  weft_map_deinit(&r.by_key[PART_CONTEXT]);
  weft_map_deinit(&r.by_key[PART_LISTS]);
  weft_free(r.wanted);
  weft_free(r.found);
  return s;
}

#define PARSE_SEQUENCE(op_, ...)                                                             \
  {                                                                                          \
    .op = op_, .prepare = sequence_prepare, .compute = parse_sequence, .destroy = weft_free, \
    .param = &(const sequence_form_t) {                                                      \
      .is_single = __VA_ARGS__                                                               \
    }                                                                                        \
  }

const weft_kernel_t weft_cpu_parse_sequence_kernels[] = {
    PARSE_SEQUENCE("ParseSequenceExample", false),
    PARSE_SEQUENCE("ParseSequenceExampleV2", false, .keys_are_vectors = true),
    PARSE_SEQUENCE("ParseSingleSequenceExample", true),
    {0},
};
