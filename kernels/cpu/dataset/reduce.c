/* kernels/cpu/dataset/reduce.c - ops that go through a data set by themselves, or look at one: its elements
 * folded into a state, its only element, how many it has, how large its batches are, its options. */
#include <string.h>

#include "base/alloc.h"
#include "kernels/attrs.h"
#include "kernels/cpu/dataset/iterator_ops.h"
#include "kernels/cpu/dataset/options.h"
#include "kernels/cpu/dataset/own_pass.h"

/* An execution with a pass of its own, which ends with it. */
typedef struct own_pass {
  weft_kernel_ctx_t *c;
  weft_traversal_t *traversal;
  weft_status_t *(*run)(weft_kernel_ctx_t *c, weft_iterator_t *root);
} own_pass_t;

static void passed(void *arg, weft_status_t *s, weft_iterator_t *root) {
  own_pass_t *p = arg;
  weft_kernel_ctx_t *c = p->c;
  if (s == NULL) s = p->run(c, root);
  weft_traversal_release(p->traversal);
  weft_free(p);
  c->done(c, s);
}

void weft_dataset_pass(weft_kernel_ctx_t *c, int i,
                       weft_status_t *(*run)(weft_kernel_ctx_t *c, weft_iterator_t *root)) {
  weft_dataset_t *d = NULL;
  own_pass_t *p = weft_calloc(1, sizeof *p);
  weft_status_t *s =
      p == NULL ? WEFT_NO_MEMORY("going through a data set") : weft_dataset_of(weft_in(c, i), &d);
  if (s == NULL) s = weft_traversal_create(d, c->device, c->step->canceller, &p->traversal);
  if (s != NULL) {
    weft_free(p);
    c->done(c, s);
    return;
  }
  p->c = c;
  p->run = run;
  weft_options_apply(d, p->traversal);
  weft_traversal_do(p->traversal, passed, p);
}

/* ---- ReduceDataset ---- */

typedef struct reduce {
  const weft_attr_t *shapes;
  weft_callee_t *f;
  int num_states, num_captured;
} reduce_t;

static weft_status_t *reduce_prepare(const weft_kernel_setup_t *setup, void **out_state) {
  reduce_t *r = weft_calloc(1, sizeof *r);
  if (r == NULL) return WEFT_NO_MEMORY("preparing %s", setup->node.name.data);
  r->shapes = weft_knode_attr(setup, "output_shapes");
  r->num_states = weft_knode_attr(setup, "Tstate")->n;
  r->num_captured = weft_knode_attr(setup, "Targuments")->n;
  weft_status_t *s = weft_knode_callee(setup, "f", &r->f);
  if (s != NULL) {
    weft_free(r);
    return s;
  }
  *out_state = r;
  return NULL;
}

/* args: the state, then an element. */
static weft_status_t *fold(weft_iterator_t *root, const weft_dataset_fn_t *fn, int num_states,
                           weft_tensor_t **args) {
  const int n = root->of->spec->n;
  weft_tensor_t **results = weft_calloc((size_t)num_states, sizeof *results);
  if (results == NULL) return WEFT_NO_MEMORY("reducing a data set");
  weft_status_t *s = NULL;
  for (bool is_end = false; s == NULL;) {
    s = weft_iterator_next(root, args + num_states, &is_end);
    if (s != NULL || is_end) break;
    s = weft_iterator_call(root, fn, args, num_states + n, results, num_states);
    weft_element_release(args + num_states, n);
    if (s != NULL) break;
    weft_element_release(args, num_states);
    memcpy(args, results, (size_t)num_states * sizeof *args);
  }
  weft_free(results);
  return s;
}

static weft_status_t *reduce_run(weft_kernel_ctx_t *c, weft_iterator_t *root) {
  const reduce_t *r = c->state;
  weft_dataset_fn_t *fn = weft_calloc(1, sizeof *fn + (size_t)r->num_captured * sizeof(weft_tensor_t *));
  weft_tensor_t **args = weft_calloc((size_t)r->num_states + (size_t)root->of->spec->n, sizeof *args);
  weft_status_t *s = fn == NULL || args == NULL ? WEFT_NO_MEMORY("reducing a data set") : NULL;
  if (s == NULL) {
    fn->callee = r->f;
    fn->num_captured = r->num_captured;
    for (int i = 0; i < r->num_captured; i++) fn->captured[i] = weft_in(c, 1 + r->num_states + i);
    for (int i = 0; i < r->num_states; i++) args[i] = weft_tensor_retain(weft_in(c, 1 + i));
    s = fold(root, fn, r->num_states, args);
    if (s == NULL) s = weft_iterator_outputs(c, r->shapes, r->num_states, args);
    weft_element_release(args, r->num_states);
  }
  weft_free(fn);
  weft_free(args);
  return s;
}

