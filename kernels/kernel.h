/* kernels/kernel.h - how an op is computed on a device.
 *
 * A kernel is a row of a table: (op, dtypes, device), its functions and what they need to know of the op.
 * Functions that serve a family of ops take that from `param`; they never look at the op's name.
 *   prepare        once per plan: reads attributes into a private struct
 *   compute        once per execution; must not block; several at once on one state
 *   compute_async  instead of compute, for ops that wait (receive, queues, barriers): calls done exactly
 *                  once. The device's queue has not been made to wait for the fences of the inputs
 *   destroy        frees what prepare made
 * A row with both computes by compute_async where the plan has devices of several memories, else by compute:
 * ops on values that hold tensors, which may lie in any memory. Compute reads ctx->inputs and sets
 * ctx->outputs; the executor owns both arrays.
 */
#ifndef WEFT_KERNELS_KERNEL_H_
#define WEFT_KERNELS_KERNEL_H_

#include <stdatomic.h>

#include "base/cancellation.h"
#include "device/device.h"
#include "ops/op.h"
#include "rendezvous/rendezvous.h"
#include "resources/step_container.h"
#include "resources/variable.h"

/* Sees which attributes a kernel reads of a node: how the check of all tables (tests/kernels) finds names
 * that the op's record lacks. `is_required`: the kernel takes the attribute to be there, and of that kind;
 * else the kind is that which it must have if it is there, WEFT_ATTR_NONE for any. */
typedef struct weft_attr_watch {
  void (*read)(void *arg, const char *name, weft_attr_kind_t kind, bool is_required);
  void *arg;
} weft_attr_watch_t;

typedef struct weft_attr_struct weft_attr_struct_t;         /* kernels/attrs.h */
typedef struct weft_graph_functions weft_graph_functions_t; /* kernels/function_call.h */

/* A node as a kernel sees it: what depends on the graph alone, but for attributes. Lives as long as the plan.
 */
typedef struct weft_kernel_node {
  weft_str_t name, op_name; /* '\0'-ended */
  const weft_op_def_t *op;
  int num_inputs, num_outputs;
  const int *input_types, *output_types; /* may be ref types */
  weft_device_t *device;
  weft_allocator_t
      *allocator;        /* of its outputs: the device's account for what they are; NULL: the device's own */
  const void *param;     /* of its kernel's row */
  uint32_t host_outputs; /* its kernel's */
  weft_str_t session;    /* handle of the session it was registered in; "" if none */
} weft_kernel_node_t;

/* What prepare gets: the node and, for prepare alone, its attributes. Lives as long as the plan, so that a
 * state may point to them; compute functions have no way to look one up by name. */
typedef struct weft_kernel_setup {
  weft_kernel_node_t node;
  const weft_named_attr_t *attrs; /* defaults filled in */
  int num_attrs;
  bool first_half_on_host;         /* so does the first half of the inputs, of ops with two equal lists */
  const weft_attr_struct_t *reads; /* of its kernel's row */
  const weft_attr_watch_t *watch;  /* NULL but when tables are checked */
  const weft_graph_functions_t *functions; /* of its graph; NULL: there are none. Only during prepare */
} weft_kernel_setup_t;

typedef struct weft_collectives weft_collectives_t; /* collectives/collectives.h */
typedef struct weft_negotiators weft_negotiators_t; /* collectives/negotiated/negotiators.h */

/* Whether nodes that are ready are still run. */
typedef struct weft_step_fate {
  atomic_bool has_failed, is_committed;
} weft_step_fate_t;

/* What a step gives to kernels. */
typedef struct weft_step {
  int64_t id;
  weft_rendezvous_t *rendezvous; /* may be NULL: then there is no send or receive */
  weft_canceller_t *canceller;
  weft_step_container_t *container; /* stacks, tensor arrays */
  weft_collectives_t *collectives;  /* of the task; may be NULL: then there are none */
  weft_negotiators_t *negotiators;  /* of the task; may be NULL: then there are no collectives by name */
  weft_tensor_t *const *args;       /* of _Arg */
  weft_tensor_t **results;          /* of _Retval */
  int num_args, num_results;
  int depth;              /* how many calls of functions (kernels/function_call.h) it is within */
  weft_step_fate_t *fate; /* of this part; NULL where it has loops. Set by the executor */
} weft_step_t;

/* For a kernel that begins what may not be left half done: from now on, nodes of this part that get ready
 * run, whatever happens to the step. False: too late, the step has failed already, or there are loops, which
 * could go on for ever. */
static inline bool weft_step_commit(const weft_step_t *step) {
  if (step->fate == NULL) return false;
  atomic_store(&step->fate->is_committed, true);
  return !atomic_load(
      &step->fate->has_failed); /* pairs with weft_run_dropped(): one of the two sees the other's store */
}

typedef struct weft_kernel_ctx weft_kernel_ctx_t;
typedef void weft_kernel_done_fn(weft_kernel_ctx_t *ctx, weft_status_t *status); /* owns status; any thread */

