/* tests/cuda/rows/row_host.c - what Weft and device/cuda are to a row, in one file. */
#include "tests/cuda/rows/row_host.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/alloc.h"
#include "device/cuda/blas.h"
#include "device/cuda/launch.h"
#include "ops/shape_inference.h"
#include "tests/cuda/emulator/emulator.h"

enum { PAGE = 4096, MAX_BLOCKS = 256, MAX_LAUNCHED = 8192, GARBAGE = 0xcd };
#define MARK ((uintptr_t)1 << 62) /* no address of the host has this bit */

struct WEFT_KernelSetup {
  const weft_kernel_setup_t *setup;
};

typedef struct block {
  char *map;
  size_t map_bytes;
} block_t;

typedef struct arg {
  weft_dtype_t dtype;
  weft_shape_t shape;
  void *data; /* marked, or in the host's memory */
  size_t bytes;
  bool on_host, is_taken;
} arg_t;

struct WEFT_KernelContext {
  weft_row_run_t *run;
  void *state;
  arg_t inputs[WEFT_ROW_MAX_ARGS], outputs[WEFT_ROW_MAX_ARGS];
  block_t blocks[MAX_BLOCKS];
  int num_blocks;
  void *host_scratch; /* one of them; NULL: not asked for */
};

static const weft_emulated_kernel_t *launched[MAX_LAUNCHED];
static int num_launched;

static void fail(const char *what) {
  fprintf(stderr, "row host: %s\n", what);
  abort();
}

/* ---- memory ---- */

static void *marked(void *p) { return (void *)((uintptr_t)p | MARK); }

static void *host_address(void *p) {
  if (p == NULL) return NULL;
  if (((uintptr_t)p & MARK) == 0) fail("a kernel gets an address of the host");
  return (void *)((uintptr_t)p & ~MARK);
}

