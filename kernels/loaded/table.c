/* kernels/loaded/table.c - makes the table of a loaded type of device.
 *
 * All rows stand in one array, because the registry orders rows of one op by where they are: those of the
 * library first.
 */
#include <stddef.h>
#include <string.h>

#include "base/alloc.h"
#include "kernels/cpu/random/philox.h"
#include "kernels/host/host_kernels.h"
#include "kernels/loaded/context.h"
#include "kernels/loaded/loaded_kernels.h"

/* ---- the library's rows ---- */

/* Ops with a stream of random numbers have two seeds. */
static bool has_seeds(const weft_op_def_t *op) {
  for (int i = 0; op != NULL && i < op->num_attrs; i++) {
    if (weft_str_is(op->attrs[i].name, "seed2")) return true;
  }
  return false;
}

static void save_stream(void *state, weft_strbuf_t *out) {
  weft_random_stream_keeping.save(((weft_loaded_state_t *)state)->stream, out);
}
static weft_status_t *load_stream(void *state, weft_str_t from) {
  return weft_random_stream_keeping.load(((weft_loaded_state_t *)state)->stream, from);
}
/* The same bytes as those of the CPU's rows, so that a checkpoint fits a node on either. */
static const weft_kernel_keeping_t stream_keeping = {.save = save_stream, .load = load_stream};

static weft_status_t *prepare(const weft_kernel_setup_t *setup, void **out) {
  const WEFT_DeviceKernel *row = setup->node.param;
  weft_loaded_state_t *s = weft_calloc(1, sizeof *s);
  if (s == NULL) return WEFT_NO_MEMORY("preparing %.*s", WEFT_STR_ARGS(setup->node.name));
  *s = (weft_loaded_state_t){.row = row, .attrs = setup->attrs, .num_attrs = setup->num_attrs};
  if (has_seeds(setup->node.op)) {
    weft_status_t *status = weft_random_stream_prepare(setup, &s->stream);
    if (status != NULL) {
      weft_free(s);
      return status;
    }
  }
  WEFT_Failure *f = row->prepare == NULL
                        ? NULL
                        : row->prepare((const WEFT_KernelSetup *)(const void *)setup, row->param, &s->own);
  if (f != NULL) {
    weft_random_stream_destroy(s->stream);
    weft_free(s);
    return weft_status_of_failure(f);
  }
  *out = s;
  return NULL;
}

static void destroy(void *state) {
  weft_loaded_state_t *s = state;
  if (s->row->destroy != NULL) s->row->destroy(s->own);
  weft_random_stream_destroy(s->stream);
  weft_free(s);
}

static weft_status_t *compute(weft_kernel_ctx_t *ctx) {
  WEFT_KernelContext c = {.ctx = ctx, .state = ctx->state};
  weft_status_t *s = weft_status_of_failure(c.state->row->compute(&c));
  weft_loaded_context_deinit(&c);
  return s;
}

/* Inputs of a _WeftUpdates lie in the device's memory, but for handles. */
static bool may_join(const WEFT_DeviceKernel *k) {
  return k->updates != 0 && k->compute_together != NULL && k->host_inputs == 0 &&
         k->last_input_on_host == 0 && k->first_half_on_host == 0;
}

static weft_kernel_t row_of(const WEFT_DeviceKernel *k) {
  return (weft_kernel_t){.op = k->op,
                         .type_attr = k->type_attr,
                         .types = k->types,
                         .type_attr2 = k->type_attr2,
                         .types2 = k->types2,
                         .prepare = prepare,
                         .compute = k->updates != 0          ? weft_loaded_update
                                    : k->reads_variable != 0 ? weft_loaded_read
                                    : k->finish != NULL      ? NULL
                                                             : compute,
                         .compute_async = k->finish != NULL ? weft_loaded_begin : NULL,
                         .keeping = has_seeds(weft_op_find(weft_str(k->op))) ? &stream_keeping : NULL,
                         .destroy = destroy,
                         .param = k,
                         .host_inputs = k->host_inputs,
                         .host_outputs = k->host_outputs,
                         .last_input_on_host = k->last_input_on_host != 0,
                         .first_half_on_host = k->first_half_on_host != 0,
                         .joins = may_join(k)};
}

