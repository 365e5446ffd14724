/* tests/device/ranks.h - collectives between some devices of one task or several, beside the same by the
 * host.
 *
 * For a driver whose devices have memory of their own. CUnit's assertions are made here, too.
 */
#ifndef WEFT_TESTS_DEVICE_RANKS_H_
#define WEFT_TESTS_DEVICE_RANKS_H_

#include "base/mutex.h"
#include "collectives/collectives.h"
#include "collectives/transport.h"
#include "device/device.h"
#include "kernels/cpu/collective/collective_place.h"
#include "tests/collectives/local_transport.h"

#define RANKS_TASK "/job:worker/replica:0/task:0"
enum { RANKS_MOST = 8 };

typedef struct ranks_task {
  int n;
  weft_local_hub_t *hub;
  int num_tasks, per_task; /* rank r is of task r / per_task */
  uint64_t incarnations[RANKS_MOST];
  weft_transport_t *transports[RANKS_MOST]; /* by task, as the next */
  weft_collectives_t *of_task[RANKS_MOST];
  weft_thread_pool_t *pool;
  weft_collectives_t *collectives; /* of the first task */
  weft_device_t *devices[RANKS_MOST];
  weft_device_place_t places[RANKS_MOST];
  weft_mutex_t mu;
  weft_cond_t changed;
  int64_t step, instance; /* of the next collective */
} ranks_task_t;

void ranks_must(weft_status_t *s); /* NULL; else the test ends */
/* Devices 0 to n-1 of those that `accelerators` (NULL: nothing) asks for. */
void ranks_open(ranks_task_t *t, int n, const weft_device_driver_t *driver,
                const weft_accelerator_options_t *accelerators);
/* Tasks with per_task devices each. */
void ranks_open_tasks(ranks_task_t *t, int num_tasks, int per_task, const weft_device_driver_t *driver,
                      const weft_accelerator_options_t *accelerators);
/* A task is lost, as all others learn; it comes back as another process, with its devices. */
void ranks_lose_task(ranks_task_t *t, int task);
void ranks_return_task(ranks_task_t *t, int task);
weft_collectives_t *ranks_collectives(const ranks_task_t *t, int rank);
/* Ends the step at all tasks (why NULL: it was right), and begins the next. */
void ranks_next_step(ranks_task_t *t, const weft_status_t *why);
void ranks_close(ranks_task_t *t);
/* Bytes that have gone between the ranks by way of the host. */
int64_t ranks_bytes_by_host(const ranks_task_t *t);

/* One rank's call. */
typedef struct ranks_answer {
  ranks_task_t *task;
  int calls; /* guarded by the task's mu, as the rest */
  weft_status_t *status;
  weft_tensor_t *output;
} ranks_answer_t;
weft_collective_done_fn ranks_on_done;
void ranks_await(ranks_answer_t *a);
void ranks_end_answer(ranks_answer_t *a);
/* on_host: with the tensors in the host's memory, and the ring. */
weft_collective_t ranks_call(ranks_task_t *t, int rank, weft_collective_kind_t kind, weft_dtype_t dtype,
                             weft_shape_t shape, bool on_host);
/* Numbers that differ by rank, in the host's memory; a tensor in a device's memory. Consumes `t`. */
weft_tensor_t *ranks_value(weft_dtype_t dtype, weft_shape_t shape, int rank);
weft_tensor_t *ranks_at(weft_tensor_t *t, const weft_device_t *d);

typedef struct ranks_trial {
  weft_collective_kind_t kind;
  weft_reduction_t reduction;
  bool is_mean, takes_input;
  bool differs;     /* the rows of a gather do */
  double tolerance; /* of real numbers that are reduced; 0: the same bits */
  weft_dtype_t dtype;
  int64_t rows;
} ranks_trial_t;
/* out[rank]: the results, in the host's memory. */
void ranks_run_all(ranks_task_t *t, const ranks_trial_t *x, bool on_host, weft_tensor_t **out);
/* Are the devices' results the host's? */
bool ranks_is_right(ranks_task_t *t, const ranks_trial_t *x);
/* How many of some sizes have wrong results, which are printed. */
int ranks_try_sizes(ranks_task_t *t, ranks_trial_t x);

#endif /* WEFT_TESTS_DEVICE_RANKS_H_ */
