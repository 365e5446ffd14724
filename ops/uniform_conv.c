/* ops/uniform_conv.c - see the header. */
#include "ops/uniform_conv.h"

#include <inttypes.h>

#include "protos/wire.h"

/* Fields of UniformQuantizedConvolutionDimensionNumbersAttr, in the order of a plan's dimensions. */
enum {
  LHS_BATCH = 1,
  LHS_FEATURE = 2,
  LHS_SPACE = 3,
  RHS_IN = 4,
  RHS_OUT = 5,
  RHS_SPACE = 6,
  OUT_BATCH = 7,
  OUT_FEATURE = 8,
  OUT_SPACE = 9,
};

static const weft_attr_t *attr_of(const weft_named_attr_t *attrs, int n, const char *name) {
  static const weft_attr_t none;
  for (int i = 0; i < n; i++) {
    if (weft_str_is(attrs[i].name, name)) return &attrs[i].value;
  }
  return &none;
}

weft_status_t *weft_uniform_conv_check(const weft_named_attr_t *attrs, int n) {
  const weft_attr_t *padding = attr_of(attrs, n, "padding"), *list = attr_of(attrs, n, "explicit_padding");
  const bool is_explicit = weft_str_is(padding->s, "EXPLICIT");
  if (!is_explicit && !weft_str_is(padding->s, "SAME") && !weft_str_is(padding->s, "VALID")) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "padding Attr must be one of [EXPLICIT | SAME | VALID], but given: %.*s",
                      WEFT_STR_ARGS(padding->s));
  }
  if (is_explicit || list->n == 0) return NULL;
  return WEFT_ERROR(
      INVALID_ARGUMENT,
      "If padding Attr is not 'EXPLICIT', explicit_padding Attr must be empty. Given padding %.*s and "
      "explicit_padding of size %d",
      WEFT_STR_ARGS(padding->s), list->n);
}

/* A list of one positive number for each spatial dimension; none of them: all are 1. */
static weft_status_t *read_list(const weft_named_attr_t *attrs, int n, const char *name, int num_space,
                                int64_t *out) {
  const weft_attr_t *a = attr_of(attrs, n, name);
  if (a->n != 0 && a->n != num_space) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Size of %s Attr must be dims - 2.", name);
  }
  for (int i = 0; i < num_space; i++) {
    out[i] = a->n == 0 ? 1 : a->list.ints[i];
    if (out[i] >= 1 && out[i] <= INT32_MAX) continue;
    return WEFT_ERROR(INVALID_ARGUMENT, "All elements of %s must be >= 1. Given %" PRId64, name, out[i]);
  }
  return NULL;
}

/* ---- dimension numbers ---- */

typedef struct numbers {
  int64_t one[OUT_SPACE + 1];
  int64_t space[OUT_SPACE + 1][WEFT_MAX_DIMS];
  int num_space[OUT_SPACE + 1];
} numbers_t;

static weft_status_t *bad_numbers(void) {
  return WEFT_ERROR(INVALID_ARGUMENT, "Error parsing convolution dimension numbers.");
}

static weft_status_t *add_space(numbers_t *d, uint32_t field, uint64_t value) {
  if (d->num_space[field] == WEFT_MAX_DIMS) return bad_numbers();
  d->space[field][d->num_space[field]++] = (int64_t)value;
  return NULL;
}

static weft_status_t *add_field(numbers_t *d, const weft_wire_field_t *f) {
  const uint32_t field = weft_wire_number(f), type = weft_wire_type(f);
  const bool is_space = field == LHS_SPACE || field == RHS_SPACE || field == OUT_SPACE;
  if (field > OUT_SPACE) return NULL;
  if (type == WEFT_WIRE_VARINT) {
    if (is_space) return add_space(d, field, f->value);
    d->one[field] = (int64_t)f->value;
  } else if (type == WEFT_WIRE_BYTES && is_space) {
    const uint8_t *p = (const uint8_t *)f->bytes.data, *end = p + f->bytes.length;
    while (p < end) {
      uint64_t value = 0;
      p = weft_wire_get_varint(p, end, &value);
      if (p == NULL) return bad_numbers();
      WEFT_RETURN_IF_ERROR(add_space(d, field, value));
    }
  }
  return NULL;
}

static weft_status_t *parse_numbers(weft_str_t text, numbers_t *d) {
  weft_wire_reader_t r = weft_wire_reader(text);
  weft_wire_field_t f;
  while (weft_wire_next(&r, &f)) WEFT_RETURN_IF_ERROR(add_field(d, &f));
  return r.failed ? bad_numbers() : NULL;
}

/* The dims `first`, `second`, then space, each of them once. */
static weft_status_t *set_dims(int rank, int64_t first, int64_t second, const int64_t *space, int num_space,
                               int *out) {
  bool seen[WEFT_MAX_DIMS] = {false};
  if (num_space != rank - 2) {
    return WEFT_ERROR(
        INVALID_ARGUMENT,
        "Spatial dimensions size must be rank - 2. Given rank %d and spatial dimensions size %d", rank,
        num_space);
  }
  for (int i = 0; i < rank; i++) {
    const int64_t dim = i == 0 ? first : i == 1 ? second : space[i - 2];
    if (dim < 0 || dim >= rank || seen[dim]) {
      return WEFT_ERROR(
          INVALID_ARGUMENT,
          "Each dimension number must be in region [0, rank), and differ from the others. Given rank %d "
          "and dimension number value %" PRId64,
          rank, dim);
    }
    seen[dim] = true;
    out[i] = (int)dim;
  }
  return NULL;
}

