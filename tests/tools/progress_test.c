/* tests/tools/progress_test.c - the progress of a job in one line, for terminals of every width. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tests/runner.h"
#include "tools/submit/progress_line.h"

enum { WIDEST = 300 };

/* Columns: bytes that begin a letter. */
static int width(const char *text) {
  int n = 0;
  for (; *text != '\0'; text++) n += ((unsigned char)*text & 0xc0) != 0x80;
  return n;
}

static bool is_ascii(const char *text) {
  for (; *text != '\0'; text++) {
    if ((unsigned char)*text < ' ' || (unsigned char)*text > '~') return false;
  }
  return true;
}

static bool has(const char *text, const char *part) {
  const bool yes = strstr(text, part) != NULL;
  if (!yes) fprintf(stderr, "no '%s' in: %s\n", part, text);
  return yes;
}

static const char *line_of(const weft_progress_figures_t *f, int columns, bool is_utf8) {
  static char kept[8 * WIDEST];
  weft_strbuf_t out = WEFT_STRBUF_INIT;
  weft_progress_line(f, columns, is_utf8, &out);
  snprintf(kept, sizeof kept, "%s", out.data == NULL || out.length == 0 ? "" : out.data);
  weft_strbuf_deinit(&out);
  return kept;
}

static weft_sparkline_t columns_of(const double *values, int n) {
  weft_sparkline_t s = {.n = 0};
  for (int i = 0; i < n; i++) {
    weft_sparkline_add(&s, values[i]);
    weft_sparkline_close(&s);
  }
  return s;
}

static const double falling[] = {8, 7, 6, 5, 4, 3, 2, 1, 1, 1, 1, 1};

static weft_progress_figures_t all_parts(const weft_sparkline_t *sparkline) {
  return (weft_progress_figures_t){.done = 120,
                                   .steps = 500,
                                   .seconds = 60,
                                   .loss = "loss 0.123",
                                   .sparkline = sparkline,
                                   .examples_per_second = 256,
                                   .slowest = "worker 1",
                                   .lag = 5,
                                   .saved_step = 100,
                                   .saved_ago = 35,
                                   .others = "accuracy 0.9"};
}

static void a_wide_line_has_all_parts(void) {
  const weft_sparkline_t s = columns_of(falling, 12);
  const weft_progress_figures_t f = all_parts(&s);
  CU_ASSERT_STRING_EQUAL(
      line_of(&f, 200, true),
      "[#######.......................] 120/500  loss 0.123 █▇▆▅▄▃▂▁▁▁▁▁  2.0 steps/s  "
      "256 examples/s  3:10 left  worker 1 is 5 behind  saved 100, 35 s ago  accuracy 0.9");
  CU_ASSERT_STRING_EQUAL(
      line_of(&f, 200, false),
      "[#######.......................] 120/500  loss 0.123 @#*+=-:.....  2.0 steps/s  "
      "256 examples/s  3:10 left  worker 1 is 5 behind  saved 100, 35 s ago  accuracy 0.9");
}

/* What a narrower line lacks a wider one may have, never the other way round: parts go in the order that the
 * header says. */
static void parts_go_in_order(void) {
  static const char *const parts[] = {"accuracy", "saved", "examples/s", "behind",
                                      "@#",       "[",     "steps/s",    "left"};
  const int n = (int)(sizeof parts / sizeof parts[0]);
  const weft_sparkline_t s = columns_of(falling, 12);
  const weft_progress_figures_t f = all_parts(&s);
  int most_gone = n;
  for (int columns = 1; columns <= WIDEST; columns++) {
    const char *line = line_of(&f, columns, false);
    int gone = 0;
    /* A short sparkline begins with a letter of a lower value. */
    while (gone < n && strstr(line, gone == 4 ? "..." : parts[gone]) == NULL) gone++;
    for (int i = gone; i < n; i++) CU_ASSERT_TRUE(has(line, i == 4 ? "..." : parts[i]));
    CU_ASSERT_TRUE(gone <= most_gone);
    most_gone = gone;
  }
  CU_ASSERT_EQUAL(most_gone, 0);
}

