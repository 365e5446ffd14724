/* strategies/replicate_accumulate.c - gradients added up over k steps, then reduced and applied.
 *
 * A counter runs 0, 1, ... k-1, 0, ... with the steps. The first step of a round
 * assigns to the accumulators what it has, the others add; the last one lets the sum
 * pass through a Switch to the collective. In the other steps all that comes behind
 * the Switch is dead: no collective runs, nothing is updated, and the step is no
 * failure. So k steps are one with a batch of all their rows:
 *
 *   sum over replicas and steps of B_ij^d * g_ij, divided by (sum of B)^d
 *
 * is what one device would have for that batch, however uneven the parts.
 * Source: reference 3.5 (no_sync), 1.3 G10.
 */
#include <stdio.h>

#include "base/alloc.h"
#include "strategies/replication.h"

struct weft_accumulation {
  weft_output_t is_first, is_last; /* bool, on replica 0 */
  weft_output_t *rows; /* by batch: double, of the round, this step's included; node NULL: not needed yet */
  weft_node_t *init;   /* NoOp: sets all accumulators to zero */
  int num_kept;
};

static weft_status_t *no_memory(void) { return WEFT_NO_MEMORY("the accumulation of gradients"); }

/* A variable that starts as zeros. */
static weft_output_t keep(weft_replication_t *r, int dtype, const weft_shape_t *shape, const char *what,
                          int replica) {
  weft_emitter_t *e = &r->e;
  int number = r->accumulation->num_kept++;
  weft_shape_t any = WEFT_UNKNOWN_SHAPE, start = *shape;
  if (!weft_shape_is_known(shape)) { /* a zero fits any shape that is added to it */
    start = WEFT_SCALAR;
    shape = &any;
  }
  char name[64]; /* a handle without shared name is not a variable of its own */
  snprintf(name, sizeof name, "replica_%d/weft/kept_%s_%d", replica, what, number);
  weft_named_attr_t attrs[3] = {weft_type_attr("dtype", dtype), weft_shape_attr("shape", shape),
                                weft_text_attr("shared_name", weft_str(name))};
  weft_output_t handle = weft_emit(e, "VarHandleOp", NULL, 0, attrs, 3, "%s", name);
  weft_output_t dims = weft_emit_ints(e, WEFT_I64, start.dims, start.rank, "replica_%d/weft/kept_%s_%d/shape",
                                      replica, what, number);
  weft_output_t zero =
      weft_emit_number(e, dtype, 0, "replica_%d/weft/kept_%s_%d/zero", replica, what, number);
  weft_output_t zeros =
      weft_emit2(e, "Fill", dims, zero, "replica_%d/weft/kept_%s_%d/zeros", replica, what, number);
  weft_output_t inputs[2] = {handle, zeros};
  weft_named_attr_t type = weft_type_attr("dtype", dtype);
  weft_output_t set = weft_emit(e, "AssignVariableOp", inputs, 2, &type, 1, "replica_%d/weft/kept_%s_%d/init",
                                replica, what, number);
  weft_emit_control(e, set.node, r->accumulation->init);
  return handle;
}

static weft_output_t read(weft_replication_t *r, weft_output_t handle, int dtype) {
  if (r->e.s != NULL) return handle;
  weft_named_attr_t type = weft_type_attr("dtype", dtype);
  return weft_emit(&r->e, "ReadVariableOp", &handle, 1, &type, 1, "%.*s/read",
                   WEFT_STR_ARGS(handle.node->name));
}

/* `value`, once the variable holds it. */
static weft_output_t write(weft_replication_t *r, weft_output_t handle, weft_output_t value, int dtype,
                           weft_output_t result) {
  if (r->e.s != NULL) return result;
  weft_output_t inputs[2] = {handle, value};
  weft_named_attr_t type = weft_type_attr("dtype", dtype);
  weft_output_t set =
      weft_emit(&r->e, "AssignVariableOp", inputs, 2, &type, 1, "%.*s/set", WEFT_STR_ARGS(handle.node->name));
  weft_output_t out = weft_emit1(&r->e, "Identity", result, "%.*s/done", WEFT_STR_ARGS(handle.node->name));
  weft_emit_control(&r->e, set.node, out.node);
  return out;
}

