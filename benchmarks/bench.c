/* benchmarks/bench.c - the list. */
#include "benchmarks/bench.h"

#include "benchmarks/allreduce.h"
#include "benchmarks/dispatch.h"
#include "benchmarks/million_nodes.h"
#include "benchmarks/ps_step.h"
#include "benchmarks/recv_tensor.h"
#include "benchmarks/rpc_step.h"
#include "benchmarks/server.h"
#include "benchmarks/session.h"

#define LOWER true

static const weft_benchmark_t list[] = {
    {"dispatch_chain", "ns", 100, LOWER, "executor: one node of a chain of 100,000, on one thread",
     weft_bench_dispatch_chain},
    {"dispatch_wide", "ns", 100, LOWER, "executor: one of 100,000 independent nodes, on one thread",
     weft_bench_dispatch_wide},
    {"dispatch_random", "ns", 100, LOWER, "executor: one node of a random graph of 100,000, on one thread",
     weft_bench_dispatch_random},
    {"local_step", "us", 10, LOWER,
     "a step of a session in this process: one small op, a scalar fed and fetched", weft_bench_local_step},
    {"rpc_step", "us", 85, LOWER,
     "a scalar step over gRPC, seen by a client in C (half of what TensorFlow's server needs)",
     weft_bench_rpc_step},
    {"recv_tensor_1mb", "share", 0.7, !LOWER, "a tensor of 1 MB from another process, against plain TCP",
     weft_bench_recv_tensor_1mb},
    {"recv_tensor_128mb", "share", 0.7, !LOWER, "a tensor of 128 MB from another process, against plain TCP",
     weft_bench_recv_tensor_128mb},
    {"allreduce_64mb", "ms", 120, LOWER, "an all-reduce of 64 MB over four processes, in place",
     weft_bench_allreduce_64mb},
    {"allreduce_fused", "times", 5, !LOWER,
     "an all-reduce of 100 tensors of 4 KB in one buffer, against one by one", weft_bench_allreduce_fused},
    {"ps_step_100mb", "ms", 200, LOWER,
     "a step of two workers on a dense model of 100 MB with one parameter server (half of what TensorFlow's "
     "servers need)",
     weft_bench_ps_step_100mb},
    {"server_start", "ms", 50, LOWER, "a server, from the start of its process to its ready line",
     weft_bench_server_start},
    {"server_rss", "MB", 30, LOWER, "memory of an idle server", weft_bench_server_rss},
    {"binary_size", "MB", 25, LOWER,
     "the weft command, stripped, with the kernels of all instruction-set levels", weft_bench_binary_size},
    {"million_nodes", "s", 5, LOWER,
     "a graph of 1,000,000 nodes over two tasks: import, place, cut, register; linear, too",
     weft_bench_million_nodes},
    {"step_memory_growth", "B/step", 4, LOWER,
     "what a server keeps of each of 100,000 steps; the smallest leak would be 16",
     weft_bench_step_memory_growth},
};

const weft_benchmark_t *weft_bench_list(int *out_n) {
  *out_n = (int)(sizeof list / sizeof list[0]);
  return list;
}

bool weft_bench_ok(const weft_benchmark_t *b, double value) {
  return b->lower_is_better ? value <= b->bar : value >= b->bar;
}
