/* kernels/cpu/dataset/dataset.h - data sets: what a pipeline's elements are made from, and how they are gone
 * through.
 *
 * A data set is an immutable value, in a variant: its class, the class's own parameters, and the data sets
 * that it takes elements from. An iterator is one pass through a data set. It is pulled: `next` makes one
 * element, and may wait; so iterators run on threads of their own (traversal.h), never on the pool that runs
 * nodes.
 *
 *   node "MapDataset"    prepare   attributes            -> maker, once per plan
 *                        compute   maker, inputs         -> data set, in output 0
 *   node "MakeIterator"            data set, resource    -> traversal with a thread
 *   node "IteratorGetNext"         next on that thread   -> components of an element
 *
 * A class is one file with its rows of kernels. Its functions get the class's own structs, which begin with
 * weft_dataset_params_t and weft_iterator_t.
 */
#ifndef WEFT_KERNELS_CPU_DATASET_DATASET_H_
#define WEFT_KERNELS_CPU_DATASET_DATASET_H_

#include "kernels/function_call.h"

typedef struct weft_dataset weft_dataset_t;                 /* Immutable, Thread-safe. A variant in front. */
typedef struct weft_iterator weft_iterator_t;               /* Thread-compatible */
typedef struct weft_traversal weft_traversal_t;             /* traversal.h */
typedef struct weft_traversal_place weft_traversal_place_t; /* traversal.h */
typedef struct weft_saved weft_saved_t;                     /* saved.h */

enum { WEFT_CARDINALITY_INFINITE = -1, WEFT_CARDINALITY_UNKNOWN = -2, WEFT_MAX_FUNCTIONS = 4 };

/* ---- what elements are ---- */

/* The components of each element of a data set. Immutable; counted. */
typedef struct weft_element_spec {
  atomic_int refs;
  int n;
  weft_dtype_t *dtypes;
  weft_shape_t *shapes; /* what is known of them */
} weft_element_spec_t;

/* `n` components; the shapes are unknown and the dtypes 0 until the caller has set them. */
WEFT_MUST_CHECK weft_status_t *weft_element_spec_create(int n, weft_element_spec_t **out);
/* One component, a scalar string: of records and lines. */
WEFT_MUST_CHECK weft_status_t *weft_element_spec_string(weft_element_spec_t **out);
weft_element_spec_t *weft_element_spec_retain(weft_element_spec_t *s);
void weft_element_spec_release(weft_element_spec_t *s); /* NULL is fine */
/* INVALID_ARGUMENT, in TensorFlow's words: the two differ in number or dtypes, or shapes contradict. */
WEFT_MUST_CHECK weft_status_t *weft_element_spec_check(const weft_element_spec_t *expected,
                                                       const weft_element_spec_t *got);
/* Releases the n tensors of an element and sets them to NULL. */
void weft_element_release(weft_tensor_t **parts, int n);
/* An element's bytes, of strings too. */
size_t weft_element_bytes(weft_tensor_t *const *parts, int n);

/* ---- functions that a data set calls ---- */

/* A function and the tensors that it has captured. Immutable; counted. */
typedef struct weft_dataset_fn {
  atomic_int refs;
  weft_callee_t *callee;
  int num_captured;
  weft_tensor_t *captured[]; /* owned references: behind the arguments of each call */
} weft_dataset_fn_t;

void weft_dataset_fn_release(weft_dataset_fn_t *f); /* NULL is fine */

/* ---- data sets ---- */

/* What a class keeps of its own: the first part of a bigger struct. Immutable; counted, since the same
 * parameters serve a data set with other inputs. */
typedef struct weft_dataset_params {
  weft_object_t object;         /* first */
  void (*deinit)(void *params); /* frees what it points to; may be NULL */
} weft_dataset_params_t;

