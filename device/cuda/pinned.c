/* device/cuda/pinned.c - an arena of the process over cuMemHostAlloc(). */
#include "device/cuda/pinned.h"

#include <unistd.h>

#include "base/mutex.h"
#include "device/cuda/arena.h"
#include "device/cuda/driver.h"

static struct {
  weft_mutex_t mu;
  int users;                /* guarded by mu */
  weft_cuda_arena_t *arena; /* constant while there are users */
} state = {.mu = WEFT_MUTEX_INITIALIZER};

static void *get(void *arg, size_t bytes) {
  (void)arg;
  void *p = NULL;
  return weft_cuda_driver.cuMemHostAlloc(&p, bytes, CU_MEMHOSTALLOC_PORTABLE) == CUDA_SUCCESS ? p : NULL;
}

static void give_back(void *arg, void *p, size_t bytes) {
  (void)arg;
  (void)bytes;
  (void)weft_cuda_driver.cuMemFreeHost(
      p); /* fails when the context is lost, and then it goes with the process */
}

static uint64_t passed(void *arg) {
  (void)arg;
  return UINT64_MAX; /* what is freed is not used any more */
}

/* Half of the machine's memory: the other half stays pageable. */
static size_t limit(void) {
  const long pages = sysconf(_SC_PHYS_PAGES), bytes = sysconf(_SC_PAGESIZE);
  return pages > 0 && bytes > 0 ? (size_t)pages / 2 * (size_t)bytes : (size_t)1 << 30;
}

bool weft_cuda_pinned_retain(void) {
  weft_mutex_lock(&state.mu);
  if (state.users == 0) {
    state.arena = weft_cuda_arena_create(
        &(weft_cuda_arena_source_t){.get = get, .give_back = give_back, .passed = passed}, limit(), true);
  }
  const bool made = state.arena != NULL;
  if (made) state.users++;
  weft_mutex_unlock(&state.mu);
  return made;
}

void weft_cuda_pinned_release(void) {
  weft_mutex_lock(&state.mu);
  if (--state.users == 0) {
    weft_cuda_arena_destroy(state.arena);
    state.arena = NULL;
  }
  weft_mutex_unlock(&state.mu);
}

void *weft_cuda_pinned_allocate(size_t bytes) {
  uint64_t after;
  return weft_cuda_arena_allocate(state.arena, bytes, &after);
}

void weft_cuda_pinned_free(void *arg, void *p) {
  (void)arg;
  weft_cuda_arena_free(state.arena, p, 0);
}

bool weft_cuda_is_pinned(const void *p) { return weft_cuda_arena_has(state.arena, p); }
