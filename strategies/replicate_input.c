/* strategies/replicate_input.c - each task reads its own part of the data, instead of one that sends rows to
 * all.
 *
 * Of an iterator that the step reads, every task gets a copy, with a copy of its data set; an
 * AutoShardDataset between the two leaves the task's part (kernels/cpu/dataset/auto_shard.c). The replicas of
 * a task share its copy. The rows of a step are the batches of all tasks, in order; only their numbers are
 * sent.
 *
 *   split              IteratorGetNext -> rows -> replica 0, 1, 2, 3
 *   a part for each    IteratorGetNext -> rows -> replica 0, 1        weft/input_1/IteratorGetNext -> 2, 3
 *
 * Parts of each batch are what one device reads, if the pipeline is deterministic; so that is the default.
 * Files are divided up where the options of the data set, or of the strategy, ask for it; a task whose files
 * have ended goes on with batches of no rows, and WeftEndOfData fails the step in which all have ended.
 */
#include <stdio.h>

#include "base/alloc.h"
#include "strategies/data_source.h"
#include "strategies/origin.h"
#include "strategies/replication.h"
#include "strategies/traffic.h"

enum { DATASET, ITERATOR };                          /* inputs of MakeIterator */
enum { POLICY_STEP = -3, POLICY_STEP_BY_DATA = -4 }; /* of AutoShardDataset: Weft's own */
enum { LARGE_CONSTANT = 1 << 20 }; /* bytes: one for all tasks, which is sent to them once */

static weft_status_t *no_memory(void) { return WEFT_NO_MEMORY("the input of tasks"); }

static weft_str_t task_device(const weft_replication_t *r, int task) {
  return r->o->devices[task * (r->n / r->num_tasks)];
}

static bool is_reader(const weft_node_t *n) {
  return weft_str_is(n->op->name, "IteratorGetNext") || weft_str_is(n->op->name, "IteratorGetNextSync");
}

static bool is_maker(const weft_node_t *n) { return weft_str_is(n->op->name, "MakeIterator"); }

/* ---- may it be read by every task? ---- */

typedef struct input_look {
  weft_replication_t *r;
  weft_fanout_t fanout;
  weft_strbuf_t why; /* it may not; empty: it may */
  int64_t policy;    /* of AutoShardDataset */
  weft_str_t varies; /* why tasks may read otherwise than one device; "": they do not */
} input_look_t;

static void refuse(input_look_t *k, const char *what, weft_str_t name) {
  if (k->why.length == 0) weft_strbuf_printf(&k->why, "%s '%.*s'", what, WEFT_STR_ARGS(name));
}

static bool stands_alone(const weft_replication_t *r, const weft_node_t *n) {
  const weft_node_facts_t *f = weft_replication_facts(r, n);
  return f->frame == 0 && f->branches == 0 && n->num_controls == 0;
}

static void look_at_reader(input_look_t *k, const weft_node_t *n) {
  const weft_attr_t *shapes = weft_node_attr(n, "output_shapes");
  if (!stands_alone(k->r, n)) refuse(k, "other nodes decide when to run", n->name);
  if (weft_replication_facts(k->r, n)->root != NULL) refuse(k, "the request names", n->name);
  for (int o = 0; shapes != NULL && o < shapes->n; o++) {
    if (shapes->list.shapes[o].rank < 1) refuse(k, "not all components are known to be batches in", n->name);
  }
}

/* Its readers and what initialises it, which must be all that uses it. */
static void look_at_users(input_look_t *k, const weft_node_t *iterator, bool is_once) {
  int num_readers = 0, num_makers = 0;
  for (int e = k->fanout.begin[iterator->id]; e < k->fanout.begin[iterator->id + 1]; e++) {
    const weft_fanout_edge_t *edge = &k->fanout.edges[e];
    const bool makes = is_maker(edge->to) && edge->input == ITERATOR;
    num_readers += is_reader(edge->to);
    num_makers += makes;
    if (!is_reader(edge->to) && !makes) refuse(k, "it is used, too, by", edge->to->name);
    if (makes && !stands_alone(k->r, edge->to)) refuse(k, "other nodes decide when to run", edge->to->name);
  }
  if (num_readers > 1) refuse(k, "several nodes read", iterator->name);
  if (num_makers == 0 && !is_once) refuse(k, "nothing in the request initialises", iterator->name);
}

