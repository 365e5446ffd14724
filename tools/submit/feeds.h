/* tools/submit/feeds.h - what is fed at each step: constants, whole arrays, or batches of arrays.
 *
 * NAME=VALUE feeds a scalar of the tensor's dtype, or a list of them; NAME=FILE.npy
 * an array. With a batch size, each step gets the next rows of every
 * array from a file (or of the arrays that are named to be batches), the same rows of all; an epoch's last batch may be
 * smaller. With shuffling each epoch has an order of its own, from a seed.
 */
#ifndef WEFT_TOOLS_SUBMIT_FEEDS_H_
#define WEFT_TOOLS_SUBMIT_FEEDS_H_

#include <tensorflow/c/c_api.h>

#include "base/str.h"
#include "tensor/tensor.h"

typedef struct weft_feed {
  TF_Output output;
  weft_tensor_t *data; /* the whole array or the scalar; owned */
  bool is_array;
  bool is_batch;       /* rows of it are fed, if there is a batch size */
  TF_Tensor *whole;    /* all of it, for every step; owned; NULL for what is cut, or not yet made */
} weft_feed_t;

typedef struct weft_feeds { /* Confined. */
  weft_feed_t *feeds;
  int n;
  int64_t rows;      /* of the arrays; 0: there are none */
  int64_t batch;     /* 0: arrays are fed whole */
  int64_t *order;    /* rows in the epoch's order; NULL: as in the file */
  int64_t epoch, next; /* how many epochs are over; position in this one */
  bool is_shuffled;
  uint64_t seed;
  uint64_t state;    /* of the shuffle's random numbers */
} weft_feeds_t;

/* Rows of the arrays, as positions in the epoch's order. Without --batch: 0 rows, and nothing is cut. */
typedef struct weft_batch {
  int64_t begin, rows;
} weft_batch_t;

/* How arrays become batches. */
typedef struct weft_batching {
  int64_t batch;     /* rows of a batch; 0: arrays are fed whole */
  const char *names; /* "x+y": the feeds that are cut; NULL: all arrays */
  bool is_shuffled;
  uint64_t seed;
} weft_batching_t;

/* `specs`: n texts NAME=VALUE. Errors: INVALID_ARGUMENT, NOT_FOUND naming the feed. */
WEFT_MUST_CHECK weft_status_t *weft_feeds_init(weft_feeds_t *f, TF_Graph *graph, const char *const *specs, int n,
                                               const weft_batching_t *how);
void weft_feeds_deinit(weft_feeds_t *f);
/* Steps on to the next batch; a new epoch may be shuffled. */
weft_batch_t weft_feeds_advance(weft_feeds_t *f);
/* Goes to row `next` of an epoch, as if all before it had been fed. Not backwards. */
void weft_feeds_seek(weft_feeds_t *f, int64_t epoch, int64_t next);
/* Is the feed cut into batches, or fed whole at every step? */
bool weft_feed_is_cut(const weft_feeds_t *f, const weft_feed_t *feed);
/* What the feed gives for `rows` rows from position `begin` on: a tensor of the caller's if it is cut, else one of the
 * feed's own, for all steps. Positions hold until the next advance. */
WEFT_MUST_CHECK weft_status_t *weft_feed_rows(weft_feeds_t *f, weft_feed_t *feed, int64_t begin, int64_t rows, TF_Tensor **out);

/* A C API tensor with a copy of `rows` rows of `t` (or all of it if order is NULL and rows < 0). */
WEFT_MUST_CHECK weft_status_t *weft_gather_rows(const weft_tensor_t *t, const int64_t *order, int64_t begin, int64_t rows,
                                                TF_Tensor **out);

#endif /* WEFT_TOOLS_SUBMIT_FEEDS_H_ */
