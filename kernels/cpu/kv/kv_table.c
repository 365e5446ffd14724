/* kernels/cpu/kv/kv_table.c - the kernels of tables; resources/kv_table.h says what they do. */
#include <inttypes.h>

#include "base/alloc.h"
#include "kernels/cpu/kv/kv_common.h"
#include "kernels/cpu/loops/common.h"
#include "resources/kv_table.h"

typedef struct table_config {
  weft_kv_config_t table;
  int num_workers;
  const weft_attr_t *tasks; /* the node's */
} table_config_t;

static weft_status_t *create(weft_kernel_ctx_t *ctx, const char *name, const void *config,
                             weft_object_t **out) {
  (void)ctx;
  const table_config_t *c = config;
  (void)name;
  return weft_kv_table_create(&c->table, c->num_workers, c->tasks == NULL ? NULL : c->tasks->list.strings,
                              c->tasks == NULL ? 0 : c->tasks->n, out);
}

static weft_status_t *check(const char *name, const void *config, weft_object_t *o) {
  const table_config_t *c = config;
  const weft_kv_config_t *have = weft_kv_table_config((weft_kv_table_t *)o), *want = &c->table;
  bool is_same = have->dtype == want->dtype && have->width == want->width && have->rule == want->rule &&
                 have->policy == want->policy && have->staleness == want->staleness &&
                 have->required == want->required &&
                 weft_kv_table_num_workers((weft_kv_table_t *)o) == c->num_workers;
  if (is_same) return NULL;
  return WEFT_ERROR(INVALID_ARGUMENT,
                    "table '%s' was made with another dtype, width, rule, policy or number of workers", name);
}

/* Which of `names` the attribute is; the op table allows no other. */
static int choice(const weft_kernel_setup_t *setup, const char *attr, const char *const *names, int n) {
  weft_str_t text = weft_knode_string(setup, attr);
  for (int i = 0; i < n; i++) {
    if (weft_str_is(text, names[i])) return i;
  }
  return 0;
}

static weft_status_t *read_config(const weft_kernel_setup_t *setup, void *config) {
  table_config_t *c = config;
  static const char *const rules[] = {"assign", "add", "sgd", "momentum", "adagrad"};
  static const char *const inits[] = {"constant", "uniform", "normal"};
  static const char *const policies[] = {"ASP", "BSP", "SSP", "K_OF_W"};
  c->table = (weft_kv_config_t){
      .dtype = (weft_dtype_t)weft_knode_type(setup, "dtype"),
      .width = weft_knode_int(setup, "width"),
      .rule = (weft_kv_rule_t)choice(setup, "apply", rules, 5),
      .learning_rate = (double)weft_knode_float(setup, "learning_rate"),
      .momentum = (double)weft_knode_float(setup, "momentum"),
      .init = (weft_kv_init_t)choice(setup, "initializer", inits, 3),
      .init_value = (double)weft_knode_float(setup, "init_value"),
      .seed = weft_knode_int(setup, "seed"),
      .max_rows = weft_knode_int(setup, "max_rows"),
      .policy = (weft_kv_policy_t)choice(setup, "policy", policies, 4),
      .staleness = weft_knode_int(setup, "staleness"),
      .required = weft_knode_int(setup, "required"),
      .is_mean = weft_str_is(weft_knode_string(setup, "reduction_type"), "MEAN"),
  };
  return weft_kv_read_workers(setup, &c->num_workers, &c->tasks);
}

static const weft_state_maker_t maker = {
    &weft_kv_table_type, sizeof(table_config_t), read_config, create, check, NULL};

/* ---- operations ---- */

static weft_status_t *in_table(weft_kernel_ctx_t *c, weft_kv_table_t **out) {
  weft_object_t *o = NULL;
  WEFT_RETURN_IF_ERROR(weft_state_in(c, 0, &weft_kv_table_type, &o));
  *out = (weft_kv_table_t *)o;
  return NULL;
}

static void release(weft_kv_table_t *t) { weft_object_release((weft_object_t *)t); }

static weft_status_t *check_dtype(const weft_kernel_ctx_t *c, const weft_kv_table_t *t, int dtype) {
  if (dtype == (int)weft_kv_table_config(t)->dtype) return NULL;
  return WEFT_ERROR(INVALID_ARGUMENT, "%.*s of %s on a table of %s", WEFT_STR_ARGS(c->node->op_name),
                    weft_dtype_name(dtype), weft_dtype_name(weft_kv_table_config(t)->dtype));
}

/* Inputs: handle, keys, values, lens if there are seven, worker, clock, request id. */
static weft_status_t *run_push(weft_kernel_ctx_t *c, weft_kv_table_t *t, bool advances, bool *is_new,
                               int64_t *clock) {
  bool has_lens = c->node->num_inputs == 7;
  int at = has_lens ? 4 : 3;
  weft_kv_push_t p = {.keys = weft_in(c, 1),
                      .values = weft_in(c, 2),
                      .lens = has_lens ? weft_in(c, 3) : NULL,
                      .advances = advances};
  WEFT_RETURN_IF_ERROR(weft_kv_scalar(c, at, "worker", &p.worker));
  WEFT_RETURN_IF_ERROR(weft_kv_scalar(c, at + 1, "clock", &p.clock));
  WEFT_RETURN_IF_ERROR(weft_kv_scalar(c, at + 2, "request_id", &p.request_id));
  return weft_kv_table_push(t, &p, is_new, clock);
}

