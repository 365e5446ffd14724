/* kernels/cpu/dataset/dataset.c - data sets as values, and the kernels that make them. */
#include "kernels/cpu/dataset/dataset.h"

#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"

/* ---- elements ---- */

weft_status_t *weft_element_spec_create(int n, weft_element_spec_t **out) {
  weft_element_spec_t *s = weft_calloc(1, sizeof *s);
  if (s != NULL) {
    s->dtypes = weft_calloc((size_t)n, sizeof *s->dtypes);
    s->shapes = weft_calloc((size_t)n, sizeof *s->shapes);
  }
  if (s == NULL || s->dtypes == NULL || s->shapes == NULL) {
    weft_element_spec_release(s);
    return WEFT_NO_MEMORY("the types of a data set's elements");
  }
  atomic_init(&s->refs, 1);
  s->n = n;
  for (int i = 0; i < n; i++) s->shapes[i] = WEFT_UNKNOWN_SHAPE;
  *out = s;
  return NULL;
}

weft_status_t *weft_element_spec_string(weft_element_spec_t **out) {
  WEFT_RETURN_IF_ERROR(weft_element_spec_create(1, out));
  (*out)->dtypes[0] = WEFT_STRING;
  (*out)->shapes[0] = WEFT_SCALAR;
  return NULL;
}

weft_element_spec_t *weft_element_spec_retain(weft_element_spec_t *s) {
  atomic_fetch_add_explicit(&s->refs, 1, memory_order_relaxed);
  return s;
}

void weft_element_spec_release(weft_element_spec_t *s) {
  if (s == NULL || atomic_fetch_sub_explicit(&s->refs, 1, memory_order_acq_rel) > 1) return;
  weft_free(s->dtypes);
  weft_free(s->shapes);
  weft_free(s);
}

weft_status_t *weft_element_spec_any_rows(const weft_element_spec_t *of, weft_element_spec_t **out) {
  WEFT_RETURN_IF_ERROR(weft_element_spec_create(of->n, out));
  for (int i = 0; i < of->n; i++) {
    (*out)->dtypes[i] = of->dtypes[i];
    (*out)->shapes[i] = of->shapes[i];
    if ((*out)->shapes[i].rank > 0) (*out)->shapes[i].dims[0] = WEFT_UNKNOWN_DIM;
  }
  return NULL;
}

weft_status_t *weft_element_spec_check(const weft_element_spec_t *expected, const weft_element_spec_t *got) {
  if (expected->n != got->n) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Number of components does not match: expected %d types but got %d.",
                      expected->n, got->n);
  }
  for (int i = 0; i < got->n; i++) {
    if (expected->dtypes[i] != got->dtypes[i]) {
      return WEFT_ERROR(INVALID_ARGUMENT, "Data type mismatch at component %d: expected %s but got %s.", i,
                        weft_dtype_name(expected->dtypes[i]), weft_dtype_name(got->dtypes[i]));
    }
  }
  for (int i = 0; i < got->n; i++) {
    if (!weft_shape_compatible(&expected->shapes[i], &got->shapes[i])) {
      return WEFT_ERROR(INVALID_ARGUMENT, "Incompatible shapes at component %d: expected %s but got %s.", i,
                        WEFT_SHAPE_TEXT(&expected->shapes[i]), WEFT_SHAPE_TEXT(&got->shapes[i]));
    }
  }
  return NULL;
}

weft_status_t *weft_element_spec_of_row(const weft_element_spec_t *spec, weft_element_spec_t **out) {
  WEFT_RETURN_IF_ERROR(weft_element_spec_create(spec->n, out));
  for (int i = 0; i < spec->n; i++) {
    const weft_shape_t *batch = &spec->shapes[i];
    (*out)->dtypes[i] = spec->dtypes[i];
    if (batch->rank < 1) continue;
    (*out)->shapes[i] = (weft_shape_t){.rank = batch->rank - 1};
    memcpy((*out)->shapes[i].dims, batch->dims + 1, (size_t)(batch->rank - 1) * sizeof *batch->dims);
  }
  return NULL;
}

