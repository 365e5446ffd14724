/* tests/top/view_test.c - stragglers, orders, and how a view looks as text and as JSON. */
#include "tools/top/view.h"

#include <math.h>
#include <stdio.h>

#include "tests/runner.h"
#include "tools/top/table.h"
#include "tools/top/view_json.h"

enum { MOST = 8 };

/* A task of "worker" that is up, whose runs take `time` and come at `rate`. */
static weft_top_task_t worker(double time, double rate) {
  return (weft_top_task_t){.job = WEFT_STR("worker"),
                           .name = WEFT_STR("worker:0"),
                           .full = WEFT_STR("/job:worker/replica:0/task:0"),
                           .address = WEFT_STR("h:1"),
                           .state = WEFT_TOP_UP,
                           .has_numbers = true,
                           .worker_sessions = 1,
                           .has_figures = true,
                           .figures = {.seconds = 1,
                                       .steps = rate,
                                       .steps_per_second = rate,
                                       .mean_seconds = time,
                                       .p50_seconds = time,
                                       .p99_seconds = time}};
}

static weft_top_view_t view_of(weft_top_task_t *tasks, int n) {
  weft_top_view_t v = {
      .arena = WEFT_ARENA_INIT, .tasks = tasks, .num_tasks = n, .every = 1, .straggler_factor = 1.5};
  weft_top_mark_stragglers(&v);
  return v;
}

static void stragglers_are_off_the_median(void) {
  static const struct {
    int n;
    double times[MOST], rates[MOST];
    const char *lags; /* 's'low, 'r'are, '.' */
    double by;        /* of the one that is marked */
  } cases[] = {
      {1, {9}, {1}, ".", 0},
      {2, {1, 1}, {10, 10}, "..", 0},
      {2, {1, 3}, {10, 10}, ".s", 3},
      {2, {3, 1}, {10, 10}, "s.", 3},
      {2, {1, 1.4}, {10, 10}, "..", 0},
      {3, {1, 1, 4}, {10, 10, 10}, "..s", 4},
      {3, {1, 4, 4}, {10, 10, 10}, "...", 0}, /* the median is slow */
      {3, {1, 1, 1}, {30, 10, 10}, "...", 0}, /* the master's has parts of all steps */
      {3, {1, 1, 1}, {30, 10, 2}, "..r", 5},
      {2, {1, 1}, {20, 10}, "..", 0}, /* of two, which is the rare one? */
      {2, {1, -1}, {20, 0}, ".r", INFINITY},
      {4, {1, 1, 1, 9}, {5, 5, 5, 1}, "...s", 9},
      {3, {1, 1, 1}, {1, 1, 0.5}, "...", 0}, /* too few steps to judge */
      {3, {-1, -1, -1}, {0, 0, 0}, "...", 0},
      {5, {2, 2, 2, 2, 3.2}, {5, 5, 5, 5, 5}, "....s", 1.6},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    weft_top_task_t tasks[MOST];
    for (int k = 0; k < cases[i].n; k++) tasks[k] = worker(cases[i].times[k], cases[i].rates[k]);
    const weft_top_view_t v = view_of(tasks, cases[i].n);
    for (int k = 0; k < cases[i].n; k++) {
      static const char marks[] = {[WEFT_TOP_NO_LAG] = '.', [WEFT_TOP_SLOW] = 's', [WEFT_TOP_RARE] = 'r'};
      const weft_top_task_t *t = &v.tasks[k];
      if (marks[t->lag] != cases[i].lags[k]) fprintf(stderr, "case %zu, task %d\n", i, k);
      CU_ASSERT_EQUAL(marks[t->lag], cases[i].lags[k]);
      if (t->lag != WEFT_TOP_NO_LAG && !isinf(cases[i].by))
        CU_ASSERT_DOUBLE_EQUAL(t->lag_by, cases[i].by, 1e-9);
      if (t->lag != WEFT_TOP_NO_LAG && isinf(cases[i].by)) CU_ASSERT_TRUE(isinf(t->lag_by));
    }
  }
}

/* Half of its runs are short parts of another's steps: its mean is half of the other's, its slow ones are as
 * slow. */
