/* kernels/cpu/dataset/parse_example.c - ParseExampleDataset and its versions: batches of serialized Examples
 * parsed, many at once.
 *
 * An element has one component for each key, by their order: a dense tensor, a vector of the three parts of a
 * sparse one, or a ragged one in a variant.
 */
#include <stdlib.h>

#include "base/alloc.h"
#include "kernels/cpu/dataset/map.h"
#include "kernels/cpu/dataset/traversal.h"
#include "kernels/cpu/parsing/examples.h"
#include "tensor/pack.h"

enum { MAX_PARTS = 3 }; /* of a feature */

typedef struct parse_params {
  weft_map_params_t map;                                     /* first */
  const weft_attr_t *dense_keys, *sparse_keys, *ragged_keys; /* of the node; NULL: none, as below */
  const weft_attr_t *dense_types, *sparse_types, *ragged_types, *split_types, *dense_shapes;
  /* Made of them: */
  int n;
  weft_example_feature_t *features; /* owned, with what they point to; dense, sparse, ragged */
  int *components;                  /* owned; of an element, that hold them */
} parse_params_t;

static int length_of(const weft_attr_t *list) { return list == NULL ? 0 : list->n; }

/* ---- an element ---- */

typedef struct parse_run {
  const parse_params_t *params;
  weft_tensor_t **parts; /* owned; MAX_PARTS of each feature */
} parse_run_t;

static weft_status_t *new_part(void *arg, int i, int part, weft_dtype_t dtype, const weft_shape_t *shape,
                               weft_tensor_t **out) {
  const parse_run_t *r = arg;
  weft_tensor_t **at = &r->parts[MAX_PARTS * i + part];
  WEFT_RETURN_IF_ERROR(weft_tensor_new(dtype, shape, NULL, at));
  *out = *at;
  return NULL;
}

/* The parts of a sparse tensor, as a vector of boxes. */
static weft_status_t *box_sparse(weft_tensor_t *const *parts, weft_tensor_t **out) {
  const weft_shape_t shape = weft_shape_vector(MAX_PARTS);
  WEFT_RETURN_IF_ERROR(weft_tensor_new(WEFT_VARIANT, &shape, NULL, out));
  for (int i = 0; i < MAX_PARTS; i++) {
    weft_pack_t *box = NULL;
    WEFT_RETURN_IF_ERROR(weft_pack_of(&weft_boxed_type, &parts[i], 1, &box));
    ((weft_variant_t **)(*out)->data)[i] = &box->variant;
  }
  return NULL;
}

static weft_status_t *box_ragged(weft_tensor_t *const *parts, weft_tensor_t **out) {
  weft_tensor_t *const items[] = {parts[1], parts[0]};
  weft_pack_t *pack = NULL;
  WEFT_RETURN_IF_ERROR(weft_pack_of(&weft_ragged_type, items, 2, &pack));
  return weft_pack_scalar(pack, out);
}

static weft_status_t *check_component(const weft_element_spec_t *spec, int component, int i,
                                      const weft_tensor_t *t) {
  if (t->dtype != spec->dtypes[component]) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "Got wrong type for FastParseExample return value %d (expected %s, got %s).", i,
                      weft_dtype_name(spec->dtypes[component]), weft_dtype_name(t->dtype));
  }
  if (!weft_shape_compatible(&spec->shapes[component], &t->shape)) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "Got wrong shape for FastParseExample return value %d (expected %s, got %s).", i,
                      WEFT_SHAPE_TEXT(&spec->shapes[component]), WEFT_SHAPE_TEXT(&t->shape));
  }
  return NULL;
}

static weft_status_t *put_components(const parse_run_t *r, const weft_element_spec_t *spec,
                                     weft_tensor_t **out) {
  for (int i = 0; i < r->params->n; i++) {
    weft_tensor_t **parts = &r->parts[MAX_PARTS * i], **to = &out[r->params->components[i]];
    switch (r->params->features[i].kind) {
      case WEFT_EXAMPLE_DENSE: *to = weft_tensor_retain(parts[0]); break;
      case WEFT_EXAMPLE_SPARSE: WEFT_RETURN_IF_ERROR(box_sparse(parts, to)); break;
      case WEFT_EXAMPLE_RAGGED: WEFT_RETURN_IF_ERROR(box_ragged(parts, to)); break;
    }
    WEFT_RETURN_IF_ERROR(check_component(spec, r->params->components[i], i, *to));
  }
  return NULL;
}

