#include "tests/sharding/data_replicas.h"

#include <math.h>
#include <stdio.h>

#include "base/alloc.h"
#include "graph/graph_proto.h"
#include "graph/passes.h"
#include "sharding/data/plan.h"
#include "strategies/copy.h"
#include "strategies/draw_rows.h"
#include "tensorflow/c/c_api.h"
#include "tests/runner.h"

enum { MAX_BYTES = 1 << 20, MAX_ROOTS = 16, MAX_FEEDS = 16 };

typedef struct world {
  const weft_data_case_t *c;
  weft_graph_t *from, *to;
  weft_data_plan_t plan;
  weft_copier_t one, copies[MAX_SHARES];
  int n, batch;
  bool *checked;     /* by node id: does not depend on an update */
  bool *may_be_dead; /* by node id: in a branch */
  weft_frames_t frames;
  weft_arena_t arena;
  TF_Graph *graph;
  TF_Session *session;
  TF_Status *status;
} world_t;

static void ok(weft_status_t *s) {
  if (s != NULL) printf("\n    %s\n", weft_status_message(s));
  CU_ASSERT_PTR_NULL_FATAL(s);
}

weft_graph_t *weft_data_test_graph(const char *name) {
  static char bytes[MAX_BYTES];
  char path[256];
  (void)snprintf(path, sizeof path, "tests/sharding/testdata/data/%s.pb", name);
  FILE *f = fopen(path, "rb");
  CU_ASSERT_PTR_NOT_NULL_FATAL(f);
  size_t n = fread(bytes, 1, sizeof bytes, f);
  (void)fclose(f);
  weft_graph_t *g = NULL;
  const weft_import_options_t options = {0};
  ok(weft_graph_create(&g));
  ok(weft_graph_import(g, weft_str_of(bytes, n), &options));
  ok(weft_pass_lower_functions(g, 0));
  ok(weft_pass_infer_shapes(g));
  return g;
}

/* ---- small nodes ---- */

static weft_output_t add(world_t *w, const char *op, const weft_output_t *inputs, int n,
                         const weft_named_attr_t *attrs, int num_attrs) {
  weft_node_spec_t spec = {.name = weft_graph_unique_name(w->to, WEFT_STR("between/node")),
                           .op = weft_str(op),
                           .inputs = inputs,
                           .num_inputs = n,
                           .attrs = attrs,
                           .num_attrs = num_attrs};
  weft_node_t *node = NULL;
  ok(weft_graph_add(w->to, &spec, &node));
  return (weft_output_t){node, 0};
}
static weft_output_t add2(world_t *w, const char *op, weft_output_t a, weft_output_t b) {
  const weft_output_t inputs[2] = {a, b};
  return add(w, op, inputs, 2, NULL, 0);
}
static weft_output_t constant(world_t *w, weft_tensor_t *t) {
  const weft_named_attr_t attrs[2] = {{WEFT_STR("dtype"), {.kind = WEFT_ATTR_TYPE, .type = (int)t->dtype}},
                                      {WEFT_STR("value"), {.kind = WEFT_ATTR_TENSOR, .tensor = t}}};
  weft_output_t out = add(w, "Const", NULL, 0, attrs, 2);
  weft_tensor_release(t);
  return out;
}
static weft_output_t ints(world_t *w, const int32_t *values, int n, bool is_scalar) {
  weft_tensor_t *t = NULL;
  weft_shape_t shape = is_scalar ? WEFT_SCALAR : weft_shape_vector(n);
  ok(weft_tensor_new(WEFT_I32, &shape, NULL, &t));
  if (n > 0) memcpy(t->data, values, (size_t)n * sizeof *values);
  return constant(w, t);
}
static weft_output_t cast(world_t *w, weft_output_t v, int type) {
  const weft_named_attr_t to = {WEFT_STR("DstT"), {.kind = WEFT_ATTR_TYPE, .type = type}};
  return add(w, "Cast", &v, 1, &to, 1);
}
static weft_output_t number(world_t *w, double value, int type) {
  weft_tensor_t *t = NULL;
  ok(weft_tensor_scalar(WEFT_F64, &value, &t));
  weft_output_t v = constant(w, t);
  return type == WEFT_F64 ? v : cast(w, v, type);
}
static double share(const world_t *w, int i) { return (double)w->c->shares[i] / w->batch; }
static int start(const world_t *w, int i) {
  int rows = 0;
  for (int k = 0; k < i; k++) rows += w->c->shares[k];
  return rows;
}
static weft_output_t scaled(world_t *w, weft_output_t v, int i, int by) {
  if (by == 0) return v;
  int type = v.node->output_types[v.index] % WEFT_REF;
  return add2(w, "Mul", v, number(w, pow(share(w, i), by), type));
}

