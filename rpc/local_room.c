/* rpc/local_room.c - places in a file that two processes have mapped.
 *
 * The file's first unit holds a word for each unit, which says of a place that begins there what state it is
 * in. The receiver sets it to AWAITED and FREE, the sender to all others; the sender alone knows how long
 * places are, and which units are free. It looks for the first run of free units that is long enough, so that
 * the same memory is used again and again.
 *
 * Memory for units that were never used is asked of the system before it is written: a write to a file that
 * cannot grow would end the process.
 *
 * Locking: `mu` guards the sender's tables and is a leaf. Bytes are copied outside it.
 */
#define _GNU_SOURCE /* memfd_create, F_ADD_SEALS */
#include "rpc/local_room.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/mutex.h"

enum {
  UNIT = WEFT_LOCAL_ROOM_UNIT,
  UNITS = WEFT_LOCAL_ROOM_BYTES / UNIT,
  SEALS = F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW
};

/* Words; others, of a peer that is faulty, are as FILLING. */
enum { FREE, FILLED, FILLING, AWAITED };

typedef struct room_place {
  int units; /* of the place that begins here; 0: none does */
  uint64_t transfer;
  bool is_filled;    /* else bytes are to be copied there: it stays */
  bool is_forgotten; /* meanwhile */
} room_place_t;

struct weft_local_room {
  atomic_int refs;
  int file;
  char *at;             /* the mapping */
  atomic_uint *states;  /* in the mapping */
  weft_mutex_t mu;      /* below: the sender's, guarded by mu */
  int backed;           /* units that have memory, from the first on */
  room_place_t *places; /* owned: of UNITS; NULL at the receiver */
};

