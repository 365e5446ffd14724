/* T-COL-4 and T-COL-6: what fails, fails everywhere, soon, with its cause, and harms nothing that comes
 * later. */
#include <stdio.h>

#include "base/clock.h"
#include "tests/collectives/world.h"
#include "tests/runner.h"

typedef struct part {
  weft_collective_t call;
  weft_tensor_t *in;
  result_t out;
} part_t;

static int targets[WORLD_MOST];

/* All ranks' parts of a collective of `kind`, of `count` elements a rank. */
static void parts_init(world_t *w, part_t *parts, weft_collective_kind_t kind, int64_t count,
                       int64_t instance, weft_collective_algorithm_t a) {
  for (int r = 0; r < w->n; r++) {
    part_t *p = &parts[r];
    *p = (part_t){.call = world_call(w, r, kind, WEFT_F32, weft_shape_vector(count * w->n))};
    p->call.instance_key = instance;
    p->call.algorithm = a;
    targets[r] = (r + 1) % w->n;
    p->call.targets = targets;
    if (kind == WEFT_BROADCAST || kind == WEFT_SCATTER || kind == WEFT_GATHER || kind == WEFT_REDUCE)
      p->call.root = 0;
    if (kind == WEFT_SCATTER && r != 0) p->call.shape.dims[0] = count;
    const bool gives = kind != WEFT_BARRIER && !((kind == WEFT_BROADCAST || kind == WEFT_SCATTER) && r != 0);
    weft_status_t *s = gives ? weft_tensor_new(WEFT_F32, &p->call.shape, NULL, &p->in) : NULL;
    CU_ASSERT_PTR_NULL_FATAL(s);
    if (p->in != NULL) memset(p->in->data, 0, p->in->bytes);
    p->call.input = p->in;
  }
}

static void part_deinit(part_t *p) {
  weft_tensor_release(p->in);
  result_deinit(&p->out);
}

static void start_all(world_t *w, part_t *parts) {
  for (int r = 0; r < w->n; r++) world_start(w, r, &parts[r].call, NULL, &parts[r].out);
}

static void end_all(world_t *w, part_t *parts) {
  for (int r = 0; r < w->n; r++) world_wait(w, &parts[r].out);
  for (int r = 0; r < w->n; r++) {
    weft_collectives_end_step(w->collectives[r], parts[r].call.step_id, NULL);
    part_deinit(&parts[r]);
  }
  w->next_step++;
  CU_ASSERT_EQUAL(weft_local_hub_num_waiting(w->hub), 0);
}

static bool says(const result_t *r, const char *text) {
  return strstr(weft_status_message(r->status), text) != NULL;
}

static void all_succeed(world_t *w, weft_collective_kind_t kind, int64_t instance, int64_t group) {
  part_t parts[WORLD_MOST];
  parts_init(w, parts, kind, 8, instance, WEFT_ALGORITHM_AUTO);
  for (int r = 0; r < w->n; r++) parts[r].call.group_key = group;
  start_all(w, parts);
  for (int r = 0; r < w->n; r++) {
    world_wait(w, &parts[r].out);
    if (parts[r].out.status != NULL)
      fprintf(stderr, "rank %d: %s\n", r, weft_status_message(parts[r].out.status));
    CU_ASSERT_PTR_NULL(parts[r].out.status);
  }
  end_all(w, parts);
}

/* Kills rank 2 after `events` messages; the others end with its name or had ended before. Returns how many
 * failed. */
static int kill_in_the_middle(weft_collective_kind_t kind, weft_collective_algorithm_t a, int events) {
  world_t w;
  world_init(&w, 4, 0, true, NULL);
  CU_ASSERT_PTR_NULL_FATAL(weft_local_hub_set_link(w.hub, WEFT_STR(""), WEFT_STR(""),
                                                   (weft_link_model_t){.alpha_us = 100, .bytes_per_s = 1e9}));
  part_t parts[WORLD_MOST];
  parts_init(&w, parts, kind, 1000, 1, a);
  start_all(&w, parts);
  weft_local_hub_run_some(w.hub, events);
  weft_local_hub_kill(w.hub, weft_str(w.tasks[2]));
  int failed = 0;
  for (int r = 0; r < 4; r++) {
    world_wait(&w, &parts[r].out);
    if (parts[r].out.status == NULL) continue;
    failed++;
    if (weft_status_code(parts[r].out.status) != WEFT_UNAVAILABLE)
      fprintf(stderr, "kind %d, algorithm %d, events %d, rank %d: %s\n", kind, a, events, r,
              weft_status_message(parts[r].out.status));
    CU_ASSERT_EQUAL(weft_status_code(parts[r].out.status), WEFT_UNAVAILABLE);
    CU_ASSERT(says(&parts[r].out, "/job:worker/replica:0/task:2"));
  }
  end_all(&w, parts);
  /* The survivors make another group. */
  const int survivors[] = {0, 1, 3};
  result_t out[3];
  for (int i = 0; i < 3; i++) {
    weft_collective_t c = world_call(&w, survivors[i], WEFT_BARRIER, WEFT_F32, WEFT_SCALAR);
    c.group_key = 7;
    c.group_size = 3;
    c.rank = -1;
    world_start(&w, survivors[i], &c, NULL, &out[i]);
  }
  for (int i = 0; i < 3; i++) {
    world_wait(&w, &out[i]);
    CU_ASSERT_PTR_NULL(out[i].status);
    result_deinit(&out[i]);
  }
  world_deinit(&w);
  return failed;
}