/* How it is cut; on the way, whether it may be. */
static void choose(input_look_t *k, const weft_data_source_t *d) {
  const bool asks = k->r->o->input == WEFT_INPUT_SHARDED;
  const bool by_files = d->policy == WEFT_SHARD_FILE || (asks && d->policy != WEFT_SHARD_DATA);
  const int64_t policy = by_files ? POLICY_STEP : POLICY_STEP_BY_DATA;
  if (k->why.length > 0) return;
  if (d->fixed.length > 0) {
    weft_strbuf_append(&k->why, d->fixed);
  } else if (d->policy == WEFT_SHARD_OFF) {
    weft_strbuf_puts(&k->why, "the options of the data set say so");
  } else if (d->varies.length > 0 && !asks && !by_files) {
    weft_strbuf_append(&k->why, d->varies);
  } else if (k->policy != 0 && k->policy != policy) {
    weft_strbuf_puts(&k->why, "it reads several data sets, with different options");
  }
  k->policy = policy;
  if (d->varies.length > 0) k->varies = d->varies;
}

static weft_status_t *look_at_source(input_look_t *k, const weft_node_t *iterator, bool is_once) {
  weft_data_source_t d;
  const weft_graph_t *g = k->r->source.graph;
  weft_arena_t *arena = &k->r->arena;
  if (is_once) {
    const weft_attr_t *f = weft_node_attr(iterator, "dataset_factory");
    if (f == NULL || f->kind != WEFT_ATTR_FUNC) return NULL;
    WEFT_RETURN_IF_ERROR(weft_data_source_of_function(g, f->func, arena, &d));
    choose(k, &d);
    return NULL;
  }
  for (int e = k->fanout.begin[iterator->id]; e < k->fanout.begin[iterator->id + 1]; e++) {
    const weft_node_t *maker = k->fanout.edges[e].to;
    if (!is_maker(maker) || k->why.length > 0) continue;
    WEFT_RETURN_IF_ERROR(weft_data_source_of_dataset(g, maker->inputs[DATASET], arena, &d));
    choose(k, &d);
  }
  return NULL;
}

/* Marks what the marked nodes are made of: each task gets a copy. False: something is in a loop or a
 * conditional. */
static bool mark_all(const weft_replication_t *r, bool *marks) {
  bool fits = true;
  for (int at = r->source.graph->num_live - 1; at >= 0; at--) {
    const weft_node_t *n = r->order[at];
    const weft_node_facts_t *f = weft_replication_facts(r, n);
    if (!marks[n->id]) continue;
    fits = fits && f->frame == 0 && f->branches == 0;
    for (int i = 0; i < n->num_inputs; i++) marks[n->inputs[i].node->id] = true;
    for (int i = 0; i < n->num_controls; i++) marks[n->controls[i]->id] = true;
  }
  return fits;
}

/* What exists once is on the first task, then. */
static void move_to_first(weft_replication_t *r) {
  for (int at = 0; at < r->source.graph->num_live; at++) {
    const weft_node_t *n = r->order[at];
    weft_node_facts_t *f = weft_replication_facts(r, n);
    const bool is_dataset = n->num_outputs > 0 && n->output_types[0] == WEFT_VARIANT;
    if (!r->copied_input[n->id] || !f->is_single || weft_node_is_placeholder(n)) continue;
    if (f->device.length == 0 || is_dataset) f->device = r->o->devices[0];
  }
}

