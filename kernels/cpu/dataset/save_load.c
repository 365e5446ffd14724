/* kernels/cpu/dataset/save_load.c - a whole data set to disk and back (snapshot.h): SaveDataset, which writes
 * it, SaveDatasetV2, whose elements are those that it writes, and LoadDataset. */
#include "base/alloc.h"
#include "kernels/cpu/dataset/own_pass.h"
#include "kernels/cpu/dataset/saved.h"
#include "kernels/cpu/dataset/snapshot.h"

/* ---- saving ---- */

/* Writes an element to the shard that the function says; without one, to the first. */
static weft_status_t *put(weft_iterator_t *it, const weft_dataset_fn_t *shard_of, weft_snapshot_writer_t *w,
                          weft_tensor_t *const *element) {
  int64_t shard = 0;
  if (shard_of != NULL) WEFT_RETURN_IF_ERROR(weft_snapshot_shard_of(it, shard_of, element, &shard));
  return weft_snapshot_writer_put(w, shard, element);
}

typedef struct save_node {
  weft_compression_t compression;
  weft_callee_t *shard_of; /* NULL: there is one shard */
  int num_captured;
} save_node_t;

static weft_status_t *save_prepare(const weft_kernel_setup_t *setup, void **out_state) {
  save_node_t *n = weft_calloc(1, sizeof *n);
  if (n == NULL) return WEFT_NO_MEMORY("preparing %s", setup->node.name.data);
  (void)weft_compression_find(weft_knode_string(setup, "compression"), &n->compression);
  n->num_captured = weft_knode_attr(setup, "Tshard_func_args")->n;
  weft_status_t *s = NULL;
  if (weft_knode_bool(setup, "use_shard_func")) s = weft_knode_callee(setup, "shard_func", &n->shard_of);
  if (s != NULL) {
    weft_free(n);
    return s;
  }
  *out_state = n;
  return NULL;
}

static weft_status_t *save_all(weft_iterator_t *root, const weft_dataset_fn_t *shard_of,
                               weft_snapshot_writer_t *w) {
  const int n = root->of->spec->n;
  weft_tensor_t **element = weft_calloc((size_t)n, sizeof *element);
  weft_status_t *s = element == NULL ? WEFT_NO_MEMORY("saving a data set") : NULL;
  for (bool is_end = false; s == NULL;) {
    s = weft_iterator_next(root, element, &is_end);
    if (s != NULL || is_end) break;
    s = put(root, shard_of, w, element);
    weft_element_release(element, n);
  }
  weft_free(element);
  return s;
}

static weft_status_t *save_to(weft_kernel_ctx_t *c, weft_iterator_t *root,
                              const weft_dataset_fn_t *shard_of) {
  const save_node_t *n = c->state;
  weft_snapshot_writer_t *w = NULL;
  weft_str_t path;
  WEFT_RETURN_IF_ERROR(weft_dataset_in_string(c, 1, "path", &path));
  char *dir = weft_strndup(path.data, path.length);
  weft_status_t *s = dir == NULL ? WEFT_NO_MEMORY("saving a data set")
                                 : weft_snapshot_writer_create(dir, 0, n->compression, root->of->spec, &w);
  weft_free(dir);
  if (s == NULL) s = save_all(root, shard_of, w);
  if (s == NULL) return weft_snapshot_writer_finish(w, root->canceller);
  weft_snapshot_writer_abandon(w);
  return s;
}

static weft_status_t *save_run(weft_kernel_ctx_t *c, weft_iterator_t *root) {
  const save_node_t *n = c->state;
  weft_dataset_fn_t *fn = weft_calloc(1, sizeof *fn + (size_t)n->num_captured * sizeof(weft_tensor_t *));
  if (fn == NULL) return WEFT_NO_MEMORY("saving a data set");
  fn->callee = n->shard_of;
  fn->num_captured = n->num_captured;
  for (int i = 0; i < n->num_captured; i++) fn->captured[i] = weft_in(c, 2 + i);
  weft_status_t *s = save_to(c, root, n->shard_of != NULL ? fn : NULL);
  weft_free(fn);
  return s;
}

static void save_compute(weft_kernel_ctx_t *c) { weft_dataset_pass(c, 0, save_run); }

/* ---- a data set that is saved as it is gone through ---- */

typedef struct snapshot_params {
  weft_dataset_params_t base;
  weft_compression_t compression;
  bool is_sharded;
  char *dir;                         /* owned */
  weft_snapshot_metadata_t metadata; /* of one that is loaded */
} snapshot_params_t;

typedef struct saving {
  weft_iterator_t base;
  weft_snapshot_writer_t *writer; /* NULL: before the first element, and behind the last */
} saving_t;

static const snapshot_params_t *params_of(const weft_iterator_t *it) {
  return (const snapshot_params_t *)it->of->params;
}

static weft_status_t *saving_next(weft_iterator_t *it, weft_tensor_t **out, bool *is_end) {
  saving_t *s = (saving_t *)it;
  const snapshot_params_t *p = params_of(it);
  if (s->writer == NULL)
    WEFT_RETURN_IF_ERROR(weft_snapshot_writer_create(p->dir, 0, p->compression, it->of->spec, &s->writer));
  WEFT_RETURN_IF_ERROR(weft_iterator_next(it->input, out, is_end));
  if (!*is_end) return put(it, p->is_sharded ? it->of->fns[0] : NULL, s->writer, out);
  weft_snapshot_writer_t *w = s->writer;
  s->writer = NULL;
  return weft_snapshot_writer_finish(w, it->canceller);
}