static void a_death_in_the_middle_ends_all_ranks(void) {
  static const weft_collective_algorithm_t algorithms[] = {
      WEFT_ALGORITHM_RING, WEFT_ALGORITHM_TREE, WEFT_ALGORITHM_HALVING_DOUBLING, WEFT_ALGORITHM_DIRECT};
  for (int kind = WEFT_BROADCAST; kind <= WEFT_BARRIER; kind++) {
    for (int a = 0; a < 4; a++) {
      int most = 0;
      for (int events = 0; events < 20; events++) {
        const int failed = kill_in_the_middle((weft_collective_kind_t)kind, algorithms[a], events);
        most = failed > most ? failed : most;
      }
      CU_ASSERT(most >= 3); /* all that were waiting */
    }
  }
}

/* Rank 1's process is another one now. */
static void restart(world_t *w) {
  weft_local_hub_kill(w->hub, weft_str(w->tasks[1]));
  weft_collectives_destroy(w->collectives[1]);
  weft_transport_destroy(w->transports[1]);
  CU_ASSERT_PTR_NULL_FATAL(
      weft_local_transport_create(w->hub, weft_str(w->tasks[1]), WEFT_STR(""), 999, &w->transports[1]));
  CU_ASSERT_PTR_NULL_FATAL(
      weft_collectives_create(weft_str(w->tasks[1]), NULL, w->transports[1], &w->collectives[1]));
}

static void a_lost_task_ends_its_collectives_and_comes_again(void) {
  world_t w;
  world_init(&w, 3, 0, false, NULL);
  all_succeed(&w, WEFT_ALL_REDUCE, 1, 1);
  /* Rank 1 does not come; the heartbeat says that it is dead. */
  part_t parts[WORLD_MOST];
  parts_init(&w, parts, WEFT_ALL_REDUCE, 10, 1, WEFT_ALGORITHM_RING);
  weft_status_t *why = WEFT_ERROR(UNAVAILABLE, "no heartbeat");
  world_start(&w, 0, &parts[0].call, NULL, &parts[0].out);
  world_start(&w, 2, &parts[2].call, NULL, &parts[2].out);
  CU_ASSERT_EQUAL(parts[0].out.calls + parts[2].out.calls, 0);
  for (int r = 0; r < 3; r += 2) weft_collectives_lost_task(w.collectives[r], weft_str(w.tasks[1]), why);
  for (int r = 0; r < 3; r += 2) {
    world_wait(&w, &parts[r].out);
    CU_ASSERT_EQUAL(weft_status_code(parts[r].out.status), WEFT_UNAVAILABLE);
    CU_ASSERT(says(&parts[r].out, "task:1"));
    part_deinit(&parts[r]);
  }
  weft_tensor_release(parts[1].in);
  /* Until it comes again the group fails at once. */
  parts_init(&w, parts, WEFT_ALL_REDUCE, 10, 1, WEFT_ALGORITHM_RING);
  parts[0].call.step_id = 50;
  world_start(&w, 0, &parts[0].call, NULL, &parts[0].out);
  world_wait(&w, &parts[0].out);
  CU_ASSERT_EQUAL(weft_status_code(parts[0].out.status), WEFT_UNAVAILABLE);
  for (int r = 0; r < 3; r++) part_deinit(&parts[r]);
  restart(&w);
  w.next_step = 60;
  parts_init(&w, parts, WEFT_ALL_REDUCE, 8, 1, WEFT_ALGORITHM_AUTO);
  const int order[] = {1, 0, 2}; /* the rank that returned is the first */
  for (int i = 0; i < 3; i++) world_start(&w, order[i], &parts[order[i]].call, NULL, &parts[order[i]].out);
  for (int r = 0; r < 3; r++) {
    world_wait(&w, &parts[r].out);
    CU_ASSERT_PTR_NULL(parts[r].out.status);
  }
  end_all(&w, parts);
  weft_status_free(why);
  world_deinit(&w);
}

/* Rank 0's client goes on in a session from before the loss: its steps must not meet those of clients that
 * have begun anew. Nothing else is harmed: not its other groups, and not its next session. */
