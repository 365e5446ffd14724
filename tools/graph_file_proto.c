/* tools/graph_file_proto.c - files to bytes. */
#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>

#include "protos/graph.pb-c.h"
#include "protos/text_format.h"
#include "protos/unpack.h"
#include "tools/graph_file.h"

weft_status_t *weft_file_read(const char *path, weft_strbuf_t *out) {
  enum { PIECE = 1 << 20 };
  struct stat info;
  FILE *f = fopen(path, "rb");
  if (f == NULL) return WEFT_ERROR(NOT_FOUND, "%s: %s", path, strerror(errno));
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

weft_status_t *weft_graph_file_read(const char *path, weft_strbuf_t *out) {
  weft_str_t name = weft_str(path);
  bool is_text = weft_str_ends_with(name, ".pbtxt") || weft_str_ends_with(name, ".txt");
  if (!is_text) {
    WEFT_RETURN_IF_ERROR(weft_file_read(path, out));
    weft_status_t *s =
        weft_proto_check(&tensorflow__graph_def__descriptor, weft_str_of(out->data, out->length));
    return s == NULL ? NULL
                     : weft_status_annotate(s, "%s is not a graph file (for text, name it .pbtxt)", path);
  }
  weft_strbuf_t text = WEFT_STRBUF_INIT;
  weft_status_t *s = weft_file_read(path, &text);
  if (s == NULL)
    s = weft_text_to_binary(&tensorflow__graph_def__descriptor, weft_str_of(text.data, text.length), path,
                            out);
  weft_strbuf_deinit(&text);
  return s;
}
