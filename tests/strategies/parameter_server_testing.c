/* tests/strategies/parameter_server_testing.c - models and clusters for tests of parameter servers. */
#include "tests/strategies/parameter_server_testing.h"

#include <math.h>
#include <stdio.h>

#include "base/alloc.h"
#include "graph/graph_proto.h"
#include "graph/passes.h"
#include "strategies/emit.h"
#include "tests/graph/graph_testing.h"
#include "tests/runner.h"

static void must(weft_status_t *s) {
  if (s != NULL) printf("\n    %s\n", weft_status_message(s));
  CU_ASSERT_PTR_NULL_FATAL(s);
}

/* ---- numbers ---- */

static double number_at(uint64_t i) { /* a fixed generator: [-1, 1) */
  uint64_t x = (i + 1) * 6364136223846793005u + 1442695040888963407u;
  x ^= x >> 29;
  x *= 0xbf58476d1ce4e5b9u;
  x ^= x >> 32;
  return (double)(x >> 11) / 4503599627370496.0 - 1;
}

static weft_tensor_t *numbers(weft_dtype_t dtype, const weft_shape_t *shape, uint64_t at, double scale) {
  weft_tensor_t *t = NULL;
  must(weft_tensor_new(dtype, shape, NULL, &t));
  for (int64_t i = 0; i < t->count; i++) {
    double v = scale * number_at(at + (uint64_t)i);
    if (dtype == WEFT_F32) ((float *)t->data)[i] = (float)v;
    if (dtype == WEFT_F64) ((double *)t->data)[i] = v;
  }
  return t;
}

/* ---- models ---- */

typedef struct making {
  const weft_ps_model_t *m;
  weft_emitter_t b;
  weft_output_t handles[16], reads[16];
  weft_shape_t shapes[16];
  int n;
  weft_node_t *inits[64];
  int num_inits;
} making_t;

static weft_output_t variable(making_t *k, const char *name, weft_dtype_t dtype, const weft_shape_t *shape,
                              weft_tensor_t *init, weft_output_t *read) {
  char text[64];
  weft_emitter_t *b = &k->b;
  const weft_named_attr_t attrs[3] = {weft_type_attr("dtype", (int)dtype), weft_shape_attr("shape", shape),
                                      weft_text_attr("shared_name", weft_str(k->m->resources ? name : ""))};
  weft_output_t v =
      weft_emit(b, k->m->resources ? "VarHandleOp" : "VariableV2", NULL, 0, attrs, 3, "%s", name);
  snprintf(text, sizeof text, "%s/initial", name);
  weft_output_t value = weft_emit_const(b, weft_tensor_retain(init), "%s", text);
  weft_tensor_release(init);
  snprintf(text, sizeof text, "%s/assign", name);
  const weft_output_t in[2] = {v, value};
  weft_output_t a = weft_emit(b, k->m->resources ? "AssignVariableOp" : "Assign", in, 2, attrs,
                              k->m->resources ? 1 : 0, "%s", text);
  k->inits[k->num_inits++] = a.node;
  snprintf(text, sizeof text, "%s/read", name);
  weft_output_t r = k->m->resources ? weft_emit(b, "ReadVariableOp", &v, 1, attrs, 1, "%s", text)
                                    : weft_emit1(b, "Identity", v, "%s", text);
  if (read != NULL) *read = r;
  return v;
}

static weft_output_t weights(making_t *k, const char *name, weft_shape_t shape) {
  int i = k->n++;
  double scale = shape.rank == 2 ? 1 / sqrt((double)shape.dims[0]) : 0.1;
  k->shapes[i] = shape;
  k->handles[i] = variable(k, name, k->m->dtype, &shape,
                           numbers(k->m->dtype, &shape, 1000u * (unsigned)(i + 1), scale), &k->reads[i]);
  return k->reads[i];
}

static weft_output_t scalar_of(making_t *k, const char *name, double v) {
  return weft_emit_number(&k->b, (int)k->m->dtype, v, "%s", name);
}

