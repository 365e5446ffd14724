/* graph/passes/layout.c - transposes that undo each other are left out together with what is between them.
 *
 *   Conv2D -> Transpose to NCHW -> BiasAdd -> Relu -> Pad -> Transpose to NHWC -> Conv2D
 *
 * Most ops between the two transposes compute the same, whatever the order of the dimensions is, if the
 * numbers of dimensions in their other inputs and attributes are changed (layout_ops.c). So values keep the
 * order that convolutions have them in. A region is what such nodes feed each other; its permutation is that
 * of the Transposes at its border, or, with nodes that have channels first on a CPU, whose kernels bring
 * channels last, that of channels. A region is permuted as a whole, if that leaves fewer transposes: those at
 * its border which go are counted against those that other values at the border need, and the ones within
 * kernels are counted, too. Values whose elements keep their places are not counted, nor are constants, which
 * the next round folds.
 *
 * Nodes keep their names. Results have the same bits, but for floats that are added up over dimensions (Sum,
 * Mean, moments of a batch): these are added in the order of the layout, as in TensorFlow; and only where a
 * region's permutation is one of channels.
 *
 * Source: the rules of TensorFlow's generic layout optimizer. That one puts transposes around each
 * convolution and takes away those that meet; this one finds first what is worth it. Linear in nodes and
 * edges.
 */
#include "base/alloc.h"
#include "base/hash_map.h"
#include "graph/passes/layout_ops.h"

typedef struct region {
  weft_permutation_t p, inverse; /* a tensor of the region is the Transpose by `p` of what it will be */
  int gain;                      /* transposes that are left out, less those that are added */
  int num_formats;
  bool is_refused;
} region_t;

typedef struct layouts {
  weft_pass_round_t *r;
  const weft_layout_ops_t *ops;
  const weft_op_def_t *transpose, *shape_n;
  weft_layout_node_t **nodes; /* owned; by id: of nodes that a region may have, in the arena; else NULL */
  int *leader;                /* owned; by id: of the node, or of a Transpose that several read; union-find */
  region_t **regions;         /* owned; by leader: in the arena */
  int *num_readers;           /* owned; by id: edges that lead out of a node, of a Transpose less those that
                                 its region makes superfluous */
  weft_map_t crossings;       /* of crossing_t, in the arena */
} layouts_t;

/* A value at a region's border, on its way in or out. */
typedef struct crossing {
  weft_output_t of;
  const region_t *region;
  bool is_inwards;
  weft_output_t made; /* of it, in the other order; node NULL: nothing yet */
} crossing_t;

static weft_status_t *no_memory(const layouts_t *l) {
  return WEFT_NO_MEMORY("optimising the layouts of a graph of %d nodes", l->r->g->num_live);
}

/* ---- which nodes, and which belong together ---- */

static int find_leader(const layouts_t *l, int id) {
  while (l->leader[id] != id) id = l->leader[id] = l->leader[l->leader[id]];
  return id;
}

static void join(const layouts_t *l, int a, int b) { l->leader[find_leader(l, a)] = find_leader(l, b); }

static const weft_layout_node_t *node_of(const layouts_t *l, const weft_node_t *n) {
  return n->id < l->r->num_ids ? l->nodes[n->id] : NULL;
}

static bool is_image(const weft_layout_node_t *d, int input) { return (d->images >> input & 1) != 0; }

/* Is it an output that changes its order with the node? */
static bool is_made_inside(const layouts_t *l, weft_output_t of) {
  const weft_layout_node_t *d = node_of(l, of.node);
  return d != NULL && (d->outputs >> of.index & 1) != 0;
}

static region_t *region_of(const layouts_t *l, const weft_node_t *n) {
  return l->regions[find_leader(l, n->id)];
}

/* The permutation of a Transpose whose input may be read in its place, or on which nothing else depends; rank
 * 0: `n` is none such. */