static weft_status_t *take(input_look_t *k, weft_node_t *reader, weft_node_t *iterator) {
  weft_replication_t *r = k->r;
  weft_own_input_t *in = weft_arena_calloc(&r->arena, 1, sizeof *in);
  bool *marks = weft_arena_calloc(&r->arena, (size_t)r->source.graph->num_nodes + 1, sizeof *marks);
  if (in == NULL || marks == NULL) return no_memory();
  if (r->copied_input != NULL)
    memcpy(marks, r->copied_input, (size_t)r->source.graph->num_nodes * sizeof *marks);
  marks[reader->id] = true;
  for (int e = k->fanout.begin[iterator->id]; e < k->fanout.begin[iterator->id + 1]; e++) {
    if (is_maker(k->fanout.edges[e].to)) marks[k->fanout.edges[e].to->id] = true;
  }
  if (!mark_all(r, marks)) {
    refuse(k, "a part of the pipeline is made in a loop or a conditional, of", iterator->name);
    return NULL;
  }
  *in = (weft_own_input_t){.next = r->inputs, .reader = reader, .iterator = iterator, .policy = k->policy};
  r->inputs = in;
  r->copied_input = marks;
  move_to_first(r);
  return NULL;
}

static weft_status_t *look(input_look_t *k, weft_node_t *reader) {
  weft_node_t *iterator = reader->inputs[0].node;
  const bool is_once = weft_str_is(iterator->op->name, "OneShotIterator");
  const bool is_named =
      weft_str_is(iterator->op->name, "Iterator") || weft_str_is(iterator->op->name, "IteratorV2") || is_once;
  k->why.length = 0;
  k->policy = 0;
  k->varies = WEFT_STR("");
  look_at_reader(k, reader);
  if (!is_named || !stands_alone(k->r, iterator)) {
    refuse(k, "which iterator it is, says", iterator->name);
  } else {
    look_at_users(k, iterator, is_once);
  }
  if (k->why.length == 0) WEFT_RETURN_IF_ERROR(look_at_source(k, iterator, is_once));
  if (k->why.length == 0) WEFT_RETURN_IF_ERROR(take(k, reader, iterator));
  if (k->why.failed) return no_memory();
  if (k->why.length > 0) {
    return weft_rewrite_note(k->r->out, "'%.*s' reads on one device and its rows are sent: %.*s",
                             WEFT_STR_ARGS(reader->name), (int)k->why.length, k->why.data);
  }
  return weft_rewrite_note(
      k->r->out, "'%.*s' reads on each of %d tasks: %s%s%.*s", WEFT_STR_ARGS(reader->name), k->r->num_tasks,
      k->policy == POLICY_STEP ? "its own files, or its rows of each batch where there are not enough"
                               : "its rows of each batch",
      k->varies.length > 0 ? "; what the tasks read may differ: " : "", WEFT_STR_ARGS(k->varies));
}

/* ---- tasks ---- */

/* How many tasks the replicas are on, in runs of equal length; 0: they are not. */
static int count_tasks(const weft_replication_t *r) {
  int num_tasks = 0, run = 0, first_run = 0;
  for (int i = 0; i < r->n; i++) {
    const weft_str_t task = weft_traffic_task(r->o->devices[i]);
    const bool is_new = i == 0 || !weft_str_eq(task, weft_traffic_task(r->o->devices[i - 1]));
    for (int k = 0; is_new && k < i; k++) {
      if (weft_str_eq(task, weft_traffic_task(r->o->devices[k]))) return 0;
    }
    if (is_new && num_tasks == 1) first_run = run;
    if (is_new && num_tasks > 1 && run != first_run) return 0;
    run = is_new ? 1 : run + 1;
    num_tasks += is_new;
  }
  return num_tasks > 1 && run != first_run ? 0 : num_tasks;
}

static weft_status_t *note_uneven(const weft_replication_t *r) {
  for (int b = 0; b < r->plan.num_batches; b++) {
    if (!is_reader(r->plan.batches[b].node)) continue;
    return weft_rewrite_note(
        r->out,
        "'%.*s' reads on one device and its rows are sent: tasks have different numbers of "
        "replicas",
        WEFT_STR_ARGS(r->plan.batches[b].node->name));
  }
  return NULL;
}

