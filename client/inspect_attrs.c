/* client/inspect_attrs.c - reading attributes of nodes. */
#include "base/alloc.h"
#include "client/buffer.h"
#include "client/graph.h"
#include "client/status.h"
#include "client/tensor.h"
#include "graph/graph_proto.h"
#include "tensor/shape_proto.h"

static const weft_attr_t *find(const TF_Operation *oper, const char *name) {
  return weft_node_attr(oper->node, name);
}

static weft_status_t *absent(const TF_Operation *oper, const char *name) {
  return WEFT_ERROR(INVALID_ARGUMENT, "Operation '%s' has no attr named '%s'.", oper->node->name.data, name);
}

/* A value of the kind that the caller expects. */
static weft_status_t *get(const TF_Operation *oper, const char *name, weft_attr_kind_t kind, bool is_list,
                          const weft_attr_t **out) {
  const weft_attr_t *a = find(oper, name);
  if (a == NULL) {
    return WEFT_ERROR(NOT_FOUND, "No attr named '%s' in NodeDef:", name);
  }
  bool is_empty_list = a->is_list && a->n == 0;
  if (is_empty_list && !is_list) {
    return WEFT_ERROR(INVALID_ARGUMENT, "AttrValue missing value with expected type '%s'",
                      weft_attr_kind_name(kind, is_list));
  }
  if (a->kind == WEFT_ATTR_PLACEHOLDER)
    return WEFT_ERROR(INVALID_ARGUMENT, "AttrValue had value with unexpected type 'placeholder'");
  if (!is_empty_list && (a->kind != kind || a->is_list != is_list)) {
    return WEFT_ERROR(INVALID_ARGUMENT, "AttrValue had value with type '%s' when '%s' expected",
                      weft_attr_kind_name(a->kind, a->is_list), weft_attr_kind_name(kind, is_list));
  }
  *out = a;
  return NULL;
}

/* For functions that look at the message rather than at a value: only its kind matters. */
static weft_status_t *get_list(const TF_Operation *oper, const char *name, const char *end,
                               const weft_attr_t **out) {
  *out = find(oper, name);
  if (*out == NULL) return absent(oper, name);
  return (*out)->is_list ? NULL : WEFT_ERROR(INVALID_ARGUMENT, "Value for '%s' is not a list%s", name, end);
}

static int at_most(int n, int max) { return n < max ? n : max; }

/* ---- what attributes there are ---- */

static TF_AttrType type_of(weft_attr_kind_t kind) {
  switch (kind) {
    case WEFT_ATTR_INT: return TF_ATTR_INT;
    case WEFT_ATTR_FLOAT: return TF_ATTR_FLOAT;
    case WEFT_ATTR_BOOL: return TF_ATTR_BOOL;
    case WEFT_ATTR_TYPE: return TF_ATTR_TYPE;
    case WEFT_ATTR_SHAPE: return TF_ATTR_SHAPE;
    case WEFT_ATTR_TENSOR: return TF_ATTR_TENSOR;
    case WEFT_ATTR_FUNC: return TF_ATTR_FUNC;
    case WEFT_ATTR_PLACEHOLDER: return TF_ATTR_PLACEHOLDER;
    default: return TF_ATTR_STRING;
  }
}

static int64_t total_size(const weft_attr_t *a) {
  int64_t total = 0;
  if (a->kind == WEFT_ATTR_STRING) {
    if (!a->is_list) return (int64_t)a->s.length;
    for (int i = 0; i < a->n; i++) total += (int64_t)a->list.strings[i].length;
    return total;
  }
  if (a->kind != WEFT_ATTR_SHAPE) return -1;
  if (!a->is_list) return a->shape->rank;
  for (int i = 0; i < a->n; i++) total += a->list.shapes[i].rank > 0 ? a->list.shapes[i].rank : 0;
  return total;
}

