/* device/cuda/module.c - loads fatbins and finds kernels by name, once for each.
 *
 * A function that was found is kept in the slot of its weft_cuda_function_t, which outlives the device: a
 * list says which slots are to be emptied with it.
 */
#include "device/cuda/module.h"

#include "base/alloc.h"
#include "base/mutex.h"
#include "device/cuda/driver.h"

const weft_cuda_fatbin_t *weft_cuda_fatbins;

/* A module that was compiled at run time. */
typedef struct cuda_added {
  struct cuda_added *next;
  CUmodule module;
} cuda_added_t;

typedef struct cuda_found {
  struct cuda_found *next;
  weft_cuda_function_t *function;
} cuda_found_t;

struct weft_cuda_modules {
  int slot;
  weft_mutex_t mu;
  /* guarded by mu: */
  int num, num_loaded;
  CUmodule *modules;
  cuda_added_t *added;
  cuda_found_t *found;
};

weft_cuda_modules_t *weft_cuda_modules_create(int slot) {
  weft_cuda_modules_t *m = weft_calloc(1, sizeof *m);
  if (m == NULL) return NULL;
  while (weft_cuda_fatbins[m->num].family != NULL) m->num++;
  m->modules = weft_calloc((size_t)m->num, sizeof *m->modules);
  if (m->modules == NULL) {
    weft_free(m);
    return NULL;
  }
  m->slot = slot;
  weft_mutex_init(&m->mu);
  return m;
}

void weft_cuda_modules_destroy(weft_cuda_modules_t *m) {
  if (m == NULL) return;
  for (cuda_found_t *f = m->found, *next; f != NULL; f = next) {
    next = f->next;
    __atomic_store_n(&f->function->slots[m->slot], NULL, __ATOMIC_RELEASE);
    weft_free(f);
  }
  for (int i = 0; i < m->num_loaded; i++) (void)weft_cuda_driver.cuModuleUnload(m->modules[i]);
  for (cuda_added_t *a = m->added, *next; a != NULL; a = next) {
    next = a->next;
    (void)weft_cuda_driver.cuModuleUnload(a->module);
    weft_free(a);
  }
  weft_free(m->modules);
  weft_mutex_deinit(&m->mu);
  weft_free(m);
}

static WEFT_Failure *find_locked(weft_cuda_modules_t *m, weft_cuda_function_t *f, CUfunction *out) {
  while (m->num_loaded < m->num) {
    const weft_cuda_fatbin_t *fatbin = &weft_cuda_fatbins[m->num_loaded];
    const CUresult r = weft_cuda_driver.cuModuleLoadData(&m->modules[m->num_loaded], fatbin->bytes);
    if (r != CUDA_SUCCESS) return weft_cuda_failure(r, "loading the kernels of family %s", fatbin->family);
    m->num_loaded++;
  }
  CUresult r = CUDA_ERROR_NOT_FOUND;
  for (int i = 0; i < m->num && r == CUDA_ERROR_NOT_FOUND; i++) {
    r = weft_cuda_driver.cuModuleGetFunction(out, m->modules[i], f->name);
  }
  for (const cuda_added_t *a = m->added; a != NULL && r == CUDA_ERROR_NOT_FOUND; a = a->next)
    r = weft_cuda_driver.cuModuleGetFunction(out, a->module, f->name);
  if (r == CUDA_ERROR_NOT_FOUND)
    return weft_cuda_host->failure(WEFT_NOT_FOUND, "the library has no kernel %s", f->name);
  if (r != CUDA_SUCCESS) return weft_cuda_failure(r, "looking up the kernel %s", f->name);
  cuda_found_t *found = weft_calloc(1, sizeof *found);
  if (found == NULL) return NULL; /* it works, and is looked up again */
  *found = (cuda_found_t){.next = m->found, .function = f};
  m->found = found;
  __atomic_store_n(&f->slots[m->slot], (void *)*out, __ATOMIC_RELEASE);
  return NULL;
}

WEFT_Failure *weft_cuda_modules_find(weft_cuda_modules_t *m, weft_cuda_function_t *f, CUfunction *out) {
  *out = __atomic_load_n(&f->slots[m->slot], __ATOMIC_ACQUIRE);
  if (*out != NULL) return NULL;
  weft_mutex_lock(&m->mu);
  *out = __atomic_load_n(&f->slots[m->slot], __ATOMIC_ACQUIRE); /* another thread was faster */
  WEFT_Failure *failure = *out == NULL ? find_locked(m, f, out) : NULL;
  weft_mutex_unlock(&m->mu);
  return failure;
}

WEFT_Failure *weft_cuda_modules_add(weft_cuda_modules_t *m, const char *what, const void *image) {
  cuda_added_t *a = weft_calloc(1, sizeof *a);
  if (a == NULL) return weft_cuda_host->failure(WEFT_RESOURCE_EXHAUSTED, "out of memory: loading %s", what);
  const CUresult r = weft_cuda_driver.cuModuleLoadData(&a->module, image);
  if (r != CUDA_SUCCESS) {
    weft_free(a);
    return weft_cuda_failure(r, "loading %s", what);
  }
  weft_mutex_lock(&m->mu);
  a->next = m->added;
  m->added = a;
  weft_mutex_unlock(&m->mu);
  return NULL;
}
