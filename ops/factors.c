/* ops/factors.c - reads factor notation, and makes it fit the shapes of a node. */
#include "ops/factors.h"

#include <ctype.h>

enum { MAX_OPERANDS = 32, ELLIPSIS = -2 };

/* One operand as written. */
typedef struct term {
  int n, items[WEFT_MAX_DIMS + 1];                              /* a factor, WEFT_FACTOR_WHOLE or ELLIPSIS */
  bool has_ellipsis, is_repeated, is_same, is_sizes, is_closed; /* closed: "]" */
} term_t;

typedef struct notation {
  term_t terms[2][MAX_OPERANDS]; /* inputs, outputs */
  int num[2];
  bool is_masked[WEFT_FACTORS_ELLIPSIS];
  weft_factor_reduction_t reduction;
} notation_t;

static weft_status_t *wrong(const char *text, const char *what) {
  return WEFT_ERROR(INVALID_ARGUMENT, "factors \"%s\": %s", text, what);
}

static int letter(char c) { return c >= 'a' ? c - 'a' : c - 'A' + 26; }

/* Appends what stands at *at to the term and moves *at behind it. */
static weft_status_t *read_item(const char *text, const char **at, bool is_output, notation_t *n, term_t *t) {
  const char *p = *at;
  int item = WEFT_FACTOR_WHOLE;
  if (t->is_repeated) return wrong(text, "'*' must end its operand");
  if (t->is_closed) return wrong(text, "']' must end its operand");
  if (*p == '[' || *p == ']') {
    bool opens = *p == '[';
    if (opens ? (is_output || t->n > 0 || t->is_sizes) : !t->is_sizes)
      return wrong(text, "misplaced bracket");
    *(opens ? &t->is_sizes : &t->is_closed) = true;
    *at = p + 1;
    return NULL;
  }
  if (*p == '*' || *p == '=') {
    bool is_star = *p == '*';
    if (is_star ? t->n == 0 : (!is_output || t->n > 0 || t->is_same))
      return wrong(text, "misplaced '*' or '='");
    *(is_star ? &t->is_repeated : &t->is_same) = true;
    *at = p + 1;
    return NULL;
  }
  if (strncmp(p, "...", 3) == 0) {
    if (t->has_ellipsis) return wrong(text, "two ellipses in one operand");
    t->has_ellipsis = true;
    item = ELLIPSIS;
    p += 2;
  } else if (isalpha((unsigned char)*p)) {
    item = letter(*p);
    for (int i = 0; i < t->n; i++) {
      if (t->items[i] == item) return wrong(text, "a factor twice in one operand");
    }
    if (p[1] == ':') n->is_masked[item] = true, p++;
  } else if (*p != '_') {
    return wrong(text, "an unknown character");
  }
  if (t->n > WEFT_MAX_DIMS) return wrong(text, "too many dimensions");
  t->items[t->n++] = item;
  *at = p + 1;
  return NULL;
}

static weft_status_t *read_reduction(const char *text, const char *name, weft_factor_reduction_t *out) {
  static const char *const names[] = {"sum", "min", "max", "mean", "prod"};
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
    if (strcmp(name, names[i]) != 0) continue;
    *out = (weft_factor_reduction_t)i;
    return NULL;
  }
  return wrong(text, "an unknown reduction");
}

static bool names_factor(const notation_t *n, int side, int item) {
  for (int i = 0; i < n->num[side]; i++) {
    for (int k = 0; k < n->terms[side][i].n; k++) {
      if (n->terms[side][i].items[k] == item) return true;
    }
  }
  return false;
}

/* What is written of single operands is right; now of all together. */
static weft_status_t *check_notation(const char *text, const notation_t *n) {
  for (int side = 0; side < 2; side++) {
    int repeated = 0;
    for (int i = 0; i < n->num[side]; i++) {
      const term_t *t = &n->terms[side][i];
      repeated += t->is_repeated;
      if (t->is_sizes != t->is_closed) return wrong(text, "a bracket is open");
    }
    if (repeated > 1) return wrong(text, "two repeated operands");
  }
  for (int i = 0; i < n->num[1]; i++) {
    for (int k = 0; k < n->terms[1][i].n; k++) {
      int item = n->terms[1][i].items[k];
      if (item != WEFT_FACTOR_WHOLE && !names_factor(n, 0, item)) {
        return wrong(text, "a result has a factor that no operand has");
      }
    }
  }
  return NULL;
}

