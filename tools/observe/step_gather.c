/* tools/observe/step_gather.c - a table of steps, and a clock that counts requests and ends.
 *
 * When the first task tells the end of a step all its runs have ended, but another task may still be writing
 * its record. So the step waits until each task has answered a request that was sent after that, said all
 * that it had, and does not run the step any more.
 */
#include "tools/observe/step_gather.h"

#include "base/alloc.h"
#include "base/hash_map.h"

/* Of steps that are not whole yet, in all. */
#define MAX_PENDING_BYTES ((size_t)1 << 30)

typedef struct gathered_step {
  struct gathered_step *next; /* among those that have ended */
  weft_whole_step_t *whole;   /* owned */
  int capacity;
  size_t bytes;
  bool *ended;       /* by task; owned */
  int64_t ended_at;  /* 0: no task has told its end */
  bool is_partial;   /* a task has not all of it */
  bool began_inside; /* a run of it began when all recordings were open */
} gathered_step_t;

typedef struct gathered_task {
  int64_t asked_at, settled_at; /* settled_at: when the last request was sent whose answer told all */
  int64_t *running;             /* steps that it runs, as of its last answer; owned */
  int num_running;
  bool is_lost;
} gathered_task_t;

typedef struct whole_item {
  struct whole_item *next;
  weft_whole_step_t *step;
} whole_item_t;

struct weft_step_gather {
  int num_tasks;
  gathered_task_t *tasks;
  weft_map_t steps;        /* id -> gathered_step_t, owned */
  gathered_step_t *ending; /* those with ended_at, oldest first */
  whole_item_t *whole, **last_whole;
  int64_t now;
  size_t pending_bytes;
  int64_t num_left_out;
};

void weft_whole_step_free(weft_whole_step_t *s) {
  if (s == NULL) return;
  /* Each record's texts are one block, which begins with its message. */
  for (int i = 0; i < s->n; i++) weft_free((char *)(uintptr_t)s->parts[i].record.message.data);
  weft_free(s->parts);
  weft_free(s);
}

static void free_step(gathered_step_t *s) {
  if (s == NULL) return;
  weft_whole_step_free(s->whole);
  weft_free(s->ended);
  weft_free(s);
}

weft_status_t *weft_step_gather_create(int num_tasks, weft_step_gather_t **out) {
  weft_step_gather_t *g = weft_calloc(1, sizeof *g);
  if (g != NULL) g->tasks = weft_calloc((size_t)num_tasks + 1, sizeof *g->tasks);
  if (g == NULL || g->tasks == NULL) {
    weft_free(g);
    return WEFT_NO_MEMORY("steps of %d tasks", num_tasks);
  }
  g->num_tasks = num_tasks;
  g->last_whole = &g->whole;
  *out = g;
  return NULL;
}

void weft_step_gather_destroy(weft_step_gather_t *g) {
  if (g == NULL) return;
  weft_map_entry_t e;
  for (size_t at = 0; weft_map_next(&g->steps, &at, &e);) free_step(e.value);
  weft_map_deinit(&g->steps);
  for (weft_whole_step_t *s; (s = weft_step_gather_next(g)) != NULL;) weft_whole_step_free(s);
  for (int i = 0; i < g->num_tasks; i++) weft_free(g->tasks[i].running);
  weft_free(g->tasks);
  weft_free(g);
}

void weft_step_gather_asked(weft_step_gather_t *g, int task) { g->tasks[task].asked_at = ++g->now; }

/* ---- steps ---- */

static weft_status_t *make_step(weft_step_gather_t *g, int64_t id, gathered_step_t **out) {
  gathered_step_t *s = weft_calloc(1, sizeof *s);
  if (s != NULL) {
    s->whole = weft_calloc(1, sizeof *s->whole);
    s->ended = weft_calloc((size_t)g->num_tasks + 1, sizeof *s->ended);
  }
  weft_status_t *failed = s == NULL || s->whole == NULL || s->ended == NULL ? WEFT_NO_MEMORY("a step") : NULL;
  if (failed == NULL) failed = weft_map_put_u64(&g->steps, (uint64_t)id, s, NULL);
  if (failed != NULL) {
    free_step(s);
    return failed;
  }
  s->whole->step_id = id;
  *out = s;
  return NULL;
}

static weft_status_t *find_step(weft_step_gather_t *g, int64_t id, gathered_step_t **out) {
  *out = weft_map_get_u64(&g->steps, (uint64_t)id);
  return *out != NULL ? NULL : make_step(g, id, out);
}

static weft_status_t *add_part(weft_step_gather_t *g, gathered_step_t *s, int task,
                               const weft_step_record_t *from) {
  const weft_str_t texts[] = {from->message, from->session, from->graph, from->step_stats};
  size_t bytes = 1;
  for (int i = 0; i < 4; i++) bytes += texts[i].length;
  if (g->pending_bytes + bytes > MAX_PENDING_BYTES)
    return WEFT_ERROR(RESOURCE_EXHAUSTED, "more than 1 GiB of records belong to steps that do not end");
  if (s->whole->n == s->capacity) {
    int capacity = s->capacity == 0 ? 4 : s->capacity * 2;
    weft_recorded_part_t *grown = weft_realloc(s->whole->parts, (size_t)capacity, sizeof *grown);
    if (grown == NULL) return WEFT_NO_MEMORY("a step");
    s->whole->parts = grown;
    s->capacity = capacity;
  }
  char *block = weft_malloc(bytes), *at = block;
  if (block == NULL) return WEFT_NO_MEMORY("a step");
  weft_recorded_part_t *part = &s->whole->parts[s->whole->n++];
  *part = (weft_recorded_part_t){task, *from};
  weft_str_t *const to[] = {&part->record.message, &part->record.session, &part->record.graph,
                            &part->record.step_stats};
  for (int i = 0; i < 4; i++) {
    if (texts[i].length > 0) memcpy(at, texts[i].data, texts[i].length);
    *to[i] = weft_str_of(at, texts[i].length);
    at += texts[i].length;
  }
  s->bytes += bytes;
  g->pending_bytes += bytes;
  return NULL;
}

