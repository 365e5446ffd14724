/* examples/digits/build.h - short forms of the C API's calls for building graphs.
 *
 * A failure ends the program with its message: an example has no caller to report to.
 */
#ifndef WEFT_EXAMPLES_DIGITS_BUILD_H_
#define WEFT_EXAMPLES_DIGITS_BUILD_H_

#include <stdint.h>
#include <tensorflow/c/c_api.h>

typedef struct build {
  TF_Graph *graph;
  TF_Status *status;
} build_t;

void build_init(build_t *b);
void build_deinit(build_t *b);
void check(build_t *b, const char *what); /* ends the program if the last call failed */

/* Starts a node "scope/name"; the caller adds inputs and attributes; end() finishes it and gives output 0. */
TF_OperationDescription *begin(build_t *b, const char *op, const char *scope, const char *name);
TF_Output end(build_t *b, TF_OperationDescription *node);

/* Whole nodes with one, two inputs and no attributes of their own. */
TF_Output op1(build_t *b, const char *op, const char *scope, const char *name, TF_Output x);
TF_Output op2(build_t *b, const char *op, const char *scope, const char *name, TF_Output x, TF_Output y);

TF_Output placeholder(build_t *b, const char *name, TF_DataType dtype, const int64_t *dims, int rank);
TF_Output constant(build_t *b, const char *scope, const char *name, TF_DataType dtype, const int64_t *dims,
                   int rank, const void *data, size_t bytes);
TF_Output scalar(build_t *b, const char *scope, const char *name, float value);
TF_Output ints(build_t *b, const char *scope, const char *name, const int32_t *values, int n); /* 1-D */

/* A node without outputs that waits for all of `ops`: "train", "init". */
void group(build_t *b, const char *name, TF_Operation *const *ops, int n);
void write_graph(build_t *b, const char *path);

#endif /* WEFT_EXAMPLES_DIGITS_BUILD_H_ */