/* ---- communication ---- */

static weft_output_t of_all(world_t *w, const char *op, const weft_output_t *each, int n, int axis) {
  if (n == 1) return each[0];
  if (strcmp(op, "ConcatV2") != 0) {
    const weft_named_attr_t count = {WEFT_STR("N"), {.kind = WEFT_ATTR_INT, .i = n}};
    return add(w, op, each, n, &count, 1);
  }
  weft_output_t inputs[MAX_SHARES + 1];
  memcpy(inputs, each, (size_t)n * sizeof *each);
  inputs[n] = ints(w, &(int32_t){axis}, 1, true);
  const weft_named_attr_t count = {WEFT_STR("N"), {.kind = WEFT_ATTR_INT, .i = n}};
  return add(w, op, inputs, n + 1, &count, 1);
}

/* The true value of `of`, from all copies of it. */
static weft_output_t true_value(world_t *w, weft_output_t of, const weft_axis_sharding_t *s) {
  weft_output_t each[MAX_SHARES];
  for (int i = 0; i < w->n; i++) {
    each[i] = weft_copier_output(&w->copies[i], of);
    if (s->kind != WEFT_SHARDING_SINGLE && each[i].node != NULL) each[i] = scaled(w, each[i], i, s->degree);
  }
  switch (s->kind) {
    case WEFT_SHARDING_PARTIAL: return of_all(w, "AddN", each, w->n, 0);
    case WEFT_SHARDING_SHARD: return of_all(w, "ConcatV2", each, w->n, s->dim);
    case WEFT_SHARDING_COUNTS: {
      int type = of.node->output_types[of.index], n = s->count < 0 ? 1 : s->count;
      int32_t rows[64], others[64];
      for (int k = 0; k < n; k++) {
        rows[k] = (int32_t)(s->rows >> k & 1);
        others[k] = 1 - rows[k];
      }
      weft_output_t mask = cast(w, ints(w, rows, n, s->count < 0), type),
                    rest = cast(w, ints(w, others, n, s->count < 0), type);
      return add2(w, "AddV2", add2(w, "Mul", of_all(w, "AddN", each, w->n, 0), mask),
                  add2(w, "Mul", each[0], rest));
    }
    default: return each[0];
  }
}

/* Rows of the true value `v` that replica i has; for any rank. */
static weft_output_t rows_of(world_t *w, weft_output_t v, int i, int axis) {
  const int32_t zero = 0, one = 1, share_of_i = w->c->shares[i], first = start(w, i);
  weft_output_t shape = add(w, "Shape", &v, 1, NULL, 0);
  const weft_output_t gather[3] = {shape, ints(w, &axis, 1, true), ints(w, &zero, 1, true)};
  const weft_output_t one_hot[4] = {ints(w, &axis, 1, true), add(w, "Rank", &v, 1, NULL, 0),
                                    ints(w, &one, 1, true), ints(w, &zero, 1, true)};
  weft_output_t dim = add(w, "GatherV2", gather, 3, NULL, 0), at = add(w, "OneHot", one_hot, 4, NULL, 0);
  weft_output_t batch = ints(w, &w->batch, 1, true);
  weft_output_t begin = add2(w, "FloorDiv", add2(w, "Mul", dim, ints(w, &first, 1, true)), batch);
  weft_output_t size = add2(w, "FloorDiv", add2(w, "Mul", dim, ints(w, &share_of_i, 1, true)), batch);
  weft_output_t others = add2(w, "Sub", dim, size);
  const weft_output_t slice[3] = {v, add2(w, "Mul", begin, at),
                                  add2(w, "Sub", shape, add2(w, "Mul", others, at))};
  return add(w, "Slice", slice, 3, NULL, 0);
}

