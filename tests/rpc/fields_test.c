/* Messages by table, whole and cut into pieces; the reader under both. */
#include "rpc/fields.h"

#include <stdio.h>

#include "base/alloc.h"
#include "rpc/message_reader.h"
#include "rpc/tensor_message.h"
#include "tests/runner.h"

typedef struct sample {
  weft_str_t text, bytes;
  int64_t number;
  uint64_t fixed;
  bool flag;
  weft_texts_t texts, messages;
  weft_tensor_t *tensor;
  weft_tensors_t tensors, named;
} sample_t;

static const weft_field_t fields[] = {
    {1, WEFT_FIELD_TEXT, "text", offsetof(sample_t, text)},
    {2, WEFT_FIELD_BYTES, "bytes", offsetof(sample_t, bytes)},
    {3, WEFT_FIELD_I64, "number", offsetof(sample_t, number)},
    {4, WEFT_FIELD_FIXED64, "fixed", offsetof(sample_t, fixed)},
    {5, WEFT_FIELD_BOOL, "flag", offsetof(sample_t, flag)},
    {6, WEFT_FIELD_TEXTS, "texts", offsetof(sample_t, texts)},
    {7, WEFT_FIELD_MESSAGES, "messages", offsetof(sample_t, messages)},
    {8, WEFT_FIELD_TENSOR, "tensor", offsetof(sample_t, tensor)},
    {9, WEFT_FIELD_TENSORS, "tensors", offsetof(sample_t, tensors)},
    {1000, WEFT_FIELD_NAMED_TENSORS, "named", offsetof(sample_t, named)},
};
static const weft_message_type_t type = WEFT_MESSAGE_TYPE("Sample", fields);

static weft_tensor_t *counting(int64_t n) {
  weft_tensor_t *t = NULL;
  weft_shape_t shape = weft_shape_vector(n);
  CU_ASSERT_PTR_NULL_FATAL(weft_tensor_new(WEFT_I32, &shape, NULL, &t));
  for (int64_t i = 0; i < n; i++) ((int32_t *)t->data)[i] = (int32_t)(i * 7);
  return t;
}
static bool is_counting(const weft_tensor_t *t, int64_t n) {
  if (t == NULL || t->dtype != WEFT_I32 || t->count != n) return false;
  for (int64_t i = 0; i < n; i++) {
    if (((const int32_t *)t->data)[i] != (int32_t)(i * 7)) return false;
  }
  return true;
}

/* Cuts `bytes` into pieces at `cut` and, from there on, every `step` bytes (0: only there). */
static weft_message_t *cut_message(weft_str_t bytes, size_t cut, size_t step) {
  weft_message_t *m = NULL;
  weft_status_t *s = weft_message_create(&m);
  size_t at = 0;
  while (at < bytes.length && s == NULL) {
    size_t n = at < cut ? cut - at : step == 0 ? bytes.length - at : step;
    if (n > bytes.length - at) n = bytes.length - at;
    s = weft_message_append(m, weft_str_of(bytes.data + at, n));
    at += n;
  }
  CU_ASSERT_PTR_NULL_FATAL(s);
  return m;
}

static weft_str_t flat(weft_message_t *m) {
  weft_str_t bytes;
  CU_ASSERT_PTR_NULL_FATAL(weft_message_flatten(m, &bytes));
  return bytes;
}

static weft_message_t *encode_sample(int64_t large) {
  weft_str_t texts[] = {WEFT_STR("one"), WEFT_STR(""), WEFT_STR("three")};
  weft_str_t messages[] = {WEFT_STR("\xff\xfe"), WEFT_STR("m")};
  weft_str_t names[] = {WEFT_STR("x:0"), WEFT_STR("big:1")};
  weft_tensor_t *small = counting(3), *big = counting(large);
  weft_tensor_t *tensors[] = {big, small}, *named[] = {small, big};
  sample_t in = {.text = WEFT_STR("h\xc3\xa9llo"),
                 .bytes = WEFT_STR("\x00\xff\x01"),
                 .number = -17,
                 .fixed = 0xfedcba9876543210u,
                 .flag = true,
                 .texts = {texts, 3, 3},
                 .messages = {messages, 2, 2},
                 .tensor = small,
                 .tensors = {NULL, tensors, 2, 2},
                 .named = {names, named, 2, 2}};
  weft_message_t *m = NULL;
  CU_ASSERT_PTR_NULL_FATAL(weft_fields_encode(&type, &in, &m));
  weft_tensor_release(small);
  weft_tensor_release(big); /* the message keeps what it needs */
  return m;
}

