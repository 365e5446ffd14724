/* strategies/draw_rows.c - WeftRandomRows and WeftMultinomialRows, made from the ops that they replace. */
#include "strategies/draw_rows.h"

#include "strategies/emit.h"

enum { MAX_ATTRS = 8 };

weft_status_t *weft_draw_rows_add(weft_graph_t *g, const weft_node_t *n, const weft_data_draw_t *draw,
                                  weft_node_spec_t *spec, weft_node_t **out) {
  weft_named_attr_t attrs[MAX_ATTRS];
  int num = 0;
  bool is_choice = n->op->batch == WEFT_BATCH_RANDOM_CHOICE;
  attrs[num++] = weft_int_attr("factor", draw->factor);
  if (weft_draws_from_stream(n)) {
    attrs[num++] = weft_int_attr("seed", weft_node_attr_int(n, "seed", 0));
    attrs[num++] = weft_int_attr("seed2", weft_node_attr_int(n, "seed2", 0));
  }
  if (is_choice) {
    attrs[num++] = weft_type_attr("T", n->input_types[0]);
    attrs[num++] = weft_type_attr("output_dtype", n->output_types[0]);
  } else {
    attrs[num++] = weft_text_attr("op", n->op->name);
    attrs[num++] = weft_int_attr("axis", draw->dim);
    attrs[num++] = weft_type_attr("dtype", n->output_types[0]);
    attrs[num] =
        (weft_named_attr_t){WEFT_STR("Tin"), {.kind = WEFT_ATTR_TYPE, .is_list = true, .n = n->num_inputs}};
    attrs[num++].value.list.types = n->input_types;
  }
  spec->op = is_choice ? WEFT_STR("WeftMultinomialRows") : WEFT_STR("WeftRandomRows");
  spec->attrs = attrs;
  spec->num_attrs = num;
  weft_status_t *s = weft_graph_add(g, spec, out);
  spec->attrs = NULL;
  spec->num_attrs = 0;
  return s;
}