typedef struct weft_dataset_class {
  const char *name;     /* "Map": in messages, "Iterator::Root::Map", and in what is saved */
  size_t iterator_size; /* of its struct, which begins with weft_iterator_t; zeroed at first */
  bool opens_inputs;    /* an iterator has one of input 0, from begin to end, in `input` */
  bool shards_by_input; /* a part of input 0 gives a part of it: auto-sharding looks for files further up */
  weft_status_t *(*begin)(weft_iterator_t *it); /* may be NULL. On failure `end` is called all the same */
  /* One element, spec->n tensors in `out`, owned by the caller; or *is_end, with `out` unset. Not called
   * again after the end. After a failure it may be: then with the next element. May wait, but ends with
   * CANCELLED when the traversal's canceller is cancelled. */
  weft_status_t *(*next)(weft_iterator_t *it, weft_tensor_t **out, bool *is_end);
  void (*end)(weft_iterator_t *it); /* frees what begin and next have made; may be NULL */
  /* Its state but for `input`, which is saved for it; NULL: it has none. `load` gets an iterator that has
   * just begun. */
  weft_status_t *(*save)(weft_iterator_t *it, weft_saved_t *to);
  weft_status_t *(*load)(weft_iterator_t *it, weft_saved_t *from);
  /* How many elements, or WEFT_CARDINALITY_...; NULL: as many as input 0. */
  int64_t (*cardinality)(const weft_dataset_t *d);
  /* How many elements it puts together; -1: it varies. NULL: it makes no batches. */
  int64_t (*batch_size)(const weft_dataset_t *d);
  bool passes_state;  /* its state is that of `input`: an iterator without it goes on from there, too */
  bool keeps_batches; /* its elements are some of its inputs', as they are: these tell the size of batches */
} weft_dataset_class_t;

/* The node that has made a data set and what it was given: what a graph of the data set is written from
 * (as_graph.h). */
typedef struct weft_dataset_node { /* Immutable; counted: the same for all that a node makes */
  atomic_int refs;
  weft_strbuf_t def; /* NodeDef without name and inputs */
} weft_dataset_node_t;
typedef struct weft_dataset_origin { /* Immutable. Owned by the data set */
  weft_dataset_node_t *node;
  int num_inputs;
  weft_tensor_t *inputs[]; /* retained */
} weft_dataset_origin_t;

extern const weft_variant_type_t weft_dataset_type;

struct weft_dataset {
  weft_variant_t variant; /* first */
  const weft_dataset_class_t *class;
  weft_dataset_params_t *params; /* of the class */
  weft_element_spec_t *spec;
  weft_dataset_fn_t *fns[WEFT_MAX_FUNCTIONS]; /* in the order of its record; NULL: there are fewer */
  weft_device_t *device;                      /* where it was made, and its functions run */
  weft_dataset_origin_t *origin;              /* owned; NULL: no node has made it */
  int num_inputs;
  weft_dataset_t *inputs[]; /* retained */
};

/* All retained; `like` gives the class and all that is not an input, but for the origin; its spec may be
 * NULL. The caller owns one reference. */
WEFT_MUST_CHECK weft_status_t *weft_dataset_create(const weft_dataset_t *like, weft_dataset_t *const *inputs,
                                                   int num_inputs, weft_dataset_t **out);
static inline weft_dataset_t *weft_dataset_retain(const weft_dataset_t *d) {
  return (weft_dataset_t *)weft_variant_retain((weft_variant_t *)(uintptr_t)d);
}
static inline void weft_dataset_release(weft_dataset_t *d) { weft_variant_release((weft_variant_t *)d); }
int64_t weft_dataset_cardinality(const weft_dataset_t *d);
/* How many rows its batches have, but for a last one that is shorter; -1: that cannot be told. TensorFlow's
 * ComputeBatchSize. */
int64_t weft_dataset_batch_size(const weft_dataset_t *d);
int64_t weft_cardinality_unknown(const weft_dataset_t *d); /* of a class that cannot tell */
/* Puts a data set of another class between `d`, which is being made, and its input 0: with d's functions, and
 * `params`, whose reference it takes, also on failure. Its elements are as `spec` says. */
WEFT_MUST_CHECK weft_status_t *weft_dataset_put_below(weft_dataset_t *d, const weft_dataset_class_t *class,
                                                      weft_dataset_params_t *params,
                                                      weft_element_spec_t *spec);
