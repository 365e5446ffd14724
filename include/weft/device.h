/* weft/device.h - the interface between Weft and a library that adds a type of device.
 *
 * A device library is a shared object that exports one function, WEFT_OpenDeviceLibrary. Weft looks for
 * libweft_cuda.so beside the program (or the libtensorflow.so) that it is part of and in weft, ../weft and
 * ../lib/weft from there, and for every library that WEFT_DEVICE_PATH names: files, or folders of files
 * libweft_*.so, with colons between them. A library that cannot be used is reported and left out; the CPU
 * goes on.
 *
 * A library brings three things:
 *   a type of device   how many there are, what they are called, what they are (WEFT_DeviceType)
 *   memory and queues  of each device: one memory, and three queues of work, each with a timeline
 *   kernels            a row for each op and its types (WEFT_DeviceKernel)
 *
 * Weft brings the rest: graphs, placement, copies between memories, variables and their locks, control flow,
 * send and receive, shapes, attributes, checkpoints (WEFT_DeviceHost). A library needs nothing but this
 * header.
 *
 * Timelines. Each queue has a counter that only Weft moves: a *mark*. Work that the queue gets belongs in
 * front of the next mark. The fence (queue, value) has passed when all work that the queue got before the
 * mark `value` is done. Marking costs nothing: a library records nothing until it is asked for a fence. Work
 * that fails poisons its timeline: no fence behind it passes, and what waits for one gets the failure.
 *
 * Threads: every function may be called on any thread, several at once, unless it says otherwise. None may
 * block on the device, but for close() and those that say so.
 *
 * Versions: a library works with a Weft of the same major version and of its own or a later minor version.
 * Structs with a `size` may get members at their end in a minor version; `size` says which ones are there.
 * Of WEFT_DeviceKernel, of which there are many, the library's kernel_size says it. The others stay as they
 * are.
 *
 * Source of the form: timeline semaphores of Vulkan and IREE; TensorFlow's PluggableDevice
 * (tensorflow/c/experimental/stream_executor) for what a device has to say of itself.
 */
#ifndef WEFT_DEVICE_H_
#define WEFT_DEVICE_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { WEFT_DEVICE_MAJOR = 1, WEFT_DEVICE_MINOR = 1 };

/* A failure, with a code of TF_Code and a message; NULL: there is none. The receiver owns it, and gives it
 * back, hands it on or frees it. */
typedef struct WEFT_Failure WEFT_Failure;
typedef struct WEFT_KernelSetup WEFT_KernelSetup;     /* a node that is prepared; during prepare() */
typedef struct WEFT_KernelContext WEFT_KernelContext; /* a run of a node; during compute() */
typedef struct WEFT_HostKernel WEFT_HostKernel;       /* a node's kernel of the CPU */

/* ---- devices ---- */

/* What a session or server asks of devices (TensorFlow's GPUOptions). Lent. */
typedef struct WEFT_DeviceOptions {
  size_t size;
  const char *visible;    /* "1,0": the physical devices, in this order; "": all */
  double memory_fraction; /* of each device's memory, 0: nearly all */
  int allow_growth;       /* not 0: memory is taken when it is needed */
  /* Several logical devices of one physical device. Not 0: every device is that many, of equal parts. */
  int num_per_device;
  /* Else of the first num_split devices, which must exist: num_logical[i] of device i, 0: one of all its
   * memory. logical_bytes: the limits of all of them, one after the other; 0: an equal part. */
  int num_split;
  const int *num_logical;
  const int64_t *logical_bytes;
} WEFT_DeviceOptions;

/* Filled in by describe(), but `size`. Texts live as long as the device. */
typedef struct WEFT_DeviceDescription {
  size_t size;
  int64_t memory_limit;  /* bytes that tensors may take */
  const char *physical;  /* "device: 0, name: NVIDIA H200, pci bus id: ..., compute capability: 9.0" */
  int numa_node;         /* -1: not known */
  const char *allocator; /* "GPU_0_bfc": its name in step statistics */
} WEFT_DeviceDescription;

