/* tests/device/update_graphs.h - graphs with updates of variables, drawn from a seed.
 *
 * Variables are behind references and behind handles, of several sizes and types; updates are by several
 * rules, and some wait for others.
 */
#ifndef WEFT_TESTS_DEVICE_UPDATE_GRAPHS_H_
#define WEFT_TESTS_DEVICE_UPDATE_GRAPHS_H_

#include "tests/client/client_testing.h"

enum { MAX_UPDATES = 96, MAX_VARS = 3, MAX_INPUTS = 10 };
static const TF_Output none = {NULL, 0};

typedef struct drawn_update {
  TF_Operation *op, *inits[MAX_VARS];
  TF_Output reads[MAX_VARS]; /* as doubles */
  int num_vars;
  bool is_short; /* of half precision */
} drawn_update_t;

typedef struct update_graph {
  world_t w;
  const char *device;
  bool hides_shapes; /* variables behind handles do not say their shape */
  drawn_update_t updates[MAX_UPDATES];
  int n, num_values; /* num_values: for names */
} update_graph_t;

/* v: a variable, s: a scalar, g: the gradient. */
typedef struct rule {
  const char *name, *inputs;
} rule_t;
extern const rule_t rules[];
enum { DESCENT, MOMENTUM, ADAM, ADD, SUBTRACT, NUM_RULES };

/* What an update has. */
typedef struct update_plan {
  const rule_t *rule;
  bool is_ref;
  TF_DataType type;
  int64_t n;
  TF_Output scalars[MAX_INPUTS], gradient; /* without a node: some constant */
  TF_Operation *behind;                    /* it waits for this; NULL: for nothing */
} update_plan_t;

uint32_t draw(uint64_t *seed, uint32_t below);
void open_graph(update_graph_t *u, const char *on);
TF_Output finish(update_graph_t *u, TF_OperationDescription *d, const char *on);
/* A constant of `n` elements around `middle`; n < 0: a scalar. */
TF_Output value(update_graph_t *u, TF_DataType type, int64_t n, float middle, uint64_t *seed);
/* The gradient, behind an update. */
TF_Output behind(update_graph_t *u, TF_Output gradient, const drawn_update_t *after);
drawn_update_t *add_update(update_graph_t *u, const update_plan_t *p, uint64_t *seed);

/* Runs them; w.s says how it went. */
void run_targets(update_graph_t *u, const TF_Operation *const *targets, int n);
void initialize(update_graph_t *u);
void update_all(update_graph_t *u);
/* How many elements of all variables differ, or differ by more than rounding does. */
int num_different(update_graph_t *a, update_graph_t *b, bool to_the_bit);
/* Does a step of all updates run a _WeftUpdates? Its statistics name what ran. */
bool runs_together(update_graph_t *u);
/* The message names the node of that update and of no other. */
void names_update(const update_graph_t *u, const char *message, int update);

#endif /* WEFT_TESTS_DEVICE_UPDATE_GRAPHS_H_ */
