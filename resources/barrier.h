/* resources/barrier.h - tuples that are put together from components by key, and taken when they are whole.
 *
 * A key gets its index at its first insertion, one with all new keys of that insertion; whole tuples leave by
 * index.
 * Inserting never waits; taking does. Once closed, no new key comes in, but
 * those that are there may still be completed, unless pending ones are cancelled.
 */
#ifndef WEFT_RESOURCES_BARRIER_H_
#define WEFT_RESOURCES_BARRIER_H_

#include "resources/wait_room.h"

typedef struct weft_barrier_config {
  int num_components;
  weft_dtype_t *dtypes; /* owned, as shapes */
  weft_shape_t *shapes; /* NULL: any */
} weft_barrier_config_t;
/* Copies both lists. Errors: RESOURCE_EXHAUSTED; deinit is then not needed. */
WEFT_MUST_CHECK weft_status_t *weft_barrier_config_init(weft_barrier_config_t *out,
                                                        const weft_dtype_t *dtypes,
                                                        const weft_shape_t *shapes, int n);
void weft_barrier_config_deinit(weft_barrier_config_t *c);

typedef struct weft_barrier weft_barrier_t; /* Thread-safe. A weft_object_t in front. */
extern const weft_resource_type_t weft_barrier_type;

/* `name` and `config` are copied. */
WEFT_MUST_CHECK weft_status_t *weft_barrier_create(const char *name, const weft_barrier_config_t *config,
                                                   weft_object_t **out);
const char *weft_barrier_name(const weft_barrier_t *b);
const weft_barrier_config_t *weft_barrier_config(const weft_barrier_t *b);
/* Gives each key its row of `values` as `component`. Errors: INVALID_ARGUMENT (types, shapes, a component
 * that a key has already), CANCELLED (a new key, and the barrier is closed). */
WEFT_MUST_CHECK weft_status_t *weft_barrier_insert(weft_barrier_t *b, const weft_tensor_t *keys,
                                                   const weft_tensor_t *values, int64_t component);
/* Ends the call, at once or later, with n whole tuples; `takes_fewer`: what there is when it is closed.
 * Outputs: indices, keys, components. Errors: OUT_OF_RANGE (closed and not enough), CANCELLED,
 * INVALID_ARGUMENT. */
void weft_barrier_take(weft_barrier_t *b, const weft_resource_call_t *call, int64_t n, bool takes_fewer);
/* `cancels`: keys that are incomplete are dropped. Errors: CANCELLED: it was closed like that before. */
WEFT_MUST_CHECK weft_status_t *weft_barrier_close(weft_barrier_t *b, bool cancels);
void weft_barrier_sizes(weft_barrier_t *b, size_t *out_ready, size_t *out_incomplete);

#endif /* WEFT_RESOURCES_BARRIER_H_ */
