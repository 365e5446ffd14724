/* tests/fuzz/fuzz.c - the driver of all fuzz targets.
 *
 * The input is kept in a block of exactly its size, so that a sanitizer sees a
 * read one byte past it. What the signal handler needs lies in static memory.
 */
#include "tests/fuzz/fuzz.h"

#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#ifdef WEFT_LIBFUZZER
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  weft_fuzz_one(data, size);
  return 0;
}

void weft_fuzz_check(int ok, const char *what) {
  if (ok) return;
  fprintf(stderr, "fuzz: %s\n", what);
  abort();
}
#else

enum { MAX_INPUT = 1 << 20, MAX_SEEDS = 256, HANG_SECONDS = 60 };

typedef struct input {
  uint8_t *data;
  size_t size;
} input_t;

static input_t seeds[MAX_SEEDS];
static int num_seeds;
static uint64_t state;   /* of the random numbers */
static uint8_t *current; /* what the target is looking at */
static size_t current_size;
static char crash_path[512], crash_line[640];

static uint64_t next_random(void) { /* splitmix64 */
  uint64_t z = (state += 0x9e3779b97f4a7c15u);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}
static size_t below(size_t n) { return n == 0 ? 0 : (size_t)(next_random() % n); }

/* ---- findings ---- */

static void save_current(void) { /* async-signal-safe */
  int fd = open(crash_path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
  if (fd >= 0) {
    ssize_t n = write(fd, current, current_size);
    (void)n;
    close(fd);
  }
  ssize_t n = write(STDERR_FILENO, crash_line, strlen(crash_line));
  (void)n;
}

static void on_signal(int number) {
  save_current();
  signal(number, SIG_DFL);
  raise(number);
}

#if defined(__SANITIZE_ADDRESS__)
#define HAVE_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define HAVE_SANITIZER 1
#endif
#endif
#ifdef HAVE_SANITIZER
void __sanitizer_set_death_callback(void (*callback)(void)); /* a sanitizer exits without a signal */
#endif

void weft_fuzz_check(int ok, const char *what) {
  if (ok) return;
  fprintf(stderr, "fuzz: %s\n", what);
  save_current();
  _exit(1);
}

static void watch_for_crashes(void) {
  static const int signals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGALRM};
  for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++) {
#ifdef HAVE_SANITIZER
    if (signals[i] == SIGSEGV || signals[i] == SIGBUS || signals[i] == SIGFPE)
      continue; /* the sanitizer reports them */
#endif
    signal(signals[i], on_signal);
  }
#ifdef HAVE_SANITIZER
  __sanitizer_set_death_callback(save_current);
#endif
}

static void name_crash(uint64_t seed, uint64_t run) {
  const char *dir = getenv("TEST_UNDECLARED_OUTPUTS_DIR");
  if (dir == NULL) dir = getenv("TEST_TMPDIR");
  snprintf(crash_path, sizeof crash_path, "%s/fuzz-crash-%llu-%llu", dir == NULL ? "." : dir,
           (unsigned long long)seed, (unsigned long long)run);
  snprintf(crash_line, sizeof crash_line, "fuzz: seed %llu, run %llu: input saved to %s\n",
           (unsigned long long)seed, (unsigned long long)run, crash_path);
}

static void run_one(const uint8_t *data, size_t size) {
  current = malloc(size == 0 ? 1 : size);
  if (current == NULL) return;
  current_size = size;
  if (size > 0) memcpy(current, data, size);
  weft_fuzz_one(current, size);
  free(current);
  current = NULL;
  current_size = 0;
}

/* ---- inputs ---- */

static bool read_input(const char *path, input_t *out) {
  FILE *f = fopen(path, "rb");
  if (f == NULL) return false;
  out->data = malloc(MAX_INPUT);
  out->size = out->data == NULL ? 0 : fread(out->data, 1, MAX_INPUT, f);
  fclose(f);
  return out->data != NULL;
}

static bool load_seeds(void) {
  for (const weft_fuzz_seed_t *s = weft_fuzz_seeds;
       (s->file != NULL || s->bytes != NULL) && num_seeds < MAX_SEEDS; s++) {
    input_t *in = &seeds[num_seeds++];
    if (s->file != NULL) {
      if (!read_input(s->file, in)) {
        fprintf(stderr, "fuzz: cannot read the seed %s\n", s->file);
        return false;
      }
      continue;
    }
    in->data = malloc(s->length + 1);
    if (in->data == NULL) return false;
    memcpy(in->data, s->bytes, s->length);
    in->size = s->length;
  }
  return num_seeds > 0;
}

/* Numbers that lengths, shapes and indices break on. */
static const uint64_t sharp[] = {0,
                                 1,
                                 0x7f,
                                 0x80,
                                 0xff,
                                 0x7fff,
                                 0xffff,
                                 0x7fffffff,
                                 0x80000000u,
                                 0xffffffffu,
                                 (uint64_t)1 << 40,
                                 INT64_MAX,
                                 (uint64_t)1 << 63,
                                 UINT64_MAX};

static size_t put_varint(uint8_t *to, uint64_t value) {
  size_t n = 0;
  for (; value >= 0x80; value >>= 7) to[n++] = (uint8_t)(value | 0x80);
  to[n++] = (uint8_t)value;
  return n;
}

