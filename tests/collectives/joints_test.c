/* tests/collectives/joints_test.c - collectives that the places of several tasks do by themselves: one order
 * on all of them, and an end of all when one ends.
 *
 * The places are cards that are played: each does one piece of work at a time, in the order in which it got
 * them, and a piece of a collective waits at the head until those of all ranks are at their heads. Two cards
 * that get collectives in different orders stand still for ever.
 */
#include <CUnit/CUnit.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "tests/collectives/world.h"
#include "tests/runner.h"

enum { TASKS = 3, AT_ONCE = 12, ROUNDS = 25 };

/* ---- cards ---- */

typedef struct clique {
  struct clique *next;
  int n, num_joined;
  int64_t id;
} clique_t;

typedef struct played_communicator {
  clique_t *clique;
  int card;
  uint64_t last; /* number of its last piece */
  bool is_broken;
} played_communicator_t;

typedef struct piece {
  struct piece *next;
  played_communicator_t *of;
  uint64_t number;
  const weft_tensor_t *input;
  weft_tensor_t *output;
  void (*done)(void *arg, weft_status_t *status);
  void *arg;
  weft_status_t *status;
} piece_t;

typedef struct card {
  weft_collective_place_t base; /* first */
  int number;
} card_t;

static struct {
  weft_mutex_t mu;
  weft_cond_t changed;
  clique_t *cliques;     /* guarded by mu, as the rest; they stay */
  piece_t *heads[TASKS]; /* by card */
  int64_t last_id;
  int num_by_host, num_at_once;
  int failing; /* the card that fails each collective; -1: none */
} cards;

static card_t *card_of(weft_collective_place_t *p) { return (card_t *)(void *)p; }

static void add(const weft_tensor_t *from, weft_tensor_t *to, bool is_first) {
  for (int64_t i = 0; i < to->count; i++) {
    const int64_t x = ((const int64_t *)from->data)[i];
    ((int64_t *)to->data)[i] = is_first ? x : ((int64_t *)to->data)[i] + x;
  }
}

/* Does the collective at the head of `card` if it is at the heads of all its ranks; its pieces, or NULL. */
static piece_t *advance_locked(int card) WEFT_REQUIRES(cards.mu) {
  const piece_t *first = cards.heads[card];
  piece_t *taken = NULL;
  int num_there = 0;
  for (int i = 0; first != NULL && i < TASKS; i++) {
    const piece_t *p = cards.heads[i];
    num_there += p != NULL && p->of->clique == first->of->clique && p->number == first->number;
  }
  if (first == NULL || num_there < first->of->clique->n) return NULL;
  const clique_t *clique = first->of->clique;
  const uint64_t number = first->number;
  weft_tensor_t *sum = NULL;
  for (int i = 0; i < TASKS; i++) {
    piece_t *p = cards.heads[i];
    if (p == NULL || p->of->clique != clique || p->number != number) continue;
    if (sum == NULL) CU_ASSERT_PTR_NULL_FATAL(weft_tensor_new(WEFT_I64, &p->input->shape, NULL, &sum));
    add(p->input, sum, taken == NULL);
    cards.heads[i] = p->next;
    p->next = taken;
    taken = p;
  }
  for (piece_t *p = taken; p != NULL; p = p->next) add(sum, p->output, true);
  weft_tensor_release(sum);
  cards.num_at_once++;
  return taken;
}

static void call_all(piece_t *p) {
  for (piece_t *next; p != NULL; p = next) {
    next = p->next;
    p->done(p->arg, p->status);
    weft_free(p);
  }
}

static void advance_all(void) {
  for (bool again = true; again;) {
    again = false;
    for (int i = 0; i < TASKS; i++) {
      weft_mutex_lock(&cards.mu);
      piece_t *done = advance_locked(i);
      weft_mutex_unlock(&cards.mu);
      again = again || done != NULL;
      call_all(done);
    }
  }
}

static weft_status_t *broken_off(void) { return WEFT_ERROR(ABORTED, "broken off"); }

