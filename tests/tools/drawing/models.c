/* tests/tools/drawing/models.c - graphs to draw. */
#include "tests/tools/drawing/models.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "strategies/emit.h"
#include "strategies/traffic.h"

enum { MOST_LAYERS = 512, WIDTH = 8 };

typedef struct builder {
  weft_emitter_t e;
  const drawn_model_t *m;
  char device[64];
  weft_output_t handles[MOST_LAYERS], gradients[MOST_LAYERS], inputs[MOST_LAYERS];
  weft_node_t *updates[MOST_LAYERS];
  int num_weights;
} builder_t;

static void place(builder_t *b, int layer) {
  if (b->m->tasks == 0) return;
  snprintf(b->device, sizeof b->device, "/job:worker/replica:0/task:%d/device:CPU:0",
           layer * b->m->tasks / (b->m->layers + 1));
  b->e.device = weft_graph_intern(b->e.g, weft_str(b->device));
}

static weft_output_t variable(builder_t *b, int width, const char *scope) {
  const weft_shape_t shape = {2, {WIDTH, width}};
  const weft_named_attr_t attrs[] = {{WEFT_STR("dtype"), {.kind = WEFT_ATTR_TYPE, .type = WEFT_F32}},
                                     weft_shape_attr("shape", &shape)};
  return weft_emit(&b->e, "VarHandleOp", NULL, 0, attrs, 2, "%s/kernel", scope);
}

static weft_output_t read_of(builder_t *b, weft_output_t handle, const char *scope) {
  const weft_named_attr_t dtype = {WEFT_STR("dtype"), {.kind = WEFT_ATTR_TYPE, .type = WEFT_F32}};
  return weft_emit(&b->e, "ReadVariableOp", &handle, 1, &dtype, 1, "%s/read", scope);
}

static weft_output_t forward(builder_t *b, weft_output_t x) {
  const char *prefix = b->m->prefix == NULL ? "" : b->m->prefix;
  for (int l = 0; l < b->m->layers; l++) {
    place(b, l);
    for (int p = 0; p < b->m->parts && b->num_weights < MOST_LAYERS; p++) {
      char scope[256];
      snprintf(scope, sizeof scope, "%slayer_%d/part%c", prefix, l, 'a' + p);
      const int n = b->num_weights++;
      b->handles[n] = variable(b, WIDTH, scope);
      b->inputs[n] = x;
      if (b->m->is_uneven) variable(b, WIDTH + l, scope);
      x = weft_emit2(&b->e, "MatMul", x, read_of(b, b->handles[n], scope), "%s/MatMul", scope);
      x = weft_emit1(&b->e, "Relu", x, "%s/Relu", scope);
    }
  }
  for (int i = 0; i < b->m->flat; i++)
    x = weft_emit1(&b->e, i % 3 == 0 ? "Neg" : "Relu", x, "%ssingle%c%c", prefix, 'a' + i / 26 % 26,
                   'a' + i % 26);
  return x;
}

/* As TensorFlow's gradients of this model, on the devices of the layers. */
static void backward(builder_t *b, weft_output_t y) {
  const char *prefix = b->m->prefix == NULL ? "" : b->m->prefix;
  weft_output_t dy = weft_emit1(&b->e, "OnesLike", y, "%sgradients/loss_grad/ones", prefix);
  const weft_output_t rate = weft_emit_number(&b->e, WEFT_F32, 0.1, "%ssgd/rate", prefix);
  const weft_named_attr_t transposed = {WEFT_STR("transpose_a"), {.kind = WEFT_ATTR_BOOL, .b = true}};
  for (int n = b->num_weights - 1; n >= 0; n--) {
    const int l = n / b->m->parts, p = n % b->m->parts;
    char scope[256];
    snprintf(scope, sizeof scope, "%sgradients/layer_%d/part%c/MatMul_grad", prefix, l, 'a' + p);
    place(b, l);
    const weft_output_t both[] = {b->inputs[n], dy};
    b->gradients[n] = weft_emit(&b->e, "MatMul", both, 2, &transposed, 1, "%s/MatMul_1", scope);
    dy = weft_emit1(&b->e, "Relu", dy, "%s/back", scope);
    const weft_output_t step = weft_emit2(&b->e, "Mul", b->gradients[n], rate, "%ssgd/Mul_%d", prefix, n);
    const weft_output_t update[] = {b->handles[n], step};
    b->updates[n] =
        weft_emit(&b->e, "AssignSubVariableOp", update, 2, NULL, 0, "%ssgd/Assign_%d", prefix, n).node;
  }
}