struct weft_kernel_ctx {
  const weft_kernel_node_t *node;
  void *state;           /* what prepare made */
  weft_value_t *inputs;  /* num_inputs; a kernel may take a tensor out (set it to NULL) */
  weft_value_t *outputs; /* num_outputs, all zero; set by the kernel: ownership goes to the executor */
  const weft_step_t *step;
  weft_device_t *device;
  weft_queue_t *queue; /* where to enqueue the work; NULL: compute at once. Inputs may be read by work on it;
                          the fence behind the work is the executor's affair */
  uint64_t frame_id;   /* of the control-flow frame; 0 at top level. Part of rendezvous keys */
  int64_t iteration;
  bool is_dead;                     /* only sends and receives run when an input is dead */
  const weft_kernel_node_t *failed; /* NULL; a kernel of several nodes says which one its failure is of */
  weft_kernel_done_fn *done;        /* of an asynchronous run: call done(ctx, status) once */
};

/* How a checkpoint keeps what prepare made, where that goes on from run to run: a stream of random numbers.
 */
typedef struct weft_kernel_keeping {
  void (*save)(void *state, weft_strbuf_t *out);        /* appends it */
  weft_status_t *(*load)(void *state, weft_str_t from); /* Errors: DATA_LOSS */
} weft_kernel_keeping_t;

typedef struct weft_kernel {
  const char *op;
  const char *type_attr;  /* "T"; NULL: any */
  weft_dtype_set_t types; /* that type_attr may have */
  const char *type_attr2; /* a second constrained attribute, or NULL */
  weft_dtype_set_t types2;
  weft_status_t *(*prepare)(const weft_kernel_setup_t *setup, void **out_state); /* may be NULL */
  weft_status_t *(*compute)(weft_kernel_ctx_t *ctx);
  void (*compute_async)(weft_kernel_ctx_t *ctx);
  void (*destroy)(void *state);         /* may be NULL */
  const weft_kernel_keeping_t *keeping; /* NULL: nothing goes on, or it is not kept */
  const void
      *param; /* what makes these functions serve a family of ops: node->param in prepare and compute */
  uint32_t host_inputs, host_outputs; /* bit i: flat arg i lies in the host's memory, on every
                                        device; bit 31: all args from 31 on */
  bool last_input_on_host;            /* so does the last input, of ops with any number of them */
  bool first_half_on_host;            /* so does the first half of the inputs, of ops with two equal lists */
  const weft_attr_struct_t *reads;    /* of compute functions that are declared by WEFT_ATTRS; else NULL */
  bool joins;    /* several nodes of its op may be one _WeftUpdates, for which the device has a kernel */
  bool forwards; /* output 0 is input 0 and nothing else happens: the executor need not call compute */
} weft_kernel_t;

/* Does flat arg i lie in the host's memory, as `bits` of a row say? */
static inline bool weft_kernel_is_host(uint32_t bits, int i) { return (bits >> (i < 31 ? i : 31) & 1) != 0; }

static inline bool weft_kernel_input_is_host(const weft_kernel_t *k, int i, int num_inputs) {
  return weft_kernel_is_host(k->host_inputs, i) || (k->last_input_on_host && i == num_inputs - 1) ||
         (k->first_half_on_host && i < num_inputs / 2);
}

/* Usual dtype sets. */
#define WEFT_SET_FLOATS \
  (WEFT_DTYPE_BIT(WEFT_F16) | WEFT_DTYPE_BIT(WEFT_BF16) | WEFT_DTYPE_BIT(WEFT_F32) | WEFT_DTYPE_BIT(WEFT_F64))
#define WEFT_SET_SIGNED \
  (WEFT_DTYPE_BIT(WEFT_I8) | WEFT_DTYPE_BIT(WEFT_I16) | WEFT_DTYPE_BIT(WEFT_I32) | WEFT_DTYPE_BIT(WEFT_I64))
#define WEFT_SET_UNSIGNED \
  (WEFT_DTYPE_BIT(WEFT_U8) | WEFT_DTYPE_BIT(WEFT_U16) | WEFT_DTYPE_BIT(WEFT_U32) | WEFT_DTYPE_BIT(WEFT_U64))
#define WEFT_SET_INTS (WEFT_SET_SIGNED | WEFT_SET_UNSIGNED)
#define WEFT_SET_COMPLEX (WEFT_DTYPE_BIT(WEFT_C64) | WEFT_DTYPE_BIT(WEFT_C128))
#define WEFT_SET_REAL (WEFT_SET_FLOATS | WEFT_SET_INTS)
#define WEFT_SET_FIELD (WEFT_SET_FLOATS | WEFT_SET_COMPLEX) /* where one can divide */
#define WEFT_SET_NUMBERS (WEFT_SET_REAL | WEFT_SET_COMPLEX)
#define WEFT_SET_ALL ((weft_dtype_set_t)~0u)
#define WEFT_SET_INDEX (WEFT_DTYPE_BIT(WEFT_I32) | WEFT_DTYPE_BIT(WEFT_I64))

/* ---- the registry: the kernels of every device type ---- */

