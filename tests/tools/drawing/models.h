/* tests/tools/drawing/models.h - graphs to draw, as models are: layers with variables, gradients, updates. */
#ifndef WEFT_TESTS_TOOLS_DRAWING_MODELS_H_
#define WEFT_TESTS_TOOLS_DRAWING_MODELS_H_

#include "strategies/rewrite.h"

typedef struct drawn_model {
  int layers, parts;  /* parts: scopes in each layer, each with a variable */
  int tasks;          /* layers are spread over them; 0: no devices */
  int flat;           /* more nodes outside of any scope, one after the other */
  bool trains;        /* with gradients and updates */
  bool is_uneven;     /* every layer has a width of its own */
  const char *prefix; /* of all names; NULL: none */
} drawn_model_t;

/* A measured rewrite with one worker loop. The caller deinits *out in any case. */
WEFT_MUST_CHECK weft_status_t *drawn_model_build(const drawn_model_t *m, weft_rewrite_t *out);

/* Nodes with names, ops and edges that are drawn by lot: scopes of scopes, numbers at the end, control edges,
 * loops, gradients of nothing, updates of anything. */
WEFT_MUST_CHECK weft_status_t *drawn_random_build(unsigned seed, int num_nodes, weft_rewrite_t *out);

/* A few nodes in scopes of so many parts. */
WEFT_MUST_CHECK weft_status_t *drawn_deep_build(int depth, weft_rewrite_t *out);

#endif /* WEFT_TESTS_TOOLS_DRAWING_MODELS_H_ */
