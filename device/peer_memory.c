/* device/peer_memory.c - what was opened of other processes' memory, and copies from it.
 *
 * A list of all, for all devices: there are few, one for each region of each peer's device. What is not used
 * is kept for the next tensor; what is forgotten is closed by its last copy.
 *
 * Locking: `closing`, then `mu`, a leaf. Drivers are called without `mu`, so two threads may open the same
 * memory at once: each has its own then. `closing` is held while memory that is forgotten is closed, so that
 * a device does not end meanwhile.
 */
#include "device/peer_memory.h"

#include "base/alloc.h"
#include "base/mutex.h"
#include "device/peer_host_memory.h"
#include "device/queue.h"

typedef struct opened_memory {
  struct opened_memory *next;
  const weft_device_t *device;
  uint64_t peer;
  uint8_t handle[WEFT_MEMORY_HANDLE_BYTES];
  const char *at;
  size_t bytes;
  int users;         /* guarded by mu */
  bool is_forgotten; /* guarded by mu: it is not in the list any more */
} opened_memory_t;

typedef struct peer_copy {
  weft_fence_waiter_t waiter;
  opened_memory_t *memory; /* used */
  weft_tensor_t *to;       /* retained */
  weft_peer_copy_fn *fn;
  void *arg;
} peer_copy_t;

static weft_mutex_t closing = WEFT_MUTEX_INITIALIZER;
static weft_mutex_t mu = WEFT_MUTEX_INITIALIZER;
static opened_memory_t *all; /* guarded by mu */

static const weft_device_sharing_t *sharing_of(const weft_device_t *d) { return d->driver->sharing; }

bool weft_peer_memory_identify(const weft_memory_space_t *space, uint8_t out[WEFT_DEVICE_ID_BYTES]) {
  if (space == NULL) return weft_peer_host_identify(out);
  const weft_device_t *d = space->device;
  if (d->driver == NULL || sharing_of(d) == NULL) return false;
  weft_status_t *s = sharing_of(d)->identify(d, out);
  const bool is_known = s == NULL;
  weft_status_free(s); /* tensors go by way of the host then */
  return is_known;
}

bool weft_peer_memory_export(const weft_tensor_t *t, weft_str_t type, weft_str_t reader,
                             WEFT_SharedMemory *out) {
  if (t->space == NULL) return weft_str_is(type, WEFT_PEER_HOST) && weft_peer_host_export(t, out);
  const weft_device_t *d = t->space->device;
  if (d->driver == NULL || sharing_of(d) == NULL || !weft_dtype_is_plain(t->dtype)) return false;
  if (reader.length != WEFT_DEVICE_ID_BYTES || !weft_str_is(type, d->driver->type)) return false;
  *out = (WEFT_SharedMemory){.size = sizeof *out};
  weft_status_t *s = sharing_of(d)->export_memory(d, t->data, (const uint8_t *)reader.data, out);
  const bool is_exported = s == NULL;
  weft_status_free(s); /* it goes by way of the host then */
  return is_exported;
}

/* ---- what is open ---- */

static void close_memory(opened_memory_t *m) {
  sharing_of(m->device)->forget_memory(m->device, m->at);
  weft_free(m);
}

static opened_memory_t *find_locked(const weft_device_t *d, uint64_t peer, const uint8_t *handle) {
  opened_memory_t *m = all;
  while (m != NULL && (m->device != d || m->peer != peer || memcmp(m->handle, handle, sizeof m->handle) != 0))
    m = m->next;
  return m;
}

/* Opens it if it is not open; used from now on. */
static weft_status_t *use(const weft_device_t *d, uint64_t peer, const uint8_t *handle,
                          opened_memory_t **out) {
  weft_mutex_lock(&mu);
  opened_memory_t *m = find_locked(d, peer, handle);
  if (m != NULL) m->users++;
  weft_mutex_unlock(&mu);
  *out = m;
  if (m != NULL) return NULL;
  m = weft_calloc(1, sizeof *m);
  if (m == NULL) return WEFT_NO_MEMORY("memory of another process");
  *m = (opened_memory_t){.device = d, .peer = peer, .users = 1};
  memcpy(m->handle, handle, sizeof m->handle);
  const void *at = NULL;
  weft_status_t *s = sharing_of(d)->import_memory(d, handle, &at, &m->bytes);
  if (s != NULL) {
    weft_free(m);
    return s;
  }
  m->at = at;
  weft_mutex_lock(&mu);
  m->next = all;
  all = m;
  weft_mutex_unlock(&mu);
  *out = m;
  return NULL;
}

