/* strategies/replicate_collective.c - collectives between replicas: their group, their order, their nodes. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include "base/alloc.h"
#include "strategies/replication.h"

static weft_status_t *no_memory(void) { return WEFT_NO_MEMORY("sums over replicas"); }

bool weft_collective_takes(int dtype) {
  return dtype == WEFT_F32 || dtype == WEFT_F64 || dtype == WEFT_F16 || dtype == WEFT_BF16 ||
         dtype == WEFT_I32 || dtype == WEFT_I64;
}

weft_status_t *weft_replication_make_group(weft_replication_t *r) {
  r->group_size = weft_arena_calloc(&r->arena, (size_t)r->n, sizeof *r->group_size);
  r->group = weft_arena_calloc(&r->arena, (size_t)r->n, sizeof *r->group);
  if (r->group_size == NULL || r->group == NULL) return no_memory();
  for (int i = 0; i < r->n; i++) {
    r->e.device = r->o->devices[i];
    r->group_size[i] = weft_emit_int(&r->e, WEFT_I32, r->total, "replica_%d/weft/group_size", i);
    r->group[i] = weft_emit_int(&r->e, WEFT_I32, r->group_key, "replica_%d/weft/group_key", i);
  }
  return weft_emitter_end(&r->e);
}

/* With one client per worker: a fetch of one replica's result runs the collective on all replicas of the
 * worker. */
void weft_replication_tie(weft_replication_t *r, const char *name, weft_output_t *values) {
  if (!weft_replication_is_between(r) || r->n == 1 || r->e.s != NULL) return;
  weft_output_t *alone = weft_arena_calloc(&r->arena, (size_t)r->n, sizeof *alone);
  if (alone == NULL) {
    r->e.s = no_memory();
    return;
  }
  memcpy(alone, values, (size_t)r->n * sizeof *alone);
  for (int i = 0; i < r->n && r->e.s == NULL; i++) {
    r->e.device = r->o->devices[i];
    values[i] = weft_emit1(&r->e, "Identity", alone[i], "replica_%d/weft/%s/with_all", i, name);
    for (int k = 0; k < r->n; k++) {
      if (k != i) weft_emit_control(&r->e, alone[k].node, values[i].node);
    }
  }
}

void weft_replication_collective(weft_replication_t *r, const char *op, const weft_named_attr_t *attrs,
                                 int num_attrs, const char *name, weft_output_t *values) {
  weft_named_attr_t all[6] = {
      weft_text_attr("communication_hint", r->o->hint),
      {WEFT_STR("timeout_seconds"), {.kind = WEFT_ATTR_FLOAT, .f = (float)r->o->timeout_seconds}}};
  for (int i = 0; i < num_attrs; i++) all[2 + i] = attrs[i];
  weft_str_t device = r->e.device;
  weft_replica_collective_t *made = weft_arena_calloc(&r->arena, 1, sizeof *made);
  weft_node_t **nodes = weft_arena_calloc(&r->arena, (size_t)r->n, sizeof *nodes);
  if ((made == NULL || nodes == NULL) && r->e.s == NULL) r->e.s = no_memory();
  if (r->group_size == NULL && r->e.s == NULL) r->e.s = weft_replication_make_group(r);
  for (int i = 0; i < r->n && r->e.s == NULL; i++) {
    r->e.device = r->o->devices[i];
    weft_output_t with[4] = {values[i], r->group_size[i], r->group[i], {NULL, 0}};
    with[3] = weft_emit_int(&r->e, WEFT_I32, r->instance_key, "replica_%d/weft/%s/instance_key", i, name);
    values[i] = weft_emit(&r->e, op, with, 4, all, 2 + num_attrs, "replica_%d/weft/%s", i, name);
    nodes[i] = values[i].node;
  }
  if (r->e.s == NULL) {
    *made = (weft_replica_collective_t){r->collectives, nodes};
    r->collectives = made;
  }
  r->instance_key++;
  weft_replication_tie(r, name, values);
  r->e.device = device;
}

void weft_replication_add(weft_replication_t *r, weft_output_t *values) {
  weft_named_attr_t attrs[2] = {weft_text_attr("merge_op", WEFT_STR("Add")),
                                weft_text_attr("final_op", WEFT_STR("Id"))};
  weft_replication_collective(r, "CollectiveReduceV2", attrs, 2, "all_reduce_value", values);
}
