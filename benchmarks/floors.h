/* benchmarks/floors.h - what this machine can do without us, measured in the same run as what is built on it.
 *
 * A bar in microseconds says nothing on another machine; a ratio to a floor does. Each floor is one
 * elementary thing (a round trip over TCP, a call of gRPC that says nothing, a copy), done as well as one
 * knows how.
 */
#ifndef WEFT_BENCHMARKS_FLOORS_H_
#define WEFT_BENCHMARKS_FLOORS_H_

#include "benchmarks/bench.h"

enum { WEFT_BENCH_PRODUCT_SIDE = 512 }; /* of the floor sgemm, and of the step that is compared with it */

/* All floors in the order of weft_floor_id_t, without WEFT_FLOOR_NONE; *out_n of them. Constant. Each gives
 * nanoseconds: of what one thread does alone the fastest round, of what two do together the median. */
const weft_floor_t *weft_bench_floors(int *out_n);
/* One of them; NULL for WEFT_FLOOR_NONE. */
const weft_floor_t *weft_bench_floor(weft_floor_id_t id);

#endif /* WEFT_BENCHMARKS_FLOORS_H_ */
