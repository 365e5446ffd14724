/* strategies/replicate_rows.c - nodes that count rows and cut values by rows. */
#include "strategies/replication.h"

weft_output_t weft_replication_length(weft_emitter_t *e, weft_output_t x, int axis, weft_str_t name) {
  weft_named_attr_t as = weft_type_attr("out_type", WEFT_I64);
  weft_output_t shape = weft_emit(e, "Shape", &x, 1, &as, 1, "weft/%.*s/shape", WEFT_STR_ARGS(name));
  int64_t begin = axis, size = 1;
  weft_output_t from = weft_emit_ints(e, WEFT_I64, &begin, 1, "weft/%.*s/axis", WEFT_STR_ARGS(name));
  weft_output_t count = weft_emit_ints(e, WEFT_I64, &size, 1, "weft/%.*s/one", WEFT_STR_ARGS(name));
  return weft_emit3(e, "Slice", shape, from, count, "weft/%.*s/rows", WEFT_STR_ARGS(name));
}

weft_output_t weft_replication_sizes(weft_replication_t *r, weft_output_t whole, int num, weft_str_t name) {
  weft_emitter_t *e = &r->e;
  int64_t *i = weft_arena_calloc(&r->arena, (size_t)num + 1, sizeof *i), n = num, zero = 0, one = 1;
  if (i == NULL) {
    if (e->s == NULL) e->s = WEFT_NO_MEMORY("shares of a batch");
    return (weft_output_t){NULL, 0};
  }
  for (int k = 0; k <= num; k++) i[k] = k;
  weft_output_t ranks = weft_emit_ints(e, WEFT_I64, i, num + 1, "weft/%.*s/ranks", WEFT_STR_ARGS(name));
  weft_output_t count = weft_emit_ints(e, WEFT_I64, &n, 1, "weft/%.*s/replicas", WEFT_STR_ARGS(name));
  weft_output_t scaled = weft_emit2(e, "Mul", whole, ranks, "weft/%.*s/scaled", WEFT_STR_ARGS(name));
  weft_output_t bounds = weft_emit2(e, "FloorDiv", scaled, count, "weft/%.*s/bounds", WEFT_STR_ARGS(name));
  weft_output_t at0 = weft_emit_ints(e, WEFT_I64, &zero, 1, "weft/%.*s/zero", WEFT_STR_ARGS(name));
  weft_output_t at1 = weft_emit_ints(e, WEFT_I64, &one, 1, "weft/%.*s/one", WEFT_STR_ARGS(name));
  weft_output_t begins = weft_emit3(e, "Slice", bounds, at0, count, "weft/%.*s/begins", WEFT_STR_ARGS(name));
  weft_output_t ends = weft_emit3(e, "Slice", bounds, at1, count, "weft/%.*s/ends", WEFT_STR_ARGS(name));
  return weft_emit2(e, "Sub", ends, begins, "weft/%.*s/sizes", WEFT_STR_ARGS(name));
}

void weft_replication_split(weft_replication_t *r, weft_output_t whole, weft_output_t sizes, int num,
                            int axis, weft_str_t name, weft_output_t *out) {
  weft_output_t inputs[3] = {whole, sizes, {NULL, 0}};
  weft_named_attr_t count = weft_int_attr("num_split", num);
  inputs[2] = weft_emit_int(&r->e, WEFT_I32, axis, "weft/%.*s/split_axis", WEFT_STR_ARGS(name));
  weft_output_t first =
      weft_emit(&r->e, "SplitV", inputs, 3, &count, 1, "weft/%.*s/split", WEFT_STR_ARGS(name));
  for (int i = 0; i < num; i++) out[i] = (weft_output_t){first.node, i};
}

void weft_replication_split_evenly(weft_replication_t *r, weft_output_t x, weft_output_t rows, int n,
                                   weft_str_t name, weft_output_t *out) {
  weft_replication_split(r, x, weft_replication_sizes(r, rows, n, name), n, 0, name, out);
}
