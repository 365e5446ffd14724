/* tests/cuda/fake/sharing.c - device memory that other processes open: cuIpc...
 *
 * The memory of a device is a file without a name. A handle says which process, which of its files, and where
 * the allocation lies in it; the file is opened through /proc, which works as long as the process lives. What
 * is mapped stays when the process has ended, as on a GPU. Behind the bytes of the file stands which
 * processes have which allocation open.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/cuda/fake/machine.h"

static const uint64_t MAGIC = UINT64_C(0x746665772d637069);
enum { PAGE = 4096 };

typedef struct handle_words {
  uint64_t magic;
  int pid, file, device, reserved;
  uint64_t offset, bytes, serial, memory_bytes;
} handle_words_t;
_Static_assert(sizeof(handle_words_t) <= sizeof(CUipcMemHandle), "it fits");

fake_import_t *fake_import_of(const void *p) {
  for (fake_import_t *i = fake.imports; i != NULL; i = i->next) {
    if ((uintptr_t)p >= (uintptr_t)i->front && (uintptr_t)p - (uintptr_t)i->front < i->bytes) return i;
  }
  return NULL;
}

static fake_opened_t *opened_of(fake_opened_t *all, uint64_t serial) {
  return &all[serial % FAKE_MAX_OPENED];
}

bool fake_is_open_elsewhere(const fake_device_t *d, uint64_t serial) {
  fake_opened_t *o = opened_of(d->opened, serial);
  if (o->serial != serial) return false;
  for (int i = 0; i < FAKE_MAX_READERS; i++) {
    const int pid = __atomic_load_n(&o->pids[i], __ATOMIC_ACQUIRE);
    if (pid != 0 && (kill(pid, 0) == 0 || errno != ESRCH)) return true;
  }
  return false;
}

static const fake_allocation_t *allocation_at(const fake_device_t *d, const char *at) {
  const fake_allocation_t *a = d->allocations;
  while (a != NULL && (at < a->at || (size_t)(at - a->at) >= a->bytes)) a = a->next;
  return a;
}

FAKE_EXPORT CUresult CUDAAPI cuMemGetAddressRange(CUdeviceptr *out_at, size_t *out_bytes, CUdeviceptr p) {
  FAKE_BEGIN(cuMemGetAddressRange, true);
  const char *at = (const char *)(uintptr_t)p;
  const fake_import_t *i = fake_import_of(at);
  const fake_device_t *d = fake_memory_owner(at);
  const fake_allocation_t *a = i != NULL || d == NULL ? NULL : allocation_at(d, at);
  if (i == NULL && a == NULL) return fake_end(CUDA_ERROR_NOT_FOUND);
  *out_at = (CUdeviceptr)(uintptr_t)(i != NULL ? i->front : a->at);
  *out_bytes = i != NULL ? i->bytes : a->bytes;
  return fake_end(CUDA_SUCCESS);
}

FAKE_EXPORT CUresult CUDAAPI cuIpcGetMemHandle(CUipcMemHandle *out, CUdeviceptr p) {
  FAKE_BEGIN(cuIpcGetMemHandle, true);
  const char *at = (const char *)(uintptr_t)p;
  const fake_device_t *d = fake_memory_owner(at);
  const fake_allocation_t *a = d == NULL || fake_import_of(at) != NULL ? NULL : allocation_at(d, at);
  if (a == NULL || a->at != at) {
    fake_fault("a handle is wanted of what is no allocation");
    return fake_end(CUDA_ERROR_INVALID_VALUE);
  }
  const handle_words_t w = {.magic = MAGIC,
                            .pid = (int)getpid(),
                            .file = d->file,
                            .device = (int)(d - fake.devices),
                            .offset = (uint64_t)(at - d->front),
                            .bytes = a->bytes,
                            .serial = a->serial,
                            .memory_bytes = d->bytes};
  fake_opened_t *o = opened_of(d->opened, a->serial);
  if (o->serial != a->serial) *o = (fake_opened_t){.serial = a->serial};
  memset(out, 0, sizeof *out);
  memcpy(out, &w, sizeof w);
  return fake_end(CUDA_SUCCESS);
}

/* The file of the handle's memory; -1: its process has ended. */
static int open_file(const handle_words_t *w) {
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/fd/%d", w->pid, w->file);
  return open(path, O_RDWR | O_CLOEXEC);
}