/* Filled in by memory(), but `size`. -1: not known. */
typedef struct WEFT_DeviceMemory {
  size_t size;
  int64_t reserved;     /* bytes that the device has taken for its tensors */
  int64_t in_use, peak; /* bytes of blocks, with what rounding adds */
  int64_t largest_free; /* the largest block that can be had without more being taken */
} WEFT_DeviceMemory;

typedef enum WEFT_QueueKind {
  WEFT_QUEUE_COMPUTE,   /* kernels; copies within the device */
  WEFT_QUEUE_COPIES_IN, /* from the host, or from another device of this type, to this one's memory */
  WEFT_QUEUE_COPIES_OUT /* to the host */
} WEFT_QueueKind;

/* A place in the list of those that wait for a fence. The memory is the caller's, so that waiting cannot
 * fail; it stays until `fn` is called, which is once, on any thread, with no lock held. `fn` owns `failure`:
 * what poisoned the timeline, or NULL. */
typedef struct WEFT_FenceWaiter {
  struct WEFT_FenceWaiter *next; /* the library's, until fn is called */
  uint64_t value;
  void (*fn)(struct WEFT_FenceWaiter *w, WEFT_Failure *failure);
} WEFT_FenceWaiter;

/* ---- collectives (since 1.1) ---- */

typedef enum WEFT_CollectiveKind {
  WEFT_COLLECTIVE_REDUCE,         /* the reduction of all inputs -> each output */
  WEFT_COLLECTIVE_REDUCE_SCATTER, /* its elements from bounds[i] to bounds[i + 1] -> rank i's output */
  WEFT_COLLECTIVE_GATHER,         /* rank i's input -> those elements of each output */
  WEFT_COLLECTIVE_BROADCAST,      /* the root's input -> each output */
  WEFT_COLLECTIVE_ALL_TO_ALL      /* block j of rank i's input -> block i of rank j's output */
} WEFT_CollectiveKind;

typedef enum WEFT_CollectiveReduction {
  WEFT_COLLECTIVE_SUM,
  WEFT_COLLECTIVE_PROD,
  WEFT_COLLECTIVE_MIN,
  WEFT_COLLECTIVE_MAX
} WEFT_CollectiveReduction;

/* What all ranks do. Lent. Numbers are of elements. */
typedef struct WEFT_Collective {
  size_t size;
  WEFT_CollectiveKind kind;
  int dtype;                          /* TF_DataType */
  WEFT_CollectiveReduction reduction; /* of the first two kinds */
  int is_divided;                     /* not 0: by the number of ranks, when it is reduced */
  int root;                           /* of a broadcast */
  int64_t count;         /* of an input to reduce, of what is broadcast, of a block of an all-to-all */
  const int64_t *bounds; /* of the kinds that are cut by them: one more than there are ranks, from 0 on */
} WEFT_Collective;

/* Device memory. An output may be the rank's input where something is reduced, and is it at the root of a
 * broadcast; else they have no byte in common. A rank that only receives has no input. NULL where there are
 * no elements. */
typedef struct WEFT_CollectiveRank {
  const void *input;
  void *output;
} WEFT_CollectiveRank;

enum { WEFT_COLLECTIVE_ID_BYTES = 128 };

/* Collectives between devices of one process, or of several. A result depends on the inputs and the number of
 * ranks alone, and is the same at all ranks; the host's algorithms add the elements of chunk c, of n nearly
 * equal ones, in the order c, c+1, ..., c-1, and round to the type at each step. */
