/* services/device_codec.c - DeviceAttributes, both ways. */
#include "services/device_codec.h"

static const weft_field_t device_attributes[] = {
    {1, WEFT_FIELD_TEXT, "name", offsetof(weft_device_attributes_t, name)},
    {2, WEFT_FIELD_TEXT, "device_type", offsetof(weft_device_attributes_t, type)},
    {4, WEFT_FIELD_I64, "memory_limit", offsetof(weft_device_attributes_t, memory_limit)},
    {6, WEFT_FIELD_FIXED64, "incarnation", offsetof(weft_device_attributes_t, incarnation)},
    {7, WEFT_FIELD_TEXT, "physical_device_desc", offsetof(weft_device_attributes_t, description)},
};
static const weft_message_type_t device_attributes_type =
    WEFT_MESSAGE_TYPE("DeviceAttributes", device_attributes);

weft_status_t *weft_devices_to_texts(const weft_device_list_t *devices, weft_arena_t *arena,
                                     weft_texts_t *out) {
  bool ok = true;
  for (int i = 0; i < devices->n && ok; i++)
    ok = weft_texts_add_message(out, arena, &device_attributes_type, &devices->devices[i]);
  return ok ? NULL : WEFT_NO_MEMORY("a list of %d devices", devices->n);
}

weft_status_t *weft_devices_from_texts(const weft_texts_t *texts, weft_device_list_t *out) {
  weft_arena_t arena = WEFT_ARENA_INIT;
  weft_status_t *s = NULL;
  for (int i = 0; i < texts->n && s == NULL; i++) {
    weft_device_attributes_t device = {.memory_limit = 0};
    s = weft_fields_decode_bytes(&device_attributes_type, texts->items[i], &arena, &device);
    if (s == NULL) s = weft_device_list_add(out, &device);
  }
  weft_arena_deinit(&arena);
  return s;
}