/* ---- the CPU's ---- */

typedef struct generic_row {
  const char *op, *attr;
  weft_dtype_set_t types;
  uint32_t host_inputs, host_outputs;
} generic_row_t;

enum { NONE = 0, FIRST = 1, SECOND = 2, THIRD = 4 };
#define ALL UINT32_MAX
#define REST (UINT32_MAX - FIRST) /* all but the first */
#define ANY WEFT_SET_ALL
#define I32 WEFT_DTYPE_BIT(WEFT_I32)
#define DEVICE ((WEFT_SET_NUMBERS | WEFT_DTYPE_BIT(WEFT_BOOL)) & ~I32) /* I32 too, if it is on the device */
static const generic_row_t generic[] = {
#define WEFT_GENERIC(op, attr, types, host_inputs, host_outputs) {op, attr, types, host_inputs, host_outputs},
#include "kernels/loaded/generic.def"
#undef WEFT_GENERIC
};
enum { NUM_GENERIC = sizeof generic / sizeof generic[0] };

/* Leaves the row those types; false: it has none of them. */
static bool restrict_types(weft_kernel_t *k, const char *attr, weft_dtype_set_t types) {
  if (attr == NULL) return true;
  if (k->type_attr == NULL) {
    k->type_attr = attr;
    k->types = types;
    return true;
  }
  if (strcmp(k->type_attr, attr) == 0) return (k->types &= types) != 0;
  if (k->type_attr2 == NULL) {
    k->type_attr2 = attr;
    k->types2 = types;
    return true;
  }
  return strcmp(k->type_attr2, attr) == 0 && (k->types2 &= types) != 0;
}

static bool writes_array(const char *op) {
  static const char *const ops[] = {"TensorArrayScatterV3", "TensorArraySplitV3", "TensorArrayWriteV3"};
  for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) {
    if (strcmp(op, ops[i]) == 0) return true;
  }
  return false;
}

/* Writes what `g` makes of the CPU's rows to `out` (NULL: only counts); returns how many. */
static int copy_generic(const generic_row_t *g, bool int32_on_device, weft_kernel_t *out) {
  const weft_kernel_table_t *cpu = weft_kernel_table_at(0);
  const weft_dtype_set_t types = g->types == DEVICE && int32_on_device ? DEVICE | I32 : g->types;
  int n = 0;
  if (g->types == I32 && int32_on_device) return 0;
  for (int f = 0; cpu->families[f] != NULL; f++) {
    for (const weft_kernel_t *k = cpu->families[f]; k->op != NULL; k++) {
      weft_kernel_t row = *k;
      if (strcmp(k->op, g->op) != 0 || !restrict_types(&row, g->attr, types)) continue;
      row.host_inputs = g->host_inputs;
      row.host_outputs = g->host_outputs;
      if (writes_array(g->op)) row.param = &weft_loaded_add;
      if (out != NULL) out[n] = row;
      n++;
    }
  }
  return n;
}

/* ---- the table ---- */

static const weft_kernel_t *const families[] = {
    weft_control_flow_kernels, weft_graph_kernels,       weft_sendrecv_kernels,
    weft_args_kernels,         weft_memory_copy_kernels, NULL,
};

typedef struct loaded_table {
  weft_kernel_table_t base; /* first */
  const weft_kernel_t *families[2];
  WEFT_DeviceKernel *own; /* owned: the library's rows, in this version's form */
  weft_kernel_t rows[];
} loaded_table_t;

/* Rows of 1.0 end with `updates`; their distance is what a compiler makes of that. */
enum {
  SIZE_1_0 = offsetof(WEFT_DeviceKernel, updates) + sizeof(int),
  STEP_1_0 = (SIZE_1_0 + sizeof(void *) - 1) / sizeof(void *) * sizeof(void *)
};

