/* T-COL-1: every primitive, type, size and algorithm gives what its definition says, with the same bits on
 * all ranks. */
#include <math.h>
#include <stdio.h>

#include "base/alloc.h"
#include "tests/collectives/world.h"
#include "tests/pace.h"
#include "tests/runner.h"

static const int group_sizes[] = {1, 2, 3, 4, 5, 7, 8};
static const weft_dtype_t dtypes[] = {WEFT_F16, WEFT_BF16, WEFT_F32, WEFT_F64, WEFT_I32, WEFT_I64, WEFT_U8};
static const weft_collective_algorithm_t algorithms[] = {
    WEFT_ALGORITHM_AUTO,         WEFT_ALGORITHM_RING,  WEFT_ALGORITHM_TREE, WEFT_ALGORITHM_HALVING_DOUBLING,
    WEFT_ALGORITHM_HIERARCHICAL, WEFT_ALGORITHM_DIRECT};
#define COUNT(list) (int)(sizeof list / sizeof list[0])

/* ---- values: numbers that any type holds, and floats that round when they are added ---- */

static void put(weft_dtype_t dtype, void *data, int64_t i, double value) {
  switch ((int)dtype) {
    case WEFT_F16: ((uint16_t *)data)[i] = weft_f32_to_f16((float)value); break;
    case WEFT_BF16: ((uint16_t *)data)[i] = weft_f32_to_bf16((float)value); break;
    case WEFT_F32: ((float *)data)[i] = (float)value; break;
    case WEFT_F64: ((double *)data)[i] = value; break;
    case WEFT_I32: ((int32_t *)data)[i] = (int32_t)value; break;
    case WEFT_I64: ((int64_t *)data)[i] = (int64_t)value; break;
    default: ((uint8_t *)data)[i] = (uint8_t)value; break;
  }
}

static double get(weft_dtype_t dtype, const void *data, int64_t i) {
  switch ((int)dtype) {
    case WEFT_F16: return weft_f16_to_f32(((const uint16_t *)data)[i]);
    case WEFT_BF16: return weft_bf16_to_f32(((const uint16_t *)data)[i]);
    case WEFT_F32: return ((const float *)data)[i];
    case WEFT_F64: return ((const double *)data)[i];
    case WEFT_I32: return ((const int32_t *)data)[i];
    case WEFT_I64: return (double)((const int64_t *)data)[i];
    default: return ((const uint8_t *)data)[i];
  }
}

static uint32_t scramble(uint32_t x) {
  x ^= x >> 16;
  x *= 0x7feb352du;
  x ^= x >> 15;
  x *= 0x846ca68bu;
  return x ^ (x >> 16);
}

static double value_of(weft_dtype_t dtype, int rank, int64_t i) {
  const uint32_t x = scramble((uint32_t)rank * 7919u + (uint32_t)i * 31u + 1u);
  if (weft_dtype_is_floating(dtype)) return ((double)(x % 20001u) - 10000.0) / 3333.0;
  if (dtype == WEFT_U8) return x % 200u;
  return (double)(x % 2001u) - 1000.0;
}

static weft_tensor_t *make(weft_dtype_t dtype, weft_shape_t shape, int rank) {
  weft_tensor_t *t = NULL;
  weft_status_t *s = weft_tensor_new(dtype, &shape, NULL, &t);
  CU_ASSERT_PTR_NULL_FATAL(s);
  for (int64_t i = 0; i < t->count; i++) put(dtype, t->data, i, value_of(dtype, rank, i));
  return t;
}

/* One step of a reduction, rounded as the type rounds. */
static double combine(weft_dtype_t dtype, weft_reduction_t op, double a, double b) {
  double v = op == WEFT_REDUCE_SUM    ? a + b
             : op == WEFT_REDUCE_PROD ? a * b
             : op == WEFT_REDUCE_MIN  ? fmin(a, b)
                                      : fmax(a, b);
  switch ((int)dtype) {
    case WEFT_F16: return weft_f16_to_f32(weft_f32_to_f16((float)v));
    case WEFT_BF16: return weft_bf16_to_f32(weft_f32_to_bf16((float)v));
    case WEFT_F32:
      return (float)v; /* of two floats a double sum and product are exact enough to be rounded once */
    case WEFT_I32: return (double)(int32_t)(uint32_t)(int64_t)v;
    case WEFT_U8: return (double)(uint8_t)(int64_t)v;
    default: return v;
  }
}

