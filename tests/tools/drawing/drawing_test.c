/* tests/tools/drawing/drawing_test.c - pictures of a family of models, level by level: every node is in
 * exactly one box, figures add up to the summary's, nothing overlaps, and all fits a page. */
#include "tools/drawing/drawing.h"

#include <math.h>
#include <stdio.h>

#include "tests/runner.h"
#include "tests/tools/drawing/models.h"
#include "tools/drawing/layout.h"
#include "tools/drawing/text.h"

static const drawn_model_t models[] = {
    {.layers = 1, .parts = 1},
    {.layers = 3, .parts = 1, .trains = true},
    {.layers = 3, .parts = 2, .trains = true, .is_uneven = true},
    {.layers = 12, .parts = 3, .trains = true},
    {.layers = 12, .parts = 3, .trains = true, .is_uneven = true},
    {.layers = 100, .parts = 2, .trains = true, .prefix = "model/net/"},
    {.layers = 6, .parts = 2, .tasks = 2, .trains = true},
    {.layers = 9, .parts = 2, .tasks = 3, .trains = true, .is_uneven = true},
    {.layers = 16, .parts = 2, .tasks = 4, .trains = true},
    {.layers = 64, .parts = 1, .tasks = 64, .trains = true},
    {.layers = 0, .parts = 0, .flat = 1},
    {.layers = 2, .parts = 1, .flat = 600, .trains = true},
    {.layers = 20, .parts = 20, .trains = true, .is_uneven = true},
    {.layers = 4, .parts = 1, .tasks = 4, .flat = 100, .prefix = "a/b/c/d/e/f/g/"},
};
enum { NUM_MODELS = sizeof models / sizeof models[0] };

static bool works(weft_status_t *s) {
  if (s == NULL) return true;
  printf("\n    %s", weft_status_message(s));
  weft_status_free(s);
  return false;
}

/* ---- properties of a level ---- */

static bool contains(int x, int y, int width, int height, const weft_level_box_t *b) {
  return b->x >= x && b->y >= y && b->x + b->width <= x + width && b->y + b->height <= y + height;
}

static bool overlap(const weft_level_box_t *a, const weft_level_box_t *b) {
  return a->x < b->x + b->width && b->x < a->x + a->width && a->y < b->y + b->height &&
         b->y < a->y + a->height;
}

static void boxes_stand_apart(const weft_level_t *l) {
  CU_ASSERT_TRUE(l->width <= WEFT_PAGE_WIDTH && l->height <= WEFT_PAGE_HEIGHT);
  for (int i = 0; i < l->num_boxes; i++) {
    const weft_level_box_t *b = &l->boxes[i];
    const weft_level_frame_t *f = &l->frames[b->frame];
    CU_ASSERT_TRUE(contains(f->x, f->y, f->width, f->height, b));
    CU_ASSERT_TRUE(contains(0, WEFT_HEADER, l->width, l->height - WEFT_HEADER, b));
    CU_ASSERT_TRUE(weft_text_width(b->title, WEFT_TEXT + 1, true) <= b->width);
    CU_ASSERT_TRUE(weft_text_width(b->left, WEFT_TEXT, false) + weft_text_width(b->right, WEFT_TEXT, false) <=
                   b->width);
    for (int k = 0; k < i; k++) CU_ASSERT_FALSE(overlap(b, &l->boxes[k]));
  }
  for (int i = 1; i < l->num_frames; i++)
    CU_ASSERT_TRUE(l->frames[i].x >= l->frames[i - 1].x + l->frames[i - 1].width);
}

static void arrows_join_boxes(const weft_level_t *l) {
  for (int i = 0; i < l->num_arrows; i++) {
    const weft_level_arrow_t *a = &l->arrows[i];
    CU_ASSERT_TRUE(a->from != a->to && l->boxes[a->from].frame == l->boxes[a->to].frame);
    for (int k = 0; k < i; k++) CU_ASSERT_FALSE(l->arrows[k].from == a->from && l->arrows[k].to == a->to);
    for (int k = 0; k < 2 * a->num_points; k += 2) {
      CU_ASSERT_TRUE(a->points[k] >= 0 && a->points[k] <= l->width);
      CU_ASSERT_TRUE(a->points[k + 1] >= 0 && a->points[k + 1] <= l->height);
    }
  }
}

