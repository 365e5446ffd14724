#include "tensor/tensor_proto.h"

#include <stdio.h>

#include "base/alloc.h"
#include "protos/wire.h"
#include "tests/runner.h"

static weft_str_t view(const weft_strbuf_t *b) { return weft_str_of(b->data, b->length); }

/* The file of pairs (a TensorProto with typed fields, the same with tensor_content), checked with TensorFlow
 * when it was made: an AttrValue.ListValue with the messages in field 8. The caller deinits it. */
static weft_strbuf_t read_pairs(void) {
  weft_strbuf_t b = WEFT_STRBUF_INIT;
  FILE *f = fopen("tests/tensor/testdata/tensors.pb", "rb");
  CU_ASSERT_PTR_NOT_NULL_FATAL(f);
  char block[4096];
  for (size_t n; (n = fread(block, 1, sizeof block, f)) > 0;) weft_strbuf_append(&b, weft_str_of(block, n));
  fclose(f);
  return b;
}

/* Decodes `bytes` and encodes what came out; also checks that sizes were foretold. */
static weft_strbuf_t recode(weft_str_t bytes) {
  weft_tensor_t *t = NULL;
  weft_strbuf_t out = WEFT_STRBUF_INIT, header = WEFT_STRBUF_INIT;
  weft_status_t *s = weft_tensor_from_proto(bytes, &t);
  CU_ASSERT_PTR_NULL(s);
  if (s != NULL) puts(weft_status_message(s));
  weft_status_free(s);
  CU_ASSERT_PTR_NOT_NULL_FATAL(t);
  CU_ASSERT_PTR_NULL(weft_tensor_to_proto(t, &out));
  CU_ASSERT_EQUAL(weft_tensor_proto_size(t), out.length);
  if (weft_dtype_is_plain(t->dtype)) {
    weft_tensor_proto_header(t, &header);
    CU_ASSERT_EQUAL_FATAL(header.length + t->bytes, out.length);
    CU_ASSERT(memcmp(header.data, out.data, header.length) == 0);
  }
  weft_strbuf_deinit(&header);
  weft_tensor_release(t);
  return out;
}

static void typed_fields_and_content_mean_the_same_for_every_dtype(void) {
  weft_strbuf_t file = read_pairs();
  weft_wire_reader_t r = weft_wire_reader(view(&file));
  weft_wire_field_t typed, content;
  uint32_t dtypes = 0;
  int pairs = 0;
  while (weft_wire_next(&r, &typed) && weft_wire_next(&r, &content)) {
    weft_strbuf_t a = recode(typed.bytes), b = recode(content.bytes);
    CU_ASSERT(weft_str_eq(view(&a), content.bytes));
    CU_ASSERT(weft_str_eq(view(&b), content.bytes));
    dtypes |= WEFT_DTYPE_BIT((uint8_t)a.data[1]);
    pairs++;
    weft_strbuf_deinit(&a);
    weft_strbuf_deinit(&b);
  }
  CU_ASSERT_FALSE(r.failed);
  CU_ASSERT_EQUAL(pairs, 147);
  for (int d = 1; d < WEFT_DTYPE_COUNT; d++)
    CU_ASSERT(d == WEFT_VARIANT || (dtypes & WEFT_DTYPE_BIT(d)) != 0);
  weft_strbuf_deinit(&file);
}

/* ---- messages by hand ---- */

static void put_shape(weft_strbuf_t *b, int rank, const int64_t *dims) {
  weft_shape_t s = {.rank = rank};
  for (int i = 0; i < rank; i++) s.dims[i] = dims[i];
  weft_wire_add_header(b, 2, weft_shape_proto_size(&s));
  weft_shape_to_proto(&s, b);
}

static weft_strbuf_t message(int dtype, int rank, const int64_t *dims) {
  weft_strbuf_t b = WEFT_STRBUF_INIT;
  weft_wire_put_i64(&b, 1, dtype);
  put_shape(&b, rank, dims);
  return b;
}