static weft_output_t slot(making_t *k, int i, const char *name, bool is_scalar, double init,
                          weft_output_t *read) {
  char text[64];
  weft_tensor_t *t = NULL;
  weft_shape_t shape = is_scalar ? WEFT_SCALAR : k->shapes[i];
  if (i >= 0) snprintf(text, sizeof text, "%s/%s", k->handles[i].node->name.data, name);
  if (i < 0) snprintf(text, sizeof text, "%s", name);
  t = numbers(k->m->dtype, &shape, 0, 0);
  if (is_scalar && k->m->dtype == WEFT_F32) *(float *)t->data = (float)init;
  if (is_scalar && k->m->dtype == WEFT_F64) *(double *)t->data = init;
  return variable(k, text, k->m->dtype, &shape, t, read);
}

static weft_output_t op(making_t *k, const char *plain, const char *handle, const char *name,
                        const weft_output_t *in, int n) {
  return weft_emit(&k->b, k->m->resources ? handle : plain, in, n, NULL, 0, "%s", name);
}

/* By the global norm, as tf.clip_by_global_norm does. */
static void clip_gradients(making_t *k, weft_output_t *grads) {
  weft_emitter_t *b = &k->b;
  weft_output_t halves[16];
  for (int i = 0; i < k->n; i++) halves[i] = weft_emit1(b, "L2Loss", grads[i], "half_square");
  const weft_named_attr_t n = weft_int_attr("N", k->n);
  weft_output_t sum = weft_emit(b, "AddN", halves, k->n, &n, 1, "half_squares"),
                limit = scalar_of(k, "limit", k->m->clip);
  weft_output_t norm =
      weft_emit1(b, "Sqrt", weft_emit2(b, "Mul", sum, scalar_of(k, "two", 2), "square_norm"), "global_norm");
  weft_output_t scale =
      weft_emit2(b, "RealDiv", limit, weft_emit2(b, "Maximum", norm, limit, "clip_norm"), "clip_scale");
  for (int i = 0; i < k->n; i++) grads[i] = weft_emit2(b, "Mul", grads[i], scale, "clipped");
}

static weft_node_t *train(making_t *k, const weft_output_t *grads, const weft_output_t *rows) {
  weft_node_t *updates[24];
  int n = 0;
  weft_output_t rate = scalar_of(k, "rate", k->m->rate), power[2], power_read[2];
  char name[64];
  if (k->m->optimizer == WEFT_PS_ADAM) {
    power[0] = slot(k, -1, "beta1_power", true, 0.9, &power_read[0]);
    power[1] = slot(k, -1, "beta2_power", true, 0.999, &power_read[1]);
  }
  for (int i = 0; i < k->n; i++) {
    snprintf(name, sizeof name, "update_%s", k->handles[i].node->name.data);
    weft_output_t v = k->handles[i], g = grads[i];
    if (rows[i].node != NULL) {
      if (k->m->optimizer == WEFT_PS_SGD) {
        const weft_output_t in[3] = {v, rows[i], weft_emit2(&k->b, "Mul", g, rate, "scaled")};
        updates[n++] = op(k, "ScatterSub", "ResourceScatterSub", name, in, 3).node;
      } else {
        const weft_output_t in[6] = {
            v, slot(k, i, "momentum", false, 0, NULL), rate, g, rows[i], scalar_of(k, "mu", 0.9)};
        updates[n++] = op(k, "SparseApplyMomentum", "ResourceSparseApplyMomentum", name, in, 6).node;
      }
    } else if (k->m->optimizer == WEFT_PS_SGD) {
      const weft_output_t in[3] = {v, rate, g};
      updates[n++] = op(k, "ApplyGradientDescent", "ResourceApplyGradientDescent", name, in, 3).node;
    } else if (k->m->optimizer == WEFT_PS_MOMENTUM) {
      const weft_output_t in[5] = {v, slot(k, i, "momentum", false, 0, NULL), rate, g,
                                   scalar_of(k, "mu", 0.9)};
      updates[n++] = op(k, "ApplyMomentum", "ResourceApplyMomentum", name, in, 5).node;
    } else {
      const weft_output_t in[10] = {v,
                                    slot(k, i, "m", false, 0, NULL),
                                    slot(k, i, "v", false, 0, NULL),
                                    power_read[0],
                                    power_read[1],
                                    rate,
                                    scalar_of(k, "beta1", 0.9),
                                    scalar_of(k, "beta2", 0.999),
                                    scalar_of(k, "epsilon", 1e-8),
                                    g};
      updates[n++] = op(k, "ApplyAdam", "ResourceApplyAdam", name, in, 10).node;
    }
  }
  int num_applied = n;
  for (int u = 0; !k->m->resources && u < n * k->n; u++)
    weft_emit_control(&k->b, grads[u % k->n].node, updates[u / k->n]); /* gate_gradients */
  for (int i = 0; i < 2 && k->m->optimizer == WEFT_PS_ADAM; i++) {
    weft_output_t next =
        weft_emit2(&k->b, "Mul", power_read[i], scalar_of(k, "beta", i == 0 ? 0.9 : 0.999), "next_power");
    const weft_output_t in[2] = {power[i], next};
    const weft_named_attr_t dtype = weft_type_attr("dtype", (int)k->m->dtype);
    weft_node_t *a = weft_emit(&k->b, k->m->resources ? "AssignVariableOp" : "Assign", in, 2, &dtype,
                               k->m->resources, "assign_power")
                         .node;
    for (int u = 0; u < num_applied; u++) weft_emit_control(&k->b, updates[u], a);
    updates[n++] = a;
  }
  weft_tensor_t *zero = NULL;
  must(weft_tensor_scalar(WEFT_I64, &(int64_t){0}, &zero));
  const weft_shape_t scalar = WEFT_SCALAR;
  const weft_named_attr_t i64 = weft_type_attr("dtype", WEFT_I64);
  const weft_output_t in[2] = {variable(k, "global_step", WEFT_I64, &scalar, zero, NULL),
                               weft_emit_int(&k->b, WEFT_I64, 1, "one_step")};
  weft_node_t *count = weft_emit(&k->b, k->m->resources ? "AssignAddVariableOp" : "AssignAdd", in, 2, &i64,
                                 k->m->resources, "train")
                           .node;
  for (int u = 0; u < n; u++) weft_emit_control(&k->b, updates[u], count);
  return count;
}

