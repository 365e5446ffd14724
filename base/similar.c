/* base/similar.c - optimal string alignment distance: Damerau (1964), by dynamic programming over three rows.
 */
#include "base/similar.h"

enum {
  MAX_LENGTH = 128
}; /* longer names get no suggestion: two of them are rarely mistaken for each other */

static int least(int a, int b) { return a < b ? a : b; }

/* Case does not count: "Loss" is as near to "loss" as can be. */
static char lower(char c) { return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c; }

static int distance(weft_str_t a, weft_str_t b) {
  int rows[3][MAX_LENGTH + 1];
  int *before = rows[0], *above = rows[1], *row = rows[2];
  for (size_t k = 0; k <= b.length; k++) above[k] = (int)k;
  for (size_t i = 1; i <= a.length; i++) {
    row[0] = (int)i;
    for (size_t k = 1; k <= b.length; k++) {
      char x = lower(a.data[i - 1]), y = lower(b.data[k - 1]);
      row[k] = least(least(above[k], row[k - 1]) + 1, above[k - 1] + (x != y));
      bool is_swap = i > 1 && k > 1 && x == lower(b.data[k - 2]) && y == lower(a.data[i - 2]);
      if (is_swap) row[k] = least(row[k], before[k - 2] + 1);
    }
    int *spare = before;
    before = above;
    above = row;
    row = spare;
  }
  return above[b.length];
}

void weft_similar_init(weft_similar_t *s, weft_str_t wanted) {
  *s = (weft_similar_t){.wanted = wanted, .distance = (int)(wanted.length / 3) + 1};
  if (wanted.length > MAX_LENGTH) s->distance = 0;
}

void weft_similar_offer(weft_similar_t *s, weft_str_t candidate) {
  size_t a = s->wanted.length, b = candidate.length, apart = a > b ? a - b : b - a;
  if (b > MAX_LENGTH || a > MAX_LENGTH || apart >= (size_t)s->distance) return;
  int d = distance(s->wanted, candidate);
  if (d >= s->distance) return;
  s->distance = d;
  s->best = candidate;
}
