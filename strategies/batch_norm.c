/* strategies/batch_norm.c - fused batch normalisation as its formulas.
 *
 * x [B, ..., C] (or C at axis 1), statistics over all axes but C, in the type U of the statistics:
 *
 *   forward   c = x - mean(x)    y = c * rsqrt(mean(c^2) + epsilon) * scale + offset
 *   backward  h = (x - mean) * rsqrt(var + epsilon)    d_offset = sum(dy)    d_scale = sum(dy * h)
 *             dx = scale * rsqrt(var + epsilon) * (dy - mean(dy) - h * mean(dy * h))
 */
#include "strategies/batch_norm.h"

#include "base/alloc.h"
#include "graph/passes.h"
#include "strategies/emit.h"

enum { MAX_RESULTS = 6 };

/* One node that is taken apart. */
typedef struct norm {
  weft_emitter_t e;
  weft_node_t *n;
  int rank, channel;    /* of x; which axis is C */
  int type, statistics; /* T and U */
  weft_output_t axes;   /* all but C */
  weft_output_t along;  /* the shape that C has beside x: [1, C, 1, 1]; node NULL: C is last */
  weft_output_t epsilon;
} norm_t;

static weft_status_t *no_memory(void) { return WEFT_NO_MEMORY("taking batch normalisation apart"); }

#define NAME(k, what) "%.*s/" what, WEFT_STR_ARGS((k)->n->name)

static weft_output_t op1(norm_t *k, const char *op, weft_output_t a) {
  return weft_emit1(&k->e, op, a, "%.*s/expanded", WEFT_STR_ARGS(k->n->name));
}
static weft_output_t op2(norm_t *k, const char *op, weft_output_t a, weft_output_t b) {
  return weft_emit2(&k->e, op, a, b, "%.*s/expanded", WEFT_STR_ARGS(k->n->name));
}
static weft_output_t cast(norm_t *k, weft_output_t x, int type) {
  return weft_emit_cast(&k->e, x, type, "%.*s/cast", WEFT_STR_ARGS(k->n->name));
}
static weft_output_t number(norm_t *k, double value) {
  return weft_emit_number(&k->e, k->statistics, value, "%.*s/number", WEFT_STR_ARGS(k->n->name));
}

static weft_output_t reduce(norm_t *k, const char *op, weft_output_t x, bool keeps) {
  weft_output_t inputs[2] = {x, k->axes};
  weft_named_attr_t keep = weft_bool_attr("keep_dims", keeps);
  return weft_emit(&k->e, op, inputs, 2, &keep, 1, "%.*s/%s", WEFT_STR_ARGS(k->n->name), op);
}

/* A vector of C beside x, and back. */
static weft_output_t along_channel(norm_t *k, weft_output_t v) {
  return k->along.node == NULL ? v : op2(k, "Reshape", v, k->along);
}
static weft_output_t flat(norm_t *k, weft_output_t v) {
  int64_t all = -1;
  return op2(k, "Reshape", v, weft_emit_ints(&k->e, WEFT_I64, &all, 1, NAME(k, "flat")));
}

static int axis_of_channels(const weft_node_t *n, int rank) {
  weft_str_t format = weft_node_attr_string(n, "data_format");
  return weft_str_starts_with(format, "NC") ? 1 : rank - 1;
}

static void begin(norm_t *k) {
  int64_t axes[WEFT_MAX_DIMS], shape[WEFT_MAX_DIMS];
  int num_axes = 0;
  const weft_attr_t *epsilon = weft_node_attr(k->n, "epsilon");
  for (int i = 0; i < k->rank; i++) {
    shape[i] = i == k->channel ? -1 : 1;
    if (i != k->channel) axes[num_axes++] = i;
  }
  k->axes = weft_emit_ints(&k->e, WEFT_I64, axes, num_axes, NAME(k, "axes"));
  if (k->channel != k->rank - 1) k->along = weft_emit_ints(&k->e, WEFT_I64, shape, k->rank, NAME(k, "along"));
  k->epsilon = number(k, epsilon == NULL ? 1e-4 : (double)epsilon->f);
}

/* As much of what moving averages had before as the node says. */
static weft_output_t averaged(norm_t *k, weft_output_t before, weft_output_t now) {
  const weft_attr_t *factor = weft_node_attr(k->n, "exponential_avg_factor");
  if (factor == NULL || factor->f == 1.0f) return now;
  weft_output_t kept = op2(k, "Mul", before, number(k, 1.0 - (double)factor->f));
  return op2(k, "AddV2", kept, op2(k, "Mul", now, number(k, (double)factor->f)));
}

/* n / (n - 1), where n values of a channel were averaged. */
static weft_output_t unbiased(norm_t *k, weft_output_t x, int64_t channels) {
  weft_output_t count =
      op2(k, "RealDiv", cast(k, op1(k, "Size", x), k->statistics), number(k, (double)channels));
  weft_output_t less = op2(k, "Maximum", op2(k, "Sub", count, number(k, 1)), number(k, 1));
  return op2(k, "RealDiv", count, less);
}

