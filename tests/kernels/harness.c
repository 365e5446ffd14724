/* tests/kernels/harness.c - one node, made from text and run by hand. */
#include "tests/kernels/harness.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/mutex.h"

enum { MAX_ARGS = 64 };

struct weft_harness {
  weft_bench_t *bench;
  weft_arena_t arena; /* everything the node points to */
  weft_kernel_setup_t setup;
  const weft_kernel_t *kernel;
  void *state;
  weft_named_attr_t *attrs;
  weft_mutex_t mu;
  weft_cond_t cond;
  bool is_done;          /* guarded by mu */
  weft_status_t *status; /* guarded by mu */
};

weft_status_t *weft_bench_init(weft_bench_t *b) {
  *b = (weft_bench_t){0};
  weft_status_t *s = weft_thread_pool_create("bench", 2, &b->pool);
  if (s == NULL) s = weft_resource_manager_create(&b->resources);
  if (s == NULL) {
    s = weft_cpu_device_create(WEFT_STR("/job:localhost/replica:0/task:0/device:CPU:0"), 1, b->pool,
                               b->resources, &b->device);
  }
  if (s == NULL) s = weft_step_container_create(&b->container);
  if (s == NULL && (b->canceller = weft_canceller_create(NULL)) == NULL)
    s = WEFT_ERROR(RESOURCE_EXHAUSTED, "bench");
  if (s != NULL) weft_bench_deinit(b);
  return s;
}

void weft_bench_deinit(weft_bench_t *b) {
  weft_step_container_destroy(b->container);
  weft_canceller_release(b->canceller);
  weft_device_destroy(b->device);
  weft_thread_pool_destroy(b->pool);
  weft_resource_manager_destroy(b->resources);
  *b = (weft_bench_t){0};
}

/* ---- attributes ---- */

/* The next piece up to a space, or inside quotes or brackets. */
static weft_str_t next_word(const char **text) {
  const char *p = *text;
  while (*p == ' ') p++;
  const char *begin = p;
  int depth = 0;
  bool quoted = false;
  for (; *p != '\0' && (quoted || depth > 0 || *p != ' '); p++) {
    if (*p == '\'') quoted = !quoted;
    if (!quoted && *p == '[') depth++;
    if (!quoted && *p == ']') depth--;
  }
  *text = p;
  return weft_str_of(begin, (size_t)(p - begin));
}

static weft_str_t unquote(weft_str_t s) {
  if (s.length >= 2 && s.data[0] == '\'' && s.data[s.length - 1] == '\'')
    return weft_str_of(s.data + 1, s.length - 2);
  return s;
}

static weft_str_t unbracket(weft_str_t s) {
  if (s.length >= 2 && s.data[0] == '[' && s.data[s.length - 1] == ']')
    return weft_str_of(s.data + 1, s.length - 2);
  return s;
}

static weft_status_t *parse_shape(weft_str_t text, weft_shape_t *out) {
  *out = WEFT_SCALAR;
  if (weft_str_is(text, "?")) {
    *out = WEFT_UNKNOWN_SHAPE;
    return NULL;
  }
  weft_str_t rest = unbracket(text), head, tail;
  while (rest.length > 0) {
    if (!weft_str_split(rest, ',', &head, &tail)) {
      head = rest;
      tail = weft_str_of(NULL, 0);
    }
    int64_t dim = WEFT_UNKNOWN_DIM;
    if (!weft_str_is(head, "?") && !weft_str_to_i64(head, &dim)) {
      return WEFT_ERROR(INVALID_ARGUMENT, "bad shape '%.*s'", WEFT_STR_ARGS(text));
    }
    if (out->rank == WEFT_MAX_DIMS) return WEFT_ERROR(INVALID_ARGUMENT, "too many dims");
    out->dims[out->rank++] = dim;
    rest = tail;
  }
  return NULL;
}

