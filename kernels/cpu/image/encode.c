/* kernels/cpu/image/encode.c - tensors to image files. */
#include <limits.h>

#include "kernels/cpu/loops/common.h"
#include "kernels/cpu/media/jpeg.h"
#include "kernels/cpu/media/png.h"

/* Output 0: what was written, as a scalar string. Frees the builder. */
static weft_status_t *set_file(weft_kernel_ctx_t *c, weft_status_t *s, weft_strbuf_t *file) {
  if (s == NULL) s = weft_tensor_string(weft_str_of(file->data, file->length), &c->outputs[0].tensor);
  weft_strbuf_deinit(file);
  return s;
}

/* ---- JPEG ---- */

typedef struct jpeg_state {
  int64_t channels; /* of its format; 0: any */
  weft_jpeg_writing_t how;
} jpeg_state_t;

static weft_status_t *jpeg_prepare(const weft_kernel_setup_t *setup, void **out_state) {
  weft_str_t format = weft_knode_string(setup, "format");
  int64_t quality = weft_knode_int(setup, "quality");
  if (quality < 0 || quality > 100) {
    return WEFT_ERROR(INVALID_ARGUMENT, "quality must be in [0,100], got %lld", (long long)quality);
  }
  jpeg_state_t *st = weft_calloc(1, sizeof *st);
  if (st == NULL) return WEFT_NO_MEMORY("preparing %.*s", WEFT_STR_ARGS(setup->node.name));
  st->channels = format.length == 0 ? 0 : weft_str_is(format, "grayscale") ? 1 : 3;
  st->how = (weft_jpeg_writing_t){
      .quality = (int)quality,
      .progressive = weft_knode_bool(setup, "progressive"),
      .optimize_size = weft_knode_bool(setup, "optimize_size"),
      .chroma_downsampling = weft_knode_bool(setup, "chroma_downsampling"),
      .density_unit = weft_str_is(weft_knode_string(setup, "density_unit"), "in") ? 1 : 2,
      .x_density = weft_knode_int(setup, "x_density"),
      .y_density = weft_knode_int(setup, "y_density"),
      .xmp = weft_knode_string(setup, "xmp_metadata")};
  *out_state = st;
  return NULL;
}

static weft_status_t *check_image(const weft_tensor_t *image) {
  if (image->shape.rank != 3) {
    return WEFT_ERROR(INVALID_ARGUMENT, "image must be 3-dimensional%s", WEFT_SHAPE_TEXT(&image->shape));
  }
  if (image->count >= INT32_MAX) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Cannot encode images with >= max int32 elements");
  }
  return NULL;
}

/* `channels`: those that the image must have, 0: 1 or 3. */
static weft_status_t *write_jpeg(weft_kernel_ctx_t *c, int64_t channels, const weft_jpeg_writing_t *how) {
  const weft_tensor_t *image = weft_in(c, 0);
  const int64_t *dims = image->shape.dims;
  weft_strbuf_t file = WEFT_STRBUF_INIT;
  if (channels == 0 && dims[2] != 1 && dims[2] != 3) {
    return WEFT_ERROR(INVALID_ARGUMENT, "image must have 1 or 3 channels, got %s",
                      WEFT_SHAPE_TEXT(&image->shape));
  }
  if (channels != 0 && dims[2] != channels) {
    return WEFT_ERROR(INVALID_ARGUMENT, "the format expects %lld channels, got %s", (long long)channels,
                      WEFT_SHAPE_TEXT(&image->shape));
  }
  return set_file(c, weft_jpeg_encode(image->data, dims[0], dims[1], (int)dims[2], how, &file), &file);
}

static weft_status_t *encode_jpeg(weft_kernel_ctx_t *c) {
  const jpeg_state_t *st = c->state;
  WEFT_RETURN_IF_ERROR(check_image(weft_in(c, 0)));
  return write_jpeg(c, st->channels, &st->how);
}