/* `of` as replica i wants it. */
static weft_output_t given(world_t *w, weft_output_t of, const weft_axis_sharding_t *is,
                           const weft_axis_sharding_t *required, int i) {
  weft_output_t mine = weft_copier_output(&w->copies[i], of);
  bool is_alike = is->kind == required->kind && is->degree == required->degree && is->dim == required->dim;
  if (is_alike || is->kind == WEFT_SHARDING_LOCAL) return mine;
  if (is->kind == required->kind && is->kind != WEFT_SHARDING_COUNTS &&
      (is->kind != WEFT_SHARDING_SHARD || is->dim == required->dim)) {
    return scaled(w, mine, i, is->degree - required->degree);
  }
  weft_output_t whole = true_value(w, of, is);
  if (required->kind == WEFT_SHARDING_SHARD) {
    return scaled(w, rows_of(w, whole, i, required->dim), i, -required->degree);
  }
  return required->kind == WEFT_SHARDING_REPLICATE ? scaled(w, whole, i, -required->degree) : whole;
}

/* ---- the graph ---- */

/* What draws the rows of replica i. */
static weft_node_t *draw_for(world_t *w, weft_copier_t *to, const weft_node_t *n, const char *prefix,
                             int replica) {
  char name[512];
  weft_output_t inputs[16];
  weft_node_t *controls[16], *copy = NULL;
  weft_tensor_t *rows = NULL;
  const weft_shape_t three = weft_shape_vector(3);
  CU_ASSERT_FATAL(n->num_inputs < 16 && n->num_controls <= 16);
  ok(weft_tensor_new(WEFT_I64, &three, NULL, &rows));
  const int64_t place[3] = {start(w, replica), w->c->shares[replica], w->batch};
  memcpy(rows->data, place, sizeof place);
  (void)snprintf(name, sizeof name, "%s%.*s", prefix, WEFT_STR_ARGS(n->name));
  for (int i = 0; i < n->num_inputs; i++) inputs[i] = weft_copier_output(to, n->inputs[i]);
  inputs[n->num_inputs] = constant(w, rows);
  for (int i = 0; i < n->num_controls; i++) controls[i] = to->nodes[n->controls[i]->id];
  weft_node_spec_t spec = {.name = weft_str(name),
                           .inputs = inputs,
                           .num_inputs = n->num_inputs + 1,
                           .controls = controls,
                           .num_controls = n->num_controls};
  ok(weft_draw_rows_add(w->to, n, &w->plan.draws[n->id], &spec, &copy));
  ok(weft_copier_set_node(to, n, copy));
  return copy;
}

static weft_output_t dims_of(world_t *w, uint32_t bits, int type) {
  int64_t dims[WEFT_DATA_DIMS];
  int32_t axes[WEFT_DATA_DIMS];
  const int count = weft_data_list_dims(bits, dims);
  for (int i = 0; i < count; i++) axes[i] = (int32_t)dims[i];
  return cast(w, ints(w, axes, count, false), type);
}

/* The dims of a Squeeze, or the axes of a reduction. */
static void name_dims(world_t *w, const weft_node_t *n, weft_node_t *copy) {
  const weft_data_named_t *told = &w->plan.named[n->id];
  if (n->num_inputs == 1) {
    int64_t dims[WEFT_DATA_DIMS];
    const weft_attr_t named = {.kind = WEFT_ATTR_INT,
                               .is_list = true,
                               .n = weft_data_list_dims(told->dims, dims),
                               .list = {.ints = dims}};
    if (told->is_named) ok(weft_graph_set_attr(w->to, copy, "squeeze_dims", &named));
    return;
  }
  if (!told->is_named && (told->dims | told->kept) == 0) return;
  int num_nodes = w->to->num_nodes;
  weft_output_t named = dims_of(w, told->dims, n->input_types[1]);
  if (!told->is_named) {
    const weft_output_t both[2] = {
        named, add2(w, "ListDiff", copy->inputs[1], dims_of(w, told->dims | told->kept, n->input_types[1]))};
    named = of_all(w, "ConcatV2", both, 2, 0);
  }
  for (int id = num_nodes; id < w->to->num_nodes; id++) { /* into its frame */
    weft_node_t *made = w->to->nodes[id];
    if (made->num_inputs == 0) ok(weft_graph_add_control(w->to, copy->inputs[0].node, made));
  }
  weft_graph_set_input(copy, 1, named);
}

