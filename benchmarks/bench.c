/* benchmarks/bench.c - the list. */
#include "benchmarks/bench.h"

#include <string.h>

#include "benchmarks/allreduce.h"
#include "benchmarks/dispatch.h"
#include "benchmarks/floors.h"
#include "benchmarks/million_nodes.h"
#include "benchmarks/ps_step.h"
#include "benchmarks/recv_tensor.h"
#include "benchmarks/rpc_step.h"
#include "benchmarks/server.h"
#include "benchmarks/session.h"
#include "benchmarks/thousand_workers.h"

#define LOWER true

#define OF(id) WEFT_FLOOR_##id

static const weft_benchmark_t list[] = {
    {"dispatch_chain", "ns", 0.7, LOWER, "executor: one node of a chain of 100,000, on one thread",
     weft_bench_dispatch_chain, OF(MEMORY_LOAD)},
    {"dispatch_wide", "ns", 0.7, LOWER, "executor: one of 100,000 independent nodes, on one thread",
     weft_bench_dispatch_wide, OF(MEMORY_LOAD)},
    {"dispatch_random", "ns", 1.2, LOWER, "executor: one node of a random graph of 100,000, on one thread",
     weft_bench_dispatch_random, OF(MEMORY_LOAD)},
    {"local_step", "us", 70, LOWER,
     "a step of a session in this process: one small op, a scalar fed and fetched", weft_bench_local_step,
     OF(MEMORY_LOAD)},
    {"matmul_step", "us", 1.11, LOWER, "a step that multiplies two matrices of 512x512, on one thread",
     weft_bench_matmul_step, OF(SGEMM)},
    {"rpc_step", "us", 1.15, LOWER, "a scalar step over gRPC, seen by a client in C", weft_bench_rpc_step,
     OF(GRPC_CALL)},
    {"recv_tensor_1mb", "share", 0.7, !LOWER, "a tensor of 1 MB from another process, against plain TCP",
     weft_bench_recv_tensor_1mb, WEFT_FLOOR_NONE},
    {"recv_tensor_128mb", "share", 0.7, !LOWER, "a tensor of 128 MB from another process, against plain TCP",
     weft_bench_recv_tensor_128mb, WEFT_FLOOR_NONE},
    {"recv_memcpy_1mb", "share", 0.6, !LOWER, "a tensor of 1 MB from another process, against memcpy in one",
     weft_bench_recv_memcpy_1mb, WEFT_FLOOR_NONE},
    {"recv_memcpy_128mb", "share", 0.6, !LOWER,
     "a tensor of 128 MB from another process, against memcpy in one", weft_bench_recv_memcpy_128mb,
     WEFT_FLOOR_NONE},
    {"allreduce_64mb", "ms", 1.25, LOWER, "an all-reduce of 64 MB over four processes, in place",
     weft_bench_allreduce_64mb, OF(ALLREDUCE)},
    {"allreduce_fused", "times", 5, !LOWER,
     "an all-reduce of 100 tensors of 4 KB in one buffer, against one by one", weft_bench_allreduce_fused,
     WEFT_FLOOR_NONE},
    {"ps_step_100mb", "ms", 24, LOWER,
     "a step of two workers on a dense model of 100 MB with one parameter server", weft_bench_ps_step_100mb,
     OF(MEMCPY_128MB)},
    {"server_start", "ms", 50, LOWER, "a server, from the start of its process to its ready line",
     weft_bench_server_start, OF(PROCESS_START)},
    {"server_rss", "MB", 30, LOWER, "memory of an idle server", weft_bench_server_rss, WEFT_FLOOR_NONE},
    {"binary_size", "MB", 25, LOWER,
     "the weft command, stripped, with the kernels of all instruction-set levels", weft_bench_binary_size,
     WEFT_FLOOR_NONE},
    {"million_nodes", "ns", 84, LOWER,
     "a node of a graph of 1,000,000 over two tasks: import, place, cut, register; linear, too",
     weft_bench_million_nodes, OF(MEMORY_LOAD)},
    {"million_nodes_memory", "B/node", 400, LOWER, "what master and workers keep of a node of that graph",
     weft_bench_million_nodes_memory, WEFT_FLOOR_NONE},
    {"master_step", "us", 70, LOWER,
     "processor time of a step for each of 1,000 workers, which are modelled; linear, too",
     weft_bench_master_step, OF(MEMORY_LOAD)},
    {"master_memory", "kB", 20, LOWER, "memory of a signature for each of these workers",
     weft_bench_master_memory, WEFT_FLOOR_NONE},
    {"step_memory_growth", "B/step", 4, LOWER,
     "what a server keeps of each of 100,000 steps; the smallest leak would be 16",
     weft_bench_step_memory_growth, WEFT_FLOOR_NONE},
};

const weft_benchmark_t *weft_bench_list(int *out_n) {
  *out_n = (int)(sizeof list / sizeof list[0]);
  return list;
}

/* Nanoseconds of a unit of time. */
static double unit_ns(const char *unit) {
  static const struct {
    const char *name;
    double ns;
  } units[] = {{"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}};
  for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
    if (strcmp(unit, units[i].name) == 0) return units[i].ns;
  }
  return 0;
}

weft_status_t *weft_bench_measure(const weft_benchmark_t *b, const weft_bench_options_t *o,
                                  weft_bench_result_t *out) {
  const weft_floor_t *floor = weft_bench_floor(b->floor);
  weft_bench_result_t r = {.value = 0};
  double before = 0, after = 0;
  if (floor != NULL) WEFT_RETURN_IF_ERROR(floor->run(o, &before));
  WEFT_RETURN_IF_ERROR(b->run(o, &r.value));
  if (floor != NULL) WEFT_RETURN_IF_ERROR(floor->run(o, &after));
  double judged = r.value;
  if (floor != NULL) {
    r.floor_ns = before < after ? before : after;
    judged = r.ratio = r.value * unit_ns(b->unit) / r.floor_ns;
  }
  r.is_ok = b->lower_is_better ? judged <= b->bar : judged >= b->bar;
  *out = r;
  return NULL;
}