/* ---- a collective on all ranks ---- */

typedef struct trial {
  world_t *w;
  weft_collective_t call;   /* what all ranks say; shape: of rank 0 */
  int64_t rows[WORLD_MOST]; /* of each rank's input, if they differ; else -1 */
  weft_tensor_t *in[WORLD_MOST];
  result_t out[WORLD_MOST];
} trial_t;

static void run_trial(trial_t *t) {
  world_t *w = t->w;
  weft_collective_t calls[WORLD_MOST];
  for (int r = 0; r < w->n; r++) {
    weft_collective_t c = t->call;
    c.device = weft_str(w->devices[r]);
    c.rank = r;
    c.step_id = w->next_step;
    if (t->rows[r] >= 0) c.shape.dims[0] = t->rows[r];
    const bool gives =
        c.kind != WEFT_BARRIER && !((c.kind == WEFT_BROADCAST || c.kind == WEFT_SCATTER) && r != c.root);
    t->in[r] = gives ? make(c.dtype, c.shape, r) : NULL;
    c.input = t->in[r];
    calls[r] = c;
  }
  for (int r = w->n - 1; r >= 0; r--) world_start(w, r, &calls[r], NULL, &t->out[r]);
  for (int r = 0; r < w->n; r++) {
    world_wait(w, &t->out[r]);
    if (t->out[r].status != NULL)
      fprintf(stderr, "rank %d of %d: %s\n", r, w->n, weft_status_message(t->out[r].status));
    CU_ASSERT_PTR_NULL(t->out[r].status);
  }
  w->next_step++;
}

static void end_trial(trial_t *t) {
  for (int r = 0; r < t->w->n; r++) {
    weft_tensor_release(t->in[r]);
    result_deinit(&t->out[r]);
    weft_collectives_end_step(t->w->collectives[r], t->w->next_step - 1, NULL);
  }
  CU_ASSERT_EQUAL(weft_local_hub_num_waiting(t->w->hub), 0);
}

static trial_t trial(world_t *w, weft_collective_kind_t kind, weft_dtype_t dtype, weft_shape_t shape,
                     int64_t instance) {
  trial_t t = {.w = w, .call = world_call(w, 0, kind, dtype, shape)};
  t.call.instance_key = instance;
  for (int i = 0; i < WORLD_MOST; i++) t.rows[i] = -1;
  return t;
}

static void same_bits_on_all(const trial_t *t) {
  for (int r = 1; r < t->w->n; r++) {
    const weft_tensor_t *a = t->out[0].output, *b = t->out[r].output;
    CU_ASSERT_FATAL(a != NULL && b != NULL && a->bytes == b->bytes);
    CU_ASSERT_EQUAL(a->bytes == 0 ? 0 : memcmp(a->data, b->data, a->bytes), 0);
  }
}

/* The reduction of element i in the ring's order: chunk c begins at rank c. */
static double ring_oracle(const trial_t *t, int64_t i) {
  const int n = t->w->n;
  const int64_t count = t->in[0]->count;
  int c = 0;
  while (!(count * c / n <= i && i < count * (c + 1) / n)) c++;
  double acc = get(t->call.dtype, t->in[c]->data, i);
  for (int j = 1; j < n; j++)
    acc = combine(t->call.dtype, t->call.reduction, get(t->call.dtype, t->in[(c + j) % n]->data, i), acc);
  return acc;
}

static double mean_of(weft_dtype_t dtype, double sum, int n) {
  if (!weft_dtype_is_floating(dtype)) return (double)((int64_t)sum / n);
  return combine(dtype, WEFT_REDUCE_SUM, dtype == WEFT_F64 ? sum / n : (double)((float)sum / (float)n), 0);
}

