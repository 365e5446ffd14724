#include "protos/wire.h"

#include "tests/runner.h"

static weft_str_t bytes(const char *data, size_t n) { return weft_str_of(data, n); }
#define B(literal) bytes("" literal, sizeof(literal) - 1)

/* How many fields a message has, or -1 if it is malformed. */
static int count_fields(weft_str_t message) {
  weft_wire_reader_t r = weft_wire_reader(message);
  weft_wire_field_t f;
  int n = 0;
  while (weft_wire_next(&r, &f)) n++;
  return r.failed ? -1 : n;
}

static void every_kind_of_field_is_read(void) {
  weft_wire_reader_t r =
      weft_wire_reader(B("\x08\x96\x01" /* 1: 150 */
                         "\x12\x03"
                         "abc"                                  /* 2: "abc" */
                         "\x1d\x00\x00\x80\x3f"                 /* 3: 1.0f */
                         "\x21\x00\x00\x00\x00\x00\x00\xf0\x3f" /* 4: 1.0 */
                         "\x2b\x08\x01\x2c"                     /* 5: group { 1: 1 } */
                         "\x80\x01\x07"));                      /* 16: 7 */
  weft_wire_field_t f;
  CU_ASSERT_FATAL(weft_wire_next(&r, &f));
  CU_ASSERT_EQUAL(f.tag, WEFT_WIRE_TAG(1, WEFT_WIRE_VARINT));
  CU_ASSERT_EQUAL(f.value, 150);
  CU_ASSERT_FATAL(weft_wire_next(&r, &f));
  CU_ASSERT_EQUAL(f.tag, WEFT_WIRE_TAG(2, WEFT_WIRE_BYTES));
  CU_ASSERT(weft_str_is(f.bytes, "abc"));
  CU_ASSERT_FATAL(weft_wire_next(&r, &f));
  CU_ASSERT_EQUAL(weft_wire_float(f.value), 1.0f);
  CU_ASSERT_FATAL(weft_wire_next(&r, &f));
  CU_ASSERT_EQUAL(weft_wire_double(f.value), 1.0);
  CU_ASSERT_FATAL(weft_wire_next(&r, &f));
  CU_ASSERT_EQUAL(f.tag, WEFT_WIRE_TAG(5, WEFT_WIRE_GROUP));
  CU_ASSERT_EQUAL(f.bytes.length, 2);
  CU_ASSERT_FATAL(weft_wire_next(&r, &f));
  CU_ASSERT_EQUAL(weft_wire_number(&f), 16);
  CU_ASSERT_FALSE(weft_wire_next(&r, &f));
  CU_ASSERT_FALSE(r.failed);
}

static void malformed_bytes_are_refused(void) {
  CU_ASSERT_EQUAL(count_fields(B("")), 0);
  CU_ASSERT_EQUAL(count_fields(B("\x08")), -1);     /* no value */
  CU_ASSERT_EQUAL(count_fields(B("\x08\x80")), -1); /* varint cut off */
  CU_ASSERT_EQUAL(count_fields(B("\x88")), -1);     /* tag cut off */
  CU_ASSERT_EQUAL(count_fields(B("\x12\x04"
                                 "abc")),
                  -1); /* length past the end */
  CU_ASSERT_EQUAL(count_fields(B("\x12\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01")), -1);
  CU_ASSERT_EQUAL(count_fields(B("\x0d\x01\x02\x03")), -1);                 /* fixed32 cut off */
  CU_ASSERT_EQUAL(count_fields(B("\x09\x01\x02\x03\x04\x05\x06\x07")), -1); /* fixed64 cut off */
  CU_ASSERT_EQUAL(count_fields(B("\x00\x01")), -1);                         /* field 0 */
  CU_ASSERT_EQUAL(count_fields(B("\x02\x00")), -1);                         /* field 0, bytes */
  CU_ASSERT_EQUAL(count_fields(B("\x0e\x01")), -1);                         /* wire type 6 */
  CU_ASSERT_EQUAL(count_fields(B("\x0f\x01")), -1);                         /* wire type 7 */
  CU_ASSERT_EQUAL(count_fields(B("\x0c")), -1);                             /* group end alone */
  CU_ASSERT_EQUAL(count_fields(B("\x0b\x14")), -1);                         /* other group's end */
  CU_ASSERT_EQUAL(count_fields(B("\x0b\x08\x01")), -1);                     /* group never ends */
  CU_ASSERT_EQUAL(count_fields(B("\x88\x80\x80\x80\x80\x00\x01")), -1);     /* tag of six bytes */
  CU_ASSERT_EQUAL(count_fields(B("\x88\x80\x80\x80\x10\x01")), -1);         /* tag above 32 bits */
}

