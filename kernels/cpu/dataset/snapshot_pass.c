/* kernels/cpu/dataset/snapshot_pass.c - SnapshotDatasetV2: the first whole pass is written (snapshot.h),
 * later ones read what it wrote.
 *
 * A pass chooses with its first element, by the metadata of <path>/<hash>:
 *
 *   none, or not final         writes a new run, and makes its metadata final at the end
 *   final                      reads the run through reader_func
 *   not final, of the future   passes its input on, as TensorFlow does
 *
 * So two passes at the same time write two runs, and the metadata name the one that ended last. The hash is
 * the one that the node says, or that of the input's pipeline.
 */
#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "io/file.h"
#include "kernels/cpu/dataset/as_graph.h"
#include "kernels/cpu/dataset/saved.h"
#include "kernels/cpu/dataset/snapshot.h"

typedef struct snapshotting_params {
  weft_dataset_params_t base;
  weft_compression_t compression;
  bool has_hash; /* the node says it */
  uint64_t hash;
  char *dir; /* owned: "<path>/<hash>" */
} snapshotting_params_t;

typedef enum snapshotting_mode { NOT_CHOSEN, READS, WRITES, PASSES } snapshotting_mode_t;

typedef struct snapshotting {
  weft_iterator_t base; /* its input is open in the modes WRITES and PASSES */
  snapshotting_mode_t mode;
  weft_snapshot_metadata_t metadata; /* READS: of the run */
  weft_iterator_t *read;             /* READS: of what reader_func has made; owned */
  weft_snapshot_writer_t *writer;    /* WRITES: NULL before the first element */
  weft_status_t *failure;            /* WRITES: of the writer; owned */
} snapshotting_t;

enum { READER_FUNC, SHARD_FUNC };

static const snapshotting_params_t *params_of(const snapshotting_t *n) {
  return (const snapshotting_params_t *)n->base.of->params;
}

/* ---- modes ---- */

static weft_status_t *choose(const char *dir, weft_snapshot_metadata_t *m, snapshotting_mode_t *out) {
  weft_status_t *s = weft_snapshot_metadata_read(dir, m);
  const bool is_there = s == NULL;
  if (weft_status_code(s) == WEFT_NOT_FOUND) {
    weft_status_free(s);
    s = NULL;
  }
  const bool is_recent = is_there && m->created_us >= weft_clock_micros();
  *out = is_there && m->is_final ? READS : is_recent ? PASSES : WRITES;
  return s;
}

static weft_status_t *enter(snapshotting_t *n, snapshotting_mode_t mode) {
  weft_iterator_t *it = &n->base;
  const snapshotting_params_t *p = params_of(n);
  if (mode == READS) {
    WEFT_RETURN_IF_ERROR(
        weft_snapshot_open(it, it->of->fns[READER_FUNC], p->dir, &n->metadata, p->compression, &n->read));
  } else {
    WEFT_RETURN_IF_ERROR(weft_iterator_open_input(it, 0, &it->input));
  }
  n->mode = mode;
  return NULL;
}

/* ---- elements ---- */

/* The failure of the writer, which every later element gets. */
static weft_status_t *give_up(snapshotting_t *n, weft_status_t *s) {
  weft_snapshot_writer_abandon(n->writer);
  n->writer = NULL;
  n->failure = s;
  return weft_status_clone(s);
}

static weft_status_t *write_next(snapshotting_t *n, weft_tensor_t **out, bool *is_end) {
  weft_iterator_t *it = &n->base;
  const snapshotting_params_t *p = params_of(n);
  int64_t shard = 0;
  if (n->failure != NULL) return weft_status_clone(n->failure);
  if (n->writer == NULL)
    WEFT_RETURN_IF_ERROR(
        weft_snapshot_writer_create(p->dir, p->hash, p->compression, it->of->spec, &n->writer));
  weft_status_t *s = weft_iterator_next(it->input, out, is_end);
  if (s != NULL) {
    it->is_over = *is_end; /* an input that ends with a failure is not whole */
    return s;
  }
  if (*is_end) {
    weft_snapshot_writer_t *w = n->writer;
    n->writer = NULL;
    s = weft_snapshot_writer_finish(w, it->canceller);
    return s == NULL ? NULL : give_up(n, s);
  }
  WEFT_RETURN_IF_ERROR(weft_snapshot_shard_of(it, it->of->fns[SHARD_FUNC], out, &shard));
  s = weft_snapshot_writer_put(n->writer, shard, out);
  return s == NULL ? NULL : give_up(n, s);
}

