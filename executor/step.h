/* executor/step.h - a plan that runs: its state, and the threads that work on it. Private to the executor.
 *
 * A node's state word counts what it still waits for; bit 31 says that something
 * dead arrived. When the count is 0 the word belongs to the thread that lowered it last,
 * and then links the lists of ready nodes (in plans without frames).
 *
 * A Merge waits for its control inputs and for one thing more, that its data are
 * settled; its side word tells whether a live value came and counts dead ones.
 *
 * Threads: a runner is a thread's work on one run, on its stack. It has two
 * lists of ready nodes: cheap ones, which it runs itself, and costly ones, of
 * which it keeps one and gives the rest to the pool. `tasks` counts runners,
 * closures in the pool and asynchronous kernels; at 0 the run is over. While it is 1 the runner is alone:
 * only it can change that, by giving work away, and until then it needs neither atomic operations nor locks.
 *
 * Iterations of frames below the top level count what may still start nodes in
 * them ("holds"): ready and running nodes, child frames, the iteration before
 * (for iteration 0: Enters that have not arrived). At 0, which is final, the
 * iteration is recycled and the next one loses its hold.
 *
 * Locking: a frame's `mu` guards its list of iterations and what waits for the
 * next one; `run->mu` and the plan's `mu` are leaves below it.
 */
#ifndef WEFT_EXECUTOR_STEP_H_
#define WEFT_EXECUTOR_STEP_H_

#include "device/queue.h"
#include "executor/plan.h"
#include "ops/cost.h"

enum { SCRATCH_OUTPUTS = 16, ASYNC_UNIT = 16 };

#define WORD_DEAD UINT32_C(0x80000000)
#define WORD_COUNT UINT32_C(0x7fffffff)
#define SIDE_LIVE UINT32_C(0x80000000)
#define SIDE_SETTLED UINT32_C(0x40000000)
#define SIDE_COUNT UINT32_C(0x3fffffff)

typedef struct iteration iteration_t;

/* A ready node. In lists `node` is its number + 1, and 0 the end. */
typedef struct ready {
  iteration_t *it;
  uint32_t node;
} ready_t;

/* First in, first out: without frames that is nearly the order in which nodes are numbered, so that rows of
 * the plan are read one after the other. */
typedef struct ready_list {
  ready_t first, last; /* `last` has no meaning while the list is empty */
} ready_list_t;

typedef struct task {
  iteration_t *it;
  uint32_t node;
} task_t;

/* What a recorder has to know of a node before it runs, as a kernel may take its inputs. */
typedef struct node_begin {
  int64_t start_ns;
  size_t input_bytes;
  weft_op_cost_t cost;
} node_begin_t;

/* An asynchronous kernel's execution; lies in its iteration's block. */
typedef struct async_op {
  weft_kernel_ctx_t ctx; /* first: kernels hand back &ctx */
  iteration_t *it;
  uint32_t node;
  node_begin_t begin;
  weft_status_t *status; /* what the kernel ended with, while it waits for a thread */
  struct async_op *next; /* among those that wait for a thread without a pool */
  weft_value_t outputs[];
} async_op_t;

static inline size_t async_op_bytes(uint32_t num_outputs) {
  size_t bytes = sizeof(async_op_t) + num_outputs * sizeof(weft_value_t);
  return (bytes + ASYNC_UNIT - 1) & ~(size_t)(ASYNC_UNIT - 1);
}

struct iteration {
  run_t *run;
  frame_t *frame;
  iteration_t *next; /* guarded by frame->mu: the next one, or the next free one */
  int64_t number;
  atomic_uint holds; /* not used at the top level */
  uint32_t first_node, first_slot;
  atomic_uint *words; /* the rest point into this block */
  atomic_uint *sides;
  ready_t *links; /* of ready nodes, in plans with frames */
  task_t *tasks;
  char *async;
  frame_t **children;  /* guarded by frame->mu; by the child's ordinal */
  weft_value_t *slots; /* all zero but where a value waits for its node */
};

