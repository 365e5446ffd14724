/* graph/references.c - a set of variables for each output, from those of the inputs. */
#include "graph/references.h"

enum { MAX_VARIABLES = 32 }; /* of a value */

/* Ops whose outputs are inputs of theirs. */
static const uint64_t HANDS_ON = WEFT_OP_IDENTITY | WEFT_OP_VIEW | WEFT_OP_BUNDLE | WEFT_OP_SWITCH |
                                 WEFT_OP_MERGE | WEFT_OP_ENTER | WEFT_OP_EXIT | WEFT_OP_NEXT_ITERATION |
                                 WEFT_OP_DEFAULT | WEFT_OP_EFFECT | WEFT_OP_MAY_FORWARD;
static const uint64_t CALLS = WEFT_OP_CALL | WEFT_OP_FUNCTIONAL | WEFT_OP_GRADIENT | WEFT_OP_REMOTE_CALL;

typedef struct buffer_finder {
  const weft_graph_t *g;
  weft_arena_t *arena;
  weft_buffer_set_t *of_outputs;
  int *first_output;
  weft_references_t found;
} buffer_finder_t;

static weft_status_t *no_memory(const buffer_finder_t *f) {
  return WEFT_NO_MEMORY("following references in a graph of %d nodes", f->g->num_live);
}

static bool has_reference_output(const weft_node_t *n) {
  for (int i = 0; i < n->num_outputs; i++) {
    if (weft_dtype_is_ref(n->output_types[i])) return true;
  }
  return false;
}

static bool has_reference_input(const weft_node_t *n) {
  for (int i = 0; i < n->num_inputs; i++) {
    if (weft_dtype_is_ref(n->input_types[i])) return true;
  }
  return false;
}

bool weft_node_updates_reference(const weft_node_t *n) {
  return (n->flags & WEFT_OP_UPDATE) != 0 && n->num_inputs > 0 && weft_dtype_is_ref(n->input_types[0]);
}

bool weft_node_forwards_reference(const weft_node_t *n) {
  return has_reference_output(n) && !weft_node_updates_reference(n);
}

/* May the output be (part of) the input? */
static bool may_forward(const weft_node_t *n, int input, int output) {
  const int dtype = n->output_types[output];
  if (weft_node_updates_reference(n)) return input == 0;
  if (n->function != NULL || (n->flags & CALLS) != 0) return true;
  if ((n->flags & WEFT_OP_MERGE) != 0) return output == 0;
  if (weft_dtype_is_ref(dtype)) return weft_dtype_is_ref(n->input_types[input]);
  if ((n->flags & WEFT_OP_MAY_FORWARD) != 0)
    return input == 0 || weft_dtype_base(n->input_types[input]) == weft_dtype_base(dtype);
  return (n->flags & HANDS_ON) != 0 && input == 0;
}

static bool is_in(const weft_buffer_set_t *set, int variable) {
  for (int i = 0; i < set->n; i++) {
    if (set->variables[i] == variable) return true;
  }
  return false;
}

/* A set that is one of two is shared. */
static weft_status_t *unite(buffer_finder_t *f, weft_buffer_set_t *set, weft_buffer_set_t with,
                            bool *is_too_large) {
  int both[MAX_VARIABLES], n = set->n;
  if (with.n == 0 || with.variables == set->variables) return NULL;
  if (set->n == 0) {
    *set = with;
    return NULL;
  }
  memcpy(both, set->variables, (size_t)n * sizeof *both);
  for (int i = 0; i < with.n; i++) {
    if (is_in(set, with.variables[i])) continue;
    if (n == MAX_VARIABLES) {
      *is_too_large = true;
      return NULL;
    }
    both[n++] = with.variables[i];
  }
  if (n == set->n) return NULL;
  int *variables = weft_arena_calloc(f->arena, (size_t)n, sizeof *variables);
  if (variables == NULL) return no_memory(f);
  memcpy(variables, both, (size_t)n * sizeof *both);
  *set = (weft_buffer_set_t){variables, n};
  return NULL;
}

static weft_status_t *find_set(buffer_finder_t *f, const weft_node_t *n, int output, weft_buffer_set_t *out) {
  bool is_too_large = false;
  if (weft_dtype_is_ref(n->output_types[output]) && !has_reference_input(n)) { /* a variable */
    int *variable = weft_arena_alloc(f->arena, sizeof *variable);
    if (variable == NULL) return no_memory(f);
    *variable = n->id;
    *out = (weft_buffer_set_t){variable, 1};
    return NULL;
  }
  if ((n->flags & WEFT_OP_BUNDLE) != 0) {
    *out = output < n->num_inputs ? weft_references_behind(&f->found, n->inputs[output]) : *out;
    return NULL;
  }
  for (int i = 0; i < n->num_inputs && !is_too_large; i++) {
    if (may_forward(n, i, output))
      WEFT_RETURN_IF_ERROR(unite(f, out, weft_references_behind(&f->found, n->inputs[i]), &is_too_large));
  }
  if (is_too_large) *out = (weft_buffer_set_t){NULL, 0};
  return NULL;
}

static weft_status_t *find_sets(buffer_finder_t *f, const weft_node_t *n) {
  const bool calls = n->function != NULL || (n->flags & CALLS) != 0;
  const bool may = calls || (n->flags & HANDS_ON) != 0 || has_reference_output(n);
  weft_buffer_set_t *sets = &f->of_outputs[f->first_output[n->id]];
  for (int i = 0; may && i < n->num_outputs; i++) {
    if (i > 0 && calls) {
      sets[i] = sets[0]; /* inputs and outputs are many, and which is which is not known */
    } else {
      WEFT_RETURN_IF_ERROR(find_set(f, n, i, &sets[i]));
    }
  }
  return NULL;
}

weft_status_t *weft_pass_find_references(const weft_graph_t *g, weft_node_t *const *order,
                                         weft_arena_t *arena, weft_references_t *out) {
  buffer_finder_t f = {.g = g, .arena = arena};
  size_t num_outputs = 0;
  f.first_output = weft_arena_calloc(arena, (size_t)g->num_nodes + 1, sizeof *f.first_output);
  if (f.first_output == NULL) return no_memory(&f);
  for (int id = 0; id < g->num_nodes; id++) {
    f.first_output[id] = (int)num_outputs;
    if (g->nodes[id] != NULL) num_outputs += (size_t)g->nodes[id]->num_outputs;
  }
  f.of_outputs = weft_arena_calloc(arena, num_outputs + 1, sizeof *f.of_outputs);
  if (f.of_outputs == NULL) return no_memory(&f);
  f.found = (weft_references_t){f.of_outputs, f.first_output};
  for (int i = 0; i < g->num_live; i++) WEFT_RETURN_IF_ERROR(find_sets(&f, order[i]));
  *out = f.found;
  return NULL;
}
