/* kernels/cpu/list/tensor_array.c - the kernels of arrays of tensors. */
#include "resources/tensor_array.h"

#include <inttypes.h>

#include "base/alloc.h"
#include "kernels/cpu/list/list_join.h"
#include "kernels/cpu/list/variant.h"
#include "kernels/cpu/loops/common.h"
#include "kernels/step_resource.h"

/* Output 1, which the third version of an op has. */
static weft_status_t *set_flow(weft_kernel_ctx_t *c) {
  float zero = 0;
  return c->node->num_outputs < 2 ? NULL : weft_tensor_scalar(WEFT_F32, &zero, &c->outputs[1].tensor);
}

/* Ends an asynchronous kernel whose last output that is. */
static void give_flow(weft_kernel_ctx_t *c, weft_status_t *s) {
  float zero = 0;
  weft_tensor_t *flow = NULL;
  if (s == NULL) s = weft_tensor_scalar(WEFT_F32, &zero, &flow);
  weft_list_item_give(c, flow, s);
}

/* ---- values in a device's memory ---- */

static weft_status_t *cut(void *arg, weft_tensor_t *t, int64_t begin, const weft_shape_t *shape,
                          weft_tensor_t **out) {
  return weft_list_part(arg, t, begin, shape, out);
}

/* As the row says of devices (weft_device_add_t); else in the host's memory. */
static weft_status_t *add(void *arg, const weft_tensor_t *x, const weft_tensor_t *y, weft_tensor_t **out) {
  weft_kernel_ctx_t *c = arg;
  const weft_device_add_t *device = c->node->param;
  return device != NULL ? device->add(c, x, y, out) : weft_add_alike(x, y, out);
}

/* NULL: the kernel is the host's. */
static const weft_array_memory_t *memory_of(weft_kernel_ctx_t *c, weft_array_memory_t *storage) {
  if (c->queue == NULL) return NULL;
  *storage = (weft_array_memory_t){.part = cut, .add = add, .arg = c};
  return storage;
}

static void release(weft_tensor_array_t *a) { weft_object_release((weft_object_t *)a); }

/* Of the node that makes an array, in any of three versions. */
typedef struct array_node {
  weft_tensor_array_config_t config;
  weft_str_t name;
} array_node_t;

static weft_status_t *make_prepare(const weft_kernel_setup_t *setup, void **out_state) {
  array_node_t *n = weft_calloc(1, sizeof *n);
  if (n == NULL) return WEFT_NO_MEMORY("preparing %.*s", WEFT_STR_ARGS(setup->node.name));
  n->config = (weft_tensor_array_config_t){
      .dtype = (weft_dtype_t)weft_knode_type(setup, "dtype"),
      .element_shape = *weft_knode_attr(setup, "element_shape")->shape,
      .is_dynamic = weft_knode_bool(setup, "dynamic_size"),
      .clear_after_read = weft_knode_bool(setup, "clear_after_read"),
      .is_identical = weft_knode_bool_or(setup, "identical_element_shapes", false)};
  n->name = weft_knode_string(setup, "tensor_array_name");
  *out_state = n;
  return NULL;
}

static weft_status_t *make(weft_kernel_ctx_t *c) {
  const array_node_t *node = c->state;
  const weft_tensor_t *size = weft_in(c, 0);
  if (size->shape.rank != 0) {
    return WEFT_ERROR(INVALID_ARGUMENT, "TensorArray size must be scalar, but had shape: %s",
                      WEFT_SHAPE_TEXT(&size->shape));
  }
  int32_t n = *(const int32_t *)size->data;
  if (n < 0) return WEFT_ERROR(INVALID_ARGUMENT, "Size should be >= 0.");
  char *name = NULL;
  weft_tensor_array_t *a = NULL;
  WEFT_RETURN_IF_ERROR(weft_step_resource_name(c, node->name, &name));
  weft_status_t *s = weft_tensor_array_create(name, n, &node->config, &a);
  if (s == NULL) s = weft_step_resource_output(c, &weft_tensor_array_type, name, (weft_object_t *)a);
  release(a);
  weft_free(name);
  return s;
}

static weft_status_t *array_make(weft_kernel_ctx_t *c) {
  WEFT_RETURN_IF_ERROR(make(c));
  return set_flow(c);
}
static void array_make_async(weft_kernel_ctx_t *c) { give_flow(c, make(c)); }

