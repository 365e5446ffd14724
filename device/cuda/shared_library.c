/* device/cuda/shared_library.c - opens a library and looks its functions up. */
#include "device/cuda/shared_library.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "device/cuda/launch.h"

static WEFT_Failure *bind(const weft_cuda_shared_library_t *l, void *library, const char *path) {
  for (int i = 0; i < l->num_symbols; i++) {
    void *function = dlsym(library, l->symbols[i].name);
    if (function == NULL) {
      return weft_cuda_host->failure(WEFT_UNAVAILABLE, "%s has no %s: %s is needed", path, l->symbols[i].name,
                                     l->version);
    }
    memcpy((char *)l->table + l->symbols[i].offset, &function, sizeof function);
  }
  return NULL;
}

static WEFT_Failure *load(const weft_cuda_shared_library_t *l) {
  const char *named = getenv(l->variable), *path = named;
  void *library = NULL;
  char why[512] = "";
  if (named != NULL && *named != '\0') {
    library = dlopen(named, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) snprintf(why, sizeof why, "%s", dlerror());
  } else {
    for (int i = 0; l->places[i] != NULL && library == NULL; i++) {
      path = l->places[i];
      library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
      if (library == NULL && i == 0) snprintf(why, sizeof why, "%s", dlerror());
    }
  }
  if (library != NULL) return bind(l, library, path);
  return weft_cuda_host->failure(WEFT_UNAVAILABLE,
                                 "%s, which was not found: %s; %s, or name the library in %s", l->what, why,
                                 l->hint, l->variable);
}

WEFT_Failure *weft_cuda_shared_library_open(weft_cuda_shared_library_t *l) {
  weft_mutex_lock(&l->mu);
  if (!l->tried) {
    l->tried = true;
    l->failure = load(l);
  }
  WEFT_Failure *f = weft_cuda_host->failure_copy(l->failure);
  weft_mutex_unlock(&l->mu);
  return f;
}
