/* kernels/cpu/parsing/parse_example.c - ParseExample, ParseExampleV2 and ParseSingleExample: the features of
 * serialized Examples, as attributes and inputs name them.
 */
#include <inttypes.h>

#include "kernels/cpu/loops/common.h"
#include "kernels/cpu/parsing/examples.h"

/* The param of a row: where the inputs are, and of what kind. */
typedef struct example_form {
  bool is_single;  /* keys are attributes, the input is one example */
  bool has_ragged; /* keys are vectors; else each is an input */
} example_form_t;

/* ---- attributes ---- */

typedef struct example_plan {
  int num_dense, num_sparse, num_ragged;
  weft_example_feature_t *dense;              /* owned; without keys and fallbacks */
  const weft_str_t *dense_keys, *sparse_keys; /* of a single example; else NULL */
} example_plan_t;

static void example_plan_free(void *state) {
  example_plan_t *p = state;
  if (p == NULL) return;
  weft_free(p->dense);
  weft_free(p);
}

static int length_of(const weft_attr_t *list) { return list == NULL ? 0 : list->n; }

static weft_status_t *read_lengths(const weft_kernel_setup_t *setup, const example_form_t *form,
                                   example_plan_t *p) {
  const weft_attr_t *types = weft_knode_attr(setup, "Tdense"),
                    *sparse = weft_knode_attr(setup, "sparse_types"),
                    *ragged = weft_knode_attr(setup, "ragged_value_types"),
                    *splits = weft_knode_attr(setup, "ragged_split_types");
  int64_t num_sparse = weft_knode_int(setup, form->is_single || form->has_ragged ? "num_sparse" : "Nsparse");
  p->num_dense = length_of(types);
  p->num_sparse = length_of(sparse);
  p->num_ragged = length_of(ragged);
  if (p->num_sparse != num_sparse) {
    return WEFT_ERROR(INVALID_ARGUMENT, "len(sparse_keys) != len(sparse_types)");
  }
  if (!form->is_single && !form->has_ragged && weft_knode_int(setup, "Ndense") != p->num_dense) {
    return WEFT_ERROR(INVALID_ARGUMENT, "len(dense_keys) != len(dense_types)");
  }
  if (length_of(weft_knode_attr(setup, "dense_shapes")) != p->num_dense) {
    return WEFT_ERROR(INVALID_ARGUMENT, "len(dense_keys) != len(dense_shapes)");
  }
  if (length_of(splits) != p->num_ragged) {
    return WEFT_ERROR(INVALID_ARGUMENT, "len(ragged_keys) != len(ragged_split_types)");
  }
  if (!form->is_single) return NULL;
  const weft_attr_t *dense_keys = weft_knode_attr(setup, "dense_keys"),
                    *sparse_keys = weft_knode_attr(setup, "sparse_keys");
  if (length_of(sparse_keys) != p->num_sparse) {
    return WEFT_ERROR(INVALID_ARGUMENT, "len(sparse_keys) != len(sparse_types)");
  }
  if (length_of(dense_keys) != p->num_dense) {
    return WEFT_ERROR(INVALID_ARGUMENT, "len(dense_keys) != len(dense_types)");
  }
  if (p->num_dense > 0) p->dense_keys = dense_keys->list.strings;
  if (p->num_sparse > 0) p->sparse_keys = sparse_keys->list.strings;
  return NULL;
}

static weft_status_t *read_plan(const weft_kernel_setup_t *setup, example_plan_t *p) {
  WEFT_RETURN_IF_ERROR(read_lengths(setup, setup->node.param, p));
  const weft_attr_t *shapes = weft_knode_attr(setup, "dense_shapes");
  p->dense = weft_calloc((size_t)p->num_dense + 1, sizeof *p->dense);
  if (p->dense == NULL) return WEFT_NO_MEMORY("preparing %.*s", WEFT_STR_ARGS(setup->node.name));
  for (int i = 0; i < p->num_dense; i++) {
    WEFT_RETURN_IF_ERROR(weft_example_dense(&shapes->list.shapes[i], i, &p->dense[i]));
  }
  return NULL;
}

