/* ops/op_check.c - what a node's attributes mean for its op: checks, arg types, text. */
#include <inttypes.h>

#include "ops/op.h"

/* A node has at most this many inputs or outputs by one attribute: a bound on what a hostile graph makes us
 * allocate. */
enum { MAX_REPEATED = 1 << 20 };

const weft_attr_def_t *weft_op_attr(const weft_op_def_t *op, weft_str_t name) {
  for (int i = 0; i < op->num_attrs; i++) {
    if (weft_str_eq(op->attrs[i].name, name)) return &op->attrs[i];
  }
  return NULL;
}

/* ---- checking one value ---- */

static void print_allowed(const weft_attr_def_t *def, weft_strbuf_t *out) {
  for (int i = 0; i < def->num_allowed; i++) {
    if (i > 0) weft_strbuf_puts(out, ", ");
    if (def->kind == WEFT_ATTR_TYPE) {
      weft_strbuf_puts(out, weft_dtype_name(def->allowed_type_list[i]));
    } else {
      weft_attr_t value = {.kind = WEFT_ATTR_STRING, .s = def->allowed_strings[i]};
      weft_attr_print(&value, out);
    }
  }
}

static weft_status_t *not_allowed(const weft_attr_def_t *def, const weft_attr_t *value) {
  weft_strbuf_t text = WEFT_STRBUF_INIT;
  if (value->kind == WEFT_ATTR_TYPE) {
    weft_strbuf_puts(&text, weft_dtype_name(value->type));
  } else {
    weft_attr_print(value, &text);
  }
  weft_strbuf_puts(&text, " is not in the list of allowed values: ");
  print_allowed(def, &text);
  weft_status_t *s = text.failed ? WEFT_NO_MEMORY("checking attr '%.*s'", WEFT_STR_ARGS(def->name))
                                 : WEFT_ERROR(INVALID_ARGUMENT, "Value for attr '%.*s' of %s",
                                              WEFT_STR_ARGS(def->name), text.data);
  weft_strbuf_deinit(&text);
  return s;
}

static weft_status_t *check_type(const weft_attr_def_t *def, int type) {
  if (type == 0) {
    return WEFT_ERROR(INVALID_ARGUMENT, "AttrValue has invalid DataType\n\t for attr '%.*s'",
                      WEFT_STR_ARGS(def->name));
  }
  if (!weft_dtype_is_valid(type)) {
    return WEFT_ERROR(INVALID_ARGUMENT, "AttrValue has invalid DataType enum: %d\n\t for attr '%.*s'", type,
                      WEFT_STR_ARGS(def->name));
  }
  if (weft_dtype_is_ref(type)) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "AttrValue must not have reference type value of %s\n\t for attr '%.*s'",
                      weft_dtype_name(type), WEFT_STR_ARGS(def->name));
  }
  if (def->allowed_types != 0 && (def->allowed_types & WEFT_DTYPE_BIT(type)) == 0) {
    weft_attr_t value = {.kind = WEFT_ATTR_TYPE, .type = type};
    return not_allowed(def, &value);
  }
  return NULL;
}

static weft_status_t *check_string(const weft_attr_def_t *def, weft_str_t s) {
  if (def->num_allowed == 0) return NULL;
  for (int i = 0; i < def->num_allowed; i++) {
    if (weft_str_eq(def->allowed_strings[i], s)) return NULL;
  }
  weft_attr_t value = {.kind = WEFT_ATTR_STRING, .s = s};
  return not_allowed(def, &value);
}

