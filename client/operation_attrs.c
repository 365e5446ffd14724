/* client/operation_attrs.c - setting attributes of a node in the making. */
#include "base/alloc.h"
#include "client/operation.h"
#include "client/status.h"
#include "client/tensor.h"
#include "graph/graph_proto.h"
#include "protos/wire.h"
#include "tensor/shape_proto.h"

static const char colocation_attr[] = "_class";

static void set(TF_OperationDescription *d, const char *name, weft_attr_t value) {
  weft_client_set_attr(d, weft_str(name), &value);
}

/* An array for the elements of a list, in the description's arena; NULL without memory, which it remembers.
 */
static void *list_of(TF_OperationDescription *d, int n, size_t size) {
  if (d == NULL) return NULL;
  void *p = weft_arena_calloc(&d->arena, n < 0 ? 0 : (size_t)n, size);
  if (p == NULL) d->is_out_of_memory = true;
  return p;
}

void TF_SetAttrString(TF_OperationDescription *desc, const char *attr_name, const void *value,
                      size_t length) {
  set(desc, attr_name, (weft_attr_t){.kind = WEFT_ATTR_STRING, .s = weft_str_of(value, length)});
}

void TF_SetAttrStringList(TF_OperationDescription *desc, const char *attr_name, const void *const *values,
                          const size_t *lengths, int num_values) {
  weft_str_t *all = list_of(desc, num_values, sizeof *all);
  if (all == NULL) return;
  for (int i = 0; i < num_values; i++) all[i] = weft_str_of(values[i], lengths[i]);
  if (strcmp(attr_name, colocation_attr) == 0) {
    weft_client_set_colocations(desc, all, num_values);
  } else {
    set(desc, attr_name,
        (weft_attr_t){.kind = WEFT_ATTR_STRING, .is_list = true, .n = num_values, .list.strings = all});
  }
}

void TF_SetAttrInt(TF_OperationDescription *desc, const char *attr_name, int64_t value) {
  set(desc, attr_name, (weft_attr_t){.kind = WEFT_ATTR_INT, .i = value});
}

void TF_SetAttrIntList(TF_OperationDescription *desc, const char *attr_name, const int64_t *values,
                       int num_values) {
  set(desc, attr_name,
      (weft_attr_t){.kind = WEFT_ATTR_INT, .is_list = true, .n = num_values, .list.ints = values});
}

void TF_SetAttrFloat(TF_OperationDescription *desc, const char *attr_name, float value) {
  set(desc, attr_name, (weft_attr_t){.kind = WEFT_ATTR_FLOAT, .f = value});
}

void TF_SetAttrFloatList(TF_OperationDescription *desc, const char *attr_name, const float *values,
                         int num_values) {
  set(desc, attr_name,
      (weft_attr_t){.kind = WEFT_ATTR_FLOAT, .is_list = true, .n = num_values, .list.floats = values});
}

void TF_SetAttrBool(TF_OperationDescription *desc, const char *attr_name, unsigned char value) {
  set(desc, attr_name, (weft_attr_t){.kind = WEFT_ATTR_BOOL, .b = value != 0});
}

void TF_SetAttrBoolList(TF_OperationDescription *desc, const char *attr_name, const unsigned char *values,
                        int num_values) {
  bool *all = list_of(desc, num_values, sizeof *all);
  if (all == NULL) return;
  for (int i = 0; i < num_values; i++) all[i] = values[i] != 0;
  set(desc, attr_name,
      (weft_attr_t){.kind = WEFT_ATTR_BOOL, .is_list = true, .n = num_values, .list.bools = all});
}

void TF_SetAttrType(TF_OperationDescription *desc, const char *attr_name, TF_DataType value) {
  set(desc, attr_name, (weft_attr_t){.kind = WEFT_ATTR_TYPE, .type = (int)value});
}

void TF_SetAttrTypeList(TF_OperationDescription *desc, const char *attr_name, const TF_DataType *values,
                        int num_values) {
  int *all = list_of(desc, num_values, sizeof *all);
  if (all == NULL) return;
  for (int i = 0; i < num_values; i++) all[i] = (int)values[i];
  set(desc, attr_name,
      (weft_attr_t){.kind = WEFT_ATTR_TYPE, .is_list = true, .n = num_values, .list.types = all});
}

void TF_SetAttrPlaceholder(TF_OperationDescription *desc, const char *attr_name, const char *placeholder) {
  set(desc, attr_name, (weft_attr_t){.kind = WEFT_ATTR_PLACEHOLDER, .s = weft_str(placeholder)});
}

void TF_SetAttrFuncName(TF_OperationDescription *desc, const char *attr_name, const char *value,
                        size_t length) {
  const weft_func_attr_t func = {.name = weft_str_of(value, length)};
  set(desc, attr_name, (weft_attr_t){.kind = WEFT_ATTR_FUNC, .func = &func});
}

/* ---- shapes ---- */

static bool make_shape(TF_OperationDescription *d, const char *name, const int64_t *dims, int num_dims,
                       weft_shape_t *out) {
  weft_status_t *s = weft_client_shape(dims, num_dims, out);
  if (s == NULL) return true;
  weft_client_desc_error(d, "attr '%.200s': %s", name, weft_status_message(s));
  weft_status_free(s);
  return false;
}

