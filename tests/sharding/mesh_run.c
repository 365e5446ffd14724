/* tests/sharding/mesh_run.c - devices are places in an array, and a collective looks at all of them. */
#include "tests/sharding/mesh_run.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "tests/sharding/parts.h"

enum { MAX_NODES = 64, MAX_IO = 8, MAX_DEVICES = 8 };

/* What each device has. */
typedef struct local {
  weft_tensor_t *t[MAX_DEVICES];
} local_t;

typedef struct place {
  weft_node_t *node;
  weft_harness_t *harness; /* NULL: a source */
  weft_tensor_t *whole[MAX_IO];
  local_t outputs[MAX_IO];
} place_t;

struct weft_mesh_run {
  weft_bench_t bench;
  weft_graph_t *graph;
  place_t places[MAX_NODES]; /* by node id */
  int num_places;
};

weft_graph_t *weft_mesh_run_graph(weft_mesh_run_t *run) { return run->graph; }

weft_output_t weft_mesh_run_value(weft_mesh_run_t *run, const char *name) {
  weft_node_t *node = weft_graph_find(run->graph, weft_str(name));
  if (node == NULL) abort();
  return (weft_output_t){node, 0};
}

static void release(local_t *x) {
  for (int d = 0; d < MAX_DEVICES; d++) weft_tensor_release(x->t[d]);
  *x = (local_t){{NULL}};
}

void weft_mesh_run_destroy(weft_mesh_run_t *run) {
  if (run == NULL) return;
  for (int i = 0; i < run->num_places; i++) {
    weft_harness_destroy(run->places[i].harness);
    for (int k = 0; k < MAX_IO; k++) {
      weft_tensor_release(run->places[i].whole[k]);
      release(&run->places[i].outputs[k]);
    }
  }
  weft_graph_destroy(run->graph);
  weft_bench_deinit(&run->bench);
  weft_free(run);
}

/* ---- the graph, on one device ---- */

static weft_status_t *add_source(weft_mesh_run_t *run, const weft_mesh_node_t *n, place_t *p) {
  WEFT_RETURN_IF_ERROR(weft_parts_draw(weft_str(n->inputs), &p->whole[0]));
  bool is_const = strcmp(n->op, "Const") == 0;
  weft_named_attr_t attrs[2] = {{WEFT_STR("dtype"), {.kind = WEFT_ATTR_TYPE, .type = p->whole[0]->dtype}},
                                {WEFT_STR("shape"), {.kind = WEFT_ATTR_SHAPE, .shape = &p->whole[0]->shape}}};
  if (is_const) {
    attrs[1] = (weft_named_attr_t){WEFT_STR("value"), {.kind = WEFT_ATTR_TENSOR, .tensor = p->whole[0]}};
  }
  weft_node_spec_t spec = {.name = weft_str(n->name), .op = weft_str(n->op), .attrs = attrs, .num_attrs = 2};
  return weft_graph_add(run->graph, &spec, &p->node);
}

/* "a b:1 ^c". */
static void find_inputs(const weft_mesh_run_t *run, const char *text, weft_node_spec_t *spec,
                        weft_output_t inputs[MAX_IO], weft_node_t *controls[MAX_IO]) {
  weft_str_t rest = weft_str(text), word;
  for (bool more = rest.length > 0; more;) {
    weft_str_t name;
    int index = 0;
    word = rest;
    more = weft_str_split(rest, ' ', &word, &rest);
    bool is_control = word.data[0] == '^';
    if (is_control) word = weft_str_of(word.data + 1, word.length - 1);
    if (!weft_tensor_name_parse(word, &name, &index)) abort();
    weft_node_t *from = weft_graph_find(run->graph, name);
    if (from == NULL) abort();
    if (is_control)
      controls[spec->num_controls++] = from;
    else
      inputs[spec->num_inputs++] = (weft_output_t){from, index};
  }
  spec->inputs = inputs;
  spec->controls = controls;
}

