/* kernels/cpu/dataset/auto_shard.c - a worker's own part of a data set: some of its files where there are
 * any, else some of its elements. Source: TensorFlow's auto_shard rewrite, done here on the data sets
 * themselves.
 *
 * Weft's own policies are for strategies. Workers with steps of their own are dealt whole batches, or files.
 * Workers that share each step get their rows of each batch, or of batches of their own files in turns
 * (worker_part.h), so that a step has the rows of one batch of the data set.
 *
 * By files: going up through data sets of which a part of the input gives a part, the first that makes data
 * sets of files out of elements gets every num_workers-th of these. A shuffle above it moves behind, so that
 * all workers cut the same order. By data: the whole is cut, but for a prefetch at its end.
 */
#include "kernels/cpu/dataset/auto_shard.h"

#include "base/alloc.h"
#include "base/log.h"
#include "kernels/cpu/dataset/interleave.h"
#include "kernels/cpu/dataset/options.h"
#include "kernels/cpu/dataset/sequence.h"
#include "kernels/cpu/dataset/unbatch.h"
#include "kernels/cpu/dataset/worker_part.h"

typedef enum shard_policy {
  POLICY_STEP_BY_DATA = -4, /* Weft's own, as the next two: rows of the same batches for all workers */
  POLICY_STEP = -3,         /* as the options of the data set say, for workers that share each step */
  POLICY_OF_OPTIONS = -2,   /* as the options of the data set say */
  POLICY_OFF = -1,
  POLICY_AUTO,
  POLICY_FILE,
  POLICY_DATA,
  POLICY_HINT
} shard_policy_t;

typedef struct auto_shard {
  int64_t policy, num_replicas, num_workers, index;
  bool is_lenient; /* where AUTO finds fewer files than workers, elements are cut */
} auto_shard_t;

/* The same data set with another input 0. */
static weft_status_t *with_input(const weft_dataset_t *d, weft_dataset_t *input, weft_dataset_t **out) {
  WEFT_RETURN_IF_ERROR(weft_dataset_create(d, d->inputs, d->num_inputs, out));
  weft_dataset_retain(input);
  weft_dataset_release((*out)->inputs[0]);
  (*out)->inputs[0] = input;
  return NULL;
}

/* ---- by files ---- */

static bool makes_files(const weft_dataset_t *d) {
  return (d->class == &weft_flat_map_class || d->class == &weft_interleave_class) &&
         weft_callee_holds(d->fns[0]->callee, WEFT_OP_READS_FILES);
}

/* `d` without the shuffles above; *shuffle: the uppermost of them, lent, or NULL. */
static weft_status_t *without_shuffle(weft_dataset_t *d, const weft_dataset_t **shuffle,
                                      weft_dataset_t **out) {
  if (d->class == &weft_shuffle_class) {
    *shuffle = d;
    return without_shuffle(d->inputs[0], shuffle, out);
  }
  if (d->num_inputs != 1) {
    *out = weft_dataset_retain(d);
    return NULL;
  }
  weft_dataset_t *input = NULL;
  WEFT_RETURN_IF_ERROR(without_shuffle(d->inputs[0], shuffle, &input));
  weft_status_t *s = with_input(d, input, out);
  weft_dataset_release(input);
  return s;
}

/* Is AUTO to cut elements, as a worker would have no file? */
static bool lacks_files(const auto_shard_t *a, const weft_dataset_t *names) {
  const int64_t n = weft_dataset_cardinality(names);
  return a->is_lenient && a->policy == POLICY_AUTO && n >= 0 && n < a->num_workers;
}

/* The elements of `d`, names of files, for this worker. */
static weft_status_t *shard_names(const auto_shard_t *a, weft_dataset_t *d, weft_dataset_t **out) {
  const weft_dataset_t *shuffle = NULL;
  weft_dataset_t *names = NULL, *shard = NULL;
  weft_status_t *s = without_shuffle(d, &shuffle, &names);
  if (s == NULL && lacks_files(a, names)) {
    s = WEFT_ERROR(NOT_FOUND, "the data set has %lld files for %lld workers",
                   (long long)weft_dataset_cardinality(names), (long long)a->num_workers);
  }
  if (s == NULL) s = weft_shard_create(names, a->num_workers, a->index, true, &shard);
  if (s == NULL && shuffle != NULL) {
    s = with_input(shuffle, shard, out);
  } else if (s == NULL) {
    *out = weft_dataset_retain(shard);
  }
  weft_dataset_release(names);
  weft_dataset_release(shard);
  return s;
}

static weft_status_t *by_files(const auto_shard_t *a, weft_dataset_t *d, weft_dataset_t **out);