static void copy_for(world_t *w, weft_copier_t *to, const weft_node_t *n, const char *prefix, int replica) {
  weft_output_t before[64], now[64] = {{NULL, 0}};
  CU_ASSERT_FATAL(n->num_inputs <= 64);
  for (int k = 0; k < n->num_inputs; k++) {
    before[k] = weft_copier_output(to, n->inputs[k]);
    if (replica < 0 || before[k].node == NULL) {
      bool is_missing = replica > 0 && before[k].node == NULL &&
                        (n->inputs[k].node->op->flags & WEFT_OP_NEXT_ITERATION) == 0;
      if (!is_missing) continue;
    }
    const weft_axis_sharding_t *is = &w->plan.outputs[n->inputs[k].node->id][n->inputs[k].index];
    weft_output_t v = given(w, n->inputs[k], is, &w->plan.required[n->id][k], replica);
    now[k] = v;
    if (before[k].node == NULL) ok(weft_copier_set(to, n->inputs[k], v));
  }
  weft_node_t *copy = NULL;
  if (replica >= 0 && w->plan.draws[n->id].kind == WEFT_DRAW_SHARD) {
    copy = draw_for(w, to, n, prefix, replica);
  } else {
    ok(weft_copier_copy(to, n, &copy));
  }
  for (int k = 0; k < n->num_inputs; k++) {
    if (now[k].node != NULL) weft_graph_set_input(copy, k, now[k]);
  }
  if (replica >= 0) name_dims(w, n, copy);
  const weft_attr_t *shared = weft_node_attr(copy, "shared_name");
  if ((n->op->flags & WEFT_OP_VARIABLE) != 0 && shared != NULL) {
    char name[256];
    (void)snprintf(name, sizeof name, "%s%.*s", prefix, WEFT_STR_ARGS(n->name));
    const weft_attr_t own = {.kind = WEFT_ATTR_STRING, .s = weft_str(name)};
    ok(weft_graph_set_attr(w->to, copy, "shared_name", &own));
  }
}

static void copy_all(world_t *w) {
  static const char *const prefixes[] = {"r0/", "r1/", "r2/", "r3/"};
  weft_node_t **order = NULL;
  ok(weft_graph_topological_order(w->from, &order));
  ok(weft_copier_new_graph(w->from, &w->to));
  ok(weft_copier_init(&w->one, w->from, w->to, WEFT_STR("one/"), WEFT_STR("")));
  w->one.drops_colocation = true;
  for (int i = 0; i < w->n; i++) {
    ok(weft_copier_init(&w->copies[i], w->from, w->to, weft_str(prefixes[i]), WEFT_STR("")));
    w->copies[i].drops_colocation = true;
  }
  for (int k = 0; k < w->from->num_live; k++) {
    const weft_node_t *n = order[k];
    if (w->plan.run[n->id] == WEFT_RUN_NOT) continue;
    copy_for(w, &w->one, n, "one/", -1);
    for (int i = 0; i < w->n; i++) {
      if (w->plan.run[n->id] == WEFT_RUN_SINGLE && i > 0) {
        ok(weft_copier_set_node(&w->copies[i], n, w->copies[0].nodes[n->id])); /* for control edges */
      } else {
        copy_for(w, &w->copies[i], n, prefixes[i], i);
      }
    }
  }
  ok(weft_copier_finish(&w->one));
  for (int i = 0; i < w->n; i++) ok(weft_copier_finish(&w->copies[i]));
  /* which values are the same before and after updates */
  bool has_loops = false;
  w->checked = weft_arena_calloc(&w->arena, (size_t)w->from->num_nodes, sizeof *w->checked);
  w->may_be_dead = weft_arena_calloc(&w->arena, (size_t)w->from->num_nodes, sizeof *w->may_be_dead);
  for (int k = 0; k < w->from->num_live; k++) has_loops |= (order[k]->op->flags & WEFT_OP_ENTER) != 0;
  if (has_loops) ok(weft_pass_find_frames(w->from, &w->arena, &w->frames));
  for (int k = 0; k < w->from->num_live; k++) {
    const weft_node_t *n = order[k];
    bool is_checked =
        (n->op->flags & (WEFT_OP_UPDATE | WEFT_OP_NEXT_ITERATION)) == 0 &&
        w->plan.run[n->id] != WEFT_RUN_NOT &&
        (w->plan.draws[n->id].kind == WEFT_DRAW_NONE || !weft_draws_from_stream(n) || weft_has_seed(n));
    for (int i = 0; i < n->num_inputs && is_checked; i++) {
      if ((n->inputs[i].node->op->flags & WEFT_OP_NEXT_ITERATION) == 0)
        is_checked = w->checked[n->inputs[i].node->id];
    }
    for (int i = 0; i < n->num_controls && is_checked; i++) is_checked = w->checked[n->controls[i]->id];
    w->checked[n->id] = is_checked;
    bool is_dead = (n->op->flags & WEFT_OP_SWITCH) != 0;
    for (int i = 0; i < n->num_inputs; i++) is_dead = is_dead || w->may_be_dead[n->inputs[i].node->id];
    for (int i = 0; i < n->num_controls; i++) is_dead = is_dead || w->may_be_dead[n->controls[i]->id];
    w->may_be_dead[n->id] = is_dead && (n->op->flags & (WEFT_OP_MERGE | WEFT_OP_EXIT)) == 0;
  }
  weft_free(order);
}

