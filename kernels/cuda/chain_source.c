/* kernels/cuda/chain_source.c - the kernel of a chain: its source, which is written from the chain's links,
 * and what NVRTC makes of it.
 *
 * The source is made of the functions that the ops' own kernels are made of, and each link's result is
 * rounded to its type, so that a chain gives what its ops give one by one. Inputs are read in the result's
 * shape: what stands before a broadcast is computed as often as it is needed. Where a link computes rows,
 * threads share a row of the result: for each such link they first join what it has to know of the row, for
 * which they compute its operand's elements, and these are computed again where they are needed again. Chains
 * of the same ops and types share a kernel, which lives as long as the process.
 */
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>

#include "kernels/cuda/chain.h"

/* ---- the ops that may be links ---- */

/* EQUAL: of one shape; ROWS: of rows.cuh */
typedef enum chain_form { UNARY, BROADCAST, EQUAL, SUM, CAST, CHOICE, ROWS } chain_form_t;
typedef enum chain_result { SAME, TRUTH } chain_result_t;

struct weft_cuda_chain_op {
  const char *name, *function; /* the op; what computes it */
  uint32_t types;              /* of the operands */
  chain_form_t form;
  chain_result_t result;
};

#define CHAIN_ADD_TYPES (WEFT_CUDA_SET(FLOAT_SIGNED) | UINT32_C(1) << WEFT_CUDA_u8)
static const weft_cuda_chain_op_t ops[] = {
#define WEFT_CUDA_UNARY(op, set, result) {#op, #op, WEFT_CUDA_SET(set), UNARY, result},
#include "kernels/cuda/unary.def"
#undef WEFT_CUDA_UNARY
#define WEFT_CUDA_BINARY(op, set, result, shapes) {#op, #op, WEFT_CUDA_SET(set), shapes, result},
#include "kernels/cuda/binary.def"
#undef WEFT_CUDA_BINARY
    {"Add", "AddV2", CHAIN_ADD_TYPES, BROADCAST, SAME},
    {"AddN", "", WEFT_CUDA_SET(FLOAT_I64), SUM, SAME},
    {"Cast", "", WEFT_CUDA_SET(EVERY), CAST, SAME},
    {"Inv", "Reciprocal", WEFT_CUDA_SET(FLOAT_I64), UNARY, SAME},
    {"InvGrad", "ReciprocalGrad", WEFT_CUDA_SET(FLOAT), EQUAL, SAME},
    {"LogSoftmax", "LogSoftmax", WEFT_CUDA_SET(FLOAT), ROWS, SAME},
    {"Mod", "TruncateMod", WEFT_CUDA_SET(FLOAT_INDEX), BROADCAST, SAME},
    {"RealDiv", "Div", WEFT_CUDA_SET(REAL), BROADCAST, SAME},
    {"Round", "Rint", WEFT_CUDA_SET(FLOAT), UNARY, SAME},
    {"Softmax", "Softmax", WEFT_CUDA_SET(FLOAT), ROWS, SAME},
    {"SelectV2", "", WEFT_CUDA_SET(REAL_BOOL), CHOICE, SAME},
};
enum { NUM_OPS = sizeof ops / sizeof *ops };

static const weft_cuda_chain_op_t *find_op(const char *name) {
  for (int i = 0; i < NUM_OPS; i++) {
    if (strcmp(ops[i].name, name) == 0) return &ops[i];
  }
  return NULL;
}

/* The name of an element type in the source; NULL: it has none. */
static const char *type_name(int dtype) {
  switch (dtype) {
#define CASE(f, type) \
  case WEFT_CUDA_##type: return #type;
    WEFT_CUDA_EVERY(CASE, )
#undef CASE
    default: return NULL;
  }
}

/* int32 lies in the host's memory. */
static bool may_have(uint32_t types, int dtype) {
  return dtype > 0 && dtype < 32 && dtype != WEFT_CUDA_i32 && (types & (UINT32_C(1) << dtype)) != 0;
}

int weft_cuda_may_link(const char *op, int operand, int result) {
  const weft_cuda_chain_op_t *o = find_op(op);
  if (o == NULL || !may_have(o->types, operand) || type_name(result) == NULL || result == WEFT_CUDA_i32)
    return 0;
  if (o->form != CAST && result != (o->result == TRUTH ? WEFT_CUDA_boolean : operand)) return 0;
  return weft_cuda_can_compile();
}

