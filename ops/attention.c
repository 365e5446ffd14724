/* ops/attention.c - the shape of a _WeftAttention (graph/passes.h, weft_pass_fuse_attention): that of its
 * second product, if each of its parts has one. */
#include "ops/chain.h"
#include "ops/einsum.h"
#include "ops/infer.h"
#include "ops/product.h"

typedef struct attention_description {
  weft_chain_t chain;
  const weft_attr_t *products, *product_ops; /* lists of two texts: of the first product and the second */
  int64_t scores;                            /* the chain's input that is the first product */
} attention_description_t;

static weft_status_t *no_attention(void) {
  return WEFT_ERROR(INVALID_ARGUMENT, "the attributes of a _WeftAttention describe none");
}

static const weft_attr_t *pair_of_texts(const weft_shape_ctx_t *c, const char *name) {
  const weft_attr_t *a = weft_attr_find(c->attrs, c->num_attrs, name);
  return a != NULL && a->is_list && a->kind == WEFT_ATTR_STRING && a->n == 2 ? a : NULL;
}

static weft_status_t *read_parts(const weft_shape_ctx_t *c, weft_arena_t *arena,
                                 attention_description_t *out) {
  WEFT_RETURN_IF_ERROR(weft_chain_read(arena, c->attrs, c->num_attrs, &out->chain));
  out->products = pair_of_texts(c, "products");
  out->product_ops = pair_of_texts(c, "product_ops");
  out->scores = weft_infer_int(c, "scores");
  const int n = out->chain.num_inputs;
  const bool is_one = out->products != NULL && out->product_ops != NULL && n == c->num_inputs && n >= 3 &&
                      out->chain.num_outputs == 1 && c->num_outputs == 1 && out->scores >= 0 &&
                      out->scores < n - 2;
  return is_one ? NULL : no_attention();
}

static bool broadcasts(const attention_description_t *p, int product) {
  return !weft_str_is(p->product_ops->list.strings[product], "BatchMatMul");
}

/* The equation of a product that is an Einsum; empty: it is a BatchMatMul. */
static weft_str_t equation_of(const weft_shape_ctx_t *c, int product) {
  const weft_attr_t *a = pair_of_texts(c, "equations");
  return a == NULL ? WEFT_STR("") : a->list.strings[product];
}

static weft_status_t *infer_product(const weft_shape_ctx_t *c, const attention_description_t *p, int product,
                                    const weft_shape_t *a, const weft_shape_t *b, weft_shape_t *out) {
  const weft_str_t equation = equation_of(c, product);
  const weft_shape_t *const operands[2] = {a, b};
  double summed = 0;
  if (equation.length > 0) return weft_einsum_result(equation, operands, 2, out, &summed);
  const bool turns_a = product == 0 && weft_infer_bool(c, "adj_q");
  return weft_product_shape(broadcasts(p, product), turns_a,
                            weft_infer_bool(c, product == 0 ? "adj_k" : "adj_v"), a, b, out);
}

/* A failure names its node; of the second product, whose name the node has, the executor does. */
static weft_status_t *infer_parts(weft_shape_ctx_t *c, weft_arena_t *arena) {
  attention_description_t p;
  int failed = 0;
  WEFT_RETURN_IF_ERROR(read_parts(c, arena, &p));
  const int n = p.chain.num_inputs;
  for (int i = 0; i < n; i++) {
    if (!weft_shape_is_known(&c->inputs[i])) return NULL;
  }
  weft_shape_t *values = weft_arena_calloc(arena, (size_t)weft_chain_num_values(&p.chain), sizeof *values);
  if (values == NULL) return WEFT_NO_MEMORY("an attention of %d links", p.chain.num_links);
  for (int i = 0; i < n; i++) values[i] = c->inputs[i];
  weft_status_t *s = infer_product(c, &p, 0, &c->inputs[p.scores], &c->inputs[n - 2], &values[p.scores]);
  if (s != NULL) return weft_infer_at_node(s, p.products->list.strings[0]);
  s = weft_chain_infer_links(&p.chain, arena, c->values, values, &failed);
  if (s != NULL) return weft_infer_at_node(s, p.chain.links[failed].node);
  return infer_product(c, &p, 1, &values[p.chain.outputs[0]], &c->inputs[n - 1], &c->outputs[0]);
}

weft_status_t *weft_infer_attention(weft_shape_ctx_t *c) {
  weft_arena_t arena = WEFT_ARENA_INIT;
  c->outputs[0] = WEFT_UNKNOWN_SHAPE;
  weft_status_t *s = infer_parts(c, &arena);
  weft_arena_deinit(&arena);
  return s;
}
