/* tests/client/client_testing.h - a graph, a session and short ways to fill them, for tests of the C API. */
#ifndef WEFT_TESTS_CLIENT_CLIENT_TESTING_H_
#define WEFT_TESTS_CLIENT_CLIENT_TESTING_H_

#include <stdbool.h>
#include <string.h>

#include "tensorflow/c/c_api.h"
#include "tests/runner.h"

typedef struct world {
  TF_Graph *g;
  TF_Status *s;
  TF_Session *session; /* NULL before the first run */
  const char *target;  /* of the session; NULL: this process */
} world_t;

void world_open(world_t *w);
void world_close(world_t *w);

#define ASSERT_OK(w)                                              \
  do {                                                            \
    if (TF_GetCode((w)->s) != TF_OK) CU_FAIL(TF_Message((w)->s)); \
    CU_ASSERT_EQUAL_FATAL(TF_GetCode((w)->s), TF_OK);             \
  } while (0)
#define ASSERT_FAILS(w, code, text)                             \
  do {                                                          \
    CU_ASSERT_EQUAL(TF_GetCode((w)->s), (code));                \
    CU_ASSERT_PTR_NOT_NULL(strstr(TF_Message((w)->s), (text))); \
  } while (0)

/* New tensors. */
TF_Tensor *new_floats(int rank, const int64_t *dims, const float *values);
TF_Tensor *new_doubles(int rank, const int64_t *dims, const double *values);
TF_Tensor *new_ints(int rank, const int64_t *dims, const int32_t *values);
TF_Tensor *new_string(const char *text);
static inline TF_Tensor *new_float(float value) { return new_floats(0, NULL, &value); }
static inline TF_Tensor *new_int(int32_t value) { return new_ints(0, NULL, &value); }
static inline float float_at(const TF_Tensor *t, int i) { return ((const float *)TF_TensorData(t))[i]; }
static inline int32_t int_at(const TF_Tensor *t, int i) { return ((const int32_t *)TF_TensorData(t))[i]; }

/* New nodes; the test fails if they cannot be added. constant() deletes the tensor. */
TF_Output placeholder(world_t *w, TF_Graph *g, const char *name, TF_DataType type);
TF_Output constant(world_t *w, TF_Graph *g, const char *name, TF_Tensor *value);
TF_Output unary(world_t *w, TF_Graph *g, const char *op, const char *name, TF_Output x);
TF_Output binary(world_t *w, TF_Graph *g, const char *op, const char *name, TF_Output x, TF_Output y);

/* Runs a step in the world's session, which is made when needed. The status is the world's. */
void run(world_t *w, const TF_Output *feeds, TF_Tensor *const *values, int num_feeds,
         const TF_Output *fetches, TF_Tensor **out, int num_fetches);
/* One feed (or none: oper NULL), one fetch; NULL on failure. */
TF_Tensor *run1(world_t *w, TF_Output feed, TF_Tensor *value, TF_Output fetch);
/* Runs one operation. */
void run_target(world_t *w, TF_Operation *target);

#endif /* WEFT_TESTS_CLIENT_CLIENT_TESTING_H_ */