static void no_line_is_wider_than_the_terminal(void) {
  const double odd[] = {1, NAN, 2, INFINITY, -INFINITY, 1e308, -1e308, 0, 3, 3, 3, 3};
  const weft_sparkline_t sparks[] = {columns_of(falling, 0), columns_of(falling, 1), columns_of(falling, 12),
                                     columns_of(odd, 12)};
  for (size_t k = 0; k < sizeof sparks / sizeof sparks[0]; k++) {
    for (int columns = 1; columns <= WIDEST; columns++) {
      weft_progress_figures_t f = all_parts(&sparks[k]);
      CU_ASSERT_TRUE(width(line_of(&f, columns, true)) < columns);
      CU_ASSERT_TRUE(width(line_of(&f, columns, false)) < columns && is_ascii(line_of(&f, columns, false)));
      f.steps = WEFT_PROGRESS_UNBOUNDED;
      CU_ASSERT_TRUE(width(line_of(&f, columns, true)) < columns);
      f.loss = f.slowest = f.others = NULL;
      f.saved_step = -1;
      f.examples_per_second = 0;
      CU_ASSERT_TRUE(width(line_of(&f, columns, true)) < columns);
      f = (weft_progress_figures_t){.saved_step = -1}; /* of a job without steps */
      CU_ASSERT_TRUE(width(line_of(&f, columns, true)) < columns);
    }
  }
}

static void the_count_and_the_loss_are_cut_last(void) {
  const weft_sparkline_t s = columns_of(falling, 12);
  const weft_progress_figures_t f = all_parts(&s);
  CU_ASSERT_STRING_EQUAL(line_of(&f, 20, true), "120/500  loss 0.123");
  CU_ASSERT_STRING_EQUAL(line_of(&f, 19, true), "120/500  loss 0.12");
  CU_ASSERT_STRING_EQUAL(line_of(&f, 4, true), "120");
  CU_ASSERT_STRING_EQUAL(line_of(&f, 1, true), "");
}

static void what_is_not_known_is_not_shown(void) {
  weft_progress_figures_t f = {.done = 3, .steps = 10, .seconds = 3, .saved_step = -1};
  CU_ASSERT_STRING_EQUAL(line_of(&f, 100, true),
                         "[#########.....................] 3/10  1.0 steps/s  7 s left");
  f.steps = WEFT_PROGRESS_UNBOUNDED;
  CU_ASSERT_STRING_EQUAL(line_of(&f, 100, true), "3  1.0 steps/s");
  f = (weft_progress_figures_t){.done = 0, .steps = 10, .saved_step = -1};
  CU_ASSERT_STRING_EQUAL(line_of(&f, 60, true), "[..............................] 0/10  0.0 steps/s");
  f = (weft_progress_figures_t){
      .first = 5, .done = 5, .steps = 5, .seconds = 1, .saved_step = 0, .slowest = "worker 0", .lag = 0};
  CU_ASSERT_STRING_EQUAL(line_of(&f, 100, true),
                         "[##############################] 5/5  0.0 steps/s  saved 0, 0 s ago");
}

static void names_of_other_letters_take_a_column_each(void) {
  const weft_progress_figures_t f = {.done = 1,
                                     .steps = WEFT_PROGRESS_UNBOUNDED,
                                     .saved_step = -1,
                                     .loss = "損失/loss 0.5",
                                     .others = "\x1b[31mred\x7f 1"};
  CU_ASSERT_STRING_EQUAL(line_of(&f, 100, true), "1  ?\?/loss 0.5  0.0 steps/s  ?[31mred? 1");
}