TF_AttrMetadata TF_OperationGetAttrMetadata(TF_Operation *oper, const char *attr_name, TF_Status *status) {
  TF_AttrMetadata m = {.is_list = 0};
  const weft_attr_t *a = find(oper, attr_name);
  weft_status_t *s = NULL;
  if (a == NULL) {
    s = absent(oper, attr_name);
  } else if (a->kind == WEFT_ATTR_NONE && !a->is_list) {
    s = WEFT_ERROR(INVALID_ARGUMENT, "Attribute '%s' has no value set", attr_name);
  }
  if (!weft_client_end(status, s)) return m;
  weft_attr_kind_t kind = a->kind;
  const weft_attr_def_t *def = weft_op_attr(oper->node->op, weft_str(attr_name));
  if (a->is_list && a->n == 0 && def != NULL) kind = def->kind; /* an empty list does not say of what */
  m.is_list = a->is_list;
  m.list_size = a->is_list ? a->n : -1;
  m.type = type_of(kind);
  m.total_size = a->is_list && a->n == 0 ? -1 : total_size(a);
  return m;
}

int TF_OperationGetNumAttrs(TF_Operation *oper) { return oper->node->num_attrs; }

int TF_OperationGetAttrNameLength(TF_Operation *oper, int i) {
  return i < 0 || i >= oper->node->num_attrs ? -1 : (int)oper->node->attrs[i].name.length;
}

void TF_OperationGetAttrName(TF_Operation *oper, int i, char *output, TF_Status *status) {
  weft_status_t *s = NULL;
  if (i < 0 || i >= oper->node->num_attrs) {
    s = WEFT_ERROR(OUT_OF_RANGE, "Operation only has %d attributes, can't get the %dth",
                   oper->node->num_attrs, i);
  }
  if (weft_client_end(status, s))
    memcpy(output, oper->node->attrs[i].name.data, oper->node->attrs[i].name.length);
}

/* ---- strings ---- */

void TF_OperationGetAttrString(TF_Operation *oper, const char *attr_name, void *value, size_t max_length,
                               TF_Status *status) {
  const weft_attr_t *a = find(oper, attr_name);
  weft_status_t *s = NULL;
  if (a == NULL) {
    s = absent(oper, attr_name);
  } else if (a->kind != WEFT_ATTR_STRING || a->is_list) {
    s = WEFT_ERROR(INVALID_ARGUMENT, "Attribute '%s' is not a string", attr_name);
  }
  if (!weft_client_end(status, s)) return;
  size_t n = a->s.length < max_length ? a->s.length : max_length;
  if (n > 0) memcpy(value, a->s.data, n);
}

void TF_OperationGetAttrStringList(TF_Operation *oper, const char *attr_name, void **values, size_t *lengths,
                                   int max_values, void *storage, size_t storage_size, TF_Status *status) {
  const weft_attr_t *a = NULL;
  weft_status_t *s = get_list(oper, attr_name, "", &a);
  char *at = storage;
  int n = s != NULL || a->kind != WEFT_ATTR_STRING ? 0 : at_most(a->n, max_values);
  for (int i = 0; i < n && s == NULL; i++) {
    weft_str_t text = a->list.strings[i];
    values[i] = at;
    lengths[i] = text.length;
    if (text.length > storage_size - (size_t)(at - (char *)storage)) {
      s = WEFT_ERROR(INVALID_ARGUMENT, "Not enough storage to hold the requested list of strings");
    } else if (text.length > 0) {
      memcpy(at, text.data, text.length);
      at += text.length;
    }
  }
  weft_client_end(status, s);
}

/* ---- numbers ---- */

/* The attribute of one number; NULL, with the status set, if it is of another kind. */
static const weft_attr_t *one(const TF_Operation *oper, const char *name, weft_attr_kind_t kind,
                              TF_Status *status) {
  const weft_attr_t *a = NULL;
  return weft_client_end(status, get(oper, name, kind, false, &a)) ? a : NULL;
}

