/* ops/formula.c - gradients that are formulas, written in the op's record:
 *
 *   WEFT_OP("Xdivy", "x: T, y: T -> z: T", ..., grad_formula, ELEMENTWISE,
 *           .formula = "dz * Xdivy(Cast(NotEqual(x, 0)), y); dz * Xdivy(-x, Square(y))")
 *
 * One formula per input, or fewer: the inputs behind have no gradient. It names the op's inputs and its first
 * output as the signature does, and the gradient of that output by a 'd' in front. Operators: + - * / and
 * unary -, as in C; they are AddV2, Sub, Mul, RealDiv, Neg. A name with a capital and arguments is an op of
 * that name whose attributes follow from its inputs. conj(v) is the conjugate of complex numbers and v of
 * real ones. A number is a constant of the first input's type. Where the op broadcasts, each gradient is
 * summed down to its input's shape.
 */
#include <ctype.h>
#include <stdlib.h>

#include "ops/grad.h"

enum { MAX_ARGS = 3, MAX_DEPTH = 32 };

typedef struct formula {
  weft_grad_t g;
  const char *at;
  int depth;
} formula_t;

static value_t sum(formula_t *f);

static value_t wrong(formula_t *f, const char *what) {
  if (f->g.s == NULL) {
    f->g.s = WEFT_ERROR(INTERNAL, "the gradient of op '%.*s' is no formula: %s at '%s'",
                        WEFT_STR_ARGS(f->g.c->op->name), what, f->at);
  }
  return WEFT_GRAD_ZERO;
}

static bool take(formula_t *f, char c) {
  while (*f->at == ' ') f->at++;
  if (*f->at != c) return false;
  f->at++;
  return true;
}

static value_t named(formula_t *f, weft_str_t name) {
  const weft_grad_ctx_t *c = f->g.c;
  for (int i = 0; i < c->op->num_inputs && i < c->num_inputs; i++) {
    if (weft_str_eq(name, c->op->inputs[i].name)) return c->inputs[i];
  }
  if (weft_str_eq(name, c->op->outputs[0].name)) return c->outputs[0];
  bool is_gradient = name.length > 1 && name.data[0] == 'd';
  if (is_gradient && weft_str_eq(weft_str_of(name.data + 1, name.length - 1), c->op->outputs[0].name))
    return c->dy[0];
  return wrong(f, "an unknown name before");
}

/* `name`(...): the parenthesis is taken already. */
static value_t call(formula_t *f, weft_str_t name) {
  value_t args[MAX_ARGS];
  char op[32];
  int n = 0;
  do {
    if (n == MAX_ARGS) return wrong(f, "too many arguments");
    args[n++] = sum(f);
  } while (take(f, ','));
  if (!take(f, ')')) return wrong(f, "no ')'");
  if (name.length >= sizeof op) return wrong(f, "too long a name before");
  memcpy(op, name.data, name.length);
  op[name.length] = '\0';
  if (strcmp(op, "conj") == 0) return weft_grad_conj(&f->g, args[0]);
  if (strcmp(op, "Cast") == 0)
    return weft_grad_cast(&f->g, args[0], weft_grad_dtype(&f->g, f->g.c->inputs[0]));
  return weft_grad_node(&f->g, op, args, n, NULL, 0);
}

static value_t number(formula_t *f, int sign) {
  char *end;
  double value = strtod(f->at, &end);
  f->at = end;
  return weft_grad_scalar(&f->g, weft_grad_dtype(&f->g, f->g.c->inputs[0]), sign * value);
}

static value_t primary(formula_t *f) {
  if (take(f, '(')) {
    value_t v = sum(f);
    return take(f, ')') ? v : wrong(f, "no ')'");
  }
  if (isdigit((unsigned char)*f->at)) return number(f, 1);
  const char *begin = f->at;
  while (isalnum((unsigned char)*f->at) || *f->at == '_') f->at++;
  weft_str_t name = weft_str_of(begin, (size_t)(f->at - begin));
  if (name.length == 0) return wrong(f, "no value");
  return take(f, '(') ? call(f, name) : named(f, name);
}

static value_t unary(formula_t *f) {
  if (f->depth == MAX_DEPTH) return wrong(f, "too deep");
  f->depth++;
  bool is_negative = take(f, '-');
  value_t v = !is_negative                     ? primary(f)
              : isdigit((unsigned char)*f->at) ? number(f, -1)
                                               : weft_grad_op1(&f->g, "Neg", unary(f));
  f->depth--;
  return v;
}

static value_t product(formula_t *f) {
  value_t v = unary(f);
  while (f->g.s == NULL) {
    if (take(f, '*')) {
      v = weft_grad_op2(&f->g, "Mul", v, unary(f));
    } else if (take(f, '/')) {
      v = weft_grad_op2(&f->g, "RealDiv", v, unary(f));
    } else {
      break;
    }
  }
  return v;
}

static value_t sum(formula_t *f) {
  value_t v = product(f);
  while (f->g.s == NULL) {
    if (take(f, '+')) {
      v = weft_grad_op2(&f->g, "AddV2", v, product(f));
    } else if (take(f, '-')) {
      v = weft_grad_op2(&f->g, "Sub", v, product(f));
    } else {
      break;
    }
  }
  return v;
}

weft_status_t *weft_grad_formula(weft_grad_ctx_t *c) {
  formula_t f = {{c, NULL}, c->op->formula, 0};
  bool broadcasts = c->op->infer_shapes == weft_infer_broadcast;
  int i = 0;
  do {
    if (i == c->num_inputs)
      return WEFT_ERROR(INTERNAL, "op '%.*s' has more formulas than inputs", WEFT_STR_ARGS(c->op->name));
    c->dx[i] = sum(&f);
    if (broadcasts) c->dx[i] = weft_grad_unbroadcast(&f.g, c->dx[i], c->inputs[i], c->inputs[1 - i], i);
    i++;
  } while (f.g.s == NULL && take(&f, ';'));
  if (f.g.s == NULL && *f.at != '\0') (void)wrong(&f, "something else");
  return f.g.s;
}