/* Each node below the level's scope is in exactly one box: the boxes' counts add up to the scope's. */
static void nodes_are_in_one_box(const weft_level_t *l, int num_nodes, int64_t variable_bytes) {
  int nodes = 0, first_at = 0;
  int64_t bytes = 0;
  for (int i = 0; i < l->num_boxes; i++) {
    int by_role = 0;
    for (int r = 0; r < WEFT_DRAWN_ROLES; r++) by_role += l->boxes[i].by_role[r];
    CU_ASSERT_EQUAL(by_role, l->boxes[i].num_nodes);
    CU_ASSERT_TRUE(by_role > 0);
    nodes += by_role;
    if (l->boxes[i].role == WEFT_DRAWN_ROLES) bytes += l->boxes[i].variable_bytes;
  }
  for (int f = 0; f < l->num_frames; f++) {
    CU_ASSERT_EQUAL(l->frames[f].first, first_at);
    first_at += l->frames[f].num_boxes;
  }
  CU_ASSERT_EQUAL(first_at, l->num_boxes);
  CU_ASSERT_EQUAL(nodes, num_nodes);
  if (l->scope == NULL) CU_ASSERT_EQUAL(bytes, variable_bytes);
}

/* The level and all below it; how many. */
static int look_below(weft_tree_t *t, weft_tree_scope_t *s, int depth) {
  weft_level_t l;
  int n = 1;
  weft_status_t *status = weft_level_of_scope(t, s, &l);
  if (status == NULL) status = weft_level_lay_out(&l, t->step);
  CU_ASSERT_PTR_NULL_FATAL(status);
  CU_ASSERT_TRUE(s->parent == NULL || s->num_children <= WEFT_TREE_CHILDREN);
  boxes_stand_apart(&l);
  arrows_join_boxes(&l);
  nodes_are_in_one_box(&l, s->num_nodes, s->variable_bytes);
  weft_level_deinit(&l);
  for (int i = 0; i < s->num_children; i++) {
    if (s->children[i]->leaf < 0) n += look_below(t, s->children[i], depth + 1);
  }
  return n;
}

static void flows_are_the_summarys(const weft_level_t *l, const weft_rewrite_t *r) {
  weft_arena_t arena = WEFT_ARENA_INIT;
  weft_summary_t sum;
  weft_flow_t all = {0};
  CU_ASSERT_TRUE_FATAL(works(weft_rewrite_summarize(r, &arena, &sum)));
  for (int i = 0; i < l->num_links + l->num_frames; i++) {
    const weft_flow_t *f = i < l->num_links ? &l->links[i].flow : &l->frames[i - l->num_links].among;
    all.bytes += f->bytes;
    all.row_bytes += f->row_bytes;
    all.messages += f->messages;
    all.num_unknown += f->num_unknown;
  }
  CU_ASSERT_EQUAL(all.bytes, sum.all.bytes);
  CU_ASSERT_EQUAL(all.messages, sum.all.messages);
  CU_ASSERT_EQUAL(all.num_unknown, sum.all.num_unknown);
  CU_ASSERT_TRUE(fabs(all.row_bytes - sum.all.row_bytes) < 1e-6);
  for (int i = 0; i < l->num_links;
       i++) { /* its latency once, and its bytes; a frame of several places has none */
    const weft_level_link_t *a = &l->links[i];
    const double seconds = r->cost.link_seconds + (double)a->flow.bytes / r->cost.link_bytes_per_second;
    CU_ASSERT_TRUE(a->seconds == 0 || fabs(a->seconds - seconds) < 1e-9);
    CU_ASSERT_TRUE(a->seconds > 0 || l->num_frames < sum.num_places);
  }
  for (int i = 0; i < l->num_links; i++) { /* one a direction */
    for (int k = 0; k < i; k++)
      CU_ASSERT_FALSE(l->links[k].from == l->links[i].from && l->links[k].to == l->links[i].to);
  }
  weft_arena_deinit(&arena);
}

