/* benchmarks/bench.h - the list of benchmarks that `weft bench` prints.
 *
 * One line each in bench.c; one function each, in a file of its own for each hot
 * path. A benchmark measures something for a few seconds at most and gives one
 * number. Where that depends on the machine, its bar is a ratio to a floor
 * (benchmarks/floors.h) or to a peer, measured in the same run.
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
  int num_nodes;  /* of the graph of million_nodes; 0: 1,000,000 */
} weft_bench_options_t;

typedef weft_status_t *weft_bench_fn(const weft_bench_options_t *options, double *out_value);

typedef enum weft_floor_id {
  WEFT_FLOOR_NONE,
  WEFT_FLOOR_MEMORY_LOAD,
  WEFT_FLOOR_MEMCPY_1MB,
  WEFT_FLOOR_MEMCPY_128MB,
  WEFT_FLOOR_HANDOFF,
  WEFT_FLOOR_TCP,
  WEFT_FLOOR_GRPC_CALL,
  WEFT_FLOOR_PROCESS_START,
  WEFT_FLOOR_SGEMM,
  WEFT_FLOOR_ALLREDUCE,
} weft_floor_id_t;

typedef struct weft_floor {
  weft_floor_id_t id;
  const char *name;
  const char *text;   /* what is measured, in one line */
  weft_bench_fn *run; /* gives nanoseconds */
} weft_floor_t;

typedef struct weft_benchmark {
  const char *name;
  const char *unit; /* a time, if there is a floor */
  double bar;       /* what it must reach: of the value, or of the ratio to the floor if there is one */
  bool lower_is_better;
  const char *text;   /* what is measured, in one line */
  weft_bench_fn *run; /* not thread-safe: one benchmark at a time */
  weft_floor_id_t floor;
} weft_benchmark_t;

/* What was measured. */
typedef struct weft_bench_result {
  double value;    /* in the benchmark's unit */
  double floor_ns; /* of the floor, before and after the benchmark: the smaller one; 0 without a floor */
  double ratio;    /* time over the floor's; 0 without a floor */
  bool is_ok;      /* the bar is reached */
} weft_bench_result_t;

/* All of them, in the order in which they are printed; *out_n of them. Constant. */
const weft_benchmark_t *weft_bench_list(int *out_n);
/* Measures one, and its floor. */
WEFT_MUST_CHECK weft_status_t *weft_bench_measure(const weft_benchmark_t *b, const weft_bench_options_t *o,
                                                  weft_bench_result_t *out);

#endif /* WEFT_BENCHMARKS_BENCH_H_ */
