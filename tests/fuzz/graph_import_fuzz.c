/* tests/fuzz/graph_import_fuzz.c - GraphDefs through import, export, lowering, shapes, frames and pruning. */
#include "graph/graph_proto.h"
#include "graph/passes.h"
#include "tests/fuzz/fuzz.h"

const weft_fuzz_seed_t weft_fuzz_seeds[] = {
    WEFT_FUZZ_FILE("tests/graph/testdata/mlp_v1.pb"),
    WEFT_FUZZ_FILE("tests/graph/testdata/while_v1.pb"),
    WEFT_FUZZ_FILE("tests/graph/testdata/control_v2.pb"),
    WEFT_FUZZ_FILE("tests/graph/testdata/tf_function.pb"),
    WEFT_FUZZ_END,
};

static weft_status_t *import(weft_str_t bytes, bool allow_internal_ops, weft_graph_t **out) {
  const weft_import_options_t options = {.allow_internal_ops = allow_internal_ops};
  weft_graph_t *g = NULL;
  weft_status_t *s = weft_graph_create(&g);
  if (s == NULL) s = weft_graph_import(g, bytes, &options);
  if (s != NULL) {
    weft_graph_destroy(g);
    g = NULL;
  }
  *out = g;
  return s;
}

/* What was read can be written and read again, and is then the same. */
static void check_export(const weft_graph_t *g) {
  weft_strbuf_t once = WEFT_STRBUF_INIT, twice = WEFT_STRBUF_INIT;
  weft_graph_t *again = NULL;
  weft_status_t *s = weft_graph_export(g, false, &once);
  if (s == NULL) {
    s = import(weft_str_of(once.data, once.length), true, &again);
    weft_fuzz_check(s == NULL, weft_status_message(s));
    s = weft_graph_export(again, false, &twice);
    weft_fuzz_check(s == NULL && once.length == twice.length &&
                        (once.length == 0 || memcmp(once.data, twice.data, once.length) == 0),
                    "a graph changes when it is written and read");
  }
  weft_status_free(s);
  weft_graph_destroy(again);
  weft_strbuf_deinit(&once);
  weft_strbuf_deinit(&twice);
}

static weft_status_t *run_passes(weft_graph_t *g) {
  weft_arena_t arena = WEFT_ARENA_INIT;
  weft_frames_t frames;
  weft_status_t *s = weft_pass_lower_functions(g, 0);
  if (s == NULL) s = weft_pass_infer_shapes(g);
  if (s == NULL) s = weft_pass_find_frames(g, &arena, &frames);
  if (s == NULL && g->num_live > 0 && g->nodes[0] != NULL) s = weft_pass_prune(g, g->nodes, 1);
  weft_arena_deinit(&arena);
  return s;
}

void weft_fuzz_one(const uint8_t *data, size_t size) {
  weft_graph_t *g = NULL;
  weft_status_t *s = import(weft_str_of((const char *)data, size), (size & 1) != 0, &g);
  if (s == NULL) {
    check_export(g);
    s = run_passes(g);
  }
  weft_fuzz_check(weft_status_code(s) != WEFT_INTERNAL, weft_status_message(s));
  weft_status_free(s);
  weft_graph_destroy(g);
}
