/* client/device_list.c - the devices that a session may use. */
#include "client/device_list.h"

#include "base/alloc.h"
#include "client/session.h"
#include "client/status.h"

struct TF_DeviceList {
  weft_device_list_t list; /* texts in its arena, '\0'-ended */
};

TF_DeviceList *weft_client_list_devices(weft_connection_t *c, TF_Status *status) {
  TF_DeviceList *l = weft_calloc(1, sizeof *l);
  weft_status_t *s =
      l == NULL ? WEFT_NO_MEMORY("a list of devices") : weft_connection_list_devices(c, &l->list);
  if (weft_client_end(status, s)) return l;
  weft_free(l);
  return NULL;
}

/* Without a session yet, one with an empty graph is made, as TensorFlow's client does. */
TF_DeviceList *TF_SessionListDevices(TF_Session *session, TF_Status *status) {
  weft_status_t *s = NULL;
  weft_mutex_lock(&session->extending);
  if (!weft_connection_has_session(session->connection))
    s = weft_connection_extend(session->connection, WEFT_STR(""));
  weft_mutex_unlock(&session->extending);
  return weft_client_end(status, s) ? weft_client_list_devices(session->connection, status) : NULL;
}

void TF_DeleteDeviceList(TF_DeviceList *list) {
  if (list == NULL) return;
  weft_device_list_deinit(&list->list);
  weft_free(list);
}

int TF_DeviceListCount(const TF_DeviceList *list) { return list->list.n; }

static const weft_device_attributes_t *device(const TF_DeviceList *list, int index, TF_Status *status) {
  weft_status_t *s = NULL;
  if (list == NULL) {
    s = WEFT_ERROR(INVALID_ARGUMENT, "list is null!");
  } else if (index < 0 || index >= list->list.n) {
    s = WEFT_ERROR(INVALID_ARGUMENT, "index out of bounds");
  }
  return weft_client_end(status, s) ? &list->list.devices[index] : NULL;
}

const char *TF_DeviceListName(const TF_DeviceList *list, int index, TF_Status *status) {
  const weft_device_attributes_t *d = device(list, index, status);
  return d == NULL ? NULL : d->name.data;
}

const char *TF_DeviceListType(const TF_DeviceList *list, int index, TF_Status *status) {
  const weft_device_attributes_t *d = device(list, index, status);
  return d == NULL ? NULL : d->type.data;
}

int64_t TF_DeviceListMemoryBytes(const TF_DeviceList *list, int index, TF_Status *status) {
  const weft_device_attributes_t *d = device(list, index, status);
  return d == NULL ? -1 : d->memory_limit;
}

uint64_t TF_DeviceListIncarnation(const TF_DeviceList *list, int index, TF_Status *status) {
  const weft_device_attributes_t *d = device(list, index, status);
  return d == NULL ? 0 : d->incarnation;
}