static bool has_ring_bits(weft_collective_algorithm_t a) {
  return a == WEFT_ALGORITHM_RING || a == WEFT_ALGORITHM_DIRECT;
}

static double epsilon_of(weft_dtype_t dtype) {
  return dtype == WEFT_F16    ? ldexp(1, -11)
         : dtype == WEFT_BF16 ? ldexp(1, -8)
         : dtype == WEFT_F32  ? ldexp(1, -24)
                              : ldexp(1, -53);
}

/* got is the reduction of all inputs' element i. */
static bool is_reduction(const trial_t *t, int64_t i, double got) {
  const weft_dtype_t dtype = t->call.dtype;
  const int n = t->w->n;
  const bool is_sum = t->call.reduction == WEFT_REDUCE_SUM;
  double want = ring_oracle(t, i);
  if (t->call.is_mean) want = mean_of(dtype, want, n);
  if (!weft_dtype_is_floating(dtype) || !is_sum ||
      (has_ring_bits(t->call.algorithm) && t->call.kind == WEFT_ALL_REDUCE))
    return got == want;
  double magnitude = 0;
  for (int r = 0; r < n; r++) magnitude += fabs(get(dtype, t->in[r]->data, i));
  return fabs(got - want) <= 2 * n * epsilon_of(dtype) * magnitude;
}

static void check_reduced(const trial_t *t, int rank, int64_t from) {
  const weft_tensor_t *out = t->out[rank].output;
  int wrong = 0;
  for (int64_t i = 0; i < out->count; i++)
    wrong += !is_reduction(t, from + i, get(t->call.dtype, out->data, i));
  if (wrong > 0) {
    fprintf(stderr, "%s of %d ranks, %s, %lld elements, reduction %d%s: %d wrong at rank %d\n",
            weft_collective_algorithm_name(t->call.algorithm), t->w->n, weft_dtype_name(t->call.dtype),
            (long long)out->count, t->call.reduction, t->call.is_mean ? " (mean)" : "", wrong, rank);
  }
  CU_ASSERT_EQUAL(wrong, 0);
}

static void all_reduce(world_t *w, weft_dtype_t dtype, int64_t count, weft_collective_algorithm_t a,
                       weft_reduction_t op, bool is_mean, bool takes_input, int64_t instance) {
  trial_t t = trial(w, WEFT_ALL_REDUCE, dtype, weft_shape_vector(count), instance);
  t.call.algorithm = a;
  t.call.reduction = op;
  t.call.is_mean = is_mean;
  run_trial(&t);
  same_bits_on_all(&t);
  check_reduced(&t, 0, 0);
  if (takes_input) { /* again, and the bits are the same though the memory is another */
    trial_t u = t;
    u.call.takes_input = true;
    run_trial(&u);
    for (int r = 0; r < w->n; r++) {
      CU_ASSERT_PTR_EQUAL(u.out[r].output, u.in[r]);
      CU_ASSERT_EQUAL(
          count == 0 ? 0 : memcmp(u.out[r].output->data, t.out[0].output->data, t.out[0].output->bytes), 0);
    }
    end_trial(&u);
  }
  end_trial(&t);
}

static const char *const three_hosts[] = {"a", "a", "b", "b", "c", "c", "c", "c"};
static const char *const one_host[] = {"a", "a", "a", "a", "a", "a", "a", "a"};

static void all_reduce_gives_the_reduction(void) {
  const char *const *hosts[] = {NULL, three_hosts, one_host};
  for (int g = 0; g < COUNT(group_sizes); g++) {
    world_t w;
    const int n = group_sizes[g];
    world_init(&w, n, g % 3, false, hosts[g % 3]);
    const int64_t sizes[] = {0, 1, n - 1, n, n + 1, 1023};
    int64_t instance = 1;
    for (int d = 0; d < COUNT(dtypes); d++) {
      for (int a = 0; a < COUNT(algorithms); a++) {
        for (int z = 0; z < COUNT(sizes); z++) {
          const bool is_mean = (a + z + d) % 2 == 0;
          all_reduce(&w, dtypes[d], sizes[z], algorithms[a], WEFT_REDUCE_SUM, is_mean, (z + d) % 2 == 0,
                     instance++);
        }
        all_reduce(&w, dtypes[d], 17, algorithms[a], WEFT_REDUCE_MIN, false, false, instance++);
        all_reduce(&w, dtypes[d], 17, algorithms[a], WEFT_REDUCE_MAX, false, true, instance++);
      }
    }
    world_deinit(&w);
  }
}