/* Decoding `b` must fail with `code` and say `what`. Consumes b. */
static void expect_refusal(weft_strbuf_t *b, weft_code_t code, const char *what) {
  weft_tensor_t *t = NULL;
  weft_status_t *s = weft_tensor_from_proto(view(b), &t);
  CU_ASSERT_EQUAL(weft_status_code(s), code);
  CU_ASSERT_PTR_NOT_NULL(strstr(weft_status_message(s), "Cannot parse tensor from proto: "));
  if (strstr(weft_status_message(s), what) == NULL) {
    printf("\n'%s' lacks '%s'\n", weft_status_message(s), what);
    CU_FAIL("message");
  }
  CU_ASSERT_PTR_NULL(t);
  weft_status_free(s);
  weft_strbuf_deinit(b);
}

static void wrong_sizes_are_refused(void) {
  weft_strbuf_t b = message(WEFT_F32, 1, (int64_t[]){3});
  weft_wire_add_bytes(&b, 4, WEFT_STR("1234"));
  expect_refusal(&b, WEFT_INVALID_ARGUMENT,
                 "4 bytes of tensor_content for type float and shape [3], which needs 12");
  b = message(WEFT_STRING, 1, (int64_t[]){2});
  weft_wire_add_bytes(&b, 4, WEFT_STR("\1\2ab")); /* lengths say three bytes */
  expect_refusal(&b, WEFT_INVALID_ARGUMENT, "do not hold string elements of shape [2]");
  b = message(WEFT_STRING, 1, (int64_t[]){2});
  weft_wire_add_bytes(&b, 4, WEFT_STR("\1\1abc"));
  expect_refusal(&b, WEFT_INVALID_ARGUMENT, "do not hold");
  b = message(WEFT_STRING, 1, (int64_t[]){1});
  weft_wire_add_bytes(&b, 4, WEFT_STR("\xff\xff\xff\xff\xff\xff\xff\xff\x7f"));
  expect_refusal(&b, WEFT_INVALID_ARGUMENT, "do not hold");
  b = message(WEFT_STRING, 2, (int64_t[]){1 << 30, 2});
  weft_wire_add_bytes(&b, 4, WEFT_STR("\1\1ab"));
  expect_refusal(&b, WEFT_INVALID_ARGUMENT, "do not hold");
  b = message(WEFT_RESOURCE, 1, (int64_t[]){1});
  weft_wire_add_bytes(&b, 4, WEFT_STR("\2\x0a\x05")); /* a handle whose device is cut off */
  expect_refusal(&b, WEFT_INVALID_ARGUMENT, "Malformed ResourceHandleProto");
}

static void hostile_shapes_cost_nothing(void) {
  weft_strbuf_t b = message(WEFT_F32, 1, (int64_t[]){(int64_t)1 << 40});
  weft_wire_add_bytes(&b, 5, weft_str_of("\0\0\x80\x3f", 4));
  expect_refusal(&b, WEFT_INVALID_ARGUMENT, "[1099511627776]");
  b = message(WEFT_STRING, 1, (int64_t[]){(int64_t)1 << 40});
  expect_refusal(&b, WEFT_INVALID_ARGUMENT, "only 0 elements are given");
  b = message(WEFT_RESOURCE, 1, (int64_t[]){(int64_t)1 << 40});
  expect_refusal(&b, WEFT_INVALID_ARGUMENT, "only 0 elements are given");
  b = message(WEFT_I32, 2, (int64_t[]){(int64_t)1 << 40, (int64_t)1 << 40});
  expect_refusal(&b, WEFT_INVALID_ARGUMENT, "is too large (more than 2**63 - 1 entries)");
  b = message(WEFT_C128, 1, (int64_t[]){INT64_MAX});
  expect_refusal(&b, WEFT_INVALID_ARGUMENT, "too large");
  b = message(WEFT_I32, 1, (int64_t[]){-1});
  expect_refusal(&b, WEFT_INVALID_ARGUMENT, "Shape [?] is not fully defined");
  weft_strbuf_t long_text = WEFT_STRBUF_INIT;
  for (int i = 0; i < 100000; i++) weft_strbuf_putc(&long_text, 'x');
  b = message(WEFT_STRING, 1, (int64_t[]){1 << 20}); /* a million copies of it */
  weft_wire_add_bytes(&b, 8, view(&long_text));
  expect_refusal(&b, WEFT_INVALID_ARGUMENT, "would repeat a string of 100000 bytes too often");
  weft_strbuf_deinit(&long_text);
  weft_strbuf_t many = WEFT_STRBUF_INIT;
  weft_wire_put_i64(&many, 1, WEFT_F32);
  size_t mark = weft_wire_begin(&many, 2);
  for (int i = 0; i < 300; i++) weft_wire_add_bytes(&many, 2, WEFT_STR(""));
  weft_wire_end(&many, mark);
  expect_refusal(&many, WEFT_INVALID_ARGUMENT, "has too many dimensions");
}

