/* Shards: how many, which rows, and that a graph with cut variables computes the same. */
#include "strategies/shard.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/alloc.h"
#include "strategies/emit.h"
#include "tests/graph/graph_testing.h"
#include "tests/runner.h"
#include "tests/strategies/parameter_server_testing.h"

static void must(weft_status_t *s) {
  if (s != NULL) printf("\n    %s\n", weft_status_message(s));
  CU_ASSERT_PTR_NULL_FATAL(s);
}

/* T-PS2-1 */
static void partitioners_give_tensorflows_numbers(void) {
  static const struct {
    const char *text;
    int64_t dims[3];
    int rank;
    weft_dtype_t dtype;
    int64_t n;
  } cases[] = {
      {"min_size:4:2", {6, 1}, 2, WEFT_F32, 2},
      {"min_size:4:10", {6, 1}, 2, WEFT_F32, 6},
      {"max_size:4", {6, 1}, 2, WEFT_F32, 6},
      {"max_size:4:2", {6, 1}, 2, WEFT_F32, 2},
      {"max_size:1024", {6, 1}, 2, WEFT_F32, 1},
      {"fixed:5", {13}, 1, WEFT_F32, 5},
      {"fixed:5", {3}, 1, WEFT_F32, 3},
      {"fixed:5", {0}, 0, WEFT_F32, 1},
      {"min_size:256K:16", {1024, 1024}, 2, WEFT_F32, 16},
      {"min_size:256K:8", {1024, 1024}, 2, WEFT_F32, 8},
      {"min_size:10:9", {6, 1}, 2, WEFT_F64, 5},
      {"max_size:10", {7, 1}, 2, WEFT_F32, 4},
      {"max_size:1", {7, 3}, 2, WEFT_F32, 7},
      {"min_size::4", {1 << 18}, 1, WEFT_F32, 4},
      {"max_size:32", {4}, 1, WEFT_STRING, 2},
      {"none", {100}, 1, WEFT_F32, 1},
      {"", {100}, 1, WEFT_F32, 1},
      {"fixed:2", {0, 4}, 2, WEFT_F32, 1},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    weft_partitioner_t p;
    weft_shape_t shape;
    must(weft_partitioner_parse(weft_str(cases[i].text), 3, &p));
    must(weft_shape_make(cases[i].dims, cases[i].rank, &shape));
    int64_t n = weft_partitioner_count(&p, &shape, cases[i].dtype);
    if (n != cases[i].n) printf("\n    %s of case %zu: %lld", cases[i].text, i, (long long)n);
    CU_ASSERT_EQUAL(n, cases[i].n);
  }
}

static void the_first_shards_have_a_row_more(void) {
  static const int64_t of13[] = {3, 3, 3, 2, 2}, of10[] = {3, 3, 2, 2};
  int64_t begin, rows, next = 0;
  for (int i = 0; i < 5; i++, next += rows) {
    weft_shard_rows(13, 5, i, &begin, &rows);
    CU_ASSERT_TRUE(rows == of13[i] && begin == next);
  }
  CU_ASSERT_EQUAL(next, 13);
  next = 0;
  for (int i = 0; i < 4; i++, next += rows) {
    weft_shard_rows(10, 4, i, &begin, &rows);
    CU_ASSERT_TRUE(rows == of10[i] && begin == next);
  }
}

static void wrong_texts_are_refused(void) {
  static const char *const texts[] = {"fixed",
                                      "fixed:",
                                      "fixed:-1",
                                      "fixed:0",
                                      "fixed:2:2",
                                      "min_size:x",
                                      "min_size:0",
                                      "max_size",
                                      "max_size:4:0",
                                      "max_size:99999999999999999999",
                                      "max_size:9999999999G",
                                      "by_bytes:3",
                                      ":"};
  for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
    weft_partitioner_t p;
    weft_test_expect(weft_partitioner_parse(weft_str(texts[i]), 3, &p), WEFT_INVALID_ARGUMENT, texts[i]);
  }
}

