/* graph/passes/settings_proto.c - which passes run, as a client's GraphOptions say it. Field numbers:
 * TensorFlow's config.proto and rewriter_config.proto. */
#include "graph/passes/optimize.h"
#include "protos/wire.h"

enum {
  GRAPH_OPTIMIZER_OPTIONS = 3,
  GRAPH_REWRITE_OPTIONS = 10,

  OPTIMIZER_DO_SHARE = 1, /* do_common_subexpression_elimination */
  OPTIMIZER_DO_FOLD = 2,  /* do_constant_folding */
  OPTIMIZER_LEVEL = 3,    /* opt_level */
  OPTIMIZER_MAX_FOLDED = 6,
  LEVEL_L0 = -1,

  REWRITER_ITERATIONS = 12,
  REWRITER_MIN_NODES = 17,
  REWRITER_DISABLE = 19,
  REWRITER_NAMES = 100,
  REWRITER_CUSTOM = 200,
  ITERATIONS_ONE = 1,
  ITERATIONS_TWO = 2,
  TOGGLE_OFF = 2,
};

static int64_t number_of(const weft_wire_field_t *f) { return weft_wire_i64(f->value); }

/* opt_level L0 turns folding and sharing off, unless these are asked for. */
static void read_optimizer(weft_str_t bytes, weft_pass_settings_t *out) {
  weft_wire_reader_t r = weft_wire_reader(bytes);
  weft_wire_field_t f;
  int64_t level = 0;
  bool fold = false, share = false;
  while (weft_wire_next(&r, &f)) {
    if (weft_wire_type(&f) != WEFT_WIRE_VARINT) continue;
    switch (weft_wire_number(&f)) {
      case OPTIMIZER_DO_SHARE: share = f.value != 0; break;
      case OPTIMIZER_DO_FOLD: fold = f.value != 0; break;
      case OPTIMIZER_LEVEL: level = number_of(&f); break;
      case OPTIMIZER_MAX_FOLDED:
        if (number_of(&f) > 0) out->max_folded_bytes = number_of(&f);
        break;
      default: break;
    }
  }
  if (level > LEVEL_L0) return;
  if (!fold) out->passes &= ~WEFT_PASS_BIT(WEFT_PASS_FOLD);
  if (!share) out->passes &= ~WEFT_PASS_BIT(WEFT_PASS_SHARE);
}

static void read_toggle(int field, uint64_t value, weft_pass_settings_t *out) {
  static const struct {
    int pass, field;
    uint64_t means_off;
  } toggles[] = {
#define WEFT_PASS(id, name, field, means_off, function, what) {WEFT_PASS_##id, field, means_off},
#include "graph/passes/passes.def"
#undef WEFT_PASS
  };
  for (int i = 0; i < WEFT_NUM_PASSES; i++) {
    if (toggles[i].field == field && toggles[i].means_off == value)
      out->passes &= ~WEFT_PASS_BIT(toggles[i].pass);
  }
}

static void read_rewriter(weft_str_t bytes, weft_pass_settings_t *out, const char **out_ignored) {
  weft_wire_reader_t r = weft_wire_reader(bytes);
  weft_wire_field_t f;
  bool is_disabled = false;
  while (weft_wire_next(&r, &f)) {
    const int field = (int)weft_wire_number(&f);
    if (weft_wire_type(&f) == WEFT_WIRE_BYTES) {
      if (field == REWRITER_CUSTOM) *out_ignored = "custom_optimizers";
      if (field == REWRITER_NAMES) *out_ignored = "optimizers";
      continue;
    }
    if (weft_wire_type(&f) != WEFT_WIRE_VARINT) continue;
    const int64_t number = number_of(&f);
    switch (field) {
      case REWRITER_ITERATIONS: out->rounds = number == ITERATIONS_ONE ? 1 : 2; break;
      case REWRITER_MIN_NODES:
        if (number != 0) out->min_nodes = number < 0 ? 0 : number > INT32_MAX ? INT32_MAX : (int)number;
        break;
      case REWRITER_DISABLE: is_disabled = f.value != 0; break;
      default: read_toggle(field, f.value, out); break;
    }
  }
  if (is_disabled) out->passes = 0;
}

void weft_pass_settings_read(weft_str_t graph_options, weft_pass_settings_t *inout,
                             const char **out_ignored) {
  weft_wire_reader_t r = weft_wire_reader(graph_options);
  weft_wire_field_t f;
  *out_ignored = NULL;
  while (weft_wire_next(&r, &f)) {
    if (f.tag == WEFT_WIRE_TAG(GRAPH_OPTIMIZER_OPTIONS, WEFT_WIRE_BYTES)) read_optimizer(f.bytes, inout);
    if (f.tag == WEFT_WIRE_TAG(GRAPH_REWRITE_OPTIONS, WEFT_WIRE_BYTES))
      read_rewriter(f.bytes, inout, out_ignored);
  }
}

void weft_pass_settings_write(const weft_pass_settings_t *s, weft_strbuf_t *out) {
  const size_t optimizer = weft_wire_begin(out, GRAPH_OPTIMIZER_OPTIONS);
  weft_wire_put_i64(out, OPTIMIZER_MAX_FOLDED, s->max_folded_bytes);
  weft_wire_end(out, optimizer);
  const size_t rewriter = weft_wire_begin(out, GRAPH_REWRITE_OPTIONS);
#define WEFT_PASS(id, name, field, means_off, function, what) \
  if ((s->passes & WEFT_PASS_BIT(WEFT_PASS_##id)) == 0) weft_wire_put_varint(out, field, means_off);
#include "graph/passes/passes.def"
#undef WEFT_PASS
  if (s->passes == 0) weft_wire_put_bool(out, REWRITER_DISABLE, true);
  weft_wire_put_i64(out, REWRITER_ITERATIONS, s->rounds == 1 ? ITERATIONS_ONE : ITERATIONS_TWO);
  weft_wire_put_i64(out, REWRITER_MIN_NODES, s->min_nodes == 0 ? -1 : s->min_nodes);
  weft_wire_end(out, rewriter);
}
