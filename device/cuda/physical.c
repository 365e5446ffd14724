/* device/cuda/physical.c - contexts, one for each card that is in use. */
#include "device/cuda/physical.h"

#include <ctype.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/mutex.h"
#include "device/cuda/driver.h"
#include "device/cuda/pinned.h"

enum { LEAST_CAPABILITY = 8 }; /* third_party/cuda/cuda.bzl compiles for 8.0 and later */

typedef enum cuda_reach { NOT_ASKED, REACHES, DOES_NOT_REACH } cuda_reach_t;

static struct {
  weft_mutex_t mu;
  /* guarded by mu: */
  weft_cuda_physical_t *physical[WEFT_CUDA_MAX_DEVICES];
  int users[WEFT_CUDA_MAX_DEVICES];
  cuda_reach_t reach[WEFT_CUDA_MAX_DEVICES][WEFT_CUDA_MAX_DEVICES]; /* [from][to] */
} state = {.mu = WEFT_MUTEX_INITIALIZER};

static WEFT_Failure *attribute(CUdevice device, CUdevice_attribute which, int *out) {
  return weft_cuda_failure(weft_cuda_driver.cuDeviceGetAttribute(out, which, device),
                           "asking for an attribute of device %d", (int)device);
}

WEFT_Failure *weft_cuda_physical_count(int max, bool *out_usable, int *out) {
  int num = 0;
  WEFT_Failure *f = weft_cuda_failure(weft_cuda_driver.cuDeviceGetCount(&num), "counting devices");
  for (int i = 0; i < num && i < max && f == NULL; i++) {
    CUdevice device;
    int major = 0, minor = 0;
    f = weft_cuda_failure(weft_cuda_driver.cuDeviceGet(&device, i), "looking up device %d", i);
    if (f == NULL) f = attribute(device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, &major);
    if (f == NULL) f = attribute(device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, &minor);
    out_usable[i] = major >= LEAST_CAPABILITY;
    if (f == NULL && !out_usable[i]) {
      char text[160];
      snprintf(text, sizeof text,
               "Ignoring visible gpu device %d with compute capability %d.%d. The minimum required is %d.0.",
               i, major, minor, LEAST_CAPABILITY);
      weft_cuda_host->log(0, text);
    }
  }
  *out = num < max ? num : max;
  return f;
}

/* Of a device on the bus, as the system says. */
static int numa_node(const char *bus_id) {
  char path[128], text[32];
  snprintf(path, sizeof path, "/sys/bus/pci/devices/%s/numa_node", bus_id);
  for (char *c = path; *c != '\0'; c++) *c = (char)tolower((unsigned char)*c);
  FILE *file = fopen(path, "re");
  if (file == NULL) return -1;
  if (fgets(text, sizeof text, file) == NULL || text[0] == '-') text[0] = '\0';
  fclose(file);
  char *end = text;
  const long node = strtol(text, &end, 10); /* the system says -1 where it does not know */
  return end == text || node > INT_MAX ? -1 : (int)node;
}

static WEFT_Failure *describe(weft_cuda_physical_t *p) {
  char name[128] = "", bus_id[32] = "";
  WEFT_Failure *f = weft_cuda_failure(weft_cuda_driver.cuDeviceGetName(name, sizeof name, p->handle),
                                      "asking for the name of device %d", p->ordinal);
  if (f == NULL) {
    f = weft_cuda_failure(weft_cuda_driver.cuDeviceGetPCIBusId(bus_id, sizeof bus_id, p->handle),
                          "asking for the address of device %d", p->ordinal);
  }
  if (f == NULL) f = attribute(p->handle, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, &p->capability_major);
  if (f == NULL) f = attribute(p->handle, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, &p->capability_minor);
  if (f == NULL) f = attribute(p->handle, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, &p->num_processors);
  if (f == NULL) f = attribute(p->handle, CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, &p->cache_bytes);
  p->numa_node = numa_node(bus_id);
  p->has_uuid = f == NULL && weft_cuda_driver.cuDeviceGetUuid(&p->uuid, p->handle) == CUDA_SUCCESS;
  snprintf(p->description, sizeof p->description,
           "device: %d, name: %s, pci bus id: %s, compute capability: %d.%d", p->ordinal, name, bus_id,
           p->capability_major, p->capability_minor);
  return f;
}

static void destroy(weft_cuda_physical_t *p) {
  if (p->context != NULL) {
    (void)weft_cuda_driver.cuCtxSetCurrent(p->context);
    for (int i = 0; i < WEFT_CUDA_NUM_LIBRARIES; i++) {
      if (p->attachments[i].value != NULL) p->attachments[i].destroy(p->attachments[i].value);
    }
    weft_cuda_modules_destroy(p->modules);
    if (p->slot >= 0) weft_cuda_pinned_release();
    (void)weft_cuda_driver.cuCtxSetCurrent(NULL);
    (void)weft_cuda_driver.cuDevicePrimaryCtxRelease(p->handle);
  }
  weft_free(p);
}