/* How many elements of the list to write. A list of another kind has none, as in the message. */
static int many(const TF_Operation *oper, const char *name, weft_attr_kind_t kind, int max,
                const weft_attr_t **out, TF_Status *status) {
  if (!weft_client_end(status, get_list(oper, name, ".", out)) || (*out)->kind != kind) return 0;
  return at_most((*out)->n, max);
}

void TF_OperationGetAttrInt(TF_Operation *oper, const char *attr_name, int64_t *value, TF_Status *status) {
  const weft_attr_t *a = one(oper, attr_name, WEFT_ATTR_INT, status);
  if (a != NULL) *value = a->i;
}

void TF_OperationGetAttrIntList(TF_Operation *oper, const char *attr_name, int64_t *values, int max_values,
                                TF_Status *status) {
  const weft_attr_t *a = NULL;
  int n = many(oper, attr_name, WEFT_ATTR_INT, max_values, &a, status);
  for (int i = 0; i < n; i++) values[i] = a->list.ints[i];
}

void TF_OperationGetAttrFloat(TF_Operation *oper, const char *attr_name, float *value, TF_Status *status) {
  const weft_attr_t *a = one(oper, attr_name, WEFT_ATTR_FLOAT, status);
  if (a != NULL) *value = a->f;
}

void TF_OperationGetAttrFloatList(TF_Operation *oper, const char *attr_name, float *values, int max_values,
                                  TF_Status *status) {
  const weft_attr_t *a = NULL;
  int n = many(oper, attr_name, WEFT_ATTR_FLOAT, max_values, &a, status);
  for (int i = 0; i < n; i++) values[i] = a->list.floats[i];
}

void TF_OperationGetAttrBool(TF_Operation *oper, const char *attr_name, unsigned char *value,
                             TF_Status *status) {
  const weft_attr_t *a = one(oper, attr_name, WEFT_ATTR_BOOL, status);
  if (a != NULL) *value = a->b;
}

void TF_OperationGetAttrBoolList(TF_Operation *oper, const char *attr_name, unsigned char *values,
                                 int max_values, TF_Status *status) {
  const weft_attr_t *a = NULL;
  int n = many(oper, attr_name, WEFT_ATTR_BOOL, max_values, &a, status);
  for (int i = 0; i < n; i++) values[i] = a->list.bools[i];
}

void TF_OperationGetAttrType(TF_Operation *oper, const char *attr_name, TF_DataType *value,
                             TF_Status *status) {
  const weft_attr_t *a = one(oper, attr_name, WEFT_ATTR_TYPE, status);
  if (a != NULL) *value = (TF_DataType)a->type;
}

void TF_OperationGetAttrTypeList(TF_Operation *oper, const char *attr_name, TF_DataType *values,
                                 int max_values, TF_Status *status) {
  const weft_attr_t *a = NULL;
  int n = many(oper, attr_name, WEFT_ATTR_TYPE, max_values, &a, status);
  for (int i = 0; i < n; i++) values[i] = (TF_DataType)a->list.types[i];
}

/* ---- shapes ---- */

void TF_OperationGetAttrShape(TF_Operation *oper, const char *attr_name, int64_t *value, int num_dims,
                              TF_Status *status) {
  const weft_attr_t *a = NULL;
  if (!weft_client_end(status, get(oper, attr_name, WEFT_ATTR_SHAPE, false, &a))) return;
  for (int i = 0; i < at_most(a->shape->rank, num_dims); i++) value[i] = a->shape->dims[i];
}

