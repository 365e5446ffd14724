/* kernels/cpu/dataset/fingerprint.c - a number for what a graph computes, whatever its names are.
 *
 * A node's number is made of its op, its attributes in any order, and the numbers of its inputs; in place of
 * a function's name in an attribute stands the number of the function, which is that of its results. So the
 * names of nodes, functions and devices do not count, nor does what no result needs. It serves as the name of
 * a snapshot's directory, and must not change from release to release.
 */
#include "kernels/cpu/loops/fingerprint.h"
#include "base/alloc.h"
#include "kernels/cpu/dataset/as_graph.h"
#include "protos/wire.h"

enum { MAX_FUNCTION_DEPTH = 100, OF_CONTROL = 1, OF_CYCLE = 2, OF_MISSING = 3, OF_DEEP = 4 };

typedef struct numbered_node {
  weft_str_t def; /* NodeDef */
  uint64_t number;
  bool is_begun, is_done;
} numbered_node_t;

/* The nodes of a graph or of a function's body. */
typedef struct scope {
  weft_str_t signature; /* OpDef of a function; "" for a graph */
  numbered_node_t *nodes;
  size_t n;
  weft_map_t by_name; /* -> numbered_node_t* */
} scope_t;

typedef struct numbered_function {
  weft_str_t def; /* FunctionDef */
  uint64_t number;
  bool is_begun, is_done;
} numbered_function_t;

typedef struct library {
  numbered_function_t *functions;
  size_t n;
  weft_map_t by_name; /* -> numbered_function_t* */
  int depth;
  bool failed; /* out of memory */
} library_t;

/* ---- messages ---- */

/* The next length-delimited field `number` of a message. */
static bool next_bytes(weft_wire_reader_t *in, uint32_t number, weft_str_t *out) {
  weft_wire_field_t f;
  while (weft_wire_next(in, &f)) {
    if (f.tag != WEFT_WIRE_TAG(number, WEFT_WIRE_BYTES)) continue;
    *out = f.bytes;
    return true;
  }
  return false;
}

static weft_str_t bytes_of(weft_str_t message, uint32_t number) {
  weft_wire_reader_t in = weft_wire_reader(message);
  weft_str_t found = WEFT_STR(""), each;
  while (next_bytes(&in, number, &each)) found = each;
  return found;
}

static size_t count_of(weft_str_t message, uint32_t number) {
  weft_wire_reader_t in = weft_wire_reader(message);
  weft_str_t each;
  size_t n = 0;
  while (next_bytes(&in, number, &each)) n++;
  return n;
}

/* ---- attributes ---- */

static uint64_t number_of_function(library_t *l, weft_str_t name);
static uint64_t number_of_attrs(library_t *l, weft_str_t message, uint32_t number);

/* NameAttrList: name = 1, attr = 2. */
static uint64_t number_of_func(library_t *l, weft_str_t func) {
  return weft_fingerprint_join(number_of_function(l, bytes_of(func, 1)), number_of_attrs(l, func, 2));
}

/* AttrValue: list = 1 (func = 9), func = 10; all else counts as its bytes. */
static uint64_t number_of_value(library_t *l, weft_str_t value) {
  weft_str_t func = bytes_of(value, 10), list = bytes_of(value, 1), each;
  if (func.length > 0) return number_of_func(l, func);
  if (count_of(list, 9) == 0) return weft_fingerprint64(value);
  weft_wire_reader_t in = weft_wire_reader(list);
  uint64_t number = 0;
  while (next_bytes(&in, 9, &each)) number = weft_fingerprint_join(number, number_of_func(l, each));
  return number;
}

/* The order of a map's entries does not count; attributes of tools, with '_' in front, neither. */
static uint64_t number_of_attrs(library_t *l, weft_str_t message, uint32_t number) {
  weft_wire_reader_t in = weft_wire_reader(message);
  weft_str_t entry;
  uint64_t sum = 0;
  while (next_bytes(&in, number, &entry)) {
    const weft_str_t key = bytes_of(entry, 1);
    if (key.length > 0 && key.data[0] == '_') continue;
    sum += weft_fingerprint_join(weft_fingerprint64(key), number_of_value(l, bytes_of(entry, 2)));
  }
  return sum;
}

/* ---- nodes ---- */

