/* tools/top/view_json.c - field by field. */
#include "tools/top/view_json.h"

#include <math.h>

static json_t *text(weft_str_t s) { return json_stringn(s.data == NULL ? "" : s.data, s.length); }
static json_t *number(bool is_known, double value) {
  return is_known && isfinite(value) ? json_real(value) : json_null();
}

static json_t *memory_json(const weft_top_task_t *t) {
  json_t *all = json_object();
  for (int i = 0; i < t->num_tags; i++) {
    json_object_setn_new(all, t->tags[i].name.data, t->tags[i].name.length,
                         json_pack("{s:f, s:f}", "bytes", t->tags[i].now, "peak_bytes", t->tags[i].peak));
  }
  return all;
}

static json_t *straggler_json(const weft_top_task_t *t) {
  if (t->lag == WEFT_TOP_NO_LAG) return json_null();
  return json_pack("{s:s, s:o}", "of", t->lag == WEFT_TOP_SLOW ? "time" : "rate", "by",
                   number(true, t->lag_by));
}

static json_t *task_json(const weft_top_task_t *t) {
  const weft_top_figures_t *f = &t->figures;
  const bool is_up = t->state == WEFT_TOP_UP, rates = t->has_figures, runs = rates && f->mean_seconds >= 0;
  json_t *o = json_pack("{s:o, s:o, s:s, s:f, s:o, s:f}", "task", text(t->full), "address", text(t->address),
                        "state", weft_top_state_name(t->state), "since", t->since, "why",
                        t->why.length > 0 ? text(t->why) : json_null(), "losses", t->losses);
  if (o == NULL || !t->has_numbers) return o;
  json_t *more =
      json_pack("{s:o, s:o, s:{s:o, s:o, s:o}, s:o, s:o, s:o, s:o, s:o, s:o, s:f, s:o, s:o}",
                "steps_per_second", number(rates, f->steps_per_second), "failures_per_second",
                number(rates, f->failures_per_second), "step_seconds", "mean", number(runs, f->mean_seconds),
                "p50", number(runs, f->p50_seconds), "p99", number(runs, f->p99_seconds), "steps_in_progress",
                number(is_up, t->running), "sessions", number(is_up, t->worker_sessions), "client_sessions",
                number(is_up, t->master_sessions), "input_wait_share", number(rates, f->wait_share), "cpus",
                number(rates, f->cpus), "bytes_in_per_second", number(rates, f->bytes_in), "resident_bytes",
                t->resident, "memory", memory_json(t), "straggler", straggler_json(t));
  json_object_update(o, more);
  json_decref(more);
  json_object_set_new(o, "interval_seconds", number(rates, f->seconds));
  json_object_set_new(o, "steps", number(rates, f->steps));
  json_object_set_new(o, "was_restarted", rates ? json_boolean(f->was_restarted) : json_null());
  return o;
}

static json_t *nodes_json(const weft_top_view_t *v) {
  json_t *list = json_array();
  if (!v->has_nodes) return json_pack("{s:o, s:o}", "trouble", text(v->nodes_trouble), "nodes", list);
  for (int i = 0; i < v->num_nodes; i++) {
    const weft_top_node_t *n = &v->nodes[i];
    json_array_append_new(
        list, json_pack("{s:o, s:o, s:o, s:f, s:f, s:i}", "name", text(n->name), "op", text(n->op), "device",
                        text(n->device), "seconds", n->seconds, "share", n->share, "runs", n->runs));
  }
  return json_pack("{s:I, s:f, s:f, s:o}", "step", (json_int_t)v->step_id, "step_seconds", v->step_seconds,
                   "time", v->nodes_time, "nodes", list);
}

json_t *weft_top_view_json(const weft_top_view_t *v, bool has_nodes) {
  json_t *tasks = json_array(), *traffic = json_array();
  for (int i = 0; i < v->num_tasks; i++) json_array_append_new(tasks, task_json(&v->tasks[i]));
  for (int i = 0; i < v->num_traffic; i++) {
    const weft_top_traffic_t *l = &v->traffic[i];
    json_array_append_new(traffic, json_pack("{s:o, s:o, s:o, s:f, s:f}", "from", text(l->from), "to",
                                             text(l->to), "class", text(l->kind), "bytes_per_second",
                                             l->rate.bytes, "messages_per_second", l->rate.messages));
  }
  json_t *o = json_pack("{s:f, s:f, s:o, s:o}", "time", v->time, "every", v->every, "tasks", tasks, "traffic",
                        traffic);
  if (o != NULL && has_nodes) json_object_set_new(o, "slowest_nodes", nodes_json(v));
  return o;
}
