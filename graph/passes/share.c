/* graph/passes/share.c - of nodes that compute the same, one is left: the first.
 *
 * Equal are nodes of one op on one device with equal attributes, the same inputs and the same control inputs.
 * By these they are in the same frame and branch. The order of two inputs does not count where the op is
 * commutative.
 */
#include "base/hash_map.h"
#include "graph/passes/round.h"

enum { HASHED_BYTES = 4096 }; /* of a tensor; all bytes are compared */

static uint64_t mix(uint64_t hash, uint64_t value) {
  hash ^= value + UINT64_C(0x9e3779b97f4a7c15) + (hash << 6) + (hash >> 2);
  return hash * UINT64_C(0xff51afd7ed558ccd);
}

static uint64_t mix_bytes(uint64_t hash, const void *data, size_t n) {
  const unsigned char *at = data;
  for (; n >= 8; n -= 8, at += 8) {
    uint64_t word;
    memcpy(&word, at, sizeof word);
    hash = mix(hash, word);
  }
  for (size_t i = 0; i < n; i++) hash = mix(hash, at[i]);
  return hash;
}

static uint64_t mix_attr(uint64_t hash, const weft_attr_t *a) {
  hash = mix(hash, (uint64_t)a->kind * 2 + a->is_list);
  if (a->is_list) return mix(hash, (uint64_t)a->n);
  switch (a->kind) {
    case WEFT_ATTR_INT: return mix(hash, (uint64_t)a->i);
    case WEFT_ATTR_BOOL: return mix(hash, a->b);
    case WEFT_ATTR_TYPE: return mix(hash, (uint64_t)a->type);
    case WEFT_ATTR_STRING: return mix_bytes(hash, a->s.data, a->s.length);
    case WEFT_ATTR_TENSOR: {
      const weft_tensor_t *t = a->tensor;
      hash = mix(mix(hash, t->dtype), t->bytes);
      if (t->dtype == WEFT_STRING) return hash;
      return mix_bytes(hash, t->data, t->bytes < HASHED_BYTES ? t->bytes : HASHED_BYTES);
    }
    default: return hash;
  }
}

static uint64_t output_key(weft_output_t o) {
  return (uint64_t)(uint32_t)o.node->id << 20 ^ (uint64_t)o.index;
}

static bool is_commutative(const weft_node_t *n) {
  return (n->flags & WEFT_OP_COMMUTATIVE) != 0 && n->num_inputs == 2;
}

static uint64_t hash_node(const weft_node_t *n) {
  uint64_t hash = mix((uint64_t)(uintptr_t)n->op, (uint64_t)n->num_inputs);
  if (is_commutative(n)) {
    const uint64_t a = output_key(n->inputs[0]), b = output_key(n->inputs[1]);
    hash = mix(mix(hash, a < b ? a : b), a < b ? b : a);
  } else {
    for (int i = 0; i < n->num_inputs; i++) hash = mix(hash, output_key(n->inputs[i]));
  }
  uint64_t controls = 0; /* in any order */
  for (int i = 0; i < n->num_controls; i++) controls += mix(1, (uint64_t)n->controls[i]->id);
  hash = mix(hash, controls);
  for (int i = 0; i < n->num_attrs; i++) hash = mix_attr(hash, &n->attrs[i].value);
  return hash;
}

static bool same_output(weft_output_t a, weft_output_t b) { return a.node == b.node && a.index == b.index; }

static bool same_inputs(const weft_node_t *a, const weft_node_t *b) {
  int i = 0;
  while (i < a->num_inputs && same_output(a->inputs[i], b->inputs[i])) i++;
  if (i == a->num_inputs) return true;
  return is_commutative(a) && same_output(a->inputs[0], b->inputs[1]) &&
         same_output(a->inputs[1], b->inputs[0]);
}

static weft_status_t *same_controls(const weft_pass_round_t *r, weft_node_t *a, const weft_node_t *b,
                                    bool *out) {
  *out = a->num_controls == b->num_controls;
  for (int i = 0; *out && i < b->num_controls; i++) {
    int at = -1;
    WEFT_RETURN_IF_ERROR(weft_graph_find_control(r->g, a, b->controls[i], &at));
    *out = at >= 0;
  }
  return NULL;
}

static bool same_node(const weft_node_t *a, const weft_node_t *b) {
  if (a->op != b->op || a->num_inputs != b->num_inputs || a->num_attrs != b->num_attrs ||
      !weft_str_eq(a->assigned_device, b->assigned_device) ||
      (a->assigned_device.length == 0 && !weft_str_eq(a->requested_device, b->requested_device)) ||
      !same_inputs(a, b))
    return false;
  for (int i = 0; i < a->num_attrs; i++) {
    if (!weft_str_eq(a->attrs[i].name, b->attrs[i].name) ||
        !weft_attr_eq(&a->attrs[i].value, &b->attrs[i].value))
      return false;
  }
  return true;
}

static weft_status_t *share(weft_pass_round_t *r, weft_map_t *seen, weft_node_t *n) {
  const uint64_t hash = hash_node(n);
  weft_node_t *first = weft_map_get_u64(seen, hash);
  if (first == NULL) return weft_map_put_u64(seen, hash, n, NULL);
  bool same = same_node(first, n);
  if (same) WEFT_RETURN_IF_ERROR(same_controls(r, first, n, &same));
  if (same && !r->is_kept[n->id]) weft_pass_round_merge(r, n, first);
  return NULL;
}

weft_status_t *weft_pass_share(weft_pass_round_t *r) {
  weft_map_t seen = WEFT_MAP_INIT;
  weft_status_t *s = NULL;
  for (int i = 0; s == NULL && i < r->num_ordered; i++) {
    weft_node_t *n = r->order[i];
    if (!weft_pass_round_has(r, n)) continue;
    s = weft_pass_round_visit(r, n);
    if (s == NULL && weft_node_is_pure(n)) s = share(r, &seen, n);
  }
  weft_map_deinit(&seen);
  return s;
}
