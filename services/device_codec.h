/* services/device_codec.h - DeviceAttributes, both ways: in GetStatus of workers and ListDevices of masters.
 */
#ifndef WEFT_SERVICES_DEVICE_CODEC_H_
#define WEFT_SERVICES_DEVICE_CODEC_H_

#include "rpc/fields.h"
#include "worker/worker_client.h"

/* One serialized DeviceAttributes each; the texts live in `arena`. Errors: RESOURCE_EXHAUSTED. */
WEFT_MUST_CHECK weft_status_t *weft_devices_to_texts(const weft_device_list_t *devices, weft_arena_t *arena,
                                                     weft_texts_t *out);
/* Appends to `out`, which the caller deinits also on failure. Errors: INVALID_ARGUMENT, RESOURCE_EXHAUSTED.
 */
WEFT_MUST_CHECK weft_status_t *weft_devices_from_texts(const weft_texts_t *texts, weft_device_list_t *out);

#endif /* WEFT_SERVICES_DEVICE_CODEC_H_ */