/* A device type's kernels: tables of kernels by op family, each ended by an entry with op NULL. Constant. */
typedef struct weft_kernel_table {
  const char *device_type;
  const weft_kernel_t *const *families; /* NULL-ended */
  /* May a node of that op, with inputs of `operand` and a result of `result`, be a link of a _WeftChain, for
   * which the table then has a kernel? NULL: no op may. */
  int (*may_link)(const char *op, int operand, int result);
} weft_kernel_table_t;

/* Makes `table`, which must live as long as the process, the kernels of its device type. The tables that
 * tables.def lists need no call. Thread-safe: a look-up on another thread finds all of the table or nothing
 * of it, so register before the first plan that needs it is compiled. Errors: ALREADY_EXISTS: the device type
 * has a table; RESOURCE_EXHAUSTED. */
WEFT_MUST_CHECK weft_status_t *weft_kernel_table_register(const weft_kernel_table_t *table);
/* The table of each device type, in the order of registration, those of tables.def first; NULL behind the
 * last. Thread-safe. */
const weft_kernel_table_t *weft_kernel_table_at(int i);

/* The kernel for a node, or NULL. Logarithmic in the table, linear in the op's kernels. Thread-safe. */
const weft_kernel_t *weft_kernel_find(const char *device_type, weft_str_t op, const weft_named_attr_t *attrs,
                                      int num_attrs);
/* May a node of `op` be a link of a _WeftChain on devices of that type (weft_kernel_table_t)? Thread-safe. */
bool weft_kernel_may_link(const char *device_type, const char *op, int operand, int result);
/* weft_kernel_find in one table; linear in the table. For tables that are not a device's own. */
const weft_kernel_t *weft_kernel_table_find(const weft_kernel_table_t *table, weft_str_t op,
                                            const weft_named_attr_t *attrs, int num_attrs);
/* Any kernel for the op at all? Then *out_types is the union of what type_attr may be (0: any). */
bool weft_kernel_exists(const char *device_type, weft_str_t op, weft_dtype_set_t *out_types);
/* The failure of a step that needs a node for which there is no kernel: INVALID_ARGUMENT in TensorFlow's
 * words, with the kernels that the op has; NOT_FOUND if the op is not registered. */
WEFT_MUST_CHECK weft_status_t *weft_kernel_missing(const weft_op_def_t *op, weft_str_t node,
                                                   const weft_named_attr_t *attrs, int num_attrs);

/* ---- helpers for compute functions ---- */

/* The tensor of input i, lent; never NULL for a live, non-reference input. On a device with queues its bytes
 * lie in the device's memory, but those of host inputs, strings, handles and variants. */
static inline weft_tensor_t *weft_in(const weft_kernel_ctx_t *c, int i) { return c->inputs[i].tensor; }
/* The allocator of outputs; `is_host`: of those that lie in the host's memory on a device with queues. */
weft_allocator_t *weft_out_allocator(const weft_kernel_ctx_t *c, bool is_host);
/* A new output tensor in the device's memory, set as output i; *out is lent. */
WEFT_MUST_CHECK weft_status_t *weft_out_new(weft_kernel_ctx_t *c, int i, weft_dtype_t dtype,
                                            const weft_shape_t *shape, weft_tensor_t **out);
/* Sets output i; consumes `t`. */
static inline void weft_out_set(weft_kernel_ctx_t *c, int i, weft_tensor_t *t) { c->outputs[i].tensor = t; }
/* Like weft_out_new, but takes input `in` over if it is of that dtype and byte size and holds the only
 * reference to it (a reshape of it if the shape differs). The caller then reads and writes the same bytes. */
WEFT_MUST_CHECK weft_status_t *weft_out_forward(weft_kernel_ctx_t *c, int in, int i, weft_dtype_t dtype,
                                                const weft_shape_t *shape, weft_tensor_t **out);
/* Reads a host int32/int64 tensor of any rank 0 or 1 as int64s; `max` entries at most.
 * Errors: INVALID_ARGUMENT naming `what`. */
WEFT_MUST_CHECK weft_status_t *weft_read_ints(const weft_tensor_t *t, const char *what, int max, int64_t *out,
                                              int *out_n);
/* Attributes of a node that its op's record has, of that kind: surely there (the graph was validated). */
int64_t weft_knode_int(const weft_kernel_setup_t *setup, const char *name);
bool weft_knode_bool(const weft_kernel_setup_t *setup, const char *name);
float weft_knode_float(const weft_kernel_setup_t *setup, const char *name);
int weft_knode_type(const weft_kernel_setup_t *setup, const char *name);
weft_str_t weft_knode_string(const weft_kernel_setup_t *setup, const char *name);
/* Attributes that only some ops of a family have: NULL or `absent` for the others. */
const weft_attr_t *weft_knode_attr(const weft_kernel_setup_t *setup, const char *name);
int64_t weft_knode_int_or(const weft_kernel_setup_t *setup, const char *name, int64_t absent);
bool weft_knode_bool_or(const weft_kernel_setup_t *setup, const char *name, bool absent);

#endif /* WEFT_KERNELS_KERNEL_H_ */
