/* kernels/cpu/list/tensor_array.c - the kernels of arrays of tensors. */
#include "resources/tensor_array.h"

#include <inttypes.h>

#include "base/alloc.h"
#include "kernels/cpu/loops/common.h"
#include "kernels/step_resource.h"

/* Output 1, which the third version of an op has. */
static weft_status_t *set_flow(weft_kernel_ctx_t *c) {
  float zero = 0;
  return c->node->num_outputs < 2 ? NULL : weft_tensor_scalar(WEFT_F32, &zero, &c->outputs[1].tensor);
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

static weft_status_t *array_make(weft_kernel_ctx_t *c) {
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
  return s != NULL ? s : set_flow(c);
}

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
  int32_t i = 0;
  WEFT_RETURN_IF_ERROR(scalar_index(c, 1, &i));
  WEFT_RETURN_IF_ERROR(in_array(c, &a));
  weft_status_t *s = weft_tensor_array_check_dtype(a, weft_in(c, 2)->dtype, "is trying to write");
  if (s == NULL) s = weft_tensor_array_write(a, i, weft_in(c, 2));
  release(a);
  if (s == NULL) pass_flow(c, 3);
  return s;
}

static weft_status_t *array_read(weft_kernel_ctx_t *c) {
  weft_tensor_array_t *a = NULL;
  int32_t i = 0;
  WEFT_RETURN_IF_ERROR(scalar_index(c, 1, &i));
  WEFT_RETURN_IF_ERROR(in_array(c, &a));
  weft_status_t *s = weft_tensor_array_check_dtype(a, (weft_dtype_t)c->node->output_types[0], "requested");
  if (s == NULL) s = weft_tensor_array_read(a, &i, 1, &c->outputs[0].tensor);
  release(a);
  return s;
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

static void release_many(weft_tensor_t **t, int64_t n) {
  for (int64_t i = 0; t != NULL && i < n; i++) weft_tensor_release(t[i]);
  weft_free(t);
}

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

static weft_status_t *stack_up(weft_kernel_ctx_t *c, weft_dtype_t dtype, weft_tensor_t *const *t, int64_t n,
                               weft_shape_t element) {
  weft_tensor_t *out = NULL;
  WEFT_RETURN_IF_ERROR(check_alike(t, n, &element));
  if (n > 0) element = t[0]->shape;
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
  element.dims[0] = n;
  element.rank++;
  WEFT_RETURN_IF_ERROR(weft_out_new(c, 0, dtype, &element, &out));
  for (int64_t i = 0, at = 0; i < n && out->count > 0; at += t[i]->count, i++) {
    WEFT_RETURN_IF_ERROR(weft_tensor_copy_elements(out, at, t[i], 0, t[i]->count));
  }
  return NULL;
}

/* The cells at `n` indices, or all of them, as one tensor. */
static weft_status_t *gather(weft_kernel_ctx_t *c, weft_tensor_array_t *a, const int32_t *indices, int64_t n,
                             const weft_shape_t *shape) {
  weft_tensor_t **t = weft_calloc((size_t)n + 1, sizeof *t);
  weft_status_t *s = t != NULL ? weft_tensor_array_read(a, indices, n, t)
                               : WEFT_NO_MEMORY("gathering from TensorArray %s", weft_tensor_array_name(a));
  if (s == NULL) s = stack_up(c, weft_tensor_array_dtype(a), t, n, *shape);
  release_many(t, n);
  return s;
}

static weft_status_t *check_elements(const weft_kernel_ctx_t *c, weft_tensor_array_t *a,
                                     const weft_shape_t *shape) {
  WEFT_RETURN_IF_ERROR(weft_tensor_array_check_dtype(a, (weft_dtype_t)c->node->output_types[0], "requested"));
  return weft_tensor_array_refine(a, shape);
}

WEFT_ATTRS_STRUCT(array_elements, (SHAPE, element_shape))
WEFT_ATTRS_OF(array_gather, array_elements)
static weft_status_t *array_gather(weft_kernel_ctx_t *c, const array_elements_attrs_t *attrs) {
  weft_tensor_array_t *a = NULL;
  const weft_tensor_t *indices = weft_in(c, 1);
  WEFT_RETURN_IF_ERROR(in_array(c, &a));
  weft_status_t *s = check_elements(c, a, attrs->element_shape);
  if (s == NULL && indices->shape.rank != 1) {
    s = WEFT_ERROR(INVALID_ARGUMENT, "Expected indices to be a vector, but received shape: %s",
                   WEFT_SHAPE_TEXT(&indices->shape));
  }
  if (s == NULL) s = gather(c, a, indices->data, indices->count, attrs->element_shape);
  release(a);
  return s;
}

WEFT_ATTRS_OF(array_pack, array_elements)
static weft_status_t *array_pack(weft_kernel_ctx_t *c, const array_elements_attrs_t *attrs) {
  weft_tensor_array_t *a = NULL;
  int64_t n = 0;
  WEFT_RETURN_IF_ERROR(in_array(c, &a));
  weft_status_t *s = check_elements(c, a, attrs->element_shape);
  if (s == NULL) s = weft_tensor_array_size(a, true, &n);
  if (s == NULL) s = gather(c, a, NULL, n, attrs->element_shape);
  release(a);
  return s;
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

static weft_status_t *string_together(weft_kernel_ctx_t *c, weft_dtype_t dtype, weft_tensor_t *const *t,
                                      int64_t n, weft_shape_t rest) {
  weft_tensor_t *out = NULL, *lengths = NULL;
  weft_shape_t shape = n > 0 ? t[0]->shape : WEFT_SCALAR, vector = weft_shape_vector(n);
  int64_t rows = 0;
  WEFT_RETURN_IF_ERROR(count_rows(t, n, &rest, &rows));
  if (n == 0) {
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
  WEFT_RETURN_IF_ERROR(weft_out_new(c, 0, dtype, &shape, &out));
  WEFT_RETURN_IF_ERROR(weft_out_new(c, 1, WEFT_I64, &vector, &lengths));
  for (int64_t i = 0, at = 0; i < n; at += t[i]->count, i++) {
    ((int64_t *)lengths->data)[i] = t[i]->shape.dims[0];
    WEFT_RETURN_IF_ERROR(weft_tensor_copy_elements(out, at, t[i], 0, t[i]->count));
  }
  return NULL;
}

/* All cells one after the other; the rows of none have the shape `rest`. */
static weft_status_t *concat(weft_kernel_ctx_t *c, weft_tensor_array_t *a, int64_t n,
                             const weft_shape_t *rest) {
  weft_tensor_t **t = weft_calloc((size_t)n + 1, sizeof *t);
  weft_status_t *s = t != NULL ? weft_tensor_array_read(a, NULL, n, t)
                               : WEFT_NO_MEMORY("concatenating TensorArray %s", weft_tensor_array_name(a));
  if (s == NULL) s = string_together(c, weft_tensor_array_dtype(a), t, n, *rest);
  release_many(t, n);
  return s;
}

WEFT_ATTRS(array_concat, (SHAPE, element_shape_except0))
static weft_status_t *array_concat(weft_kernel_ctx_t *c, const array_concat_attrs_t *attrs) {
  weft_tensor_array_t *a = NULL;
  int64_t n = 0;
  WEFT_RETURN_IF_ERROR(in_array(c, &a));
  weft_status_t *s = weft_tensor_array_check_dtype(a, (weft_dtype_t)c->node->output_types[0], "requested");
  if (s == NULL) s = weft_tensor_array_size(a, true, &n);
  if (s == NULL) s = concat(c, a, n, attrs->element_shape_except0);
  release(a);
  return s;
}

static weft_status_t *array_scatter(weft_kernel_ctx_t *c) {
  weft_tensor_array_t *a = NULL;
  WEFT_RETURN_IF_ERROR(in_array(c, &a));
  weft_status_t *s = weft_tensor_array_check_dtype(a, weft_in(c, 2)->dtype, "is trying to write");
  if (s == NULL) s = weft_tensor_array_scatter(a, weft_in(c, 1), weft_in(c, 2));
  release(a);
  if (s == NULL) pass_flow(c, 3);
  return s;
}

static weft_status_t *array_unpack(weft_kernel_ctx_t *c) {
  weft_tensor_array_t *a = NULL;
  WEFT_RETURN_IF_ERROR(in_array(c, &a));
  weft_status_t *s = weft_tensor_array_check_dtype(a, weft_in(c, 1)->dtype, "is trying to write");
  if (s == NULL) s = weft_tensor_array_unpack(a, weft_in(c, 1));
  release(a);
  if (s == NULL) pass_flow(c, 2);
  return s;
}

static weft_status_t *array_split(weft_kernel_ctx_t *c) {
  weft_tensor_array_t *a = NULL;
  WEFT_RETURN_IF_ERROR(in_array(c, &a));
  weft_status_t *s = weft_tensor_array_check_dtype(a, weft_in(c, 1)->dtype, "is trying to write");
  if (s == NULL) s = weft_tensor_array_split(a, weft_in(c, 2), weft_in(c, 1));
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

WEFT_ATTRS(array_grad, (STRING, source))
static weft_status_t *array_grad(weft_kernel_ctx_t *c, const array_grad_attrs_t *attrs) {
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
  return s != NULL ? s : set_flow(c);
}

/* The versions of an op have handles of other kinds; all of them work alike. */
#define TYPED(name, attr, fn) \
  { .op = name, .type_attr = attr, .types = WEFT_SET_ALL, .compute = fn }
#define VERSIONS(row, name, ...) \
  row(name, __VA_ARGS__), row(name "V2", __VA_ARGS__), row(name "V3", __VA_ARGS__)
#define PLAIN(name, fn) \
  { .op = name, .compute = fn }
#define WITH_ATTRS(name, fn) \
  { .op = name, WEFT_COMPUTE(fn) }
#define MAKER(name) \
  { .op = name, .prepare = make_prepare, .compute = array_make, .destroy = weft_free }

const weft_kernel_t weft_cpu_tensor_array_kernels[] = {
    MAKER("TensorArray"),
    VERSIONS(PLAIN, "TensorArrayClose", array_close),
    VERSIONS(WEFT_KERNEL_ATTRS, "TensorArrayConcat", "dtype", WEFT_SET_ALL, array_concat),
    VERSIONS(WEFT_KERNEL_ATTRS, "TensorArrayGather", "dtype", WEFT_SET_ALL, array_gather),
    VERSIONS(WITH_ATTRS, "TensorArrayGrad", array_grad),
    WITH_ATTRS("TensorArrayGradWithShape", array_grad),
    WEFT_KERNEL_ATTRS("TensorArrayPack", "dtype", WEFT_SET_ALL, array_pack),
    VERSIONS(TYPED, "TensorArrayRead", "dtype", array_read),
    VERSIONS(TYPED, "TensorArrayScatter", "T", array_scatter),
    VERSIONS(PLAIN, "TensorArraySize", array_size),
    VERSIONS(TYPED, "TensorArraySplit", "T", array_split),
    TYPED("TensorArrayUnpack", "T", array_unpack),
    MAKER("TensorArrayV2"),
    MAKER("TensorArrayV3"),
    VERSIONS(TYPED, "TensorArrayWrite", "T", array_write),
    {0},
};
