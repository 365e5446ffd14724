/* services/device_codec.c - DeviceAttributes, both ways. */
#include "services/device_codec.h"

/* DeviceLocality; what Weft knows of it. */
typedef struct device_locality {
  int64_t numa_node;
} device_locality_t;
static const weft_field_t device_locality[] = {
    {2, WEFT_FIELD_I64, "numa_node", offsetof(device_locality_t, numa_node)},
};
static const weft_message_type_t device_locality_type = WEFT_MESSAGE_TYPE("DeviceLocality", device_locality);

typedef struct device_msg {
  weft_device_attributes_t is;
  weft_str_t locality; /* its bytes */
} device_msg_t;
static const weft_field_t device_attributes[] = {
    {1, WEFT_FIELD_TEXT, "name", offsetof(device_msg_t, is.name)},
    {2, WEFT_FIELD_TEXT, "device_type", offsetof(device_msg_t, is.type)},
    {4, WEFT_FIELD_I64, "memory_limit", offsetof(device_msg_t, is.memory_limit)},
    {5, WEFT_FIELD_BYTES, "locality", offsetof(device_msg_t, locality)},
    {6, WEFT_FIELD_FIXED64, "incarnation", offsetof(device_msg_t, is.incarnation)},
    {7, WEFT_FIELD_TEXT, "physical_device_desc", offsetof(device_msg_t, is.description)},
};
static const weft_message_type_t device_attributes_type =
    WEFT_MESSAGE_TYPE("DeviceAttributes", device_attributes);

static bool add(const weft_device_attributes_t *d, weft_arena_t *arena, weft_texts_t *out) {
  const device_locality_t locality = {.numa_node = d->numa_node};
  weft_strbuf_t bytes = WEFT_STRBUF_INIT;
  device_msg_t m = {.is = *d};
  if (d->numa_node > 0) weft_fields_encode_bytes(&device_locality_type, &locality, &bytes);
  if (bytes.length > 0) m.locality = weft_str_of(bytes.data, bytes.length);
  const bool ok = !bytes.failed && weft_texts_add_message(out, arena, &device_attributes_type, &m);
  weft_strbuf_deinit(&bytes);
  return ok;
}

weft_status_t *weft_devices_to_texts(const weft_device_list_t *devices, weft_arena_t *arena,
                                     weft_texts_t *out) {
  bool ok = true;
  for (int i = 0; i < devices->n && ok; i++) ok = add(&devices->devices[i], arena, out);
  return ok ? NULL : WEFT_NO_MEMORY("a list of %d devices", devices->n);
}

static weft_status_t *read(weft_str_t text, weft_arena_t *arena, device_msg_t *m) {
  device_locality_t locality = {.numa_node = 0};
  WEFT_RETURN_IF_ERROR(weft_fields_decode_bytes(&device_attributes_type, text, arena, m));
  if (m->locality.length > 0)
    WEFT_RETURN_IF_ERROR(weft_fields_decode_bytes(&device_locality_type, m->locality, arena, &locality));
  m->is.numa_node = (int)locality.numa_node;
  return NULL;
}

weft_status_t *weft_devices_from_texts(const weft_texts_t *texts, weft_device_list_t *out) {
  weft_arena_t arena = WEFT_ARENA_INIT;
  weft_status_t *s = NULL;
  for (int i = 0; i < texts->n && s == NULL; i++) {
    device_msg_t m = {.is = {.memory_limit = 0}};
    s = read(texts->items[i], &arena, &m);
    if (s == NULL) s = weft_device_list_add(out, &m.is);
  }
  weft_arena_deinit(&arena);
  return s;
}
