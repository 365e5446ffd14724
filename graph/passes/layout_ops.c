/* graph/passes/layout_ops.c - what of a node depends on the order of its tensors' dimensions. Source: the
 * tables of TensorFlow's generic layout optimizer (layout-sensitive and layout-agnostic ops), as far as an op
 * is common in models of images; elementwise ops are found by their property. */
#include "graph/passes/layout_ops.h"

enum {
  ALL = -1,  /* of inputs or outputs: all but the axes */
  LAST = -2, /* the axes are the last input */
  MOST_EDGES = 64
};

typedef struct layout_op {
  const char *op;
  int images, vectors, axes, outputs;
  bool has_format;
  int num_transposes;
} layout_op_t;

#define IN(i) (1 << (i))
#define NONE WEFT_LAYOUT_NO_AXES
#define WINDOW(op, images, vectors, outputs, n) \
  { op, images, vectors, NONE, outputs, true, n }
#define CHANNELS(op, images, outputs) \
  { op, images, 0, NONE, outputs, true, 0 }
#define ROWS(op, vectors) \
  { op, IN(0), vectors, NONE, ALL, false, 0 }
#define AXES(op, images, axes) \
  { op, images, 0, axes, ALL, false, 0 }

static const layout_op_t table[] = {
    AXES("All", IN(0), 1),
    AXES("Any", IN(0), 1),
    WINDOW("AvgPool", IN(0), 0, ALL, 2),
    WINDOW("AvgPoolGrad", IN(1), IN(0), ALL, 2),
    CHANNELS("BiasAdd", IN(0), ALL),
    CHANNELS("BiasAddGrad", IN(0), 0),
    AXES("Concat", ALL, 0),
    AXES("ConcatV2", ALL, LAST),
    WINDOW("Conv2D", IN(0), 0, ALL, 2),
    WINDOW("Conv2DBackpropFilter", IN(0) | IN(2), 0, 0, 2),
    WINDOW("Conv2DBackpropInput", IN(2), IN(0), ALL, 2),
    WINDOW("DepthwiseConv2dNative", IN(0), 0, ALL, 2),
    WINDOW("DepthwiseConv2dNativeBackpropFilter", IN(0) | IN(2), 0, 0, 2),
    WINDOW("DepthwiseConv2dNativeBackpropInput", IN(2), IN(0), ALL, 2),
    CHANNELS("FusedBatchNorm", IN(0), IN(0)),
    CHANNELS("FusedBatchNormGrad", IN(0) | IN(1), IN(0)),
    CHANNELS("FusedBatchNormGradV2", IN(0) | IN(1), IN(0)),
    CHANNELS("FusedBatchNormGradV3", IN(0) | IN(1), IN(0)),
    CHANNELS("FusedBatchNormV2", IN(0), IN(0)),
    CHANNELS("FusedBatchNormV3", IN(0), IN(0)),
    AXES("Max", IN(0), 1),
    WINDOW("MaxPool", IN(0), 0, ALL, 2),
    WINDOW("MaxPoolGrad", IN(0) | IN(1) | IN(2), 0, ALL, 4),
    AXES("Mean", IN(0), 1),
    AXES("Min", IN(0), 1),
    ROWS("MirrorPad", IN(1)),
    ROWS("Pad", IN(1)),
    ROWS("PadV2", IN(1)),
    AXES("Prod", IN(0), 1),
    AXES("ReverseV2", IN(0), 1),
    ROWS("Slice", IN(1) | IN(2)),
    AXES("Split", IN(1), 0),
    AXES("SplitV", IN(0), 2),
    AXES("Sum", IN(0), 1),
    ROWS("Tile", IN(1)),
};
enum { NUM_OPS = sizeof table / sizeof table[0], IMAGE_RANK = 4 };

struct weft_layout_ops {
  const weft_op_def_t *ops[NUM_OPS];
};

/* ---- permutations ---- */

weft_permutation_t weft_permutation_inverse(const weft_permutation_t *p) {
  weft_permutation_t inverse = {.rank = p->rank};
  for (int i = 0; i < p->rank; i++) inverse.of[p->of[i]] = i;
  return inverse;
}

bool weft_permutation_eq(const weft_permutation_t *a, const weft_permutation_t *b) {
  return a->rank == b->rank && memcmp(a->of, b->of, (size_t)a->rank * sizeof a->of[0]) == 0;
}

