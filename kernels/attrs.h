/* kernels/attrs.h - the attributes that a compute function reads, as a struct of its own.
 *
 * The attributes are declared in front of the function, by kind and name; they become the members of a
 * struct, which prepare fills and the function gets as its second argument:
 *
 *   WEFT_ATTRS(one_hot_compute, (INT, axis))
 *   static weft_status_t *one_hot_compute(weft_kernel_ctx_t *ctx, const one_hot_compute_attrs_t *attrs) {
 *     int64_t axis = attrs->axis;
 *   ...
 *   {.op = "OneHot", WEFT_COMPUTE(one_hot_compute)},
 *
 * A row names nothing but the function, so it cannot name too few attributes; one that the function does not
 * declare, or takes for another kind, does not compile; one that the op's record lacks, or has with another
 * kind, fails tests/kernels:table_check_test.
 */
#ifndef WEFT_KERNELS_ATTRS_H_
#define WEFT_KERNELS_ATTRS_H_

#include <stddef.h>

#include "base/alloc.h"
#include "kernels/kernel.h"

/* Of each kind: the member's type; the attribute's kind, and whether it is a list. Pointers are lent by the
 * plan. A list is the attribute itself. */
#define WEFT_ATTR_C_BOOL bool
#define WEFT_ATTR_C_FLOAT float
#define WEFT_ATTR_C_INT int64_t
#define WEFT_ATTR_C_INTS const weft_attr_t *
#define WEFT_ATTR_C_SHAPE const weft_shape_t *
#define WEFT_ATTR_C_SHAPES const weft_attr_t *
#define WEFT_ATTR_C_STRING weft_str_t
#define WEFT_ATTR_C_TYPE int
#define WEFT_ATTR_C_TYPES const weft_attr_t *
#define WEFT_ATTR_IS_BOOL WEFT_ATTR_BOOL, false
#define WEFT_ATTR_IS_FLOAT WEFT_ATTR_FLOAT, false
#define WEFT_ATTR_IS_INT WEFT_ATTR_INT, false
#define WEFT_ATTR_IS_INTS WEFT_ATTR_INT, true
#define WEFT_ATTR_IS_SHAPE WEFT_ATTR_SHAPE, false
#define WEFT_ATTR_IS_SHAPES WEFT_ATTR_SHAPE, true
#define WEFT_ATTR_IS_STRING WEFT_ATTR_STRING, false
#define WEFT_ATTR_IS_TYPE WEFT_ATTR_TYPE, false
#define WEFT_ATTR_IS_TYPES WEFT_ATTR_TYPE, true

typedef struct weft_attr_field {
  const char *name;
  weft_attr_kind_t kind;
  bool is_list;
  size_t offset;
} weft_attr_field_t;

/* The struct of one function. Constant. */
struct weft_attr_struct {
  size_t size;
  const weft_attr_field_t *fields; /* ended by one without a name */
};

/* m(of, kind, name) for each of up to six pairs. */
#define WEFT_ATTR_APPLY(m, ...) m(__VA_ARGS__)
#define WEFT_ATTR_PAIR(...) __VA_ARGS__
#define WEFT_ATTR_EACH1(m, of, a) WEFT_ATTR_APPLY(m, of, WEFT_ATTR_PAIR a)
#define WEFT_ATTR_EACH2(m, of, a, ...) WEFT_ATTR_EACH1(m, of, a) WEFT_ATTR_EACH1(m, of, __VA_ARGS__)
#define WEFT_ATTR_EACH3(m, of, a, ...) WEFT_ATTR_EACH1(m, of, a) WEFT_ATTR_EACH2(m, of, __VA_ARGS__)
#define WEFT_ATTR_EACH4(m, of, a, ...) WEFT_ATTR_EACH1(m, of, a) WEFT_ATTR_EACH3(m, of, __VA_ARGS__)
#define WEFT_ATTR_EACH5(m, of, a, ...) WEFT_ATTR_EACH1(m, of, a) WEFT_ATTR_EACH4(m, of, __VA_ARGS__)
#define WEFT_ATTR_EACH6(m, of, a, ...) WEFT_ATTR_EACH1(m, of, a) WEFT_ATTR_EACH5(m, of, __VA_ARGS__)
#define WEFT_ATTR_PICK(a, b, c, d, e, f, each, ...) each
#define WEFT_ATTR_EACH(m, of, ...)                                                                \
  WEFT_ATTR_PICK(__VA_ARGS__, WEFT_ATTR_EACH6, WEFT_ATTR_EACH5, WEFT_ATTR_EACH4, WEFT_ATTR_EACH3, \
                 WEFT_ATTR_EACH2, WEFT_ATTR_EACH1, )                                              \
  (m, of, __VA_ARGS__)