/* ---- a chain ---- */

static int type_of(const weft_cuda_chain_plan_t *p, int value) {
  return value < p->num_inputs ? p->types[value] : p->links[value - p->num_inputs].type;
}

static WEFT_Failure *bad_chain(const char *why) {
  return weft_cuda_host->failure(WEFT_CUDA_INTERNAL, "a chain that was not asked for: %s", why);
}

static WEFT_Failure *read_inputs(const WEFT_KernelSetup *s, int num_others, weft_cuda_chain_plan_t *p) {
  int n = -num_others;
  while (weft_cuda_host->setup_input_type(s, n + num_others) >= 0) n++;
  if (n < 0 || n > WEFT_CUDA_CHAIN_INPUTS) return bad_chain("the number of its inputs");
  for (int i = 0; i < n; i++) {
    p->types[i] = weft_cuda_host->setup_input_type(s, i);
    if (type_name(p->types[i]) == NULL) return bad_chain("its inputs");
  }
  p->num_inputs = n;
  return NULL;
}

/* Weft's numbers of the values behind the inputs are as many higher as the node has other inputs. */
static WEFT_Failure *read_links(const WEFT_KernelSetup *s, int num_others, weft_cuda_chain_plan_t *p) {
  WEFT_ChainLink l;
  for (; weft_cuda_host->setup_link(s, p->num_links, &l) != 0; p->num_links++) {
    weft_cuda_chain_link_t *to = &p->links[p->num_links];
    if (p->num_links == WEFT_CUDA_CHAIN_LINKS || p->num_operands + l.num_operands > WEFT_CUDA_CHAIN_OPERANDS)
      return bad_chain("its length");
    *to = (weft_cuda_chain_link_t){.op = find_op(l.op),
                                   .type = l.type,
                                   .num_operands = l.num_operands,
                                   .first_operand = p->num_operands};
    for (int k = 0; k < l.num_operands; k++) {
      const int64_t value = l.operands[k] < p->num_inputs ? l.operands[k] : l.operands[k] - num_others;
      if (l.operands[k] < 0 || value >= p->num_inputs + p->num_links ||
          (l.operands[k] >= p->num_inputs && value < p->num_inputs))
        return bad_chain("its operands");
      p->operands[p->num_operands++] = (int16_t)value;
      to->operand_type = type_of(p, (int)value);
    }
    if (to->op == NULL || !weft_cuda_may_link(l.op, to->operand_type, to->type)) return bad_chain(l.op);
    to->is_by_rows = to->op->form == ROWS;
    p->has_rows |= to->is_by_rows;
  }
  return p->num_links == 0 ? bad_chain("it is empty") : NULL;
}

/* ---- its source ---- */

typedef struct chain_text {
  char *s; /* owned; ended by '\0' */
  size_t n, room;
  bool failed; /* there was no memory */
} chain_text_t;

__attribute__((format(printf, 2, 3))) static void print(chain_text_t *t, const char *format, ...) {
  enum { MOST = 512 }; /* of one call */
  if (t->room - t->n < MOST) {
    char *more = realloc(t->s, t->room * 2 + MOST);
    t->failed |= more == NULL;
    if (more == NULL) return;
    t->s = more;
    t->room = t->room * 2 + MOST;
  }
  va_list args;
  va_start(args, format);
  const int n = vsnprintf(t->s + t->n, t->room - t->n, format, args);
  va_end(args);
  t->n += n < 0 ? 0 : (size_t)n;
}

static void print_sum(chain_text_t *t, const weft_cuda_chain_link_t *l, const int16_t *from) {
  for (int k = 1; k < l->num_operands; k++) print(t, "wrap_add(");
  print(t, "v%d", from[0]);
  for (int k = 1; k < l->num_operands; k++) print(t, ", v%d)", from[k]);
}