WEFT_ATTRS(push, (TYPE, dtype), (BOOL, advance))
static weft_status_t *push(weft_kernel_ctx_t *c, const push_attrs_t *attrs) {
  weft_kv_table_t *t = NULL;
  bool is_new = false;
  int64_t clock = 0;
  WEFT_RETURN_IF_ERROR(in_table(c, &t));
  weft_status_t *s = check_dtype(c, t, attrs->dtype);
  if (s == NULL) s = run_push(c, t, attrs->advance, &is_new, &clock);
  release(t);
  if (s == NULL) s = weft_tensor_scalar(WEFT_BOOL, &is_new, &c->outputs[0].tensor);
  if (s == NULL) s = weft_tensor_scalar(WEFT_I64, &clock, &c->outputs[1].tensor);
  return s;
}

WEFT_ATTRS_ASYNC(pull, (TYPE, dtype), (FLOAT, timeout_seconds))
static void pull(weft_kernel_ctx_t *c, const pull_attrs_t *attrs) {
  weft_kv_table_t *t = NULL;
  int64_t worker = 0, clock = 0;
  weft_status_t *s = in_table(c, &t);
  if (s == NULL) s = check_dtype(c, t, attrs->dtype);
  if (s == NULL) s = weft_kv_scalar(c, 2, "worker", &worker);
  if (s == NULL) s = weft_kv_scalar(c, 3, "clock", &clock);
  if (s != NULL) {
    c->done(c, s);
  } else {
    weft_resource_call_t call = weft_state_call(c);
    weft_kv_table_pull(t, &call, weft_in(c, 1), worker, clock, c->node->num_outputs == 3 /* lens */,
                       weft_kv_timeout(c, attrs->timeout_seconds));
  }
  if (t != NULL) release(t);
}

/* The pull is for where the worker is after its push. */
WEFT_ATTRS_ASYNC(push_pull, (TYPE, dtype), (BOOL, advance), (FLOAT, timeout_seconds))
static void push_pull(weft_kernel_ctx_t *c, const push_pull_attrs_t *attrs) {
  weft_kv_table_t *t = NULL;
  bool is_new = false;
  int64_t worker = 0, clock = 0;
  weft_status_t *s = in_table(c, &t);
  if (s == NULL) s = check_dtype(c, t, attrs->dtype);
  if (s == NULL) s = run_push(c, t, attrs->advance, &is_new, &clock);
  if (s == NULL) s = weft_kv_scalar(c, 3, "worker", &worker);
  if (s != NULL) {
    c->done(c, s);
  } else {
    weft_resource_call_t call = weft_state_call(c);
    weft_kv_table_pull(t, &call, weft_in(c, 1), worker, -1, false,
                       weft_kv_timeout(c, attrs->timeout_seconds));
  }
  if (t != NULL) release(t);
}

WEFT_ATTRS(attach, (BOOL, greets))
static weft_status_t *attach(weft_kernel_ctx_t *c, const attach_attrs_t *attrs) {
  weft_kv_table_t *t = NULL;
  int64_t worker = 0, clock = 0, last = 0;
  WEFT_RETURN_IF_ERROR(in_table(c, &t));
  weft_status_t *s = weft_kv_scalar(c, 1, "worker", &worker);
  if (s == NULL) s = weft_kv_table_attach(t, worker, attrs->greets, &clock, &last);
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

WEFT_ATTRS(export_table, (TYPE, dtype))
static weft_status_t *export_table(weft_kernel_ctx_t *c, const export_table_attrs_t *attrs) {
  weft_kv_table_t *t = NULL;
  weft_tensor_t *out[5] = {NULL};
  WEFT_RETURN_IF_ERROR(in_table(c, &t));
  weft_status_t *s = check_dtype(c, t, attrs->dtype);
  if (s == NULL) s = weft_kv_table_export(t, out);
  release(t);
  for (int i = 0; s == NULL && i < 5; i++) weft_out_set(c, i, out[i]);
  return s;
}

WEFT_ATTRS(import_table, (TYPE, dtype))
static weft_status_t *import_table(weft_kernel_ctx_t *c, const import_table_attrs_t *attrs) {
  weft_kv_table_t *t = NULL;
  WEFT_RETURN_IF_ERROR(in_table(c, &t));
  weft_tensor_t *in[5];
  for (int i = 0; i < 5; i++) in[i] = weft_in(c, i + 1);
  weft_status_t *s = check_dtype(c, t, attrs->dtype);
  if (s == NULL) s = weft_kv_table_import(t, in);
  release(t);
  return s;
}

const weft_kernel_t weft_cpu_kv_table_kernels[] = {
    {.op = "WeftKvAttach", WEFT_COMPUTE(attach)},
    {.op = "WeftKvExport", WEFT_COMPUTE(export_table)},
    {.op = "WeftKvImport", WEFT_COMPUTE(import_table)},
    {.op = "WeftKvPull", WEFT_COMPUTE_ASYNC(pull)},
    {.op = "WeftKvPullLens", WEFT_COMPUTE_ASYNC(pull)},
    {.op = "WeftKvPush", WEFT_COMPUTE(push)},
    {.op = "WeftKvPushLens", WEFT_COMPUTE(push)},
    {.op = "WeftKvPushPull", WEFT_COMPUTE_ASYNC(push_pull)},
    {.op = "WeftKvSize", .compute = size},
    {.op = "WeftKvTable", WEFT_STATE_MAKER, .param = &maker},
    {0},
};
