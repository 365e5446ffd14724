/* server/pmix.c - the few calls of PMIx that tell where ranks are.
 *
 * The library is loaded when it is needed, so that Weft is built and runs without it. The declarations below
 * are those of the PMIx Standard, version 4.1 (chapters 3, "Data structures and types", 5 and 6), which every
 * libpmix.so.2 keeps; version 2 of the standard has the same. tests/cluster/launchers.py runs it under
 * mpirun.
 */
#include "server/pmix.h"

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>

#include "base/alloc.h"

#define LIBRARY "libpmix.so.2"

/* pmix_proc_t: the names of a run and of a process in it. */
typedef struct pmix_process {
  char run[256];
  uint32_t rank;
} pmix_process_t;

/* pmix_value_t. The largest member of its union has 24 bytes or more; only the first are read here. */
typedef struct pmix_value {
  uint16_t type;
  union {
    char *text;
    uint16_t u16;
  } data;
} pmix_value_t;

enum { PMIX_TEXT = 3, PMIX_U16 = 13 }; /* PMIX_STRING, PMIX_UINT16 */

typedef int init_fn(pmix_process_t *own, void *info, size_t num_info);
typedef int get_fn(const pmix_process_t *of, const char *key, const void *info, size_t num_info,
                   pmix_value_t **out);
typedef int finalize_fn(const void *info, size_t num_info);
typedef const char *error_fn(int status);

typedef struct pmix {
  init_fn *init;
  get_fn *get;
  finalize_fn *finalize;
  error_fn *error;
  pmix_process_t own;
} pmix_t;

static weft_status_t *load(pmix_t *p) {
  void *library =
      dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL); /* stays: it may have threads until the process ends */
  if (library == NULL)
    return WEFT_ERROR(
        FAILED_PRECONDITION,
        "the ranks are on several hosts, and mpirun tells where by " LIBRARY
        ", which is not installed on this one (Debian: libpmix2); install it, or use --cluster");
  *(void **)&p->init = dlsym(library, "PMIx_Init");
  *(void **)&p->get = dlsym(library, "PMIx_Get");
  *(void **)&p->finalize = dlsym(library, "PMIx_Finalize");
  *(void **)&p->error = dlsym(library, "PMIx_Error_string");
  if (p->init == NULL || p->get == NULL || p->finalize == NULL || p->error == NULL)
    return WEFT_ERROR(FAILED_PRECONDITION,
                      LIBRARY " has no PMIx_Init, PMIx_Get, PMIx_Finalize: reinstall it");
  return NULL;
}

static weft_status_t *failed(const pmix_t *p, const char *what, uint32_t rank, int code) {
  return WEFT_ERROR(FAILED_PRECONDITION, "mpirun does not tell the %s of rank %u: %s; use --cluster", what,
                    rank, p->error(code));
}

static weft_status_t *get(const pmix_t *p, uint32_t rank, const char *key, uint16_t type, const char *what,
                          pmix_value_t **out) {
  pmix_process_t of = p->own;
  pmix_value_t *value = NULL;
  of.rank = rank;
  int code = p->get(&of, key, NULL, 0, &value);
  if (code != 0 || value == NULL) return failed(p, what, rank, code);
  if (value->type == type && (type != PMIX_TEXT || value->data.text != NULL)) {
    *out = value;
    return NULL;
  }
  weft_free(value);
  return WEFT_ERROR(FAILED_PRECONDITION, "mpirun tells the %s of rank %u in an unknown form; use --cluster",
                    what, rank);
}

static weft_status_t *get_place(const pmix_t *p, int rank, int num_ranks, weft_arena_t *arena,
                                weft_rank_place_t *out) {
  pmix_value_t *host = NULL, *local = NULL;
  WEFT_RETURN_IF_ERROR(get(p, (uint32_t)rank, "pmix.hname", PMIX_TEXT, "host", &host));
  weft_status_t *s = NULL;
  out->host = weft_arena_str(arena, weft_str(host->data.text));
  if (out->host.data == NULL) s = WEFT_NO_MEMORY("the places of ranks");
  weft_free(host->data.text);
  weft_free(host);
  if (s == NULL) s = get(p, (uint32_t)rank, "pmix.lrank", PMIX_U16, "local rank", &local);
  if (s != NULL) return s;
  out->local = local->data.u16;
  weft_free(local);
  if (out->local >= num_ranks)
    return WEFT_ERROR(FAILED_PRECONDITION, "mpirun says that rank %d is number %d on its host, of %d ranks",
                      rank, out->local, num_ranks);
  return NULL;
}

weft_status_t *weft_pmix_places(void *arg, int num_ranks, weft_arena_t *arena, weft_rank_place_t *out) {
  pmix_t p = {.init = NULL};
  (void)arg;
  WEFT_RETURN_IF_ERROR(load(&p));
  int code = p.init(&p.own, NULL, 0);
  if (code != 0)
    return WEFT_ERROR(FAILED_PRECONDITION, "mpirun cannot be asked where the ranks are: %s; use --cluster",
                      p.error(code));
  weft_status_t *s = NULL;
  for (int i = 0; s == NULL && i < num_ranks; i++) s = get_place(&p, i, num_ranks, arena, &out[i]);
  code = p.finalize(NULL, 0);
  if (code != 0 && s == NULL)
    s = WEFT_ERROR(FAILED_PRECONDITION, "mpirun does not end the conversation about places: %s",
                   p.error(code));
  return s;
}
