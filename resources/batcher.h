/* resources/batcher.h - joins the rows of several steps' requests to batches.
 *
 * A request waits, without a thread, until its batch is full or old enough and one of a limited number of
 * batches may run; then the batch is handed to its leader, the last request in it, whose step computes with
 * the rows of all. A request that does not fit goes into several batches, in pieces, where the batcher
 * splits.
 *
 *   weft_batcher_add -> queued -> in batches that run -> weft_batch_end of the last piece -> done
 *         |               |               `- its step is cancelled: done at once; but a leader ends with its
 *         |               |                  batch, whose work the same step cancels
 *         |               `----------------- likewise: the request leaves its queue
 *         `- refused: done
 */
#ifndef WEFT_RESOURCES_BATCHER_H_
#define WEFT_RESOURCES_BATCHER_H_

#include "resources/wait_room.h"

typedef struct weft_batcher_options {
  int64_t max_running;      /* batches at once; of all queues */
  int64_t max_request_rows; /* negative: any number, but for an adaptive one */
  int64_t max_batch_rows;   /* likewise; smaller than the former only where requests are split */
  int64_t max_batches;      /* that wait, in a queue; likewise */
  int64_t timeout_micros;   /* how long a batch waits to get full */
  bool splits;              /* large requests into pieces */
  bool leaves_rest;     /* a batch that gets old while it has none of `sizes` leaves what is too much for the
                           one below to the next batch, if whole pieces are */
  const int64_t *sizes; /* num_sizes, rising; copied */
  int num_sizes;
  bool is_adaptive; /* made without a number of threads: TensorFlow words some errors otherwise */
} weft_batcher_options_t;

typedef struct weft_batcher weft_batcher_t; /* Thread-safe. A weft_object_t in front. */
extern const weft_resource_type_t weft_batcher_type;
/* `timer` outlives it. Errors: INVALID_ARGUMENT (max_running), RESOURCE_EXHAUSTED. */
WEFT_MUST_CHECK weft_status_t *weft_batcher_create(const weft_batcher_options_t *options, weft_timer_t *timer,
                                                   weft_object_t **out);

typedef struct weft_batch weft_batch_t;
typedef struct weft_batch_request weft_batch_request_t;

/* Some rows of a request, in a batch. */
typedef struct weft_batch_piece {
  weft_batch_request_t *request;
  int64_t first_row, rows;
  weft_tensor_t **results; /* num_results of the request, NULL at first: set by the leader; owned */
  struct weft_batch_piece *next;
} weft_batch_piece_t;

/* Batches that run. Confined to their leader. */
struct weft_batch {
  weft_batch_piece_t *first, *last; /* at least one */
  int num_pieces;
  int64_t rows;
  weft_batcher_t *batcher;
  weft_batch_t *next; /* the batcher's own */
};

/* What a request is made of; copied, inputs are retained. */
typedef struct weft_batch_spec {
  weft_resource_call_t call; /* its outputs are the results, num_results of them */
  const weft_value_t *inputs;
  int num_inputs, num_results;
  int64_t rows; /* of each input; > 0 */
  int64_t id;
  /* Called once for each batch that the request leads, with no lock held, on any thread: must be quick. Ends,
   * at once or later, in weft_batch_end(). The request, `batch->last->request`, lives until then, and so does
   * its step. */
  void (*run)(weft_batch_t *batch);
} weft_batch_spec_t;

/* Part of the rows of a request: kept until the request and all its batches have ended. */
struct weft_batch_request {
  weft_batch_spec_t spec; /* constant */
  weft_tensor_t **inputs; /* num_inputs */
  /* The batcher's own. */
  weft_batcher_t *batcher;
  weft_batch_piece_t *pieces;
  int num_pieces;
  int num_left; /* guarded by the batcher, as what follows: pieces that have not ended, and holds */
  int num_led;  /* batches that run */
  bool is_ended;
  weft_status_t *status; /* the first failure of a piece */
  uint64_t token;        /* of the canceller */
};

/* Adds a request to the queue of that name (copied). The caller has a reference to the batcher. Ends the
 * call, at once or later. Errors (through the call), as TensorFlow words them: INVALID_ARGUMENT (options;
 * more rows than max_request_rows), UNAVAILABLE (the queue is full), CANCELLED (the step, or the batcher was
 * abandoned), those of the batch. */
void weft_batcher_add(weft_batcher_t *b, weft_str_t queue, const weft_batch_spec_t *spec);
/* The leader's work is done; owns `status`. After a success every piece has its results. */
void weft_batch_end(weft_batch_t *batch, weft_status_t *status);

/* The tensors' rows, one tensor after the other. `allocator` NULL: the heap. Errors: INVALID_ARGUMENT (ranks
 * or other dimensions differ), RESOURCE_EXHAUSTED. */
WEFT_MUST_CHECK weft_status_t *weft_batch_join(weft_tensor_t *const *parts, int n,
                                               weft_allocator_t *allocator, weft_tensor_t **out);

#endif /* WEFT_RESOURCES_BATCHER_H_ */
