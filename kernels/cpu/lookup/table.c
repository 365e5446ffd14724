/* kernels/cpu/lookup/table.c - making lookup tables, and their operations, by handle or by old-style
 * reference. */
#include "kernels/cpu/lookup/table.h"

#include "kernels/attrs.h"
#include "kernels/cpu/loops/common.h"

/* ---- the nodes that make tables ---- */

/* The param of a row. */
typedef struct table_form {
  weft_state_maker_t maker; /* first */
  weft_lookup_kind_t kind;
  bool has_vectors; /* its values must be vectors */
} table_form_t;

typedef struct table_node {
  weft_lookup_config_t config;
  bool has_vectors;
} table_node_t;

static weft_status_t *read_node(const weft_kernel_setup_t *setup, void *config) {
  const table_form_t *form = setup->node.param;
  const weft_attr_t *value_shape = weft_knode_attr(setup, "value_shape"),
                    *load = weft_knode_attr(setup, "max_load_factor");
  table_node_t *n = config;
  n->has_vectors = form->has_vectors;
  n->config = (weft_lookup_config_t){
      .kind = form->kind,
      .key_dtype = (weft_dtype_t)weft_knode_type(setup, "key_dtype"),
      .value_dtype = (weft_dtype_t)weft_knode_type(setup, "value_dtype"),
      .value_shape = WEFT_SCALAR,
      .num_buckets = weft_knode_int_or(setup, "initial_num_buckets", 0),
      .max_load_factor = load == NULL ? 0 : load->f,
  };
  if (value_shape != NULL) n->config.value_shape = *value_shape->shape;
  return NULL;
}

static weft_status_t *create(weft_kernel_ctx_t *c, const char *name, const void *config,
                             weft_object_t **out) {
  const table_node_t *n = config;
  weft_lookup_config_t made = n->config;
  (void)name;
  if (n->has_vectors && weft_shape_is_known(&made.value_shape) && made.value_shape.rank != 1) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Default value must be a vector, got shape %s",
                      WEFT_SHAPE_TEXT(&made.value_shape));
  }
  if (made.kind == WEFT_LOOKUP_DENSE) {
    if (c->node->num_inputs < 2) /* the first version of the op, which TensorFlow makes no table of either */
      return WEFT_ERROR(INVALID_ARGUMENT, "Unknown input name: deleted_key");
    made.empty_key = weft_in(c, 0);
    made.deleted_key = weft_in(c, 1);
  }
  return weft_lookup_table_create(&made, out);
}

static weft_status_t *check(const char *name, const void *config, weft_object_t *o) {
  const weft_lookup_config_t *wants = &((const table_node_t *)config)->config,
                             *has = weft_lookup_table_config((weft_lookup_table_t *)o);
  if (has->key_dtype == wants->key_dtype && has->value_dtype == wants->value_dtype) return NULL;
  return WEFT_ERROR(INVALID_ARGUMENT, "Conflicting key/value dtypes %s->%s with %s-%s for table %s",
                    weft_dtype_name(wants->key_dtype), weft_dtype_name(wants->value_dtype),
                    weft_dtype_name(has->key_dtype), weft_dtype_name(has->value_dtype), name);
}

/* A table that only its handle knows: a new one at each execution. */
static weft_status_t *anonymous_prepare(const weft_kernel_setup_t *setup, void **out_state) {
  table_node_t *n = weft_calloc(1, sizeof *n);
  if (n == NULL) return WEFT_NO_MEMORY("preparing %.*s", WEFT_STR_ARGS(setup->node.name));
  *out_state = n;
  return read_node(setup, n);
}

static weft_status_t *anonymous_compute(weft_kernel_ctx_t *c) {
  weft_object_t *o = NULL;
  WEFT_RETURN_IF_ERROR(create(c, "", c->state, &o));
  weft_status_t *s = weft_state_handle(c->device, "", "", &weft_lookup_table_type, o, WEFT_DTYPE_INVALID,
                                       NULL, &c->outputs[0].tensor);
  weft_object_release(o);
  return s;
}

/* ---- operations ---- */

