/* examples/recommender/model.h - the tastes of users and items, as sharded tables on the parameter servers.
 *
 * A guess is mean + user_bias[u] + item_bias[i] + taste[u] · flavour[i]. Each of the four tables is cut in as
 * many parts as there are parameter servers. A step looks up the rows of its batch, and adds what the
 * gradient says to those rows only, wherever they are.
 */
#ifndef WEFT_EXAMPLES_RECOMMENDER_MODEL_H_
#define WEFT_EXAMPLES_RECOMMENDER_MODEL_H_

#include <weft/coordinator.h>

/* What all workers know; lent to the closures. */
typedef struct model {
  int num_users, num_items, size; /* size: numbers in a taste */
  float mean, rate, decay;        /* decay pulls tastes to 0: what is seen rarely stays small */
  uint64_t seed;                  /* of the first tastes */
} model_t;

/* Build functions; `user` is the model. Batches are users int32 [B], items int32 [B], ratings float [B]. */
void model_build_init(TF_Graph *g, WEFT_WorkerContext *x, void *user,
                      TF_Status *s); /* gives the tables first values */
void model_build_step(TF_Graph *g, WEFT_WorkerContext *x, void *user,
                      TF_Status *s); /* batch -> mean squared error */
void model_build_guess(TF_Graph *g, WEFT_WorkerContext *x, void *user,
                       TF_Status *s); /* users, items -> guesses [B] */

#endif /* WEFT_EXAMPLES_RECOMMENDER_MODEL_H_ */
