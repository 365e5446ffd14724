/* kernels/cpu/kv/kv_table.c - the kernels of tables; resources/kv_table.h says what they do. */
#include <inttypes.h>

#include "base/alloc.h"
#include "kernels/cpu/kv/kv_common.h"
#include "kernels/cpu/loops/common.h"
#include "resources/kv_table.h"

typedef struct table_state {
  weft_kv_config_t config;
  int64_t num_workers;
  const weft_attr_t *tasks; /* the node's */
  weft_state_owner_t *owner;
} table_state_t;

static void table_state_destroy(void *state) {
  table_state_t *st = state;
  if (st == NULL) return;
  weft_state_owner_destroy(st->owner);
  weft_free(st);
}

static weft_status_t *table_make(void *arg, weft_object_t **out) {
  const table_state_t *st = arg;
  return weft_kv_table_create(&st->config, (int)st->num_workers,
                              st->tasks == NULL ? NULL : st->tasks->list.strings,
                              st->tasks == NULL ? 0 : st->tasks->n, out);
}

static weft_status_t *table_check(void *arg, weft_object_t *o) {
  const table_state_t *st = arg;
  const weft_kv_config_t *have = weft_kv_table_config((weft_kv_table_t *)o), *want = &st->config;
  bool is_same = have->dtype == want->dtype && have->width == want->width && have->rule == want->rule &&
                 have->policy == want->policy && have->staleness == want->staleness &&
                 have->required == want->required &&
                 weft_kv_table_num_workers((weft_kv_table_t *)o) == st->num_workers;
  if (is_same) return NULL;
  return WEFT_ERROR(INVALID_ARGUMENT,
                    "table '%s' was made with another dtype, width, rule, policy or number of workers",
                    weft_state_owner_name(st->owner));
}

/* Which of `names` the attribute is; the op table allows no other. */
static int choice(const weft_kernel_node_t *node, const char *attr, const char *const *names, int n) {
  weft_str_t text = weft_knode_string(node, attr);
  for (int i = 0; i < n; i++) {
    if (weft_str_is(text, names[i])) return i;
  }
  return 0;
}

static weft_kv_config_t read_config(const weft_kernel_node_t *node) {
  static const char *const rules[] = {"assign", "add", "sgd", "momentum", "adagrad"};
  static const char *const inits[] = {"constant", "uniform", "normal"};
  static const char *const policies[] = {"ASP", "BSP", "SSP", "K_OF_W"};
  return (weft_kv_config_t){
      .dtype = (weft_dtype_t)weft_knode_type(node, "dtype"),
      .width = weft_knode_int(node, "width"),
      .rule = (weft_kv_rule_t)choice(node, "apply", rules, 5),
      .learning_rate = (double)weft_knode_float(node, "learning_rate"),
      .momentum = (double)weft_knode_float(node, "momentum"),
      .init = (weft_kv_init_t)choice(node, "initializer", inits, 3),
      .init_value = (double)weft_knode_float(node, "init_value"),
      .seed = weft_knode_int(node, "seed"),
      .max_rows = weft_knode_int(node, "max_rows"),
      .policy = (weft_kv_policy_t)choice(node, "policy", policies, 4),
      .staleness = weft_knode_int(node, "staleness"),
      .required = weft_knode_int(node, "required"),
      .is_mean = weft_str_is(weft_knode_string(node, "reduction_type"), "MEAN"),
  };
}

static weft_status_t *table_prepare(const weft_kernel_node_t *node, void **out_state) {
  int64_t workers = weft_knode_int(node, "num_workers");
  if (workers > WEFT_MAX_CLOCK_WORKERS) {
    return WEFT_ERROR(INVALID_ARGUMENT, "num_workers must be at most %d, but is %" PRId64,
                      WEFT_MAX_CLOCK_WORKERS, workers);
  }
  table_state_t *st = weft_calloc(1, sizeof *st);
  if (st == NULL) return WEFT_NO_MEMORY("preparing %.*s", WEFT_STR_ARGS(node->name));
  st->config = read_config(node);
  st->num_workers = workers;
  st->tasks = weft_knode_attr(node, "worker_tasks");
  weft_status_t *s =
      weft_state_owner_create(node, &weft_kv_table_type, table_make, table_check, st, &st->owner);
  if (s == NULL) *out_state = st;
  if (s != NULL) weft_free(st);
  return s;
}

