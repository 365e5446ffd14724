/* strategies/traffic.c - lists the values that a step sends, then measures their size.
 *
 * First all crossings of all worker loops are listed, each with the output that it carries.
 * Sizes are read off the shapes that inference finds, for up to two batch sizes: what
 * is a bytes then and b bytes with twice as many rows has 2a - b bytes beside (b - a) / rows per row. */
#include "strategies/traffic.h"

#include <stdio.h>

#include "base/alloc.h"
#include "graph/collective_node.h"
#include "graph/passes.h"
#include "strategies/emit.h"
#include "strategies/gradient_shapes.h"
#include "strategies/prepare.h"

/* What a message costs where links are not measured: between threads of one process, and between tasks. */
static const double LOCAL_SECONDS = 5e-6, LOCAL_BYTES_PER_SECOND = 5e9, REMOTE_SECONDS = 5e-5,
                    REMOTE_BYTES_PER_SECOND = 1e9;

/* A number of rows that divides well among replicas and is unlikely to be another dimension. */
enum { EXAMPLE_ROWS = 5040 * 64 };

typedef struct traffic_part { /* of crossing or collective i: a fraction of one output, or a multiple of equal
                                 ones */
  weft_output_t of;
  int64_t times, divisor;
} traffic_part_t;

typedef struct traffic_group { /* the members of a collective that are in this graph, by rank */
  weft_collective_keys_t keys;
  weft_node_t **members; /* owned; in the order of nodes */
  int n, capacity;
  const weft_node_t **by_rank; /* in the arena; NULL: not in this graph */
  weft_str_t *devices;         /* by rank; "" where unknown */
  struct traffic_group *next;
} traffic_group_t;

typedef struct traffic { /* Confined. */
  weft_rewrite_t *r;
  const weft_graph_t *g;
  const weft_cluster_view_t *cluster;
  weft_arena_t arena;
  weft_frames_t frames;
  weft_map_t places;   /* device -> number + 1 */
  weft_str_t *devices; /* owned; by number */
  int *task_of;        /* owned; by number: the number of its task's first device */
  int num_places, place_capacity;
  int *place_of; /* by node id */
  bool *reached; /* by node id */
  bool *is_fed;  /* by node id */
  weft_node_t **stack;
  weft_map_t seen;
  traffic_part_t *parts; /* owned; of each crossing */
  int part_capacity;
  traffic_part_t *wholes; /* of each collective, by its index */
  int loop, client;       /* the client's place */
} traffic_t;

static weft_status_t *no_memory(void) { return WEFT_NO_MEMORY("what a step sends"); }

weft_str_t weft_traffic_task(weft_str_t device) {
  for (size_t i = 0; i + 8 <= device.length; i++) {
    if (memcmp(device.data + i, "/device:", 8) == 0) return weft_str_of(device.data, i);
  }
  return device;
}

/* ---- places ---- */

static weft_status_t *find_place(traffic_t *t, weft_str_t device, int *out) {
  uintptr_t known = (uintptr_t)weft_map_get(&t->places, device);
  if (known != 0) {
    *out = (int)known - 1;
    return NULL;
  }
  if (t->num_places == t->place_capacity) {
    int capacity = t->place_capacity == 0 ? 16 : 2 * t->place_capacity;
    weft_str_t *devices = weft_realloc(t->devices, (size_t)capacity, sizeof *devices);
    if (devices == NULL) return no_memory();
    t->devices = devices;
    int *task_of = weft_realloc(t->task_of, (size_t)capacity, sizeof *task_of);
    if (task_of == NULL) return no_memory();
    t->task_of = task_of;
    t->place_capacity = capacity;
  }
  int n = t->num_places++;
  t->devices[n] = device;
  t->task_of[n] = n;
  for (int i = n - 1; i >= 0; i--) {
    if (weft_str_eq(weft_traffic_task(t->devices[i]), weft_traffic_task(device)))
      t->task_of[n] = t->task_of[i];
  }
  *out = n;
  return weft_map_put(&t->places, device, (void *)(uintptr_t)(n + 1), NULL);
}

/* Nodes without a device are where the client is: the master puts them there. */
static int place_of(const traffic_t *t, const weft_node_t *n) {
  return t->place_of[n->id] < 0 || t->is_fed[n->id] ? t->client : t->place_of[n->id];
}