static void a_task_with_parts_of_other_steps_makes_no_straggler(void) {
  weft_top_task_t tasks[] = {worker(0.5, 20), worker(1, 10)};
  tasks[0].figures.p99_seconds = 1;
  const weft_top_view_t v = view_of(tasks, 2);
  CU_ASSERT_EQUAL(v.tasks[1].lag, WEFT_TOP_NO_LAG);
}

static void only_peers_are_compared(void) {
  weft_top_task_t tasks[] = {worker(1, 10), worker(9, 10), worker(9, 10), worker(9, 10), worker(1, 10)};
  tasks[1].job = WEFT_STR("ps");
  tasks[2].state = WEFT_TOP_SILENT;
  tasks[3].worker_sessions = 0;
  const weft_top_view_t v = view_of(tasks, 5);
  for (int i = 0; i < 5; i++) CU_ASSERT_EQUAL(v.tasks[i].lag, WEFT_TOP_NO_LAG);
}

/* The time for a view grows with the square of the tasks at most: the cube of so many would take hours. */
static void a_large_cluster_is_judged(void) {
  enum { MANY = 4000 };
  static weft_top_task_t tasks[MANY];
  for (int i = 0; i < MANY; i++) tasks[i] = worker(i == 77 ? 2 : 1 + 1e-5 * ((i * 7919) % MANY), 10);
  const weft_top_view_t v = view_of(tasks, MANY);
  for (int i = 0; i < MANY; i++) CU_ASSERT_EQUAL(v.tasks[i].lag, i == 77 ? WEFT_TOP_SLOW : WEFT_TOP_NO_LAG);
}

static void tasks_are_sorted(void) {
  weft_top_task_t tasks[] = {worker(1, 10), worker(3, 30), worker(2, 20), worker(0, 0)};
  tasks[3].has_figures = false;
  const weft_top_view_t v = view_of(tasks, 4);
  static const int wanted[WEFT_TOP_NUM_ORDERS][4] = {
      {0, 1, 2, 3}, {1, 2, 0, 3}, {1, 2, 0, 3}, {0, 1, 2, 3}, {0, 1, 2, 3}};
  for (int by = 0; by < WEFT_TOP_NUM_ORDERS; by++) {
    int order[4];
    weft_top_sort(&v, (weft_top_order_t)by, order);
    for (int i = 0; i < 4; i++) CU_ASSERT_EQUAL(order[i], wanted[by][i]);
  }
}

/* ---- as text ---- */