static weft_status_t *parse(const char *text, notation_t *out) {
  notation_t n = {0};
  int side = 0;
  const char *p = text;
  n.num[0] = 1;
  while (*p != '\0' && *p != '|') {
    if (*p == ',' || (p[0] == '-' && p[1] == '>')) {
      if (*p == '-') {
        if (side == 1) return wrong(text, "two arrows");
        side = 1;
        p++;
      }
      if (++n.num[side] > MAX_OPERANDS) return wrong(text, "too many operands");
      p++;
      continue;
    }
    WEFT_RETURN_IF_ERROR(read_item(text, &p, side == 1, &n, &n.terms[side][n.num[side] - 1]));
  }
  if (side == 0) return wrong(text, "no arrow");
  if (*p == '|') WEFT_RETURN_IF_ERROR(read_reduction(text, p + 1, &n.reduction));
  WEFT_RETURN_IF_ERROR(check_notation(text, &n));
  *out = n;
  return NULL;
}

weft_status_t *weft_factors_check(const weft_op_def_t *op, const char *text) {
  notation_t n;
  WEFT_RETURN_IF_ERROR(parse(text, &n));
  for (int side = 0; side < 2; side++) {
    const weft_arg_def_t *args = side == 0 ? op->inputs : op->outputs;
    int num = side == 0 ? op->num_inputs : op->num_outputs;
    if (n.num[side] != num)
      return weft_status_annotate(wrong(text, "not as many operands as the signature"), "op %.*s",
                                  WEFT_STR_ARGS(op->name));
    for (int i = 0; i < num; i++) {
      bool repeats = args[i].kind == WEFT_ARG_REPEATED || args[i].kind == WEFT_ARG_TYPE_LIST;
      if (n.terms[side][i].is_repeated && !repeats) {
        return weft_status_annotate(wrong(text, "'*' for an argument that is one tensor"), "op %.*s",
                                    WEFT_STR_ARGS(op->name));
      }
    }
  }
  return NULL;
}

/* ---- for the shapes of a node ---- */

typedef struct maker {
  const char *text;
  const weft_factor_shapes_t *shapes;
  notation_t n;
  int ellipsis; /* dimensions of the longest; -1: none yet */
  weft_factors_t out;
} maker_t;

/* The term of flat operand `i` of `num`. */
static const term_t *term_of(const notation_t *n, int side, int i, int num) {
  int extra = num - n->num[side];
  for (int k = 0; k < n->num[side]; k++) {
    int length = n->terms[side][k].is_repeated ? 1 + extra : 1;
    if (i < length) return &n->terms[side][k];
    i -= length;
  }
  return NULL;
}

/* How many dimensions "..." is in this operand. */
static weft_status_t *measure(maker_t *m, const term_t *t, const weft_shape_t *shape, bool is_output) {
  if (t->n == 0 || t->is_sizes) return NULL;
  if (shape->rank < 0) {
    if (is_output || !t->has_ellipsis) return NULL; /* it has the rank of the notation */
    return WEFT_ERROR(FAILED_PRECONDITION, "factors \"%s\": an operand of unknown rank", m->text);
  }
  int length = shape->rank - (t->n - (t->has_ellipsis ? 1 : 0));
  if (length < 0 || (length > 0 && !t->has_ellipsis)) return wrong(m->text, "an operand has another rank");
  if (!t->has_ellipsis) return NULL;
  if (m->ellipsis >= 0 && length != m->ellipsis && (is_output || !m->shapes->broadcasts)) {
    return wrong(m->text, "'...' of different lengths");
  }
  if (length > m->ellipsis) m->ellipsis = length;
  return NULL;
}

static void expand(const maker_t *m, const term_t *t, const weft_shape_t *shape, weft_factor_operand_t *out) {
  int length = shape->rank >= 0 && !t->is_sizes ? shape->rank - (t->n - 1) : m->ellipsis;
  out->is_same = t->is_same;
  out->is_sizes = t->is_sizes;
  for (int i = 0; i < t->n; i++) {
    if (t->items[i] != ELLIPSIS) {
      out->dims[out->rank++] = t->items[i];
      continue;
    }
    for (int k = 0; k < length; k++) out->dims[out->rank++] = WEFT_FACTORS_ELLIPSIS + length - 1 - k;
  }
}