enum {
  LARGE = (WEFT_TEST_IS_SANITIZED ? 1 << 19 : 1 << 20) + 3
}; /* elements: several fields in each chunk */

static void all_reduce_of_large_tensors(void) {
  const weft_dtype_t few[] = {WEFT_F32, WEFT_U8};
  for (int n = 3; n <= 4; n++) {
    world_t w;
    world_init(&w, n, 2, false, n == 4 ? three_hosts : NULL);
    for (int d = 0; d < (WEFT_TEST_IS_SANITIZED ? 1 : COUNT(few)); d++) {
      for (int a = 0; a < COUNT(algorithms); a++) {
        all_reduce(&w, few[d], LARGE, algorithms[a], WEFT_REDUCE_SUM, d == 0, true, 10 * d + a + 1);
      }
    }
    world_deinit(&w);
  }
}

static void hierarchical_on_even_hosts(void) {
  static const char *const even[] = {"a", "b", "a", "b", "a", "b", "a", "b"};
  for (int n = 2; n <= 8; n += 2) {
    world_t w;
    world_init(&w, n, 0, false, even);
    for (int z = 0; z < 4; z++)
      all_reduce(&w, WEFT_F32, 61 * z, WEFT_ALGORITHM_HIERARCHICAL, WEFT_REDUCE_SUM, z % 2 == 0, true, z + 1);
    world_deinit(&w);
  }
}

static void products_and_other_types(void) {
  world_t w;
  world_init(&w, 3, 0, false, NULL);
  const weft_dtype_t more[] = {WEFT_I8, WEFT_I16, WEFT_U16, WEFT_U32, WEFT_U64, WEFT_C64, WEFT_C128};
  for (int d = 0; d < COUNT(more); d++) {
    trial_t t = trial(&w, WEFT_ALL_REDUCE, more[d], weft_shape_vector(5), d + 1);
    weft_tensor_t *ones = NULL;
    result_t out[3];
    weft_shape_t shape = weft_shape_vector(5);
    CU_ASSERT_PTR_NULL_FATAL(weft_tensor_new(more[d], &shape, NULL, &ones));
    memset(ones->data, 0, ones->bytes);
    if (more[d] == WEFT_C64) ((weft_c64_t *)ones->data)[1] = (weft_c64_t){0, 1};
    if (more[d] == WEFT_C128) ((weft_c128_t *)ones->data)[1] = (weft_c128_t){0, 1};
    if (!weft_dtype_is_complex(more[d])) ((unsigned char *)ones->data)[weft_dtype_size(more[d])] = 7;
    t.call.reduction = WEFT_REDUCE_PROD;
    for (int r = 0; r < 3; r++) {
      weft_collective_t c = t.call;
      c.device = weft_str(w.devices[r]);
      c.rank = r;
      c.input = ones;
      world_start(&w, r, &c, NULL, &out[r]);
    }
    for (int r = 0; r < 3; r++) {
      world_wait(&w, &out[r]);
      CU_ASSERT_PTR_NULL_FATAL(out[r].status);
      const void *x = out[r].output->data;
      if (more[d] == WEFT_C64)
        CU_ASSERT(((const weft_c64_t *)x)[1].re == 0 && ((const weft_c64_t *)x)[1].im == -1); /* i^3 */
      if (more[d] == WEFT_C128)
        CU_ASSERT(((const weft_c128_t *)x)[1].re == 0 && ((const weft_c128_t *)x)[1].im == -1);
      if (more[d] == WEFT_I8) CU_ASSERT_EQUAL(((const int8_t *)x)[1], (int8_t)(343 - 256));
      if (more[d] == WEFT_U64) CU_ASSERT_EQUAL(((const uint64_t *)x)[1], 343);
      result_deinit(&out[r]);
    }
    weft_tensor_release(ones);
    w.next_step++;
  }
  world_deinit(&w);
}

