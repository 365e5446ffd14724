/* tools/graph_summary_proto.c - counts and lists, from the GraphDef message itself. */
#include <stdlib.h>

#include "protos/graph.pb-c.h"
#include "protos/unpack.h"
#include "tools/graph_summary.h"
#include "tools/op_support.h"

typedef Tensorflow__NodeDef node_def_t;
typedef Tensorflow__AttrValue attr_value_t;

static weft_status_t *no_memory(void) { return WEFT_NO_MEMORY("looking at a graph"); }

static const attr_value_t *attr(const node_def_t *n, const char *name) {
  for (size_t i = 0; i < n->n_attr; i++) {
    if (strcmp(n->attr[i]->key, name) == 0) return n->attr[i]->value;
  }
  return NULL;
}

static weft_shape_t shape_of(const node_def_t *n) {
  const attr_value_t *v = attr(n, "shape");
  weft_shape_t s = WEFT_UNKNOWN_SHAPE;
  if (v == NULL || v->value_case != TENSORFLOW__ATTR_VALUE__VALUE_SHAPE || v->shape->unknown_rank ||
      v->shape->n_dim > WEFT_MAX_DIMS)
    return s;
  s.rank = (int)v->shape->n_dim;
  for (int i = 0; i < s.rank; i++) s.dims[i] = v->shape->dim[i]->size;
  return s;
}

static bool has_flag(const char *op, uint64_t flags) {
  const weft_op_def_t *def = weft_op_find(weft_str(op));
  return def != NULL && (def->flags & flags) != 0;
}
static bool is_input(const char *op) { return has_flag(op, WEFT_OP_PLACEHOLDER | WEFT_OP_DEFAULT); }
static bool is_variable(const char *op) { return has_flag(op, WEFT_OP_VARIABLE); }

static bool is_supported(const char *op, const weft_map_t *functions) {
  const weft_op_def_t *def = weft_op_find(weft_str(op));
  return weft_map_get(functions, weft_str(op)) != NULL || (def != NULL && weft_op_support(def).is_there);
}

int64_t weft_summary_bytes(const weft_summary_tensor_t *t) {
  int64_t count = weft_shape_count(&t->shape), bytes;
  if (count < 0 || __builtin_mul_overflow(count, (int64_t)weft_dtype_size(t->dtype), &bytes)) return -1;
  return bytes;
}

static int by_count(const void *a, const void *b) {
  const weft_summary_count_t *x = a, *y = b;
  if (x->count != y->count) return x->count > y->count ? -1 : 1;
  return weft_str_compare(x->name, y->name);
}

/* Counts names; the counts are the map's values. */
static weft_status_t *count(weft_map_t *counts, weft_str_t name) {
  uintptr_t n = (uintptr_t)weft_map_get(counts, name);
  return weft_map_put(counts, name, (void *)(n + 1), NULL);
}

static weft_status_t *sorted(weft_arena_t *arena, const weft_map_t *counts, weft_summary_count_t **out,
                             int *out_n) {
  *out = weft_arena_calloc(arena, counts->count + 1, sizeof **out);
  if (*out == NULL) return no_memory();
  weft_map_entry_t e;
  *out_n = 0;
  for (size_t at = 0; weft_map_next(counts, &at, &e);) {
    weft_str_t name = weft_arena_str(arena, e.key);
    if (name.data == NULL) return no_memory();
    (*out)[(*out_n)++] = (weft_summary_count_t){name, (int64_t)(uintptr_t)e.value};
  }
  qsort(*out, (size_t)*out_n, sizeof **out, by_count);
  return NULL;
}

static weft_str_t producer_of(const char *input) {
  weft_str_t s = weft_str(input);
  if (s.length > 0 && s.data[0] == '^') return weft_str_of(s.data + 1, s.length - 1);
  ptrdiff_t colon = weft_str_rfind(s, ':');
  return colon < 0 ? s : weft_str_of(s.data, (size_t)colon);
}

typedef struct summary_proto_walk {
  weft_graph_summary_t *out;
  const Tensorflow__GraphDef *g;
  weft_map_t ops, devices, unsupported, functions, consumed;
} summary_proto_walk_t;