void TF_OperationGetAttrShapeList(TF_Operation *oper, const char *attr_name, int64_t **dims, int *num_dims,
                                  int num_shapes, int64_t *storage, int storage_size, TF_Status *status) {
  const weft_attr_t *a = NULL;
  weft_status_t *s = get(oper, attr_name, WEFT_ATTR_SHAPE, true, &a);
  int left = storage_size, n = s == NULL ? at_most(a->n, num_shapes) : 0;
  int64_t *at = storage;
  for (int i = 0; i < n && s == NULL; i++) {
    const weft_shape_t *shape = &a->list.shapes[i];
    num_dims[i] = shape->rank;
    dims[i] = at;
    if (shape->rank <= 0) continue;
    if (left < shape->rank) {
      s = WEFT_ERROR(INVALID_ARGUMENT, "Not enough storage to hold the requested list of shapes");
      break;
    }
    for (int k = 0; k < shape->rank; k++) *at++ = shape->dims[k];
    left -= shape->rank;
  }
  weft_client_end(status, s);
}

void TF_OperationGetAttrTensorShapeProto(TF_Operation *oper, const char *attr_name, TF_Buffer *value,
                                         TF_Status *status) {
  const weft_attr_t *a = find(oper, attr_name);
  weft_strbuf_t text = WEFT_STRBUF_INIT;
  weft_status_t *s = NULL;
  if (a == NULL) {
    s = absent(oper, attr_name);
  } else if (a->kind != WEFT_ATTR_SHAPE || a->is_list) {
    s = WEFT_ERROR(INVALID_ARGUMENT, "Value for '%s' is not a shape.", attr_name);
  } else {
    weft_shape_to_proto(a->shape, &text);
    s = weft_client_fill(value, &text);
  }
  weft_client_end(status, s);
}

void TF_OperationGetAttrTensorShapeProtoList(TF_Operation *oper, const char *attr_name, TF_Buffer **values,
                                             int max_values, TF_Status *status) {
  const weft_attr_t *a = NULL;
  weft_status_t *s = get_list(oper, attr_name, "", &a);
  int n = s != NULL || a->kind != WEFT_ATTR_SHAPE ? 0 : at_most(a->n, max_values), made = 0;
  for (; made < n && s == NULL; made++) {
    weft_strbuf_t text = WEFT_STRBUF_INIT;
    weft_shape_to_proto(&a->list.shapes[made], &text);
    values[made] = NULL;
    s = weft_client_new_buffer(&text, &values[made]);
  }
  for (int i = 0; s != NULL && i < made; i++) {
    TF_DeleteBuffer(values[i]);
    values[i] = NULL;
  }
  weft_client_end(status, s);
}

/* ---- tensors and messages ---- */

void TF_OperationGetAttrTensor(TF_Operation *oper, const char *attr_name, TF_Tensor **value,
                               TF_Status *status) {
  const weft_attr_t *a = NULL;
  weft_status_t *s = get(oper, attr_name, WEFT_ATTR_TENSOR, false, &a);
  *value = NULL;
  if (s == NULL) s = weft_client_tensor_new(weft_tensor_retain(a->tensor), value);
  weft_client_end(status, s);
}

void TF_OperationGetAttrTensorList(TF_Operation *oper, const char *attr_name, TF_Tensor **values,
                                   int max_values, TF_Status *status) {
  const weft_attr_t *a = NULL;
  weft_status_t *s = get(oper, attr_name, WEFT_ATTR_TENSOR, true, &a);
  int n = s == NULL ? at_most(a->n, max_values) : 0;
  for (int i = 0; i < n; i++) values[i] = NULL;
  for (int i = 0; i < n && s == NULL; i++) {
    s = weft_client_tensor_new(weft_tensor_retain(a->list.tensors[i]), &values[i]);
  }
  weft_client_end(status, s);
}

void TF_OperationGetAttrValueProto(TF_Operation *oper, const char *attr_name, TF_Buffer *output_attr_value,
                                   TF_Status *status) {
  const weft_attr_t *a = find(oper, attr_name);
  weft_strbuf_t text = WEFT_STRBUF_INIT;
  weft_status_t *s = a == NULL ? absent(oper, attr_name) : weft_attr_to_proto(a, &text);
  if (s == NULL) s = weft_client_fill(output_attr_value, &text);
  weft_strbuf_deinit(&text);
  weft_client_end(status, s);
}