/* Row i of the library; members that it has not are zero. */
static WEFT_DeviceKernel own_row(const WEFT_DeviceLibrary *l, int i) {
  const size_t step = l->kernel_size == 0 ? STEP_1_0 : l->kernel_size;
  const size_t size = l->kernel_size == 0 ? SIZE_1_0 : l->kernel_size;
  WEFT_DeviceKernel k = {.op = NULL};
  memcpy(&k, (const char *)l->kernels + (size_t)i * step, size < sizeof k ? size : sizeof k);
  return k;
}

static weft_status_t *check(const WEFT_DeviceLibrary *l, int *out_n) {
  int n = 0;
  if (l->kernel_size == 0 && l->kernels != NULL && l->minor > 0)
    return WEFT_ERROR(INVALID_ARGUMENT, "its kernel_size, the size of its rows, is 0");
  if (l->kernel_size != 0 && l->kernel_size < SIZE_1_0)
    return WEFT_ERROR(INVALID_ARGUMENT, "its WEFT_DeviceKernel has a size of %zu bytes", l->kernel_size);
  while (l->kernels != NULL) {
    const WEFT_DeviceKernel k = own_row(l, n);
    if (k.op == NULL) break;
    if (k.compute == NULL) return WEFT_ERROR(INVALID_ARGUMENT, "its kernel for %s has no function", k.op);
    if (k.finish != NULL && (k.updates != 0 || k.reads_variable != 0))
      return WEFT_ERROR(INVALID_ARGUMENT, "its kernel for %s, of variables, has a finish()", k.op);
    n++;
  }
  *out_n = n;
  return NULL;
}

/* Rows of Weft's own for any device. */
static const weft_kernel_t *const single[] = {&weft_loaded_updates_kernel, &weft_loaded_assign_kernel,
                                              &weft_loaded_add_lists_kernel};
enum { NUM_SINGLE = sizeof single / sizeof single[0] };

weft_status_t *weft_loaded_kernels_create(const char *type, const WEFT_DeviceLibrary *library,
                                          weft_kernel_table_t **out) {
  const bool int32_on_device = library->int32_on_device != 0;
  int num_own = 0, n = 0;
  WEFT_RETURN_IF_ERROR(check(library, &num_own));
  n = num_own + NUM_SINGLE;
  for (int g = 0; g < NUM_GENERIC; g++) n += copy_generic(&generic[g], int32_on_device, NULL);
  for (int f = 0; families[f] != NULL; f++) {
    for (const weft_kernel_t *k = families[f]; k->op != NULL; k++) n++;
  }
  loaded_table_t *t = weft_calloc(1, sizeof *t + ((size_t)n + 1) * sizeof t->rows[0]);
  if (t != NULL) t->own = weft_calloc((size_t)num_own + 1, sizeof *t->own);
  if (t == NULL || t->own == NULL) {
    weft_free(t);
    return WEFT_NO_MEMORY("the kernels of devices of type %s", type);
  }
  n = 0;
  for (; n < num_own; n++) {
    t->own[n] = own_row(library, n);
    t->rows[n] = row_of(&t->own[n]);
  }
  for (int i = 0; i < NUM_SINGLE; i++) {
    t->rows[n] = *single[i];
    if (single[i] == &weft_loaded_assign_kernel) t->rows[n].types = int32_on_device ? DEVICE | I32 : DEVICE;
    n++;
  }
  for (int g = 0; g < NUM_GENERIC; g++) n += copy_generic(&generic[g], int32_on_device, &t->rows[n]);
  for (int f = 0; families[f] != NULL; f++) {
    for (const weft_kernel_t *k = families[f]; k->op != NULL; k++) t->rows[n++] = *k;
  }
  t->families[0] = t->rows;
  t->base =
      (weft_kernel_table_t){.device_type = type, .families = t->families, .may_link = library->may_link};
  *out = &t->base;
  return NULL;
}

void weft_loaded_kernels_destroy(weft_kernel_table_t *table) {
  loaded_table_t *t = (loaded_table_t *)(void *)table;
  if (t == NULL) return;
  weft_free(t->own);
  weft_free(t);
}