static weft_status_t *encode_jpeg_quality(weft_kernel_ctx_t *c) {
  const weft_tensor_t *quality = weft_in(c, 1);
  WEFT_RETURN_IF_ERROR(check_image(weft_in(c, 0)));
  if (quality->shape.rank != 0) {
    return WEFT_ERROR(INVALID_ARGUMENT, "quality must be scalar: %s", WEFT_SHAPE_TEXT(&quality->shape));
  }
  int32_t q = *(const int32_t *)quality->data;
  if (q < 0 || q > 100) return WEFT_ERROR(INVALID_ARGUMENT, "quality must be in [0,100], got %d", q);
  return write_jpeg(
      c, 0,
      &(weft_jpeg_writing_t){
          .quality = q, .chroma_downsampling = true, .density_unit = 1, .x_density = 300, .y_density = 300});
}

/* ---- PNG ---- */

WEFT_ATTRS(encode_png, (INT, compression))
static weft_status_t *png_prepare(const weft_kernel_setup_t *setup, void **out_state) {
  int64_t compression = weft_knode_int(setup, "compression");
  if (compression >= -1 && compression <= 9) return weft_attrs_prepare(setup, out_state);
  return WEFT_ERROR(INVALID_ARGUMENT, "compression should be in [-1,9], got %lld", (long long)compression);
}

/* A file for each image of a batch. */
static weft_status_t *encode_png(weft_kernel_ctx_t *c, const encode_png_attrs_t *attrs) {
  const weft_tensor_t *images = weft_in(c, 0);
  int rank = images->shape.rank;
  weft_tensor_t *out = NULL;
  if (rank < 3) {
    return WEFT_ERROR(INVALID_ARGUMENT, "images must be at least rank 3%s", WEFT_SHAPE_TEXT(&images->shape));
  }
  if (images->count >= INT32_MAX)
    return WEFT_ERROR(INVALID_ARGUMENT, "image cannot have >= int32 max elements");
  int64_t height = images->shape.dims[rank - 3], width = images->shape.dims[rank - 2];
  int64_t channels = images->shape.dims[rank - 1], row = 0;
  if (!weft_cpu_mul(width, channels, &row) || row >= INT32_MAX / 2) {
    return WEFT_ERROR(INVALID_ARGUMENT, "image too wide to encode");
  }
  if (channels < 1 || channels > 4) {
    return WEFT_ERROR(INVALID_ARGUMENT, "image must have 1, 2, 3, or 4 channels, got %lld",
                      (long long)channels);
  }
  weft_shape_t shape = images->shape;
  shape.rank = rank - 3;
  WEFT_RETURN_IF_ERROR(weft_out_new(c, 0, WEFT_STRING, &shape, &out));
  size_t bytes = weft_dtype_size(images->dtype), stride = (size_t)(height * row) * bytes;
  weft_strbuf_t file = WEFT_STRBUF_INIT;
  weft_status_t *s = NULL;
  for (int64_t i = 0; s == NULL && i < out->count; i++) {
    const char *image = (const char *)images->data + (size_t)i * stride;
    file.length = 0;
    s = weft_png_encode(image, height, width, (int)channels, 8 * (int)bytes, (int)attrs->compression, &file);
    if (s == NULL) s = weft_tensor_set_str(out, i, weft_str_of(file.data, file.length));
  }
  weft_strbuf_deinit(&file);
  return s;
}

const weft_kernel_t weft_cpu_image_encode_kernels[] = {
    {.op = "EncodeJpeg", .prepare = jpeg_prepare, .compute = encode_jpeg, .destroy = weft_free},
    {.op = "EncodeJpegVariableQuality", .compute = encode_jpeg_quality},
    {.op = "EncodePng",
     .type_attr = "T",
     .types = WEFT_DTYPE_BIT(WEFT_U8) | WEFT_DTYPE_BIT(WEFT_U16),
     WEFT_COMPUTE_CHECKED(encode_png, png_prepare)},
    {0},
};
