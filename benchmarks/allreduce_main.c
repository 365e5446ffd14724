/* benchmarks/allreduce_main.c - all-reduce alone, for benchmarks/compare_collectives.
 *
 * Usage: allreduce RANKS COUNT ROUNDS; prints one line: the seconds of each round.
 */
#include <stdio.h>
#include <stdlib.h>

#include "benchmarks/allreduce.h"

enum { MAX_ROUNDS = 1000 };

int main(int argc, char **argv) {
  static double seconds[MAX_ROUNDS];
  if (argc != 4) {
    fprintf(stderr, "usage: allreduce RANKS COUNT ROUNDS\n");
    return 2;
  }
  int rounds = (int)strtol(argv[3], NULL, 10);
  if (rounds < 1 || rounds > MAX_ROUNDS) return 2;
  weft_status_t *s =
      weft_bench_allreduce((int)strtol(argv[1], NULL, 10), strtol(argv[2], NULL, 10), rounds, seconds);
  if (s != NULL) {
    fprintf(stderr, "allreduce: %s\n", weft_status_message(s));
    weft_status_free(s);
    return 1;
  }
  for (int i = 0; i < rounds; i++) printf("%.9f%c", seconds[i], i + 1 == rounds ? '\n' : ' ');
  return 0;
}