static void a_session_from_before_a_loss_meets_no_new_ones(void) {
  world_t w;
  world_init(&w, 3, 0, false, NULL);
  all_succeed(&w, WEFT_ALL_REDUCE, 1, 1);
  const int64_t begun = weft_collectives_losses(w.collectives[0]);
  weft_status_t *why = WEFT_ERROR(UNAVAILABLE, "no heartbeat");
  for (int r = 0; r < 3; r += 2) weft_collectives_lost_task(w.collectives[r], weft_str(w.tasks[1]), why);
  weft_status_free(why);
  CU_ASSERT_EQUAL(weft_collectives_losses(w.collectives[0]), begun + 1);
  part_t parts[WORLD_MOST];
  w.next_step = 70;
  parts_init(&w, parts, WEFT_ALL_REDUCE, 10, 1, WEFT_ALGORITHM_RING);
  const int64_t step = parts[0].call.step_id;
  CU_ASSERT_PTR_NULL(weft_collectives_begin_step(w.collectives[0], step, begun));
  world_start(&w, 0, &parts[0].call, NULL, &parts[0].out);
  world_wait(&w, &parts[0].out);
  CU_ASSERT_EQUAL(weft_status_code(parts[0].out.status), WEFT_UNAVAILABLE);
  CU_ASSERT(says(&parts[0].out, "task:1"));
  for (int r = 0; r < 3; r++) part_deinit(&parts[r]);
  parts_init(&w, parts, WEFT_ALL_REDUCE, 10, 1, WEFT_ALGORITHM_RING); /* the same step, in another group */
  for (int r = 0; r < 3; r++) {
    parts[r].call.group_key = 2;
    parts[r].call.step_id = step;
    world_start(&w, r, &parts[r].call, NULL, &parts[r].out);
  }
  for (int r = 0; r < 3; r++) {
    world_wait(&w, &parts[r].out);
    CU_ASSERT_PTR_NULL(parts[r].out.status);
  }
  end_all(&w, parts);
  weft_collectives_end_step(w.collectives[0], step, NULL);
  /* A session that begins now is younger than the loss. */
  CU_ASSERT_PTR_NULL(weft_collectives_begin_step(w.collectives[0], 90, begun + 1));
  restart(&w);
  parts_init(&w, parts, WEFT_ALL_REDUCE, 10, 2, WEFT_ALGORITHM_RING);
  const int order[] = {1, 0, 2}; /* the rank that returned is the first */
  for (int i = 0; i < 3; i++) {
    parts[order[i]].call.step_id = 90;
    world_start(&w, order[i], &parts[order[i]].call, NULL, &parts[order[i]].out);
  }
  for (int r = 0; r < 3; r++) {
    world_wait(&w, &parts[r].out);
    CU_ASSERT_PTR_NULL(parts[r].out.status);
  }
  end_all(&w, parts);
  world_deinit(&w);
}

/* Without heartbeats: the other ranks find out that rank 1 is another process now. */
static void a_restarted_task_is_taken_in_without_heartbeats(void) {
  world_t w;
  world_init(&w, 3, 0, false, NULL);
  all_succeed(&w, WEFT_ALL_REDUCE, 1, 1);
  weft_local_hub_kill(w.hub, weft_str(w.tasks[1]));
  part_t parts[WORLD_MOST];
  parts_init(&w, parts, WEFT_ALL_REDUCE, 8, 1, WEFT_ALGORITHM_AUTO);
  start_all(&w, parts);
  for (int r = 0; r < 3; r++) {
    world_wait(&w, &parts[r].out);
    CU_ASSERT_EQUAL(weft_status_code(parts[r].out.status), WEFT_UNAVAILABLE);
    CU_ASSERT(says(&parts[r].out, "task:1"));
  }
  end_all(&w, parts);
  weft_collectives_destroy(w.collectives[1]);
  weft_transport_destroy(w.transports[1]);
  CU_ASSERT_PTR_NULL_FATAL(
      weft_local_transport_create(w.hub, weft_str(w.tasks[1]), WEFT_STR(""), 999, &w.transports[1]));
  CU_ASSERT_PTR_NULL_FATAL(
      weft_collectives_create(weft_str(w.tasks[1]), NULL, w.transports[1], &w.collectives[1]));
  parts_init(&w, parts, WEFT_ALL_REDUCE, 8, 1, WEFT_ALGORITHM_AUTO);
  for (int r = 2; r >= 0; r--)
    world_start(&w, (r + 2) % 3, &parts[(r + 2) % 3].call, NULL, &parts[(r + 2) % 3].out);
  for (int r = 0; r < 3; r++) {
    world_wait(&w, &parts[r].out);
    CU_ASSERT_PTR_NULL(parts[r].out.status);
  }
  end_all(&w, parts);
  world_deinit(&w);
}

static void a_cancelled_rank_ends_the_others(void) {
  world_t w;
  world_init(&w, 4, 0, false, NULL);
  all_succeed(&w, WEFT_ALL_REDUCE, 1, 1);
  part_t parts[WORLD_MOST];
  parts_init(&w, parts, WEFT_ALL_REDUCE, 8, 1, WEFT_ALGORITHM_AUTO);
  weft_canceller_t *c = weft_canceller_create(NULL);
  world_start(&w, 0, &parts[0].call, NULL, &parts[0].out);
  world_start(&w, 1, &parts[1].call, c, &parts[1].out);
  weft_canceller_cancel(c);
  world_start(&w, 2, &parts[2].call, NULL, &parts[2].out); /* ranks that join later get it, too */
  world_start(&w, 3, &parts[3].call, NULL, &parts[3].out);
  for (int r = 0; r < 4; r++) {
    world_wait(&w, &parts[r].out);
    CU_ASSERT_EQUAL(weft_status_code(parts[r].out.status), WEFT_CANCELLED);
  }
  end_all(&w, parts);
  weft_canceller_release(c);
  all_succeed(&w, WEFT_ALL_REDUCE, 1, 1);
  world_deinit(&w);
}