/* A page without access, the bytes, a page without access. */
static void *new_block(WEFT_KernelContext *c, size_t bytes) {
  if (bytes == 0) return NULL;
  const size_t inner = (bytes + PAGE - 1) / PAGE * PAGE;
  block_t *b = &c->blocks[c->num_blocks];
  if (c->num_blocks == MAX_BLOCKS) fail("too many blocks");
  b->map_bytes = inner + 2 * PAGE;
  b->map = mmap(NULL, b->map_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (b->map == MAP_FAILED || mprotect(b->map + PAGE, inner, PROT_READ | PROT_WRITE) != 0) fail("no memory");
  c->num_blocks++;
  memset(b->map + PAGE, GARBAGE, inner);
  return b->map + PAGE + (c->run->ends_at_guard ? inner - bytes : 0);
}

static void free_blocks(WEFT_KernelContext *c) {
  for (int i = 0; i < c->num_blocks; i++) munmap(c->blocks[i].map, c->blocks[i].map_bytes);
}

/* ---- failures: Weft's statuses ---- */

static WEFT_Failure *failure(int code, const char *format, ...) {
  char text[1024];
  va_list list;
  va_start(list, format);
  vsnprintf(text, sizeof text, format, list);
  va_end(list);
  return (WEFT_Failure *)weft_status_new((weft_code_t)code, __FILE__, __LINE__, "%s", text);
}
static void failure_free(WEFT_Failure *f) { weft_status_free((weft_status_t *)f); }

/* ---- in prepare() ---- */

static const weft_attr_t *attr(const WEFT_KernelSetup *s, const char *name, weft_attr_kind_t kind,
                               bool is_list) {
  const weft_attr_t *a = weft_attr_find(s->setup->attrs, s->setup->num_attrs, name);
  return a != NULL && a->kind == kind && a->is_list == is_list ? a : NULL;
}
static const char *setup_op(const WEFT_KernelSetup *s) { return s->setup->node.op_name.data; }
static const char *setup_name(const WEFT_KernelSetup *s) { return s->setup->node.name.data; }
static int setup_input_type(const WEFT_KernelSetup *s, int i) {
  return i < s->setup->node.num_inputs ? (int)weft_dtype_base(s->setup->node.input_types[i]) : -1;
}
static int setup_output_type(const WEFT_KernelSetup *s, int i) {
  return i < s->setup->node.num_outputs ? (int)weft_dtype_base(s->setup->node.output_types[i]) : -1;
}
static int attr_int(const WEFT_KernelSetup *s, const char *name, int64_t *out) {
  const weft_attr_t *a = attr(s, name, WEFT_ATTR_INT, false);
  if (a != NULL) *out = a->i;
  return a != NULL;
}
static int attr_bool(const WEFT_KernelSetup *s, const char *name, int *out) {
  const weft_attr_t *a = attr(s, name, WEFT_ATTR_BOOL, false);
  if (a != NULL) *out = a->b;
  return a != NULL;
}
static int attr_float(const WEFT_KernelSetup *s, const char *name, float *out) {
  const weft_attr_t *a = attr(s, name, WEFT_ATTR_FLOAT, false);
  if (a != NULL) *out = a->f;
  return a != NULL;
}
static int attr_type(const WEFT_KernelSetup *s, const char *name, int *out) {
  const weft_attr_t *a = attr(s, name, WEFT_ATTR_TYPE, false);
  if (a != NULL) *out = a->type;
  return a != NULL;
}
static int attr_string(const WEFT_KernelSetup *s, const char *name, const char **out, size_t *out_length) {
  const weft_attr_t *a = attr(s, name, WEFT_ATTR_STRING, false);
  if (a == NULL) return 0;
  *out = a->s.data;
  *out_length = a->s.length;
  return 1;
}
static int attr_ints(const WEFT_KernelSetup *s, const char *name, int64_t *out, int max) {
  const weft_attr_t *a = attr(s, name, WEFT_ATTR_INT, true);
  if (a == NULL) return -1;
  for (int i = 0; i < a->n && i < max; i++) out[i] = a->list.ints[i];
  return a->n;
}
static int attr_floats(const WEFT_KernelSetup *s, const char *name, float *out, int max) {
  const weft_attr_t *a = attr(s, name, WEFT_ATTR_FLOAT, true);
  if (a == NULL) return -1;
  for (int i = 0; i < a->n && i < max; i++) out[i] = a->list.floats[i];
  return a->n;
}

/* ---- in compute() ---- */

static void *get_state(const WEFT_KernelContext *c) { return c->state; }
static const void *get_param(const WEFT_KernelContext *c) { return c->run->row->param; }
static const char *node_name(const WEFT_KernelContext *c) { return c->run->setup->node.name.data; }
static int num_inputs(const WEFT_KernelContext *c) { return c->run->num_inputs; }
static int num_outputs(const WEFT_KernelContext *c) { return c->run->setup->node.num_outputs; }

static void view_of(const arg_t *a, WEFT_TensorView *out) {
  *out = (WEFT_TensorView){.dtype = (int)a->dtype,
                           .rank = a->shape.rank,
                           .dims = a->shape.dims,
                           .count = weft_shape_count(&a->shape),
                           .bytes = a->bytes,
                           .data = a->data,
                           .on_host = a->on_host};
}
static void input(WEFT_KernelContext *c, int i, WEFT_TensorView *out) {
  if (c->inputs[i].is_taken) fail("asks for an input that an output has taken over");
  view_of(&c->inputs[i], out);
}

static void new_output(WEFT_KernelContext *c, int i, const weft_shape_t *shape, WEFT_TensorView *out) {
  arg_t *a = &c->outputs[i];
  a->dtype = weft_dtype_base(c->run->setup->node.output_types[i]);
  a->shape = *shape;
  a->bytes = (size_t)weft_shape_count(shape) * weft_dtype_size(a->dtype);
  a->on_host = weft_kernel_is_host(c->run->row->host_outputs, i);
  a->data = new_block(c, a->bytes);
  if (!a->on_host && a->data != NULL) a->data = marked(a->data);
  view_of(a, out);
}

static weft_shape_t shape_of(int rank, const int64_t *dims) {
  weft_shape_t s = {.rank = rank};
  for (int d = 0; d < rank; d++) s.dims[d] = dims[d];
  return s;
}

static WEFT_Failure *output(WEFT_KernelContext *c, int i, int rank, const int64_t *dims,
                            WEFT_TensorView *out) {
  const weft_shape_t s = shape_of(rank, dims);
  new_output(c, i, &s, out);
  return NULL;
}

static WEFT_Failure *output_inferred(WEFT_KernelContext *c, int i, WEFT_TensorView *out) {
  const weft_kernel_setup_t *setup = c->run->setup;
  const weft_kernel_node_t *n = &setup->node;
  weft_shape_t inputs[WEFT_ROW_MAX_ARGS], outputs[WEFT_ROW_MAX_ARGS];
  weft_handle_data_t handles[WEFT_ROW_MAX_ARGS], out_handles[WEFT_ROW_MAX_ARGS];
  const weft_tensor_t *values[WEFT_ROW_MAX_ARGS];
  for (int k = 0; k < n->num_inputs; k++) {
    inputs[k] = c->inputs[k].shape;
    values[k] = c->inputs[k].on_host ? c->run->inputs[k] : NULL;
    handles[k] = WEFT_NO_HANDLE_DATA;
    if (n->input_types[k] == WEFT_RESOURCE) {
      handles[k].shape = inputs[k];
      handles[k].dtype = c->inputs[k].dtype;
      inputs[k] = WEFT_SCALAR;
    }
  }
  for (int k = 0; k < n->num_outputs; k++) {
    outputs[k] = WEFT_UNKNOWN_SHAPE;
    out_handles[k] = WEFT_NO_HANDLE_DATA;
  }
  weft_shape_ctx_t s = {.op = n->op,
                        .node_name = n->name,
                        .attrs = setup->attrs,
                        .num_attrs = setup->num_attrs,
                        .num_inputs = n->num_inputs,
                        .num_outputs = n->num_outputs,
                        .input_types = n->input_types,
                        .output_types = n->output_types,
                        .inputs = inputs,
                        .values = values,
                        .outputs = outputs,
                        .handles = handles,
                        .out_handles = out_handles};
  weft_status_t *status = n->op->infer_shapes(&s);
  if (status != NULL) return (WEFT_Failure *)status;
  if (weft_shape_count(&outputs[i]) < 0 || outputs[i].rank < 0)
    return failure(WEFT_INTERNAL, "output %d of %s depends on values in the device's memory", i,
                   n->op_name.data);
  new_output(c, i, &outputs[i], out);
  return NULL;
}

static WEFT_Failure *output_forwarded(WEFT_KernelContext *c, int in, int i, int rank, const int64_t *dims,
                                      WEFT_TensorView *out) {
  const weft_shape_t s = shape_of(rank, dims);
  arg_t *a = &c->inputs[in];
  new_output(c, i, &s, out);
  if (!c->run->may_forward || a->dtype != c->outputs[i].dtype || a->bytes != c->outputs[i].bytes) return NULL;
  c->outputs[i].data = a->data;
  a->is_taken = true;
  memset(&a->shape, GARBAGE, sizeof a->shape); /* that the row's view points to */
  view_of(&c->outputs[i], out);
  return NULL;
}

static WEFT_Failure *output_is_input(WEFT_KernelContext *c, int in, int i, int rank, const int64_t *dims) {
  c->outputs[i] = c->inputs[in];
  c->outputs[i].shape = shape_of(rank, dims);
  if (weft_shape_count(&c->outputs[i].shape) != weft_shape_count(&c->inputs[in].shape))
    fail("output_is_input: another number of elements");
  return NULL;
}

static WEFT_Failure *scratch(WEFT_KernelContext *c, size_t bytes, void **out) {
  void *p = new_block(c, bytes);
  *out = p == NULL ? NULL : marked(p);
  return NULL;
}

static WEFT_Failure *host_scratch(WEFT_KernelContext *c, size_t bytes, void **out) {
  if (c->run->row->finish == NULL) fail("host_scratch() of a row without finish()");
  if (c->host_scratch == NULL) {
    c->host_scratch = new_block(c, bytes);
    memset(c->host_scratch, 0, bytes);
  }
  *out = c->host_scratch;
  return NULL;
}

/* The first run of the node's stream. */
static WEFT_Failure *random_take(WEFT_KernelContext *c, uint64_t blocks, uint64_t *out_key,
                                 uint64_t out_counter[2]) {
  const WEFT_KernelSetup s = {c->run->setup};
  int64_t seed = 0, seed2 = 0;
  (void)blocks;
  if (!attr_int(&s, "seed", &seed) || !attr_int(&s, "seed2", &seed2)) fail("a node without seeds");
  *out_key = (uint64_t)seed;
  out_counter[0] = 0;
  out_counter[1] = (uint64_t)seed2;
  return NULL;
}

static const WEFT_DeviceHost host = {.size = sizeof host,
                                     .major = WEFT_DEVICE_MAJOR,
                                     .minor = WEFT_DEVICE_MINOR,
                                     .failure = failure,
                                     .failure_free = failure_free,
                                     .setup_op = setup_op,
                                     .setup_name = setup_name,
                                     .setup_input_type = setup_input_type,
                                     .setup_output_type = setup_output_type,
                                     .attr_int = attr_int,
                                     .attr_bool = attr_bool,
                                     .attr_float = attr_float,
                                     .attr_type = attr_type,
                                     .attr_string = attr_string,
                                     .attr_ints = attr_ints,
                                     .attr_floats = attr_floats,
                                     .state = get_state,
                                     .param = get_param,
                                     .node_name = node_name,
                                     .num_inputs = num_inputs,
                                     .num_outputs = num_outputs,
                                     .input = input,
                                     .output = output,
                                     .output_inferred = output_inferred,
                                     .output_forwarded = output_forwarded,
                                     .output_is_input = output_is_input,
                                     .scratch = scratch,
                                     .random_take = random_take,
                                     .host_scratch = host_scratch};

const WEFT_DeviceHost *weft_cuda_host;
void weft_row_host_init(void) { weft_cuda_host = &host; }

/* ---- device/cuda/launch.h ---- */

WEFT_Failure *weft_cuda_launch(WEFT_KernelContext *c, weft_cuda_function_t *f, const weft_cuda_geometry_t *g,
                               void **args) {
  (void)c;
  if (f == NULL) fail("there is no kernel for this type");
  const weft_emulated_kernel_t *k = weft_emulated_kernel(f->name);
  if (k == NULL) return failure(WEFT_NOT_FOUND, "no kernel %s", f->name);
  if (!weft_row_was_launched(f->name) && num_launched < MAX_LAUNCHED) launched[num_launched++] = k;
  void *closure = k->capture(args, host_address);
  if (closure == NULL) fail("no memory");
  weft_emulated_run(k, closure, g->grid, g->block, g->shared_bytes);
  return NULL;
}

bool weft_row_was_launched(const char *kernel) {
  for (int i = 0; i < num_launched; i++) {
    if (strcmp(launched[i]->name, kernel) == 0) return true;
  }
  return false;
}

WEFT_Failure *weft_cuda_fill(WEFT_KernelContext *c, void *to, int byte, size_t bytes) {
  (void)c;
  if (bytes > 0) memset(host_address(to), byte, bytes);
  return NULL;
}

WEFT_Failure *weft_cuda_copy(WEFT_KernelContext *c, void *to, const void *from, size_t bytes) {
  (void)c;
  const bool on_device = ((uintptr_t)from & MARK) != 0;
  if (bytes > 0) memcpy(host_address(to), on_device ? host_address((void *)(uintptr_t)from) : from, bytes);
  return NULL;
}

/* What is read is not there before finish(). */
static struct read {
  void *to, *from;
  size_t bytes;
} reads[16];
static int num_reads;

WEFT_Failure *weft_cuda_read(WEFT_KernelContext *c, void *to, const void *from, size_t bytes) {
  (void)c;
  if (((uintptr_t)to & MARK) != 0) fail("a read into the device's memory");
  if (num_reads == sizeof reads / sizeof *reads) fail("too many reads");
  if (bytes > 0) reads[num_reads++] = (struct read){to, host_address((void *)(uintptr_t)from), bytes};
  return NULL;
}

static void do_reads(void) {
  for (int i = 0; i < num_reads; i++) memcpy(reads[i].to, reads[i].from, reads[i].bytes);
  num_reads = 0;
}

int weft_cuda_num_processors(WEFT_KernelContext *c) { return c->run->num_processors; }

/* ---- device/cuda/blas.h ---- */

static double number_at(int dtype, const void *p, int64_t i) {
  switch (dtype) {
    case WEFT_F16: return (double)weft_f16_to_f32(((const uint16_t *)p)[i]);
    case WEFT_BF16: return (double)weft_bf16_to_f32(((const uint16_t *)p)[i]);
    case WEFT_F32: return (double)((const float *)p)[i];
    default: return ((const double *)p)[i];
  }
}

static void put_number(int dtype, void *p, int64_t i, double v) {
  switch (dtype) {
    case WEFT_F16: ((uint16_t *)p)[i] = weft_f32_to_f16((float)v); break;
    case WEFT_BF16: ((uint16_t *)p)[i] = weft_f32_to_bf16((float)v); break;
    case WEFT_F32: ((float *)p)[i] = (float)v; break;
    default: ((double *)p)[i] = v; break;
  }
}

WEFT_Failure *weft_cuda_multiply(WEFT_KernelContext *c, const weft_cuda_product_t *p, const void *a,
                                 const void *b, void *out) {
  const int64_t a_down = p->transpose_a ? p->k : p->m, a_across = p->transpose_a ? p->m : p->k;
  const int64_t b_down = p->transpose_b ? p->n : p->k, b_across = p->transpose_b ? p->k : p->n;
  const int64_t a_row = p->a_row == 0 ? a_across : p->a_row, b_row = p->b_row == 0 ? b_across : p->b_row,
                out_row = p->out_row == 0 ? p->n : p->out_row;
  const int64_t a_step = p->same_a ? 0 : p->a_step == 0 ? a_down * a_row : p->a_step;
  const int64_t b_step = p->same_b ? 0 : p->b_step == 0 ? b_down * b_row : p->b_step;
  const int64_t out_step = p->out_step == 0 ? p->m * out_row : p->out_step;
  (void)c;
  if (a_row < a_across || b_row < b_across || out_row < p->n) fail("rows overlap");
  const void *x = host_address((void *)(uintptr_t)a), *y = host_address((void *)(uintptr_t)b);
  void *z = host_address(out);
  for (int64_t i = 0; i < p->batch * p->m * p->n; i++) {
    const int64_t at = i / (p->m * p->n), row = i / p->n % p->m, column = i % p->n;
    double sum = 0;
    for (int64_t k = 0; k < p->k; k++) {
      sum += number_at(p->dtype, x, at * a_step + (p->transpose_a ? k * a_row + row : row * a_row + k)) *
             number_at(p->dtype, y, at * b_step + (p->transpose_b ? column * b_row + k : k * b_row + column));
    }
    put_number(p->dtype, z, at * out_step + row * out_row + column, sum);
  }
  return NULL;
}

/* ---- a run ---- */

static bool type_fits(const weft_kernel_setup_t *s, const char *name, uint32_t types) {
  if (name == NULL) return true;
  const weft_attr_t *a = weft_attr_find(s->attrs, s->num_attrs, name);
  return a != NULL && a->kind == WEFT_ATTR_TYPE && (types >> a->type & 1) != 0;
}

const WEFT_DeviceKernel *weft_row_find(const WEFT_DeviceKernel *table, const weft_kernel_setup_t *setup) {
  for (const WEFT_DeviceKernel *k = table; k->op != NULL; k++) {
    if (weft_str_is(setup->node.op_name, k->op) && type_fits(setup, k->type_attr, k->types) &&
        type_fits(setup, k->type_attr2, k->types2))
      return k;
  }
  return NULL;
}

static void make_input(WEFT_KernelContext *c, int i) {
  const weft_tensor_t *t = c->run->inputs[i];
  arg_t *a = &c->inputs[i];
  *a = (arg_t){.dtype = t->dtype, .shape = t->shape, .bytes = t->bytes};
  const bool may_be = c->run->row->updates != 0 || (c->run->row->reads_variable != 0 && i == 0);
  const bool is_variable = may_be && (c->run->setup->node.input_types[i] > WEFT_REF ||
                                      c->run->setup->node.input_types[i] == WEFT_RESOURCE);
  a->on_host = (weft_kernel_is_host(c->run->row->host_inputs, i) ||
                (c->run->row->last_input_on_host != 0 && i == c->run->num_inputs - 1) ||
                (c->run->row->first_half_on_host != 0 && i < c->run->num_inputs / 2)) &&
               !is_variable;
  a->data = new_block(c, t->bytes);
  if (t->bytes > 0) memcpy(a->data, t->data, t->bytes);
  if (!a->on_host && a->data != NULL) a->data = marked(a->data);
}

static weft_status_t *copy_out(const arg_t *a, weft_tensor_t **out) {
  WEFT_RETURN_IF_ERROR(weft_tensor_new(a->dtype, &a->shape, NULL, out));
  if (a->bytes > 0) memcpy((*out)->data, a->on_host ? a->data : host_address(a->data), a->bytes);
  return NULL;
}

weft_status_t *weft_row_run(weft_row_run_t *r) {
  const WEFT_KernelSetup setup = {r->setup};
  const weft_kernel_node_t *n = &r->setup->node;
  WEFT_KernelContext *c = weft_calloc(1, sizeof *c);
  if (c == NULL) return WEFT_NO_MEMORY("a row");
  c->run = r;
  for (int i = 0; i < r->num_inputs; i++) make_input(c, i);
  weft_status_t *s = NULL;
  if (r->row->prepare != NULL) s = (weft_status_t *)r->row->prepare(&setup, r->row->param, &c->state);
  const bool is_prepared = s == NULL;
  if (s == NULL) s = (weft_status_t *)r->row->compute(c);
  do_reads();
  if (s == NULL && r->row->finish != NULL) s = (weft_status_t *)r->row->finish(c);
  if (is_prepared && r->row->destroy != NULL) r->row->destroy(c->state);
  for (int i = 0; s == NULL && r->row->updates == 0 && i < n->num_outputs; i++)
    s = copy_out(&c->outputs[i], &r->outputs[i]);
  for (int i = 0; s == NULL && r->row->updates != 0 && i < r->num_inputs; i++) {
    if (n->input_types[i] > WEFT_REF || n->input_types[i] == WEFT_RESOURCE)
      s = copy_out(&c->inputs[i], &r->updated[i]);
  }
  free_blocks(c);
  weft_free(c);
  return s;
}
