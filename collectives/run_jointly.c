/* collectives/run_jointly.c - a collective of several tasks at its members' places: the task's last member to
 * come speaks for all of them.
 *
 * Each task's vote goes to the task of rank 0, and its decision comes back (collectives/joints.h). Whether
 * there is a vote depends on what all ranks know alone.
 *
 *   votes --> decision --> the places do it --> each task says so to the decider --> the decider says so to
 * all
 *
 * So none ends before all have done it, and each waits for a message until then, which fails when the run
 * fails elsewhere or a task is lost. By way of the host it goes on behind the decision.
 *
 * The run of the task's first rank makes the transfers. The runs of all have work outstanding, so that they
 * and their tensors stay until the places are done, whatever happens meanwhile.
 */
#include <stddef.h>

#include "base/alloc.h"
#include "collectives/run.h"

typedef enum joint_phase { VOTING, DECIDED, ENDING } joint_phase_t;

typedef struct joint_run {
  weft_coll_run_t **runs;      /* of this task, by rank; owned */
  int num_own, num_tasks, own; /* own: this task's number */
  weft_coll_run_t *head;       /* runs[0] */
  weft_joint_t *joint;
  weft_joint_task_t *tasks;         /* owned, with all they point to; only the decider has others' votes */
  unsigned char **votes;            /* by task: a vote and ids */
  weft_joint_decision_t *decisions; /* by task; else one */
  weft_collective_together_t together;
  weft_collective_place_t **places; /* owned, as the next three */
  weft_tensor_t **tensors;
  int64_t *bounds;
  int *ranks;
  weft_mutex_t mu;
  joint_phase_t phase; /* guarded by mu, as all below */
  int pending;         /* transfers, and the places' work */
  weft_status_t *status;
  bool is_done; /* the places have done it */
} joint_run_t;

static bool is_decider(const joint_run_t *j) { return j->own == 0; }
static weft_joint_decision_t *own_decision(const joint_run_t *j) {
  return &j->decisions[is_decider(j) ? j->own : 0];
}

/* ---- which collectives ---- */

/* Of what all ranks know: so all vote, or none does. int32 lies in the host's memory; a host's text is that
 * of Weft's own tasks. */
static bool is_voted_on(const weft_coll_run_t *r) {
  const weft_group_t *g = r->group;
  bool has_others = false;
  if (!weft_coll_run_is_for_places(r) || r->call.dtype == WEFT_I32) return false;
  const weft_str_t type = weft_transport_type_of(g->members[0].device);
  if (weft_str_is(type, "CPU")) return false;
  for (int i = 0; i < g->size; i++) {
    if (g->members[i].host.length == 0 || !weft_str_eq(weft_transport_type_of(g->members[i].device), type))
      return false;
    has_others = has_others || !weft_str_eq(g->members[i].task, g->members[0].task);
  }
  return has_others;
}

/* ---- making and freeing ---- */

static void free_joint_run(joint_run_t *j) {
  for (int i = 0; j->votes != NULL && i < j->num_tasks; i++) weft_free(j->votes[i]);
  weft_free(j->votes);
  weft_free(j->tasks);
  weft_free(j->decisions);
  weft_free(j->places);
  weft_free(j->tensors);
  weft_free(j->bounds);
  weft_free(j->ranks);
  weft_free(j->runs);
  weft_status_free(j->status);
  weft_mutex_deinit(&j->mu);
  weft_free(j);
}

/* The tasks by their first rank. */
static void find_tasks(joint_run_t *j) {
  const weft_group_t *g = j->head->group;
  for (int i = 0; i < g->size; i++) {
    int k = 0;
    while (k < j->num_tasks && !weft_str_eq(g->members[i].task, g->members[j->tasks[k].first].task)) k++;
    if (k == j->num_tasks) j->tasks[j->num_tasks++] = (weft_joint_task_t){.first = i};
    j->tasks[k].num_ranks++;
    if (i == j->head->rank) j->own = k;
  }
}