weft_status_t *weft_replication_find_input(weft_replication_t *r) {
  input_look_t k = {.r = r, .why = WEFT_STRBUF_INIT};
  if (r->o->input == WEFT_INPUT_SPLIT || weft_replication_is_between(r)) return NULL;
  r->num_tasks = count_tasks(r);
  if (r->num_tasks == 0) return note_uneven(r);
  if (r->num_tasks == 1) return NULL;
  WEFT_RETURN_IF_ERROR(weft_fanout_build(r->source.graph, &k.fanout));
  weft_status_t *s = NULL;
  for (int b = 0; s == NULL && b < r->plan.num_batches; b++) {
    weft_node_t *n = r->plan.batches[b].node;
    const bool is_first = b == 0 || r->plan.batches[b - 1].node != n;
    if (is_first && is_reader(n)) s = look(&k, n);
  }
  weft_fanout_deinit(&k.fanout);
  weft_strbuf_deinit(&k.why);
  return s;
}

const weft_own_input_t *weft_replication_own_input(const weft_replication_t *r, const weft_node_t *n) {
  for (const weft_own_input_t *in = r->inputs; in != NULL; in = in->next) {
    if (in->reader == n) return in;
  }
  return NULL;
}

/* ---- copies ---- */

static bool is_shared(const weft_node_t *n) {
  const weft_attr_t *value = (n->flags & WEFT_OP_CONST) != 0 ? weft_node_attr(n, "value") : NULL;
  if (weft_node_is_placeholder(n)) return true;
  return value != NULL && value->kind == WEFT_ATTR_TENSOR && value->tensor->bytes > LARGE_CONSTANT;
}

static weft_status_t *copy_on_task(weft_replication_t *r, weft_copier_t *c) {
  for (int at = 0; at < r->source.graph->num_live; at++) {
    const weft_node_t *n = r->order[at];
    weft_node_t *copy = NULL;
    if (!r->copied_input[n->id]) continue;
    if (is_shared(n)) {
      WEFT_RETURN_IF_ERROR(weft_copier_set_node(c, n, r->copiers[0].nodes[n->id]));
    } else {
      WEFT_RETURN_IF_ERROR(weft_copier_copy(c, n, &copy));
    }
  }
  return weft_copier_finish(c);
}

/* A task's batch has any number of rows. */
static weft_status_t *forget_rows(weft_replication_t *r, weft_node_t *reader) {
  const weft_attr_t *has = weft_node_attr(reader, "output_shapes");
  weft_shape_t *shapes = weft_arena_calloc(&r->arena, (size_t)has->n, sizeof *shapes);
  if (shapes == NULL) return no_memory();
  for (int o = 0; o < has->n; o++) {
    shapes[o] = has->list.shapes[o];
    shapes[o].dims[0] = WEFT_UNKNOWN_DIM;
  }
  const weft_attr_t to = {.kind = WEFT_ATTR_SHAPE, .is_list = true, .n = has->n, .list = {.shapes = shapes}};
  return weft_graph_set_attr(r->to, reader, "output_shapes", &to);
}

weft_status_t *weft_replication_copy_input(weft_replication_t *r) {
  if (r->inputs == NULL) return NULL;
  r->input_copiers = weft_arena_calloc(&r->arena, (size_t)r->num_tasks, sizeof *r->input_copiers);
  if (r->input_copiers == NULL) return no_memory();
  for (int task = 1; task < r->num_tasks; task++) {
    char prefix[48];
    snprintf(prefix, sizeof prefix, "weft/input_%d/", task);
    weft_copier_t *c = &r->input_copiers[task];
    WEFT_RETURN_IF_ERROR(weft_copier_init(c, r->source.graph, r->to, weft_str(prefix), task_device(r, task)));
    c->drops_colocation = true;
    WEFT_RETURN_IF_ERROR(copy_on_task(r, c));
  }
  for (weft_own_input_t *in = r->inputs; in != NULL; in = in->next) {
    in->readers = weft_arena_calloc(&r->arena, (size_t)r->num_tasks, sizeof(*in->readers));
    if (in->readers == NULL) return no_memory();
    for (int task = 0; task < r->num_tasks; task++) {
      in->readers[task] = (task == 0 ? r->copiers : &r->input_copiers[task])->nodes[in->reader->id];
      WEFT_RETURN_IF_ERROR(forget_rows(r, in->readers[task]));
    }
  }
  return NULL;
}