static weft_status_t *identify(weft_collective_place_t *const *places, int n, uint8_t *out_ids) {
  for (int i = 0; i < n; i++) {
    memset(out_ids + i * WEFT_PLACE_ID_BYTES, 0, WEFT_PLACE_ID_BYTES);
    out_ids[i * WEFT_PLACE_ID_BYTES] = (uint8_t)card_of(places[i])->number;
  }
  return NULL;
}

static weft_status_t *unique_id(weft_collective_place_t *const *places, int n, uint8_t *out) {
  (void)places, (void)n;
  weft_mutex_lock(&cards.mu);
  const int64_t id = ++cards.last_id;
  weft_mutex_unlock(&cards.mu);
  memset(out, 0, WEFT_JOINT_ID_BYTES);
  memcpy(out, &id, sizeof id);
  return NULL;
}

static weft_status_t *join(weft_collective_place_t *const *places, const int *ranks, int num_own, int n,
                           const uint8_t *id, void **out) {
  played_communicator_t *c = weft_calloc(1, sizeof *c);
  clique_t *q = NULL;
  int64_t number = 0;
  (void)ranks;
  CU_ASSERT_EQUAL(num_own, 1);
  memcpy(&number, id, sizeof number);
  weft_mutex_lock(&cards.mu);
  for (q = cards.cliques; q != NULL && q->id != number; q = q->next) {
  }
  if (q == NULL) {
    q = weft_calloc(1, sizeof *q);
    *q = (clique_t){.next = cards.cliques, .n = n, .id = number};
    cards.cliques = q;
  }
  q->num_joined++;
  weft_cond_broadcast(&cards.changed);
  weft_mutex_unlock(&cards.mu);
  *c = (played_communicator_t){.clique = q, .card = card_of(places[0])->number};
  *out = c;
  return NULL;
}

static weft_status_t *run(void *communicator, const weft_collective_together_t *t,
                          void (*done)(void *arg, weft_status_t *status), void *arg) {
  played_communicator_t *c = communicator;
  if (t->call->reduction != WEFT_REDUCE_SUM) return WEFT_ERROR(UNIMPLEMENTED, "sums only");
  if (c->card == cards.failing) return WEFT_ERROR(INTERNAL, "no way to the other cards");
  piece_t *p = weft_calloc(1, sizeof *p);
  weft_mutex_lock(&cards.mu);
  while (c->clique->num_joined < c->clique->n && !c->is_broken)
    weft_cond_wait(&cards.changed, &cards.mu); /* woken by join() and abort_one() */
  const bool is_broken = c->is_broken;
  if (!is_broken) {
    *p = (piece_t){.of = c,
                   .number = ++c->last,
                   .input = t->inputs[0],
                   .output = t->outputs[0],
                   .done = done,
                   .arg = arg};
    piece_t **at = &cards.heads[c->card];
    while (*at != NULL) at = &(*at)->next;
    *at = p;
  }
  weft_mutex_unlock(&cards.mu);
  if (is_broken) {
    weft_free(p);
    return broken_off();
  }
  advance_all();
  return NULL;
}

static void abort_one(void *communicator) {
  played_communicator_t *c = communicator;
  piece_t *taken = NULL;
  weft_mutex_lock(&cards.mu);
  c->is_broken = true;
  for (piece_t **at = &cards.heads[c->card]; *at != NULL;) {
    piece_t *p = *at;
    if (p->of != c) {
      at = &p->next;
      continue;
    }
    *at = p->next;
    p->next = taken;
    p->status = broken_off();
    taken = p;
  }
  weft_cond_broadcast(&cards.changed);
  weft_mutex_unlock(&cards.mu);
  call_all(taken);
  advance_all();
}

static void leave(void *communicator) {
  abort_one(communicator); /* nothing of it is there any more */
  weft_free(communicator);
}

static weft_status_t *new_output(weft_collective_place_t *p, weft_dtype_t dtype, const weft_shape_t *shape,
                                 weft_tensor_t **out) {
  (void)p;
  return weft_tensor_new(dtype, shape, NULL, out);
}

