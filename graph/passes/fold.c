/* graph/passes/fold.c - nodes whose value is known before the step become constants.
 *
 * Known is what the evaluator makes of constants, and what shape inference knows: the shape of a value whose
 * dimensions are all static, one of its dimensions, what is computed of these. The value of a node that is
 * not read any more once its consumers are known is never put into the graph.
 *
 * A constant is alive from the begin of the step. One that takes the place of a node in a branch or loop
 * waits for what that node's constants waited for, and, where it stands for the shape of a value, for that
 * value.
 *
 * Never folded: what has an effect or state, strings, values larger than max_folded_bytes or than SMALL and
 * larger than their inputs (a Fill is cheaper to run than to keep), what the evaluator refuses: the step
 * fails with the node's name. All values of a graph together are bounded by MOST_BYTES, which bounds the
 * work.
 */
#include "base/alloc.h"
#include "graph/passes/round.h"

enum {
  SMALL = 100 * 1024, /* as TensorFlow's */
  MOST_BYTES = 256 << 20,
  MOST_CONTROLS = 8, /* of a constant: more would cost what is won */
};

typedef struct folder {
  weft_pass_round_t *r;
  weft_tensor_t ***values; /* owned; by id: num_outputs tensors in the arena, retained; NULL: not known */
  uint8_t *has_waiters;    /* by id: some node waits for it */
  uint8_t *is_read;        /* by id: of a folded node: a node that stays reads it */
  int64_t bytes;           /* of all values so far */
} folder_t;

static weft_tensor_t *value_of(const folder_t *f, weft_output_t o) {
  weft_tensor_t *constant = weft_pass_round_constant(o);
  if (constant != NULL || o.node->id >= f->r->num_ids || f->values[o.node->id] == NULL) return constant;
  return f->values[o.node->id][o.index];
}

/* ---- may it be folded? ---- */

/* The bytes of all outputs; -1: not known, or too many. */
static int64_t output_bytes(const weft_node_t *n, int64_t most) {
  int64_t bytes = 0;
  for (int i = 0; i < n->num_outputs; i++) {
    const weft_shape_t *shape = weft_pass_round_shape((weft_output_t){(weft_node_t *)(uintptr_t)n, i});
    const int64_t count = weft_shape_is_known(shape) ? weft_shape_count(shape) : -1;
    const int64_t size = (int64_t)weft_dtype_size((weft_dtype_t)n->output_types[i]);
    if (count < 0 || n->output_types[i] == WEFT_STRING || size <= 0 || count > most / size) return -1;
    bytes += count * size;
    if (bytes > most) return -1;
  }
  return bytes;
}

static bool is_small_enough(const folder_t *f, const weft_node_t *n, int64_t *out_bytes) {
  int64_t inputs = 0;
  for (int i = 0; i < n->num_inputs; i++) {
    const weft_tensor_t *t = value_of(f, n->inputs[i]);
    if (t->dtype == WEFT_STRING) return false;
    inputs += (int64_t)t->bytes;
  }
  const int64_t bytes = output_bytes(n, f->r->options->settings.max_folded_bytes);
  *out_bytes = bytes + inputs;
  return bytes >= 0 && bytes <= inputs + SMALL && f->bytes + bytes + inputs <= MOST_BYTES;
}

static bool all_inputs_known(const folder_t *f, const weft_node_t *n) {
  for (int i = 0; i < n->num_inputs; i++) {
    if (value_of(f, n->inputs[i]) == NULL) return false;
  }
  return n->num_inputs > 0;
}

/* ---- what a constant waits for ---- */

/* `n` waits for what its constant inputs wait for, and, with `for_values`, for its other inputs. *out false:
 * that cannot be said with control edges, or would be many. */
static weft_status_t *take_over_controls(folder_t *f, weft_node_t *n, bool for_values, bool *out) {
  weft_node_t *all[MOST_CONTROLS];
  int num = 0;
  *out = false;
  for (int i = 0; i < n->num_inputs; i++) {
    weft_node_t *from = n->inputs[i].node;
    const bool is_value = value_of(f, n->inputs[i]) == NULL;
    if (is_value && for_values) {
      if ((from->flags & WEFT_OPS_OF_CONTROL) != 0 || num == MOST_CONTROLS) return NULL;
      all[num++] = from;
    }
    for (int k = 0; !is_value && k < from->num_controls; k++) {
      if (num == MOST_CONTROLS) return NULL;
      all[num++] = from->controls[k];
    }
  }
  for (int i = 0; i < num; i++) WEFT_RETURN_IF_ERROR(weft_graph_add_control(f->r->g, all[i], n));
  *out = true;
  return NULL;
}

