/* client/strategy/trace_each.c - a replica's function is called for each replica.
 *
 * Each call has a thread, so that it can stop in the middle of a merge call; but only
 * one thread runs at a time: the caller's gives the turn to replica 0, 1, ... until
 * each stands at a merge call or has ended, runs the merge, and begins again.
 * TensorFlow's mirrored_run works alike.
 *
 * Locking: `mu` guards `turn` alone; all else belongs to the thread that has the turn.
 */
#include <pthread.h>

#include "base/alloc.h"
#include "client/strategy/run.h"

enum { CALLER = -1 };

typedef struct each each_t;

typedef struct replica {
  WEFT_ReplicaContext context; /* first: merge finds us by it */
  each_t *all;
  pthread_t thread;
  bool is_started, has_ended, is_waiting; /* waiting: at a merge call */
  int num_merges;
  weft_place_t place; /* where it goes on */
  WEFT_Value **args, **given;
  weft_status_t *failure; /* of the function; owned */
  /* of the merge call at which it waits */
  weft_merge_fn *fn;
  void *user;
  const TF_Output *in;
  TF_Output *out;
  int num_in, num_out;
  TF_Operation *op;
  weft_status_t *merge_failure; /* owned; moved out by the thread that handles it */
} replica_t;

struct each {
  weft_replica_run_t run; /* first: contexts find us by it */
  weft_arena_t arena;
  replica_t *replicas;
  weft_mutex_t mu;
  weft_cond_t turned;
  int turn; /* guarded by mu: a replica, or CALLER */
};

static weft_status_t *no_memory(void) { return WEFT_NO_MEMORY("the replicas of a function"); }

static void give_turn(each_t *t, int to) {
  weft_mutex_lock(&t->mu);
  t->turn = to;
  weft_cond_broadcast(&t->turned);
  weft_mutex_unlock(&t->mu);
}

static void wait_for_turn(each_t *t, int turn) {
  weft_mutex_lock(&t->mu);
  while (t->turn != turn) weft_cond_wait(&t->turned, &t->mu);
  weft_mutex_unlock(&t->mu);
}

/* ---- on a replica's thread ---- */

static weft_status_t *merge(WEFT_ReplicaContext *c, weft_merge_fn *fn, void *user, const TF_Output *args,
                            int num_args, TF_Output *results, int num_results, TF_Operation **out_op) {
  replica_t *r = (replica_t *)c;
  each_t *t = r->all;
  r->fn = fn;
  r->user = user;
  r->in = args;
  r->num_in = num_args;
  r->out = results;
  r->num_out = num_results;
  r->is_waiting = true;
  r->num_merges++;
  r->place = weft_scope_go(t->run.graph, t->run.scope, weft_cross_place());
  give_turn(t, CALLER);
  wait_for_turn(t, c->replica);
  weft_scope_go(t->run.graph, t->run.scope, r->place);
  if (out_op != NULL) *out_op = r->op;
  weft_status_t *s = r->merge_failure;
  r->merge_failure = NULL;
  return s;
}

static void *run_replica(void *arg) {
  replica_t *r = arg;
  each_t *t = r->all;
  wait_for_turn(t, r->context.replica);
  TF_Status *status = TF_NewStatus();
  weft_scope_go(t->run.graph, t->run.scope, r->place);
  t->run.fn(&r->context, r->args, t->run.num_args, r->given, t->run.num_results, t->run.user, status);
  weft_scope_go(t->run.graph, t->run.scope, weft_cross_place());
  r->failure = weft_status_taken(status);
  TF_DeleteStatus(status);
  r->has_ended = true;
  give_turn(t, CALLER);
  return NULL;
}

/* ---- on the caller's thread ---- */

static weft_status_t *start(each_t *t) {
  int n = t->run.strategy->num_replicas;
  for (int i = 0; i < n; i++) {
    replica_t *r = &t->replicas[i];
    r->all = t;
    r->context = (WEFT_ReplicaContext){.run = &t->run, .replica = i};
    r->place = weft_replica_place(&t->run, &r->context, &t->arena);
    r->args = weft_arena_calloc(&t->arena, (size_t)t->run.num_args + 1, sizeof *r->args);
    r->given = weft_arena_calloc(&t->arena, (size_t)t->run.num_results + 1, sizeof *r->given);
    if (r->args == NULL || r->given == NULL) return no_memory();
    for (int k = 0; k < t->run.num_args; k++) {
      TF_Output own = weft_value_of(t->run.args[k], i);
      WEFT_RETURN_IF_ERROR(weft_value_new(&own, 1, false, &r->args[k]));
    }
  }
  for (int i = 0; i < n; i++) {
    t->replicas[i].is_started =
        pthread_create(&t->replicas[i].thread, NULL, run_replica, &t->replicas[i]) == 0;
    if (!t->replicas[i].is_started) return WEFT_ERROR(RESOURCE_EXHAUSTED, "no thread for replica %d", i);
  }
  return NULL;
}

/* Lets every replica that has not ended go on to its next merge call or its end. */
static void go_on(each_t *t) {
  for (int i = 0; i < t->run.strategy->num_replicas; i++) {
    replica_t *r = &t->replicas[i];
    if (!r->is_started || r->has_ended) continue;
    r->is_waiting = false;
    give_turn(t, i);
    wait_for_turn(t, CALLER);
  }
}