static void types_that_are_no_values_are_refused(void) {
  static const struct {
    int dtype;
    weft_code_t code;
  } cases[] = {{0, WEFT_INVALID_ARGUMENT},
               {-1, WEFT_INVALID_ARGUMENT},
               {WEFT_F32 + WEFT_REF, WEFT_INVALID_ARGUMENT},
               {24, WEFT_UNIMPLEMENTED},
               {29, WEFT_UNIMPLEMENTED},
               {34, WEFT_INVALID_ARGUMENT},
               {1000, WEFT_INVALID_ARGUMENT},
               {INT32_MAX, WEFT_INVALID_ARGUMENT}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    weft_strbuf_t b = message(cases[i].dtype, 0, NULL);
    expect_refusal(&b, cases[i].code, "");
  }
}

static void malformed_messages_are_refused(void) {
  static const weft_str_t cases[] = {
      {"\x08", 1},                             /* dtype cut off */
      {"\x08\x01\x12\x02\x12", 5},             /* shape cut off */
      {"\x08\x01\x12\x02\x12\x01", 6},         /* dim cut off */
      {"\x08\x01\x12\x04\x12\x02\x08\x80", 8}, /* its size cut off */
      {"\x08\x01\x2a\x03\x00\x00\x00", 7},     /* a packed float of three bytes */
      {"\x08\x03\x3a\x01\x80", 5},             /* a packed int cut off */
      {"\x08\x01\x07", 3},                     /* wire type 7 */
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    weft_strbuf_t b = WEFT_STRBUF_INIT;
    weft_strbuf_append(&b, cases[i]);
    expect_refusal(&b, WEFT_INVALID_ARGUMENT, "malformed TensorProto");
  }
}

static void unpacked_split_and_unknown_fields_are_fine(void) {
  weft_strbuf_t b = WEFT_STRBUF_INIT;
  weft_tensor_t *t = NULL;
  weft_wire_add_varint(&b, 7, 1); /* before the dtype is known */
  put_shape(&b, 1, (int64_t[]){2});
  weft_wire_add_bytes(&b, 99, WEFT_STR("from the future"));
  weft_wire_add_bytes(&b, 7, WEFT_STR("\2\3"));
  weft_wire_add_varint(&b, 7, (uint64_t)-4);
  weft_wire_put_i64(&b, 1, WEFT_F32);
  weft_wire_put_i64(&b, 1, WEFT_I16); /* the last one counts */
  put_shape(&b, 1, (int64_t[]){2});   /* messages merge: the shape is [2,2] */
  CU_ASSERT_PTR_NULL_FATAL(weft_tensor_from_proto(view(&b), &t));
  CU_ASSERT_STRING_EQUAL(WEFT_SHAPE_TEXT(&t->shape), "[2,2]");
  CU_ASSERT(memcmp(t->data, (int16_t[]){1, 2, 3, -4}, 8) == 0);
  weft_tensor_release(t);
  weft_strbuf_deinit(&b);
}

static void an_empty_message_field_is_a_scalar_zero(void) {
  weft_tensor_t *t = NULL;
  CU_ASSERT_PTR_NULL_FATAL(weft_tensor_from_proto(weft_str_of("\x08\x01", 2), &t));
  CU_ASSERT_EQUAL(t->shape.rank, 0);
  CU_ASSERT_EQUAL(*(float *)t->data, 0.0f);
  weft_tensor_release(t);
  /* unknown_rank is for attributes; in a value TensorFlow does not look at it */
  CU_ASSERT_PTR_NULL_FATAL(weft_tensor_from_proto(weft_str_of("\x08\x01\x12\x02\x18\x01", 6), &t));
  CU_ASSERT_EQUAL(t->shape.rank, 0);
  weft_tensor_release(t);
}

