/* executor/plan_keeping.c - what nodes of a plan keep from run to run, as bytes: for each such node a field
 * of its name and its state. */
#include "executor/plan.h"
#include "protos/wire.h"

enum { KEPT_NODE = 1, KEPT_NAME = 1, KEPT_STATE = 2 };

static const weft_kernel_keeping_t *keeping_of(const weft_exec_plan_t *p, uint32_t node) {
  const op_instance_t *one = &p->instances[node];
  return one->kernel != NULL && one->state != NULL ? one->kernel->keeping : NULL;
}

weft_status_t *weft_plan_save_kept(const weft_exec_plan_t *p, weft_strbuf_t *out) {
  weft_strbuf_t node = WEFT_STRBUF_INIT, state = WEFT_STRBUF_INIT;
  for (uint32_t i = 0; i < p->num_nodes; i++) {
    const weft_kernel_keeping_t *k = keeping_of(p, i);
    if (k == NULL) continue;
    node.length = state.length = 0;
    k->save(p->instances[i].state, &state);
    weft_wire_put_bytes(&node, KEPT_NAME, p->setups[i].node.name);
    weft_wire_put_bytes(&node, KEPT_STATE, weft_str_of(state.data, state.length));
    weft_wire_put_bytes(out, KEPT_NODE, weft_str_of(node.data, node.length));
  }
  const bool failed = node.failed || state.failed || out->failed;
  weft_strbuf_deinit(&node);
  weft_strbuf_deinit(&state);
  return failed ? WEFT_NO_MEMORY("what nodes keep") : NULL;
}

static weft_status_t *damaged(void) { return WEFT_ERROR(DATA_LOSS, "what nodes have kept is damaged"); }

static weft_status_t *load_node(const weft_exec_plan_t *p, weft_str_t node) {
  weft_wire_reader_t r = weft_wire_reader(node);
  weft_str_t name = WEFT_STR(""), state = WEFT_STR("");
  for (weft_wire_field_t f; weft_wire_next(&r, &f);) {
    if (f.tag == WEFT_WIRE_TAG(KEPT_NAME, WEFT_WIRE_BYTES)) name = f.bytes;
    if (f.tag == WEFT_WIRE_TAG(KEPT_STATE, WEFT_WIRE_BYTES)) state = f.bytes;
  }
  if (r.failed) return damaged();
  for (uint32_t i = 0; i < p->num_nodes; i++) {
    const weft_kernel_keeping_t *k = keeping_of(p, i);
    if (k != NULL && weft_str_eq(p->setups[i].node.name, name)) return k->load(p->instances[i].state, state);
  }
  return WEFT_ERROR(INVALID_ARGUMENT, "what is kept of node '%.*s' is that of another function",
                    WEFT_STR_ARGS(name));
}

weft_status_t *weft_plan_load_kept(const weft_exec_plan_t *p, weft_str_t from) {
  weft_wire_reader_t r = weft_wire_reader(from);
  for (weft_wire_field_t f; weft_wire_next(&r, &f);) {
    if (f.tag == WEFT_WIRE_TAG(KEPT_NODE, WEFT_WIRE_BYTES)) WEFT_RETURN_IF_ERROR(load_node(p, f.bytes));
  }
  return r.failed ? damaged() : NULL;
}