/* Of all nodes, and of the replicas of other workers. */
static weft_status_t *find_places(traffic_t *t) {
  int place;
  for (int id = 0; id < t->g->num_nodes; id++) {
    const weft_node_t *n = t->g->nodes[id];
    t->place_of[id] = -1;
    if (n != NULL && n->requested_device.length > 0)
      WEFT_RETURN_IF_ERROR(find_place(t, n->requested_device, &t->place_of[id]));
  }
  for (int i = 0; i < t->r->replicas.n; i++)
    WEFT_RETURN_IF_ERROR(find_place(t, t->r->replicas.items[i], &place));
  return find_place(t, WEFT_STR(""), &place); /* of members of collectives on unknown devices */
}

/* ---- crossings ---- */

static weft_status_t *add(traffic_t *t, const weft_crossing_t *c, weft_output_t of, int64_t times,
                          int64_t divisor) {
  if (t->r->num_crossings == t->part_capacity) {
    int capacity = t->part_capacity == 0 ? 64 : 2 * t->part_capacity;
    traffic_part_t *parts = weft_realloc(t->parts, (size_t)capacity, sizeof *parts);
    if (parts == NULL) return no_memory();
    t->parts = parts;
    t->part_capacity = capacity;
  }
  t->parts[t->r->num_crossings] = (traffic_part_t){of, times, divisor};
  return weft_rewrite_add_crossing(t->r, c);
}

/* One value (output < 0: a signal) from a node to a consumer (NULL: the client). */
static weft_status_t *cross(traffic_t *t, weft_node_t *from, int output, const weft_node_t *to) {
  int a = place_of(t, from), b = to == NULL ? t->client : place_of(t, to);
  bool is_remote = t->task_of[a] != t->task_of[b];
  if (a == b || (!is_remote && output < 0)) return NULL;
  /* a reference is read anew for each consumer */
  bool is_ref = output >= 0 && weft_dtype_is_ref(from->output_types[output]);
  int where = is_remote ? t->task_of[b] : b;
  uint64_t key = ((uint64_t)(unsigned)from->id << 32) ^ ((uint64_t)(unsigned)(output + 1) << 14) ^
                 (uint64_t)(unsigned)where;
  void *old = NULL;
  if (!is_ref) WEFT_RETURN_IF_ERROR(weft_map_put_u64(&t->seen, key, t, &old));
  if (old != NULL || (is_ref && !is_remote)) return NULL;
  bool is_exit = (from->flags & WEFT_OP_EXIT) != 0;
  int frame = is_exit ? t->frames.parent[t->frames.frame_of[from->id]] : t->frames.frame_of[from->id];
  const weft_crossing_t c = {.from = t->devices[a],
                             .to = t->devices[b],
                             .what = from->name,
                             .kind = output < 0 ? WEFT_CROSSING_SIGNAL : WEFT_CROSSING_VALUE,
                             .messages = 1,
                             .loop = t->loop,
                             .is_remote = is_remote,
                             .is_repeated = frame != 0,
                             .source = t->is_fed[from->id] ? NULL : from,
                             .target = to};
  return add(t, &c, (weft_output_t){from, output}, output < 0 ? 0 : 1, 1);
}

/* ---- collectives ---- */

static weft_status_t *add_member(traffic_t *t, traffic_group_t **groups, weft_node_t *n) {
  weft_collective_keys_t keys;
  if (!weft_node_collective_keys(n, &keys)) return NULL;
  traffic_group_t **at = groups;
  while (*at != NULL &&
         ((*at)->keys.instance_key != keys.instance_key || (*at)->keys.group_key != keys.group_key))
    at = &(*at)->next;
  if (*at == NULL) {
    *at = weft_arena_calloc(&t->arena, 1, sizeof **at);
    if (*at == NULL) return no_memory();
    (*at)->keys = keys;
  }
  traffic_group_t *g = *at;
  if (g->n == g->capacity) {
    int capacity = g->capacity == 0 ? 4 : 2 * g->capacity;
    weft_node_t **members = weft_realloc(g->members, (size_t)capacity, sizeof(*members));
    if (members == NULL) return no_memory();
    g->members = members;
    g->capacity = capacity;
  }
  g->members[g->n++] = n;
  return NULL;
}