void weft_element_release(weft_tensor_t **parts, int n) {
  for (int i = 0; i < n; i++) {
    weft_tensor_release(parts[i]);
    parts[i] = NULL;
  }
}

size_t weft_element_bytes(weft_tensor_t *const *parts, int n) {
  size_t total = 0;
  for (int i = 0; i < n; i++) {
    total += parts[i]->bytes;
    for (int64_t k = 0; parts[i]->dtype == WEFT_STRING && k < parts[i]->count; k++)
      total += weft_tensor_str_at(parts[i], k).length;
  }
  return total;
}

void weft_dataset_fn_release(weft_dataset_fn_t *f) {
  if (f == NULL || atomic_fetch_sub_explicit(&f->refs, 1, memory_order_acq_rel) > 1) return;
  for (int i = 0; i < f->num_captured; i++) weft_tensor_release(f->captured[i]);
  weft_callee_release(f->callee);
  weft_free(f);
}

/* ---- data sets ---- */

static void node_release(weft_dataset_node_t *n) {
  if (n == NULL || atomic_fetch_sub_explicit(&n->refs, 1, memory_order_acq_rel) > 1) return;
  weft_strbuf_deinit(&n->def);
  weft_free(n);
}

static void origin_free(weft_dataset_origin_t *o) {
  if (o == NULL) return;
  for (int i = 0; i < o->num_inputs; i++) weft_tensor_release(o->inputs[i]);
  node_release(o->node);
  weft_free(o);
}

static void destroy(weft_variant_t *v) {
  weft_dataset_t *d = (weft_dataset_t *)v;
  origin_free(d->origin);
  for (int i = 0; i < d->num_inputs; i++) weft_dataset_release(d->inputs[i]);
  if (d->params != NULL) weft_object_release(&d->params->object);
  for (int i = 0; i < WEFT_MAX_FUNCTIONS; i++) weft_dataset_fn_release(d->fns[i]);
  weft_element_spec_release(d->spec);
  weft_free(d);
}

const weft_variant_type_t weft_dataset_type = {.name = "tensorflow::DatasetVariantWrapper",
                                               .destroy = destroy};

weft_status_t *weft_dataset_create(const weft_dataset_t *like, weft_dataset_t *const *inputs, int num_inputs,
                                   weft_dataset_t **out) {
  weft_dataset_t *d = weft_calloc(1, sizeof *d + (size_t)num_inputs * sizeof(weft_dataset_t *));
  if (d == NULL) return WEFT_NO_MEMORY("a data set");
  atomic_init(&d->variant.refs, 1);
  d->variant.type = &weft_dataset_type;
  d->class = like->class;
  d->device = like->device;
  if (like->params != NULL) {
    weft_object_retain(&like->params->object);
    d->params = like->params;
  }
  for (int i = 0; i < WEFT_MAX_FUNCTIONS && like->fns[i] != NULL; i++) {
    atomic_fetch_add_explicit(&like->fns[i]->refs, 1, memory_order_relaxed);
    d->fns[i] = like->fns[i];
  }
  d->spec = like->spec != NULL ? weft_element_spec_retain(like->spec) : NULL;
  d->num_inputs = num_inputs;
  for (int i = 0; i < num_inputs; i++) d->inputs[i] = weft_dataset_retain(inputs[i]);
  *out = d;
  return NULL;
}

int64_t weft_dataset_cardinality(const weft_dataset_t *d) {
  while (d->class->cardinality == NULL) {
    if (d->num_inputs == 0) return WEFT_CARDINALITY_UNKNOWN;
    d = d->inputs[0];
  }
  return d->class->cardinality(d);
}

int64_t weft_dataset_batch_size(const weft_dataset_t *d) {
  if (d->class->batch_size != NULL) return d->class->batch_size(d);
  if (!d->class->keeps_batches || d->num_inputs == 0) return -1;
  const int64_t size = weft_dataset_batch_size(d->inputs[0]);
  for (int i = 1; i < d->num_inputs; i++) {
    if (weft_dataset_batch_size(d->inputs[i]) != size) return -1;
  }
  return size;
}

