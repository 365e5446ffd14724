/* strategies/shard_parts.c - the shards of a variable: their names, reading and joining them. */
#include <inttypes.h>
#include "base/alloc.h"
#include "strategies/origin.h"
#include "strategies/shard_graph.h"
#include "strategies/shard_plan.h"

static weft_status_t *no_memory(void) { return WEFT_NO_MEMORY("sharding variables"); }

weft_str_t weft_shard_name(weft_shard_plan_t *plan, weft_str_t name, const char *middle, int64_t i) {
  weft_strbuf_t b = WEFT_STRBUF_INIT;
  weft_strbuf_append(&b, name);
  weft_strbuf_puts(&b, middle);
  if (i >= 0) weft_strbuf_printf(&b, "%" PRId64, i);
  weft_str_t out = {NULL, 0};
  if (!b.failed) out = weft_arena_str(&plan->l.arena, weft_str_of(b.data, b.length));
  weft_strbuf_deinit(&b);
  if (out.data == NULL) weft_emitter_fail(&plan->b, no_memory());
  return out;
}

void weft_shard_like(weft_shard_plan_t *plan, const weft_node_t *n, weft_output_t part) {
  for (int i = 0; i < n->num_controls && plan->b.s == NULL; i++) {
    weft_emit_control(&plan->b, plan->c.nodes[n->controls[i]->id], part.node);
  }
}

weft_output_t weft_shard_read(weft_shard_plan_t *plan, weft_shard_t *v, int64_t i, const weft_node_t *n) {
  const weft_node_t *variable = plan->l.variables[v - plan->shards].node;
  bool is_ref = weft_dtype_is_ref(variable->output_types[0]);
  const weft_named_attr_t dtype = weft_type_attr("dtype", (int)v->dtype);
  weft_str_t name = weft_shard_name(plan, n->name, "/part_", i);
  weft_output_t read =
      is_ref ? weft_emit(&plan->b, "Identity", &v->parts[i], 1, NULL, 0, "%.*s", WEFT_STR_ARGS(name))
             : weft_emit(&plan->b, "ReadVariableOp", &v->parts[i], 1, &dtype, 1, "%.*s", WEFT_STR_ARGS(name));
  weft_shard_like(plan, n, read);
  return read;
}

weft_output_t weft_shard_join(weft_shard_plan_t *plan, weft_str_t name, const weft_output_t *parts,
                              int64_t n) {
  weft_output_t *in = weft_arena_calloc(&plan->l.arena, (size_t)n + 1, sizeof *in);
  if (in == NULL) {
    weft_emitter_fail(&plan->b, no_memory());
    return (weft_output_t){NULL, 0};
  }
  memcpy(in, parts, (size_t)n * sizeof *in);
  in[n] = weft_emit_int(&plan->b, WEFT_I32, 0, "shards/axis");
  const weft_named_attr_t number = weft_int_attr("N", n);
  return weft_emit(&plan->b, "ConcatV2", in, (int)n + 1, &number, 1, "%.*s", WEFT_STR_ARGS(name));
}
