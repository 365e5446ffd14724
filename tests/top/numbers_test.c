/* tests/top/numbers_test.c - two sets of numbers, and the rates between them: after restarts, too. */
#include "tools/top/numbers.h"

#include <math.h>
#include <stdio.h>

#include "base/metrics.h"
#include "tests/runner.h"

#define SECOND INT64_C(1000000000)

/* The numbers of a task that has run `runs` times, each `run_ns` long. */
typedef struct task_state {
  double started;
  int64_t ok, failed, runs, run_ns, waited_ns, cpu_ns, bytes, messages;
} task_state_t;

static void write_state(const task_state_t *t, weft_strbuf_t *out) {
  const weft_metric_label_t ok = {"result", WEFT_STR("ok")}, failed = {"result", WEFT_STR("failed")};
  const weft_metric_label_t link[] = {
      {"from", WEFT_STR("a")}, {"to", WEFT_STR("b")}, {"class", WEFT_STR("tensor")}};
  const weft_metric_label_t cpu[] = {{"device", WEFT_STR("CPU:0")}, {"tag", WEFT_STR("param")}};
  weft_histogram_t h = {0};
  for (int64_t i = 0; i < t->runs; i++) weft_histogram_add(&h, t->run_ns);
  weft_strbuf_printf(out, "weft_task_start_time_seconds %f\n", t->started);
  weft_metrics_int(out, "weft_graph_runs_total", &ok, 1, t->ok);
  weft_metrics_int(out, "weft_graph_runs_total", &failed, 1, t->failed);
  weft_metrics_histogram(out, "weft_graph_run_seconds", NULL, 0, &h);
  weft_metrics_seconds(out, "weft_input_wait_seconds_total", cpu, 1, t->waited_ns);
  weft_metrics_seconds(out, "process_cpu_seconds_total", NULL, 0, t->cpu_ns);
  weft_metrics_int(out, "weft_link_bytes_total", link, 3, t->bytes);
  weft_metrics_int(out, "weft_link_messages_total", link, 3, t->messages);
}

static void read_text(const char *text, int64_t at_ns, weft_top_numbers_t *out) {
  weft_status_t *s = weft_top_numbers_read(weft_str(text), at_ns, out);
  CU_ASSERT_PTR_NULL_FATAL(s);
}

static weft_top_numbers_t numbers_of(const task_state_t *t, int64_t at_ns) {
  weft_strbuf_t text = WEFT_STRBUF_INIT;
  weft_top_numbers_t n;
  write_state(t, &text);
  read_text(text.data, at_ns, &n);
  weft_strbuf_deinit(&text);
  return n;
}

static weft_top_figures_t between(const task_state_t *before, const task_state_t *now, int64_t ns,
                                  weft_top_rate_t *link) {
  weft_top_numbers_t a = numbers_of(before, 5 * SECOND), b = numbers_of(now, 5 * SECOND + ns);
  weft_top_figures_t f = weft_top_figures(&a, &b);
  if (link != NULL) *link = weft_top_link_rate(&a, &b, 0);
  weft_top_numbers_deinit(&a);
  weft_top_numbers_deinit(&b);
  return f;
}

static void rates_are_those_of_the_interval(void) {
  const task_state_t before = {.started = 100,
                               .ok = 40,
                               .failed = 1,
                               .runs = 41,
                               .run_ns = 10000000,
                               .waited_ns = SECOND,
                               .cpu_ns = 3 * SECOND,
                               .bytes = 1000,
                               .messages = 10};
  task_state_t now = before;
  now.ok = 60;
  now.failed = 5;
  now.runs = 65;
  now.waited_ns += 60000000; /* of 24 runs of 10 ms */
  now.cpu_ns += 3 * SECOND;
  now.bytes += 4096;
  now.messages += 8;
  weft_top_rate_t link;
  const weft_top_figures_t f = between(&before, &now, 2 * SECOND, &link);
  CU_ASSERT_FALSE(f.was_restarted);
  CU_ASSERT_DOUBLE_EQUAL(f.seconds, 2, 1e-9);
  CU_ASSERT_DOUBLE_EQUAL(f.steps, 20, 1e-9);
  CU_ASSERT_DOUBLE_EQUAL(f.steps_per_second, 10, 1e-9);
  CU_ASSERT_DOUBLE_EQUAL(f.failures_per_second, 2, 1e-9);
  CU_ASSERT_DOUBLE_EQUAL(f.mean_seconds, 0.01, 1e-9);
  CU_ASSERT_TRUE(f.p50_seconds > 0.007 && f.p50_seconds <= 0.01 && f.p99_seconds <= 0.01);
  CU_ASSERT_DOUBLE_EQUAL(f.wait_share, 0.25, 1e-6);
  CU_ASSERT_DOUBLE_EQUAL(f.cpus, 1.5, 1e-9);
  CU_ASSERT_DOUBLE_EQUAL(f.bytes_in, 2048, 1e-9);
  CU_ASSERT_DOUBLE_EQUAL(link.messages, 4, 1e-9);
}

