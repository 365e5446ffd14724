/* kernels/cpu/dataset/compress.c - CompressElement and UncompressElement: an element as one variant, its
 * tensors as messages one behind the other, compressed by Snappy. The variant stays in its task.
 */
#include <snappy-c.h>

#include "base/alloc.h"
#include "kernels/kernel.h"
#include "tensor/tensor_proto.h"

typedef struct compressed {
  weft_variant_t variant; /* first */
  char *data;             /* owned */
  size_t length;
  int n;
  size_t sizes[]; /* of the n messages */
} compressed_t;

static void destroy(weft_variant_t *v) {
  weft_free(((compressed_t *)v)->data);
  weft_free(v);
}

static const weft_variant_type_t type = {"tensorflow.data.CompressedElement", destroy};

static weft_status_t *pack(compressed_t *e, weft_str_t bytes) {
  if (bytes.length > UINT32_MAX) return WEFT_ERROR(INTERNAL, "Failed to compress using snappy.");
  e->length = snappy_max_compressed_length(bytes.length);
  e->data = weft_malloc(e->length);
  if (e->data == NULL) return WEFT_NO_MEMORY("compressing an element");
  if (snappy_compress(bytes.data, bytes.length, e->data, &e->length) == SNAPPY_OK) return NULL;
  return WEFT_ERROR(INTERNAL, "Failed to compress using snappy.");
}

static weft_status_t *put_all(weft_kernel_ctx_t *c, compressed_t *e, weft_strbuf_t *bytes) {
  for (int i = 0; i < e->n; i++) {
    const size_t before = bytes->length;
    WEFT_RETURN_IF_ERROR(weft_tensor_to_proto_content(weft_in(c, i), bytes));
    e->sizes[i] = bytes->length - before;
  }
  if (bytes->failed) return WEFT_NO_MEMORY("compressing an element");
  return pack(e, weft_str_of(bytes->length == 0 ? "" : bytes->data, bytes->length));
}

static weft_status_t *compress(weft_kernel_ctx_t *c) {
  const int n = c->node->num_inputs;
  weft_strbuf_t bytes = {0};
  weft_tensor_t *t = NULL;
  compressed_t *e = weft_calloc(1, sizeof *e + (size_t)n * sizeof e->sizes[0]);
  if (e == NULL) return WEFT_NO_MEMORY("compressing an element");
  atomic_init(&e->variant.refs, 1);
  e->variant.type = &type;
  e->n = n;
  weft_status_t *s = put_all(c, e, &bytes);
  weft_strbuf_deinit(&bytes);
  if (s == NULL) s = weft_tensor_new(WEFT_VARIANT, &WEFT_SCALAR, NULL, &t);
  if (s != NULL) {
    weft_variant_release(&e->variant);
    return s;
  }
  ((weft_variant_t **)t->data)[0] = &e->variant;
  weft_out_set(c, 0, t);
  return NULL;
}

static weft_status_t *take_all(weft_kernel_ctx_t *c, const compressed_t *e, const char *bytes) {
  for (int i = 0; i < e->n; bytes += e->sizes[i], i++) {
    weft_tensor_t *t = NULL;
    const weft_dtype_t expected = weft_dtype_base(c->node->output_types[i]);
    WEFT_RETURN_IF_ERROR(weft_tensor_from_proto(weft_str_of(bytes, e->sizes[i]), &t));
    const weft_dtype_t dtype = t->dtype;
    weft_out_set(c, i, t);
    if (dtype != expected) {
      return WEFT_ERROR(FAILED_PRECONDITION, "Expected a tensor of type %s but got a tensor of type %s",
                        weft_dtype_name(expected), weft_dtype_name(dtype));
    }
  }
  return NULL;
}

static weft_status_t *uncompress(weft_kernel_ctx_t *c) {
  const weft_tensor_t *t = weft_in(c, 0);
  if (t->shape.rank != 0) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "UncompressElement requires its input to be a scalar, but encountered an input with %d "
                      "dimensions.",
                      t->shape.rank);
  }
  const compressed_t *e = ((compressed_t *const *)t->data)[0];
  if (e == NULL || e->variant.type != &type) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Input does not contain a compressed element.");
  }
  if (e->n != c->node->num_outputs) {
    return WEFT_ERROR(FAILED_PRECONDITION, "Expected %d outputs from uncompress, but got %d",
                      c->node->num_outputs, e->n);
  }
  size_t length = 0;
  for (int i = 0; i < e->n; i++) length += e->sizes[i];
  char *bytes = weft_malloc(length + 1);
  if (bytes == NULL) return WEFT_NO_MEMORY("uncompressing an element");
  weft_status_t *s = snappy_uncompress(e->data, e->length, bytes, &length) == SNAPPY_OK
                         ? take_all(c, e, bytes)
                         : WEFT_ERROR(INTERNAL, "Failed to perform snappy decompression.");
  weft_free(bytes);
  return s;
}

const weft_kernel_t weft_cpu_dataset_compress_kernels[] = {
    {.op = "CompressElement", .compute = compress},
    {.op = "UncompressElement", .compute = uncompress},
    {0},
};