static weft_status_t *in_array(weft_kernel_ctx_t *c, weft_tensor_array_t **out) {
  weft_object_t *o = NULL;
  WEFT_RETURN_IF_ERROR(weft_step_resource_in(c, 0, &weft_tensor_array_type, &o));
  *out = (weft_tensor_array_t *)o;
  return NULL;
}

/* ---- write, read, size, close ---- */

static weft_status_t *scalar_index(const weft_kernel_ctx_t *c, int i, int32_t *out) {
  const weft_tensor_t *t = weft_in(c, i);
  if (t->shape.rank != 0) {
    return WEFT_ERROR(INVALID_ARGUMENT, "TensorArray index must be scalar, but had shape: %s",
                      WEFT_SHAPE_TEXT(&t->shape));
  }
  *out = *(const int32_t *)t->data;
  return NULL;
}

static void pass_flow(weft_kernel_ctx_t *c, int input) {
  weft_out_set(c, 0, weft_tensor_retain(weft_in(c, input)));
}

static weft_status_t *array_write(weft_kernel_ctx_t *c) {
  weft_tensor_array_t *a = NULL;
  weft_tensor_t *kept = NULL;
  int32_t i = 0;
  WEFT_RETURN_IF_ERROR(scalar_index(c, 1, &i));
  WEFT_RETURN_IF_ERROR(in_array(c, &a));
  weft_status_t *s = weft_tensor_array_check_dtype(a, weft_in(c, 2)->dtype, "is trying to write");
  weft_array_memory_t memory;
  if (s == NULL) s = weft_list_keep(c, weft_in(c, 2), &kept);
  if (s == NULL) s = weft_tensor_array_write(a, i, kept, memory_of(c, &memory));
  weft_tensor_release(kept);
  release(a);
  if (s == NULL) pass_flow(c, 3);
  return s;
}

static weft_status_t *read_one(weft_kernel_ctx_t *c, weft_tensor_t **out) {
  weft_tensor_array_t *a = NULL;
  int32_t i = 0;
  WEFT_RETURN_IF_ERROR(scalar_index(c, 1, &i));
  WEFT_RETURN_IF_ERROR(in_array(c, &a));
  weft_status_t *s = weft_tensor_array_check_dtype(a, (weft_dtype_t)c->node->output_types[0], "requested");
  if (s == NULL) s = weft_tensor_array_read(a, &i, 1, out);
  release(a);
  return s;
}

static weft_status_t *array_read(weft_kernel_ctx_t *c) {
  weft_tensor_t *t = NULL;
  WEFT_RETURN_IF_ERROR(read_one(c, &t));
  return weft_list_item_here(t, &c->outputs[0].tensor);
}
static void array_read_async(weft_kernel_ctx_t *c) {
  weft_tensor_t *t = NULL;
  weft_status_t *s = read_one(c, &t);
  weft_list_item_give(c, t, s);
}

static weft_status_t *array_size(weft_kernel_ctx_t *c) {
  weft_tensor_array_t *a = NULL;
  WEFT_RETURN_IF_ERROR(in_array(c, &a));
  int64_t size = 0;
  weft_status_t *s = weft_tensor_array_size(a, false, &size);
  const int32_t n = (int32_t)size;
  release(a);
  return s != NULL ? s : weft_tensor_scalar(WEFT_I32, &n, &c->outputs[0].tensor);
}

static weft_status_t *array_close(weft_kernel_ctx_t *c) {
  weft_tensor_array_t *a = NULL;
  WEFT_RETURN_IF_ERROR(in_array(c, &a));
  weft_tensor_array_close(a);
  release(a);
  return NULL;
}

/* ---- gather and concat: many cells to one tensor ---- */

/* Do the first tensor and those behind it, where there are elements, have one shape that fits the node's? */
static weft_status_t *check_alike(weft_tensor_t *const *t, int64_t n, const weft_shape_t *of_node) {
  if (n > 0 && !weft_shape_compatible(of_node, &t[0]->shape)) {
    return WEFT_ERROR(
        INVALID_ARGUMENT,
        "TensorArray was passed element_shape %s which does not match the Tensor at index 0: %s",
        WEFT_SHAPE_TEXT(of_node), WEFT_SHAPE_TEXT(&t[0]->shape));
  }
  for (int64_t i = 1; i < n && t[0]->count > 0; i++) {
    if (weft_shape_eq(&t[0]->shape, &t[i]->shape)) continue;
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "TensorArray has inconsistent shapes.  Index 0 has shape: %s but index %" PRId64
                      " has shape: %s",
                      WEFT_SHAPE_TEXT(&t[0]->shape), i, WEFT_SHAPE_TEXT(&t[i]->shape));
  }
  return NULL;
}

