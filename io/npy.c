/* io/npy.c - the header is a Python dictionary of three known keys; we read just that.
 *
 * Source of the format: NumPy enhancement proposal 1, and versions 2 and 3 of its reference.
 */
#include "io/npy.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "io/file.h"

enum { MAX_HEADER = 1 << 20, ALIGNMENT = 64 };

typedef struct npy_type {
  const char *code; /* without the byte order */
  weft_dtype_t dtype;
} npy_type_t;

static const npy_type_t types[] = {
    {"b1", WEFT_BOOL}, {"i1", WEFT_I8},  {"i2", WEFT_I16}, {"i4", WEFT_I32},   {"i8", WEFT_I64},
    {"u1", WEFT_U8},   {"u2", WEFT_U16}, {"u4", WEFT_U32}, {"u8", WEFT_U64},   {"f2", WEFT_F16},
    {"f4", WEFT_F32},  {"f8", WEFT_F64}, {"c8", WEFT_C64}, {"c16", WEFT_C128},
};
enum { NUM_TYPES = sizeof types / sizeof types[0] };

static weft_status_t *malformed(const char *path, const char *why) {
  return WEFT_ERROR(INVALID_ARGUMENT, "%s: not a .npy file that can be read: %s", path, why);
}

/* The text behind 'key': in a dictionary; data NULL if there is none. */
static weft_str_t value_of(weft_str_t header, const char *key) {
  size_t n = strlen(key);
  for (size_t i = 0; i + n + 2 < header.length; i++) {
    if (header.data[i] != '\'' || memcmp(header.data + i + 1, key, n) != 0 || header.data[i + 1 + n] != '\'')
      continue;
    size_t at = i + n + 2;
    while (at < header.length && (header.data[at] == ' ' || header.data[at] == ':')) at++;
    return weft_str_of(header.data + at, header.length - at);
  }
  return (weft_str_t){NULL, 0};
}

static weft_status_t *read_dtype(const char *path, weft_str_t header, weft_dtype_t *out) {
  weft_str_t text = value_of(header, "descr"), head, rest, code;
  if (text.data == NULL || !weft_str_split(text, '\'', &head, &rest) ||
      !weft_str_split(rest, '\'', &code, &head) || code.length < 3) {
    return malformed(path, "no dtype");
  }
  char order = code.data[0];
  weft_str_t kind = weft_str_of(code.data + 1, code.length - 1);
  for (int i = 0; i < NUM_TYPES; i++) {
    if (!weft_str_is(kind, types[i].code)) continue;
    if (order == '>' && weft_dtype_size(types[i].dtype) > 1) return malformed(path, "big-endian numbers");
    *out = types[i].dtype;
    return NULL;
  }
  return malformed(path, "a dtype without a counterpart");
}

static weft_status_t *read_shape(const char *path, weft_str_t header, weft_shape_t *out) {
  weft_str_t text = value_of(header, "shape"), inside, rest;
  int64_t dims[WEFT_MAX_DIMS];
  int rank = 0;
  if (text.length == 0 || text.data[0] != '(' || !weft_str_split(text, ')', &inside, &rest))
    return malformed(path, "no shape");
  for (size_t i = 1; i < inside.length;) {
    if (inside.data[i] == ' ' || inside.data[i] == ',') {
      i++;
      continue;
    }
    size_t end = i;
    while (end < inside.length && inside.data[end] >= '0' && inside.data[end] <= '9') end++;
    if (end == i || rank == WEFT_MAX_DIMS ||
        !weft_str_to_i64(weft_str_of(inside.data + i, end - i), &dims[rank])) {
      return malformed(path, "a bad shape");
    }
    rank++;
    i = end;
  }
  weft_status_t *s = weft_shape_make(dims, rank, out);
  return s == NULL ? NULL : weft_status_annotate(s, "in %s", path);
}

static weft_status_t *read_header(const char *path, FILE *f, char **header, size_t *length) {
  unsigned char magic[8], size[4] = {0};
  if (fread(magic, 1, 8, f) != 8 || memcmp(magic, "\x93NUMPY", 6) != 0)
    return malformed(path, "no magic bytes");
  if (magic[6] < 1 || magic[6] > 3) return malformed(path, "an unknown version");
  size_t width = magic[6] == 1 ? 2 : 4;
  if (fread(size, 1, width, f) != width) return malformed(path, "no header");
  *length = (size_t)size[0] | (size_t)size[1] << 8 | (size_t)size[2] << 16 | (size_t)size[3] << 24;
  if (*length > MAX_HEADER) return malformed(path, "a header that is too long");
  *header = weft_malloc(*length + 1);
  if (*header == NULL) return WEFT_NO_MEMORY("reading %s", path);
  (*header)[*length] = '\0';
  return fread(*header, 1, *length, f) == *length ? NULL : malformed(path, "a header that is cut off");
}