static weft_status_t *table_handle(weft_kernel_ctx_t *c) {
  return weft_state_owner_output(((table_state_t *)c->state)->owner, c);
}

/* ---- operations ---- */

/* Places of the attributes in the rows. A pull has no ADVANCE, a push no TIMEOUT. */
enum { DTYPE, TIMEOUT, ADVANCE };
#define AT_DTYPE [DTYPE] = {"dtype", WEFT_ATTR_TYPE, false}
#define AT_TIMEOUT [TIMEOUT] = {"timeout_seconds", WEFT_ATTR_FLOAT, false}
#define AT_ADVANCE [ADVANCE] = {"advance", WEFT_ATTR_BOOL, false}

static weft_status_t *in_table(weft_kernel_ctx_t *c, weft_kv_table_t **out) {
  weft_object_t *o = NULL;
  WEFT_RETURN_IF_ERROR(weft_state_in(c, 0, &weft_kv_table_type, &o));
  *out = (weft_kv_table_t *)o;
  return NULL;
}

static void release(weft_kv_table_t *t) { weft_object_release((weft_object_t *)t); }

static weft_status_t *check_dtype(const weft_kernel_ctx_t *c, const weft_kv_table_t *t) {
  int dtype = weft_cpu_attr_at(c, DTYPE)->type;
  if (dtype == (int)weft_kv_table_config(t)->dtype) return NULL;
  return WEFT_ERROR(INVALID_ARGUMENT, "%.*s of %s on a table of %s", WEFT_STR_ARGS(c->node->op_name),
                    weft_dtype_name(dtype), weft_dtype_name(weft_kv_table_config(t)->dtype));
}

/* Inputs: handle, keys, values, lens if so, worker, clock, request id. */
static weft_status_t *run_push(weft_kernel_ctx_t *c, weft_kv_table_t *t, bool has_lens, bool *is_new,
                               int64_t *clock) {
  int at = has_lens ? 4 : 3;
  weft_kv_push_t p = {.keys = weft_in(c, 1),
                      .values = weft_in(c, 2),
                      .lens = has_lens ? weft_in(c, 3) : NULL,
                      .advances = weft_cpu_attr_at(c, ADVANCE)->b};
  WEFT_RETURN_IF_ERROR(check_dtype(c, t));
  WEFT_RETURN_IF_ERROR(weft_kv_scalar(c, at, "worker", &p.worker));
  WEFT_RETURN_IF_ERROR(weft_kv_scalar(c, at + 1, "clock", &p.clock));
  WEFT_RETURN_IF_ERROR(weft_kv_scalar(c, at + 2, "request_id", &p.request_id));
  return weft_kv_table_push(t, &p, is_new, clock);
}

static weft_status_t *any_push(weft_kernel_ctx_t *c, bool has_lens) {
  weft_kv_table_t *t = NULL;
  bool is_new = false;
  int64_t clock = 0;
  WEFT_RETURN_IF_ERROR(in_table(c, &t));
  weft_status_t *s = run_push(c, t, has_lens, &is_new, &clock);
  release(t);
  if (s == NULL) s = weft_tensor_scalar(WEFT_BOOL, &is_new, &c->outputs[0].tensor);
  if (s == NULL) s = weft_tensor_scalar(WEFT_I64, &clock, &c->outputs[1].tensor);
  return s;
}

static weft_status_t *push(weft_kernel_ctx_t *c) { return any_push(c, false); }
static weft_status_t *push_lens(weft_kernel_ctx_t *c) { return any_push(c, true); }

static void any_pull(weft_kernel_ctx_t *c, bool has_lens) {
  weft_kv_table_t *t = NULL;
  int64_t worker = 0, clock = 0;
  weft_status_t *s = in_table(c, &t);
  if (s == NULL) s = check_dtype(c, t);
  if (s == NULL) s = weft_kv_scalar(c, 2, "worker", &worker);
  if (s == NULL) s = weft_kv_scalar(c, 3, "clock", &clock);
  if (s != NULL) {
    c->done(c, s);
  } else {
    weft_resource_call_t call = weft_state_call(c);
    weft_kv_table_pull(t, &call, weft_in(c, 1), worker, clock, has_lens,
                       weft_kv_timeout(c, weft_cpu_attr_at(c, TIMEOUT)));
  }
  if (t != NULL) release(t);
}

static void pull(weft_kernel_ctx_t *c) { any_pull(c, false); }
static void pull_lens(weft_kernel_ctx_t *c) { any_pull(c, true); }

