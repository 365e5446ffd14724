/* tools/submit/feeds.h - what is fed at each step: constants, whole arrays, or batches of arrays.
 *
 * NAME=VALUE feeds a scalar of the tensor's dtype, or a list of them; NAME=FILE.npy
 * an array. With a batch size, each step gets the next rows of every
 * array from a file, the same rows of all; an epoch's last batch may be smaller.
 * With shuffling each epoch has an order of its own, from a seed.
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
  TF_Tensor *batch;    /* of the current step; owned */
} weft_feed_t;

typedef struct weft_feeds { /* Confined. */
  weft_feed_t *feeds;
  int n;
  int64_t rows;      /* of the arrays; 0: there are none */
  int64_t batch;     /* 0: arrays are fed whole */
  int64_t *order;    /* rows in the epoch's order; NULL: as in the file */
  int64_t next;      /* position in the epoch */
  uint64_t state;    /* of the shuffle's random numbers */
  TF_Output *outputs;   /* for TF_SessionRun: n each */
  TF_Tensor **tensors;
} weft_feeds_t;

/* `specs`: n texts NAME=VALUE. batch 0: none. Errors: INVALID_ARGUMENT, NOT_FOUND naming the feed. */
WEFT_MUST_CHECK weft_status_t *weft_feeds_init(weft_feeds_t *f, TF_Graph *graph, const char *const *specs, int n,
                                               int64_t batch, bool shuffle, uint64_t seed);
void weft_feeds_deinit(weft_feeds_t *f);
/* Makes outputs and tensors those of the next step. */
WEFT_MUST_CHECK weft_status_t *weft_feeds_next(weft_feeds_t *f);

/* A C API tensor with a copy of `rows` rows of `t` (or all of it if order is NULL and rows < 0). */
WEFT_MUST_CHECK weft_status_t *weft_gather_rows(const weft_tensor_t *t, const int64_t *order, int64_t begin, int64_t rows,
                                                TF_Tensor **out);

#endif /* WEFT_TOOLS_SUBMIT_FEEDS_H_ */