/* The same data set with inputs [0, n) cut by files. */
static weft_status_t *inputs_by_files(const auto_shard_t *a, const weft_dataset_t *d, int n,
                                      weft_dataset_t **out) {
  WEFT_RETURN_IF_ERROR(weft_dataset_create(d, d->inputs, d->num_inputs, out));
  for (int i = 0; i < n; i++) {
    weft_dataset_t *part = NULL;
    weft_status_t *s = by_files(a, d->inputs[i], &part);
    if (s != NULL) {
      weft_dataset_release(*out);
      *out = NULL;
      return s;
    }
    weft_dataset_release((*out)->inputs[i]);
    (*out)->inputs[i] = part;
  }
  return NULL;
}

/* Errors: NOT_FOUND: there are no files. */
static weft_status_t *by_files(const auto_shard_t *a, weft_dataset_t *d, weft_dataset_t **out) {
  if (d->class == &weft_assert_cardinality_class) return by_files(a, d->inputs[0], out);
  if (d->class == &weft_concatenate_class || d->class == &weft_zip_class)
    return inputs_by_files(a, d, d->num_inputs, out);
  if (makes_files(d)) {
    weft_dataset_t *names = NULL;
    WEFT_RETURN_IF_ERROR(shard_names(a, d->inputs[0], &names));
    weft_status_t *s = with_input(d, names, out);
    weft_dataset_release(names);
    return s;
  }
  if (d->class->shards_by_input) return inputs_by_files(a, d, 1, out);
  if (d->num_inputs == 0)
    return WEFT_ERROR(NOT_FOUND, "Found an unshardable source dataset: %s", d->class->name);
  return WEFT_ERROR(
      NOT_FOUND,
      "Did not find a shardable source, walked to a node which is not a dataset: %s. Consider either "
      "turning off auto-sharding or switching the auto_shard_policy to DATA to shard this dataset. You "
      "can do this by creating a new `tf.data.Options()` object then setting "
      "`options.experimental_distribute.auto_shard_policy = AutoShardPolicy.DATA` before applying the "
      "options object to the dataset via `dataset.with_options(options)`.",
      d->class->name);
}

/* ---- by data ---- */

/* Where a batch of all replicas is cut in parts of given sizes, equal parts take their place: only these are
 * right when the batches are dealt out to workers. */
static weft_status_t *in_parts(const auto_shard_t *a, weft_dataset_t *d, weft_dataset_t **out) {
  if (d->class != &weft_rebatch_class || (a->num_replicas <= 0 && a->is_lenient)) {
    *out = weft_dataset_retain(d);
    return NULL;
  }
  if (a->num_replicas <= 0) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "Cannot rewrite RebatchDatasetV2 to legacy RebatchDataset with invalid num_replicas "
                      "argument. `num_replicas` is %lld, but expected to be >= 1.",
                      (long long)a->num_replicas);
  }
  return weft_rebatch_parts_create(d, a->num_replicas, out);
}

static weft_status_t *by_data(const auto_shard_t *a, weft_dataset_t *d, weft_dataset_t **out) {
  weft_dataset_t *part = NULL, *all = NULL;
  weft_status_t *s;
  if (d->class == &weft_prefetch_class || d->class == &weft_options_class) {
    s = by_data(a, d->inputs[0], &part);
    if (s == NULL) s = with_input(d, part, out);
  } else {
    s = in_parts(a, d, &all);
    if (s == NULL) s = weft_shard_create(all, a->num_workers, a->index, true, out);
  }
  weft_dataset_release(part);
  weft_dataset_release(all);
  return s;
}

static weft_status_t *cut(const auto_shard_t *a, weft_dataset_t *d, weft_dataset_t **out) {
  if (a->policy == POLICY_OFF || (a->num_workers == 1 && a->is_lenient)) {
    *out = weft_dataset_retain(d);
    return NULL;
  }
  if (a->policy == POLICY_DATA) return by_data(a, d, out);
  weft_status_t *s = by_files(a, d, out);
  if (a->policy == POLICY_FILE || weft_status_code(s) != WEFT_NOT_FOUND) return s;
  if (a->num_workers > 1) {
    weft_log(WEFT_LOG_WARNING,
             "a data set is cut by elements among %lld workers, since it has no files to cut by: %s",
             (long long)a->num_workers, weft_status_message(s));
  }
  weft_status_free(s);
  return by_data(a, d, out);
}

/* ---- for workers that share each step ---- */

/* A worker's own batches in parts, one for each step. The sizes of its parts take turns, so that all workers
 * together have as many rows in a step as one batch. Source: TensorFlow's batch_sizes_for_worker. */
static weft_status_t *in_turns(const auto_shard_t *a, weft_dataset_t *d, weft_dataset_t **out) {
  const int64_t size = weft_dataset_batch_size(d), n = a->num_workers;
  if (size < n) return weft_turns_create(d, n, a->index, out); /* -1: it is not known */
  int64_t *sizes = weft_calloc((size_t)n, sizeof *sizes);
  if (sizes == NULL) return WEFT_NO_MEMORY("a data set");
  for (int64_t k = 0; k < n; k++) sizes[k] = size / n + ((k + a->index) % n < size % n);
  weft_status_t *s = weft_rebatch_create(d, sizes, n, out);
  weft_free(sizes);
  return s;
}