static void handles_travel_by_name(void) {
  weft_handle_t *h = weft_handle_create(WEFT_STR("/job:ps/task:0"), WEFT_STR("box"), WEFT_STR("v"),
                                        WEFT_STR("Var"), UINT64_MAX, NULL),
                *back = NULL;
  CU_ASSERT_PTR_NOT_NULL_FATAL(h);
  h->dtype = WEFT_F64;
  h->shape = weft_shape_matrix(3, WEFT_UNKNOWN_DIM);
  weft_strbuf_t b = WEFT_STRBUF_INIT;
  weft_handle_to_proto(h, &b);
  CU_ASSERT_EQUAL(b.length, weft_handle_proto_size(h));
  CU_ASSERT_PTR_NULL_FATAL(weft_handle_from_proto(view(&b), &back));
  CU_ASSERT(weft_str_eq(back->device, h->device) && weft_str_eq(back->container, h->container));
  CU_ASSERT(weft_str_eq(back->name, h->name) && weft_str_eq(back->type_name, h->type_name));
  CU_ASSERT_EQUAL(back->hash_code, UINT64_MAX);
  CU_ASSERT_EQUAL(back->dtype, WEFT_F64);
  CU_ASSERT(weft_shape_eq(&back->shape, &h->shape));
  weft_handle_release(back);
  weft_handle_release(h);
  weft_strbuf_deinit(&b);
}

static void full_variants_do_not_travel(void) {
  static const weft_variant_type_t type = {.name = "tensorflow::TensorList"};
  weft_variant_t v = {.type = &type};
  atomic_init(&v.refs, 2);
  weft_tensor_t *t = NULL;
  weft_strbuf_t b = WEFT_STRBUF_INIT;
  CU_ASSERT_PTR_NULL_FATAL(weft_tensor_new(WEFT_VARIANT, &WEFT_SCALAR, NULL, &t));
  CU_ASSERT_PTR_NULL(weft_tensor_to_proto(t, &b)); /* an empty one does */
  CU_ASSERT_EQUAL(weft_tensor_proto_size(t), b.length);
  weft_strbuf_t again = recode(view(&b));
  CU_ASSERT(weft_str_eq(view(&again), view(&b)));
  *(weft_variant_t **)t->data = &v;
  weft_status_t *s = weft_tensor_to_proto(t, &b);
  CU_ASSERT_EQUAL(weft_status_code(s), WEFT_UNIMPLEMENTED);
  CU_ASSERT_PTR_NOT_NULL(strstr(weft_status_message(s), "tensorflow::TensorList"));
  weft_status_free(s);
  weft_tensor_release(t);
  weft_strbuf_deinit(&b);
  weft_strbuf_deinit(&again);
  b = message(WEFT_VARIANT, 0, NULL);
  weft_wire_add_bytes(&b, 15, WEFT_STR("\x0a\x01T"));
  expect_refusal(&b, WEFT_UNIMPLEMENTED, "variants of type 'T' cannot travel");
}

/* ---- sharing ---- */

static void count_call(void *data, size_t n, void *arg) {
  (void)data;
  *(size_t *)arg += n;
}