static void move(weft_collective_place_t *p, weft_tensor_t *t, weft_collective_moved_fn *fn, void *arg) {
  (void)p;
  weft_mutex_lock(&cards.mu);
  cards.num_by_host++;
  weft_mutex_unlock(&cards.mu);
  fn(arg, NULL, weft_tensor_retain(t));
}

static const weft_joint_places_t joint = {.identify = identify,
                                          .unique_id = unique_id,
                                          .join = join,
                                          .run = run,
                                          .abort = abort_one,
                                          .leave = leave};
static const weft_collective_place_ops_t with_joint = {
    .new_output = new_output, .to_host = move, .from_host = move, .joint = &joint};
static const weft_collective_place_ops_t without = {
    .new_output = new_output, .to_host = move, .from_host = move};

static card_t places[TASKS];

static void open_world(world_t *w) {
  static const char *const hosts[] = {"a", "b", "c"};
  world_init(w, TASKS, 2, false, hosts);
  for (int i = 0; i < TASKS; i++) places[i] = (card_t){.base.ops = &with_joint, .number = i};
  cards.num_by_host = cards.num_at_once = 0;
  cards.failing = -1;
}

/* ---- calls ---- */

static const int groups[][TASKS + 1] = {{3, 0, 1, 2}, {2, 0, 1, -1}, {2, 0, 2, -1}, {2, 2, 0, -1}};
enum { NUM_GROUPS = sizeof groups / sizeof groups[0] };

static int rank_in(int group, int task) {
  for (int i = 0; i < groups[group][0]; i++) {
    if (groups[group][1 + i] == task) return i;
  }
  return -1;
}

static void begin(world_t *w, int task, int group, int instance, weft_reduction_t reduction,
                  weft_canceller_t *canceller, result_t *r) {
  char device[96];
  snprintf(device, sizeof device, "%s/device:CARD:0", w->tasks[task]);
  weft_collective_t c = world_call(w, task, WEFT_ALL_REDUCE, WEFT_I64, weft_shape_vector(7));
  c.device = weft_str(device);
  c.group_key = 10 + group;
  c.group_size = groups[group][0];
  c.rank = rank_in(group, task);
  c.instance_key = instance;
  c.reduction = reduction;
  c.place = &places[task].base;
  CU_ASSERT_PTR_NULL_FATAL(weft_tensor_new(WEFT_I64, &c.shape, NULL, &c.input));
  for (int i = 0; i < 7; i++) ((int64_t *)c.input->data)[i] = (1 << (8 * task)) + instance;
  world_start(w, task, &c, canceller, r);
  weft_tensor_release(c.input);
}

static int64_t expected(int group, int instance) {
  int64_t sum = 0;
  for (int i = 0; i < groups[group][0]; i++) sum += (1 << (8 * groups[group][1 + i])) + instance;
  return sum;
}

typedef struct member {
  world_t *w;
  int task, num_groups;
  weft_canceller_t *canceller; /* of the step */
  bool lacks_first;            /* does not begin the first instance, for which the others wait */

  unsigned seed;
  int num_ok, num_failed, num_wrong;
} member_t;

static unsigned draw(unsigned *seed) {
  *seed = *seed * 1664525u + 1013904223u;
  return *seed >> 16;
}

/* A task's part in a round: instances of all its groups, in an order of its own. */
static void *be_member(void *arg) {
  member_t *m = arg;
  result_t results[AT_ONCE];
  int order[AT_ONCE];
  for (int i = 0; i < AT_ONCE; i++) order[i] = i;
  for (int i = AT_ONCE - 1; i > 0; i--) {
    const int k = (int)(draw(&m->seed) % (unsigned)(i + 1)), x = order[i];
    order[i] = order[k];
    order[k] = x;
  }
  for (int i = 0; i < AT_ONCE; i++) {
    const int group = order[i] % m->num_groups;
    if (rank_in(group, m->task) >= 0 && !(m->lacks_first && order[i] == 0))
      begin(m->w, m->task, group, 100 + order[i], WEFT_REDUCE_SUM, m->canceller, &results[order[i]]);
  }
  for (int i = 0; i < AT_ONCE; i++) {
    const int group = i % m->num_groups;
    if (rank_in(group, m->task) < 0 || (m->lacks_first && i == 0)) continue;
    CU_ASSERT_TRUE_FATAL(world_wait(m->w, &results[i]));
    if (results[i].status != NULL) {
      m->num_failed++;
      weft_status_free(results[i].status);
      continue;
    }
    m->num_ok++;
    m->num_wrong += ((const int64_t *)results[i].output->data)[6] != expected(group, 100 + i);
    weft_tensor_release(results[i].output);
  }
  return NULL;
}

