/* tests/fuzz/descriptor_fuzz.c - descriptors of messages from outside, and messages by them. The input is a
 * FileDescriptorSet; it is read as a message, too, in either format. */
#include "base/alloc.h"
#include "kernels/cpu/parsing/descriptor.h"
#include "kernels/cpu/parsing/proto_message.h"
#include "kernels/cpu/parsing/text_descriptor.h"
#include "protos/text_format.h"
#include "protos/wire.h"
#include "tests/fuzz/fuzz.h"

/* package p; message M { int32 a; repeated M m; string s; E e; repeated double d; oneof o { ... } message N
 * {} } enum E */
#define SEED                                  \
  "\x0a\x78\x0a\x01"                          \
  "f\x12\x01"                                 \
  "p\x22\x60\x0a\x01"                         \
  "M"                                         \
  "\x12\x09\x0a\x01"                          \
  "a\x18\x01\x20\x01\x28\x05"                 \
  "\x12\x0f\x0a\x01"                          \
  "m\x18\x02\x20\x03\x28\x0b\x32\x04.p.M"     \
  "\x12\x0c\x0a\x01"                          \
  "s\x18\x03\x20\x01\x28\x09\x3a\x01z"        \
  "\x12\x0f\x0a\x01"                          \
  "e\x18\x04\x20\x01\x28\x0e\x32\x04.p.E"     \
  "\x12\x0d\x0a\x01"                          \
  "d\x18\x05\x20\x03\x28\x01\x42\x02\x10\x01" \
  "\x12\x0b\x0a\x01"                          \
  "o\x18\x06\x20\x01\x28\x09\x48\x00"         \
  "\x2a\x0d\x0a\x01"                          \
  "E\x12\x08\x0a\x02"                         \
  "E1\x10\x07"                                \
  "\x62\x06proto3"

const weft_fuzz_seed_t weft_fuzz_seeds[] = {
    WEFT_FUZZ_BYTES(SEED),
    WEFT_FUZZ_BYTES(
        "\x08\x01\x12\x02\x08\x02\x1a\x01x\x20\x03\x2a\x08\x00\x00\x00\x00\x00\x00\xf0\x3f\x32\x01y"),
    WEFT_FUZZ_BYTES("a: -5 m { s: 'x' \"\\101\" e: E1 d: [1, inf] } m < m {} > o: \"\" e: 7 # end"),
    WEFT_FUZZ_END,
};

/* A text of the message. */
static void read_text(const weft_descriptor_t *m, weft_str_t text) {
  weft_arena_t arena = {0};
  const ProtobufCMessageDescriptor *d = NULL;
  weft_strbuf_t out = WEFT_STRBUF_INIT;
  weft_status_t *s = weft_text_descriptor_make(m, &arena, &d);
  if (s == NULL) s = weft_text_to_binary(d, text, NULL, &out);
  if (s == NULL) weft_fuzz_check(weft_wire_is_message(weft_str_of(out.data, out.length)), "not a message");
  weft_status_free(s);
  weft_strbuf_deinit(&out);
  weft_arena_deinit(&arena);
}

static void look_up(weft_str_t set, const char *name, weft_str_t message) {
  weft_descriptor_t m;
  weft_descriptor_field_t field, *fields = NULL;
  weft_strbuf_t out = WEFT_STRBUF_INIT;
  int n = 0;
  if (!weft_descriptor_find(set, weft_str(name), &m)) return;
  read_text(&m, message);
  (void)weft_descriptor_find_field(&m, WEFT_STR("a"), &field);
  (void)weft_descriptor_find_extension(&m, WEFT_STR("p.M.x"), &field);
  weft_status_t *s = weft_descriptor_fields(&m, &fields, &n);
  for (int i = 0; s == NULL && i < n; i++)
    (void)weft_descriptor_enum(set, fields[i].type_name, i % 2 == 0 ? WEFT_STR("") : fields[i].default_text);
  weft_free(fields);
  if (s == NULL) s = weft_proto_normalize(&m, message, &out);
  if (s == NULL) { /* what has been put into order stays as it is */
    weft_strbuf_t again = WEFT_STRBUF_INIT;
    s = weft_proto_normalize(&m, weft_str_of(out.data, out.length), &again);
    weft_strbuf_deinit(&again);
  }
  weft_status_free(s);
  weft_strbuf_deinit(&out);
}

void weft_fuzz_one(const uint8_t *data, size_t size) {
  weft_str_t bytes = weft_str_of((const char *)data, size), seed = weft_str_of(SEED, sizeof SEED - 1);
  weft_status_free(weft_descriptors_check(bytes));
  look_up(bytes, "p.M", bytes);
  look_up(bytes, ".p.M.N", seed);
  look_up(seed, "p.M", bytes);
}