#define WEFT_ATTR_MEMBER(of, kind, name) WEFT_ATTR_C_##kind name;
#define WEFT_ATTR_FIELD(of, kind, name) {#name, WEFT_ATTR_IS_##kind, offsetof(of##_attrs_t, name)},

/* A struct that several functions get: of##_attrs_t. */
#define WEFT_ATTRS_STRUCT(of, ...)                    \
  typedef struct of##_attrs {                         \
    WEFT_ATTR_EACH(WEFT_ATTR_MEMBER, of, __VA_ARGS__) \
  } of##_attrs_t;                                     \
  static const weft_attr_field_t of##_fields[] = {WEFT_ATTR_EACH(WEFT_ATTR_FIELD, of, __VA_ARGS__){0}};
/* Declares that fn(ctx, attrs), defined behind it, gets such a struct. */
#define WEFT_ATTRS_OF(fn, of)                                                       \
  static const weft_attr_struct_t fn##_reads = {sizeof(of##_attrs_t), of##_fields}; \
  static weft_status_t *fn(weft_kernel_ctx_t *ctx, const of##_attrs_t *attrs);      \
  static weft_status_t *fn##_of_row(weft_kernel_ctx_t *ctx) { return fn(ctx, ctx->state); }
#define WEFT_ATTRS_OF_ASYNC(fn, of)                                                 \
  static const weft_attr_struct_t fn##_reads = {sizeof(of##_attrs_t), of##_fields}; \
  static void fn(weft_kernel_ctx_t *ctx, const of##_attrs_t *attrs);                \
  static void fn##_of_row(weft_kernel_ctx_t *ctx) { fn(ctx, ctx->state); }
/* Both, for one function. */
#define WEFT_ATTRS(fn, ...) WEFT_ATTRS_STRUCT(fn, __VA_ARGS__) WEFT_ATTRS_OF(fn, fn)
#define WEFT_ATTRS_ASYNC(fn, ...) WEFT_ATTRS_STRUCT(fn, __VA_ARGS__) WEFT_ATTRS_OF_ASYNC(fn, fn)

/* Of the row of such a function: all but the op, its types and its param. */
#define WEFT_COMPUTE(fn) WEFT_COMPUTE_CHECKED(fn, weft_attrs_prepare)
/* With a prepare of its own, which checks values and then calls weft_attrs_prepare. */
#define WEFT_COMPUTE_CHECKED(fn, prepare_) \
  .prepare = prepare_, .compute = fn##_of_row, .destroy = weft_free, .reads = &fn##_reads
#define WEFT_COMPUTE_ASYNC(fn) \
  .prepare = weft_attrs_prepare, .compute_async = fn##_of_row, .destroy = weft_free, .reads = &fn##_reads

#define WEFT_KERNEL_ATTRS(op_, attr_, types_, fn) \
  { .op = op_, .type_attr = attr_, .types = types_, WEFT_COMPUTE(fn) }

/* State: the struct of the row's function. Errors: INTERNAL: the op has no such attribute;
 * RESOURCE_EXHAUSTED. */
WEFT_MUST_CHECK weft_status_t *weft_attrs_prepare(const weft_kernel_setup_t *setup, void **out_state);

#endif /* WEFT_KERNELS_ATTRS_H_ */