typedef struct kept_value {
  weft_value_t value;
  bool present, is_dead;
} kept_value_t;

struct frame {
  const plan_frame_t *plan;
  iteration_t *parent;  /* NULL: the top level */
  uint64_t id;          /* part of rendezvous keys */
  frame_t *prev, *next; /* guarded by run->mu: all frames of the run; or plan->free */
  weft_mutex_t mu;
  iteration_t *oldest, *newest, *free; /* guarded by mu */
  int num_iterations;                  /* guarded by mu; that are under way */
  int pending_enters;                  /* guarded by mu */
  kept_value_t *invariants;            /* guarded by mu; values of constant Enters */
  kept_value_t *parked;                /* guarded by mu; values that wait for an iteration to begin */
  uint32_t num_parked;                 /* guarded by mu */
  int64_t first_number;                /* of its first iteration: others were run serially */
  bool *dead_exits;                    /* guarded by mu; of the newest iteration */
};

struct weft_run {
  weft_exec_plan_t *plan; /* retained */
  weft_step_t step;
  weft_thread_pool_t *pool;         /* borrowed; may be NULL */
  weft_step_recorder_t *recorder;   /* borrowed; may be NULL */
  weft_tensor_t **feeds, **fetches; /* borrowed; `feeds` NULL: the client's values go by the rendezvous */
  weft_plan_done_fn *done;
  void *done_arg;
  weft_kernel_done_fn *async_done; /* where asynchronous kernels come back: weft_async_done */
  atomic_int tasks;
  weft_step_fate_t fate;
  atomic_uint num_undrained;   /* queues of the plan whose work for this step is not known to be done */
  weft_fence_waiter_t *drains; /* plan->num_queues; behind this struct */
  bool serial;                 /* one thread only, from beginning to end */
  bool runs_program;           /* the plan's, instead of being scheduled */
  bool has_lasting;            /* values lie in the root's slots from a run of the program before */
  bool lacks_lasting;          /* but not all */
  uint64_t generation;         /* of the device's resources when the handles among them were looked up */
  weft_mutex_t mu;
  weft_status_t *status; /* guarded by mu; the first failure */
  frame_t *frames;       /* guarded by mu; all but the top level */
  run_t *next_free;      /* guarded by the plan's mu */
  frame_t top;
  iteration_t *root; /* behind this struct */
};

typedef struct runner {
  run_t *run;
  weft_exec_plan_t *plan;
  bool is_alone; /* no other thread works on the run now */
  bool is_guest; /* on a thread that is not ours: costly nodes go to the pool */
  ready_list_t cheap, costly;
  weft_value_t scratch[SCRATCH_OUTPUTS]; /* all zero between nodes */
  struct runner *outer;                  /* the runner of the kernel that this thread is in */
} runner_t;

/* schedule.c */
void weft_runner_begin(runner_t *r, run_t *run);
void weft_runner_end(runner_t *r); /* `r` and maybe the run are over afterwards */
void weft_runner_loop(runner_t *r);
void weft_run_task(void *arg);
/* Ends an asynchronous kernel: called by it. */
void weft_async_done(weft_kernel_ctx_t *ctx, weft_status_t *status);

/* What a node costs is an estimate that follows measurements: 24 bits of nanoseconds, 16 ms at most, above 8
 * bits that count up to the next measurement. Of the executions of a node that is far from costly one in 256
 * is measured, as looking at the clock costs as much as it does; of others one in 16. Updates may be lost;
 * that does not matter. */
enum {
  COST_COUNT_BITS = 8,
  COST_COUNT_MASK = 255,
  COST_UNKNOWN_NS = 0xffffff,
  COSTLY_NS = 5000,
  CHEAP_NS = COSTLY_NS / 4,
};
static inline uint32_t cost_counted(uint32_t cost) {
  const uint32_t by = cost >> COST_COUNT_BITS < CHEAP_NS ? 1 : 16;
  return (cost & ~(uint32_t)COST_COUNT_MASK) | ((cost + by) & COST_COUNT_MASK);
}