static weft_permutation_t transposes_by(const layouts_t *l, const weft_node_t *n) {
  if (n->op != l->transpose || n->num_controls > 0 || n->id >= l->r->num_ids || l->r->is_kept[n->id] ||
      !weft_node_is_pure(n) || !weft_output_may_replace(n->inputs[0], n) ||
      weft_pass_round_is_variable(l->r, n->inputs[0].node))
    return (weft_permutation_t){.rank = 0};
  const weft_permutation_t p = weft_permutation_of(n->inputs[1]);
  return weft_pass_round_shape(n->inputs[0])->rank == p.rank ? p : (weft_permutation_t){.rank = 0};
}

static weft_status_t *describe_nodes(layouts_t *l) {
  for (int i = 0; i < l->r->num_ordered; i++) {
    weft_layout_node_t d;
    weft_node_t *n = l->r->order[i];
    if (!weft_pass_round_has(l->r, n)) continue;
    WEFT_RETURN_IF_ERROR(weft_pass_round_visit(l->r, n));
    if (l->r->is_kept[n->id] || !weft_node_is_pure(n) || !weft_layout_describe(l->ops, n, &d)) continue;
    l->nodes[n->id] = weft_arena_calloc(&l->r->arena, 1, sizeof d);
    if (l->nodes[n->id] == NULL) return no_memory(l);
    *l->nodes[n->id] = d;
  }
  return NULL;
}

static void join_nodes(const layouts_t *l) {
  for (int id = 0; id < l->r->num_ids; id++) {
    const weft_node_t *n = l->r->g->nodes[id];
    if (n == NULL || l->nodes[id] == NULL) continue;
    for (int i = 0; i < n->num_inputs; i++) {
      const weft_node_t *from = n->inputs[i].node;
      if (!is_image(l->nodes[id], i) || from->id >= l->r->num_ids ||
          !weft_str_eq(from->assigned_device, n->assigned_device))
        continue;
      const bool is_inside =
          is_made_inside(l, n->inputs[i]) && l->nodes[from->id]->rank == l->nodes[id]->rank;
      if (is_inside || transposes_by(l, from).rank == l->nodes[id]->rank) join(l, id, from->id);
    }
  }
}

/* ---- the permutations of regions ---- */

static weft_status_t *ask_for(const layouts_t *l, const weft_node_t *n, const weft_permutation_t *p) {
  const int leader = find_leader(l, n->id);
  if (l->regions[leader] != NULL) return NULL;
  region_t *region = weft_arena_calloc(&l->r->arena, 1, sizeof *region);
  if (region == NULL) return no_memory(l);
  *region = (region_t){.p = *p, .inverse = weft_permutation_inverse(p)};
  l->regions[leader] = region;
  return NULL;
}

/* Nodes with channels first come first, then the first Transpose. */
static weft_status_t *choose_permutations(layouts_t *l) {
  static const weft_permutation_t to_channels_first = {4, {0, 3, 1, 2}};
  for (int id = 0; id < l->r->num_ids; id++) {
    if (l->nodes[id] != NULL && l->nodes[id]->has_format)
      WEFT_RETURN_IF_ERROR(ask_for(l, l->r->g->nodes[id], &to_channels_first));
  }
  for (int i = 0; i < l->r->num_ordered; i++) {
    const weft_node_t *t = l->r->order[i];
    if (!weft_pass_round_has(l->r, t)) continue;
    const weft_permutation_t p = transposes_by(l, t);
    if (p.rank == 0) continue;
    WEFT_RETURN_IF_ERROR(ask_for(l, t, &p));
    const weft_permutation_t inverse = weft_permutation_inverse(&p);
    if (is_made_inside(l, t->inputs[0])) WEFT_RETURN_IF_ERROR(ask_for(l, t->inputs[0].node, &inverse));
  }
  for (int id = 0; id < l->r->num_ids; id++) {
    if (l->nodes[id] == NULL) continue;
    region_t *region = l->regions[find_leader(l, id)];
    if (region == NULL || !weft_layout_fits(l->r->g->nodes[id], l->nodes[id], &region->p)) {
      l->nodes[id] = NULL;
    } else {
      region->gain += l->nodes[id]->num_transposes;
      region->num_formats += l->nodes[id]->has_format;
    }
  }
  return NULL;
}