static weft_output_t dense(making_t *k, const char *w, const char *b, weft_output_t x, int from, int to,
                           const char *act) {
  weft_output_t y = weft_emit2(&k->b, "MatMul", x, weights(k, w, weft_shape_matrix(from, to)), "product");
  y = weft_emit2(&k->b, "BiasAdd", y, weights(k, b, weft_shape_vector(to)), "biased");
  return act == NULL ? y : weft_emit1(&k->b, act, y, "active");
}

static void add_saver(making_t *k) {
  weft_emitter_t *b = &k->b;
  const weft_shape_t scalar = WEFT_SCALAR;
  const weft_named_attr_t attrs[2] = {weft_type_attr("dtype", WEFT_STRING),
                                      weft_shape_attr("shape", &scalar)};
  weft_output_t path = weft_emit(b, "Placeholder", NULL, 0, attrs, 2, "path");
  const weft_shape_t n = weft_shape_vector(k->n);
  weft_tensor_t *names = NULL, *slices = NULL;
  int types[16];
  must(weft_tensor_new(WEFT_STRING, &n, NULL, &names));
  must(weft_tensor_new(WEFT_STRING, &n, NULL, &slices));
  weft_output_t in[20] = {path};
  for (int i = 0; i < k->n; i++) {
    must(weft_tensor_set_str(names, i, k->handles[i].node->name));
    in[3 + i] = k->m->resources ? k->reads[i] : k->handles[i];
    types[i] = (int)k->m->dtype;
  }
  in[1] = weft_emit_const(b, weft_tensor_retain(names), "save/names");
  in[2] = weft_emit_const(b, weft_tensor_retain(slices), "save/slices");
  weft_tensor_release(names);
  weft_tensor_release(slices);
  weft_emit(b, "SaveV2", in, 3 + k->n, NULL, 0, "save");
  weft_named_attr_t dtypes = {WEFT_STR("dtypes"), {.kind = WEFT_ATTR_TYPE, .is_list = true, .n = k->n}};
  dtypes.value.list.types = types;
  weft_output_t read = weft_emit(b, "RestoreV2", in, 3, &dtypes, 1, "restored");
  weft_node_t *restore = weft_emit_noop(b, NULL, 0, "restore");
  for (int i = 0; i < k->n && b->s == NULL; i++) {
    const weft_output_t pair[2] = {k->handles[i], {read.node, i}};
    const weft_named_attr_t dtype = weft_type_attr("dtype", (int)k->m->dtype);
    weft_emit_control(b,
                      weft_emit(b, k->m->resources ? "AssignVariableOp" : "Assign", pair, 2, &dtype,
                                k->m->resources, "restore_one")
                          .node,
                      restore);
  }
}

