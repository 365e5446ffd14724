/* ops/collective_grad.c - gradients of collective operations.
 *
 * They are those of a loss that every member of the group computes alike, so the
 * gradient of a sum over the group is the identity (reference strategies 1.3, rule
 * 2). A gradient that must itself talk to the group is one more collective
 * of it: under the forward one's instance key with GRADIENT_KEY added, which is the
 * same on all ranks, as their graphs are.
 */
#include "ops/grad.h"

enum {
  GRADIENT_KEY = 1 << 29
}; /* far from keys that clients count up from 1; up to 8 orders of gradients differ */

static weft_named_attr_t text_attr(const char *name, const char *text) {
  return (weft_named_attr_t){weft_str(name), {.kind = WEFT_ATTR_STRING, .s = weft_str(text)}};
}

/* The forward key moved to where gradients are; keys are 32 bits and wrap. */
static int64_t moved(int64_t key) { return (int64_t)(int32_t)(uint32_t)((uint64_t)key + GRADIENT_KEY); }

/* Does the node say group and instance by attributes, or by inputs 1 to 3? */
static bool has_key_attrs(const weft_grad_ctx_t *c) {
  return weft_op_attr(c->op, weft_str("group_key")) != NULL;
}

/* Group size, group key and instance key of a gradient, as inputs of an op of TensorFlow's second form. */
static void keys(weft_grad_t *g, value_t out[3]) {
  if (has_key_attrs(g->c)) {
    out[0] = weft_grad_int_scalar(g, WEFT_I32, weft_grad_attr_int(g, "group_size"));
    out[1] = weft_grad_int_scalar(g, WEFT_I32, weft_grad_attr_int(g, "group_key"));
    out[2] = weft_grad_int_scalar(g, WEFT_I32, moved(weft_grad_attr_int(g, "instance_key")));
  } else {
    out[0] = g->c->inputs[1];
    out[1] = g->c->inputs[2];
    out[2] = weft_grad_op2(g, "AddV2", g->c->inputs[3], weft_grad_int_scalar(g, WEFT_I32, GRADIENT_KEY));
  }
}

/* `op`, of the second form, over the node's group. `more` (num_more) are attributes besides those that all
 * have. */
static value_t over_group(weft_grad_t *g, const char *op, value_t x, const weft_named_attr_t *more,
                          int num_more) {
  weft_named_attr_t attrs[6] = {weft_grad_same(g, "communication_hint"), weft_grad_same(g, "timeout_seconds"),
                                weft_int_attr("Nordering_token", 0)};
  value_t in[4] = {x};
  for (int i = 0; i < num_more; i++) attrs[3 + i] = more[i];
  keys(g, &in[1]);
  return weft_grad_node(g, op, in, 4, attrs, 3 + num_more);
}

static value_t sum_over_group(weft_grad_t *g, const char *op, value_t x) {
  weft_named_attr_t more[] = {text_attr("merge_op", "Add"), text_attr("final_op", "Id")};
  return over_group(g, op, x, more, 2);
}

/* How many members, as a scalar of x's type. */
static value_t group_size(weft_grad_t *g, value_t x) {
  value_t n = has_key_attrs(g->c) ? weft_grad_int_scalar(g, WEFT_I32, weft_grad_attr_int(g, "group_size"))
                                  : g->c->inputs[1];
  return weft_grad_cast(g, n, weft_grad_dtype(g, x));
}

static bool attr_is(weft_grad_t *g, const char *name, const char *text) {
  weft_named_attr_t a = weft_grad_same(g, name);
  return a.value.kind == WEFT_ATTR_STRING && weft_str_is(a.value.s, text);
}

/* dy of a reduction, before it is spread: divided, if the reduction divides. */
static value_t undivided(weft_grad_t *g, value_t dy) {
  return attr_is(g, "final_op", "Div") ? weft_grad_op2(g, "RealDiv", dy, group_size(g, dy)) : dy;
}

