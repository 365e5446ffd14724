/* kernels/cpu/dataset/cache_file.c - CacheDataset on disk: TensorFlow's files, so that each reads the
 * other's.
 *
 * The cache is a bundle with a tensor for each component of each element. A pass that writes it writes a
 * bundle <prefix>_0, and one more, <prefix>_1 and so on, each time its state is saved; at the end they are
 * merged. Beside each lies <prefix>_N.lockfile meanwhile: two passes never write one bundle.
 */
#include <inttypes.h>
#include <stdio.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "io/bundle.h"
#include "io/file.h"
#include "kernels/cpu/dataset/cache.h"
#include "kernels/cpu/dataset/saved.h"

enum { MAX_ELEMENTS = 10000000, MAX_SHARDS = 100000 };

typedef struct file_caching {
  weft_iterator_t base;
  bool reads, is_complete; /* is_complete: of a pass that writes */
  int64_t at;              /* element */
  weft_bundle_reader_t *reader;
  int64_t shard; /* the bundle that is written */
  bool has_lock; /* it has begun */
  weft_bundle_writer_t *writer;
} file_caching_t;

static const char *prefix_of(const file_caching_t *c) {
  return ((const weft_cache_params_t *)c->base.of->params)->prefix;
}

/* "<prefix>_<shard><suffix>" */
static weft_status_t *shard_path(const file_caching_t *c, int64_t shard, const char *suffix,
                                 weft_strbuf_t *out) {
  out->length = 0;
  weft_strbuf_printf(out, "%s_%" PRId64 "%s", prefix_of(c), shard, suffix);
  return out->failed ? WEFT_NO_MEMORY("the name of a cache") : NULL;
}

static bool index_exists(weft_str_t prefix) {
  weft_strbuf_t path = WEFT_STRBUF_INIT;
  weft_bundle_index_path(prefix, &path);
  const bool exists = !path.failed && weft_file_exists(path.data);
  weft_strbuf_deinit(&path);
  return exists;
}

/* The key of component i of an element; the lengths are so that keys sort as elements do. */
static weft_str_t key_of(const file_caching_t *c, int i, char (*buffer)[64]) {
  const int width = snprintf(NULL, 0, "%d", c->base.of->spec->n - 1);
  const int n = snprintf(*buffer, sizeof *buffer, "%7" PRId64 "_%*d", c->at, width, i);
  return weft_str_of(*buffer, (size_t)n);
}

void weft_cache_was_cut_short(void) {
  weft_log(WEFT_LOG_WARNING,
           "The calling iterator did not fully read the dataset being cached. What was cached of it is "
           "discarded, so that the cache is not cut short. This happens where a pipeline is like "
           "`dataset.cache().take(k).repeat()`; write `dataset.take(k).cache().repeat()` instead.");
}

/* ---- life ---- */

static weft_status_t *open_for(file_caching_t *c, bool reads) {
  weft_iterator_t *it = &c->base;
  c->reads = reads;
  if (reads) return c->reader != NULL ? NULL : weft_bundle_reader_open(weft_str(prefix_of(c)), &c->reader);
  return it->input != NULL ? NULL : weft_iterator_open_input(it, 0, &it->input);
}

static weft_status_t *begin(weft_iterator_t *it) {
  file_caching_t *c = (file_caching_t *)it;
  return open_for(c, index_exists(weft_str(prefix_of(c))));
}

static void end(weft_iterator_t *it) {
  file_caching_t *c = (file_caching_t *)it;
  weft_strbuf_t path = WEFT_STRBUF_INIT;
  weft_bundle_reader_close(c->reader);
  weft_bundle_writer_abandon(c->writer);
  if (!c->has_lock) return;
  weft_cache_was_cut_short();
  weft_status_t *s = shard_path(c, c->shard, ".lockfile", &path);
  if (s == NULL) weft_file_remove(path.data);
  weft_status_free(s);
  weft_strbuf_deinit(&path);
}

/* ---- reading ---- */

