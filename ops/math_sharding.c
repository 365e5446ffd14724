/* ops/math_sharding.c - factor notation of contractions, reductions and segments. */
#include "ops/einsum.h"
#include "ops/infer.h"
#include "ops/shard.h"

bool weft_shard_matmul(const weft_shape_ctx_t *c, weft_strbuf_t *out) {
  weft_strbuf_printf(out, "%s,%s->mn", weft_infer_bool(c, "transpose_a") ? "km" : "mk",
                     weft_infer_bool(c, "transpose_b") ? "nk" : "kn");
  return true;
}

bool weft_shard_batch_matmul(const weft_shape_ctx_t *c, weft_strbuf_t *out) {
  weft_strbuf_printf(out, "...%s,...%s->...mn", weft_infer_bool(c, "adj_x") ? "km" : "mk",
                     weft_infer_bool(c, "adj_y") ? "nk" : "kn");
  return true;
}

/* A label that one operand has twice is a diagonal, and whole. */
static uint64_t diagonals(const weft_einsum_t *e) {
  uint64_t whole = 0;
  for (int i = 0; i <= e->num_operands; i++) {
    const weft_einsum_term_t *t = i < e->num_operands ? &e->in[i] : &e->out;
    uint64_t seen = 0;
    for (int k = 0; k < t->n; k++) {
      if (t->labels[k] >= WEFT_EINSUM_ELLIPSIS) continue;
      uint64_t bit = UINT64_C(1) << t->labels[k];
      whole |= seen & bit;
      seen |= bit;
    }
  }
  return whole;
}

static void write_term(const weft_einsum_term_t *t, uint64_t whole, weft_strbuf_t *out) {
  bool in_ellipsis = false;
  for (int k = 0; k < t->n; k++) {
    int label = t->labels[k];
    if (label >= WEFT_EINSUM_ELLIPSIS) {
      if (!in_ellipsis) weft_strbuf_puts(out, "...");
      in_ellipsis = true;
    } else if ((whole & (UINT64_C(1) << label)) != 0) {
      weft_strbuf_putc(out, '_');
    } else {
      weft_strbuf_putc(out, (char)(label < 26 ? 'a' + label : 'A' + label - 26));
    }
  }
}

bool weft_shard_einsum(const weft_shape_ctx_t *c, weft_strbuf_t *out) {
  weft_einsum_t e;
  int ranks[WEFT_EINSUM_OPERANDS];
  if (c->num_inputs > WEFT_EINSUM_OPERANDS) return false;
  for (int i = 0; i < c->num_inputs; i++) {
    ranks[i] = c->inputs[i].rank;
    if (ranks[i] < 0) return false;
  }
  weft_status_t *s = weft_einsum_parse(weft_infer_str(c, "equation"), ranks, c->num_inputs, &e);
  weft_status_free(s);
  if (s != NULL) return false;
  uint64_t whole = diagonals(&e);
  for (int i = 0; i < e.num_operands; i++) {
    if (i > 0) weft_strbuf_putc(out, ',');
    write_term(&e.in[i], whole, out);
  }
  weft_strbuf_puts(out, "->");
  write_term(&e.out, whole, out);
  return true;
}

/* ---- reductions ---- */