/* ---- the other primitives ---- */

static void broadcast(world_t *w, weft_dtype_t dtype, int64_t count, weft_collective_algorithm_t a, int root,
                      int64_t instance) {
  trial_t t = trial(w, WEFT_BROADCAST, dtype, weft_shape_vector(count), instance);
  t.call.algorithm = a;
  t.call.root = root;
  run_trial(&t);
  same_bits_on_all(&t);
  CU_ASSERT_EQUAL(count == 0 ? 0 : memcmp(t.out[w->n - 1].output->data, t.in[root]->data, t.in[root]->bytes),
                  0);
  end_trial(&t);
}

static void scatter(world_t *w, weft_dtype_t dtype, int64_t rows, int root, int64_t instance) {
  trial_t t = trial(w, WEFT_SCATTER, dtype, weft_shape_matrix(rows, 2), instance);
  t.call.root = root;
  t.rows[root] = rows * w->n;
  run_trial(&t);
  for (int r = 0; r < w->n; r++) {
    const weft_tensor_t *o = t.out[r].output;
    CU_ASSERT_FATAL(o != NULL && o->shape.rank == 2 && o->shape.dims[0] == rows);
    CU_ASSERT_EQUAL(
        o->bytes == 0 ? 0 : memcmp(o->data, (const char *)t.in[root]->data + (size_t)r * o->bytes, o->bytes),
        0);
  }
  end_trial(&t);
}

static void gather(world_t *w, weft_collective_kind_t kind, weft_dtype_t dtype, int64_t rows, bool is_ragged,
                   int root, weft_collective_algorithm_t a, int64_t instance) {
  trial_t t = trial(w, kind, dtype, weft_shape_matrix(rows, 3), instance);
  t.call.root = kind == WEFT_GATHER ? root : -1;
  t.call.is_uniform = !is_ragged && instance % 2 == 0;
  t.call.algorithm = a;
  for (int r = 0; r < w->n && is_ragged; r++) t.rows[r] = (rows + r * 5) % 7;
  run_trial(&t);
  for (int r = 0; r < w->n; r++) {
    const weft_tensor_t *o = t.out[r].output;
    if (kind == WEFT_GATHER && r != root) {
      CU_ASSERT_PTR_NULL(o);
      continue;
    }
    CU_ASSERT_PTR_NOT_NULL_FATAL(o);
    size_t at = 0;
    for (int j = 0; j < w->n; j++) {
      CU_ASSERT_FATAL(at + t.in[j]->bytes <= o->bytes);
      CU_ASSERT_EQUAL(
          t.in[j]->bytes == 0 ? 0 : memcmp((const char *)o->data + at, t.in[j]->data, t.in[j]->bytes), 0);
      at += t.in[j]->bytes;
    }
    CU_ASSERT_EQUAL(at, o->bytes);
  }
  end_trial(&t);
}

static void all_to_all(world_t *w, weft_dtype_t dtype, int64_t rows, bool has_splits, int64_t instance) {
  trial_t t = trial(w, WEFT_ALL_TO_ALL, dtype, weft_shape_matrix(rows * w->n, 2), instance);
  int64_t splits[WORLD_MOST][WORLD_MOST];
  weft_collective_t calls[WORLD_MOST];
  for (int r = 0; r < w->n; r++) {
    int64_t total = 0;
    for (int j = 0; j < w->n; j++) total += splits[r][j] = has_splits ? (rows + r * 3 + j) % 4 : rows;
    calls[r] = t.call;
    calls[r].device = weft_str(w->devices[r]);
    calls[r].rank = r;
    calls[r].shape.dims[0] = total;
    calls[r].splits = has_splits ? splits[r] : NULL;
    calls[r].input = t.in[r] = make(dtype, calls[r].shape, r);
  }
  for (int r = 0; r < w->n; r++) world_start(w, r, &calls[r], NULL, &t.out[r]);
  w->next_step++;
  const size_t row = 2 * weft_dtype_size(dtype);
  for (int r = 0; r < w->n; r++) {
    world_wait(w, &t.out[r]);
    CU_ASSERT_PTR_NULL_FATAL(t.out[r].status);
    const weft_tensor_t *o = t.out[r].output;
    size_t at = 0;
    for (int j = 0; j < w->n; j++) { /* block r of rank j */
      size_t from = 0;
      for (int k = 0; k < r; k++) from += (size_t)splits[j][k] * row;
      const size_t n = (size_t)splits[j][r] * row;
      CU_ASSERT_FATAL(at + n <= o->bytes);
      CU_ASSERT_EQUAL(n == 0 ? 0 : memcmp((const char *)o->data + at, (const char *)t.in[j]->data + from, n),
                      0);
      at += n;
    }
    CU_ASSERT_EQUAL(at, o->bytes);
  }
  end_trial(&t);
}