static void unuse(opened_memory_t *m) {
  weft_mutex_lock(&mu);
  const bool is_last = --m->users == 0 && m->is_forgotten;
  weft_mutex_unlock(&mu);
  if (is_last) close_memory(m);
}

/* Takes what belongs to either out of the list; returns what is not used. */
static opened_memory_t *take_locked(uint64_t peer, const weft_device_t *d) {
  opened_memory_t *unused = NULL;
  for (opened_memory_t **at = &all; *at != NULL;) {
    opened_memory_t *m = *at;
    if (m->peer != peer && m->device != d) {
      at = &m->next;
      continue;
    }
    *at = m->next;
    m->is_forgotten = true;
    if (m->users > 0) continue;
    m->next = unused;
    unused = m;
  }
  return unused;
}

static void forget(uint64_t peer, const weft_device_t *d) {
  weft_mutex_lock(&closing);
  weft_mutex_lock(&mu);
  opened_memory_t *unused = take_locked(peer, d);
  weft_mutex_unlock(&mu);
  for (opened_memory_t *next; unused != NULL; unused = next) {
    next = unused->next;
    close_memory(unused);
  }
  weft_mutex_unlock(&closing);
}

void weft_peer_memory_forget(uint64_t peer) { forget(peer, NULL); }

void weft_peer_memory_end(const weft_device_t *d) { forget(0, d); }

/* ---- copies ---- */

static void on_copied(void *arg, weft_status_t *status) {
  peer_copy_t *x = arg;
  unuse(x->memory);
  weft_peer_copy_fn *fn = x->fn;
  void *fn_arg = x->arg;
  weft_tensor_t *to = x->to;
  weft_free(x);
  if (status != NULL) {
    weft_tensor_release(to);
    to = NULL;
  }
  fn(fn_arg, status, to);
}

static void keep_bytes(void *data, size_t bytes, void *arg) { (void)data, (void)bytes, (void)arg; }

static weft_status_t *enqueue(const opened_memory_t *m, uint64_t offset, weft_tensor_t *to) {
  weft_queue_t *q = to->space->device->copies_in;
  weft_tensor_t *from = NULL;
  if (offset > m->bytes || m->bytes - offset < to->bytes) {
    return WEFT_ERROR(INVALID_ARGUMENT, "a tensor of %zu bytes at %llu of %zu bytes of another process",
                      to->bytes, (unsigned long long)offset, m->bytes);
  }
  char *bytes = (char *)(uintptr_t)m->at + offset; /* the cast drops const: a copy only reads */
  WEFT_RETURN_IF_ERROR(weft_tensor_wrap(to->dtype, &to->shape, bytes, to->bytes, keep_bytes, NULL, &from));
  from->space = to->space;
  weft_queue_wait(q, to->fence); /* its memory's last use */
  weft_status_t *s = q->ops->copy(q, from, to);
  weft_tensor_release(from); /* `m` is used until the copy is done */
  return s;
}

weft_status_t *weft_peer_memory_copy(uint64_t peer, const weft_peer_tensor_t *from,
                                     const weft_memory_space_t *space, weft_peer_copy_fn *fn, void *arg) {
  if (space == NULL) return weft_peer_host_copy(from, fn, arg);
  weft_device_t *d = space->device;
  peer_copy_t *x = weft_calloc(1, sizeof *x);
  if (x == NULL) return WEFT_NO_MEMORY("receiving a tensor");
  x->fn = fn;
  x->arg = arg;
  weft_status_t *s =
      weft_tensor_new(from->dtype, &from->shape, weft_memory_account(d->memory, WEFT_MEMORY_COMM), &x->to);
  if (s == NULL) s = use(d, peer, from->handle, &x->memory);
  if (s == NULL) s = enqueue(x->memory, from->offset, x->to);
  if (s != NULL) {
    if (x->memory != NULL) unuse(x->memory);
    weft_tensor_release(x->to);
    weft_free(x);
    return s;
  }
  x->to->fence = weft_queue_mark(d->copies_in);
  weft_fence_then(x->to->fence, &x->waiter, on_copied, x);
  return NULL;
}