weft_status_t *weft_lookup_in(weft_kernel_ctx_t *c, weft_lookup_table_t **out) {
  weft_object_t *o = NULL;
  WEFT_RETURN_IF_ERROR(weft_state_in(c, 0, &weft_lookup_table_type, &o));
  *out = (weft_lookup_table_t *)o;
  return NULL;
}

void weft_lookup_release(weft_lookup_table_t *t) { weft_object_release((weft_object_t *)t); }

static void print_types(const int *types, int n, weft_strbuf_t *out) {
  for (int i = 0; i < n; i++) weft_strbuf_printf(out, "%s%s", i == 0 ? "" : ", ", weft_dtype_name(types[i]));
}

weft_status_t *weft_lookup_check_types(const weft_kernel_ctx_t *c, const weft_lookup_table_t *t) {
  const weft_lookup_config_t *config = weft_lookup_table_config(t);
  const weft_kernel_node_t *n = c->node;
  const int wants[] = {n->input_types[0], (int)config->key_dtype, (int)config->value_dtype};
  bool same = n->num_outputs == 0 || n->output_types[0] == wants[2];
  for (int i = 1; i < n->num_inputs; i++) same = same && n->input_types[i] == wants[i];
  if (same) return NULL;
  weft_strbuf_t text = WEFT_STRBUF_INIT;
  weft_strbuf_puts(&text, "Signature mismatch, have: ");
  print_types(n->input_types, n->num_inputs, &text);
  weft_strbuf_puts(&text, "->");
  print_types(n->output_types, n->num_outputs, &text);
  weft_strbuf_puts(&text, " expected: ");
  print_types(wants, n->num_inputs, &text);
  weft_strbuf_puts(&text, "->");
  print_types(wants + 2, n->num_outputs, &text);
  weft_status_t *s = WEFT_ERROR(INVALID_ARGUMENT, "%s", text.failed ? "Signature mismatch" : text.data);
  weft_strbuf_deinit(&text);
  return s;
}

static weft_status_t *find_in(weft_kernel_ctx_t *c, weft_lookup_table_t *t) {
  const weft_tensor_t *keys = weft_in(c, 1), *defaults = weft_in(c, 2);
  weft_shape_t shape;
  weft_tensor_t *out = NULL;
  WEFT_RETURN_IF_ERROR(weft_lookup_check_types(c, t));
  WEFT_RETURN_IF_ERROR(weft_lookup_table_find_shape(t, keys, defaults, &shape));
  WEFT_RETURN_IF_ERROR(weft_out_new(c, 0, defaults->dtype, &shape, &out));
  return weft_lookup_table_find(t, keys, defaults, out);
}

static weft_status_t *insert_in(weft_kernel_ctx_t *c, weft_lookup_table_t *t) {
  WEFT_RETURN_IF_ERROR(weft_lookup_check_types(c, t));
  return weft_lookup_table_insert(t, weft_in(c, 1), weft_in(c, 2));
}

static weft_status_t *import_in(weft_kernel_ctx_t *c, weft_lookup_table_t *t) {
  WEFT_RETURN_IF_ERROR(weft_lookup_check_types(c, t));
  return weft_lookup_table_import(t, weft_in(c, 1), weft_in(c, 2));
}

static weft_status_t *remove_in(weft_kernel_ctx_t *c, weft_lookup_table_t *t) {
  WEFT_RETURN_IF_ERROR(weft_lookup_check_types(c, t));
  return weft_lookup_table_remove(t, weft_in(c, 1));
}

static weft_status_t *size_of(weft_kernel_ctx_t *c, weft_lookup_table_t *t) {
  const int64_t n = weft_lookup_table_size(t);
  return weft_tensor_scalar(WEFT_I64, &n, &c->outputs[0].tensor);
}