static void a_wait_for_the_leader_can_be_cancelled(void) {
  world_t w;
  world_init(&w, 2, 0, false, NULL);
  for (int phase = 0; phase < 2; phase++) {
    part_t parts[WORLD_MOST];
    parts_init(&w, parts, WEFT_ALL_REDUCE, 10, 5, WEFT_ALGORITHM_RING);
    weft_canceller_t *c = weft_canceller_create(NULL);
    world_start(&w, 0, &parts[0].call, c, &parts[0].out);
    CU_ASSERT_EQUAL(parts[0].out.calls, 0);
    weft_canceller_cancel(c);
    world_wait(&w, &parts[0].out);
    CU_ASSERT_EQUAL(weft_status_code(parts[0].out.status), WEFT_CANCELLED);
    weft_canceller_release(c);
    if (phase == 1) { /* a rank that joins later in that step gets it */
      world_start(&w, 1, &parts[1].call, NULL, &parts[1].out);
      world_wait(&w, &parts[1].out);
      CU_ASSERT_EQUAL(weft_status_code(parts[1].out.status), WEFT_CANCELLED);
    }
    for (int r = 0; r < 2; r++) part_deinit(&parts[r]);
    w.next_step++;
    if (phase == 0)
      all_succeed(&w, WEFT_BARRIER, 1, 1); /* now the group is known: the next waits for the instance */
  }
  all_succeed(&w, WEFT_ALL_REDUCE, 5, 1);
  world_deinit(&w);
}

static void the_end_of_a_step_ends_its_collectives(void) {
  world_t w;
  world_init(&w, 2, 0, false, NULL);
  all_succeed(&w, WEFT_ALL_REDUCE, 1, 1);
  part_t parts[WORLD_MOST];
  parts_init(&w, parts, WEFT_ALL_REDUCE, 8, 1, WEFT_ALGORITHM_AUTO);
  world_start(&w, 0, &parts[0].call, NULL, &parts[0].out);
  weft_status_t *why = WEFT_ERROR(DATA_LOSS, "the step broke");
  weft_collectives_end_step(w.collectives[0], parts[0].call.step_id, why);
  weft_status_free(why);
  world_start(&w, 1, &parts[1].call, NULL, &parts[1].out);
  for (int r = 0; r < 2; r++) {
    world_wait(&w, &parts[r].out);
    CU_ASSERT_EQUAL(weft_status_code(parts[r].out.status), WEFT_DATA_LOSS);
  }
  end_all(&w, parts);
  all_succeed(&w, WEFT_ALL_REDUCE, 1, 1);
  world_deinit(&w);
}

/* ---- timeouts ---- */

static void a_timeout_names_the_ranks_that_have_not_joined(void) {
  world_t w;
  world_init(&w, 4, 2, false, NULL);
  all_succeed(&w, WEFT_ALL_REDUCE, 1, 1);
  for (int phase = 0; phase < 3; phase++) { /* 0: known instance; 1: new instance; 2: new group */
    part_t parts[WORLD_MOST];
    parts_init(&w, parts, WEFT_ALL_REDUCE, 8, phase == 0 ? 1 : 2, WEFT_ALGORITHM_AUTO);
    for (int r = 0; r < 4; r++) {
      parts[r].call.timeout_ms = 300; /* enough for all to come */
      if (phase == 2) parts[r].call.group_key = 77;
      if (r != 2) world_start(&w, r, &parts[r].call, NULL, &parts[r].out);
    }
    for (int r = 0; r < 4; r++) {
      if (r == 2) continue;
      world_wait(&w, &parts[r].out);
      CU_ASSERT_EQUAL(weft_status_code(parts[r].out.status), WEFT_DEADLINE_EXCEEDED);
      CU_ASSERT(says(&parts[r].out, "timed out"));
      CU_ASSERT(says(&parts[r].out, phase == 2 ? "missing ranks: 2" : "have not joined: 2"));
      CU_ASSERT(!says(&parts[r].out, "have not joined: 0") && !says(&parts[r].out, "have not joined: 1"));
    }
    for (int r = 0; r < 4; r++) {
      weft_collectives_end_step(w.collectives[r], parts[r].call.step_id, NULL);
      part_deinit(&parts[r]);
    }
    w.next_step++;
    CU_ASSERT_EQUAL(weft_local_hub_num_waiting(w.hub), 0);
  }
  all_succeed(&w, WEFT_ALL_REDUCE, 1, 1);
  all_succeed(&w, WEFT_ALL_REDUCE, 2, 1);
  all_succeed(&w, WEFT_ALL_REDUCE, 2, 77);
  world_deinit(&w);
}

static void a_timeout_that_is_not_needed_harms_nothing(void) {
  world_t w;
  world_init(&w, 4, 2, false, NULL);
  for (int i = 0; i < 20; i++) {
    part_t parts[WORLD_MOST];
    parts_init(&w, parts, (weft_collective_kind_t)(i % (WEFT_BARRIER + 1)), 8, i + 1, WEFT_ALGORITHM_AUTO);
    for (int r = 0; r < 4; r++) parts[r].call.timeout_ms = 60000;
    start_all(&w, parts);
    for (int r = 0; r < 4; r++) {
      world_wait(&w, &parts[r].out);
      CU_ASSERT_PTR_NULL(parts[r].out.status);
    }
    end_all(&w, parts);
  }
  world_deinit(&w);
}

/* A transport of task 0 in front of the world's: holds data that its ranks fetch from task 1, and counts
 * signs of presence. */
enum { RANKS_OF_TASK_0 = 2, MOST_HELD = 8 };
typedef struct held {
  weft_fetch_t fetch;
  char key[256];
  weft_canceller_t *canceller;
  weft_transfer_done_fn *done;
  void *arg;
} held_t;
typedef struct gate {
  weft_transport_t base;
  weft_transport_ops_t ops;
  weft_transport_t *behind; /* borrowed */
  world_t *world;
  weft_str_t devices[RANKS_OF_TASK_0], other_task;
  held_t held[RANKS_OF_TASK_0][MOST_HELD]; /* guarded by the world's mu, as all below */
  int num_held[RANKS_OF_TASK_0], num_signs;
  bool is_open[RANKS_OF_TASK_0];
  int64_t join_ms; /* of the last request for a group */
} gate_t;