static bool is_comparable(const world_t *w, const weft_node_t *n, int o) {
  int type = n->output_types[o];
  bool is_number =
      type == WEFT_F32 || type == WEFT_F64 || type == WEFT_I32 || type == WEFT_I64 || type == WEFT_BOOL;
  bool in_loop = w->frames.frame_of != NULL && w->frames.frame_of[n->id] != 0;
  bool is_switch = w->may_be_dead[n->id] || ((n->op->flags & WEFT_OP_MERGE) != 0 && o > 0);
  weft_sharding_kind_t kind = w->plan.outputs[n->id][o].kind;
  if ((n->op->flags & WEFT_OP_PLACEHOLDER) != 0) return false; /* fed */
  /* where a replica has one row, axes of 1 are summed over, too, which changes nothing but the shape */
  if (weft_str_is(n->op->name, "BroadcastGradientArgs")) return false;
  for (int i = 0; i < n->num_inputs; i++) {
    if (weft_str_is(n->inputs[i].node->op->name, "BroadcastGradientArgs")) return false;
  }
  return w->checked[n->id] && is_number && !in_loop && !is_switch && kind != WEFT_SHARDING_LOCAL;
}

/* ---- running ---- */

static TF_Output in_session(world_t *w, weft_output_t v) {
  char name[512];
  (void)snprintf(name, sizeof name, "%.*s", WEFT_STR_ARGS(v.node->name));
  TF_Output out = {TF_GraphOperationByName(w->graph, name), v.index};
  CU_ASSERT_PTR_NOT_NULL_FATAL(out.oper);
  return out;
}

static void open_session(world_t *w) {
  weft_strbuf_t def = WEFT_STRBUF_INIT;
  ok(weft_graph_export(w->to, false, &def));
  w->status = TF_NewStatus();
  w->graph = TF_NewGraph();
  TF_Buffer *bytes = TF_NewBufferFromString(def.data, def.length);
  TF_ImportGraphDefOptions *options = TF_NewImportGraphDefOptions();
  TF_GraphImportGraphDef(w->graph, bytes, options, w->status);
  if (TF_GetCode(w->status) != TF_OK) printf("\n    %s\n", TF_Message(w->status));
  CU_ASSERT_FATAL(TF_GetCode(w->status) == TF_OK);
  TF_DeleteImportGraphDefOptions(options);
  TF_DeleteBuffer(bytes);
  weft_strbuf_deinit(&def);
  TF_SessionOptions *session = TF_NewSessionOptions();
  w->session = TF_NewSession(w->graph, session, w->status);
  CU_ASSERT_FATAL(TF_GetCode(w->status) == TF_OK);
  TF_DeleteSessionOptions(session);
}

