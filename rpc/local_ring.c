/* rpc/local_ring.c - two rings in a file, two eventfds.
 *
 * A ring has a count of the bytes that were ever put into it, which its writer changes, and one of those ever
 * taken, which its reader changes; both wrap around. Each end keeps its own count itself, and only looks at
 * the other's: places in the ring never come from the other end. A packet is four bytes with its size, its
 * bytes, and zero to seven bytes that fill eight.
 *
 * No packet waits for a bell that does not ring. A writer changes its count, then looks whether the reader
 * has taken all that was there before; if so, it rings. If not, the reader has yet to end its turn behind a
 * packet that a bell has told of, and asks weft_local_rings_has_more() behind the change of its own count.
 * Each side changes its word before it reads the other's, so one of them sees the other's change.
 *
 * Locking: `mu` is for the writers of this end, and a leaf. The bell is rung outside it: the reader that it
 * wakes often takes the processor.
 */
#define _GNU_SOURCE /* memfd_create, F_ADD_SEALS */
#include "rpc/local_ring.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/mutex.h"

enum {
  LINE = 64, /* bytes of a cache line */
  RING = WEFT_LOCAL_RING_BYTES,
  SEALS = F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW
};

enum { NOT_THERE, IS_TOLD, LOOKS }; /* what a reader does */

typedef struct ring_memory {
  _Alignas(LINE) _Atomic uint32_t put;   /* the writer's */
  _Alignas(LINE) _Atomic uint32_t taken; /* the reader's, as the next */
  atomic_uint reader;
  _Alignas(LINE) char bytes[RING];
} ring_memory_t;

typedef struct rings_memory {
  ring_memory_t to_server, to_caller;
} rings_memory_t;

struct weft_local_rings {
  rings_memory_t *shared;
  ring_memory_t *in, *out; /* in `shared` */
  int memory;              /* the file; -1: it is not needed any more */
  int bell, other_bell;
  bool is_caller;
  _Atomic uint32_t taken; /* of `in`; changed by the reader alone */
  weft_mutex_t mu;
  uint32_t put; /* of `out`; guarded by mu */
};

/* ---- both ends ---- */

static void close_one(int fd) {
  if (fd >= 0) close(fd);
}

/* Consumes the files. */
static weft_local_rings_t *map_rings(const int files[WEFT_LOCAL_RING_FILES], bool is_caller) {
  weft_local_rings_t *r = weft_calloc(1, sizeof *r);
  void *at =
      r == NULL ? MAP_FAILED : mmap(NULL, sizeof *r->shared, PROT_READ | PROT_WRITE, MAP_SHARED, files[0], 0);
  if (at == MAP_FAILED) {
    for (int i = 0; i < WEFT_LOCAL_RING_FILES; i++) close_one(files[i]);
    weft_free(r);
    return NULL;
  }
  r->shared = at;
  r->in = is_caller ? &r->shared->to_caller : &r->shared->to_server;
  r->out = is_caller ? &r->shared->to_server : &r->shared->to_caller;
  r->memory = files[0];
  r->bell = files[is_caller ? 2 : 1];
  r->other_bell = files[is_caller ? 1 : 2];
  r->is_caller = is_caller;
  weft_mutex_init(&r->mu);
  return r;
}

