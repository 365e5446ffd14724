/* tools/graph_file_proto.c - files to bytes. */
#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>

#include "protos/graph.pb-c.h"
#include "protos/meta_graph.pb-c.h"
#include "protos/text_format.h"
#include "protos/unpack.h"
#include "tools/graph_file.h"

weft_status_t *weft_file_read(const char *path, weft_strbuf_t *out) {
  enum { PIECE = 1 << 20 };
  struct stat info;
  FILE *f = fopen(path, "rb");
  if (f == NULL) {
    return WEFT_ERROR(NOT_FOUND, "%s: %s%s", path, strerror(errno),
                      strcmp(path, "-") == 0 ? "; standard input is /dev/stdin" : "");
  }
  if (fstat(fileno(f), &info) == 0 && (S_ISCHR(info.st_mode) || S_ISBLK(info.st_mode))) {
    fclose(f);
    return WEFT_ERROR(INVALID_ARGUMENT, "%s: it is a device, no file", path);
  }
  size_t n = PIECE;
  while (n == PIECE && out->length <= INT32_MAX) {
    char *to = weft_strbuf_reserve(out, PIECE);
    if (to == NULL) break;
    n = fread(to, 1, PIECE, f);
    out->length += n;
  }
  bool failed = ferror(f) != 0;
  fclose(f);
  if (out->failed) return WEFT_NO_MEMORY("reading %s", path);
  if (out->length > INT32_MAX)
    return WEFT_ERROR(INVALID_ARGUMENT, "%s: more than the 2 GiB that a graph can have", path);
  return failed ? WEFT_ERROR(INVALID_ARGUMENT, "%s: %s", path, strerror(errno)) : NULL;
}

static bool is_text(const char *path) {
  weft_str_t name = weft_str(path);
  return weft_str_ends_with(name, ".pbtxt") || weft_str_ends_with(name, ".txt");
}

/* What may be in a file: one of these. */
static const ProtobufCMessageDescriptor *const types[] = {&tensorflow__graph_def__descriptor,
                                                          &tensorflow__meta_graph_def__descriptor};

/* `bytes` as they are on the disk, to those of a message of this type. */
static weft_status_t *convert(const ProtobufCMessageDescriptor *type, const char *path, weft_strbuf_t *bytes,
                              weft_strbuf_t *out) {
  weft_str_t file = weft_str_of(bytes->data == NULL ? "" : bytes->data, bytes->length);
  if (is_text(path)) return weft_text_to_binary(type, file, path, out);
  WEFT_RETURN_IF_ERROR(weft_proto_check(type, file));
  *out = *bytes;
  *bytes = (weft_strbuf_t)WEFT_STRBUF_INIT;
  return NULL;
}

/* A file is first taken for a graph, unless its name says that it is a meta graph. What is wrong with it is
 * told of the type that it was taken for first. */
weft_status_t *weft_graph_file_read(const char *path, weft_strbuf_t *out, bool *out_is_meta) {
  weft_strbuf_t file = WEFT_STRBUF_INIT;
  int first = weft_str_ends_with(weft_str(path), ".meta") ? 1 : 0;
  WEFT_RETURN_IF_ERROR(weft_file_read(path, &file));
  weft_status_t *s = convert(types[first], path, &file, out);
  *out_is_meta = first == 1;
  if (s != NULL && weft_status_code(s) == WEFT_INVALID_ARGUMENT) {
    out->length = 0;
    weft_status_t *second = convert(types[1 - first], path, &file, out);
    *out_is_meta = first == 0;
    if (second == NULL) {
      weft_status_free(s);
      s = NULL;
    }
    weft_status_free(second);
  }
  weft_strbuf_deinit(&file);
  if (s == NULL || is_text(path)) return s;
  return weft_status_annotate(s, "%s is not a graph file (for text, name it .pbtxt)", path);
}