static weft_status_t *parse_one(weft_arena_t *arena, weft_attr_kind_t kind, weft_str_t text,
                                weft_attr_t *out) {
  out->kind = kind;
  weft_str_t copy = weft_arena_str(arena, unquote(text));
  if (copy.data == NULL) return WEFT_ERROR(RESOURCE_EXHAUSTED, "attr");
  switch (kind) {
    case WEFT_ATTR_STRING: out->s = copy; return NULL;
    case WEFT_ATTR_INT:
      if (!weft_str_to_i64(copy, &out->i)) break;
      return NULL;
    case WEFT_ATTR_FLOAT: out->f = strtof(copy.data, NULL); return NULL;
    case WEFT_ATTR_BOOL: out->b = weft_str_is(copy, "true"); return NULL;
    case WEFT_ATTR_TYPE:
      out->type = weft_dtype_from_name(copy);
      if (out->type == 0) break;
      return NULL;
    case WEFT_ATTR_SHAPE: {
      weft_shape_t *shape = weft_arena_calloc(arena, 1, sizeof *shape);
      if (shape == NULL) return WEFT_ERROR(RESOURCE_EXHAUSTED, "attr");
      out->shape = shape;
      return parse_shape(copy, shape);
    }
    case WEFT_ATTR_TENSOR: {
      const char *p = copy.data;
      return weft_tensor_parse(&p, &out->tensor);
    }
    default: break;
  }
  return WEFT_ERROR(INVALID_ARGUMENT, "bad attribute value '%.*s'", WEFT_STR_ARGS(text));
}

static void put_item(weft_attr_t *list, int at, const weft_attr_t *item) {
  switch (list->kind) {
    case WEFT_ATTR_STRING: ((weft_str_t *)list->list.strings)[at] = item->s; break;
    case WEFT_ATTR_INT: ((int64_t *)list->list.ints)[at] = item->i; break;
    case WEFT_ATTR_FLOAT: ((float *)list->list.floats)[at] = item->f; break;
    case WEFT_ATTR_BOOL: ((bool *)list->list.bools)[at] = item->b; break;
    case WEFT_ATTR_TYPE: ((int *)list->list.types)[at] = item->type; break;
    case WEFT_ATTR_SHAPE: ((weft_shape_t *)list->list.shapes)[at] = *item->shape; break;
    default: break;
  }
}

static weft_status_t *parse_list(weft_arena_t *arena, weft_attr_kind_t kind, weft_str_t text,
                                 weft_attr_t *out) {
  enum { MAX_ITEMS = 64 };
  *out = (weft_attr_t){.kind = kind, .is_list = true};
  void *items = weft_arena_calloc(arena, MAX_ITEMS, sizeof(weft_shape_t));
  if (items == NULL) return WEFT_ERROR(RESOURCE_EXHAUSTED, "attr");
  out->list.ints = items;
  weft_str_t inner = unbracket(text);
  size_t begin = 0;
  int depth = 0;
  for (size_t i = 0; i <= inner.length; i++) {
    if (i < inner.length && inner.data[i] == '[') depth++;
    if (i < inner.length && inner.data[i] == ']') depth--;
    if (i < inner.length && (inner.data[i] != ',' || depth > 0)) continue;
    if (inner.length == 0) break;
    weft_attr_t item = {0};
    WEFT_RETURN_IF_ERROR(parse_one(arena, kind, weft_str_of(inner.data + begin, i - begin), &item));
    if (out->n == MAX_ITEMS) return WEFT_ERROR(INVALID_ARGUMENT, "list too long");
    put_item(out, out->n++, &item);
    begin = i + 1;
  }
  return NULL;
}

static weft_named_attr_t *attr_slot(weft_harness_t *h, weft_str_t name) {
  for (int i = 0; i < h->setup.num_attrs; i++) {
    if (weft_str_eq(h->attrs[i].name, name)) return &h->attrs[i];
  }
  h->attrs[h->setup.num_attrs].name = name;
  return &h->attrs[h->setup.num_attrs++];
}

static bool has_attr(const weft_harness_t *h, weft_str_t name) {
  for (int i = 0; i < h->setup.num_attrs; i++) {
    if (weft_str_eq(h->attrs[i].name, name)) return true;
  }
  return false;
}

static void set_int(weft_harness_t *h, weft_str_t name, int64_t value) {
  if (!has_attr(h, name)) attr_slot(h, name)->value = (weft_attr_t){.kind = WEFT_ATTR_INT, .i = value};
}

/* Takes type attributes and list lengths from the inputs' dtypes, left to right. At most one repeated or
 * listed argument may have an unknown length: it gets what the others leave. */