static void print_link(chain_text_t *t, const weft_cuda_chain_plan_t *p, int i) {
  const weft_cuda_chain_link_t *l = &p->links[i];
  const int16_t *from = &p->operands[l->first_operand];
  const char *type = type_name(l->type), *operand = type_name(l->operand_type), *function = l->op->function;
  print(t, "      const comp_t<%s> v%d = ", type, p->num_inputs + i);
  switch (l->op->form) {
    case UNARY: print(t, "rounded<%s>(%s::of<%s>(v%d));\n", type, function, operand, from[0]); return;
    case BROADCAST:
    case EQUAL:
      print(t, "rounded<%s>(%s::of<%s>(v%d, v%d));\n", type, function, operand, from[0], from[1]);
      return;
    case CAST: print(t, "converted<%s, %s>(v%d);\n", operand, type, from[0]); return;
    case CHOICE: print(t, "v%d ? v%d : v%d;\n", from[0], from[1], from[2]); return;
    case SUM: /* rounded once, from the first on, as AddN */
      print(t, "rounded<%s>(", type);
      print_sum(t, l, from);
      print(t, ");\n");
      return;
    case ROWS:
      print(t, "rounded<%s>(%s::of(v%d, row_at(c, %d, v%d, r%d)));\n", type, function, from[0], i, from[0],
            i);
      return;
  }
}

/* Value number `value`, behind all that it is computed from. */
static void print_value(chain_text_t *t, const weft_cuda_chain_plan_t *p, int value) {
  bool is_needed[WEFT_CUDA_CHAIN_INPUTS + WEFT_CUDA_CHAIN_LINKS] = {false};
  is_needed[value] = true;
  for (int v = value; v >= p->num_inputs; v--) {
    const weft_cuda_chain_link_t *l = &p->links[v - p->num_inputs];
    for (int k = 0; is_needed[v] && k < l->num_operands; k++)
      is_needed[p->operands[l->first_operand + k]] = true;
  }
  for (int v = 0; v <= value; v++) {
    if (!is_needed[v]) continue;
    if (v >= p->num_inputs) {
      print_link(t, p, v - p->num_inputs);
      continue;
    }
    print(t, "      const comp_t<%s> v%d = load(x%d[at[%d]", type_name(p->types[v]), v, v, v);
    if (p->has_rows) print(t, " + i * c.row_steps[%d]", v);
    print(t, "]);\n");
  }
}

/* What the threads that share a row find out about it, before they compute its elements. */
static void print_rows(chain_text_t *t, const weft_cuda_chain_plan_t *p) {
  for (int i = 0; i < p->num_links; i++) {
    const weft_cuda_chain_link_t *l = &p->links[i];
    if (!l->is_by_rows) continue;
    const int value = p->operands[l->first_operand];
    print(t, "    const auto logit%d = [&](int64_t i) {\n", i);
    print_value(t, p, value);
    print(t, "      return v%d;\n    };\n", value);
    print(t, "    const auto r%d = find_softmax_row(%s, logit%d, c.width, is_row, sharers);\n", i,
          l->type == WEFT_CUDA_f64 ? "doubles" : "floats", i);
  }
}

static bool has_rows_of(const weft_cuda_chain_plan_t *p, bool is_f64) {
  for (int i = 0; i < p->num_links; i++) {
    if (p->links[i].is_by_rows && (p->links[i].type == WEFT_CUDA_f64) == is_f64) return true;
  }
  return false;
}

static void print_loop_over_rows(chain_text_t *t, const weft_cuda_chain_plan_t *p) {
  if (has_rows_of(p, false)) print(t, "  WEFT_CUDA_SHARED(float, floats, WEFT_CUDA_BLOCK);\n");
  if (has_rows_of(p, true)) print(t, "  WEFT_CUDA_SHARED(double, doubles, WEFT_CUDA_BLOCK);\n");
  print(t, "  const int sharers = c.sharers, sharer = (int)threadIdx.x %% sharers;\n");
  print(t, "  const int64_t rows = WEFT_CUDA_BLOCK / sharers;\n");
  print(t, "  for (int64_t begin = blockIdx.x * rows; begin < c.n; begin += gridDim.x * rows) {\n");
  print(t, "    const int64_t row = begin + threadIdx.x / sharers;\n");
  print(t, "    const bool is_row = row < c.n;\n");
  print(t, "    int64_t at[%d];\n    locate_in_chain(c, is_row ? row : begin, at);\n", p->num_inputs);
  print_rows(t, p);
  print(t, "    for (int64_t i = sharer; is_row && i < c.width; i += sharers) {\n");
}