/* Batches that may be shorter at the end: workers whose files have more elements go on. */
static bool may_be_partial(const weft_dataset_t *d) {
  for (int i = 0; i < d->spec->n; i++) {
    const weft_shape_t *shape = &d->spec->shapes[i];
    if (shape->rank < 1 || shape->dims[0] < 0) return true;
  }
  return false;
}

static weft_status_t *step_by_files(const auto_shard_t *a, weft_dataset_t *d, weft_dataset_t **out) {
  weft_dataset_t *mine = NULL, *parts = NULL;
  weft_status_t *s = by_files(a, d, &mine);
  if (s == NULL) s = in_turns(a, mine, &parts);
  if (s == NULL && may_be_partial(d)) {
    s = weft_then_empty_create(parts, out);
  } else if (s == NULL) {
    *out = weft_dataset_retain(parts);
  }
  weft_dataset_release(mine);
  weft_dataset_release(parts);
  return s;
}

/* Where elements are cut in any case, all workers are at the same element. */
static weft_status_t *step(const auto_shard_t *a, weft_dataset_t *d, bool is_by_data, weft_dataset_t **out) {
  weft_status_t *s = a->policy == POLICY_DATA ? NULL : step_by_files(a, d, out);
  if (s == NULL && a->policy != POLICY_DATA) return NULL;
  if (s != NULL && (a->policy == POLICY_FILE || weft_status_code(s) != WEFT_NOT_FOUND)) return s;
  weft_status_free(s);
  return weft_part_create(d, a->num_workers, a->index, is_by_data, out);
}

/* `a` has one of Weft's own policies. */
static weft_status_t *cut_own(auto_shard_t *a, weft_dataset_t *d, weft_dataset_t **out) {
  enum { MAX_WORKERS = 1 << 20 };
  const int64_t policy = a->policy;
  if (a->num_workers > MAX_WORKERS)
    return WEFT_ERROR(INVALID_ARGUMENT, "num_workers cannot be above %d", MAX_WORKERS);
  a->is_lenient = true;
  a->policy = policy == POLICY_STEP_BY_DATA ? POLICY_DATA : weft_options_shard_policy(d);
  if (policy == POLICY_OF_OPTIONS || a->num_workers == 1) return cut(a, d, out);
  return step(a, d, policy == POLICY_STEP_BY_DATA, out);
}

weft_status_t *weft_auto_shard(weft_dataset_t *d, int64_t policy, int64_t num_workers, int64_t index,
                               weft_dataset_t **out) {
  auto_shard_t a = {.policy = policy, .num_workers = num_workers, .index = index};
  return cut_own(&a, d, out);
}

/* ---- kernels ---- */

typedef struct auto_shard_params {
  weft_dataset_params_t base;
  auto_shard_t a; /* its attributes */
} auto_shard_params_t;

static weft_status_t *read(const weft_kernel_setup_t *setup, void *params) {
  auto_shard_t *a = &((auto_shard_params_t *)params)->a;
  a->policy = weft_knode_int(setup, "auto_shard_policy");
  a->num_replicas = weft_knode_int_or(setup, "num_replicas", 0);
  return NULL;
}

/* num_workers, index */
static weft_status_t *rewrite(weft_kernel_ctx_t *c, const void *params, weft_dataset_t *input,
                              weft_dataset_t **out) {
  auto_shard_t a = ((const auto_shard_params_t *)params)->a;
  WEFT_RETURN_IF_ERROR(weft_dataset_in_int(c, 1, "num_workers", &a.num_workers));
  WEFT_RETURN_IF_ERROR(weft_dataset_in_int(c, 2, "index", &a.index));
  if (a.num_workers < 1) {
    return WEFT_ERROR(INVALID_ARGUMENT, "num_workers should be >= 1, currently %lld",
                      (long long)a.num_workers);
  }
  if (a.index < 0 || a.index >= a.num_workers) {
    return WEFT_ERROR(INVALID_ARGUMENT, "index should be >= 0 and < %lld, currently %lld",
                      (long long)a.num_workers, (long long)a.index);
  }
  return a.policy <= POLICY_OF_OPTIONS ? cut_own(&a, input, out) : cut(&a, input, out);
}

static const weft_dataset_op_t op = {
    .num_inputs = 1, .params_size = sizeof(auto_shard_params_t), .read = read, .rewrite = rewrite};

const weft_kernel_t weft_cpu_dataset_auto_shard_kernels[] = {
    WEFT_DATASET_ROW("AutoShardDataset", op),
    WEFT_DATASET_ROW("ExperimentalAutoShardDataset", op),
    {0},
};
