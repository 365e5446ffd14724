/* worker/peaks.c - a product and a copy, each several times; the best counts.
 *
 * The product is a graph of three nodes, so that it is the kernel of the device that is measured, on the
 * threads that its steps have.
 */
#include "worker/peaks.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "executor/executor.h"

enum { SMALL_SIDE = 1024, LARGE_SIDE = 4096, MIN_RUNS = 3, MAX_RUNS = 20 };
static const int64_t run_for_ns = 80000000, large_if_below_ns = 2000000;
static const size_t copy_bytes = (size_t)128 << 20;

void weft_peaks_init(weft_peaks_t *p) {
  *p = (weft_peaks_t){.flops = 0};
  weft_mutex_init(&p->mu);
}

void weft_peaks_deinit(weft_peaks_t *p) { weft_mutex_deinit(&p->mu); }

/* ---- operations ---- */

static weft_status_t *add_matrix(weft_graph_t *g, const char *name, int64_t side, weft_node_t **out) {
  const weft_shape_t shape = weft_shape_matrix(side, side);
  weft_tensor_t *t = NULL;
  WEFT_RETURN_IF_ERROR(weft_tensor_new(WEFT_F32, &shape, NULL, &t));
  float *x = t->data;
  for (int64_t i = 0; i < side * side; i++) x[i] = 1.0f / (float)(1 + i % 7);
  const weft_named_attr_t attrs[] = {
      weft_type_attr("dtype", WEFT_F32),
      {WEFT_STR("value"), {.kind = WEFT_ATTR_TENSOR, .tensor = t}},
  };
  const weft_node_spec_t spec = {
      .name = weft_str(name), .op = WEFT_STR("Const"), .attrs = attrs, .num_attrs = 2};
  weft_status_t *s = weft_graph_add(g, &spec, out);
  weft_tensor_release(t);
  return s;
}

static weft_status_t *make_product(weft_device_t *d, int64_t side, weft_exec_plan_t **out) {
  weft_graph_t *g = NULL;
  weft_node_t *a = NULL, *b = NULL, *product = NULL;
  WEFT_RETURN_IF_ERROR(weft_graph_create(&g));
  weft_status_t *s = add_matrix(g, "a", side, &a);
  if (s == NULL) s = add_matrix(g, "b", side, &b);
  if (s == NULL) {
    const weft_output_t inputs[] = {{a, 0}, {b, 0}};
    const weft_node_spec_t spec = {
        .name = WEFT_STR("product"), .op = WEFT_STR("MatMul"), .inputs = inputs, .num_inputs = 2};
    s = weft_graph_add(g, &spec, &product);
  }
  const weft_plan_options_t options = {.device = d};
  if (s == NULL) s = weft_plan_create(g, &options, out);
  weft_graph_destroy(g);
  return s;
}

/* The shortest of some runs, after one that warms up; 0: it could not be run. */
static int64_t time_product(weft_device_t *d, int64_t side) {
  weft_exec_plan_t *plan = NULL;
  int64_t best_ns = 0, began_ns = 0;
  weft_status_t *s = make_product(d, side, &plan);
  for (int i = -1; s == NULL && i < MAX_RUNS; i++) {
    const weft_run_options_t run = {.step = {.id = 0}};
    int64_t start_ns = weft_clock_ns();
    s = weft_plan_run_sync(plan, &run);
    int64_t took_ns = weft_clock_ns() - start_ns;
    if (i == 0) began_ns = start_ns;
    if (s == NULL && i >= 0 && (best_ns == 0 || took_ns < best_ns)) best_ns = took_ns > 0 ? took_ns : 1;
    if (i >= MIN_RUNS && weft_clock_ns() - began_ns > run_for_ns) break;
  }
  weft_plan_release(plan);
  weft_status_free(s); /* the peak stays unknown */
  return best_ns;
}

static double measure_flops(weft_device_t *d) {
  int64_t side = SMALL_SIDE, ns = time_product(d, side);
  if (ns > 0 && ns < large_if_below_ns) { /* many processors: a larger one keeps them all busy */
    int64_t large_ns = time_product(d, LARGE_SIDE);
    if (large_ns > 0) {
      side = LARGE_SIDE;
      ns = large_ns;
    }
  }
  return ns > 0 ? 2e9 * (double)side * (double)side * (double)side / (double)ns : 0;
}

/* ---- bytes ---- */

typedef struct copy_job {
  char *to;
  const char *from;
} copy_job_t;

static void copy_range(void *arg, int64_t begin, int64_t end) {
  const copy_job_t *c = arg;
  memcpy(c->to + begin, c->from + begin, (size_t)(end - begin));
}

static void touch_range(void *arg, int64_t begin, int64_t end) {
  memset((char *)arg + begin, 1, (size_t)(end - begin));
}

static double measure_bytes(weft_device_t *d) {
  enum { GRAIN = 1 << 20, PASSES = 3 };
  char *from = weft_malloc(copy_bytes), *to = weft_malloc(copy_bytes);
  int64_t best_ns = 0;
  if (from != NULL && to != NULL) {
    weft_parallel_for(d->pool, (int64_t)copy_bytes, GRAIN, touch_range, from);
    weft_parallel_for(d->pool, (int64_t)copy_bytes, GRAIN, touch_range, to);
    for (int i = 0; i < PASSES; i++) {
      int64_t start_ns = weft_clock_ns();
      weft_parallel_for(d->pool, (int64_t)copy_bytes, GRAIN, copy_range, &(copy_job_t){to, from});
      int64_t took_ns = weft_clock_ns() - start_ns;
      if (best_ns == 0 || took_ns < best_ns) best_ns = took_ns > 0 ? took_ns : 1;
    }
  }
  weft_free(from);
  weft_free(to);
  return best_ns > 0 ? 2e9 * (double)copy_bytes / (double)best_ns : 0;
}

void weft_peaks_get(weft_peaks_t *p, weft_device_t *d, double *out_flops, double *out_bytes) {
  weft_mutex_lock(&p->mu); /* held while it is measured: other callers want the same */
  if (!p->is_measured) {
    p->flops = measure_flops(d);
    p->bytes = measure_bytes(d);
    p->is_measured = true;
  }
  *out_flops = p->flops;
  *out_bytes = p->bytes;
  weft_mutex_unlock(&p->mu);
}
