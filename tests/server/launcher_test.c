/* Clusters from the environments of launchers: which task each process is, and what broken values are told.
 */
#include "server/launcher.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "tests/runner.h"

enum { MAX_VARIABLES = 12 };

/* A system with these variables, "NAME=value"; later ones stand before earlier ones of the same name. */
typedef struct fake {
  const char *variables[MAX_VARIABLES];
  const char *places; /* "host/local host/local", of an MPI run */
} fake_t;

static const char *variable(void *arg, const char *name) {
  const fake_t *f = arg;
  size_t length = strlen(name);
  const char *found = NULL;
  for (int i = 0; i < MAX_VARIABLES && f->variables[i] != NULL; i++) {
    if (strncmp(f->variables[i], name, length) == 0 && f->variables[i][length] == '=')
      found = f->variables[i] + length + 1;
  }
  return found;
}

static weft_status_t *host(void *arg, char *name, size_t size) {
  (void)arg;
  (void)snprintf(name, size, "here");
  return NULL;
}

static weft_status_t *places(void *arg, int num_ranks, weft_arena_t *arena, weft_rank_place_t *out) {
  const fake_t *f = arg;
  weft_str_t rest = weft_str(f->places);
  if (f->places == NULL) return WEFT_ERROR(FAILED_PRECONDITION, "there is no process manager");
  for (int i = 0; i < num_ranks; i++) {
    weft_str_t one = rest, host, local;
    uint64_t number;
    (void)weft_str_split(rest, ' ', &one, &rest);
    if (!weft_str_split(one, '/', &host, &local) || !weft_str_to_u64(local, &number))
      return WEFT_ERROR(INTERNAL, "the test's places are too few");
    out[i] = (weft_rank_place_t){weft_arena_str(arena, host), (int)number};
    if (out[i].host.data == NULL) return WEFT_NO_MEMORY("places");
  }
  return NULL;
}

/* The connection is number 7, over which the rank says what is true. */
static weft_status_t *told_places(void *arg, int fd, int rank, const weft_rank_place_t *own, int num_ranks,
                                  weft_arena_t *arena, weft_rank_place_t *out) {
  WEFT_RETURN_IF_ERROR(places(arg, num_ranks, arena, out));
  if (fd != 7 || !weft_str_is(own->host, "here") || out[rank].local != own->local)
    return WEFT_ERROR(INTERNAL, "rank %d is told to be %d on %.*s", rank, own->local,
                      WEFT_STR_ARGS(own->host));
  return NULL;
}

static weft_status_t *launch(weft_launcher_id_t id, const fake_t *f, const weft_launch_options_t *o,
                             weft_launch_t *out) {
  const weft_launch_system_t system = {variable, host, places, told_places, (void *)(uintptr_t)f};
  const weft_launch_options_t plain = {.port_base = 2222};
  return weft_launch(id, &system, o == NULL ? &plain : o, out);
}

/* The cluster as --cluster takes it, then the task: "ps=a:1;worker=b:1 worker 0 local 0". */
static void write_launch(const weft_launch_t *l, weft_strbuf_t *text) {
  for (int i = 0; i < l->cluster.num_tasks; i++) {
    const weft_cluster_task_t *t = &l->cluster.tasks[i];
    if (t->index == 0) weft_strbuf_printf(text, "%s%.*s=", i == 0 ? "" : ";", WEFT_STR_ARGS(t->job));
    weft_strbuf_printf(text, "%s%.*s", t->index == 0 ? "" : ",", WEFT_STR_ARGS(t->address));
  }
  if (l->job.length > 0)
    weft_strbuf_printf(text, " %.*s %d local %d", WEFT_STR_ARGS(l->job), l->task, l->local);
  if (l->is_remote) weft_strbuf_puts(text, " remote");
}

static void gives(weft_launcher_id_t id, const fake_t *f, const weft_launch_options_t *o,
                  const char *expected) {
  weft_launch_t l;
  weft_strbuf_t text = WEFT_STRBUF_INIT;
  weft_status_t *s = launch(id, f, o, &l);
  if (s != NULL) printf("\n    %s\n", weft_status_message(s));
  CU_ASSERT_PTR_NULL_FATAL(s);
  write_launch(&l, &text);
  CU_ASSERT_STRING_EQUAL(text.data, expected);
  if (strcmp(text.data, expected) != 0) printf("\n    %s\n", text.data);
  weft_strbuf_deinit(&text);
  weft_launch_deinit(&l);
}

