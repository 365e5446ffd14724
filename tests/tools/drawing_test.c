/* tests/tools/drawing_test.c - drawings stay small: repeated scopes are one box, large ones are opened, the
 * rest is "others". */
#include "tools/drawing.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/runner.h"

typedef struct model {
  int layers, places, singles; /* singles: nodes outside of any scope, with names that do not repeat */
} model_t;

static weft_status_t *add(weft_drawing_t *d, int place, int num_places, const char *name, bool is_variable,
                          int *out) {
  char where[64] = "", whole[128];
  if (num_places > 0) snprintf(where, sizeof where, "/job:worker/replica:0/task:%d", place);
  snprintf(whole, sizeof whole, "%s%s", place > 0 ? "replica_1/" : "", name);
  return weft_drawing_node(d, weft_str(whole), weft_str(where), is_variable, is_variable ? 1000 : 0, out);
}

/* Layers of attention and feed_forward one after the other, in each place; each place sends 10 bytes to the
 * next. */
static weft_status_t *build(const model_t *m, weft_drawing_t *d) {
  static const char *const parts[] = {"attention/query/kernel", "attention/query/MatMul", "attention/Softmax",
                                      "feed_forward/kernel", "feed_forward/MatMul"};
  int first[64] = {0};
  for (int p = 0; p < (m->places > 0 ? m->places : 1); p++) {
    int before = -1, number;
    char name[96];
    for (int l = 0; l < m->layers; l++) {
      for (int k = 0; k < 5; k++) {
        snprintf(name, sizeof name, "layer_%d/%s", l, parts[k]);
        WEFT_RETURN_IF_ERROR(add(d, p, m->places, name, k % 3 == 0, &number));
        if (before >= 0) WEFT_RETURN_IF_ERROR(weft_drawing_edge(d, before, number, WEFT_DRAWN_DATA, NULL));
        before = number;
      }
    }
    for (int i = 0; i < m->singles; i++) {
      snprintf(name, sizeof name, "single%c%c", 'a' + i / 26 % 26, 'a' + i % 26);
      WEFT_RETURN_IF_ERROR(add(d, p, m->places, name, false, &number));
    }
    WEFT_RETURN_IF_ERROR(add(d, p, m->places, "loss", false, &first[p]));
    WEFT_RETURN_IF_ERROR(
        weft_drawing_edge(d, before < 0 ? first[p] : before, first[p], WEFT_DRAWN_DATA, NULL));
  }
  const weft_flow_t ten = {.bytes = 10, .messages = 1};
  for (int p = 0; p + 1 < m->places; p++)
    WEFT_RETURN_IF_ERROR(weft_drawing_edge(d, first[p], first[p + 1], WEFT_DRAWN_CROSSING, &ten));
  return NULL;
}

static weft_status_t *draw(const model_t *m, const char *scope, weft_strbuf_t *out) {
  weft_drawing_t *d = NULL;
  weft_status_t *s = weft_drawing_create(&d);
  if (s == NULL) s = build(m, d);
  if (s == NULL) s = weft_drawing_print(d, scope, out);
  if (s == NULL) weft_strbuf_putc(out, '\0');
  weft_drawing_destroy(d);
  return s == NULL && out->failed ? WEFT_NO_MEMORY("text") : s;
}

static int boxes(const char *text) {
  int n = 0;
  for (const char *at = text; (at = strstr(at, "\nb")) != NULL; at++) {
    int number, end = 0;
    n += sscanf(at, "\nb%d [label=%n", &number, &end) == 1 && end > 0;
  }
  return n;
}

static bool has(const weft_strbuf_t *text, const char *part) {
  bool yes = strstr(text->data, part) != NULL;
  if (!yes) printf("\n    no '%s' in %s", part, text->data);
  return yes;
}

static void repeated_scopes_are_one(void) {
  const model_t transformer = {12, 0, 0};
  weft_strbuf_t text = WEFT_STRBUF_INIT;
  CU_ASSERT_PTR_NULL_FATAL(draw(&transformer, NULL, &text));
  CU_ASSERT_TRUE(has(&text,
                     "layer_0 \xe2\x80\xa6 layer_11  \xc3\x97"
                     "12"));
  CU_ASSERT_TRUE(has(&text, "attention") &&
                 has(&text, "feed_forward")); /* it holds nearly all, so it is open */
  CU_ASSERT_PTR_NULL(strstr(text.data, "layer_3"));
  CU_ASSERT_TRUE(boxes(text.data) <= 8);
  weft_strbuf_deinit(&text);
}

static void two_are_not_yet_a_row(void) {
  const model_t pair = {2, 0, 0};
  weft_strbuf_t text = WEFT_STRBUF_INIT;
  CU_ASSERT_PTR_NULL_FATAL(draw(&pair, NULL, &text));
  CU_ASSERT_TRUE(has(&text, "layer_0\"") && has(&text, "layer_1\""));
  weft_strbuf_deinit(&text);
}