/* x in the first step of a round, else the accumulator plus x. */
static weft_output_t add_to(weft_replication_t *r, weft_output_t handle, weft_output_t x, int dtype) {
  if (r->e.s != NULL) return x;
  weft_output_t sum =
      weft_emit2(&r->e, "AddV2", read(r, handle, dtype), x, "%.*s/plus", WEFT_STR_ARGS(handle.node->name));
  weft_output_t next = weft_emit3(&r->e, "SelectV2", r->accumulation->is_first, x, sum, "%.*s/next",
                                  WEFT_STR_ARGS(handle.node->name));
  return write(r, handle, next, dtype, next);
}

static void count_steps(weft_replication_t *r) {
  weft_accumulation_t *a = r->accumulation;
  weft_emitter_t *e = &r->e;
  weft_shape_t scalar = WEFT_SCALAR;
  e->device = r->o->devices[0];
  weft_output_t handle = keep(r, WEFT_I64, &scalar, "step", 0);
  weft_output_t at = read(r, handle, WEFT_I64), zero = weft_emit_int(e, WEFT_I64, 0, "weft/round/zero"),
                one = weft_emit_int(e, WEFT_I64, 1, "weft/round/one");
  weft_output_t steps = weft_emit_int(e, WEFT_I64, r->o->accumulate, "weft/round/steps"),
                last = weft_emit_int(e, WEFT_I64, r->o->accumulate - 1, "weft/round/last");
  weft_output_t next = weft_emit2(e, "FloorMod", weft_emit2(e, "AddV2", at, one, "weft/round/next"), steps,
                                  "weft/round/next_in_round");
  a->is_first = weft_emit2(e, "Equal", at, zero, "weft/round/is_first");
  a->is_last = write(r, handle, next, WEFT_I64, weft_emit2(e, "Equal", at, last, "weft/round/is_last"));
}

static weft_accumulation_t *start(weft_replication_t *r) {
  if (r->accumulation != NULL || r->e.s != NULL) return r->accumulation;
  weft_accumulation_t *a = weft_arena_calloc(&r->arena, 1, sizeof *a);
  if (a != NULL) a->rows = weft_arena_calloc(&r->arena, (size_t)r->plan.num_batches + 1, sizeof *a->rows);
  if (a == NULL || a->rows == NULL) {
    r->e.s = no_memory();
    return NULL;
  }
  r->accumulation = a;
  r->e.device = r->o->devices[0];
  a->init = weft_emit_noop(&r->e, NULL, 0, "weft/init_accumulators");
  count_steps(r);
  return a;
}

/* Rows of the round, on replica 0. */
static weft_output_t rows_of_round(weft_replication_t *r, int batch) {
  weft_accumulation_t *a = r->accumulation;
  if (a->rows[batch].node != NULL || r->e.s != NULL) return a->rows[batch];
  weft_shape_t shape = weft_shape_vector(1);
  weft_str_t device = r->e.device;
  r->e.device = r->o->devices[0];
  weft_output_t rows = weft_emit_cast(&r->e, weft_replication_rows(r, batch), WEFT_F64, "weft/round/rows");
  weft_output_t sum = add_to(r, keep(r, WEFT_F64, &shape, "rows", 0), rows, WEFT_F64);
  int64_t none = 0;
  a->rows[batch] =
      weft_emit2(&r->e, "Reshape", sum, weft_emit_ints(&r->e, WEFT_I64, &none, 0, "weft/round/scalar"),
                 "weft/round/all_rows");
  r->e.device = device;
  return a->rows[batch];
}

static weft_output_t power_of(weft_replication_t *r, weft_output_t x, int exponent) {
  weft_output_t power = x;
  for (int i = 1; i < exponent; i++) power = weft_emit2(&r->e, "Mul", power, x, "weft/round/power");
  return power;
}

