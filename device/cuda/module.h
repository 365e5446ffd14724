/* device/cuda/module.h - the compiled kernels that are embedded in the library. */
#ifndef WEFT_DEVICE_CUDA_MODULE_H_
#define WEFT_DEVICE_CUDA_MODULE_H_

/* A family's kernels as nvcc -fatbin writes them. Constant. A list ends with one that has no name. */
typedef struct weft_cuda_fatbin {
  const char *family;
  const unsigned char *bytes;
} weft_cuda_fatbin_t;

#endif /* WEFT_DEVICE_CUDA_MODULE_H_ */