/* ---- what that would save ---- */

/* Is `of` made in `region`? */
static bool is_of(const layouts_t *l, const region_t *region, weft_output_t of) {
  return is_made_inside(l, of) && region_of(l, of.node) == region;
}

static bool is_by(const layouts_t *l, const weft_node_t *n, const weft_permutation_t *p) {
  const weft_permutation_t by = transposes_by(l, n);
  return by.rank > 0 && weft_permutation_eq(&by, p);
}

/* Is `n` a Transpose into its region? */
static bool leads_in(const layouts_t *l, const weft_node_t *n) {
  return n->op == l->transpose && n->id < l->r->num_ids && region_of(l, n) != NULL &&
         is_by(l, n, &region_of(l, n)->p);
}

/* Does the node read no more than the shapes of its inputs, for an output each? On other devices than CPUs a
 * shape may have no kernel that permutes it. */
static bool reads_shape(const layouts_t *l, const weft_node_t *n) {
  const bool reads = (n->flags & WEFT_OP_METADATA) != 0 || n->op == l->shape_n;
  return reads && weft_pass_round_is_on_cpu(n) && n->id < l->r->num_ids && n->num_inputs == n->num_outputs;
}

/* The one that is known of; else a new one, which takes the place of another with the same number. */
static weft_status_t *find_crossing(layouts_t *l, const region_t *region, weft_output_t of, bool is_inwards,
                                    crossing_t **out, bool *out_is_new) {
  const uint64_t key = ((uint64_t)(uint32_t)of.node->id << 20 ^ (uint64_t)of.index << 1 ^ is_inwards) ^
                       (uint64_t)(uintptr_t)region * UINT64_C(0x9e3779b97f4a7c15);
  crossing_t *c = weft_map_get_u64(&l->crossings, key);
  *out_is_new = c == NULL || c->of.node != of.node || c->of.index != of.index || c->region != region ||
                c->is_inwards != is_inwards;
  *out = c;
  if (!*out_is_new) return NULL;
  *out = weft_arena_calloc(&l->r->arena, 1, sizeof **out);
  if (*out == NULL) return no_memory(l);
  **out = (crossing_t){.of = of, .region = region, .is_inwards = is_inwards};
  return weft_map_put_u64(&l->crossings, key, *out, NULL);
}

/* One transpose more, the first time. */
static weft_status_t *count_crossing(layouts_t *l, region_t *region, weft_output_t of, bool is_inwards) {
  crossing_t *c = NULL;
  bool is_new = false;
  if ((of.node->flags & WEFT_OP_CONST) != 0 ||
      weft_permutation_only_reshapes(&region->p, weft_pass_round_shape(of)))
    return NULL;
  WEFT_RETURN_IF_ERROR(find_crossing(l, region, of, is_inwards, &c, &is_new));
  if (is_new) region->gain--;
  return NULL;
}

static weft_status_t *count_input(layouts_t *l, const weft_node_t *n, int i) {
  const weft_layout_node_t *d = node_of(l, n);
  const weft_output_t from = n->inputs[i];
  const bool is_own_image = d != NULL && is_image(d, i);
  region_t *own = is_own_image ? region_of(l, n) : NULL;
  if (is_own_image && is_of(l, own, from)) return NULL;
  const bool is_own_transpose = is_own_image && leads_in(l, from.node) && region_of(l, from.node) == own;
  if (is_own_transpose || (reads_shape(l, n) && leads_in(l, from.node))) {
    if (--l->num_readers[from.node->id] == 0) region_of(l, from.node)->gain++;
    return NULL;
  }
  if (is_own_image) {
    /* A constant in the frame outside of a loop could not wait for the loop's Exit. */
    if ((from.node->flags & WEFT_OP_EXIT) != 0) own->is_refused = true;
    WEFT_RETURN_IF_ERROR(count_crossing(l, own, from, true));
  }
  const bool is_vector = d != NULL && (d->vectors >> i & 1) != 0;
  if (is_vector && !weft_pass_round_is_on_cpu(n) && weft_pass_round_constant(from) == NULL)
    region_of(l, n)->is_refused = true;
  if (!is_made_inside(l, from) || reads_shape(l, n)) return NULL;
  region_t *other = region_of(l, from.node);
  if (i == 0 && is_by(l, n, &other->inverse)) {
    other->gain++;
    return NULL;
  }
  return count_crossing(l, other, from, false);
}

