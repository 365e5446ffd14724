/* ops/attr.h - the value of a node's attribute (TensorFlow's AttrValue).
 *
 * Everything that a value points to lives in an arena of its owner (a graph, the op table), except tensors,
 * which are reference-counted: the arena's owner releases them.
 */
#ifndef WEFT_OPS_ATTR_H_
#define WEFT_OPS_ATTR_H_

#include "base/arena.h"
#include "tensor/shape.h"
#include "tensor/tensor.h"

typedef enum weft_attr_kind {
  WEFT_ATTR_NONE,
  WEFT_ATTR_STRING,      /* s */
  WEFT_ATTR_INT,         /* i */
  WEFT_ATTR_FLOAT,       /* f */
  WEFT_ATTR_BOOL,        /* b */
  WEFT_ATTR_TYPE,        /* type: a dtype number, may be a ref type */
  WEFT_ATTR_SHAPE,       /* shape */
  WEFT_ATTR_TENSOR,      /* tensor */
  WEFT_ATTR_FUNC,        /* func */
  WEFT_ATTR_PLACEHOLDER, /* s; only inside function bodies: "$T" */
  WEFT_ATTR_RAW,         /* s: the serialized AttrValue of what is no value: a list of several kinds, a tensor
                            with too few bytes. Kept as it came; no op's attribute in a graph that runs */
} weft_attr_kind_t;

typedef struct weft_func_attr weft_func_attr_t;

typedef struct weft_attr {
  weft_attr_kind_t kind; /* of the value, or of each element of a list; NONE: a list whose element kind is
                            unknown (empty) */
  bool is_list;
  int32_t n; /* elements of a list */
  union {
    weft_str_t s;
    int64_t i;
    float f;
    bool b;
    int type;
    const weft_shape_t *shape;
    weft_tensor_t *tensor;
    const weft_func_attr_t *func;
    struct { /* lists; arrays of n */
      union {
        const weft_str_t *strings;
        const int64_t *ints;
        const float *floats;
        const bool *bools;
        const int *types;
        const weft_shape_t *shapes;
        weft_tensor_t *const *tensors;
        const weft_func_attr_t *const *funcs;
      };
    } list;
  };
} weft_attr_t;

typedef struct weft_named_attr {
  weft_str_t name;
  weft_attr_t value;
} weft_named_attr_t;

/* For new nodes. `name` and `text` must live until the node is added. */
static inline weft_named_attr_t weft_int_attr(const char *name, int64_t i) {
  return (weft_named_attr_t){weft_str(name), {.kind = WEFT_ATTR_INT, .i = i}};
}
static inline weft_named_attr_t weft_bool_attr(const char *name, bool b) {
  return (weft_named_attr_t){weft_str(name), {.kind = WEFT_ATTR_BOOL, .b = b}};
}
static inline weft_named_attr_t weft_type_attr(const char *name, int type) {
  return (weft_named_attr_t){weft_str(name), {.kind = WEFT_ATTR_TYPE, .type = type}};
}
static inline weft_named_attr_t weft_text_attr(const char *name, weft_str_t text) {
  return (weft_named_attr_t){weft_str(name), {.kind = WEFT_ATTR_STRING, .s = text}};
}

/* NameAttrList: a function and the attributes to instantiate it with. */
struct weft_func_attr {
  weft_str_t name;
  const weft_named_attr_t *attrs; /* num_attrs of them, sorted by name */
  int num_attrs;
};

/* Same kind and value; tensors are compared by dtype, shape and contents. */
bool weft_attr_eq(const weft_attr_t *a, const weft_attr_t *b);
/* Deep copy into `arena`; tensors are retained (the arena's owner must release them: see
 * weft_attr_release_tensors). */
WEFT_MUST_CHECK weft_status_t *weft_attr_copy(weft_arena_t *arena, const weft_attr_t *from, weft_attr_t *out);
void weft_attr_release_tensors(weft_attr_t *a);
/* "float", "[1,2]", "\"SAME\"", "tensor<float [2,3]>", ...: for messages and for weft inspect; long values
 * are cut. */
void weft_attr_print(const weft_attr_t *a, weft_strbuf_t *out);
/* "int", "list(type)", ...: as in an OpDef's AttrDef.type. */
const char *weft_attr_kind_name(weft_attr_kind_t kind, bool is_list);

/* Looks for a name among n attributes; NULL if absent. */
const weft_attr_t *weft_attr_find(const weft_named_attr_t *attrs, int n, const char *name);

#endif /* WEFT_OPS_ATTR_H_ */