static int rank_of(const traffic_t *t, const weft_node_t *n) {
  for (int i = 0; i < t->r->replicas.n; i++) {
    if (weft_str_eq(t->r->replicas.items[i], n->requested_device)) return i;
  }
  return -1;
}

/* Members by rank: that of their replica, or in the order of nodes. */
static weft_status_t *find_ranks(traffic_t *t, traffic_group_t *g) {
  size_t size = (size_t)g->keys.group_size;
  bool by_replica = t->r->replicas.n == g->keys.group_size;
  g->by_rank = weft_arena_calloc(&t->arena, size + 1, sizeof(*g->by_rank));
  g->devices = weft_arena_calloc(&t->arena, size + 1, sizeof *g->devices);
  if (g->by_rank == NULL || g->devices == NULL) return no_memory();
  for (size_t i = 0; i < size; i++) g->devices[i] = by_replica ? t->r->replicas.items[i] : WEFT_STR("");
  for (int i = 0; i < g->n; i++) {
    int rank = by_replica ? rank_of(t, g->members[i]) : i;
    if (rank < 0 || (size_t)rank >= size) continue;
    g->by_rank[rank] = g->members[i];
    g->devices[rank] = g->members[i]->requested_device;
  }
  return NULL;
}

/* Which ranks send to which in a collective. */
typedef enum way {
  ALONG_RING, /* each rank to the next */
  DIRECT,     /* each rank to every other */
  BY_HOSTS,   /* a ring in each host, then one through the hosts for each of their ranks */
} way_t;

static weft_str_t host_of(const traffic_t *t, weft_str_t device) {
  weft_str_t task = weft_traffic_task(device);
  for (int i = 0; t->cluster != NULL && i < t->cluster->num_tasks; i++) {
    const weft_task_devices_t *d = &t->cluster->tasks[i];
    if (weft_str_eq(d->task, task) && d->host.length > 0) return d->host;
  }
  return task;
}

/* As the cost model of collectives chooses (collectives/algorithm_table.h); with one rank in each task all
 * algorithms move the same bytes. */
static way_t way_of(const traffic_t *t, const traffic_group_t *g) {
  weft_str_t hint = weft_node_attr_string(g->members[0], "communication_hint"), first = g->devices[0];
  int size = (int)g->keys.group_size, in_first_task = 0, in_first_host = 0, in_this = 0, hosts = 1;
  if (weft_str_is(hint, "ring")) return ALONG_RING;
  if (weft_str_is(hint, "direct")) return DIRECT;
  const weft_str_t first_host = host_of(t, first);
  weft_str_t host = first_host;
  for (int i = 0; i < size; i++) {
    const weft_str_t device = g->devices[i], here = host_of(t, device);
    in_first_task += weft_str_eq(weft_traffic_task(device), weft_traffic_task(first));
    in_first_host += weft_str_eq(here, first_host);
    bool is_same = weft_str_eq(here, host);
    if (!is_same && in_this != in_first_host) return ALONG_RING; /* hosts of different sizes */
    in_this = is_same ? in_this + 1 : 1;
    hosts += !is_same;
    host = here;
  }
  if (in_first_task == size || in_first_task == 1) return ALONG_RING;
  if (in_first_host == size) return DIRECT;
  return in_this == in_first_host && hosts * in_first_host == size ? BY_HOSTS : ALONG_RING;
}

static bool is_broadcast_op(weft_op_collective_t kind) {
  return kind == WEFT_OP_BROADCAST_SEND || kind == WEFT_OP_BROADCAST_RECV;
}

/* What of a member's value goes from rank a to rank b: times / divisor. */
static void share_of(weft_op_collective_t kind, way_t way, int64_t size, int64_t in_host, int a, int b,
                     int64_t *times, int64_t *divisor) {
  bool is_next = b == (a + 1) % size;
  int64_t passes = kind == WEFT_OP_ALL_REDUCE ? 2 : 1, pieces = kind == WEFT_OP_ALL_GATHER ? size : 1;
  *times = 0;
  *divisor = size;
  if (a == b) return;
  if (is_broadcast_op(kind)) {
    *times = is_next;
    *divisor = 1;
  } else if (way == DIRECT || kind == WEFT_OP_ALL_TO_ALL) {
    *times = passes * pieces;
  } else if (way == BY_HOSTS && kind == WEFT_OP_ALL_REDUCE) {
    int64_t hosts = size / in_host;
    bool in_ring = a / in_host == b / in_host && b % in_host == (a + 1) % in_host;
    bool through = b == (a + in_host) % size;
    *times = in_ring ? 2 * (in_host - 1) : through ? 2 * (hosts - 1) : 0;
    *divisor = in_ring ? in_host : size;
  } else if (is_next) {
    *times = passes * pieces * (size - 1);
  }
}