weft_graph_t *weft_ps_model_graph(const weft_ps_model_t *m) {
  weft_graph_t *g = NULL;
  must(weft_graph_create(&g));
  making_t k = {.m = m, .b = {.g = g}};
  weft_emitter_t *b = &k.b;
  const weft_named_attr_t dtype = weft_type_attr("dtype", (int)m->dtype),
                          ids_type = weft_type_attr("dtype", WEFT_I64);
  const weft_shape_t x_shape = weft_shape_matrix(-1, m->inputs), y_shape = weft_shape_matrix(-1, m->classes),
                     ids_shape = weft_shape_vector(-1);
  const weft_named_attr_t x_attrs[2] = {dtype, weft_shape_attr("shape", &x_shape)},
                          y_attrs[2] = {dtype, weft_shape_attr("shape", &y_shape)},
                          ids_attrs[2] = {ids_type, weft_shape_attr("shape", &ids_shape)};
  weft_output_t x, ids = {NULL, 0}, y = weft_emit(b, "Placeholder", NULL, 0, y_attrs, 2, "y");
  int width = m->rows > 0 ? m->width : m->inputs;
  if (m->rows > 0) {
    ids = weft_emit(b, "Placeholder", NULL, 0, ids_attrs, 2, "ids");
    weft_output_t table = weights(&k, "emb", weft_shape_matrix(m->rows, m->width));
    const weft_output_t by_handle[2] = {k.handles[0], ids};
    x = m->resources
            ? weft_emit(b, "ResourceGather", by_handle, 2, &dtype, 1, "looked_up")
            : weft_emit3(b, "GatherV2", table, ids, weft_emit_int(b, WEFT_I32, 0, "axis"), "looked_up");
  } else {
    x = weft_emit(b, "Placeholder", NULL, 0, x_attrs, 2, "x");
  }
  weft_output_t out = x;
  if (m->hidden > 0) {
    out = dense(&k, "w0", "b0", out, width, m->hidden, "Tanh");
    out = dense(&k, "w1", "b1", out, m->hidden, m->hidden, "Tanh");
    out = dense(&k, "w2", "b2", out, m->hidden, m->classes, NULL);
  } else {
    out = dense(&k, "w0", "b0", out, width, m->classes, NULL);
  }
  const int64_t all[2] = {0, 1};
  weft_output_t loss;
  const char *reduce = m->sums ? "Sum" : "Mean";
  if (m->hidden > 0) {
    weft_output_t soft =
        weft_emit2(b, "SoftmaxCrossEntropyWithLogits", out, weft_emit1(b, "Softmax", y, "targets"), "each");
    loss = weft_emit2(b, reduce, soft, weft_emit_ints(b, WEFT_I32, all, 1, "all"), "loss");
  } else {
    loss =
        weft_emit2(b, reduce, weft_emit1(b, "Square", weft_emit2(b, "Sub", out, y, "difference"), "squares"),
                   weft_emit_ints(b, WEFT_I32, all, 2, "all"), "loss");
  }
  must(weft_emitter_end(b));
  weft_output_t xs[16], grads[16], rows[16] = {{NULL, 0}};
  for (int i = 0; i < k.n; i++) xs[i] = k.reads[i];
  if (m->rows > 0) {
    xs[0] = x;
    rows[0] = ids;
  }
  must(weft_graph_add_gradients(g, WEFT_STR("gradients"), &loss, 1, xs, k.n, NULL, grads));
  if (m->clip > 0) clip_gradients(&k, grads);
  train(&k, grads, rows);
  add_saver(&k);
  weft_emit_noop(b, k.inits, k.num_inits, "init");
  must(weft_emitter_end(b));
  return g;
}

/* ---- clusters ---- */

