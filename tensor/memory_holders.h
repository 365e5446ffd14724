/* tensor/memory_holders.h - which nodes and variables hold the bytes of a device's memory.
 *
 * A device with a memory of its own notes for each block what it was allocated for: the node that the calling
 * thread runs, or a variable once the block is its value. When the memory is used up, the failure lists what
 * holds most of it.
 *
 * Source of the form: TensorFlow's ScopedMemoryDebugAnnotation
 * (tensorflow/tsl/profiler/lib/scoped_memory_debug_annotation.h), whose allocator logs its chunks.
 */
#ifndef WEFT_TENSOR_MEMORY_HOLDERS_H_
#define WEFT_TENSOR_MEMORY_HOLDERS_H_

#include "base/str.h"
#include "tensor/tensor.h"

typedef enum weft_memory_use {
  WEFT_HELD_BY_OTHER, /* a graph's constants, copies that no node made */
  WEFT_HELD_BY_NODE,  /* its outputs */
  WEFT_HELD_BY_SCRATCH,
  WEFT_HELD_BY_VARIABLE
} weft_memory_use_t;

typedef struct weft_memory_holder {
  weft_memory_use_t use;
  weft_str_t name; /* lent */
} weft_memory_holder_t;

/* What the calling thread allocates for from now on; returns what it was before. The name stays until the
 * next call. */
weft_memory_holder_t weft_memory_hold_for(weft_memory_holder_t holder);
weft_memory_holder_t weft_memory_held_for(void); /* what it is now */

typedef struct weft_memory_holders weft_memory_holders_t; /* Of a memory. Thread-safe. */

/* What the device's allocator says of its memory; -1: not known. */
typedef struct weft_memory_state {
  int64_t limit, largest_free;
} weft_memory_state_t;
typedef void weft_memory_state_fn(void *arg, weft_memory_state_t *out);

/* `space` is found by its address until the holders are destroyed; `device`, its name, lives as long. NULL
 * without memory. */
weft_memory_holders_t *weft_memory_holders_create(const weft_memory_space_t *space, weft_str_t device,
                                                  weft_memory_state_fn *state, void *arg);
void weft_memory_holders_destroy(weft_memory_holders_t *h); /* NULL is fine */

/* A block was allocated for what the calling thread allocates for; the name is copied, the end of it if it is
 * long. False: no memory for the record. NULL holders are fine. */
bool weft_memory_holders_add(weft_memory_holders_t *h, const void *block, size_t bytes);
void weft_memory_holders_remove(weft_memory_holders_t *h, const void *block);

/* The bytes of `t` belong to `holder` from now on. Nothing happens for memory that has no holders. */
void weft_memory_belongs_to(const weft_tensor_t *t, weft_memory_holder_t holder);

/* Appends what a failure says of `space`: " on /job:... by allocator GPU_0_bfc: 10 bytes of 100 are in use,
 * ... held by variable 'w' (8 bytes), node 'a' (2 bytes)". Nothing for memory that has no holders. */
void weft_memory_explain(const weft_allocator_t *allocator, weft_strbuf_t *out);

#endif /* WEFT_TENSOR_MEMORY_HOLDERS_H_ */
