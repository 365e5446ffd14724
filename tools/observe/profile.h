/* tools/observe/profile.h - the costs of steps, added up by op or by node, and what bounds them.
 *
 * Times of nodes overlap on several threads, so their sum may be more than the time of the steps: a share is
 * of the sum. Bytes are those of the tensors that a node reads and makes; operations are counted by
 * ops/cost.h. What comes from caches may be faster than the peak, which is that of memory.
 */
#ifndef WEFT_TOOLS_OBSERVE_PROFILE_H_
#define WEFT_TOOLS_OBSERVE_PROFILE_H_

#include "base/str.h"

typedef enum weft_profile_by { WEFT_PROFILE_BY_OP, WEFT_PROFILE_BY_NODE } weft_profile_by_t;

typedef enum weft_bound {
  WEFT_BOUND_NEITHER, /* less than a tenth of both peaks: it waits, or what it does is small */
  WEFT_BOUND_COMPUTE,
  WEFT_BOUND_MEMORY,
} weft_bound_t;
const char *weft_bound_name(weft_bound_t b); /* "compute", "memory", "neither" */

/* One line of the table: an op or a node of one device. */
typedef struct weft_profile_row {
  weft_str_t device, name, op; /* name: the node's, or "" by op; lent by the profile */
  int64_t count, time_ns, longest_ns;
  int64_t input_bytes, output_bytes;
  int64_t flops;     /* of the executions that are counted */
  int64_t num_flops; /* how many of `count` these are */
  bool moves_bytes; /* false: it hands its tensors on, or looks at their shapes only: Reshape, Identity, Shape
                     */
} weft_profile_row_t;

typedef struct weft_profile weft_profile_t; /* Confined. */

WEFT_MUST_CHECK weft_status_t *weft_profile_create(weft_profile_by_t by, weft_profile_t **out);
void weft_profile_destroy(weft_profile_t *p); /* NULL is fine */
/* A serialized StepStats of a record. What cannot be read is left out. Transfers between tasks are rows of
 * the receiving device, with the op "RecvTensor" and, by node, the tensor's name. Errors: RESOURCE_EXHAUSTED.
 */
WEFT_MUST_CHECK weft_status_t *weft_profile_add(weft_profile_t *p, weft_str_t step_stats);
/* All rows, the costliest first; lent until the next change. */
const weft_profile_row_t *const *weft_profile_rows(weft_profile_t *p, int *out_n);

/* What a row reaches, with its machine's peaks (operations and bytes a second; 0: not known). */
typedef struct weft_profile_rates {
  double flops, bytes;             /* a second */
  double share_flops, share_bytes; /* of the peaks; -1: not known, or no bytes are moved */
  weft_bound_t bound;
} weft_profile_rates_t;
weft_profile_rates_t weft_profile_row_rates(const weft_profile_row_t *r, double peak_flops,
                                            double peak_bytes);

#endif /* WEFT_TOOLS_OBSERVE_PROFILE_H_ */