static void end_step(weft_step_gather_t *g, int64_t id, int task) {
  gathered_step_t *s = weft_map_get_u64(&g->steps, (uint64_t)id);
  if (s == NULL) return; /* all that there is of it came before its end; there is nothing */
  s->ended[task] = true;
  if (s->ended_at != 0) return;
  s->ended_at = ++g->now;
  gathered_step_t **end = &g->ending;
  while (*end != NULL) end = &(*end)->next;
  *end = s;
}

/* ---- becoming whole ---- */

static bool runs(const gathered_task_t *t, int64_t id) {
  for (int i = 0; i < t->num_running; i++) {
    if (t->running[i] == id) return true;
  }
  return false;
}

static bool is_settled(const weft_step_gather_t *g, const gathered_step_t *s) {
  for (int i = 0; i < g->num_tasks; i++) {
    const gathered_task_t *t = &g->tasks[i];
    if (!t->is_lost && (t->settled_at < s->ended_at || runs(t, s->whole->step_id))) return false;
  }
  for (int i = 0; i < s->whole->n; i++) {
    int task = s->whole->parts[i].task;
    if (!s->ended[task] && !g->tasks[task].is_lost) return false;
  }
  return true;
}

/* Takes the step out of the tables. */
static weft_status_t *settle(weft_step_gather_t *g, gathered_step_t *s) {
  whole_item_t *item = weft_calloc(1, sizeof *item);
  if (item == NULL) return WEFT_NO_MEMORY("a step");
  weft_map_remove_u64(&g->steps, (uint64_t)s->whole->step_id);
  g->pending_bytes -= s->bytes;
  if (s->is_partial || !s->began_inside || s->whole->n == 0) {
    g->num_left_out++;
    weft_free(item);
  } else {
    item->step = s->whole;
    s->whole = NULL;
    *g->last_whole = item;
    g->last_whole = &item->next;
  }
  free_step(s);
  return NULL;
}

static weft_status_t *settle_all(weft_step_gather_t *g) {
  weft_status_t *failed = NULL;
  for (gathered_step_t **at = &g->ending; failed == NULL && *at != NULL;) {
    gathered_step_t *s = *at;
    if (!is_settled(g, s)) {
      at = &s->next;
      continue;
    }
    gathered_step_t *next = s->next;
    failed = settle(g, s);
    if (failed == NULL) *at = next;
  }
  return failed;
}

static weft_status_t *keep_running(gathered_task_t *t, const weft_record_answer_t *a) {
  int64_t *running = weft_calloc((size_t)a->num_running_steps + 1, sizeof *running);
  if (running == NULL) return WEFT_NO_MEMORY("steps");
  if (a->num_running_steps > 0)
    memcpy(running, a->running_steps, (size_t)a->num_running_steps * sizeof *running);
  weft_free(t->running);
  t->running = running;
  t->num_running = a->num_running_steps;
  if (!a->has_more) t->settled_at = t->asked_at;
  return NULL;
}

weft_status_t *weft_step_gather_add(weft_step_gather_t *g, int task, const weft_record_answer_t *a) {
  weft_status_t *failed = keep_running(&g->tasks[task], a);
  gathered_step_t *s = NULL;
  for (int i = 0; failed == NULL && i < a->num_records; i++) {
    const weft_step_record_t *r = &a->records[i];
    failed = find_step(g, r->step_id, &s);
    if (failed == NULL) failed = add_part(g, s, task, r);
    if (failed == NULL && r->calls >= WEFT_GATHER_MARK) s->began_inside = true;
  }
  for (int i = 0; failed == NULL && i < a->num_partial_steps; i++) {
    failed = find_step(g, a->partial_steps[i], &s);
    if (failed == NULL) s->is_partial = true;
  }
  for (int i = 0; failed == NULL && i < a->num_ended_steps; i++) end_step(g, a->ended_steps[i], task);
  return failed != NULL ? failed : settle_all(g);
}

void weft_step_gather_lose(weft_step_gather_t *g, int task) {
  weft_map_entry_t e;
  g->tasks[task].is_lost = true;
  for (size_t at = 0; weft_map_next(&g->steps, &at, &e);) {
    gathered_step_t *s = e.value;
    for (int i = 0; i < s->whole->n && !s->ended[task]; i++) {
      if (s->whole->parts[i].task == task) s->is_partial = true;
    }
  }
}

int64_t weft_step_gather_wait_ms(const weft_step_gather_t *g, int task, int64_t idle_ms) {
  enum { ENDING_MS = 20 };
  for (const gathered_step_t *s = g->ending; s != NULL; s = s->next) {
    if (g->tasks[task].asked_at < s->ended_at) return 0;
  }
  return g->ending == NULL || idle_ms < ENDING_MS ? idle_ms : ENDING_MS;
}

weft_whole_step_t *weft_step_gather_next(weft_step_gather_t *g) {
  whole_item_t *item = g->whole;
  if (item == NULL) return NULL;
  weft_whole_step_t *s = item->step;
  g->whole = item->next;
  if (g->whole == NULL) g->last_whole = &g->whole;
  weft_free(item);
  return s;
}

int64_t weft_step_gather_num_left_out(const weft_step_gather_t *g) { return g->num_left_out; }
