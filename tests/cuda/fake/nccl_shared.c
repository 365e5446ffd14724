/* tests/cuda/fake/nccl_shared.c - see the header. */
#define _GNU_SOURCE
#include "tests/cuda/fake/nccl_shared.h"

#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

typedef struct shared_head {
  atomic_uint changes;
  atomic_uint joined; /* a bit for each rank */
  _Atomic uint64_t put[FAKE_SHARED_RANKS];
} shared_head_t;

struct fake_shared {
  shared_head_t *head;
  char *places;
};

enum { HEAD_BYTES = 4096 };
static const size_t all_bytes = HEAD_BYTES + (size_t)2 * FAKE_SHARED_RANKS * FAKE_SHARED_BYTES;

bool fake_shared_make(char id[FAKE_SHARED_ID]) {
  const int fd = memfd_create("fake_nccl", 0);
  if (fd < 0 || ftruncate(fd, (off_t)all_bytes) != 0) return false;
  memset(id, 0, FAKE_SHARED_ID);
  snprintf(id, FAKE_SHARED_ID, "/proc/%d/fd/%d", (int)getpid(), fd);
  return true;
}

static void tell(shared_head_t *h) {
  atomic_fetch_add(&h->changes, 1);
  syscall(SYS_futex, (void *)&h->changes, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

fake_shared_t *fake_shared_join(const char *id, int rank) {
  const int fd = open(id, O_RDWR | O_CLOEXEC);
  fake_shared_t *s = calloc(1, sizeof *s);
  if (fd < 0 || s == NULL) {
    if (fd >= 0) close(fd);
    free(s);
    return NULL;
  }
  char *p = mmap(NULL, all_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  if (p == MAP_FAILED) abort();
  s->head = (shared_head_t *)(void *)p;
  s->places = p + HEAD_BYTES;
  atomic_fetch_or(&s->head->joined, 1u << rank);
  tell(s->head);
  return s;
}

bool fake_shared_has(const fake_shared_t *s, int n) { return atomic_load(&s->head->joined) == (1u << n) - 1; }

char *fake_shared_place(const fake_shared_t *s, int rank, uint64_t k) {
  return s->places + ((size_t)(k % 2) * FAKE_SHARED_RANKS + (size_t)rank) * FAKE_SHARED_BYTES;
}

static bool all_have_put(const shared_head_t *h, int n, uint64_t k) {
  for (int i = 0; i < n; i++) {
    if (atomic_load(&h->put[i]) < k) return false;
  }
  return true;
}

bool fake_shared_meet(fake_shared_t *s, int rank, int n, uint64_t k, const atomic_bool *ends) {
  shared_head_t *h = s->head;
  atomic_store(&h->put[rank], k);
  tell(h);
  for (;;) {
    const unsigned seen = atomic_load(&h->changes);
    if (atomic_load(ends)) return false;
    if (all_have_put(h, n, k)) return true;
    syscall(SYS_futex, (void *)&h->changes, FUTEX_WAIT, seen, NULL, NULL, 0);
  }
}

void fake_shared_wake(fake_shared_t *s) { tell(s->head); }
