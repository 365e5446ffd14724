/* tools/top/node_watch.c - a thread that waits, records a step, and puts its nodes where the view finds them.
 *
 * Locking: `mu` is a leaf. The observer is used without it, but for its interruption.
 */
#define _GNU_SOURCE
#include "tools/top/node_watch.h"

#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "protos/wire.h"
#include "tools/observe/observer.h"

enum { MOST_NODES = 10000, SHOWN_NODES = 20, RECORD_MS = 2000, REST_FACTOR = 20, LEAST_REST_MS = 2000 };
#define NS_PER_MS INT64_C(1000000)

struct weft_top_node_watch {
  const weft_cluster_t *cluster; /* borrowed */
  pthread_t thread;
  weft_observed_tasks_t *tasks; /* of the thread */
  int told[2];                  /* a pipe: a byte for each round */
  weft_mutex_t mu;
  weft_cond_t changed;
  bool is_shown, is_over;    /* guarded by mu, like all below */
  weft_observer_t *observer; /* that records now; NULL: none */
  weft_top_view_t last;      /* what is told of nodes */
};

/* ---- reading ---- */

typedef struct node_stats {
  weft_str_t name, label;
  int64_t took_ns, took_us;
} node_stats_t;

static bool read_node(weft_str_t bytes, node_stats_t *out) {
  weft_wire_reader_t r = weft_wire_reader(bytes);
  weft_wire_field_t f;
  *out = (node_stats_t){.took_ns = 0};
  while (weft_wire_next(&r, &f)) {
    switch (f.tag) {
      case WEFT_WIRE_TAG(1, WEFT_WIRE_BYTES): out->name = f.bytes; break;
      case WEFT_WIRE_TAG(5, WEFT_WIRE_VARINT): out->took_us = (int64_t)f.value; break;
      case WEFT_WIRE_TAG(8, WEFT_WIRE_BYTES): out->label = f.bytes; break;
      case WEFT_WIRE_TAG(16, WEFT_WIRE_VARINT): out->took_ns = (int64_t)f.value; break;
      default: break;
    }
  }
  if (out->took_ns == 0 && out->took_us < INT64_MAX / 1000) out->took_ns = out->took_us * 1000;
  return !r.failed && out->name.length > 0;
}

/* "name = Op(inputs)": Op; "" if it is something else, as of transfers. */
static weft_str_t op_of(weft_str_t label) {
  weft_str_t name, rest, op, inputs;
  if (!weft_str_split(label, '=', &name, &rest) || !weft_str_split(rest, '(', &op, &inputs))
    return weft_str_of("", 0);
  while (op.length > 0 && op.data[0] == ' ') op = weft_str_of(op.data + 1, op.length - 1);
  return op;
}

static weft_str_t shown(weft_arena_t *arena, weft_str_t text) {
  const weft_str_t copy = weft_arena_str(arena, text);
  for (size_t i = 0; copy.data != NULL && i < copy.length; i++) {
    char *c = (char *)(uintptr_t)&copy.data[i]; /* of the arena: ours */
    if (*c < ' ' || *c > '~') *c = '?';
  }
  return copy.data == NULL ? weft_str_of("", 0) : copy;
}

static void add_node(weft_top_node_list_t *l, weft_str_t device, const node_stats_t *s) {
  const weft_str_t op = op_of(s->label);
  if (op.length == 0 || weft_str_is(op, "_Recv") || weft_str_is(op, "_HostRecv")) return;
  weft_strbuf_t text = WEFT_STRBUF_INIT;
  weft_strbuf_append(&text, device);
  weft_strbuf_putc(&text, '\0');
  weft_strbuf_append(&text, s->name);
  weft_str_t key = weft_str_of(text.data, text.length);
  uintptr_t at = text.failed ? 0 : (uintptr_t)weft_map_get(&l->known, key); /* its number + 1 */
  if (at == 0 && !text.failed && l->n < l->room) {
    key = weft_arena_str(l->arena, key);
    weft_status_t *failure =
        key.data == NULL ? NULL : weft_map_put(&l->known, key, (void *)(uintptr_t)(l->n + 1), NULL);
    if (key.data != NULL && failure == NULL) at = (uintptr_t)++l->n;
    weft_status_free(failure);
    if (at != 0)
      l->nodes[at - 1] =
          (weft_top_node_t){.name = shown(l->arena, s->name), .op = shown(l->arena, op), .device = device};
  }
  weft_strbuf_deinit(&text);
  if (at == 0) return;
  l->nodes[at - 1].seconds += (double)s->took_ns * 1e-9;
  l->nodes[at - 1].runs++;
}

static void add_device(weft_top_node_list_t *l, weft_str_t bytes) {
  weft_wire_reader_t r = weft_wire_reader(bytes);
  weft_wire_field_t f;
  weft_str_t device = weft_str_of("", 0);
  node_stats_t s;
  while (weft_wire_next(&r, &f)) {
    if (f.tag == WEFT_WIRE_TAG(1, WEFT_WIRE_BYTES)) device = shown(l->arena, f.bytes);
    if (f.tag == WEFT_WIRE_TAG(2, WEFT_WIRE_BYTES) && read_node(f.bytes, &s)) add_node(l, device, &s);
  }
}