static void reduce(world_t *w, weft_dtype_t dtype, int64_t count, int root, bool is_mean, bool takes_input,
                   int64_t instance) {
  trial_t t = trial(w, WEFT_REDUCE, dtype, weft_shape_vector(count), instance);
  t.call.root = root;
  t.call.is_mean = is_mean;
  run_trial(&t);
  for (int r = 0; r < w->n; r++) CU_ASSERT_EQUAL(t.out[r].output != NULL, r == root);
  check_reduced(&t, root, 0);
  if (takes_input) {
    trial_t u = t;
    u.call.takes_input = true;
    run_trial(&u);
    CU_ASSERT_EQUAL(
        count == 0 ? 0
                   : memcmp(u.out[root].output->data, t.out[root].output->data, t.out[root].output->bytes),
        0);
    end_trial(&u);
  }
  end_trial(&t);
}

static void reduce_scatter(world_t *w, weft_dtype_t dtype, int64_t rows, bool takes_input,
                           weft_collective_algorithm_t a, int64_t instance) {
  trial_t t = trial(w, WEFT_REDUCE_SCATTER, dtype, weft_shape_matrix(rows, 3), instance);
  t.call.algorithm = a;
  run_trial(&t);
  int64_t at = 0;
  for (int r = 0; r < w->n; r++) {
    const int64_t mine = rows * (r + 1) / w->n - rows * r / w->n;
    CU_ASSERT_EQUAL_FATAL(t.out[r].output->shape.dims[0], mine);
    check_reduced(&t, r, at);
    at += mine * 3;
  }
  if (takes_input) {
    trial_t u = t;
    u.call.takes_input = true;
    run_trial(&u);
    for (int r = 0; r < w->n; r++) {
      const weft_tensor_t *x = t.out[r].output, *y = u.out[r].output;
      CU_ASSERT_EQUAL(x->bytes == 0 ? 0 : memcmp(x->data, y->data, x->bytes), 0);
    }
    end_trial(&u);
  }
  end_trial(&t);
}

static void permute(world_t *w, weft_dtype_t dtype, int64_t count, int kind, int64_t instance) {
  trial_t t = trial(w, WEFT_PERMUTE, dtype, weft_shape_vector(count), instance);
  int targets[WORLD_MOST];
  for (int r = 0; r < w->n; r++)
    targets[r] = kind == 0 ? (r + 1) % w->n : kind == 1 ? w->n - 1 - r : r % 2 == 0 ? r / 2 : -1;
  t.call.targets = targets;
  run_trial(&t);
  for (int r = 0; r < w->n; r++) {
    int source = -1;
    for (int j = 0; j < w->n; j++) source = targets[j] == r ? j : source;
    const weft_tensor_t *o = t.out[r].output;
    CU_ASSERT_PTR_NOT_NULL_FATAL(o);
    for (int64_t i = 0; i < count; i++) {
      CU_ASSERT_EQUAL(get(dtype, o->data, i), source < 0 ? 0 : get(dtype, t.in[source]->data, i));
    }
  }
  end_trial(&t);
}