/* `reduction` NULL: dimensions that are reduced must be whole. */
static bool reduce(const weft_shape_ctx_t *c, const char *reduction, weft_strbuf_t *out) {
  int rank = c->inputs[0].rank;
  uint32_t axes;
  if (!weft_shard_axes(c, 1, rank, &axes)) return false;
  bool keeps = weft_infer_bool(c, "keep_dims");
  weft_shard_letters(out, 0, rank, reduction == NULL ? axes : 0);
  weft_strbuf_puts(out, ",->");
  for (int i = 0; i < rank; i++) {
    bool is_reduced = (axes & (UINT32_C(1) << i)) != 0;
    if (!is_reduced) weft_strbuf_putc(out, weft_shard_letter(i));
    if (is_reduced && keeps) weft_strbuf_putc(out, '_');
  }
  if (reduction != NULL) weft_strbuf_printf(out, "|%s", reduction);
  return true;
}
bool weft_shard_all(const weft_shape_ctx_t *c, weft_strbuf_t *out) { return reduce(c, "min", out); }
bool weft_shard_any(const weft_shape_ctx_t *c, weft_strbuf_t *out) { return reduce(c, "max", out); }
bool weft_shard_max(const weft_shape_ctx_t *c, weft_strbuf_t *out) { return reduce(c, "max", out); }
bool weft_shard_mean(const weft_shape_ctx_t *c, weft_strbuf_t *out) { return reduce(c, "mean", out); }
bool weft_shard_min(const weft_shape_ctx_t *c, weft_strbuf_t *out) { return reduce(c, "min", out); }
bool weft_shard_norm(const weft_shape_ctx_t *c, weft_strbuf_t *out) { return reduce(c, NULL, out); }
bool weft_shard_prod(const weft_shape_ctx_t *c, weft_strbuf_t *out) { return reduce(c, "prod", out); }
bool weft_shard_sum(const weft_shape_ctx_t *c, weft_strbuf_t *out) { return reduce(c, "sum", out); }

bool weft_shard_arg(const weft_shape_ctx_t *c, weft_strbuf_t *out) {
  int rank = c->inputs[0].rank;
  uint32_t axis;
  if (!weft_shard_axes(c, 1, rank, &axis)) return false;
  weft_shard_letters(out, 0, rank, axis);
  weft_strbuf_puts(out, ",->");
  for (int i = 0; i < rank; i++) {
    if ((axis & (UINT32_C(1) << i)) == 0) weft_strbuf_putc(out, weft_shard_letter(i));
  }
  return true;
}

bool weft_shard_cumulate(const weft_shape_ctx_t *c, weft_strbuf_t *out) {
  int rank = c->inputs[0].rank;
  uint32_t axis;
  if (!weft_shard_axes(c, 1, rank, &axis)) return false;
  weft_shard_letters(out, 0, rank, axis);
  weft_strbuf_puts(out, ",->");
  weft_shard_letters(out, 0, rank, axis);
  return true;
}

/* ---- segments, choices ---- */

static bool segment(const weft_shape_ctx_t *c, const char *reduction, weft_strbuf_t *out) {
  int rank = c->inputs[0].rank, ids = c->inputs[1].rank;
  if (ids < 0 || rank < ids) return false;
  weft_shard_letters(out, 0, rank, 0);
  weft_strbuf_putc(out, ',');
  weft_shard_letters(out, 0, ids, 0);
  weft_strbuf_puts(out, ",->_");
  weft_shard_letters(out, ids, rank, 0);
  weft_strbuf_printf(out, "|%s", reduction);
  return true;
}
bool weft_shard_segment_max(const weft_shape_ctx_t *c, weft_strbuf_t *out) { return segment(c, "max", out); }
bool weft_shard_segment_min(const weft_shape_ctx_t *c, weft_strbuf_t *out) { return segment(c, "min", out); }
bool weft_shard_segment_prod(const weft_shape_ctx_t *c, weft_strbuf_t *out) {
  return segment(c, "prod", out);
}
bool weft_shard_segment_sum(const weft_shape_ctx_t *c, weft_strbuf_t *out) { return segment(c, "sum", out); }

/* The condition is of the choices' shape, a vector of rows, or a scalar. */
bool weft_shard_select(const weft_shape_ctx_t *c, weft_strbuf_t *out) {
  int condition = c->inputs[0].rank, rank = c->inputs[1].rank;
  if (condition < 0 || rank < 0) return false;
  if (condition > 0) weft_strbuf_puts(out, condition == rank ? "..." : "a");
  weft_strbuf_puts(out, condition == 1 && rank > 1 ? ",a...,a...->a..." : ",...,...->...");
  return true;
}
