/* kernels/cpu/parsing/raw.c - bytes as numbers, and compressed bytes. */
#include <inttypes.h>
#include <zlib.h>

#include "kernels/cpu/loops/common.h"
#include "kernels/cpu/loops/each_row.h"

/* The shape of strings with one more dimension. */
static weft_status_t *with_dim(const weft_shape_t *in, int64_t dim, weft_shape_t *out) {
  int64_t dims[WEFT_MAX_DIMS + 1];
  memcpy(dims, in->dims, sizeof in->dims);
  dims[in->rank] = dim;
  return weft_shape_make(dims, in->rank + 1, out);
}

/* Turns the bytes of each number around; those of a complex number are two. */
static void reverse_bytes(weft_tensor_t *t) {
  size_t size = weft_dtype_size(t->dtype) / (weft_dtype_is_complex(t->dtype) ? 2 : 1);
  uint8_t *p = t->data;
  for (size_t i = 0; size > 1 && i < t->bytes; i += size) {
    for (size_t k = 0; k < size / 2; k++) {
      uint8_t swapped = p[i + k];
      p[i + k] = p[i + size - 1 - k];
      p[i + size - 1 - k] = swapped;
    }
  }
}

WEFT_ATTRS(decode_raw, (BOOL, little_endian))
static weft_status_t *decode_raw(weft_kernel_ctx_t *c, const decode_raw_attrs_t *attrs) {
  const weft_tensor_t *in = weft_in(c, 0);
  weft_dtype_t dtype = (weft_dtype_t)c->node->output_types[0];
  size_t length = in->count == 0 ? 0 : weft_tensor_str_at(in, 0).length, size = weft_dtype_size(dtype);
  weft_shape_t shape;
  weft_tensor_t *out = NULL;
  for (int64_t i = 1; i < in->count; i++) {
    if (weft_tensor_str_at(in, i).length == length) continue;
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "DecodeRaw requires input strings to all be the same size, but element %" PRId64
                      " has size %zu != %zu",
                      i, length, weft_tensor_str_at(in, i).length);
  }
  if (length % size != 0) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "Input to DecodeRaw has length %zu that is not a multiple of %zu, the size of %s",
                      length, size, weft_dtype_name(dtype));
  }
  WEFT_RETURN_IF_ERROR(with_dim(&in->shape, (int64_t)(length / size), &shape));
  WEFT_RETURN_IF_ERROR(weft_out_new(c, 0, dtype, &shape, &out));
  for (int64_t i = 0; length > 0 && i < in->count; i++) {
    memcpy((char *)out->data + (size_t)i * length, weft_tensor_str_at(in, i).data, length);
  }
  if (!attrs->little_endian) reverse_bytes(out);
  return NULL;
}

/* Strings that are too short end with zeros, those that are too long are cut. */
WEFT_ATTRS(decode_padded_raw, (BOOL, little_endian))
static weft_status_t *decode_padded_raw(weft_kernel_ctx_t *c, const decode_padded_raw_attrs_t *attrs) {
  const weft_tensor_t *in = weft_in(c, 0), *wanted = weft_in(c, 1);
  weft_dtype_t dtype = (weft_dtype_t)c->node->output_types[0];
  int64_t size = (int64_t)weft_dtype_size(dtype);
  weft_shape_t shape;
  weft_tensor_t *out = NULL;
  if (wanted->shape.rank != 0) {
    return WEFT_ERROR(INVALID_ARGUMENT, "k must be scalar, got shape %s", WEFT_SHAPE_TEXT(&wanted->shape));
  }
  int64_t length = weft_cpu_int_at(wanted, 0);
  if (length % size != 0) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "fixed_length (%" PRId64 ") must be a multiple of the size of out_type (%" PRId64 ")",
                      length, size);
  }
  if (length <= 0) {
    return WEFT_ERROR(INVALID_ARGUMENT, "fixed_length (%" PRId64 ") must be greater than zero.", length);
  }
  WEFT_RETURN_IF_ERROR(with_dim(&in->shape, length / size, &shape));
  WEFT_RETURN_IF_ERROR(weft_out_new(c, 0, dtype, &shape, &out));
  weft_cpu_zero(out);
  for (int64_t i = 0; i < in->count; i++) {
    weft_str_t s = weft_tensor_str_at(in, i);
    size_t n = s.length < (size_t)length ? s.length : (size_t)length;
    if (n > 0) memcpy((char *)out->data + i * length, s.data, n);
  }
  if (!attrs->little_endian) reverse_bytes(out);
  return NULL;
}