weft_status_t *weft_grad_collective_reduce(weft_grad_ctx_t *c) {
  weft_grad_t g = {c, NULL};
  value_t x = c->inputs[0], y = c->outputs[0], dy = undivided(&g, c->dy[0]);
  if (attr_is(&g, "merge_op", "Add")) {
    c->dx[0] = dy;
  } else if (attr_is(&g, "merge_op", "Mul")) {
    value_t product = attr_is(&g, "final_op", "Div") ? weft_grad_op2(&g, "Mul", y, group_size(&g, y)) : y;
    c->dx[0] =
        weft_grad_op2(&g, "Mul", dy, weft_grad_op2(&g, "RealDiv", product, x)); /* not for zeros in x */
  } else if (attr_is(&g, "final_op", "Div")) {
    return WEFT_ERROR(UNIMPLEMENTED, "no gradient of %.*s with a least or greatest that is divided",
                      WEFT_STR_ARGS(c->node_name));
  } else { /* members that tie share equally */
    value_t is_it = weft_grad_cast(&g, weft_grad_op2(&g, "Equal", x, y), weft_grad_dtype(&g, x));
    value_t ties = sum_over_group(&g, "CollectiveReduceV2", is_it);
    c->dx[0] = weft_grad_op2(&g, "Mul", dy, weft_grad_op2(&g, "RealDiv", is_it, ties));
  }
  return g.s;
}

/* Every rank's rows of the sum of what all have. */
weft_status_t *weft_grad_collective_gather(weft_grad_ctx_t *c) {
  weft_grad_t g = {c, NULL};
  c->dx[0] = sum_over_group(&g, "CollectiveReduceScatterV2", c->dy[0]);
  return g.s;
}

weft_status_t *weft_grad_collective_reduce_scatter(weft_grad_ctx_t *c) {
  weft_grad_t g = {c, NULL};
  if (!attr_is(&g, "merge_op", "Add")) {
    return WEFT_ERROR(UNIMPLEMENTED, "no gradient of %.*s, which does not add", WEFT_STR_ARGS(c->node_name));
  }
  value_t dy = undivided(&g, c->dy[0]);
  bool is_bf16 = weft_grad_dtype(&g, dy) == WEFT_BF16; /* which CollectiveGatherV2 does not take */
  value_t all =
      over_group(&g, "CollectiveGatherV2", is_bf16 ? weft_grad_cast(&g, dy, WEFT_F32) : dy, NULL, 0);
  c->dx[0] = is_bf16 ? weft_grad_cast(&g, all, WEFT_BF16) : all;
  return g.s;
}

weft_status_t *weft_grad_collective_all_to_all(weft_grad_ctx_t *c) {
  weft_grad_t g = {c, NULL};
  c->dx[0] = over_group(&g, "CollectiveAllToAllV2", c->dy[0], NULL, 0);
  return g.s;
}

/* The pairs turned round. */
weft_status_t *weft_grad_collective_permute(weft_grad_ctx_t *c) {
  weft_grad_t g = {c, NULL};
  int32_t column = 1;
  value_t back = weft_grad_op2(&g, "ReverseV2", c->inputs[1], weft_grad_int32s(&g, &column, 1));
  c->dx[0] = weft_grad_op2(&g, "CollectivePermute", c->dy[0], back);
  return g.s;
}

/* ---- Weft's own ---- */

enum { MAX_OWN_ATTRS = 10 };

/* The attributes that all of Weft's own have; returns how many. */
static int own_attrs(weft_grad_t *g, weft_named_attr_t out[MAX_OWN_ATTRS]) {
  static const char *const names[] = {"group_size", "group_key", "rank", "communication_hint",
                                      "timeout_seconds"};
  int n = 0;
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) out[n++] = weft_grad_same(g, names[i]);
  out[n++] = weft_int_attr("instance_key", moved(weft_grad_attr_int(g, "instance_key")));
  return n;
}

static value_t own(weft_grad_t *g, const char *op, const value_t *in, int num_in) {
  weft_named_attr_t attrs[MAX_OWN_ATTRS];
  int n = own_attrs(g, attrs);
  attrs[n++] = weft_grad_same(g, "root");
  if (num_in > 1) attrs[n++] = weft_int_attr("Nlike", num_in - 1);
  return weft_grad_node(g, op, in, num_in, attrs, n);
}

/* The root's input is the only one that counts, so only the root gets a gradient; others get zeros. */
weft_status_t *weft_grad_collective_broadcast(weft_grad_ctx_t *c) {
  weft_grad_t g = {c, NULL};
  c->dx[0] = own(&g, "WeftCollectiveReduceToOne", &c->dy[0], 1);
  return g.s;
}