typedef struct WEFT_DeviceCollectives {
  size_t size;
  /* A communicator of n devices of this type, by rank; it is used again and again. May take long.
   *out_by_first: not 0 where all work goes to the compute queue of rank 0; then Weft lets that wait for the
   * others' queues, and those for it. Else each rank's part goes to its own queue, and meets the others'
   *there. Failures: UNIMPLEMENTED, not between these: their collectives go by way of the host. So they do,
   *with a warning, after any other failure. */
  WEFT_Failure *(*join)(void *const *devices, int n, int *out_by_first, void **out_communicator);
  /* Before one of its devices is closed. Work that was enqueued by it may not be done yet. */
  void (*leave)(void *communicator);
  /* Enqueues a collective; the memory stays as long as work that the ranks' compute queues get meanwhile uses
   * it. Failures: UNIMPLEMENTED, of this kind or type: nothing was enqueued, and it goes by way of the host.
   * Any other ends it at all ranks; the library sees to it that no part of it waits on the device. */
  WEFT_Failure *(*enqueue)(void *communicator, const WEFT_Collective *what, const WEFT_CollectiveRank *ranks);
  /* The queue of a rank has failed: what waits on the device for that rank ends, and the timelines of all
   * ranks are poisoned with `why`, which is lent. NULL: work goes to the first rank's queue, and waits for
   * nothing. */
  void (*abort)(void *communicator, const WEFT_Failure *why);
  /* Of collectives between the devices of several processes. Both may be NULL: there are none.
   *
   * An id for a communicator with these n devices, which the process sends to the others. out_id NULL: only
   * says whether they can be in one. Failures: as of join(). */
  WEFT_Failure *(*unique_id)(void *const *devices, int n, unsigned char *out_id);
  /* A communicator of n ranks, of which devices[i] is rank ranks[i]; the other ones are of other processes,
   * which call it with the same id. Does not wait for them: enqueue() does, for this communicator, before all
   * ranks' parts (those of devices[] are given) are on the queues. Meanwhile, and later, another thread may
   * call abort(), which ends that, and the work on the device that waits for other processes. No queue is
   * poisoned then, but the outputs of collectives that have not passed mean nothing. Between two of its
   * collectives nothing is enqueued in another order than in the other processes: Weft sees to that. leave()
   * does not wait for other processes. */
  WEFT_Failure *(*join_ranks)(void *const *devices, const int *ranks, int num_devices, int n,
                              const unsigned char *id, void **out_communicator);
} WEFT_DeviceCollectives;

/* ---- memory of another process (since 1.1) ---- */

enum { WEFT_DEVICE_ID_BYTES = 16, WEFT_MEMORY_HANDLE_BYTES = 64 };

/* How another process of this host finds a block of device memory. */
typedef struct WEFT_SharedMemory {
  size_t size;
  unsigned char handle[WEFT_MEMORY_HANDLE_BYTES]; /* of the memory that the block is a part of */
  uint64_t offset;                                /* of the block in it */
} WEFT_SharedMemory;

/* A device's memory that devices of other processes read without the host. Weft sees to the order: memory is
 * read there when the work that fills it is done, and used for something else when the reader is done. */
typedef struct WEFT_DeviceSharing {
  size_t size;
  /* What the device is on this host: the same bytes in each process that has it, and in no other place.
   * Failures: UNIMPLEMENTED, its memory is not shared. */
  WEFT_Failure *(*identify)(void *device, unsigned char out[WEFT_DEVICE_ID_BYTES]);
  /* Fills *out, but `size`, for the block at p. What other processes have imported stays until the device is
   * closed. `reader`: what identify() gave there. Failures: UNIMPLEMENTED, that device cannot read it. */
  WEFT_Failure *(*export_memory)(void *device, const void *p, const unsigned char *reader,
                                 WEFT_SharedMemory *out);
  /* Memory of another process: *out_at is its first byte, and *out_bytes says how much there is. copy() reads
   * it as memory of `device`, on the queue for copies in. `handle` came from another process, and may be any
   * bytes. May take long. Each import is forgotten once, also where several gave one address. Failures: it
   * cannot be read, or is not there any more; bytes go by way of the host then. */
  WEFT_Failure *(*import_memory)(void *device, const unsigned char *handle, const void **out_at,
                                 size_t *out_bytes);
  void (*forget_memory)(void *device, const void *at); /* no work uses it any more */
} WEFT_DeviceSharing;

/* ---- a type of device ---- */