static void varints_of_ten_bytes_pass_and_of_eleven_do_not(void) {
  CU_ASSERT_EQUAL(count_fields(B("\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01")), 1);
  CU_ASSERT_EQUAL(count_fields(B("\x08\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01")), -1);
  CU_ASSERT_EQUAL(count_fields(B("\x08\x81\x80\x80\x00")), 1); /* longer than needed is fine */
}

static void groups_nest_to_a_limit(void) {
  char deep[2 * WEFT_WIRE_MAX_GROUP_DEPTH + 4];
  for (int levels = WEFT_WIRE_MAX_GROUP_DEPTH; levels <= WEFT_WIRE_MAX_GROUP_DEPTH + 1; levels++) {
    memset(deep, 0x0b, (size_t)levels);
    memset(deep + levels, 0x0c, (size_t)levels);
    CU_ASSERT_EQUAL(count_fields(bytes(deep, 2 * (size_t)levels)),
                    levels <= WEFT_WIRE_MAX_GROUP_DEPTH ? 1 : -1);
  }
}

static void every_cut_of_a_message_is_seen(void) {
  weft_strbuf_t b = WEFT_STRBUF_INIT;
  size_t ends[5] = {0}, n = 0;
  weft_wire_add_varint(&b, 1, UINT64_MAX);
  ends[n++] = b.length;
  weft_wire_add_bytes(&b, 200, WEFT_STR("hello"));
  ends[n++] = b.length;
  weft_wire_add_fixed32(&b, 3, 7);
  ends[n++] = b.length;
  weft_wire_add_fixed64(&b, 536870911, 7);
  ends[n++] = b.length;
  for (size_t cut = 1; cut <= b.length; cut++) {
    int whole = 0;
    bool at_end = false;
    for (size_t i = 0; i < n; i++) {
      whole += ends[i] <= cut;
      at_end = at_end || ends[i] == cut;
    }
    CU_ASSERT_EQUAL(count_fields(bytes(b.data, cut)), at_end ? whole : -1);
  }
  weft_strbuf_deinit(&b);
}

static void repeated_scalars_come_packed_and_single(void) {
  weft_wire_reader_t r = weft_wire_reader(B("\x0a\x04\x01\xac\x02\x03\x08\x04\x0d\x00\x00\x00\x00"));
  weft_wire_field_t f;
  uint64_t value, sum = 0;
  size_t n = 0, counted = 0;
  while (weft_wire_next(&r, &f)) {
    weft_wire_values_t v = weft_wire_values(&f, WEFT_WIRE_VARINT);
    counted += weft_wire_count_values(&v);
    for (; weft_wire_next_value(&v, &value); n++) sum += value;
    CU_ASSERT_FALSE(v.failed);
  }
  CU_ASSERT_FALSE(r.failed);
  CU_ASSERT_EQUAL(n, 4); /* the fixed32 of the same number is another field */
  CU_ASSERT_EQUAL(counted, 4);
  CU_ASSERT_EQUAL(sum, 1 + 300 + 3 + 4);
}