/* `ends`: all tasks end the step at some moment. */
static void play_round(world_t *w, int num_groups, unsigned *seed, bool ends, int *out_failed) {
  member_t members[TASKS];
  pthread_t threads[TASKS];
  weft_canceller_t *canceller = weft_canceller_create(NULL);
  for (int i = 0; i < TASKS; i++) {
    members[i] = (member_t){.w = w,
                            .task = i,
                            .num_groups = num_groups,
                            .canceller = canceller,
                            .lacks_first = ends && i == w->next_step % TASKS,
                            .seed = draw(seed)};
    CU_ASSERT_EQUAL_FATAL(pthread_create(&threads[i], NULL, be_member, &members[i]), 0);
  }
  weft_status_t *why = ends ? WEFT_ERROR(OUT_OF_RANGE, "the data set has ended") : NULL;
  for (unsigned spins = ends ? draw(seed) % 2000 : 0; spins > 0; spins--) sched_yield();
  for (int i = 0; ends && i < TASKS; i++) weft_collectives_end_step(w->collectives[i], w->next_step, why);
  if (ends) weft_canceller_cancel(canceller); /* and what begins later */
  for (int i = 0; i < TASKS; i++) pthread_join(threads[i], NULL);
  for (int i = 0; !ends && i < TASKS; i++) weft_collectives_end_step(w->collectives[i], w->next_step, NULL);
  weft_canceller_release(canceller);
  weft_status_free(why);
  w->next_step++;
  for (int i = 0; i < TASKS; i++) {
    CU_ASSERT_EQUAL(members[i].num_wrong, 0);
    *out_failed += members[i].num_failed;
  }
}

/* ---- tests ---- */

static void all_cards_get_one_order(void) {
  world_t w;
  unsigned seed = 1;
  int failed = 0;
  open_world(&w);
  for (int i = 0; i < ROUNDS; i++) play_round(&w, 3, &seed, false, &failed);
  CU_ASSERT_EQUAL(failed, 0);
  CU_ASSERT_EQUAL(cards.num_by_host, 0);
  CU_ASSERT_EQUAL(cards.num_at_once, ROUNDS * AT_ONCE);
  world_deinit(&w);
}

/* One of the groups has another first task than the others. */
static void tasks_let_one_decide(void) {
  world_t w;
  unsigned seed = 2;
  int failed = 0;
  open_world(&w);
  for (int i = 0; i < ROUNDS; i++) play_round(&w, NUM_GROUPS, &seed, false, &failed);
  CU_ASSERT_EQUAL(failed, 0);
  world_deinit(&w);
}

static void a_step_that_ends_ends_all(void) {
  world_t w;
  unsigned seed = 3;
  int failed = 0, later = 0;
  open_world(&w);
  for (int i = 0; i < 2 * ROUNDS; i++) {
    play_round(&w, 1 + i % NUM_GROUPS, &seed, true, &failed);
    play_round(&w, 1 + i % NUM_GROUPS, &seed, false, &later);
  }
  CU_ASSERT_TRUE(failed >= 2 * ROUNDS * (TASKS - 1));
  CU_ASSERT_EQUAL(later, 0);
  world_deinit(&w);
}

