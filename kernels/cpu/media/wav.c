/* kernels/cpu/media/wav.c - WAV files. Which files are read, and what is said of the others, is as in
 * TensorFlow's DecodeWav. */
#include "kernels/cpu/media/wav.h"

#include <inttypes.h>
#include <math.h>

enum { PCM = 1, SAMPLE_BYTES = 2, SAMPLE_BITS = 16 };

/* ---- reading ---- */

/* The next n bytes; they must be there. */
static weft_status_t *take(weft_str_t *rest, uint64_t n, weft_str_t *out) {
  if (n > rest->length) return WEFT_ERROR(INVALID_ARGUMENT, "Data too short when trying to read string");
  *out = weft_str_of(rest->data, (size_t)n);
  *rest = weft_str_of(rest->data + n, rest->length - (size_t)n);
  return NULL;
}

static weft_status_t *take_number(weft_str_t *rest, int bytes, uint32_t *out) {
  weft_str_t b = WEFT_STR("");
  WEFT_RETURN_IF_ERROR(take(rest, (uint64_t)bytes, &b));
  *out = 0;
  for (int i = 0; i < bytes; i++) *out |= (uint32_t)(uint8_t)b.data[i] << (8 * i);
  return NULL;
}

static weft_status_t *take_text(weft_str_t *rest, const char *wanted) {
  weft_str_t found = WEFT_STR("");
  WEFT_RETURN_IF_ERROR(take(rest, strlen(wanted), &found));
  if (weft_str_is(found, wanted)) return NULL;
  return WEFT_ERROR(INVALID_ARGUMENT, "Header mismatch: Expected %s but found %.*s", wanted,
                    WEFT_STR_ARGS(found));
}

/* Comes to the chunk "fmt ", past chunks that may stand in front of it. */
static weft_status_t *find_format(weft_str_t *rest) {
  static const char *const harmless[] = {"JUNK", "bext", "iXML", "qlty", "mext", "levl", "link", "axml"};
  weft_str_t id = WEFT_STR(""), unused = id;
  uint32_t size = 0;
  WEFT_RETURN_IF_ERROR(take(rest, 4, &id));
  while (!weft_str_is(id, "fmt ")) {
    bool is_harmless = false;
    for (size_t i = 0; i < sizeof harmless / sizeof *harmless; i++)
      is_harmless |= weft_str_is(id, harmless[i]);
    if (!is_harmless) return WEFT_ERROR(INVALID_ARGUMENT, "Unexpected field %.*s", WEFT_STR_ARGS(id));
    WEFT_RETURN_IF_ERROR(take_number(rest, 4, &size));
    WEFT_RETURN_IF_ERROR(take(rest, size, &unused));
    WEFT_RETURN_IF_ERROR(take(rest, 4, &id));
  }
  return NULL;
}

static weft_status_t *read_format(weft_str_t *rest, weft_wav_t *out) {
  uint32_t size = 0, format = 0, channels = 0, per_second = 0, per_frame = 0, bits = 0;
  WEFT_RETURN_IF_ERROR(take_number(rest, 4, &size));
  if (size != 16 && size != 18) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Bad format chunk size for WAV: Expected 16 or 18, but got%u", size);
  }
  WEFT_RETURN_IF_ERROR(take_number(rest, 2, &format));
  if (format != PCM) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Bad audio format for WAV: Expected 1 (PCM), but got%u", format);
  }
  WEFT_RETURN_IF_ERROR(take_number(rest, 2, &channels));
  if (channels < 1) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Bad number of channels for WAV: Expected at least 1, but got 0");
  }
  WEFT_RETURN_IF_ERROR(take_number(rest, 4, &out->rate));
  WEFT_RETURN_IF_ERROR(take_number(rest, 4, &per_second));
  WEFT_RETURN_IF_ERROR(take_number(rest, 2, &per_frame));
  WEFT_RETURN_IF_ERROR(take_number(rest, 2, &bits));
  if (bits != SAMPLE_BITS) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Can only read 16-bit WAV files, but received %u", bits);
  }
  if (per_frame != SAMPLE_BYTES * channels) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Bad bytes per sample in WAV header: Expected %u but got %u",
                      SAMPLE_BYTES * channels, per_frame);
  }
  uint64_t expected = (uint64_t)per_frame * out->rate;
  if (per_second != expected) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Bad bytes per second in WAV header: Expected %" PRIu64 " but got %u",
                      expected, per_second);
  }
  out->channels = channels;
  size_t extension = size == 18 ? 2 : 0; /* the file may end in it */
  extension = extension < rest->length ? extension : rest->length;
  *rest = weft_str_of(rest->data + extension, rest->length - extension);
  return NULL;
}

