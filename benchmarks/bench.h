/* benchmarks/bench.h - the list of benchmarks that `weft bench` prints.
 *
 * One line each in bench.c; one function each, in a file of its own for each hot
 * path. A benchmark measures something for a few seconds at most and gives one
 * number; where that is a ratio to a peer, both are measured in the same run.
 */
#ifndef WEFT_BENCHMARKS_BENCH_H_
#define WEFT_BENCHMARKS_BENCH_H_

#include <stdbool.h>

#include "base/status.h"

/* What benchmarks may need to know of the program that runs them. */
typedef struct weft_bench_options {
  const char
      *weft_path; /* the `weft` command, for those that start servers; NULL: they fail with UNIMPLEMENTED */
  bool is_quick;  /* fewer repetitions: to see that it works, not to report */
} weft_bench_options_t;

typedef weft_status_t *weft_bench_fn(const weft_bench_options_t *options, double *out_value);

typedef struct weft_benchmark {
  const char *name;
  const char *unit;
  double bar; /* what it must reach */
  bool lower_is_better;
  const char *text;   /* what is measured, in one line */
  weft_bench_fn *run; /* not thread-safe: one benchmark at a time */
} weft_benchmark_t;

/* All of them, in the order in which they are printed; *out_n of them. Constant. */
const weft_benchmark_t *weft_bench_list(int *out_n);
/* Does `value` reach the bar? */
bool weft_bench_ok(const weft_benchmark_t *b, double value);

#endif /* WEFT_BENCHMARKS_BENCH_H_ */