static bool is_sample(const sample_t *s, int64_t large) {
  return weft_str_is(s->text, "h\xc3\xa9llo") && weft_str_eq(s->bytes, WEFT_STR("\x00\xff\x01")) &&
         s->number == -17 && s->fixed == 0xfedcba9876543210u && s->flag && s->texts.n == 3 &&
         weft_str_is(s->texts.items[0], "one") && s->texts.items[1].length == 0 &&
         weft_str_is(s->texts.items[2], "three") && s->messages.n == 2 &&
         weft_str_is(s->messages.items[0], "\xff\xfe") && is_counting(s->tensor, 3) && s->tensors.n == 2 &&
         is_counting(s->tensors.items[0], large) && is_counting(s->tensors.items[1], 3) && s->named.n == 2 &&
         weft_str_is(s->named.names[0], "x:0") && is_counting(s->named.items[0], 3) &&
         weft_str_is(s->named.names[1], "big:1") && is_counting(s->named.items[1], large);
}

static bool decodes_to_sample(const weft_message_t *m, int64_t large) {
  weft_arena_t arena = WEFT_ARENA_INIT;
  sample_t out;
  memset(&out, 0, sizeof out);
  weft_status_t *s = weft_fields_decode(&type, m, &arena, &out);
  bool ok = s == NULL && is_sample(&out, large);
  weft_status_free(s);
  weft_fields_release(&type, &out);
  weft_arena_deinit(&arena);
  return ok;
}

static void what_is_encoded_comes_back_wherever_it_is_cut(void) {
  weft_message_t *m = encode_sample(300);
  weft_str_t bytes = flat(m);
  size_t bad = 0;
  for (size_t cut = 0; cut <= bytes.length; cut++) {
    weft_message_t *two = cut_message(bytes, cut, 0);
    bad += !decodes_to_sample(two, 300);
    weft_message_destroy(two);
  }
  CU_ASSERT_EQUAL(bad, 0);
  for (size_t step = 1; step < 9; step++) {
    weft_message_t *many = cut_message(bytes, step, step);
    CU_ASSERT_TRUE(decodes_to_sample(many, 300));
    weft_message_destroy(many);
  }
  weft_message_destroy(m);
}

static void large_tensors_are_sent_from_where_they_lie(void) {
  weft_tensor_t *t = counting(100000);
  sample_t in = {.tensor = t, .flag = true};
  weft_message_t *m = NULL;
  CU_ASSERT_PTR_NULL_FATAL(weft_fields_encode(&type, &in, &m));
  bool found = false;
  for (int i = 0; i < weft_message_num_pieces(m); i++)
    found = found || weft_message_piece(m, i).data == t->data;
  CU_ASSERT_TRUE(found);
  CU_ASSERT_FALSE(weft_tensor_is_exclusive(t)); /* the message holds a reference */
  weft_message_destroy(m);
  CU_ASSERT_TRUE(weft_tensor_is_exclusive(t));
  weft_tensor_release(t);
  m = encode_sample(100000);
  CU_ASSERT_TRUE(decodes_to_sample(m, 100000));
  weft_message_destroy(m);
}

static void check_refused(weft_str_t bytes, const char *culprit) {
  weft_message_t *m = cut_message(bytes, bytes.length / 2, 0);
  weft_arena_t arena = WEFT_ARENA_INIT;
  sample_t out;
  memset(&out, 0, sizeof out);
  weft_status_t *s = weft_fields_decode(&type, m, &arena, &out);
  CU_ASSERT_EQUAL(weft_status_code(s), WEFT_INVALID_ARGUMENT);
  CU_ASSERT_PTR_NOT_NULL(strstr(weft_status_message(s), culprit));
  if (strstr(weft_status_message(s), culprit) == NULL) fprintf(stderr, "got: %s\n", weft_status_message(s));
  weft_status_free(s);
  weft_fields_release(&type, &out);
  weft_arena_deinit(&arena);
  weft_message_destroy(m);
}

