/* graph/function_reachable.c - a function with all that it may call, out of a library.
 *
 * A function's definition names others in the ops of its nodes and in attributes, also in lists and in
 * attributes of functions in attributes. The definitions are walked as bytes: nothing is built.
 */
#include "base/alloc.h"
#include "graph/attr_proto.h"
#include "graph/function.h"
#include "protos/wire.h"

/* Functions whose definitions are still to be walked. */
typedef struct reachable {
  const weft_function_library_t *library;
  weft_map_t *written;
  weft_strbuf_t *out;               /* NULL: nothing is written */
  weft_function_node_test_fn *test; /* of each node, until it is true; NULL: none */
  void *test_arg;
  bool found;
  const weft_function_t **todo; /* owned */
  size_t num_todo, capacity;
} reachable_t;

static weft_status_t *no_memory(void) { return WEFT_NO_MEMORY("walking functions"); }

static weft_status_t *push(reachable_t *r, const weft_function_t *f) {
  if (r->num_todo == r->capacity) {
    const size_t capacity = r->capacity == 0 ? 16 : 2 * r->capacity;
    const weft_function_t **more = weft_realloc(r->todo, capacity, sizeof *more);
    if (more == NULL) return no_memory();
    r->todo = more;
    r->capacity = capacity;
  }
  r->todo[r->num_todo++] = f;
  return NULL;
}

static weft_status_t *add(reachable_t *r, weft_function_t *f) {
  const weft_function_t *there = weft_map_get(r->written, f->name);
  if (there == f) return NULL;
  if (there != NULL && weft_str_eq(there->def, f->def)) return NULL;
  if (there != NULL) {
    return WEFT_ERROR(
        INVALID_ARGUMENT,
        "Cannot add function '%.*s' because a different function with the same name already exists.",
        WEFT_STR_ARGS(f->name));
  }
  WEFT_RETURN_IF_ERROR(weft_map_put(r->written, f->name, f, NULL));
  return push(r, f);
}

/* What is no function of the library is an op, or will be missed where it is called. */
static weft_status_t *add_named(reachable_t *r, weft_str_t name) {
  weft_function_t *f = weft_function_find(r->library, name);
  return f == NULL ? NULL : add(r, f);
}

static weft_status_t *walk_attr(reachable_t *r, weft_str_t attr_value, int depth);

/* Entries of a map<string, AttrValue>. */
static weft_status_t *walk_entry(reachable_t *r, weft_str_t entry, int depth) {
  weft_str_t key, value;
  return weft_map_entry_read(entry, &key, &value) ? walk_attr(r, value, depth) : NULL;
}

/* NameAttrList: name = 1, attr = 2. */
static weft_status_t *walk_func(reachable_t *r, weft_str_t func, int depth) {
  weft_wire_reader_t in = weft_wire_reader(func);
  weft_wire_field_t f;
  while (weft_wire_next(&in, &f)) {
    if (f.tag == WEFT_WIRE_TAG(1, WEFT_WIRE_BYTES)) WEFT_RETURN_IF_ERROR(add_named(r, f.bytes));
    if (f.tag == WEFT_WIRE_TAG(2, WEFT_WIRE_BYTES)) WEFT_RETURN_IF_ERROR(walk_entry(r, f.bytes, depth + 1));
  }
  return NULL;
}

/* AttrValue: list = 1 (func = 9), func = 10. */
static weft_status_t *walk_attr(reachable_t *r, weft_str_t attr_value, int depth) {
  weft_wire_reader_t in = weft_wire_reader(attr_value);
  weft_wire_field_t f, each;
  if (depth > WEFT_ATTR_MAX_DEPTH) return NULL; /* which reading it refuses */
  while (weft_wire_next(&in, &f)) {
    if (f.tag == WEFT_WIRE_TAG(10, WEFT_WIRE_BYTES)) WEFT_RETURN_IF_ERROR(walk_func(r, f.bytes, depth));
    if (f.tag != WEFT_WIRE_TAG(1, WEFT_WIRE_BYTES)) continue;
    weft_wire_reader_t list = weft_wire_reader(f.bytes);
    while (weft_wire_next(&list, &each)) {
      if (each.tag == WEFT_WIRE_TAG(9, WEFT_WIRE_BYTES))
        WEFT_RETURN_IF_ERROR(walk_func(r, each.bytes, depth));
    }
  }
  return NULL;
}