static int expand_forward(norm_t *k, int64_t channels, weft_output_t *out) {
  const weft_output_t *in = k->n->inputs;
  weft_output_t x = cast(k, in[0], k->statistics), mean = reduce(k, "Mean", x, true);
  weft_output_t centered = op2(k, "Sub", x, mean),
                variance = reduce(k, "Mean", op1(k, "Square", centered), true);
  weft_output_t factor =
      op2(k, "Mul", op1(k, "Rsqrt", op2(k, "AddV2", variance, k->epsilon)), along_channel(k, in[1]));
  weft_output_t y = op2(k, "AddV2", op2(k, "Mul", centered, factor), along_channel(k, in[2]));
  weft_output_t flat_mean = flat(k, mean), flat_variance = flat(k, variance);
  out[0] = cast(k, y, k->type);
  out[1] = averaged(k, in[3], flat_mean);
  out[2] = averaged(k, in[4], op2(k, "Mul", flat_variance, unbiased(k, in[0], channels)));
  out[3] = flat_mean;
  out[4] = flat_variance;
  out[5] = number(k, 0);
  return k->n->num_outputs;
}

static int expand_backward(norm_t *k, weft_output_t *out) {
  const weft_output_t *in = k->n->inputs; /* dy, x, scale, mean, variance */
  weft_output_t dy = cast(k, in[0], k->statistics), x = cast(k, in[1], k->statistics);
  weft_output_t inverse = op1(k, "Rsqrt", op2(k, "AddV2", along_channel(k, in[4]), k->epsilon));
  weft_output_t h = op2(k, "Mul", op2(k, "Sub", x, along_channel(k, in[3])), inverse),
                dy_h = op2(k, "Mul", dy, h);
  weft_output_t rest = op2(k, "Sub", op2(k, "Sub", dy, reduce(k, "Mean", dy, true)),
                           op2(k, "Mul", h, reduce(k, "Mean", dy_h, true)));
  out[0] = cast(k, op2(k, "Mul", op2(k, "Mul", along_channel(k, in[2]), inverse), rest), k->type);
  out[1] = reduce(k, "Sum", dy_h, false);
  out[2] = reduce(k, "Sum", dy, false);
  out[3] = out[4] = number(k, 0);
  return k->n->num_outputs;
}

/* Gives n's name and consumers to the results. */
static weft_status_t *replace(weft_graph_t *g, norm_t *k, weft_output_t *results, int num) {
  weft_node_t *n = k->n, *named = NULL;
  weft_str_t name = n->name, other = weft_graph_unique_name(g, WEFT_STR("expanded"));
  if (other.data == NULL) return no_memory();
  WEFT_RETURN_IF_ERROR(weft_graph_rename(g, n, other));
  weft_node_spec_t spec = {.name = name,
                           .op = WEFT_STR("IdentityN"),
                           .device = n->requested_device,
                           .inputs = results,
                           .num_inputs = num,
                           .controls = n->controls,
                           .num_controls = n->num_controls};
  WEFT_RETURN_IF_ERROR(weft_graph_add(g, &spec, &named));
  for (int id = 0; id < g->num_nodes; id++) {
    weft_node_t *user = g->nodes[id];
    if (user == NULL || user == named) continue;
    for (int i = 0; i < user->num_inputs; i++) {
      if (user->inputs[i].node == n) weft_graph_set_input(user, i, results[user->inputs[i].index]);
    }
    int control = -1;
    WEFT_RETURN_IF_ERROR(weft_graph_find_control(g, user, n, &control));
    if (control >= 0) WEFT_RETURN_IF_ERROR(weft_graph_replace_control(g, user, control, named));
  }
  return NULL;
}

static weft_status_t *expand(weft_graph_t *g, weft_node_t *n, bool *out_done) {
  bool is_backward = (n->flags & WEFT_OP_BATCH_NORM_GRAD) != 0;
  weft_output_t x = n->inputs[is_backward ? 1 : 0], results[MAX_RESULTS] = {{NULL, 0}};
  weft_shape_t shape = weft_static_shape_of(x);
  *out_done = false;
  if (shape.rank < 2) return NULL;
  norm_t k = {
      .e = {.g = g, .device = n->requested_device}, .n = n, .rank = shape.rank, .type = weft_base_type_of(x)};
  k.channel = axis_of_channels(n, shape.rank);
  k.statistics = weft_base_type_of(n->inputs[is_backward ? 2 : 1]);
  if (shape.dims[k.channel] < 1) return NULL;
  begin(&k);
  int num = is_backward ? expand_backward(&k, results) : expand_forward(&k, shape.dims[k.channel], results);
  weft_status_t *s = weft_emitter_end(&k.e);
  if (s == NULL) s = replace(g, &k, results, num);
  *out_done = s == NULL;
  return s;
}

static bool is_batch_norm(const weft_node_t *n) {
  return (n->flags & (WEFT_OP_BATCH_NORM | WEFT_OP_BATCH_NORM_GRAD)) != 0 &&
         weft_node_attr_bool(n, "is_training", true);
}

weft_status_t *weft_expand_batch_norms(weft_graph_t *g, int *out_replaced) {
  weft_arena_t arena = WEFT_ARENA_INIT;
  weft_frames_t frames = {0};
  int num_nodes = g->num_nodes, found = 0;
  *out_replaced = 0;
  for (int id = 0; id < num_nodes; id++) found += g->nodes[id] != NULL && is_batch_norm(g->nodes[id]);
  weft_status_t *s = found == 0 ? NULL : weft_pass_find_frames(g, &arena, &frames);
  for (int id = 0; id < num_nodes && s == NULL && found > 0; id++) {
    bool done = false;
    if (g->nodes[id] == NULL || !is_batch_norm(g->nodes[id]) || frames.frame_of[id] != 0) continue;
    s = expand(g, g->nodes[id], &done);
    *out_replaced += done;
  }
  weft_arena_deinit(&arena);
  return s;
}