static bool note_reader(fake_opened_t *o, uint64_t serial) {
  if (o->serial != serial) return false; /* the memory has been freed */
  for (int i = 0; i < FAKE_MAX_READERS; i++) {
    int none = 0;
    if (__atomic_compare_exchange_n(&o->pids[i], &none, (int)getpid(), false, __ATOMIC_ACQ_REL,
                                    __ATOMIC_ACQUIRE))
      return true;
  }
  return false;
}

static fake_import_t *map(const handle_words_t *w, int file) {
  fake_import_t *i = calloc(1, sizeof *i);
  if (i == NULL) return NULL;
  const size_t opened = FAKE_MAX_OPENED * sizeof(fake_opened_t), before = w->offset % PAGE;
  char *all = mmap(NULL, opened, PROT_READ | PROT_WRITE, MAP_SHARED, file, (off_t)w->memory_bytes);
  char *back = mmap(NULL, w->bytes + before, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file,
                    (off_t)(w->offset - before));
  char *front = mmap(NULL, w->bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (all == MAP_FAILED || back == MAP_FAILED || front == MAP_FAILED ||
      !note_reader(opened_of((fake_opened_t *)(void *)all, w->serial), w->serial)) {
    free(i); /* mappings stay: this is a test */
    return NULL;
  }
  i->bytes = w->bytes;
  i->front = front;
  i->back = back + before;
  i->opened = (fake_opened_t *)(void *)all;
  return i;
}

FAKE_EXPORT CUresult CUDAAPI cuIpcOpenMemHandle(CUdeviceptr *out, CUipcMemHandle handle, unsigned flags) {
  FAKE_BEGIN(cuIpcOpenMemHandle, true);
  handle_words_t w;
  memcpy(&w, &handle, sizeof w);
  if (w.magic != MAGIC || flags != CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS)
    return fake_end(CUDA_ERROR_INVALID_VALUE);
  if (w.pid == (int)getpid() && fake.own == 0) return fake_end(CUDA_ERROR_INVALID_CONTEXT);
  const int device = fake_current()->device;
  if (w.device != device && fake.peers == 0) return fake_end(CUDA_ERROR_PEER_ACCESS_UNSUPPORTED);
  for (fake_import_t *i = fake.imports; i != NULL; i = i->next) {
    if (i->device != device || memcmp(&i->handle, &handle, sizeof handle) != 0) continue;
    i->users++;
    *out = (CUdeviceptr)(uintptr_t)i->front;
    return fake_end(CUDA_SUCCESS);
  }
  const int file = open_file(&w);
  fake_import_t *i = file < 0 ? NULL : map(&w, file);
  if (file >= 0) close(file);
  if (i == NULL) return fake_end(CUDA_ERROR_MAP_FAILED);
  i->device = device;
  i->users = 1;
  i->handle = handle;
  i->next = fake.imports;
  fake.imports = i;
  fake.live.imports++;
  *out = (CUdeviceptr)(uintptr_t)i->front;
  return fake_end(CUDA_SUCCESS);
}

/* Takes it out of the list and unmaps it. */
static void unmap(fake_import_t **at) {
  fake_import_t *i = *at;
  handle_words_t w;
  *at = i->next;
  memcpy(&w, &i->handle, sizeof w);
  fake_opened_t *o = opened_of(i->opened, w.serial);
  for (int k = 0; k < FAKE_MAX_READERS; k++) {
    int own = (int)getpid();
    if (__atomic_compare_exchange_n(&o->pids[k], &own, 0, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) break;
  }
  (void)munmap(i->front, i->bytes);
  (void)munmap(i->back - w.offset % PAGE, i->bytes + w.offset % PAGE);
  (void)munmap(i->opened, FAKE_MAX_OPENED * sizeof *i->opened);
  free(i);
  fake.live.imports--;
}

void fake_imports_end(int device, bool is_broken) {
  for (fake_import_t **at = &fake.imports; *at != NULL;) {
    if ((*at)->device != device) {
      at = &(*at)->next;
      continue;
    }
    if (!is_broken) fake_fault("another process's memory is left open in a context that ends");
    unmap(at);
  }
}

FAKE_EXPORT CUresult CUDAAPI cuIpcCloseMemHandle(CUdeviceptr p) {
  FAKE_BEGIN(cuIpcCloseMemHandle, true);
  fake_import_t **at = &fake.imports;
  while (*at != NULL && (*at)->front != (char *)(uintptr_t)p) at = &(*at)->next;
  if (*at == NULL) {
    fake_fault("memory of another process was closed that is not open");
    return fake_end(CUDA_ERROR_INVALID_VALUE);
  }
  if (--(*at)->users == 0) unmap(at);
  return fake_end(CUDA_SUCCESS);
}