static void packed_values_that_are_cut_off_are_refused(void) {
  weft_wire_field_t f = {.tag = WEFT_WIRE_TAG(1, WEFT_WIRE_BYTES), .bytes = B("\x01\x80")};
  uint64_t value;
  weft_wire_values_t v = weft_wire_values(&f, WEFT_WIRE_VARINT);
  CU_ASSERT(weft_wire_next_value(&v, &value));
  CU_ASSERT_FALSE(weft_wire_next_value(&v, &value));
  CU_ASSERT(v.failed);
  f.bytes = B("\x01\x02\x03\x04\x05");
  v = weft_wire_values(&f, WEFT_WIRE_FIXED32);
  CU_ASSERT(weft_wire_next_value(&v, &value));
  CU_ASSERT_FALSE(weft_wire_next_value(&v, &value));
  CU_ASSERT(v.failed);
}

static void sizes_are_those_written(void) {
  for (int bit = 0; bit < 64; bit++) {
    for (int less = 0; less < 2; less++) {
      uint64_t value = ((uint64_t)1 << bit) - (uint64_t)less;
      uint8_t at[WEFT_WIRE_MAX_VARINT];
      CU_ASSERT_EQUAL((size_t)(weft_wire_store_varint(at, value) - at), weft_wire_varint_size(value));
      uint64_t back = ~value;
      CU_ASSERT_PTR_EQUAL(weft_wire_get_varint(at, at + sizeof at, &back), at + weft_wire_varint_size(value));
      CU_ASSERT_EQUAL(back, value);
    }
  }
  weft_strbuf_t b = WEFT_STRBUF_INIT;
  weft_wire_add_varint(&b, 16, 300);
  CU_ASSERT_EQUAL(b.length, weft_wire_size_varint(16, 300));
  weft_wire_add_bytes(&b, 5, WEFT_STR("xyz"));
  CU_ASSERT_EQUAL(b.length, weft_wire_size_varint(16, 300) + weft_wire_size_bytes(5, 3));
  weft_strbuf_deinit(&b);
}

static void zeros_are_put_nowhere_but_added_always(void) {
  weft_strbuf_t b = WEFT_STRBUF_INIT;
  weft_wire_put_i64(&b, 1, 0);
  weft_wire_put_bool(&b, 2, false);
  weft_wire_put_float(&b, 3, 0.0f);
  weft_wire_put_double(&b, 4, 0.0);
  weft_wire_put_text(&b, 5, "");
  weft_wire_put_text(&b, 6, NULL);
  CU_ASSERT_EQUAL(b.length, 0);
  weft_wire_put_float(&b, 3, -0.0f); /* is not the default */
  CU_ASSERT_EQUAL(b.length, 5);
  weft_wire_add_varint(&b, 1, 0);
  CU_ASSERT_EQUAL(b.length, 7);
  weft_wire_put_i64(&b, 1, -1);
  CU_ASSERT_EQUAL(b.length, 18); /* sign-extended to ten bytes */
  weft_strbuf_deinit(&b);
}

static void nested_messages_get_their_length_whatever_it_is(void) {
  static const size_t lengths[] = {0, 1, 127, 128, 16383, 16384, 2097152};
  for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
    weft_strbuf_t b = WEFT_STRBUF_INIT;
    size_t outer = weft_wire_begin(&b, 1), inner = weft_wire_begin(&b, 2);
    for (size_t k = 0; k < lengths[i]; k++) weft_strbuf_putc(&b, (char)k);
    weft_wire_end(&b, inner);
    weft_wire_add_varint(&b, 3, 5);
    weft_wire_end(&b, outer);
    weft_wire_reader_t r = weft_wire_reader(bytes(b.data, b.length));
    weft_wire_field_t f;
    CU_ASSERT_FATAL(weft_wire_next(&r, &f));
    CU_ASSERT_PTR_EQUAL(r.p, r.end);
    r = weft_wire_reader(f.bytes);
    CU_ASSERT_FATAL(weft_wire_next(&r, &f));
    CU_ASSERT_EQUAL(f.bytes.length, lengths[i]);
    bool same = true;
    for (size_t k = 0; k < f.bytes.length; k++) same = same && f.bytes.data[k] == (char)k;
    CU_ASSERT(same);
    CU_ASSERT_FATAL(weft_wire_next(&r, &f));
    CU_ASSERT_EQUAL(f.value, 5);
    weft_strbuf_deinit(&b);
  }
}

