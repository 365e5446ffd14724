/* kernels/cuda/chain.c - _WeftChain: elementwise ops that feed only each other, as one kernel that NVRTC
 * compiles.
 *
 * The source is written from the chain's links, in the functions that the ops' own kernels are made of, and
 * each link's result is rounded to its type, so that a chain gives what its ops give one by one. Inputs are
 * read in the result's shape: what stands before a broadcast is computed as often as it is needed. Chains of
 * the same ops and types share a kernel, which lives as long as the process.
 */
#include "kernels/cuda/chain.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>

#include "device/cuda/compiler.h"
#include "kernels/cuda/common.h"
#include "kernels/cuda/kernels.h"

enum { MAX_LINKS = 64, MAX_OPERANDS = 256, SOURCE_BYTES = 24 << 10 };

/* ---- the ops that may be links ---- */

typedef enum chain_form { UNARY, BROADCAST, EQUAL, SUM, CAST, CHOICE } chain_form_t; /* EQUAL: of one shape */
typedef enum chain_result { SAME, TRUTH } chain_result_t;

typedef struct chain_op {
  const char *name, *function; /* the op; what computes it */
  uint32_t types;              /* of the operands */
  chain_form_t form;
  chain_result_t result;
} chain_op_t;

#define CHAIN_ADD_TYPES (WEFT_CUDA_SET(FLOAT_SIGNED) | UINT32_C(1) << WEFT_CUDA_u8)
static const chain_op_t ops[] = {
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
    {"Mod", "TruncateMod", WEFT_CUDA_SET(FLOAT_INDEX), BROADCAST, SAME},
    {"RealDiv", "Div", WEFT_CUDA_SET(REAL), BROADCAST, SAME},
    {"Round", "Rint", WEFT_CUDA_SET(FLOAT), UNARY, SAME},
    {"SelectV2", "", WEFT_CUDA_SET(REAL_BOOL), CHOICE, SAME},
};
enum { NUM_OPS = sizeof ops / sizeof *ops };

static const chain_op_t *find_op(const char *name) {
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
  const chain_op_t *o = find_op(op);
  if (o == NULL || !may_have(o->types, operand) || type_name(result) == NULL || result == WEFT_CUDA_i32)
    return 0;
  if (o->form != CAST && result != (o->result == TRUTH ? WEFT_CUDA_boolean : operand)) return 0;
  return weft_cuda_can_compile();
}

/* ---- a chain ---- */

typedef struct chain_link {
  const chain_op_t *op;
  int type, operand_type; /* operand_type: of the last operand */
  int num_operands, first_operand;
} chain_link_t;

typedef struct chain_program {
  struct chain_program *next; /* of the list */
  char *source;
  char name[40];
  weft_cuda_function_t function;
} chain_program_t;

typedef struct chain_plan {
  chain_program_t *program; /* lives as long as the process */
  int num_inputs, num_links, num_operands;
  int types[WEFT_CUDA_CHAIN_INPUTS];
  chain_link_t links[MAX_LINKS];
  int16_t operands[MAX_OPERANDS];
} chain_plan_t;

static int type_of(const chain_plan_t *p, int value) {
  return value < p->num_inputs ? p->types[value] : p->links[value - p->num_inputs].type;
}

static WEFT_Failure *bad_chain(const char *why) {
  return weft_cuda_host->failure(WEFT_CUDA_INTERNAL, "a chain that was not asked for: %s", why);
}

static WEFT_Failure *read_links(const WEFT_KernelSetup *s, chain_plan_t *p) {
  WEFT_ChainLink l;
  for (int t = 0; (t = weft_cuda_host->setup_input_type(s, p->num_inputs)) >= 0;) {
    if (p->num_inputs == WEFT_CUDA_CHAIN_INPUTS || type_name(t) == NULL) return bad_chain("its inputs");
    p->types[p->num_inputs++] = t;
  }
  for (; weft_cuda_host->setup_link(s, p->num_links, &l) != 0; p->num_links++) {
    chain_link_t *to = &p->links[p->num_links];
    if (p->num_links == MAX_LINKS || p->num_operands + l.num_operands > MAX_OPERANDS)
      return bad_chain("its length");
    *to = (chain_link_t){find_op(l.op), l.type, 0, l.num_operands, p->num_operands};
    for (int k = 0; k < l.num_operands; k++) {
      if (l.operands[k] < 0 || l.operands[k] >= p->num_inputs + p->num_links)
        return bad_chain("its operands");
      p->operands[p->num_operands++] = (int16_t)l.operands[k];
      to->operand_type = type_of(p, (int)l.operands[k]);
    }
    if (to->op == NULL || !weft_cuda_may_link(l.op, to->operand_type, to->type)) return bad_chain(l.op);
  }
  return p->num_links == 0 ? bad_chain("it is empty") : NULL;
}

