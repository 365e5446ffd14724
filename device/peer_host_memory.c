/* device/peer_host_memory.c - copies from the host's memory of another process.
 *
 * A handle is where the owner's word lies and the word; the rest of its bytes is zero. The offset is the
 * tensor's address. One thread copies at about half the speed of memcpy, because the kernel looks up each
 * page of the owner: large tensors are copied by several threads. Those are this module's own, as many as
 * there are processors but at most four: the threads that kernels run on are not to wait for memory.
 */
#include "device/peer_host_memory.h"

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/process_memory.h"
#include "base/thread_pool.h"

enum {
  PIECE = 512 << 10,
  BY_CALLER = 4 << 20, /* bytes that the caller copies, with help: a thread that takes the copy over would
                          first have to be woken. More would hold up what else the caller is there for */
  MOST_THREADS = 4
};

typedef struct host_copy {
  weft_process_memory_t owner;
  int64_t pid;
  uint64_t address;
  weft_tensor_t *to;              /* owned */
  _Atomic(weft_status_t *) first; /* owned: the first failure */
  weft_peer_copy_fn *fn;
  void *arg;
} host_copy_t;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static weft_thread_pool_t *pool; /* constant after `once`; NULL: there is none. Never ended */

static void make_pool(void) {
  const long processors = sysconf(_SC_NPROCESSORS_ONLN);
  const int n = processors < 1 ? 1 : processors > MOST_THREADS ? MOST_THREADS : (int)processors;
  weft_status_free(weft_thread_pool_create("weft-copy", n, &pool)); /* without it, callers copy */
}

static void copy_range(void *arg, int64_t begin, int64_t end) {
  host_copy_t *x = arg;
  if (atomic_load_explicit(&x->first, memory_order_relaxed) != NULL) return;
  weft_status_t *s = weft_process_memory_read(x->pid, x->owner, x->address + (uint64_t)begin,
                                              (char *)x->to->data + begin, (size_t)(end - begin)),
                *none = NULL;
  if (s != NULL && !atomic_compare_exchange_strong(&x->first, &none, s)) weft_status_free(s);
}

static void finish(host_copy_t *x) {
  weft_status_t *s = atomic_load(&x->first);
  weft_tensor_t *to = x->to;
  weft_peer_copy_fn *fn = x->fn;
  void *arg = x->arg;
  weft_free(x);
  if (s != NULL) {
    weft_tensor_release(to);
    to = NULL;
  }
  fn(arg, s, to);
}

static void copy_all(void *arg) {
  host_copy_t *x = arg;
  weft_parallel_for(pool, (int64_t)x->to->bytes, PIECE, copy_range, x);
  finish(x);
}

bool weft_peer_host_identify(uint8_t out[WEFT_DEVICE_ID_BYTES]) {
  memset(out, 0, WEFT_DEVICE_ID_BYTES);
  return weft_process_memory_may_read();
}

bool weft_peer_host_export(const weft_tensor_t *t, WEFT_SharedMemory *out) {
  const weft_process_memory_t own = weft_process_memory_own();
  if (!weft_dtype_is_plain(t->dtype)) return false;
  *out = (WEFT_SharedMemory){.size = sizeof *out, .offset = (uint64_t)(uintptr_t)t->data};
  memcpy(out->handle, &own, sizeof own);
  return true;
}

weft_status_t *weft_peer_host_copy(const weft_peer_tensor_t *from, weft_peer_copy_fn *fn, void *arg) {
  host_copy_t *x = weft_calloc(1, sizeof *x);
  if (x == NULL) return WEFT_NO_MEMORY("receiving a tensor");
  memcpy(&x->owner, from->handle, sizeof x->owner);
  x->pid = from->pid;
  x->address = from->offset;
  atomic_init(&x->first, NULL);
  x->fn = fn;
  x->arg = arg;
  /* What may not be read is refused here, where the caller still has another way. */
  weft_status_t *s = weft_process_memory_read(x->pid, x->owner, 0, NULL, 0);
  if (s == NULL) s = weft_tensor_new(from->dtype, &from->shape, NULL, &x->to);
  if (s != NULL) {
    weft_free(x);
    return s;
  }
  (void)pthread_once(&once, make_pool);
  if (x->to->bytes <= BY_CALLER || pool == NULL || !weft_thread_pool_submit(pool, copy_all, x)) copy_all(x);
  return NULL;
}