static weft_rewrite_collective_t *collective_of(traffic_t *t, const traffic_group_t *g) {
  for (int i = 0; i < t->r->num_collectives; i++) {
    if (t->r->collectives[i].instance_key == g->keys.instance_key) return &t->r->collectives[i];
  }
  return NULL;
}

static weft_status_t *add_ring(traffic_t *t, traffic_group_t *g) {
  WEFT_RETURN_IF_ERROR(find_ranks(t, g));
  int size = (int)g->keys.group_size, root = -1;
  weft_node_t *first = g->members[0];
  weft_output_t value = first->num_inputs > 3 ? first->inputs[0] : (weft_output_t){first, 0};
  if (collective_of(t, g) == NULL)
    WEFT_RETURN_IF_ERROR(weft_rewrite_collective(t->r, g->keys.instance_key, first->name));
  weft_rewrite_collective_t *c = collective_of(t, g);
  bool is_broadcast = is_broadcast_op(first->op->collective);
  c->op = first->op->name;
  c->size = size;
  for (int i = 0; i < size && is_broadcast;
       i++) { /* the sender's value; receivers say only the shape that they expect */
    const weft_node_t *n = g->by_rank[i];
    if (n == NULL || n->op->collective != WEFT_OP_BROADCAST_SEND) continue;
    root = i;
    value = n->inputs[0];
  }
  if (is_broadcast && root < 0) value = (weft_output_t){first, 0};
  t->wholes[c - t->r->collectives] = (traffic_part_t){value, 1, 1};
  weft_op_collective_t kind = first->op->collective;
  way_t way = size > 1 ? way_of(t, g) : ALONG_RING;
  int in_host = 0;
  for (int i = 0; i < size && way == BY_HOSTS; i++)
    in_host += weft_str_eq(host_of(t, g->devices[0]), host_of(t, g->devices[i]));
  int last = way == ALONG_RING && kind != WEFT_OP_ALL_TO_ALL ? 1 : size - 1; /* the next rank, or all */
  for (int i = 0; i < size; i++) {
    const weft_node_t *a = g->by_rank[i];
    for (int k = 1; k <= last && k < size; k++) {
      int64_t times, divisor;
      int j = (i + k) % size;
      share_of(kind, way, size, in_host, i, j, &times, &divisor);
      const weft_node_t *b = g->by_rank[j];
      if (times == 0 || (a == NULL && b == NULL) || (is_broadcast && j == (root < 0 ? 0 : root))) continue;
      const weft_crossing_t x = {
          .from = g->devices[i],
          .to = g->devices[j],
          .what = c->what,
          .kind = WEFT_CROSSING_COLLECTIVE,
          .messages = way == ALONG_RING && !is_broadcast_op(kind)
                          ? (kind == WEFT_OP_ALL_REDUCE ? 2 : 1) * (size - 1)
                          : 1,
          .loop = t->loop,
          .is_remote = !weft_str_eq(weft_traffic_task(g->devices[i]), weft_traffic_task(g->devices[j])),
          .source = a,
          .target = b};
      WEFT_RETURN_IF_ERROR(add(t, &x, value, times, divisor));
    }
  }
  return NULL;
}

static weft_status_t *add_collectives(traffic_t *t) {
  traffic_group_t *groups = NULL;
  int num = 0;
  weft_status_t *s = NULL;
  for (int id = 0; id < t->g->num_nodes && s == NULL; id++) {
    if (t->g->nodes[id] != NULL && t->reached[id]) s = add_member(t, &groups, t->g->nodes[id]);
  }
  for (const traffic_group_t *g = groups; g != NULL; g = g->next) num++;
  traffic_part_t *wholes =
      weft_arena_calloc(&t->arena, (size_t)(t->r->num_collectives + num) + 1, sizeof *wholes);
  if (wholes == NULL && s == NULL) s = no_memory();
  if (s == NULL && t->wholes != NULL)
    memcpy(wholes, t->wholes, (size_t)t->r->num_collectives * sizeof *wholes);
  if (s == NULL) t->wholes = wholes;
  for (traffic_group_t *g = groups; g != NULL && s == NULL; g = g->next) s = add_ring(t, g);
  for (traffic_group_t *g = groups; g != NULL; g = g->next) weft_free(g->members);
  return s;
}