/* Consumes `file`. */
static weft_local_room_t *map_room(int file, bool is_sender) {
  weft_local_room_t *r = weft_calloc(1, sizeof *r);
  room_place_t *places = is_sender ? weft_calloc(UNITS, sizeof *places) : NULL;
  void *at = MAP_FAILED;
  if (r != NULL && (places != NULL || !is_sender))
    at = mmap(NULL, WEFT_LOCAL_ROOM_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (at == MAP_FAILED) {
    weft_free(places);
    weft_free(r);
    close(file);
    return NULL;
  }
  /* The receiver writes the words alone: tensors that it does not own the bytes of are not written. */
  if (!is_sender) (void)mprotect((char *)at + UNIT, WEFT_LOCAL_ROOM_BYTES - UNIT, PROT_READ);
  atomic_init(&r->refs, 1);
  r->file = file;
  r->at = at;
  r->states = at;
  r->places = places;
  weft_mutex_init(&r->mu);
  return r;
}

weft_local_room_t *weft_local_room_create(void) {
  const int file = memfd_create("weft-room", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (file < 0) return NULL;
  /* The words have their memory from the start: the receiver's stores cannot fail. */
  if (ftruncate(file, WEFT_LOCAL_ROOM_BYTES) == 0 && fcntl(file, F_ADD_SEALS, SEALS) == 0 &&
      fallocate(file, 0, 0, UNIT) == 0)
    return map_room(file, false);
  close(file);
  return NULL;
}

weft_local_room_t *weft_local_room_open(int file) {
  struct stat st;
  const int seals = fcntl(file, F_GET_SEALS);
  if (seals >= 0 && (seals & SEALS) == SEALS && fstat(file, &st) == 0 && st.st_size == WEFT_LOCAL_ROOM_BYTES)
    return map_room(file, true);
  close(file);
  return NULL;
}

weft_local_room_t *weft_local_room_retain(weft_local_room_t *r) {
  if (r != NULL) atomic_fetch_add_explicit(&r->refs, 1, memory_order_relaxed);
  return r;
}

void weft_local_room_release(weft_local_room_t *r) {
  if (r == NULL || atomic_fetch_sub_explicit(&r->refs, 1, memory_order_acq_rel) != 1) return;
  munmap(r->at, WEFT_LOCAL_ROOM_BYTES);
  close(r->file);
  weft_mutex_deinit(&r->mu);
  weft_free(r->places);
  weft_free(r);
}

int weft_local_room_file(const weft_local_room_t *r) { return r->file; }

/* ---- the sender ---- */

/* Units that begin at `unit` with what is one place, or one free unit; frees a place that was given back. */
static int step_over_locked(weft_local_room_t *r, int unit, bool *out_is_free) WEFT_REQUIRES(r->mu) {
  room_place_t *p = &r->places[unit];
  /* Acquire: the receiver's last use of the bytes comes before the next write. */
  if (p->units > 0 && p->is_filled && atomic_load_explicit(&r->states[unit], memory_order_acquire) == FREE)
    p->units = 0;
  *out_is_free = p->units == 0;
  return *out_is_free ? 1 : p->units;
}

/* The first of `n` free units; 0: there are none. */
static int find_locked(weft_local_room_t *r, int n) WEFT_REQUIRES(r->mu) {
  int free_units = 0;
  for (int unit = 1; unit < UNITS;) {
    bool is_free;
    const int step = step_over_locked(r, unit, &is_free);
    unit += step;
    free_units = is_free ? free_units + 1 : 0;
    if (free_units == n) return unit - n;
  }
  return 0;
}

static bool back_locked(weft_local_room_t *r, int end) WEFT_REQUIRES(r->mu) {
  if (end <= r->backed) return true;
  const off_t from = (off_t)r->backed * UNIT;
  int result;
  do {
    result = fallocate(r->file, 0, from, (off_t)end * UNIT - from);
  } while (result != 0 && errno == EINTR);
  if (result == 0) r->backed = end;
  return result == 0;
}

bool weft_local_room_take(weft_local_room_t *r, uint64_t transfer, size_t bytes, uint64_t *out_at) {
  if (bytes == 0 || bytes > WEFT_LOCAL_ROOM_MOST) return false;
  const int n = (int)((bytes + UNIT - 1) / UNIT);
  weft_mutex_lock(&r->mu);
  int unit = find_locked(r, n);
  if (unit > 0 && !back_locked(r, unit + n)) unit = 0;
  if (unit > 0) {
    r->places[unit] = (room_place_t){.units = n, .transfer = transfer};
    atomic_store_explicit(&r->states[unit], FILLING, memory_order_relaxed); /* the answer orders it */
  }
  weft_mutex_unlock(&r->mu);
  *out_at = (uint64_t)unit * UNIT;
  return unit > 0;
}

weft_local_fill_t weft_local_room_fill(weft_local_room_t *r, uint64_t at, const void *data, size_t bytes) {
  const size_t unit = (size_t)at / UNIT;
  memcpy(r->at + at, data, bytes);
  weft_mutex_lock(&r->mu);
  r->places[unit].is_filled = true;
  const bool is_forgotten = r->places[unit].is_forgotten;
  /* Release: a receiver that sees FILLED sees the bytes. */
  const unsigned was =
      atomic_exchange_explicit(&r->states[unit], is_forgotten ? FREE : FILLED, memory_order_acq_rel);
  weft_mutex_unlock(&r->mu);
  if (is_forgotten) return WEFT_LOCAL_FILLED_FORGOTTEN;
  return was == AWAITED ? WEFT_LOCAL_FILLED_AWAITED : WEFT_LOCAL_FILLED;
}

static void free_locked(weft_local_room_t *r, size_t unit) WEFT_REQUIRES(r->mu) {
  atomic_store_explicit(&r->states[unit], FREE, memory_order_relaxed);
}

void weft_local_room_drop(weft_local_room_t *r, uint64_t at) {
  const size_t unit = (size_t)at / UNIT;
  weft_mutex_lock(&r->mu);
  r->places[unit].is_filled = true;
  free_locked(r, unit);
  weft_mutex_unlock(&r->mu);
}

bool weft_local_room_forget(weft_local_room_t *r, uint64_t transfer) {
  bool had = false;
  weft_mutex_lock(&r->mu);
  for (int unit = 1; unit < UNITS;) {
    bool is_free;
    const int step = step_over_locked(r, unit, &is_free);
    if (!is_free && r->places[unit].transfer == transfer) {
      had = true;
      r->places[unit].is_forgotten = true;
      if (r->places[unit].is_filled) free_locked(r, (size_t)unit);
    }
    unit += step;
  }
  weft_mutex_unlock(&r->mu);
  return had;
}

/* ---- the receiver ---- */

void *weft_local_room_at(const weft_local_room_t *r, uint64_t at, size_t bytes) {
  if (at < UNIT || at % UNIT != 0 || at >= WEFT_LOCAL_ROOM_BYTES || bytes > WEFT_LOCAL_ROOM_BYTES - at)
    return NULL;
  return r->at + at;
}

static atomic_uint *state_of(const weft_local_room_t *r, const void *data) {
  return &r->states[(size_t)((const char *)data - r->at) / UNIT];
}

bool weft_local_room_is_filled(const weft_local_room_t *r, const void *data) {
  return atomic_load_explicit(state_of(r, data), memory_order_acquire) == FILLED;
}

bool weft_local_room_await(weft_local_room_t *r, const void *data) {
  unsigned was = FILLING;
  return !atomic_compare_exchange_strong_explicit(state_of(r, data), &was, AWAITED, memory_order_acq_rel,
                                                  memory_order_acquire) &&
         was == FILLED;
}

void weft_local_room_give_back(weft_local_room_t *r, const void *data) {
  atomic_store_explicit(state_of(r, data), FREE, memory_order_release);
}
