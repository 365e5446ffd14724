/* The resharding planner: every pair of shardings is planned and the plan is carried out on numbers; known
 * plans and costs. */
#include "sharding/reshard.h"

#include <math.h>
#include <stdio.h>

#include "tests/runner.h"

enum { MAX_DEVICES = 8, MAX_COUNT = 64, ROWS = 8, COLUMNS = 6 };

/* What all devices of a mesh have of one matrix. */
typedef struct world {
  weft_mesh_t mesh;
  weft_sharding_t sharding;
  double data[MAX_DEVICES][MAX_COUNT]; /* a device's block, row by row */
} world_t;

static const weft_shape_t matrix = {.rank = 2, .dims = {ROWS, COLUMNS}};

static weft_mesh_t mesh_of(const char *text) {
  weft_mesh_t mesh = {0};
  weft_status_t *s = weft_mesh_parse(weft_str(text), &mesh);
  CU_ASSERT_PTR_NULL(s);
  weft_status_free(s);
  return mesh;
}

static bool block_of(const world_t *w, int device, int64_t begin[WEFT_MAX_DIMS], weft_shape_t *size) {
  weft_status_t *s = weft_mesh_block(&w->mesh, &w->sharding, &matrix, device, begin, size);
  weft_status_free(s);
  return s == NULL;
}

static double reduce(weft_partial_kind_t kind, const double *x, int n) {
  double y = x[0];
  for (int i = 1; i < n; i++) {
    switch (kind) {
      case WEFT_PARTIAL_SUM:
      case WEFT_PARTIAL_MEAN: y += x[i]; break;
      case WEFT_PARTIAL_MIN: y = fmin(y, x[i]); break;
      case WEFT_PARTIAL_MAX: y = fmax(y, x[i]); break;
      case WEFT_PARTIAL_PROD: y *= x[i]; break;
    }
  }
  return kind == WEFT_PARTIAL_MEAN ? y / n : y;
}

/* The matrix that the devices have together: each Partial axis reduced, and all copies equal. False if two
 * copies differ. */
static bool whole_of(const world_t *w, double out[MAX_COUNT]) {
  world_t now = *w;
  for (int axis = 0; axis < w->mesh.num_axes; axis++) {
    if (w->sharding.axes[axis].kind != WEFT_SHARDING_PARTIAL) continue;
    world_t before = now;
    for (int device = 0; device < weft_mesh_num_devices(&w->mesh); device++) {
      int group[MAX_DEVICES];
      weft_mesh_group(&w->mesh, axis, device, group);
      for (int i = 0; i < MAX_COUNT; i++) {
        double x[MAX_DEVICES];
        for (int k = 0; k < w->mesh.axes[axis].size; k++) x[k] = before.data[group[k]][i];
        now.data[device][i] = reduce(w->sharding.axes[axis].partial, x, w->mesh.axes[axis].size);
      }
    }
  }
  for (int i = 0; i < MAX_COUNT; i++) out[i] = NAN;
  for (int device = 0; device < weft_mesh_num_devices(&w->mesh); device++) {
    int64_t begin[WEFT_MAX_DIMS];
    weft_shape_t size;
    if (!block_of(w, device, begin, &size)) return false;
    for (int64_t i = 0; i < size.dims[0] * size.dims[1]; i++) {
      double *to = &out[(begin[0] + i / size.dims[1]) * COLUMNS + begin[1] + i % size.dims[1]];
      if (!isnan(*to) && fabs(*to - now.data[device][i]) > 1e-9) return false;
      *to = now.data[device][i];
    }
  }
  return true;
}

/* A world whose whole is not known before; copies are equal because they are made from a hash of the place
 * and of the coordinates along Partial axes. */
