/* tests/fuzz/tensor_proto_fuzz.c - tensors off the wire: TensorProto as in feeds, constants and RecvTensor.
 */
#include "tensor/tensor_proto.h"

#include "base/alloc.h"
#include "protos/wire.h"
#include "tests/fuzz/fuzz.h"

const weft_fuzz_seed_t weft_fuzz_seeds[] = {
    WEFT_FUZZ_BYTES(
        "\x08\x01\x12\x08\x12\x02\x08\x02\x12\x02\x08\x03\x2a\x08\x00\x00\x80\x3f\x00\x00\x00\x40"),
    WEFT_FUZZ_BYTES("\x08\x03\x12\x04\x12\x02\x08\x02\x22\x08\x01\x00\x00\x00\x02\x00\x00\x00"),
    WEFT_FUZZ_BYTES("\x08\x07\x12\x04\x12\x02\x08\x03\x42\x01"
                    "a"
                    "\x42\x00\x42\x03xyz"),
    WEFT_FUZZ_BYTES("\x08\x07\x12\x04\x12\x02\x08\x02\x22\x05\x01\x02"
                    "abc"),
    WEFT_FUZZ_BYTES("\x08\x08\x12\x00\x4a\x08\x00\x00\x80\x3f\x00\x00\x00\x40"),
    WEFT_FUZZ_BYTES("\x08\x0b\x12\x04\x12\x02\x08\x04\x5a\x02\x01\x00"),
    WEFT_FUZZ_BYTES("\x08\x13\x12\x04\x12\x02\x08\x05\x6a\x03\x80\x78\x01"),
    WEFT_FUZZ_BYTES("\x08\x14\x12\x04\x12\x02\x08\x02\x72\x16\x0a\x03"
                    "cpu"
                    "\x1a\x01v\x20\x07\x32\x0a\x08\x01\x12\x06\x12"
                    "\x02\x08\x03\x18\x00"),
    WEFT_FUZZ_BYTES("\x08\x15\x12\x00\x7a\x02\x0a\x00"),
    WEFT_FUZZ_FILE("tests/tensor/testdata/tensors.pb"),
    WEFT_FUZZ_END,
};

static void keep(void *data, size_t bytes, void *arg) {
  (void)data, (void)bytes;
  ++*(int *)arg;
}

/* What was read can be written, and reads back to the same bytes. */
static void check_there_and_back(const weft_tensor_t *t) {
  weft_strbuf_t first = WEFT_STRBUF_INIT, second = WEFT_STRBUF_INIT;
  weft_tensor_t *again = NULL;
  weft_status_t *s = weft_tensor_to_proto(t, &first);
  weft_fuzz_check(s == NULL && first.length == weft_tensor_proto_size(t),
                  "a tensor that was read cannot be written");
  s = weft_tensor_from_proto(weft_str_of(first.data, first.length), &again);
  weft_fuzz_check(s == NULL, "a tensor that was written cannot be read");
  s = weft_tensor_to_proto(again, &second);
  weft_fuzz_check(
      s == NULL && first.length == second.length && memcmp(first.data, second.data, first.length) == 0,
      "a tensor changes when it is read and written");
  weft_tensor_release(again);
  weft_strbuf_deinit(&first);
  weft_strbuf_deinit(&second);
}

static void one_message(weft_str_t bytes) {
  weft_tensor_t *t = NULL;
  weft_tensor_head_t head;
  weft_handle_t *h = NULL;
  weft_shape_t shape;
  bool shared = false;
  size_t at = 0;
  int given_back = 0;
  weft_status_t *s = weft_tensor_from_proto_shared(bytes, keep, &given_back, &shared, &t);
  if (s == NULL) {
    if (t->bytes < (size_t)1 << 20 && t->count < 1 << 16) check_there_and_back(t);
    weft_tensor_release(t);
    weft_fuzz_check(given_back == (shared ? 1 : 0), "shared bytes are not given back once");
  }
  weft_status_free(s);
  for (size_t cut = 0; cut < bytes.length && cut < 64; cut += 7) {
    if (weft_tensor_proto_peek(weft_str_of(bytes.data, cut), bytes.length, &head, &at)) {
      weft_fuzz_check(at <= cut, "the payload begins before its header ends");
    }
  }
  s = weft_handle_from_proto(bytes, &h);
  weft_handle_release(h);
  weft_status_free(s);
  weft_status_free(weft_shape_from_proto(bytes, &shape));
}

void weft_fuzz_one(const uint8_t *data, size_t size) {
  weft_str_t all = weft_str_of((const char *)data, size);
  weft_wire_reader_t r = weft_wire_reader(all);
  weft_wire_field_t f;
  one_message(all);
  while (weft_wire_next(&r, &f)) { /* the file of seeds holds messages in field 8 */
    if (f.tag == WEFT_WIRE_TAG(8, WEFT_WIRE_BYTES)) one_message(f.bytes);
  }
}
