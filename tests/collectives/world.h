/* tests/collectives/world.h - some tasks in one process, each with its collectives, and what their calls came
 * to. */
#ifndef WEFT_TESTS_COLLECTIVES_WORLD_H_
#define WEFT_TESTS_COLLECTIVES_WORLD_H_

#include "base/mutex.h"
#include "tests/collectives/local_transport.h"

enum { WORLD_MOST = 16 };

typedef struct world {
  int n;
  weft_local_hub_t *hub;
  weft_thread_pool_t *pool; /* NULL: everything on the caller's thread */
  weft_transport_t *transports[WORLD_MOST];
  weft_collectives_t *collectives[WORLD_MOST];
  char tasks[WORLD_MOST][64], devices[WORLD_MOST][96];
  weft_mutex_t mu;
  weft_cond_t changed;
  int64_t next_step;
} world_t;

typedef struct result {
  world_t *world;
  int calls; /* guarded by the world's mu, as all below */
  weft_status_t *status;
  weft_tensor_t *output;
} result_t;

/* `hosts`: per rank, or NULL for all alone. Ends the program if it cannot be made. */
void world_init(world_t *w, int n, int num_threads, bool has_virtual_time, const char *const *hosts);
void world_deinit(world_t *w);
/* A call with the usual fields set: group 1 of all, the next keys are the caller's. */
weft_collective_t world_call(const world_t *w, int rank, weft_collective_kind_t kind, weft_dtype_t dtype,
                             weft_shape_t shape);
/* The same of rank 0, with an algorithm and an instance key. */
weft_collective_t world_call_of(const world_t *w, weft_collective_kind_t kind, weft_shape_t shape,
                                weft_collective_algorithm_t algorithm, int64_t instance);
void world_start(world_t *w, int rank, const weft_collective_t *call, weft_canceller_t *canceller,
                 result_t *r);
/* Waits (with a deadline of a minute: then the test fails) until `r` has been called; virtual time runs
 * meanwhile. */
bool world_wait(world_t *w, result_t *r);
void result_deinit(result_t *r);
/* Runs `call` on all ranks with inputs of zeros, of `root_rows` rows at the root if that is not 0; all must
 * end well. Returns the seconds of virtual time that it took. */
double world_run_all(world_t *w, weft_collective_t call, int64_t root_rows);

#endif /* WEFT_TESTS_COLLECTIVES_WORLD_H_ */
