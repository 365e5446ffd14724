/* device/cuda/physical.h - the cards of this machine, and the context that all uses of one share. */
#ifndef WEFT_DEVICE_CUDA_PHYSICAL_H_
#define WEFT_DEVICE_CUDA_PHYSICAL_H_

#include <cuda.h>
#include <stdbool.h>

#include "device/cuda/module.h"

/* What a library of NVIDIA's keeps for a card. */
typedef enum weft_cuda_library {
  WEFT_CUDA_BLAS,
  WEFT_CUDA_DNN,
  WEFT_CUDA_FFT,
  WEFT_CUDA_NUM_LIBRARIES
} weft_cuda_library_t;

/* A card that is in use. Constant, but for the attachments. */
typedef struct weft_cuda_physical {
  int ordinal; /* the driver's number */
  int slot;    /* below WEFT_CUDA_MAX_DEVICES, among those in use */
  CUdevice handle;
  CUcontext context; /* the primary one, as libraries of NVIDIA want it */
  int capability_major, capability_minor;
  int num_processors;
  int cache_bytes; /* of the second level */
  int numa_node;   /* -1: not known */
  char description[256];
  bool has_uuid;
  CUuuid uuid;
  weft_cuda_modules_t *modules;
  struct weft_cuda_attachment { /* physical.c's */
    void *value;                /* atomic */
    void (*destroy)(void *value);
  } attachments[WEFT_CUDA_NUM_LIBRARIES];
} weft_cuda_physical_t;

/* How many there are, and which of the first `max` have a compute capability that kernels were compiled for.
 * The driver is open. */
WEFT_Failure *weft_cuda_physical_count(int max, bool *out_usable, int *out);
/* Counted: the first use makes the context. Thread-safe. Errors: RESOURCE_EXHAUSTED, the driver's. */
WEFT_Failure *weft_cuda_physical_retain(int ordinal, weft_cuda_physical_t **out);
void weft_cuda_physical_release(weft_cuda_physical_t *p); /* the last one ends the context. NULL is fine */

/* May work in the context of `to` read the memory of `from`? Lets it at the first call. Thread-safe. */
bool weft_cuda_physical_reaches(const weft_cuda_physical_t *from, const weft_cuda_physical_t *to);

/* May work of the card with that UUID, which need not be in use here or visible, read the memory of `from`?
 * True, too, where only the attempt can tell. */
bool weft_cuda_physical_may_be_read_by(const weft_cuda_physical_t *from, const CUuuid *reader);

/* What `which` keeps for the card, made at the first call. It ends by destroy(), with the context. The card's
 * context is current. Thread-safe. Errors: make()'s. */
WEFT_Failure *weft_cuda_physical_attachment(weft_cuda_physical_t *p, weft_cuda_library_t which,
                                            WEFT_Failure *(*make)(void **out), void (*destroy)(void *value),
                                            void **out);

#endif /* WEFT_DEVICE_CUDA_PHYSICAL_H_ */
