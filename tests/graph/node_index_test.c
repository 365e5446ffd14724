#include "graph/node_index.h"

#include <stdio.h>

#include "base/alloc.h"
#include "graph/graph.h"
#include "tests/runner.h"

enum { NODES = 5000, NAMES = 700, STEPS = 40000 };

static weft_node_t records[NODES], *nodes[NODES];
static char names[NAMES][16];

static weft_node_t *new_node(int id, int name) {
  records[id] = (weft_node_t){.id = id, .name = weft_str(names[name])};
  return &records[id];
}

/* Any order of adding, removing and finding, against a list of what is there. */
static void every_name_leads_to_its_node(void) {
  weft_node_index_t x = {NULL, 0, 0, 0};
  weft_node_t *at[NAMES] = {NULL};
  int num = 0, num_in = 0;
  uint64_t random = 99;
  memset(nodes, 0, sizeof nodes);
  for (int i = 0; i < NAMES; i++) snprintf(names[i], sizeof names[i], "n%d", i * i);
  for (int step = 0; step < STEPS; step++) {
    random = random * 6364136223846793005u + 1442695040888963407u;
    const int name = (int)((random >> 33) % NAMES);
    CU_ASSERT_PTR_EQUAL(weft_node_index_find(&x, nodes, weft_str(names[name])), at[name]);
    if (at[name] != NULL && (random >> 60) < 8) {
      weft_node_index_remove(&x, nodes, at[name]->id);
      nodes[at[name]->id] = NULL;
      at[name] = NULL;
      num_in--;
    } else if (at[name] == NULL && num < NODES) {
      weft_node_t *n = new_node(num, name);
      CU_ASSERT_PTR_NULL(weft_node_index_add(&x, nodes, num, n));
      at[name] = nodes[num++] = n;
      num_in++;
    }
    CU_ASSERT_EQUAL(x.num_in, (size_t)num_in);
    CU_ASSERT(x.num_used <= x.capacity / 4 * 3);
  }
  CU_ASSERT_EQUAL(num, NODES);
  CU_ASSERT(x.capacity <= 4096); /* slots of removed nodes are used again */
  weft_node_index_deinit(&x);
}

static void room_is_made_at_once(void) {
  weft_node_index_t x = {NULL, 0, 0, 0};
  memset(nodes, 0, sizeof nodes);
  for (int i = 0; i < NAMES; i++) snprintf(names[i], sizeof names[i], "n%d", i);
  CU_ASSERT_PTR_NULL(weft_node_index_find(&x, nodes, WEFT_STR("n0")));
  CU_ASSERT_PTR_NULL(weft_node_index_reserve(&x, nodes, 0, NAMES));
  const size_t capacity = x.capacity;
  for (int i = 0; i < NAMES; i++) {
    nodes[i] = new_node(i, i);
    CU_ASSERT_PTR_NULL(weft_node_index_add(&x, nodes, i, nodes[i]));
  }
  CU_ASSERT_EQUAL(x.capacity, capacity);
  CU_ASSERT_PTR_NULL(weft_node_index_reserve(&x, nodes, NAMES, 10 * NAMES));
  for (int i = 0; i < NAMES; i++)
    CU_ASSERT_PTR_EQUAL(weft_node_index_find(&x, nodes, weft_str(names[i])), nodes[i]);
  weft_node_index_deinit(&x);
}

static weft_status_t *fill(void) {
  weft_node_index_t x = {NULL, 0, 0, 0};
  weft_status_t *s = NULL;
  int num = 0;
  for (; s == NULL && num < 200; num++) {
    nodes[num] = new_node(num, num);
    s = weft_node_index_add(&x, nodes, num, nodes[num]);
  }
  if (s != NULL) { /* what was there is found as before */
    for (int i = 0; i < num - 1; i++)
      CU_ASSERT_PTR_EQUAL(weft_node_index_find(&x, nodes, weft_str(names[i])), nodes[i]);
  }
  weft_node_index_deinit(&x);
  return s;
}

static void an_index_without_memory_is_unchanged(void) {
  long n;
  WEFT_FAIL_EACH_ALLOCATION(n, s, fill());
  CU_ASSERT(n > 2);
}

int main(void) {
  static const CU_TestInfo tests[] = {
      {"every name leads to its node", every_name_leads_to_its_node},
      {"room is made at once", room_is_made_at_once},
      {"an index without memory is unchanged", an_index_without_memory_is_unchanged},
      CU_TEST_INFO_NULL,
  };
  return weft_run_tests("node_index", tests);
}