static weft_status_t *count_gains(layouts_t *l) {
  weft_graph_t *g = l->r->g;
  for (int id = 0; id < g->num_nodes; id++) {
    const weft_node_t *n = g->nodes[id];
    for (int i = 0; n != NULL && i < n->num_inputs; i++) l->num_readers[n->inputs[i].node->id]++;
    for (int i = 0; n != NULL && i < n->num_controls; i++) l->num_readers[n->controls[i]->id]++;
  }
  for (int id = 0; id < g->num_nodes; id++) {
    const weft_node_t *n = g->nodes[id];
    for (int i = 0; n != NULL && i < n->num_inputs; i++) WEFT_RETURN_IF_ERROR(count_input(l, n, i));
  }
  return NULL;
}

/* With as many transposes as before, layers may still be joined. */
static bool is_permuted(const region_t *region) {
  return !region->is_refused && (region->gain > 0 || (region->gain == 0 && region->num_formats > 1));
}

/* ---- new nodes ---- */

/* Beside `near`, a node that was there before the pass. */
static weft_status_t *add_node(layouts_t *l, const weft_node_t *near, const char *what, weft_node_spec_t spec,
                               weft_output_t *out) {
  weft_node_t *added = NULL;
  weft_strbuf_t text = WEFT_STRBUF_INIT;
  weft_strbuf_printf(&text, "%s/%s", near->name.data, what);
  spec.name = text.failed ? (weft_str_t){NULL, 0}
                          : weft_graph_unique_name(l->r->g, weft_str_of(text.data, text.length));
  weft_strbuf_deinit(&text);
  if (spec.name.data == NULL) return no_memory(l);
  spec.device = near->requested_device;
  WEFT_RETURN_IF_ERROR(weft_graph_add(l->r->g, &spec, &added));
  added->assigned_device = near->assigned_device;
  l->r->has_changed = true;
  const weft_optimize_options_t *o = l->r->options;
  if (!weft_pass_round_is_on_cpu(added) &&
      (o->has_kernel == NULL || !o->has_kernel(o->has_kernel_arg, added)))
    return WEFT_ERROR(UNIMPLEMENTED, "no kernel for node '%s'", added->name.data);
  *out = (weft_output_t){added, 0};
  return NULL;
}

/* A constant where `near` is. `like` (may be NULL) is one in whose place it is put: it waits for the same
 * nodes. */
static weft_status_t *add_constant(layouts_t *l, weft_node_t *near, const weft_node_t *like,
                                   weft_tensor_t *value, weft_output_t *out) {
  const weft_named_attr_t attrs[] = {
      weft_type_attr("dtype", value->dtype),
      {WEFT_STR("value"), {.kind = WEFT_ATTR_TENSOR, .tensor = value}},
  };
  weft_node_spec_t spec = {.op = WEFT_STR("Const"), .attrs = attrs, .num_attrs = 2};
  if (like != NULL) {
    spec.controls = like->controls;
    spec.num_controls = like->num_controls;
  } else if (weft_pass_round_is_conditional(l->r, near)) {
    spec.controls = &near;
    spec.num_controls = 1;
  }
  return add_node(l, near, "numbers", spec, out);
}

/* `n` numbers (a scalar: n < 0), of the type of `like` or int32. */
static weft_status_t *add_numbers(layouts_t *l, weft_node_t *near, const weft_node_t *like,
                                  const int64_t *numbers, int n, weft_output_t *out) {
  const weft_shape_t shape = n < 0 ? WEFT_SCALAR : weft_shape_vector(n);
  const weft_dtype_t type = like == NULL ? WEFT_I32 : (weft_dtype_t)like->output_types[0];
  weft_tensor_t *value = NULL;
  WEFT_RETURN_IF_ERROR(weft_tensor_new(type, &shape, NULL, &value));
  for (int i = 0; i < (n < 0 ? 1 : n); i++) {
    if (type == WEFT_I32) ((int32_t *)value->data)[i] = (int32_t)numbers[i];
    if (type == WEFT_I64) ((int64_t *)value->data)[i] = numbers[i];
  }
  weft_status_t *s = add_constant(l, near, like, value, out);
  weft_tensor_release(value);
  return s;
}

