/* device/cuda/collectives.c - which way a collective takes. */
#include "device/cuda/collectives.h"

#include "base/alloc.h"
#include "base/status.h"
#include "device/cuda/card_collectives.h"
#include "device/cuda/collective_args.h"
#include "device/cuda/launch.h"
#include "device/cuda/nccl.h"

typedef struct cuda_communicator {
  weft_cuda_nccl_t *nccl; /* NULL: all are of one card */
  int n;
  weft_cuda_device_t *devices[];
} cuda_communicator_t;

static bool are_of_one_card(weft_cuda_device_t *const *devices, int n) {
  for (int i = 1; i < n; i++) {
    if (devices[i]->physical != devices[0]->physical) return false;
  }
  return true;
}

static bool are_of_a_card_each(weft_cuda_device_t *const *devices, int n) {
  for (int i = 0; i < n; i++) {
    for (int k = 0; k < i; k++) {
      if (devices[k]->physical == devices[i]->physical) return false;
    }
  }
  return true;
}

static WEFT_Failure *join(void *const *devices, int n, int *out_by_first, void **out) {
  cuda_communicator_t *c = weft_calloc(1, sizeof *c + (size_t)n * sizeof c->devices[0]);
  if (c == NULL)
    return weft_cuda_host->failure(WEFT_RESOURCE_EXHAUSTED, "out of memory: a communicator of %d GPUs", n);
  c->n = n;
  for (int i = 0; i < n; i++) c->devices[i] = devices[i];
  WEFT_Failure *f = NULL;
  *out_by_first = are_of_one_card(c->devices, n) && n <= WEFT_CUDA_RANKS;
  if (*out_by_first == 0 && are_of_a_card_each(c->devices, n)) {
    f = weft_cuda_nccl_create(c->devices, n, &c->nccl);
  } else if (*out_by_first == 0) {
    f = weft_cuda_host->failure(WEFT_UNIMPLEMENTED, "several GPUs of one card among those of others");
  }
  if (f != NULL) {
    weft_free(c);
    return f;
  }
  *out = c;
  return NULL;
}

static WEFT_Failure *unique_id(void *const *devices, int n, unsigned char *out_id) {
  weft_cuda_device_t *const *own = (weft_cuda_device_t *const *)(const void *)devices;
  if (!are_of_a_card_each(own, n))
    return weft_cuda_host->failure(WEFT_UNIMPLEMENTED, "several GPUs of one card among those of others");
  return weft_cuda_nccl_unique_id(out_id);
}

static WEFT_Failure *join_ranks(void *const *devices, const int *ranks, int num_devices, int n,
                                const unsigned char *id, void **out) {
  weft_cuda_device_t *const *own = (weft_cuda_device_t *const *)(const void *)devices;
  cuda_communicator_t *c = weft_calloc(1, sizeof *c);
  if (c == NULL)
    return weft_cuda_host->failure(WEFT_RESOURCE_EXHAUSTED, "out of memory: a communicator of %d GPUs", n);
  WEFT_Failure *f = weft_cuda_nccl_join(own, ranks, num_devices, n, id, &c->nccl);
  if (f != NULL) {
    weft_free(c);
    return f;
  }
  *out = c;
  return NULL;
}

static void leave(void *communicator) {
  cuda_communicator_t *c = communicator;
  weft_cuda_nccl_destroy(c->nccl);
  weft_free(c);
}

static WEFT_Failure *enqueue(void *communicator, const WEFT_Collective *what,
                             const WEFT_CollectiveRank *ranks) {
  cuda_communicator_t *c = communicator;
  if (c->nccl != NULL) return weft_cuda_nccl_enqueue(c->nccl, what, ranks);
  return weft_cuda_card_collective(c->devices, c->n, what, ranks);
}

static void abort_all(void *communicator, const WEFT_Failure *why) {
  cuda_communicator_t *c = communicator;
  if (c->nccl != NULL) weft_cuda_nccl_abort(c->nccl, why);
}

const WEFT_DeviceCollectives weft_cuda_collectives = {
    .size = sizeof weft_cuda_collectives,
    .join = join,
    .leave = leave,
    .enqueue = enqueue,
    .abort = abort_all,
    .unique_id = unique_id,
    .join_ranks = join_ranks,
};