static weft_status_t *set_loop(const drawn_model_t *m, weft_rewrite_t *r) {
  static weft_str_t targets[] = {{"train", 5}}, fetches[] = {{"loss", 4}}, feeds[] = {{"x", 1}};
  r->loops = weft_arena_calloc(&r->arena, 1, sizeof *r->loops);
  if (r->loops == NULL) return WEFT_NO_MEMORY("a worker loop");
  r->num_loops = 1;
  r->loops[0] = (weft_worker_loop_t){.name = WEFT_STR("step"),
                                     .task = WEFT_STR(""),
                                     .leave = WEFT_STR(""),
                                     .feeds = {feeds, 1},
                                     .fetches = {fetches, 1},
                                     .targets = {targets, m->trains}};
  return NULL;
}

weft_status_t *drawn_model_build(const drawn_model_t *m, weft_rewrite_t *out) {
  static builder_t b; /* too large for a stack; tests have one thread */
  b = (builder_t){.m = m};
  *out = (weft_rewrite_t){.arena = WEFT_ARENA_INIT};
  WEFT_RETURN_IF_ERROR(weft_graph_create(&out->graph));
  b.e.g = out->graph;
  const weft_shape_t shape = {2, {-1, WIDTH}};
  const weft_named_attr_t attrs[] = {{WEFT_STR("dtype"), {.kind = WEFT_ATTR_TYPE, .type = WEFT_F32}},
                                     weft_shape_attr("shape", &shape)};
  place(&b, 0);
  const weft_output_t x = weft_emit(&b.e, "Placeholder", NULL, 0, attrs, 2, "x");
  const weft_output_t y = forward(&b, x);
  place(&b, m->layers);
  const weft_output_t axes = weft_emit_ints(&b.e, WEFT_I32, (const int64_t[]){0, 1}, 2, "loss/axes");
  const weft_output_t mean = weft_emit2(&b.e, "Mean", y, axes, "loss/mean");
  weft_emit1(&b.e, "Identity", mean, "loss");
  if (m->trains) backward(&b, y);
  weft_emit_noop(&b.e, b.updates, b.num_weights, "train");
  WEFT_RETURN_IF_ERROR(weft_emitter_end(&b.e));
  WEFT_RETURN_IF_ERROR(set_loop(m, out));
  return weft_rewrite_measure(out, NULL, WEFT_ROWS_ANY);
}

/* ---- by lot ---- */

typedef struct lot {
  unsigned state;
  weft_emitter_t e;
  weft_output_t values[4096], handles[256];
  int num_values, num_handles;
} lot_t;

static int pick(lot_t *l, int n) {
  l->state = l->state * 1103515245u + 12345u;
  return (int)(l->state >> 16) % n;
}

static void name_by_lot(lot_t *l, char *out, size_t size) {
  static const char *const words[] = {"gradients",
                                      "gradient_tape",
                                      "weft",
                                      "replica_1",
                                      "layer_3",
                                      "layer_3_1",
                                      "conv2_block1_1_bn",
                                      "conv2_block",
                                      "a",
                                      "b>c",
                                      "1",
                                      "adam",
                                      "x_grad",
                                      "parameter_server",
                                      "bucket_0",
                                      "train",
                                      "loss",
                                      "MatMul",
                                      "worker_7",
                                      "optimizer",
                                      "conv2_block1_2_conv"};
  size_t n = 0;
  out[0] = '\0';
  for (int depth = pick(l, 5); depth >= 0; depth--) {
    const char *word = words[pick(l, sizeof words / sizeof words[0])];
    n += (size_t)snprintf(out + n, size - n, "%s%s", n > 0 ? "/" : pick(l, 4) == 0 ? "train/" : "", word);
  }
}

