/* tests/fuzz/fuzz.h - runs a parser on broken inputs for a while.
 *
 * A target is one file tests/fuzz/<what>_fuzz.c with two definitions and nothing else:
 *   - weft_fuzz_one(): gives the bytes to the parser and frees what comes out. It
 *     must return for every input; a crash, a sanitizer's report or a failed
 *     assertion is the finding. It may check properties (what was read can be
 *     written and read again) with weft_fuzz_check().
 *   - weft_fuzz_seeds: good inputs, as files relative to the top of the sources,
 *     or as bytes; ended by an empty entry. The more forms of the format they
 *     hold, the deeper the mutations reach.
 * and one line in tests/fuzz/BUILD:
 *   weft_fuzz_test(name = "graph_def_fuzz", data = [...seed files...], deps = [...])
 *
 * Built with fuzz.c, the target is a test: it mutates the seeds (bit flips, bytes
 * changed, cut, doubled, inserted, spliced, lengths falsified) for a bounded time,
 * the same inputs every time for the same seed:
 *   --seconds=N   stop after N seconds (5, or WEFT_FUZZ_SECONDS)
 *   --runs=N      stop after N inputs; the default is only the time
 *   --seed=N      of the random numbers (1, or WEFT_FUZZ_SEED)
 *   FILE...       only run these inputs: to look at a finding again
 * On a crash it prints seed and run, and saves the input to the directory in
 * TEST_UNDECLARED_OUTPUTS_DIR, TEST_TMPDIR or ".", as fuzz-crash-SEED-RUN.
 *
 * Built with clang -fsanitize=fuzzer and without fuzz.c's main (-DWEFT_LIBFUZZER),
 * the same target is a libFuzzer program; give it the seeds' directory as corpus.
 */
#ifndef WEFT_TESTS_FUZZ_FUZZ_H_
#define WEFT_TESTS_FUZZ_FUZZ_H_

#include <stddef.h>
#include <stdint.h>

typedef struct weft_fuzz_seed {
  const char *file; /* or NULL: */
  const char *bytes;
  size_t length;
} weft_fuzz_seed_t;

#define WEFT_FUZZ_FILE(path) \
  { (path), NULL, 0 }
#define WEFT_FUZZ_BYTES(literal) \
  { NULL, (literal), sizeof(literal) - 1 }
#define WEFT_FUZZ_END \
  { NULL, NULL, 0 }

/* Defined by the target. */
extern const weft_fuzz_seed_t weft_fuzz_seeds[];
void weft_fuzz_one(const uint8_t *data, size_t size);

/* Ends the program as a finding, with the input saved, if `ok` is false. */
void weft_fuzz_check(int ok, const char *what);

#endif /* WEFT_TESTS_FUZZ_FUZZ_H_ */
