/* ops/op.h - what each operation is: signature, attributes, properties, shape function, gradient.
 *
 * The table is ops.def, one record per op in TensorFlow's own notation:
 *
 *   WEFT_OP("MatMul", "a: T, b: T -> product: T",
 *           "T: {bfloat16, half, float}, transpose_a: bool = false, transpose_b: bool = false",
 *           infer_matmul, grad_matmul, LINEAR_IN(0) | LINEAR_IN(1), .shard = SHARD(matmul))
 *
 * Behind the flags may follow fields that few ops have: .formula, .linear_together, .sharding, .shard,
 * .fold, .batch, .collective, .removed_in, .removed_why and .absent (weft_op_def_t).
 *
 * Inputs and outputs are "name: type", where type is a dtype, a type attribute (T),
 * "N * T" (N tensors of one type), a list(type) attribute, or "Ref(any of these)".
 * Attributes are "name: kind", where kind is string, int, float, bool, type, shape,
 * tensor, func, list(kind) or a set of allowed values "{a, b}" (dtypes, or texts in single quotes;
 * "numbertype" and "realnumbertype" are short for TensorFlow's sets of that name); then ">= minimum" and "=
 * default". Defaults: 1, 0.5, true, 'text', float (a type), [2,?] or ? (a shape), uint8[2]{1, 2} (a tensor),
 * [a, b] (a list). The text is parsed once, at the first look-up. The table is constant afterwards.
 */
#ifndef WEFT_OPS_OP_H_
#define WEFT_OPS_OP_H_

#include "ops/attr.h"
#include "ops/batch_rule.h"

/* What passes, placement and strategies must know of an op. A pass asks for a property, never for a name. */
#define WEFT_OP_STATEFUL \
  (UINT64_C(1) << 0) /* never fold, never merge with an equal node, keeps its device on extend */
#define WEFT_OP_COMMUTATIVE (UINT64_C(1) << 1)
#define WEFT_OP_AGGREGATE (UINT64_C(1) << 2) /* is_aggregate: Add, AddN */
#define WEFT_OP_ELEMENTWISE \
  (UINT64_C(1) << 3) /* output i depends on elements i of its (broadcast) inputs only */
#define WEFT_OP_UNINIT_OK (UINT64_C(1) << 4) /* allows_uninitialized_input */
#define WEFT_OP_SWITCH (UINT64_C(1) << 5)    /* Switch, RefSwitch, _SwitchN */
#define WEFT_OP_MERGE (UINT64_C(1) << 6)
#define WEFT_OP_ENTER (UINT64_C(1) << 7)
#define WEFT_OP_EXIT (UINT64_C(1) << 8)
#define WEFT_OP_NEXT_ITERATION (UINT64_C(1) << 9)
#define WEFT_OP_LOOP_COND (UINT64_C(1) << 10)
#define WEFT_OP_CONTROL_TRIGGER (UINT64_C(1) << 11)
#define WEFT_OP_SEND (UINT64_C(1) << 12) /* _Send, _HostSend: runs even when dead */
#define WEFT_OP_RECV (UINT64_C(1) << 13)
#define WEFT_OP_CONST (UINT64_C(1) << 14) /* value known from attributes alone */
#define WEFT_OP_VARIABLE \
  (UINT64_C(1) << 15) /* holds state that an optimizer changes: VariableV2, VarHandleOp */
#define WEFT_OP_UPDATE (UINT64_C(1) << 16) /* writes a variable: input 0; see update_grad_input */
#define WEFT_OP_METADATA \
  (UINT64_C(1) << 17) /* Shape, Size, Rank: reads only its input's shape, so it sits with its input */
#define WEFT_OP_BLOCKING (UINT64_C(1) << 18) /* may wait for another op or step: asynchronous kernel */
#define WEFT_OP_FUNCTIONAL \
  (UINT64_C(1) << 19) /* If, While, Case, PartitionedCall: lowered before placement */
