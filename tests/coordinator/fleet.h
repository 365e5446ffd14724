/* tests/coordinator/fleet.h - parameter servers and workers as real processes, and a coordinator with its
 * events.
 *
 * Nothing sleeps: tests wait for events, with a deadline, and look at variables through a session of their
 * own.
 */
#ifndef WEFT_TESTS_COORDINATOR_FLEET_H_
#define WEFT_TESTS_COORDINATOR_FLEET_H_

#include "base/mutex.h"
#include "tests/client/client_testing.h"
#include "tests/cluster/server_process.h"
#include "weft/coordinator.h"

enum { FLEET_MAX = 4, FLEET_EVENTS = WEFT_EVENT_WATCHDOG + 1 };

typedef struct fleet {
  int num_ps, num_workers;
  weft_test_process_t ps[FLEET_MAX], workers[FLEET_MAX];
  char text[512]; /* as --cluster takes it */
  WEFT_Cluster *cluster;
  WEFT_CoordinatorOptions options; /* defaults with quick polls; change before fleet_coordinate() */
  WEFT_Coordinator *coordinator;
  TF_Status *s;
  weft_mutex_t mu;
  weft_cond_t changed;
  int events[FLEET_EVENTS];               /* guarded by mu: how many of each */
  int by_worker[FLEET_EVENTS][FLEET_MAX]; /* guarded by mu */
  char last[1024];                        /* guarded by mu: the last event's text */
} fleet_t;

/* Starts the servers; the coordinator is made by fleet_coordinate(). */
void fleet_open(fleet_t *f, int num_ps, int num_workers);
void fleet_plan(fleet_t *f, int num_ps, int num_workers); /* starts no server */
void fleet_coordinate(fleet_t *f);
void fleet_close(fleet_t *f);
void fleet_start_ps(fleet_t *f, int i);
void fleet_start_worker(fleet_t *f, int i);
void fleet_kill_worker(fleet_t *f, int i);

/* Waits until there have been `n` events of a kind, of one worker or (-1) of all. False, and a failed test,
 * after 30 s. */
bool fleet_await(fleet_t *f, WEFT_CoordinatorEventKind kind, int worker, int n);
int fleet_count(fleet_t *f, WEFT_CoordinatorEventKind kind, int worker);

/* What the test sees of parameter server 0: variables and queues by their shared names. */
double fleet_variable(fleet_t *f, const char *name); /* a scalar; -1 if it cannot be read */
void fleet_set_variable(fleet_t *f, const char *name, double value);
void fleet_take(fleet_t *f, const char *queue);        /* waits for an element of a queue of floats */
void fleet_give(fleet_t *f, const char *queue, int n); /* puts n elements in */

/* Nodes on parameter server 0, for build functions. Failures go to status. */
TF_Output fleet_var(TF_Graph *g, const char *device, const char *name, TF_Status *s);
TF_Operation *fleet_add(TF_Graph *g, const char *device, TF_Output var, TF_Output value, TF_Operation *after,
                        TF_Status *s);
TF_Output fleet_read(TF_Graph *g, const char *device, TF_Output var, TF_Operation *after, TF_Status *s);
TF_Output fleet_const(TF_Graph *g, const char *device, const char *name, double value, TF_Status *s);
TF_Output fleet_queue(TF_Graph *g, const char *device, const char *name, TF_Status *s);
TF_Operation *fleet_enqueue(TF_Graph *g, const char *device, TF_Output queue, TF_Output value, TF_Status *s);
TF_Operation *fleet_dequeue(TF_Graph *g, const char *device, TF_Output queue, TF_Operation *after,
                            TF_Status *s);

/* Calls and their ends; the test fails if they fail. */
WEFT_RemoteValue *fleet_schedule(fleet_t *f, WEFT_Closure *closure, const WEFT_Arg *args, int n);
void fleet_schedule_many(fleet_t *f, WEFT_Closure *closure, int n);
void fleet_join(fleet_t *f);

/* A closure that adds 1 to `counter` and whose output is its value then. */
void fleet_build_add(TF_Graph *g, WEFT_WorkerContext *x, void *user, TF_Status *s);
/* The same, but says on queue `arrived` that it has begun, and waits for an element of queue `gate`. */
void fleet_build_gated(TF_Graph *g, WEFT_WorkerContext *x, void *user, TF_Status *s);
/* Fails with INVALID_ARGUMENT, "on purpose". */
void fleet_build_failing(TF_Graph *g, WEFT_WorkerContext *x, void *user, TF_Status *s);

#endif /* WEFT_TESTS_COORDINATOR_FLEET_H_ */
