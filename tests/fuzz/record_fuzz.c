/* tests/fuzz/record_fuzz.c - TFRecord files, plain and compressed, and files of lines. The first byte chooses
 * the compression. */
#include "io/record_reader.h"
#include "tests/fuzz/fuzz.h"

/* One record, "abc". */
#define RECORD                                       \
  "\x03\x00\x00\x00\x00\x00\x00\x00\xb0\x99\x49\x0e" \
  "abc\x6e\x57\xf1\x21"

const weft_fuzz_seed_t weft_fuzz_seeds[] = {
    WEFT_FUZZ_BYTES("\x00" RECORD RECORD),
    /* The same, as one zlib stream, one gzip member and one block of Snappy. */
    WEFT_FUZZ_BYTES("\x01\x78\x9c\x63\x66\x80\x80\x0d\x33\x3d\xf9\x12\x93\x92\xf3\xc2\x3f\x2a\x32\x63\x0a\x01"
                    "\x00\x90\xd2\x09\x41"),
    WEFT_FUZZ_BYTES("\x02\x1f\x8b\x08\x00\x00\x00\x00\x00\x02\x03\x63\x66\x80\x80\x0d\x33\x3d\xf9\x12\x93\x92"
                    "\xf3\xc2\x3f\x2a\x32\x63\x0a\x01\x00\xd5\x35\x7a\x8e\x26\x00\x00\x00"),
    WEFT_FUZZ_BYTES(
        "\x03\x00\x00\x00\x28\x26\x94\x03\x00\x00\x00\x00\x00\x00\x00\xb0\x99\x49\x0e\x61\x62\x63\x6e\x57\xf1"
        "\x21\x03\x00\x00\x00\x00\x00\x00\x00\xb0\x99\x49\x0e\x61\x62\x63\x6e\x57\xf1\x21"),
    WEFT_FUZZ_BYTES("\x00"
                    "a line\r\nanother\n\nthe last"),
    WEFT_FUZZ_END,
};

static weft_byte_stream_t *open_bytes(const uint8_t *data, size_t size) {
  weft_byte_stream_t *s = NULL;
  weft_status_free(weft_byte_stream_of(weft_str_of((const char *)data + 1, size - 1),
                                       (weft_compression_t)(data[0] % 4), &s));
  return s;
}

static void read_records(weft_byte_stream_t *stream) {
  weft_record_reader_t r = {.stream = stream};
  weft_strbuf_t record = WEFT_STRBUF_INIT;
  weft_status_t *s = NULL;
  bool is_end = false;
  for (int n = 0; s == NULL && !is_end && n < 1000; n++) {
    uint64_t before = r.offset;
    record.length = 0;
    s = weft_record_reader_next(&r, &record, &is_end);
    if (s == NULL && !is_end)
      weft_fuzz_check(r.offset == before + record.length + 16, "a record of another size");
  }
  weft_status_free(s);
  weft_record_reader_deinit(&r);
  weft_strbuf_deinit(&record);
}

static void read_lines(weft_byte_stream_t *stream) {
  weft_strbuf_t line = WEFT_STRBUF_INIT;
  weft_status_t *s = NULL;
  bool is_end = false;
  for (int n = 0; s == NULL && !is_end && n < 1000; n++) {
    line.length = 0;
    s = weft_byte_stream_line(stream, &line, &is_end);
  }
  weft_status_free(s);
  weft_strbuf_deinit(&line);
}

void weft_fuzz_one(const uint8_t *data, size_t size) {
  if (size == 0) return;
  for (int lines = 0; lines < 2; lines++) {
    weft_byte_stream_t *stream = open_bytes(data, size);
    if (stream == NULL) return;
    if (lines) read_lines(stream);
    if (!lines) read_records(stream);
    weft_byte_stream_close(stream);
  }
}
