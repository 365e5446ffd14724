/* device/cuda/copies.c - copies, and the pinned buffers that pageable memory needs. */
#include "device/cuda/copies.h"

#include <string.h>

#include "base/alloc.h"
#include "device/cuda/driver.h"
#include "device/cuda/pinned.h"

enum {
  MOVED_AT_ONCE = 64 << 10, /* bytes of pageable memory that the calling thread moves: some microseconds */
  LEAST_PIECE = 1 << 20,    /* of more: large beside the cost of a host function */
  MOST_PIECES = 64,         /* a stream holds about a thousand pieces of work before it makes callers wait */
  PAGE = 4 << 10,
};

static const char TO_DEVICE[] = "a copy to the device", TO_HOST[] = "a copy to the host",
                  ACROSS[] = "a copy between devices";

/* A copy in pieces, by two buffers in turn. Lives until its work is done. */
typedef struct cuda_staged {
  weft_cuda_queue_t *queue;
  char *buffers; /* pinned, of two pieces, or of one if there is only one */
  char *host;
  size_t bytes, piece;
  bool is_out;
  int num_pieces;
  struct cuda_piece {
    struct cuda_staged *copy;
    int i;
  } pieces[MOST_PIECES];
} cuda_staged_t;

static CUdeviceptr device_address(const void *p) { return (CUdeviceptr)(uintptr_t)p; }

static size_t offset_of(const cuda_staged_t *c, int i) { return (size_t)i * c->piece; }
static char *buffer_of(const cuda_staged_t *c, int i) { return c->buffers + (size_t)(i % 2) * c->piece; }
static size_t bytes_of(const cuda_staged_t *c, int i) {
  const size_t left = c->bytes - offset_of(c, i);
  return left < c->piece ? left : c->piece;
}

/* A host function: moves the bytes of a piece between its buffer and the pageable memory. */
static void move_piece(void *arg) {
  const struct cuda_piece *p = arg;
  const cuda_staged_t *c = p->copy;
  char *host = c->host + offset_of(c, p->i), *buffer = buffer_of(c, p->i);
  if (!weft_cuda_queue_move_begin(c->queue)) return;
  memcpy(c->is_out ? host : buffer, c->is_out ? buffer : host, bytes_of(c, p->i));
  weft_cuda_queue_move_end(c->queue);
}

static void free_staged(void *arg, void *p) {
  cuda_staged_t *c = p;
  weft_cuda_pinned_free(arg, c->buffers);
  weft_free(c);
}

/* NULL: no memory for it. */
static cuda_staged_t *new_staged(weft_cuda_queue_t *q, char *host, size_t bytes, bool is_out) {
  const size_t even = (bytes / MOST_PIECES / PAGE + 1) * PAGE;
  const size_t piece = even > LEAST_PIECE ? even : bytes < LEAST_PIECE ? bytes : LEAST_PIECE;
  const int num = (int)((bytes + piece - 1) / piece);
  cuda_staged_t *c = weft_calloc(1, sizeof *c);
  if (c == NULL) return NULL;
  *c = (cuda_staged_t){
      .queue = q, .host = host, .bytes = bytes, .piece = piece, .is_out = is_out, .num_pieces = num};
  for (int i = 0; i < num; i++) c->pieces[i] = (struct cuda_piece){c, i};
  c->buffers = weft_cuda_pinned_allocate(num > 1 ? 2 * piece : piece);
  if (c->buffers != NULL) return c;
  weft_free(c);
  return NULL;
}

/* `after`, which `first` has got its work for, comes before what `second` gets from now on. */
static CUresult order(CUstream first, CUevent after, CUstream second) {
  const CUresult r = weft_cuda_driver.cuEventRecord(after, first);
  return r == CUDA_SUCCESS ? weft_cuda_driver.cuStreamWaitEvent(second, after, 0) : r;
}

static CUresult copy_piece(const cuda_staged_t *c, int i, CUdeviceptr device, CUstream stream) {
  const CUdeviceptr there = device + offset_of(c, i), buffer = device_address(buffer_of(c, i));
  return weft_cuda_driver.cuMemcpyAsync(c->is_out ? buffer : there, c->is_out ? there : buffer,
                                        bytes_of(c, i), stream);
}

/* The host's half and the device's half of each piece, on a stream each; the first half fills the piece's
 * buffer, the second empties it. Two buffers: one is filled while the other is emptied. */