static weft_status_t *infer_from_inputs(weft_harness_t *h, const int *types, int num_inputs) {
  const weft_op_def_t *op = h->setup.node.op;
  int spare = num_inputs, at = 0;
  for (int a = 0; a < op->num_inputs; a++) {
    const weft_arg_def_t *arg = &op->inputs[a];
    if (arg->kind == WEFT_ARG_FIXED || arg->kind == WEFT_ARG_ATTR) spare--;
    if (arg->kind == WEFT_ARG_REPEATED && has_attr(h, arg->number_attr)) {
      spare -= (int)weft_attr_find(h->attrs, h->setup.num_attrs, arg->number_attr.data)->i;
    }
    if (arg->kind == WEFT_ARG_TYPE_LIST && has_attr(h, arg->type_attr)) {
      spare -= weft_attr_find(h->attrs, h->setup.num_attrs, arg->type_attr.data)->n;
    }
  }
  for (int a = 0; a < op->num_inputs; a++) {
    const weft_arg_def_t *arg = &op->inputs[a];
    int n = 1;
    if (arg->kind == WEFT_ARG_REPEATED) {
      int sharing = 0; /* DynamicStitch: N indices and N data */
      for (int k = 0; k < op->num_inputs; k++) {
        sharing += op->inputs[k].kind == WEFT_ARG_REPEATED &&
                   weft_str_eq(op->inputs[k].number_attr, arg->number_attr);
      }
      set_int(h, arg->number_attr, spare < 0 ? 0 : spare / sharing);
      n = (int)weft_attr_find(h->attrs, h->setup.num_attrs, arg->number_attr.data)->i;
    }
    if (arg->kind == WEFT_ARG_TYPE_LIST) {
      if (!has_attr(h, arg->type_attr)) {
        int *list = weft_arena_calloc(&h->arena, (size_t)(spare < 1 ? 1 : spare), sizeof *list);
        if (list == NULL) return WEFT_ERROR(RESOURCE_EXHAUSTED, "attr");
        for (int i = 0; i < spare && at + i < num_inputs; i++) list[i] = weft_dtype_base(types[at + i]);
        weft_attr_t *v = &attr_slot(h, arg->type_attr)->value;
        *v = (weft_attr_t){.kind = WEFT_ATTR_TYPE, .is_list = true, .n = spare};
        v->list.types = list;
      }
      n = weft_attr_find(h->attrs, h->setup.num_attrs, arg->type_attr.data)->n;
    } else if (arg->kind != WEFT_ARG_FIXED && arg->type_attr.length > 0 && n > 0 && at < num_inputs &&
               !has_attr(h, arg->type_attr)) {
      attr_slot(h, arg->type_attr)->value =
          (weft_attr_t){.kind = WEFT_ATTR_TYPE, .type = weft_dtype_base(types[at])};
    }
    at += n;
  }
  return NULL;
}

static weft_status_t *read_attrs(weft_harness_t *h, const char *text, const int *types, int num_inputs) {
  const weft_op_def_t *op = h->setup.node.op;
  while (text != NULL) {
    weft_str_t word = next_word(&text), name, value;
    if (word.length == 0) break;
    if (!weft_str_split(word, '=', &name, &value)) {
      return WEFT_ERROR(INVALID_ARGUMENT, "no '=' in '%.*s'", WEFT_STR_ARGS(word));
    }
    const weft_attr_def_t *def = weft_op_attr(op, name);
    if (def == NULL) {
      return WEFT_ERROR(INVALID_ARGUMENT, "%s has no attribute %.*s", op->name.data, WEFT_STR_ARGS(name));
    }
    weft_attr_t v = {0};
    WEFT_RETURN_IF_ERROR(def->is_list ? parse_list(&h->arena, def->kind, value, &v)
                                      : parse_one(&h->arena, def->kind, value, &v));
    attr_slot(h, def->name)->value = v;
  }
  WEFT_RETURN_IF_ERROR(infer_from_inputs(h, types, num_inputs));
  for (int i = 0; i < op->num_attrs; i++) {
    const weft_attr_def_t *def = &op->attrs[i];
    if (has_attr(h, def->name)) continue;
    if (!def->has_default) return WEFT_ERROR(INVALID_ARGUMENT, "%s needs %s", op->name.data, def->name.data);
    WEFT_RETURN_IF_ERROR(weft_attr_copy(&h->arena, &def->default_value, &attr_slot(h, def->name)->value));
  }
  for (int i = 0; i < op->num_attrs; i++) {
    const weft_attr_t *v = weft_attr_find(h->attrs, h->setup.num_attrs, op->attrs[i].name.data);
    WEFT_RETURN_IF_ERROR(weft_op_check_attr(op, &op->attrs[i], v));
  }
  return NULL;
}

