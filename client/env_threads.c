/* client/env_threads.c - time, threads and shared libraries for programs (tensorflow/c/env.h). */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "client/status.h"
#include "tensorflow/c/env.h"

/* ---- time ---- */

uint64_t TF_NowNanos(void) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return (uint64_t)now.tv_sec * 1000000000U + (uint64_t)now.tv_nsec;
}
uint64_t TF_NowMicros(void) { return TF_NowNanos() / 1000; }
uint64_t TF_NowSeconds(void) { return TF_NowNanos() / 1000000000U; }

/* ---- threads ---- */

struct TF_Thread {
  pthread_t thread;
  void (*work)(void *);
  void *param;
};

void TF_DefaultThreadOptions(TF_ThreadOptions *options) {
  enum { ANY_NODE = -1 };
  *options = (TF_ThreadOptions){.numa_node = ANY_NODE};
}

static void *run(void *arg) {
  TF_Thread *t = arg;
  t->work(t->param);
  return NULL;
}

TF_Thread *TF_StartThread(const TF_ThreadOptions *options, const char *thread_name, void (*work_func)(void *),
                          void *param) {
  enum { MAX_NAME = 16 };
  char name[MAX_NAME];
  pthread_attr_t attr;
  TF_Thread *t = weft_calloc(1, sizeof *t);
  if (t == NULL || pthread_attr_init(&attr) != 0) {
    weft_free(t);
    return NULL;
  }
  *t = (TF_Thread){.work = work_func, .param = param};
  bool ok = true;
  if (options != NULL && options->stack_size > 0)
    ok = pthread_attr_setstacksize(&attr, options->stack_size) == 0;
  if (ok && options != NULL && options->guard_size > 0)
    ok = pthread_attr_setguardsize(&attr, options->guard_size) == 0;
  ok = ok && pthread_create(&t->thread, &attr, run, t) == 0;
  pthread_attr_destroy(&attr);
  if (!ok) {
    weft_free(t);
    return NULL;
  }
  if (thread_name != NULL) {
    strncpy(name, thread_name, MAX_NAME - 1);
    name[MAX_NAME - 1] = '\0';
    pthread_setname_np(t->thread, name);
  }
  return t;
}

void TF_JoinThread(TF_Thread *thread) {
  if (thread == NULL) return;
  pthread_join(thread->thread, NULL);
  weft_free(thread);
}

/* ---- shared libraries ---- */

void *TF_LoadSharedLibrary(const char *library_filename, TF_Status *status) {
  void *handle = dlopen(library_filename, RTLD_NOW | RTLD_LOCAL);
  weft_client_end(status, handle != NULL ? NULL : WEFT_ERROR(NOT_FOUND, "%s", dlerror()));
  return handle;
}

void *TF_GetSymbolFromLibrary(void *handle, const char *symbol_name, TF_Status *status) {
  void *symbol = dlsym(handle, symbol_name);
  weft_client_end(status, symbol != NULL ? NULL : WEFT_ERROR(NOT_FOUND, "%s", dlerror()));
  return symbol;
}
