/* benchmarks/server.h - what a `weft server` process costs: its start, its memory, its size on disk. */
#ifndef WEFT_BENCHMARKS_SERVER_H_
#define WEFT_BENCHMARKS_SERVER_H_

#include "benchmarks/bench.h"

weft_bench_fn weft_bench_server_start;       /* ms from the start of the process to its ready line: median */
weft_bench_fn weft_bench_server_rss;         /* MB resident, ready and idle */
weft_bench_fn weft_bench_binary_size;        /* MB of the command, stripped */
weft_bench_fn weft_bench_step_memory_growth; /* bytes that a server keeps per step */

#endif /* WEFT_BENCHMARKS_SERVER_H_ */