static weft_status_t *add_node(weft_mesh_run_t *run, const weft_mesh_node_t *n, place_t *p) {
  weft_node_spec_t spec = {.name = weft_str(n->name), .op = weft_str(n->op)};
  weft_output_t inputs[MAX_IO];
  weft_node_t *controls[MAX_IO];
  weft_tensor_t *tensors[MAX_IO];
  int types[MAX_IO];
  find_inputs(run, n->inputs, &spec, inputs, controls);
  for (int i = 0; i < spec.num_inputs; i++) {
    tensors[i] = run->places[inputs[i].node->id].whole[inputs[i].index];
    types[i] = tensors[i]->dtype;
  }
  WEFT_RETURN_IF_ERROR(
      weft_harness_create(&run->bench, n->op, n->attrs, types, spec.num_inputs, &p->harness));
  spec.attrs = weft_harness_setup(p->harness)->attrs;
  spec.num_attrs = weft_harness_setup(p->harness)->num_attrs;
  WEFT_RETURN_IF_ERROR(weft_graph_add(run->graph, &spec, &p->node));
  return weft_harness_run(p->harness, tensors, p->whole);
}

weft_status_t *weft_mesh_run_create(const weft_mesh_node_t *nodes, int num_nodes, weft_mesh_run_t **out) {
  weft_mesh_run_t *run = weft_calloc(1, sizeof *run);
  if (run == NULL || num_nodes > MAX_NODES) abort();
  weft_status_t *s = weft_bench_init(&run->bench);
  if (s == NULL) s = weft_graph_create(&run->graph);
  for (int i = 0; i < num_nodes && s == NULL; i++) {
    bool is_source = strcmp(nodes[i].op, "Placeholder") == 0 || strcmp(nodes[i].op, "Const") == 0;
    s = is_source ? add_source(run, &nodes[i], &run->places[i]) : add_node(run, &nodes[i], &run->places[i]);
    run->num_places = i + 1;
    if (s == NULL && run->places[i].node->id != i) abort();
    s = weft_status_annotate(s, "node '%s'", nodes[i].name);
  }
  *out = run;
  return s;
}

/* ---- collectives ---- */

static weft_tensor_t *zeros_like(const weft_tensor_t *x) {
  weft_tensor_t *t = weft_parts_new(x->dtype, &x->shape);
  memset(t->data, 0, t->bytes);
  return t;
}

static weft_tensor_t *slice_at(weft_tensor_t *x, int dim, int at, int n) {
  int64_t length = x->shape.dims[dim] / n;
  return weft_parts_slice(x, dim, at * length, (at + 1) * length);
}

static weft_tensor_t *scaled(const weft_tensor_t *x, double by) {
  weft_tensor_t *t = weft_parts_copy(x);
  for (int64_t i = 0; i < x->count; i++) weft_parts_set(t, i, weft_tensor_number(x, i, false) * by, 0);
  return t;
}

/* What the device at place `at` of a group of `n` has after the step. NULL: parts do not fit. */
static weft_tensor_t *carry_out(const weft_reshard_step_t *step, weft_tensor_t *const *group, int at, int n) {
  weft_tensor_t *joined = NULL, *out = NULL;
  switch (step->kind) {
    case WEFT_RESHARD_ALL_REDUCE: return weft_parts_reduce(group, n, step->from.partial);
    case WEFT_RESHARD_ALL_GATHER: return weft_parts_join(group, n, step->from.dim);
    case WEFT_RESHARD_SLICE: return slice_at(group[at], step->to.dim, at, n);
    case WEFT_RESHARD_MASK: return at == 0 ? weft_tensor_retain(group[0]) : zeros_like(group[at]);
    case WEFT_RESHARD_SCALE: return scaled(group[at], step->to.partial == WEFT_PARTIAL_MEAN ? n : 1.0 / n);
    case WEFT_RESHARD_KEEP: return weft_tensor_retain(group[at]);
    case WEFT_RESHARD_REDUCE_SCATTER: joined = weft_parts_reduce(group, n, step->from.partial); break;
    case WEFT_RESHARD_ALL_TO_ALL: joined = weft_parts_join(group, n, step->from.dim); break;
  }
  if (joined != NULL) out = slice_at(joined, step->to.dim, at, n);
  weft_tensor_release(joined);
  return out;
}