/* node_run.c: runs a ready node and hands on its results. */
void weft_node_run(runner_t *r, iteration_t *it, uint32_t node, bool is_dead);
/* Calls the kernel of a NODE_SYNC, and measures now and then what it costs. *failed: the node within the
 * kernel's that failed, or NULL. */
WEFT_MUST_CHECK weft_status_t *weft_node_compute(runner_t *r, iteration_t *it, uint32_t node, bool is_dead,
                                                 weft_value_t *in, weft_value_t *out,
                                                 const weft_kernel_node_t **failed);
/* Gives each input that came by reference and is not wanted as one the variable's value of now. */
WEFT_MUST_CHECK weft_status_t *weft_node_read_references(const weft_exec_plan_t *p, uint32_t node,
                                                         weft_value_t *in);
/* INTERNAL where the outputs are not what the node declares. */
WEFT_MUST_CHECK weft_status_t *weft_node_check_outputs(const weft_exec_plan_t *p, uint32_t node,
                                                       const weft_value_t *out);
/* A Merge: moves its live input to outputs[0]; false: there is none. */
WEFT_MUST_CHECK weft_status_t *weft_node_merge(const plan_node_t *n, weft_value_t *in, weft_value_t *out,
                                               bool *out_is_live);
/* The run fails by `node`. `failed`: what the failure is of; NULL: the node. Consumes `s`. */
void weft_node_fail(runner_t *r, uint32_t node, const weft_kernel_node_t *failed, weft_status_t *s);
void weft_node_learn_cost(atomic_uint *cost, int64_t ns);
/* What the run's recorder has to know of a node that begins, in *storage; NULL: nothing is recorded. */
static inline const node_begin_t *weft_node_begin(const runner_t *r, uint32_t node, const weft_value_t *in,
                                                  node_begin_t *storage);
/* What follows an asynchronous kernel's end. Consumes `status`. */
void weft_node_finish_async(runner_t *r, async_op_t *op, weft_status_t *status);

/* propagate.c: delivers outputs along the edges in iteration `it`; takes the values out of `outputs`. Returns
 * how many nodes got ready. */
uint32_t weft_deliver(runner_t *r, iteration_t *it, uint32_t node, weft_value_t *outputs, bool is_dead);

/* serial.c: runs the program of the plan's top level. */
void weft_serial_run_top(runner_t *r);
/* Would several threads be faster than one, by the costs that nodes of the frame were measured to have? Uses
 * the words of `it`. */
bool weft_serial_is_heavy(const run_t *run, const plan_frame_t *f, iteration_t *it);
/* Runs the loop behind a gate of iteration `it`, or begins its frame. */
void weft_serial_run(runner_t *r, iteration_t *it, uint32_t gate, bool is_dead);

/* frame.c: hands on the result of an Enter, Exit or NextIteration. Consumes `v`. */
void weft_frame_cross(runner_t *r, iteration_t *it, uint32_t node, weft_value_t *v, bool is_dead);
/* The same of an Enter alone, which may be one of several behind a gate; leaves the gate's hold alone. */
WEFT_MUST_CHECK weft_status_t *weft_frame_enter(runner_t *r, iteration_t *it, uint32_t node, weft_value_t *v,
                                                bool is_dead);
/* Delivers into an iteration other than the node's own; another hold keeps that alive meanwhile. */
void weft_deliver_into(runner_t *r, iteration_t *it, uint32_t node, weft_value_t *v, bool is_dead);
/* The id of the frame of `f` inside `parent`, as TensorFlow counts it. */
uint64_t weft_frame_id(const iteration_t *parent, const plan_frame_t *f);
/* Schedules a frame whose first iterations were run serially: its next one, `number`, begins with what is
 * parked. No lock of the caller's. */
