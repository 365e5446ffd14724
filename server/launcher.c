/* server/launcher.c - from the ranks that a launcher found to a cluster of jobs. */
#include "server/launcher.h"

#include "base/alloc.h"
#include "server/launcher_ranks.h"

enum { MAX_JOBS = 64 };

typedef weft_status_t *find_fn(weft_ranks_t *r);

static const struct {
  const char *flag;
  find_fn *find;
} launchers[] = {
#define WEFT_LAUNCHER(id, flag, find, help) [WEFT_LAUNCHER_##id] = {flag, find},
#include "server/launchers.def"
#undef WEFT_LAUNCHER
};

const char *weft_launcher_flag(weft_launcher_id_t id) { return launchers[id].flag; }

void weft_launch_deinit(weft_launch_t *l) {
  weft_cluster_deinit(&l->cluster);
  *l = (weft_launch_t){.cluster = {.arena = WEFT_ARENA_INIT}};
}

static weft_status_t *no_memory(void) { return WEFT_NO_MEMORY("the ranks of a run"); }

/* ---- jobs ---- */

typedef struct jobs {
  weft_rank_job_t items[MAX_JOBS];
  int n, num_tasks;
  const char *source; /* what said so */
} jobs_t;

static weft_status_t *parse_jobs(weft_str_t text, jobs_t *jobs) {
  while (text.data != NULL) {
    weft_str_t part = text, tail = {NULL, 0}, name, number;
    uint64_t n = 0;
    (void)weft_str_split(text, ',', &part, &tail);
    text = tail;
    if (!weft_str_split(part, '=', &name, &number) || name.length == 0 || !weft_str_to_u64(number, &n) ||
        n == 0)
      return WEFT_ERROR(INVALID_ARGUMENT,
                        "%s: '%.*s' is not a job and its number of tasks, as in ps=1,worker=3", jobs->source,
                        WEFT_STR_ARGS(part));
    for (int i = 0; i < jobs->n; i++) {
      if (weft_str_eq(jobs->items[i].name, name))
        return WEFT_ERROR(INVALID_ARGUMENT, "%s: job '%.*s' is given twice", jobs->source,
                          WEFT_STR_ARGS(name));
    }
    if (jobs->n == MAX_JOBS || n > (uint64_t)(WEFT_MAX_RANKS - jobs->num_tasks))
      return WEFT_ERROR(INVALID_ARGUMENT, "%s: more than %d jobs, or more than %d tasks", jobs->source,
                        MAX_JOBS, WEFT_MAX_RANKS);
    jobs->items[jobs->n++] = (weft_rank_job_t){name, (int)n};
    jobs->num_tasks += (int)n;
  }
  return NULL;
}

static weft_status_t *read_jobs(const weft_ranks_t *r, jobs_t *jobs) {
  weft_str_t text = weft_str(r->options->jobs);
  jobs->source = "--jobs";
  if (text.data == NULL) {
    text = weft_ranks_variable(r, "WEFT_JOBS");
    jobs->source = "WEFT_JOBS";
    if (text.length == 0) return NULL;
  }
  return parse_jobs(text, jobs);
}

/* ---- ranks to a cluster ---- */

/* All ranks in the order of the jobs, as --cluster takes them. */
static void write_cluster(const weft_ranks_t *r, const jobs_t *jobs, weft_strbuf_t *text) {
  int rank = 0;
  for (int i = 0; i < jobs->n; i++) {
    weft_strbuf_printf(text, "%s%.*s=", i == 0 ? "" : ";", WEFT_STR_ARGS(jobs->items[i].name));
    for (int t = 0; t < jobs->items[i].num_tasks; t++, rank++) {
      if (t > 0) weft_strbuf_putc(text, ',');
      weft_strbuf_append(text, r->addresses[rank]);
    }
  }
}

static weft_status_t *find_own(const weft_ranks_t *r, const jobs_t *jobs, weft_launch_t *l) {
  int first = 0;
  l->job = WEFT_STR("");
  for (int i = 0; r->own >= 0 && i < jobs->n; i++) {
    if (r->own < first + jobs->items[i].num_tasks) {
      l->task = r->own - first;
      l->local = r->local;
      l->job = weft_arena_str(&l->cluster.arena, jobs->items[i].name);
      return l->job.data == NULL ? no_memory() : NULL;
    }
    first += jobs->items[i].num_tasks;
  }
  return NULL;
}

static weft_status_t *make(const weft_ranks_t *r, const jobs_t *jobs, const char *flag, weft_launch_t *l) {
  weft_strbuf_t text = WEFT_STRBUF_INIT;
  if (jobs->num_tasks != r->num_ranks) {
    return WEFT_ERROR(INVALID_ARGUMENT, "%s names %d tasks, but --%s finds %d processes: change one of them",
                      jobs->source, jobs->num_tasks, flag, r->num_ranks);
  }
  write_cluster(r, jobs, &text);
  weft_status_t *s =
      text.failed ? no_memory()
                  : weft_status_prefix(weft_cluster_parse(weft_str_of(text.data, text.length), &l->cluster),
                                       "cluster: ");
  if (s == NULL) s = find_own(r, jobs, l);
  for (int i = 0; s == NULL && i < r->num_ranks; i++) {
    if (!weft_str_starts_with(r->addresses[i], "127.")) l->is_remote = true;
  }
  weft_strbuf_deinit(&text);
  return s;
}

weft_status_t *weft_launch(weft_launcher_id_t id, const weft_launch_system_t *system,
                           const weft_launch_options_t *o, weft_launch_t *out) {
  jobs_t jobs = {.n = 0};
  weft_ranks_t r = {.system = system, .options = o, .jobs = jobs.items, .arena = WEFT_ARENA_INIT, .own = -1};
  weft_launch_t l = {.cluster = {.arena = WEFT_ARENA_INIT}};
  weft_status_t *s = read_jobs(&r, &jobs);
  r.num_jobs = jobs.n;
  if (s == NULL) s = launchers[id].find(&r);
  if (s == NULL && jobs.n == 0) {
    jobs.items[jobs.n++] = (weft_rank_job_t){WEFT_STR("worker"), r.num_ranks};
    jobs.num_tasks = r.num_ranks;
  }
  if (s == NULL) s = make(&r, &jobs, launchers[id].flag, &l);
  weft_arena_deinit(&r.arena);
  if (s != NULL) {
    weft_launch_deinit(&l);
    return s;
  }
  *out = l;
  return NULL;
}