weft_status_t *weft_op_check_attr(const weft_op_def_t *op, const weft_attr_def_t *def,
                                  const weft_attr_t *value) {
  (void)op;
  bool is_empty_list = value->is_list && value->n == 0;
  if (value->is_list != def->is_list || (value->kind != def->kind && !is_empty_list)) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "AttrValue had value with type '%s' when '%s' expected\n\t for attr '%.*s'",
                      weft_attr_kind_name(value->kind, value->is_list),
                      weft_attr_kind_name(def->kind, def->is_list), WEFT_STR_ARGS(def->name));
  }
  if (def->has_minimum && !def->is_list && value->i < def->minimum) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "Value for attr '%.*s' of %" PRId64 " must be at least minimum %" PRId64,
                      WEFT_STR_ARGS(def->name), value->i, def->minimum);
  }
  if (def->has_minimum && def->is_list && value->n < def->minimum) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Length for attr '%.*s' of %d must be at least minimum %" PRId64,
                      WEFT_STR_ARGS(def->name), value->n, def->minimum);
  }
  int n = value->is_list ? value->n : 1;
  for (int i = 0; i < n && def->kind == WEFT_ATTR_TYPE; i++) {
    WEFT_RETURN_IF_ERROR(check_type(def, value->is_list ? value->list.types[i] : value->type));
  }
  for (int i = 0; i < n && def->kind == WEFT_ATTR_STRING; i++) {
    WEFT_RETURN_IF_ERROR(check_string(def, value->is_list ? value->list.strings[i] : value->s));
  }
  return NULL;
}

/* ---- types of inputs and outputs ---- */

static const weft_attr_t *find(const weft_named_attr_t *attrs, int n, weft_str_t name) {
  for (int i = 0; i < n; i++) {
    if (weft_str_eq(attrs[i].name, name)) return &attrs[i].value;
  }
  return NULL;
}

static weft_status_t *find_kind(const weft_named_attr_t *attrs, int num_attrs, weft_str_t name,
                                weft_attr_kind_t kind, bool is_list, const weft_attr_t **out) {
  const weft_attr_t *a = find(attrs, num_attrs, name);
  if (a == NULL) return WEFT_ERROR(INVALID_ARGUMENT, "No attr named '%.*s' in NodeDef:", WEFT_STR_ARGS(name));
  if (a->is_list != is_list || (a->kind != kind && !(is_list && a->n == 0))) {
    return WEFT_ERROR(
        INVALID_ARGUMENT, "AttrValue had value with type '%s' when '%s' expected\n\t for attr '%.*s'",
        weft_attr_kind_name(a->kind, a->is_list), weft_attr_kind_name(kind, is_list), WEFT_STR_ARGS(name));
  }
  *out = a;
  return NULL;
}

/* How many tensors an arg stands for, and their type; a type list gives *out_list instead. */
static weft_status_t *measure(const weft_arg_def_t *arg, const weft_named_attr_t *attrs, int num_attrs,
                              int *out_n, int *out_type, const int **out_list) {
  const weft_attr_t *a = NULL;
  *out_n = 1;
  *out_type = arg->dtype;
  *out_list = NULL;
  if (arg->kind == WEFT_ARG_TYPE_LIST) {
    WEFT_RETURN_IF_ERROR(find_kind(attrs, num_attrs, arg->type_attr, WEFT_ATTR_TYPE, true, &a));
    *out_n = a->n;
    *out_list = a->list.types;
    return NULL;
  }
  if (arg->kind == WEFT_ARG_REPEATED) {
    WEFT_RETURN_IF_ERROR(find_kind(attrs, num_attrs, arg->number_attr, WEFT_ATTR_INT, false, &a));
    if (a->i < 0 || a->i > MAX_REPEATED) {
      return WEFT_ERROR(INVALID_ARGUMENT, "Value for number_attr() %" PRId64 " %s, for attr '%.*s'", a->i,
                        a->i < 0 ? "< 0" : "is too large", WEFT_STR_ARGS(arg->number_attr));
    }
    *out_n = (int)a->i;
  }
  if (arg->type_attr.length > 0) {
    WEFT_RETURN_IF_ERROR(find_kind(attrs, num_attrs, arg->type_attr, WEFT_ATTR_TYPE, false, &a));
    *out_type = a->type;
  }
  return NULL;
}