static uint64_t next_random(uint64_t *state) {
  *state = *state * 6364136223846793005u + 1442695040888963407u;
  return *state >> 33;
}

/* A value for rows [first, first + rows) of a placeholder; the same element has the same number in every
 * slicing. */
static TF_Tensor *feed(const weft_node_t *n, int first, int rows, int step) {
  const weft_shape_t *shape = &n->output_shapes[0];
  int64_t dims[WEFT_MAX_DIMS], per_row = 1;
  int rank = shape->rank < 0 ? 0 : shape->rank;
  bool is_batch = rows > 0;
  for (int i = 0; i < rank; i++) {
    dims[i] = i == 0 && is_batch ? rows : shape->dims[i] >= 0 ? shape->dims[i] : 5;
    if (i > 0 || !is_batch) per_row *= dims[i];
  }
  int64_t count = is_batch ? per_row * rows : per_row;
  TF_DataType type = (TF_DataType)n->output_types[0];
  TF_Tensor *t = TF_AllocateTensor(type, dims, rank, (size_t)count * TF_DataTypeSize(type));
  for (int64_t i = 0; i < count; i++) {
    uint64_t state = (uint64_t)(i + (is_batch ? first * per_row : 0)) * 7919 + (uint64_t)step * 104729 +
                     weft_str_hash(n->name) % 1000;
    for (int k = 0; k < 3; k++) (void)next_random(&state);
    double u = (double)(next_random(&state) % 100000) / 50000 - 1;
    void *data = TF_TensorData(t);
    if (type == TF_FLOAT) ((float *)data)[i] = (float)u;
    if (type == TF_DOUBLE) ((double *)data)[i] = u;
    if (type == TF_INT32) ((int32_t *)data)[i] = (int32_t)(next_random(&state) % 3);
    if (type == TF_INT64) ((int64_t *)data)[i] = (int64_t)(next_random(&state) % 3);
    if (type == TF_BOOL) ((unsigned char *)data)[i] = next_random(&state) % 2;
  }
  return t;
}

static double element(const TF_Tensor *t, int64_t i) {
  const void *data = TF_TensorData(t);
  switch (TF_TensorType(t)) {
    case TF_FLOAT: return ((const float *)data)[i];
    case TF_DOUBLE: return ((const double *)data)[i];
    case TF_INT32: return ((const int32_t *)data)[i];
    case TF_INT64: return (double)((const int64_t *)data)[i];
    default: return ((const unsigned char *)data)[i];
  }
}

/* Runs targets and fetches, all fed. False on failure, which it prints. */
static bool run(world_t *w, int step, const TF_Output *fetches, TF_Tensor **out, int num_fetches,
                const TF_Operation *const *targets, int num_targets) {
  TF_Output feeds[MAX_FEEDS * (MAX_SHARES + 1)] = {{NULL, 0}};
  TF_Tensor *values[MAX_FEEDS * (MAX_SHARES + 1)] = {NULL};
  int n = 0;
  for (int id = 0; id < w->from->num_nodes; id++) {
    const weft_node_t *p = w->from->nodes[id];
    if (p == NULL || (p->op->flags & WEFT_OP_PLACEHOLDER) == 0 || w->plan.run[id] == WEFT_RUN_NOT) continue;
    bool is_batch = w->plan.outputs[id][0].kind == WEFT_SHARDING_SHARD;
    for (int i = -1; i < w->n; i++) {
      weft_copier_t *of = i < 0 ? &w->one : &w->copies[i];
      feeds[n] = in_session(w, weft_copier_output(of, (weft_output_t){(weft_node_t *)p, 0}));
      int rows = !is_batch ? 0 : i < 0 ? w->batch : w->c->shares[i];
      values[n++] = feed(p, i < 0 ? 0 : start(w, i), rows, step);
    }
  }
  TF_SessionRun(w->session, NULL, feeds, values, n, fetches, out, num_fetches, targets, num_targets, NULL,
                w->status);
  for (int i = 0; i < n; i++) TF_DeleteTensor(values[i]);
  if (TF_GetCode(w->status) != TF_OK) printf("\n    %s: %s\n", w->c->name, TF_Message(w->status));
  CU_ASSERT(TF_GetCode(w->status) == TF_OK);
  return TF_GetCode(w->status) == TF_OK;
}