static weft_status_t *read_dims(weft_str_t text, int rank, weft_uniform_conv_t *c) {
  numbers_t d = {.num_space = {0}};
  WEFT_RETURN_IF_ERROR(parse_numbers(text, &d));
  if (d.num_space[LHS_SPACE] == 0) {
    for (int i = 0; i < rank; i++) c->lhs[i] = c->rhs[i] = c->out[i] = i;
    return NULL;
  }
  WEFT_RETURN_IF_ERROR(set_dims(rank, d.one[LHS_BATCH], d.one[LHS_FEATURE], d.space[LHS_SPACE],
                                d.num_space[LHS_SPACE], c->lhs));
  WEFT_RETURN_IF_ERROR(
      set_dims(rank, d.one[RHS_OUT], d.one[RHS_IN], d.space[RHS_SPACE], d.num_space[RHS_SPACE], c->rhs));
  return set_dims(rank, d.one[OUT_BATCH], d.one[OUT_FEATURE], d.space[OUT_SPACE], d.num_space[OUT_SPACE],
                  c->out);
}

/* ---- groups ---- */

static weft_status_t *check_groups(const weft_uniform_conv_t *c, const weft_shape_t *lhs,
                                   const weft_shape_t *rhs) {
  const int64_t features = lhs->dims[c->lhs[1]], in = rhs->dims[c->rhs[1]], out = rhs->dims[c->rhs[0]];
  const int64_t batch = lhs->dims[c->lhs[0]], fg = c->feature_groups, bg = c->batch_groups;
  if (fg <= 0 || fg > INT32_MAX) {
    return WEFT_ERROR(INVALID_ARGUMENT, "feature_group_count must be a positive integer, given: %" PRId64,
                      fg);
  }
  if (features % fg != 0) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "feature_group_count must divide lhs feature dimension size, but %" PRId64
                      " does not divide %" PRId64,
                      fg, features);
  }
  if (in == 0 || features % in != 0 || features / fg != in) {
    return WEFT_ERROR(
        INVALID_ARGUMENT,
        "lhs feature dimension size divided by feature_group_count must equal the rhs input feature "
        "dimension size, but %" PRId64 " / %" PRId64 " != %" PRId64,
        features, fg, in);
  }
  if (out % fg != 0) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "rhs output dimension size must be a multiple of feature_group_count, but %" PRId64
                      " is not a multiple of %" PRId64,
                      out, fg);
  }
  if (bg <= 0 || bg > INT32_MAX) {
    return WEFT_ERROR(INVALID_ARGUMENT, "batch_group_count Attr must be a positive integer. Given: %" PRId64,
                      bg);
  }
  if (batch % bg != 0) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "batch_group_count must divide lhs batch dimension size, but %" PRId64
                      " does not divide %" PRId64,
                      bg, batch);
  }
  if (out % bg == 0) return NULL;
  return WEFT_ERROR(INVALID_ARGUMENT,
                    "rhs output dimension size must be a multiple of batch_group_count, but %" PRId64
                    " is not a multiple of %" PRId64,
                    out, bg);
}

/* ---- windows ---- */

enum { LARGEST = 1 << 30 }; /* dilations and strides are int32: what follows stays within int64 */

static weft_status_t *dilated(int64_t size, int64_t dilation, int64_t *out) {
  if (size > ((int64_t)LARGEST << 30) / dilation) {
    return WEFT_ERROR(INVALID_ARGUMENT, "a dimension of %" PRId64 " with dilation %" PRId64 " is too large",
                      size, dilation);
  }
  *out = size == 0 ? 0 : size + (dilation - 1) * (size - 1);
  return NULL;
}

/* Padding of spatial dimension i, and the size of the result. */
static weft_status_t *plan_space(const weft_attr_t *padding, const weft_attr_t *list, const weft_shape_t *lhs,
                                 const weft_shape_t *rhs, int i, weft_uniform_conv_t *c) {
  const int64_t stride = c->stride[i];
  int64_t in = 0, window = 0;
  WEFT_RETURN_IF_ERROR(dilated(lhs->dims[c->lhs[2 + i]], c->lhs_dilation[i], &in));
  WEFT_RETURN_IF_ERROR(dilated(rhs->dims[c->rhs[2 + i]], c->rhs_dilation[i], &window));
  c->before[i] = c->after[i] = 0;
  if (weft_str_is(padding->s, "EXPLICIT")) {
    c->before[i] = list->list.ints[2 * i];
    c->after[i] = list->list.ints[2 * i + 1];
  } else if (weft_str_is(padding->s, "SAME")) {
    const int64_t missing = ((in + stride - 1) / stride - 1) * stride + window - in,
                  total = missing > 0 ? missing : 0;
    c->before[i] = total / 2;
    c->after[i] = total - total / 2;
  }
  const int64_t room = in + c->before[i] + c->after[i] - window + 1, size = (room + stride - 1) / stride;
  if (size < 0)
    return WEFT_ERROR(INVALID_ARGUMENT, "Expected shape dimensions to be non-negative, got %" PRId64, size);
  c->shape.dims[c->out[2 + i]] = size;
  return NULL;
}

