/* kernels/cpu/dataset/cache.h - what the caches in memory and on disk share. */
#ifndef WEFT_KERNELS_CPU_DATASET_CACHE_H_
#define WEFT_KERNELS_CPU_DATASET_CACHE_H_

#include "kernels/cpu/dataset/dataset.h"

/* The first part of a cache's params. */
typedef struct weft_cache_params {
  weft_dataset_params_t base; /* first */
  char *prefix;               /* owned: of the bundle on disk; NULL: in memory */
} weft_cache_params_t;

extern const weft_dataset_class_t weft_file_cache_class; /* cache_file.c */

/* Logs that a pass ended before its input did (cache_file.c). */
void weft_cache_was_cut_short(void);

#endif /* WEFT_KERNELS_CPU_DATASET_CACHE_H_ */
