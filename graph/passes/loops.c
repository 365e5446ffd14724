/* graph/passes/loops.c - products that a loop makes slice by slice are made before the loop.
 *
 *   list = TensorListFromTensor(x)               list = TensorListFromTensor(BatchMatMulV2(x, w))
 *   each iteration: MatMul(list[i], w)           each iteration: list[i]
 *
 * A recurrent layer multiplies the input of each time step by one matrix, which is the same in all
 * iterations. Step by step the matrix comes from memory in each iteration for a few rows; for the rows of all
 * steps together it comes once.
 *
 * The list has to be made outside of the loop from a whole tensor [steps, rows, columns], to reach the
 * iterations unchanged, and to have an element shape that says how many columns there are: so the product,
 * which waits for the list, cannot fail. A loop that reads few of the slices gets products that it does not
 * need.
 *
 * Only products of floats by a matrix that is not transposed: an element of these is summed in one order,
 * however many rows are computed at once (kernels/cpu/math/tiles.h), so results keep their bits. Where
 * OpenBLAS computes them instead (WEFT_ISA=x86-64-v2), the last bits may differ.
 *
 * Source: the input projection of an LSTM layer outside of the recurrence, as in Appleyard, Kocisky and
 * Blunsom, "Optimizing Performance of Recurrent Neural Networks on GPUs" (2016), section 3.2.
 */
#include "base/alloc.h"
#include "graph/passes/round.h"

typedef struct loop_products {
  weft_pass_round_t *r;
  const weft_op_def_t *product, *item, *list;
  int *num_readers; /* owned; by id: edges from a node to its consumers; NULL: not counted yet */
} loop_products_t;

/* A product of a slice, and what it is made of. */
typedef struct slice_product {
  weft_node_t *node, *item, *list; /* MatMul, TensorListGetItem, TensorListFromTensor */
  weft_node_t *enter;              /* of the list */
  weft_output_t x, w;              /* outside of the loop */
  int64_t columns;                 /* of w */
} slice_product_t;

static bool is_at(const weft_node_t *n, const weft_node_t *like) {
  return weft_str_eq(n->assigned_device, like->assigned_device);
}

/* ---- what is found ---- */

static int64_t number_at(const weft_tensor_t *t, int64_t i) {
  return t->dtype == WEFT_I32 ? ((const int32_t *)t->data)[i] : ((const int64_t *)t->data)[i];
}

/* Is it a constant shape of matrices of `columns` columns, or maybe of an unknown number? */
static bool says_columns(weft_output_t element_shape, int64_t columns, bool may_be_unknown) {
  const weft_tensor_t *t = weft_pass_round_constant(element_shape);
  if (t == NULL || (t->dtype != WEFT_I32 && t->dtype != WEFT_I64) || t->shape.rank != 1 || t->count != 2)
    return false;
  return number_at(t, 1) == columns || (may_be_unknown && number_at(t, 1) < 0);
}

static bool is_plain_product(const weft_node_t *n) {
  return weft_node_attr_type(n, "T") == WEFT_F32 && !weft_node_attr_bool(n, "transpose_a", false) &&
         !weft_node_attr_bool(n, "transpose_b", false) && n->num_controls == 0 &&
         weft_pass_round_is_on_cpu(n);
}

/* Can the product not fail? One column is summed in another order, as a row is. */
static bool find_shapes(slice_product_t *p) {
  const weft_shape_t *w = weft_pass_round_shape(p->w);
  if (w->rank != 2 || w->dims[0] < 1 || w->dims[1] < 2 || w->dims[1] > INT32_MAX) return false;
  p->columns = w->dims[1];
  return says_columns(p->list->inputs[1], w->dims[0], false) &&
         says_columns(p->item->inputs[2], w->dims[0], true);
}

