/* graph/sources.h - what nodes wait for that the graph does not show, what they are dead of, and what takes
 * time before them.
 *
 * For passes that make one node of several: those must not wait for each other by way of anything outside,
 * and must be dead together; and none should wait for what takes long and another of them needs.
 */
#ifndef WEFT_GRAPH_SOURCES_H_
#define WEFT_GRAPH_SOURCES_H_

#include "graph/passes.h"

/* By node id: the numbers of sets. Nodes with the same numbers wait for the same sources, are dead together,
 * and come right behind the same nodes of some cost. */
typedef struct weft_source_set weft_source_set_t;
typedef struct weft_node_sources {
  uint32_t *waits_of, *dead_of;
  uint32_t *costs_of;   /* NULL: not asked for */
  uint32_t *loops_wait; /* by frame: what a loop waits for from outside, and its nodes by themselves, before
                           it ends; NULL: not asked for */
  weft_frames_t frames;
  const weft_source_set_t *const *sets; /* by number */
} weft_node_sources_t;

static const uint32_t WEFT_TOO_MANY_SOURCES =
    UINT32_MAX; /* instead of a number: such a node joins no other */

/* Which nodes take no time that matters. NULL: costs are not asked for. */
typedef bool weft_is_free_fn(void *arg, const weft_node_t *n);

/* `order`: the nodes of the graph, producers first. With `loops_are_whole` it is one in which Exits come
 * behind their loops (weft_order_wishes_t): what waits for an Exit is then visible in it, so that an Exit
 * waits for what its loop waits for, instead of being a source. What is found lies in `arena`. Errors: those
 * of weft_pass_find_frames; RESOURCE_EXHAUSTED. */
WEFT_MUST_CHECK weft_status_t *weft_pass_find_sources(const weft_graph_t *g, weft_node_t *const *order,
                                                      bool loops_are_whole, weft_is_free_fn *is_free,
                                                      void *arg, weft_arena_t *arena,
                                                      weft_node_sources_t *out);

/* Is the set with the number `part` a subset of the one with the number `whole`? False where one of them has
 * too many sources. */
bool weft_sources_include(const weft_node_sources_t *s, uint32_t whole, uint32_t part);

#endif /* WEFT_GRAPH_SOURCES_H_ */