static void add_by_lot(lot_t *l) {
  static const char *const devices[] = {"", "", "/job:a/replica:0/task:0/device:CPU:0",
                                        "/job:a/replica:0/task:1/device:CPU:0",
                                        "/job:b/replica:0/task:0/device:CPU:0"};
  char name[512];
  name_by_lot(l, name, sizeof name);
  l->e.device = weft_str(devices[pick(l, 5)]);
  const weft_output_t a = l->values[pick(l, l->num_values)], b = l->values[pick(l, l->num_values)];
  const weft_named_attr_t dtype = {WEFT_STR("dtype"), {.kind = WEFT_ATTR_TYPE, .type = WEFT_F32}};
  weft_output_t made = {NULL, 0};
  switch (pick(l, 9)) {
    case 0: made = weft_emit2(&l->e, "AddV2", a, b, "%s", name); break;
    case 1: made = weft_emit_number(&l->e, WEFT_F32, 1, "%s", name); break;
    case 2: {
      const weft_named_attr_t attrs[] = {dtype, weft_shape_attr("shape", &(weft_shape_t){0, {0}})};
      if (l->num_handles < 256)
        l->handles[l->num_handles++] = weft_emit(&l->e, "VarHandleOp", NULL, 0, attrs, 2, "%s", name);
      break;
    }
    case 3:
      if (l->num_handles > 0)
        made = weft_emit(&l->e, "ReadVariableOp", &l->handles[pick(l, l->num_handles)], 1, &dtype, 1, "%s",
                         name);
      break;
    case 4:
      if (l->num_handles > 0) {
        const weft_output_t both[] = {l->handles[pick(l, l->num_handles)], a};
        weft_emit_control(&l->e, weft_emit(&l->e, "AssignSubVariableOp", both, 2, NULL, 0, "%s", name).node,
                          NULL);
      }
      break;
    case 5: {
      const weft_output_t both[] = {a, b};
      made = weft_emit(&l->e, "IdentityN", both, 2, NULL, 0, "%s", name);
      made.index = pick(l, 2);
      break;
    }
    case 6: weft_emit_noop(&l->e, (weft_node_t *[]){a.node, b.node}, 2, "%s", name); break;
    default: made = weft_emit1(&l->e, pick(l, 2) == 0 ? "Relu" : "Neg", a, "%s", name);
  }
  if (made.node != NULL && l->num_values < 4096) l->values[l->num_values++] = made;
}

weft_status_t *drawn_random_build(unsigned seed, int num_nodes, weft_rewrite_t *out) {
  static lot_t l; /* too large for a stack */
  static weft_str_t targets[] = {{"all", 3}};
  static weft_node_t *all[8192];
  l = (lot_t){.state = seed};
  *out = (weft_rewrite_t){.arena = WEFT_ARENA_INIT};
  WEFT_RETURN_IF_ERROR(weft_graph_create(&out->graph));
  l.e.g = out->graph;
  const weft_named_attr_t attrs[] = {{WEFT_STR("dtype"), {.kind = WEFT_ATTR_TYPE, .type = WEFT_F32}},
                                     weft_shape_attr("shape", &(weft_shape_t){0, {0}})};
  l.values[l.num_values++] = weft_emit(&l.e, "Placeholder", NULL, 0, attrs, 2, "x");
  for (int i = 0; i < num_nodes; i++) add_by_lot(&l);
  int n = 0;
  for (int id = 0; id < out->graph->num_nodes && n < 8192; id++) {
    if (pick(&l, 4) > 0) all[n++] = out->graph->nodes[id];
  }
  l.e.device = WEFT_STR("");
  weft_emit_noop(&l.e, all, n, "all");
  WEFT_RETURN_IF_ERROR(weft_emitter_end(&l.e));
  out->loops = weft_arena_calloc(&out->arena, 1, sizeof *out->loops);
  if (out->loops == NULL) return WEFT_NO_MEMORY("a worker loop");
  out->num_loops = 1;
  out->loops[0] = (weft_worker_loop_t){
      .name = WEFT_STR("step"), .task = WEFT_STR(""), .leave = WEFT_STR(""), .targets = {targets, 1}};
  return weft_rewrite_measure(out, NULL, WEFT_ROWS_ANY);
}

weft_status_t *drawn_deep_build(int depth, weft_rewrite_t *out) {
  const drawn_model_t untrained = {.layers = 0};
  weft_emitter_t e = {0};
  *out = (weft_rewrite_t){.arena = WEFT_ARENA_INIT};
  WEFT_RETURN_IF_ERROR(weft_graph_create(&out->graph));
  e.g = out->graph;
  char *scopes = weft_calloc((size_t)depth + 1, 2);
  if (scopes == NULL) return WEFT_NO_MEMORY("a name");
  for (int i = 0; i < depth; i++) memcpy(scopes + 2 * (size_t)i, "a/", 2);
  const weft_named_attr_t dtype = {WEFT_STR("dtype"), {.kind = WEFT_ATTR_TYPE, .type = WEFT_F32}};
  weft_output_t x = weft_emit(&e, "Placeholder", NULL, 0, &dtype, 1, "x");
  for (int i = 0; i < 5; i++) x = weft_emit1(&e, "Relu", x, "layer_%d/%sgradients/%sy", i, scopes, scopes);
  weft_emit1(&e, "Identity", x, "loss");
  weft_free(scopes);
  WEFT_RETURN_IF_ERROR(weft_emitter_end(&e));
  WEFT_RETURN_IF_ERROR(set_loop(&untrained, out));
  return weft_rewrite_measure(out, NULL, WEFT_ROWS_ANY);
}