int64_t weft_cardinality_unknown(const weft_dataset_t *d) {
  (void)d;
  return WEFT_CARDINALITY_UNKNOWN;
}

weft_status_t *weft_dataset_tensor(weft_dataset_t *d, weft_tensor_t **out) {
  weft_status_t *s = weft_tensor_new(WEFT_VARIANT, &WEFT_SCALAR, NULL, out);
  if (s != NULL) {
    weft_dataset_release(d);
    return s;
  }
  *(weft_variant_t **)(*out)->data = &d->variant;
  return NULL;
}

weft_status_t *weft_dataset_of(const weft_tensor_t *t, weft_dataset_t **out) {
  if (t->dtype != WEFT_VARIANT || t->shape.rank != 0)
    return WEFT_ERROR(INVALID_ARGUMENT, "Dataset tensor must be a scalar of dtype DT_VARIANT.");
  weft_variant_t *v = *(weft_variant_t **)t->data;
  if (v == NULL || v->type != &weft_dataset_type)
    return WEFT_ERROR(INVALID_ARGUMENT, "Tensor must be a Dataset object.");
  *out = (weft_dataset_t *)v;
  return NULL;
}

/* ---- kernels ---- */

/* What a node makes its data sets from. */
typedef struct dataset_maker {
  const weft_dataset_op_t *op;
  weft_element_spec_t *spec;                  /* NULL: make says */
  weft_callee_t *callees[WEFT_MAX_FUNCTIONS]; /* lent; as many as the record has */
  int num_captured[WEFT_MAX_FUNCTIONS];
  int num_inputs, num_leading;
  weft_dataset_params_t *params; /* attributes only */
  weft_dataset_node_t *node;     /* NULL: the node has no graph */
} dataset_maker_t;

void weft_dataset_unprepare(void *state) {
  dataset_maker_t *m = state;
  if (m == NULL) return;
  weft_element_spec_release(m->spec);
  weft_free(m->params);
  node_release(m->node);
  weft_free(m);
}

/* From output_types (or Toutput_types) and output_shapes; none of them: left to make. */
static weft_status_t *read_spec(const weft_kernel_setup_t *setup, weft_element_spec_t **out) {
  const weft_attr_t *types = weft_knode_attr(setup, "output_types");
  const weft_attr_t *shapes = weft_knode_attr(setup, "output_shapes");
  if (types == NULL) types = weft_knode_attr(setup, "Toutput_types");
  if (types == NULL || shapes == NULL) return NULL;
  if (types->n != shapes->n) {
    return WEFT_ERROR(INVALID_ARGUMENT, "output_types and output_shapes must be same length, got: %d and %d",
                      types->n, shapes->n);
  }
  WEFT_RETURN_IF_ERROR(weft_element_spec_create(types->n, out));
  for (int i = 0; i < types->n; i++) {
    (*out)->dtypes[i] = weft_dtype_base(types->list.types[i]);
    (*out)->shapes[i] = shapes->list.shapes[i];
  }
  return NULL;
}

static weft_status_t *read_node(const weft_kernel_setup_t *setup, weft_dataset_node_t **out) {
  if (setup->functions == NULL) return NULL;
  weft_dataset_node_t *n = weft_calloc(1, sizeof *n);
  if (n == NULL) return WEFT_NO_MEMORY("preparing %s", setup->node.name.data);
  atomic_init(&n->refs, 1);
  weft_status_t *s = setup->functions->write_node(setup->functions, setup, &n->def);
  if (s != NULL) {
    node_release(n);
    return s;
  }
  *out = n;
  return NULL;
}

