/* kernels/cpu/random/philox.c - seeds, streams and the cutting of work for random ops. */
#include "kernels/cpu/random/philox.h"

#include "base/alloc.h"
#include "base/random.h"

weft_philox_t weft_philox_seeded(int64_t seed, int64_t seed2) {
  uint64_t low = (uint64_t)seed, high = (uint64_t)seed2;
  if (low == 0 && high == 0) {
    low = weft_random_id();
    high = weft_random_id();
  }
  return (weft_philox_t){.key = {(uint32_t)low, (uint32_t)(low >> 32)},
                         .counter = {0, 0, (uint32_t)high, (uint32_t)(high >> 32)}};
}

weft_philox_t weft_philox_scrambled(uint64_t seed0, uint64_t seed1) {
  weft_philox_t p = {
      .key = {0x3ec8f720u, 0x02461e29u},
      .counter = {(uint32_t)seed0, (uint32_t)(seed0 >> 32), (uint32_t)seed1, (uint32_t)(seed1 >> 32)}};
  uint32_t mixed[4];
  weft_philox_next(&p, mixed);
  return (weft_philox_t){.key = {mixed[0], mixed[1]}, .counter = {0, 0, mixed[2], mixed[3]}};
}

weft_status_t *weft_random_stream_prepare(const weft_kernel_setup_t *setup, void **out_state) {
  weft_random_stream_t *s = weft_calloc(1, sizeof *s);
  if (s == NULL) return WEFT_NO_MEMORY("preparing %.*s", WEFT_STR_ARGS(setup->node.name));
  weft_mutex_init(&s->mu);
  s->next = weft_philox_seeded(weft_knode_int(setup, "seed"), weft_knode_int(setup, "seed2"));
  *out_state = s;
  return NULL;
}

void weft_random_stream_destroy(void *state) {
  weft_random_stream_t *s = state;
  if (s == NULL) return;
  weft_mutex_deinit(&s->mu);
  weft_free(s);
}

/* Key and counter, 32 bits each, the lowest byte first. */
enum { STREAM_WORDS = 6 };

static void stream_save(void *state, weft_strbuf_t *out) {
  weft_random_stream_t *s = state;
  weft_mutex_lock(&s->mu);
  const weft_philox_t next = s->next;
  weft_mutex_unlock(&s->mu);
  for (int i = 0; i < STREAM_WORDS; i++) {
    const uint32_t word = i < 2 ? next.key[i] : next.counter[i - 2];
    for (int byte = 0; byte < 4; byte++) weft_strbuf_putc(out, (char)(word >> 8 * byte & 0xff));
  }
}

static weft_status_t *stream_load(void *state, weft_str_t from) {
  weft_random_stream_t *s = state;
  weft_philox_t next = {{0}};
  if (from.length != STREAM_WORDS * 4)
    return WEFT_ERROR(DATA_LOSS, "the saved state of a random op has %zu bytes", from.length);
  for (size_t i = 0; i < STREAM_WORDS; i++) {
    uint32_t word = 0;
    for (size_t byte = 0; byte < 4; byte++)
      word |= (uint32_t)(unsigned char)from.data[4 * i + byte] << 8 * byte;
    *(i < 2 ? &next.key[i] : &next.counter[i - 2]) = word;
  }
  weft_mutex_lock(&s->mu);
  s->next = next;
  weft_mutex_unlock(&s->mu);
  return NULL;
}

const weft_kernel_keeping_t weft_random_stream_keeping = {.save = stream_save, .load = stream_load};

weft_philox_t weft_random_stream_take(weft_random_stream_t *s, uint64_t blocks) {
  weft_mutex_lock(&s->mu);
  weft_philox_t mine = s->next;
  weft_philox_skip(&s->next, blocks);
  weft_mutex_unlock(&s->mu);
  return mine;
}

/* ---- Eigen's cost model and block sizes, which decide where TensorFlow starts a generator anew ---- */

enum {
  STARTUP_CYCLES = 100000,
  CYCLES_PER_THREAD = 100000,
  CYCLES_PER_TASK = 40000,
  MAX_PIECES_PER_THREAD = 4
};

static int64_t divide_up(int64_t a, int64_t b) { return a / b + (a % b != 0); }

/* The share of the threads' time that is work when `pieces` equal pieces go to them in rounds. */
static double efficiency(int64_t pieces, int num_threads) {
  return (double)pieces / (double)(divide_up(pieces, num_threads) * num_threads);
}

int64_t weft_random_piece(int64_t total, double cost, int num_threads) {
  double threads = ((double)total * cost - STARTUP_CYCLES) / CYCLES_PER_THREAD + 0.9;
  if (total <= 1 || num_threads <= 1 || threads < 2) return total;
  int64_t size = divide_up(total, (int64_t)MAX_PIECES_PER_THREAD * num_threads);
  double task = 1.0 / (cost / CYCLES_PER_TASK);
  if (task > (double)size) size = task < (double)total ? (int64_t)task : total;
  int64_t max_size = size > total / 2 ? total : 2 * size, count = divide_up(total, size);
  double best = efficiency(count, num_threads);
  /* Coarser pieces, as long as no thread is left idle for it. */
  for (int64_t tried = count; best < 1.0 && tried > 1;) {
    int64_t coarser = divide_up(total, tried - 1);
    if (coarser > max_size) break;
    tried = divide_up(total, coarser);
    double e = efficiency(tried, num_threads);
    if (e + 0.01 < best) continue;
    size = coarser;
    if (best < e) best = e;
  }
  return size;
}