static bool find_product(const loop_products_t *l, weft_node_t *n, slice_product_t *p) {
  if (n->op != l->product || !is_plain_product(n) || l->r->is_kept[n->id]) return false;
  const weft_output_t item = weft_output_copied(n->inputs[0]);
  if (item.node->op != l->item || item.node->id >= l->r->num_ids) return false;
  weft_node_t *enter = weft_output_enter(item.node->inputs[0]), *w_enter = weft_output_enter(n->inputs[1]);
  if (enter == NULL || w_enter == NULL ||
      !weft_str_eq(weft_node_attr_string(enter, "frame_name"), weft_node_attr_string(w_enter, "frame_name")))
    return false;
  const weft_output_t list = weft_output_copied(enter->inputs[0]);
  if (list.node->op != l->list) return false;
  *p = (slice_product_t){.node = n,
                         .item = item.node,
                         .list = list.node,
                         .enter = enter,
                         .x = list.node->inputs[0],
                         .w = w_enter->inputs[0]};
  return is_at(p->item, n) && is_at(p->list, n) && is_at(enter, n) && is_at(w_enter, n) &&
         is_at(p->x.node, n) && is_at(p->w.node, n) && !weft_pass_round_is_variable(l->r, p->x.node) &&
         !weft_pass_round_is_variable(l->r, p->w.node) && find_shapes(p);
}

/* ---- what is made ---- */

static weft_status_t *no_memory(const loop_products_t *l) {
  return WEFT_NO_MEMORY("optimising the loops of a graph of %d nodes", l->r->g->num_live);
}

/* A node where `near` is; its name begins with that of `after`. */
static weft_status_t *add_node(loop_products_t *l, const weft_node_t *near, weft_str_t after,
                               weft_node_spec_t spec, weft_output_t *out) {
  weft_node_t *added = NULL;
  spec.name = weft_graph_unique_name(l->r->g, after);
  if (spec.name.data == NULL) return no_memory(l);
  spec.device = near->requested_device;
  WEFT_RETURN_IF_ERROR(weft_graph_add(l->r->g, &spec, &added));
  added->assigned_device = near->assigned_device;
  *out = (weft_output_t){added, 0};
  return NULL;
}

/* The constant `like`, an element shape, with the number of columns of the product; it waits for the same
 * nodes. */
static weft_status_t *add_element_shape(loop_products_t *l, const slice_product_t *p, const weft_node_t *like,
                                        weft_output_t *out) {
  const weft_tensor_t *was = weft_pass_round_constant((weft_output_t){(weft_node_t *)(uintptr_t)like, 0});
  const weft_shape_t shape = weft_shape_vector(2);
  weft_tensor_t *value = NULL;
  WEFT_RETURN_IF_ERROR(weft_tensor_new(was->dtype, &shape, NULL, &value));
  for (int i = 0; i < 2; i++) {
    const int64_t dim = i == 0 ? number_at(was, 0) : p->columns;
    if (was->dtype == WEFT_I32) ((int32_t *)value->data)[i] = (int32_t)dim;
    if (was->dtype == WEFT_I64) ((int64_t *)value->data)[i] = dim;
  }
  const weft_named_attr_t attrs[] = {
      weft_type_attr("dtype", was->dtype),
      {WEFT_STR("value"), {.kind = WEFT_ATTR_TENSOR, .tensor = value}},
  };
  const weft_node_spec_t spec = {.op = WEFT_STR("Const"),
                                 .attrs = attrs,
                                 .num_attrs = 2,
                                 .controls = like->controls,
                                 .num_controls = like->num_controls};
  weft_status_t *s = add_node(l, like, like->name, spec, out);
  weft_tensor_release(value);
  return s;
}

/* The list of products, as each iteration has it. */
static weft_status_t *add_list(loop_products_t *l, const slice_product_t *p, weft_output_t *out) {
  weft_output_t inputs[2] = {p->x, p->w}, list;
  weft_node_t *const checked[] = {p->list}; /* its success says that x fits */
  const weft_node_spec_t product = {.op = WEFT_STR("BatchMatMulV2"),
                                    .inputs = inputs,
                                    .num_inputs = 2,
                                    .controls = checked,
                                    .num_controls = 1};
  WEFT_RETURN_IF_ERROR(add_node(l, p->list, p->node->name, product, &inputs[0]));
  WEFT_RETURN_IF_ERROR(add_element_shape(l, p, p->list->inputs[1].node, &inputs[1]));
  const weft_node_spec_t products = {.op = p->list->op->name,
                                     .inputs = inputs,
                                     .num_inputs = 2,
                                     .controls = p->list->controls,
                                     .num_controls = p->list->num_controls};
  WEFT_RETURN_IF_ERROR(add_node(l, p->list, p->list->name, products, &list));
  const weft_named_attr_t attrs[] = {
      weft_text_attr("frame_name", weft_node_attr_string(p->enter, "frame_name")),
      weft_bool_attr("is_constant", true),
      weft_int_attr("parallel_iterations", weft_node_attr_int(p->enter, "parallel_iterations", 10)),
  };
  const weft_node_spec_t enter = {
      .op = p->enter->op->name, .inputs = &list, .num_inputs = 1, .attrs = attrs, .num_attrs = 3};
  return add_node(l, p->enter, p->enter->name, enter, out);
}