void weft_ps_view(weft_ps_cluster_t *c, int num_ps, int num_workers) {
  static const char *const names[2][8] = {
      {"/job:ps/replica:0/task:0", "/job:ps/replica:0/task:1", "/job:ps/replica:0/task:2",
       "/job:ps/replica:0/task:3"},
      {"/job:worker/replica:0/task:0", "/job:worker/replica:0/task:1", "/job:worker/replica:0/task:2",
       "/job:worker/replica:0/task:3", "/job:worker/replica:0/task:4"}};
  *c = (weft_ps_cluster_t){.num_ps = num_ps, .num_workers = num_workers, .r = {.arena = WEFT_ARENA_INIT}};
  for (int i = 0; i < num_ps + num_workers; i++) {
    bool serves = i < num_ps;
    int index = serves ? i : i - num_ps;
    c->tasks[i] = (weft_task_devices_t){.task = weft_str(names[serves ? 0 : 1][index]),
                                        .num_cpus = 1,
                                        .index = index,
                                        .job = serves ? WEFT_STR("ps") : WEFT_STR("worker"),
                                        .host = WEFT_STR("")};
  }
  c->view = (weft_cluster_view_t){.tasks = c->tasks, .num_tasks = num_ps + num_workers};
}

static weft_names_t names_of(const char *const *texts, weft_str_t *items) {
  weft_names_t out = {items, 0};
  for (; texts != NULL && texts[out.n] != NULL; out.n++) items[out.n] = weft_str(texts[out.n]);
  return out;
}

weft_status_t *weft_ps_rewrite(weft_ps_cluster_t *c, const weft_graph_t *g, const char *options,
                               const char *const *feeds, const char *const *fetches) {
  weft_str_t fed[8], fetched[8], target = WEFT_STR("train"), init = WEFT_STR("init");
  char text[128];
  snprintf(text, sizeof text, "parameter_server:%s", options);
  weft_strategy_request_t r = {.graph = g,
                               .cluster = &c->view,
                               .feeds = names_of(feeds, fed),
                               .fetches = names_of(fetches, fetched),
                               .targets = {&target, 1},
                               .inits = {&init, 1}};
  weft_status_t *s = weft_strategy_apply(weft_str(text), &r, &c->r);
  return s;
}

static int task_of(const weft_ps_cluster_t *c, weft_str_t task) {
  for (int i = 0; i < c->num_ps + c->num_workers; i++) {
    if (weft_str_eq(c->tasks[i].task, task)) return i;
  }
  return 0;
}

/* The graph as it is: one worker loop. */
static void leave_alone(weft_ps_cluster_t *c, const weft_graph_t *g, const char *const *feeds,
                        const char *const *fetches) {
  weft_rewrite_t *r = &c->r;
  weft_str_t *texts = weft_arena_calloc(&r->arena, 8, sizeof *texts);
  CU_ASSERT_PTR_NOT_NULL_FATAL(texts);
  must(weft_graph_copy(g, &r->graph));
  r->loops = weft_arena_calloc(&r->arena, 1, sizeof *r->loops);
  r->num_loops = 1;
  r->loops[0] = (weft_worker_loop_t){.task = c->tasks[0].task,
                                     .feeds = names_of(feeds, texts),
                                     .fetches = names_of(fetches, texts + 4),
                                     .targets = {texts + 6, 1}};
  texts[6] = WEFT_STR("train");
  texts[7] = WEFT_STR("init");
  r->inits = (weft_names_t){texts + 7, 1};
}

