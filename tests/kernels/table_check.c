/* tests/kernels/table_check.c - see the header. */
#include "tests/kernels/table_check.h"

#include <stdlib.h>

#include "base/alloc.h"

enum { MAX_ATTRS = 32, MAX_OPTIONAL = 1024, MAX_VARIANTS = 8 };

typedef weft_status_t *prepare_fn(const weft_kernel_setup_t *setup, void **out_state);

/* An attribute that only some ops of a family have. */
typedef struct optional {
  prepare_fn *prepare;
  const char *op, *name;
  bool is_found; /* in some op's record */
} optional_t;

typedef struct check {
  weft_device_t *device;
  weft_strbuf_t *faults;
  int num_faults;
  optional_t optionals[MAX_OPTIONAL];
  int num_optionals;
  const weft_kernel_t *kernel; /* being prepared */
  const weft_op_def_t *op;
} check_t;

static void fault(check_t *c, const char *op, const char *what, const char *name) {
  weft_strbuf_t line = WEFT_STRBUF_INIT;
  weft_strbuf_printf(&line, "%s: %s%s%s\n", op, what, name == NULL ? "" : " ", name == NULL ? "" : name);
  bool is_known = false; /* each once */
  for (const char *p = c->faults->data; p != NULL && !is_known;
       p = strchr(p, '\n') == NULL ? NULL : strchr(p, '\n') + 1) {
    is_known = strncmp(p, line.data, line.length) == 0;
  }
  if (!is_known) {
    weft_strbuf_puts(c->faults, line.data);
    c->num_faults++;
  }
  weft_strbuf_deinit(&line);
}

/* ---- dtypes ---- */

static void check_types(check_t *c, const weft_kernel_t *k, const char *attr, weft_dtype_set_t types) {
  if (attr == NULL) return;
  const weft_attr_def_t *def = weft_op_attr(c->op, weft_str(attr));
  if (def == NULL || def->kind != WEFT_ATTR_TYPE) {
    fault(c, k->op, "the record has no type attribute", attr);
    return;
  }
  for (int t = 1; t < WEFT_DTYPE_COUNT && def->allowed_types != 0 && types != WEFT_SET_ALL; t++) {
    weft_dtype_set_t bit = WEFT_DTYPE_BIT(t);
    if ((types & bit) != 0 && (def->allowed_types & bit) == 0)
      fault(c, k->op, "the op does not allow", weft_dtype_name(t));
  }
}

/* May one node be for both rows? */
static bool overlap(const weft_kernel_t *a, const weft_kernel_t *b) {
  const char *attrs[2][2] = {{a->type_attr, a->type_attr2}, {b->type_attr, b->type_attr2}};
  const weft_dtype_set_t types[2][2] = {{a->types, a->types2}, {b->types, b->types2}};
  for (int i = 0; i < 2; i++) {
    for (int k = 0; k < 2; k++) {
      bool is_same = attrs[0][i] != NULL && attrs[1][k] != NULL && strcmp(attrs[0][i], attrs[1][k]) == 0;
      if (is_same && (types[0][i] & types[1][k]) == 0) return false;
    }
  }
  return true;
}

static void check_twice(check_t *c, const weft_kernel_table_t *table, const weft_kernel_t *k) {
  bool is_behind = false;
  for (int f = 0; table->families[f] != NULL; f++) {
    for (const weft_kernel_t *other = table->families[f]; other->op != NULL; other++) {
      if (other == k) {
        is_behind = true;
      } else if (is_behind && strcmp(other->op, k->op) == 0 && overlap(k, other)) {
        fault(c, k->op, "is in the table twice for a dtype", NULL);
      }
    }
  }
}

/* ---- attributes that prepare reads ---- */

static void saw_optional(check_t *c, const char *name, bool is_found) {
  int i = 0;
  while (i < c->num_optionals &&
         (c->optionals[i].prepare != c->kernel->prepare || strcmp(c->optionals[i].name, name) != 0)) {
    i++;
  }
  if (i == MAX_OPTIONAL) {
    fault(c, c->kernel->op, "too many attributes to check", NULL);
    return;
  }
  if (i == c->num_optionals)
    c->optionals[c->num_optionals++] = (optional_t){c->kernel->prepare, c->kernel->op, name, false};
  if (is_found) c->optionals[i].is_found = true;
}