static void fill(world_t *w) {
  for (int device = 0; device < weft_mesh_num_devices(&w->mesh); device++) {
    int64_t begin[WEFT_MAX_DIMS];
    weft_shape_t size;
    int at[WEFT_MESH_AXES];
    weft_mesh_coordinates(&w->mesh, device, at);
    uint64_t seed = 7;
    for (int axis = 0; axis < w->mesh.num_axes; axis++) {
      if (w->sharding.axes[axis].kind == WEFT_SHARDING_PARTIAL) seed = seed * 31 + (uint64_t)at[axis] + 1;
    }
    memset(w->data[device], 0, sizeof w->data[device]);
    if (!block_of(w, device, begin, &size)) continue;
    for (int64_t i = 0; i < size.dims[0] * size.dims[1]; i++) {
      uint64_t place = (uint64_t)((begin[0] + i / size.dims[1]) * COLUMNS + begin[1] + i % size.dims[1]);
      uint64_t mixed = (place * 2654435761u + seed) * 6364136223846793005u + 1442695040888963407u;
      w->data[device][i] = 0.5 + (double)(mixed >> 40) / 16777216.0;
    }
  }
}

/* The part of the group's common piece that a device has: what a collective along `axis` moves, written as:
 * the group's devices give their pieces, the device takes what it needs by its new block. */
static void carry_out(world_t *w, const weft_reshard_step_t *step) {
  world_t next = *w;
  int n = w->mesh.axes[step->axis].size;
  next.sharding.axes[step->axis] = step->to;
  for (int device = 0; device < weft_mesh_num_devices(&w->mesh); device++) {
    int group[MAX_DEVICES], at[WEFT_MESH_AXES];
    int64_t to[WEFT_MAX_DIMS];
    weft_shape_t to_size;
    weft_mesh_group(&w->mesh, step->axis, device, group);
    weft_mesh_coordinates(&w->mesh, device, at);
    CU_ASSERT_TRUE_FATAL(block_of(&next, device, to, &to_size));
    for (int64_t i = 0; i < to_size.dims[0] * to_size.dims[1]; i++) {
      int64_t row = to[0] + i / to_size.dims[1], column = to[1] + i % to_size.dims[1];
      double found[MAX_DEVICES];
      int num_found = 0;
      for (int k = 0; k < n; k++) { /* members whose old block has the element */
        int64_t begin[WEFT_MAX_DIMS];
        weft_shape_t size;
        bool is_local = step->kind == WEFT_RESHARD_SLICE || step->kind == WEFT_RESHARD_MASK ||
                        step->kind == WEFT_RESHARD_SCALE || step->kind == WEFT_RESHARD_KEEP;
        if (is_local && group[k] != device) continue;
        CU_ASSERT_TRUE_FATAL(block_of(w, group[k], begin, &size));
        int64_t r = row - begin[0], c = column - begin[1];
        if (r < 0 || c < 0 || r >= size.dims[0] || c >= size.dims[1]) continue;
        found[num_found++] = w->data[group[k]][r * size.dims[1] + c];
      }
      bool reduces = step->kind == WEFT_RESHARD_ALL_REDUCE || step->kind == WEFT_RESHARD_REDUCE_SCATTER;
      CU_ASSERT_EQUAL_FATAL(num_found, reduces ? n : 1);
      double value = reduces ? reduce(step->from.partial, found, n) : found[0];
      if (step->kind == WEFT_RESHARD_SCALE) value *= step->from.partial == WEFT_PARTIAL_SUM ? n : 1.0 / n;
      if (step->kind == WEFT_RESHARD_MASK && at[step->axis] > 0) {
        value = step->to.partial == WEFT_PARTIAL_PROD ? 1 : 0;
      }
      next.data[device][i] = value;
    }
  }
  *w = next;
}

static void check_pair(const weft_mesh_t *mesh, const weft_sharding_t *from, const weft_sharding_t *to,
                       int *planned) {
  weft_arena_t arena = WEFT_ARENA_INIT;
  weft_reshard_plan_t plan;
  weft_status_t *s = weft_reshard_plan(mesh, from, to, &matrix, 8, NULL, &arena, &plan);
  if (s == NULL) {
    world_t w = {.mesh = *mesh, .sharding = *from};
    double before[MAX_COUNT], after[MAX_COUNT];
    (*planned)++;
    fill(&w);
    CU_ASSERT_TRUE(whole_of(&w, before));
    for (int i = 0; i < plan.num_steps; i++) carry_out(&w, &plan.steps[i]);
    for (int i = 0; i < mesh->num_axes; i++) {
      CU_ASSERT_TRUE(weft_axis_sharding_eq(&w.sharding.axes[i], &to->axes[i]));
    }
    CU_ASSERT_TRUE(whole_of(&w, after));
    for (int i = 0; i < ROWS * COLUMNS; i++) CU_ASSERT_DOUBLE_EQUAL(after[i], before[i], 1e-9);
  }
  weft_status_free(s);
  weft_arena_deinit(&arena);
}

