/* executor/recorder.c - what the nodes of a step did, for step statistics. */
#include "base/alloc.h"
#include "base/clock.h"
#include "executor/step.h"

void weft_step_recorder_init(weft_step_recorder_t *r) {
  *r = (weft_step_recorder_t){.stats = NULL};
  weft_mutex_init(&r->mu);
}

void weft_step_recorder_deinit(weft_step_recorder_t *r) {
  weft_free(r->stats);
  r->stats = NULL;
  r->count = r->capacity = 0;
  weft_mutex_deinit(&r->mu);
}

/* Small numbers for threads, in the order in which they first record something. */
static uint32_t thread_number(void) {
  static atomic_uint last;
  static _Thread_local uint32_t mine;
  if (mine == 0) mine = atomic_fetch_add_explicit(&last, 1, memory_order_relaxed) + 1;
  return mine;
}

/* Room for one more. Statistics are best effort: without memory what follows is left out. Growing allocates
 * under the lock, which is a leaf that only recorders wait for. */
static bool grow_locked(weft_step_recorder_t *r) WEFT_REQUIRES(r->mu) {
  if (r->count < r->capacity) return true;
  size_t capacity = r->capacity == 0 ? 64 : r->capacity * 2;
  weft_node_stats_t *grown = weft_realloc(r->stats, capacity, sizeof *grown);
  if (grown == NULL) return false;
  r->stats = grown;
  r->capacity = capacity;
  return true;
}

void weft_step_record_begin(const plan_setup_t *node, const weft_value_t *inputs, node_begin_t *out) {
  const int n = node->node.num_inputs;
  const weft_shape_t *shapes[WEFT_COST_MAX_SHAPES] = {NULL};
  const weft_tensor_t *values[WEFT_COST_MAX_SHAPES] = {NULL};
  size_t bytes = 0;
  for (int i = 0; i < n; i++) {
    const weft_tensor_t *t = inputs[i].tensor;
    if (t == NULL) continue;
    bytes += t->bytes;
    if (i >= WEFT_COST_MAX_SHAPES) continue;
    shapes[i] = &t->shape;
    values[i] = t;
  }
  const weft_cost_inputs_t in = {.attrs = node->attrs,
                                 .num_attrs = node->num_attrs,
                                 .shapes = shapes,
                                 .num_shapes = n < WEFT_COST_MAX_SHAPES ? n : WEFT_COST_MAX_SHAPES,
                                 .num_inputs = n,
                                 .values = values};
  out->input_bytes = bytes;
  out->cost = weft_op_cost_begin(node->node.op, &in);
  out->start_ns = weft_clock_ns();
}

void weft_step_record(weft_step_recorder_t *r, const plan_setup_t *node, const node_begin_t *begin,
                      const weft_value_t *outputs) {
  weft_node_stats_t s = {
      .node = &node->node,
      .scheduled_ns = begin->start_ns,
      .start_ns = begin->start_ns,
      .input_bytes = begin->input_bytes,
      .end_ns = weft_clock_ns(),
      .thread = thread_number(),
      .num_outputs = node->node.num_outputs,
  };
  const weft_tensor_t *first = s.num_outputs > 0 ? outputs[0].tensor : NULL;
  s.flops = weft_op_cost_end(&begin->cost, first == NULL ? NULL : &first->shape);
  for (int i = 0; i < s.num_outputs; i++) {
    const weft_tensor_t *t = outputs[i].tensor;
    if (t == NULL) continue;
    s.output_bytes += t->bytes;
    if (i > 0) continue;
    s.first_dtype = t->dtype;
    s.first_shape.rank = t->shape.rank;
    memcpy(s.first_shape.dims, t->shape.dims, (size_t)t->shape.rank * sizeof t->shape.dims[0]);
  }
  weft_mutex_lock(&r->mu);
  if (grow_locked(r)) r->stats[r->count++] = s;
  weft_mutex_unlock(&r->mu);
}
