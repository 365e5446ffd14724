/* ops/einsum_grad.c - the gradient of Einsum: einsums of the equation turned round.
 *
 * For "x,y->z" the gradient of x is "z,y->x" of dz and y; labels that only x has cannot come from there, and
 * are repeated. The gradient of what an ellipsis broadcast is summed.
 */
#include <stdio.h>

#include "ops/einsum.h"
#include "ops/grad.h"

enum { MAX_SUBS = 2 * WEFT_EINSUM_LABELS + 8 };
typedef struct subs { /* of one operand: labels and perhaps "..." */
  char text[MAX_SUBS];
} subs_t;

static bool copy_subs(weft_str_t from, subs_t *out) {
  size_t n = 0;
  if (from.length >= sizeof out->text) return false;
  for (size_t i = 0; i < from.length; i++) {
    if (from.data[i] != ' ') out->text[n++] = from.data[i];
  }
  out->text[n] = '\0';
  return true;
}

static bool has_ellipsis(const subs_t *s) { return strchr(s->text, '.') != NULL; }
static bool has_label(const subs_t *s, char label) { return strchr(s->text, label) != NULL; }

/* The axis of a label; counted from the end if it stands behind the ellipsis. */
static int axis_of(const subs_t *s, char label) {
  const char *at = strchr(s->text, label), *dots = strchr(s->text, '.');
  return dots == NULL || at < dots ? (int)(at - s->text) : -(int)strlen(at);
}

static value_t einsum(weft_grad_t *g, const char *equation, const value_t *x, int n) {
  weft_named_attr_t attrs[] = {weft_int_attr("N", n), weft_text_attr("equation", weft_str(equation))};
  return weft_grad_node(g, "Einsum", x, n, attrs, 2);
}

/* Elements begin to end of a vector; end 0: all of them behind. */
static value_t part(weft_grad_t *g, value_t x, int begin, int end) {
  weft_named_attr_t mask = weft_int_attr("end_mask", end == 0);
  return weft_grad_node(
      g, "StridedSlice",
      (value_t[]){x, weft_grad_int32s(g, (int32_t[]){begin}, 1), weft_grad_int32s(g, (int32_t[]){end}, 1),
                  weft_grad_int32s(g, (int32_t[]){1}, 1)},
      4, &mask, 1);
}

/* Labels that `in` has alone, each once. */
static subs_t reduced_of(const subs_t *in, const subs_t *out, const subs_t *other) {
  subs_t reduced = {{0}};
  size_t n = 0;
  for (const char *l = in->text; *l != '\0'; l++) {
    bool is_elsewhere = has_label(out, *l) || (other != NULL && has_label(other, *l));
    if (*l != '.' && !is_elsewhere && !has_label(&reduced, *l)) reduced.text[n++] = *l;
  }
  return reduced;
}

static subs_t without(const subs_t *in, const subs_t *reduced) {
  subs_t left = {{0}};
  size_t n = 0;
  for (const char *l = in->text; *l != '\0'; l++) {
    if (*l == '.' || !has_label(reduced, *l)) left.text[n++] = *l;
  }
  return left;
}

/* The gradient of x in "in->out", whose labels `reduced` are in `in` alone: dz is repeated along them. */
static value_t repeated(weft_grad_t *g, value_t dz, const subs_t *out, const subs_t *in, value_t x,
                        const subs_t *reduced) {
  int n = (int)strlen(reduced->text);
  value_t shape = weft_grad_shape_node(g, x, WEFT_I32), dz_shape = weft_grad_shape_node(g, dz, WEFT_I32),
          dims = WEFT_GRAD_ZERO;
  int32_t ones[WEFT_EINSUM_LABELS];
  for (int i = 0; i < n; i++) {
    int axis = axis_of(in, reduced->text[i]);
    value_t dim = part(g, shape, axis, axis + 1);
    dims = i == 0 ? dim : weft_grad_concat(g, (value_t[]){dims, dim}, 2, 0);
    ones[i] = 1;
  }
  value_t thin = weft_grad_concat(g, (value_t[]){weft_grad_int32s(g, ones, n), dz_shape}, 2, 0);
  value_t wide = weft_grad_op2(g, "BroadcastTo", weft_grad_op2(g, "Reshape", dz, thin),
                               weft_grad_concat(g, (value_t[]){dims, dz_shape}, 2, 0));
  char equation[3 * MAX_SUBS];
  (void)snprintf(equation, sizeof equation, "%s%s->%s", reduced->text, out->text, in->text);
  return einsum(g, equation, &wide, 1);
}