/* ---- a worker loop ---- */

static void visit(traffic_t *t, int *n, weft_node_t *node) {
  if (node == NULL || t->reached[node->id]) return;
  t->reached[node->id] = true;
  t->stack[(*n)++] = node;
}

static weft_status_t *find(const traffic_t *t, weft_str_t name, const char *what, weft_output_t *out) {
  return weft_find_named(t->g, name, what, &out->node, &out->index);
}

static weft_status_t *mark(traffic_t *t, const weft_worker_loop_t *l) {
  int n = 0;
  weft_output_t of;
  size_t num = (size_t)t->g->num_nodes;
  memset(t->reached, 0, num * sizeof *t->reached);
  memset(t->is_fed, 0, num * sizeof *t->is_fed);
  for (int i = 0; i < l->feeds.n; i++) {
    WEFT_RETURN_IF_ERROR(find(t, l->feeds.items[i], "feed", &of));
    t->is_fed[of.node->id] = true;
  }
  for (int k = 0; k < 2; k++) {
    const weft_names_t *names = k == 0 ? &l->fetches : &l->targets;
    for (int i = 0; i < names->n; i++) {
      WEFT_RETURN_IF_ERROR(find(t, names->items[i], "name", &of));
      visit(t, &n, of.node);
    }
  }
  while (n > 0) {
    const weft_node_t *at = t->stack[--n];
    for (int i = 0; i < at->num_inputs && !t->is_fed[at->id]; i++) visit(t, &n, at->inputs[i].node);
    for (int i = 0; i < at->num_controls && !t->is_fed[at->id]; i++) visit(t, &n, at->controls[i]);
  }
  return NULL;
}

/* A client is at the task that serves its worker loop best; else where its feeds are taken, or the first node
 * is. */
static weft_status_t *find_client(traffic_t *t, const weft_worker_loop_t *l) {
  t->client = -1;
  for (int i = 0; i < t->num_places && t->client < 0; i++) {
    if (l->task.length > 0 && weft_str_eq(weft_traffic_task(t->devices[i]), l->task))
      t->client = t->task_of[i];
  }
  for (int k = 0; k < 2; k++) {
    for (int id = 0; id < t->g->num_nodes && t->client < 0; id++) {
      if (t->reached[id] && (k == 1 || t->is_fed[id]) && t->place_of[id] >= 0) t->client = t->place_of[id];
    }
  }
  return t->client >= 0 ? NULL : find_place(t, WEFT_STR("any device"), &t->client);
}

static weft_status_t *walk(traffic_t *t, const weft_worker_loop_t *l) {
  WEFT_RETURN_IF_ERROR(mark(t, l));
  WEFT_RETURN_IF_ERROR(find_client(t, l));
  weft_map_deinit(&t->seen);
  t->seen = (weft_map_t)WEFT_MAP_INIT;
  WEFT_RETURN_IF_ERROR(add_collectives(t));
  for (int id = 0; id < t->g->num_nodes; id++) {
    const weft_node_t *n = t->g->nodes[id];
    if (n == NULL || !t->reached[id] || t->is_fed[id]) continue;
    for (int i = 0; i < n->num_inputs; i++)
      WEFT_RETURN_IF_ERROR(cross(t, n->inputs[i].node, n->inputs[i].index, n));
    for (int i = 0; i < n->num_controls; i++) WEFT_RETURN_IF_ERROR(cross(t, n->controls[i], -1, n));
  }
  for (int i = 0; i < l->fetches.n; i++) {
    weft_output_t of;
    WEFT_RETURN_IF_ERROR(find(t, l->fetches.items[i], "fetch", &of));
    WEFT_RETURN_IF_ERROR(cross(t, of.node, of.index, NULL));
  }
  return NULL;
}

/* ---- sizes ---- */

static int64_t bytes_of(const traffic_part_t *p) {
  if (p->times == 0) return 0;
  int64_t bytes = p->of.node == NULL ? -1 : weft_static_bytes_of(p->of);
  if (bytes < 0 || bytes > INT64_MAX / (p->times + 1)) return -1;
  return bytes * p->times / p->divisor;
}