static void refuses(weft_launcher_id_t id, const fake_t *f, const weft_launch_options_t *o, const char *why) {
  weft_launch_t l;
  weft_status_t *s = launch(id, f, o, &l);
  weft_code_t code = weft_status_code(s);
  CU_ASSERT_TRUE(code == WEFT_INVALID_ARGUMENT || code == WEFT_FAILED_PRECONDITION);
  bool is_named = strstr(weft_status_message(s), why) != NULL;
  CU_ASSERT_TRUE(is_named);
  CU_ASSERT_PTR_NULL(strchr(weft_status_message(s), '\n'));
  if (!is_named) printf("\n    %s: %s\n", why, weft_status_message(s));
  weft_status_free(s);
}

/* ---- Slurm ---- */

/* A step of three tasks on two nodes. */
#define STEP                                                                               \
  "SLURM_STEP_NODELIST=n[1-2]", "SLURM_STEP_TASKS_PER_NODE=2,1", "SLURM_STEP_NUM_TASKS=3", \
      "SLURM_JOB_NODELIST=n[1-8]", "SLURM_TASKS_PER_NODE=4(x8)", "SLURM_NTASKS=32"

static void slurm_ranks_are_tasks_in_the_order_of_jobs(void) {
  static const char *const own[] = {"ps 0 local 0", "worker 0 local 1", "worker 1 local 0"};
  static const char *const ids[] = {"SLURM_PROCID=0", "SLURM_PROCID=1", "SLURM_PROCID=2"};
  static const char *const nodes[] = {"SLURM_NODEID=0", "SLURM_NODEID=0", "SLURM_NODEID=1"};
  static const char *const locals[] = {"SLURM_LOCALID=0", "SLURM_LOCALID=1", "SLURM_LOCALID=0"};
  const weft_launch_options_t o = {.jobs = "ps=1,worker=2", .port_base = 2222};
  for (int i = 0; i < 3; i++) {
    const fake_t f = {{STEP, ids[i], nodes[i], locals[i]}};
    char expected[128];
    (void)snprintf(expected, sizeof expected, "ps=n1:2222;worker=n1:2223,n2:2222 %s remote", own[i]);
    gives(WEFT_LAUNCHER_SLURM, &f, &o, expected);
  }
}

static void jobs_come_from_the_option_then_the_environment_then_are_workers(void) {
  const fake_t plain = {{STEP, "SLURM_PROCID=2"}};
  const fake_t with_jobs = {{STEP, "SLURM_PROCID=2", "WEFT_JOBS=worker=2,chief=1"}};
  const weft_launch_options_t o = {.jobs = "a=1,b=1,c=1", .port_base = 100};
  gives(WEFT_LAUNCHER_SLURM, &plain, NULL, "worker=n1:2222,n1:2223,n2:2222 worker 2 local 0 remote");
  gives(WEFT_LAUNCHER_SLURM, &with_jobs, NULL, "chief=n2:2222;worker=n1:2222,n1:2223 chief 0 local 0 remote");
  gives(WEFT_LAUNCHER_SLURM, &with_jobs, &o, "a=n1:100;b=n1:101;c=n2:100 c 0 local 0 remote");
}

static void cyclic_ranks_go_from_node_to_node(void) {
  static const char *const distributions[] = {"SLURM_DISTRIBUTION=cyclic", "SLURM_DISTRIBUTION=cyclic:block",
                                              "SLURM_DISTRIBUTION=cyclic,NoPack"};
  for (int i = 0; i < 3; i++) {
    const fake_t f = {{"SLURM_STEP_NODELIST=a,b,c", "SLURM_STEP_TASKS_PER_NODE=1,3,2", "SLURM_PROCID=4",
                       "SLURM_NODEID=2", "SLURM_LOCALID=1", distributions[i]}};
    gives(WEFT_LAUNCHER_SLURM, &f, NULL,
          "worker=a:2222,b:2222,c:2222,b:2223,c:2223,b:2224 worker 4 local 1 remote");
  }
  const fake_t blocks = {{"SLURM_STEP_NODELIST=a,b,c", "SLURM_STEP_TASKS_PER_NODE=1,3,2", "SLURM_PROCID=4",
                          "SLURM_NODEID=2", "SLURM_LOCALID=0", "SLURM_DISTRIBUTION=block:cyclic"}};
  gives(WEFT_LAUNCHER_SLURM, &blocks, NULL,
        "worker=a:2222,b:2222,b:2223,b:2224,c:2222,c:2223 worker 4 local 0 remote");
}