static size_t vote_bytes(const joint_run_t *j, int task) {
  return sizeof(weft_joint_vote_t) + (size_t)j->tasks[task].num_ranks * WEFT_PLACE_ID_BYTES;
}

static bool make_messages(joint_run_t *j) {
  const int num_decisions = is_decider(j) ? j->num_tasks : 1;
  j->votes = weft_calloc((size_t)j->num_tasks, sizeof *j->votes);
  j->decisions = weft_calloc((size_t)num_decisions, sizeof *j->decisions);
  if (j->votes == NULL || j->decisions == NULL) return false;
  for (int i = 0; i < j->num_tasks; i++) {
    if (!is_decider(j) && i != j->own) continue;
    j->votes[i] = weft_calloc(1, vote_bytes(j, i));
    if (j->votes[i] == NULL) return false;
    j->tasks[i].vote = (const weft_joint_vote_t *)(const void *)j->votes[i];
    j->tasks[i].ids = j->votes[i] + sizeof(weft_joint_vote_t);
    j->tasks[i].decision = &j->decisions[is_decider(j) ? i : 0];
  }
  return true;
}

/* What the places get; NULL of j->places: they cannot. */
static weft_status_t *make_parts(joint_run_t *j) {
  const size_t n = (size_t)j->num_own;
  weft_coll_layout_t l;
  weft_status_t *s = NULL;
  j->ranks = weft_calloc(n, sizeof *j->ranks);
  for (int i = 0; j->ranks != NULL && i < j->num_own; i++) {
    const weft_collective_place_t *p = j->runs[i]->call.place;
    if (p == NULL || p->ops->joint == NULL || p->ops != j->runs[0]->call.place->ops) return NULL;
    j->ranks[i] = j->runs[i]->rank;
  }
  j->places = weft_calloc(n, sizeof *j->places);
  j->tensors = weft_calloc(2 * n, sizeof *j->tensors);
  if (j->ranks == NULL || j->places == NULL || j->tensors == NULL)
    return WEFT_NO_MEMORY("collective %.*s", WEFT_STR_ARGS(j->head->call.name));
  for (int i = 0; s == NULL && i < j->num_own; i++) {
    weft_coll_run_t *r = j->runs[i];
    s = weft_coll_run_lay_out(r, &l);
    if (s == NULL) s = weft_coll_run_make_output_there(r, &l);
    if (s == NULL && i == 0) s = weft_coll_run_element_bounds(r, &l, &j->bounds);
    weft_coll_layout_deinit(&l);
    j->places[i] = r->call.place;
    j->tensors[i] = r->placed_input;
    j->tensors[n + (size_t)i] = r->output;
  }
  j->together = (weft_collective_together_t){.call = &j->head->call,
                                             .source = j->head->source,
                                             .bounds = j->bounds,
                                             .n = j->head->group->size,
                                             .num_own = j->num_own,
                                             .places = j->places,
                                             .inputs = j->tensors,
                                             .outputs = j->tensors + n};
  return s;
}

/* Takes over `runs`, on failure, too. */
static weft_status_t *joint_run_new(weft_coll_run_t **runs, int n, joint_run_t **out) {
  joint_run_t *j = weft_calloc(1, sizeof *j);
  if (j == NULL) {
    weft_free(runs);
    return WEFT_NO_MEMORY("a collective with other tasks");
  }
  weft_mutex_init(&j->mu);
  j->runs = runs;
  j->num_own = n;
  j->head = runs[0];
  const weft_group_t *g = j->head->group;
  j->tasks = weft_calloc((size_t)g->size, sizeof *j->tasks);
  weft_status_t *s = NULL;
  if (j->tasks != NULL) find_tasks(j);
  if (j->tasks == NULL || !make_messages(j))
    s = WEFT_NO_MEMORY("collective %.*s", WEFT_STR_ARGS(j->head->call.name));
  if (s == NULL) s = make_parts(j);
  if (s == NULL)
    s = weft_joints_begin(j->head->joints, j->head->group, g->members[0].task, j->places, j->ranks, n,
                          (weft_joint_vote_t *)(void *)j->votes[j->own],
                          j->votes[j->own] + sizeof(weft_joint_vote_t), &j->joint);
  if (s != NULL) {
    free_joint_run(j);
    return s;
  }
  *out = j;
  return NULL;
}