static weft_status_t *infer(weft_graph_t *g) {
  WEFT_RETURN_IF_ERROR(weft_pass_infer_shapes(g));
  return weft_infer_gradient_shapes(g);
}

/* Has feed number `feed` of the worker loop rows of the batch? Worker loops with batches of their own: all
 * feeds count as batches. */
static bool is_batch(const weft_rewrite_t *r, const weft_worker_loop_t *l, int feed) {
  for (int i = 0; i < r->shared.n; i++) {
    if (weft_str_eq(r->shared.items[i], l->feeds.items[feed])) return true;
  }
  return r->shared.n == 0;
}

typedef struct fed_placeholder { /* a placeholder, whose shape is changed for a while */
  weft_node_t *node;
  weft_shape_t shape;
} fed_placeholder_t;

static int find_batches(traffic_t *t, fed_placeholder_t *out) {
  int n = 0, index;
  for (int i = 0; i < t->r->num_loops; i++) {
    const weft_worker_loop_t *l = &t->r->loops[i];
    for (int k = 0; k < l->feeds.n && l->kind == WEFT_WORKER_LOOP_STEP; k++) {
      weft_node_t *node;
      weft_status_t *s = weft_find_named(t->g, l->feeds.items[k], "feed", &node, &index);
      const weft_attr_t *shape = s == NULL ? weft_node_attr(node, "shape") : NULL;
      weft_status_free(s);
      if (shape == NULL || shape->shape == NULL || !is_batch(t->r, l, k)) continue;
      if (shape->shape->rank < 1 || shape->shape->dims[0] >= 0) continue;
      out[n++] = (fed_placeholder_t){node, *shape->shape};
    }
  }
  return n;
}

static weft_status_t *set_rows(traffic_t *t, const fed_placeholder_t *fed, int n, int64_t rows) {
  for (int i = 0; i < n; i++) {
    weft_shape_t shape = fed[i].shape;
    if (rows > 0) shape.dims[0] = rows;
    weft_attr_t attr = {.kind = WEFT_ATTR_SHAPE, .shape = &shape};
    WEFT_RETURN_IF_ERROR(weft_graph_set_attr(t->r->graph, fed[i].node, "shape", &attr));
  }
  return NULL;
}

/* sizes[i]: of crossing i, then of each collective, with so many rows. A batch that the graph cannot take
 * gives no sizes. */
static weft_status_t *size_all(traffic_t *t, const fed_placeholder_t *fed, int num_fed, int64_t rows,
                               int64_t *sizes) {
  const weft_rewrite_t *r = t->r;
  if (num_fed > 0) WEFT_RETURN_IF_ERROR(set_rows(t, fed, num_fed, rows));
  weft_status_t *s = infer(r->graph);
  bool fits = s == NULL;
  if (weft_status_code(s) == WEFT_RESOURCE_EXHAUSTED) return s;
  weft_status_free(s);
  for (int i = 0; i < r->num_crossings; i++) sizes[i] = fits ? bytes_of(&t->parts[i]) : -1;
  for (int i = 0; i < r->num_collectives; i++)
    sizes[r->num_crossings + i] = fits ? bytes_of(&t->wholes[i]) : -1;
  return NULL;
}

/* From the sizes for EXAMPLE_ROWS rows and twice as many; false where the size is not linear in rows. */
static bool divide(int64_t once, int64_t twice, int64_t *bytes, double *row_bytes) {
  if (once < 0 || twice < once || twice - once > once) return false;
  *bytes = once - (twice - once);
  *row_bytes = (double)(twice - once) / EXAMPLE_ROWS;
  return true;
}

