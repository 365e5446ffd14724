/* kernels/cpu/staging/staging.c - the kernels of staging areas. No handle goes from one op to the next: those
 * of one shared name, or of one node's name, are of one area, which the first that runs makes as its
 * attributes say.
 */
#include "resources/staging.h"

#include "base/alloc.h"
#include "kernels/cpu/loops/common.h"
#include "kernels/state.h"

/* The param of a row. */
typedef struct staging_op {
  weft_staging_kind_t kind;
  void (*run)(weft_kernel_ctx_t *c, weft_staging_t *st); /* ends with c->done */
} staging_op_t;

typedef struct staging_node {
  weft_state_name_t name;
  weft_staging_config_t config;
} staging_node_t;

static void destroy(void *state) {
  staging_node_t *n = state;
  if (n == NULL) return;
  weft_state_name_deinit(&n->name);
  weft_free(n);
}

static weft_status_t *prepare(const weft_kernel_setup_t *setup, void **out_state) {
  staging_node_t *n = weft_calloc(1, sizeof *n);
  if (n == NULL) return WEFT_NO_MEMORY("preparing %.*s", WEFT_STR_ARGS(setup->node.name));
  const weft_attr_t *dtypes = weft_knode_attr(setup, "dtypes");
  n->config = (weft_staging_config_t){.kind = ((const staging_op_t *)setup->node.param)->kind,
                                      .num_components = dtypes == NULL ? 0 : dtypes->n,
                                      .capacity = weft_knode_int(setup, "capacity"),
                                      .memory_limit = weft_knode_int(setup, "memory_limit")};
  weft_status_t *s = weft_state_name_init(&n->name, setup, true);
  if (s == NULL) *out_state = n;
  if (s != NULL) destroy(n);
  return s;
}

static weft_status_t *create(void *arg, weft_object_t **out) { return weft_staging_create(arg, out); }

static void compute(weft_kernel_ctx_t *c) {
  staging_node_t *n = c->state;
  const staging_op_t *op = c->node->param;
  weft_object_t *o = NULL;
  weft_status_t *s = weft_resource_lookup_or_create(
      c->device->resources, weft_str(n->name.container), weft_str(n->name.name),
      &weft_staging_types[n->config.kind], create, &n->config, &o);
  if (s != NULL) {
    c->done(c, s);
    return;
  }
  op->run(c, (weft_staging_t *)o);
  weft_object_release(o);
}

/* ---- operations ---- */

/* The scalar in input 0. */
static weft_status_t *read_key(weft_kernel_ctx_t *c, const char *what, int64_t *out) {
  const weft_tensor_t *t = weft_in(c, 0);
  if (t->count == 0) return WEFT_ERROR(INVALID_ARGUMENT, "%s must not be empty", what);
  if (t->count != 1) {
    return WEFT_ERROR(INVALID_ARGUMENT, "%s must be an %s scalar, got tensor with shape: %s", what,
                      weft_dtype_name(t->dtype), WEFT_SHAPE_TEXT(&t->shape));
  }
  *out = t->dtype == WEFT_I64 ? *(const int64_t *)t->data : *(const int32_t *)t->data;
  return NULL;
}

static void stage(weft_kernel_ctx_t *c, weft_staging_t *st) {
  weft_resource_call_t call = weft_state_call(c);
  weft_staging_put(st, &call, 0, NULL, NULL, c->inputs, c->node->num_inputs);
}

static void map_stage(weft_kernel_ctx_t *c, weft_staging_t *st) {
  int64_t key = 0;
  weft_status_t *s = read_key(c, "key", &key);
  if (s != NULL) {
    c->done(c, s);
    return;
  }
  weft_resource_call_t call = weft_state_call(c);
  weft_staging_put(st, &call, key, c->inputs[0].tensor, weft_in(c, 1), c->inputs + 2,
                   c->node->num_inputs - 2);
}

static void take(weft_kernel_ctx_t *c, weft_staging_t *st, weft_staging_wish_t wish) {
  weft_resource_call_t call = weft_state_call(c);
  wish.num_outputs = c->node->num_outputs;
  weft_staging_take(st, &call, &wish);
}

static void unstage(weft_kernel_ctx_t *c, weft_staging_t *st) {
  take(c, st, (weft_staging_wish_t){.choice = WEFT_STAGING_FIRST, .removes = true});
}

static void unstage_any(weft_kernel_ctx_t *c, weft_staging_t *st) {
  take(c, st,
       (weft_staging_wish_t){
           .choice = WEFT_STAGING_FIRST, .indices = weft_in(c, 0), .removes = true, .has_key = true});
}

static void peek(weft_kernel_ctx_t *c, weft_staging_t *st) {
  int64_t index = 0;
  weft_status_t *s = weft_in(c, 0)->shape.rank == 0 ? read_key(c, "index", &index)
                                                    : WEFT_ERROR(INVALID_ARGUMENT, "index must be scalar");
  if (s != NULL) {
    c->done(c, s);
    return;
  }
  take(c, st, (weft_staging_wish_t){.choice = WEFT_STAGING_AT, .key = index});
}

static void take_key(weft_kernel_ctx_t *c, weft_staging_t *st, bool removes) {
  int64_t key = 0;
  weft_status_t *s = read_key(c, "key", &key);
  if (s != NULL) {
    c->done(c, s);
    return;
  }
  take(c, st,
       (weft_staging_wish_t){
           .choice = WEFT_STAGING_BY_KEY, .key = key, .indices = weft_in(c, 1), .removes = removes});
}

static void map_unstage(weft_kernel_ctx_t *c, weft_staging_t *st) { take_key(c, st, true); }
static void map_peek(weft_kernel_ctx_t *c, weft_staging_t *st) { take_key(c, st, false); }

static void give_count(weft_kernel_ctx_t *c, int64_t n) {
  const int32_t count = (int32_t)n;
  c->done(c, weft_tensor_scalar(WEFT_I32, &count, &c->outputs[0].tensor));
}

static void size(weft_kernel_ctx_t *c, weft_staging_t *st) { give_count(c, weft_staging_size(st)); }
static void incomplete_size(weft_kernel_ctx_t *c, weft_staging_t *st) {
  give_count(c, weft_staging_incomplete_size(st));
}

static void clear(weft_kernel_ctx_t *c, weft_staging_t *st) {
  weft_staging_clear(st);
  c->done(c, NULL);
}

#define OP(name, kind, fn)                                                        \
  {                                                                               \
    .op = name, .prepare = prepare, .compute_async = compute, .destroy = destroy, \
    .param = &(const staging_op_t) {                                              \
      WEFT_STAGING_##kind, fn                                                     \
    }                                                                             \
  }
#define MAP_OP(name, fn) OP(name, MAP, fn), OP("Ordered" name, ORDERED_MAP, fn)

const weft_kernel_t weft_cpu_staging_kernels[] = {
    MAP_OP("MapClear", clear),
    MAP_OP("MapIncompleteSize", incomplete_size),
    MAP_OP("MapPeek", map_peek),
    MAP_OP("MapSize", size),
    MAP_OP("MapStage", map_stage),
    MAP_OP("MapUnstage", map_unstage),
    MAP_OP("MapUnstageNoKey", unstage_any),
    OP("Stage", FIFO, stage),
    OP("StageClear", FIFO, clear),
    OP("StagePeek", FIFO, peek),
    OP("StageSize", FIFO, size),
    OP("Unstage", FIFO, unstage),
    {0},
};