static void gate_offer(weft_transport_t *t, int64_t step_id, weft_str_t key, weft_str_t to_task,
                       weft_str_t to_device, const void *data, size_t bytes, bool is_kept,
                       weft_transfer_done_fn *done, void *arg) {
  gate_t *g = (gate_t *)t;
  g->behind->ops->offer(g->behind, step_id, key, to_task, to_device, data, bytes, is_kept, done, arg);
  if (data != NULL) return;
  weft_mutex_lock(&g->world->mu);
  g->num_signs++;
  weft_cond_broadcast(&g->world->changed);
  weft_mutex_unlock(&g->world->mu);
}

static void gate_fetch(weft_transport_t *t, const weft_fetch_t *f, weft_canceller_t *canceller,
                       weft_transfer_done_fn *done, void *arg) {
  gate_t *g = (gate_t *)t;
  const int rank = weft_str_eq(f->to_device, g->devices[0]) ? 0 : 1;
  bool is_held = !f->is_control && weft_str_eq(f->from_task, g->other_task);
  weft_mutex_lock(&g->world->mu);
  is_held = is_held && !g->is_open[rank] && g->num_held[rank] < MOST_HELD &&
            f->key.length < sizeof g->held[0][0].key;
  if (is_held) {
    held_t *h = &g->held[rank][g->num_held[rank]++];
    *h = (held_t){.fetch = *f, .canceller = canceller, .done = done, .arg = arg};
    memcpy(h->key, f->key.data, f->key.length);
    h->fetch.key = weft_str_of(h->key, f->key.length);
  }
  weft_mutex_unlock(&g->world->mu);
  if (!is_held) g->behind->ops->fetch(g->behind, f, canceller, done, arg);
}

static void gate_fail(weft_transport_t *t, int64_t step_id, weft_str_t run, const weft_group_t *group,
                      const weft_status_t *why) {
  gate_t *g = (gate_t *)t;
  g->behind->ops->fail(g->behind, step_id, run, group, why);
}
static void gate_lost_task(weft_transport_t *t, weft_str_t task, const weft_status_t *why) {
  gate_t *g = (gate_t *)t;
  g->behind->ops->lost_task(g->behind, task, why);
}
static void gate_end_step(weft_transport_t *t, int64_t step_id, const weft_status_t *why) {
  gate_t *g = (gate_t *)t;
  g->behind->ops->end_step(g->behind, step_id, why);
}
static void gate_complete_group(weft_transport_t *t, const weft_group_request_t *r,
                                weft_canceller_t *canceller, weft_group_fn *fn, void *arg) {
  gate_t *g = (gate_t *)t;
  g->join_ms = r->timeout_ms;
  g->behind->ops->complete_group(g->behind, r, canceller, fn, arg);
}
static void gate_complete_instance(weft_transport_t *t, const weft_instance_request_t *r,
                                   weft_canceller_t *canceller, weft_instance_fn *fn, void *arg) {
  gate_t *g = (gate_t *)t;
  g->behind->ops->complete_instance(g->behind, r, canceller, fn, arg);
}
static double gate_cost(weft_transport_t *t, weft_str_t from_task, weft_str_t to_task, size_t bytes) {
  gate_t *g = (gate_t *)t;
  return g->behind->ops->cost(g->behind, from_task, to_task, bytes);
}

static void gate_init(gate_t *g, world_t *w, const weft_collective_t *calls) {
  *g = (gate_t){.ops = {.offer = gate_offer,
                        .fail = gate_fail,
                        .lost_task = gate_lost_task,
                        .end_step = gate_end_step,
                        .fetch = gate_fetch,
                        .complete_group = gate_complete_group,
                        .complete_instance = gate_complete_instance,
                        .cost = gate_cost},
                .behind = w->transports[0],
                .world = w,
                .devices = {calls[0].device, calls[1].device},
                .other_task = weft_str(w->tasks[1])};
  g->base.ops = &g->ops;
}

/* Waits until both ranks of task 0 hold a fetch and have shown themselves to the two others. */
static void gate_wait(gate_t *g) {
  const int64_t deadline = weft_clock_ns() + 60 * INT64_C(1000000000);
  bool in_time = true, is_there = false;
  weft_mutex_lock(&g->world->mu);
  while (!is_there && in_time) {
    is_there = g->num_held[0] > 0 && g->num_held[1] > 0 && g->num_signs >= 2 * RANKS_OF_TASK_0;
    if (!is_there) in_time = weft_cond_wait_until(&g->world->changed, &g->world->mu, deadline);
  }
  weft_mutex_unlock(&g->world->mu);
  CU_ASSERT_FATAL(is_there);
}

static void gate_open(gate_t *g, int rank) {
  weft_mutex_lock(&g->world->mu);
  g->is_open[rank] = true;
  const int n = g->num_held[rank];
  weft_mutex_unlock(&g->world->mu);
  for (int i = 0; i < n; i++) { /* nothing is added any more */
    held_t *h = &g->held[rank][i];
    g->behind->ops->fetch(g->behind, &h->fetch, h->canceller, h->done, h->arg);
  }
}