static weft_status_t *read(const weft_kernel_setup_t *setup, dataset_maker_t *m) {
  const weft_dataset_op_t *op = m->op;
  const size_t size = op->params_size == 0 ? sizeof(weft_dataset_params_t) : op->params_size;
  m->params = weft_calloc(1, size);
  if (m->params == NULL) return WEFT_NO_MEMORY("preparing %s", setup->node.name.data);
  WEFT_RETURN_IF_ERROR(read_spec(setup, &m->spec));
  WEFT_RETURN_IF_ERROR(read_node(setup, &m->node));
  m->num_inputs = op->num_inputs < 0 ? (int)weft_knode_int(setup, "N") + op->num_more_inputs : op->num_inputs;
  m->num_leading = op->num_plain;
  if (op->leading != NULL) m->num_leading += weft_knode_attr(setup, op->leading)->n;
  for (int i = 0; op->functions[i].attr != NULL; i++) {
    const weft_attr_t *types = weft_knode_attr(setup, op->functions[i].captured);
    m->num_captured[i] = types != NULL ? types->n : 0;
    WEFT_RETURN_IF_ERROR(weft_knode_callee(setup, op->functions[i].attr, &m->callees[i]));
  }
  return op->read != NULL ? op->read(setup, m->params) : NULL;
}

weft_status_t *weft_dataset_prepare(const weft_kernel_setup_t *setup, void **out_state) {
  dataset_maker_t *m = weft_calloc(1, sizeof *m);
  if (m == NULL) return WEFT_NO_MEMORY("preparing %s", setup->node.name.data);
  m->op = setup->node.param;
  weft_status_t *s = read(setup, m);
  if (s != NULL) {
    weft_dataset_unprepare(m);
    return s;
  }
  *out_state = m;
  return NULL;
}

static void destroy_params(weft_object_t *o) {
  weft_dataset_params_t *p = (weft_dataset_params_t *)o;
  if (p->deinit != NULL) p->deinit(p);
  weft_free(p);
}

weft_status_t *weft_dataset_params_new(const void *like, size_t size, void (*deinit)(void *params),
                                       weft_dataset_params_t **out) {
  weft_dataset_params_t *p = weft_malloc(size);
  if (p == NULL) return WEFT_NO_MEMORY("a data set");
  memcpy(p, like, size);
  atomic_init(&p->object.refs, 1);
  p->object.destroy = destroy_params;
  p->deinit = deinit;
  *out = p;
  return NULL;
}

static weft_status_t *make_params(const dataset_maker_t *m, weft_dataset_params_t **out) {
  const size_t size = m->op->params_size == 0 ? sizeof(weft_dataset_params_t) : m->op->params_size;
  return weft_dataset_params_new(m->params, size, m->op->deinit, out);
}

weft_status_t *weft_dataset_put_below(weft_dataset_t *d, const weft_dataset_class_t *class,
                                      weft_dataset_params_t *params, weft_element_spec_t *spec) {
  weft_dataset_t like = *d, *made = NULL;
  like.class = class;
  like.params = params;
  like.spec = spec;
  weft_status_t *s = weft_dataset_create(&like, d->inputs, 1, &made);
  weft_object_release(&params->object);
  if (s != NULL) return s;
  weft_dataset_release(d->inputs[0]);
  d->inputs[0] = made;
  return NULL;
}

/* Function i, with the captured tensors that begin at input `at`. */
static weft_status_t *make_fn(weft_kernel_ctx_t *c, const dataset_maker_t *m, int i, int at,
                              weft_dataset_fn_t **out) {
  const int n = m->num_captured[i];
  weft_dataset_fn_t *f = weft_calloc(1, sizeof *f + (size_t)n * sizeof(weft_tensor_t *));
  if (f == NULL) return WEFT_NO_MEMORY("a data set's function");
  atomic_init(&f->refs, 1);
  f->callee = weft_callee_retain(m->callees[i]);
  f->num_captured = n;
  for (int k = 0; k < n; k++) f->captured[k] = weft_tensor_retain(weft_in(c, at + k));
  *out = f;
  return NULL;
}

/* *at: behind what the functions have captured. */
static weft_status_t *make_fns(weft_kernel_ctx_t *c, const dataset_maker_t *m, int *at, weft_dataset_t *d) {
  for (int i = 0; m->op->functions[i].attr != NULL; i++) {
    WEFT_RETURN_IF_ERROR(make_fn(c, m, i, *at, &d->fns[i]));
    *at += m->num_captured[i];
  }
  return NULL;
}