/* ---- its source ---- */

typedef struct chain_text {
  char s[SOURCE_BYTES];
  size_t n;
} chain_text_t;

__attribute__((format(printf, 2, 3))) static void print(chain_text_t *t, const char *format, ...) {
  va_list args;
  va_start(args, format);
  const int n = vsnprintf(t->s + t->n, sizeof t->s - t->n, format, args);
  va_end(args);
  t->n = n < 0 || (size_t)n >= sizeof t->s - t->n ? sizeof t->s - 1 : t->n + (size_t)n;
}

static void print_link(chain_text_t *t, const chain_plan_t *p, int i) {
  const chain_link_t *l = &p->links[i];
  const int16_t *from = &p->operands[l->first_operand];
  const char *type = type_name(l->type), *operand = type_name(l->operand_type);
  print(t, "    const comp_t<%s> v%d = ", type, p->num_inputs + i);
  switch (l->op->form) {
    case UNARY: print(t, "rounded<%s>(%s::of<%s>(v%d));\n", type, l->op->function, operand, from[0]); return;
    case BROADCAST:
    case EQUAL:
      print(t, "rounded<%s>(%s::of<%s>(v%d, v%d));\n", type, l->op->function, operand, from[0], from[1]);
      return;
    case CAST: print(t, "converted<%s, %s>(v%d);\n", operand, type, from[0]); return;
    case CHOICE: print(t, "v%d ? v%d : v%d;\n", from[0], from[1], from[2]); return;
    case SUM: /* rounded once, from the first on, as AddN */
      print(t, "rounded<%s>(", type);
      for (int k = 1; k < l->num_operands; k++) print(t, "wrap_add(");
      print(t, "v%d", from[0]);
      for (int k = 1; k < l->num_operands; k++) print(t, ", v%d)", from[k]);
      print(t, ");\n");
      return;
  }
}

/* `name`: of the kernel. */
static void print_source(chain_text_t *t, const chain_plan_t *p, const char *name) {
  const int n = p->num_inputs;
  print(t, "#include \"kernels/cuda/chain.cuh\"\n\nusing namespace weft;\n\n");
  print(t, "WEFT_CUDA_KERNEL(%s, (weft_cuda_chain_t c)) {\n", name);
  for (int k = 0; k < n; k++) {
    const char *type = type_name(p->types[k]);
    print(t, "  const %s *const x%d = (const %s *)c.inputs[%d];\n", type, k, type, k);
  }
  print(t, "  for (int64_t i = first_index(); i < c.n; i += index_step()) {\n");
  print(t, "    int64_t at[%d];\n    locate_in_chain(c, i, at);\n", n);
  for (int k = 0; k < n; k++)
    print(t, "    const comp_t<%s> v%d = load(x%d[at[%d]]);\n", type_name(p->types[k]), k, k, k);
  for (int i = 0; i < p->num_links; i++) print_link(t, p, i);
  const char *result = type_name(p->links[p->num_links - 1].type);
  print(t, "    store(&((%s *)c.out)[i], v%d);\n  }\n}\n", result, n + p->num_links - 1);
}

/* ---- programs ---- */

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

static WEFT_Failure *find_program(const chain_plan_t *plan, chain_program_t **out) {
  chain_text_t *t = calloc(1, sizeof *t);
  char name[40];
  if (t == NULL) return weft_cuda_host->failure(WEFT_CUDA_EXHAUSTED, "out of memory: the source of a chain");
  print_source(t, plan, "weft_chain");
  name_kernel(t, name);
  t->n = 0;
  print_source(t, plan, name);
  if (t->n >= sizeof t->s - 1) {
    free(t);
    return bad_chain("its source is too long");
  }
  pthread_mutex_lock(&mu);
  chain_program_t *p = find_locked(t);
  if (p != NULL && p->name[0] == '\0') {
    memcpy(p->name, name, sizeof p->name);
    p->function = (weft_cuda_function_t)WEFT_CUDA_FUNCTION(p->name);
  }
  pthread_mutex_unlock(&mu);
  free(t);
  if (p == NULL) return weft_cuda_host->failure(WEFT_CUDA_EXHAUSTED, "out of memory: the source of a chain");
  *out = p;
  return NULL;
}