/* All of a rewrite, which is destroyed. */
static void every_level_holds(weft_rewrite_t *r) {
  weft_step_nodes_t step;
  weft_tree_t tree;
  weft_level_t l;
  CU_ASSERT_TRUE_FATAL(works(weft_step_nodes_find(r, false, &step)));
  CU_ASSERT_TRUE_FATAL(works(weft_tree_build(&step, true, &tree)));
  CU_ASSERT_TRUE_FATAL(works(weft_level_of_step(&tree, r, &l)));
  CU_ASSERT_TRUE_FATAL(works(weft_level_lay_out(&l, &step)));
  int64_t bytes = 0;
  int nodes = 0, levels = 0;
  for (int p = 0; p < tree.num_roots; p++) {
    bytes += tree.roots[p]->variable_bytes;
    nodes += tree.roots[p]->num_nodes;
  }
  CU_ASSERT_EQUAL(nodes, step.num_nodes);
  boxes_stand_apart(&l);
  arrows_join_boxes(&l);
  nodes_are_in_one_box(&l, step.num_nodes, bytes);
  flows_are_the_summarys(&l, r);
  weft_level_deinit(&l);
  for (int p = 0; p < tree.num_roots; p++) levels += look_below(&tree, tree.roots[p], 0);
  CU_ASSERT_TRUE(levels >= tree.num_roots);
  weft_tree_deinit(&tree);
  weft_step_nodes_deinit(&step);
  weft_rewrite_deinit(r);
}

static void every_level_of_every_model_holds(void) {
  for (int i = 0; i < NUM_MODELS; i++) {
    weft_rewrite_t r;
    CU_ASSERT_TRUE_FATAL(works(drawn_model_build(&models[i], &r)));
    every_level_holds(&r);
  }
}

static void every_level_of_random_graphs_holds(void) {
  for (unsigned seed = 1; seed <= 60; seed++) {
    weft_rewrite_t r;
    CU_ASSERT_TRUE_FATAL(works(drawn_random_build(seed, (int)(seed * seed) % 900 + 1, &r)));
    every_level_holds(&r);
  }
}

/* Work with the square of a name's length would not end. */
static void scopes_may_be_very_deep(void) {
  weft_rewrite_t r;
  CU_ASSERT_TRUE_FATAL(works(drawn_deep_build(100000, &r)));
  every_level_holds(&r);
}

/* ---- what a picture says ---- */

typedef enum form { SVG, DOT, HTML } form_t;

static weft_status_t *draw(const drawn_model_t *m, form_t form, const char *scope, bool takes_all,
                           weft_strbuf_t *out) {
  weft_rewrite_t r;
  weft_drawing_t *d = NULL;
  weft_status_t *s = drawn_model_build(m, &r);
  if (s == NULL) s = weft_drawing_create(&r, "model.pb", takes_all, &d);
  if (s == NULL && form == SVG) s = weft_drawing_svg(d, scope, out);
  if (s == NULL && form == DOT) s = weft_drawing_dot(d, scope, out);
  if (s == NULL && form == HTML) s = weft_drawing_html(d, out);
  weft_drawing_destroy(d);
  weft_rewrite_deinit(&r);
  return s;
}

static bool shows(const drawn_model_t *m, form_t form, const char *scope, const char *part) {
  weft_strbuf_t out = WEFT_STRBUF_INIT;
  CU_ASSERT_TRUE_FATAL(works(draw(m, form, scope, false, &out)));
  const bool yes = strstr(out.data, part) != NULL;
  weft_strbuf_deinit(&out);
  return yes;
}

/* Where a text stands in a picture's order of boxes. */
static long place_of(const char *svg, const char *title) {
  char text[128];
  snprintf(text, sizeof text, "class=\"t\">%s</text>", title);
  const char *at = strstr(svg, text);
  return at == NULL ? -1 : at - svg;
}

static void layers_stand_in_reading_order(void) {
  const drawn_model_t m = {.layers = 4, .parts = 2, .trains = true, .prefix = "net/"};
  weft_strbuf_t out = WEFT_STRBUF_INIT;
  CU_ASSERT_TRUE_FATAL(works(draw(&m, SVG, NULL, false, &out)));
  static const char *const titles[] = {"inputs",  "layer_0", "layer_1",  "layer_2",
                                       "layer_3", "loss",    "optimizer"};
  long before = 0;
  for (size_t i = 0; i + 1 < sizeof titles / sizeof titles[0]; i++) {
    const long at = place_of(out.data, titles[i]);
    if (at <= before) printf("\n    '%s' is not behind what comes before it", titles[i]);
    CU_ASSERT_TRUE(at > before);
    before = at;
  }
  weft_strbuf_deinit(&out);
}

/* The gradient and the update of a layer are in its box: no scope of gradients, none of the optimizer's
 * steps. */