static void reduce_compute(weft_kernel_ctx_t *c) { weft_dataset_pass(c, 0, reduce_run); }

/* ---- DatasetToSingleElement ---- */

WEFT_ATTRS_STRUCT(single, (SHAPES, output_shapes))
WEFT_ATTRS_OF_ASYNC(single_compute, single)

static weft_status_t *single_run(weft_kernel_ctx_t *c, weft_iterator_t *root) {
  const int n = root->of->spec->n;
  weft_tensor_t **parts = weft_calloc(2 * (size_t)n, sizeof *parts);
  bool is_end = false, is_over = false;
  if (parts == NULL) return WEFT_NO_MEMORY("the element of a data set");
  weft_status_t *s = weft_iterator_next(root, parts, &is_end);
  if (s == NULL && is_end) s = WEFT_ERROR(INVALID_ARGUMENT, "Dataset was empty.");
  if (s == NULL) s = weft_iterator_next(root, parts + n, &is_over);
  if (s == NULL && !is_over) s = WEFT_ERROR(INVALID_ARGUMENT, "Dataset had more than one element.");
  if (s == NULL) s = weft_iterator_outputs(c, ((const single_attrs_t *)c->state)->output_shapes, n, parts);
  weft_element_release(parts, 2 * n);
  weft_free(parts);
  return s;
}

static void single_compute(weft_kernel_ctx_t *c, const single_attrs_t *attrs) {
  (void)attrs;
  weft_dataset_pass(c, 0, single_run);
}

/* ---- GetElementAtIndex: by going there ---- */

WEFT_ATTRS_OF_ASYNC(at_compute, single)

static weft_status_t *at_run(weft_kernel_ctx_t *c, weft_iterator_t *root) {
  const int n = root->of->spec->n;
  const int64_t size = weft_dataset_cardinality(root->of);
  int64_t index;
  WEFT_RETURN_IF_ERROR(weft_dataset_in_int(c, 1, "index", &index));
  if (index < 0 || (size >= 0 && index >= size)) {
    return WEFT_ERROR(OUT_OF_RANGE, "Index out of range [0, %lld):%lld", (long long)size, (long long)index);
  }
  weft_tensor_t **parts = weft_calloc((size_t)n, sizeof *parts);
  if (parts == NULL) return WEFT_NO_MEMORY("an element of a data set");
  weft_status_t *s = NULL;
  bool is_end = false;
  for (int64_t i = 0; s == NULL && !is_end && i <= index; i++) {
    weft_element_release(parts, n);
    s = weft_iterator_next(root, parts, &is_end);
  }
  if (s == NULL && is_end)
    s = WEFT_ERROR(OUT_OF_RANGE, "Index out of range [0, %lld):%lld", (long long)root->index,
                   (long long)index);
  if (s == NULL) s = weft_iterator_outputs(c, ((const single_attrs_t *)c->state)->output_shapes, n, parts);
  weft_element_release(parts, n);
  weft_free(parts);
  return s;
}

static void at_compute(weft_kernel_ctx_t *c, const single_attrs_t *attrs) {
  (void)attrs;
  weft_dataset_pass(c, 0, at_run);
}

/* ---- what a data set says of itself ---- */

static weft_status_t *out_int(weft_kernel_ctx_t *c, int64_t v) {
  weft_tensor_t *t = NULL;
  WEFT_RETURN_IF_ERROR(weft_tensor_scalar(WEFT_I64, &v, &t));
  weft_out_set(c, 0, t);
  return NULL;
}

static weft_status_t *cardinality(weft_kernel_ctx_t *c) {
  weft_dataset_t *d = NULL;
  WEFT_RETURN_IF_ERROR(weft_dataset_of(weft_in(c, 0), &d));
  return out_int(c, weft_dataset_cardinality(d));
}

static weft_status_t *batch_size(weft_kernel_ctx_t *c) {
  weft_dataset_t *d = NULL;
  WEFT_RETURN_IF_ERROR(weft_dataset_of(weft_in(c, 0), &d));
  return out_int(c, weft_dataset_batch_size(d));
}

const weft_kernel_t weft_cpu_dataset_reduce_kernels[] = {
    {.op = "ComputeBatchSize", .compute = batch_size},
    {.op = "DatasetCardinality", .compute = cardinality},
    {.op = "DatasetToSingleElement", WEFT_COMPUTE_ASYNC(single_compute)},
    {.op = "ExperimentalDatasetCardinality", .compute = cardinality},
    {.op = "GetElementAtIndex", WEFT_COMPUTE_ASYNC(at_compute)},
    {.op = "ReduceDataset", .prepare = reduce_prepare, .compute_async = reduce_compute, .destroy = weft_free},
    {0},
};