static weft_status_t *shard_one_shot(weft_replication_t *r, const weft_own_input_t *in, weft_node_t *copy,
                                     int task) {
  const weft_attr_t num_workers = {.kind = WEFT_ATTR_INT, .i = r->num_tasks},
                    index = {.kind = WEFT_ATTR_INT, .i = task},
                    policy = {.kind = WEFT_ATTR_INT, .i = in->policy};
  WEFT_RETURN_IF_ERROR(weft_graph_set_attr(r->to, copy, "_weft_workers", &num_workers));
  WEFT_RETURN_IF_ERROR(weft_graph_set_attr(r->to, copy, "_weft_worker", &index));
  return weft_graph_set_attr(r->to, copy, "_weft_policy", &policy);
}

/* Puts the task's part of the data in front of its copy of a MakeIterator. */
static void shard(weft_replication_t *r, const weft_own_input_t *in, weft_node_t *copy, int task) {
  weft_emitter_t *e = &r->e;
  const weft_attr_t *types = weft_node_attr(in->iterator, "output_types"),
                    *shapes = weft_node_attr(in->iterator, "output_shapes");
  const weft_named_attr_t attrs[3] = {
      {WEFT_STR("output_types"), *types},
      {WEFT_STR("output_shapes"), *shapes},
      {WEFT_STR("auto_shard_policy"), {.kind = WEFT_ATTR_INT, .i = in->policy}}};
  e->device = task_device(r, task);
  const weft_output_t with[3] = {copy->inputs[DATASET],
                                 weft_emit_int(e, WEFT_I64, r->num_tasks, "weft/input_%d/tasks", task),
                                 weft_emit_int(e, WEFT_I64, task, "weft/input_%d/task", task)};
  weft_output_t part = weft_emit(e, "AutoShardDataset", with, 3, attrs, 3, "weft/input_%d/part", task);
  if (e->s == NULL) weft_graph_set_input(copy, DATASET, part);
}

/* All tasks are at the same element then: the state of the first one's iterator is that of all. */
static weft_status_t *share_state(weft_replication_t *r, const weft_own_input_t *in, weft_node_t *copy) {
  const weft_attr_t name = {.kind = WEFT_ATTR_STRING, .s = r->copiers[0].nodes[in->iterator->id]->name};
  if (in->policy != POLICY_STEP_BY_DATA) return NULL;
  return weft_graph_set_attr(r->to, copy, WEFT_ORIGIN_ITERATOR, &name);
}

static weft_status_t *finish_one(weft_replication_t *r, const weft_own_input_t *in) {
  for (int task = 0; task < r->num_tasks; task++) {
    const weft_copier_t *c = task == 0 ? r->copiers : &r->input_copiers[task];
    if (weft_str_is(in->iterator->op->name, "OneShotIterator"))
      WEFT_RETURN_IF_ERROR(shard_one_shot(r, in, c->nodes[in->iterator->id], task));
    if (task > 0) WEFT_RETURN_IF_ERROR(share_state(r, in, c->nodes[in->iterator->id]));
    for (int at = 0; at < r->source.graph->num_live; at++) {
      const weft_node_t *n = r->order[at];
      if (!is_maker(n) || n->inputs[ITERATOR].node != in->iterator) continue;
      shard(r, in, c->nodes[n->id], task);
      if (task > 0) weft_emit_control(&r->e, c->nodes[n->id], r->copiers[0].nodes[n->id]);
    }
  }
  return weft_emitter_end(&r->e);
}

