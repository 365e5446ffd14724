/* tests/cuda/fake/machine.h - the parts of the fake driver: options, devices with memory, streams. */
#ifndef WEFT_TESTS_CUDA_FAKE_MACHINE_H_
#define WEFT_TESTS_CUDA_FAKE_MACHINE_H_

#pragma GCC visibility push(default)
#include <cuda.h>
#pragma GCC visibility pop
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "tests/cuda/fake/fake.h"

enum {
  FAKE_MAX_DEVICES = 8,
  FAKE_PINNED_MAX = 4096,
  FAKE_TRACE_MAX = 4096,
  FAKE_MAX_READERS = 8,
  FAKE_MAX_OPENED = 512
};

/* A kernel of the host. */
typedef struct fake_kernel {
  const char *name;
  /* The arguments' values; pointers go through to_host. NULL: no memory. */
  void *(*capture)(void **args, void *(*to_host)(void *));
  /* Runs a launch and frees the closure. */
  void (*run)(const struct fake_kernel *k, void *closure, const unsigned grid[3], const unsigned block[3],
              size_t shared);
  void *(*copy)(const void *closure); /* NULL: launches cannot be captured */
  const void *data;
} fake_kernel_t;

/* An allocation of device memory. */
typedef struct fake_allocation {
  struct fake_allocation *next; /* by address */
  char *at;                     /* in the front */
  size_t bytes;
  uint64_t serial; /* of the device's allocations, from 1 */
} fake_allocation_t;

/* Which processes have an allocation open. Shared between processes. */
typedef struct fake_opened {
  uint64_t serial;
  int pids[FAKE_MAX_READERS]; /* 0: none */
} fake_opened_t;

/* Memory of another process that is open here. */
typedef struct fake_import {
  struct fake_import *next;
  int device, users;
  char *front, *back; /* of `bytes` */
  size_t bytes;
  fake_opened_t *opened; /* the other process's */
  CUipcMemHandle handle;
} fake_import_t;

struct CUctx_st {
  int device, users;
  CUresult broken; /* CUDA_SUCCESS: it is not */
  bool peers[FAKE_MAX_DEVICES];
};

typedef struct fake_device {
  char *front, *back; /* two mappings of `bytes` */
  size_t bytes, allocated;
  fake_allocation_t *allocations;
  uint64_t num_allocations; /* so far */
  int file;                 /* that the back is a mapping of */
  fake_opened_t *opened;    /* FAKE_MAX_OPENED of them, behind the bytes of the file */
  struct CUctx_st context;
} fake_device_t;

struct CUevent_st {
  CUcontext context;
  uint64_t recorded, done; /* numbers of records */
  int users;               /* the handle and work of streams */
  CUstream captured;       /* its last record is part of this stream's capture */
};

typedef enum fake_kind { FAKE_KERNEL, FAKE_COPY, FAKE_FILL, FAKE_HOST, FAKE_RECORD, FAKE_WAIT } fake_kind_t;

typedef struct fake_work {
  struct fake_work *next;
  fake_kind_t kind;
  const fake_kernel_t *kernel;
  void *closure;
  unsigned grid[3], block[3];
  size_t shared;
  CUresult fault; /* of a kernel's arguments: what it ends with */
  char *to;
  const char *from;
  size_t bytes;
  int byte;
  CUhostFn host;
  void *arg;
  CUevent event;
  uint64_t number;
} fake_work_t;

typedef enum fake_capture { FAKE_NO_CAPTURE, FAKE_CAPTURES, FAKE_SPOILT } fake_capture_t;

struct CUstream_st {
  CUcontext context;
  struct CUstream_st *next;
  pthread_t thread;
  fake_work_t *first, **last;
  bool busy, ends;
  int number;
  uint64_t random;
  fake_capture_t capture;
  pthread_t captor;
  fake_work_t *captured;
};