#define WEFT_OP_COLOCATE_EXEMPT \
  (UINT64_C(1) << 20) /* its resource inputs do not force it to their device: IdentityN, PartitionedCall */
#define WEFT_OP_CHEAP (UINT64_C(1) << 21) /* constant time: runs inline on the thread that made it ready */
#define WEFT_OP_INTERNAL                                                            \
  (UINT64_C(1) << 22) /* name starts with '_': refused in client graphs, not listed \
                       */
#define WEFT_OP_COMMUNICATION (UINT64_C(1) << 23) /* may honestly fail with UNAVAILABLE */
#define WEFT_OP_ARG (UINT64_C(1) << 24)           /* _Arg */
#define WEFT_OP_RETVAL (UINT64_C(1) << 25)        /* _Retval */
#define WEFT_OP_PLACEHOLDER (UINT64_C(1) << 26)   /* must be fed */
#define WEFT_OP_NOOP (UINT64_C(1) << 27)          /* computes nothing at all */
#define WEFT_OP_DEFAULT \
  (UINT64_C(1) << 28) /* may be fed, else its input is its output: PlaceholderWithDefault */
#define WEFT_OP_IDENTITY (UINT64_C(1) << 29) /* its output is its only input: Identity, RefIdentity */
#define WEFT_OP_BUNDLE (UINT64_C(1) << 30)   /* its outputs are its inputs, one by one: IdentityN */
#define WEFT_OP_READ \
  (UINT64_C(1)       \
   << 31) /* its output is the value of its input or of the variable behind it: Identity, ReadVariableOp */
#define WEFT_OP_COPY (UINT64_C(1) << 32) /* its output is its input, in other memory: DeepCopy */
#define WEFT_OP_VIEW \
  (UINT64_C(1)       \
   << 33) /* its output has the elements of input 0 in their order: Reshape, ExpandDims, Squeeze */
#define WEFT_OP_LOOKUP \
  (UINT64_C(1) << 34) /* rows of input 0, by their numbers in input 1: Gather, GatherV2, ResourceGather */
#define WEFT_OP_LOOKUP_ND \
  (UINT64_C(1) << 35) /* the same with a coordinate for each row: GatherNd, ResourceGatherNd */
#define WEFT_OP_INITIALIZED \
  (UINT64_C(1) << 36) /* whether its variable has a value: IsVariableInitialized, VarIsInitializedOp */
#define WEFT_OP_SHAPE \
  (UINT64_C(1) << 37) /* the shape of its input or of the variable behind it: Shape, VariableShape */
#define WEFT_OP_UNIQUE (UINT64_C(1) << 38) /* each value of input 0 once; output 1 numbers them: Unique */
#define WEFT_OP_SEGMENT_SUM \
  (UINT64_C(1) << 39) /* rows of input 0 added up by the numbers in input 1: UnsortedSegmentSum */
#define WEFT_OP_PARTITION \
  (UINT64_C(1) << 40) /* rows of input 0 divided up by the numbers in input 1: DynamicPartition */
#define WEFT_OP_EFFECT \
  (UINT64_C(1) << 41)                    /* passes input 0 on and has an effect outside of the graph: Print */
#define WEFT_OP_CALL (UINT64_C(1) << 42) /* calls the function in attribute f: PartitionedCall */
#define WEFT_OP_SAVE \
  (UINT64_C(1) << 43) /* writes inputs 3 and on to a checkpoint, by the names in input 1: SaveV2 */
#define WEFT_OP_BATCH_NORM (UINT64_C(1) << 44)      /* FusedBatchNorm and its versions */
#define WEFT_OP_BATCH_NORM_GRAD (UINT64_C(1) << 45) /* ... and their gradients */
#define WEFT_OP_REPLACES                                                             \
  (UINT64_C(1) << 46) /* an update that does not add: ScatterUpdate, ScatterMul, ... \
                       */