/* ---- the end ---- */

static void end_all(joint_run_t *j) {
  weft_coll_run_t **runs = j->runs;
  const int n = j->num_own;
  weft_status_t *s = j->status;
  const bool is_done = j->is_done;
  j->status = NULL;
  j->runs = NULL;
  weft_joints_end(j->head->joints, j->joint, s != NULL);
  free_joint_run(j);
  for (int i = 0; i < n && s == NULL; i++) weft_coll_run_end_there(runs[i], is_done);
  for (int i = 0; i < n; i++) weft_coll_run_end(runs[i], weft_status_clone(s));
  weft_status_free(s);
  weft_free(runs);
}

/* Notes a failure, which ends all that is under way. Consumes `s`. */
static void note(joint_run_t *j, weft_status_t *s) {
  weft_mutex_lock(&j->mu);
  const bool is_first = j->status == NULL;
  if (is_first) j->status = s;
  weft_mutex_unlock(&j->mu);
  if (!is_first) {
    weft_status_free(s);
    return;
  }
  weft_coll_run_fail(j->head, weft_status_clone(s), true);
  weft_joints_fail(j->head->joints, j->joint);
}

static void hold(joint_run_t *j, int n) {
  weft_mutex_lock(&j->mu);
  j->pending += n;
  weft_mutex_unlock(&j->mu);
}

static void decide(joint_run_t *j);
static void act(joint_run_t *j);
static void tell_end(joint_run_t *j);

/* The last of what was pending begins what comes next. */
static void drop(joint_run_t *j) {
  weft_mutex_lock(&j->mu);
  const bool is_last = --j->pending == 0;
  const joint_phase_t before = j->phase;
  const bool is_joint = before != VOTING && own_decision(j)->epoch != 0;
  const bool goes_on =
      is_last && j->status == NULL && (before == VOTING || (before == DECIDED && is_joint && is_decider(j)));
  if (goes_on) {
    j->phase = before == VOTING ? DECIDED : ENDING;
    j->pending = 1; /* this thread's */
  }
  weft_mutex_unlock(&j->mu);
  if (!is_last) return;
  if (!goes_on) {
    end_all(j);
    return;
  }
  if (before == DECIDED) {
    tell_end(j);
  } else {
    if (is_decider(j)) decide(j);
    if (own_decision(j)->epoch != 0) act(j);
  }
  drop(j);
}

/* ---- messages ---- */

static void on_message(void *arg, weft_status_t *s) {
  joint_run_t *j = arg;
  if (s != NULL) note(j, s);
  drop(j);
}

/* Done when the other task has it. */
static void offer(joint_run_t *j, const char *what, int task, const void *data, size_t bytes) {
  char text[WEFT_KEY_TEXT];
  const int to = j->tasks[task].first;
  hold(j, 1);
  weft_coll_run_offer(j->head, weft_coll_run_key(j->head, text, what, 0, 0, j->head->rank, to), to, data,
                      bytes, true, on_message, j);
}

static void fetch(joint_run_t *j, const char *what, int task, void *data, size_t bytes) {
  char text[WEFT_KEY_TEXT];
  const int from = j->tasks[task].first;
  hold(j, 1);
  weft_fetch_t f = weft_coll_run_fetch_from(
      j->head, weft_coll_run_key(j->head, text, what, 0, 0, from, j->head->rank), from, bytes);
  f.to = data;
  f.is_control = true;
  j->head->transport->ops->fetch(j->head->transport, &f, j->head->canceller, on_message, j);
}