static void saving_end(weft_iterator_t *it) { weft_snapshot_writer_abandon(((saving_t *)it)->writer); }

static weft_status_t *saving_save(weft_iterator_t *it, weft_saved_t *to) {
  weft_snapshot_writer_t *w = ((saving_t *)it)->writer;
  weft_saved_put_int(to, w != NULL);
  return w != NULL ? weft_snapshot_writer_save(w, to) : NULL;
}

static weft_status_t *saving_load(weft_iterator_t *it, weft_saved_t *from) {
  const snapshot_params_t *p = params_of(it);
  int64_t has_begun;
  WEFT_RETURN_IF_ERROR(weft_saved_get_int_in(from, 0, 1, &has_begun));
  if (has_begun == 0) return NULL;
  return weft_snapshot_writer_load(p->dir, 0, p->compression, it->of->spec, from, &((saving_t *)it)->writer);
}

static const weft_dataset_class_t saving_class = {.name = "Save",
                                                  .iterator_size = sizeof(saving_t),
                                                  .opens_inputs = true,
                                                  .next = saving_next,
                                                  .end = saving_end,
                                                  .save = saving_save,
                                                  .load = saving_load};

static weft_status_t *saving_read(const weft_kernel_setup_t *setup, void *params) {
  snapshot_params_t *p = params;
  (void)weft_compression_find(weft_knode_string(setup, "compression"), &p->compression);
  p->is_sharded = weft_knode_bool_or(setup, "use_shard_func", true);
  return NULL;
}

static weft_status_t *path_in(weft_kernel_ctx_t *c, int i, snapshot_params_t *p) {
  weft_str_t path;
  WEFT_RETURN_IF_ERROR(weft_dataset_in_string(c, i, "path", &path));
  p->dir = weft_strndup(path.data, path.length);
  return p->dir == NULL ? WEFT_NO_MEMORY("a snapshot") : NULL;
}

/* input_dataset, path, what shard_func has captured */
static weft_status_t *saving_make(weft_kernel_ctx_t *c, int at, weft_dataset_t *d, void *params) {
  (void)at, (void)d;
  return path_in(c, 1, params);
}

static void deinit(void *params) { weft_free(((snapshot_params_t *)params)->dir); }

/* ---- LoadDataset ---- */

typedef struct loading {
  weft_iterator_t base;
  weft_iterator_t *read; /* of the data set that reader_func has made; owned */
} loading_t;

static weft_status_t *loading_begin(weft_iterator_t *it) {
  const snapshot_params_t *p = params_of(it);
  return weft_snapshot_open(it, it->of->fns[0], p->dir, &p->metadata, p->compression,
                            &((loading_t *)it)->read);
}

static weft_status_t *loading_next(weft_iterator_t *it, weft_tensor_t **out, bool *is_end) {
  return weft_iterator_next(((loading_t *)it)->read, out, is_end);
}

static void loading_end(weft_iterator_t *it) { weft_iterator_close(((loading_t *)it)->read); }

/* The number of elements is saved for every iterator. */
static weft_status_t *loading_load(weft_iterator_t *it, weft_saved_t *from) {
  (void)from;
  return weft_snapshot_skip(((loading_t *)it)->read, it->index);
}

static int64_t loading_cardinality(const weft_dataset_t *d) {
  return ((const snapshot_params_t *)d->params)->metadata.num_elements;
}

static const weft_dataset_class_t loading_class = {.name = "Load",
                                                   .iterator_size = sizeof(loading_t),
                                                   .begin = loading_begin,
                                                   .next = loading_next,
                                                   .end = loading_end,
                                                   .load = loading_load,
                                                   .cardinality = loading_cardinality};

/* path, what reader_func has captured */
static weft_status_t *loading_make(weft_kernel_ctx_t *c, int at, weft_dataset_t *d, void *params) {
  snapshot_params_t *p = params;
  (void)at, (void)d;
  WEFT_RETURN_IF_ERROR(path_in(c, 0, p));
  return weft_snapshot_metadata_read(p->dir, &p->metadata);
}

static const weft_dataset_op_t saving_op = {.class = &saving_class,
                                            .num_inputs = 1,
                                            .num_plain = 1,
                                            .functions = {{"shard_func", "Tshard_func_args"}},
                                            .params_size = sizeof(snapshot_params_t),
                                            .read = saving_read,
                                            .make = saving_make,
                                            .deinit = deinit};
static const weft_dataset_op_t loading_op = {.class = &loading_class,
                                             .num_plain = 1,
                                             .functions = {{"reader_func", "Treader_func_args"}},
                                             .params_size = sizeof(snapshot_params_t),
                                             .read = saving_read,
                                             .make = loading_make,
                                             .deinit = deinit};

const weft_kernel_t weft_cpu_dataset_save_load_kernels[] = {
    WEFT_DATASET_ROW("LoadDataset", loading_op),
    {.op = "SaveDataset", .prepare = save_prepare, .compute_async = save_compute, .destroy = weft_free},
    WEFT_DATASET_ROW("SaveDatasetV2", saving_op),
    {0},
};