static weft_status_t *example_prepare(const weft_kernel_setup_t *setup, void **out_state) {
  example_plan_t *p = weft_calloc(1, sizeof *p);
  if (p == NULL) return WEFT_NO_MEMORY("preparing %.*s", WEFT_STR_ARGS(setup->node.name));
  weft_status_t *s = read_plan(setup, p);
  if (s != NULL) {
    example_plan_free(p);
    return s;
  }
  *out_state = p;
  return NULL;
}

/* ---- one run ---- */

typedef struct example_run {
  weft_kernel_ctx_t *ctx;
  const example_plan_t *plan;
  const example_form_t *form;
  const weft_tensor_t *serialized, *names; /* names: NULL without */
  weft_example_feature_t *wanted;          /* owned; dense, sparse, ragged */
  int num_wanted;
} example_run_t;

/* Where the inputs begin. */
static int first_default(const example_run_t *r) {
  if (r->form->is_single) return 1;
  return r->form->has_ragged ? 5 : 2 + r->plan->num_sparse + r->plan->num_dense;
}

static weft_status_t *check_keys(const weft_tensor_t *keys, int wanted, const char *what) {
  if (keys->count == wanted) return NULL;
  return WEFT_ERROR(INVALID_ARGUMENT, "Expected len(%s) to match the attributes but got: %" PRId64 " vs. %d",
                    what, keys->count, wanted);
}

static weft_status_t *check_shapes(const example_run_t *r) {
  const weft_tensor_t *s = r->serialized;
  if (r->form->is_single    ? s->shape.rank != 0
      : r->form->has_ragged ? s->shape.rank > 1
                            : s->shape.rank != 1) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Expected serialized to be a %s, got shape: %s",
                      r->form->is_single    ? "scalar"
                      : r->form->has_ragged ? "scalar or vector"
                                            : "vector",
                      WEFT_SHAPE_TEXT(&s->shape));
  }
  if (r->form->is_single) return NULL;
  if (r->names != NULL && !weft_shape_eq(&r->names->shape, &s->shape)) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "Expected names have the same shape as serialized: name.shape=%s, serialized.shape=%s",
                      WEFT_SHAPE_TEXT(&r->names->shape), WEFT_SHAPE_TEXT(&s->shape));
  }
  if (!r->form->has_ragged) return NULL;
  WEFT_RETURN_IF_ERROR(check_keys(weft_in(r->ctx, 3), r->plan->num_dense, "dense_keys"));
  WEFT_RETURN_IF_ERROR(check_keys(weft_in(r->ctx, 2), r->plan->num_sparse, "sparse_keys"));
  return check_keys(weft_in(r->ctx, 4), r->plan->num_ragged, "ragged_keys");
}

/* The key of feature i of a kind. */
static weft_status_t *key_of(const example_run_t *r, weft_example_kind_t kind, int i, weft_str_t *out) {
  if (r->form->is_single) {
    *out = kind == WEFT_EXAMPLE_DENSE ? r->plan->dense_keys[i] : r->plan->sparse_keys[i];
    return NULL;
  }
  if (r->form->has_ragged) {
    *out = weft_tensor_str_at(weft_in(r->ctx, kind == WEFT_EXAMPLE_DENSE    ? 3
                                              : kind == WEFT_EXAMPLE_SPARSE ? 2
                                                                            : 4),
                              i);
    return NULL;
  }
  const weft_tensor_t *t = weft_in(r->ctx, 2 + (kind == WEFT_EXAMPLE_DENSE ? r->plan->num_sparse : 0) + i);
  if (t->count != 1) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Expected a key to be a scalar, got shape: %s",
                      WEFT_SHAPE_TEXT(&t->shape));
  }
  *out = weft_tensor_str_at(t, 0);
  return NULL;
}

/* The output with a part of feature i of a kind. */
static int output_of(const example_run_t *r, weft_example_kind_t kind, int i, int part) {
  const example_plan_t *p = r->plan;
  switch (kind) {
    case WEFT_EXAMPLE_DENSE: return 3 * p->num_sparse + i;
    case WEFT_EXAMPLE_SPARSE: return part * p->num_sparse + i;
    case WEFT_EXAMPLE_RAGGED: return 3 * p->num_sparse + p->num_dense + part * p->num_ragged + i;
  }
  return 0;
}