/* No rank waits for a group without end, also if the collective itself has no timeout. */
static void joins_have_a_deadline(void) {
  static const int64_t timeouts[][2] = {{0, WEFT_GROUP_JOIN_MS}, {500, 500}, {3600000, 3600000}};
  for (int i = 0; i < 3; i++) {
    world_t w;
    gate_t g;
    weft_collectives_t *task_0 = NULL;
    world_init(&w, 2, 0, false, NULL);
    weft_collective_t c = world_call(&w, 0, WEFT_BARRIER, WEFT_F32, WEFT_SCALAR);
    c.timeout_ms = timeouts[i][0];
    gate_init(&g, &w, (const weft_collective_t[]){c, c});
    CU_ASSERT_PTR_NULL_FATAL(weft_collectives_create(weft_str(w.tasks[0]), w.pool, &g.base, &task_0));
    weft_collectives_t *own = w.collectives[0];
    w.collectives[0] = task_0;
    result_t out;
    weft_canceller_t *canceller = weft_canceller_create(NULL);
    world_start(&w, 0, &c, canceller, &out);
    CU_ASSERT_EQUAL(g.join_ms, timeouts[i][1]);
    weft_canceller_cancel(canceller);
    world_wait(&w, &out);
    result_deinit(&out);
    weft_canceller_release(canceller);
    w.collectives[0] = own;
    weft_collectives_destroy(task_0);
    world_deinit(&w);
  }
}

/* Two ranks of task 0 and one of task 1. All have waited long enough to show themselves; rank 0 has its data,
 * and ends, while rank 1 still waits for what rank 2 offers. */
static void a_rank_that_has_ended_leaves_others_of_its_task_alone(void) {
  world_t w;
  gate_t g;
  weft_collectives_t *task_0 = NULL;
  world_init(&w, 3, 2, false, NULL);
  part_t parts[WORLD_MOST];
  parts_init(&w, parts, WEFT_ALL_GATHER, 8, 1, WEFT_ALGORITHM_DIRECT);
  parts[1].call.device = WEFT_STR("/job:worker/replica:0/task:0/device:CPU:1");
  parts[2].call.device = weft_str(w.devices[1]);
  for (int r = 0; r < 3; r++) {
    parts[r].call.is_uniform = true;
    parts[r].call.timeout_ms = 60000;
  }
  gate_init(&g, &w, (const weft_collective_t[]){parts[0].call, parts[1].call});
  CU_ASSERT_PTR_NULL_FATAL(weft_collectives_create(weft_str(w.tasks[0]), w.pool, &g.base, &task_0));
  weft_collectives_t *own = w.collectives[0], *unused = w.collectives[2];
  w.collectives[0] = task_0; /* of ranks 0 and 1; that of task 1 is rank 2's */
  w.collectives[2] = w.collectives[1];
  w.collectives[1] = task_0;
  start_all(&w, parts);
  gate_wait(&g);
  gate_open(&g, 0);
  world_wait(&w, &parts[0].out);
  CU_ASSERT_PTR_NULL(parts[0].out.status);
  gate_open(&g, 1);
  for (int r = 1; r < 3; r++) {
    world_wait(&w, &parts[r].out);
    if (parts[r].out.status != NULL)
      fprintf(stderr, "rank %d: %s\n", r, weft_status_message(parts[r].out.status));
    CU_ASSERT_PTR_NULL(parts[r].out.status);
  }
  end_all(&w, parts);
  weft_collectives_destroy(task_0);
  w.collectives[1] = w.collectives[2];
  w.collectives[0] = own;
  w.collectives[2] = unused;
  world_deinit(&w);
}

/* ---- T-COL-6 ---- */

typedef void change_fn(weft_collective_t *c);
static void other_shape(weft_collective_t *c) { c->shape.dims[0]++; }
static void other_rank_of_shape(weft_collective_t *c) { c->shape = weft_shape_matrix(c->shape.dims[0], 1); }
static void other_dtype(weft_collective_t *c) { c->dtype = WEFT_I32; }
static void other_op(weft_collective_t *c) { c->reduction = WEFT_REDUCE_MAX; }
static void mean_not_sum(weft_collective_t *c) { c->is_mean = true; }
static void other_kind(weft_collective_t *c) { c->kind = WEFT_ALL_GATHER; }
static void other_algorithm(weft_collective_t *c) { c->algorithm = WEFT_ALGORITHM_TREE; }

static const struct {
  change_fn *change;
  const char *one, *other;
} changes[] = {
    {other_shape, "[32]", "[33]"},
    {other_rank_of_shape, "[32]", "[32,1]"},
    {other_dtype, "float", "int32"},
    {other_op, "sum", "max"},
    {mean_not_sum, "sum", "mean"},
    {other_kind, "all-reduce", "all-gather"},
    {other_algorithm, "has auto", "has tree"},
};

