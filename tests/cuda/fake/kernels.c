/* tests/cuda/fake/kernels.c - kernels that only tests launch. */
#include <stdlib.h>
#include <string.h>

#include "tests/cuda/fake/machine.h"

typedef struct add_args {
  int *x;
  int64_t n;
  int v;
} add_args_t;

static void *capture_add(void **args, void *(*to_host)(void *)) {
  add_args_t *a = calloc(1, sizeof *a);
  if (a == NULL) return NULL;
  *a = (add_args_t){to_host(*(void **)args[0]), *(int64_t *)args[1], *(int *)args[2]};
  return a;
}

static void run_add(const fake_kernel_t *k, void *closure, const unsigned grid[3], const unsigned block[3],
                    size_t shared) {
  (void)k, (void)grid, (void)block, (void)shared;
  const add_args_t *a = closure;
  for (int64_t i = 0; i < a->n; i++) a->x[i] += a->v;
  free(closure);
}

static void *copy_add(const void *closure) {
  add_args_t *a = malloc(sizeof *a);
  if (a != NULL) *a = *(const add_args_t *)closure;
  return a;
}

typedef struct copy_args {
  int *to;
  const int *from;
  int64_t n;
} copy_args_t;

static void *capture_copy(void **args, void *(*to_host)(void *)) {
  copy_args_t *a = calloc(1, sizeof *a);
  if (a == NULL) return NULL;
  *a = (copy_args_t){to_host(*(void **)args[0]), to_host(*(void **)args[1]), *(int64_t *)args[2]};
  return a;
}

static void run_copy(const fake_kernel_t *k, void *closure, const unsigned grid[3], const unsigned block[3],
                     size_t shared) {
  (void)k, (void)grid, (void)block, (void)shared;
  const copy_args_t *a = closure;
  memmove(a->to, a->from, (size_t)a->n * sizeof *a->to);
  free(closure);
}

static void *copy_copy(const void *closure) {
  copy_args_t *a = malloc(sizeof *a);
  if (a != NULL) *a = *(const copy_args_t *)closure;
  return a;
}

static void *capture_fault(void **args, void *(*to_host)(void *)) {
  (void)args;
  (void)to_host((void *)1); /* no address of any device */
  return calloc(1, 1);
}

static void run_fault(const fake_kernel_t *k, void *closure, const unsigned grid[3], const unsigned block[3],
                      size_t shared) {
  (void)k, (void)grid, (void)block, (void)shared;
  free(closure);
}

static void *copy_fault(const void *closure) {
  (void)closure;
  return calloc(1, 1);
}

static const fake_kernel_t kernels[] = {
    {"weft_fake_add", capture_add, run_add, copy_add, NULL},
    {"weft_fake_copy", capture_copy, run_copy, copy_copy, NULL},
    {"weft_fake_fault", capture_fault, run_fault, copy_fault, NULL},
};

bool fake_find_kernel(const char *name, fake_kernel_t *out) {
  for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++) {
    if (strcmp(kernels[i].name, name) != 0) continue;
    *out = kernels[i];
    return true;
  }
  return false;
}