static void barrier(world_t *w, int64_t instance) {
  trial_t t = trial(w, WEFT_BARRIER, WEFT_F32, WEFT_SCALAR, instance);
  run_trial(&t);
  for (int r = 0; r < w->n; r++) CU_ASSERT_PTR_NULL(t.out[r].output);
  end_trial(&t);
}

static void every_other_primitive(void) {
  const char *const *hosts[] = {one_host, NULL, three_hosts};
  for (int g = 0; g < COUNT(group_sizes); g++) {
    world_t w;
    const int n = group_sizes[g];
    world_init(&w, n, (g + 1) % 3, false, hosts[g % 3]);
    const int64_t sizes[] = {0, 1, n - 1, n, n + 1, 1023};
    int64_t instance = 1;
    for (int d = 0; d < COUNT(dtypes); d++) {
      for (int z = 0; z < COUNT(sizes); z++) {
        const int root = (z + d) % n;
        for (int a = 0; a < COUNT(algorithms); a++)
          broadcast(&w, dtypes[d], sizes[z], algorithms[a], root, instance++);
        scatter(&w, dtypes[d], sizes[z], root, instance++);
        for (int k = 0; k < 2; k++) {
          gather(&w, WEFT_GATHER, dtypes[d], sizes[z], k == 1, root, WEFT_ALGORITHM_AUTO, instance++);
          gather(&w, WEFT_ALL_GATHER, dtypes[d], sizes[z], k == 1, root, WEFT_ALGORITHM_RING, instance++);
          gather(&w, WEFT_ALL_GATHER, dtypes[d], sizes[z], k == 1, root, WEFT_ALGORITHM_DIRECT, instance++);
          all_to_all(&w, dtypes[d], z % 3, k == 1, instance++);
          reduce_scatter(&w, dtypes[d], sizes[z], k == 1,
                         k == 0 ? WEFT_ALGORITHM_RING : WEFT_ALGORITHM_DIRECT, instance++);
        }
        reduce(&w, dtypes[d], sizes[z], root, z % 2 == 0, d % 2 == 0, instance++);
        permute(&w, dtypes[d], sizes[z], z % 3, instance++);
      }
      barrier(&w, instance++);
    }
    world_deinit(&w);
  }
}

static void large_tensors_of_other_primitives(void) {
  world_t w;
  world_init(&w, 3, 2, false, NULL);
  const int64_t count = LARGE;
  for (int a = 0; a < COUNT(algorithms); a++) broadcast(&w, WEFT_F32, count, algorithms[a], 1, a + 1);
  reduce(&w, WEFT_F32, count, 2, true, true, 20);
  gather(&w, WEFT_ALL_GATHER, WEFT_F32, count / 3, false, 0, WEFT_ALGORITHM_RING, 21);
  gather(&w, WEFT_GATHER, WEFT_U8, count / 3, false, 1, WEFT_ALGORITHM_AUTO, 22);
  reduce_scatter(&w, WEFT_F32, count / 3, true, WEFT_ALGORITHM_RING, 23);
  reduce_scatter(&w, WEFT_F32, count / 3, true, WEFT_ALGORITHM_DIRECT, 24);
  scatter(&w, WEFT_F64, count / 6, 2, 25);
  all_to_all(&w, WEFT_F32, count / 6, false, 26);
  permute(&w, WEFT_F32, count, 0, 27);
  world_deinit(&w);
}

/* ---- members and order ---- */

static void devices_of_one_task_are_members(void) {
  world_t w;
  world_init(&w, 1, 2, false, NULL);
  for (int step = 1; step < 4; step++) {
    result_t out[3];
    weft_tensor_t *in[3];
    char devices[3][64];
    for (int r = 0; r < 3; r++) {
      snprintf(devices[r], sizeof devices[r], "/job:worker/replica:0/task:0/device:CPU:%d", r);
      in[r] = make(WEFT_I32, weft_shape_vector(10), r);
      weft_collective_t c = world_call(&w, 0, WEFT_ALL_REDUCE, WEFT_I32, weft_shape_vector(10));
      c.device = weft_str(devices[r]);
      c.rank = -1;
      c.group_size = 3;
      c.step_id = step;
      c.input = in[r];
      world_start(&w, 0, &c, NULL, &out[r]);
    }
    for (int r = 0; r < 3; r++) {
      world_wait(&w, &out[r]);
      CU_ASSERT_PTR_NULL_FATAL(out[r].status);
      double want = 0;
      for (int q = 0; q < 3; q++) want += value_of(WEFT_I32, q, 4);
      CU_ASSERT_EQUAL(get(WEFT_I32, out[r].output->data, 4), want);
    }
    for (int r = 0; r < 3; r++) {
      result_deinit(&out[r]);
      weft_tensor_release(in[r]);
    }
    weft_collectives_end_step(w.collectives[0], step, NULL);
  }
  world_deinit(&w);
}