/* Rank `odd` does something else; `is_known`: after a step in which all agreed. */
static void disagree(world_t *w, int change, int odd, int64_t instance, bool is_known) {
  if (is_known) all_succeed(w, WEFT_ALL_REDUCE, instance, 1);
  part_t parts[WORLD_MOST];
  parts_init(w, parts, WEFT_ALL_REDUCE, 8, instance, WEFT_ALGORITHM_AUTO);
  weft_collective_t *c = &parts[odd].call;
  changes[change].change(c);
  weft_tensor_release(parts[odd].in);
  parts[odd].in = NULL;
  CU_ASSERT_PTR_NULL_FATAL(weft_tensor_new(c->dtype, &c->shape, NULL, &parts[odd].in));
  memset(parts[odd].in->data, 0, parts[odd].in->bytes);
  c->input = parts[odd].in;
  start_all(w, parts);
  for (int r = 0; r < w->n; r++) {
    world_wait(w, &parts[r].out);
    const result_t *o = &parts[r].out;
    const bool is_right = weft_status_code(o->status) == WEFT_INVALID_ARGUMENT &&
                          says(o, changes[change].one) && says(o, changes[change].other);
    if (!is_right)
      fprintf(stderr, "change %d, odd %d, rank %d: %d %s\n", change, odd, r, weft_status_code(o->status),
              weft_status_message(o->status));
    CU_ASSERT(is_right);
  }
  end_all(w, parts);
}

static void ranks_that_disagree_all_hear_both_values(void) {
  world_t w;
  world_init(&w, 4, 0, false, NULL);
  int64_t instance = 1;
  for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++) {
    for (int odd = 0; odd < 4; odd++) disagree(&w, (int)i, odd, instance++, false);
  }
  all_succeed(&w, WEFT_ALL_REDUCE, 1, 1); /* the same instance, in agreement, in a later step */
  world_deinit(&w);
}

static void ranks_that_disagree_later_all_hear_both_values(void) {
  world_t w;
  world_init(&w, 4, 0, false, NULL);
  int64_t instance = 1;
  for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++) {
    for (int odd = 0; odd < 4; odd++) disagree(&w, (int)i, odd, instance++, true);
  }
  all_succeed(&w, WEFT_ALL_REDUCE, 1, 1);
  world_deinit(&w);
}

static void all_may_change_together(void) {
  world_t w;
  world_init(&w, 3, 0, false, NULL);
  static const weft_collective_kind_t kinds[] = {WEFT_ALL_REDUCE, WEFT_ALL_GATHER, WEFT_ALL_REDUCE,
                                                 WEFT_BARRIER, WEFT_ALL_REDUCE};
  for (int i = 0; i < 5; i++) {
    all_succeed(&w, kinds[i], 1, 1);
    all_succeed(&w, kinds[i], 1, 1);
  }
  world_deinit(&w);
}

static void sources_must_be_one(void) {
  world_t w;
  world_init(&w, 3, 0, false, NULL);
  for (int sources = 0; sources < 4; sources++) {
    part_t parts[WORLD_MOST];
    parts_init(&w, parts, WEFT_ALL_REDUCE, 8, sources + 1, WEFT_ALGORITHM_AUTO);
    for (int r = 0; r < 3; r++) {
      parts[r].call.kind = WEFT_BROADCAST;
      parts[r].call.is_source = r < sources;
      if (r >= sources) parts[r].call.input = NULL;
    }
    start_all(&w, parts);
    for (int r = 0; r < 3; r++) {
      world_wait(&w, &parts[r].out);
      CU_ASSERT_EQUAL(weft_status_code(parts[r].out.status), sources == 1 ? WEFT_OK : WEFT_INVALID_ARGUMENT);
    }
    end_all(&w, parts);
  }
  world_deinit(&w);
}

static void group_errors_are_sticky(void) {
  world_t w;
  world_init(&w, 3, 0, false, NULL);
  result_t out[3];
  for (int r = 0; r < 3; r++) {
    weft_collective_t c = world_call(&w, r, WEFT_BARRIER, WEFT_F32, WEFT_SCALAR);
    c.group_size = r == 1 ? 2 : 3;
    c.rank = -1;
    world_start(&w, r, &c, NULL, &out[r]);
  }
  for (int r = 0; r < 3; r++) {
    world_wait(&w, &out[r]);
    CU_ASSERT_EQUAL(weft_status_code(out[r].status), WEFT_INTERNAL);
    CU_ASSERT(says(&out[r], "size 2") && says(&out[r], "size 3"));
    result_deinit(&out[r]);
  }
  weft_collective_t c = world_call(&w, 0, WEFT_BARRIER, WEFT_F32, WEFT_SCALAR);
  world_start(&w, 0, &c, NULL, &out[0]);
  world_wait(&w, &out[0]);
  CU_ASSERT_EQUAL(weft_status_code(out[0].status), WEFT_INTERNAL);
  result_deinit(&out[0]);
  all_succeed(&w, WEFT_BARRIER, 1, 2);
  world_deinit(&w);
}