static weft_status_t *read_one(file_caching_t *c, weft_tensor_t **out, bool *is_end) {
  const weft_element_spec_t *spec = c->base.of->spec;
  char buffer[64];
  weft_dtype_t dtype;
  weft_shape_t shape;
  weft_status_t *s = weft_bundle_reader_lookup(c->reader, key_of(c, 0, &buffer), &dtype, &shape);
  *is_end = weft_status_code(s) == WEFT_NOT_FOUND;
  weft_status_free(s);
  for (int i = 0; !*is_end && i < spec->n; i++) {
    WEFT_RETURN_IF_ERROR(weft_bundle_reader_read(c->reader, key_of(c, i, &buffer), &out[i]));
    if (out[i]->dtype == spec->dtypes[i]) continue;
    return WEFT_ERROR(INVALID_ARGUMENT, "the cache %s is of another data set: component %d is %s, not %s",
                      prefix_of(c), i, weft_dtype_name(out[i]->dtype), weft_dtype_name(spec->dtypes[i]));
  }
  c->at += !*is_end;
  return NULL;
}

/* ---- writing ---- */

static weft_status_t *locked(const char *path) {
  char *text = NULL;
  size_t length = 0;
  weft_status_free(weft_file_read_all(path, &text, &length));
  weft_status_t *s = WEFT_ERROR(
      ALREADY_EXISTS,
      "There appears to be a concurrent caching iterator running - cache lockfile already exists "
      "('%s'). If you are sure no other running TF computations are using this cache prefix, delete "
      "the lockfile and re-initialize the iterator. Lockfile contents: %.*s",
      path, (int)(length < 150 ? length : 150), text == NULL ? "" : text);
  weft_free(text);
  return s;
}

static weft_status_t *make_lock(file_caching_t *c, weft_strbuf_t *path) {
  char text[64];
  WEFT_RETURN_IF_ERROR(shard_path(c, c->shard, "", path));
  if (index_exists(weft_str(path->data))) {
    return WEFT_ERROR(
        ALREADY_EXISTS,
        "Existing cache files found: \n%s.index\n%s.data-00000-of-00001\nTo continue delete the "
        "above files.",
        path->data, path->data);
  }
  WEFT_RETURN_IF_ERROR(shard_path(c, c->shard, ".lockfile", path));
  if (weft_file_exists(path->data)) return locked(path->data);
  const int n = snprintf(text, sizeof text, "Created at: %" PRId64, weft_clock_micros() / 1000000);
  WEFT_RETURN_IF_ERROR(weft_file_append(path->data, text, (size_t)n));
  c->has_lock = true;
  WEFT_RETURN_IF_ERROR(shard_path(c, c->shard, "", path));
  return weft_bundle_writer_create(weft_str(path->data), &c->writer);
}

static weft_status_t *begin_shard(file_caching_t *c) {
  weft_strbuf_t path = WEFT_STRBUF_INIT;
  weft_status_t *s = make_lock(c, &path);
  weft_strbuf_deinit(&path);
  return s;
}

static weft_status_t *finish_writer(file_caching_t *c) {
  weft_bundle_writer_t *w = c->writer;
  c->writer = NULL;
  return weft_bundle_writer_finish(w);
}

static weft_status_t *merge(file_caching_t *c, weft_strbuf_t *paths, weft_str_t *prefixes) {
  for (int64_t i = 0; i <= c->shard; i++) {
    WEFT_RETURN_IF_ERROR(shard_path(c, i, "", &paths[i]));
    prefixes[i] = weft_str(paths[i].data);
  }
  WEFT_RETURN_IF_ERROR(
      weft_bundle_merge(prefixes, (size_t)c->shard + 1, weft_str(prefix_of(c)), false, false));
  for (int64_t i = 0; i <= c->shard; i++) {
    WEFT_RETURN_IF_ERROR(shard_path(c, i, ".lockfile", &paths[i]));
    weft_file_remove(paths[i].data);
  }
  c->has_lock = false;
  return NULL;
}