/* Does `got` (of replicas) amount to `want`? */
static bool amounts(const world_t *w, const weft_axis_sharding_t *s, const TF_Tensor *want,
                    TF_Tensor *const *got) {
  int64_t count = TF_TensorElementCount(want);
  double largest = 2e-2, /* sums that cancel out have the noise of their terms */
      tolerance = w->c->tolerance;
  if (TF_TensorType(want) == TF_FLOAT && tolerance < 1e-5) tolerance = 1e-5;
  for (int64_t i = 0; i < count; i++) largest = fmax(largest, fabs(element(want, i)));
  int axis = s->kind == WEFT_SHARDING_SHARD ? s->dim : 0;
  int64_t after = 1, dim = 1;
  if (s->kind == WEFT_SHARDING_SHARD) {
    if (axis >= TF_NumDims(want)) return false;
    for (int d = axis + 1; d < TF_NumDims(want); d++) after *= TF_Dim(want, d);
    dim = TF_Dim(want, axis);
    int64_t sum = 0;
    for (int r = 0; r < w->n; r++) sum += TF_NumDims(got[r]) > axis ? TF_Dim(got[r], axis) : 0;
    if (sum != dim) return false;
  } else {
    for (int r = 0; r < (s->kind == WEFT_SHARDING_SINGLE ? 1 : w->n); r++) {
      if (TF_TensorElementCount(got[r]) != count) return false;
    }
  }
  for (int64_t i = 0; i < count; i++) {
    double t = element(want, i), sum = 0;
    for (int r = 0; r < w->n; r++) {
      double factor = pow(share(w, r), s->degree);
      switch (s->kind) {
        case WEFT_SHARDING_PARTIAL: sum += element(got[r], i) * factor; break;
        case WEFT_SHARDING_REPLICATE:
          sum = element(got[r], i) * factor;
          if (!(fabs(sum - t) <= tolerance * largest)) return isnan(t) && isnan(sum);
          break;
        case WEFT_SHARDING_SINGLE:
          if (r == 0) sum = element(got[0], i);
          break;
        case WEFT_SHARDING_COUNTS:
          if ((s->rows >> i & 1) != 0) {
            sum += element(got[r], i);
          } else {
            if (element(got[r], i) != t) return false;
            sum = t;
          }
          break;
        default: { /* rows: which replica has it? */
          int64_t at = i / after % dim, first = 0, k = 0;
          while (k < w->n - 1 && at >= first + TF_Dim(got[k], axis)) first += TF_Dim(got[k++], axis);
          int64_t mine = TF_Dim(got[k], axis);
          if (mine * w->batch != dim * w->c->shares[k]) return false;
          sum = element(got[k], (i / after / dim * mine + at - first) * after + i % after) *
                pow(share(w, (int)k), s->degree);
          break;
        }
      }
    }
    if (!(fabs(sum - t) <= tolerance * largest) && !(isnan(t) && isnan(sum))) return false;
  }
  return true;
}

static int compare_values(world_t *w, int step) {
  enum { MAX_FETCHES = 8192 };
  TF_Output *fetches = weft_calloc(MAX_FETCHES, sizeof *fetches);
  TF_Tensor **got = weft_calloc(MAX_FETCHES, sizeof *got);
  weft_output_t *of = weft_calloc(MAX_FETCHES, sizeof *of);
  int n = 0, compared = 0;
  for (int id = 0; id < w->from->num_nodes; id++) {
    weft_node_t *node = w->from->nodes[id];
    if (node == NULL || w->plan.run[id] == WEFT_RUN_NOT) continue;
    for (int o = 0; o < node->num_outputs; o++) {
      if (!is_comparable(w, node, o) || n + w->n + 1 > MAX_FETCHES) continue;
      of[n] = (weft_output_t){node, o};
      fetches[n] = in_session(w, weft_copier_output(&w->one, of[n]));
      n++;
      bool is_once = w->plan.outputs[id][o].kind == WEFT_SHARDING_SINGLE;
      for (int i = 0; i < w->n; i++) {
        of[n] = (weft_output_t){NULL, 0};
        fetches[n++] =
            in_session(w, weft_copier_output(&w->copies[is_once ? 0 : i], (weft_output_t){node, o}));
      }
    }
  }
  if (n > 0 && run(w, step, fetches, got, n, NULL, 0)) {
    for (int i = 0; i < n; i += w->n + 1) {
      const weft_axis_sharding_t *s = &w->plan.outputs[of[i].node->id][of[i].index];
      compared++;
      if (amounts(w, s, got[i], got + i + 1)) continue;
      weft_strbuf_t text = WEFT_STRBUF_INIT;
      weft_axis_sharding_print(s, &text);
      printf("\n    %s: '%.*s:%d' (%.*s) is not %s", w->c->name, WEFT_STR_ARGS(of[i].node->name), of[i].index,
             WEFT_STR_ARGS(of[i].node->op->name), text.data);
      weft_strbuf_deinit(&text);
      CU_FAIL("a value is not sharded as the plan says");
    }
    for (int i = 0; i < n; i++) TF_DeleteTensor(got[i]);
  }
  weft_free(fetches);
  weft_free(got);
  weft_free(of);
  return compared;
}