typedef struct WEFT_DeviceType {
  size_t size;
  const char *type; /* "GPU": the device is /job:.../device:GPU:0 */
  /* How many there are; asked several times. Failures: UNAVAILABLE, and why (no driver, an old one): then
   * there are none. INVALID_ARGUMENT for options that name devices which do not exist. */
  WEFT_Failure *(*count)(const WEFT_DeviceOptions *options, int *out);
  /* Logical device `ordinal` below count(). Failures: UNAVAILABLE, RESOURCE_EXHAUSTED. */
  WEFT_Failure *(*open)(const WEFT_DeviceOptions *options, int ordinal, void **out_device);
  void (*close)(void *device); /* waits for the queues' work, then frees it. Its queues go with it */
  void (*describe)(void *device, WEFT_DeviceDescription *out);
  /* The queue of that kind, before anything else is asked of the device, once for each. `marked` is its last
   * mark, which lives as long as the device: read it with acquire order when work is enqueued. */
  WEFT_Failure *(*queue)(void *device, WEFT_QueueKind kind, const volatile uint64_t *marked,
                         void **out_queue);

  /* Device memory, aligned to 256 bytes. NULL: there is none. *after: a mark of the compute queue, which it
   * has had already, before which the block must not be written, because work still uses it; 0: there is no
   * such work. */
  void *(*allocate)(void *device, size_t bytes, uint64_t *after);
  /* Work that the compute queue got before the mark `used` may still use it; no other queue's does. */
  void (*deallocate)(void *device, void *p, size_t bytes, uint64_t used);
  /* Host memory that the device reads and writes fast (pinned). Both may be NULL. */
  void *(*host_allocate)(void *device, size_t bytes);
  void (*host_deallocate)(void *device, void *p, size_t bytes);

  /* Later work of `queue` begins when the fence (other, value) has passed. `other` is a queue of any device
   * of this type. */
  void (*wait)(void *queue, void *other, uint64_t value);
  int (*has_passed)(void *queue, uint64_t value); /* 0, too, where the timeline is poisoned before it */
  void (*when)(void *queue,
               WEFT_FenceWaiter *w); /* calls w->fn when w->value has passed; at once if it has */
  /* Enqueues a copy. `from_device`, `to_device`: the devices that have the memory; NULL: the host, pinned or
   * not. The bytes stay until the copy is done. */
  WEFT_Failure *(*copy)(void *queue, void *from_device, const void *from, void *to_device, void *to,
                        size_t bytes);
  /* May a queue of `to` read the memory of `from`? NULL: never; then bytes go by way of the host. */
  int (*reaches)(void *from, void *to);
  /* Since 1.1. For messages about memory that is used up. May be NULL. */
  void (*memory)(void *device, WEFT_DeviceMemory *out);
  /* Since 1.1. NULL: collectives go by way of the host. */
  const WEFT_DeviceCollectives *collectives;
  /* Since 1.1; all four or none. What the calling thread enqueues on `queue` from begin to end, which it
   * calls too, is recorded and does not run. It may be kernels, fills and copies within the device, in memory
   * that was allocated before or meanwhile; no wait for another queue. Failures: RESOURCE_EXHAUSTED; of end,
   * whatever was refused meanwhile: then nothing was recorded. */
  WEFT_Failure *(*capture_begin)(void *queue);
  WEFT_Failure *(*capture_end)(void *queue, void **out_graph);
  /* Enqueues all that was recorded as one piece of work, on the same addresses. Any number of times. */
  WEFT_Failure *(*replay)(void *queue, void *graph);
  void (*graph_destroy)(
      void *graph); /* before its device is closed; replays may be under way. NULL is fine */
  /* Since 1.1. NULL: memory is not shared between processes, and bytes go by way of the host. */
  const WEFT_DeviceSharing *sharing;
} WEFT_DeviceType;

/* ---- kernels ---- */

/* A tensor as a kernel sees it. Lent: of an input until compute() returns, of an output until the node's
 * consumers have run; `data` in the device's memory stays as long as work that the compute queue got
 * meanwhile uses it. What lies in the host's memory is read and written before compute() returns. */
typedef struct WEFT_TensorView {
  int dtype; /* TF_DataType */
  int rank;
  const int64_t *dims; /* rank of them */
  int64_t count;       /* of elements */
  size_t bytes;
  void *data;  /* in the device's memory or, of host inputs and outputs, in the host's; NULL if bytes is 0 */
  int on_host; /* the host may read it now */
} WEFT_TensorView;

/* A set of types: bit DT for each. */
#define WEFT_DEVICE_TYPE(dt) (UINT32_C(1) << (dt))

