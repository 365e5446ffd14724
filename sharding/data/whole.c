/* sharding/data/whole.c - loops that run whole on every replica.
 *
 * Replicas exchange nothing inside a loop. A loop that needs values of all rows in every round (a condition
 * on the mean of the batch, a moving average over its rows) therefore gets whole values where they enter it:
 * all replicas compute the same in it, and what follows takes its rows of what leaves it. Exact, at the price
 * of the arithmetic of one device; the notes say so.
 */
#include "sharding/data/whole.h"

typedef weft_data_value_t value_t;

static int outermost(const weft_frames_t *f, int frame) {
  while (f->parent[frame] != 0) frame = f->parent[frame];
  return frame;
}

static int frame_of(const weft_data_analysis_t *a, const weft_node_t *n) {
  return a->frames.frame_of == NULL ? 0 : a->frames.frame_of[n->id];
}

bool weft_data_is_whole(const weft_data_analysis_t *a, const weft_node_t *n) {
  int frame = frame_of(a, n);
  return frame != 0 && a->is_whole != NULL && a->is_whole[outermost(&a->frames, frame)];
}

weft_status_t *weft_data_make_whole(weft_data_analysis_t *a, const weft_node_t *n, bool *made) {
  int frame = frame_of(a, n);
  *made = frame != 0 && !weft_data_is_whole(a, n);
  if (!*made) return NULL;
  const weft_frames_t *f = &a->frames;
  if (a->is_whole == NULL) {
    a->is_whole = weft_arena_calloc(&a->arena, (size_t)f->num_frames + 1, sizeof *a->is_whole);
    if (a->is_whole == NULL) return WEFT_NO_MEMORY("analysing a graph for replicas");
  }
  frame = outermost(f, frame);
  a->is_whole[frame] = true;
  return weft_data_note(a,
                        "the loop '%.*s' runs on all rows on every replica: '%.*s' (%.*s) needs values of "
                        "the whole batch in each round",
                        WEFT_STR_ARGS(f->name[frame]), WEFT_STR_ARGS(n->name), WEFT_STR_ARGS(n->op->name));
}

static void make_whole_cell(weft_data_analysis_t *a, int cell) {
  if (cell <= 0 || cell >= a->num_cells) return;
  weft_axis_sharding_t *forced = &a->cells[cell].forced, same = weft_sharding_replicate(0);
  if (weft_axis_sharding_eq(forced, &same)) return;
  *forced = same;
  a->later = true;
}

void weft_data_make_whole_list(weft_data_analysis_t *a, weft_output_t from) {
  weft_node_t *n = from.node;
  if (n->mark == 3) return;
  n->mark = 3;
  if (weft_data_makes_list(n)) {
    weft_axis_sharding_t *forced = &a->forced[n->id], same = weft_sharding_replicate(0);
    if (weft_axis_sharding_eq(forced, &same)) return;
    *forced = same;
    a->later = true;
    return;
  }
  for (int i = 0; i < n->num_inputs; i++) {
    if (n->input_types[i] == WEFT_VARIANT) weft_data_make_whole_list(a, n->inputs[i]);
  }
}

/* Elements are put whole, then. */
static void want_whole_elements(weft_data_ctx_t *c, int input) {
  weft_data_analysis_t *a = c->analysis;
  const value_t *v = &c->in[input];
  if (v->cell != 0) make_whole_cell(a, v->cell);
  bool is_list = v->element != NULL && !v->element->zero &&
                 (v->element->s.kind != WEFT_SHARDING_REPLICATE || v->element->s.degree != 0);
  if (!is_list) return;
  for (int i = 0; i < a->num_order; i++) a->order[i]->mark = 0;
  weft_data_make_whole_list(a, c->node->inputs[input]);
}

void weft_data_enter_whole(weft_data_ctx_t *c) {
  weft_data_pass(c, 0, 0);
  if (c->in[0].s.kind == WEFT_SHARDING_LOCAL) {
    want_whole_elements(c, 0);
    return;
  }
  c->run = WEFT_RUN_REPLICAS;
  c->required[0] = weft_sharding_replicate(0);
  c->out[0] = weft_data_true_value(c, &c->in[0], WEFT_SHARDING_REPLICATE);
}

void weft_data_settle_whole(weft_data_ctx_t *c) {
  const weft_node_t *n = c->node;
  if (c->run == WEFT_RUN_SINGLE) return;
  for (int i = 0; i < n->num_inputs; i++) {
    if (c->in[i].s.kind == WEFT_SHARDING_LOCAL) {
      want_whole_elements(c, i);
    } else if (c->in[i].s.kind != WEFT_SHARDING_NONE) {
      c->required[i] = weft_sharding_replicate(0);
    }
  }
  for (int o = 0; o < n->num_outputs; o++) {
    value_t *v = &c->out[o];
    weft_sharding_kind_t kind = v->s.kind;
    if (kind != WEFT_SHARDING_SHARD && kind != WEFT_SHARDING_PARTIAL && kind != WEFT_SHARDING_COUNTS &&
        kind != WEFT_SHARDING_REPLICATE)
      continue;
    *v = weft_data_true_value(c, v, WEFT_SHARDING_REPLICATE);
  }
  if (c->draw.kind == WEFT_DRAW_SHARD) c->draw = (weft_data_draw_t){.kind = WEFT_DRAW_REPLICATED};
  c->named = (weft_data_named_t){.is_named = false};
}