#define WEFT_OP_ASSIGN \
  (UINT64_C(1) << 47) /* an update that gives its variable a whole new value: Assign, AssignVariableOp */
#define WEFT_OP_UNREGISTERED                                                                                \
  (UINT64_C(1) << 56)                        /* an op that the table lacks: its nodes are kept, and no step \
                                                can hold them (weft_function_library_t) */
#define WEFT_OP_GRADIENT (UINT64_C(1) << 57) /* of the function in attribute f: SymbolicGradient */
#define WEFT_OP_REMOTE_CALL \
  (UINT64_C(1) << 58) /* calls the function in attribute f on the device that input 0 names: RemoteCall */
#define WEFT_OP_READS_FILES \
  (UINT64_C(1) << 59) /* a data set of the records of files, whose names are input 0: TFRecordDataset */
#define WEFT_OP_MAY_FORWARD \
  (UINT64_C(1) << 60) /* an output may lie in the memory of input 0, or of another of its dtype: Slice */
/* Linear in input i, the others being constant; i < 8. Of sums see linear_together. */
#define WEFT_OP_LINEAR_IN(i) (UINT64_C(1) << (48 + (i)))
enum { WEFT_OP_MAX_LINEAR = 8, WEFT_OP_ALL_INPUTS = 0xffff }; /* ALL_INPUTS: repeated arguments, too */

/* What the members of a group do together, as far as passes must know it. */
typedef enum weft_op_collective {
  WEFT_OP_NO_COLLECTIVE, /* none of these */
  WEFT_OP_ALL_REDUCE,
  WEFT_OP_REDUCE_SCATTER,
  WEFT_OP_ALL_GATHER,
  WEFT_OP_BROADCAST_SEND,
  WEFT_OP_BROADCAST_RECV,
  WEFT_OP_ALL_TO_ALL,
  WEFT_OP_WHOLE_REDUCE, /* one node for all members, which is replaced when it is placed; so is the next */
  WEFT_OP_WHOLE_BROADCAST,
} weft_op_collective_t;

typedef enum weft_arg_kind {
  WEFT_ARG_FIXED,     /* dtype */
  WEFT_ARG_ATTR,      /* one tensor of the type in attribute type_attr */
  WEFT_ARG_REPEATED,  /* number_attr tensors of type_attr, or of dtype if type_attr is empty */
  WEFT_ARG_TYPE_LIST, /* one tensor per element of the list(type) attribute type_attr */
} weft_arg_kind_t;

typedef struct weft_arg_def {
  weft_str_t name;
  weft_arg_kind_t kind;
  bool is_ref;
  int dtype; /* FIXED, or REPEATED without type_attr */
  weft_str_t type_attr, number_attr;
} weft_arg_def_t;

typedef struct weft_attr_def {
  weft_str_t name;
  weft_attr_kind_t kind;
  bool is_list, has_default, has_minimum;
  int64_t minimum;                /* of an int, or of a list's length */
  weft_dtype_set_t allowed_types; /* 0: any. Only for (list of) type */
  const int
      *allowed_type_list; /* the same in the order of the definition, num_allowed of them: for messages */
  const weft_str_t *allowed_strings; /* num_allowed of them; 0: any */
  int num_allowed;
  weft_attr_t default_value;
} weft_attr_def_t;

typedef struct weft_shape_ctx weft_shape_ctx_t; /* ops/shape_inference.h */
typedef struct weft_grad_ctx weft_grad_ctx_t;   /* ops/gradient.h */
typedef weft_status_t *weft_shape_fn(weft_shape_ctx_t *c);
typedef weft_status_t *weft_grad_fn(weft_grad_ctx_t *g);
/* Writes the factor notation of a node; false: it has none (ops/shard.h). */
typedef bool weft_shard_fn(const weft_shape_ctx_t *c, weft_strbuf_t *out);
/* Works the value of output 0 out; false: it is not known (ops/const_fold.h). */
typedef struct weft_fold weft_fold_t;
typedef bool weft_fold_fn(weft_fold_t *f);