static void saw_read(void *arg, const char *name, weft_attr_kind_t kind, bool is_required) {
  check_t *c = arg;
  const weft_attr_def_t *def = weft_op_attr(c->op, weft_str(name));
  if (!is_required) saw_optional(c, name, def != NULL);
  if (is_required && def == NULL)
    fault(c, c->kernel->op, "prepare reads an attribute that the record lacks:", name);
  if (def != NULL && kind != WEFT_ATTR_NONE && (def->kind != kind || def->is_list)) {
    fault(c, c->kernel->op, "prepare reads an attribute that is of another kind in the record:", name);
  }
}

/* A dtype that a type attribute may have for this row. */
static int type_for(const weft_kernel_t *k, const weft_attr_def_t *def) {
  weft_dtype_set_t types = def->allowed_types == 0 ? WEFT_SET_ALL : def->allowed_types;
  if (k->type_attr != NULL && weft_str_is(def->name, k->type_attr)) types &= k->types;
  if (k->type_attr2 != NULL && weft_str_is(def->name, k->type_attr2)) types &= k->types2;
  if ((types & WEFT_DTYPE_BIT(WEFT_F32)) != 0) return WEFT_F32;
  for (int t = 1; t < WEFT_DTYPE_COUNT; t++) {
    if ((types & WEFT_DTYPE_BIT(t)) != 0) return t;
  }
  return WEFT_F32;
}

static weft_status_t *make_list(weft_arena_t *arena, const weft_kernel_t *k, const weft_attr_def_t *def,
                                weft_attr_t *out) {
  static const int64_t ones[8] = {1, 1, 1, 1, 1, 1, 1, 1};
  static const bool flags[8] = {false};
  static const weft_str_t texts[8] = {{"", 0}, {"", 0}, {"", 0}, {"", 0}, {"", 0}, {"", 0}, {"", 0}, {"", 0}};
  static const float numbers[8] = {1};
  int n = def->has_minimum && def->minimum > 0 ? (int)def->minimum : 1;
  *out = (weft_attr_t){.kind = def->kind, .is_list = true, .n = n > 8 ? 8 : n};
  int *types = weft_arena_calloc(arena, 8, sizeof *types);
  weft_shape_t *shapes = weft_arena_calloc(arena, 8, sizeof *shapes);
  if (types == NULL || shapes == NULL) return WEFT_NO_MEMORY("a test");
  for (int i = 0; i < 8; i++) types[i] = type_for(k, def);
  switch (def->kind) {
    case WEFT_ATTR_INT: out->list.ints = ones; break;
    case WEFT_ATTR_BOOL: out->list.bools = flags; break;
    case WEFT_ATTR_FLOAT: out->list.floats = numbers; break;
    case WEFT_ATTR_STRING: out->list.strings = texts; break;
    case WEFT_ATTR_TYPE: out->list.types = types; break;
    case WEFT_ATTR_SHAPE: out->list.shapes = shapes; break;
    default: out->n = 0; break;
  }
  return NULL;
}

/* Value number `variant` of an attribute; false: it has no so many. */
static bool make_value(weft_arena_t *arena, const weft_kernel_t *k, const weft_attr_def_t *def, int variant,
                       weft_attr_t *out, weft_status_t **s) {
  static const weft_shape_t scalar = {.rank = 0};
  static const weft_func_attr_t func = {.name = {"f", 1}};
  bool is_row = def->kind == WEFT_ATTR_TYPE && !def->is_list && def->has_default &&
                type_for(k, def) == def->default_value.type;
  if (variant == 0 && def->has_default && (def->kind != WEFT_ATTR_TYPE || is_row)) {
    *s = weft_attr_copy(arena, &def->default_value, out);
    return true;
  }
  if (def->is_list) {
    *s = make_list(arena, k, def, out);
    return variant == 0;
  }
  *out = (weft_attr_t){.kind = def->kind};
  if (def->kind == WEFT_ATTR_BOOL) {
    out->b = variant == 1 ? def->has_default && !def->default_value.b : false;
    return variant <= 1;
  }
  if (def->kind == WEFT_ATTR_STRING && def->num_allowed > 0) {
    if (variant < def->num_allowed) out->s = def->allowed_strings[variant];
    return variant < def->num_allowed;
  }
  if (def->kind == WEFT_ATTR_INT) out->i = def->has_minimum && def->minimum > 1 ? def->minimum : 1;
  if (def->kind == WEFT_ATTR_STRING) out->s = WEFT_STR("");
  if (def->kind == WEFT_ATTR_TYPE) out->type = type_for(k, def);
  if (def->kind == WEFT_ATTR_SHAPE) out->shape = &scalar;
  if (def->kind == WEFT_ATTR_FUNC) out->func = &func;
  if (def->kind == WEFT_ATTR_TENSOR && variant == 0) {
    float zero = 0;
    *s = weft_tensor_scalar(WEFT_F32, &zero, &out->tensor);
  }
  return variant == 0;
}

