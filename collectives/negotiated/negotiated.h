/* collectives/negotiated/negotiated.h - collectives by name, submitted in any order, from any thread.
 *
 * Each member of a group has a negotiator. What is submitted to it waits until all members
 * have submitted the same name; then all run it, and tensors that are small go
 * together in one buffer. A thread per negotiator works in cycles:
 *
 *   1. members exchange, one bit per name that was answered before, what they are ready for
 *   2. what all are ready for is run
 *   3. if a member has a new request, or one that differs from before, all members exchange their requests
 *
 * So in the steady state a cycle costs one small all-gather. All goes through
 * weft_collectives_run(), under keys of the negotiator's own.
 *
 * Source: Horovod's controller (reference strategies 3.7); what is different is said in negotiation.h.
 */
#ifndef WEFT_COLLECTIVES_NEGOTIATED_NEGOTIATED_H_
#define WEFT_COLLECTIVES_NEGOTIATED_NEGOTIATED_H_

#include "collectives/negotiated/named.h"
#include "collectives/negotiated/negotiation.h"

typedef struct weft_negotiator weft_negotiator_t; /* Thread-safe. */

/* `name` waits since `waited_s` for the ranks in missing[]. On the negotiator's thread. */
typedef void weft_stall_fn(void *arg, weft_str_t name, const int *missing, int num_missing, double waited_s);

typedef struct weft_negotiator_options {
  weft_collectives_t *collectives; /* borrowed: destroyed after the negotiator */
  weft_str_t device;               /* of this member; copied */
  int rank, size;
  int64_t group_key;              /* of all members; process set i has group_key + i. For this use alone */
  const weft_process_set_t *sets; /* process sets 1, 2, ...; copied. The same on all members */
  int num_sets;
  int64_t cycle_us;          /* 0: 1000 */
  int64_t fusion_bytes;      /* -1: 128 MiB; 0: each tensor alone */
  int cache_capacity;        /* -1: 1024 */
  int64_t stall_warning_ms;  /* 0: 60 s; rank 0 warns */
  int64_t stall_shutdown_ms; /* 0: never; then all members end */
  weft_stall_fn *on_stall;   /* beside the log; may be NULL */
  void *on_stall_arg;
} weft_negotiator_options_t;

WEFT_MUST_CHECK weft_status_t *weft_negotiator_create(const weft_negotiator_options_t *o,
                                                      weft_negotiator_t **out);
/* Asks all members to end, and waits: what is pending fails with ABORTED on all of them. NULL is fine. */
void weft_negotiator_destroy(weft_negotiator_t *n);

bool weft_negotiator_is_over(weft_negotiator_t *n); /* whatever is submitted fails */

/* Called once, on the negotiator's thread; owns status and output (NULL for a join). Must not destroy the
 * negotiator. */
typedef void weft_named_done_fn(void *arg, weft_status_t *status, weft_tensor_t *output);
/* Never blocks. Texts are copied, `input` retained (NULL for a join); r's dtype and shape are those of the
 * input. Errors, through done, on this member alone: INVALID_ARGUMENT for a name that is being reduced
 * already and for what can never be; on all members: INVALID_ARGUMENT for what members say differently, with
 * both values; ABORTED when a member has ended; UNAVAILABLE when one has failed. */
void weft_negotiator_submit(weft_negotiator_t *n, const weft_named_request_t *r, weft_tensor_t *input,
                            weft_named_done_fn *done, void *arg);

/* The submission with `arg` is withdrawn: done is called with CANCELLED, unless it was called before. The
 * tensor still takes part, as other members may count on it; its name is free when they have submitted it,
 * too. */
void weft_negotiator_withdraw(weft_negotiator_t *n, void *arg);

typedef struct weft_negotiator_stats {
  int64_t cycles, slow_cycles; /* slow: requests were exchanged */
  int64_t vector_bytes;        /* of the last cycle's bit vector, of one member */
  int64_t control_bytes;       /* sent by this member, in all; bit vectors and lists of requests */
  int64_t tensors, batches;    /* that were carried out; batches: collectives run for them */
} weft_negotiator_stats_t;
void weft_negotiator_get_stats(weft_negotiator_t *n, weft_negotiator_stats_t *out);

#endif /* WEFT_COLLECTIVES_NEGOTIATED_NEGOTIATED_H_ */