/* A kernel. Of several rows for an op the first that fits is taken. Members may be added at the end: see
 * WEFT_DeviceLibrary's kernel_size. */
typedef struct WEFT_DeviceKernel {
  const char *op;
  const char *type_attr; /* "T": the attribute whose type must be in `types`; NULL: any */
  uint32_t types;
  const char *type_attr2; /* another one, or NULL */
  uint32_t types2;
  /* Once for a node of a plan: reads attributes, makes *out_state. May be NULL. Failures: those of the op. */
  WEFT_Failure *(*prepare)(const WEFT_KernelSetup *setup, const void *param, void **out_state);
  /* For each run: makes the outputs and enqueues the work. Several at once on one state. What is wrong with
   * the arguments is said now; work that fails later is a fault of the device. */
  WEFT_Failure *(*compute)(WEFT_KernelContext *c);
  void (*destroy)(void *state); /* may be NULL */
  const void *param;            /* what makes these functions serve a family of ops */
  /* Bit i: input or output i lies in the host's memory; bit 31: all from 31 on. Strings, handles and variants
   * always do. */
  uint32_t host_inputs, host_outputs;
  /* Not 0: the first inputs are variables, as references or handles, that it changes in place. Weft locks
   * them, makes sure that nothing else holds their bytes, lets the op's shape function check the shapes and
   * passes a reference on. input() gives bytes that may be written. */
  int updates;
  /* Since 1.1. Not 0: the last input, too, lies in the host's memory, of ops with a number of inputs that
   * only the node says: ConcatV2's axis. */
  int last_input_on_host;
  /* Since 1.1. Not 0: the first input is a variable by handle that it reads. Weft locks it while compute()
   * runs, so that no copy is needed; input() gives its value. */
  int reads_variable;
  /* Since 1.1. Not 0: the first half of the inputs, too, lies in the host's memory, of ops with two lists of
   * as many tensors: DynamicStitch's indices. */
  int first_half_on_host;
  /* Since 1.1. NULL, or, of a row that updates variables and has no input in the host's memory but handles:
   * compute() of `n` nodes of a plan at once, each a run of its own with the state, the attributes and the
   * types of all. No two have a variable in common. What is wrong with the arguments of one is said before
   * anything is enqueued, with its number in *out_failed. */
  WEFT_Failure *(*compute_together)(WEFT_KernelContext *const *c, int n, int *out_failed);
  /* Since 1.1. NULL, or, of a row whose outputs or failures depend on values in the device's memory: ends the
   * run that compute() has begun, on any thread, when all is done that compute() has enqueued. It reads what
   * came into memory of host_scratch(), makes the outputs that are not there yet, and may enqueue more work.
   * Inputs, scratch memory and the context stay until then. No thread waits meanwhile. Not of rows that
   * update or read variables. */
  WEFT_Failure *(*finish)(WEFT_KernelContext *c);
} WEFT_DeviceKernel;

/* An elementwise op, or one that computes each row of its last dimension from a row (Softmax, LogSoftmax),
 * within a _WeftChain, with the attributes that the op has by default. Values are numbered: the chain's
 * inputs first, then the results of its links in their order. Lent by the state. */
typedef struct WEFT_ChainLink {
  const char *op;
  int type; /* TF_DataType of the result */
  int num_operands;
  const int64_t *operands; /* num_operands numbers of values */
} WEFT_ChainLink;