static void gradients_and_updates_are_with_their_layers(void) {
  const drawn_model_t m = {.layers = 3, .parts = 1, .trains = true};
  weft_rewrite_t r;
  weft_step_nodes_t step;
  CU_ASSERT_TRUE_FATAL(works(drawn_model_build(&m, &r)));
  CU_ASSERT_TRUE_FATAL(works(weft_step_nodes_find(&r, false, &step)));
  int roles[WEFT_DRAWN_ROLES] = {0};
  for (int i = 0; i < step.num_nodes; i++) {
    const weft_step_node_t *n = &step.nodes[i];
    roles[n->role]++;
    CU_ASSERT_FALSE(weft_str_starts_with(n->home, "gradients") || weft_str_starts_with(n->home, "sgd"));
    if (n->role == WEFT_DRAWN_GRADIENT && weft_str_starts_with(n->node->name, "gradients/layer"))
      CU_ASSERT_TRUE(weft_str_starts_with(n->home, "layer_"));
    if ((n->node->flags & WEFT_OP_UPDATE) != 0) {
      CU_ASSERT_EQUAL(n->role, WEFT_DRAWN_UPDATE);
      CU_ASSERT_TRUE(weft_str_starts_with(n->home, "layer_"));
    }
  }
  CU_ASSERT_TRUE(roles[WEFT_DRAWN_FORWARD] > 0 && roles[WEFT_DRAWN_GRADIENT] > 0 &&
                 roles[WEFT_DRAWN_UPDATE] > 0);
  CU_ASSERT_EQUAL(roles[WEFT_DRAWN_ADDED], 0);
  weft_step_nodes_deinit(&step);
  weft_rewrite_deinit(&r);
}

static void equal_layers_are_folded_and_others_are_not(void) {
  drawn_model_t m = {.layers = 12, .parts = 2, .trains = true};
  CU_ASSERT_TRUE(shows(&m, SVG, NULL,
                       "\xc3\x97"
                       "12  layer_0"));
  CU_ASSERT_FALSE(shows(&m, SVG, NULL, ">layer_3<"));
  m.is_uneven = true; /* but variables that no step reads are no part of it */
  CU_ASSERT_TRUE(shows(&m, SVG, NULL, "layer_0"));
  m = (drawn_model_t){.layers = 5, .parts = 2, .trains = true};
  CU_ASSERT_TRUE(shows(&m, SVG, NULL, ">layer_3<")); /* few */
}

static void what_no_step_runs_is_drawn_on_request(void) {
  const drawn_model_t m = {.layers = 2, .parts = 1, .trains = false, .is_uneven = true};
  weft_strbuf_t step = WEFT_STRBUF_INIT, all = WEFT_STRBUF_INIT;
  CU_ASSERT_TRUE_FATAL(works(draw(&m, SVG, NULL, false, &step)));
  CU_ASSERT_TRUE_FATAL(works(draw(&m, SVG, NULL, true, &all)));
  CU_ASSERT_PTR_NOT_NULL(strstr(step.data, "a step runs 12 nodes, 2 variables"));
  CU_ASSERT_PTR_NOT_NULL(strstr(all.data, "the whole file: 15 nodes, 4 variables"));
  weft_strbuf_deinit(&step);
  weft_strbuf_deinit(&all);
}

static void the_inside_of_a_scope_is_drawn(void) {
  const drawn_model_t m = {.layers = 4, .parts = 2, .trains = true, .prefix = "net/"};
  CU_ASSERT_TRUE(shows(&m, SVG, "net/layer_2", ">parta<") && shows(&m, SVG, "layer_2/partb/", ">MatMul<"));
  CU_ASSERT_TRUE(shows(&m, DOT, "layer_2", "parta") && shows(&m, SVG, "layer_2", ">gradient<"));
  static const char *const wrong[] = {"layer_4", "nope", "/", "", "net/layer_2/parta/MatMul"};
  for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
    weft_strbuf_t out = WEFT_STRBUF_INIT;
    weft_status_t *s = draw(&m, SVG, wrong[i], false, &out);
    CU_ASSERT_EQUAL(weft_status_code(s), WEFT_NOT_FOUND);
    weft_status_free(s);
    weft_strbuf_deinit(&out);
  }
}