static weft_status_t *next(weft_iterator_t *it, weft_tensor_t **out, bool *is_end) {
  snapshotting_t *n = (snapshotting_t *)it;
  if (n->mode == NOT_CHOSEN) {
    snapshotting_mode_t mode = NOT_CHOSEN;
    WEFT_RETURN_IF_ERROR(choose(params_of(n)->dir, &n->metadata, &mode));
    WEFT_RETURN_IF_ERROR(enter(n, mode));
  }
  switch (n->mode) {
    case READS: return weft_iterator_next(n->read, out, is_end);
    case WRITES: return write_next(n, out, is_end);
    default: return weft_iterator_next(it->input, out, is_end);
  }
}

static weft_status_t *begin(weft_iterator_t *it) {
  return weft_file_make_dirs(params_of((snapshotting_t *)it)->dir);
}

static void end(weft_iterator_t *it) {
  snapshotting_t *n = (snapshotting_t *)it;
  weft_iterator_close(n->read);
  weft_snapshot_writer_abandon(n->writer);
  weft_status_free(n->failure);
}

/* ---- state ---- */

static weft_status_t *save(weft_iterator_t *it, weft_saved_t *to) {
  snapshotting_t *n = (snapshotting_t *)it;
  if (n->failure != NULL) return weft_status_clone(n->failure);
  weft_saved_put_int(to, n->mode);
  weft_saved_put_int(to, (int64_t)params_of(n)->hash);
  if (n->mode == READS) weft_saved_put_string(to, weft_str(n->metadata.run));
  if (n->mode != WRITES) return NULL;
  weft_saved_put_int(to, n->writer != NULL);
  return n->writer != NULL ? weft_snapshot_writer_save(n->writer, to) : NULL;
}

/* Reads the run of before, also if another one has become final since. */
static weft_status_t *load_reader(snapshotting_t *n, weft_saved_t *from) {
  weft_str_t run;
  WEFT_RETURN_IF_ERROR(weft_saved_get_string(from, &run));
  WEFT_RETURN_IF_ERROR(weft_snapshot_metadata_set_run(&n->metadata, run));
  WEFT_RETURN_IF_ERROR(enter(n, READS));
  return weft_snapshot_skip(n->read, n->base.index);
}

/* Where a run has become final since, the rest is not written. */
static weft_status_t *load_writer(snapshotting_t *n, weft_saved_t *from) {
  const snapshotting_params_t *p = params_of(n);
  int64_t has_begun;
  const bool is_final = n->metadata.is_final;
  WEFT_RETURN_IF_ERROR(weft_saved_get_int_in(from, 0, 1, &has_begun));
  WEFT_RETURN_IF_ERROR(enter(n, is_final ? PASSES : WRITES));
  if (has_begun == 0) return NULL;
  if (is_final) return weft_snapshot_writer_skip(from);
  return weft_snapshot_writer_load(p->dir, p->hash, p->compression, n->base.of->spec, from, &n->writer);
}

static weft_status_t *check_same(const snapshotting_params_t *p, uint64_t hash) {
  if (hash == p->hash) return NULL;
  return WEFT_ERROR(DATA_LOSS,
                    "Dataset has changed while restoring from the checkpoint. Old hash: %" PRIu64
                    "; new hash: %" PRIu64,
                    hash, p->hash);
}