static int memory_new(void) {
  const int file = memfd_create("weft-rings", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (file < 0) return -1;
  /* Its memory is there from the start: a store to a file that cannot grow would end the process. */
  if (ftruncate(file, sizeof(rings_memory_t)) == 0 && fcntl(file, F_ADD_SEALS, SEALS) == 0 &&
      fallocate(file, 0, 0, sizeof(rings_memory_t)) == 0)
    return file;
  close(file);
  return -1;
}

weft_local_rings_t *weft_local_rings_create(void) {
  const int files[WEFT_LOCAL_RING_FILES] = {memory_new(), eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK),
                                            eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
  if (files[0] >= 0 && files[1] >= 0 && files[2] >= 0) return map_rings(files, true);
  for (int i = 0; i < WEFT_LOCAL_RING_FILES; i++) close_one(files[i]);
  return NULL;
}

/* A write to what blocks would hold up the thread. Where there is no /proc, the file is believed. */
static bool is_bell(int file) {
  static const char wanted[] = "anon_inode:[eventfd]";
  char path[40], target[sizeof wanted];
  const int flags = fcntl(file, F_GETFL);
  if (flags < 0 || (flags & O_NONBLOCK) == 0) return false;
  snprintf(path, sizeof path, "/proc/self/fd/%d", file);
  const ssize_t n = readlink(path, target, sizeof target);
  return n < 0 || (n == sizeof wanted - 1 && memcmp(target, wanted, sizeof wanted - 1) == 0);
}

static bool is_memory(int file) {
  struct stat st;
  const int seals = fcntl(file, F_GET_SEALS);
  return seals >= 0 && (seals & SEALS) == SEALS && (seals & F_SEAL_WRITE) == 0 && fstat(file, &st) == 0 &&
         st.st_size == (off_t)sizeof(rings_memory_t) &&
         fallocate(file, 0, 0, sizeof(rings_memory_t)) == 0; /* also what the peer has made a hole of */
}

weft_local_rings_t *weft_local_rings_open(const int files[WEFT_LOCAL_RING_FILES]) {
  if (is_memory(files[0]) && is_bell(files[1]) && is_bell(files[2])) {
    weft_local_rings_t *r = map_rings(files, false);
    if (r != NULL) weft_local_rings_sent(r);
    return r;
  }
  for (int i = 0; i < WEFT_LOCAL_RING_FILES; i++) close_one(files[i]);
  return NULL;
}

int weft_local_rings_file(const weft_local_rings_t *r, int i) {
  return i == 0 ? r->memory : i == 1 ? r->other_bell : r->bell;
}

void weft_local_rings_sent(weft_local_rings_t *r) {
  close_one(r->memory);
  r->memory = -1;
}

void weft_local_rings_destroy(weft_local_rings_t *r) {
  if (r == NULL) return;
  munmap(r->shared, sizeof *r->shared);
  close_one(r->memory);
  close(r->bell);
  close(r->other_bell);
  weft_mutex_deinit(&r->mu);
  weft_free(r);
}

static void ring(int bell) {
  const uint64_t one = 1;
  uint64_t count;
  /* The system tells of each write, but not of one that finds the counter full. */
  while (write(bell, &one, sizeof one) < 0) {
    if (errno == EAGAIN && read(bell, &count, sizeof count) < 0 && errno != EAGAIN && errno != EINTR) return;
    if (errno != EAGAIN && errno != EINTR) return;
  }
}

/* ---- writing ---- */

static uint32_t filled_up(uint32_t bytes) { return (bytes + 7u) & ~7u; }

static void copy_in(ring_memory_t *m, uint32_t at, const void *data, size_t n) {
  const size_t from = at % RING, first = n < RING - from ? n : RING - from;
  if (n > 0) memcpy(m->bytes + from, data, first); /* a piece without bytes may be NULL */
  if (n > first) memcpy(m->bytes, (const char *)data + first, n - first);
}

bool weft_local_rings_put(weft_local_rings_t *r, const struct iovec *pieces, int n) {
  size_t bytes = 0;
  for (int i = 0; i < n; i++) {
    bytes += pieces[i].iov_len;
    if (bytes > WEFT_LOCAL_RING_MOST) return false;
  }
  if (atomic_load_explicit(&r->out->reader, memory_order_relaxed) == NOT_THERE) return false;
  const uint32_t size = (uint32_t)bytes, all = filled_up(size + (uint32_t)sizeof size);
  weft_mutex_lock(&r->mu);
  const uint32_t begin = r->put;
  /* Acquire: the reader's copy out of these bytes comes before ours into them. */
  const uint32_t used = begin - atomic_load_explicit(&r->out->taken, memory_order_acquire);
  const bool fits = bytes > 0 && used <= RING && RING - used >= all;
  if (fits) {
    uint32_t at = begin;
    copy_in(r->out, at, &size, sizeof size);
    at += (uint32_t)sizeof size;
    for (int i = 0; i < n; at += (uint32_t)pieces[i++].iov_len)
      copy_in(r->out, at, pieces[i].iov_base, pieces[i].iov_len);
    r->put = begin + all;
    atomic_store(&r->out->put, begin + all); /* as the loads below: see the file's head */
  }
  weft_mutex_unlock(&r->mu);
  if (fits && atomic_load(&r->out->reader) != LOOKS && atomic_load(&r->out->taken) == begin)
    ring(r->other_bell);
  return fits;
}

/* ---- reading ---- */

static void copy_out(const ring_memory_t *m, uint32_t at, void *to, size_t n) {
  const size_t from = at % RING, first = n < RING - from ? n : RING - from;
  memcpy(to, m->bytes + from, first);
  if (n > first) memcpy((char *)to + first, m->bytes, n - first);
}

ssize_t weft_local_rings_take(weft_local_rings_t *r, void *to) {
  const uint32_t at = atomic_load_explicit(&r->taken, memory_order_relaxed);
  const uint32_t there = atomic_load_explicit(&r->in->put, memory_order_acquire) - at;
  uint32_t size;
  if (there == 0) return 0;
  if (there > RING || there < sizeof size) return -1;
  copy_out(r->in, at, &size, sizeof size);
  if (size == 0 || size > WEFT_LOCAL_RING_MOST) return -1;
  const uint32_t all = filled_up(size + (uint32_t)sizeof size);
  if (all > there) return -1;
  copy_out(r->in, at + (uint32_t)sizeof size, to, size);
  atomic_store_explicit(&r->taken, at + all, memory_order_relaxed);
  atomic_store(&r->in->taken, at + all);
  return (ssize_t)size;
}

void weft_local_rings_look(weft_local_rings_t *r, bool looks) {
  atomic_store(&r->in->reader, looks ? LOOKS : IS_TOLD);
}

bool weft_local_rings_has_more(weft_local_rings_t *r) {
  return atomic_load(&r->in->put) != atomic_load_explicit(&r->taken, memory_order_relaxed);
}

int weft_local_rings_bell(const weft_local_rings_t *r) { return r->bell; }
void weft_local_rings_wake(weft_local_rings_t *r) { ring(r->bell); }

void weft_local_rings_quiet(weft_local_rings_t *r) {
  uint64_t count;
  while (read(r->bell, &count, sizeof count) < 0 && errno == EINTR) {
  }
}