/* The rows of a constant in the order of `p`. */
static weft_status_t *add_rows(layouts_t *l, weft_node_t *like, const weft_permutation_t *p,
                               weft_output_t *out) {
  const weft_tensor_t *from = weft_pass_round_constant((weft_output_t){like, 0});
  const size_t row = from->bytes / (size_t)p->rank;
  weft_tensor_t *value = NULL;
  WEFT_RETURN_IF_ERROR(weft_tensor_new(from->dtype, &from->shape, NULL, &value));
  for (int i = 0; i < p->rank; i++)
    memcpy((char *)value->data + (size_t)p->of[i] * row, (const char *)from->data + (size_t)i * row, row);
  weft_status_t *s = add_constant(l, like, like, value, out);
  weft_tensor_release(value);
  return s;
}

/* An op of `of` and some numbers. */
static weft_status_t *add_with_numbers(layouts_t *l, weft_node_t *near, const char *op, weft_output_t of,
                                       const int64_t *numbers, int n, weft_output_t *out) {
  weft_output_t inputs[2] = {of};
  WEFT_RETURN_IF_ERROR(add_numbers(l, near, NULL, numbers, n, &inputs[1]));
  const weft_node_spec_t spec = {.op = weft_str(op), .inputs = inputs, .num_inputs = 2};
  return add_node(l, near, op, spec, out);
}

static const int64_t *as_numbers(const weft_permutation_t *p, int64_t *numbers) {
  for (int i = 0; i < p->rank; i++) numbers[i] = p->of[i];
  return numbers;
}

static weft_status_t *add_transpose(layouts_t *l, weft_node_t *near, weft_output_t of,
                                    const weft_permutation_t *p, weft_output_t *out) {
  int64_t numbers[WEFT_MAX_DIMS];
  return add_with_numbers(l, near, "Transpose", of, as_numbers(p, numbers), p->rank, out);
}

static weft_status_t *add_reshape(layouts_t *l, weft_node_t *near, weft_output_t of,
                                  const weft_shape_t *shape, weft_output_t *out) {
  return add_with_numbers(l, near, "Reshape", of, shape->dims, shape->rank, out);
}

/* The rows of `of` in the order that `p` gives. */
static weft_status_t *add_gather(layouts_t *l, weft_node_t *near, weft_output_t of,
                                 const weft_permutation_t *p, weft_output_t *out) {
  static const int64_t first_axis = 0;
  int64_t numbers[WEFT_MAX_DIMS];
  weft_output_t inputs[3] = {of};
  WEFT_RETURN_IF_ERROR(add_numbers(l, near, NULL, as_numbers(p, numbers), p->rank, &inputs[1]));
  WEFT_RETURN_IF_ERROR(add_numbers(l, near, NULL, &first_axis, -1, &inputs[2]));
  const weft_node_spec_t spec = {.op = WEFT_STR("GatherV2"), .inputs = inputs, .num_inputs = 3};
  return add_node(l, near, "GatherV2", spec, out);
}

/* ---- values that cross a border ---- */

/* What a reader outside of all regions reads in the place of `of`. */
static weft_status_t *find_outside(layouts_t *l, weft_output_t of, weft_output_t *out) {
  crossing_t *c = NULL;
  bool is_new = false;
  *out = of;
  if (!is_made_inside(l, of) || !is_permuted(region_of(l, of.node))) return NULL;
  const region_t *region = region_of(l, of.node);
  WEFT_RETURN_IF_ERROR(find_crossing(l, region, of, false, &c, &is_new));
  if (c->made.node == NULL) WEFT_RETURN_IF_ERROR(add_transpose(l, of.node, of, &region->p, &c->made));
  *out = c->made;
  return NULL;
}