/* ---- look-ups ---- */

static const weft_ps_model_t embedding = {.dtype = WEFT_F32,
                                          .optimizer = WEFT_PS_SGD,
                                          .inputs = 1,
                                          .hidden = 12,
                                          .classes = 5,
                                          .rows = 103,
                                          .width = 6,
                                          .rate = 0.1};

static weft_tensor_t *look_up(weft_ps_cluster_t *c, weft_tensor_t *ids) {
  weft_test_step_t k;
  weft_test_start(&c->sessions[0],
                  &(weft_test_run_t){.feeds = {"ids:0"}, .tensors = {ids}, .fetches = {"looked_up:0"}}, &k);
  must(weft_test_step_wait(&k));
  weft_tensor_t *out = weft_tensor_retain(k.fetches[0]);
  weft_test_step_deinit(&k);
  return out;
}

/* T-PS2-2 */
static void lookups_and_training_are_the_same_in_shards(void) {
  static const int64_t ids[] = {0, 102, 20, 21, 20, 20, 41, 42, 62, 63, 82, 83, 102, 1};
  static const char *const options[] = {"shards=fixed:5", "shards=fixed:103", "shards=max_size:240",
                                        "shards=fixed:5,mode=sync,split=0", "shards=fixed:2,caching"};
  for (int v = 0; v < 10; v++) {
    weft_ps_model_t m = embedding;
    m.resources = v % 2 != 0;
    m.optimizer = v / 2 % 3 == 1 ? WEFT_PS_MOMENTUM : WEFT_PS_SGD;
    weft_graph_t *g = weft_ps_model_graph(&m);
    weft_ps_cluster_t whole, cut;
    weft_ps_start(&whole, g, NULL, 0, 1);
    weft_ps_start(&cut, g, options[v / 2], 2, 1);
    CU_ASSERT_PTR_NOT_NULL(weft_graph_find(cut.r.graph, WEFT_STR("emb/part_1")));
    for (int step = 0; step < 5; step++) {
      for (int n = 0; n <= 14; n += 7) { /* none, some, all of the ids */
        weft_tensor_t *some = NULL;
        const weft_shape_t shape = weft_shape_vector(n);
        must(weft_tensor_new(WEFT_I64, &shape, NULL, &some));
        for (int i = 0; i < n; i++) ((int64_t *)some->data)[i] = ids[i];
        weft_tensor_t *a = look_up(&whole, some), *b = look_up(&cut, some);
        CU_ASSERT_EQUAL(weft_ps_distance(a, b), 0);
        weft_tensor_release(a);
        weft_tensor_release(b);
        weft_tensor_release(some);
      }
      weft_ps_batch_t batch = weft_ps_batch(&m, step * 20, 20);
      double x = 0, y = 0;
      must(weft_ps_step(&whole, 0, &batch, &x));
      must(weft_ps_step(&cut, 0, &batch, &y));
      if (cut.r.num_loops > 1) must(weft_ps_step(&cut, 1, NULL, NULL));
      weft_ps_batch_drop(&batch);
      CU_ASSERT_TRUE(x == y || (v / 2 == 3 && x - y < 1e-5 &&
                                y - x < 1e-5)); /* in step, equal rows are added up first */
    }
    weft_tensor_t *a = weft_ps_value(&whole, "emb/read:0"), *b = weft_ps_value(&cut, "emb/read:0");
    CU_ASSERT_TRUE(weft_ps_distance(a, b) <= (v / 2 == 3 ? 1e-5 : 0));
    weft_tensor_release(a);
    weft_tensor_release(b);
    weft_ps_stop(&whole);
    weft_ps_stop(&cut);
    weft_graph_destroy(g);
  }
}