static weft_status_t *want(example_run_t *r, weft_example_kind_t kind, int i) {
  const int *types = r->ctx->node->output_types;
  weft_example_feature_t *f = &r->wanted[r->num_wanted++];
  if (kind == WEFT_EXAMPLE_DENSE) *f = r->plan->dense[i];
  f->kind = kind;
  WEFT_RETURN_IF_ERROR(key_of(r, kind, i, &f->key));
  f->dtype = (weft_dtype_t)types[output_of(r, kind, i, kind == WEFT_EXAMPLE_SPARSE ? 1 : 0)];
  if (kind == WEFT_EXAMPLE_RAGGED) f->split_dtype = (weft_dtype_t)types[output_of(r, kind, i, 1)];
  if (kind != WEFT_EXAMPLE_DENSE) return NULL;
  f->fallback = weft_in(r->ctx, first_default(r) + i);
  return weft_example_check_default(f, i);
}

static weft_status_t *want_all(example_run_t *r) {
  const example_plan_t *p = r->plan;
  r->wanted = weft_calloc((size_t)(p->num_dense + p->num_sparse + p->num_ragged) + 1, sizeof *r->wanted);
  if (r->wanted == NULL) return WEFT_NO_MEMORY("the features of examples");
  for (int i = 0; i < p->num_dense; i++) WEFT_RETURN_IF_ERROR(want(r, WEFT_EXAMPLE_DENSE, i));
  for (int i = 0; i < p->num_sparse; i++) WEFT_RETURN_IF_ERROR(want(r, WEFT_EXAMPLE_SPARSE, i));
  for (int i = 0; i < p->num_ragged; i++) WEFT_RETURN_IF_ERROR(want(r, WEFT_EXAMPLE_RAGGED, i));
  return NULL;
}

static weft_status_t *new_output(void *arg, int i, int part, weft_dtype_t dtype, const weft_shape_t *shape,
                                 weft_tensor_t **out) {
  const example_run_t *r = arg;
  const weft_example_kind_t kind = r->wanted[i].kind;
  if (kind != WEFT_EXAMPLE_DENSE) i -= r->plan->num_dense;
  if (kind == WEFT_EXAMPLE_RAGGED) i -= r->plan->num_sparse;
  return weft_out_new(r->ctx, output_of(r, kind, i, part), dtype, shape, out);
}

static weft_status_t *parse(example_run_t *r) {
  WEFT_RETURN_IF_ERROR(check_shapes(r));
  WEFT_RETURN_IF_ERROR(want_all(r));
  const weft_example_job_t job = {.features = r->wanted,
                                  .num_features = r->num_wanted,
                                  .serialized = r->serialized,
                                  .names = r->names,
                                  .pool = r->ctx->device->pool,
                                  .new_part = new_output,
                                  .arg = r};
  return weft_examples_parse(&job);
}

static weft_status_t *parse_example(weft_kernel_ctx_t *ctx) {
  example_run_t r = {.ctx = ctx, .plan = ctx->state, .form = ctx->node->param, .serialized = weft_in(ctx, 0)};
  if (!r.form->is_single && weft_in(ctx, 1)->count > 0) r.names = weft_in(ctx, 1);
  weft_status_t *s = parse(&r);
  weft_free(r.wanted);
  return s;
}

#define PARSE_EXAMPLE(op_, ...)                                                                    \
  {                                                                                                \
    .op = op_, .prepare = example_prepare, .compute = parse_example, .destroy = example_plan_free, \
    .param = &(const example_form_t) {                                                             \
      .is_single = __VA_ARGS__                                                                     \
    }                                                                                              \
  }

const weft_kernel_t weft_cpu_parse_example_kernels[] = {
    PARSE_EXAMPLE("ParseExample", false),
    PARSE_EXAMPLE("ParseExampleV2", false, .has_ragged = true),
    PARSE_EXAMPLE("ParseSingleExample", true),
    {0},
};
