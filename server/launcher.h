/* server/launcher.h - the cluster, and which task of it a process is, from what its launcher tells it.
 *
 * srun, mpirun and Kubernetes start equal processes, number them, and put into the environment of each where
 * the others are. The processes are ranks 0 to N-1, and the jobs share them in their order: of
 * "ps=1,worker=2", rank 0 is ps 0 and rank 2 is worker 1. Every process comes to the same cluster by itself;
 * no message is exchanged.
 *
 * Values of the environment come from outside: each is checked where it is read, and a failure names the
 * variable and says what to do.
 */
#ifndef WEFT_SERVER_LAUNCHER_H_
#define WEFT_SERVER_LAUNCHER_H_

#include "server/cluster.h"

enum { WEFT_DEFAULT_PORT_BASE = 2222 };

/* Where a rank of an MPI run is. */
typedef struct weft_rank_place {
  weft_str_t host;
  int local; /* its index among the ranks of that host */
} weft_rank_place_t;

/* What a process can ask its system; tests have systems of their own. */
typedef struct weft_launch_system {
  /* The value of an environment variable; NULL if there is none. Lent until the end of the launch. */
  const char *(*variable)(void *arg, const char *name);
  /* The name of this host; at most `size` bytes with the '\0'. */
  weft_status_t *(*host)(void *arg, char *name, size_t size);
  /* Both fill out[num_ranks] with the places of an MPI run's ranks; texts are put into the arena. See
   * weft_pmix_places and weft_pmi_places. */
  weft_status_t *(*pmix_places)(void *arg, int num_ranks, weft_arena_t *arena, weft_rank_place_t *out);
  weft_status_t *(*pmi_places)(void *arg, int fd, int rank, const weft_rank_place_t *own, int num_ranks,
                               weft_arena_t *arena, weft_rank_place_t *out);
  void *arg;
} weft_launch_system_t;

typedef enum weft_launcher_id {
#define WEFT_LAUNCHER(id, flag, find, help) WEFT_LAUNCHER_##id,
#include "server/launchers.def"
#undef WEFT_LAUNCHER
  WEFT_NUM_LAUNCHERS,
} weft_launcher_id_t;

const char *weft_launcher_flag(weft_launcher_id_t id); /* "slurm"; static */

typedef struct weft_launch_options {
  const char *jobs; /* "ps=1,worker=2"; NULL: WEFT_JOBS of the environment, else all ranks are workers */
  int port_base;    /* the port of the first task on each host */
  bool is_client;   /* the process asks for the cluster and need not be a task of it */
} weft_launch_options_t;

/* What came of it. A plain struct; deinit frees it. */
typedef struct weft_launch {
  weft_cluster_t cluster;
  weft_str_t job; /* in the cluster's arena; empty if this process is no task */
  int task;
  int local;      /* index of this task among those of its host */
  bool is_remote; /* the cluster's addresses are not all on this host's loopback */
} weft_launch_t;

void weft_launch_deinit(weft_launch_t *l);

/* Errors: INVALID_ARGUMENT or FAILED_PRECONDITION, naming variable or option; RESOURCE_EXHAUSTED. May ask the
 * process manager on this host, and waits for its answer. */
WEFT_MUST_CHECK weft_status_t *weft_launch(weft_launcher_id_t id, const weft_launch_system_t *system,
                                           const weft_launch_options_t *o, weft_launch_t *out);

#endif /* WEFT_SERVER_LAUNCHER_H_ */