weft_status_t *weft_grad_collective_reduce_to_one(weft_grad_ctx_t *c) {
  weft_grad_t g = {c, NULL};
  if (!attr_is(&g, "merge_op", "Add")) {
    return WEFT_ERROR(UNIMPLEMENTED, "no gradient of %.*s, which does not add", WEFT_STR_ARGS(c->node_name));
  }
  value_t dy = undivided(&g, c->dy[0]);
  c->dx[0] = own(&g, "WeftCollectiveBroadcast", &dy, 1);
  return g.s;
}

weft_status_t *weft_grad_collective_gather_to_one(weft_grad_ctx_t *c) {
  weft_grad_t g = {c, NULL};
  value_t in[] = {c->dy[0], c->inputs[0]};
  c->dx[0] = own(&g, "WeftCollectiveScatter", in, 2);
  return g.s;
}

/* At the root all rows; a member that is known not to be it had nothing to say. */
weft_status_t *weft_grad_collective_scatter(weft_grad_ctx_t *c) {
  weft_grad_t g = {c, NULL};
  int64_t rank = weft_grad_attr_int(&g, "rank");
  value_t all = own(&g, "WeftCollectiveGatherToOne", &c->dy[0], 1);
  if (rank < 0 || rank == weft_grad_attr_int(&g, "root")) {
    c->dx[0] = all;
  } else { /* it must take part all the same: the zeros wait for it */
    value_t rows =
        weft_grad_op2(&g, "Mul", weft_grad_cast(&g, weft_grad_op1(&g, "Size", all), weft_grad_dtype(&g, all)),
                      weft_grad_scalar(&g, weft_grad_dtype(&g, all), 0));
    c->dx[0] = weft_grad_op2(&g, "Mul", weft_grad_op1(&g, "ZerosLike", c->inputs[0]), rows);
  }
  return g.s;
}

weft_status_t *weft_grad_collective_named(weft_grad_ctx_t *c) {
  weft_grad_t g = {c, NULL};
  if (!attr_is(&g, "merge_op", "Add") || weft_grad_attr_bool(&g, "adasum")) {
    return WEFT_ERROR(UNIMPLEMENTED, "no gradient of %.*s, which does not add", WEFT_STR_ARGS(c->node_name));
  }
  c->dx[0] = undivided(&g, c->dy[0]);
  return g.s;
}

weft_status_t *weft_grad_collective_all_to_all_v(weft_grad_ctx_t *c) {
  weft_grad_t g = {c, NULL};
  value_t in[] = {c->dy[0], weft_grad_output(c->outputs[0], 1)};
  weft_named_attr_t attrs[MAX_OWN_ATTRS];
  int n = own_attrs(&g, attrs);
  c->dx[0] = weft_grad_node(&g, "WeftCollectiveAllToAllV", in, 2, attrs, n);
  return g.s;
}

/* Back from where it went. */
weft_status_t *weft_grad_collective_permute_in_group(weft_grad_ctx_t *c) {
  enum { MAX_RANKS = 4096 };
  weft_grad_t g = {c, NULL};
  weft_named_attr_t attrs[MAX_OWN_ATTRS], targets = weft_grad_same(&g, "targets");
  int64_t back[MAX_RANKS];
  int size = targets.value.n;
  if (size > MAX_RANKS)
    return WEFT_ERROR(UNIMPLEMENTED, "no gradient of %.*s over more than %d ranks",
                      WEFT_STR_ARGS(c->node_name), MAX_RANKS);
  for (int i = 0; i < size; i++) back[i] = -1;
  for (int i = 0; i < size; i++) {
    int64_t to = targets.value.list.ints[i];
    if (to >= 0 && to < size) back[to] = i;
  }
  int n = own_attrs(&g, attrs);
  attrs[n++] = (weft_named_attr_t){weft_str("targets"),
                                   {.kind = WEFT_ATTR_INT, .is_list = true, .n = size, .list.ints = back}};
  c->dx[0] = weft_grad_node(&g, "WeftCollectivePermute", &c->dy[0], 1, attrs, n);
  return g.s;
}