static weft_status_t *count_readers(loop_products_t *l) {
  const weft_graph_t *g = l->r->g;
  if (l->num_readers != NULL) return NULL;
  l->num_readers = weft_calloc((size_t)g->num_nodes, sizeof *l->num_readers);
  if (l->num_readers == NULL) return no_memory(l);
  for (int id = 0; id < g->num_nodes; id++) {
    const weft_node_t *n = g->nodes[id];
    for (int i = 0; n != NULL && i < n->num_inputs; i++) l->num_readers[n->inputs[i].node->id]++;
  }
  return NULL;
}

/* The item itself, if nothing else reads it; else another one. So a failure names the item. */
static weft_status_t *find_item(loop_products_t *l, const slice_product_t *p, const weft_output_t inputs[3],
                                weft_output_t *out) {
  const weft_node_t *reader = p->node;
  bool is_only = !l->r->is_kept[p->item->id];
  for (const weft_node_t *n = reader->inputs[0].node; is_only && n != p->item; n = n->inputs[0].node)
    is_only = l->num_readers[n->id] == 1;
  if (is_only && l->num_readers[p->item->id] == 1) {
    for (int i = 0; i < 3; i++) weft_graph_set_input(p->item, i, inputs[i]);
    *out = (weft_output_t){p->item, 0};
    return NULL;
  }
  const weft_named_attr_t attrs[] = {weft_type_attr("element_dtype", WEFT_F32)};
  const weft_node_spec_t spec = {.op = p->item->op->name,
                                 .inputs = inputs,
                                 .num_inputs = 3,
                                 .controls = p->item->controls,
                                 .num_controls = p->item->num_controls,
                                 .attrs = attrs,
                                 .num_attrs = 1};
  return add_node(l, p->item, p->item->name, spec, out);
}

static weft_status_t *move_product(loop_products_t *l, const slice_product_t *p) {
  weft_output_t inputs[3] = {{NULL, 0}, p->item->inputs[1], {NULL, 0}}, item;
  WEFT_RETURN_IF_ERROR(count_readers(l));
  WEFT_RETURN_IF_ERROR(add_list(l, p, &inputs[0]));
  WEFT_RETURN_IF_ERROR(add_element_shape(l, p, p->item->inputs[2].node, &inputs[2]));
  WEFT_RETURN_IF_ERROR(find_item(l, p, inputs, &item));
  return weft_pass_round_forward(l->r, p->node, 0, item);
}

static weft_status_t *walk(loop_products_t *l) {
  for (int i = 0; i < l->r->num_ordered; i++) {
    slice_product_t p;
    weft_node_t *n = l->r->order[i];
    if (!weft_pass_round_has(l->r, n)) continue;
    WEFT_RETURN_IF_ERROR(weft_pass_round_visit(l->r, n));
    if (n->op != l->product) continue;
    WEFT_RETURN_IF_ERROR(weft_pass_round_infer(l->r));
    if (find_product(l, n, &p)) WEFT_RETURN_IF_ERROR(move_product(l, &p));
  }
  return weft_pass_round_finish(l->r);
}

weft_status_t *weft_pass_loops(weft_pass_round_t *r) {
  loop_products_t l = {.r = r,
                       .product = weft_op_find(WEFT_STR("MatMul")),
                       .item = weft_op_find(WEFT_STR("TensorListGetItem")),
                       .list = weft_op_find(WEFT_STR("TensorListFromTensor"))};
  weft_status_t *s = walk(&l);
  weft_free(l.num_readers);
  return s;
}