weft_permutation_t weft_permutation_of(weft_output_t of) {
  weft_permutation_t p;
  bool moves = false;
  p.rank = weft_pass_round_permutation(of, p.of);
  for (int i = 0; i < p.rank; i++) moves = moves || p.of[i] != i;
  if (!moves) p.rank = 0;
  return p;
}

weft_shape_t weft_permutation_apply(const weft_permutation_t *p, const weft_shape_t *shape) {
  weft_shape_t out = {.rank = p->rank};
  for (int i = 0; i < p->rank; i++) {
    const int at = i - (p->rank - shape->rank);
    out.dims[p->of[i]] = at < 0 ? 1 : shape->dims[at];
  }
  return out;
}

bool weft_permutation_only_reshapes(const weft_permutation_t *p, const weft_shape_t *shape) {
  int last = -1;
  if (shape->rank < 0 || shape->rank > p->rank) return false;
  for (int i = p->rank - shape->rank; i < p->rank; i++) {
    if (shape->dims[i - (p->rank - shape->rank)] == 1) continue;
    if (p->of[i] < last) return false;
    last = p->of[i];
  }
  return true;
}

/* Does `p` lead from channels first to channels last, or back? */
static bool is_of_channels(const weft_permutation_t *p) {
  bool to_first = p->rank >= 3, to_last = p->rank >= 3;
  for (int i = 1; i < p->rank; i++) {
    to_first = to_first && p->of[i] == (i == 1 ? p->rank - 1 : i - 1);
    to_last = to_last && p->of[i] == (i == p->rank - 1 ? 1 : i + 1);
  }
  return to_first || to_last;
}

/* ---- nodes ---- */

weft_status_t *weft_layout_ops_create(weft_arena_t *arena, const weft_layout_ops_t **out) {
  weft_layout_ops_t *ops = weft_arena_calloc(arena, 1, sizeof *ops);
  if (ops == NULL) return WEFT_NO_MEMORY("optimising layouts");
  for (int i = 0; i < NUM_OPS; i++) ops->ops[i] = weft_op_find(weft_str(table[i].op));
  *out = ops;
  return NULL;
}

static const layout_op_t *find(const weft_layout_ops_t *ops, const weft_op_def_t *op) {
  for (int i = 0; i < NUM_OPS; i++) {
    if (ops->ops[i] == op) return &table[i];
  }
  return NULL;
}

bool weft_layout_has_channels_first(const weft_layout_ops_t *ops, const weft_node_t *n) {
  const weft_attr_t *format = weft_node_attr(n, "data_format");
  if (format == NULL || format->kind != WEFT_ATTR_STRING || !weft_str_is(format->s, "NCHW")) return false;
  const layout_op_t *of = find(ops, n->op);
  return of != NULL && of->has_format && weft_pass_round_is_on_cpu(n);
}

static const weft_shape_t *output_shape(const weft_node_t *n, int i) {
  return weft_pass_round_shape((weft_output_t){(weft_node_t *)(uintptr_t)n, i});
}

static uint64_t all_but(int n, int but) {
  const uint64_t all = n == MOST_EDGES ? UINT64_MAX : (UINT64_C(1) << n) - 1;
  return but < 0 ? all : all & ~(UINT64_C(1) << but);
}

static bool have_rank(const weft_node_t *n, const weft_layout_node_t *d) {
  for (int i = 0; i < n->num_inputs; i++) {
    if ((d->images >> i & 1) != 0 && weft_pass_round_shape(n->inputs[i])->rank != d->rank) return false;
  }
  for (int i = 0; i < n->num_outputs; i++) {
    if ((d->outputs >> i & 1) != 0 && output_shape(n, i)->rank != d->rank) return false;
  }
  return true;
}

static bool describe_by(const layout_op_t *of, const weft_node_t *n, weft_layout_node_t *out) {
  const bool drops = of->axes == 1 && weft_node_attr(n, "keep_dims") != NULL;
  const int type = n->output_types[0];
  out->axes = of->axes == LAST ? n->num_inputs - 1 : of->axes;
  out->images = of->images == ALL ? all_but(n->num_inputs, out->axes) : (uint64_t)of->images;
  out->vectors = (uint64_t)of->vectors;
  out->outputs = of->outputs == ALL ? all_but(n->num_outputs, -1) : (uint64_t)of->outputs;
  out->has_format = of->has_format;
  out->num_transposes = of->num_transposes;
  out->drops_axes = drops && !weft_node_attr_bool(n, "keep_dims", false);
  out->sums = drops && (type == WEFT_F16 || type == WEFT_BF16 || type == WEFT_F32 || type == WEFT_F64 ||
                        type == WEFT_C64 || type == WEFT_C128);
  if (out->drops_axes) out->outputs = 0;
  for (int i = 0; i < n->num_inputs; i++) {
    if ((out->images >> i & 1) == 0) continue;
    out->rank = weft_pass_round_shape(n->inputs[i])->rank;
    break;
  }
  if (of->has_format && out->rank != IMAGE_RANK) return false;
  return out->rank > 1 && have_rank(n, out);
}

