/* io/source.c - one reader before two. */
#include "io/source.h"

#include <inttypes.h>

#include "base/alloc.h"
#include "io/checkpoint_v1.h"

struct weft_source { /* One of the two is set. */
  weft_bundle_reader_t *bundle;
  weft_checkpoint_v1_reader_t *old;
};

static weft_status_t *no_memory(void) { return WEFT_NO_MEMORY("reading a checkpoint"); }

static bool is_file(weft_str_t path, const char *suffix) {
  weft_strbuf_t b = WEFT_STRBUF_INIT;
  weft_strbuf_append(&b, path);
  weft_strbuf_puts(&b, suffix);
  bool yes = !b.failed && weft_file_exists(b.data);
  weft_strbuf_deinit(&b);
  return yes;
}

/* TensorFlow calls several files of the first format by a pattern: PREFIX-?????-of-00002. */
static weft_str_t without_pattern(weft_str_t prefix) {
  static const char mark[] = "-?\?\?\?\?-of-";
  const size_t length = sizeof mark - 1, digits = 5;
  if (prefix.length <= length + digits ||
      memcmp(prefix.data + prefix.length - length - digits, mark, length) != 0)
    return prefix;
  return weft_str_of(prefix.data, prefix.length - length - digits);
}

/* The files of the first format, as a pattern that matches them and nothing else. */
static void print_pattern(weft_str_t path, weft_strbuf_t *out) {
  weft_str_t prefix = without_pattern(path);
  for (size_t i = 0; i < prefix.length; i++) {
    if (strchr("*?[]\\", prefix.data[i]) != NULL && prefix.data[i] != '\0') weft_strbuf_putc(out, '\\');
    weft_strbuf_putc(out, prefix.data[i]);
  }
  if (!is_file(prefix, "")) weft_strbuf_puts(out, "-[0-9][0-9][0-9][0-9][0-9]-of-[0-9][0-9][0-9][0-9][0-9]");
}

static weft_status_t *open_old(weft_str_t prefix, weft_checkpoint_v1_reader_t **out) {
  weft_strbuf_t pattern = WEFT_STRBUF_INIT;
  print_pattern(prefix, &pattern);
  weft_status_t *s = pattern.failed
                         ? no_memory()
                         : weft_checkpoint_v1_reader_open(weft_str_of(pattern.data, pattern.length), -1, out);
  weft_strbuf_deinit(&pattern);
  if (weft_status_code(s) != WEFT_NOT_FOUND) return s;
  weft_status_free(s); /* of the pattern, which the caller has not seen */
  return WEFT_ERROR(NOT_FOUND,
                    "Unsuccessful TensorSliceReader constructor: Failed to find any matching files for %.*s",
                    WEFT_STR_ARGS(prefix));
}

bool weft_source_exists(weft_str_t prefix) {
  weft_checkpoint_v1_reader_t *old = NULL;
  if (is_file(prefix, ".index")) return true;
  weft_status_t *s = open_old(prefix, &old);
  bool yes = s == NULL;
  weft_status_free(s);
  weft_checkpoint_v1_reader_close(old);
  return yes;
}

weft_status_t *weft_source_open(weft_str_t prefix, weft_source_t **out) {
  weft_source_t *source = weft_calloc(1, sizeof *source);
  if (source == NULL) return no_memory();
  weft_status_t *s = is_file(prefix, ".index") ? weft_bundle_reader_open(prefix, &source->bundle)
                                               : open_old(prefix, &source->old);
  if (s == NULL) *out = source;
  if (s != NULL) weft_source_close(source);
  return s;
}

void weft_source_close(weft_source_t *s) {
  if (s == NULL) return;
  weft_bundle_reader_close(s->bundle);
  weft_checkpoint_v1_reader_close(s->old);
  weft_free(s);
}

bool weft_source_next(const weft_source_t *s, size_t *at, weft_str_t *out_name) {
  return s->old != NULL ? weft_checkpoint_v1_reader_next(s->old, at, out_name)
                        : weft_bundle_reader_next(s->bundle, at, out_name);
}

bool weft_source_lookup(const weft_source_t *s, weft_str_t name, weft_dtype_t *out_dtype,
                        weft_shape_t *out_shape) {
  if (s->old != NULL) return weft_checkpoint_v1_reader_lookup(s->old, name, out_dtype, out_shape);
  weft_status_t *failure = weft_bundle_reader_lookup(s->bundle, name, out_dtype, out_shape);
  bool is_there = failure == NULL;
  weft_status_free(failure);
  return is_there;
}

/* "10 4 0,3:-". */
static void print_spec(const weft_shape_t *full, const weft_tensor_slice_t *at, weft_strbuf_t *out) {
  for (int d = 0; d < full->rank; d++) weft_strbuf_printf(out, "%" PRId64 " ", full->dims[d]);
  weft_tensor_slice_print(at, out);
}

static weft_status_t *read_old(weft_checkpoint_v1_reader_t *r, weft_str_t name, const weft_tensor_slice_t *at,
                               weft_tensor_t **out) {
  weft_dtype_t dtype;
  weft_shape_t full;
  weft_strbuf_t spec = WEFT_STRBUF_INIT;
  if (!weft_checkpoint_v1_reader_lookup(r, name, &dtype, &full))
    return WEFT_ERROR(NOT_FOUND, "%.*s is not in the checkpoint", WEFT_STR_ARGS(name));
  if (at != NULL) print_spec(&full, at, &spec);
  weft_status_t *s = spec.failed ? no_memory()
                                 : weft_checkpoint_v1_reader_restore(
                                       r, name, weft_str_of(spec.data, spec.length), dtype, out);
  weft_strbuf_deinit(&spec);
  return s;
}

weft_status_t *weft_source_read(weft_source_t *s, weft_str_t name, const weft_tensor_slice_t *at,
                                weft_tensor_t **out) {
  if (s->old != NULL) return read_old(s->old, name, at, out);
  return at == NULL ? weft_bundle_reader_read(s->bundle, name, out)
                    : weft_bundle_reader_read_slice(s->bundle, name, at, out);
}
