/* strategies/parameter_server_joins.c - how what the workers of a synchronous strategy fetch becomes the
 * whole batch's value.
 *
 * Workers that share a batch each have their own part of a loss, or their own rows of
 * predictions. What the parts are worth is known from the spread analysis, done
 * before variables were cut; whoever runs the lanes puts them together (strategy.h, weft_join_t).
 */
#include "strategies/parameter_server_sync.h"

static weft_status_t *no_memory(void) {
  return WEFT_ERROR(RESOURCE_EXHAUSTED, "saying how parts of fetches are joined");
}

/* What can be multiplied and added up by whoever runs the lanes. */
static bool is_number(int type) {
  return type == WEFT_F32 || type == WEFT_F64 || type == WEFT_I32 || type == WEFT_I64;
}

static weft_status_t *refuse(weft_str_t name, int type, const char *why) {
  return WEFT_ERROR(INVALID_ARGUMENT,
                    "parameter_server: fetch '%.*s' (%s) cannot be made whole from what workers have of it: "
                    "%s; fetch it in a run "
                    "without updates, or let workers take batches of their own (split=false)",
                    WEFT_STR_ARGS(name), weft_dtype_name((weft_dtype_t)type), why);
}

static weft_status_t *find_join(const weft_ps_sync_t *s, weft_str_t name, weft_join_t *out) {
  const weft_ps_t *p = s->p;
  weft_output_t of;
  WEFT_RETURN_IF_ERROR(weft_lane_find(p->whole, name, "fetch", &of));
  const weft_spread_t *spread = p->spread.outputs[of.node->id];
  if (spread == NULL || of.index >= of.node->num_outputs) return NULL;
  spread += of.index;
  int type = weft_base_type_of(of);
  if (s->is_local[of.node->id] && type == WEFT_STRING) {
    return weft_rewrite_note(p->out, "fetch '%.*s' tells what the first worker makes of its own rows",
                             WEFT_STR_ARGS(name));
  }
  if (s->is_local[of.node->id]) return refuse(name, type, "it is no sum of theirs");
  bool is_shape = spread->kind == WEFT_SPREAD_SHAPE && spread->rows != 0;
  bool is_rows = spread->kind == WEFT_SPREAD_ROWS, is_sum = spread->kind == WEFT_SPREAD_PART || is_shape;
  if (is_shape && spread->count >= 0) return refuse(name, type, "it is a shape with rows");
  if (is_sum && !is_number(type)) return refuse(name, type, "parts of that type cannot be added up");
  if (is_rows && (type == WEFT_STRING || (spread->degree != 0 && !is_number(type)))) {
    return refuse(name, type, "rows of that type cannot be put together");
  }
  if (is_rows) *out = (weft_join_t){.kind = WEFT_JOIN_ROWS, .axis = spread->axis, .degree = spread->degree};
  if (is_sum) *out = (weft_join_t){.kind = WEFT_JOIN_SUM, .degree = is_shape ? 0 : spread->degree};
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
  for (int i = 0; i < fetches->n; i++)
    WEFT_RETURN_IF_ERROR(find_join(s, fetches->items[i], &p->out->joins[i]));
  return NULL;
}