static void nothing_has_happened(void) {
  const task_state_t same = {.started = 100, .ok = 40, .runs = 40, .run_ns = 10000000, .waited_ns = SECOND};
  const weft_top_figures_t f = between(&same, &same, SECOND, NULL);
  CU_ASSERT_EQUAL(f.steps_per_second, 0);
  CU_ASSERT_EQUAL(f.mean_seconds, -1);
  CU_ASSERT_EQUAL(f.p50_seconds, -1);
  CU_ASSERT_EQUAL(f.wait_share, 0);
}

/* A step that has not ended waits: its time is not among the runs' yet. */
static void waiting_without_an_end_is_a_share_of_the_interval(void) {
  const task_state_t before = {.started = 100};
  task_state_t now = before;
  now.waited_ns = SECOND / 2;
  CU_ASSERT_DOUBLE_EQUAL(between(&before, &now, SECOND, NULL).wait_share, 0.5, 1e-9);
  now.waited_ns = 9 * SECOND; /* of nine steps at once */
  CU_ASSERT_EQUAL(between(&before, &now, SECOND, NULL).wait_share, 1);
}

/* However a task began anew, its counters are those since then. */
static void counters_begin_anew_with_a_restart(void) {
  const task_state_t before = {.started = 100,
                               .ok = 1000,
                               .runs = 1000,
                               .run_ns = 1000000,
                               .cpu_ns = 9 * SECOND,
                               .bytes = 5000,
                               .messages = 50};
  const task_state_t fewer = {
      .started = 100, .ok = 8, .runs = 8, .run_ns = 1000000, .cpu_ns = SECOND, .bytes = 100, .messages = 2};
  task_state_t more = before; /* it was quick: all counters are beyond what they were */
  more.started = 200;
  more.ok = more.runs = 1200;
  const task_state_t *states[] = {&fewer, &more};
  for (int i = 0; i < 2; i++) {
    weft_top_rate_t link;
    const weft_top_figures_t f = between(&before, states[i], 2 * SECOND, &link);
    CU_ASSERT_TRUE(f.was_restarted);
    CU_ASSERT_DOUBLE_EQUAL(f.steps, (double)states[i]->ok, 1e-9);
    CU_ASSERT_DOUBLE_EQUAL(f.mean_seconds, 0.001, 1e-9);
    CU_ASSERT_DOUBLE_EQUAL(f.cpus, (double)states[i]->cpu_ns / 2e9, 1e-9);
    CU_ASSERT_DOUBLE_EQUAL(link.bytes, (double)states[i]->bytes / 2, 1e-9);
    CU_ASSERT_TRUE(f.p50_seconds > 0 && f.steps_per_second >= 0);
  }
}

#define A_TASK "weft_graph_run_seconds_bucket{le=\"1.0\"} 0\nweft_graph_run_seconds_bucket{le=\"+Inf\"} 0\n"
#define LINK(from, kind, bytes) \
  "weft_link_bytes_total{from=\"" from "\",to=\"y\",class=\"" kind "\"} " bytes "\n"

static void a_link_that_is_new_counts_from_zero(void) {
  weft_top_numbers_t a, b;
  read_text(A_TASK LINK("x", "tensor", "7"), 0, &a);
  read_text(A_TASK LINK("z", "tensor", "100") LINK("x", "collective", "50") LINK("x", "tensor", "10"), SECOND,
            &b);
  CU_ASSERT_EQUAL_FATAL(b.num_links, 3);
  CU_ASSERT_DOUBLE_EQUAL(weft_top_link_rate(&a, &b, 0).bytes, 100, 1e-9);
  CU_ASSERT_DOUBLE_EQUAL(weft_top_link_rate(&a, &b, 1).bytes, 50, 1e-9);
  CU_ASSERT_DOUBLE_EQUAL(weft_top_link_rate(&a, &b, 2).bytes, 3, 1e-9);
  CU_ASSERT_DOUBLE_EQUAL(weft_top_figures(&a, &b).bytes_in, 153, 1e-9);
  weft_top_numbers_deinit(&a);
  weft_top_numbers_deinit(&b);
}