/* A copy of parameters that were never shared; `deinit` is that of the new ones. */
WEFT_MUST_CHECK weft_status_t *weft_dataset_params_new(const void *like, size_t size,
                                                       void (*deinit)(void *params),
                                                       weft_dataset_params_t **out);
/* What the elements of a batched data set are made of: `spec` without the first dimension of each shape. */
WEFT_MUST_CHECK weft_status_t *weft_element_spec_of_row(const weft_element_spec_t *spec,
                                                        weft_element_spec_t **out);
/* The same elements as `spec` says, with any number of rows. */
WEFT_MUST_CHECK weft_status_t *weft_element_spec_any_rows(const weft_element_spec_t *spec,
                                                          weft_element_spec_t **out);
/* A scalar variant tensor with `d`, whose reference it takes, also on failure. */
WEFT_MUST_CHECK weft_status_t *weft_dataset_tensor(weft_dataset_t *d, weft_tensor_t **out);
/* The data set in a tensor, lent. Errors, in TensorFlow's words: INVALID_ARGUMENT. */
WEFT_MUST_CHECK weft_status_t *weft_dataset_of(const weft_tensor_t *t, weft_dataset_t **out);

/* ---- iterators ---- */

struct weft_iterator {
  const weft_dataset_t *of;            /* retained */
  weft_traversal_t *traversal;         /* that it is part of, and that outlives it */
  const weft_traversal_place_t *place; /* lent by the traversal; NULL: it has no functions */
  weft_canceller_t *canceller;         /* ends its waits; the parent's, but see weft_ahead_create */
  const weft_iterator_t *parent;
  weft_iterator_t *input; /* owned; with opens_inputs, or as the class likes. NULL: none is open */
  int64_t index;          /* of the next element, those that have failed counted in */
  int64_t num_given;      /* elements without those that have failed */
  bool is_over;
};

/* A pass through `d`, whose elements go to `parent` (NULL: it is the root). Errors: those of `begin`. */
WEFT_MUST_CHECK weft_status_t *weft_iterator_open(const weft_dataset_t *d, weft_traversal_t *traversal,
                                                  const weft_iterator_t *parent, weft_iterator_t **out);
/* The same for input i of an iterator's data set; it goes into *slot, out of which an old one is closed. */
WEFT_MUST_CHECK weft_status_t *weft_iterator_open_input(weft_iterator_t *it, int i, weft_iterator_t **slot);
/* The next element: `out` has room for spec->n tensors, and is all NULL after a failure or the end. After a
 * failure *is_end says whether the input had ended: some data sets then end, and others fail again. Errors:
 * CANCELLED, those of the data sets, with the iterator's name and the element's index. */
WEFT_MUST_CHECK weft_status_t *weft_iterator_next(weft_iterator_t *it, weft_tensor_t **out, bool *is_end);
void weft_iterator_close(weft_iterator_t *it); /* NULL is fine */
/* "Iterator::Root::Batch::Map", appended. */
void weft_iterator_name(const weft_iterator_t *it, weft_strbuf_t *out);
WEFT_MUST_CHECK weft_status_t *weft_iterator_save(weft_iterator_t *it, weft_saved_t *to);
/* Of an iterator that was just opened. Errors: INVALID_ARGUMENT (of another data set), DATA_LOSS. */
WEFT_MUST_CHECK weft_status_t *weft_iterator_load(weft_iterator_t *it, weft_saved_t *from);

/* Consumes `s` and returns it with the element and the iterator's name behind its text (OK stays OK). */
WEFT_MUST_CHECK weft_status_t *weft_iterator_blame(const weft_iterator_t *it, int64_t index,
                                                   weft_status_t *s);

/* Calls the data set's function with `num_args` tensors, lent, before those that it has captured, and waits.
 * The num_results tensors are the caller's. A small function runs on the caller's thread. Errors: those of
 * the function, CANCELLED. */
