/* examples/recommender/ratings.c - made-up ratings. */
#include "examples/recommender/ratings.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

enum { TASTES = 4 };

/* Source: Steele, Lea and Flood, "Fast splittable pseudorandom number generators" (2014): SplitMix64. */
uint64_t ratings_random(uint64_t *state) {
  uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
  z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
  z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
  return z ^ (z >> 31);
}

/* The sum of twelve uniform numbers is as good as normal here. */
static float normal(uint64_t *state) {
  double sum = -6;
  for (int i = 0; i < 12; i++) sum += (double)(ratings_random(state) >> 11) / 9007199254740992.0;
  return (float)sum;
}

static void *room_for(size_t n, size_t size) {
  void *p = weft_calloc(n, size);
  if (p != NULL) return p;
  fprintf(stderr, "recommender: no memory for the ratings\n");
  exit(1);
}

static float *tastes_of(int n, uint64_t *state) {
  float *t = room_for((size_t)n * (TASTES + 1), sizeof *t); /* the last one is the bias */
  for (int i = 0; i < n * (TASTES + 1); i++) t[i] = 0.6f * normal(state);
  return t;
}

static rating_t rate(const float *users, const float *items, int user, int item, uint64_t *state) {
  const float *u = users + (size_t)user * (TASTES + 1), *i = items + (size_t)item * (TASTES + 1);
  float value = 3.5f + u[TASTES] + i[TASTES] + RATINGS_NOISE * normal(state);
  for (int k = 0; k < TASTES; k++) value += u[k] * i[k];
  return (rating_t){user, item, value};
}

static void fill(ratings_t *r, int n) {
  r->items = room_for((size_t)n, sizeof *r->items);
  r->n = 0;
}

void ratings_make(int num_users, int num_items, int num_train, int num_test, uint64_t seed, ratings_t *train,
                  ratings_t *test) {
  uint64_t state = seed;
  float *users = tastes_of(num_users, &state), *items = tastes_of(num_items, &state);
  char *is_rated = room_for((size_t)num_users, (size_t)num_items);
  double sum = 0;
  fill(train, num_train);
  fill(test, num_test);
  while (train->n < num_train || test->n < num_test) {
    int user = (int)(ratings_random(&state) % (uint64_t)num_users),
        item = (int)(ratings_random(&state) % (uint64_t)num_items);
    char *seen = &is_rated[(size_t)user * (size_t)num_items + (size_t)item];
    if (*seen) continue;
    *seen = 1;
    ratings_t *to = test->n < num_test ? test : train;
    to->items[to->n++] = rate(users, items, user, item, &state);
  }
  for (int i = 0; i < train->n; i++) sum += (double)train->items[i].value;
  train->mean = test->mean = (float)(sum / train->n); /* what is known of the test ratings beforehand */
  weft_free(users);
  weft_free(items);
  weft_free(is_rated);
}

void ratings_free(ratings_t *r) { weft_free(r->items); }

double ratings_error(const ratings_t *r, const float *guesses) {
  double sum = 0;
  for (int i = 0; i < r->n; i++) {
    double d = (double)(guesses == NULL ? r->mean : guesses[i]) - (double)r->items[i].value;
    sum += d * d;
  }
  return sqrt(sum / r->n);
}