static void bad_bytes_are_refused_with_the_culprit(void) {
  check_refused(WEFT_STR("\xff\xff\xff"), "not a Sample");
  check_refused(WEFT_STR("\x0a\x05xy"), "not a Sample"); /* length beyond the end */
  check_refused(WEFT_STR("\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"), "not a Sample");
  check_refused(WEFT_STR("\x02\x00"), "not a Sample");        /* field 0 */
  check_refused(WEFT_STR("\x0e\x00"), "not a Sample");        /* wire type 6 */
  check_refused(WEFT_STR("\x0c"), "not a Sample");            /* the end of no group */
  check_refused(WEFT_STR("\x7b\x08\x01"), "not a Sample");    /* a group without end */
  check_refused(WEFT_STR("\x0a\x02\xff\xfe"), "Sample.text"); /* no UTF-8 */
  check_refused(WEFT_STR("\x32\x01\x80"), "Sample.texts");
  check_refused(WEFT_STR("\xc2\x3e\x03\x0a\x05x"), "Sample.named[0]");
  check_refused(WEFT_STR("\x4a\x02\x08\x63"), "tensors value 0"); /* dtype 99 */
  check_refused(WEFT_STR("\xc2\x3e\x05\x0a\x03"
                         "abc"),
                "'abc'"); /* a name without tensor */
}

static void unknown_fields_are_skipped(void) {
  /* a group with a group and a string in it, a fixed32, a text under a number that we do not know */
  weft_str_t bytes =
      WEFT_STR("\x7b\x83\x01\x0a\x01x\x84\x01\x7c\x9d\x01\x01\x02\x03\x04\x82\x7d\x02zz\x18\x05\x1a\x01w");
  weft_message_t *m = cut_message(bytes, 3, 1);
  weft_arena_t arena = WEFT_ARENA_INIT;
  sample_t out;
  memset(&out, 0, sizeof out);
  CU_ASSERT_PTR_NULL(weft_fields_decode(&type, m, &arena, &out));
  CU_ASSERT_EQUAL(out.number, 5); /* and field 3 as a text is an unknown field */
  weft_arena_deinit(&arena);
  weft_message_destroy(m);
}

static void a_small_message_cannot_ask_for_much_memory(void) {
  weft_strbuf_t b = WEFT_STRBUF_INIT;
  /* int8[64], and int8[1 << 30], all zero: each within the limit of one tensor, and together beyond it. */
  weft_strbuf_append(&b, WEFT_STR("\x4a\x08\x08\x06\x12\x04\x12\x02\x08\x40"));
  weft_strbuf_append(&b, WEFT_STR("\x4a\x0c\x08\x06\x12\x08\x12\x06\x08\x80\x80\x80\x80\x04"));
  check_refused(weft_str_of(b.data, b.length), "the tensors together take");
  weft_strbuf_deinit(&b);
}

static weft_status_t *there_and_back(weft_str_t bytes) {
  weft_arena_t arena = WEFT_ARENA_INIT;
  weft_message_t *m = NULL, *again = NULL;
  sample_t out;
  memset(&out, 0, sizeof out);
  weft_status_t *s = weft_message_create(&m);
  for (size_t i = 0; i < bytes.length && s == NULL; i += 100)
    s = weft_message_append(m, weft_str_of(bytes.data + i, bytes.length - i < 100 ? bytes.length - i : 100));
  if (s == NULL) s = weft_fields_decode(&type, m, &arena, &out);
  if (s == NULL) s = weft_fields_encode(&type, &out, &again);
  weft_message_destroy(again);
  weft_message_destroy(m);
  weft_fields_release(&type, &out);
  weft_arena_deinit(&arena);
  return s;
}

static void every_failed_allocation_is_survived(void) {
  weft_message_t *m = encode_sample(5000);
  weft_str_t bytes = flat(m);
  int n;
  WEFT_FAIL_EACH_ALLOCATION(n, s, there_and_back(bytes));
  CU_ASSERT_TRUE(n > 8);
  weft_message_destroy(m);
}

static const CU_TestInfo tests[] = {
    {"what is encoded comes back wherever it is cut", what_is_encoded_comes_back_wherever_it_is_cut},
    {"large tensors are sent from where they lie", large_tensors_are_sent_from_where_they_lie},
    {"bad bytes are refused with the culprit", bad_bytes_are_refused_with_the_culprit},
    {"unknown fields are skipped", unknown_fields_are_skipped},
    {"a small message cannot ask for much memory", a_small_message_cannot_ask_for_much_memory},
    {"every failed allocation is survived", every_failed_allocation_is_survived},
    CU_TEST_INFO_NULL,
};

int main(void) { return weft_run_tests("fields", tests); }