/* What a node of `region` reads in the place of `of`, which is not made in it. */
static weft_status_t *find_inside(layouts_t *l, const region_t *region, weft_output_t of,
                                  weft_output_t *out) {
  const weft_shape_t *shape = weft_pass_round_shape(of);
  const bool is_view = weft_shape_is_known(shape) && weft_permutation_only_reshapes(&region->p, shape);
  crossing_t *c = NULL;
  bool is_new = false;
  WEFT_RETURN_IF_ERROR(find_crossing(l, region, of, true, &c, &is_new));
  if (c->made.node == NULL) {
    weft_output_t from = of;
    WEFT_RETURN_IF_ERROR(find_outside(l, of, &from));
    if (is_view) {
      const weft_shape_t after = weft_permutation_apply(&region->p, shape);
      WEFT_RETURN_IF_ERROR(add_reshape(l, of.node, from, &after, &c->made));
    } else {
      if (shape->rank < region->p.rank) { /* known, then (layout_ops.c) */
        weft_shape_t whole = {.rank = region->p.rank};
        for (int i = 0; i < whole.rank; i++) {
          const int at = i - (whole.rank - shape->rank);
          whole.dims[i] = at < 0 ? 1 : shape->dims[at];
        }
        WEFT_RETURN_IF_ERROR(add_reshape(l, of.node, from, &whole, &from));
      }
      WEFT_RETURN_IF_ERROR(add_transpose(l, of.node, from, &region->inverse, &c->made));
    }
  }
  *out = c->made;
  return NULL;
}

/* ---- rewriting ---- */

/* Of a list with `n` numbers for each dimension. */
static weft_status_t *permute_list(layouts_t *l, weft_node_t *n, const char *name, int each,
                                   const weft_permutation_t *p) {
  int64_t numbers[2 * WEFT_MAX_DIMS];
  const weft_attr_t *a = weft_node_attr(n, name);
  if (a == NULL || a->kind != WEFT_ATTR_INT || !a->is_list || a->n != each * p->rank) return NULL;
  for (int i = 0; i < a->n; i++) numbers[each * p->of[i / each] + i % each] = a->list.ints[i];
  const weft_attr_t list = {.kind = WEFT_ATTR_INT, .is_list = true, .n = a->n, .list.ints = numbers};
  return weft_graph_set_attr(l->r->g, n, name, &list);
}

static weft_status_t *permute_attrs(layouts_t *l, weft_node_t *n, const weft_permutation_t *p) {
  static const weft_attr_t channels_last = {.kind = WEFT_ATTR_STRING, .s = {"NHWC", 4}};
  WEFT_RETURN_IF_ERROR(weft_graph_set_attr(l->r->g, n, "data_format", &channels_last));
  WEFT_RETURN_IF_ERROR(permute_list(l, n, "ksize", 1, p));
  WEFT_RETURN_IF_ERROR(permute_list(l, n, "strides", 1, p));
  WEFT_RETURN_IF_ERROR(permute_list(l, n, "dilations", 1, p));
  return permute_list(l, n, "explicit_paddings", 2, p);
}

static weft_status_t *permute_axes(layouts_t *l, weft_node_t *n, int input, const weft_permutation_t *p) {
  int axes[WEFT_MAX_DIMS];
  int64_t numbers[WEFT_MAX_DIMS];
  const weft_output_t from = n->inputs[input];
  const int num = weft_layout_axes(from, p->rank, axes);
  const bool is_scalar = weft_pass_round_constant(from)->shape.rank == 0;
  weft_output_t permuted;
  for (int i = 0; i < num; i++) numbers[i] = p->of[axes[i]];
  WEFT_RETURN_IF_ERROR(add_numbers(l, from.node, from.node, numbers, is_scalar ? -1 : num, &permuted));
  weft_graph_set_input(n, input, permuted);
  return NULL;
}

/* Input `i`, the Transpose of `of` by `p`, of Shape or ShapeN: the numbers of the shape of `of` are gathered.
 * Of Size and Rank no more than the input changes. */