/* ---- one node ---- */

static weft_status_t *keep(folder_t *f, const weft_node_t *n, weft_tensor_t *const *outputs) {
  weft_tensor_t **kept = weft_arena_calloc(&f->r->arena, (size_t)n->num_outputs, sizeof(*kept));
  if (kept == NULL) return WEFT_NO_MEMORY("folding node '%s'", n->name.data);
  for (int i = 0; i < n->num_outputs; i++) kept[i] = weft_tensor_retain(outputs[i]);
  f->values[n->id] = kept;
  return NULL;
}

static bool are_as_inferred(const weft_node_t *n, weft_tensor_t *const *outputs) {
  for (int i = 0; i < n->num_outputs; i++) {
    const weft_shape_t *shape = weft_pass_round_shape((weft_output_t){(weft_node_t *)(uintptr_t)n, i});
    if (outputs[i] == NULL || (int)outputs[i]->dtype != n->output_types[i] || outputs[i]->space != NULL ||
        !weft_shape_eq(&outputs[i]->shape, shape))
      return false;
  }
  return true;
}

static weft_status_t *evaluate(folder_t *f, weft_node_t *n) {
  const weft_evaluator_t *e = f->r->options->evaluator;
  int64_t bytes = 0;
  bool may = false;
  if (e == NULL || !is_small_enough(f, n, &bytes)) return NULL;
  const size_t num_in = (size_t)n->num_inputs, num_out = (size_t)n->num_outputs;
  weft_tensor_t **tensors = weft_calloc(num_in + num_out, sizeof(*tensors));
  if (tensors == NULL) return WEFT_NO_MEMORY("folding node '%s'", n->name.data);
  weft_tensor_t **outputs = tensors + num_in;
  for (size_t i = 0; i < num_in; i++) tensors[i] = value_of(f, n->inputs[i]);
  weft_status_t *s = e->evaluate(e->arg, n, tensors, outputs);
  const bool is_known = s == NULL && are_as_inferred(n, outputs);
  weft_status_free(s); /* the step will fail with it, and name the node */
  s = is_known ? take_over_controls(f, n, false, &may) : NULL;
  if (s == NULL && may) {
    s = keep(f, n, outputs);
    f->bytes += bytes;
  }
  for (size_t i = 0; i < num_out; i++) weft_tensor_release(outputs[i]);
  weft_free(tensors);
  return s;
}

/* A value that inference knows, though not all inputs are constants. */
static weft_status_t *take_inferred(folder_t *f, weft_node_t *n) {
  const weft_output_t output = {n, 0};
  weft_tensor_t *value =
      n->num_outputs == 1 ? (weft_tensor_t *)(uintptr_t)weft_inference_value(f->r->inference, output) : NULL;
  bool may = false;
  if (value == NULL || (int)value->dtype != n->output_types[0] || n->num_inputs == 0) return NULL;
  const bool for_values = weft_pass_round_is_conditional(f->r, n) || f->has_waiters[n->id];
  WEFT_RETURN_IF_ERROR(take_over_controls(f, n, for_values, &may));
  return may ? keep(f, n, &value) : NULL;
}

static weft_status_t *fold(folder_t *f, weft_node_t *n) {
  WEFT_RETURN_IF_ERROR(weft_pass_round_visit(f->r, n));
  if ((n->flags & WEFT_OP_CONST) != 0 || !weft_node_is_pure(n)) return NULL;
  if (all_inputs_known(f, n)) WEFT_RETURN_IF_ERROR(evaluate(f, n));
  return f->values[n->id] == NULL ? take_inferred(f, n) : NULL;
}

/* ---- constants in the place of nodes ---- */