static bool is_one(const weft_shape_t *s) {
  for (int i = 0; i < s->rank; i++) {
    if (s->dims[i] != 1) return false;
  }
  return true;
}

/* All inputs are broadcast to the shape of the outputs. */
static bool describe_elementwise(const weft_node_t *n, weft_layout_node_t *out) {
  if (!weft_node_attr_bool(n, "incompatible_shape_error", true)) return false;
  out->axes = NONE;
  out->rank = output_shape(n, 0)->rank;
  out->outputs = all_but(n->num_outputs, -1);
  bool has_whole = false; /* an input of that rank */
  for (int i = 0; i < n->num_inputs; i++) {
    const weft_shape_t *s = weft_pass_round_shape(n->inputs[i]);
    if (s->rank < 0 || s->rank > out->rank) return false;
    if (s->rank < out->rank && !weft_shape_is_known(s)) return false;
    has_whole = has_whole || s->rank == out->rank;
    if (s->rank == out->rank || !is_one(s)) out->images |= UINT64_C(1) << i;
  }
  return has_whole && out->rank > 1 &&
         have_rank(n, &(weft_layout_node_t){out->rank, .outputs = out->outputs});
}

bool weft_layout_describe(const weft_layout_ops_t *ops, const weft_node_t *n, weft_layout_node_t *out) {
  *out = (weft_layout_node_t){0};
  if (n->num_inputs == 0 || n->num_inputs > MOST_EDGES || n->num_outputs > MOST_EDGES || n->num_outputs == 0)
    return false;
  if (weft_op_is_elementwise(n->op)) return describe_elementwise(n, out);
  const layout_op_t *of = find(ops, n->op);
  if (of == NULL || (of->has_format && !weft_layout_has_channels_first(ops, n))) return false;
  return describe_by(of, n, out);
}

int weft_layout_axes(weft_output_t of, int rank, int *out) {
  const weft_tensor_t *t = weft_pass_round_constant(of);
  if (t == NULL || t->shape.rank > 1 || t->count > WEFT_MAX_DIMS) return -1;
  if (t->dtype != WEFT_I32 && t->dtype != WEFT_I64) return -1;
  for (int i = 0; i < t->count; i++) {
    const int64_t a = t->dtype == WEFT_I32 ? ((const int32_t *)t->data)[i] : ((const int64_t *)t->data)[i];
    if (a < -rank || a >= rank) return -1; /* the step will say so */
    out[i] = (int)(a < 0 ? a + rank : a);
  }
  return (int)t->count;
}

/* A number or row for each dimension: else the step will say so. */
static bool are_rows(weft_output_t of, int rank) {
  const weft_tensor_t *t = weft_pass_round_constant(of);
  const weft_shape_t *s = t != NULL ? &t->shape : weft_pass_round_shape(of);
  return s->rank >= 1 && s->dims[0] == rank;
}

bool weft_layout_fits(const weft_node_t *n, const weft_layout_node_t *d, const weft_permutation_t *p) {
  static const weft_permutation_t to_channels_first = {IMAGE_RANK, {0, 3, 1, 2}};
  int axes[WEFT_MAX_DIMS];
  bool is_gone[WEFT_MAX_DIMS] = {false};
  if (d->rank != p->rank || (d->has_format && !weft_permutation_eq(p, &to_channels_first))) return false;
  if (d->sums && !is_of_channels(p)) return false;
  for (int i = 0; i < n->num_inputs; i++) {
    if ((d->vectors >> i & 1) != 0 && !are_rows(n->inputs[i], d->rank)) return false;
  }
  if (d->axes == NONE) return true;
  const int num = weft_layout_axes(n->inputs[d->axes], d->rank, axes);
  if (num < 0 || !d->drops_axes) return num >= 0;
  int last = -1;
  for (int i = 0; i < num; i++) is_gone[axes[i]] = true;
  for (int i = 0; i < d->rank; i++) { /* what is left keeps its order */
    if (is_gone[i]) continue;
    if (p->of[i] < last) return false;
    last = p->of[i];
  }
  return true;
}