static bool scope_init(scope_t *s, weft_str_t signature, weft_str_t message, uint32_t node_field) {
  weft_wire_reader_t in = weft_wire_reader(message);
  weft_str_t def;
  *s = (scope_t){.signature = signature, .n = count_of(message, node_field)};
  s->nodes = weft_calloc(s->n + 1, sizeof *s->nodes);
  for (size_t i = 0; s->nodes != NULL && i < s->n && next_bytes(&in, node_field, &def); i++) {
    s->nodes[i].def = def;
    weft_status_t *status = weft_map_put(&s->by_name, bytes_of(def, 1), &s->nodes[i], NULL);
    if (status == NULL) continue;
    weft_status_free(status);
    return false;
  }
  return s->nodes != NULL;
}

static void scope_deinit(scope_t *s) {
  weft_map_deinit(&s->by_name);
  weft_free(s->nodes);
}

/* The node that an input names, "node", "node:0", "node:output:0" or "^node"; NULL: none. *out_rest: which of
 * its outputs. */
static numbered_node_t *input_node(const scope_t *s, weft_str_t input, weft_str_t *out_rest) {
  size_t from = input.length > 0 && input.data[0] == '^' ? 1 : 0, n = from;
  while (n < input.length && input.data[n] != ':') n++;
  *out_rest = weft_str_of(input.data + n, input.length - n);
  return weft_map_get(&s->by_name, weft_str_of(input.data + from, n - from));
}

/* An input that no node makes: an argument counts by its place. OpDef: input_arg = 2. */
static uint64_t number_of_argument(const scope_t *s, weft_str_t input) {
  weft_wire_reader_t in = weft_wire_reader(s->signature);
  weft_str_t arg;
  size_t n = 0;
  while (input.length > 0 && input.data[n] != ':' && ++n < input.length) continue;
  for (uint64_t i = 0; next_bytes(&in, 2, &arg); i++) {
    if (weft_str_eq(bytes_of(arg, 1), weft_str_of(input.data, n)))
      return weft_fingerprint_join(i + 1, weft_fingerprint64(weft_str_of(input.data + n, input.length - n)));
  }
  return OF_MISSING;
}

static uint64_t number_of_input(const scope_t *s, weft_str_t input) {
  weft_str_t rest;
  const numbered_node_t *node = input_node(s, input, &rest);
  if (node == NULL) return number_of_argument(s, input);
  const uint64_t of = node->is_done ? node->number : OF_CYCLE;
  if (input.data[0] == '^') return weft_fingerprint_join(of, OF_CONTROL);
  if (weft_str_eq(rest, WEFT_STR(":0"))) rest = WEFT_STR("");
  return weft_fingerprint_join(of, weft_fingerprint64(rest));
}

/* NodeDef: op = 2, input = 3, attr = 5. An op may be a function. */
static uint64_t number_of_node(library_t *l, const scope_t *s, weft_str_t def) {
  const weft_str_t op = bytes_of(def, 2);
  weft_wire_reader_t in = weft_wire_reader(def);
  weft_str_t input;
  uint64_t number =
      weft_map_get(&l->by_name, op) != NULL ? number_of_function(l, op) : weft_fingerprint64(op);
  number = weft_fingerprint_join(number, number_of_attrs(l, def, 5));
  uint64_t controls = 0;
  while (next_bytes(&in, 3, &input)) {
    if (input.length > 0 && input.data[0] == '^') {
      controls += number_of_input(s, input); /* in any order */
    } else {
      number = weft_fingerprint_join(number, number_of_input(s, input));
    }
  }
  return weft_fingerprint_join(number, controls);
}

/* Numbers the node that an input names, behind those before it, without recursion: bodies may be long. */
static void number_nodes(library_t *l, scope_t *s, weft_str_t input) {
  weft_str_t rest;
  numbered_node_t *first = input_node(s, input, &rest);
  numbered_node_t **stack = weft_calloc(s->n + 1, sizeof *stack);
  size_t depth = 0;
  if (stack == NULL) l->failed = true;
  if (stack != NULL && first != NULL && !first->is_begun) stack[depth++] = first;
  while (depth > 0) {
    numbered_node_t *node = stack[depth - 1], *before = NULL;
    weft_wire_reader_t in = weft_wire_reader(node->def);
    weft_str_t each;
    node->is_begun = true;
    while (before == NULL && next_bytes(&in, 3, &each)) {
      before = input_node(s, each, &rest);
      if (before != NULL && before->is_begun) before = NULL;
    }
    if (before != NULL) {
      stack[depth++] = before;
      continue;
    }
    node->number = number_of_node(l, s, node->def);
    node->is_done = true;
    depth--;
  }
  weft_free(stack);
}

