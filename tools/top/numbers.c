/* tools/top/numbers.c - from samples to the numbers of a task, and from two of them to rates. */
#include "tools/top/numbers.h"

#include <math.h>
#include <stdlib.h>

#include "tools/top/metrics_text.h"

enum { MAX_NAME = 200 };

/* ---- reading ---- */

/* A copy that a terminal can show; what is longer than a name can be is cut. */
static weft_str_t copy_name(weft_top_numbers_t *n, weft_str_t text) {
  char shown[MAX_NAME];
  size_t length = text.length < sizeof shown ? text.length : sizeof shown;
  for (size_t i = 0; i < length; i++) {
    const unsigned char c = (unsigned char)text.data[i];
    shown[i] = c > ' ' && c < 0x7f ? (char)c : '?';
  }
  const weft_str_t copy = weft_arena_str(&n->arena, weft_str_of(shown, length));
  n->has_memory_failed = n->has_memory_failed || copy.data == NULL;
  return copy.data == NULL ? weft_str_of("", 0) : copy;
}

static void add_tag(weft_top_numbers_t *n, weft_str_t tag, double value, bool is_peak) {
  int i = 0;
  while (i < n->num_tags && !weft_str_eq(n->tags[i].name, tag)) i++;
  if (i == WEFT_TOP_TAGS) return; /* a later version's */
  if (i == n->num_tags) n->tags[n->num_tags++] = (weft_top_tag_t){.name = copy_name(n, tag)};
  *(is_peak ? &n->tags[i].peak : &n->tags[i].now) += value;
}

/* Room for one more; false: there is none, or there are too many. */
static bool grow(weft_top_numbers_t *n, void **items, size_t size, int count, int *room, int most) {
  if (count < *room) return true;
  if (count >= most) return false;
  const int more = *room == 0 ? 16 : 2 * *room;
  void *copy = weft_arena_calloc(&n->arena, (size_t)more, size);
  n->has_memory_failed = n->has_memory_failed || copy == NULL;
  if (copy == NULL) return false;
  if (count > 0) memcpy(copy, *items, (size_t)count * size);
  *items = copy;
  *room = more;
  return true;
}

/* Messages follow bytes, and losses follow states, in the same order: what follows the last one is asked
 * first. */
static void add_link(weft_top_numbers_t *n, const weft_metrics_sample_t *s, bool is_bytes) {
  const weft_str_t from = weft_metrics_sample_label(s, "from"), to = weft_metrics_sample_label(s, "to"),
                   kind = weft_metrics_sample_label(s, "class");
  for (int i = 0; !is_bytes && i < n->num_links; i++) {
    const int at = (n->next_link + i) % n->num_links;
    weft_top_link_t *l = &n->links[at];
    if (weft_str_eq(l->from, from) && weft_str_eq(l->to, to) && weft_str_eq(l->kind, kind)) {
      l->messages += s->value;
      n->next_link = at + 1;
      return;
    }
  }
  void *items = n->links;
  if (!is_bytes || !grow(n, &items, sizeof *n->links, n->num_links, &n->room_links, WEFT_TOP_LINKS)) return;
  n->links = items;
  n->links[n->num_links++] = (weft_top_link_t){
      .from = copy_name(n, from), .to = copy_name(n, to), .kind = copy_name(n, kind), .bytes = s->value};
}

static void add_member(weft_top_numbers_t *n, const weft_metrics_sample_t *s, bool is_up) {
  const weft_str_t task = weft_metrics_sample_label(s, "task");
  for (int i = 0; !is_up && i < n->num_members; i++) {
    const int at = (n->next_member + i) % n->num_members;
    if (!weft_str_eq(n->members[at].task, task)) continue;
    n->members[at].losses = s->value;
    n->next_member = at + 1;
    return;
  }
  void *items = n->members;
  if (!is_up || !grow(n, &items, sizeof *n->members, n->num_members, &n->room_members, WEFT_TOP_MEMBERS))
    return;
  n->members = items;
  n->members[n->num_members++] = (weft_top_member_t){.task = copy_name(n, task), .is_up = s->value > 0};
}