static weft_status_t *export_from(weft_kernel_ctx_t *c, weft_lookup_table_t *t) {
  const weft_lookup_config_t *config = weft_lookup_table_config(t);
  const int *types = c->node->output_types;
  if (types[0] != (int)config->key_dtype || types[1] != (int)config->value_dtype) {
    return WEFT_ERROR(INVALID_ARGUMENT, "a table of %s and %s cannot be exported as %s and %s",
                      weft_dtype_name(config->key_dtype), weft_dtype_name(config->value_dtype),
                      weft_dtype_name(types[0]), weft_dtype_name(types[1]));
  }
  return weft_lookup_table_export(t, &c->outputs[0].tensor, &c->outputs[1].tensor);
}

/* The param of an operation's row. */
typedef struct table_op {
  weft_status_t *(*run)(weft_kernel_ctx_t *c, weft_lookup_table_t *t);
} table_op_t;

static weft_status_t *table_compute(weft_kernel_ctx_t *c) {
  weft_lookup_table_t *t = NULL;
  WEFT_RETURN_IF_ERROR(weft_lookup_in(c, &t));
  weft_status_t *s = ((const table_op_t *)c->node->param)->run(c, t);
  weft_lookup_release(t);
  return s;
}

/* ---- rows ---- */

#define SET(a) WEFT_DTYPE_BIT(WEFT_##a)
#define NUMBERS (SET(I32) | SET(F32) | SET(F64))

/* The types of values are TensorFlow's for each type of keys. */
#define OF_KEYS(op_, keys, values, ...)                                                                     \
  {                                                                                                         \
    .op = op_, .type_attr = "key_dtype", .types = SET(keys), .type_attr2 = "value_dtype", .types2 = values, \
    __VA_ARGS__                                                                                             \
  }
#define OF_ALL_KEYS(op_, i32, i64, string, ...)                   \
  OF_KEYS(op_, I32, NUMBERS | (i32), __VA_ARGS__),                \
      OF_KEYS(op_, I64, NUMBERS | SET(I64) | (i64), __VA_ARGS__), \
      OF_KEYS(op_, STRING, NUMBERS | SET(I64) | SET(BOOL) | (string), __VA_ARGS__)

#define FORM(kind_, has_vectors_)                                                                        \
  .param = &(const table_form_t) {                                                                       \
    {&weft_lookup_table_type, sizeof(table_node_t), read_node, create, check, NULL}, kind_, has_vectors_ \
  }
#define ANONYMOUS .prepare = anonymous_prepare, .compute = anonymous_compute, .destroy = weft_free
/* `extra` values of each type of keys. */
#define TABLES(name, i32, i64, string, form)                        \
  OF_ALL_KEYS("Anonymous" name, i32, i64, string, ANONYMOUS, form), \
      OF_ALL_KEYS(name, i32, i64, string, WEFT_STATE_MAKER, form),  \
      OF_ALL_KEYS(name "V2", i32, i64, string, WEFT_STATE_MAKER, form)
#define OP(name, fn)                                                          \
  {                                                                           \
    .op = name, .compute = table_compute, .param = &(const table_op_t) { fn } \
  }

const weft_kernel_t weft_cpu_lookup_table_kernels[] = {
    TABLES("HashTable", SET(STRING), SET(STRING), SET(STRING), FORM(WEFT_LOOKUP_STATIC, false)),
    OP("LookupTableExport", export_from),
    OP("LookupTableExportV2", export_from),
    OP("LookupTableFind", find_in),
    OP("LookupTableFindV2", find_in),
    OP("LookupTableImport", import_in),
    OP("LookupTableImportV2", import_in),
    OP("LookupTableInsert", insert_in),
    OP("LookupTableInsertV2", insert_in),
    OP("LookupTableRemoveV2", remove_in),
    OP("LookupTableSize", size_of),
    OP("LookupTableSizeV2", size_of),
    TABLES("MutableDenseHashTable", 0, SET(BOOL) | SET(VARIANT), SET(RESOURCE),
           FORM(WEFT_LOOKUP_DENSE, false)),
    TABLES("MutableHashTable", 0, SET(STRING) | SET(VARIANT), 0, FORM(WEFT_LOOKUP_MUTABLE, false)),
    TABLES("MutableHashTableOfTensors", 0, SET(STRING), 0, FORM(WEFT_LOOKUP_MUTABLE, true)),
    {0},
};