static void numbers_are_short(void) {
  static const struct {
    void (*print)(double, weft_strbuf_t *);
    double value;
    const char *text;
  } cases[] = {
      {weft_top_print_bytes, 0, "0 B"},
      {weft_top_print_bytes, 1023, "1023 B"},
      {weft_top_print_bytes, 1024, "1.0 KiB"},
      {weft_top_print_bytes, 1536, "1.5 KiB"},
      {weft_top_print_bytes, 204800, "200 KiB"},
      {weft_top_print_bytes, 1048100, "1.0 MiB"},
      {weft_top_print_bytes, 5e9, "4.7 GiB"},
      {weft_top_print_bytes, 1e18, "888 PiB"},
      {weft_top_print_seconds, -1, "-"},
      {weft_top_print_seconds, 0.000012, "12 us"},
      {weft_top_print_seconds, 0.00123, "1.23 ms"},
      {weft_top_print_seconds, 0.0999, "99.9 ms"},
      {weft_top_print_seconds, 0.5, "500 ms"},
      {weft_top_print_seconds, 0.99951, "1.00 s"},
      {weft_top_print_seconds, 75, "75.0 s"},
      {weft_top_print_age, -5, "0 s"},
      {weft_top_print_age, 59.4, "59 s"},
      {weft_top_print_age, 61, "1:01"},
      {weft_top_print_age, 3661, "1:01:01"},
      {weft_top_print_age, 90000, "1 d 1 h"},
      {weft_top_print_age, NAN, "0 s"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    weft_strbuf_t out = WEFT_STRBUF_INIT;
    cases[i].print(cases[i].value, &out);
    CU_ASSERT_STRING_EQUAL(out.data, cases[i].text);
    weft_strbuf_deinit(&out);
  }
}

static void places_are_short(void) {
  static const char *const cases[][2] = {{"/job:worker/replica:0/task:1", "worker:1"},
                                         {"/job:ps/replica:0/task:0/device:CPU:0", "ps:0 CPU:0"},
                                         {"/job:a/replica:0/task:2/device:GPU:3", "a:2 GPU:3"},
                                         {"anything else", "anything else"},
                                         {"", ""}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    weft_strbuf_t out = WEFT_STRBUF_INIT;
    weft_top_print_place(weft_str(cases[i][0]), &out);
    CU_ASSERT_STRING_EQUAL(out.data == NULL ? "" : out.data, cases[i][1]);
    weft_strbuf_deinit(&out);
  }
}

/* A view with a task in every state, traffic and nodes. */
static weft_top_view_t full_view(weft_top_task_t tasks[MOST], weft_top_traffic_t *traffic,
                                 weft_top_node_t *node) {
  for (int i = 0; i < 6; i++) tasks[i] = worker(i == 5 ? 4 : 1, 10);
  for (int i = 0; i <= WEFT_TOP_UNREACHABLE; i++) {
    tasks[i].state = (weft_top_state_t)i;
    tasks[i].why = i > WEFT_TOP_UP ? WEFT_STR("as told") : WEFT_STR("");
    tasks[i].has_figures = i == WEFT_TOP_UP;
    tasks[i].has_numbers = i != WEFT_TOP_UNREACHABLE && i != WEFT_TOP_ASKED;
    tasks[i].tags[0] = (weft_top_tag_t){WEFT_STR("param"), 1024, 4096};
    tasks[i].num_tags = 1;
  }
  tasks[1].losses = 2;
  *traffic = (weft_top_traffic_t){WEFT_STR("/job:ps/replica:0/task:0"),
                                  WEFT_STR("/job:worker/replica:0/task:0"),
                                  WEFT_STR("tensor"),
                                  {2048, 3}};
  *node = (weft_top_node_t){WEFT_STR("dense/MatMul"),
                            WEFT_STR("MatMul"),
                            WEFT_STR("/job:worker/replica:0/task:0/device:CPU:0"),
                            0.002,
                            0.25,
                            1};
  weft_top_view_t v = view_of(tasks, 6);
  v.traffic = traffic;
  v.nodes = node;
  v.num_traffic = v.num_nodes = 1;
  v.has_nodes = true;
  v.step_id = 77;
  v.step_seconds = 0.008;
  v.time = 1000;
  v.nodes_time = 990;
  return v;
}

static int line_with(const weft_top_table_t *t, const char *text) {
  for (int i = 0; i < t->n; i++) {
    if (strstr(t->lines[i].text.data, text) != NULL) return i;
  }
  fprintf(stderr, "no line with '%s'\n", text);
  return -1;
}

static void a_table_has_what_is_known(void) {
  weft_top_task_t tasks[MOST];
  weft_top_traffic_t traffic;
  weft_top_node_t node;
  const weft_top_view_t v = full_view(tasks, &traffic, &node);
  for (int with = 0; with < 8; with++) {
    const weft_top_table_options_t o = {
        .shows_memory = with & 1, .shows_traffic = (with & 2) != 0, .shows_nodes = (with & 4) != 0};
    weft_top_table_t t;
    weft_top_table_make(&v, &o, &t);
    CU_ASSERT_FALSE(t.has_failed);
    CU_ASSERT_EQUAL(line_with(&t, "6 tasks: 1 asked, 2 up, 1 silent, 1 lost, 1 unreachable   every 1 s"), 0);
    const int first = line_with(&t, "TASK ");
    CU_ASSERT_EQUAL_FATAL(first, 2);
    static const weft_top_style_t styles[] = {WEFT_TOP_PLAIN,   WEFT_TOP_PLAIN,   WEFT_TOP_TROUBLE,
                                              WEFT_TOP_TROUBLE, WEFT_TOP_TROUBLE, WEFT_TOP_WARNING};
    for (int i = 0; i < 6; i++) {
      const char *line = t.lines[first + 1 + i].text.data;
      CU_ASSERT_EQUAL(t.lines[first + 1 + i].style, styles[i]);
      CU_ASSERT_PTR_NOT_NULL(strstr(line, weft_top_state_name(v.tasks[i].state)));
      CU_ASSERT_EQUAL(strstr(line, "10.0") != NULL, v.tasks[i].has_figures);
      CU_ASSERT_EQUAL(strstr(line, "as told") != NULL, i >= WEFT_TOP_SILENT && i <= WEFT_TOP_UNREACHABLE);
    }
    CU_ASSERT_PTR_NOT_NULL(strstr(t.lines[first + 2].text.data, "lost 2 times"));
    CU_ASSERT_PTR_NOT_NULL(strstr(t.lines[first + 6].text.data, "slow: 4.0 times the median time"));
    CU_ASSERT_EQUAL(o.shows_memory, line_with(&t, "1.0 KiB of 4.0 KiB") >= 0);
    CU_ASSERT_EQUAL(o.shows_traffic, line_with(&t, "ps:0  worker:0  tensor  2.0 KiB") >= 0);
    CU_ASSERT_EQUAL(o.shows_nodes, line_with(&t, "step 77, which took 8.00 ms and ended 10 s ago") >= 0);
    CU_ASSERT_EQUAL(o.shows_nodes,
                    line_with(&t, "2.00 ms   25 %     1  worker:0 CPU:0  MatMul  dense/MatMul") >= 0);
    weft_top_table_deinit(&t);
  }
}

static void a_view_of_nothing_is_a_table(void) {
  const weft_top_view_t v = {.arena = WEFT_ARENA_INIT, .every = 2.5};
  const weft_top_table_options_t o = {.shows_memory = true, .shows_traffic = true, .shows_nodes = true};
  weft_top_table_t t;
  weft_top_table_make(&v, &o, &t);
  CU_ASSERT_TRUE(!t.has_failed && line_with(&t, "0 tasks   every 2.5 s") == 0 &&
                 line_with(&t, "no step yet") > 0);
  weft_top_table_deinit(&t);
}

/* ---- as JSON ---- */

static void json_has_null_for_what_is_not_known(void) {
  weft_top_task_t tasks[MOST];
  weft_top_traffic_t traffic;
  weft_top_node_t node;
  const weft_top_view_t v = full_view(tasks, &traffic, &node);
  json_t *o = weft_top_view_json(&v, true);
  CU_ASSERT_PTR_NOT_NULL_FATAL(o);
  CU_ASSERT_EQUAL(json_array_size(json_object_get(o, "tasks")), 6);
  for (size_t i = 0; i < 6; i++) {
    const json_t *t = json_array_get(json_object_get(o, "tasks"), i);
    const bool is_known = tasks[i].has_numbers, has_figures = tasks[i].has_figures;
    CU_ASSERT_STRING_EQUAL(json_string_value(json_object_get(t, "state")),
                           weft_top_state_name(tasks[i].state));
    CU_ASSERT_EQUAL(json_object_get(t, "steps_per_second") != NULL, is_known);
    CU_ASSERT_EQUAL(json_is_real(json_object_get(t, "steps_per_second")), has_figures);
    CU_ASSERT_EQUAL(json_is_object(json_object_get(t, "straggler")), i == 5);
  }
  CU_ASSERT_EQUAL(json_array_size(json_object_get(o, "traffic")), 1);
  CU_ASSERT_EQUAL(json_integer_value(json_object_get(json_object_get(o, "slowest_nodes"), "step")), 77);
  json_decref(o);
  o = weft_top_view_json(&v, false);
  CU_ASSERT_PTR_NULL(json_object_get(o, "slowest_nodes"));
  json_decref(o);
}

int main(void) {
  static const CU_TestInfo tests[] = {
      {"stragglers are off the median", stragglers_are_off_the_median},
      {"a task with parts of other steps makes no straggler",
       a_task_with_parts_of_other_steps_makes_no_straggler},
      {"only peers are compared", only_peers_are_compared},
      {"a large cluster is judged", a_large_cluster_is_judged},
      {"tasks are sorted", tasks_are_sorted},
      {"numbers are short", numbers_are_short},
      {"places are short", places_are_short},
      {"a table has what is known", a_table_has_what_is_known},
      {"a view of nothing is a table", a_view_of_nothing_is_a_table},
      {"JSON has null for what is not known", json_has_null_for_what_is_not_known},
      CU_TEST_INFO_NULL,
  };
  return weft_run_tests("views of clusters", tests);
}
