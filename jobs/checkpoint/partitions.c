/* jobs/checkpoint/partitions.c - recognises the parts of TensorFlow's partitioned variables by their names.
 *
 * The parts of a variable "table" are variables "table/part_0", "table/part_1", ...; the slots of part k are
 * "table/part_k/Adam". A scope that happens to be called "part_0" is no part of anything: the parts
 * themselves must be variables, numbered without a gap, alike in all dimensions but one. Source: TensorFlow's
 * variable_scope.py (_get_partitioned_variable) and slot_creator.py (_create_slot_var).
 */
#include <inttypes.h>
#include <stdio.h>

#include "base/alloc.h"
#include "jobs/checkpoint/variables.h"

static weft_status_t *no_memory(void) { return WEFT_NO_MEMORY("the parts of variables"); }

enum { MAX_NAME = 2048 };

/* "table/part_1/Adam": head "table", number 1, tail "/Adam" (or empty). */
typedef struct name {
  weft_str_t head, tail;
  int64_t number;
} name_t;

static bool split_name(weft_str_t text, name_t *out) {
  static const char mark[] = "/part_";
  const size_t length = sizeof mark - 1;
  for (size_t at = 1; at + length < text.length; at++) {
    if (memcmp(text.data + at, mark, length) != 0) continue;
    size_t end = at + length;
    while (end < text.length && text.data[end] >= '0' && text.data[end] <= '9') end++;
    bool is_piece = end == text.length || text.data[end] == '/';
    if (!is_piece || !weft_str_to_i64(weft_str_of(text.data + at + length, end - at - length), &out->number))
      continue;
    out->head = weft_str_of(text.data, at);
    out->tail = weft_str_of(text.data + end, text.length - end);
    return true;
  }
  return false;
}

/* head "/part_" number tail. */
static weft_saved_variable_t *part(const weft_saved_variables_t *v, const name_t *name, int64_t number,
                                   weft_str_t tail) {
  char text[MAX_NAME];
  int n = snprintf(text, sizeof text, "%.*s/part_%" PRId64 "%.*s", WEFT_STR_ARGS(name->head), number,
                   WEFT_STR_ARGS(tail));
  return n < 0 || n >= MAX_NAME ? NULL : weft_saved_variables_get(v, weft_str_of(text, (size_t)n));
}

/* The one dimension along which parts may differ: -1: none does; -2: they do not fit each other. */
static int differing_axis(const weft_shape_t *a, const weft_shape_t *b) {
  int axis = -1;
  if (a->rank != b->rank) return -2;
  for (int d = 0; d < a->rank; d++) {
    if (a->dims[d] == b->dims[d]) continue;
    if (axis >= 0) return -2;
    axis = d;
  }
  return axis;
}

/* Parts of equal shapes do not say along which dimension they were cut; where they are put together does. */
static int joined_axis(const weft_graph_t *g, const weft_saved_variables_t *v,
                       const weft_saved_variable_t *first, int64_t count) {
  for (int i = 0; i < g->num_nodes; i++) {
    const weft_node_t *n = g->nodes[i];
    if (n == NULL || n->op->batch != WEFT_BATCH_CONCAT || n->num_inputs != count + 1) continue;
    if (weft_saved_variable_behind(v, n->inputs[0]) != first) continue;
    const weft_node_t *axis = n->inputs[count].node;
    const weft_attr_t *value =
        axis == NULL || (axis->flags & WEFT_OP_CONST) == 0 ? NULL : weft_node_attr(axis, "value");
    if (value == NULL || value->kind != WEFT_ATTR_TENSOR || value->tensor->count != 1) continue;
    int64_t at = value->tensor->dtype == WEFT_I32   ? *(const int32_t *)value->tensor->data
                 : value->tensor->dtype == WEFT_I64 ? *(const int64_t *)value->tensor->data
                                                    : 0;
    if (at < 0) at += first->shape.rank;
    if (at >= 0 && at < first->shape.rank) return (int)at;
  }
  return 0;
}

/* How many parts there are, and along which dimension; 0: they are none. */
static int64_t count_parts(const weft_graph_t *g, const weft_saved_variables_t *v, const name_t *name,
                           int *out_axis) {
  weft_saved_variable_t *first = part(v, name, 0, WEFT_STR("")), *next;
  int64_t n = 1;
  int axis = -1;
  if (first == NULL || !weft_shape_is_known(&first->shape) || first->shape.rank == 0) return 0;
  for (; (next = part(v, name, n, WEFT_STR(""))) != NULL; n++) {
    int differs = next->dtype != first->dtype ? -2 : differing_axis(&first->shape, &next->shape);
    if (differs == -2 || (differs >= 0 && axis >= 0 && differs != axis)) return 0;
    if (differs >= 0) axis = differs;
  }
  *out_axis = axis >= 0 ? axis : joined_axis(g, v, first, n);
  return name->number < n ? n : 0;
}

/* Where part `number` begins, and how long all are together, along `axis`. */
static void measure(const weft_saved_variables_t *v, const name_t *name, int64_t parts, int axis,
                    int64_t *out_begin, int64_t *out_all) {
  *out_begin = *out_all = 0;
  for (int64_t i = 0; i < parts; i++) {
    int64_t length = part(v, name, i, WEFT_STR(""))->shape.dims[axis];
    if (i < name->number) *out_begin += length;
    *out_all += length;
  }
}

static weft_status_t *name_part(const weft_graph_t *g, weft_saved_variables_t *v, weft_saved_variable_t *item,
                                const name_t *name) {
  int axis = 0;
  int64_t parts = count_parts(g, v, name, &axis), begin, all;
  const weft_saved_variable_t *own = parts == 0 ? NULL : part(v, name, name->number, WEFT_STR(""));
  if (own == NULL || item->shape.rank <= axis || item->shape.dims[axis] != own->shape.dims[axis]) return NULL;
  for (int64_t i = 0; i < parts; i++) {
    const weft_saved_variable_t *other = part(v, name, i, name->tail);
    if (other == NULL || other->dtype != item->dtype || other->shape.rank != item->shape.rank) return NULL;
  }
  weft_strbuf_t b = WEFT_STRBUF_INIT;
  weft_strbuf_append(&b, name->head);
  weft_strbuf_append(&b, name->tail);
  weft_str_t tensor =
      b.failed ? weft_str_of(NULL, 0) : weft_arena_str(&v->arena, weft_str_of(b.data, b.length));
  weft_strbuf_deinit(&b);
  if (tensor.data == NULL) return no_memory();
  if (weft_saved_variables_get(v, tensor) != NULL) return NULL; /* the name is another variable's */
  measure(v, name, parts, axis, &begin, &all);
  item->tensor = tensor;
  item->is_part = true;
  item->full = item->shape;
  item->full.dims[axis] = all;
  item->start[axis] = begin;
  return NULL;
}

weft_status_t *weft_saved_variables_name_parts(const weft_graph_t *g, weft_saved_variables_t *v) {
  for (int i = 0; i < v->n; i++) {
    name_t name;
    if (split_name(v->items[i].node->name, &name)) WEFT_RETURN_IF_ERROR(name_part(g, v, &v->items[i], &name));
  }
  return NULL;
}
