/* tests/sharding/exhaustive.h - computes a node on parts, as its sharding rule says, and compares with the
 * whole.
 *
 * A case is an op, attributes as the kernels' harness reads them, and inputs: "double[4,6]" is random
 * numbers, "int32[5]%7" random numbers below 7, "int32[2]:1,0" a constant.
 */
#ifndef WEFT_TESTS_SHARDING_EXHAUSTIVE_H_
#define WEFT_TESTS_SHARDING_EXHAUSTIVE_H_

#include "tests/kernels/harness.h"

/* What a mistake in a rule would be: a test of the test. */
typedef struct weft_rule_mutation {
  const char *text; /* instead of the op's factor notation; NULL: the op's */
  uint64_t flags;   /* more flags */
} weft_rule_mutation_t;

typedef struct weft_rule_count {
  int choices, factors,
      failures; /* choices that were computed on parts; of them with factors; that differed */
  int dims;     /* factors that an axis of 2 divides */
} weft_rule_count_t;

/* Every choice on a mesh of 2, in equal and in unequal parts, and every pair of choices on a mesh of 2x2.
 * Adds to *count; prints what differs unless `mutation` is given. Errors: the case itself does not run. */
WEFT_MUST_CHECK weft_status_t *weft_rule_compute(weft_bench_t *b, const char *op, const char *attrs,
                                                 const char *inputs, const weft_rule_mutation_t *mutation,
                                                 weft_rule_count_t *count);

/* The factor notation of a case, and every choice on an axis of 2 but Replicate, as the shardings of the
 * inputs and of the outputs: "0.>0 10>P". A digit is Shard of that dimension, "." Replicate, P, N, X, M, R
 * Partial: a sum, minimum, maximum, mean, product. */
WEFT_MUST_CHECK weft_status_t *weft_rule_signatures(weft_bench_t *b, const char *op, const char *attrs,
                                                    const char *inputs, weft_strbuf_t *notation,
                                                    weft_strbuf_t *out);

#endif /* WEFT_TESTS_SHARDING_EXHAUSTIVE_H_ */
