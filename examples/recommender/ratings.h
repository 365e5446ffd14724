/* examples/recommender/ratings.h - made-up ratings that have something to be learned in them.
 *
 * Each user and each item has a taste of a few hidden numbers and a bias; a rating is
 * their product and the biases, and some noise that cannot be predicted.
 */
#ifndef WEFT_EXAMPLES_RECOMMENDER_RATINGS_H_
#define WEFT_EXAMPLES_RECOMMENDER_RATINGS_H_

#include <stdint.h>

typedef struct rating {
  int32_t user, item;
  float value;
} rating_t;
typedef struct ratings {
  rating_t *items;
  int n;
  float mean;
} ratings_t;

/* Noise's standard deviation: no model can have a smaller error on ratings that it has not seen. */
#define RATINGS_NOISE 0.2f

/* The same for the same seed. Rated pairs are random; `test` has pairs of its own. Ends the program without
 * memory. */
void ratings_make(int num_users, int num_items, int num_train, int num_test, uint64_t seed, ratings_t *train,
                  ratings_t *test);
void ratings_free(ratings_t *r);
/* Root of the mean squared distance from `guesses`; NULL: from the mean. */
double ratings_error(const ratings_t *r, const float *guesses);

/* Numbers that look random; *state is anything. */
uint64_t ratings_random(uint64_t *state);

#endif /* WEFT_EXAMPLES_RECOMMENDER_RATINGS_H_ */