static weft_status_t *stack_up(weft_list_join_t *j, weft_shape_t element) {
  weft_tensor_t *const *t = j->items;
  WEFT_RETURN_IF_ERROR(check_alike(t, j->n, &element));
  if (j->n > 0) element = t[0]->shape;
  if (!weft_shape_is_known(&element)) {
    return WEFT_ERROR(
        UNIMPLEMENTED,
        "TensorArray has size zero, but element shape %s is not fully defined. Currently only static "
        "shapes are supported when packing zero-size TensorArrays.",
        WEFT_SHAPE_TEXT(&element));
  }
  if (element.rank == WEFT_MAX_DIMS)
    return WEFT_ERROR(INVALID_ARGUMENT, "the elements have too many dimensions");
  memmove(element.dims + 1, element.dims, (size_t)element.rank * sizeof element.dims[0]);
  element.dims[0] = j->n;
  element.rank++;
  j->shape = element;
  if (weft_shape_count(&element) == 0) return NULL; /* then the others are not looked at */
  for (int64_t i = 0; i < j->n; i++) j->at[i + 1] = j->at[i] + t[i]->count;
  return NULL;
}

/* The cells at `n` indices, or the first n, to be joined; *out is to be freed also after a failure. */
static weft_status_t *read_cells(weft_kernel_ctx_t *c, weft_tensor_array_t *a, const int32_t *indices,
                                 int64_t n, weft_list_join_t **out) {
  WEFT_RETURN_IF_ERROR(weft_list_join_new(c, weft_tensor_array_dtype(a), n, out));
  weft_list_join_t *j = *out;
  j->owned = weft_calloc((size_t)n + 1, sizeof(weft_tensor_t *));
  if (j->owned == NULL) return WEFT_NO_MEMORY("reading TensorArray %s", weft_tensor_array_name(a));
  j->num_owned = n;
  WEFT_RETURN_IF_ERROR(weft_tensor_array_read(a, indices, n, j->owned));
  memcpy(j->items, j->owned, (size_t)n * sizeof(weft_tensor_t *));
  return NULL;
}

static weft_status_t *run(weft_list_join_t *j, weft_status_t *s) {
  if (s == NULL) return weft_list_join_run(j);
  weft_list_join_free(j);
  return s;
}

static void run_async(weft_kernel_ctx_t *c, weft_list_join_t *j, weft_status_t *s) {
  if (s == NULL) {
    weft_list_join_run_async(j);
    return;
  }
  weft_list_join_free(j);
  c->done(c, s);
}

static weft_status_t *check_elements(const weft_kernel_ctx_t *c, weft_tensor_array_t *a,
                                     const weft_shape_t *shape) {
  WEFT_RETURN_IF_ERROR(weft_tensor_array_check_dtype(a, (weft_dtype_t)c->node->output_types[0], "requested"));
  return weft_tensor_array_refine(a, shape);
}

WEFT_ATTRS_STRUCT(array_elements, (SHAPE, element_shape))
static weft_status_t *plan_gather(weft_kernel_ctx_t *c, const array_elements_attrs_t *attrs,
                                  weft_list_join_t **out) {
  weft_tensor_array_t *a = NULL;
  const weft_tensor_t *indices = weft_in(c, 1);
  WEFT_RETURN_IF_ERROR(in_array(c, &a));
  weft_status_t *s = check_elements(c, a, attrs->element_shape);
  if (s == NULL && indices->shape.rank != 1) {
    s = WEFT_ERROR(INVALID_ARGUMENT, "Expected indices to be a vector, but received shape: %s",
                   WEFT_SHAPE_TEXT(&indices->shape));
  }
  if (s == NULL) s = read_cells(c, a, indices->data, indices->count, out);
  if (s == NULL) s = stack_up(*out, *attrs->element_shape);
  release(a);
  return s;
}