static weft_status_t *count_all(summary_proto_walk_t *w) {
  const Tensorflow__FunctionDefLibrary *library = w->g->library;
  for (size_t i = 0; library != NULL && i < library->n_function; i++) {
    if (library->function[i]->signature == NULL) continue;
    WEFT_RETURN_IF_ERROR(
        weft_map_put(&w->functions, weft_str(library->function[i]->signature->name), w, NULL));
  }
  for (size_t i = 0; i < w->g->n_node; i++) {
    const node_def_t *n = w->g->node[i];
    WEFT_RETURN_IF_ERROR(count(&w->ops, weft_str(n->op)));
    if (n->device[0] != '\0') WEFT_RETURN_IF_ERROR(count(&w->devices, weft_str(n->device)));
    for (size_t k = 0; k < n->n_input; k++)
      WEFT_RETURN_IF_ERROR(weft_map_put(&w->consumed, producer_of(n->input[k]), w, NULL));
  }
  for (size_t i = 0; library != NULL && i < library->n_function; i++) {
    for (size_t k = 0; k < library->function[i]->n_node_def; k++) {
      const node_def_t *n = library->function[i]->node_def[k];
      WEFT_RETURN_IF_ERROR(count(&w->ops, weft_str(n->op)));
      if (n->device[0] != '\0') WEFT_RETURN_IF_ERROR(count(&w->devices, weft_str(n->device)));
    }
  }
  weft_map_entry_t e;
  for (size_t at = 0; weft_map_next(&w->ops, &at, &e);) {
    if (!is_supported(e.key.data, &w->functions))
      WEFT_RETURN_IF_ERROR(weft_map_put(&w->unsupported, e.key, e.value, NULL));
  }
  return NULL;
}

static weft_status_t *list_all(summary_proto_walk_t *w) {
  weft_graph_summary_t *s = w->out;
  size_t n = w->g->n_node + 1;
  s->inputs = weft_arena_calloc(&s->arena, n, sizeof *s->inputs);
  s->variables = weft_arena_calloc(&s->arena, n, sizeof *s->variables);
  s->outputs = weft_arena_calloc(&s->arena, n, sizeof *s->outputs);
  if (s->inputs == NULL || s->variables == NULL || s->outputs == NULL) return no_memory();
  for (size_t i = 0; i < w->g->n_node; i++) {
    const node_def_t *d = w->g->node[i];
    weft_str_t name = weft_arena_str(&s->arena, weft_str(d->name));
    if (name.data == NULL) return no_memory();
    const attr_value_t *dtype = attr(d, "dtype");
    weft_summary_tensor_t t = {
        name, dtype != NULL && dtype->value_case == TENSORFLOW__ATTR_VALUE__VALUE_TYPE ? (int)dtype->type : 0,
        shape_of(d)};
    if (is_input(d->op)) s->inputs[s->num_inputs++] = t;
    if (is_variable(d->op)) s->variables[s->num_variables++] = t;
    if (weft_map_get(&w->consumed, name) == NULL) s->outputs[s->num_outputs++] = name;
  }
  return NULL;
}

weft_status_t *weft_graph_summarize(weft_str_t graph_def, weft_graph_summary_t *out) {
  ProtobufCMessage *m = NULL;
  WEFT_RETURN_IF_ERROR(weft_proto_unpack(&tensorflow__graph_def__descriptor, graph_def, &m));
  *out = (weft_graph_summary_t){.arena = WEFT_ARENA_INIT};
  summary_proto_walk_t w = {.out = out, .g = (const Tensorflow__GraphDef *)(void *)m};
  out->num_nodes = (int64_t)w.g->n_node;
  out->num_functions = w.g->library == NULL ? 0 : (int64_t)w.g->library->n_function;
  out->producer = w.g->versions == NULL ? 0 : w.g->versions->producer;
  weft_status_t *s = count_all(&w);
  if (s == NULL) s = list_all(&w);
  if (s == NULL) s = sorted(&out->arena, &w.ops, &out->ops, &out->num_ops);
  if (s == NULL) s = sorted(&out->arena, &w.devices, &out->devices, &out->num_devices);
  if (s == NULL) s = sorted(&out->arena, &w.unsupported, &out->unsupported, &out->num_unsupported);
  weft_map_deinit(&w.ops);
  weft_map_deinit(&w.devices);
  weft_map_deinit(&w.unsupported);
  weft_map_deinit(&w.functions);
  weft_map_deinit(&w.consumed);
  weft_proto_free(m);
  if (s != NULL) weft_graph_summary_deinit(out);
  return s;
}

void weft_graph_summary_deinit(weft_graph_summary_t *s) {
  weft_arena_deinit(&s->arena);
  *s = (weft_graph_summary_t){.arena = WEFT_ARENA_INIT};
}