enum { KINDS = 8 };
static weft_axis_sharding_t kind_number(int i) {
  weft_axis_sharding_t partial = weft_sharding_partial(0);
  if (i == 0) return weft_sharding_replicate(0);
  if (i <= 2) return weft_sharding_shard(i - 1, 0);
  partial.partial = (weft_partial_kind_t)(i - 3);
  return partial;
}

/* On a mesh of 2x2, 8x6 elements: every sharding of either end. */
static void every_plan_keeps_the_value(void) {
  weft_mesh_t mesh = mesh_of("data=2,model=2");
  int planned = 0;
  for (int i = 0; i < KINDS * KINDS * KINDS * KINDS; i++) {
    weft_sharding_t from = {{kind_number(i % KINDS), kind_number(i / KINDS % KINDS)}};
    weft_sharding_t to = {{kind_number(i / KINDS / KINDS % KINDS), kind_number(i / KINDS / KINDS / KINDS)}};
    check_pair(&mesh, &from, &to, &planned);
  }
  CU_ASSERT_TRUE(planned > 900); /* the others: 6 by 4, reductions that do not commute, Partial to Partial */
  weft_mesh_t cube = mesh_of("a=2,b=1,c=2,d=2");
  weft_sharding_t from = {{kind_number(1), kind_number(0), kind_number(1), kind_number(2)}};
  weft_sharding_t to = {{kind_number(2), kind_number(1), kind_number(0), kind_number(1)}};
  planned = 0;
  check_pair(&cube, &from, &to, &planned);
  CU_ASSERT_EQUAL(planned, 1);
}

static void expect_plan(const char *mesh_text, weft_sharding_t from, weft_sharding_t to, const char *want,
                        double wire_bytes) {
  weft_mesh_t mesh = mesh_of(mesh_text);
  weft_arena_t arena = WEFT_ARENA_INIT;
  weft_strbuf_t text = WEFT_STRBUF_INIT;
  weft_reshard_plan_t plan = {0};
  weft_shape_t shape = weft_shape_matrix(1024, 1024);
  weft_status_t *s = weft_reshard_plan(&mesh, &from, &to, &shape, 4, NULL, &arena, &plan);
  CU_ASSERT_PTR_NULL(s);
  weft_status_free(s);
  for (int i = 0; i < plan.num_steps; i++) {
    if (i > 0) weft_strbuf_puts(&text, "; ");
    weft_reshard_print(&mesh, &plan.steps[i], &text);
  }
  weft_strbuf_puts(&text, "");
  if (plan.num_steps > 0 && strcmp(text.data, want) != 0) fprintf(stderr, "%s\n", text.data);
  CU_ASSERT_TRUE(plan.num_steps == 0 ? want[0] == '\0' : strcmp(text.data, want) == 0);
  CU_ASSERT_DOUBLE_EQUAL(plan.cost.wire_bytes, wire_bytes, 1);
  weft_strbuf_deinit(&text);
  weft_arena_deinit(&arena);
}

