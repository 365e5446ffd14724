/* tests/graph/graph_testing.h - graphs for tests: from text, from files that TensorFlow made, back to bytes.
 */
#ifndef WEFT_TESTS_GRAPH_GRAPH_TESTING_H_
#define WEFT_TESTS_GRAPH_GRAPH_TESTING_H_

#include "graph/graph_proto.h"

/* A GraphDef in text format as bytes; owned by the caller. A mistake in the text fails the test. */
weft_strbuf_t weft_test_graph_def(const char *text);
/* tests/graph/testdata/<name>.pb; owned by the caller. */
weft_strbuf_t weft_test_read(const char *name);
/* Imports as a client's graph. */
weft_status_t *weft_test_import(weft_str_t graph_def, weft_graph_t **out);
/* The same from text; a failure fails the test and gives NULL. */
weft_graph_t *weft_test_graph(const char *text);
weft_node_t *weft_test_node(const weft_graph_t *g, const char *name); /* fails the test if absent */
/* How many live nodes have this op. */
int weft_test_count(const weft_graph_t *g, const char *op);
/* Does `to` depend on `from`, over data and control edges (back edges of loops left out)? */
bool weft_test_depends(const weft_graph_t *g, const weft_node_t *to, const weft_node_t *from);
/* `s` if it is a failure; else that of the first node which was set aside with one (weft_function_library_t),
 * as a step that needs it would report it; else OK. */
weft_status_t *weft_test_first_failure(weft_status_t *s, const weft_graph_t *g);
/* Checks and frees: OK, or this code and this text in the message. */
void weft_test_expect(weft_status_t *s, weft_code_t code, const char *text);

#endif /* WEFT_TESTS_GRAPH_GRAPH_TESTING_H_ */
