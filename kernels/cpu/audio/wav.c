/* kernels/cpu/audio/wav.c - WAV files to tensors and back. */
#include "kernels/cpu/media/wav.h"

#include <limits.h>

#include "kernels/cpu/loops/common.h"

WEFT_ATTRS(decode_wav, (INT, desired_channels), (INT, desired_samples))
static weft_status_t *decode_prepare(const weft_kernel_setup_t *setup, void **out_state) {
  int64_t channels = weft_knode_int(setup, "desired_channels"),
          samples = weft_knode_int(setup, "desired_samples");
  if (channels >= -1 && channels <= INT32_MAX && samples >= -1 && samples <= INT32_MAX) {
    return weft_attrs_prepare(setup, out_state);
  }
  return WEFT_ERROR(INVALID_ARGUMENT, "desired_channels and desired_samples must be >= -1, got %lld and %lld",
                    (long long)channels, (long long)samples);
}

/* Channels that the file has not are its last one; frames that it has not are silence. */
static weft_status_t *decode_wav(weft_kernel_ctx_t *c, const decode_wav_attrs_t *attrs) {
  const weft_tensor_t *contents = weft_in(c, 0);
  weft_tensor_t *out = NULL;
  weft_wav_t wav;
  if (contents->shape.rank != 0) {
    return WEFT_ERROR(INVALID_ARGUMENT, "contents must be scalar, got shape %s",
                      WEFT_SHAPE_TEXT(&contents->shape));
  }
  weft_str_t file = weft_tensor_str_at(contents, 0);
  if (file.length > INT_MAX) {
    return WEFT_ERROR(INVALID_ARGUMENT, "WAV contents are too large for int: %zu", file.length);
  }
  WEFT_RETURN_IF_ERROR(weft_wav_read(file, &wav));
  int64_t frames = attrs->desired_samples == -1 ? wav.frames : attrs->desired_samples;
  int64_t channels = attrs->desired_channels == -1 ? wav.channels : attrs->desired_channels;
  weft_shape_t shape = weft_shape_matrix(frames, channels);
  WEFT_RETURN_IF_ERROR(weft_out_new(c, 0, WEFT_F32, &shape, &out));
  float *to = out->data;
  for (int64_t f = 0; f < frames; f++) {
    for (int64_t k = 0; k < channels; k++) {
      int64_t channel = k < wav.channels ? k : wav.channels - 1;
      *to++ = f < wav.frames ? weft_wav_sample(&wav, f * wav.channels + channel) : 0;
    }
  }
  int32_t rate = (int32_t)wav.rate;
  return weft_tensor_scalar(WEFT_I32, &rate, &c->outputs[1].tensor);
}

static weft_status_t *encode_wav(weft_kernel_ctx_t *c) {
  const weft_tensor_t *audio = weft_in(c, 0), *rate = weft_in(c, 1);
  weft_strbuf_t file = WEFT_STRBUF_INIT;
  if (audio->shape.rank != 2) {
    return WEFT_ERROR(INVALID_ARGUMENT, "audio must be 2-dimensional%s", WEFT_SHAPE_TEXT(&audio->shape));
  }
  if (rate->shape.rank != 0) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Input sample_rate should be a scalar tensor, got %s instead.",
                      WEFT_SHAPE_TEXT(&rate->shape));
  }
  if (audio->count >= INT32_MAX) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Cannot encode audio with >= max int32 elements");
  }
  uint64_t per_second = (uint64_t)(int64_t)(*(const int32_t *)rate->data);
  weft_status_t *s =
      weft_wav_write(audio->data, audio->shape.dims[0], audio->shape.dims[1], per_second, &file);
  if (s == NULL) s = weft_tensor_string(weft_str_of(file.data, file.length), &c->outputs[0].tensor);
  weft_strbuf_deinit(&file);
  return s;
}

const weft_kernel_t weft_cpu_wav_kernels[] = {
    {.op = "DecodeWav", WEFT_COMPUTE_CHECKED(decode_wav, decode_prepare)},
    {.op = "EncodeWav", .compute = encode_wav},
    {0},
};
