/* strategies/replicate_enter.c - values brought into the loops of a replica. */
#include "base/random.h"
#include "strategies/draw_rows.h"
#include "strategies/replication.h"

/* The Enter of a frame on a replica: any will do, for its attributes. */
static const weft_node_t *enter_of(const weft_replication_t *r, int frame, int replica) {
  for (int i = 0; i < r->source.graph->num_live; i++) {
    const weft_node_t *n = r->order[i];
    bool enters = (n->flags & WEFT_OP_ENTER) != 0 && weft_replication_facts(r, n)->frame == frame;
    if (enters && r->copiers[replica].copies[n->id] != NULL) return r->copiers[replica].copies[n->id];
  }
  return NULL;
}

weft_output_t weft_replication_enter(weft_replication_t *r, weft_output_t value, int frame, int replica) {
  if (frame == 0 || r->e.s != NULL) return value;
  value = weft_replication_enter(r, value, r->frames.parent[frame], replica);
  const weft_node_t *like = enter_of(r, frame, replica);
  if (like == NULL) {
    r->e.s = weft_status_join(r->e.s, WEFT_ERROR(INTERNAL, "nothing enters loop '%.*s' on replica %d",
                                                 WEFT_STR_ARGS(r->frames.name[frame]), replica));
    return value;
  }
  const weft_named_attr_t attrs[3] = {
      weft_text_attr("frame_name", weft_node_attr_string(like, "frame_name")),
      weft_bool_attr("is_constant", true),
      weft_int_attr("parallel_iterations", weft_node_attr_int(like, "parallel_iterations", 10))};
  weft_str_t device = r->e.device;
  r->e.device = r->o->devices[replica];
  weft_output_t entered =
      weft_emit(&r->e, "Enter", &value, 1, attrs, 3, "replica_%d/weft/enter/%.*s", replica,
                WEFT_STR_ARGS(value.node == NULL ? weft_str("value") : value.node->name));
  r->e.device = device;
  return entered;
}