static void an_id_that_no_shard_has_fails(void) {
  for (int v = 0; v < 4; v++) {
    weft_ps_model_t m = embedding;
    int64_t id = v / 2 == 0 ? 103 : -1;
    weft_tensor_t *ids = NULL;
    weft_ps_cluster_t c;
    m.resources = v % 2 != 0;
    weft_graph_t *g = weft_ps_model_graph(&m);
    const weft_shape_t one = weft_shape_vector(1);
    must(weft_tensor_new(WEFT_I64, &one, NULL, &ids));
    *(int64_t *)ids->data = id;
    weft_ps_start(&c, g, "shards=fixed:5", 2, 1);
    weft_test_run_t run = {.feeds = {"ids:0"}, .tensors = {ids}, .fetches = {"looked_up:0"}};
    weft_test_expect(weft_test_run(&c.sessions[0], &run, NULL), WEFT_INVALID_ARGUMENT, "is not in [0, ");
    weft_tensor_release(ids);
    weft_ps_stop(&c);
    weft_graph_destroy(g);
  }
}

/* Whole tables stay on the servers: only ids and rows cross. */
static void tables_do_not_cross(void) {
  weft_graph_t *g = weft_ps_model_graph(&embedding);
  const char *const feeds[] = {"ids", "y", NULL}, *const fetches[] = {"loss", NULL};
  static const char *const options[] = {"", "shards=fixed:5", "mode=sync"};
  for (int i = 0; i < 3; i++) {
    weft_ps_cluster_t c;
    weft_ps_view(&c, 2, 2);
    must(weft_ps_rewrite(&c, g, options[i], feeds, fetches));
    for (int k = 0; k < c.r.num_crossings; k++)
      CU_ASSERT_FALSE(weft_str_starts_with(c.r.crossings[k].what, "emb"));
    weft_ps_stop(&c);
  }
  weft_graph_destroy(g);
}

/* ---- checkpoints ---- */

static void with_path(weft_ps_cluster_t *c, const char *target, const char *path) {
  weft_tensor_t *text = NULL;
  must(weft_tensor_string(weft_str(path), &text));
  weft_test_run_t run = {.feeds = {"path:0"}, .tensors = {text}, .targets = {target}};
  must(weft_test_run(&c->sessions[0], &run, NULL));
  weft_tensor_release(text);
}

/* T-PS2-3 */
static void a_checkpoint_of_five_shards_is_read_by_two_and_by_one(void) {
  static const char *const readers[] = {"shards=fixed:2", "", "shards=fixed:5,mode=sync,backup=0,split=0",
                                        NULL};
  static const char *const values[] = {"emb/read:0", "w0/read:0", "b2/read:0"};
  char path[128];
  const char *dir = getenv("TEST_TMPDIR");
  snprintf(path, sizeof path, "%s/shards-%d", dir == NULL ? "/tmp" : dir, (int)getpid());
  for (int v = 0; v < 2; v++) {
    weft_ps_model_t m = embedding;
    m.resources = v != 0;
    weft_graph_t *g = weft_ps_model_graph(&m);
    weft_ps_cluster_t five;
    weft_ps_start(&five, g, "shards=fixed:5", 2, 1);
    weft_ps_batch_t batch = weft_ps_batch(&m, 0, 20);
    must(weft_ps_step(&five, 0, &batch, NULL));
    weft_ps_batch_drop(&batch);
    with_path(&five, "save", path);
    for (int i = 0; i < 4; i++) {
      weft_ps_cluster_t other;
      weft_ps_start(&other, g, readers[i], readers[i] == NULL ? 0 : 2, 1);
      with_path(&other, "restore", path);
      for (int k = 0; k < 3; k++) {
        weft_tensor_t *a = weft_ps_value(&five, values[k]), *b = weft_ps_value(&other, values[k]);
        CU_ASSERT_EQUAL(weft_ps_distance(a, b), 0);
        weft_tensor_release(a);
        weft_tensor_release(b);
      }
      weft_ps_stop(&other);
    }
    weft_ps_stop(&five);
    weft_graph_destroy(g);
  }
  for (int i = 0; i < 2; i++) {
    char file[160];
    snprintf(file, sizeof file, "%s%s", path, i == 0 ? ".index" : ".data-00000-of-00001");
    CU_ASSERT_EQUAL(unlink(file), 0);
  }
}