static void decide(joint_run_t *j) {
  weft_joints_decide(j->head->joints, j->joint, j->tasks, j->num_tasks);
  for (int i = 1; i < j->num_tasks; i++) offer(j, "jd", i, &j->decisions[i], sizeof j->decisions[i]);
}

static void vote(joint_run_t *j) {
  hold(j, 1);
  for (int i = 1; is_decider(j) && i < j->num_tasks; i++) fetch(j, "jv", i, j->votes[i], vote_bytes(j, i));
  if (!is_decider(j)) {
    offer(j, "jv", 0, j->votes[j->own], vote_bytes(j, j->own));
    fetch(j, "jd", 0, &j->decisions[0], sizeof j->decisions[0]);
  }
  drop(j);
}

/* ---- at the places ---- */

static void on_ran(void *arg, weft_status_t *s) {
  joint_run_t *j = arg;
  const bool by_host = weft_status_code(s) == WEFT_UNIMPLEMENTED; /* on all ranks */
  /* It was broken off because of another failure, which is reported elsewhere. */
  if (weft_status_code(s) == WEFT_ABORTED) s = weft_status_mark_derived(s);
  weft_mutex_lock(&j->mu);
  j->is_done = s == NULL;
  weft_mutex_unlock(&j->mu);
  if (s != NULL && !by_host) {
    note(j, s);
  } else {
    weft_status_free(s);
    if (!is_decider(j)) offer(j, "jf", 0, NULL, 0);
  }
  drop(j);
}

static void act(joint_run_t *j) {
  hold(j, 1); /* dropped by on_ran() */
  for (int i = 1; is_decider(j) && i < j->num_tasks; i++) fetch(j, "jf", i, NULL, 0);
  if (!is_decider(j)) fetch(j, "je", 0, NULL, 0);
  weft_joints_run(j->head->joints, j->joint, own_decision(j), &j->together, on_ran, j);
}

/* All have done it. */
static void tell_end(joint_run_t *j) {
  for (int i = 1; i < j->num_tasks; i++) offer(j, "je", i, NULL, 0);
}

/* ---- the stage ---- */

static void speak(weft_coll_run_t **runs, int n) {
  joint_run_t *j = NULL;
  weft_coll_run_t **all = weft_calloc((size_t)n, sizeof(weft_coll_run_t *));
  weft_status_t *s = all == NULL ? WEFT_NO_MEMORY("a collective with other tasks") : NULL;
  for (int i = 0; s == NULL && i < n; i++) all[i] = runs[i];
  if (s == NULL) s = joint_run_new(all, n, &j);
  if (s == NULL) {
    vote(j);
    return;
  }
  for (int i = 0; i < n; i++) weft_coll_run_end(runs[i], weft_status_clone(s));
  weft_status_free(s);
}

weft_status_t *weft_coll_run_jointly(weft_coll_run_t *r) {
  char text[WEFT_KEY_TEXT];
  void **members = NULL;
  int num_own = 0, index = 0;
  if (r->is_together || !is_voted_on(r)) return NULL;
  for (int i = 0; i < r->group->size; i++) {
    if (!weft_str_eq(r->group->members[i].task, r->group->members[r->rank].task)) continue;
    if (i < r->rank) index++;
    num_own++;
  }
  weft_coll_run_begin(r); /* ended by the one that speaks */
  weft_status_t *s = weft_meetings_come(
      r->meetings, r->call.step_id, weft_coll_run_key(r, text, "j", 0, 0, 0, 0), num_own, index, r, &members);
  if (s != NULL) {
    weft_coll_run_end(r, s);
    return NULL;
  }
  if (members == NULL) return NULL;
  speak((weft_coll_run_t **)(void *)members, num_own);
  weft_free(members);
  return NULL;
}