static void a_sparkline_is_between_its_lowest_and_highest(void) {
  const struct {
    double values[8];
    int n, width;
    const char *utf8, *ascii;
  } cases[] = {
      {{1, 2, 3, 4, 5, 6, 7, 8}, 8, 60, "▁▂▃▄▅▆▇█", ".:-=+*#@"},
      {{1, 2, 3, 4, 5, 6, 7, 8}, 8, 2, "▁█", ".@"},
      {{-8, -4, 0}, 3, 60, "▁▅█", ".+@"},
      {{5, 5, 5}, 3, 60, "▄▄▄", "==="},
      {{5}, 1, 60, "▄", "="},
      {{1, NAN, 8}, 3, 60, "▁N█", ".N@"},
      {{1, INFINITY, -INFINITY, 8}, 4, 60, "▁∞∞█", ".II@"},
      {{NAN, NAN}, 2, 60, "NN", "NN"},
      {{-1e308, 1e308}, 2, 60, "▁█", ".@"},
      {{0, 5e-324}, 2, 60, "▄▄", "=="}, /* their difference has no half */
      {{1}, 0, 60, "", ""},
      {{1, 2}, 2, 0, "", ""},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    const weft_sparkline_t s = columns_of(cases[i].values, cases[i].n);
    for (int is_utf8 = 0; is_utf8 < 2; is_utf8++) {
      weft_strbuf_t out = WEFT_STRBUF_INIT;
      weft_sparkline_print(&s, cases[i].width, is_utf8 != 0, &out);
      CU_ASSERT_STRING_EQUAL(out.data == NULL ? "" : out.data, is_utf8 != 0 ? cases[i].utf8 : cases[i].ascii);
      weft_strbuf_deinit(&out);
    }
  }
}

static void a_column_is_the_mean_of_its_values(void) {
  weft_sparkline_t s = {.n = 0};
  const double big = 1e308;
  weft_sparkline_close(&s); /* there is nothing to close */
  CU_ASSERT_EQUAL(s.n, 0);
  weft_sparkline_add(&s, 1);
  weft_sparkline_add(&s, 3);
  weft_sparkline_close(&s);
  CU_ASSERT_EQUAL(s.means[0], 2);
  for (int i = 0; i < 1000; i++) weft_sparkline_add(&s, big);
  weft_sparkline_close(&s);
  CU_ASSERT_EQUAL(s.means[1], big);
  for (int i = 0; i < 3 * WEFT_SPARKLINE_COLUMNS; i++) {
    weft_sparkline_add(&s, i);
    weft_sparkline_close(&s);
  }
  CU_ASSERT_EQUAL(s.n, WEFT_SPARKLINE_COLUMNS);
  weft_strbuf_t out = WEFT_STRBUF_INIT;
  weft_sparkline_print(&s, WEFT_SPARKLINE_COLUMNS, false, &out);
  CU_ASSERT_EQUAL(out.length, WEFT_SPARKLINE_COLUMNS);
  CU_ASSERT_EQUAL(out.data[0], '.'); /* the oldest of those that are kept is the lowest */
  CU_ASSERT_EQUAL(out.data[WEFT_SPARKLINE_COLUMNS - 1], '@');
  weft_strbuf_deinit(&out);
}

static void times_are_short(void) {
  static const struct {
    double seconds;
    const char *text;
  } cases[] = {{0, "0 s"},      {0.4, "0 s"},      {59.4, "59 s"},      {59.5, "1:00"},
               {3599, "59:59"}, {3600, "1:00:00"}, {90061, "25:01:01"}, {1e300, "277777:46:40"}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    weft_strbuf_t out = WEFT_STRBUF_INIT;
    weft_progress_print_time(cases[i].seconds, &out);
    CU_ASSERT_STRING_EQUAL(out.data, cases[i].text);
    weft_strbuf_deinit(&out);
  }
}

int main(void) {
  static const CU_TestInfo tests[] = {
      {"a wide line has all parts", a_wide_line_has_all_parts},
      {"parts go in order", parts_go_in_order},
      {"no line is wider than the terminal", no_line_is_wider_than_the_terminal},
      {"the count and the loss are cut last", the_count_and_the_loss_are_cut_last},
      {"what is not known is not shown", what_is_not_known_is_not_shown},
      {"names of other letters take a column each", names_of_other_letters_take_a_column_each},
      {"a sparkline is between its lowest and highest", a_sparkline_is_between_its_lowest_and_highest},
      {"a column is the mean of its values", a_column_is_the_mean_of_its_values},
      {"times are short", times_are_short},
      CU_TEST_INFO_NULL,
  };
  return weft_run_tests("progress", tests);
}