static bool has_note(const weft_rewrite_t *r, const char *text) {
  for (int i = 0; i < r->num_notes; i++) {
    if (strstr(r->notes[i].data, text) != NULL) return true;
  }
  return false;
}

/* A use that cannot be sharded keeps the variable, and those updated with it, whole. */
static void what_cannot_be_cut_stays_whole(void) {
  weft_ps_model_t m = embedding;
  m.optimizer = WEFT_PS_MOMENTUM;
  weft_graph_t *g = weft_ps_model_graph(&m);
  weft_emitter_t b = {.g = g};
  weft_node_t *slot = weft_graph_find(g, WEFT_STR("emb/momentum"));
  CU_ASSERT_PTR_NOT_NULL_FATAL(slot);
  const int64_t at[2] = {1, 2};
  const weft_output_t in[3] = {
      {slot, 0}, weft_emit_ints(&b, WEFT_I32, at, 2, "at"), weft_emit_number(&b, WEFT_F32, 1, "value")};
  weft_output_t row =
      weft_emit2(&b, "Reshape", in[1], weft_emit_ints(&b, WEFT_I32, at, 2, "row_shape"), "row_at");
  const weft_output_t nd[3] = {
      in[0], row, weft_emit2(&b, "Fill", weft_emit_ints(&b, WEFT_I32, at, 1, "n"), in[2], "vector")};
  weft_emit(&b, "ScatterNdAdd", nd, 3, NULL, 0, "point");
  must(weft_emitter_end(&b));
  const char *const feeds[] = {"ids", "y", NULL}, *const fetches[] = {"loss", NULL};
  weft_ps_cluster_t c;
  weft_ps_view(&c, 2, 2);
  must(weft_ps_rewrite(&c, g, "shards=fixed:2", feeds, fetches));
  CU_ASSERT_PTR_NULL(weft_graph_find(c.r.graph, WEFT_STR("emb/part_0")));
  CU_ASSERT_PTR_NULL(weft_graph_find(c.r.graph, WEFT_STR("emb/momentum/part_0")));
  CU_ASSERT_PTR_NOT_NULL(weft_graph_find(c.r.graph, WEFT_STR("w0/part_0")));
  CU_ASSERT_TRUE(has_note(&c.r, "emb/momentum [103,6] stays whole: node 'point'"));
  CU_ASSERT_TRUE(has_note(&c.r, "emb [103,6] stays whole"));
  CU_ASSERT_TRUE(has_note(&c.r, "w1 [12,12]: 2 shards"));
  weft_ps_stop(&c);
  weft_graph_destroy(g);
}

int main(void) {
  static const CU_TestInfo tests[] = {
      {"partitioners_give_tensorflows_numbers", partitioners_give_tensorflows_numbers},
      {"the_first_shards_have_a_row_more", the_first_shards_have_a_row_more},
      {"wrong_texts_are_refused", wrong_texts_are_refused},
      {"lookups_and_training_are_the_same_in_shards", lookups_and_training_are_the_same_in_shards},
      {"an_id_that_no_shard_has_fails", an_id_that_no_shard_has_fails},
      {"tables_do_not_cross", tables_do_not_cross},
      {"a_checkpoint_of_five_shards_is_read_by_two_and_by_one",
       a_checkpoint_of_five_shards_is_read_by_two_and_by_one},
      {"what_cannot_be_cut_stays_whole", what_cannot_be_cut_stays_whole},
      CU_TEST_INFO_NULL,
  };
  return weft_run_tests("shard", tests);
}