static weft_status_t *check_explicit(const weft_attr_t *padding, const weft_attr_t *list, int rank) {
  if (!weft_str_is(padding->s, "EXPLICIT")) return NULL;
  if (list->n != 2 * (rank - 2)) {
    return WEFT_ERROR(
        INVALID_ARGUMENT,
        "Size of explicit_padding Attr must be 2 * (rank - 2). Given rank %d and explicit_padding of size "
        "%d",
        rank, list->n);
  }
  for (int i = 0; i < list->n; i++) {
    if (list->list.ints[i] >= 0 && list->list.ints[i] <= INT32_MAX) continue;
    return WEFT_ERROR(INVALID_ARGUMENT, "All explicit_padding elems must be >= 0, Given %" PRId64,
                      list->list.ints[i]);
  }
  return NULL;
}

weft_status_t *weft_uniform_conv_plan(const weft_named_attr_t *attrs, int n, const weft_shape_t *lhs,
                                      const weft_shape_t *rhs, weft_uniform_conv_t *c) {
  const weft_attr_t *padding = attr_of(attrs, n, "padding"), *list = attr_of(attrs, n, "explicit_padding");
  const int rank = lhs->rank;
  WEFT_RETURN_IF_ERROR(weft_uniform_conv_check(attrs, n));
  if (rank != rhs->rank) {
    return WEFT_ERROR(INVALID_ARGUMENT, "lhs and rhs must have same dims. Given lhs and rhs of shapes: %s%s",
                      WEFT_SHAPE_TEXT(lhs), WEFT_SHAPE_TEXT(rhs));
  }
  if (rank <= 2) {
    return WEFT_ERROR(INVALID_ARGUMENT, "lhs and rhs shape dims must be at least 3. Given: %d", rank);
  }
  *c = (weft_uniform_conv_t){.num_space = rank - 2,
                             .feature_groups = attr_of(attrs, n, "feature_group_count")->i,
                             .batch_groups = attr_of(attrs, n, "batch_group_count")->i,
                             .shape = {.rank = rank}};
  WEFT_RETURN_IF_ERROR(read_list(attrs, n, "window_strides", c->num_space, c->stride));
  WEFT_RETURN_IF_ERROR(read_list(attrs, n, "lhs_dilation", c->num_space, c->lhs_dilation));
  WEFT_RETURN_IF_ERROR(read_list(attrs, n, "rhs_dilation", c->num_space, c->rhs_dilation));
  WEFT_RETURN_IF_ERROR(read_dims(attr_of(attrs, n, "dimension_numbers")->s, rank, c));
  WEFT_RETURN_IF_ERROR(check_groups(c, lhs, rhs));
  WEFT_RETURN_IF_ERROR(check_explicit(padding, list, rank));
  c->shape.dims[c->out[0]] = lhs->dims[c->lhs[0]] / c->batch_groups;
  c->shape.dims[c->out[1]] = rhs->dims[c->rhs[0]];
  for (int i = 0; i < c->num_space; i++) WEFT_RETURN_IF_ERROR(plan_space(padding, list, lhs, rhs, i, c));
  if (weft_shape_count(&c->shape) >= 0) return NULL;
  return WEFT_ERROR(INVALID_ARGUMENT, "Shape %s has too many elements", WEFT_SHAPE_TEXT(&c->shape));
}

weft_status_t *weft_uniform_dot_plan(const weft_shape_t *lhs, const weft_shape_t *rhs,
                                     weft_uniform_conv_t *c) {
  if (lhs->rank != 2) {
    return WEFT_ERROR(INVALID_ARGUMENT, "lhs rank must be 2, but given lhs shape %s", WEFT_SHAPE_TEXT(lhs));
  }
  if (rhs->rank != 2) {
    return WEFT_ERROR(INVALID_ARGUMENT, "rhs rank must be 2, but given rhs shape %s", WEFT_SHAPE_TEXT(rhs));
  }
  if (lhs->dims[1] != rhs->dims[0]) {
    return WEFT_ERROR(
        INVALID_ARGUMENT,
        "lhs.dim_size(1) and rhs.dim_size(0) must be equal, but given lhs shape %s and rhs shape %s",
        WEFT_SHAPE_TEXT(lhs), WEFT_SHAPE_TEXT(rhs));
  }
  *c = (weft_uniform_conv_t){.lhs = {0, 1},
                             .rhs = {1, 0},
                             .out = {0, 1},
                             .feature_groups = 1,
                             .batch_groups = 1,
                             .shape = weft_shape_matrix(lhs->dims[0], rhs->dims[1])};
  return NULL;
}