static void utf8_is_told_from_other_bytes(void) {
  CU_ASSERT(weft_wire_is_utf8(B("")));
  CU_ASSERT(weft_wire_is_utf8(B("a\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80")));
  CU_ASSERT(weft_wire_is_utf8(B("\xf4\x8f\xbf\xbf"))); /* U+10FFFF */
  CU_ASSERT(weft_wire_is_utf8(B("sixteen of ASCII, then more")));
  CU_ASSERT(weft_wire_is_utf8(B("01234567\xc3\xa9")));
  CU_ASSERT(weft_wire_is_utf8(B("0123456\xc3\xa9 and eight")));
  CU_ASSERT_FALSE(weft_wire_is_utf8(B("01234567\x80")));
  CU_ASSERT_FALSE(weft_wire_is_utf8(B("0123456789abcde\xc3")));
  CU_ASSERT_FALSE(weft_wire_is_utf8(B("\x80 01234567")));
  CU_ASSERT_FALSE(weft_wire_is_utf8(B("\x80")));
  CU_ASSERT_FALSE(weft_wire_is_utf8(B("\xc3")));
  CU_ASSERT_FALSE(weft_wire_is_utf8(B("\xc0\x80")));         /* overlong */
  CU_ASSERT_FALSE(weft_wire_is_utf8(B("\xe0\x80\x80")));     /* overlong */
  CU_ASSERT_FALSE(weft_wire_is_utf8(B("\xf0\x80\x80\x80"))); /* overlong */
  CU_ASSERT_FALSE(weft_wire_is_utf8(B("\xed\xa0\x80")));     /* surrogate */
  CU_ASSERT_FALSE(weft_wire_is_utf8(B("\xf4\x90\x80\x80"))); /* above U+10FFFF */
  CU_ASSERT_FALSE(weft_wire_is_utf8(B("\xe2\x82")));         /* cut off */
}

static weft_status_t *write_much(void) {
  weft_strbuf_t b = WEFT_STRBUF_INIT;
  size_t mark = weft_wire_begin(&b, 1);
  for (uint32_t i = 1; i < 400; i++) weft_wire_add_varint(&b, i, i);
  weft_wire_end(&b, mark);
  char *data = NULL;
  weft_status_t *s = weft_strbuf_finish(&b, &data, NULL);
  weft_free(data);
  return s;
}

static void a_failed_allocation_is_remembered(void) {
  long n;
  WEFT_FAIL_EACH_ALLOCATION(n, s, write_much());
  CU_ASSERT(n > 1);
}

static const CU_TestInfo tests[] = {
    {"every kind of field is read", every_kind_of_field_is_read},
    {"malformed bytes are refused", malformed_bytes_are_refused},
    {"varints of ten bytes pass and of eleven do not", varints_of_ten_bytes_pass_and_of_eleven_do_not},
    {"groups nest to a limit", groups_nest_to_a_limit},
    {"every cut of a message is seen", every_cut_of_a_message_is_seen},
    {"repeated scalars come packed and single", repeated_scalars_come_packed_and_single},
    {"packed values that are cut off are refused", packed_values_that_are_cut_off_are_refused},
    {"sizes are those written", sizes_are_those_written},
    {"zeros are put nowhere but added always", zeros_are_put_nowhere_but_added_always},
    {"nested messages get their length whatever it is", nested_messages_get_their_length_whatever_it_is},
    {"UTF-8 is told from other bytes", utf8_is_told_from_other_bytes},
    {"a failed allocation is remembered", a_failed_allocation_is_remembered},
    CU_TEST_INFO_NULL,
};

int main(void) { return weft_run_tests("wire", tests); }