static void bad_calls_are_refused(void) {
  world_t w;
  world_init(&w, 2, 0, false, NULL);
  const weft_shape_t four = weft_shape_vector(4);
  weft_tensor_t *in = NULL;
  CU_ASSERT_PTR_NULL_FATAL(weft_tensor_new(WEFT_F32, &four, NULL, &in));
  memset(in->data, 0, in->bytes);
  int same[] = {0, 0}, far[] = {0, 2};
  int64_t splits[] = {1, 2}, negative[] = {-1, 5};
  weft_collective_t good = world_call(&w, 0, WEFT_ALL_REDUCE, WEFT_F32, four);
  good.input = in;
  weft_collective_t bad[14];
  for (int i = 0; i < 14; i++) bad[i] = good;
  bad[0].group_size = 0;
  bad[1].rank = 2;
  bad[2].input = NULL;
  bad[3].dtype = WEFT_STRING;
  bad[4].shape = weft_shape_vector(5);
  bad[5].kind = (weft_collective_kind_t)99;
  bad[6].is_mean = true;
  bad[6].kind = WEFT_BROADCAST;
  bad[7].kind = bad[8].kind = bad[9].kind = WEFT_PERMUTE;
  bad[7].targets = same;
  bad[8].targets = far;
  bad[10].kind = bad[11].kind = WEFT_ALL_TO_ALL;
  bad[10].splits = splits;
  bad[11].splits = negative;
  bad[12].device = WEFT_STR("");
  bad[13].shape = WEFT_UNKNOWN_SHAPE;
  for (int i = 0; i < 14; i++) {
    result_t out;
    world_start(&w, 0, &bad[i], NULL, &out);
    world_wait(&w, &out);
    CU_ASSERT_EQUAL(weft_status_code(out.status), WEFT_INVALID_ARGUMENT);
    CU_ASSERT(says(&out, "it"));
    result_deinit(&out);
  }
  weft_tensor_release(in);
  all_succeed(&w, WEFT_ALL_REDUCE, 1, 1);
  world_deinit(&w);
}

/* ---- without memory ---- */

static weft_status_t *reduce_once(world_t *w, weft_tensor_t *in) {
  result_t out[3];
  weft_status_t *s = NULL;
  for (int r = 0; r < 3; r++) {
    weft_collective_t c = world_call(w, r, WEFT_ALL_REDUCE, WEFT_F32, in->shape);
    c.input = in;
    world_start(w, r, &c, NULL, &out[r]);
  }
  int num_ended = 0;
  for (int r = 0; r < 3; r++) num_ended += out[r].calls;
  if (num_ended < 3) { /* a rank that fails before the others know of it: its master would end the step */
    for (int r = 0; r < 3; r++) weft_collectives_end_step(w->collectives[r], w->next_step, NULL);
  }
  for (int r = 0; r < 3; r++) {
    world_wait(w, &out[r]);
    const bool is_cause = weft_status_code(out[r].status) == WEFT_RESOURCE_EXHAUSTED;
    if (is_cause && weft_status_code(s) != WEFT_RESOURCE_EXHAUSTED) {
      weft_status_free(s);
      s = out[r].status;
      out[r].status = NULL;
    }
    if (s == NULL) {
      s = out[r].status;
      out[r].status = NULL;
    }
    result_deinit(&out[r]);
  }
  for (int r = 0; r < 3; r++) weft_collectives_end_step(w->collectives[r], w->next_step, NULL);
  w->next_step++;
  return s;
}

static void each_allocation_may_fail(void) {
  world_t w;
  world_init(&w, 3, 0, false, NULL);
  all_succeed(&w, WEFT_ALL_REDUCE, 1, 1);
  const weft_shape_t shape = weft_shape_vector(100);
  weft_tensor_t *in = NULL;
  CU_ASSERT_PTR_NULL_FATAL(weft_tensor_new(WEFT_F32, &shape, NULL, &in));
  memset(in->data, 0, in->bytes);
  int failures = 0;
  for (long n = 0; n < 400; n++) {
    weft_fault_arm(n);
    weft_status_t *s = reduce_once(&w, in);
    const bool fired = weft_fault_fired();
    weft_fault_arm(-1);
    if (fired && s != NULL) failures++;
    if (!fired) CU_ASSERT_PTR_NULL(s);
    weft_status_free(s);
    CU_ASSERT_EQUAL(weft_local_hub_num_waiting(w.hub), 0);
    if (!fired) break;
  }
  CU_ASSERT(failures > 10);
  weft_tensor_release(in);
  all_succeed(&w, WEFT_ALL_REDUCE, 9, 1);
  world_deinit(&w);
}

static const CU_TestInfo tests[] = {
    {"a death in the middle ends all ranks", a_death_in_the_middle_ends_all_ranks},
    {"a lost task ends its collectives and comes again", a_lost_task_ends_its_collectives_and_comes_again},
    {"a session from before a loss meets no new ones", a_session_from_before_a_loss_meets_no_new_ones},
    {"a restarted task is taken in without heartbeats", a_restarted_task_is_taken_in_without_heartbeats},
    {"a cancelled rank ends the others", a_cancelled_rank_ends_the_others},
    {"a wait for the leader can be cancelled", a_wait_for_the_leader_can_be_cancelled},
    {"the end of a step ends its collectives", the_end_of_a_step_ends_its_collectives},
    {"joins have a deadline", joins_have_a_deadline},
    {"a timeout names the ranks that have not joined", a_timeout_names_the_ranks_that_have_not_joined},
    {"a timeout that is not needed harms nothing", a_timeout_that_is_not_needed_harms_nothing},
    {"a rank that has ended leaves others of its task alone",
     a_rank_that_has_ended_leaves_others_of_its_task_alone},
    {"ranks that disagree all hear both values", ranks_that_disagree_all_hear_both_values},
    {"ranks that disagree later all hear both values", ranks_that_disagree_later_all_hear_both_values},
    {"all may change together", all_may_change_together},
    {"sources must be one", sources_must_be_one},
    {"group errors are sticky", group_errors_are_sticky},
    {"bad calls are refused", bad_calls_are_refused},
    {"each allocation may fail", each_allocation_may_fail},
    CU_TEST_INFO_NULL,
};

int main(void) { return weft_run_tests("faults", tests); }