void TF_SetAttrShape(TF_OperationDescription *desc, const char *attr_name, const int64_t *dims,
                     int num_dims) {
  weft_shape_t shape;
  if (!make_shape(desc, attr_name, dims, num_dims, &shape)) return;
  set(desc, attr_name, (weft_attr_t){.kind = WEFT_ATTR_SHAPE, .shape = &shape});
}

void TF_SetAttrShapeList(TF_OperationDescription *desc, const char *attr_name, const int64_t *const *dims,
                         const int *num_dims, int num_shapes) {
  weft_shape_t *all = list_of(desc, num_shapes, sizeof *all);
  if (all == NULL) return;
  for (int i = 0; i < num_shapes; i++) {
    if (!make_shape(desc, attr_name, dims[i], num_dims[i], &all[i])) return;
  }
  set(desc, attr_name,
      (weft_attr_t){.kind = WEFT_ATTR_SHAPE, .is_list = true, .n = num_shapes, .list.shapes = all});
}

void TF_SetAttrTensorShapeProto(TF_OperationDescription *desc, const char *attr_name, const void *proto,
                                size_t proto_len, TF_Status *status) {
  weft_shape_t shape;
  weft_str_t bytes = weft_str_of(proto, proto_len);
  weft_status_t *s = weft_wire_is_message(bytes)
                         ? weft_shape_from_proto(bytes, &shape)
                         : WEFT_ERROR(INVALID_ARGUMENT, "Unparseable TensorShapeProto");
  if (!weft_client_end(status, s)) return;
  set(desc, attr_name, (weft_attr_t){.kind = WEFT_ATTR_SHAPE, .shape = &shape});
}

void TF_SetAttrTensorShapeProtoList(TF_OperationDescription *desc, const char *attr_name,
                                    const void *const *protos, const size_t *proto_lens, int num_shapes,
                                    TF_Status *status) {
  weft_shape_t *all = list_of(desc, num_shapes, sizeof *all);
  weft_status_t *s = all == NULL ? WEFT_NO_MEMORY("attribute '%s'", attr_name) : NULL;
  for (int i = 0; i < num_shapes && s == NULL; i++) {
    weft_str_t bytes = weft_str_of(protos[i], proto_lens[i]);
    s = weft_wire_is_message(bytes)
            ? weft_shape_from_proto(bytes, &all[i])
            : WEFT_ERROR(INVALID_ARGUMENT, "Unparseable TensorShapeProto at index %d", i);
  }
  if (!weft_client_end(status, s)) return;
  set(desc, attr_name,
      (weft_attr_t){.kind = WEFT_ATTR_SHAPE, .is_list = true, .n = num_shapes, .list.shapes = all});
}

/* ---- tensors ---- */

void TF_SetAttrTensor(TF_OperationDescription *desc, const char *attr_name, TF_Tensor *value,
                      TF_Status *status) {
  weft_tensor_t *t = NULL, *copy = NULL;
  weft_status_t *s = weft_client_tensor_get(value, &t);
  /* The caller may change or free the bytes afterwards: an attribute is for ever. */
  if (s == NULL) s = weft_tensor_copy(t, &copy);
  if (weft_client_end(status, s))
    set(desc, attr_name, (weft_attr_t){.kind = WEFT_ATTR_TENSOR, .tensor = copy});
  weft_tensor_release(t);
  weft_tensor_release(copy);
}

void TF_SetAttrTensorList(TF_OperationDescription *desc, const char *attr_name, TF_Tensor *const *values,
                          int num_values, TF_Status *status) {
  weft_tensor_t **all = list_of(desc, num_values, sizeof(*all));
  weft_status_t *s = all == NULL ? WEFT_NO_MEMORY("attribute '%s'", attr_name) : NULL;
  for (int i = 0; i < num_values && s == NULL; i++) {
    weft_tensor_t *t = NULL;
    s = weft_client_tensor_get(values[i], &t);
    if (s == NULL) s = weft_tensor_copy(t, &all[i]);
    weft_tensor_release(t);
  }
  if (weft_client_end(status, s)) {
    set(desc, attr_name,
        (weft_attr_t){.kind = WEFT_ATTR_TENSOR, .is_list = true, .n = num_values, .list.tensors = all});
  }
  for (int i = 0; all != NULL && i < num_values; i++) weft_tensor_release(all[i]);
}

/* ---- AttrValue ---- */

void TF_SetAttrValueProto(TF_OperationDescription *desc, const char *attr_name, const void *proto,
                          size_t proto_len, TF_Status *status) {
  weft_attr_t value = {.kind = WEFT_ATTR_NONE};
  if (desc == NULL) {
    weft_client_end(status, WEFT_NO_MEMORY("a new operation"));
    return;
  }
  weft_status_t *s = weft_attr_from_proto(&desc->arena, weft_str_of(proto, proto_len), &value);
  bool is_colocation = strcmp(attr_name, colocation_attr) == 0;
  if (s == NULL && is_colocation && !value.is_list && value.kind != WEFT_ATTR_NONE) {
    s = WEFT_ERROR(INVALID_ARGUMENT, "Expected \"list\" field for \"_class\" attribute");
  }
  if (s == NULL && is_colocation) {
    bool has_groups = value.is_list && value.kind == WEFT_ATTR_STRING;
    weft_client_set_colocations(desc, has_groups ? value.list.strings : NULL, has_groups ? value.n : 0);
  } else if (s == NULL) {
    weft_client_set_attr(desc, weft_str(attr_name), &value);
  }
  weft_attr_release_tensors(&value);
  weft_client_end(status, s);
}
