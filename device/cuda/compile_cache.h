/* device/cuda/compile_cache.h - compiled kernels on disk.
 *
 * A file for each key and text, named by their hash. It holds both, and its last bytes are a checksum, so
 * that two texts of one hash or a damaged file cost a compilation and nothing else.
 */
#ifndef WEFT_DEVICE_CUDA_COMPILE_CACHE_H_
#define WEFT_DEVICE_CUDA_COMPILE_CACHE_H_

#include <stdbool.h>
#include <stddef.h>

/* What was stored for `key` ("sm_90 13.0") and `text`. *out_image is owned: free it with weft_free. False:
 * there is nothing. */
bool weft_cuda_cache_find(const char *key, const char *text, char **out_image, size_t *out_bytes);
/* Stores it, if there is a place for it. Other processes see the whole file or none. */
void weft_cuda_cache_store(const char *key, const char *text, const char *image, size_t bytes);

#endif /* WEFT_DEVICE_CUDA_COMPILE_CACHE_H_ */
