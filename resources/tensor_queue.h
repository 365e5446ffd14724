/* resources/tensor_queue.h - a queue of tuples of tensors, of four kinds.
 *
 * FIFO and padding queues hand out in the order of arrival, a shuffling queue in
 * random order once it holds more than min_after_dequeue, a priority queue the
 * smallest int64 first. Operations wait without a thread. Closing: enqueues
 * fail, dequeues go on as long as there is enough.
 */
#ifndef WEFT_RESOURCES_TENSOR_QUEUE_H_
#define WEFT_RESOURCES_TENSOR_QUEUE_H_

#include "resources/tensor_queue_store.h"
#include "resources/wait_room.h"

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

/* Each ends its call, at once or later; a dequeue's outputs are the components. Errors (through the call):
 * INVALID_ARGUMENT (types, shapes), CANCELLED (closed, step cancelled), OUT_OF_RANGE (closed and not enough
 * left), RESOURCE_EXHAUSTED. */
void weft_tensor_queue_enqueue(weft_tensor_queue_t *q, const weft_resource_call_t *call,
                               const weft_value_t *components, int n, bool is_many);
void weft_tensor_queue_dequeue(weft_tensor_queue_t *q, const weft_resource_call_t *call);
/* `n` >= 0 tuples, stacked; `is_up_to`: fewer when it is closed. */
void weft_tensor_queue_dequeue_many(weft_tensor_queue_t *q, const weft_resource_call_t *call, int64_t n,
                                    bool is_up_to);
void weft_tensor_queue_close(weft_tensor_queue_t *q, const weft_resource_call_t *call, bool cancel_pending);
int64_t weft_tensor_queue_size(weft_tensor_queue_t *q);
bool weft_tensor_queue_is_closed(weft_tensor_queue_t *q);

#endif /* WEFT_RESOURCES_TENSOR_QUEUE_H_ */
