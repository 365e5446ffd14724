/* client/device_list.h - TF_DeviceList. */
#ifndef WEFT_CLIENT_DEVICE_LIST_H_
#define WEFT_CLIENT_DEVICE_LIST_H_

#include "client/connection.h"

/* The devices of a connection, which must have a session. NULL and *status set on failure. */
TF_DeviceList *weft_client_list_devices(weft_connection_t *c, TF_Status *status);

#endif /* WEFT_CLIENT_DEVICE_LIST_H_ */