static weft_status_t *permute_shape(layouts_t *l, weft_node_t *n, int i, weft_output_t of,
                                    const weft_permutation_t *p) {
  weft_output_t shape, permuted;
  if ((n->flags & WEFT_OP_SHAPE) != 0 || n->op == l->shape_n) {
    const weft_named_attr_t type = weft_type_attr("out_type", n->output_types[i]);
    const weft_node_spec_t spec = {
        .op = WEFT_STR("Shape"), .inputs = &of, .num_inputs = 1, .attrs = &type, .num_attrs = 1};
    WEFT_RETURN_IF_ERROR(add_node(l, n, "Shape", spec, &shape));
    WEFT_RETURN_IF_ERROR(add_gather(l, n->inputs[i].node, shape, p, &permuted));
    WEFT_RETURN_IF_ERROR(weft_pass_round_forward(l->r, n, i, permuted));
  }
  weft_graph_set_input(n, i, of);
  return NULL;
}

/* An input that is no image of `n`, or `n` is in no region that is permuted. */
static weft_status_t *rewrite_outer_input(layouts_t *l, weft_node_t *n, int i) {
  const weft_output_t from = n->inputs[i];
  weft_output_t outside = from;
  const bool is_inside = is_made_inside(l, from) && is_permuted(region_of(l, from.node));
  if (is_inside && reads_shape(l, n)) return permute_shape(l, n, i, from, &region_of(l, from.node)->p);
  if (is_inside && i == 0 && is_by(l, n, &region_of(l, from.node)->inverse))
    return weft_pass_round_forward(l->r, n, 0, from);
  if (!is_inside && reads_shape(l, n) && leads_in(l, from.node) && is_permuted(region_of(l, from.node))) {
    WEFT_RETURN_IF_ERROR(find_outside(l, from.node->inputs[0], &outside));
    return permute_shape(l, n, i, outside, &region_of(l, from.node)->p);
  }
  if (!is_inside) return NULL;
  WEFT_RETURN_IF_ERROR(find_outside(l, from, &outside));
  weft_graph_set_input(n, i, outside);
  return NULL;
}

static weft_status_t *rewrite_image(layouts_t *l, weft_node_t *n, int i) {
  const region_t *own = region_of(l, n);
  const weft_output_t from = n->inputs[i];
  weft_output_t inside;
  if (is_of(l, own, from)) return NULL;
  if (leads_in(l, from.node) && region_of(l, from.node) == own) {
    WEFT_RETURN_IF_ERROR(find_outside(l, from.node->inputs[0], &inside));
  } else {
    WEFT_RETURN_IF_ERROR(find_inside(l, own, from, &inside));
  }
  weft_graph_set_input(n, i, inside);
  return NULL;
}

static weft_status_t *rewrite_vector(layouts_t *l, weft_node_t *n, int i) {
  const region_t *own = region_of(l, n);
  weft_node_t *near = n->inputs[i].node;
  weft_output_t permuted;
  if (weft_pass_round_constant(n->inputs[i]) != NULL) {
    WEFT_RETURN_IF_ERROR(add_rows(l, near, &own->p, &permuted));
  } else {
    WEFT_RETURN_IF_ERROR(rewrite_outer_input(l, n, i));
    WEFT_RETURN_IF_ERROR(add_gather(l, near, n->inputs[i], &own->inverse, &permuted));
  }
  weft_graph_set_input(n, i, permuted);
  return NULL;
}

static weft_status_t *rewrite(layouts_t *l, weft_node_t *n) {
  const weft_layout_node_t *d = node_of(l, n);
  const bool is_inside = d != NULL && is_permuted(region_of(l, n));
  for (int i = 0; i < n->num_inputs; i++) {
    if (is_inside && is_image(d, i)) {
      WEFT_RETURN_IF_ERROR(rewrite_image(l, n, i));
    } else if (is_inside && i == d->axes) {
      WEFT_RETURN_IF_ERROR(permute_axes(l, n, i, &region_of(l, n)->p));
    } else if (is_inside && (d->vectors >> i & 1) != 0) {
      WEFT_RETURN_IF_ERROR(rewrite_vector(l, n, i));
    } else {
      WEFT_RETURN_IF_ERROR(rewrite_outer_input(l, n, i));
    }
  }
  if (!is_inside) return NULL;
  l->r->has_changed = true;
  weft_pass_round_note(l->r, n, "has its dimensions in another order", (weft_str_t){NULL, 0});
  return d->has_format ? permute_attrs(l, n, &region_of(l, n)->p) : NULL;
}

