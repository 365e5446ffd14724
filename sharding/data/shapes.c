/* sharding/data/shapes.c - what is known of shapes beyond what the graph says itself. */
#include "sharding/data/analysis.h"

static weft_status_t *no_memory(void) { return WEFT_NO_MEMORY("analysing a graph for replicas"); }

/* Of a StridedSlice. */
static int rank_of_slice(const weft_data_ctx_t *c) {
  const weft_node_t *n = c->node;
  if (c->in[1].ints == NULL || c->in[1].ints->is_set) return -1;
  uint64_t specs = ((uint64_t)1 << (c->in[1].ints->n & 31)) - 1,
           dots = (uint64_t)weft_node_attr_int(n, "ellipsis_mask", 0);
  uint64_t added = (uint64_t)weft_node_attr_int(n, "new_axis_mask", 0) & specs & ~dots;
  uint64_t dropped = (uint64_t)weft_node_attr_int(n, "shrink_axis_mask", 0) & specs & ~dots & ~added;
  int rank = weft_data_in_shape(c, 0)->rank;
  return rank < 0 ? -1 : rank + __builtin_popcountll(added) - __builtin_popcountll(dropped);
}

/* So long is the shape in input i; -1: not known. */
static int rank_in(const weft_data_ctx_t *c, int i) {
  return c->in[i].ints != NULL && !c->in[i].ints->is_set ? c->in[i].ints->n : -1;
}

int weft_data_likely_rank(const weft_data_ctx_t *c) {
  const weft_node_t *n = c->node;
  int like = 0; /* the input whose rank it has */
  switch (n->op->batch) {
    case WEFT_BATCH_SLICE:
    case WEFT_BATCH_TILE:
    case WEFT_BATCH_ASSERT:
    case WEFT_BATCH_CHECK:
    case WEFT_BATCH_PRINT:
    case WEFT_BATCH_PRINT_TEXT:
    case WEFT_BATCH_CONCAT: break;
    case WEFT_BATCH_CONCAT_AXIS_FIRST:
    case WEFT_BATCH_SELECT: like = 1; break;
    case WEFT_BATCH_REDUCE_SUM:
    case WEFT_BATCH_REDUCE_MEAN:
    case WEFT_BATCH_REDUCE_ORDER:
    case WEFT_BATCH_REDUCE_PROD:
      if (!weft_node_attr_bool(n, "keep_dims", false)) return -1;
      break;
    case WEFT_BATCH_ONE_HOT:
    case WEFT_BATCH_EXPAND: {
      int rank = weft_data_in_shape(c, 0)->rank;
      return rank < 0 ? -1 : rank + 1;
    }
    case WEFT_BATCH_STRIDED_SLICE: return rank_of_slice(c);
    case WEFT_BATCH_BROADCAST: return rank_in(c, 1);
    case WEFT_BATCH_STRIDED_SLICE_GRAD:
    case WEFT_BATCH_FILL: return rank_in(c, 0);
    default: return -1;
  }
  return like < n->num_inputs ? weft_data_in_shape(c, like)->rank : -1;
}

/* With this many rows in the batch, shape inference says more: Squeeze of [?, 1] has one dimension then. */
enum { EXAMPLE_ROWS = 1000003 };

/* What the queue behind a handle says of component k of its elements; NULL: nothing. */
static const weft_shape_t *component_shape(const weft_node_t *reader, int k) {
  const weft_node_t *queue = reader->inputs[0].node;
  while ((queue->flags & WEFT_OP_IDENTITY) != 0) queue = queue->inputs[0].node;
  const weft_attr_t *shapes = weft_node_attr(queue, "shapes");
  return shapes != NULL && shapes->is_list && k < shapes->n ? &shapes->list.shapes[k] : NULL;
}