static void no_graph_is_too_large(void) {
  static const model_t models[] = {{0, 0, 1},    {1, 0, 30}, {12, 0, 500}, {200, 2, 60},
                                   {24, 16, 40}, {3, 60, 3}, {100, 3, 600}};
  for (size_t i = 0; i < sizeof models / sizeof models[0]; i++) {
    weft_strbuf_t text = WEFT_STRBUF_INIT;
    CU_ASSERT_PTR_NULL_FATAL(draw(&models[i], NULL, &text));
    int n = boxes(text.data);
    if (n < 1 || n > WEFT_DRAWING_BOXES) printf("\n    case %zu: %d boxes", i, n);
    CU_ASSERT_TRUE(n >= 1 && n <= WEFT_DRAWING_BOXES);
    weft_strbuf_deinit(&text);
  }
}

static void the_inside_of_a_scope_is_drawn_on_request(void) {
  const model_t transformer = {12, 0, 20};
  weft_strbuf_t text = WEFT_STRBUF_INIT;
  CU_ASSERT_PTR_NULL_FATAL(draw(&transformer, "layer_3/attention/", &text));
  CU_ASSERT_TRUE(has(&text, "query") && has(&text, "Softmax"));
  CU_ASSERT_TRUE(has(&text, "feed_forward")); /* a neighbour */
  CU_ASSERT_PTR_NULL(strstr(text.data, "single"));
  weft_strbuf_deinit(&text);
  weft_status_t *s = draw(&transformer, "layer_12", &text);
  CU_ASSERT_EQUAL(weft_status_code(s), WEFT_NOT_FOUND);
  weft_status_free(s);
  weft_strbuf_deinit(&text);
}

/* What goes between places is summed up for each two, also where places are drawn as one. */
static void what_crosses_is_drawn_between_places(void) {
  const model_t pair = {3, 2, 0}, many = {3, 9, 0};
  weft_strbuf_t text = WEFT_STRBUF_INIT;
  CU_ASSERT_PTR_NULL_FATAL(draw(&pair, NULL, &text));
  CU_ASSERT_TRUE(has(&text, "worker:0") && has(&text, "worker:1") && has(&text, "label=\"10 B\""));
  weft_strbuf_deinit(&text);
  text = (weft_strbuf_t)WEFT_STRBUF_INIT;
  CU_ASSERT_PTR_NULL_FATAL(draw(&many, NULL, &text));
  CU_ASSERT_TRUE(has(&text,
                     "worker:1 to worker:8  \xc3\x97"
                     "8") &&
                 has(&text, "between them 70 B") && has(&text, "label=\"10 B\""));
  weft_strbuf_deinit(&text);
}

static weft_status_t *draw_and_forget(void) {
  const model_t m = {4, 3, 30};
  weft_strbuf_t text = WEFT_STRBUF_INIT;
  weft_status_t *s = draw(&m, NULL, &text);
  weft_strbuf_deinit(&text);
  return s;
}

/* Names of 100,000 scopes took memory with the square of that, and a stack as deep. */
static void scopes_may_be_very_deep(void) {
  enum { DEPTH = 100000 };
  char *name = malloc(2 * DEPTH + 32);
  weft_drawing_t *d = NULL;
  CU_ASSERT_PTR_NOT_NULL_FATAL(name);
  weft_status_t *s = weft_drawing_create(&d);
  for (int i = 0; i < 5 && s == NULL; i++) { /* alike, so that they are united */
    int n = snprintf(name, 32, "layer_%d/", i), number;
    for (int k = 0; k < DEPTH; k++, n += 2) memcpy(name + n, "a/", 3);
    memcpy(name + n, "x", 2);
    s = weft_drawing_node(d, weft_str(name), weft_str(""), false, 0, &number);
  }
  weft_strbuf_t out = WEFT_STRBUF_INIT;
  if (s == NULL) s = weft_drawing_print(d, "layer_0", &out);
  CU_ASSERT_PTR_NULL(s);
  weft_status_free(s);
  weft_drawing_destroy(d);
  weft_strbuf_deinit(&out);
  free(name);
}

static void running_out_of_memory_is_reported(void) {
  long n;
  WEFT_FAIL_EACH_ALLOCATION(n, s, draw_and_forget());
  CU_ASSERT_TRUE(n > 10);
}

int main(void) {
  static const CU_TestInfo tests[] = {
      {"repeated scopes are one", repeated_scopes_are_one},
      {"two are not yet a row", two_are_not_yet_a_row},
      {"no graph is too large", no_graph_is_too_large},
      {"the inside of a scope is drawn on request", the_inside_of_a_scope_is_drawn_on_request},
      {"what crosses is drawn between places", what_crosses_is_drawn_between_places},
      {"scopes may be very deep", scopes_may_be_very_deep},
      {"running out of memory is reported", running_out_of_memory_is_reported},
      CU_TEST_INFO_NULL,
  };
  return weft_run_tests("tools/drawing", tests);
}