static void a_client_beside_the_step_sees_the_job(void) {
  const weft_launch_options_t client = {.port_base = 2222, .is_client = true};
  const fake_t batch = {
      {"SLURM_JOB_NODELIST=n[1-2]", "SLURM_TASKS_PER_NODE=1(x2)", "SLURM_NTASKS=2", "SLURM_PROCID=0"}};
  gives(WEFT_LAUNCHER_SLURM, &batch, &client, "worker=n1:2222,n2:2222 remote");
  refuses(WEFT_LAUNCHER_SLURM, &batch, NULL, "SLURM_STEP_NODELIST is not set: start the servers with srun");
  const fake_t step = {{STEP, "SLURM_PROCID=1"}};
  gives(WEFT_LAUNCHER_SLURM, &step, &client, "worker=n1:2222,n1:2223,n2:2222 worker 1 local 1 remote");
}

static void broken_steps_are_refused(void) {
  static const struct {
    const char *variable, *why;
  } cases[] = {
      {"SLURM_STEP_NODELIST=n[1-", "SLURM_STEP_NODELIST"},
      {"SLURM_STEP_NODELIST=n[1-3]",
       "SLURM_STEP_NODELIST has 3 nodes, but SLURM_STEP_TASKS_PER_NODE has numbers for 2"},
      {"SLURM_STEP_TASKS_PER_NODE=", "SLURM_STEP_TASKS_PER_NODE is not set"},
      {"SLURM_STEP_TASKS_PER_NODE=two", "SLURM_STEP_TASKS_PER_NODE"},
      {"SLURM_STEP_TASKS_PER_NODE=100000(x2)", "more than 100000 tasks"},
      {"SLURM_STEP_NUM_TASKS=4", "SLURM_STEP_NUM_TASKS is 4, but SLURM_STEP_TASKS_PER_NODE adds up to 3"},
      {"SLURM_STEP_NUM_TASKS=x", "SLURM_STEP_NUM_TASKS is 'x', not a number"},
      {"SLURM_PROCID=", "SLURM_PROCID is not set"},
      {"SLURM_PROCID=3", "SLURM_PROCID is '3', not a number from 0 to 2"},
      {"SLURM_PROCID=-1", "SLURM_PROCID is '-1'"},
      {"SLURM_PROCID=1x", "SLURM_PROCID is '1x'"},
      {"SLURM_NODEID=1", "SLURM_NODEID is 1 where rank 1 should have 0"},
      {"SLURM_LOCALID=0", "SLURM_LOCALID is 0 where rank 1 should have 1"},
      {"SLURM_LOCALID=x", "SLURM_LOCALID is 'x'"},
      {"SLURM_DISTRIBUTION=plane=2", "SLURM_DISTRIBUTION is 'plane=2'"},
      {"SLURM_DISTRIBUTION=arbitrary", "SLURM_DISTRIBUTION is 'arbitrary'"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    const fake_t f = {{STEP, "SLURM_PROCID=1", cases[i].variable}};
    refuses(WEFT_LAUNCHER_SLURM, &f, NULL, cases[i].why);
  }
  const fake_t none = {{NULL}}, step = {{STEP, "SLURM_PROCID=1"}};
  refuses(WEFT_LAUNCHER_SLURM, &none, NULL, "start the servers with srun");
  const weft_launch_options_t high = {.port_base = 65535};
  refuses(WEFT_LAUNCHER_SLURM, &step, &high, "lower --port-base");
}

static void broken_jobs_are_refused(void) {
  static const struct {
    const char *jobs, *why;
  } cases[] = {
      {"", "--jobs: '' is not a job"},
      {"ps", "'ps' is not a job"},
      {"ps=", "'ps=' is not a job"},
      {"ps=x", "'ps=x'"},
      {"ps=0,worker=3", "'ps=0'"},
      {"ps=-1", "'ps=-1'"},
      {"=3", "'=3'"},
      {"ps=1,", "''"},
      {"ps=1,ps=2", "job 'ps' is given twice"},
      {"ps=1,worker=3", "--jobs names 4 tasks, but --slurm finds 3 processes"},
      {"ps=1", "--jobs names 1 tasks, but --slurm finds 3 processes"},
      {"1x=3", "1x"},
      {"a b=3", "a b"},
      {"ps=100001", "more than"},
      {"ps=99999999999999999999", "'ps=99999999999999999999'"},
  };
  const fake_t f = {{STEP, "SLURM_PROCID=1"}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    const weft_launch_options_t o = {.jobs = cases[i].jobs, .port_base = 2222};
    refuses(WEFT_LAUNCHER_SLURM, &f, &o, cases[i].why);
  }
  const fake_t from_environment = {{STEP, "SLURM_PROCID=1", "WEFT_JOBS=ps=9"}};
  refuses(WEFT_LAUNCHER_SLURM, &from_environment, NULL, "WEFT_JOBS names 9 tasks");
}

/* ---- MPI ---- */

static void ranks_on_one_host_use_its_loopback(void) {
  const fake_t open_mpi = {{"OMPI_COMM_WORLD_RANK=2", "OMPI_COMM_WORLD_SIZE=3",
                            "OMPI_COMM_WORLD_LOCAL_RANK=2", "OMPI_COMM_WORLD_LOCAL_SIZE=3"}};
  const fake_t hydra = {{"PMI_RANK=0", "PMI_SIZE=3", "MPI_LOCALRANKID=0", "MPI_LOCALNRANKS=3"}};
  const weft_launch_options_t o = {.jobs = "worker=2,ps=1", .port_base = 3000};
  gives(WEFT_LAUNCHER_MPI, &open_mpi, &o,
        "ps=127.0.0.1:3002;worker=127.0.0.1:3000,127.0.0.1:3001 ps 0 local 2");
  gives(WEFT_LAUNCHER_MPI, &hydra, &o,
        "ps=127.0.0.1:3002;worker=127.0.0.1:3000,127.0.0.1:3001 worker 0 local 0");
}

static void ranks_on_several_hosts_are_where_the_manager_says(void) {
  const fake_t f = {{"OMPI_COMM_WORLD_RANK=1", "OMPI_COMM_WORLD_SIZE=4", "OMPI_COMM_WORLD_LOCAL_RANK=0",
                     "OMPI_COMM_WORLD_LOCAL_SIZE=2"},
                    "a/0 b/0 a/1 b/1"};
  gives(WEFT_LAUNCHER_MPI, &f, NULL, "worker=a:2222,b:2222,a:2223,b:2223 worker 1 local 0 remote");
  const fake_t hydra = {{"PMI_RANK=2", "PMI_SIZE=3", "MPI_LOCALRANKID=0", "MPI_LOCALNRANKS=1", "PMI_FD=7"},
                        "a/0 a/1 here/0"};
  gives(WEFT_LAUNCHER_MPI, &hydra, NULL, "worker=a:2222,a:2223,here:2222 worker 2 local 0 remote");
}

static void broken_runs_are_refused(void) {
  static const struct {
    const char *variable, *why;
  } cases[] = {
      {"OMPI_COMM_WORLD_RANK=2", "OMPI_COMM_WORLD_RANK is '2', not a number from 0 to 1"},
      {"OMPI_COMM_WORLD_RANK=one", "OMPI_COMM_WORLD_RANK is 'one'"},
      {"OMPI_COMM_WORLD_SIZE=", "OMPI_COMM_WORLD_SIZE is not set: start the servers with mpirun"},
      {"OMPI_COMM_WORLD_SIZE=0", "OMPI_COMM_WORLD_SIZE is '0'"},
      {"OMPI_COMM_WORLD_SIZE=100001", "OMPI_COMM_WORLD_SIZE is '100001'"},
      {"OMPI_COMM_WORLD_LOCAL_SIZE=3", "OMPI_COMM_WORLD_LOCAL_SIZE is '3'"},
      {"OMPI_COMM_WORLD_LOCAL_RANK=2", "OMPI_COMM_WORLD_LOCAL_RANK is '2'"},
      {"OMPI_COMM_WORLD_LOCAL_RANK=", "OMPI_COMM_WORLD_LOCAL_RANK is not set"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    const fake_t f = {{"OMPI_COMM_WORLD_RANK=1", "OMPI_COMM_WORLD_SIZE=2", "OMPI_COMM_WORLD_LOCAL_RANK=1",
                       "OMPI_COMM_WORLD_LOCAL_SIZE=2", cases[i].variable}};
    refuses(WEFT_LAUNCHER_MPI, &f, NULL, cases[i].why);
  }
  const fake_t none = {{NULL}};
  refuses(WEFT_LAUNCHER_MPI, &none, NULL, "start the servers with mpirun");
  const fake_t unknown = {{"OMPI_COMM_WORLD_RANK=0", "OMPI_COMM_WORLD_SIZE=2", "OMPI_COMM_WORLD_LOCAL_RANK=0",
                           "OMPI_COMM_WORLD_LOCAL_SIZE=1"}};
  refuses(WEFT_LAUNCHER_MPI, &unknown, NULL, "no process manager");
  const fake_t hydra = {{"PMI_RANK=0", "PMI_SIZE=3", "MPI_LOCALRANKID=0", "MPI_LOCALNRANKS=2"}};
  refuses(WEFT_LAUNCHER_MPI, &hydra, NULL, "PMI_FD is not set");
  const fake_t no_number = {
      {"PMI_RANK=0", "PMI_SIZE=3", "MPI_LOCALRANKID=0", "MPI_LOCALNRANKS=2", "PMI_FD=x"}};
  refuses(WEFT_LAUNCHER_MPI, &no_number, NULL, "PMI_FD is 'x'");
}

/* ---- Kubernetes ---- */

static void pods_of_several_sets_are_tasks_of_their_jobs(void) {
  static const char *const pods[] = {"HOSTNAME=digits-ps-0", "HOSTNAME=digits-worker-0",
                                     "HOSTNAME=digits-worker-1"};
  static const char *const own[] = {"ps 0", "worker 0", "worker 1"};
  for (int i = 0; i < 3; i++) {
    const fake_t f = {{"WEFT_JOBS=ps=1,worker=2", "WEFT_SERVICE=digits", pods[i]}};
    char expected[200];
    (void)snprintf(
        expected, sizeof expected,
        "ps=digits-ps-0.digits:2222;worker=digits-worker-0.digits:2222,digits-worker-1.digits:2222 %s "
        "local 0 remote",
        own[i]);
    gives(WEFT_LAUNCHER_KUBERNETES, &f, NULL, expected);
  }
}

static void sets_have_any_name_that_ends_with_the_job(void) {
  const weft_launch_options_t o = {.port_base = 80};
  const fake_t bare = {
      {"WEFT_JOBS=ps=1,worker=1", "WEFT_SERVICE=s.ml.svc.cluster.local", "HOSTNAME=worker-0"}};
  gives(
      WEFT_LAUNCHER_KUBERNETES, &bare, &o,
      "ps=ps-0.s.ml.svc.cluster.local:80;worker=worker-0.s.ml.svc.cluster.local:80 worker 0 local 0 remote");
  const fake_t single = {{"WEFT_JOBS=worker=2", "WEFT_SERVICE=s", "HOSTNAME=digits-1"}};
  gives(WEFT_LAUNCHER_KUBERNETES, &single, &o, "worker=digits-0.s:80,digits-1.s:80 worker 1 local 0 remote");
  const fake_t homonym = {{"WEFT_JOBS=worker=1", "WEFT_SERVICE=s", "HOSTNAME=coworker-0"}};
  gives(WEFT_LAUNCHER_KUBERNETES, &homonym, &o, "worker=coworker-0.s:80 worker 0 local 0 remote");
  const fake_t numbers = {{"WEFT_JOBS=ps=1,worker=1", "WEFT_SERVICE=s", "HOSTNAME=run-7-ps-0"}};
  gives(WEFT_LAUNCHER_KUBERNETES, &numbers, &o,
        "ps=run-7-ps-0.s:80;worker=run-7-worker-0.s:80 ps 0 local 0 remote");
}

static void the_downward_api_stands_before_the_host_name(void) {
  const fake_t f = {{"WEFT_JOBS=worker=3", "WEFT_SERVICE=s", "HOSTNAME=node17.site", "WEFT_POD_NAME=t-2"}};
  gives(WEFT_LAUNCHER_KUBERNETES, &f, NULL,
        "worker=t-0.s:2222,t-1.s:2222,t-2.s:2222 worker 2 local 0 remote");
}

static void broken_pods_are_refused(void) {
  static const struct {
    const char *variable, *why;
  } cases[] = {
      {"WEFT_JOBS=", "WEFT_JOBS is not set"},
      {"WEFT_JOBS=ps=1,worker", "WEFT_JOBS: 'worker'"},
      {"WEFT_JOBS=a_b=1,worker=2", "job 'a_b' cannot be a part of the name of a StatefulSet"},
      {"WEFT_SERVICE=", "WEFT_SERVICE is not set"},
      {"WEFT_SERVICE=a b", "WEFT_SERVICE is 'a b'"},
      {"WEFT_SERVICE=-a", "WEFT_SERVICE is '-a'"},
      {"HOSTNAME=", "WEFT_POD_NAME is not set"},
      {"HOSTNAME=worker", "HOSTNAME is 'worker'"},
      {"HOSTNAME=d-worker-x", "HOSTNAME is 'd-worker-x'"},
      {"HOSTNAME=d-worker-", "HOSTNAME is 'd-worker-'"},
      {"HOSTNAME=-0", "HOSTNAME is '-0'"},
      {"HOSTNAME=d worker-0", "HOSTNAME is 'd worker-0'"},
      {"WEFT_POD_NAME=d-7f9c-xk2", "WEFT_POD_NAME is 'd-7f9c-xk2'"},
      {"HOSTNAME=d-worker-2", "over the 2 tasks of job 'worker': change WEFT_JOBS"},
      {"HOSTNAME=d-wroker-0", "StatefulSet 'd-wroker' has no job"},
      {"HOSTNAME=coworker-0", "StatefulSet 'coworker' has no job"},
      {"HOSTNAME=d-worker-99999999999999999999", "HOSTNAME is"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    const fake_t f = {
        {"WEFT_JOBS=ps=1,worker=2", "WEFT_SERVICE=d", "HOSTNAME=d-worker-0", cases[i].variable}};
    refuses(WEFT_LAUNCHER_KUBERNETES, &f, NULL, cases[i].why);
  }
}

static weft_status_t *launch_and_drop_each(void) {
  const fake_t fakes[WEFT_NUM_LAUNCHERS] = {
      [WEFT_LAUNCHER_SLURM] = {{STEP, "SLURM_PROCID=1"}},
      [WEFT_LAUNCHER_MPI] = {{"OMPI_COMM_WORLD_RANK=1", "OMPI_COMM_WORLD_SIZE=2",
                              "OMPI_COMM_WORLD_LOCAL_RANK=0", "OMPI_COMM_WORLD_LOCAL_SIZE=1"},
                             "a/0 b/0"},
      [WEFT_LAUNCHER_KUBERNETES] = {{"WEFT_JOBS=ps=1,worker=2", "WEFT_SERVICE=d", "HOSTNAME=d-worker-0"}},
  };
  for (int i = 0; i < WEFT_NUM_LAUNCHERS; i++) {
    weft_launch_t l;
    WEFT_RETURN_IF_ERROR(launch((weft_launcher_id_t)i, &fakes[i], NULL, &l));
    weft_launch_deinit(&l);
  }
  return NULL;
}

static void no_allocation_failure_is_lost(void) {
  long n;
  WEFT_FAIL_EACH_ALLOCATION(n, s, launch_and_drop_each());
  CU_ASSERT_TRUE(n >= 10);
}

int main(void) {
  static const CU_TestInfo tests[] = {
      {"slurm_ranks_are_tasks_in_the_order_of_jobs", slurm_ranks_are_tasks_in_the_order_of_jobs},
      {"jobs_come_from_the_option_then_the_environment_then_are_workers",
       jobs_come_from_the_option_then_the_environment_then_are_workers},
      {"cyclic_ranks_go_from_node_to_node", cyclic_ranks_go_from_node_to_node},
      {"a_client_beside_the_step_sees_the_job", a_client_beside_the_step_sees_the_job},
      {"broken_steps_are_refused", broken_steps_are_refused},
      {"broken_jobs_are_refused", broken_jobs_are_refused},
      {"ranks_on_one_host_use_its_loopback", ranks_on_one_host_use_its_loopback},
      {"ranks_on_several_hosts_are_where_the_manager_says",
       ranks_on_several_hosts_are_where_the_manager_says},
      {"broken_runs_are_refused", broken_runs_are_refused},
      {"pods_of_several_sets_are_tasks_of_their_jobs", pods_of_several_sets_are_tasks_of_their_jobs},
      {"sets_have_any_name_that_ends_with_the_job", sets_have_any_name_that_ends_with_the_job},
      {"the_downward_api_stands_before_the_host_name", the_downward_api_stands_before_the_host_name},
      {"broken_pods_are_refused", broken_pods_are_refused},
      {"no_allocation_failure_is_lost", no_allocation_failure_is_lost},
      CU_TEST_INFO_NULL,
  };
  return weft_run_tests("launcher", tests);
}