static void large_aligned_content_is_not_copied(void) {
  enum { COUNT = 1024 };
  weft_strbuf_t b = message(WEFT_F32, 1, (int64_t[]){COUNT});
  weft_wire_add_header(&b, 4, COUNT * sizeof(float));
  size_t at = b.length;
  for (size_t i = 0; i < COUNT * sizeof(float); i++) weft_strbuf_putc(&b, (char)i);
  char *aligned = weft_aligned_alloc(64, b.length + 64);
  CU_ASSERT_PTR_NOT_NULL_FATAL(aligned);
  for (size_t shift = 0; shift < 4; shift++) {
    char *copy =
        aligned + (64 - at % 64) % 64 + shift; /* the content starts `shift` bytes behind a boundary */
    memmove(copy, b.data, b.length);
    size_t given_back = 0;
    bool shared = shift != 0;
    weft_tensor_t *t = NULL;
    CU_ASSERT_PTR_NULL_FATAL(
        weft_tensor_from_proto_shared(weft_str_of(copy, b.length), count_call, &given_back, &shared, &t));
    CU_ASSERT_EQUAL(shared, shift == 0);
    CU_ASSERT_EQUAL(t->data == copy + at, shared);
    CU_ASSERT(memcmp(t->data, b.data + at, t->bytes) == 0);
    weft_tensor_release(t);
    CU_ASSERT_EQUAL(given_back, shift == 0 ? COUNT * sizeof(float) : 0);
  }
  weft_free(aligned);
  weft_strbuf_deinit(&b);
}

static void small_content_is_copied(void) {
  weft_strbuf_t b = message(WEFT_U8, 1, (int64_t[]){4});
  weft_wire_add_bytes(&b, 4, WEFT_STR("1234"));
  size_t given_back = 0;
  bool shared = true;
  weft_tensor_t *t = NULL;
  CU_ASSERT_PTR_NULL_FATAL(weft_tensor_from_proto_shared(view(&b), count_call, &given_back, &shared, &t));
  CU_ASSERT_FALSE(shared);
  weft_strbuf_deinit(&b);
  CU_ASSERT_NSTRING_EQUAL(t->data, "1234", 4);
  weft_tensor_release(t);
  CU_ASSERT_EQUAL(given_back, 0);
}

static void the_front_of_a_message_tells_where_the_payload_goes(void) {
  enum { COUNT = 1000 };
  weft_strbuf_t b = message(WEFT_F64, 1, (int64_t[]){COUNT});
  weft_wire_add_header(&b, 4, COUNT * sizeof(double));
  size_t front = b.length, total = front + COUNT * sizeof(double), at = 0;
  weft_tensor_head_t head;
  for (size_t prefix = 0; prefix < front; prefix++) {
    CU_ASSERT_FALSE(weft_tensor_proto_peek(weft_str_of(b.data, prefix), total, &head, &at));
  }
  CU_ASSERT(weft_tensor_proto_peek(weft_str_of(b.data, front), total, &head, &at));
  CU_ASSERT_EQUAL(at, front);
  CU_ASSERT_EQUAL(head.dtype, WEFT_F64);
  CU_ASSERT_EQUAL(head.count, COUNT);
  CU_ASSERT_FALSE(
      weft_tensor_proto_peek(weft_str_of(b.data, front), total + 1, &head, &at)); /* something follows */
  CU_ASSERT_FALSE(weft_tensor_proto_peek(weft_str_of(b.data, front), total - 1, &head, &at));
  weft_strbuf_deinit(&b);
  b = message(WEFT_F64, 1, (int64_t[]){COUNT + 1}); /* shape and payload disagree */
  weft_wire_add_header(&b, 4, COUNT * sizeof(double));
  CU_ASSERT_FALSE(weft_tensor_proto_peek(view(&b), b.length + COUNT * sizeof(double), &head, &at));
  weft_strbuf_deinit(&b);
}

/* ---- shapes ---- */

static const char *shape_again(weft_str_t bytes, weft_shape_text_t *text) {
  weft_shape_t s;
  weft_status_t *e = weft_shape_from_proto(bytes, &s);
  if (e == NULL) return weft_shape_print(&s, text);
  snprintf(text->text, sizeof text->text, "%s", weft_status_message(e));
  CU_ASSERT_EQUAL(weft_status_code(e), WEFT_INVALID_ARGUMENT);
  weft_status_free(e);
  return text->text;
}
#define SHAPE_AGAIN(literal) shape_again(WEFT_STR(literal), &(weft_shape_text_t){{0}})