void weft_frame_continue(runner_t *r, frame_t *f, int64_t number);
/* Gives up `n` holds on an iteration below the top level. */
void weft_iteration_release(runner_t *r, iteration_t *it, uint32_t n);
static inline void weft_iteration_hold(const runner_t *r, iteration_t *it, uint32_t n) {
  if (r->is_alone) {
    atomic_store_explicit(&it->holds, atomic_load_explicit(&it->holds, memory_order_relaxed) + n,
                          memory_order_relaxed);
  } else {
    atomic_fetch_add_explicit(&it->holds, n, memory_order_relaxed);
  }
}

/* frame_memory.c */
/* Makes an iteration of `f` in zeroed memory of f->bytes. */
iteration_t *weft_iteration_layout(run_t *run, frame_t *frame, const plan_frame_t *f, char *block);
void weft_iteration_clear(iteration_t *it); /* releases the values in its slots */
/* A new iteration's block on the frame's free list. Takes frame->mu itself. */
WEFT_MUST_CHECK weft_status_t *weft_frame_add_spare(run_t *run, frame_t *f);
/* A frame with at least one spare iteration. */
WEFT_MUST_CHECK weft_status_t *weft_frame_new(run_t *run, plan_frame_t *plan, frame_t **out);
/* Releases what a frame keeps and puts it on the plan's list. Nothing else sees it any more. */
void weft_frame_recycle(run_t *run, frame_t *f);
/* Releases every value of a run's frames and frees them. */
void weft_frames_clear(run_t *run);
run_t *weft_run_take(weft_exec_plan_t *p); /* NULL without memory */
void weft_run_recycle(weft_exec_plan_t *p, run_t *run);

/* run.c */
/* Takes over `s` as the run's failure if it is the first. `node`: that failed, or NULL. */
void weft_run_fail(run_t *run, weft_status_t *s, const weft_kernel_node_t *node, bool is_communication);
/* Are nodes that are ready dropped? */
static inline bool weft_run_dropped(run_t *run) {
  return atomic_load(&run->fate.has_failed) && !atomic_load(&run->fate.is_committed);
}
void weft_run_finish(run_t *run); /* no node is running any more */

/* recorder.c: for runs that have a recorder. A node begins, with these inputs; and has ended. */
void weft_step_record_begin(const plan_setup_t *node, const weft_value_t *inputs, node_begin_t *out);
void weft_step_record(weft_step_recorder_t *r, const plan_setup_t *node, const node_begin_t *begin,
                      const weft_value_t *outputs);

static inline void value_release(weft_value_t *v) {
  weft_tensor_release(v->tensor);
  if (v->ref != NULL) weft_object_release(&v->ref->object);
  *v = (weft_value_t){NULL, NULL};
}
static inline weft_value_t value_retain(weft_value_t v) {
  weft_tensor_retain(v.tensor);
  if (v.ref != NULL) weft_object_retain(&v.ref->object);
  return v;
}
/* Outputs that a kernel has just allocated may be read when all is done that it has enqueued. */
static inline void weft_node_set_fences(weft_queue_t *q, const weft_value_t *outputs, uint32_t num_outputs) {
  weft_fence_t f = {NULL, 0};
  for (uint32_t i = 0; i < num_outputs; i++) {
    weft_tensor_t *t = outputs[i].tensor;
    if (t == NULL || t->fence.value != WEFT_FENCE_PENDING) continue;
    if (f.queue == NULL) f = weft_queue_mark(q);
    t->fence = f;
  }
}

/* A frame's lock, which a runner that is alone does not need. It stays alone, or not, from one to the other.
 */
static inline void runner_lock(const runner_t *r, frame_t *f) WEFT_TSA(acquire_capability(f->mu))
    WEFT_TSA(no_thread_safety_analysis) {
  if (!r->is_alone) weft_mutex_lock(&f->mu);
}
static inline void runner_unlock(const runner_t *r, frame_t *f) WEFT_TSA(release_capability(f->mu))
    WEFT_TSA(no_thread_safety_analysis) {
  if (!r->is_alone) weft_mutex_unlock(&f->mu);
}