weft_status_t *weft_harness_create(weft_bench_t *b, const char *op_name, const char *attrs,
                                   const int *input_types, int num_inputs, weft_harness_t **out) {
  const weft_op_def_t *op = weft_op_find(weft_str(op_name));
  if (op == NULL) return WEFT_ERROR(NOT_FOUND, "no op '%s'", op_name);
  weft_harness_t *h = weft_calloc(1, sizeof *h);
  if (h == NULL) return WEFT_ERROR(RESOURCE_EXHAUSTED, "harness");
  weft_mutex_init(&h->mu);
  weft_cond_init(&h->cond);
  h->bench = b;
  h->setup.node = (weft_kernel_node_t){
      .name = WEFT_STR("n"), .op_name = op->name, .op = op, .device = b->device, .session = WEFT_STR("")};
  h->attrs = weft_arena_calloc(&h->arena, MAX_ARGS, sizeof *h->attrs);
  weft_status_t *s = h->attrs == NULL ? WEFT_ERROR(RESOURCE_EXHAUSTED, "harness") : NULL;
  if (s == NULL) s = read_attrs(h, attrs, input_types, num_inputs);
  h->setup.attrs = h->attrs;
  int *in = NULL, *outs = NULL;
  if (s == NULL) {
    s = weft_op_arg_types(&h->arena, op->inputs, op->num_inputs, h->attrs, h->setup.num_attrs, &in,
                          &h->setup.node.num_inputs);
  }
  if (s == NULL) {
    s = weft_op_arg_types(&h->arena, op->outputs, op->num_outputs, h->attrs, h->setup.num_attrs, &outs,
                          &h->setup.node.num_outputs);
  }
  h->setup.node.input_types = in;
  h->setup.node.output_types = outs;
  if (s == NULL && h->setup.node.num_inputs != num_inputs) {
    s = WEFT_ERROR(INVALID_ARGUMENT, "%s takes %d inputs, not %d", op_name, h->setup.node.num_inputs,
                   num_inputs);
  }
  for (int i = 0; s == NULL && i < num_inputs; i++) {
    if (weft_dtype_base(in[i]) != weft_dtype_base(input_types[i])) {
      s = WEFT_ERROR(INVALID_ARGUMENT, "%s: input %d is %s, not %s", op_name, i, weft_dtype_name(in[i]),
                     weft_dtype_name(input_types[i]));
    }
  }
  if (s == NULL) {
    h->kernel = weft_kernel_find("CPU", op->name, h->attrs, h->setup.num_attrs);
    if (h->kernel == NULL)
      s = WEFT_ERROR(NOT_FOUND, "no kernel for '%s' with %s", op_name, attrs == NULL ? "" : attrs);
  }
  if (s == NULL) {
    h->setup.node.param = h->kernel->param;
    h->setup.reads = h->kernel->reads;
  }
  if (s == NULL && h->kernel->prepare != NULL) s = h->kernel->prepare(&h->setup, &h->state);
  if (s != NULL) {
    weft_harness_destroy(h);
    return s;
  }
  *out = h;
  return NULL;
}

void weft_harness_destroy(weft_harness_t *h) {
  if (h == NULL) return;
  if (h->kernel != NULL && h->kernel->destroy != NULL) h->kernel->destroy(h->state);
  for (int i = 0; i < h->setup.num_attrs; i++) weft_attr_release_tensors(&h->attrs[i].value);
  weft_arena_deinit(&h->arena);
  weft_mutex_deinit(&h->mu);
  weft_cond_deinit(&h->cond);
  weft_free(h);
}

int weft_harness_num_outputs(const weft_harness_t *h) { return h->setup.node.num_outputs; }
const weft_kernel_setup_t *weft_harness_setup(const weft_harness_t *h) { return &h->setup; }

/* ---- runs ---- */

typedef struct run {
  weft_kernel_ctx_t ctx; /* first: the kernel's callback gets its address */
  weft_harness_t *h;
} run_t;