void weft_ps_start(weft_ps_cluster_t *c, const weft_graph_t *g, const char *options, int num_ps,
                   int num_workers) {
  bool is_embedding = weft_graph_find(g, WEFT_STR("ids")) != NULL;
  const char *const feeds[] = {is_embedding ? "ids:0" : "x:0", "y:0", NULL}, *const fetches[] = {"loss:0",
                                                                                                 NULL};
  const char *tasks[8];
  weft_ps_view(c, num_ps, num_workers);
  if (options == NULL) {
    leave_alone(c, g, feeds, fetches);
  } else {
    must(weft_ps_rewrite(c, g, options, feeds, fetches));
  }
  for (int i = 0; i < num_ps + num_workers; i++) tasks[i] = c->tasks[i].task.data;
  c->cluster = weft_test_cluster_create(tasks, num_ps + num_workers);
  weft_strbuf_t def = WEFT_STRBUF_INIT;
  must(weft_graph_export(c->r.graph, false, &def));
  for (int i = 0; i < c->r.num_loops; i++) {
    weft_master_client_t *m = weft_test_cluster_master(c->cluster, task_of(c, c->r.loops[i].task));
    must(weft_test_open_bytes(m, weft_str_of(def.data, def.length), "", &c->sessions[i]));
  }
  weft_strbuf_deinit(&def);
  for (int i = 0; i < c->r.inits.n; i++) {
    weft_test_run_t run = {.targets = {c->r.inits.items[i].data}};
    must(weft_test_run(&c->sessions[0], &run, NULL));
  }
}

void weft_ps_stop(weft_ps_cluster_t *c) {
  for (int i = 0; c->cluster != NULL && i < c->r.num_loops; i++) must(weft_test_close(&c->sessions[i]));
  if (c->cluster != NULL) weft_test_cluster_destroy(c->cluster);
  weft_rewrite_deinit(&c->r);
}

/* ---- steps ---- */

weft_ps_batch_t weft_ps_batch(const weft_ps_model_t *m, int64_t begin, int64_t rows) {
  weft_ps_batch_t out;
  const weft_shape_t x = weft_shape_matrix(rows, m->inputs), y = weft_shape_matrix(rows, m->classes),
                     ids = weft_shape_vector(rows);
  if (m->rows > 0) {
    must(weft_tensor_new(WEFT_I64, &ids, NULL, &out.x));
    for (int64_t i = 0; i < rows; i++) {
      ((int64_t *)out.x->data)[i] =
          (int64_t)((number_at((uint64_t)(begin + i) + 77777) + 1) * 0.4999 * m->rows);
    }
  } else {
    out.x = numbers(m->dtype, &x, (uint64_t)(begin * m->inputs) + 1000000, 1);
  }
  out.y = numbers(m->dtype, &y, (uint64_t)(begin * m->classes) + 5000000, 1);
  return out;
}

void weft_ps_batch_drop(weft_ps_batch_t *b) {
  weft_tensor_release(b->x);
  weft_tensor_release(b->y);
}

weft_status_t *weft_ps_step(weft_ps_cluster_t *c, int loop, const weft_ps_batch_t *batch, double *loss) {
  const weft_worker_loop_t *l = &c->r.loops[loop];
  double out[4] = {0};
  weft_test_run_t run = {.feeds = {NULL}};
  for (int i = 0; i < l->feeds.n; i++) {
    run.feeds[i] = l->feeds.items[i].data;
    run.tensors[i] = i == 0 ? batch->x : batch->y;
  }
  for (int i = 0; i < l->fetches.n; i++) run.fetches[i] = l->fetches.items[i].data;
  for (int i = 0; i < l->targets.n; i++) run.targets[i] = l->targets.items[i].data;
  weft_status_t *s = weft_test_run(&c->sessions[loop], &run, out);
  if (loss != NULL) *loss = out[0];
  return s;
}

weft_tensor_t *weft_ps_value(weft_ps_cluster_t *c, const char *fetch) {
  weft_test_step_t k;
  weft_test_start(&c->sessions[0], &(weft_test_run_t){.fetches = {fetch}}, &k);
  must(weft_test_step_wait(&k));
  weft_tensor_t *out = weft_tensor_retain(k.fetches[0]);
  weft_test_step_deinit(&k);
  return out;
}

static double at(const weft_tensor_t *t, int64_t i) {
  if (t->dtype == WEFT_F32) return (double)((const float *)t->data)[i];
  if (t->dtype == WEFT_F64) return ((const double *)t->data)[i];
  return (double)((const int64_t *)t->data)[i];
}

double weft_ps_distance(const weft_tensor_t *a, const weft_tensor_t *b) {
  double most = 0;
  if (!weft_shape_eq(&a->shape, &b->shape) || a->dtype != b->dtype) return INFINITY;
  for (int64_t i = 0; i < a->count; i++) {
    double d = fabs(at(a, i) - at(b, i));
    if (!(d <= most)) most = d;
  }
  return most;
}