/* Prepares one node, with `odd` (-1: none) at its value number `variant`. False: there is no such value. */
static bool prepare_one(check_t *c, int odd, int variant) {
  const weft_op_def_t *op = c->op;
  weft_arena_t arena = WEFT_ARENA_INIT;
  weft_named_attr_t attrs[MAX_ATTRS];
  const weft_attr_watch_t watch = {saw_read, c};
  weft_kernel_setup_t setup = {.node = {.name = WEFT_STR("n"),
                                        .op_name = op->name,
                                        .op = op,
                                        .device = c->device,
                                        .param = c->kernel->param,
                                        .session = WEFT_STR("")},
                               .attrs = attrs,
                               .reads = c->kernel->reads,
                               .watch = &watch};
  weft_status_t *s = op->num_attrs > MAX_ATTRS ? WEFT_ERROR(INTERNAL, "too many attributes") : NULL;
  bool exists = true;
  for (int i = 0; s == NULL && exists && i < op->num_attrs; i++) {
    attrs[i] = (weft_named_attr_t){op->attrs[i].name, {0}};
    exists = make_value(&arena, c->kernel, &op->attrs[i], i == odd ? variant : 0, &attrs[i].value, &s);
    if (exists && s == NULL) setup.num_attrs++;
  }
  int *in = NULL, *out = NULL;
  if (s == NULL && exists)
    s = weft_op_arg_types(&arena, op->inputs, op->num_inputs, attrs, setup.num_attrs, &in,
                          &setup.node.num_inputs);
  if (s == NULL && exists)
    s = weft_op_arg_types(&arena, op->outputs, op->num_outputs, attrs, setup.num_attrs, &out,
                          &setup.node.num_outputs);
  setup.node.input_types = in;
  setup.node.output_types = out;
  if (s != NULL) fault(c, c->kernel->op, "no node can be made from the record:", weft_status_message(s));
  if (s == NULL && exists) {
    void *state = NULL;
    s = c->kernel->prepare(&setup, &state); /* made-up values may be refused, but not with INTERNAL */
    if (weft_status_code(s) == WEFT_INTERNAL)
      fault(c, c->kernel->op, "prepare fails:", weft_status_message(s));
    if (s == NULL && state == NULL && c->kernel->reads != NULL)
      fault(c, c->kernel->op, "compute reads attributes that no prepare fills in", NULL);
    if (s == NULL && c->kernel->destroy != NULL) c->kernel->destroy(state);
  }
  weft_status_free(s);
  for (int i = 0; i < setup.num_attrs; i++) weft_attr_release_tensors(&attrs[i].value);
  weft_arena_deinit(&arena);
  return exists;
}

static void check_kernel(check_t *c, const weft_kernel_table_t *table, const weft_kernel_t *k) {
  c->kernel = k;
  c->op = weft_op_find(weft_str(k->op));
  if (c->op == NULL) {
    fault(c, k->op, "the op table has no such op", NULL);
    return;
  }
  if (k->compute == NULL && k->compute_async == NULL) fault(c, k->op, "needs compute or compute_async", NULL);
  check_types(c, k, k->type_attr, k->types);
  check_types(c, k, k->type_attr2, k->types2);
  check_twice(c, table, k);
  if (k->reads != NULL && k->prepare == NULL)
    fault(c, k->op, "compute reads attributes that no prepare fills in", NULL);
  if (k->prepare == NULL) return;
  (void)prepare_one(c, -1, 0);
  for (int i = 0; i < c->op->num_attrs; i++) {
    for (int variant = 1; variant < MAX_VARIANTS && prepare_one(c, i, variant); variant++) continue;
  }
}

int weft_table_check(const weft_kernel_table_t *table, weft_device_t *device, weft_strbuf_t *faults) {
  check_t *c = weft_calloc(1, sizeof *c);
  if (c == NULL) abort();
  c->device = device;
  c->faults = faults;
  for (int f = 0; table->families[f] != NULL; f++) {
    for (const weft_kernel_t *k = table->families[f]; k->op != NULL; k++) check_kernel(c, table, k);
  }
  for (int i = 0; i < c->num_optionals; i++) {
    const optional_t *o = &c->optionals[i];
    const bool is_any_nodes = o->name[0] == '_'; /* such attributes are in no record */
    if (!o->is_found && !is_any_nodes)
      fault(c, o->op, "no op of its family has an attribute that prepare reads:", o->name);
  }
  int n = c->num_faults;
  weft_free(c);
  return n;
}