void weft_replication_accumulate(weft_replication_t *r, weft_output_t of, const weft_shape_t *shape,
                                 weft_output_t *values, int degree) {
  int dtype = weft_base_type_of(of), batch = weft_replication_batch_of(r, of.node);
  if (start(r) == NULL) return;
  if (degree < 0 || (degree > 0 && !weft_dtype_is_floating(dtype))) {
    r->e.s = WEFT_ERROR(INVALID_ARGUMENT,
                        "node '%.*s' (%.*s) cannot be accumulated over steps: it grows as rows become fewer",
                        WEFT_STR_ARGS(of.node->name), WEFT_STR_ARGS(of.node->op->name));
    return;
  }
  for (int i = 0; i < r->n && r->e.s == NULL; i++) {
    weft_output_t x = values[i];
    r->e.device = r->o->devices[i];
    if (degree > 0) {
      weft_output_t rows =
          weft_emit_cast(&r->e, weft_replication_rows_on(r, batch, i), dtype, "replica_%d/weft/rows", i);
      x = weft_emit2(&r->e, "MulNoNan", x, power_of(r, rows, degree), "replica_%d/weft/by_rows", i);
    }
    weft_output_t sum = add_to(r, keep(r, dtype, shape, "gradient", i), x, dtype);
    weft_output_t parts =
        weft_emit2(&r->e, "Switch", sum, r->accumulation->is_last, "replica_%d/weft/if_last", i);
    values[i] = (weft_output_t){parts.node, 1};
  }
}

void weft_replication_per_row(weft_replication_t *r, weft_output_t of, weft_output_t *values, int degree) {
  if (degree == 0 || r->e.s != NULL) return;
  weft_output_t rows = rows_of_round(r, weft_replication_batch_of(r, of.node));
  for (int i = 0; i < r->n; i++) {
    r->e.device = r->o->devices[i];
    weft_output_t by = weft_emit_cast(&r->e, power_of(r, rows, degree), weft_base_type_of(of),
                                      "replica_%d/weft/all_rows", i);
    values[i] = weft_emit2(&r->e, "RealDiv", values[i], by, "replica_%d/weft/per_row", i);
  }
}

weft_output_t weft_replication_is_last(const weft_replication_t *r) { return r->accumulation->is_last; }

weft_status_t *weft_replication_gate_updates(weft_replication_t *r) {
  if (r->accumulation == NULL) return NULL;
  size_t num = (size_t)r->source.graph->num_nodes + 1;
  bool *in_step = weft_arena_calloc(&r->arena, num, sizeof *in_step),
       *in_init = weft_arena_calloc(&r->arena, num, sizeof *in_init);
  if (in_step == NULL || in_init == NULL) return no_memory();
  WEFT_RETURN_IF_ERROR(weft_replication_mark_reached(r, false, in_step));
  WEFT_RETURN_IF_ERROR(weft_replication_mark_reached(r, true, in_init));
  for (int i = 0; i < r->n; i++) {
    r->e.device = r->o->devices[i];
    weft_output_t is_last = r->accumulation->is_last;
    weft_output_t parts = weft_emit2(&r->e, "Switch", is_last, is_last, "replica_%d/weft/applies", i);
    weft_output_t applies =
        weft_emit1(&r->e, "Identity", (weft_output_t){parts.node, 1}, "replica_%d/weft/applies/now", i);
    for (int at = 0; at < r->source.graph->num_live; at++) {
      const weft_node_t *n = r->order[at];
      if (r->plan.run[n->id] != WEFT_RUN_UPDATE || !in_step[n->id] || in_init[n->id]) continue;
      if (r->copiers[i].copies[n->id] != NULL)
        weft_emit_control(&r->e, applies.node, r->copiers[i].copies[n->id]);
    }
  }
  r->accumulate_init = r->accumulation->init;
  return weft_emitter_end(&r->e);
}