/* One chunk behind the format; that of the samples goes to *out. */
static weft_status_t *read_chunk(weft_str_t *rest, bool *has_data, weft_wav_t *out) {
  weft_str_t id = WEFT_STR("");
  uint32_t size = 0;
  WEFT_RETURN_IF_ERROR(take(rest, 4, &id));
  WEFT_RETURN_IF_ERROR(take_number(rest, 4, &size));
  if (size > INT32_MAX) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "WAV data chunk '%.*s' is too large: %u bytes, but the limit is 2147483647",
                      WEFT_STR_ARGS(id), size);
  }
  if (!weft_str_is(id, "data")) { /* the file may end in it */
    size_t skipped = size < rest->length ? size : rest->length;
    *rest = weft_str_of(rest->data + skipped, rest->length - skipped);
    return NULL;
  }
  if (*has_data) return WEFT_ERROR(INVALID_ARGUMENT, "More than one data chunk found in WAV");
  *has_data = true;
  out->frames = size / (SAMPLE_BYTES * out->channels);
  return take(rest, (uint64_t)(out->frames * out->channels * SAMPLE_BYTES), &out->data);
}

weft_status_t *weft_wav_read(weft_str_t file, weft_wav_t *out) {
  weft_str_t rest = file;
  uint32_t unused = 0;
  bool has_data = false;
  *out = (weft_wav_t){.frames = 0};
  WEFT_RETURN_IF_ERROR(take_text(&rest, "RIFF"));
  WEFT_RETURN_IF_ERROR(take_number(&rest, 4, &unused)); /* the file's size, which some writers do not know */
  WEFT_RETURN_IF_ERROR(take_text(&rest, "WAVE"));
  WEFT_RETURN_IF_ERROR(find_format(&rest));
  WEFT_RETURN_IF_ERROR(read_format(&rest, out));
  while (rest.length > 0) WEFT_RETURN_IF_ERROR(read_chunk(&rest, &has_data, out));
  return has_data ? NULL : WEFT_ERROR(INVALID_ARGUMENT, "No data chunk found in WAV");
}

/* ---- writing ---- */

static void add_u16(weft_strbuf_t *b, unsigned value) {
  weft_strbuf_putc(b, (char)value);
  weft_strbuf_putc(b, (char)(value >> 8));
}

static void add_u32(weft_strbuf_t *b, uint32_t value) {
  add_u16(b, value & 0xffffu);
  add_u16(b, value >> 16);
}

static void add_sample(weft_strbuf_t *b, float sample) {
  float scaled = isnan(sample) ? 0 : roundf(sample * 32768.0f);
  if (scaled < -32768.0f) scaled = -32768.0f;
  if (scaled > 32767.0f) scaled = 32767.0f;
  add_u16(b, (unsigned)(int)scaled & 0xffffu);
}

weft_status_t *weft_wav_write(const float *samples, int64_t frames, int64_t channels, uint64_t rate,
                              weft_strbuf_t *out) {
  enum { HEADER = 44 };
  int64_t bytes = 0;
  if (channels == 0 && frames > 0) return WEFT_ERROR(INVALID_ARGUMENT, "audio is null");
  if (rate == 0 || rate > UINT32_MAX) {
    return WEFT_ERROR(INVALID_ARGUMENT, "sample_rate must be in (0, 2^32), got: %" PRIu64, rate);
  }
  if (channels == 0 || channels > UINT16_MAX) {
    return WEFT_ERROR(INVALID_ARGUMENT, "num_channels must be in (0, 2^16), got: %" PRId64, channels);
  }
  if (__builtin_mul_overflow(frames * channels, SAMPLE_BYTES, &bytes) || bytes > UINT32_MAX - HEADER) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Provided channels and frames cannot be encoded as a WAV.");
  }
  weft_strbuf_puts(out, "RIFF");
  add_u32(out, (uint32_t)bytes + HEADER - 8);
  weft_strbuf_puts(out, "WAVEfmt ");
  add_u32(out, 16);
  add_u16(out, PCM);
  add_u16(out, (unsigned)channels);
  add_u32(out, (uint32_t)rate);
  add_u32(out, (uint32_t)rate * SAMPLE_BYTES * (uint32_t)channels);
  add_u16(out, (SAMPLE_BYTES * (unsigned)channels) & 0xffffu);
  add_u16(out, SAMPLE_BITS);
  weft_strbuf_puts(out, "data");
  add_u32(out, (uint32_t)bytes);
  for (int64_t i = 0; i < frames * channels; i++) add_sample(out, samples[i]);
  return out->failed ? WEFT_NO_MEMORY("writing a WAV file") : NULL;
}