static void reshard(const weft_mesh_t *mesh, const weft_reshard_plan_t *plan, local_t *x) {
  int num_devices = weft_mesh_num_devices(mesh);
  for (int i = 0; i < plan->num_steps; i++) {
    const weft_reshard_step_t *step = &plan->steps[i];
    local_t after = {{NULL}};
    for (int d = 0; d < num_devices; d++) {
      int devices[MAX_DEVICES], coordinates[WEFT_MESH_AXES];
      weft_tensor_t *group[MAX_DEVICES];
      weft_mesh_coordinates(mesh, d, coordinates);
      weft_mesh_group(mesh, step->axis, d, devices);
      for (int k = 0; k < mesh->axes[step->axis].size; k++) group[k] = x->t[devices[k]];
      after.t[d] = carry_out(step, group, coordinates[step->axis], mesh->axes[step->axis].size);
      if (after.t[d] == NULL) abort();
    }
    release(x);
    *x = after;
  }
}

/* ---- one node, on the mesh ---- */

/* The part of a value that is known as a whole. */
static weft_tensor_t *part_of(const weft_mesh_t *mesh, const weft_sharding_t *s, weft_tensor_t *whole,
                              int device) {
  int64_t begin[WEFT_MAX_DIMS];
  weft_shape_t size;
  if (weft_mesh_block(mesh, s, &whole->shape, device, begin, &size) != NULL) abort();
  weft_tensor_t *t = weft_tensor_retain(whole);
  for (int i = 0; i < size.rank; i++) {
    weft_tensor_t *part = weft_parts_slice(t, i, begin[i], begin[i] + size.dims[i]);
    weft_tensor_release(t);
    t = part;
  }
  return t;
}

/* Elements of an operand of sizes become those of the part. */
static weft_tensor_t *scale_sizes(const weft_sharding_plan_t *plan, const weft_sharded_node_t *n, int input,
                                  weft_tensor_t *sizes) {
  const weft_factor_operand_t *operand = &n->rule.factors.inputs[input];
  weft_tensor_t *t = weft_parts_copy(sizes);
  for (int i = 0; i < operand->rank; i++) {
    double size = weft_tensor_number(t, i, false);
    for (int axis = 0; axis < plan->mesh.num_axes; axis++) {
      bool is_split = n->choices[axis].kind == WEFT_RULE_FACTOR && n->choices[axis].index == operand->dims[i];
      if (is_split && size >= 0) size /= plan->mesh.axes[axis].size;
    }
    weft_parts_set(t, i, size, 0);
  }
  return t;
}

/* The dimension of input 0 that is looked up in parts; -1: none. */
static int masked_dim(const weft_sharding_plan_t *plan, const weft_sharded_node_t *n) {
  for (int axis = 0; axis < plan->mesh.num_axes; axis++) {
    weft_rule_choice_t c = n->choices[axis];
    if (c.kind != WEFT_RULE_FACTOR || !n->rule.factors.factors[c.index].is_masked) continue;
    return weft_factor_dim(&n->rule.factors.inputs[0], c.index);
  }
  return -1;
}

static weft_status_t *run_device(const weft_sharding_plan_t *plan, const weft_sharded_node_t *n, place_t *p,
                                 const local_t *inputs, int device) {
  weft_tensor_t *in[MAX_IO] = {NULL}, *out[MAX_IO] = {NULL};
  int dim = masked_dim(plan, n);
  int64_t begin[WEFT_MAX_DIMS];
  weft_shape_t size;
  for (int i = 0; i < p->node->num_inputs; i++) {
    bool is_sizes = n->lacks == NULL && n->rule.factors.inputs[i].is_sizes;
    weft_tensor_t *t = inputs[i].t[device];
    in[i] = is_sizes ? scale_sizes(plan, n, i, t) : weft_tensor_retain(t);
  }
  weft_tensor_t *indices = in[1];
  if (dim >= 0) {
    if (weft_mesh_block(&plan->mesh, &n->required[0], &n->rule.inputs[0].shape, device, begin, &size) !=
        NULL) {
      abort();
    }
    in[1] = weft_parts_shift_indices(indices, begin[dim], begin[dim] + size.dims[dim]);
  }
  weft_status_t *s = weft_harness_run(p->harness, in, out);
  if (s == NULL && dim >= 0) {
    weft_parts_mask(&n->rule.factors.inputs[1], &n->rule.factors.outputs[0], indices, begin[dim],
                    begin[dim] + size.dims[dim], out[0]);
  }
  if (dim >= 0) weft_tensor_release(indices);
  for (int i = 0; i < p->node->num_inputs; i++) weft_tensor_release(in[i]);
  for (int i = 0; i < p->node->num_outputs && s == NULL; i++) p->outputs[i].t[device] = out[i];
  return s;
}

