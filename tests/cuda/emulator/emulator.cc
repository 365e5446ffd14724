/* tests/cuda/emulator/emulator.cc - the list of kernels, and blocks whose threads are fibers.
 *
 * A fiber is a context of its own (ucontext) that runs one thread of a block after the other block's, launch
 * by launch: it is made once a launch. The scheduler resumes the fibers in turn. A fiber that waits says for
 * what: the block's barrier or its warp's. When no fiber can run, the barriers that are complete open; if
 * there is none, the kernel would hang, and the process ends.
 *
 * All state belongs to the thread of the host that runs the launch.
 */
#include "tests/cuda/emulator/emulator.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

#include "tests/cuda/emulator/cuda_on_host.h"

#undef threadIdx
#undef blockIdx
#undef blockDim
#undef gridDim

namespace weft {

__thread emulated_thread emulated_now;

enum { MAX_THREADS = 1024, WARP = 32, STACK_BYTES = 64 * 1024, MAX_VALUE = 16, MAX_SITES = 16 };
enum { SHARED_BYTES = 48 * 1024 }; /* of a block, without an opt-in */

typedef enum fiber_state { READY, AT_BARRIER, AT_WARP, ENDED } fiber_state_t;

struct fiber {
  ucontext_t context;
  fiber_state_t state;
  emulated_dim3 thread;
  int number;  /* within the block */
  bool parity; /* which of the two slots the next shuffle uses */
  char slots[2][MAX_VALUE];
};

struct launch {
  const weft_emulated_kernel_t *kernel;
  void *closure;
  emulated_dim3 block_size;
  int num_threads;
  fiber *fibers; /* NULL: threads do not wait */
  char *stacks;
  ucontext_t scheduler;
  fiber *running;
  const void *sites[MAX_SITES];
  char *site_memory[MAX_SITES];
  int num_sites;
  size_t shared_used;
  alignas(16) char shared[SHARED_BYTES];
};

static __thread launch *current;

[[noreturn]] static void die(const char *what) {
  fprintf(stderr, "emulator: kernel %s, block (%u, %u, %u), thread (%u, %u, %u): %s\n",
          current != nullptr ? current->kernel->name : "?", emulated_now.block.x, emulated_now.block.y,
          emulated_now.block.z, emulated_now.thread.x, emulated_now.thread.y, emulated_now.thread.z, what);
  abort();
}

/* ---- the list ---- */

static const weft_emulated_kernel_t *list; /* atomic: modules that are compiled at run time add to it */

void emulated_register(weft_emulated_kernel_t *kernel) {
  kernel->next_in_list = __atomic_load_n(&list, __ATOMIC_RELAXED);
  while (!__atomic_compare_exchange_n(&list, &kernel->next_in_list, kernel, false, __ATOMIC_RELEASE,
                                      __ATOMIC_RELAXED)) {
  }
}

/* ---- what a thread calls ---- */

static void wait_as(fiber_state_t state) {
  launch *l = current;
  if (l->fibers == nullptr) die("waits, but is no WEFT_CUDA_BLOCK_KERNEL");
  fiber *f = l->running;
  f->state = state;
  swapcontext(&f->context, &l->scheduler);
}

void emulated_syncthreads() { wait_as(AT_BARRIER); }

int emulated_place() {
  if (current->fibers == nullptr) die("shuffles, but is no WEFT_CUDA_BLOCK_KERNEL");
  return current->running->number % WARP;
}

void emulated_shuffle(void *value, size_t bytes, int from) {
  launch *l = current;
  fiber *f = l->running;
  if (bytes > MAX_VALUE) die("shuffles a value that is too large");
  const bool parity = f->parity;
  f->parity = !parity;
  memcpy(f->slots[parity], value, bytes);
  wait_as(AT_WARP);
  const int at = f->number / WARP * WARP + from;
  if (from < 0 || from >= WARP || at >= l->num_threads) return; /* the caller's own value */
  if (l->fibers[at].state == ENDED) die("shuffles with a thread that has ended");
  memcpy(value, l->fibers[at].slots[parity], bytes);
}

void *emulated_shared(const void *site, size_t bytes) {
  launch *l = current;
  if (l->fibers == nullptr) die("has shared memory, but is no WEFT_CUDA_BLOCK_KERNEL");
  for (int i = 0; i < l->num_sites; i++) {
    if (l->sites[i] == site) return l->site_memory[i];
  }
  const size_t rounded = (bytes + 15) & ~(size_t)15;
  if (l->num_sites == MAX_SITES || rounded > SHARED_BYTES - l->shared_used) die("has too much shared memory");
  char *memory = l->shared + l->shared_used;
  l->shared_used += rounded;
  l->sites[l->num_sites] = site;
  l->site_memory[l->num_sites++] = memory;
  return memory;
}

/* ---- blocks ---- */

/* A fiber: runs its thread of a block, gives control back, and does so again for the next block. */
static void fiber_main() {
  for (;;) {
    launch *l = current;
    l->kernel->run(l->closure);
    l->running->state = ENDED;
    swapcontext(&l->running->context, &l->scheduler);
  }
}

static bool open_warps(launch *l) {
  bool opened = false;
  for (int w = 0; w < l->num_threads; w += WARP) {
    const int end = w + WARP < l->num_threads ? w + WARP : l->num_threads;
    int waiting = 0, ended = 0;
    for (int i = w; i < end; i++) {
      waiting += l->fibers[i].state == AT_WARP;
      ended += l->fibers[i].state == ENDED;
    }
    if (waiting == 0 || waiting + ended < end - w) continue;
    for (int i = w; i < end; i++) {
      if (l->fibers[i].state == AT_WARP) l->fibers[i].state = READY;
    }
    opened = true;
  }
  return opened;
}

/* A barrier that some threads have ended without is taken for an error: on a device it would depend on luck
 * whether their writes are seen. */
static bool open_barrier(launch *l) {
  for (int i = 0; i < l->num_threads; i++) {
    if (l->fibers[i].state != AT_BARRIER) return false;
  }
  for (int i = 0; i < l->num_threads; i++) l->fibers[i].state = READY;
  return true;
}

static void run_fibers(launch *l) {
  memset(l->shared, 0xcd, l->shared_used);
  for (int i = 0; i < l->num_threads; i++) l->fibers[i].state = READY;
  for (;;) {
    int ended = 0;
    bool ran = false;
    for (int i = 0; i < l->num_threads; i++) {
      fiber *f = &l->fibers[i];
      if (f->state == READY) {
        emulated_now.thread = f->thread;
        l->running = f;
        swapcontext(&l->scheduler, &f->context);
        ran = true;
      }
      ended += f->state == ENDED;
    }
    if (ended == l->num_threads) return;
    if (!open_warps(l) && !open_barrier(l) && !ran) die("its threads wait for ever");
  }
}

static void make_fibers(launch *l) {
  const size_t bytes = (size_t)l->num_threads * STACK_BYTES;
  l->fibers = (fiber *)calloc((size_t)l->num_threads, sizeof(fiber));
  void *stacks =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (l->fibers == nullptr || stacks == MAP_FAILED) die("there is no memory for its threads");
  l->stacks = (char *)stacks;
  for (int i = 0; i < l->num_threads; i++) {
    fiber *f = &l->fibers[i];
    const unsigned n = (unsigned)i, x = l->block_size.x, y = l->block_size.y;
    f->number = i;
    f->thread = emulated_dim3{n % x, n / x % y, n / x / y};
    getcontext(&f->context);
    f->context.uc_stack.ss_sp = l->stacks + (size_t)i * STACK_BYTES;
    f->context.uc_stack.ss_size = STACK_BYTES;
    f->context.uc_link = nullptr;
    makecontext(&f->context, fiber_main, 0);
  }
}

static void run_block(launch *l) {
  if (l->fibers != nullptr) {
    run_fibers(l);
    return;
  }
  const emulated_dim3 size = l->block_size;
  emulated_dim3 *t = &emulated_now.thread;
  for (t->z = 0; t->z < size.z; t->z++) {
    for (t->y = 0; t->y < size.y; t->y++) {
      for (t->x = 0; t->x < size.x; t->x++) l->kernel->run(l->closure);
    }
  }
}

}  // namespace weft

