/* resources/tensor_queue_store.h - tuples of tensors in the order in which they leave a queue or a barrier.
 */
#ifndef WEFT_RESOURCES_TENSOR_QUEUE_STORE_H_
#define WEFT_RESOURCES_TENSOR_QUEUE_STORE_H_

#include "tensor/tensor.h"

typedef enum weft_tensor_queue_kind {
  WEFT_QUEUE_FIFO,
  WEFT_QUEUE_PADDING,
  WEFT_QUEUE_SHUFFLE,
  WEFT_QUEUE_PRIORITY
} weft_tensor_queue_kind_t;

/* One tuple. */
typedef struct weft_tensor_queue_item weft_tensor_queue_item_t;
struct weft_tensor_queue_item {
  weft_tensor_queue_item_t *next; /* in whichever list holds it */
  int64_t priority;               /* of a priority queue: the least leaves first */
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

#endif /* WEFT_RESOURCES_TENSOR_QUEUE_STORE_H_ */
