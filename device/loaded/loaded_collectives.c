/* device/loaded/loaded_collectives.c - collectives between the devices of a library.
 *
 * A library's communicator is made for a list of devices when they first have a collective together, and
 * stays until one of them is closed. That the library has none for a list is kept as well.
 *
 * Where the first rank's queue does the work, it waits for the other queues, and they for it. These are all
 * the waits that are needed, and each is for work that was enqueued before, so that collectives of several
 * threads cannot wait for each other. Where each queue does its own part, the parts wait for each other on
 * the device, and the library sees to it that all queues get them in the same order. Each fence is watched
 * then: when a queue fails, the others would wait for ever.
 *
 * Locking: `mu` guards the list, and is held while a library makes a communicator, which calls nothing back.
 * A group stays as long as its devices, and those stay as long as a collective is enqueued on them.
 */
#include "base/alloc.h"
#include "base/log.h"
#include "base/mutex.h"
#include "device/loaded/loaded_device.h"

static void *handle_of(const weft_device_t *d) {
  return ((const weft_loaded_device_t *)(const void *)d)->handle;
}

typedef struct loaded_group {
  struct loaded_group *next; /* of the list; guarded by mu */
  const WEFT_DeviceCollectives *of;
  void *communicator; /* NULL: the library has none for these devices */
  bool by_first;
  bool is_broken;   /* guarded by mu, as the next two */
  int outstanding;  /* fences that are watched */
  weft_cond_t idle; /* `outstanding` became 0 */
  int n;
  void *handles[];
} loaded_group_t;

static weft_mutex_t mu = WEFT_MUTEX_INITIALIZER;
static loaded_group_t *groups; /* guarded by mu */

/* ---- communicators ---- */

static loaded_group_t *find_locked(const weft_device_part_t *parts, int n) WEFT_REQUIRES(mu) {
  for (loaded_group_t *g = groups; g != NULL; g = g->next) {
    bool is_it = g->n == n && !g->is_broken;
    for (int i = 0; is_it && i < n; i++) is_it = g->handles[i] == handle_of(parts[i].device);
    if (is_it) return g;
  }
  return NULL;
}

/* Once: what is missing is missing for all. */
static void warn_locked(const weft_device_part_t *parts, int n, const weft_status_t *why) WEFT_REQUIRES(mu) {
  static bool has_warned; /* guarded by mu */
  if (!has_warned) {
    weft_log(WEFT_LOG_WARNING, "collectives of %d devices of type %s go by way of the host: %s", n,
             parts[0].device->type, weft_status_message(why));
  }
  has_warned = true;
}

static weft_status_t *make_locked(const WEFT_DeviceCollectives *of, const weft_device_part_t *parts, int n,
                                  loaded_group_t **out) WEFT_REQUIRES(mu) {
  loaded_group_t *g = weft_calloc(1, sizeof *g + (size_t)n * sizeof g->handles[0]);
  if (g == NULL) return WEFT_NO_MEMORY("a communicator of %d devices", n);
  g->of = of;
  g->n = n;
  weft_cond_init(&g->idle);
  for (int i = 0; i < n; i++) g->handles[i] = handle_of(parts[i].device);
  int by_first = 0;
  weft_status_t *s = weft_status_of_failure(of->join(g->handles, n, &by_first, &g->communicator));
  if (s == NULL && by_first == 0 && of->abort == NULL) {
    of->leave(g->communicator);
    s = WEFT_ERROR(INVALID_ARGUMENT, "the library cannot end them");
  }
  if (s != NULL) g->communicator = NULL;
  if (s != NULL && weft_status_code(s) != WEFT_UNIMPLEMENTED) warn_locked(parts, n, s);
  weft_status_free(s);
  g->by_first = by_first != 0;
  g->next = groups;
  groups = g;
  *out = g;
  return NULL;
}

/* Has ended its work or never had any. */
static void end_group(loaded_group_t *g) {
  if (g->communicator != NULL) g->of->leave(g->communicator);
  weft_cond_deinit(&g->idle);
  weft_free(g);
}

void weft_loaded_collectives_forget(const void *handle) {
  loaded_group_t *taken = NULL;
  weft_mutex_lock(&mu);
  for (loaded_group_t **at = &groups; *at != NULL;) {
    loaded_group_t *g = *at;
    bool has_it = false;
    for (int i = 0; i < g->n; i++) has_it = has_it || g->handles[i] == handle;
    if (!has_it) {
      at = &g->next;
      continue;
    }
    *at = g->next;
    while (g->outstanding > 0)
      weft_cond_wait(&g->idle, &mu); /* woken by on_done(): the queues' work ends, or fails */
    g->next = taken;
    taken = g;
    at = &groups; /* it may have changed meanwhile */
  }
  weft_mutex_unlock(&mu);
  for (loaded_group_t *next; taken != NULL; taken = next) {
    next = taken->next;
    end_group(taken);
  }
}

/* ---- fences that are watched ---- */

typedef struct watched_fence {
  weft_fence_waiter_t waiter;
  loaded_group_t *group;
} watched_fence_t;

