/* tests/worker/client_edges_test.c - names of feeds and fetches to places in the plan, in any order; names
 * that are no places.
 */
#include "worker/client_edges.h"

#include "tests/runner.h"

static weft_str_t feed_keys[] = {{"a;0", 3}, {"b;0", 3}, {"c;0", 3}}, fetch_keys[] = {{"x;0", 3}, {"y;0", 3}};
static const weft_client_edges_t edges = {feed_keys, fetch_keys, 3, 2};

/* A RunGraph with one letter for each feed and fetch. */
typedef struct letters {
  char text[16][4];
  weft_named_tensor_t sends[8];
  weft_str_t recvs[8];
  weft_run_graph_t run;
} letters_t;

static const weft_run_graph_t *run_of(letters_t *l, const char *feeds, const char *fetches) {
  l->run = (weft_run_graph_t){.sends = l->sends, .recv_keys = l->recvs};
  int n = 0;
  for (; *feeds != '\0'; feeds++, n++) {
    l->text[n][0] = *feeds;
    memcpy(l->text[n] + 1, ";0", 3);
    l->sends[l->run.num_sends++].name = weft_str_of(l->text[n], 3);
  }
  for (; *fetches != '\0'; fetches++, n++) {
    l->text[n][0] = *fetches;
    memcpy(l->text[n] + 1, ";0", 3);
    l->recvs[l->run.num_recvs++] = weft_str_of(l->text[n], 3);
  }
  return &l->run;
}

static void each_order_has_its_places(void) {
  static const char *const feeds[] = {"abc", "acb", "bac", "bca", "cab", "cba"}, *const fetches[] = {
                                                                                     "xy", "yx", "x", "y",
                                                                                     ""};
  letters_t l, other;
  for (size_t i = 0; i < 6; i++) {
    for (size_t k = 0; k < 5; k++) {
      const weft_run_graph_t *run = run_of(&l, feeds[i], fetches[k]);
      weft_client_places_t *p = weft_client_places_find(&edges, run);
      CU_ASSERT_PTR_NOT_NULL_FATAL(p);
      for (int f = 0; f < run->num_sends; f++) CU_ASSERT_EQUAL(p->feed_of[f], feeds[i][f] - 'a');
      for (int f = 0; f < run->num_recvs; f++) CU_ASSERT_EQUAL(p->fetch_of[f], fetches[k][f] - 'x');
      for (size_t m = 0; m < 30; m++) {
        const bool is_same = m / 5 == i && m % 5 == k;
        CU_ASSERT_EQUAL(weft_client_places_fit(p, &edges, run_of(&other, feeds[m / 5], fetches[m % 5])),
                        is_same);
      }
      weft_client_places_free(p);
    }
  }
}

static void names_that_are_no_places_have_none(void) {
  static const char *const wrong[][2] = {{"ab", "x"},    {"abcd", "x"}, {"abb", "x"}, {"abx", "y"},
                                         {"", "x"},      {"abc", "xx"}, {"abc", "z"}, {"abc", "a"},
                                         {"abc", "xyx"}, {"ABC", "x"}};
  letters_t l;
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
    CU_ASSERT_PTR_NULL(weft_client_places_find(&edges, run_of(&l, wrong[i][0], wrong[i][1])));
  weft_client_places_t *p = weft_client_places_find(&edges, run_of(&l, "abc", "xy"));
  CU_ASSERT_PTR_NOT_NULL_FATAL(p);
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
    CU_ASSERT_FALSE(weft_client_places_fit(p, &edges, run_of(&l, wrong[i][0], wrong[i][1])));
  weft_client_places_free(p);
}

static void a_graph_without_clients_has_no_places_to_fill(void) {
  static const weft_client_edges_t none = {NULL, NULL, 0, 0};
  letters_t l;
  weft_client_places_t *p = weft_client_places_find(&none, run_of(&l, "", ""));
  CU_ASSERT_PTR_NOT_NULL_FATAL(p);
  CU_ASSERT_TRUE(weft_client_places_fit(p, &none, run_of(&l, "", "")));
  CU_ASSERT_FALSE(weft_client_places_fit(p, &none, run_of(&l, "a", "")));
  weft_client_places_free(p);
}

int main(void) {
  static const CU_TestInfo tests[] = {
      {"each order has its places", each_order_has_its_places},
      {"names that are no places have none", names_that_are_no_places_have_none},
      {"a graph without clients has no places to fill", a_graph_without_clients_has_no_places_to_fill},
      CU_TEST_INFO_NULL,
  };
  return weft_run_tests("client_edges", tests);
}