static weft_status_t *load(weft_iterator_t *it, weft_saved_t *from) {
  snapshotting_t *n = (snapshotting_t *)it;
  const snapshotting_params_t *p = params_of(n);
  int64_t mode, hash;
  WEFT_RETURN_IF_ERROR(weft_saved_get_int_in(from, NOT_CHOSEN, PASSES, &mode));
  WEFT_RETURN_IF_ERROR(weft_saved_get_int(from, &hash));
  if (mode == NOT_CHOSEN) return NULL;
  WEFT_RETURN_IF_ERROR(check_same(p, (uint64_t)hash));
  weft_status_t *s = weft_snapshot_metadata_read(p->dir, &n->metadata);
  if (weft_status_code(s) == WEFT_NOT_FOUND) {
    weft_status_free(s);
    s = WEFT_ERROR(DATA_LOSS, "Snapshot metadata file in %s does not exist any more.", p->dir);
  }
  if (s != NULL) return s;
  if (mode == READS) return load_reader(n, from);
  return mode == WRITES ? load_writer(n, from) : enter(n, PASSES);
}

/* ---- kernels ---- */

static weft_status_t *read(const weft_kernel_setup_t *setup, void *params) {
  snapshotting_params_t *p = params;
  const weft_str_t compression = weft_knode_string(setup, "compression");
  if (!weft_compression_find(compression, &p->compression) && weft_str_is(compression, "AUTO"))
    p->compression = WEFT_COMPRESSION_SNAPPY;
  p->has_hash = weft_knode_bool_or(setup, "hash_valid", false);
  p->hash = (uint64_t)weft_knode_int_or(setup, "hash", 0);
  return NULL;
}

/* Files of another compression could not be read, so it is in the hash. */
static weft_status_t *hash_of(const weft_dataset_t *input, weft_compression_t compression, uint64_t *out) {
  WEFT_RETURN_IF_ERROR(weft_dataset_fingerprint(input, out));
  *out ^= (uint64_t)compression * UINT64_C(0x9e3779b97f4a7c15);
  return NULL;
}

/* input_dataset, path, what reader_func and shard_func have captured */
static weft_status_t *make(weft_kernel_ctx_t *c, int at, weft_dataset_t *d, void *params) {
  snapshotting_params_t *p = params;
  weft_strbuf_t dir = WEFT_STRBUF_INIT;
  weft_str_t path;
  (void)at;
  WEFT_RETURN_IF_ERROR(weft_dataset_in_string(c, 1, "path", &path));
  if (!p->has_hash) WEFT_RETURN_IF_ERROR(hash_of(d->inputs[0], p->compression, &p->hash));
  const bool has_slash = path.length == 0 || path.data[path.length - 1] == '/';
  weft_strbuf_printf(&dir, "%.*s%s%" PRIu64, WEFT_STR_ARGS(path), has_slash ? "" : "/", p->hash);
  p->dir = dir.failed ? NULL : weft_strdup(dir.data);
  weft_strbuf_deinit(&dir);
  return p->dir == NULL ? WEFT_NO_MEMORY("a snapshot") : NULL;
}

static void deinit(void *params) { weft_free(((snapshotting_params_t *)params)->dir); }

static const weft_dataset_class_t class = {.name = "Snapshot",
                                           .iterator_size = sizeof(snapshotting_t),
                                           .begin = begin,
                                           .next = next,
                                           .end = end,
                                           .save = save,
                                           .load = load};

static const weft_dataset_op_t op = {
    .class = &class,
    .num_inputs = 1,
    .num_plain = 1,
    .functions = {{"reader_func", "Treader_func_args"}, {"shard_func", "Tshard_func_args"}},
    .params_size = sizeof(snapshotting_params_t),
    .read = read,
    .make = make,
    .deinit = deinit};

const weft_kernel_t weft_cpu_dataset_snapshot_pass_kernels[] = {
    WEFT_DATASET_ROW("SnapshotDatasetV2", op),
    {0},
};