static weft_status_t *run_node(weft_mesh_run_t *run, const weft_sharding_plan_t *plan, place_t *p) {
  const weft_sharded_node_t *n = plan->nodes[p->node->id];
  int num_devices = weft_mesh_num_devices(&plan->mesh);
  bool is_whole = p->harness == NULL || (p->node->flags & WEFT_OP_METADATA) != 0;
  local_t inputs[MAX_IO] = {{{NULL}}};
  weft_status_t *s = NULL;
  for (int i = 0; i < p->node->num_inputs && !is_whole; i++) {
    weft_output_t from = p->node->inputs[i];
    for (int d = 0; d < num_devices; d++) {
      inputs[i].t[d] = weft_tensor_retain(run->places[from.node->id].outputs[from.index].t[d]);
    }
    if (n->input_reshardings[i] >= 0) {
      reshard(&plan->mesh, &plan->reshardings[n->input_reshardings[i]].plan, &inputs[i]);
    }
  }
  for (int d = 0; d < num_devices && s == NULL; d++) {
    if (!is_whole) s = run_device(plan, n, p, inputs, d);
    for (int i = 0; is_whole && i < p->node->num_outputs; i++) {
      p->outputs[i].t[d] = part_of(&plan->mesh, &n->produced[i], p->whole[i], d);
    }
  }
  for (int i = 0; i < p->node->num_outputs && s == NULL; i++) {
    if (n->output_reshardings[i] < 0) continue;
    reshard(&plan->mesh, &plan->reshardings[n->output_reshardings[i]].plan, &p->outputs[i]);
  }
  for (int i = 0; i < p->node->num_inputs; i++) release(&inputs[i]);
  return s;
}

/* Are the value's parts, put together, what one device computed? */
static weft_status_t *compare(const weft_sharding_plan_t *plan, const place_t *p, int output, bool *out) {
  const weft_sharded_node_t *n = plan->nodes[p->node->id];
  weft_sharding_t whole = {0};
  weft_arena_t arena = WEFT_ARENA_INIT;
  weft_reshard_plan_t steps;
  local_t x = {{NULL}};
  int num_devices = weft_mesh_num_devices(&plan->mesh);
  for (int i = 0; i < plan->mesh.num_axes; i++) whole.axes[i] = weft_sharding_replicate(0);
  weft_status_t *s = weft_reshard_plan(&plan->mesh, &n->values[output], &whole, &p->whole[output]->shape, 8,
                                       NULL, &arena, &steps);
  for (int d = 0; d < num_devices; d++) x.t[d] = weft_tensor_retain(p->outputs[output].t[d]);
  if (s == NULL) reshard(&plan->mesh, &steps, &x);
  *out = true;
  for (int d = 0; d < num_devices && s == NULL; d++) {
    weft_strbuf_t why = WEFT_STRBUF_INIT;
    bool is_same = weft_tensor_close(x.t[d], p->whole[output], 1e-9, &why);
    if (!is_same) fprintf(stderr, "%s:%d on device %d: %s\n", p->node->name.data, output, d, why.data);
    *out = *out && is_same;
    weft_strbuf_deinit(&why);
  }
  release(&x);
  weft_arena_deinit(&arena);
  return s;
}

weft_status_t *weft_mesh_run_compute(weft_mesh_run_t *run, const weft_sharding_plan_t *plan, int *out) {
  *out = 0;
  if (weft_mesh_num_devices(&plan->mesh) > MAX_DEVICES) abort();
  for (int i = 0; i < run->num_places; i++) {
    place_t *p = &run->places[i];
    for (int k = 0; k < MAX_IO; k++) release(&p->outputs[k]);
    WEFT_RETURN_IF_ERROR(weft_status_annotate(run_node(run, plan, p), "node '%s'", p->node->name.data));
    for (int k = 0; k < p->node->num_outputs; k++) {
      bool is_same = false;
      WEFT_RETURN_IF_ERROR(compare(plan, p, k, &is_same));
      *out += !is_same;
    }
  }
  return NULL;
}