static void shapes_of_attributes_may_be_unknown(void) {
  CU_ASSERT_STRING_EQUAL(SHAPE_AGAIN(""), "[]");
  CU_ASSERT_STRING_EQUAL(SHAPE_AGAIN("\x18\x01"), "<unknown>");
  CU_ASSERT_STRING_EQUAL(
      SHAPE_AGAIN("\x12\x02\x08\x02\x12\x00\x12\x0b\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"), "[2,0,?]");
  CU_ASSERT_STRING_EQUAL(SHAPE_AGAIN("\x12\x05\x08\x07\x12\x01n"), "[7]"); /* with a name */
  CU_ASSERT_STRING_EQUAL(SHAPE_AGAIN("\x18\x01\x12\x00"),
                         "An unknown shape must not have any dimensions set.");
  CU_ASSERT_PTR_NOT_NULL(strstr(SHAPE_AGAIN("\x12\x0b\x08\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01"),
                                "has dimensions with values below -1 (where -1 means unknown)"));
  CU_ASSERT_STRING_EQUAL(SHAPE_AGAIN("\x12\x05\x08"), "Malformed TensorShapeProto");
}

static void shapes_come_back(void) {
  static const weft_shape_t shapes[] = {{.rank = WEFT_UNKNOWN_DIM},
                                        {.rank = 0},
                                        {.rank = 3, .dims = {-1, 0, (int64_t)1 << 50}},
                                        {.rank = WEFT_MAX_DIMS}};
  for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
    weft_strbuf_t b = WEFT_STRBUF_INIT;
    weft_shape_t back;
    weft_shape_to_proto(&shapes[i], &b);
    CU_ASSERT_EQUAL(b.length, weft_shape_proto_size(&shapes[i]));
    CU_ASSERT_PTR_NULL(weft_shape_from_proto(view(&b), &back));
    CU_ASSERT(weft_shape_eq(&back, &shapes[i]));
    weft_strbuf_deinit(&b);
  }
}

/* ---- out of memory ---- */

static weft_status_t *recode_all(weft_str_t file) {
  weft_wire_reader_t r = weft_wire_reader(file);
  weft_wire_field_t f;
  weft_status_t *s = NULL;
  while (s == NULL && weft_wire_next(&r, &f)) {
    weft_tensor_t *t = NULL;
    weft_strbuf_t out = WEFT_STRBUF_INIT;
    s = weft_tensor_from_proto(f.bytes, &t);
    if (s == NULL) s = weft_tensor_to_proto(t, &out);
    weft_tensor_release(t);
    weft_strbuf_deinit(&out);
  }
  return s;
}

static void failed_allocations_are_reported_and_leak_nothing(void) {
  weft_strbuf_t file = read_pairs();
  long n;
  WEFT_FAIL_EACH_ALLOCATION(n, s, recode_all(view(&file)));
  CU_ASSERT(n > 500);
  weft_strbuf_deinit(&file);
}

static const CU_TestInfo tests[] = {
    {"typed fields and content mean the same for every dtype",
     typed_fields_and_content_mean_the_same_for_every_dtype},
    {"wrong sizes are refused", wrong_sizes_are_refused},
    {"hostile shapes cost nothing", hostile_shapes_cost_nothing},
    {"types that are no values are refused", types_that_are_no_values_are_refused},
    {"malformed messages are refused", malformed_messages_are_refused},
    {"unpacked, split and unknown fields are fine", unpacked_split_and_unknown_fields_are_fine},
    {"an empty message field is a scalar zero", an_empty_message_field_is_a_scalar_zero},
    {"handles travel by name", handles_travel_by_name},
    {"full variants do not travel", full_variants_do_not_travel},
    {"large aligned content is not copied", large_aligned_content_is_not_copied},
    {"small content is copied", small_content_is_copied},
    {"the front of a message tells where the payload goes",
     the_front_of_a_message_tells_where_the_payload_goes},
    {"shapes of attributes may be unknown", shapes_of_attributes_may_be_unknown},
    {"shapes come back", shapes_come_back},
    {"failed allocations are reported and leak nothing", failed_allocations_are_reported_and_leak_nothing},
    CU_TEST_INFO_NULL,
};

int main(void) { return weft_run_tests("tensor_proto", tests); }
