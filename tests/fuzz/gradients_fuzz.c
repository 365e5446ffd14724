/* tests/fuzz/gradients_fuzz.c - GraphDefs whose last numbers are differentiated by their first ones, twice. A
 * graph whose loops are well formed has such loops afterwards. */
#include "graph/graph_proto.h"
#include "graph/passes.h"
#include "tests/fuzz/fuzz.h"

enum { MANY = 3 };

const weft_fuzz_seed_t weft_fuzz_seeds[] = {
    WEFT_FUZZ_FILE("tests/graph/testdata/mlp_v1.pb"),
    WEFT_FUZZ_FILE("tests/graph/testdata/while_v1.pb"),
    WEFT_FUZZ_FILE("tests/graph/testdata/control_v2.pb"),
    WEFT_FUZZ_FILE("tests/graph/testdata/tf_function.pb"),
    WEFT_FUZZ_END,
};

/* Up to MANY floating outputs: from the front those of nodes without inputs, which are in no loop, or from
 * the back any. */
static int pick(const weft_graph_t *g, bool from_back, weft_output_t *out) {
  int n = 0;
  for (int i = 0; i < g->num_nodes && n < MANY; i++) {
    weft_node_t *node = g->nodes[from_back ? g->num_nodes - 1 - i : i];
    if (node == NULL || node->num_outputs == 0) continue;
    if (!from_back && node->num_inputs + node->num_controls > 0) continue;
    if (weft_dtype_is_floating((int)weft_dtype_base(node->output_types[0])))
      out[n++] = (weft_output_t){node, 0};
  }
  return n;
}

static bool is_well_formed(const weft_graph_t *g) {
  weft_arena_t arena = WEFT_ARENA_INIT;
  weft_frames_t frames;
  weft_status_t *s = weft_pass_find_frames(g, &arena, &frames);
  bool is = s == NULL;
  weft_status_free(s);
  weft_arena_deinit(&arena);
  return is;
}

static weft_status_t *differentiate(weft_graph_t *g) {
  weft_output_t xs[MANY], ys[MANY], dx[MANY];
  bool was_well_formed = is_well_formed(g);
  int num_xs = pick(g, false, xs), num_ys = pick(g, true, ys);
  WEFT_RETURN_IF_ERROR(weft_graph_add_gradients(g, (weft_str_t){NULL, 0}, ys, num_ys, xs, num_xs, NULL, dx));
  weft_fuzz_check(!was_well_formed || is_well_formed(g), "the gradient has broken the loops");
  int n = 0;
  for (int i = 0; i < num_xs; i++) {
    if (dx[i].node != NULL) dx[n++] = dx[i];
  }
  if (n == 0) return NULL;
  weft_output_t again[MANY];
  WEFT_RETURN_IF_ERROR(weft_graph_add_gradients(g, (weft_str_t){NULL, 0}, dx, n, xs, num_xs, NULL, again));
  weft_fuzz_check(!was_well_formed || is_well_formed(g), "the second gradient has broken the loops");
  return NULL;
}

void weft_fuzz_one(const uint8_t *data, size_t size) {
  const weft_import_options_t options = {.allow_internal_ops = true};
  weft_graph_t *g = NULL;
  weft_status_t *s = weft_graph_create(&g);
  if (s == NULL) s = weft_graph_import(g, weft_str_of((const char *)data, size), &options);
  if (s == NULL) s = differentiate(g);
  weft_status_free(s);
  weft_graph_destroy(g);
}