/* What Weft gives to a library. Constant; lives as long as the process. */
typedef struct WEFT_DeviceHost {
  size_t size;
  int major, minor;

  /* ---- failures ---- */
  /* A failure with a code of TF_Code; `format` as printf's. Never NULL: without memory it says that. */
  WEFT_Failure *(*failure)(int code, const char *format, ...)
#ifdef __GNUC__
      __attribute__((format(printf, 2, 3)))
#endif
      ;
  WEFT_Failure *(*failure_copy)(const WEFT_Failure *f); /* NULL of NULL */
  int (*failure_code)(const WEFT_Failure *f);           /* 0 of NULL */
  const char *(*failure_message)(const WEFT_Failure *f);
  void (*failure_free)(WEFT_Failure *f);       /* NULL is fine */
  void (*log)(int level, const char *message); /* 0: information, 1: a warning, 2: an error */

  /* ---- in prepare() ---- */
  const char *(*setup_op)(const WEFT_KernelSetup *s);
  const char *(*setup_name)(const WEFT_KernelSetup *s); /* the node's */
  void *(*setup_device)(const WEFT_KernelSetup *s);
  int (*setup_input_type)(const WEFT_KernelSetup *s, int i); /* TF_DataType; -1: there is no such input */
  int (*setup_output_type)(const WEFT_KernelSetup *s, int i);
  /* Attributes, defaults filled in. 0: the node has none of that name and kind, and *out is as it was. */
  int (*attr_int)(const WEFT_KernelSetup *s, const char *name, int64_t *out);
  int (*attr_bool)(const WEFT_KernelSetup *s, const char *name, int *out);
  int (*attr_float)(const WEFT_KernelSetup *s, const char *name, float *out);
  int (*attr_type)(const WEFT_KernelSetup *s, const char *name, int *out);
  /* A text, not ended by '\0'; it lives as long as the state. */
  int (*attr_string)(const WEFT_KernelSetup *s, const char *name, const char **out, size_t *out_length);
  /* At most `max` elements; returns how many there are, -1 if there is no such list. */
  int (*attr_ints)(const WEFT_KernelSetup *s, const char *name, int64_t *out, int max);
  /* The CPU's kernel for the node, for devices whose work the host can do. Failures: NOT_FOUND, the kernel's.
   */
  WEFT_Failure *(*host_kernel)(const WEFT_KernelSetup *s, WEFT_HostKernel **out);
  void (*host_kernel_free)(WEFT_HostKernel *k); /* NULL is fine */
  /* Runs it, on any thread, on bytes that the host can touch. Variables that an op changes are changed in
   * place. Outputs have the sizes that they were allocated with. Failures: the kernel's. */
  WEFT_Failure *(*host_kernel_run)(WEFT_HostKernel *k, const WEFT_TensorView *inputs, int num_inputs,
                                   const WEFT_TensorView *outputs, int num_outputs);

  /* ---- in compute() ---- */
  void *(*state)(const WEFT_KernelContext *c); /* what prepare() made */
  const void *(*param)(const WEFT_KernelContext *c);
  void *(*device)(const WEFT_KernelContext *c);
  void *(*queue)(const WEFT_KernelContext *c);           /* the compute queue */
  const char *(*node_name)(const WEFT_KernelContext *c); /* lives as long as the state */
  int64_t (*step)(const WEFT_KernelContext *c);          /* the step's number */
  int (*num_inputs)(const WEFT_KernelContext *c);
  int (*num_outputs)(const WEFT_KernelContext *c);
  void (*input)(WEFT_KernelContext *c, int i, WEFT_TensorView *out);
  /* A new output of the type that the node says. *out: its bytes, which work on the compute queue may write.
   * Failures: RESOURCE_EXHAUSTED. */
  WEFT_Failure *(*output)(WEFT_KernelContext *c, int i, int rank, const int64_t *dims, WEFT_TensorView *out);
  /* The same, of the shape that the op's shape function works out from the inputs' shapes and from what lies
   * in the host's memory. Failures: as well those of the shape function, in TensorFlow's words; INTERNAL
   * where it depends on values in the device's memory. */
  WEFT_Failure *(*output_inferred)(WEFT_KernelContext *c, int i, WEFT_TensorView *out);
  /* The same, in the bytes of input `in` if nothing else needs them and type and size fit (then data is
   * equal). Afterwards input(in) gives nothing, and a view of it that was got before has no dims. */
  WEFT_Failure *(*output_forwarded)(WEFT_KernelContext *c, int in, int i, int rank, const int64_t *dims,
                                    WEFT_TensorView *out);
  /* Output i is input `in` under another shape of as many elements. */
  WEFT_Failure *(*output_is_input)(WEFT_KernelContext *c, int in, int i, int rank, const int64_t *dims);
  /* Device memory for work that compute() enqueues; it goes back when that is done. Failures:
   * RESOURCE_EXHAUSTED.
   */
  WEFT_Failure *(*scratch)(WEFT_KernelContext *c, size_t bytes, void **out);
  /* Since 1.1. Of a node with attributes `seed` and `seed2`: takes so many blocks of four words out of its
   * stream of random numbers, which goes on from run to run and is kept by checkpoints. They are those of
   * Philox4x32-10 with that key, from that counter (its lower half first) on. Failures: FAILED_PRECONDITION
   * without such attributes. */
  WEFT_Failure *(*random_take)(WEFT_KernelContext *c, uint64_t blocks, uint64_t *out_key,
                               uint64_t out_counter[2]);
  /* Since 1.1. In prepare() of a _WeftChain or a _WeftAttention: link i of it. 0: there are no more. */
  int (*setup_link)(const WEFT_KernelSetup *s, int i, WEFT_ChainLink *out);
  /* Since 1.1. In prepare(): at most `max` texts of a list, each as attr_string's; returns how many there
   * are, -1 if there is no such list. */
  int (*attr_strings)(const WEFT_KernelSetup *s, const char *name, const char **out, size_t *out_lengths,
                      int max);
  /* Since 1.1. Of a row with finish(): host memory that the device writes fast, zero at first. The first call
   * of a run says how much; later ones, also in finish(), give the same memory. It stays until finish() has
   * returned. Failures: RESOURCE_EXHAUSTED. */
  WEFT_Failure *(*host_scratch)(WEFT_KernelContext *c, size_t bytes, void **out);
  /* Since 1.1. In prepare(): as attr_ints(), of a list of floats. */
  int (*attr_floats)(const WEFT_KernelSetup *s, const char *name, float *out, int max);
} WEFT_DeviceHost;