/* Some parts may be enqueued and wait for others, which will not come. */
static void break_group(loaded_group_t *g, const weft_status_t *why) {
  weft_mutex_lock(&mu);
  const bool is_first = !g->is_broken;
  g->is_broken = true;
  weft_mutex_unlock(&mu);
  if (is_first) g->of->abort(g->communicator, (const WEFT_Failure *)(const void *)why);
}

static void on_done(void *arg, weft_status_t *s) {
  watched_fence_t *w = arg;
  loaded_group_t *g = w->group;
  if (s != NULL) break_group(g, s);
  weft_status_free(s);
  weft_free(w);
  weft_mutex_lock(&mu);
  if (--g->outstanding == 0) weft_cond_broadcast(&g->idle);
  weft_mutex_unlock(&mu);
}

static void free_watches(watched_fence_t **watches, int n) {
  for (int i = 0; watches != NULL && i < n; i++) weft_free(watches[i]);
  weft_free(watches);
}

/* One for each rank; NULL without memory. */
static watched_fence_t **new_watches(loaded_group_t *g) {
  watched_fence_t **watches = weft_calloc((size_t)g->n, sizeof *watches);
  bool has_all = watches != NULL;
  for (int i = 0; has_all && i < g->n; i++) {
    watches[i] = weft_calloc(1, sizeof *watches[i]);
    has_all = watches[i] != NULL;
    if (has_all) watches[i]->group = g;
  }
  if (has_all) return watches;
  free_watches(watches, watches == NULL ? 0 : g->n);
  return NULL;
}

/* ---- a collective ---- */

static weft_queue_t *queue_of(const weft_device_part_t *p) { return p->device->compute; }

void weft_loaded_wait_for_part(const weft_device_part_t *p) {
  if (p->input != NULL) weft_queue_wait(queue_of(p), p->input->fence);
  if (p->output != p->input) weft_queue_wait(queue_of(p), p->output->fence);
}

static weft_status_t *enqueue(const loaded_group_t *g, const WEFT_Collective *what,
                              const weft_device_part_t *parts) {
  WEFT_CollectiveRank *ranks = weft_calloc((size_t)g->n, sizeof *ranks);
  if (ranks == NULL) return WEFT_NO_MEMORY("a collective of %d devices", g->n);
  for (int i = 0; i < g->n; i++) {
    const weft_device_part_t *p = &parts[i];
    ranks[i] = (WEFT_CollectiveRank){p->input == NULL ? NULL : p->input->data, p->output->data};
    weft_loaded_wait_for_part(p);
    if (g->by_first && i > 0) weft_queue_wait(queue_of(parts), weft_queue_mark(queue_of(p)));
  }
  weft_status_t *s = weft_status_of_failure(g->of->enqueue(g->communicator, what, ranks));
  weft_free(ranks);
  return s;
}

static void set_fence(const weft_device_part_t *p, weft_fence_t f) {
  if (p->output != p->input) p->output->fence = f;
}

static weft_status_t *run_by_first(const loaded_group_t *g, const WEFT_Collective *what,
                                   const weft_device_part_t *parts) {
  WEFT_RETURN_IF_ERROR(enqueue(g, what, parts));
  const weft_fence_t first = weft_queue_mark(queue_of(parts));
  set_fence(parts, first);
  for (int i = 1; i < g->n; i++) {
    weft_queue_wait(queue_of(&parts[i]), first);
    set_fence(&parts[i], weft_queue_mark(queue_of(&parts[i])));
  }
  return NULL;
}

static weft_status_t *run_by_all(loaded_group_t *g, const WEFT_Collective *what,
                                 const weft_device_part_t *parts) {
  watched_fence_t **watches = new_watches(g);
  if (watches == NULL) return WEFT_NO_MEMORY("a collective of %d devices", g->n);
  weft_status_t *s = enqueue(g, what, parts);
  if (s != NULL) {
    free_watches(watches, g->n);
    return s;
  }
  weft_mutex_lock(&mu);
  g->outstanding += g->n;
  weft_mutex_unlock(&mu);
  for (int i = 0; i < g->n; i++) {
    const weft_fence_t f = weft_queue_mark(queue_of(&parts[i]));
    set_fence(&parts[i], f);
    weft_fence_then(f, &watches[i]->waiter, on_done, watches[i]);
  }
  weft_free(watches);
  return NULL;
}

weft_status_t *weft_loaded_collective(const WEFT_Collective *what, const weft_device_part_t *parts, int n) {
  const weft_loaded_driver_t *driver = (const weft_loaded_driver_t *)(const void *)parts[0].device->driver;
  weft_status_t *s = NULL;
  weft_mutex_lock(&mu);
  loaded_group_t *g = find_locked(parts, n);
  if (g == NULL) s = make_locked(driver->type.collectives, parts, n, &g);
  weft_mutex_unlock(&mu);
  if (s != NULL) return s;
  if (g->communicator == NULL)
    return WEFT_ERROR(UNIMPLEMENTED, "there are no collectives between these %d devices", n);
  return g->by_first ? run_by_first(g, what, parts) : run_by_all(g, what, parts);
}