static weft_status_t *permute_shapes(const layouts_t *l, weft_node_t *n) {
  const weft_layout_node_t *d = node_of(l, n);
  if (d == NULL || !is_permuted(region_of(l, n)) || n->output_shapes == NULL) return NULL;
  weft_shape_t *shapes = weft_arena_calloc(&l->r->arena, (size_t)n->num_outputs, sizeof *shapes);
  if (shapes == NULL) return no_memory(l);
  for (int i = 0; i < n->num_outputs; i++) {
    const bool is_permuted_too = (d->outputs >> i & 1) != 0;
    shapes[i] = is_permuted_too ? weft_permutation_apply(&region_of(l, n)->p, &n->output_shapes[i])
                                : n->output_shapes[i];
  }
  n->output_shapes = shapes;
  return NULL;
}

static weft_status_t *permute_regions(layouts_t *l) {
  weft_graph_t *g = l->r->g;
  const int num_before = g->num_nodes; /* with those that passes before this one have added */
  for (int id = 0; id < num_before; id++) {
    if (g->nodes[id] != NULL) WEFT_RETURN_IF_ERROR(rewrite(l, g->nodes[id]));
  }
  for (int id = 0; id < l->r->num_ids; id++) {
    if (g->nodes[id] != NULL) WEFT_RETURN_IF_ERROR(permute_shapes(l, g->nodes[id]));
  }
  return NULL;
}

/* ---- all of it ---- */

/* Most graphs have neither. */
static bool has_cause(const layouts_t *l) {
  for (int id = 0; id < l->r->num_ids; id++) {
    const weft_node_t *n = l->r->g->nodes[id];
    if (n == NULL) continue;
    if (n->op == l->transpose || weft_layout_has_channels_first(l->ops, n)) return true;
  }
  return false;
}

static weft_status_t *run(layouts_t *l) {
  const size_t num = (size_t)l->r->num_ids + 1;
  l->nodes = weft_calloc(num, sizeof(*l->nodes));
  l->leader = weft_calloc(num, sizeof(*l->leader));
  l->regions = weft_calloc(num, sizeof(*l->regions));
  l->num_readers = weft_calloc((size_t)l->r->g->num_nodes + 1, sizeof(*l->num_readers));
  if (l->nodes == NULL || l->leader == NULL || l->regions == NULL || l->num_readers == NULL)
    return no_memory(l);
  for (int id = 0; id < l->r->num_ids; id++) l->leader[id] = id;
  WEFT_RETURN_IF_ERROR(weft_pass_round_infer(l->r));
  WEFT_RETURN_IF_ERROR(describe_nodes(l));
  join_nodes(l);
  WEFT_RETURN_IF_ERROR(choose_permutations(l));
  WEFT_RETURN_IF_ERROR(count_gains(l));
  return permute_regions(l);
}

weft_status_t *weft_pass_layout(weft_pass_round_t *r) {
  layouts_t l = {.r = r,
                 .transpose = weft_op_find(WEFT_STR("Transpose")),
                 .shape_n = weft_op_find(WEFT_STR("ShapeN")),
                 .crossings = WEFT_MAP_INIT};
  WEFT_RETURN_IF_ERROR(weft_layout_ops_create(&r->arena, &l.ops));
  if (!has_cause(&l)) return NULL;
  weft_status_t *s = run(&l);
  weft_free(l.nodes);
  weft_free(l.leader);
  weft_free(l.regions);
  weft_free(l.num_readers);
  weft_map_deinit(&l.crossings);
  return s;
}
