#include "tests/graph/graph_testing.h"

#include <stdio.h>

#include "base/alloc.h"
#include "protos/graph.pb-c.h"
#include "protos/text_format.h"
#include "tests/runner.h"

weft_strbuf_t weft_test_graph_def(const char *text) {
  weft_strbuf_t b = WEFT_STRBUF_INIT;
  weft_test_expect(weft_text_to_binary(&tensorflow__graph_def__descriptor, weft_str(text), "test", &b),
                   WEFT_OK, "");
  return b;
}

weft_strbuf_t weft_test_read(const char *name) {
  weft_strbuf_t b = WEFT_STRBUF_INIT;
  char path[256], block[4096];
  snprintf(path, sizeof path, "tests/graph/testdata/%s.pb", name);
  FILE *f = fopen(path, "rb");
  CU_ASSERT_PTR_NOT_NULL_FATAL(f);
  for (size_t n; (n = fread(block, 1, sizeof block, f)) > 0;) weft_strbuf_append(&b, weft_str_of(block, n));
  fclose(f);
  return b;
}

weft_status_t *weft_test_import(weft_str_t graph_def, weft_graph_t **out) {
  const weft_import_options_t options = {0};
  weft_graph_t *g = NULL;
  weft_status_t *s = weft_graph_create(&g);
  if (s == NULL) s = weft_graph_import(g, graph_def, &options);
  if (s != NULL) {
    weft_graph_destroy(g);
    g = NULL;
  }
  *out = g;
  return s;
}

weft_graph_t *weft_test_graph(const char *text) {
  weft_strbuf_t b = weft_test_graph_def(text);
  weft_graph_t *g = NULL;
  weft_test_expect(weft_test_import(weft_str_of(b.data, b.length), &g), WEFT_OK, "");
  weft_strbuf_deinit(&b);
  CU_ASSERT_PTR_NOT_NULL_FATAL(g);
  return g;
}

weft_node_t *weft_test_node(const weft_graph_t *g, const char *name) {
  weft_node_t *n = weft_graph_find(g, weft_str(name));
  if (n == NULL) printf("\n    no node '%s'\n", name);
  CU_ASSERT_PTR_NOT_NULL_FATAL(n);
  return n;
}

int weft_test_count(const weft_graph_t *g, const char *op) {
  int count = 0;
  for (int id = 0; id < g->num_nodes; id++)
    count += g->nodes[id] != NULL && weft_str_is(g->nodes[id]->op->name, op);
  return count;
}

static bool search(const weft_node_t *at, const weft_node_t *from, bool *seen) {
  if (at == from) return true;
  if (seen[at->id]) return false;
  seen[at->id] = true;
  for (int i = 0; i < at->num_inputs; i++) {
    if ((at->inputs[i].node->flags & WEFT_OP_NEXT_ITERATION) != 0) continue;
    if (search(at->inputs[i].node, from, seen)) return true;
  }
  for (int i = 0; i < at->num_controls; i++) {
    if (search(at->controls[i], from, seen)) return true;
  }
  return false;
}

bool weft_test_depends(const weft_graph_t *g, const weft_node_t *to, const weft_node_t *from) {
  bool *seen = weft_calloc((size_t)g->num_nodes, sizeof *seen);
  CU_ASSERT_PTR_NOT_NULL_FATAL(seen);
  bool found = search(to, from, seen);
  weft_free(seen);
  return found;
}

void weft_test_expect(weft_status_t *s, weft_code_t code, const char *text) {
  CU_ASSERT_EQUAL(weft_status_code(s), code);
  CU_ASSERT_PTR_NOT_NULL(strstr(weft_status_message(s), text));
  if (weft_status_code(s) != code || strstr(weft_status_message(s), text) == NULL) {
    printf("\n    got %s: %s\n    for %s\n", weft_code_name(weft_status_code(s)), weft_status_message(s),
           text);
  }
  weft_status_free(s);
}

weft_status_t *weft_test_first_failure(weft_status_t *s, const weft_graph_t *g) {
  for (int id = 0; s == NULL && g != NULL && id < g->num_nodes; id++) {
    const weft_node_t *n = g->nodes[id];
    if (n == NULL || (n->flags & WEFT_OP_UNREGISTERED) == 0 || n->op->absent == NULL) continue;
    s = WEFT_ERROR(INVALID_ARGUMENT, "%s", n->op->absent);
  }
  return s;
}