/* Do all stand at the same merge call? Then it is run; a failure goes to all. */
static weft_status_t *run_merge(each_t *t) {
  int n = t->run.strategy->num_replicas;
  const replica_t *first = &t->replicas[0];
  for (int i = 0; i < n; i++) {
    const replica_t *r = &t->replicas[i];
    if (r->is_waiting != first->is_waiting) {
      return WEFT_ERROR(
          FAILED_PRECONDITION,
          "replicas make different numbers of merge calls: replica %d made %d, replica 0 made %d", i,
          r->num_merges, first->num_merges);
    }
    if (r->num_in != first->num_in || r->num_out != first->num_out || r->fn != first->fn) {
      return WEFT_ERROR(FAILED_PRECONDITION, "replica %d makes another merge call than replica 0", i);
    }
  }
  TF_Output *in = weft_arena_calloc(&t->arena, (size_t)first->num_in * (size_t)n + 1, sizeof *in);
  TF_Output *out = weft_arena_calloc(&t->arena, (size_t)first->num_out * (size_t)n + 1, sizeof *out);
  TF_Operation *op = NULL;
  if (in == NULL || out == NULL) return no_memory();
  for (int i = 0; i < n; i++) {
    for (int k = 0; k < first->num_in; k++) in[k * n + i] = t->replicas[i].in[k];
  }
  weft_status_t *s =
      weft_call_merge(&t->run, first->fn, first->user, in, first->num_in, out, first->num_out, &op);
  for (int i = 0; i < n; i++) {
    replica_t *r = &t->replicas[i];
    r->op = op;
    for (int k = 0; s == NULL && k < r->num_out; k++) r->out[k] = out[k * n + i];
    if (s != NULL) r->merge_failure = weft_status_clone(s);
  }
  weft_status_free(s); /* each replica has it, and ends with it or not */
  return NULL;
}

static bool is_over(const each_t *t) {
  for (int i = 0; i < t->run.strategy->num_replicas; i++) {
    if (t->replicas[i].is_started && !t->replicas[i].has_ended) return false;
  }
  return true;
}

/* Ends every replica that still waits for a merge call with `why`. */
static void give_up(each_t *t, const weft_status_t *why) {
  while (!is_over(t)) {
    for (int i = 0; i < t->run.strategy->num_replicas; i++) {
      replica_t *r = &t->replicas[i];
      if (!r->is_waiting || r->merge_failure != NULL) continue;
      r->merge_failure = weft_status_clone(why);
    }
    go_on(t);
  }
}

static weft_status_t *first_failure(each_t *t) {
  for (int i = 0; i < t->run.strategy->num_replicas; i++) {
    weft_status_t *s = t->replicas[i].failure;
    t->replicas[i].failure = NULL;
    if (s != NULL) return s;
  }
  return NULL;
}

static weft_status_t *make_results(each_t *t) {
  int n = t->run.strategy->num_replicas;
  TF_Output *all = weft_arena_calloc(&t->arena, (size_t)n, sizeof *all);
  if (all == NULL) return no_memory();
  for (int k = 0; k < t->run.num_results; k++) {
    int given = 0;
    for (int i = 0; i < n; i++) {
      const WEFT_Value *v = t->replicas[i].given[k];
      given += v != NULL;
      if (v != NULL) all[i] = weft_value_of(v, 0);
    }
    if (given == 0) continue;
    if (given < n) return WEFT_ERROR(INVALID_ARGUMENT, "only %d of %d replicas gave result %d", given, n, k);
    WEFT_RETURN_IF_ERROR(weft_value_new(all, n, false, &t->run.results[k]));
  }
  return NULL;
}

static weft_status_t *trace(each_t *t) {
  weft_status_t *s = start(t);
  if (s == NULL) go_on(t);
  while (s == NULL && !is_over(t)) {
    s = run_merge(t);
    if (s == NULL) go_on(t);
  }
  if (s != NULL) give_up(t, s);
  weft_status_t *said = first_failure(t);
  bool is_echo = s != NULL && said != NULL;
  if (is_echo) weft_status_free(said); /* the mismatch is the cause; what replicas say of it is not */
  if (s == NULL) s = is_echo ? NULL : said;
  return s == NULL ? make_results(t) : s;
}

weft_status_t *weft_trace_each(weft_replica_run_t *r) {
  each_t t = {.run = *r, .turn = CALLER};
  int n = r->strategy->num_replicas;
  t.run.merge = merge;
  weft_mutex_init(&t.mu);
  weft_cond_init(&t.turned);
  t.replicas = weft_arena_calloc(&t.arena, (size_t)n, sizeof *t.replicas);
  weft_status_t *s = t.replicas == NULL ? no_memory() : trace(&t);
  for (int i = 0; t.replicas != NULL && i < n; i++) {
    replica_t *p = &t.replicas[i];
    if (p->is_started) pthread_join(p->thread, NULL);
    for (int k = 0; p->args != NULL && k < r->num_args; k++) WEFT_DeleteValue(p->args[k]);
    for (int k = 0; p->given != NULL && k < r->num_results; k++) WEFT_DeleteValue(p->given[k]);
    weft_status_free(p->failure);
    weft_status_free(p->merge_failure);
  }
  weft_cond_deinit(&t.turned);
  weft_mutex_deinit(&t.mu);
  weft_arena_deinit(&t.arena);
  return s;
}