WEFT_ATTRS_OF(array_gather, array_elements)
static weft_status_t *array_gather(weft_kernel_ctx_t *c, const array_elements_attrs_t *attrs) {
  weft_list_join_t *j = NULL;
  weft_status_t *s = plan_gather(c, attrs, &j);
  return run(j, s);
}
static void array_gather_async(weft_kernel_ctx_t *c) {
  weft_list_join_t *j = NULL;
  weft_status_t *s = plan_gather(c, c->state, &j);
  run_async(c, j, s);
}

WEFT_ATTRS_OF(array_pack, array_elements)
static weft_status_t *array_pack(weft_kernel_ctx_t *c, const array_elements_attrs_t *attrs) {
  weft_tensor_array_t *a = NULL;
  weft_list_join_t *j = NULL;
  int64_t n = 0;
  WEFT_RETURN_IF_ERROR(in_array(c, &a));
  weft_status_t *s = check_elements(c, a, attrs->element_shape);
  if (s == NULL) s = weft_tensor_array_size(a, true, &n);
  if (s == NULL) s = read_cells(c, a, NULL, n, &j);
  if (s == NULL) s = stack_up(j, *attrs->element_shape);
  release(a);
  return run(j, s);
}

/* Counts the rows of all. Each is a vector at least, and its rows have a shape that fits the node's. */
static weft_status_t *count_rows(weft_tensor_t *const *t, int64_t n, const weft_shape_t *of_node,
                                 int64_t *out) {
  for (int64_t i = 0; i < n; i++) {
    weft_shape_t row = t[i]->shape, first = t[0]->shape;
    if (row.rank == 0) {
      return WEFT_ERROR(INVALID_ARGUMENT,
                        "Concat saw a scalar shape at index %" PRId64
                        " but requires at least vectors.  Did you mean to call pack?",
                        i);
    }
    *out += row.dims[0];
    row.dims[0] = first.dims[0];
    if (!weft_shape_eq(&first, &row)) {
      return WEFT_ERROR(
          INVALID_ARGUMENT,
          "TensorArray has inconsistent shapes.  Index 0 has (excepting dimension 0) shape: %s but index "
          "%" PRId64 " has (excepting dimension 0) shape: %s",
          WEFT_SHAPE_TEXT(&first), i, WEFT_SHAPE_TEXT(&row));
    }
    row.rank--;
    memmove(row.dims, row.dims + 1, (size_t)row.rank * sizeof row.dims[0]);
    if (!weft_shape_compatible(of_node, &row)) {
      return WEFT_ERROR(INVALID_ARGUMENT,
                        "TensorArray was passed element_shape_except0 %s but index %" PRId64
                        " has (excepting dimension 0) shape: %s which does not match.",
                        WEFT_SHAPE_TEXT(of_node), i, WEFT_SHAPE_TEXT(&row));
    }
  }
  return NULL;
}

static weft_status_t *string_together(weft_list_join_t *j, weft_shape_t rest) {
  weft_tensor_t *const *t = j->items, *lengths = NULL;
  weft_shape_t shape = j->n > 0 ? t[0]->shape : WEFT_SCALAR, vector = weft_shape_vector(j->n);
  int64_t rows = 0;
  WEFT_RETURN_IF_ERROR(count_rows(t, j->n, &rest, &rows));
  if (j->n == 0) {
    if (!weft_shape_is_known(&rest) || rest.rank >= WEFT_MAX_DIMS) {
      return WEFT_ERROR(
          UNIMPLEMENTED,
          "TensorArray has size zero, but element_shape_except0 %s is not fully defined. Currently only "
          "static shapes are supported when concatenating zero-size TensorArrays.",
          WEFT_SHAPE_TEXT(&rest));
    }
    shape = rest;
    memmove(shape.dims + 1, shape.dims, (size_t)shape.rank * sizeof shape.dims[0]);
    shape.rank++;
  }
  shape.dims[0] = rows;
  j->shape = shape;
  WEFT_RETURN_IF_ERROR(weft_out_new(j->c, 1, WEFT_I64, &vector, &lengths));
  for (int64_t i = 0; i < j->n; i++) {
    ((int64_t *)lengths->data)[i] = t[i]->shape.dims[0];
    j->at[i + 1] = j->at[i] + t[i]->count;
  }
  return NULL;
}