static void tasks_stand_side_by_side(void) {
  const drawn_model_t pair = {.layers = 6, .parts = 1, .tasks = 2, .trains = true},
                      many = {.layers = 64, .parts = 1, .tasks = 64, .trains = true};
  CU_ASSERT_TRUE(shows(&pair, SVG, NULL, ">worker:0<") && shows(&pair, SVG, NULL, ">worker:1<"));
  CU_ASSERT_TRUE(shows(&many, SVG, NULL,
                       "worker:1 \xe2\x80\xa6 worker:63  \xc3\x97"
                       "63"));
  CU_ASSERT_TRUE(shows(&many, SVG, NULL, "among them"));
  CU_ASSERT_TRUE(shows(&pair, DOT, NULL, "subgraph cluster_1") && shows(&pair, DOT, NULL, "f0 -> f1"));
}

static void a_drawing_is_the_same_each_time(void) {
  for (int i = 0; i < NUM_MODELS; i++) {
    for (form_t form = SVG; form <= HTML; form++) {
      weft_strbuf_t a = WEFT_STRBUF_INIT, b = WEFT_STRBUF_INIT;
      CU_ASSERT_TRUE_FATAL(works(draw(&models[i], form, NULL, false, &a)));
      CU_ASSERT_TRUE_FATAL(works(draw(&models[i], form, NULL, false, &b)));
      CU_ASSERT_TRUE(a.length == b.length && memcmp(a.data, b.data, a.length) == 0);
      weft_strbuf_deinit(&a);
      weft_strbuf_deinit(&b);
    }
  }
}

static void a_page_of_levels_is_whole(void) {
  const drawn_model_t m = {.layers = 6, .parts = 2, .tasks = 2, .trains = true};
  weft_strbuf_t out = WEFT_STRBUF_INIT;
  CU_ASSERT_TRUE_FATAL(works(draw(&m, HTML, NULL, false, &out)));
  CU_ASSERT_PTR_NULL(strstr(out.data, "@DATA@"));
  CU_ASSERT_PTR_NULL(strstr(out.data, "http://") == NULL
                         ? NULL
                         : strstr(strstr(out.data, "http://") + 1, "http://")); /* SVG's own */
  CU_ASSERT_PTR_NULL(strstr(out.data, "https://"));
  CU_ASSERT_STRING_EQUAL(out.data + out.length - 8, "</html>\n");
  weft_strbuf_deinit(&out);
}

static weft_status_t *draw_and_forget(const weft_rewrite_t *r, form_t form) {
  weft_strbuf_t out = WEFT_STRBUF_INIT;
  weft_drawing_t *d = NULL;
  weft_status_t *s = weft_drawing_create(r, "model.pb", false, &d);
  if (s == NULL && form == SVG) s = weft_drawing_svg(d, NULL, &out);
  if (s == NULL && form == DOT) s = weft_drawing_dot(d, NULL, &out);
  if (s == NULL && form == HTML) s = weft_drawing_html(d, &out);
  weft_drawing_destroy(d);
  weft_strbuf_deinit(&out);
  return s;
}

static void running_out_of_memory_is_reported(void) {
  const drawn_model_t m = {.layers = 4, .parts = 2, .tasks = 2, .trains = true};
  weft_rewrite_t r;
  long n;
  CU_ASSERT_TRUE_FATAL(works(drawn_model_build(&m, &r)));
  WEFT_FAIL_EACH_ALLOCATION(n, s, draw_and_forget(&r, SVG));
  CU_ASSERT_TRUE(n > 50);
  WEFT_FAIL_EACH_ALLOCATION(n, s, draw_and_forget(&r, DOT));
  WEFT_FAIL_EACH_ALLOCATION(n, s, draw_and_forget(&r, HTML));
  weft_rewrite_deinit(&r);
}

int main(void) {
  static const CU_TestInfo tests[] = {
      {"every level of every model holds", every_level_of_every_model_holds},
      {"every level of random graphs holds", every_level_of_random_graphs_holds},
      {"scopes may be very deep", scopes_may_be_very_deep},
      {"layers stand in reading order", layers_stand_in_reading_order},
      {"gradients and updates are with their layers", gradients_and_updates_are_with_their_layers},
      {"equal layers are folded and others are not", equal_layers_are_folded_and_others_are_not},
      {"what no step runs is drawn on request", what_no_step_runs_is_drawn_on_request},
      {"the inside of a scope is drawn", the_inside_of_a_scope_is_drawn},
      {"tasks stand side by side", tasks_stand_side_by_side},
      {"a drawing is the same each time", a_drawing_is_the_same_each_time},
      {"a page of levels is whole", a_page_of_levels_is_whole},
      {"running out of memory is reported", running_out_of_memory_is_reported},
      CU_TEST_INFO_NULL,
  };
  return weft_run_tests("tools/drawing", tests);
}