static void add_bucket(weft_top_numbers_t *n, const weft_metrics_sample_t *s) {
  const weft_str_t le = weft_metrics_sample_label(s, "le");
  char text[40] = "", *end = NULL;
  if (le.length >= sizeof text || n->num_buckets == WEFT_TOP_BUCKETS) return;
  memcpy(text, le.data, le.length);
  const double bound = strtod(text, &end); /* "+Inf", too */
  if (*end != '\0' || le.length == 0 || isnan(bound)) return;
  if (n->num_buckets > 0 && !(bound > n->bounds[n->num_buckets - 1])) return; /* they are sorted */
  n->bounds[n->num_buckets] = bound;
  n->counts[n->num_buckets++] = s->value;
}

typedef struct plain_number {
  const char *name;
  size_t at;
} plain_number_t;
#define NUMBER(name, field) \
  { name, offsetof(weft_top_numbers_t, field) }
static const plain_number_t plain_numbers[] = {
    NUMBER("weft_task_start_time_seconds", started),
    NUMBER("weft_graph_run_seconds_sum", run_seconds),
    NUMBER("weft_graph_run_seconds_count", run_count),
    NUMBER("weft_graph_runs_in_progress", running),
    NUMBER("weft_worker_sessions", worker_sessions),
    NUMBER("weft_master_sessions", master_sessions),
    NUMBER("weft_input_wait_seconds_total", waited_seconds), /* of each device: added up */
    NUMBER("process_cpu_seconds_total", cpu_seconds),
    NUMBER("process_resident_memory_bytes", resident),
};
#undef NUMBER

static bool add_plain(weft_top_numbers_t *n, const weft_metrics_sample_t *s) {
  for (size_t i = 0; i < sizeof plain_numbers / sizeof plain_numbers[0]; i++) {
    if (!weft_str_is(s->name, plain_numbers[i].name)) continue;
    *(double *)(void *)((char *)n + plain_numbers[i].at) += s->value;
    return true;
  }
  return false;
}

static void add_run(weft_top_numbers_t *n, const weft_metrics_sample_t *s) {
  const weft_str_t result = weft_metrics_sample_label(s, "result");
  if (weft_str_is(result, "ok")) n->ok = s->value;
  if (weft_str_is(result, "cancelled")) n->cancelled = s->value;
  if (weft_str_is(result, "failed")) n->failed = s->value;
}

static void add_sample(void *arg, const weft_metrics_sample_t *from) {
  weft_top_numbers_t *n = arg;
  weft_metrics_sample_t s = *from;
  if (!isfinite(s.value)) s.value = 0;
  if (add_plain(n, &s)) return;
  if (weft_str_is(s.name, "weft_graph_runs_total")) add_run(n, &s);
  if (weft_str_is(s.name, "weft_graph_run_seconds_bucket")) add_bucket(n, &s);
  if (weft_str_is(s.name, "weft_memory_bytes"))
    add_tag(n, weft_metrics_sample_label(&s, "tag"), s.value, false);
  if (weft_str_is(s.name, "weft_memory_peak_bytes"))
    add_tag(n, weft_metrics_sample_label(&s, "tag"), s.value, true);
  if (weft_str_is(s.name, "weft_link_bytes_total")) add_link(n, &s, true);
  if (weft_str_is(s.name, "weft_link_messages_total")) add_link(n, &s, false);
  if (weft_str_is(s.name, "weft_task_up")) add_member(n, &s, true);
  if (weft_str_is(s.name, "weft_task_losses_total")) add_member(n, &s, false);
}

weft_status_t *weft_top_numbers_read(weft_str_t text, int64_t taken_ns, weft_top_numbers_t *out) {
  *out = (weft_top_numbers_t){.arena = WEFT_ARENA_INIT, .taken_ns = taken_ns};
  weft_status_t *s = weft_metrics_text_read(text, add_sample, out);
  if (s == NULL && out->has_memory_failed) s = WEFT_NO_MEMORY("the numbers of a task");
  if (s == NULL && out->num_buckets == 0)
    s = WEFT_ERROR(INVALID_ARGUMENT, "these are not the numbers of a Weft task");
  return s;
}

void weft_top_numbers_deinit(weft_top_numbers_t *n) {
  weft_arena_deinit(&n->arena);
  *n = (weft_top_numbers_t){.arena = WEFT_ARENA_INIT};
}

/* ---- rates ---- */

bool weft_top_was_restarted(const weft_top_numbers_t *before, const weft_top_numbers_t *now) {
  return now->started != before->started || now->ok < before->ok || now->run_count < before->run_count ||
         now->cpu_seconds < before->cpu_seconds;
}