void weft_top_nodes_add(weft_top_node_list_t *l, weft_str_t step_stats) {
  weft_wire_reader_t r = weft_wire_reader(step_stats);
  weft_wire_field_t f;
  while (weft_wire_next(&r, &f)) {
    if (f.tag == WEFT_WIRE_TAG(1, WEFT_WIRE_BYTES)) add_device(l, f.bytes);
  }
}

void weft_top_nodes_deinit(weft_top_node_list_t *l) { weft_map_deinit(&l->known); }

/* ---- a step ---- */

static int slowest_first(const void *a, const void *b) {
  const weft_top_node_t *x = a, *y = b;
  if (x->seconds != y->seconds) return x->seconds < y->seconds ? 1 : -1;
  return weft_str_compare(x->name, y->name);
}

/* The step's nodes in an arena of its own. */
static weft_status_t *read_step(const weft_whole_step_t *step, weft_top_view_t *out) {
  int64_t start = INT64_MAX, end = 0;
  weft_top_node_t *nodes = weft_arena_calloc(&out->arena, MOST_NODES, sizeof *nodes);
  if (nodes == NULL) return WEFT_NO_MEMORY("the nodes of a step");
  weft_top_node_list_t list = {.arena = &out->arena, .nodes = nodes, .room = MOST_NODES};
  for (int i = 0; i < step->n; i++) {
    const weft_step_record_t *r = &step->parts[i].record;
    weft_top_nodes_add(&list, r->step_stats);
    if (r->end_micros - r->start_micros > end - start || start == INT64_MAX) {
      start = r->start_micros; /* the longest part's: clocks of tasks may differ */
      end = r->end_micros;
    }
  }
  const int n = list.n;
  weft_top_nodes_deinit(&list);
  if (n > 1) qsort(nodes, (size_t)n, sizeof *nodes, slowest_first);
  out->has_nodes = true;
  out->nodes = nodes;
  out->num_nodes = n < SHOWN_NODES ? n : SHOWN_NODES;
  out->step_id = step->step_id;
  out->step_seconds = (double)(end - start) * 1e-6;
  out->nodes_time = (double)weft_clock_micros() * 1e-6;
  for (int i = 0; i < out->num_nodes; i++)
    nodes[i].share = out->step_seconds > 0 ? nodes[i].seconds / out->step_seconds : 0;
  return NULL;
}

/* False: all is over, or it is shown no more. */
static bool set_observer(weft_top_node_watch_t *w, weft_observer_t *o) {
  weft_mutex_lock(&w->mu);
  const bool goes_on = !w->is_over && w->is_shown;
  w->observer = o;
  weft_mutex_unlock(&w->mu);
  return goes_on;
}

/* *out_is_whole: there was a step, and `out` has its nodes. */
static weft_status_t *record_step(weft_top_node_watch_t *w, weft_top_view_t *out) {
  weft_observer_t *o = NULL;
  weft_whole_step_t *step = NULL;
  weft_status_t *s = NULL;
  if (w->tasks == NULL) s = weft_observed_tasks_connect(w->cluster, &w->tasks);
  const weft_observer_options_t options = {.tasks = w->tasks, .goes_on_without_lost = true};
  if (s == NULL) s = weft_observer_create(&options, &o);
  if (s != NULL) return s;
  if (!set_observer(w, o)) weft_observer_interrupt(o);
  s = weft_observer_start(o);
  if (s == NULL) s = weft_observer_next(o, weft_clock_deadline_ns(RECORD_MS), &step);
  set_observer(w, NULL);
  weft_observer_close(o);
  if (s == NULL && step != NULL) s = read_step(step, out);
  weft_whole_step_free(step);
  return s;
}

/* ---- the thread ---- */

static void put_last(weft_top_node_watch_t *w, weft_top_view_t *view, weft_status_t *failure) {
  if (failure != NULL)
    view->nodes_trouble = weft_arena_str(&view->arena, weft_str(weft_status_message(failure)));
  if (failure == NULL && !view->has_nodes) view->nodes_trouble = WEFT_STR("no step ran");
  if (view->nodes_trouble.data == NULL) view->nodes_trouble = weft_str_of("", 0);
  weft_mutex_lock(&w->mu);
  weft_top_view_t old = w->last;
  const bool keeps = weft_status_code(failure) == WEFT_CANCELLED; /* it was interrupted */
  if (!keeps) w->last = *view;
  weft_mutex_unlock(&w->mu);
  weft_top_view_deinit(keeps ? view : &old);
  weft_status_free(failure);
  while (write(w->told[1], "", 1) < 0) break; /* a full pipe tells as well */
}