static WEFT_Failure *create(int ordinal, int slot, weft_cuda_physical_t **out) {
  weft_cuda_physical_t *p = weft_calloc(1, sizeof *p);
  if (p == NULL) return weft_cuda_host->failure(WEFT_RESOURCE_EXHAUSTED, "out of memory: device %d", ordinal);
  p->ordinal = ordinal;
  p->slot = -1;
  WEFT_Failure *f =
      weft_cuda_failure(weft_cuda_driver.cuDeviceGet(&p->handle, ordinal), "looking up device %d", ordinal);
  if (f == NULL) f = describe(p);
  if (f == NULL) {
    f = weft_cuda_failure(weft_cuda_driver.cuDevicePrimaryCtxRetain(&p->context, p->handle),
                          "making a context on device %d", ordinal);
    if (f != NULL) p->context = NULL;
  }
  if (f == NULL && !weft_cuda_pinned_retain()) {
    f = weft_cuda_host->failure(WEFT_RESOURCE_EXHAUSTED, "out of memory: device %d", ordinal);
  }
  if (f == NULL) {
    p->slot = slot;
    p->modules = weft_cuda_modules_create(slot);
    if (p->modules == NULL)
      f = weft_cuda_host->failure(WEFT_RESOURCE_EXHAUSTED, "out of memory: device %d", ordinal);
  }
  if (f != NULL) {
    destroy(p);
    return f;
  }
  *out = p;
  return NULL;
}

WEFT_Failure *weft_cuda_physical_retain(int ordinal, weft_cuda_physical_t **out) {
  WEFT_Failure *f = NULL;
  weft_mutex_lock(&state.mu); /* also while the context is made, so that there is one */
  int slot = -1;
  for (int i = 0; i < WEFT_CUDA_MAX_DEVICES; i++) {
    if (state.users[i] > 0 && state.physical[i]->ordinal == ordinal) slot = i;
  }
  for (int i = 0; i < WEFT_CUDA_MAX_DEVICES && slot < 0; i++) {
    if (state.users[i] > 0) continue;
    slot = i;
    f = create(ordinal, slot, &state.physical[slot]);
    for (int k = 0; k < WEFT_CUDA_MAX_DEVICES; k++) state.reach[slot][k] = state.reach[k][slot] = NOT_ASKED;
  }
  if (slot < 0) {
    f = weft_cuda_host->failure(WEFT_RESOURCE_EXHAUSTED, "more than %d devices in a process",
                                WEFT_CUDA_MAX_DEVICES);
  }
  if (f == NULL) {
    state.users[slot]++;
    *out = state.physical[slot];
  }
  weft_mutex_unlock(&state.mu);
  return f;
}

void weft_cuda_physical_release(weft_cuda_physical_t *p) {
  if (p == NULL) return;
  weft_mutex_lock(&state.mu);
  const int slot = p->slot;
  if (--state.users[slot] == 0) {
    state.physical[slot] = NULL;
    destroy(p);
  }
  weft_mutex_unlock(&state.mu);
}

bool weft_cuda_physical_reaches(const weft_cuda_physical_t *from, const weft_cuda_physical_t *to) {
  if (from == to) return true;
  weft_mutex_lock(&state.mu);
  cuda_reach_t *reach = &state.reach[from->slot][to->slot];
  if (*reach == NOT_ASKED) {
    int can = 0;
    CUresult r = weft_cuda_driver.cuDeviceCanAccessPeer(&can, to->handle, from->handle);
    if (r == CUDA_SUCCESS && can) r = weft_cuda_driver.cuCtxSetCurrent(to->context);
    if (r == CUDA_SUCCESS && can) r = weft_cuda_driver.cuCtxEnablePeerAccess(from->context, 0);
    if (r == CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED) r = CUDA_SUCCESS; /* another library has done it */
    *reach = r == CUDA_SUCCESS && can ? REACHES : DOES_NOT_REACH;
  }
  const bool reaches = *reach == REACHES;
  weft_mutex_unlock(&state.mu);
  return reaches;
}

static bool is_same_card(const CUuuid *a, const CUuuid *b) { return memcmp(a, b, sizeof *a) == 0; }

bool weft_cuda_physical_may_be_read_by(const weft_cuda_physical_t *from, const CUuuid *reader) {
  int num = 0, can = 0;
  if (from->has_uuid && is_same_card(&from->uuid, reader)) return true;
  if (weft_cuda_driver.cuDeviceGetCount(&num) != CUDA_SUCCESS) return false;
  for (int i = 0; i < num; i++) {
    CUdevice other;
    CUuuid uuid;
    if (weft_cuda_driver.cuDeviceGet(&other, i) != CUDA_SUCCESS ||
        weft_cuda_driver.cuDeviceGetUuid(&uuid, other) != CUDA_SUCCESS || !is_same_card(&uuid, reader))
      continue;
    return weft_cuda_driver.cuDeviceCanAccessPeer(&can, other, from->handle) == CUDA_SUCCESS && can;
  }
  return true; /* hidden from this process, as by CUDA_VISIBLE_DEVICES */
}

WEFT_Failure *weft_cuda_physical_attachment(weft_cuda_physical_t *p, weft_cuda_library_t which,
                                            WEFT_Failure *(*make)(void **out),
                                            void (*destroy_it)(void *value), void **out) {
  struct weft_cuda_attachment *a = &p->attachments[which];
  void *value = __atomic_load_n(&a->value, __ATOMIC_ACQUIRE);
  WEFT_Failure *f = NULL;
  if (value == NULL) {
    weft_mutex_lock(&state.mu); /* so that there is one */
    value = __atomic_load_n(&a->value, __ATOMIC_ACQUIRE);
    if (value == NULL) f = make(&value);
    if (f == NULL) {
      a->destroy = destroy_it;
      __atomic_store_n(&a->value, value, __ATOMIC_RELEASE);
    }
    weft_mutex_unlock(&state.mu);
  }
  if (f == NULL) *out = value;
  return f;
}
