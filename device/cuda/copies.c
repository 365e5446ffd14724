/* device/cuda/copies.c - copies, and the pinned buffers that pageable memory needs. */
#include "device/cuda/copies.h"

#include <string.h>

#include "base/alloc.h"
#include "device/cuda/driver.h"
#include "device/cuda/pinned.h"

enum {
  MOVED_AT_ONCE = 64 << 10, /* bytes of pageable memory that the calling thread moves: some microseconds */
  PIECE = 4 << 20, /* of more: small beside a GPU's memory, large beside the cost of a host function */
};

static const char TO_DEVICE[] = "a copy to the device", TO_HOST[] = "a copy to the host",
                  ACROSS[] = "a copy between devices";

/* A copy in pieces. Lives until its work is done. */
typedef struct cuda_staged {
  void *buffer; /* pinned, of one piece */
  char *host;
  size_t bytes, piece;
  bool is_out;
  size_t num_pieces;
  struct cuda_piece {
    struct cuda_staged *copy;
    size_t at;
  } pieces[];
} cuda_staged_t;

static CUdeviceptr device_address(const void *p) { return (CUdeviceptr)(uintptr_t)p; }

/* A host function: moves the bytes of a piece between the buffer and the pageable memory. */
static void move_piece(void *arg) {
  const struct cuda_piece *p = arg;
  const cuda_staged_t *c = p->copy;
  const size_t bytes = c->bytes - p->at < c->piece ? c->bytes - p->at : c->piece;
  if (c->is_out) {
    memcpy(c->host + p->at, c->buffer, bytes);
  } else {
    memcpy(c->buffer, c->host + p->at, bytes);
  }
}

static void free_staged(void *arg, void *p) {
  cuda_staged_t *c = p;
  weft_cuda_pinned_free(arg, c->buffer);
  weft_free(c);
}

/* NULL: no memory for it. */
static cuda_staged_t *new_staged(char *host, size_t bytes, bool is_out) {
  const size_t piece = bytes < PIECE ? bytes : PIECE;
  const size_t num = (bytes + piece - 1) / piece;
  cuda_staged_t *c = weft_calloc(1, sizeof *c + num * sizeof c->pieces[0]);
  if (c == NULL) return NULL;
  *c = (cuda_staged_t){.host = host, .bytes = bytes, .piece = piece, .is_out = is_out, .num_pieces = num};
  for (size_t i = 0; i < num; i++) c->pieces[i] = (struct cuda_piece){c, i * piece};
  c->buffer = weft_cuda_pinned_allocate(piece);
  if (c->buffer != NULL) return c;
  weft_free(c);
  return NULL;
}

static CUresult enqueue_staged(weft_cuda_queue_t *q, cuda_staged_t *c, CUdeviceptr device) {
  CUstream stream = weft_cuda_queue_stream(q);
  CUresult r = CUDA_SUCCESS;
  for (size_t i = 0; i < c->num_pieces && r == CUDA_SUCCESS; i++) {
    const size_t at = c->pieces[i].at, bytes = c->bytes - at < c->piece ? c->bytes - at : c->piece;
    const CUdeviceptr there = device + at, buffer = device_address(c->buffer);
    if (c->is_out) {
      r = weft_cuda_driver.cuMemcpyAsync(buffer, there, bytes, stream);
      if (r == CUDA_SUCCESS) r = weft_cuda_driver.cuLaunchHostFunc(stream, move_piece, &c->pieces[i]);
    } else {
      r = weft_cuda_driver.cuLaunchHostFunc(stream, move_piece, &c->pieces[i]);
      if (r == CUDA_SUCCESS) r = weft_cuda_driver.cuMemcpyAsync(there, buffer, bytes, stream);
    }
  }
  return r;
}

/* Either with a buffer or, without memory for one, by the driver, which then may wait. */
static CUresult copy_pageable(weft_cuda_queue_t *q, char *host, CUdeviceptr device, size_t bytes,
                              bool is_out) {
  cuda_staged_t *c = new_staged(host, bytes, is_out);
  if (c == NULL) {
    const CUdeviceptr at = device_address(host);
    return weft_cuda_driver.cuMemcpyAsync(is_out ? at : device, is_out ? device : at, bytes,
                                          weft_cuda_queue_stream(q));
  }
  const CUresult r = enqueue_staged(q, c, device);
  weft_cuda_queue_retire(q, free_staged, NULL,
                         c); /* also when some of its pieces failed: others are under way */
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
