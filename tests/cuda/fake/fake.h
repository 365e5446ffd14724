/* tests/cuda/fake/fake.h - NVIDIA's driver, played by the host, for tests: libcuda_fake.so.
 *
 * The library has the functions of device/cuda/driver.def, and device/cuda opens it where WEFT_CUDA_DRIVER
 * names it. It is as hard on its caller as a device is:
 *
 * Memory: pointers into pages without access; the bytes lie elsewhere. What is freed is overwritten. A
 * pointer or a length that does not belong to one allocation is an illegal address.
 *
 * Streams: threads that begin each piece of work after a random delay, so that what no event orders happens
 * in another order.
 *
 * Events: exactly. cuStreamWaitEvent waits for the last record before the call, and for no later one.
 *
 * Kernels: the library's own source, compiled for the host (tests/cuda/emulator), and some for tests below.
 *
 * Other processes: what one allocates another may open, if it lives; the bytes are those of a file without a
 * name. Memory that is freed while another process has it open is a fault, and so is memory that is not
 * closed.
 *
 * Captures: kept, and launched as often as wanted. What CUDA forbids meanwhile spoils them.
 *
 * Failures: at the n-th call of a function, or when a test says so. One that ends the context stays: all
 * later calls give it, work that was not begun is dropped, host functions are not called. A stream of another
 * context that waits for one of its events goes on: CUDA does not say what happens, and a caller that trusts
 * what such a stream did is wrong.
 *
 * The variable WEFT_FAKE_CUDA is read at cuInit: "devices=2,memory=1g,late_us=200,seed=7,version=13000,
 * capability=90,peers=1,own=0,first=0,fail=cuMemAlloc_v2@5:2". A failure has a function, the number of its
 * call, from 1, and a CUresult; several have '+' between them. "@*" is each call. own=1: a process may open
 * its own memory, as if it were another's, which CUDA refuses. `first` is which of the machine's cards device
 * 0 is, as far as UUIDs say.
 */
#ifndef WEFT_TESTS_CUDA_FAKE_FAKE_H_
#define WEFT_TESTS_CUDA_FAKE_FAKE_H_

#include <stddef.h>

/* What the caller has now, and what it has done wrong. */
typedef struct weft_fake_cuda_live {
  int contexts, modules, streams, events, allocations, pinned, graphs;
  int imports; /* of other processes' memory */
  size_t allocated_bytes;
  long calls;                        /* of all functions, since cuInit */
  size_t host_bytes, imported_bytes; /* that copies took from or to the host's memory, and from imports */
  long faults;                       /* uses that harm a device */
  char fault[160];                   /* the first of them */
} weft_fake_cuda_live_t;

/* Functions of the library beside the driver's own; a test finds them with dlsym(). */
typedef void weft_fake_cuda_live_fn(weft_fake_cuda_live_t *out);
/* Streams begin no work of these kinds until another call: WEFT_FAKE_HOLD_... or 0. */
typedef void weft_fake_cuda_hold_fn(int kinds);
enum { WEFT_FAKE_HOLD_ALL = 1, WEFT_FAKE_HOLD_COPIES = 2, WEFT_FAKE_HOLD_HOST = 4 };
typedef void weft_fake_cuda_break_fn(int device, int result); /* its context fails */
typedef long weft_fake_cuda_calls_fn(const char *function);
/* Bytes of device memory, for a test to look at: NULL if it is no such address. */
typedef void *weft_fake_cuda_bytes_fn(void *device_pointer);
/* A piece of work that a stream has done. `begin` and `end` are places in one order of all of them. */
typedef struct weft_fake_cuda_done {
  char kind;  /* 'k'ernel, 'c'opy, 'f'ill, 'h'ost function */
  int stream; /* in the order of their creation, from 1 */
  size_t bytes;
  long begin, end;
} weft_fake_cuda_done_t;
/* The first `max` of those done so far, in the order of their ends; returns how many there are. */
typedef int weft_fake_cuda_trace_fn(weft_fake_cuda_done_t *out, int max);
/* Waits until no stream can go on: each has nothing to do, is held, or waits for an event. */
typedef void weft_fake_cuda_settle_fn(void);
/* Gives a stream work of a library that is played by the host: run(args), with a copy of `bytes` of them.
 * Returns a CUresult. */
typedef int weft_fake_cuda_call_fn(void *stream, void (*run)(const void *args), const void *args,
                                   size_t bytes);
#define WEFT_FAKE_CUDA_CALL "weft_fake_cuda_call"
#define WEFT_FAKE_CUDA_TRACE "weft_fake_cuda_trace"
#define WEFT_FAKE_CUDA_SETTLE "weft_fake_cuda_settle"
#define WEFT_FAKE_CUDA_LIVE "weft_fake_cuda_live"
#define WEFT_FAKE_CUDA_HOLD "weft_fake_cuda_hold"
#define WEFT_FAKE_CUDA_BREAK "weft_fake_cuda_break"
#define WEFT_FAKE_CUDA_CALLS "weft_fake_cuda_calls"
#define WEFT_FAKE_CUDA_BYTES "weft_fake_cuda_bytes"

/* Kernels for tests:
 *   weft_fake_add(int *x, int64_t n, int v)           x[i] += v
 *   weft_fake_copy(int *to, const int *from, int64_t n)
 *   weft_fake_fault(int *x)                           an illegal address */

#endif /* WEFT_TESTS_CUDA_FAKE_FAKE_H_ */