/* `name`: of the kernel. */
static void print_source(chain_text_t *t, const weft_cuda_chain_plan_t *p, const char *name) {
  const int last = p->num_inputs + p->num_links - 1;
  print(t, "#include \"kernels/cuda/chain.cuh\"\n\nusing namespace weft;\n\n");
  print(t, "%s(%s, (weft_cuda_chain_t c)) {\n", p->has_rows ? "WEFT_CUDA_BLOCK_KERNEL" : "WEFT_CUDA_KERNEL",
        name);
  for (int k = 0; k < p->num_inputs; k++) {
    const char *type = type_name(p->types[k]);
    print(t, "  const %s *const x%d = (const %s *)c.inputs[%d];\n", type, k, type, k);
  }
  if (p->has_rows) {
    print_loop_over_rows(t, p);
  } else {
    print(t, "  for (int64_t i = first_index(); i < c.n; i += index_step()) {\n");
    print(t, "    int64_t at[%d];\n    locate_in_chain(c, i, at);\n    {\n", p->num_inputs);
  }
  print_value(t, p, last);
  print(t, "      store(&((%s *)c.out)[%s], v%d);\n    }\n  }\n}\n", type_name(type_of(p, last)),
        p->has_rows ? "row * c.width + i" : "i", last);
}

/* ---- programs ---- */

typedef struct chain_program {
  struct chain_program *next; /* of the list */
  char *source;
  char name[40];
  weft_cuda_function_t function;
} chain_program_t;

static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER;
static chain_program_t *programs; /* guarded by mu; what is in the list stays */

/* Sources differ in the name of their kernel, too, which is a hash of the rest. */
static void name_kernel(const chain_text_t *t, char name[40]) {
  uint64_t h = UINT64_C(0xcbf29ce484222325); /* FNV-1a */
  for (size_t i = 0; i < t->n; i++) h = (h ^ (unsigned char)t->s[i]) * UINT64_C(0x100000001b3);
  snprintf(name, 40, "weft_chain_%016llx", (unsigned long long)h);
}

static chain_program_t *find_locked(const chain_text_t *t) {
  for (chain_program_t *p = programs; p != NULL; p = p->next) {
    if (strcmp(p->source, t->s) == 0) return p;
  }
  chain_program_t *p = calloc(1, sizeof *p);
  if (p != NULL) p->source = calloc(1, t->n + 1);
  if (p == NULL || p->source == NULL) {
    free(p);
    return NULL;
  }
  memcpy(p->source, t->s, t->n);
  p->next = programs;
  programs = p;
  return p;
}

/* *t has the source under a name that all chains have, then under its own. */
static WEFT_Failure *find_in_list(const weft_cuda_chain_plan_t *plan, chain_text_t *t,
                                  chain_program_t **out) {
  char name[40];
  print_source(t, plan, "weft_chain");
  if (!t->failed) name_kernel(t, name);
  t->n = 0;
  if (!t->failed) print_source(t, plan, name);
  chain_program_t *p = NULL;
  if (!t->failed) {
    pthread_mutex_lock(&mu);
    p = find_locked(t);
    if (p != NULL && p->name[0] == '\0') {
      memcpy(p->name, name, sizeof p->name);
      p->function = (weft_cuda_function_t)WEFT_CUDA_FUNCTION(p->name);
    }
    pthread_mutex_unlock(&mu);
  }
  *out = p;
  return p == NULL ? weft_cuda_host->failure(WEFT_CUDA_EXHAUSTED, "out of memory: the source of a chain")
                   : NULL;
}

static WEFT_Failure *compile(const WEFT_KernelSetup *s, weft_cuda_chain_plan_t *plan) {
  chain_text_t t = {.s = NULL};
  chain_program_t *p = NULL;
  WEFT_Failure *f = find_in_list(plan, &t, &p);
  free(t.s);
  if (f != NULL) return f;
  plan->function = &p->function;
  return weft_cuda_compile(weft_cuda_host->setup_device(s), &p->function, p->source, weft_cuda_chain_headers);
}

WEFT_Failure *weft_cuda_chain_make(const WEFT_KernelSetup *s, int num_others, weft_cuda_chain_plan_t **out) {
  weft_cuda_chain_plan_t *p = calloc(1, sizeof *p);
  if (p == NULL) return weft_cuda_host->failure(WEFT_CUDA_EXHAUSTED, "out of memory: preparing a chain");
  WEFT_Failure *f = read_inputs(s, num_others, p);
  if (f == NULL) f = read_links(s, num_others, p);
  if (f == NULL) f = compile(s, p);
  if (f != NULL) {
    free(p);
    return f;
  }
  *out = p;
  return NULL;
}