static uint64_t number_of_result(library_t *l, scope_t *s, weft_str_t input) {
  number_nodes(l, s, input);
  return number_of_input(s, input);
}

/* ---- functions ---- */

/* FunctionDef: signature = 1, node_def = 3, ret = 4, control_ret = 6. Results count in the order of the
 * signature (OpDef: output_arg = 3), and nodes that must run in any. */
static uint64_t number_of_body(library_t *l, weft_str_t def) {
  const weft_str_t signature = bytes_of(def, 1);
  scope_t s;
  weft_str_t arg, entry;
  uint64_t number = count_of(signature, 2), controls = 0;
  if (!scope_init(&s, signature, def, 3)) l->failed = true;
  weft_wire_reader_t args = weft_wire_reader(signature);
  while (!l->failed && next_bytes(&args, 3, &arg)) {
    weft_wire_reader_t in = weft_wire_reader(def);
    while (next_bytes(&in, 4, &entry)) {
      if (weft_str_eq(bytes_of(entry, 1), bytes_of(arg, 1)))
        number = weft_fingerprint_join(number, number_of_result(l, &s, bytes_of(entry, 2)));
    }
  }
  weft_wire_reader_t in = weft_wire_reader(def);
  while (!l->failed && next_bytes(&in, 6, &entry)) controls += number_of_result(l, &s, bytes_of(entry, 2));
  scope_deinit(&s);
  return weft_fingerprint_join(number, controls);
}

/* A function that calls itself counts as one that does. */
static uint64_t number_of_function(library_t *l, weft_str_t name) {
  numbered_function_t *f = weft_map_get(&l->by_name, name);
  if (f == NULL) return OF_MISSING;
  if (f->is_done) return f->number;
  if (f->is_begun) return OF_CYCLE;
  if (l->depth == MAX_FUNCTION_DEPTH) return OF_DEEP;
  f->is_begun = true;
  l->depth++;
  f->number = number_of_body(l, f->def);
  l->depth--;
  f->is_done = true;
  return f->number;
}

/* FunctionDefLibrary: function = 1. */
static bool library_init(library_t *l, weft_str_t message) {
  weft_wire_reader_t in = weft_wire_reader(message);
  weft_str_t def;
  *l = (library_t){.n = count_of(message, 1)};
  l->functions = weft_calloc(l->n + 1, sizeof *l->functions);
  for (size_t i = 0; l->functions != NULL && i < l->n && next_bytes(&in, 1, &def); i++) {
    l->functions[i].def = def;
    weft_status_t *s = weft_map_put(&l->by_name, bytes_of(bytes_of(def, 1), 1), &l->functions[i], NULL);
    if (s == NULL) continue;
    weft_status_free(s);
    return false;
  }
  return l->functions != NULL;
}

static bool number_graph(library_t *l, weft_str_t graph_def, uint64_t *out) {
  scope_t s;
  bool is_found = false;
  if (!scope_init(&s, WEFT_STR(""), graph_def, 1)) l->failed = true;
  for (size_t i = s.n; !l->failed && !is_found && i-- > 0;) {
    if (!weft_str_eq(bytes_of(s.nodes[i].def, 2), WEFT_STR("_Retval"))) continue;
    *out = number_of_result(l, &s, bytes_of(s.nodes[i].def, 3));
    is_found = true;
  }
  scope_deinit(&s);
  return is_found && !l->failed;
}

bool weft_graph_fingerprint(weft_str_t graph_def, uint64_t *out) {
  library_t l;
  const bool is_ready = weft_wire_is_message(graph_def) && library_init(&l, bytes_of(graph_def, 2));
  if (!weft_wire_is_message(graph_def)) return false;
  const bool is_done = is_ready && number_graph(&l, graph_def, out);
  weft_map_deinit(&l.by_name);
  weft_free(l.functions);
  return is_done;
}

weft_status_t *weft_dataset_fingerprint(const weft_dataset_t *d, uint64_t *out) {
  weft_strbuf_t graph = WEFT_STRBUF_INIT;
  weft_status_t *s = weft_dataset_as_graph(d, &graph);
  if (s == NULL && !weft_graph_fingerprint(weft_str_of(graph.data, graph.length), out))
    s = WEFT_NO_MEMORY("the fingerprint of a data set");
  weft_strbuf_deinit(&graph);
  return s;
}