static void numbers_of_devices_are_added_up(void) {
  weft_top_numbers_t n;
  read_text(A_TASK
            "weft_memory_bytes{device=\"CPU:0\",tag=\"param\"} 5\n"
            "weft_memory_bytes{device=\"CPU:1\",tag=\"param\"} 6\n"
            "weft_memory_peak_bytes{device=\"CPU:0\",tag=\"param\"} 50\n"
            "weft_memory_peak_bytes{device=\"CPU:1\",tag=\"param\"} 60\n"
            "weft_memory_bytes{device=\"CPU:0\",tag=\"a later one\"} 1\n"
            "weft_input_wait_seconds_total{device=\"CPU:0\"} 1.5\n"
            "weft_input_wait_seconds_total{device=\"CPU:1\"} 2\n"
            "weft_task_up{task=\"/job:a/task:0\"} 1\nweft_task_up{task=\"/job:a/task:1\"} 0\n"
            "weft_task_losses_total{task=\"/job:a/task:1\"} 3\nweft_task_losses_total{task=\"another\"} 3\n"
            "weft_worker_sessions NaN\nprocess_resident_memory_bytes +Inf\n",
            0, &n);
  CU_ASSERT_EQUAL_FATAL(n.num_tags, 2);
  CU_ASSERT_EQUAL(n.tags[0].now, 11);
  CU_ASSERT_EQUAL(n.tags[0].peak, 110);
  CU_ASSERT_TRUE(weft_str_is(n.tags[1].name, "a?later?one"));
  CU_ASSERT_EQUAL(n.waited_seconds, 3.5);
  CU_ASSERT_EQUAL_FATAL(n.num_members, 2);
  CU_ASSERT_TRUE(n.members[0].is_up && !n.members[1].is_up && n.members[1].losses == 3);
  CU_ASSERT_TRUE(n.worker_sessions == 0 && n.resident == 0);
  weft_top_numbers_deinit(&n);
}

static void what_is_no_task_is_refused(void) {
  static const char *const texts[] = {"", "go_goroutines 5\n", "not metrics", "<html>\n"};
  for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
    weft_top_numbers_t n;
    weft_status_t *s = weft_top_numbers_read(weft_str(texts[i]), 0, &n);
    CU_ASSERT_EQUAL(weft_status_code(s), WEFT_INVALID_ARGUMENT);
    weft_status_free(s);
    weft_top_numbers_deinit(&n);
  }
}

/* ---- quantiles ---- */

static void quantiles_lie_in_their_bucket(void) {
  static const double bounds[] = {0.001, 0.01, 0.1, INFINITY};
  static const struct {
    double counts[4], q, least, most;
  } cases[] = {
      {{0, 100, 100, 100}, 0.5, 0.001, 0.01},   {{50, 50, 100, 100}, 0.99, 0.01, 0.1},
      {{50, 50, 100, 100}, 0.4, 0.0003, 0.001}, {{0, 0, 0, 10}, 0.5, 0.1, 0.1}, /* above all bounds */
      {{10, 10, 10, 10}, 1, 0.001, 0.001},      {{0, 10, 10, 10}, 0, 0.0003, 0.01},
      {{0, 0, 1, 1}, 0.99, 0.01, 0.1},
  };
  static const double none[4] = {0}, five[] = {5};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    const double x = weft_top_quantile(bounds, cases[i].counts, 4, cases[i].q);
    CU_ASSERT_TRUE(x >= cases[i].least && x <= cases[i].most);
  }
  CU_ASSERT_EQUAL(weft_top_quantile(bounds, none, 4, 0.5), -1);
  CU_ASSERT_EQUAL(weft_top_quantile(bounds, none, 0, 0.5), -1);
  CU_ASSERT_EQUAL(weft_top_quantile(&bounds[3], five, 1, 0.5), -1);
}

/* Every length that a run can have, in the histogram that tasks have: the quantile of equal runs is near it.
 */
static void quantiles_of_the_histogram_are_near(void) {
  for (double ns = 130000; ns < 28e9; ns *= 1.31) {
    const task_state_t before = {.started = 1};
    task_state_t now = before;
    now.ok = now.runs = 50;
    now.run_ns = (int64_t)ns;
    const weft_top_figures_t f = between(&before, &now, SECOND, NULL);
    CU_ASSERT_TRUE(f.p50_seconds > ns * 1e-9 / 1.45 && f.p50_seconds < ns * 1e-9 * 1.45);
    CU_ASSERT_TRUE(f.p99_seconds >= f.p50_seconds && f.p99_seconds < ns * 1e-9 * 1.6);
  }
}

int main(void) {
  static const CU_TestInfo tests[] = {
      {"rates are those of the interval", rates_are_those_of_the_interval},
      {"nothing has happened", nothing_has_happened},
      {"waiting without an end is a share of the interval",
       waiting_without_an_end_is_a_share_of_the_interval},
      {"counters begin anew with a restart", counters_begin_anew_with_a_restart},
      {"a link that is new counts from zero", a_link_that_is_new_counts_from_zero},
      {"numbers of devices are added up", numbers_of_devices_are_added_up},
      {"what is no task is refused", what_is_no_task_is_refused},
      {"quantiles lie in their bucket", quantiles_lie_in_their_bucket},
      {"quantiles of the histogram are near", quantiles_of_the_histogram_are_near},
      CU_TEST_INFO_NULL,
  };
  return weft_run_tests("numbers of tasks", tests);
}