/* The pull is for where the worker is after its push. */
static void push_pull(weft_kernel_ctx_t *c) {
  weft_kv_table_t *t = NULL;
  bool is_new = false;
  int64_t worker = 0, clock = 0;
  weft_status_t *s = in_table(c, &t);
  if (s == NULL) s = run_push(c, t, false, &is_new, &clock);
  if (s == NULL) s = weft_kv_scalar(c, 3, "worker", &worker);
  if (s != NULL) {
    c->done(c, s);
  } else {
    weft_resource_call_t call = weft_state_call(c);
    weft_kv_table_pull(t, &call, weft_in(c, 1), worker, -1, false,
                       weft_kv_timeout(c, weft_cpu_attr_at(c, TIMEOUT)));
  }
  if (t != NULL) release(t);
}

static weft_status_t *attach(weft_kernel_ctx_t *c) {
  weft_kv_table_t *t = NULL;
  int64_t worker = 0, clock = 0, last = 0;
  WEFT_RETURN_IF_ERROR(in_table(c, &t));
  weft_status_t *s = weft_kv_scalar(c, 1, "worker", &worker);
  if (s == NULL) s = weft_kv_table_attach(t, worker, weft_cpu_attr_at(c, 0)->b, &clock, &last);
  release(t);
  if (s == NULL) s = weft_tensor_scalar(WEFT_I64, &clock, &c->outputs[0].tensor);
  if (s == NULL) s = weft_tensor_scalar(WEFT_I64, &last, &c->outputs[1].tensor);
  return s;
}

static weft_status_t *size(weft_kernel_ctx_t *c) {
  weft_kv_table_t *t = NULL;
  WEFT_RETURN_IF_ERROR(in_table(c, &t));
  int64_t n = weft_kv_table_size(t);
  release(t);
  return weft_tensor_scalar(WEFT_I64, &n, &c->outputs[0].tensor);
}

static weft_status_t *export_table(weft_kernel_ctx_t *c) {
  weft_kv_table_t *t = NULL;
  weft_tensor_t *out[5] = {NULL};
  WEFT_RETURN_IF_ERROR(in_table(c, &t));
  weft_status_t *s = check_dtype(c, t);
  if (s == NULL) s = weft_kv_table_export(t, out);
  release(t);
  for (int i = 0; s == NULL && i < 5; i++) weft_out_set(c, i, out[i]);
  return s;
}

static weft_status_t *import_table(weft_kernel_ctx_t *c) {
  weft_kv_table_t *t = NULL;
  WEFT_RETURN_IF_ERROR(in_table(c, &t));
  weft_tensor_t *in[5];
  for (int i = 0; i < 5; i++) in[i] = weft_in(c, i + 1);
  weft_status_t *s = check_dtype(c, t);
  if (s == NULL) s = weft_kv_table_import(t, in);
  release(t);
  return s;
}

const weft_kernel_t weft_cpu_kv_table_kernels[] = {
    WEFT_KERNEL_ATTRS("WeftKvAttach", NULL, 0, .compute = attach, {"greets", WEFT_ATTR_BOOL, false}),
    WEFT_KERNEL_ATTRS("WeftKvExport", NULL, 0, .compute = export_table, AT_DTYPE),
    WEFT_KERNEL_ATTRS("WeftKvImport", NULL, 0, .compute = import_table, AT_DTYPE),
    WEFT_KERNEL_ATTRS("WeftKvPull", NULL, 0, .compute_async = pull, AT_DTYPE, AT_TIMEOUT),
    WEFT_KERNEL_ATTRS("WeftKvPullLens", NULL, 0, .compute_async = pull_lens, AT_DTYPE, AT_TIMEOUT),
    WEFT_KERNEL_ATTRS("WeftKvPush", NULL, 0, .compute = push, AT_DTYPE, AT_ADVANCE),
    WEFT_KERNEL_ATTRS("WeftKvPushLens", NULL, 0, .compute = push_lens, AT_DTYPE, AT_ADVANCE),
    WEFT_KERNEL_ATTRS("WeftKvPushPull", NULL, 0, .compute_async = push_pull, AT_DTYPE, AT_TIMEOUT,
                      AT_ADVANCE),
    {.op = "WeftKvSize", .compute = size},
    {.op = "WeftKvTable", .prepare = table_prepare, .compute = table_handle, .destroy = table_state_destroy},
    {0},
};