weft_status_t *weft_replication_finish_input(weft_replication_t *r) {
  for (const weft_own_input_t *in = r->inputs; in != NULL; in = in->next)
    WEFT_RETURN_IF_ERROR(finish_one(r, in));
  return NULL;
}

/* ---- rows ---- */

/* int64 [N], of int64 [tasks]: each task's rows divided among its replicas, floor((k+1)*B/n) - floor(k*B/n).
 */
static weft_output_t among_replicas(weft_replication_t *r, weft_output_t rows, weft_str_t name) {
  weft_emitter_t *e = &r->e;
  const int each = r->n / r->num_tasks;
  int64_t *ranks = weft_arena_calloc(&r->arena, (size_t)each + 1, sizeof *ranks), n = each;
  if (each == 1 || ranks == NULL) {
    if (ranks == NULL && e->s == NULL) e->s = no_memory();
    return rows;
  }
  for (int k = 0; k <= each; k++) ranks[k] = k;
  const int64_t column[2] = {r->num_tasks, 1}, at0[2] = {0, 0}, at1[2] = {0, 1},
                table[2] = {r->num_tasks, each}, flat = -1;
  weft_output_t in_column = weft_emit2(
      e, "Reshape", rows, weft_emit_ints(e, WEFT_I64, column, 2, "weft/%.*s/column", WEFT_STR_ARGS(name)),
      "weft/%.*s/of_tasks", WEFT_STR_ARGS(name));
  weft_output_t scaled =
      weft_emit2(e, "Mul", in_column,
                 weft_emit_ints(e, WEFT_I64, ranks, each + 1, "weft/%.*s/ranks", WEFT_STR_ARGS(name)),
                 "weft/%.*s/scaled", WEFT_STR_ARGS(name));
  weft_output_t bounds = weft_emit2(
      e, "FloorDiv", scaled, weft_emit_ints(e, WEFT_I64, &n, 1, "weft/%.*s/replicas", WEFT_STR_ARGS(name)),
      "weft/%.*s/bounds", WEFT_STR_ARGS(name));
  weft_output_t size = weft_emit_ints(e, WEFT_I64, table, 2, "weft/%.*s/table", WEFT_STR_ARGS(name));
  weft_output_t begins = weft_emit3(
      e, "Slice", bounds, weft_emit_ints(e, WEFT_I64, at0, 2, "weft/%.*s/at_0", WEFT_STR_ARGS(name)), size,
      "weft/%.*s/begins", WEFT_STR_ARGS(name));
  weft_output_t ends = weft_emit3(e, "Slice", bounds,
                                  weft_emit_ints(e, WEFT_I64, at1, 2, "weft/%.*s/at_1", WEFT_STR_ARGS(name)),
                                  size, "weft/%.*s/ends", WEFT_STR_ARGS(name));
  weft_output_t sizes = weft_emit2(e, "Sub", ends, begins, "weft/%.*s/sizes_by_task", WEFT_STR_ARGS(name));
  return weft_emit2(e, "Reshape", sizes,
                    weft_emit_ints(e, WEFT_I64, &flat, 1, "weft/%.*s/flat", WEFT_STR_ARGS(name)),
                    "weft/%.*s/sizes", WEFT_STR_ARGS(name));
}