/* One instance runs many times in a step, once per iteration, and the ranks are not in step. */
static void iterations_of_a_loop_do_not_mix(void) {
  enum { RANKS = 3, ITERATIONS = 6 };
  world_t w;
  world_init(&w, RANKS, 1, false, NULL);
  for (int step = 0; step < 2; step++) {
    result_t out[RANKS][ITERATIONS];
    weft_tensor_t *in[RANKS][ITERATIONS];
    for (int r = 0; r < RANKS; r++) {
      for (int k = 0; k < ITERATIONS; k++) {
        const int i = (k * 5 + r) % ITERATIONS; /* each rank in an order of its own */
        in[r][i] = make(WEFT_I32, weft_shape_vector(7), r * 10 + i);
        weft_collective_t c = world_call(&w, r, WEFT_ALL_REDUCE, WEFT_I32, weft_shape_vector(7));
        c.frame_id = 77;
        c.iteration = i;
        c.input = in[r][i];
        world_start(&w, r, &c, NULL, &out[r][i]);
      }
    }
    for (int r = 0; r < RANKS; r++) {
      for (int i = 0; i < ITERATIONS; i++) {
        world_wait(&w, &out[r][i]);
        CU_ASSERT_PTR_NULL_FATAL(out[r][i].status);
        double want = 0;
        for (int q = 0; q < RANKS; q++) want += value_of(WEFT_I32, q * 10 + i, 3);
        CU_ASSERT_EQUAL(get(WEFT_I32, out[r][i].output->data, 3), want);
        result_deinit(&out[r][i]);
        weft_tensor_release(in[r][i]);
      }
    }
    w.next_step++;
  }
  world_deinit(&w);
}

/* All say the same: every name finds its algorithm, and no other does. */
static void algorithms_have_names(void) {
  for (int a = 0; a < COUNT(algorithms); a++) {
    weft_collective_algorithm_t got = WEFT_ALGORITHM_AUTO;
    CU_ASSERT(weft_collective_algorithm_parse(weft_str(weft_collective_algorithm_name(algorithms[a])), &got));
    CU_ASSERT_EQUAL(got, algorithms[a]);
  }
  weft_collective_algorithm_t got = WEFT_ALGORITHM_RING;
  CU_ASSERT(weft_collective_algorithm_parse(WEFT_STR("nccl"), &got) && got == WEFT_ALGORITHM_AUTO);
  CU_ASSERT(weft_collective_algorithm_parse(WEFT_STR(""), &got));
  CU_ASSERT_FALSE(weft_collective_algorithm_parse(WEFT_STR("rings"), &got));
}

static const CU_TestInfo tests[] = {
    {"devices of one task are members", devices_of_one_task_are_members},
    {"iterations of a loop do not mix", iterations_of_a_loop_do_not_mix},
    {"algorithms have names", algorithms_have_names},
    {"all-reduce gives the reduction", all_reduce_gives_the_reduction},
    {"all-reduce of large tensors", all_reduce_of_large_tensors},
    {"hierarchical all-reduce on hosts of equal size", hierarchical_on_even_hosts},
    {"products, and the other types", products_and_other_types},
    {"every other primitive", every_other_primitive},
    {"large tensors of other primitives", large_tensors_of_other_primitives},
    CU_TEST_INFO_NULL,
};

int main(void) { return weft_run_tests("collectives", tests); }
