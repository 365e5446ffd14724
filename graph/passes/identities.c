/* graph/passes/identities.c - consumers of a node that only passes its inputs on read these instead.
 *
 * Not where the node waits for something (its control inputs), reads a variable through a reference, brings a
 * value to another device, or stands behind control flow. A node that others wait for stays for them.
 */
#include "graph/passes/round.h"

static bool passes_on(const weft_node_t *n) {
  if (n->num_controls > 0 || n->function != NULL) return false;
  return weft_node_copies_input(n) || ((n->flags & WEFT_OP_BUNDLE) != 0 && n->num_inputs == n->num_outputs);
}

weft_status_t *weft_pass_identities(weft_pass_round_t *r) {
  for (int i = 0; i < r->num_ordered; i++) {
    weft_node_t *n = r->order[i];
    if (!weft_pass_round_has(r, n)) continue;
    WEFT_RETURN_IF_ERROR(weft_pass_round_visit(r, n));
    if (!passes_on(n)) continue;
    for (int k = 0; k < n->num_outputs; k++) {
      if (weft_dtype_is_ref(n->input_types[k]) || !weft_output_may_replace(n->inputs[k], n)) continue;
      WEFT_RETURN_IF_ERROR(weft_pass_round_forward(r, n, k, n->inputs[k]));
    }
  }
  return NULL;
}