WEFT_ATTRS_STRUCT(array_concat, (SHAPE, element_shape_except0))
/* All cells one after the other; the rows of none have the shape that the node says. */
static weft_status_t *plan_concat(weft_kernel_ctx_t *c, const array_concat_attrs_t *attrs,
                                  weft_list_join_t **out) {
  weft_tensor_array_t *a = NULL;
  int64_t n = 0;
  WEFT_RETURN_IF_ERROR(in_array(c, &a));
  weft_status_t *s = weft_tensor_array_check_dtype(a, (weft_dtype_t)c->node->output_types[0], "requested");
  if (s == NULL) s = weft_tensor_array_size(a, true, &n);
  if (s == NULL) s = read_cells(c, a, NULL, n, out);
  if (s == NULL) s = string_together(*out, *attrs->element_shape_except0);
  release(a);
  return s;
}

WEFT_ATTRS_OF(array_concat, array_concat)
static weft_status_t *array_concat(weft_kernel_ctx_t *c, const array_concat_attrs_t *attrs) {
  weft_list_join_t *j = NULL;
  weft_status_t *s = plan_concat(c, attrs, &j);
  return run(j, s);
}
static void array_concat_async(weft_kernel_ctx_t *c) {
  weft_list_join_t *j = NULL;
  weft_status_t *s = plan_concat(c, c->state, &j);
  run_async(c, j, s);
}

static weft_status_t *array_scatter(weft_kernel_ctx_t *c) {
  weft_array_memory_t memory;
  weft_tensor_array_t *a = NULL;
  WEFT_RETURN_IF_ERROR(in_array(c, &a));
  weft_status_t *s = weft_tensor_array_check_dtype(a, weft_in(c, 2)->dtype, "is trying to write");
  if (s == NULL) s = weft_tensor_array_scatter(a, weft_in(c, 1), weft_in(c, 2), memory_of(c, &memory));
  release(a);
  if (s == NULL) pass_flow(c, 3);
  return s;
}

static weft_status_t *array_unpack(weft_kernel_ctx_t *c) {
  weft_array_memory_t memory;
  weft_tensor_array_t *a = NULL;
  WEFT_RETURN_IF_ERROR(in_array(c, &a));
  weft_status_t *s = weft_tensor_array_check_dtype(a, weft_in(c, 1)->dtype, "is trying to write");
  if (s == NULL) s = weft_tensor_array_unpack(a, weft_in(c, 1), memory_of(c, &memory));
  release(a);
  if (s == NULL) pass_flow(c, 2);
  return s;
}

static weft_status_t *array_split(weft_kernel_ctx_t *c) {
  weft_array_memory_t memory;
  weft_tensor_array_t *a = NULL;
  WEFT_RETURN_IF_ERROR(in_array(c, &a));
  weft_status_t *s = weft_tensor_array_check_dtype(a, weft_in(c, 1)->dtype, "is trying to write");
  if (s == NULL) s = weft_tensor_array_split(a, weft_in(c, 2), weft_in(c, 1), memory_of(c, &memory));
  release(a);
  if (s == NULL) pass_flow(c, 3);
  return s;
}

/* ---- the gradient's array: one per source, made by the first node that asks ---- */

static weft_status_t *find_or_make_gradient(weft_kernel_ctx_t *c, weft_tensor_array_t *forward,
                                            weft_str_t source, const weft_shape_t *front) {
  weft_strbuf_t text = WEFT_STRBUF_INIT;
  char *name = NULL;
  size_t length = 0;
  weft_tensor_array_t *g = NULL;
  weft_strbuf_printf(&text, "%s@%.*s", weft_tensor_array_name(forward), WEFT_STR_ARGS(source));
  WEFT_RETURN_IF_ERROR(weft_strbuf_finish(&text, &name, &length));
  weft_object_t *found = weft_step_resource_find(c, &weft_tensor_array_type, name);
  weft_status_t *s = NULL;
  if (found == NULL) {
    s = weft_tensor_array_gradient(forward, name, front, &g);
    if (s == NULL) s = weft_step_resource_output(c, &weft_tensor_array_type, name, (weft_object_t *)g);
    if (weft_status_code(s) == WEFT_ALREADY_EXISTS) { /* another node has made it meanwhile */
      weft_status_free(s);
      s = NULL;
      found = weft_step_resource_find(c, &weft_tensor_array_type, name);
    }
  }
  if (s == NULL && found != NULL) s = weft_step_resource_handle(c, &weft_tensor_array_type, name, found);
  weft_object_release(found);
  release(g);
  weft_free(name);
  return s;
}

