/* collectives/negotiated/named.h - a request by name, and its encoding. */
#ifndef WEFT_COLLECTIVES_NEGOTIATED_NAMED_H_
#define WEFT_COLLECTIVES_NEGOTIATED_NAMED_H_

#include "base/arena.h"
#include "collectives/collectives.h"

typedef enum weft_named_kind {
  WEFT_NAMED_ALL_REDUCE,
  WEFT_NAMED_ADASUM,     /* floating dtypes, 2^k members */
  WEFT_NAMED_ALL_GATHER, /* first dimensions may differ */
  WEFT_NAMED_BROADCAST,
  WEFT_NAMED_JOIN, /* no tensor: the member has no more work, and gives zeros to reductions until all have
                      joined */
} weft_named_kind_t;
const char *weft_named_kind_text(weft_named_kind_t k); /* "all-reduce" */

/* All that must be alike on all members, but the shape's first dimension in an all-gather. */
typedef struct weft_named_request {
  weft_named_kind_t kind;
  weft_str_t name;
  int process_set; /* 0: all */
  weft_dtype_t dtype;
  weft_shape_t shape;
  weft_reduction_t reduction;
  bool is_mean;
  int root;                   /* of a broadcast: rank among all */
  double prescale, postscale; /* 0 is 1; of floating dtypes */
  weft_str_t group;           /* tensors of one group are reduced together or not at all; empty: none */
  int group_members;          /* how many they are */
} weft_named_request_t;

/* By which a name is found in its process set. Two names may have one number. */
uint64_t weft_named_hash(const weft_named_request_t *r);
/* Would the two make the same response? Names and groups are not compared. */
bool weft_named_same(const weft_named_request_t *a, const weft_named_request_t *b);
/* May they share a buffer? */
bool weft_named_fuses(const weft_named_request_t *a, const weft_named_request_t *b);

/* Appends one request to a list's bytes. */
void weft_named_encode(const weft_named_request_t *r, weft_strbuf_t *out);
/* Takes the next request off `list`; texts are views into it. False at its end. Errors: INVALID_ARGUMENT for
 * other bytes. */
WEFT_MUST_CHECK weft_status_t *weft_named_decode(weft_str_t *list, weft_named_request_t *out,
                                                 bool *out_is_there);

#endif /* WEFT_COLLECTIVES_NEGOTIATED_NAMED_H_ */