WEFT_MUST_CHECK weft_status_t *weft_iterator_call(weft_iterator_t *it, const weft_dataset_fn_t *fn,
                                                  weft_tensor_t *const *args, int num_args,
                                                  weft_tensor_t **results, int num_results);
/* The same without waiting for what the caller's thread cannot do: `done` is called before this returns, or
 * on another thread. */
void weft_iterator_call_async(weft_iterator_t *it, const weft_dataset_fn_t *fn, weft_tensor_t *const *args,
                              int num_args, int num_results,
                              void (*done)(void *arg, weft_status_t *status, weft_tensor_t **results),
                              void *arg);
/* The same for a predicate: its one result. Errors: INVALID_ARGUMENT, with `what` in front: it is no scalar
 * bool. */
WEFT_MUST_CHECK weft_status_t *weft_iterator_ask(weft_iterator_t *it, const weft_dataset_fn_t *fn,
                                                 weft_tensor_t *const *args, int num_args, const char *what,
                                                 bool *out);

/* ---- kernels that make data sets ---- */

/* The param of such a row: weft_dataset_op_t is all that a class adds to its functions above. Inputs of a
 * node are, in this order: data sets, the function's captured tensors, others. */
typedef struct weft_dataset_op {
  const weft_dataset_class_t *class;
  int num_inputs;      /* data sets, in front; negative: as many as attribute N says */
  int num_more_inputs; /* data sets beside those that N counts */
  int num_plain;       /* inputs behind the data sets that are neither; make reads them */
  const char *leading; /* the attribute with the types of inputs in front of what functions have captured;
                          NULL: none */
  /* Its functions, in the order of what they have captured among the inputs; ended by a NULL. */
  struct {
    const char *attr, *captured; /* names of attributes: the function, the types of what it has captured */
  } functions[WEFT_MAX_FUNCTIONS + 1];
  size_t params_size; /* of its struct, which begins with weft_dataset_params_t; 0: it has none */
  /* Attributes into params; once per plan. May be NULL. Strings and lists are lent until `make`, which copies
   * what it needs. */
  weft_status_t *(*read)(const weft_kernel_setup_t *setup, void *params);
  /* The rest of d: params from the inputs from `at`, behind the captured ones. d->params is a copy of what
   * `read` has filled; d->spec may be replaced. May be NULL. */
  weft_status_t *(*make)(weft_kernel_ctx_t *c, int at, weft_dataset_t *d, void *params);
  void (*deinit)(void *params); /* frees what make has copied; may be NULL */
  /* Instead of class, make and deinit, where the data set is made from that of input 0, and may be it; the
   * caller owns a reference. */
  weft_status_t *(*rewrite)(weft_kernel_ctx_t *c, const void *params, weft_dataset_t *input,
                            weft_dataset_t **out);
} weft_dataset_op_t;

WEFT_MUST_CHECK weft_status_t *weft_dataset_prepare(const weft_kernel_setup_t *setup, void **out_state);
WEFT_MUST_CHECK weft_status_t *weft_dataset_compute(weft_kernel_ctx_t *c);
void weft_dataset_unprepare(void *state); /* NULL is fine */
#define WEFT_DATASET_ROW(op_, record)                                            \
  {                                                                              \
    .op = op_, .prepare = weft_dataset_prepare, .compute = weft_dataset_compute, \
    .destroy = weft_dataset_unprepare, .param = &(record)                        \
  }

/* A scalar input, by TensorFlow's words. Errors: INVALID_ARGUMENT "<name> must be a scalar". */
WEFT_MUST_CHECK weft_status_t *weft_dataset_in_int(const weft_kernel_ctx_t *c, int i, const char *name,
                                                   int64_t *out);
WEFT_MUST_CHECK weft_status_t *weft_dataset_in_bool(const weft_kernel_ctx_t *c, int i, const char *name,
                                                    bool *out);
/* Lent by the input. */
WEFT_MUST_CHECK weft_status_t *weft_dataset_in_string(const weft_kernel_ctx_t *c, int i, const char *name,
                                                      weft_str_t *out);

#endif /* WEFT_KERNELS_CPU_DATASET_DATASET_H_ */