/* ---- DecodeCompressed ---- */

enum { WINDOW_BITS = 15, WINDOW_BITS_GZIP = WINDOW_BITS + 16, INFLATED_AT_ONCE = 1 << 16 };

typedef struct inflate_run {
  const weft_tensor_t *in;
  weft_tensor_t *out;
  int window_bits;
} inflate_run_t;

/* Inflates all of z's input. A gzip file may follow another; what follows the end of a zlib stream is not
 * read, and a stream that is cut off gives what it had. */
static weft_status_t *inflate_all(z_stream *z, bool is_gzip, weft_strbuf_t *text) {
  for (;;) {
    char *to = weft_strbuf_reserve(text, INFLATED_AT_ONCE);
    if (to == NULL) return WEFT_NO_MEMORY("inflating a string");
    z->next_out = (Bytef *)to;
    z->avail_out = INFLATED_AT_ONCE;
    int result = inflate(z, Z_SYNC_FLUSH);
    text->length += INFLATED_AT_ONCE - z->avail_out;
    if (text->length > INT32_MAX) return WEFT_ERROR(RESOURCE_EXHAUSTED, "a string of more than 2 GB");
    if (result == Z_MEM_ERROR) return WEFT_NO_MEMORY("inflating a string");
    if (result != Z_OK && result != Z_STREAM_END && result != Z_BUF_ERROR) {
      return WEFT_ERROR(DATA_LOSS, "inflate() failed with error %d: %s", result,
                        z->msg == NULL ? "" : z->msg);
    }
    if (result == Z_BUF_ERROR || (z->avail_in == 0 && z->avail_out > 0)) return NULL;
    if (result != Z_STREAM_END) continue;
    if (!is_gzip) return NULL;
    inflateReset(z);
    if (z->avail_in == 0) return NULL;
  }
}

static weft_status_t *inflate_row(void *arg, int64_t i, weft_strbuf_t *text) {
  const inflate_run_t *r = arg;
  weft_str_t s = weft_tensor_str_at(r->in, i);
  z_stream z = {0};
  if (s.length == 0) return NULL;
  if (s.length > INT32_MAX) return WEFT_ERROR(INVALID_ARGUMENT, "a compressed string of more than 2 GB");
  if (inflateInit2(&z, r->window_bits) != Z_OK) return WEFT_NO_MEMORY("inflating a string");
  memcpy(&z.next_in, &s.data, sizeof s.data); /* zlib only reads it, but does not say so */
  z.avail_in = (uInt)s.length;
  weft_status_t *status = inflate_all(&z, r->window_bits == WINDOW_BITS_GZIP, text);
  inflateEnd(&z);
  return status != NULL ? status : weft_set_text(r->out, i, text);
}

WEFT_ATTRS(decode_compressed, (STRING, compression_type))
static weft_status_t *decode_compressed(weft_kernel_ctx_t *c, const decode_compressed_attrs_t *attrs) {
  if (attrs->compression_type.length == 0) {
    weft_cpu_out_same(c, 0, 0);
    return NULL;
  }
  inflate_run_t r = {
      .in = weft_in(c, 0),
      .window_bits = weft_str_is(attrs->compression_type, "GZIP") ? WINDOW_BITS_GZIP : WINDOW_BITS};
  WEFT_RETURN_IF_ERROR(weft_out_new(c, 0, WEFT_STRING, &r.in->shape, &r.out));
  return weft_each_row(c, r.in->count, 1, inflate_row, &r);
}

static weft_status_t *compressed_prepare(const weft_kernel_setup_t *setup, void **out_state) {
  weft_str_t type = weft_knode_string(setup, "compression_type");
  if (type.length > 0 && !weft_str_is(type, "ZLIB") && !weft_str_is(type, "GZIP")) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Only ZLIB, GZIP or NONE are supported compressions");
  }
  return weft_attrs_prepare(setup, out_state);
}

const weft_kernel_t weft_cpu_raw_kernels[] = {
    {.op = "DecodeCompressed", WEFT_COMPUTE_CHECKED(decode_compressed, compressed_prepare)},
    {.op = "DecodePaddedRaw", WEFT_COMPUTE(decode_padded_raw)},
    {.op = "DecodeRaw", WEFT_COMPUTE(decode_raw)},
    {0},
};