static TF_Operation *operation(world_t *w, const weft_copier_t *of, const char *name) {
  weft_node_t *n = weft_graph_find(w->from, weft_str(name));
  CU_ASSERT_PTR_NOT_NULL_FATAL(n);
  return in_session(w, (weft_output_t){of->nodes[n->id], 0}).oper;
}

static void train(world_t *w, int step) {
  const TF_Operation *targets[MAX_ROOTS * (MAX_SHARES + 1)];
  int n = 0;
  for (int k = 0; w->c->roots[k] != NULL; k++) {
    targets[n++] = operation(w, &w->one, w->c->roots[k]);
    for (int i = 0; i < w->n; i++) targets[n++] = operation(w, &w->copies[i], w->c->roots[k]);
  }
  (void)run(w, step, NULL, NULL, 0, targets, n);
}

int weft_data_check(const weft_data_case_t *c) {
  world_t w = {.c = c, .arena = WEFT_ARENA_INIT};
  w.from = c->graph != NULL ? c->graph : weft_data_test_graph(c->name);
  for (; w.n < MAX_SHARES && c->shares[w.n] > 0; w.n++) w.batch += c->shares[w.n];
  const weft_node_t *roots[MAX_ROOTS * 2];
  int num_roots = 0, compared = 0;
  for (int k = 0; c->roots[k] != NULL; k++)
    roots[num_roots++] = weft_graph_find(w.from, weft_str(c->roots[k]));
  for (int k = 0; c->variables != NULL && c->variables[k] != NULL; k++) {
    roots[num_roots++] = weft_graph_find(w.from, weft_str(c->variables[k]));
  }
  if (c->init != NULL) roots[num_roots++] = weft_graph_find(w.from, weft_str(c->init));
  for (int k = 0; k < num_roots; k++) CU_ASSERT_PTR_NOT_NULL_FATAL(roots[k]);
  const weft_data_options_t options = {.roots = roots, .num_roots = num_roots};
  ok(weft_data_analyse(w.from, &options, &w.plan));
  copy_all(&w);
  open_session(&w);
  if (c->init != NULL) {
    const TF_Operation *targets[MAX_SHARES + 1] = {operation(&w, &w.one, c->init)};
    for (int i = 0; i < w.n; i++) targets[i + 1] = operation(&w, &w.copies[i], c->init);
    (void)run(&w, 0, NULL, NULL, 0, targets, w.n + 1);
  }
  for (int step = 0; step < c->steps; step++) {
    compared += compare_values(&w, step);
    train(&w, step);
  }
  compared += compare_values(&w, c->steps);
  TF_CloseSession(w.session, w.status);
  TF_DeleteSession(w.session, w.status);
  TF_DeleteGraph(w.graph);
  TF_DeleteStatus(w.status);
  weft_copier_deinit(&w.one);
  for (int i = 0; i < w.n; i++) weft_copier_deinit(&w.copies[i]);
  weft_graph_destroy(w.to);
  weft_arena_deinit(&w.arena);
  weft_data_plan_deinit(&w.plan);
  if (c->graph == NULL) weft_graph_destroy(w.from);
  return compared;
}