typedef struct weft_op_def {
  weft_str_t name;
  const weft_arg_def_t *inputs, *outputs;
  const weft_attr_def_t *attrs;
  int num_inputs, num_outputs, num_attrs; /* of the signature; a REPEATED arg counts once */
  uint64_t flags;                         /* WEFT_OP_... */
  int update_grad_input; /* of a WEFT_OP_UPDATE: which input is the gradient or value; -1: none */
  weft_op_collective_t collective;
  weft_shape_fn *infer_shapes; /* NULL: all outputs unknown */
  int removed_in;              /* GraphDef version from which on the op is refused; 0: never */
  const char *removed_why;     /* "Use TopKV2 instead"; NULL if removed_in is 0 */
  const char *absent;          /* why no device has a kernel for it, for users; NULL: one has, or should */
  weft_grad_fn *gradient;      /* NULL: no gradient; weft_grad_none: declared not differentiable */
  const char *formula;         /* of weft_grad_formula, which says how it reads; else NULL */
  int linear_together;  /* bits: linear in these inputs taken together: terms of a sum, choices; 0: none */
  const char *sharding; /* factor notation (ops/factors.h); NULL: of .shard, or of ELEMENTWISE, or none */
  weft_shard_fn *shard; /* NULL: none */
  weft_fold_fn *fold;   /* its value, where that is made of small known integers; NULL: none */
  weft_batch_rule_t batch;
} weft_op_def_t;

/* The version of GraphDef that we read and write: that of the TensorFlow release whose ops we have (2.19). */
enum { WEFT_GRAPH_DEF_VERSION = 2129 };

/* NULL if unknown. The result is constant and lives for ever. Thread-safe. */
const weft_op_def_t *weft_op_find(weft_str_t name);
/* All ops sorted by name; *out_n of them. */
const weft_op_def_t *const *weft_op_list(int *out_n);
/* By its flag, or because its factor notation has nothing but "...". */
bool weft_op_is_elementwise(const weft_op_def_t *op);
/* Have all results the shape of input 0, whatever that is? */
bool weft_op_keeps_shape(const weft_op_def_t *op);
const weft_attr_def_t *weft_op_attr(const weft_op_def_t *op, weft_str_t name); /* NULL if it has none such */

/* Parses one signature in the notation above into *out; everything lives in `arena`. Used for the table and
 * for tests. Errors: INVALID_ARGUMENT, naming the op and the place. */
WEFT_MUST_CHECK weft_status_t *weft_op_parse(weft_arena_t *arena, const char *name, const char *signature,
                                             const char *attrs, weft_op_def_t *out);

/* The dtypes of a node's inputs and outputs, in flat order, from its op and attributes (defaults filled in).
 * *out_types is in `arena`. Errors: INVALID_ARGUMENT naming the attribute that is missing or wrong. */
WEFT_MUST_CHECK weft_status_t *weft_op_arg_types(weft_arena_t *arena, const weft_arg_def_t *args,
                                                 int num_args, const weft_named_attr_t *attrs, int num_attrs,
                                                 int **out_types, int *out_n);
/* Checks one attribute value against its definition. Errors: INVALID_ARGUMENT as TensorFlow words it, e.g.
 * "Value for attr 'T' of string is not in the list of allowed values: float, double". */
WEFT_MUST_CHECK weft_status_t *weft_op_check_attr(const weft_op_def_t *op, const weft_attr_def_t *def,
                                                  const weft_attr_t *value);
/* "Op<name=MatMul; signature=a:T, b:T -> product:T; attr=...>": as TensorFlow prints an op in messages. */
void weft_op_print(const weft_op_def_t *op, weft_strbuf_t *out);

/* A node of `op` is an error: the gradient was asked for and is declared not to exist (gradient is then NULL
 * or zero). */
weft_grad_fn weft_grad_none;

#endif /* WEFT_OPS_OP_H_ */