weft_status_t *weft_op_arg_types(weft_arena_t *arena, const weft_arg_def_t *args, int num_args,
                                 const weft_named_attr_t *attrs, int num_attrs, int **out_types, int *out_n) {
  int64_t total = 0;
  int n = 0, type = 0;
  const int *list = NULL;
  for (int i = 0; i < num_args; i++) {
    WEFT_RETURN_IF_ERROR(measure(&args[i], attrs, num_attrs, &n, &type, &list));
    total += n;
  }
  if (total > MAX_REPEATED)
    return WEFT_ERROR(INVALID_ARGUMENT, "a node with %" PRId64 " inputs or outputs", total);
  int *types = weft_arena_calloc(arena, (size_t)total + 1, sizeof *types);
  if (types == NULL) return WEFT_NO_MEMORY("listing %" PRId64 " types", total);
  int at = 0;
  for (int i = 0; i < num_args; i++) {
    WEFT_RETURN_IF_ERROR(measure(&args[i], attrs, num_attrs, &n, &type, &list));
    for (int k = 0; k < n; k++) {
      int t = list != NULL ? list[k] : type;
      types[at++] = args[i].is_ref && !weft_dtype_is_ref(t) ? t + WEFT_REF : t;
    }
  }
  *out_types = types;
  *out_n = at;
  return NULL;
}

/* ---- text ---- */

static void print_args(const weft_arg_def_t *args, int n, weft_strbuf_t *out) {
  for (int i = 0; i < n; i++) {
    const weft_arg_def_t *a = &args[i];
    if (i > 0) weft_strbuf_puts(out, ", ");
    weft_strbuf_append(out, a->name);
    weft_strbuf_putc(out, ':');
    if (a->is_ref) weft_strbuf_puts(out, "Ref(");
    if (a->number_attr.length > 0) {
      weft_strbuf_append(out, a->number_attr);
      weft_strbuf_putc(out, '*');
    }
    if (a->kind != WEFT_ARG_TYPE_LIST) { /* TensorFlow prints nothing for a list */
      if (a->type_attr.length > 0) {
        weft_strbuf_append(out, a->type_attr);
      } else {
        weft_strbuf_puts(out, weft_dtype_name(a->dtype));
      }
    }
    if (a->is_ref) weft_strbuf_putc(out, ')');
  }
}

static void print_attr_def(const weft_attr_def_t *a, weft_strbuf_t *out) {
  weft_strbuf_puts(out, "; attr=");
  weft_strbuf_append(out, a->name);
  weft_strbuf_putc(out, ':');
  weft_strbuf_puts(out, weft_attr_kind_name(a->kind, a->is_list));
  if (a->has_default) {
    weft_strbuf_puts(out, ",default=");
    weft_attr_print(&a->default_value, out);
  }
  if (a->has_minimum) weft_strbuf_printf(out, ",min=%" PRId64, a->minimum);
  if (a->num_allowed > 0) {
    weft_strbuf_puts(out, ",allowed=[");
    for (int i = 0; i < a->num_allowed; i++) {
      weft_attr_t value = {.kind = a->kind};
      if (a->kind == WEFT_ATTR_TYPE) {
        value.type = a->allowed_type_list[i];
      } else {
        value.s = a->allowed_strings[i];
      }
      if (i > 0) weft_strbuf_puts(out, ", ");
      weft_attr_print(&value, out);
    }
    weft_strbuf_putc(out, ']');
  }
}

void weft_op_print(const weft_op_def_t *op, weft_strbuf_t *out) {
  weft_strbuf_puts(out, "Op<name=");
  weft_strbuf_append(out, op->name);
  weft_strbuf_puts(out, "; signature=");
  print_args(op->inputs, op->num_inputs, out);
  weft_strbuf_puts(out, " -> ");
  print_args(op->outputs, op->num_outputs, out);
  for (int i = 0; i < op->num_attrs; i++) print_attr_def(&op->attrs[i], out);
  if (op->flags & WEFT_OP_COMMUTATIVE) weft_strbuf_puts(out, "; is_commutative=true");
  if (op->flags & WEFT_OP_AGGREGATE) weft_strbuf_puts(out, "; is_aggregate=true");
  if (op->flags & WEFT_OP_STATEFUL) weft_strbuf_puts(out, "; is_stateful=true");
  if (op->flags & WEFT_OP_UNINIT_OK) weft_strbuf_puts(out, "; allows_uninitialized_input=true");
  if (op->flags & WEFT_OP_COMMUNICATION) weft_strbuf_puts(out, "; is_distributed_communication=true");
  weft_strbuf_putc(out, '>');
}