/* NodeDef: op = 2, attr = 5. */
static weft_status_t *walk_node(reachable_t *r, weft_str_t node) {
  weft_wire_reader_t in = weft_wire_reader(node);
  weft_wire_field_t f;
  r->found = r->found || (r->test != NULL && r->test(r->test_arg, node));
  while (weft_wire_next(&in, &f)) {
    if (f.tag == WEFT_WIRE_TAG(2, WEFT_WIRE_BYTES)) WEFT_RETURN_IF_ERROR(add_named(r, f.bytes));
    if (f.tag == WEFT_WIRE_TAG(5, WEFT_WIRE_BYTES)) WEFT_RETURN_IF_ERROR(walk_entry(r, f.bytes, 0));
  }
  return NULL;
}

/* The function that computes a gradient is reached as well. GradientDef: gradient_func = 2. */
static weft_status_t *walk_gradient(reachable_t *r, weft_str_t function) {
  const weft_str_t *gradient = weft_function_gradient(r->library, function);
  weft_wire_field_t f;
  if (gradient == NULL) return NULL;
  if (r->out != NULL) weft_wire_add_bytes(r->out, 2, *gradient);
  weft_wire_reader_t in = weft_wire_reader(*gradient);
  while (weft_wire_next(&in, &f)) {
    if (f.tag == WEFT_WIRE_TAG(2, WEFT_WIRE_BYTES)) WEFT_RETURN_IF_ERROR(add_named(r, f.bytes));
  }
  return NULL;
}

/* FunctionDef: node_def = 3, attr = 5. */
static weft_status_t *walk(reachable_t *r, const weft_function_t *function) {
  weft_wire_reader_t in = weft_wire_reader(function->def);
  weft_wire_field_t f;
  if (r->out != NULL) weft_wire_add_bytes(r->out, 1, function->def);
  while (weft_wire_next(&in, &f)) {
    if (f.tag == WEFT_WIRE_TAG(3, WEFT_WIRE_BYTES)) WEFT_RETURN_IF_ERROR(walk_node(r, f.bytes));
    if (f.tag == WEFT_WIRE_TAG(5, WEFT_WIRE_BYTES)) WEFT_RETURN_IF_ERROR(walk_entry(r, f.bytes, 0));
  }
  return walk_gradient(r, function->name);
}

static weft_status_t *walk_all(reachable_t *r, weft_str_t name) {
  weft_function_t *f = weft_function_find(r->library, name);
  if (f == NULL) return WEFT_ERROR(NOT_FOUND, "Function %.*s is not defined.", WEFT_STR_ARGS(name));
  weft_status_t *s = add(r, f);
  while (s == NULL && r->num_todo > 0 && !r->found) s = walk(r, r->todo[--r->num_todo]);
  weft_free(r->todo);
  return s;
}

weft_status_t *weft_function_write_reachable(const weft_function_library_t *l, weft_str_t name,
                                             weft_map_t *written, weft_strbuf_t *out) {
  reachable_t r = {.library = l, .written = written, .out = out};
  weft_status_t *s = walk_all(&r, name);
  return s == NULL && out->failed ? no_memory() : s;
}

weft_status_t *weft_function_any_node(const weft_function_library_t *l, weft_str_t name,
                                      weft_function_node_test_fn *test, void *arg, bool *out) {
  weft_map_t seen = WEFT_MAP_INIT;
  reachable_t r = {.library = l, .written = &seen, .test = test, .test_arg = arg};
  weft_status_t *s = walk_all(&r, name);
  weft_map_deinit(&seen);
  *out = r.found;
  return s;
}
