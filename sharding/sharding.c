/* sharding/sharding.c - shardings along one axis of a mesh: equality, text. */
#include "sharding/sharding.h"

bool weft_axis_sharding_eq(const weft_axis_sharding_t *a, const weft_axis_sharding_t *b) {
  return a->kind == b->kind && a->degree == b->degree && a->rows == b->rows && a->count == b->count &&
         (a->kind != WEFT_SHARDING_SHARD || a->dim == b->dim) &&
         (a->kind != WEFT_SHARDING_PARTIAL || a->partial == b->partial);
}

void weft_axis_sharding_print(const weft_axis_sharding_t *s, weft_strbuf_t *out) {
  static const char *const partials[] = {[WEFT_PARTIAL_SUM] = "sum",
                                         [WEFT_PARTIAL_MIN] = "min",
                                         [WEFT_PARTIAL_MAX] = "max",
                                         [WEFT_PARTIAL_MEAN] = "mean",
                                         [WEFT_PARTIAL_PROD] = "prod"};
  switch (s->kind) {
    case WEFT_SHARDING_NONE: weft_strbuf_puts(out, "never computed"); return;
    case WEFT_SHARDING_REPLICATE: weft_strbuf_puts(out, "Replicate"); break;
    case WEFT_SHARDING_SHARD: weft_strbuf_printf(out, "Shard(%d)", s->dim); break;
    case WEFT_SHARDING_PARTIAL: weft_strbuf_printf(out, "Partial(%s)", partials[s->partial]); break;
    case WEFT_SHARDING_SINGLE: weft_strbuf_puts(out, "Single"); return;
    case WEFT_SHARDING_COUNTS: weft_strbuf_puts(out, "Counts"); return;
    case WEFT_SHARDING_LOCAL: weft_strbuf_puts(out, "Local"); return;
  }
  if (s->degree != 0) weft_strbuf_printf(out, ", degree %d", s->degree);
}