static void plans_are_the_cheapest(void) {
  const weft_axis_sharding_t r = weft_sharding_replicate(0), s0 = weft_sharding_shard(0, 0),
                             s1 = weft_sharding_shard(1, 0), p = weft_sharding_partial(0);
  const double mib4 = 4 << 20; /* the whole */
  expect_plan("m=4", (weft_sharding_t){{s0}}, (weft_sharding_t){{s0}}, "", 0);
  expect_plan("m=4", (weft_sharding_t){{p}}, (weft_sharding_t){{r}},
              "all-reduce along m: Partial(sum) -> Replicate", 2 * 0.75 * mib4);
  expect_plan("m=4", (weft_sharding_t){{p}}, (weft_sharding_t){{s1}},
              "reduce-scatter along m: Partial(sum) -> Shard(1)", 0.75 * mib4);
  expect_plan("m=4", (weft_sharding_t){{s0}}, (weft_sharding_t){{r}},
              "all-gather along m: Shard(0) -> Replicate", 0.75 * mib4);
  expect_plan("m=4", (weft_sharding_t){{s0}}, (weft_sharding_t){{s1}},
              "all-to-all along m: Shard(0) -> Shard(1)", 0.75 * mib4 / 4);
  expect_plan("m=4", (weft_sharding_t){{r}}, (weft_sharding_t){{s1}}, "slice along m: Replicate -> Shard(1)",
              0);
  /* a slice along one axis first makes the gather along the other half as dear */
  expect_plan("d=2,m=2", (weft_sharding_t){{r, s1}}, (weft_sharding_t){{s0, r}},
              "slice along d: Replicate -> Shard(0); all-gather along m: Shard(1) -> Replicate", mib4 / 4);
  /* the later axis, which splits the parts of the earlier, goes first */
  expect_plan("d=2,m=2", (weft_sharding_t){{s0, s0}}, (weft_sharding_t){{r, s0}},
              "all-to-all along m: Shard(0) -> Shard(1); all-gather along d: Shard(0) -> Replicate; "
              "all-to-all along m: Shard(1) -> Shard(0)",
              mib4 / 8 + mib4 / 4 + mib4 / 4);
  expect_plan("d=2,m=2", (weft_sharding_t){{p, r}}, (weft_sharding_t){{r, s0}},
              "slice along m: Replicate -> Shard(0); all-reduce along d: Partial(sum) -> Replicate",
              mib4 / 2);
}

static void what_cannot_be_is_refused(void) {
  weft_mesh_t mesh = mesh_of("d=2,m=2");
  weft_axis_sharding_t r = weft_sharding_replicate(0), max = weft_sharding_partial(0), sum = max;
  max.partial = WEFT_PARTIAL_MAX;
  const weft_shape_t odd = weft_shape_matrix(3, 4), unknown = WEFT_UNKNOWN_SHAPE;
  const struct {
    weft_sharding_t from, to;
    const weft_shape_t *shape;
  } cases[] = {
      {{{r, r}}, {{r, weft_sharding_shard(0, 0)}}, &odd},
      {{{r, r}}, {{max, sum}}, &matrix},
      {{{sum, max}}, {{r, r}}, &matrix},
      {{{r, r}}, {{r, r}}, &unknown},
      {{{weft_sharding_replicate(1), r}}, {{r, r}}, &matrix},
      {{{r, r}}, {{r}}, &matrix},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    weft_arena_t arena = WEFT_ARENA_INIT;
    weft_reshard_plan_t plan;
    weft_status_t *s =
        weft_reshard_plan(&mesh, &cases[i].from, &cases[i].to, cases[i].shape, 4, NULL, &arena, &plan);
    CU_ASSERT_EQUAL(weft_status_code(s), WEFT_INVALID_ARGUMENT);
    weft_status_free(s);
    weft_arena_deinit(&arena);
  }
}

static weft_status_t *plan_once(void) {
  weft_mesh_t mesh = {2, {{"d", 2}, {"m", 2}}, NULL};
  weft_arena_t arena = WEFT_ARENA_INIT;
  weft_reshard_plan_t plan;
  weft_sharding_t from = {{weft_sharding_partial(0), weft_sharding_shard(0, 0)}};
  weft_sharding_t to = {{weft_sharding_shard(1, 0), weft_sharding_replicate(0)}};
  weft_status_t *s = weft_reshard_plan(&mesh, &from, &to, &matrix, 4, NULL, &arena, &plan);
  weft_arena_deinit(&arena);
  return s;
}

static void lack_of_memory_is_reported(void) {
  int n = 0;
  WEFT_FAIL_EACH_ALLOCATION(n, s, plan_once());
  CU_ASSERT_TRUE(n > 0);
}

int main(void) {
  CU_TestInfo tests[] = {{"every plan keeps the value", every_plan_keeps_the_value},
                         {"plans are the cheapest", plans_are_the_cheapest},
                         {"what cannot be is refused", what_cannot_be_is_refused},
                         {"lack of memory is reported", lack_of_memory_is_reported},
                         CU_TEST_INFO_NULL};
  return weft_run_tests("reshard", tests);
}