/* The smallest dimension of the factor, those of size 1 that broadcast left aside. */
static void size_factors(maker_t *m) {
  for (int f = 0; f < WEFT_FACTORS; f++) {
    weft_factor_t *factor = &m->out.factors[f];
    bool may_broadcast = f >= WEFT_FACTORS_ELLIPSIS && m->shapes->broadcasts;
    int64_t least = WEFT_UNKNOWN_DIM;
    int num = 0, tensors = 0, unknown = 0;
    factor->is_masked = f < WEFT_FACTORS_ELLIPSIS && m->n.is_masked[f];
    for (int i = 0; i < m->out.num_inputs + m->out.num_outputs; i++) {
      bool is_input = i < m->out.num_inputs;
      int k = is_input ? i : i - m->out.num_inputs;
      int dim = weft_factor_dim(is_input ? &m->out.inputs[k] : &m->out.outputs[k], f);
      const weft_shape_t *shape = is_input ? &m->shapes->inputs[k] : &m->shapes->outputs[k];
      if (dim < 0) continue;
      if (is_input && m->out.inputs[k].is_sizes) {
        num++;
        continue;
      }
      int64_t size = shape->rank < 0 ? WEFT_UNKNOWN_DIM : shape->dims[dim];
      num += is_input;
      tensors += is_input;
      unknown += is_input && size < 0;
      bool is_less =
          least < 0 || (may_broadcast && least == 1) || (size < least && !(may_broadcast && size == 1));
      if (size >= 0 && is_less) least = size;
    }
    factor->is_used = num > 0;
    factor->is_unsure = may_broadcast && tensors > 1 && unknown > 0;
    factor->size = least;
  }
}

/* Dimensions that broadcast become whole; the others must be multiples of their factors. */
static weft_status_t *fit(maker_t *m, weft_factor_operand_t *operand, const weft_shape_t *shape) {
  for (int i = 0; shape->rank >= 0 && !operand->is_sizes && i < operand->rank; i++) {
    int f = operand->dims[i];
    int64_t size = shape->dims[i];
    if (f == WEFT_FACTOR_WHOLE || size < 0) continue;
    int64_t of = m->out.factors[f].size;
    if (f >= WEFT_FACTORS_ELLIPSIS && m->shapes->broadcasts && size == 1 && of != 1) {
      operand->dims[i] = WEFT_FACTOR_WHOLE;
    } else if (of == 0 ? size != 0 : size % of != 0) {
      return wrong(m->text, "a dimension is no multiple of its factor");
    }
  }
  return NULL;
}

static weft_status_t *make(maker_t *m, weft_arena_t *arena) {
  const weft_factor_shapes_t *s = m->shapes;
  for (int side = 0; side < 2; side++) {
    int num = side == 0 ? s->num_inputs : s->num_outputs, extra = num - m->n.num[side];
    bool repeats = false;
    for (int k = 0; k < m->n.num[side]; k++) repeats = repeats || m->n.terms[side][k].is_repeated;
    if (repeats ? extra < -1 : extra != 0) return wrong(m->text, "another number of operands");
    weft_factor_operand_t *operands = weft_arena_calloc(arena, (size_t)num + 1, sizeof *operands);
    if (operands == NULL) return WEFT_NO_MEMORY("factors");
    *(side == 0 ? &m->out.inputs : &m->out.outputs) = operands;
    *(side == 0 ? &m->out.num_inputs : &m->out.num_outputs) = num;
    for (int i = 0; i < num; i++) {
      const weft_shape_t *shape = side == 0 ? &s->inputs[i] : &s->outputs[i];
      WEFT_RETURN_IF_ERROR(measure(m, term_of(&m->n, side, i, num), shape, side == 1));
    }
    for (int i = 0; i < num; i++) {
      const weft_shape_t *shape = side == 0 ? &s->inputs[i] : &s->outputs[i];
      expand(m, term_of(&m->n, side, i, num), shape, &operands[i]);
    }
  }
  size_factors(m);
  for (int i = 0; i < s->num_inputs; i++) {
    WEFT_RETURN_IF_ERROR(fit(m, &m->out.inputs[i], &s->inputs[i]));
  }
  for (int i = 0; i < s->num_outputs; i++) {
    WEFT_RETURN_IF_ERROR(fit(m, &m->out.outputs[i], &s->outputs[i]));
  }
  m->out.reduction = m->n.reduction;
  return NULL;
}

weft_status_t *weft_factors_make(const char *text, const weft_factor_shapes_t *shapes, weft_arena_t *arena,
                                 weft_factors_t *out) {
  maker_t m = {.text = text, .shapes = shapes, .ellipsis = -1};
  WEFT_RETURN_IF_ERROR(parse(text, &m.n));
  WEFT_RETURN_IF_ERROR(make(&m, arena));
  *out = m.out;
  return NULL;
}

int weft_factor_dim(const weft_factor_operand_t *operand, int factor) {
  for (int i = 0; i < operand->rank; i++) {
    if (operand->dims[i] == factor) return i;
  }
  return -1;
}

bool weft_factor_splits(const weft_factors_t *f, int factor) {
  return f->factors[factor].is_used && !f->factors[factor].is_unsure;
}

bool weft_factor_is_even(const weft_factors_t *f, int factor) {
  if (f->reduction != WEFT_FACTOR_MEAN) return false;
  for (int i = 0; i < f->num_outputs; i++) {
    if (!f->outputs[i].is_same && weft_factor_dim(&f->outputs[i], factor) < 0) return true;
  }
  return false;
}