static weft_status_t *make(weft_kernel_ctx_t *c, const dataset_maker_t *m, weft_dataset_t **out) {
  weft_dataset_t like = {.class = m->op->class, .spec = m->spec, .device = c->device};
  weft_dataset_t *inputs[64];
  weft_dataset_t **in = m->num_inputs <= 64 ? inputs : weft_calloc((size_t)m->num_inputs, sizeof *in);
  weft_status_t *s = in == NULL ? WEFT_NO_MEMORY("a data set") : NULL;
  int at = m->num_inputs + m->num_leading;
  for (int i = 0; s == NULL && i < m->num_inputs; i++) s = weft_dataset_of(weft_in(c, i), &in[i]);
  if (s == NULL) s = make_params(m, &like.params);
  if (s == NULL) s = weft_dataset_create(&like, in, m->num_inputs, out);
  if (in != inputs) weft_free(in);
  void *params = like.params;
  if (s == NULL) s = make_fns(c, m, &at, *out);
  if (s == NULL && m->op->make != NULL) s = m->op->make(c, at, *out, params);
  if (params != NULL) weft_object_release(params);
  return s;
}

static weft_status_t *rewrite(weft_kernel_ctx_t *c, const dataset_maker_t *m, weft_dataset_t **out) {
  weft_dataset_t *input = NULL;
  WEFT_RETURN_IF_ERROR(weft_dataset_of(weft_in(c, 0), &input));
  return m->op->rewrite(c, m->params, input, out);
}

/* A data set that another node has made, and that this one passes on, stays that node's. */
static weft_status_t *set_origin(weft_kernel_ctx_t *c, const dataset_maker_t *m, weft_dataset_t *d) {
  const int n = c->node->num_inputs;
  if (m->node == NULL || d->origin != NULL) return NULL;
  weft_dataset_origin_t *o = weft_calloc(1, sizeof *o + (size_t)n * sizeof(weft_tensor_t *));
  if (o == NULL) return WEFT_NO_MEMORY("a data set");
  atomic_fetch_add_explicit(&m->node->refs, 1, memory_order_relaxed);
  o->node = m->node;
  o->num_inputs = n;
  for (int i = 0; i < n; i++) o->inputs[i] = weft_tensor_retain(weft_in(c, i));
  d->origin = o;
  return NULL;
}

weft_status_t *weft_dataset_compute(weft_kernel_ctx_t *c) {
  const dataset_maker_t *m = c->state;
  weft_dataset_t *d = NULL;
  weft_tensor_t *t = NULL;
  weft_status_t *s = m->op->rewrite != NULL ? rewrite(c, m, &d) : make(c, m, &d);
  if (s == NULL) s = set_origin(c, m, d);
  if (s != NULL) {
    weft_dataset_release(d);
    return s;
  }
  WEFT_RETURN_IF_ERROR(weft_dataset_tensor(d, &t));
  weft_out_set(c, 0, t);
  return NULL;
}

static weft_status_t *scalar(const weft_kernel_ctx_t *c, int i, const char *name) {
  return weft_in(c, i)->shape.rank == 0 ? NULL : WEFT_ERROR(INVALID_ARGUMENT, "%s must be a scalar", name);
}

weft_status_t *weft_dataset_in_int(const weft_kernel_ctx_t *c, int i, const char *name, int64_t *out) {
  const weft_tensor_t *t = weft_in(c, i);
  WEFT_RETURN_IF_ERROR(scalar(c, i, name));
  *out = t->dtype == WEFT_I32 ? *(const int32_t *)t->data : *(const int64_t *)t->data;
  return NULL;
}

weft_status_t *weft_dataset_in_bool(const weft_kernel_ctx_t *c, int i, const char *name, bool *out) {
  WEFT_RETURN_IF_ERROR(scalar(c, i, name));
  *out = *(const bool *)weft_in(c, i)->data;
  return NULL;
}

weft_status_t *weft_dataset_in_string(const weft_kernel_ctx_t *c, int i, const char *name, weft_str_t *out) {
  WEFT_RETURN_IF_ERROR(scalar(c, i, name));
  *out = weft_tensor_str_at(weft_in(c, i), 0);
  return NULL;
}