static inline bool value_is_none(const weft_value_t *v) { return v->tensor == NULL && v->ref == NULL; }

static inline void values_release(weft_value_t *v, uint32_t n) {
  for (uint32_t i = 0; i < n; i++) {
    if (!value_is_none(&v[i])) value_release(&v[i]);
  }
}

static inline weft_value_t *slot_of(const iteration_t *it, uint32_t slot) {
  return &it->slots[slot - it->first_slot];
}
static inline atomic_uint *word_of(const iteration_t *it, uint32_t node) {
  return &it->words[node - it->first_node];
}

/* Of a node that is NODE_COSTLY: what it costs, COST_UNKNOWN_NS before it was measured. */
static inline uint32_t node_cost_ns(const weft_exec_plan_t *p, const plan_node_t *n) {
  const uint32_t cost = n->kind == NODE_LOOP ? p->frames[n->aux].cost : n->aux;
  return atomic_load_explicit(&p->costs[cost], memory_order_relaxed) >> COST_COUNT_BITS;
}

static inline bool node_is_costly(const weft_exec_plan_t *p, const plan_node_t *n) {
  return (n->flags & NODE_COSTLY) && node_cost_ns(p, n) > COSTLY_NS;
}

static inline const node_begin_t *weft_node_begin(const runner_t *r, uint32_t node, const weft_value_t *in,
                                                  node_begin_t *storage) {
  if (r->run->recorder == NULL) return NULL;
  weft_step_record_begin(&r->plan->setups[node], in, storage);
  return storage;
}

/* Appends a node whose word's count is 0. */
static inline void ready_append(const weft_exec_plan_t *p, ready_list_t *list, iteration_t *it,
                                uint32_t node) {
  ready_t mine = {it, node + 1};
  if (p->has_frames) {
    it->links[node - it->first_node].node = 0;
  } /* else the count of 0 in its word ends the list */
  if (list->first.node == 0) {
    list->first = mine;
  } else if (p->has_frames) {
    list->last.it->links[list->last.node - 1 - list->last.it->first_node] = mine;
  } else {
    atomic_uint *word = word_of(it, list->last.node - 1);
    uint32_t dead = atomic_load_explicit(word, memory_order_relaxed) & WORD_DEAD;
    atomic_store_explicit(word, dead | mine.node, memory_order_relaxed);
  }
  list->last = mine;
}

/* Takes the first node off a list that is not empty. */
static inline uint32_t ready_take(const weft_exec_plan_t *p, ready_list_t *list, iteration_t **out_it,
                                  bool *out_is_dead) {
  iteration_t *it = list->first.it;
  uint32_t node = list->first.node - 1;
  uint32_t word = atomic_load_explicit(word_of(it, node), memory_order_relaxed);
  if (p->has_frames) {
    list->first = it->links[node - it->first_node];
  } else {
    list->first.node = word & ~WORD_DEAD;
    atomic_store_explicit(word_of(it, node), word & WORD_DEAD, memory_order_relaxed);
  }
  *out_it = it;
  *out_is_dead = (word & WORD_DEAD) != 0;
  return node;
}

/* Puts a node that got ready on one of the runner's lists. */
static inline void runner_push(runner_t *r, iteration_t *it, uint32_t node) {
  const weft_exec_plan_t *p = r->plan;
  bool is_costly = p->num_costs > 0 && node_is_costly(p, &p->nodes[node]) &&
                   (atomic_load_explicit(word_of(it, node), memory_order_relaxed) & WORD_DEAD) == 0;
  ready_append(p, is_costly ? &r->costly : &r->cheap, it, node);
}

#endif /* WEFT_EXECUTOR_STEP_H_ */