WEFT_ATTRS_STRUCT(array_grad, (STRING, source))
static weft_status_t *make_gradient(weft_kernel_ctx_t *c, const array_grad_attrs_t *attrs) {
  weft_tensor_array_t *forward = NULL;
  weft_shape_t front = WEFT_SCALAR;
  if (c->node->num_inputs > 2) { /* TensorArrayGradWithShape */
    int64_t dims[WEFT_MAX_DIMS];
    int n = 0;
    WEFT_RETURN_IF_ERROR(weft_read_ints(weft_in(c, 2), "shape_to_prepend", WEFT_MAX_DIMS, dims, &n));
    WEFT_RETURN_IF_ERROR(weft_shape_make(dims, n, &front));
  }
  WEFT_RETURN_IF_ERROR(in_array(c, &forward));
  weft_status_t *s = find_or_make_gradient(c, forward, attrs->source, &front);
  release(forward);
  return s;
}

WEFT_ATTRS_OF(array_grad, array_grad)
static weft_status_t *array_grad(weft_kernel_ctx_t *c, const array_grad_attrs_t *attrs) {
  WEFT_RETURN_IF_ERROR(make_gradient(c, attrs));
  return set_flow(c);
}
static void array_grad_async(weft_kernel_ctx_t *c) { give_flow(c, make_gradient(c, c->state)); }

/* The versions of an op have handles of other kinds; all of them work alike. */
#define TYPED(name, attr, fn) \
  { .op = name, .type_attr = attr, .types = WEFT_SET_ALL, .compute = fn }
#define PLAIN(name, fn) \
  { .op = name, .compute = fn }
#define WITH_ATTRS(name, fn) \
  { .op = name, WEFT_COMPUTE(fn) }
#define MAKER(name) \
  { .op = name, .prepare = make_prepare, .compute = array_make, .destroy = weft_free }
#define OLD_VERSIONS(row, name, ...) row(name, __VA_ARGS__), row(name "V2", __VA_ARGS__)
#define VERSIONS(row, name, ...) OLD_VERSIONS(row, name, __VA_ARGS__), row(name "V3", __VA_ARGS__)
/* The third version's handles are resources, and devices have kernels of it. */
#define TYPED_BOTH(name, attr, fn) \
  { .op = name, .type_attr = attr, .types = WEFT_SET_ALL, .compute = fn, .compute_async = fn##_async }
#define ATTRS_BOTH(name, attr, set, fn) \
  { .op = name, .type_attr = attr, .types = set, WEFT_COMPUTE(fn), .compute_async = fn##_async }

const weft_kernel_t weft_cpu_tensor_array_kernels[] = {
    MAKER("TensorArray"),
    VERSIONS(PLAIN, "TensorArrayClose", array_close),
    OLD_VERSIONS(WEFT_KERNEL_ATTRS, "TensorArrayConcat", "dtype", WEFT_SET_ALL, array_concat),
    ATTRS_BOTH("TensorArrayConcatV3", "dtype", WEFT_SET_ALL, array_concat),
    OLD_VERSIONS(WEFT_KERNEL_ATTRS, "TensorArrayGather", "dtype", WEFT_SET_ALL, array_gather),
    ATTRS_BOTH("TensorArrayGatherV3", "dtype", WEFT_SET_ALL, array_gather),
    OLD_VERSIONS(WITH_ATTRS, "TensorArrayGrad", array_grad),
    ATTRS_BOTH("TensorArrayGradV3", NULL, 0, array_grad),
    ATTRS_BOTH("TensorArrayGradWithShape", NULL, 0, array_grad),
    WEFT_KERNEL_ATTRS("TensorArrayPack", "dtype", WEFT_SET_ALL, array_pack),
    OLD_VERSIONS(TYPED, "TensorArrayRead", "dtype", array_read),
    TYPED_BOTH("TensorArrayReadV3", "dtype", array_read),
    VERSIONS(TYPED, "TensorArrayScatter", "T", array_scatter),
    VERSIONS(PLAIN, "TensorArraySize", array_size),
    VERSIONS(TYPED, "TensorArraySplit", "T", array_split),
    TYPED("TensorArrayUnpack", "T", array_unpack),
    MAKER("TensorArrayV2"),
    {.op = "TensorArrayV3",
     .prepare = make_prepare,
     .compute = array_make,
     .compute_async = array_make_async,
     .destroy = weft_free},
    VERSIONS(TYPED, "TensorArrayWrite", "T", array_write),
    {0},
};