/* What a counter grew by. */
static double growth(bool begins_anew, double before, double now) {
  return begins_anew || now < before ? now : now - before;
}

double weft_top_quantile(const double *bounds, const double *counts, int n, double q) {
  const double all = n == 0 ? 0 : counts[n - 1];
  if (!(all > 0)) return -1;
  const double wanted = q * all;
  int i = 0;
  while (i < n - 1 && counts[i] < wanted) i++;
  if (isinf(bounds[i])) return i == 0 ? -1 : bounds[i - 1];
  const double below = i == 0 ? 0 : counts[i - 1], high = bounds[i];
  const double low =
      i == 0 ? high / 3 : bounds[i - 1]; /* the first bucket has no lower bound: something near */
  const double here = counts[i] - below;
  if (!(here > 0) || !(low > 0)) return high;
  const double share = (wanted - below) / here;
  return low * pow(high / low, share < 0 ? 0 : share > 1 ? 1 : share);
}

static const weft_top_link_t *find_link(const weft_top_numbers_t *n, const weft_top_link_t *l, int hint) {
  for (int k = 0; k < n->num_links; k++) {
    const weft_top_link_t *at = &n->links[(hint + k) % n->num_links]; /* they seldom change their order */
    if (weft_str_eq(at->from, l->from) && weft_str_eq(at->to, l->to) && weft_str_eq(at->kind, l->kind))
      return at;
  }
  return NULL;
}

static double seconds_between(const weft_top_numbers_t *before, const weft_top_numbers_t *now) {
  const double s = (double)(now->taken_ns - before->taken_ns) * 1e-9;
  return s > 1e-6 ? s : 1e-6;
}

weft_top_rate_t weft_top_link_rate(const weft_top_numbers_t *before, const weft_top_numbers_t *now, int i) {
  const weft_top_link_t *l = &now->links[i], *old = find_link(before, l, i);
  const bool anew = old == NULL || weft_top_was_restarted(before, now);
  const double seconds = seconds_between(before, now);
  return (weft_top_rate_t){.bytes = growth(anew, anew ? 0 : old->bytes, l->bytes) / seconds,
                           .messages = growth(anew, anew ? 0 : old->messages, l->messages) / seconds};
}

/* Buckets of the runs between the two. Other bounds than before are of another version, begun anew. */
static int count_buckets(const weft_top_numbers_t *before, const weft_top_numbers_t *now, bool anew,
                         double *out) {
  for (int i = 0; i < now->num_buckets; i++) {
    const bool is_same = i < before->num_buckets && before->bounds[i] == now->bounds[i];
    out[i] = growth(anew || !is_same, is_same ? before->counts[i] : 0, now->counts[i]);
  }
  return now->num_buckets;
}

weft_top_figures_t weft_top_figures(const weft_top_numbers_t *before, const weft_top_numbers_t *now) {
  const bool anew = weft_top_was_restarted(before, now);
  double buckets[WEFT_TOP_BUCKETS];
  weft_top_figures_t f = {.seconds = seconds_between(before, now), .was_restarted = anew};
  const int n = count_buckets(before, now, anew, buckets);
  const double runs = growth(anew, before->run_count, now->run_count);
  const double run_seconds = growth(anew, before->run_seconds, now->run_seconds);
  const double waited = growth(anew, before->waited_seconds, now->waited_seconds);
  f.steps = growth(anew, before->ok, now->ok);
  f.steps_per_second = f.steps / f.seconds;
  f.failures_per_second =
      (growth(anew, before->failed, now->failed) + growth(anew, before->cancelled, now->cancelled)) /
      f.seconds;
  f.mean_seconds = runs > 0 ? run_seconds / runs : -1;
  f.p50_seconds = weft_top_quantile(now->bounds, buckets, n, 0.5);
  f.p99_seconds = weft_top_quantile(now->bounds, buckets, n, 0.99);
  f.wait_share = waited / (run_seconds > 0 ? run_seconds : f.seconds);
  if (f.wait_share > 1) f.wait_share = 1;
  f.cpus = growth(anew, before->cpu_seconds, now->cpu_seconds) / f.seconds;
  for (int i = 0; i < now->num_links; i++) f.bytes_in += weft_top_link_rate(before, now, i).bytes;
  return f;
}