struct CUfunc_st {
  struct CUfunc_st *next;
  fake_kernel_t kernel;
  int max_shared;
};

struct CUmod_st {
  CUcontext context;
};

typedef struct fake_machine {
  pthread_mutex_t mu;
  pthread_cond_t changed;
  /* guarded by mu: */
  bool initialised;
  int hold, num_streams;
  weft_fake_cuda_done_t trace[FAKE_TRACE_MAX];
  int num_done;
  long order;
  int num_devices, late_us, version, capability, peers, own, first;
  fake_import_t *imports;
  uint64_t seed;
  char fail[1024];
  fake_device_t devices[FAKE_MAX_DEVICES];
  struct CUstream_st *streams;
  struct CUfunc_st *functions;
  struct {
    char *at;
    size_t bytes;
  } pinned[FAKE_PINNED_MAX];
  weft_fake_cuda_live_t live;
} fake_machine_t;
extern fake_machine_t fake;

/* Notes a use that would harm a device. Locked. */
void fake_fault(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* api.c: locks, and counts the call; on failure unlocks. And the other end of a call. */
CUresult fake_begin(const char *name, bool needs_context);
CUresult fake_end(CUresult r);
CUcontext fake_current(void);
#define FAKE_TEXT(x) #x
#define FAKE_BEGIN(name, needs_context)                                \
  do {                                                                 \
    const CUresult begun = fake_begin(FAKE_TEXT(name), needs_context); \
    if (begun != CUDA_SUCCESS) return begun;                           \
  } while (0)
#define FAKE_EXPORT __attribute__((visibility("default")))

/* graphs.c; all locked */
CUresult fake_capture_spoil(CUstream s, CUresult r); /* returns r */
/* The calling thread does what a capture of its own forbids: spoils that, or CUDA_SUCCESS if it has none. */
CUresult fake_capture_unsafe(void);
CUresult fake_capture_add(CUstream s, const fake_work_t *w); /* work for a stream that captures */
void fake_capture_drop(CUstream s);

/* memory.c; all locked */
bool fake_memory_create(fake_device_t *d, size_t bytes);
void *fake_memory_allocate(fake_device_t *d, size_t bytes);
bool fake_memory_free(fake_device_t *d, void *p);
fake_device_t *fake_memory_owner(const void *p); /* NULL: it is the host's */
/* Do the bytes lie in one allocation? Host addresses always do. */
bool fake_memory_is_valid(const void *p, size_t bytes);
bool fake_memory_is_pinned(const void *p, size_t bytes);
void *fake_memory_bytes(const void *p); /* in the back; host addresses stay */

/* sharing.c; all locked */
fake_import_t *fake_import_of(const void *p);                         /* NULL: it is of no import */
bool fake_is_open_elsewhere(const fake_device_t *d, uint64_t serial); /* in a process that lives */
void fake_imports_end(int device, bool is_broken); /* what its context has opened goes with it */

/* streams.c */
CUstream fake_stream_create(CUcontext c);         /* locked */
void fake_stream_destroy(CUstream s);             /* not locked; after its work */
void fake_stream_add(CUstream s, fake_work_t *w); /* locked */
bool fake_stream_is_idle(CUstream s);             /* locked */
bool fake_stream_is_stuck(CUstream s);            /* locked; it has nothing that it may begin now */
void fake_context_break(CUcontext c, CUresult r); /* locked */
void fake_event_release(CUevent e);               /* locked */

/* images.c: a module that libnvrtc_fake.so compiled is loaded. False: it cannot be. */
bool fake_image_load(const void *image);

/* kernels.c: those for tests. False: there is none of that name. */
bool fake_find_kernel(const char *name, fake_kernel_t *out);
/* emulated.c: those of kernels/cuda. Absent from a library without them. */
bool fake_find_emulated(const char *name, fake_kernel_t *out) __attribute__((weak));

#endif /* WEFT_TESTS_CUDA_FAKE_MACHINE_H_ */
