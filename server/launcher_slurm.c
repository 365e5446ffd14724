/* server/launcher_slurm.c - the processes of a job step of Slurm.
 *
 * srun sets the step's variables for each process; outside of a step, where a client asks, the job's stand
 * for them. Ranks are dealt to nodes as --distribution says: in blocks, or in turn. A process that finds
 * itself elsewhere than that (plane, arbitrary, a task plugin) refuses, since the others' addresses would be
 * wrong, too.
 *
 * Source: srun(1) of Slurm 22.05, "OUTPUT ENVIRONMENT VARIABLES". TensorFlow's SlurmClusterResolver sorts
 * nodes and jobs by name; the order here is Slurm's own, and that of --jobs.
 */
#include "base/alloc.h"
#include "server/host_list.h"
#include "server/launcher_ranks.h"

#define START "start the servers with srun, as in `srun -n 3 weft server --slurm`"

/* Names of the variables of a step or of a job. */
typedef struct variables {
  const char *nodes, *tasks, *num_tasks;
} variables_t;

static const variables_t of_step = {"SLURM_STEP_NODELIST", "SLURM_STEP_TASKS_PER_NODE",
                                    "SLURM_STEP_NUM_TASKS"};
static const variables_t of_job = {"SLURM_JOB_NODELIST", "SLURM_TASKS_PER_NODE", "SLURM_NTASKS"};

typedef struct step_layout {
  weft_host_list_t nodes;
  int *counts; /* owned; tasks of each node */
  int num_counts, num_ranks;
  int *used; /* owned; tasks of each node that have a rank */
} step_layout_t;

static weft_status_t *annotate(weft_status_t *s, const char *name) {
  return weft_status_annotate(s, "this is from %s, which srun sets", name);
}

static weft_status_t *read_layout(const weft_ranks_t *r, const variables_t *v, step_layout_t *l) {
  weft_str_t nodes = weft_ranks_variable(r, v->nodes), tasks = weft_ranks_variable(r, v->tasks);
  if (nodes.length == 0) return WEFT_ERROR(FAILED_PRECONDITION, "%s is not set: " START, v->nodes);
  if (tasks.length == 0) return WEFT_ERROR(FAILED_PRECONDITION, "%s is not set: " START, v->tasks);
  WEFT_RETURN_IF_ERROR(annotate(weft_host_list_parse(nodes, &l->nodes), v->nodes));
  WEFT_RETURN_IF_ERROR(annotate(weft_task_counts_parse(tasks, &l->counts, &l->num_counts), v->tasks));
  if (l->num_counts != l->nodes.num_names) {
    return WEFT_ERROR(INVALID_ARGUMENT, "%s has %d nodes, but %s has numbers for %d", v->nodes,
                      l->nodes.num_names, v->tasks, l->num_counts);
  }
  int64_t sum = 0;
  for (int i = 0; i < l->num_counts; i++) sum += l->counts[i];
  if (sum > WEFT_MAX_RANKS)
    return WEFT_ERROR(INVALID_ARGUMENT, "%s has more than %d tasks", v->tasks, WEFT_MAX_RANKS);
  l->num_ranks = (int)sum;
  if (weft_ranks_variable(r, v->num_tasks).length > 0) {
    int said;
    WEFT_RETURN_IF_ERROR(weft_ranks_number(r, v->num_tasks, 1, WEFT_MAX_RANKS, START, &said));
    if (said != l->num_ranks)
      return WEFT_ERROR(INVALID_ARGUMENT, "%s is %d, but %s adds up to %d", v->num_tasks, said, v->tasks,
                        l->num_ranks);
  }
  l->used = weft_calloc((size_t)l->num_counts, sizeof *l->used);
  return l->used == NULL ? WEFT_NO_MEMORY("the nodes of a job step") : NULL;
}

static weft_status_t *is_cyclic(const weft_ranks_t *r, bool *out) {
  weft_str_t text = weft_ranks_variable(r, "SLURM_DISTRIBUTION"), head = text, tail;
  (void)weft_str_split(text, ':', &head, &tail); /* behind it: sockets and cores of a node */
  (void)weft_str_split(head, ',', &head, &tail);
  *out = weft_str_is(head, "cyclic");
  if (*out || head.length == 0 || weft_str_is(head, "block")) return NULL;
  return WEFT_ERROR(
      INVALID_ARGUMENT,
      "SLURM_DISTRIBUTION is '%.*s': ranks are found in blocks or in turn only; start the servers "
      "with srun --distribution=block or cyclic",
      WEFT_STR_ARGS(text));
}

/* Gives ranks to the nodes; the place of our own must be the one that Slurm tells. */
static weft_status_t *deal(weft_ranks_t *r, step_layout_t *l, bool in_turn) {
  int node = 0, own_node = 0;
  for (int rank = 0; rank < l->num_ranks; rank++) {
    while (l->used[node] == l->counts[node]) node = (node + 1) % l->num_counts;
    int local = l->used[node]++;
    WEFT_RETURN_IF_ERROR(weft_ranks_set(r, rank, l->nodes.names[node], local));
    if (rank == r->own) own_node = node;
    if (rank == r->own) r->local = local;
    if (in_turn) node = (node + 1) % l->num_counts;
  }
  const struct {
    const char *name;
    int expected;
  } checks[] = {{"SLURM_NODEID", own_node}, {"SLURM_LOCALID", r->local}};
  for (int i = 0; i < 2 && r->own >= 0; i++) {
    int said;
    if (weft_ranks_variable(r, checks[i].name).length == 0) continue;
    WEFT_RETURN_IF_ERROR(weft_ranks_number(r, checks[i].name, 0, WEFT_MAX_RANKS, START, &said));
    if (said != checks[i].expected)
      return WEFT_ERROR(
          INVALID_ARGUMENT,
          "%s is %d where rank %d should have %d: Slurm dealt ranks to nodes in another way; start the "
          "servers with srun --distribution=block",
          checks[i].name, said, r->own, checks[i].expected);
  }
  return NULL;
}

static weft_status_t *find(weft_ranks_t *r, step_layout_t *l) {
  bool is_step = weft_ranks_variable(r, of_step.nodes).length > 0, in_turn = false;
  if (!is_step && !r->options->is_client)
    return WEFT_ERROR(FAILED_PRECONDITION, "%s is not set: " START, of_step.nodes);
  WEFT_RETURN_IF_ERROR(read_layout(r, is_step ? &of_step : &of_job, l));
  WEFT_RETURN_IF_ERROR(is_cyclic(r, &in_turn));
  if (is_step)
    WEFT_RETURN_IF_ERROR(weft_ranks_number(r, "SLURM_PROCID", 0, l->num_ranks - 1, START, &r->own));
  WEFT_RETURN_IF_ERROR(weft_ranks_reserve(r, l->num_ranks));
  return deal(r, l, in_turn);
}

weft_status_t *weft_find_slurm_ranks(weft_ranks_t *r) {
  step_layout_t l = {.nodes = {.arena = WEFT_ARENA_INIT}};
  weft_status_t *s = find(r, &l);
  weft_host_list_deinit(&l.nodes);
  weft_free(l.counts);
  weft_free(l.used);
  return s;
}