/* All strings of an element, as a vector. */
static weft_status_t *flatten(weft_tensor_t *const *args, int n, weft_tensor_t **out) {
  int64_t total = 0;
  for (int i = 0; i < n; i++) total += args[i]->count;
  const weft_shape_t shape = weft_shape_vector(total);
  if (n == 1) return weft_tensor_view(args[0], WEFT_STRING, &shape, out);
  WEFT_RETURN_IF_ERROR(weft_tensor_new(WEFT_STRING, &shape, NULL, out));
  for (int64_t i = 0, at = 0; i < n; at += args[i]->count, i++) {
    WEFT_RETURN_IF_ERROR(weft_tensor_copy_elements(*out, at, args[i], 0, args[i]->count));
  }
  return NULL;
}

static weft_status_t *parse(const weft_iterator_t *it, weft_tensor_t *const *args, weft_tensor_t **out) {
  const parse_params_t *p = (const parse_params_t *)it->of->params;
  parse_run_t r = {p, weft_calloc((size_t)p->n * MAX_PARTS + 1, sizeof(weft_tensor_t *))};
  weft_tensor_t *serialized = NULL;
  weft_status_t *s = r.parts == NULL ? WEFT_NO_MEMORY("the features of examples") : NULL;
  if (s == NULL) s = flatten(args, it->of->inputs[0]->spec->n, &serialized);
  if (s == NULL) {
    const weft_example_job_t job = {.features = p->features,
                                    .num_features = p->n,
                                    .serialized = serialized,
                                    .pool = it->traversal->device->pool,
                                    .new_part = new_part,
                                    .arg = &r};
    s = weft_examples_parse(&job);
  }
  if (s == NULL) s = put_components(&r, it->of->spec, out);
  if (r.parts != NULL) weft_element_release(r.parts, p->n * MAX_PARTS);
  weft_free(r.parts);
  weft_tensor_release(serialized);
  return s;
}

/* ---- the data set ---- */

static void deinit(void *params) {
  parse_params_t *p = params;
  for (int i = 0; p->features != NULL && i < p->n; i++) {
    weft_free((void *)(uintptr_t)p->features[i].key.data);
    weft_free((void *)(uintptr_t)p->features[i].shape);
    weft_tensor_release((weft_tensor_t *)(uintptr_t)p->features[i].fallback);
  }
  weft_free(p->features);
  weft_free(p->components);
}

static weft_status_t *check_lengths(const parse_params_t *p) {
  static const char *const text = "Expected len(%s) == len(%s) but got: %d vs. %d";
  const struct {
    const char *a, *b;
    const weft_attr_t *x, *y;
  } pairs[] = {{"Tdense", "dense_keys", p->dense_types, p->dense_keys},
               {"dense_shapes", "dense_keys", p->dense_shapes, p->dense_keys},
               {"sparse_types", "sparse_keys", p->sparse_types, p->sparse_keys},
               {"ragged_value_types", "ragged_keys", p->ragged_types, p->ragged_keys},
               {"ragged_split_types", "ragged_keys", p->split_types, p->ragged_keys}};
  for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
    const int x = length_of(pairs[i].x), y = length_of(pairs[i].y);
    if (x != y) return WEFT_ERROR(INVALID_ARGUMENT, text, pairs[i].a, pairs[i].b, x, y);
  }
  return NULL;
}

static weft_status_t *read(const weft_kernel_setup_t *setup, void *params) {
  parse_params_t *p = params;
  weft_example_feature_t unused;
  p->dense_keys = weft_knode_attr(setup, "dense_keys");
  p->sparse_keys = weft_knode_attr(setup, "sparse_keys");
  p->ragged_keys = weft_knode_attr(setup, "ragged_keys");
  p->dense_types = weft_knode_attr(setup, "Tdense");
  p->sparse_types = weft_knode_attr(setup, "sparse_types");
  p->ragged_types = weft_knode_attr(setup, "ragged_value_types");
  p->split_types = weft_knode_attr(setup, "ragged_split_types");
  p->dense_shapes = weft_knode_attr(setup, "dense_shapes");
  p->map.preserves_cardinality = true;
  p->map.apply = parse;
  WEFT_RETURN_IF_ERROR(weft_order_read(setup, &p->map.order));
  for (int i = 0; i < length_of(p->dense_shapes); i++) {
    WEFT_RETURN_IF_ERROR(weft_example_dense(&p->dense_shapes->list.shapes[i], i, &unused));
  }
  return check_lengths(p);
}

/* Dense feature i: its shape, and its default from input `at`. */
static weft_status_t *add_dense(const weft_kernel_ctx_t *c, int at, int i, const parse_params_t *p,
                                weft_example_feature_t *f) {
  const weft_str_t key = f->key;
  weft_shape_t *shape = weft_malloc(sizeof *shape);
  if (shape == NULL) return WEFT_NO_MEMORY("a data set");
  *shape = p->dense_shapes->list.shapes[i];
  weft_status_t *s = weft_example_dense(shape, i, f);
  f->key = key;
  f->shape = shape;
  f->dtype = weft_dtype_base(p->dense_types->list.types[i]);
  f->fallback = weft_tensor_retain(weft_in(c, at));
  return s != NULL ? s : weft_example_check_default(f, i);
}

