/* kernels/cpu/dataset/seeds.h - a generator of seeds: two for each pass through a data set, so that passes
 * differ and a run can be repeated. */
#ifndef WEFT_KERNELS_CPU_DATASET_SEEDS_H_
#define WEFT_KERNELS_CPU_DATASET_SEEDS_H_

#include "kernels/cpu/dataset/dataset.h"
#include "kernels/cpu/random/philox.h"

typedef struct weft_seeds weft_seeds_t; /* Thread-safe. A weft_object_t in front: a resource, too */
extern const weft_resource_type_t weft_seeds_type;

/* Both seeds 0: random ones. `reshuffles`: other seeds each time; else always these. Errors:
 * RESOURCE_EXHAUSTED. */
WEFT_MUST_CHECK weft_status_t *weft_seeds_create(int64_t seed, int64_t seed2, bool reshuffles,
                                                 weft_seeds_t **out);
void weft_seeds_release(weft_seeds_t *s); /* NULL is fine */
void weft_seeds_take(weft_seeds_t *s, int64_t *seed, int64_t *seed2);
/* Where the generator stands, and back there: of a pass that is saved in the middle, for those that follow
 * it. */
int64_t weft_seeds_tell(weft_seeds_t *s);
void weft_seeds_seek(weft_seeds_t *s, int64_t place);
/* TensorFlow's generator of random numbers for two seeds, none of them replaced. */
weft_philox_t weft_seeds_philox(int64_t seed, int64_t seed2);
/* Its words from number `first` on. */
weft_philox_words_t weft_seeds_words(int64_t seed, int64_t seed2, int64_t first);
/* The generator behind input i, retained; NULL, as in TensorFlow, if the handle names none: the dummy that
 * new graphs have there, or that of the process that wrote the graph. Errors: as of weft_state_in_if_there.
 */
WEFT_MUST_CHECK weft_status_t *weft_seeds_in(weft_kernel_ctx_t *c, int i, weft_seeds_t **out);

#endif /* WEFT_KERNELS_CPU_DATASET_SEEDS_H_ */
