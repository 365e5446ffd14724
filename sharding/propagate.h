/* sharding/propagate.h - the shardings of all values of a graph, from those of a few.
 *
 * Seeds give some values a sharding along some axes: a variable Shard(1) on model, a fetch Replicate. From
 * there shardings spread forward and backward by the nodes' rules (sharding/rule), each axis for itself,
 * until nothing is left to decide. A value is decided once. One that several consumers wish differently
 * becomes what costs the least in all; one that no seed reaches is Replicate.
 *
 * Then each node takes the choice that costs the least: it requires shardings of its inputs and produces
 * outputs. Where they differ from the values', the plan has a resharding; what several consumers require
 * alike of a value is one. A Shard that is required otherwise is a conflict, and reported with the cost of
 * what was taken and of the next best.
 *
 * A node without a rule requires and produces Replicate, except that a variable behind a handle stays as it
 * is: what updates it must be rewritten with it. A node that looks only at the shape of its input (METADATA)
 * takes the input as it is, and its output speaks of the whole value. Control edges carry nothing.
 *
 * The axes divide evenly: a dimension that the size of an axis does not divide is not sharded along it, and a
 * seed that asks for it is refused. The data axis, which does not, has an analysis of its own
 * (sharding/data).
 */
#ifndef WEFT_SHARDING_PROPAGATE_H_
#define WEFT_SHARDING_PROPAGATE_H_

#include "graph/graph.h"
#include "sharding/rule.h"

typedef struct weft_sharding_seed {
  weft_output_t value;      /* of a handle: the variable */
  weft_sharding_t sharding; /* an axis of kind NONE is left open */
} weft_sharding_seed_t;

/* A value becomes another. */
typedef struct weft_resharding {
  weft_output_t value;
  weft_sharding_t from, to;
  weft_reshard_plan_t plan;
  int next; /* of the same node; -1: the last */
} weft_resharding_t;

typedef struct weft_sharded_node {
  const weft_node_t *node;
  const char *lacks; /* why it has no rule; NULL if it has one */
  weft_rule_t rule;
  weft_rule_choice_t choices[WEFT_MESH_AXES];
  weft_sharding_t *required; /* by input */
  weft_sharding_t *produced; /* by output, as computed */
  weft_sharding_t *values;   /* by output, as consumers find it */
  int *input_reshardings;    /* by input: what makes it as required; -1: it is */
  int *output_reshardings;   /* by output: from produced to values; -1: they are the same */
  int first_resharding;      /* of its outputs; -1: none */
} weft_sharded_node_t;

typedef struct weft_sharding_conflict {
  const weft_node_t *node;
  int input, axis;
  weft_axis_sharding_t has, required;
  double seconds, second_seconds; /* of the node's choice along the axis, and of the next best */
} weft_sharding_conflict_t;

/* Lives as long as the arena and the graph. */
typedef struct weft_sharding_plan {
  weft_mesh_t mesh;
  weft_sharded_node_t **nodes; /* by id; NULL where the graph has none */
  int num_nodes;
  weft_resharding_t *reshardings;
  int num_reshardings;
  weft_sharding_conflict_t *conflicts;
  int num_conflicts;
  weft_reshard_cost_t cost; /* of all reshardings */
} weft_sharding_plan_t;

/* Infers shapes on the way. `link` may be NULL. Errors: INVALID_ARGUMENT: a seed that its value cannot have,
 * a value with two seeds, a cycle; RESOURCE_EXHAUSTED. */
WEFT_MUST_CHECK weft_status_t *weft_sharding_propagate(weft_graph_t *graph, const weft_mesh_t *mesh,
                                                       const weft_sharding_seed_t *seeds, int num_seeds,
                                                       const weft_reshard_link_t *link, weft_arena_t *arena,
                                                       weft_sharding_plan_t *out);

/* One line for each value that is not Replicate, each resharding, each conflict, and the sum. */
void weft_sharding_plan_print(const weft_sharding_plan_t *plan, weft_strbuf_t *out);
/* "data: Shard(0), model: Partial(sum)"; "Replicate" if it is that on all axes. */
void weft_sharding_print(const weft_mesh_t *mesh, const weft_sharding_t *sharding, weft_strbuf_t *out);

#endif /* WEFT_SHARDING_PROPAGATE_H_ */