void weft_replication_own_shards(weft_replication_t *r, int batch, weft_batch_shards_t *shards) {
  weft_emitter_t *e = &r->e;
  const weft_output_t of = r->plan.batches[batch];
  weft_own_input_t *in = (weft_own_input_t *)(uintptr_t)weft_replication_own_input(r, of.node);
  const weft_str_t name = of.node->name, device = e->device;
  weft_output_t *rows = weft_arena_calloc(&r->arena, (size_t)r->num_tasks + 1, sizeof *rows);
  if (rows == NULL) {
    if (e->s == NULL) e->s = no_memory();
    return;
  }
  for (int task = 0; task < r->num_tasks; task++) {
    e->device = task_device(r, task);
    rows[task] = weft_replication_length(e, (weft_output_t){in->readers[task], of.index}, 0, name);
  }
  e->device = task_device(r, 0);
  const weft_output_t axis = weft_emit_int(e, WEFT_I32, 0, "weft/%.*s/tasks_axis", WEFT_STR_ARGS(name));
  rows[r->num_tasks] = axis;
  weft_output_t all = weft_emit(e, "ConcatV2", rows, r->num_tasks + 1, NULL, 0, "weft/%.*s/rows_by_task",
                                WEFT_STR_ARGS(name));
  if (in->policy == POLICY_STEP) {
    all = weft_emit1(e, "WeftEndOfData", all, "weft/%.*s/end", WEFT_STR_ARGS(name));
    if (in->end == NULL) in->end = all.node;
  }
  const weft_named_attr_t keeps = weft_bool_attr("keep_dims", true);
  const int64_t first = 0;
  const weft_output_t summed[2] = {
      all, weft_emit_ints(e, WEFT_I64, &first, 1, "weft/%.*s/sum_axis", WEFT_STR_ARGS(name))};
  shards->whole = weft_emit(e, "Sum", summed, 2, &keeps, 1, "weft/%.*s/all_rows", WEFT_STR_ARGS(name));
  shards->sizes = among_replicas(r, all, name);
  shards->leader = batch;
  e->device = device;
}

bool weft_replication_own_ends(const weft_own_input_t *in) { return in->policy == POLICY_STEP; }

/* No replica computes with the batches of a step in which all data have ended. */
static void after_end(weft_replication_t *r, const weft_own_input_t *in, weft_output_t of) {
  if (weft_replication_own_ends(in) && r->e.s == NULL) weft_emit_control(&r->e, in->end, of.node);
}

void weft_replication_own_slices(weft_replication_t *r, const weft_own_input_t *in, int index,
                                 weft_output_t *out) {
  weft_emitter_t *e = &r->e;
  const int each = r->n / r->num_tasks;
  const weft_str_t device = e->device, name = in->reader->name;
  for (int task = 0; task < r->num_tasks && e->s == NULL; task++) {
    const weft_output_t batch = {in->readers[task], index};
    weft_output_t *mine = &out[task * each];
    e->device = task_device(r, task);
    if (each == 1) {
      mine[0] = weft_emit1(e, "Identity", batch, "weft/%.*s/own_rows", WEFT_STR_ARGS(name));
    } else {
      const weft_output_t rows = weft_replication_length(e, batch, 0, name);
      weft_replication_split_evenly(r, batch, rows, each, name, mine);
    }
    if (e->s == NULL) after_end(r, in, mine[0]);
  }
  e->device = device;
}

weft_output_t weft_replication_own_joined(weft_replication_t *r, const weft_own_input_t *in, int index) {
  weft_emitter_t *e = &r->e;
  const weft_str_t name = in->reader->name;
  weft_output_t *parts = weft_arena_calloc(&r->arena, (size_t)r->num_tasks + 1, sizeof *parts);
  if (parts == NULL) {
    if (e->s == NULL) e->s = no_memory();
    return (weft_output_t){NULL, 0};
  }
  for (int task = 0; task < r->num_tasks; task++) parts[task] = (weft_output_t){in->readers[task], index};
  parts[r->num_tasks] = weft_emit_int(e, WEFT_I32, 0, "weft/%.*s/join_axis", WEFT_STR_ARGS(name));
  const weft_output_t all =
      weft_emit(e, "ConcatV2", parts, r->num_tasks + 1, NULL, 0, "weft/%.*s/joined", WEFT_STR_ARGS(name));
  if (e->s == NULL) after_end(r, in, all);
  return all;
}
