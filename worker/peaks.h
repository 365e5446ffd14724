/* worker/peaks.h - what the task's machine reaches at best: operations and bytes a second.
 *
 * Measured when an observer first asks, and kept: it takes some 0.2 s on all threads of the task, which steps
 * that run meanwhile feel, and which feels them. Operations: the device's own MatMul of float32 matrices of
 * 1024 or 4096 rows. Bytes: copies of 128 MiB, counted once read and once written.
 */
#ifndef WEFT_WORKER_PEAKS_H_
#define WEFT_WORKER_PEAKS_H_

#include "base/mutex.h"
#include "device/device.h"

/* Thread-safe. All zero but for the mutex. */
typedef struct weft_peaks {
  weft_mutex_t mu;
  bool is_measured;    /* guarded by mu */
  double flops, bytes; /* guarded by mu; a second; 0: it could not be measured */
} weft_peaks_t;

void weft_peaks_init(weft_peaks_t *p);
void weft_peaks_deinit(weft_peaks_t *p);
/* Measures if it was not done before; a second caller waits for the first. `d` is the host's CPU. Blocks: not
 * for threads that others wait for. */
void weft_peaks_get(weft_peaks_t *p, weft_device_t *d, double *out_flops, double *out_bytes);

#endif /* WEFT_WORKER_PEAKS_H_ */