using namespace weft;

const weft_emulated_kernel_t *weft_emulated_kernel(const char *name) {
  for (const weft_emulated_kernel_t *k = __atomic_load_n(&list, __ATOMIC_ACQUIRE); k != nullptr; k = k->next_in_list) {
    if (strcmp(k->name, name) == 0) return k;
  }
  return nullptr;
}

int weft_emulated_count(void) {
  int n = 0;
  for (const weft_emulated_kernel_t *k = __atomic_load_n(&list, __ATOMIC_ACQUIRE); k != nullptr; k = k->next_in_list) n++;
  return n;
}

void weft_emulated_run(const weft_emulated_kernel_t *kernel, void *closure, const unsigned grid[3],
                       const unsigned block[3], size_t shared_bytes) {
  launch *l = (launch *)calloc(1, sizeof *l);
  if (l == nullptr) abort();
  l->kernel = kernel;
  l->closure = closure;
  l->block_size = emulated_dim3{block[0], block[1], block[2]};
  current = l;
  emulated_now.block_size = l->block_size;
  emulated_now.grid = emulated_dim3{grid[0], grid[1], grid[2]};
  const uint64_t num_threads = (uint64_t)block[0] * block[1] * block[2];
  if (num_threads == 0 || num_threads > MAX_THREADS) die("a block of no or too many threads");
  if (grid[0] == 0 || grid[1] == 0 || grid[2] == 0 || grid[0] > 0x7fffffffu || grid[1] > 65535 ||
      grid[2] > 65535)
    die("a grid that is empty or too large");
  if (shared_bytes > SHARED_BYTES) die("too much dynamic shared memory");
  l->num_threads = (int)num_threads;
  if (kernel->waits) make_fibers(l);
  emulated_dim3 *b = &emulated_now.block;
  for (b->z = 0; b->z < grid[2]; b->z++) {
    for (b->y = 0; b->y < grid[1]; b->y++) {
      for (b->x = 0; b->x < grid[0]; b->x++) run_block(l);
    }
  }
  if (l->stacks != nullptr) munmap(l->stacks, (size_t)l->num_threads * STACK_BYTES);
  free(l->fibers);
  free(l);
  free(closure);
  current = nullptr;
}