/* A placeholder in the place of output `o` of a reader of batches. */
static weft_status_t *read_example(weft_graph_t *copy, weft_node_t *reader, int o) {
  const weft_shape_t *element = component_shape(reader, o);
  if (element == NULL || element->rank < 0 || element->rank >= WEFT_MAX_DIMS) return NULL;
  weft_shape_t shape = {.rank = element->rank + 1, .dims = {EXAMPLE_ROWS}};
  for (int d = 0; d < element->rank; d++) shape.dims[d + 1] = element->dims[d];
  const weft_named_attr_t attrs[2] = {
      {WEFT_STR("dtype"), {.kind = WEFT_ATTR_TYPE, .type = reader->output_types[o]}},
      {WEFT_STR("shape"), {.kind = WEFT_ATTR_SHAPE, .shape = &shape}}};
  weft_node_spec_t spec = {.name = weft_graph_unique_name(copy, WEFT_STR("example")),
                           .op = WEFT_STR("Placeholder"),
                           .attrs = attrs,
                           .num_attrs = 2};
  weft_node_t *batch;
  if (spec.name.data == NULL) return no_memory();
  WEFT_RETURN_IF_ERROR(weft_graph_add(copy, &spec, &batch));
  for (int id = 0; id < copy->num_nodes; id++) {
    weft_node_t *n = copy->nodes[id];
    for (int i = 0; n != NULL && i < n->num_inputs; i++) {
      if (n->inputs[i].node == reader && n->inputs[i].index == o)
        weft_graph_set_input(n, i, (weft_output_t){batch, 0});
    }
  }
  return NULL;
}

/* Gives the placeholders of `copy` that many rows and infers again. */
static weft_status_t *infer_example(const weft_data_analysis_t *a, weft_graph_t *copy) {
  for (int i = 0; i < a->num_order; i++) {
    const weft_node_t *n = a->order[i];
    weft_node_t *mine = weft_graph_find(copy, n->name);
    if (mine == NULL || (n->op->flags & WEFT_OP_PLACEHOLDER) == 0 || !weft_data_is_batch_placeholder(a, n))
      continue;
    if (n->output_shapes == NULL || n->output_shapes[0].rank < 1 || n->output_shapes[0].dims[0] >= 0)
      continue;
    weft_shape_t shape = n->output_shapes[0];
    shape.dims[0] = EXAMPLE_ROWS;
    weft_attr_t attr = {.kind = WEFT_ATTR_SHAPE, .shape = &shape};
    WEFT_RETURN_IF_ERROR(weft_graph_set_attr(copy, mine, "shape", &attr));
  }
  for (int i = 0; i < a->num_order; i++) {
    weft_node_t *mine = weft_graph_find(copy, a->order[i]->name);
    if (a->order[i]->op->batch != WEFT_BATCH_BATCH_READER || mine == NULL) continue;
    for (int o = 0; o < mine->num_outputs; o++) WEFT_RETURN_IF_ERROR(read_example(copy, mine, o));
  }
  WEFT_RETURN_IF_ERROR(weft_pass_infer_shapes(copy));
  return weft_pass_infer_loop_shapes(copy);
}

weft_status_t *weft_data_improve_shapes(weft_data_analysis_t *a) {
  bool is_lacking = false;
  for (int i = 0; i < a->num_order; i++) {
    const weft_node_t *n = a->order[i];
    for (int o = 0; o < n->num_outputs; o++) {
      is_lacking |=
          n->output_shapes != NULL && n->output_shapes[o].rank < 0 && n->output_types[o] != WEFT_RESOURCE;
    }
  }
  if (!is_lacking) return NULL;
  weft_graph_t *copy;
  WEFT_RETURN_IF_ERROR(weft_graph_copy(a->g, &copy));
  weft_status_t *s = infer_example(a, copy);
  if (weft_status_code(s) == WEFT_RESOURCE_EXHAUSTED) {
    weft_graph_destroy(copy);
    return s;
  }
  bool is_known = s == NULL; /* shapes that do not fit so many rows are none of our business here */
  weft_status_free(s);
  s = NULL;
  for (int i = 0; is_known && s == NULL && i < a->num_order; i++) {
    const weft_node_t *n = a->order[i], *mine = weft_graph_find(copy, n->name);
    if (mine == NULL || mine->output_shapes == NULL || n->num_outputs == 0 || n->output_shapes == NULL)
      continue;
    weft_shape_t *shapes = weft_arena_calloc(&a->arena, (size_t)n->num_outputs, sizeof *shapes);
    if (shapes == NULL) s = no_memory();
    for (int o = 0; s == NULL && o < n->num_outputs; o++) {
      shapes[o] = n->output_shapes[o];
      if (shapes[o].rank >= 0 || mine->output_shapes[o].rank < 0) continue;
      shapes[o] = mine->output_shapes[o];
      for (int d = 0; d < shapes[o].rank; d++) {
        if (shapes[o].dims[d] != 1) shapes[o].dims[d] = WEFT_UNKNOWN_DIM;
      }
    }
    a->shapes[n->id] = shapes;
  }
  weft_graph_destroy(copy);
  return s;
}