static weft_status_t *find_sizes(traffic_t *t, int64_t rows) {
  weft_rewrite_t *r = t->r;
  int n = r->num_crossings + r->num_collectives, most_feeds = 0;
  for (int i = 0; i < r->num_loops; i++) most_feeds += r->loops[i].feeds.n;
  fed_placeholder_t *fed = weft_arena_calloc(&t->arena, (size_t)most_feeds + 1, sizeof *fed);
  int64_t *plain = weft_arena_calloc(&t->arena, (size_t)n + 1, sizeof *plain),
          *once = weft_arena_calloc(&t->arena, (size_t)n + 1, sizeof *once),
          *twice = weft_arena_calloc(&t->arena, (size_t)n + 1, sizeof *twice);
  if (fed == NULL || plain == NULL || once == NULL || twice == NULL) return no_memory();
  int num_fed = rows == WEFT_ROWS_UNKNOWN ? 0 : find_batches(t, fed);
  weft_status_t *s = NULL;
  if (num_fed > 0) {
    s = size_all(t, fed, num_fed, rows > 0 ? rows : EXAMPLE_ROWS, once);
    if (s == NULL && rows == WEFT_ROWS_ANY) s = size_all(t, fed, num_fed, 2 * EXAMPLE_ROWS, twice);
    s = weft_status_join(s, set_rows(t, fed, num_fed, 0));
    if (s == NULL) s = infer(r->graph);
  }
  for (int i = 0; i < n && s == NULL; i++) {
    const bool is_crossing = i < r->num_crossings;
    int64_t *bytes = is_crossing ? &r->crossings[i].bytes : &r->collectives[i - r->num_crossings].bytes;
    double *row_bytes =
        is_crossing ? &r->crossings[i].row_bytes : &r->collectives[i - r->num_crossings].row_bytes;
    *row_bytes = 0;
    *bytes = bytes_of(is_crossing ? &t->parts[i] : &t->wholes[i - r->num_crossings]);
    if (*bytes >= 0 || num_fed == 0) continue;
    if (rows > 0) *bytes = once[i];
    if (rows == WEFT_ROWS_ANY) divide(once[i], twice[i], bytes, row_bytes);
  }
  return s;
}

/* ---- cost ---- */

typedef struct traffic_flow {
  double in, out;
} traffic_flow_t;

/* The busiest task decides, or, with one task, the busiest device; collectives go one after the other, and
 * what a step reads and what it writes are two messages one after the other. */
static weft_status_t *find_cost(traffic_t *t) {
  weft_rewrite_t *r = t->r;
  weft_cost_t *cost = &r->cost;
  traffic_flow_t *flows = weft_arena_calloc(&t->arena, (size_t)t->num_places + 1, sizeof *flows);
  double busiest = 0, chain = 0;
  int num_remote = 0;
  bool has_values = false;
  if (flows == NULL) return no_memory();
  for (int i = 0; i < r->num_crossings; i++) num_remote += r->crossings[i].is_remote;
  for (int i = 0; i < r->num_crossings; i++) {
    const weft_crossing_t *c = &r->crossings[i];
    int64_t bytes = c->bytes > 0 ? c->bytes : 0;
    cost->bytes += bytes;
    cost->row_bytes += c->row_bytes;
    cost->messages += c->messages;
    cost->num_unknown += c->bytes < 0;
    if (c->is_remote) cost->remote_bytes += bytes;
    if (c->is_remote) cost->remote_row_bytes += c->row_bytes;
    if (c->is_remote != (num_remote > 0)) continue;
    int from = 0, to = 0;
    WEFT_RETURN_IF_ERROR(find_place(t, c->from, &from));
    WEFT_RETURN_IF_ERROR(find_place(t, c->to, &to));
    flows[c->is_remote ? t->task_of[from] : from].out += (double)bytes;
    flows[c->is_remote ? t->task_of[to] : to].in += (double)bytes;
    has_values |= c->kind != WEFT_CROSSING_COLLECTIVE;
  }
  for (int i = 0; i < t->num_places; i++) {
    double most = flows[i].in > flows[i].out ? flows[i].in : flows[i].out;
    busiest = most > busiest ? most : busiest;
  }
  const weft_cluster_view_t *c = t->cluster;
  bool is_measured = num_remote > 0 && c != NULL && c->link_bytes_per_second > 0 && c->link_seconds > 0;
  double seconds = num_remote == 0 ? LOCAL_SECONDS : is_measured ? c->link_seconds : REMOTE_SECONDS;
  double rate = num_remote == 0 ? LOCAL_BYTES_PER_SECOND
                : is_measured   ? c->link_bytes_per_second
                                : REMOTE_BYTES_PER_SECOND;
  for (int i = 0; i < r->num_collectives; i++) {
    if (r->collectives[i].size > 1) chain += 2.0 * (r->collectives[i].size - 1);
  }
  cost->link_seconds = seconds;
  cost->link_bytes_per_second = rate;
  if (r->num_crossings > 0) cost->seconds = busiest / rate + (chain + (has_values ? 2 : 0)) * seconds;
  return NULL;
}

