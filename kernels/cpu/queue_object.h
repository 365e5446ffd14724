/* kernels/cpu/queue_object.h - a queue of tuples of tensors, of four kinds.
 *
 * FIFO and padding queues hand out in the order of arrival, a shuffling queue in
 * random order once it holds more than min_after_dequeue, a priority queue the
 * smallest int64 first. Operations wait without a thread. Closing: enqueues
 * fail, dequeues go on as long as there is enough.
 */
#ifndef WEFT_KERNELS_CPU_QUEUE_OBJECT_H_
#define WEFT_KERNELS_CPU_QUEUE_OBJECT_H_

#include "kernels/kernel.h"

typedef enum weft_tensor_queue_kind {
  WEFT_QUEUE_FIFO,
  WEFT_QUEUE_PADDING,
  WEFT_QUEUE_SHUFFLE,
  WEFT_QUEUE_PRIORITY
} weft_tensor_queue_kind_t;

/* What nodes that share a queue must agree on. */
typedef struct weft_tensor_queue_config {
  weft_tensor_queue_kind_t kind;
  int num_components;
  weft_dtype_t *dtypes; /* num_components */
  weft_shape_t *shapes; /* num_components; NULL: any shapes */
  int64_t capacity;     /* INT32_MAX: no limit */
  int64_t min_after_dequeue, seed, seed2;
} weft_tensor_queue_config_t;

typedef struct weft_tensor_queue weft_tensor_queue_t; /* Thread-safe. A weft_object_t in front. */
extern const weft_resource_type_t weft_tensor_queue_type;

const char *weft_tensor_queue_kind_name(weft_tensor_queue_kind_t kind); /* "FIFOQueue" */
/* `config` is copied, its arrays are taken over on success. `name` is copied. */
WEFT_MUST_CHECK weft_status_t *weft_tensor_queue_create(const char *name,
                                                        const weft_tensor_queue_config_t *config,
                                                        weft_object_t **out);
const weft_tensor_queue_config_t *weft_tensor_queue_config(const weft_tensor_queue_t *q);
void weft_tensor_queue_config_deinit(weft_tensor_queue_config_t *config);

/* Each calls ctx->done once, at once or later. Components are the inputs from 1 on; outputs are the
 * components. Errors (through done): INVALID_ARGUMENT (types, shapes), CANCELLED (closed, step cancelled),
 * OUT_OF_RANGE (closed and not enough left), RESOURCE_EXHAUSTED. */
void weft_tensor_queue_enqueue(weft_tensor_queue_t *q, weft_kernel_ctx_t *ctx, bool is_many);
void weft_tensor_queue_dequeue(weft_tensor_queue_t *q, weft_kernel_ctx_t *ctx);
/* `n` >= 0 tuples, stacked; `is_up_to`: fewer when it is closed. */
void weft_tensor_queue_dequeue_many(weft_tensor_queue_t *q, weft_kernel_ctx_t *ctx, int64_t n, bool is_up_to);
void weft_tensor_queue_close(weft_tensor_queue_t *q, weft_kernel_ctx_t *ctx, bool cancel_pending);
int64_t weft_tensor_queue_size(weft_tensor_queue_t *q);
bool weft_tensor_queue_is_closed(weft_tensor_queue_t *q);

/* ---- of the store (queue_store.c), for queue_object.c alone ---- */

/* One tuple. */
typedef struct weft_tensor_queue_item weft_tensor_queue_item_t;
struct weft_tensor_queue_item {
  weft_tensor_queue_item_t *next; /* in whichever list holds it */
  int64_t priority, number;       /* of a priority queue; number breaks ties */
  int num_parts;
  weft_tensor_t *parts[]; /* owned */
};
weft_tensor_queue_item_t *weft_tensor_queue_item_new(int num_parts); /* NULL without memory */
void weft_tensor_queue_item_free(weft_tensor_queue_item_t *item);    /* and those behind it; NULL is fine */

/* Items in the order in which they leave, but for shuffling, where the order is drawn as they leave.
 * Confined: the queue's lock guards it. Room is made beforehand, so that adding cannot fail. */
typedef struct weft_tensor_queue_store {
  weft_tensor_queue_kind_t kind;
  weft_tensor_queue_item_t *
      *slots; /* a ring; of a priority queue a heap from 0 on; shuffled: from 0 on, no order */
  size_t capacity, head, count;
  int64_t next_number;
  uint32_t key[2], counter[4], drawn[4]; /* Philox */
  int num_drawn;
} weft_tensor_queue_store_t;
void weft_tensor_queue_store_init(weft_tensor_queue_store_t *s, weft_tensor_queue_kind_t kind, int64_t seed,
                                  int64_t seed2);
void weft_tensor_queue_store_deinit(weft_tensor_queue_store_t *s);
/* Moves everything to `slots` (of `capacity`, more than before) and returns the old ones, for the caller to
 * free. */
weft_tensor_queue_item_t **weft_tensor_queue_store_move(weft_tensor_queue_store_t *s,
                                                        weft_tensor_queue_item_t **slots, size_t capacity);
void weft_tensor_queue_store_push(weft_tensor_queue_store_t *s, weft_tensor_queue_item_t *item);
void weft_tensor_queue_store_push_front(weft_tensor_queue_store_t *s, weft_tensor_queue_item_t *item);
weft_tensor_queue_item_t *weft_tensor_queue_store_pop(weft_tensor_queue_store_t *s); /* count > 0 */

#endif /* WEFT_KERNELS_CPU_QUEUE_OBJECT_H_ */