static void one_that_cannot_sends_all_by_host(void) {
  for (int which = 0; which < 2; which++) {
    world_t w;
    result_t r[TASKS];
    open_world(&w);
    if (which == 0) places[1].base.ops = &without;
    if (which == 1) places[2].number = 0; /* the card of task 0, too */
    for (int i = 0; i < TASKS; i++) begin(&w, i, 0, 5, WEFT_REDUCE_SUM, NULL, &r[i]);
    for (int i = 0; i < TASKS; i++) {
      CU_ASSERT_TRUE_FATAL(world_wait(&w, &r[i]));
      CU_ASSERT_PTR_NULL_FATAL(r[i].status);
      CU_ASSERT_EQUAL(((const int64_t *)r[i].output->data)[0], expected(0, 5));
      weft_tensor_release(r[i].output);
    }
    CU_ASSERT_EQUAL(cards.num_at_once, 0);
    CU_ASSERT_EQUAL(cards.num_by_host, 2 * TASKS);
    world_deinit(&w);
  }
}

static void what_the_places_have_not_goes_by_host(void) {
  world_t w;
  result_t r[TASKS];
  open_world(&w);
  for (int round = 0; round < 2; round++) {
    for (int i = 0; i < TASKS; i++) begin(&w, i, 0, 6, WEFT_REDUCE_MAX, NULL, &r[i]);
    for (int i = 0; i < TASKS; i++) {
      CU_ASSERT_TRUE_FATAL(world_wait(&w, &r[i]));
      CU_ASSERT_PTR_NULL_FATAL(r[i].status);
      CU_ASSERT_EQUAL(((const int64_t *)r[i].output->data)[0], (1 << 16) + 6);
      weft_tensor_release(r[i].output);
    }
    for (int i = 0; i < TASKS; i++) weft_collectives_end_step(w.collectives[i], w.next_step, NULL);
    w.next_step++;
  }
  CU_ASSERT_EQUAL(cards.num_by_host, 4 * TASKS);
  world_deinit(&w);
}

/* Then all go by way of the host. */
static void cards_that_do_not_reach_each_other_fail_twice(void) {
  for (int failing = 0; failing < TASKS; failing++) {
    world_t w;
    result_t r[TASKS];
    open_world(&w);
    cards.failing = failing;
    for (int round = 0; round < 5; round++) {
      for (int i = 0; i < TASKS; i++) begin(&w, i, 0, 5, WEFT_REDUCE_SUM, NULL, &r[i]);
      for (int i = 0; i < TASKS; i++) {
        CU_ASSERT_TRUE_FATAL(world_wait(&w, &r[i]));
        if (round > 1) CU_ASSERT_PTR_NULL_FATAL(r[i].status);
        if (round <= 1) CU_ASSERT_EQUAL(weft_status_code(r[i].status), WEFT_INTERNAL);
        if (round > 1) CU_ASSERT_EQUAL(((const int64_t *)r[i].output->data)[0], expected(0, 5));
        weft_status_free(r[i].status);
        weft_tensor_release(r[i].output);
      }
      for (int i = 0; i < TASKS; i++) weft_collectives_end_step(w.collectives[i], w.next_step, NULL);
      w.next_step++;
    }
    CU_ASSERT_EQUAL(cards.num_by_host, 3 * 2 * TASKS);
    world_deinit(&w);
  }
}

static const CU_TestInfo tests[] = {
    {"all cards get one order", all_cards_get_one_order},
    {"tasks let one decide", tasks_let_one_decide},
    {"a step that ends ends all", a_step_that_ends_ends_all},
    {"one that cannot sends all by host", one_that_cannot_sends_all_by_host},
    {"what the places have not goes by host", what_the_places_have_not_goes_by_host},
    {"cards that do not reach each other fail twice", cards_that_do_not_reach_each_other_fail_twice},
    CU_TEST_INFO_NULL,
};

int main(void) {
  weft_mutex_init(&cards.mu);
  weft_cond_init(&cards.changed);
  const int status = weft_run_tests("joints", tests);
  for (clique_t *q = cards.cliques, *next; q != NULL; q = next) {
    next = q->next;
    weft_free(q);
  }
  return status;
}