static WEFT_Failure *chain_prepare(const WEFT_KernelSetup *s, const void *param, void **out) {
  (void)param;
  chain_plan_t *p = calloc(1, sizeof *p);
  if (p == NULL) return weft_cuda_host->failure(WEFT_CUDA_EXHAUSTED, "out of memory: preparing a chain");
  WEFT_Failure *f = read_links(s, p);
  if (f == NULL) f = find_program(p, &p->program);
  if (f == NULL)
    f = weft_cuda_compile(weft_cuda_host->setup_device(s), &p->program->function, p->program->source,
                          weft_cuda_chain_headers);
  if (f != NULL) {
    free(p);
    return f;
  }
  *out = p;
  return NULL;
}

/* ---- a run ---- */

/* The result in the bytes of an input of its shape and type, which is read exactly where it is written. */
static WEFT_Failure *make_output(WEFT_KernelContext *c, const chain_plan_t *p,
                                 const weft_cuda_shape_t *shapes, WEFT_TensorView *out) {
  const int result = p->links[p->num_links - 1].type;
  bool are_equal = true;
  for (int k = 1; k < p->num_inputs; k++) {
    are_equal =
        are_equal && shapes[k].rank == shapes[0].rank &&
        memcmp(shapes[k].dims, shapes[0].dims, (size_t)shapes[0].rank * sizeof shapes[0].dims[0]) == 0;
  }
  for (int k = 0; are_equal && k < p->num_inputs; k++) {
    if (p->types[k] == result)
      return weft_cuda_host->output_forwarded(c, k, 0, shapes[0].rank, shapes[0].dims, out);
  }
  return weft_cuda_host->output_inferred(c, 0, out);
}

static bool joins(const weft_cuda_chain_t *c, int outer, int inner) {
  for (int k = 0; k < c->num_inputs; k++) {
    if (c->steps[k][outer] != c->steps[k][inner] * c->dims[inner]) return false;
  }
  return true;
}

/* Joins dimensions that all inputs cross as one, and drops those of 1. */
static void collapse(weft_cuda_chain_t *c) {
  int kept = 0;
  for (int d = 0; d < c->rank; d++) {
    if (c->dims[d] == 1) continue;
    const bool join = kept > 0 && joins(c, kept - 1, d);
    if (!join) kept++;
    c->dims[kept - 1] = join ? c->dims[kept - 1] * c->dims[d] : c->dims[d];
    for (int k = 0; k < c->num_inputs; k++) c->steps[k][kept - 1] = c->steps[k][d];
  }
  c->rank = kept;
  for (int k = 0; kept == 0 && k < c->num_inputs; k++) c->steps[k][0] = 0;
}

static void add_input(weft_cuda_chain_t *c, int k, const void *data, const weft_cuda_shape_t *shape) {
  int64_t step = 1;
  c->inputs[k] = data;
  for (int d = shape->rank - 1; d >= 0; d--) {
    c->steps[k][c->rank - shape->rank + d] = shape->dims[d] == 1 ? 0 : step;
    step *= shape->dims[d];
  }
}

static WEFT_Failure *chain_compute(WEFT_KernelContext *ctx) {
  const chain_plan_t *p = weft_cuda_host->state(ctx);
  weft_cuda_shape_t shapes[WEFT_CUDA_CHAIN_INPUTS];
  const void *data[WEFT_CUDA_CHAIN_INPUTS]; /* stays valid when the output takes one over */
  WEFT_TensorView v, out;
  for (int k = 0; k < p->num_inputs; k++) {
    weft_cuda_host->input(ctx, k, &v);
    shapes[k] = weft_cuda_shape_of(&v);
    data[k] = v.data;
  }
  WEFT_CUDA_TRY(make_output(ctx, p, shapes, &out));
  if (out.count == 0) return NULL;
  weft_cuda_chain_t c = {.n = out.count, .rank = out.rank, .num_inputs = p->num_inputs, .out = out.data};
  for (int d = 0; d < out.rank; d++) c.dims[d] = out.dims[d];
  for (int k = 0; k < p->num_inputs; k++) add_input(&c, k, data[k], &shapes[k]);
  collapse(&c);
  void *args[] = {&c};
  return weft_cuda_launch_over(ctx, &p->program->function, c.n, 1, args);
}

const WEFT_DeviceKernel weft_cuda_chain_kernels[] = {
    {.op = "_WeftChain", .prepare = chain_prepare, .compute = chain_compute, .destroy = free},
    {0},
};