/* The gradient of x in "in,other->out", y being the other operand. */
static value_t of_operand(weft_grad_t *g, value_t x, const subs_t *in, value_t y, const subs_t *other,
                          const subs_t *out) {
  subs_t reduced = reduced_of(in, out, other), left = without(in, &reduced);
  char equation[3 * MAX_SUBS + 8];
  (void)snprintf(equation, sizeof equation, "%s,%s->%s", out->text, other->text, left.text);
  value_t dx = einsum(g, equation, (value_t[]){g->c->dy[0], y}, 2);
  return reduced.text[0] == '\0' ? dx : repeated(g, dx, &left, in, x, &reduced);
}

/* The dims of the ellipsis. */
static value_t ellipsis_dims(weft_grad_t *g, value_t x, const subs_t *s, int *begin) {
  *begin = (int)(strchr(s->text, '.') - s->text);
  return part(g, weft_grad_shape_node(g, x, WEFT_I32), *begin, -(int)strlen(s->text + *begin + 3));
}

static weft_status_t *of_two(weft_grad_t *g, subs_t *in, const subs_t *out) {
  weft_grad_ctx_t *c = g->c;
  value_t x[2] = {weft_grad_conj(g, c->inputs[0]), weft_grad_conj(g, c->inputs[1])}, dims[2];
  int begin[2];
  for (int i = 0; i < 2 && has_ellipsis(out); i++) {
    size_t n = strlen(in[i].text);
    if (!has_ellipsis(&in[i]) && n + 4 < sizeof in[i].text) memcpy(in[i].text + n, "...", 4);
  }
  for (int i = 0; i < 2; i++) c->dx[i] = of_operand(g, c->inputs[i], &in[i], x[1 - i], &in[1 - i], out);
  if (!has_ellipsis(out)) return g->s;
  for (int i = 0; i < 2; i++) dims[i] = ellipsis_dims(g, c->inputs[i], &in[i], &begin[i]);
  value_t axes = weft_grad_op2(g, "BroadcastGradientArgs", dims[0], dims[1]);
  for (int i = 0; i < 2; i++) {
    value_t own =
        weft_grad_op2(g, "AddV2", weft_grad_output(axes, i), weft_grad_int_scalar(g, WEFT_I32, begin[i]));
    value_t sum = weft_grad_reduce(g, "Sum", c->dx[i], own, false);
    c->dx[i] = weft_grad_op2(g, "Reshape", sum, weft_grad_shape_node(g, c->inputs[i], WEFT_I32));
  }
  return g->s;
}

weft_status_t *weft_grad_einsum(weft_grad_ctx_t *c) {
  weft_grad_t g_ = {c, NULL}, *g = &g_;
  weft_str_t equation = weft_grad_same(g, "equation").value.s, left, right, first, second;
  subs_t in[2], out;
  size_t arrow = 0;
  while (arrow + 1 < equation.length && !(equation.data[arrow] == '-' && equation.data[arrow + 1] == '>'))
    arrow++;
  bool is_good = arrow + 1 < equation.length && c->num_inputs >= 1 && c->num_inputs <= 2;
  if (is_good) {
    left = weft_str_of(equation.data, arrow);
    right = weft_str_of(equation.data + arrow + 2, equation.length - arrow - 2);
    bool has_comma = weft_str_split(left, ',', &first, &second);
    is_good = has_comma == (c->num_inputs == 2) && copy_subs(right, &out) &&
              copy_subs(has_comma ? first : left, &in[0]) && (!has_comma || copy_subs(second, &in[1]));
  }
  if (!is_good)
    return WEFT_ERROR(INVALID_ARGUMENT, "Einsum equation '%.*s' is malformed", WEFT_STR_ARGS(equation));
  if (c->num_inputs == 2) return of_two(g, in, &out);
  subs_t reduced = reduced_of(&in[0], &out, NULL);
  char turned[2 * MAX_SUBS + 8];
  (void)snprintf(turned, sizeof turned, "%s->%s", out.text, in[0].text);
  c->dx[0] = reduced.text[0] == '\0' ? einsum(g, turned, &c->dy[0], 1)
                                     : repeated(g, c->dy[0], &out, &in[0], c->inputs[0], &reduced);
  return g->s;
}
