/* tests/cuda/fake/nccl_shared.h - what ranks of several processes share in the fake NCCL: memory that the id
 * leads to.
 *
 * A rank puts its piece of work number k and its inputs there and waits until all have put theirs. Two places
 * for each rank are enough: all have put number k + 1, so all are done with number k. Only atomic numbers are
 * changed by several processes, and waiting is for a number to change, so that a process may be killed at any
 * moment.
 */
#ifndef WEFT_TESTS_CUDA_FAKE_NCCL_SHARED_H_
#define WEFT_TESTS_CUDA_FAKE_NCCL_SHARED_H_

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { FAKE_SHARED_RANKS = 8, FAKE_SHARED_ID = 128, FAKE_SHARED_BYTES = 8 << 20 };

typedef struct fake_shared fake_shared_t;

bool fake_shared_make(char id[FAKE_SHARED_ID]); /* stays as long as the process, or one that has joined */
fake_shared_t *fake_shared_join(const char *id, int rank); /* NULL: it is gone */
bool fake_shared_has(const fake_shared_t *s, int n);       /* have so many joined? */
/* FAKE_SHARED_BYTES for a rank's number k. */
char *fake_shared_place(const fake_shared_t *s, int rank, uint64_t k);
/* The place is filled. Returns when those of all n ranks are, or false when *ends is true. */
bool fake_shared_meet(fake_shared_t *s, int rank, int n, uint64_t k, const atomic_bool *ends);
void fake_shared_wake(fake_shared_t *s); /* *ends became true */

#endif /* WEFT_TESTS_CUDA_FAKE_NCCL_SHARED_H_ */
