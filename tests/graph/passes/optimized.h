/* tests/graph/passes/optimized.h - graphs from text, run through some of the passes. */
#ifndef WEFT_TESTS_GRAPH_PASSES_OPTIMIZED_H_
#define WEFT_TESTS_GRAPH_PASSES_OPTIMIZED_H_

#include "graph/passes/optimize.h"
#include "tests/graph/graph_testing.h"

/* Nodes in text format. IN is a list of input:'...'. */
#define T_F "attr{key:'T' value{type:DT_FLOAT}} "
#define T_I "attr{key:'T' value{type:DT_INT32}} "
#define NODE(name, op, in, attrs) "node{name:'" name "' op:'" op "' " in " " attrs "} "
#define IN1(a) "input:'" a "'"
#define IN2(a, b) "input:'" a "' input:'" b "'"
#define IN3(a, b, c) "input:'" a "' input:'" b "' input:'" c "'"
/* A placeholder of floats: dims is dim{size:2} ... */
#define FED(name, dims)         \
  NODE(name, "Placeholder", "", \
       "attr{key:'dtype' value{type:DT_FLOAT}} attr{key:'shape' value{shape{" dims "}}}")
#define CONST(name, type, dims, values)                                                   \
  NODE(name, "Const", "",                                                                 \
       "attr{key:'dtype' value{type:" type "}} attr{key:'value' value{tensor{dtype:" type \
       " tensor_shape{" dims "} " values "}}}")
#define FLOAT_CONST(name, value) CONST(name, "DT_FLOAT", "", "float_val:" value)
#define INT_CONST(name, value) CONST(name, "DT_INT32", "", "int_val:" value)
#define INTS_CONST(name, n, values) CONST(name, "DT_INT32", "dim{size:" n "}", values)

/* The graph after the passes (as of --passes), with `keep` (NULL-ended) kept. Constants are computed by the
 * CPU's kernels. The caller destroys it. */
weft_graph_t *weft_test_optimized(const char *text, const char *passes, const char *const *keep);
/* The same with one name kept. */
weft_graph_t *weft_test_optimized1(const char *text, const char *passes, const char *keep);
/* Is input i of `node` output 0 of `from`? */
bool weft_test_reads(const weft_graph_t *g, const char *node, int input, const char *from);
bool weft_test_is_gone(const weft_graph_t *g, const char *node);
/* Computes on a CPU device of its own; it lives until weft_test_evaluator_destroy. */
const weft_evaluator_t *weft_test_evaluator(void);
void weft_test_evaluator_destroy(void);

#endif /* WEFT_TESTS_GRAPH_PASSES_OPTIMIZED_H_ */
