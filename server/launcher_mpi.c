/* server/launcher_mpi.c - the ranks of a run of mpirun or mpiexec.
 *
 * The environment says which rank this is. Where all ranks are on this host, that is enough. Where they are
 * not, Open MPI's process manager tells where each is (server/pmix.h), and through MPICH's the ranks tell
 * each other (server/pmi.h). Nothing of MPI itself is loaded.
 */
#include "server/launcher_ranks.h"

#define START "start the servers with mpirun, as in `mpirun -n 3 weft server --mpi`"

/* The variables in which a process manager puts what it knows. */
typedef struct manager {
  const char *rank, *size, *local_rank, *local_size;
  const char *connection; /* to it; NULL: the library of PMIx knows */
} manager_t;

static const manager_t managers[] = {
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
     "OMPI_COMM_WORLD_LOCAL_SIZE", NULL},                                     /* Open MPI, PRRTE */
    {"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS", "PMI_FD"}, /* Hydra: MPICH, Intel MPI */
};

static weft_status_t *tell_places(weft_ranks_t *r, const manager_t *m, weft_rank_place_t *places) {
  const weft_launch_system_t *system = r->system;
  char host[256];
  int fd;
  WEFT_RETURN_IF_ERROR(weft_ranks_number(r, m->connection, 0, 1 << 20, START, &fd));
  WEFT_RETURN_IF_ERROR(system->host(system->arg, host, sizeof host));
  const weft_rank_place_t own = {weft_str(host), r->local};
  return system->pmi_places(system->arg, fd, r->own, &own, r->num_ranks, &r->arena, places);
}

static weft_status_t *set_places(weft_ranks_t *r, const manager_t *m) {
  weft_rank_place_t *places = weft_arena_calloc(&r->arena, (size_t)r->num_ranks, sizeof *places);
  if (places == NULL) return WEFT_NO_MEMORY("the places of ranks");
  WEFT_RETURN_IF_ERROR(m->connection == NULL
                           ? r->system->pmix_places(r->system->arg, r->num_ranks, &r->arena, places)
                           : tell_places(r, m, places));
  for (int i = 0; i < r->num_ranks; i++)
    WEFT_RETURN_IF_ERROR(weft_ranks_set(r, i, places[i].host, places[i].local));
  r->local = places[r->own].local;
  return NULL;
}

static weft_status_t *find_with(weft_ranks_t *r, const manager_t *m) {
  int num_ranks, num_local;
  WEFT_RETURN_IF_ERROR(weft_ranks_number(r, m->size, 1, WEFT_MAX_RANKS, START, &num_ranks));
  WEFT_RETURN_IF_ERROR(weft_ranks_number(r, m->rank, 0, num_ranks - 1, START, &r->own));
  WEFT_RETURN_IF_ERROR(weft_ranks_number(r, m->local_size, 1, num_ranks, START, &num_local));
  WEFT_RETURN_IF_ERROR(weft_ranks_number(r, m->local_rank, 0, num_local - 1, START, &r->local));
  WEFT_RETURN_IF_ERROR(weft_ranks_reserve(r, num_ranks));
  if (num_local == num_ranks) { /* all on this host; ranks there are in the order of ranks */
    for (int i = 0; i < num_ranks; i++) WEFT_RETURN_IF_ERROR(weft_ranks_set(r, i, WEFT_STR("127.0.0.1"), i));
    r->local = r->own;
    return NULL;
  }
  return set_places(r, m);
}

weft_status_t *weft_find_mpi_ranks(weft_ranks_t *r) {
  for (size_t i = 0; i < sizeof managers / sizeof managers[0]; i++) {
    if (weft_ranks_variable(r, managers[i].rank).length > 0) return find_with(r, &managers[i]);
  }
  return WEFT_ERROR(FAILED_PRECONDITION, "neither %s nor %s is set: " START, managers[0].rank,
                    managers[1].rank);
}
