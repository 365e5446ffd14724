/* kernels/cpu/parsing/proto_source.c - see the header. */
#include "kernels/cpu/parsing/proto_source.h"

#include "base/alloc.h"
#include "io/file.h"
#include "protos/local_descriptors.h"

static const char bytes_prefix[] = "bytes://";

/* The set, lent from the attribute or owned by *p. */
static weft_status_t *read_set(weft_proto_fields_t *p, weft_str_t source, weft_str_t *out) {
  size_t length = 0, prefix = sizeof bytes_prefix - 1;
  if (weft_str_is(source, "local://")) {
    *out = weft_local_descriptors();
    return NULL;
  }
  if (weft_str_starts_with(source, bytes_prefix)) {
    *out = weft_str_of(source.data + prefix, source.length - prefix);
    return weft_descriptors_check(*out);
  }
  char *path = weft_strndup(source.data, source.length);
  if (path == NULL) return WEFT_NO_MEMORY("the name of a file");
  weft_status_t *s = weft_file_read_all(path, &p->owned, &length);
  weft_free(path);
  if (s == NULL) {
    *out = weft_str_of(p->owned, length);
    s = weft_descriptors_check(*out);
  }
  if (s == NULL || weft_status_code(s) == WEFT_RESOURCE_EXHAUSTED) return s;
  weft_status_free(s);
  return WEFT_ERROR(INVALID_ARGUMENT, "Source does not represent serialized file descriptor set proto: %.*s",
                    WEFT_STR_ARGS(source));
}

static void sort_by_number(weft_proto_fields_t *p) {
  for (int i = 0; i < p->n; i++) {
    int k = i;
    for (; k > 0 && p->fields[p->order[k - 1]].number > p->fields[i].number; k--)
      p->order[k] = p->order[k - 1];
    p->order[k] = i;
  }
}

weft_status_t *weft_proto_fields_init(weft_proto_fields_t *out, const weft_kernel_setup_t *setup,
                                      bool takes_extensions) {
  const weft_attr_t *names = weft_knode_attr(setup, "field_names");
  weft_str_t type = weft_knode_string(setup, "message_type"), set;
  *out = (weft_proto_fields_t){.n = names->n};
  WEFT_RETURN_IF_ERROR(read_set(out, weft_knode_string(setup, "descriptor_source"), &set));
  if (!weft_descriptor_find(set, type, &out->message)) {
    return WEFT_ERROR(INVALID_ARGUMENT, "No descriptor found for message type %.*s", WEFT_STR_ARGS(type));
  }
  out->fields = weft_calloc((size_t)names->n + 1, sizeof *out->fields);
  out->order = weft_calloc((size_t)names->n + 1, sizeof *out->order);
  if (out->fields == NULL || out->order == NULL) return WEFT_NO_MEMORY("%d fields of a message", names->n);
  for (int i = 0; i < names->n; i++) {
    weft_str_t name = names->list.strings[i];
    if (weft_descriptor_find_field(&out->message, name, &out->fields[i])) continue;
    if (takes_extensions && weft_descriptor_find_extension(&out->message, name, &out->fields[i])) continue;
    return WEFT_ERROR(INVALID_ARGUMENT, "Unknown field: %.*s in message type %.*s", WEFT_STR_ARGS(name),
                      WEFT_STR_ARGS(type));
  }
  sort_by_number(out);
  return NULL;
}

void weft_proto_fields_deinit(weft_proto_fields_t *p) {
  weft_free(p->owned);
  weft_free(p->fields);
  weft_free(p->order);
  *p = (weft_proto_fields_t){0};
}