/* Replaces `old` bytes at `at` by `n` bytes, within MAX_INPUT. */
static size_t replace(uint8_t *data, size_t size, size_t at, size_t old, const uint8_t *bytes, size_t n) {
  if (size - old + n > MAX_INPUT) return size;
  memmove(data + at + n, data + at + old, size - at - old);
  memcpy(data + at, bytes, n);
  return size - old + n;
}

/* One change. `data` has room for MAX_INPUT bytes; returns the new size. */
static size_t mutate(uint8_t *data, size_t size) {
  static uint8_t piece[4096];
  size_t at = below(size + 1), n;
  const input_t *other = &seeds[below((size_t)num_seeds)];
  uint8_t bytes[10];
  if (size == 0)
    return replace(data, 0, 0, 0, other->data, other->size < sizeof piece ? other->size : sizeof piece);
  switch (below(10)) {
    case 0: /* a bit */ data[below(size)] ^= (uint8_t)(1u << below(8)); return size;
    case 1: /* a byte */ data[below(size)] = (uint8_t)next_random(); return size;
    case 2: /* a small step: lengths that are off by one */
      data[below(size)] += (uint8_t)(below(5) - 2);
      return size;
    case 3: /* the end is missing */ return below(size);
    case 4: /* a piece is missing */
      n = below(size - at < 64 ? size - at + 1 : 64);
      return replace(data, size, at, n, bytes, 0);
    case 5: /* a piece comes twice */
      n = below(size - at < sizeof piece ? size - at + 1 : sizeof piece);
      memcpy(piece, data + at, n);
      return replace(data, size, at, 0, piece, n);
    case 6: /* a number is another one */
      n = put_varint(bytes, sharp[below(sizeof sharp / sizeof sharp[0])]);
      return replace(data, size, at, at < size ? 1 : 0, bytes, n);
    case 7: /* eight bytes are another number */
      if (size < 8) return size;
      memcpy(data + below(size - 7), &sharp[below(sizeof sharp / sizeof sharp[0])], 8);
      return size;
    case 8: { /* a piece of another input */
      size_t from = below(other->size + 1);
      n = below(other->size - from < sizeof piece ? other->size - from + 1 : sizeof piece);
      size_t old = below(2) == 0 ? 0 : below(size - at + 1);
      return replace(data, size, at, old, other->data + from, n);
    }
    default: /* a run of one byte */
      n = below(64);
      memset(piece, (int)below(256), n);
      return replace(data, size, at, 0, piece, n);
  }
}

/* ---- the loop ---- */

static double now_seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static uint64_t number_from(const char *text, uint64_t otherwise) {
  return text == NULL || *text == '\0' ? otherwise : strtoull(text, NULL, 10);
}

static int run_files(int argc, char **argv) {
  int ran = 0;
  for (int i = 1; i < argc; i++) {
    input_t in = {NULL, 0};
    if (argv[i][0] == '-') continue;
    if (!read_input(argv[i], &in)) {
      fprintf(stderr, "fuzz: cannot read %s\n", argv[i]);
      exit(2);
    }
    snprintf(crash_path, sizeof crash_path, "/dev/null");
    snprintf(crash_line, sizeof crash_line, "fuzz: crashed on %s\n", argv[i]);
    run_one(in.data, in.size);
    free(in.data);
    ran++;
  }
  return ran;
}

int main(int argc, char **argv) {
  uint64_t seconds = number_from(getenv("WEFT_FUZZ_SECONDS"), 5),
           seed = number_from(getenv("WEFT_FUZZ_SEED"), 1);
  uint64_t runs = UINT64_MAX, run = 0;
  for (int i = 1; i < argc; i++) {
    if (strncmp(argv[i], "--seconds=", 10) == 0) seconds = number_from(argv[i] + 10, seconds);
    if (strncmp(argv[i], "--runs=", 7) == 0) runs = number_from(argv[i] + 7, runs);
    if (strncmp(argv[i], "--seed=", 7) == 0) seed = number_from(argv[i] + 7, seed);
  }
  watch_for_crashes();
  if (run_files(argc, argv) > 0) return 0;
  if (!load_seeds()) return 2;
  uint8_t *data = malloc(MAX_INPUT);
  if (data == NULL) return 2;
  double end = now_seconds() + (double)seconds;
  for (; run < runs && (run < (uint64_t)num_seeds || now_seconds() < end); run++) {
    name_crash(seed, run);
    state = seed * 0x2545f4914f6cdd1du +
            run; /* each run stands alone: it can be repeated without those before it */
    const input_t *from = &seeds[run < (uint64_t)num_seeds ? run : below((size_t)num_seeds)];
    size_t size = from->size;
    memcpy(data, from->data, size);
    size_t changes = run < (uint64_t)num_seeds ? 0 : 1 + below(8); /* first the seeds as they are */
    while (changes-- > 0) size = mutate(data, size);
    alarm(HANG_SECONDS); /* an input that takes a minute is a finding, too */
    run_one(data, size);
  }
  alarm(0);
  free(data);
  for (int i = 0; i < num_seeds; i++) free(seeds[i].data);
  printf("fuzz: seed %llu, %llu inputs, no finding\n", (unsigned long long)seed, (unsigned long long)run);
  return run > 0 ? 0 : 1;
}
#endif /* WEFT_LIBFUZZER */