/* Before memory is taken for as many elements as the header says. */
static weft_status_t *check_size(const char *path, FILE *f, weft_dtype_t dtype, const weft_shape_t *shape) {
  struct stat info;
  size_t bytes = 0;
  if (!weft_mul_size((size_t)weft_shape_count(shape), weft_dtype_size(dtype), &bytes) ||
      (fstat(fileno(f), &info) == 0 && S_ISREG(info.st_mode) && (uint64_t)info.st_size < bytes)) {
    return WEFT_ERROR(DATA_LOSS, "%s: shorter than its shape %s says", path, WEFT_SHAPE_TEXT(shape));
  }
  return NULL;
}

weft_status_t *weft_npy_read(const char *path, weft_tensor_t **out) {
  char *header = NULL;
  size_t length = 0;
  weft_dtype_t dtype = WEFT_DTYPE_INVALID;
  weft_shape_t shape;
  weft_tensor_t *t = NULL;
  FILE *f = fopen(path, "rb");
  if (f == NULL) return WEFT_ERROR(NOT_FOUND, "%s: %s", path, strerror(errno));
  weft_status_t *s = read_header(path, f, &header, &length);
  weft_str_t text = weft_str_of(header, length);
  if (s == NULL && weft_str_starts_with(value_of(text, "fortran_order"), "True"))
    s = malformed(path, "Fortran order; save it in C order");
  if (s == NULL) s = read_dtype(path, text, &dtype);
  if (s == NULL) s = read_shape(path, text, &shape);
  if (s == NULL) s = check_size(path, f, dtype, &shape);
  if (s == NULL) s = weft_tensor_new(dtype, &shape, NULL, &t);
  if (s == NULL && fread(t->data == NULL ? (void *)header : t->data, 1, t->bytes, f) != t->bytes) {
    s = WEFT_ERROR(DATA_LOSS, "%s: shorter than its shape %s says", path, WEFT_SHAPE_TEXT(&shape));
  }
  fclose(f);
  weft_free(header);
  if (s != NULL) {
    weft_tensor_release(t);
    return s;
  }
  *out = t;
  return NULL;
}

static weft_status_t *print_header(const weft_tensor_t *t, const char *path, weft_strbuf_t *out) {
  const char *code = NULL;
  for (int i = 0; i < NUM_TYPES; i++) {
    if (types[i].dtype == t->dtype) code = types[i].code;
  }
  if (code == NULL)
    return WEFT_ERROR(INVALID_ARGUMENT, "%s: NumPy has no dtype for %s", path, weft_dtype_name(t->dtype));
  char order = weft_dtype_size(t->dtype) == 1 ? '|' : '<';
  weft_strbuf_printf(out, "{'descr': '%c%s', 'fortran_order': False, 'shape': (", order, code);
  for (int i = 0; i < t->shape.rank; i++)
    weft_strbuf_printf(out, "%" PRId64 ",%s", t->shape.dims[i], i + 1 < t->shape.rank ? " " : "");
  weft_strbuf_puts(out, "), }");
  while ((10 + out->length + 1) % ALIGNMENT != 0 && !out->failed) weft_strbuf_putc(out, ' ');
  weft_strbuf_putc(out, '\n');
  return out->failed ? WEFT_NO_MEMORY("writing %s", path) : NULL;
}

weft_status_t *weft_npy_write(const char *path, const weft_tensor_t *t) {
  weft_strbuf_t front = WEFT_STRBUF_INIT, header = WEFT_STRBUF_INIT;
  weft_file_writer_t *file = NULL;
  weft_status_t *s = print_header(t, path, &header);
  if (s != NULL) goto done;
  weft_strbuf_puts(&front, "\x93NUMPY\x01");
  weft_strbuf_putc(&front, '\0');
  weft_strbuf_putc(&front, (char)(header.length & 255));
  weft_strbuf_putc(&front, (char)(header.length >> 8));
  if (front.failed) s = WEFT_NO_MEMORY("writing %s", path);
  if (s == NULL) s = weft_file_writer_create(path, &file);
  if (s == NULL) s = weft_file_writer_append(file, front.data, front.length);
  if (s == NULL) s = weft_file_writer_append(file, header.data, header.length);
  if (s == NULL) s = weft_file_writer_append(file, t->data, t->bytes);
  if (s == NULL) {
    s = weft_file_writer_finish(file);
    file = NULL;
  }
done:
  weft_file_writer_abandon(file);
  weft_strbuf_deinit(&header);
  weft_strbuf_deinit(&front);
  return s;
}