static void run_done(weft_kernel_ctx_t *ctx, weft_status_t *status) {
  weft_harness_t *h = ((run_t *)ctx)->h;
  weft_mutex_lock(&h->mu);
  h->is_done = true;
  h->status = status;
  weft_cond_broadcast(&h->cond);
  weft_mutex_unlock(&h->mu);
}

static void value_release(weft_value_t *v) {
  weft_tensor_release(v->tensor);
  if (v->ref != NULL) weft_object_release(&v->ref->object);
  *v = (weft_value_t){0};
}

/* Consumes the inputs. */
static weft_status_t *run(weft_harness_t *h, weft_value_t *inputs, weft_value_t *outputs) {
  weft_bench_t *b = h->bench;
  weft_step_t step = {
      .id = 1, .rendezvous = b->rendezvous, .canceller = b->canceller, .container = b->container};
  run_t r = {.ctx = {.node = &h->setup.node,
                     .state = h->state,
                     .inputs = inputs,
                     .outputs = outputs,
                     .step = &step,
                     .device = b->device,
                     .done = run_done},
             .h = h};
  for (int i = 0; i < h->setup.node.num_outputs; i++) outputs[i] = (weft_value_t){0};
  weft_status_t *s = NULL;
  if (h->kernel->compute_async != NULL) {
    h->is_done = false;
    h->kernel->compute_async(&r.ctx);
    weft_mutex_lock(&h->mu);
    while (!h->is_done) weft_cond_wait(&h->cond, &h->mu);
    s = h->status;
    h->status = NULL;
    weft_mutex_unlock(&h->mu);
  } else {
    s = h->kernel->compute(&r.ctx);
  }
  for (int i = 0; i < h->setup.node.num_inputs; i++) value_release(&inputs[i]);
  for (int i = 0; s != NULL && i < h->setup.node.num_outputs; i++) value_release(&outputs[i]);
  return s;
}

weft_status_t *weft_harness_run_values(weft_harness_t *h, const weft_value_t *inputs, weft_value_t *outputs) {
  weft_value_t in[MAX_ARGS] = {{0}};
  for (int i = 0; i < h->setup.node.num_inputs; i++) {
    in[i].tensor = weft_tensor_retain(inputs[i].tensor);
    in[i].ref = inputs[i].ref;
    if (in[i].ref != NULL) (void)weft_object_retain(&in[i].ref->object);
  }
  return run(h, in, outputs);
}

weft_status_t *weft_harness_run_owned(weft_harness_t *h, weft_tensor_t **inputs, weft_tensor_t **outputs) {
  weft_value_t in[MAX_ARGS] = {{0}}, out[MAX_ARGS] = {{0}};
  for (int i = 0; i < h->setup.node.num_inputs; i++) {
    in[i].tensor = inputs[i];
    inputs[i] = NULL;
  }
  weft_status_t *s = run(h, in, out);
  for (int i = 0; i < h->setup.node.num_outputs; i++) outputs[i] = out[i].tensor;
  return s;
}

weft_status_t *weft_harness_run(weft_harness_t *h, weft_tensor_t *const *inputs, weft_tensor_t **outputs) {
  weft_tensor_t *in[MAX_ARGS] = {NULL};
  for (int i = 0; i < h->setup.node.num_inputs; i++) in[i] = weft_tensor_retain(inputs[i]);
  return weft_harness_run_owned(h, in, outputs);
}

weft_status_t *weft_run_op(weft_bench_t *b, const char *op, const char *attrs, weft_tensor_t *const *inputs,
                           int num_inputs, weft_tensor_t **outputs, int max_outputs, int *num_outputs) {
  int types[MAX_ARGS] = {0};
  for (int i = 0; i < num_inputs; i++) types[i] = inputs[i]->dtype;
  weft_harness_t *h = NULL;
  weft_status_t *s = weft_harness_create(b, op, attrs, types, num_inputs, &h);
  if (s == NULL && weft_harness_num_outputs(h) > max_outputs)
    s = WEFT_ERROR(INVALID_ARGUMENT, "too many outputs");
  if (s == NULL) s = weft_harness_run(h, inputs, outputs);
  if (s == NULL) *num_outputs = weft_harness_num_outputs(h);
  weft_harness_destroy(h);
  return s;
}