static weft_status_t *add_feature(const weft_kernel_ctx_t *c, int at, parse_params_t *p, int index) {
  weft_example_feature_t *f = &p->features[index];
  const int dense = length_of(p->dense_keys), sparse = length_of(p->sparse_keys);
  int i = index;
  const weft_attr_t *keys = p->dense_keys;
  if (index >= dense) {
    keys = index < dense + sparse ? p->sparse_keys : p->ragged_keys;
    i -= index < dense + sparse ? dense : dense + sparse;
  }
  const weft_str_t key = keys->list.strings[i];
  char *copy = weft_strndup(key.data, key.length);
  if (copy == NULL) return WEFT_NO_MEMORY("a data set");
  f->key = (weft_str_t){copy, key.length};
  if (index < dense) return add_dense(c, at + i, i, p, f);
  f->kind = index < dense + sparse ? WEFT_EXAMPLE_SPARSE : WEFT_EXAMPLE_RAGGED;
  const weft_attr_t *types = index < dense + sparse ? p->sparse_types : p->ragged_types;
  f->dtype = weft_dtype_base(types->list.types[i]);
  if (f->kind == WEFT_EXAMPLE_RAGGED) f->split_dtype = weft_dtype_base(p->split_types->list.types[i]);
  return NULL;
}

static int by_key(const void *a, const void *b) {
  const weft_example_feature_t *const *x = a, *const *y = b;
  return weft_str_compare((*x)->key, (*y)->key);
}

/* The component of each feature is the number of keys before its own. */
static weft_status_t *order_components(parse_params_t *p) {
  const weft_example_feature_t **sorted = weft_calloc((size_t)p->n + 1, sizeof *sorted);
  weft_status_t *s = sorted == NULL ? WEFT_NO_MEMORY("a data set") : NULL;
  for (int i = 0; s == NULL && i < p->n; i++) sorted[i] = &p->features[i];
  if (s == NULL) qsort(sorted, (size_t)p->n, sizeof *sorted, by_key);
  for (int i = 0; s == NULL && i < p->n; i++) {
    p->components[sorted[i] - p->features] = i;
    if (i > 0 && by_key(&sorted[i - 1], &sorted[i]) == 0) {
      s = WEFT_ERROR(INVALID_ARGUMENT, "Duplicate key not allowed: %.*s", WEFT_STR_ARGS(sorted[i]->key));
    }
  }
  weft_free(sorted);
  return s;
}

static weft_status_t *make(weft_kernel_ctx_t *c, int at, weft_dataset_t *d, void *params) {
  parse_params_t *p = params;
  const weft_element_spec_t *input = d->inputs[0]->spec;
  WEFT_RETURN_IF_ERROR(weft_parallel_in(c, at, &p->map.num_parallel));
  p->n = length_of(p->dense_keys) + length_of(p->sparse_keys) + length_of(p->ragged_keys);
  p->features = weft_calloc((size_t)p->n + 1, sizeof *p->features);
  p->components = weft_calloc((size_t)p->n + 1, sizeof *p->components);
  if (p->features == NULL || p->components == NULL) return WEFT_NO_MEMORY("a data set");
  for (int i = 0; i < p->n; i++) WEFT_RETURN_IF_ERROR(add_feature(c, at + 1, p, i));
  WEFT_RETURN_IF_ERROR(order_components(p));
  if (d->spec->n != p->n) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Expected len(output_types) == the number of keys but got: %d vs. %d",
                      d->spec->n, p->n);
  }
  for (int i = 0; i < input->n; i++) {
    if (input->dtypes[i] != WEFT_STRING) {
      return WEFT_ERROR(INVALID_ARGUMENT, "Examples are parsed of strings, not of %s",
                        weft_dtype_name(input->dtypes[i]));
    }
  }
  return NULL;
}

static const weft_dataset_class_t class = {.name = "ParseExample",
                                           .shards_by_input = true,
                                           .iterator_size = sizeof(weft_parallel_iterator_t),
                                           .begin = weft_parallel_begin,
                                           .next = weft_parallel_next,
                                           .end = weft_parallel_end,
                                           .save = weft_parallel_save,
                                           .load = weft_parallel_load};

static const weft_dataset_op_t op = {.class = &class,
                                     .num_inputs = 1,
                                     .params_size = sizeof(parse_params_t),
                                     .read = read,
                                     .make = make,
                                     .deinit = deinit};

const weft_kernel_t weft_cpu_dataset_parse_example_kernels[] = {
    WEFT_DATASET_ROW("ExperimentalParseExampleDataset", op),
    WEFT_DATASET_ROW("ParseExampleDataset", op),
    WEFT_DATASET_ROW("ParseExampleDatasetV2", op),
    {0},
};