static weft_status_t *add_constant(folder_t *f, weft_node_t *n, int output, weft_output_t *out) {
  weft_strbuf_t text = WEFT_STRBUF_INIT;
  weft_strbuf_printf(&text, "%s/folded_%d", n->name.data, output);
  const weft_str_t name = text.failed ? (weft_str_t){NULL, 0}
                                      : weft_graph_unique_name(f->r->g, weft_str_of(text.data, text.length));
  weft_strbuf_deinit(&text);
  if (name.data == NULL) return WEFT_NO_MEMORY("folding node '%s'", n->name.data);
  weft_tensor_t *value = f->values[n->id][output];
  const weft_named_attr_t attrs[] = {
      weft_type_attr("dtype", value->dtype),
      {WEFT_STR("value"), {.kind = WEFT_ATTR_TENSOR, .tensor = value}},
  };
  const weft_node_spec_t spec = {.name = name,
                                 .op = WEFT_STR("Const"),
                                 .device = n->requested_device,
                                 .controls = n->controls,
                                 .num_controls = n->num_controls,
                                 .attrs = attrs,
                                 .num_attrs = 2};
  weft_node_t *added = NULL;
  WEFT_RETURN_IF_ERROR(weft_graph_add(f->r->g, &spec, &added));
  added->assigned_device = n->assigned_device;
  *out = (weft_output_t){added, 0};
  return NULL;
}

/* Input `input` of `n`, which stays, is a folded value. */
static weft_status_t *read_folded(folder_t *f, weft_node_t *n, int input) {
  weft_node_t *from = n->inputs[input].node;
  const int output = n->inputs[input].index;
  weft_output_t constant = weft_pass_round_resolve(f->r, n->inputs[input]);
  f->is_read[from->id] = true;
  if (from->num_outputs == 1) return NULL;
  if (constant.node == from) {
    WEFT_RETURN_IF_ERROR(add_constant(f, from, output, &constant));
    WEFT_RETURN_IF_ERROR(weft_pass_round_forward(f->r, from, output, constant));
  }
  weft_graph_set_input(n, input, constant);
  return NULL;
}

static bool is_folded(const folder_t *f, const weft_node_t *n) {
  return n->id < f->r->num_ids && f->values[n->id] != NULL;
}

static weft_status_t *put_in_place(folder_t *f) {
  const weft_pass_round_t *r = f->r;
  for (int id = 0; id < r->num_ids; id++) {
    weft_node_t *n = r->g->nodes[id];
    if (n == NULL || is_folded(f, n)) continue;
    for (int i = 0; i < n->num_inputs; i++) {
      if (is_folded(f, n->inputs[i].node)) WEFT_RETURN_IF_ERROR(read_folded(f, n, i));
    }
  }
  for (int id = 0; id < r->num_ids; id++) {
    weft_node_t *n = r->g->nodes[id];
    if (n == NULL || !is_folded(f, n) || n->num_outputs != 1) continue;
    if (f->is_read[id] || f->has_waiters[id] || r->is_kept[id])
      WEFT_RETURN_IF_ERROR(weft_pass_round_become_constant(f->r, n, f->values[id][0]));
  }
  return NULL;
}

static void release_values(folder_t *f) {
  for (int id = 0; f->values != NULL && id < f->r->num_ids; id++) {
    const weft_node_t *n = f->r->g->nodes[id];
    for (int i = 0; f->values[id] != NULL && i < n->num_outputs; i++) weft_tensor_release(f->values[id][i]);
  }
}

weft_status_t *weft_pass_fold(weft_pass_round_t *r) {
  WEFT_RETURN_IF_ERROR(weft_pass_round_infer(r));
  const size_t n = (size_t)r->num_ids + 1;
  folder_t f = {.r = r, .values = weft_calloc(n, sizeof(*f.values))};
  uint8_t *bits = weft_calloc(n, 2);
  weft_status_t *s = NULL;
  if (f.values == NULL || bits == NULL) s = WEFT_NO_MEMORY("folding a graph of %d nodes", r->g->num_live);
  if (s == NULL) {
    f.has_waiters = bits;
    f.is_read = bits + n;
  }
  for (int id = 0; s == NULL && id < r->num_ids; id++) {
    const weft_node_t *each = r->g->nodes[id];
    for (int i = 0; each != NULL && i < each->num_controls; i++) f.has_waiters[each->controls[i]->id] = true;
  }
  for (int i = 0; s == NULL && i < r->num_ordered; i++) {
    if (weft_pass_round_has(r, r->order[i])) s = fold(&f, r->order[i]);
  }
  if (s == NULL) s = put_in_place(&f);
  release_values(&f);
  weft_free(f.values);
  weft_free(bits);
  return s;
}
