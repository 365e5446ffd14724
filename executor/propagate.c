/* executor/propagate.c - results go along edges; a node with all its inputs gets ready.
 *
 * Memory order: a value is stored before its consumer's word is lowered
 * (release); the thread that lowers it to 0 has acquired all others' stores. While one runner is alone plain
 * loads and stores do.
 */
#include "executor/step.h"

/* True when the word got to 0. */
static inline bool lower(const runner_t *r, atomic_uint *word, bool is_dead) {
  if (r->is_alone) {
    uint32_t w = atomic_load_explicit(word, memory_order_relaxed) - 1;
    if (is_dead) w |= WORD_DEAD;
    atomic_store_explicit(word, w, memory_order_relaxed);
    return (w & WORD_COUNT) == 0;
  }
  if (is_dead) atomic_fetch_or_explicit(word, WORD_DEAD, memory_order_relaxed);
  return ((atomic_fetch_sub_explicit(word, 1, memory_order_acq_rel) - 1) & WORD_COUNT) == 0;
}

/* Sets a bit of a Merge's side word; returns what it was. */
static inline uint32_t set_side(const runner_t *r, atomic_uint *side, uint32_t bit) {
  if (!r->is_alone) return atomic_fetch_or_explicit(side, bit, memory_order_acq_rel);
  const uint32_t old = atomic_load_explicit(side, memory_order_relaxed);
  atomic_store_explicit(side, old | bit, memory_order_relaxed);
  return old;
}

/* The first live value settles a Merge; later ones are dropped. */
static bool merge_live(runner_t *r, iteration_t *it, uint32_t node, uint32_t slot, weft_value_t v) {
  atomic_uint *side = &it->sides[r->plan->nodes[node].extra];
  uint32_t old = set_side(r, side, SIDE_LIVE);
  if (old & (SIDE_LIVE | SIDE_SETTLED)) {
    value_release(&v);
    return false;
  }
  *slot_of(it, slot) = v;
  return lower(r, word_of(it, node), false);
}

/* Dead values settle a Merge when all are dead, or at once when one comes straight from an Enter: no
 * NextIteration will ever follow that. */
static bool merge_dead(runner_t *r, iteration_t *it, uint32_t node, bool from_enter) {
  const plan_node_t *n = &r->plan->nodes[node];
  atomic_uint *side = &it->sides[n->extra];
  uint32_t old = r->is_alone ? atomic_load_explicit(side, memory_order_relaxed)
                             : atomic_fetch_add_explicit(side, 1, memory_order_acq_rel);
  if (r->is_alone) atomic_store_explicit(side, old + 1, memory_order_relaxed);
  if (!from_enter && (old & SIDE_COUNT) + 1 < n->num_inputs) return false;
  old = set_side(r, side, SIDE_SETTLED);
  if (old & (SIDE_LIVE | SIDE_SETTLED)) return false;
  return lower(r, word_of(it, node), true);
}

static inline bool deliver_data(runner_t *r, iteration_t *it, const plan_edge_t *e, weft_value_t v,
                                bool from_enter) {
  uint32_t to = e->to & ~TO_MERGE;
  if (e->to & TO_MERGE) {
    return value_is_none(&v) ? merge_dead(r, it, to, from_enter) : merge_live(r, it, to, e->slot, v);
  }
  bool is_dead = value_is_none(&v);
  if (!is_dead) *slot_of(it, e->slot) = v;
  return lower(r, word_of(it, to), is_dead);
}

uint32_t weft_deliver(runner_t *r, iteration_t *it, uint32_t node, weft_value_t *outputs, bool is_dead) {
  const weft_exec_plan_t *p = r->plan;
  const plan_node_t *n = &p->nodes[node];
  uint32_t num_ready = 0;
  bool from_enter = (n->flags & NODE_ENTER) != 0;
  const plan_edge_t *e = p->edges + n->first_edge, *end = p->edges + n[1].first_edge;
  for (; e < end; e++) {
    weft_value_t v = {NULL, NULL};
    if (!is_dead) {
      weft_value_t *from = &outputs[e->output];
      if (e + 1 == end ||
          e[1].output != e->output) { /* the last consumer gets ours: it may be the only one */
        v = *from;
        *from = (weft_value_t){NULL, NULL};
      } else {
        v = value_retain(*from);
      }
    }
    if (deliver_data(r, it, e, v, from_enter)) {
      runner_push(r, it, e->to & ~TO_MERGE);
      num_ready++;
    }
  }
  const uint32_t *c = p->controls + n->first_control, *c_end = p->controls + n[1].first_control;
  for (; c < c_end; c++) {
    /* A Merge asks only whether its control inputs have come. */
    if (lower(r, word_of(it, *c & ~TO_MERGE), is_dead && !(*c & TO_MERGE))) {
      runner_push(r, it, *c & ~TO_MERGE);
      num_ready++;
    }
  }
  return num_ready;
}