/* What a library is. Constant; lives as long as the process. */
typedef struct WEFT_DeviceLibrary {
  size_t size;
  int major, minor;    /* WEFT_DEVICE_MAJOR and WEFT_DEVICE_MINOR, when it was compiled */
  const char *name;    /* "weft_cuda" */
  const char *version; /* its own, for messages */
  const WEFT_DeviceType *device;
  const WEFT_DeviceKernel *kernels; /* ended by a row without an op */
  /* 0: tensors of int32, which mostly are shapes, sizes and counters, lie in the host's memory where Weft
   * brings the kernel, as on TensorFlow's GPU; then arithmetic of int32 is the CPU's, too. Not 0: they are
   * like any other type. Rows of the library go before Weft's in either case. */
  int int32_on_device;
  /* Since 1.1. sizeof(WEFT_DeviceKernel) of the library's header: how far apart rows are, and which members
   * they have. A library of 1.0 has rows that end with `updates`. */
  size_t kernel_size;
  /* May an op of WEFT_ChainLink's kind with inputs of the type `operand` (of a choice: those that it chooses
   * from) and a result of the type `result` be a link of a _WeftChain? Then the library has a row for
   * _WeftChain, which computes nodes that feed only each other at once. NULL: no op may.
   *
   * A library with a row for _WeftAttention, too, gets such a node in the place of a BatchMatMul, a chain
   * that alone reads it, and a BatchMatMul that alone reads that, all of one type of the row's, `Tproducts`.
   * Its inputs are the chain's, of which number `scores` is the first product; there stands that product's
   * left operand. Behind them come its right operand and the second product's. `adj_q`, `adj_k` and `adj_v`
   * say which of the three operands lie transposed. */
  int (*may_link)(const char *op, int operand, int result);
} WEFT_DeviceLibrary;

/* The only function that a library exports; called once, before any device is made. NULL, with *out_failure:
 * it cannot be used here. A library says what it is also to a host of another version, which then leaves it
 * out. */
typedef const WEFT_DeviceLibrary *WEFT_OpenDeviceLibraryFn(const WEFT_DeviceHost *host,
                                                           WEFT_Failure **out_failure);
#ifdef WEFT_DEVICE_LIBRARY /* defined by the library's own sources */
__attribute__((visibility("default"))) const WEFT_DeviceLibrary *WEFT_OpenDeviceLibrary(
    const WEFT_DeviceHost *host, WEFT_Failure **out_failure);
#endif

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* WEFT_DEVICE_H_ */
