/* worker/worker_metrics.c - a task's numbers: runs of its graphs, waits for input, memory, bytes between
 * tasks. */
#include "base/metrics.h"
#include "collectives/link_counters.h"
#include "worker/worker_impl.h"

void weft_worker_count_run(weft_worker_t *w, int64_t ns, const weft_status_t *status) {
  atomic_llong *count = status == NULL                               ? &w->run_counts.ok
                        : weft_status_code(status) == WEFT_CANCELLED ? &w->run_counts.cancelled
                                                                     : &w->run_counts.failed;
  atomic_fetch_add_explicit(count, 1, memory_order_relaxed);
  weft_histogram_add(&w->run_counts.seconds, ns);
}

static void write_runs(weft_worker_t *w, weft_strbuf_t *out) {
  static const struct {
    const char *result;
    size_t at;
  } results[] = {{"ok", offsetof(weft_worker_t, run_counts.ok)},
                 {"cancelled", offsetof(weft_worker_t, run_counts.cancelled)},
                 {"failed", offsetof(weft_worker_t, run_counts.failed)}};
  weft_metrics_family(out, "weft_graph_runs_total", "counter",
                      "Runs of this task's part of a step, by their end.");
  for (size_t i = 0; i < sizeof results / sizeof results[0]; i++) {
    const weft_metric_label_t label = {"result", weft_str(results[i].result)};
    weft_metrics_int(out, "weft_graph_runs_total", &label, 1,
                     atomic_load_explicit((atomic_llong *)((char *)w + results[i].at), memory_order_relaxed));
  }
  weft_metrics_family(out, "weft_graph_run_seconds", "histogram", "How long these runs took.");
  weft_metrics_histogram(out, "weft_graph_run_seconds", NULL, 0, &w->run_counts.seconds);
  weft_mutex_lock(&w->mu);
  const int running = w->runs;
  const size_t sessions = w->sessions.count;
  weft_mutex_unlock(&w->mu);
  weft_metrics_family(out, "weft_graph_runs_in_progress", "gauge", "Runs that have not ended.");
  weft_metrics_int(out, "weft_graph_runs_in_progress", NULL, 0, running);
  weft_metrics_family(out, "weft_worker_sessions", "gauge", "Sessions that have graphs on this task.");
  weft_metrics_int(out, "weft_worker_sessions", NULL, 0, (int64_t)sessions);
  weft_metrics_family(out, "weft_step_recordings", "gauge", "Recordings of steps that observers have open.");
  weft_metrics_int(out, "weft_step_recordings", NULL, 0, weft_step_recordings_count(w->recordings));
}

static weft_metric_label_t device_label(const weft_device_t *d) {
  return (weft_metric_label_t){"device", d->name};
}

/* One family with a sample for each device. */
static void write_input(weft_worker_t *w, const char *name, const char *type, const char *help, bool is_time,
                        size_t at, weft_strbuf_t *out) {
  weft_metrics_family(out, name, type, help);
  for (int i = 0; i < w->devices.n; i++) {
    weft_device_t *d = w->devices.all[i];
    const weft_metric_label_t label = device_label(d);
    const int64_t value =
        atomic_load_explicit((atomic_llong *)((char *)weft_device_counts(d) + at), memory_order_relaxed);
    (is_time ? weft_metrics_seconds : weft_metrics_int)(out, name, &label, 1, value);
  }
}

static void write_inputs(weft_worker_t *w, weft_strbuf_t *out) {
  write_input(w, "weft_input_wait_seconds_total", "counter",
              "Time that steps have waited for elements of iterators, summed over those that waited at once.",
              true, offsetof(weft_device_counts_t, input_waited_ns), out);
  write_input(w, "weft_input_elements_total", "counter", "Elements that iterators have given to steps.",
              false, offsetof(weft_device_counts_t, input_elements), out);
  write_input(w, "weft_input_ahead_bytes", "gauge", "Elements that pipelines have made ahead of their use.",
              false, offsetof(weft_device_counts_t, input_ahead_bytes), out);
}

static void write_memory(weft_worker_t *w, const char *name, const char *help, bool is_peak,
                         weft_strbuf_t *out) {
  weft_metrics_family(out, name, "gauge", help);
  for (int i = 0; i < w->devices.n; i++) {
    for (int tag = 0; tag < WEFT_NUM_MEMORY_TAGS; tag++) {
      weft_memory_accounts_t *a = w->devices.all[i]->memory;
      const weft_metric_label_t labels[] = {device_label(w->devices.all[i]),
                                            {"tag", weft_str(weft_memory_tag_name((weft_memory_tag_t)tag))}};
      weft_metrics_int(out, name, labels, 2,
                       is_peak ? weft_memory_high_water(a, (weft_memory_tag_t)tag, false)
                               : weft_memory_in_use(a, (weft_memory_tag_t)tag));
    }
  }
}

typedef struct link_sample {
  weft_strbuf_t *out;
  bool is_bytes;
} link_sample_t;

static void write_link(void *arg, weft_str_t src, weft_str_t dst, weft_traffic_t traffic,
                       weft_link_count_t count) {
  const link_sample_t *l = arg;
  const weft_metric_label_t labels[] = {
      {"from", src}, {"to", dst}, {"class", weft_str(weft_traffic_name(traffic))}};
  weft_metrics_int(l->out, l->is_bytes ? "weft_link_bytes_total" : "weft_link_messages_total", labels, 3,
                   (int64_t)(l->is_bytes ? count.bytes : count.messages));
}

static void write_links(weft_worker_t *w, weft_strbuf_t *out) {
  weft_link_counters_t *c = weft_worker_counters(w);
  weft_metrics_family(out, "weft_link_bytes_total", "counter",
                      "Tensors (tensor) and pieces of collectives that this task has fetched from others.");
  weft_link_counters_each(c, write_link, &(link_sample_t){out, true});
  weft_metrics_family(out, "weft_link_messages_total", "counter", "Messages of these.");
  weft_link_counters_each(c, write_link, &(link_sample_t){out, false});
}

void weft_worker_write_metrics(weft_worker_t *w, weft_strbuf_t *out) {
  write_runs(w, out);
  write_inputs(w, out);
  write_memory(w, "weft_memory_bytes", "Memory of tensors, by what it is for.", false, out);
  write_memory(w, "weft_memory_peak_bytes", "The most that it has been since it was last reset.", true, out);
  write_links(w, out);
}