static weft_status_t *complete(file_caching_t *c) {
  const size_t n = (size_t)c->shard + 1;
  c->is_complete = true;
  WEFT_RETURN_IF_ERROR(finish_writer(c));
  weft_strbuf_t *paths = weft_calloc(n, sizeof *paths);
  weft_str_t *prefixes = weft_calloc(n, sizeof *prefixes);
  weft_status_t *s =
      paths == NULL || prefixes == NULL ? WEFT_NO_MEMORY("a cache") : merge(c, paths, prefixes);
  for (size_t i = 0; paths != NULL && i < n; i++) weft_strbuf_deinit(&paths[i]);
  weft_free(paths);
  weft_free(prefixes);
  return s;
}

static weft_status_t *write_one(file_caching_t *c, weft_tensor_t **out, bool *is_end) {
  char buffer[64];
  if (!c->has_lock) WEFT_RETURN_IF_ERROR(begin_shard(c));
  if (c->writer == NULL)
    return WEFT_ERROR(FAILED_PRECONDITION, "the cache %s cannot be written", prefix_of(c));
  if (c->at >= MAX_ELEMENTS) {
    weft_status_free(complete(c));
    return WEFT_ERROR(
        INVALID_ARGUMENT,
        "Upstream iterator is producing more than %d items, which is more than the cache limit.",
        MAX_ELEMENTS);
  }
  WEFT_RETURN_IF_ERROR(weft_iterator_next(c->base.input, out, is_end));
  if (*is_end) return complete(c);
  for (int i = 0; i < c->base.of->spec->n; i++)
    WEFT_RETURN_IF_ERROR(weft_bundle_writer_add(c->writer, key_of(c, i, &buffer), out[i]));
  c->at++;
  return NULL;
}

static weft_status_t *next(weft_iterator_t *it, weft_tensor_t **out, bool *is_end) {
  file_caching_t *c = (file_caching_t *)it;
  if (c->reads) return read_one(c, out, is_end);
  *is_end = c->is_complete;
  return *is_end ? NULL : write_one(c, out, is_end);
}

/* ---- state ---- */

/* What was written so far becomes a bundle of its own; its lock stays until all are merged. */
static weft_status_t *save(weft_iterator_t *it, weft_saved_t *to) {
  file_caching_t *c = (file_caching_t *)it;
  if (c->has_lock) {
    if (c->shard == MAX_SHARDS) return WEFT_ERROR(RESOURCE_EXHAUSTED, "a cache was saved too often");
    WEFT_RETURN_IF_ERROR(finish_writer(c));
    c->has_lock = false;
    c->shard++;
  }
  weft_saved_put_int(to, c->reads);
  weft_saved_put_int(to, c->is_complete);
  weft_saved_put_int(to, c->at);
  weft_saved_put_int(to, c->shard);
  return NULL;
}

/* A cache that has been completed since its pass was saved is read on from there. */
static weft_status_t *load(weft_iterator_t *it, weft_saved_t *from) {
  file_caching_t *c = (file_caching_t *)it;
  int64_t reads, is_complete;
  WEFT_RETURN_IF_ERROR(weft_saved_get_int_in(from, 0, 1, &reads));
  WEFT_RETURN_IF_ERROR(weft_saved_get_int_in(from, 0, 1, &is_complete));
  WEFT_RETURN_IF_ERROR(weft_saved_get_int_in(from, 0, MAX_ELEMENTS, &c->at));
  WEFT_RETURN_IF_ERROR(weft_saved_get_int_in(from, 0, MAX_SHARDS, &c->shard));
  c->is_complete = is_complete != 0;
  return open_for(c, reads != 0 || index_exists(weft_str(prefix_of(c))));
}

const weft_dataset_class_t weft_file_cache_class = {.name = "FileCache",
                                                    .keeps_batches = true,
                                                    .iterator_size = sizeof(file_caching_t),
                                                    .begin = begin,
                                                    .next = next,
                                                    .end = end,
                                                    .save = save,
                                                    .load = load};