static CUresult enqueue_staged(weft_cuda_queue_t *q, weft_cuda_side_t *side, cuda_staged_t *c,
                               CUdeviceptr device) {
  CUstream mine = weft_cuda_queue_stream(q);
  CUstream first = c->is_out ? mine : side->stream, second = c->is_out ? side->stream : mine;
  CUresult r = CUDA_SUCCESS;
  for (int i = 0; i < c->num_pieces && r == CUDA_SUCCESS; i++) {
    const int b = i % 2;
    if (i >= 2) r = weft_cuda_driver.cuStreamWaitEvent(first, side->emptied[b], 0);
    if (r == CUDA_SUCCESS) {
      r = c->is_out ? copy_piece(c, i, device, first)
                    : weft_cuda_driver.cuLaunchHostFunc(first, move_piece, &c->pieces[i]);
    }
    if (r == CUDA_SUCCESS) r = order(first, side->filled[b], second);
    if (r == CUDA_SUCCESS) {
      r = c->is_out ? weft_cuda_driver.cuLaunchHostFunc(second, move_piece, &c->pieces[i])
                    : copy_piece(c, i, device, second);
    }
    if (r == CUDA_SUCCESS) r = weft_cuda_driver.cuEventRecord(side->emptied[b], second);
  }
  /* What the queue gets next comes behind the host's last half, too. */
  if (r == CUDA_SUCCESS && c->is_out)
    r = weft_cuda_driver.cuStreamWaitEvent(mine, side->emptied[(c->num_pieces - 1) % 2], 0);
  if (r == CUDA_SUCCESS || weft_cuda_is_fatal(r)) return r;
  /* Some pieces are under way, and the caller gives up its memory: only here something waits. */
  CUresult waited = weft_cuda_driver.cuStreamSynchronize(side->stream);
  if (waited == CUDA_SUCCESS) waited = weft_cuda_driver.cuStreamSynchronize(mine);
  return waited == CUDA_SUCCESS ? r : waited;
}

/* Either with buffers or, without memory for them, by the driver, which then may wait. */
static CUresult copy_pageable(weft_cuda_queue_t *q, char *host, CUdeviceptr device, size_t bytes,
                              bool is_out) {
  weft_cuda_side_t *side = NULL;
  cuda_staged_t *c = new_staged(q, host, bytes, is_out);
  if (c == NULL) {
    const CUdeviceptr at = device_address(host);
    return weft_cuda_driver.cuMemcpyAsync(is_out ? at : device, is_out ? device : at, bytes,
                                          weft_cuda_queue_stream(q));
  }
  CUresult r = weft_cuda_queue_side_lock(q, &side);
  if (r == CUDA_SUCCESS) {
    r = enqueue_staged(q, side, c, device);
    weft_cuda_queue_side_unlock(side);
  }
  weft_cuda_queue_retire(q, free_staged, NULL, c);
  return r;
}

WEFT_Failure *weft_cuda_copy_in_now(weft_cuda_queue_t *q, const void *from, void *to, size_t bytes) {
  if (bytes == 0) return NULL;
  WEFT_Failure *f = weft_cuda_queue_begin(q, TO_DEVICE);
  if (f != NULL) return f;
  void *buffer = weft_cuda_pinned_allocate(bytes);
  if (buffer == NULL) return weft_cuda_queue_check(q, CUDA_ERROR_OUT_OF_MEMORY, TO_DEVICE);
  memcpy(buffer, from, bytes);
  const CUresult r = weft_cuda_driver.cuMemcpyAsync(device_address(to), device_address(buffer), bytes,
                                                    weft_cuda_queue_stream(q));
  weft_cuda_queue_retire(q, weft_cuda_pinned_free, NULL, buffer);
  return weft_cuda_queue_check(q, r, TO_DEVICE);
}

WEFT_Failure *weft_cuda_copy_in(weft_cuda_queue_t *q, const void *from, void *to, size_t bytes) {
  if (bytes == 0) return NULL;
  const bool is_pinned = weft_cuda_is_pinned(from);
  if (!is_pinned && bytes <= MOVED_AT_ONCE) return weft_cuda_copy_in_now(q, from, to, bytes);
  WEFT_Failure *f = weft_cuda_queue_begin(q, TO_DEVICE);
  if (f != NULL) return f;
  const CUresult r = is_pinned ? weft_cuda_driver.cuMemcpyAsync(device_address(to), device_address(from),
                                                                bytes, weft_cuda_queue_stream(q))
                               : copy_pageable(q, (char *)(uintptr_t)from, device_address(to), bytes, false);
  return weft_cuda_queue_check(q, r, TO_DEVICE);
}

WEFT_Failure *weft_cuda_copy_out(weft_cuda_queue_t *q, const void *from, void *to, size_t bytes) {
  if (bytes == 0) return NULL;
  WEFT_Failure *f = weft_cuda_queue_begin(q, TO_HOST);
  if (f != NULL) return f;
  const CUresult r = weft_cuda_is_pinned(to)
                         ? weft_cuda_driver.cuMemcpyAsync(device_address(to), device_address(from), bytes,
                                                          weft_cuda_queue_stream(q))
                         : copy_pageable(q, to, device_address(from), bytes, true);
  return weft_cuda_queue_check(q, r, TO_HOST);
}

WEFT_Failure *weft_cuda_copy_across(weft_cuda_queue_t *q, CUcontext from_context, const void *from,
                                    CUcontext to_context, void *to, size_t bytes) {
  if (bytes == 0) return NULL;
  WEFT_Failure *f = weft_cuda_queue_begin(q, ACROSS);
  if (f != NULL) return f;
  CUstream stream = weft_cuda_queue_stream(q);
  const CUresult r =
      from_context == to_context
          ? weft_cuda_driver.cuMemcpyAsync(device_address(to), device_address(from), bytes, stream)
          : weft_cuda_driver.cuMemcpyPeerAsync(device_address(to), to_context, device_address(from),
                                               from_context, bytes, stream);
  return weft_cuda_queue_check(q, r, ACROSS);
}