static void *watch(void *arg) {
  weft_top_node_watch_t *w = arg;
  int64_t due_ns = 0;
  weft_mutex_lock(&w->mu);
  while (!w->is_over) {
    if (!w->is_shown) {
      weft_cond_wait(&w->changed, &w->mu);
    } else if (weft_clock_ns() < due_ns) {
      weft_cond_wait_until(&w->changed, &w->mu, due_ns);
    } else {
      weft_mutex_unlock(&w->mu);
      const int64_t began_ns = weft_clock_ns();
      weft_top_view_t view = {.arena = WEFT_ARENA_INIT};
      weft_status_t *s = record_step(w, &view);
      const int64_t took_ns = weft_clock_ns() - began_ns, rest_ns = REST_FACTOR * took_ns;
      due_ns =
          began_ns + took_ns + (rest_ns > LEAST_REST_MS * NS_PER_MS ? rest_ns : LEAST_REST_MS * NS_PER_MS);
      put_last(w, &view, s);
      weft_mutex_lock(&w->mu);
    }
  }
  weft_mutex_unlock(&w->mu);
  return NULL;
}

weft_status_t *weft_top_node_watch_create(const weft_cluster_t *cluster, weft_top_node_watch_t **out) {
  weft_top_node_watch_t *w = weft_calloc(1, sizeof *w);
  if (w == NULL || pipe2(w->told, O_CLOEXEC | O_NONBLOCK) != 0) {
    weft_free(w);
    return WEFT_NO_MEMORY("a watch of nodes");
  }
  w->cluster = cluster;
  weft_mutex_init(&w->mu);
  weft_cond_init(&w->changed);
  if (pthread_create(&w->thread, NULL, watch, w) != 0) {
    close(w->told[0]);
    close(w->told[1]);
    weft_cond_deinit(&w->changed);
    weft_mutex_deinit(&w->mu);
    weft_free(w);
    return WEFT_ERROR(RESOURCE_EXHAUSTED, "no thread for a watch of nodes");
  }
  *out = w;
  return NULL;
}

static void interrupt_locked(weft_top_node_watch_t *w) WEFT_REQUIRES(w->mu) {
  if (w->observer != NULL) weft_observer_interrupt(w->observer);
  weft_cond_broadcast(&w->changed);
}

void weft_top_node_watch_show(weft_top_node_watch_t *w, bool is_shown) {
  weft_mutex_lock(&w->mu);
  w->is_shown = is_shown;
  if (!is_shown) interrupt_locked(w);
  weft_cond_broadcast(&w->changed);
  weft_mutex_unlock(&w->mu);
}

void weft_top_node_watch_destroy(weft_top_node_watch_t *w) {
  if (w == NULL) return;
  weft_mutex_lock(&w->mu);
  w->is_over = true;
  interrupt_locked(w);
  weft_mutex_unlock(&w->mu);
  pthread_join(w->thread, NULL);
  weft_observed_tasks_disconnect(w->tasks);
  weft_top_view_deinit(&w->last);
  close(w->told[0]);
  close(w->told[1]);
  weft_cond_deinit(&w->changed);
  weft_mutex_deinit(&w->mu);
  weft_free(w);
}

void weft_top_node_watch_wait(weft_top_node_watch_t *w, int64_t deadline_ns, int stop_fd) {
  struct pollfd fds[2] = {{.fd = w->told[0], .events = POLLIN}, {.fd = stop_fd, .events = POLLIN}};
  const int64_t left_ms = (deadline_ns - weft_clock_ns()) / NS_PER_MS;
  (void)poll(fds, 2, left_ms > 0 ? (int)left_ms : 0);
}

weft_status_t *weft_top_node_watch_look(weft_top_node_watch_t *w, weft_top_view_t *v) {
  bool ok = true;
  weft_mutex_lock(&w->mu);
  const weft_top_view_t *from = &w->last;
  v->has_nodes = from->has_nodes;
  v->nodes_trouble = weft_arena_str(&v->arena, from->nodes_trouble);
  v->step_id = from->step_id;
  v->step_seconds = from->step_seconds;
  v->nodes_time = from->nodes_time;
  v->nodes = weft_arena_calloc(&v->arena, (size_t)from->num_nodes + 1, sizeof *v->nodes);
  ok = v->nodes != NULL && v->nodes_trouble.data != NULL;
  v->num_nodes = ok ? from->num_nodes : 0;
  for (int i = 0; i < v->num_nodes; i++) {
    v->nodes[i] = from->nodes[i];
    weft_str_t *texts[] = {&v->nodes[i].name, &v->nodes[i].op, &v->nodes[i].device};
    for (int k = 0; k < 3; k++) {
      *texts[k] = weft_arena_str(&v->arena, *texts[k]);
      ok = ok && texts[k]->data != NULL;
    }
  }
  weft_mutex_unlock(&w->mu);
  return ok ? NULL : WEFT_NO_MEMORY("the nodes of a step");
}
