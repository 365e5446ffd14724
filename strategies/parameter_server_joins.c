/* strategies/parameter_server_joins.c - how what the workers of a synchronous strategy fetch becomes the whole batch's value.
 *
 * Workers that share a batch each have their own part of a loss, or their own rows of
 * predictions. What the parts are worth is known from the spread analysis, done
 * before variables were cut; whoever runs the lanes puts them together (strategy.h, weft_join_t).
 */
#include "strategies/parameter_server_sync.h"

static weft_status_t *no_memory(void) { return WEFT_ERROR(RESOURCE_EXHAUSTED, "saying how parts of fetches are joined"); }

static bool is_number(int type) {
  return type == WEFT_F32 || type == WEFT_F64 || type == WEFT_F16 || type == WEFT_I32 || type == WEFT_I64;
}

static weft_status_t *find_join(const weft_ps_sync_t *s, weft_str_t name, weft_join_t *out) {
  const weft_ps_t *p = s->p;
  weft_output_t of;
  WEFT_RETURN_IF_ERROR(weft_lane_find(p->whole, name, "fetch", &of));
  const weft_spread_t *spread = p->spread.outputs[of.node->id];
  if (spread == NULL || of.index >= of.node->num_outputs) return NULL;
  spread += of.index;
  int type = weft_base_type_of(of);
  bool is_row_count = spread->kind == WEFT_SPREAD_SHAPE && spread->count < 0 && (spread->rows & 1) != 0;
  if (s->is_local[of.node->id]) {
    return weft_rewrite_note(p->out, "fetch '%.*s' is what the first worker makes of its own rows: it needs those of all workers",
                             WEFT_STR_ARGS(name));
  }
  if (spread->kind == WEFT_SPREAD_ROWS) {
    *out = (weft_join_t){.kind = WEFT_JOIN_ROWS, .axis = spread->axis, .degree = spread->degree};
  } else if ((spread->kind == WEFT_SPREAD_PART || is_row_count) && is_number(type)) {
    *out = (weft_join_t){.kind = WEFT_JOIN_SUM, .degree = is_row_count ? 0 : spread->degree};
  } else if (spread->kind == WEFT_SPREAD_PART) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "parameter_server: fetch '%.*s' (%s): each worker has a part of it, and parts of that type cannot be added up",
                      WEFT_STR_ARGS(name), weft_dtype_name((weft_dtype_t)type));
  }
  return NULL;
}

static weft_status_t *find_batches(const weft_ps_sync_t *s) {
  const weft_ps_t *p = s->p;
  const weft_names_t *feeds = &p->request->feeds;
  p->out->is_batch = weft_arena_calloc(&p->out->arena, (size_t)feeds->n + 1, sizeof *p->out->is_batch);
  if (p->out->is_batch == NULL) return no_memory();
  for (int i = 0; i < feeds->n; i++) {
    weft_output_t of;
    WEFT_RETURN_IF_ERROR(weft_lane_find(p->whole, feeds->items[i], "feed", &of));
    for (int k = 0; k < p->spread.num_batches; k++) {
      const weft_output_t *b = &p->spread.batches[k];
      p->out->is_batch[i] = p->out->is_batch[i] || (b->node == of.node && b->index == of.index);
    }
  }
  return NULL;
}

weft_status_t *weft_ps_find_joins(const weft_ps_sync_t *s) {
  const weft_ps_t *p = s->p;
  const weft_names_t *fetches = &p->request->fetches;
  if (!p->options.splits || p->spread.graph == NULL) return NULL;
  WEFT_RETURN_IF_ERROR(find_batches(s));
  p->out->joins = weft_arena_calloc(&p->out->arena, (size_t)fetches->n + 1, sizeof *p->out->joins);
  if (p->out->joins == NULL) return no_memory();
  for (int i = 0; i < fetches->n; i++) WEFT_RETURN_IF_ERROR(find_join(s, fetches->items[i], &p->out->joins[i]));
  return NULL;
}