static weft_status_t *find_variables(traffic_t *t) {
  int64_t *bytes = weft_arena_calloc(&t->arena, (size_t)t->num_places + 1, sizeof *bytes);
  if (bytes == NULL) return no_memory();
  for (int id = 0; id < t->g->num_nodes; id++) {
    const weft_node_t *n = t->g->nodes[id];
    if (n == NULL || (n->flags & WEFT_OP_VARIABLE) == 0 || t->place_of[id] < 0) continue;
    const weft_attr_t *shape = weft_node_attr(n, "shape");
    int64_t count = shape != NULL && shape->shape != NULL ? weft_shape_count(shape->shape) : -1;
    if (count > 0)
      bytes[t->place_of[id]] += count * (int64_t)weft_dtype_size(weft_node_attr_type(n, "dtype"));
  }
  for (int i = 0; i < t->r->replicas.n; i++) {
    uintptr_t place = (uintptr_t)weft_map_get(&t->places, t->r->replicas.items[i]);
    int64_t here = place == 0 ? 0 : bytes[place - 1];
    if (i == 0 || here > t->r->cost.bytes_per_replica) t->r->cost.bytes_per_replica = here;
  }
  return NULL;
}

/* A graph with malformed loops is refused when it is partitioned or run, not here. */
static weft_status_t *find_frames(traffic_t *t, size_t num_nodes) {
  weft_status_t *s = weft_pass_find_frames(t->g, &t->arena, &t->frames);
  if (weft_status_code(s) != WEFT_INVALID_ARGUMENT) return s;
  weft_status_free(s);
  t->frames = (weft_frames_t){.frame_of = weft_arena_calloc(&t->arena, num_nodes, sizeof(int)),
                              .parent = weft_arena_calloc(&t->arena, 1, sizeof(int)),
                              .num_frames = 1};
  return t->frames.frame_of == NULL || t->frames.parent == NULL ? no_memory() : NULL;
}

static weft_status_t *measure(traffic_t *t, int64_t rows) {
  weft_rewrite_t *r = t->r;
  size_t n = (size_t)r->graph->num_nodes + 1;
  t->place_of = weft_arena_calloc(&t->arena, n, sizeof *t->place_of);
  t->reached = weft_arena_calloc(&t->arena, n, sizeof *t->reached);
  t->is_fed = weft_arena_calloc(&t->arena, n, sizeof *t->is_fed);
  t->stack = weft_arena_calloc(&t->arena, n, sizeof(*t->stack));
  if (t->place_of == NULL || t->reached == NULL || t->is_fed == NULL || t->stack == NULL) return no_memory();
  WEFT_RETURN_IF_ERROR(find_frames(t, n));
  WEFT_RETURN_IF_ERROR(find_places(t));
  for (t->loop = 0; t->loop < r->num_loops; t->loop++) WEFT_RETURN_IF_ERROR(walk(t, &r->loops[t->loop]));
  int used = 0; /* collectives of initialisers are not part of a step */
  for (int i = 0; i < r->num_collectives; i++) {
    if (r->collectives[i].size == 0) continue;
    t->wholes[used] = t->wholes[i];
    r->collectives[used++] = r->collectives[i];
  }
  r->num_collectives = used;
  WEFT_RETURN_IF_ERROR(find_sizes(t, rows));
  WEFT_RETURN_IF_ERROR(find_variables(t));
  return find_cost(t);
}

weft_status_t *weft_rewrite_measure(weft_rewrite_t *r, const weft_cluster_view_t *cluster, int64_t rows) {
  traffic_t t = {.r = r, .g = r->graph, .cluster = cluster, .arena = WEFT_ARENA_INIT};
  t.places = t.seen = (weft_map_t)WEFT_MAP_INIT;
  r->num_crossings = 0;
  r->cost = (weft_cost_t){0};
  weft_status_t *s = measure(&t, rows);
  weft_map_deinit(&t.places);
  weft_map_deinit(&t.seen);
  weft_free(t.devices);
  weft_free(t.task_of);
  weft_free(t.parts);
  weft_arena_deinit(&t.arena);
  return s;
}
