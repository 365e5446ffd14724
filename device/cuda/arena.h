/* device/cuda/arena.h - a caching allocator: large regions from a source, cut into blocks.
 *
 * Blocks are given out in the order of one queue: a block that is freed is reused at once, with the mark
 * `after` behind which its last work ends; work on that queue need not look at it, any other has to wait for
 * it. Free neighbours are joined, and have the later of their marks. Sizes are rounded up to 256 bytes, the
 * best fit is taken, and what is left of it is cut off.
 *
 * Source of the form: TensorFlow's BFC allocator (tensorflow/tsl/framework/bfc_allocator.h), except that free
 * blocks lie in lists of four sizes for each power of two, of which the first that can have a fit is
 * searched, and that a region that is free as a whole goes back before the memory counts as used up.
 */
#ifndef WEFT_DEVICE_CUDA_ARENA_H_
#define WEFT_DEVICE_CUDA_ARENA_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { WEFT_CUDA_ALIGNMENT = 256 };

typedef struct weft_cuda_arena weft_cuda_arena_t; /* Thread-safe. */

/* Where regions come from. Called under the arena's lock. */
typedef struct weft_cuda_arena_source {
  void *(*get)(void *arg, size_t bytes); /* aligned to 256; NULL: there is none */
  void (*give_back)(void *arg, void *p, size_t bytes);
  uint64_t (*passed)(void *arg); /* all marks up to this one have passed */
  void *arg;
} weft_cuda_arena_source_t;

typedef struct weft_cuda_arena_statistics {
  size_t limit;        /* of all regions */
  size_t reserved;     /* in regions */
  size_t in_use, peak; /* in blocks */
  size_t largest_free; /* the largest block that can be had without another region */
  size_t num_in_use, num_allocations;
} weft_cuda_arena_statistics_t;

/* grow: regions of 2 MiB and more, each twice the last, as they are needed; else one of all of `limit`, or of
 * as much of it as there is. NULL: no memory for the arena itself. */
weft_cuda_arena_t *weft_cuda_arena_create(const weft_cuda_arena_source_t *source, size_t limit, bool grow);
void weft_cuda_arena_destroy(weft_cuda_arena_t *a); /* gives back all regions. NULL is fine */

/* NULL: no free block has that size, and no region can be had. */
void *weft_cuda_arena_allocate(weft_cuda_arena_t *a, size_t bytes, uint64_t *after);
/* A block that allocate() gave. `used`: as for WEFT_DeviceType.deallocate. Never fails. */
void weft_cuda_arena_free(weft_cuda_arena_t *a, void *p, uint64_t used);
/* The region that the address lies in. It is not given back any more before the arena ends. False: there is
 * none. */
bool weft_cuda_arena_keep_region(weft_cuda_arena_t *a, const void *p, void **out_at, size_t *out_bytes);
bool weft_cuda_arena_has(weft_cuda_arena_t *a, const void *p); /* is it an address in one of the regions? */
void weft_cuda_arena_statistics(weft_cuda_arena_t *a, weft_cuda_arena_statistics_t *out);

#endif /* WEFT_DEVICE_CUDA_ARENA_H_ */
