/* io/bundle_merge.c - one bundle of several: data files get second names, indexes are merged, then the inputs
 * go. */
#include <stdlib.h>

#include "base/alloc.h"
#include "io/bundle.h"
#include "protos/wire.h"

/* A key of one input; equal keys of several inputs become neighbours when sorted. */
typedef struct merged {
  weft_str_t key; /* in its input's table */
  weft_bundle_entry_t entry;
} merged_t;

typedef struct merger {
  weft_table_t *tables; /* one per input; empty: missing */
  int64_t *
      *shards; /* of each input: by shard, which one of the destination; -1: it has no file and no tensor */
  int64_t *num_shards;
  size_t num_inputs;
  merged_t *items;
  size_t count;
  int64_t total_shards;
} merger_t;

static weft_status_t *no_memory(weft_str_t what) {
  return WEFT_NO_MEMORY("merging checkpoints into %.*s", WEFT_STR_ARGS(what));
}

static void merger_deinit(merger_t *m) {
  for (size_t i = 0; m->tables != NULL && i < m->num_inputs; i++) weft_table_deinit(&m->tables[i]);
  for (size_t i = 0; m->items != NULL && i < m->count; i++) weft_strbuf_deinit(&m->items[i].entry.slices);
  for (size_t i = 0; m->shards != NULL && i < m->num_inputs; i++) weft_free(m->shards[i]);
  weft_free(m->tables);
  weft_free(m->shards);
  weft_free(m->num_shards);
  weft_free(m->items);
}

/* A bundle that could not take its true names names one more data file than there are: see bundle_commit.c.
 */
static weft_status_t *number_shards(merger_t *m, size_t i, weft_str_t prefix) {
  m->shards[i] = weft_calloc((size_t)m->num_shards[i] + 1, sizeof *m->shards[i]);
  if (m->shards[i] == NULL) return no_memory(prefix);
  for (size_t k = 0; k < m->tables[i].count; k++) {
    weft_table_entry_t e = m->tables[i].entries[k];
    weft_bundle_entry_t entry;
    if (e.key.length == 0) continue;
    WEFT_RETURN_IF_ERROR(weft_bundle_entry_get(e.key, e.value, &entry));
    weft_strbuf_deinit(&entry.slices);
    if (entry.shard >= m->num_shards[i])
      return WEFT_ERROR(DATA_LOSS, "the checkpoint's entry for %.*s is damaged", WEFT_STR_ARGS(e.key));
    if (entry.num_slices == 0) m->shards[i][entry.shard] = 1;
  }
  for (int64_t shard = 0; shard < m->num_shards[i]; shard++) {
    weft_strbuf_t path = WEFT_STRBUF_INIT;
    weft_bundle_data_path(prefix, shard, m->num_shards[i], &path);
    bool is_failed = path.failed,
         is_there = m->shards[i][shard] != 0 || (!is_failed && weft_file_exists(path.data));
    weft_strbuf_deinit(&path);
    if (is_failed) return no_memory(prefix);
    m->shards[i][shard] = is_there ? m->total_shards++ : -1;
  }
  return NULL;
}

static weft_status_t *read_tables(merger_t *m, const weft_str_t *prefixes, size_t n, bool allow_missing) {
  m->tables = weft_calloc(n + 1, sizeof m->tables[0]);
  m->shards = weft_calloc(n + 1, sizeof m->shards[0]);
  m->num_shards = weft_calloc(n + 1, sizeof m->num_shards[0]);
  m->num_inputs = n;
  if (m->tables == NULL || m->shards == NULL || m->num_shards == NULL) return no_memory(WEFT_STR("one"));
  for (size_t i = 0; i < n; i++) {
    weft_strbuf_t path = WEFT_STRBUF_INIT;
    weft_bundle_index_path(prefixes[i], &path);
    weft_status_t *s = path.failed ? no_memory(prefixes[i]) : weft_table_read(path.data, &m->tables[i]);
    weft_strbuf_deinit(&path);
    if (allow_missing && weft_status_code(s) == WEFT_NOT_FOUND) {
      weft_status_free(s);
      continue;
    }
    if (s != NULL) return s;
    const weft_table_entry_t *header = weft_table_find(&m->tables[i], WEFT_STR(""));
    if (header == NULL)
      return WEFT_ERROR(DATA_LOSS, "checkpoint %.*s has no header", WEFT_STR_ARGS(prefixes[i]));
    WEFT_RETURN_IF_ERROR(weft_bundle_header_get(header->value, &m->num_shards[i]));
    WEFT_RETURN_IF_ERROR(number_shards(m, i, prefixes[i]));
  }
  return NULL;
}

static int by_key(const void *a, const void *b) {
  return weft_table_compare(((const merged_t *)a)->key, ((const merged_t *)b)->key);
}

static weft_status_t *collect(merger_t *m) {
  size_t total = 0;
  for (size_t i = 0; i < m->num_inputs; i++) total += m->tables[i].count;
  m->items = weft_calloc(total + 1, sizeof m->items[0]);
  if (m->items == NULL) return no_memory(WEFT_STR("one"));
  for (size_t i = 0; i < m->num_inputs; i++) {
    for (size_t k = 0; k < m->tables[i].count; k++) {
      weft_table_entry_t e = m->tables[i].entries[k];
      if (e.key.length == 0) continue;
      merged_t *item = &m->items[m->count];
      WEFT_RETURN_IF_ERROR(weft_bundle_entry_get(e.key, e.value, &item->entry));
      m->count++;
      item->key = e.key;
      if (item->entry.num_slices == 0) item->entry.shard = m->shards[i][item->entry.shard];
    }
  }
  qsort(m->items, m->count, sizeof m->items[0], by_key);
  return NULL;
}

/* Entries of tensors in slices may meet: their lists are joined. Others may not. */
static weft_status_t *join_equal(merger_t *m) {
  size_t out = 0;
  for (size_t i = 0; i < m->count; i++) {
    merged_t *last = out == 0 ? NULL : &m->items[out - 1], *item = &m->items[i];
    if (last == NULL || !weft_str_eq(last->key, item->key)) {
      merged_t moved = *item;
      if (out != i) *item = (merged_t){0};
      m->items[out++] = moved;
      continue;
    }
    if (last->entry.num_slices == 0 || item->entry.num_slices == 0 ||
        last->entry.dtype != item->entry.dtype || !weft_shape_eq(&last->entry.shape, &item->entry.shape)) {
      return WEFT_ERROR(INVALID_ARGUMENT,
                        "Tensor %.*s is in more than one of the checkpoints that are merged",
                        WEFT_STR_ARGS(item->key));
    }
    weft_strbuf_append(&last->entry.slices, weft_str_of(item->entry.slices.data, item->entry.slices.length));
    last->entry.num_slices += item->entry.num_slices;
    weft_strbuf_deinit(&item->entry.slices);
  }
  m->count = out;
  return NULL;
}

/* A second name where the file system has them: until the commit the inputs are whole. */
static weft_status_t *move_one(const char *from, const char *to) {
  WEFT_RETURN_IF_ERROR(weft_file_sync(from));
  weft_status_t *s = weft_file_link(from, to);
  if (s == NULL || weft_status_code(s) == WEFT_NOT_FOUND) return s;
  weft_status_free(s);
  return weft_file_rename(from, to);
}

static weft_status_t *move_data(const merger_t *m, const weft_str_t *prefixes,
                                const weft_bundle_place_t *place) {
  for (size_t i = 0; i < m->num_inputs; i++) {
    for (int64_t shard = 0; shard < m->num_shards[i]; shard++) {
      if (m->shards[i][shard] < 0) continue;
      weft_strbuf_t from = WEFT_STRBUF_INIT, to = WEFT_STRBUF_INIT;
      weft_bundle_data_path(prefixes[i], shard, m->num_shards[i], &from);
      weft_bundle_place_data_path(place, m->shards[i][shard], &to);
      weft_status_t *s = from.failed || to.failed ? no_memory(prefixes[i]) : move_one(from.data, to.data);
      weft_strbuf_deinit(&from);
      weft_strbuf_deinit(&to);
      if (s != NULL) return s;
    }
  }
  return weft_file_sync_dir(place->prefix);
}

static weft_status_t *write_index(const merger_t *m, const weft_bundle_place_t *place) {
  weft_strbuf_t values = WEFT_STRBUF_INIT;
  weft_table_entry_t *entries = weft_calloc(m->count + 1, sizeof *entries);
  weft_status_t *s = NULL;
  for (size_t i = 0; entries != NULL && i < m->count; i++) {
    size_t begin = values.length;
    weft_bundle_entry_put(&m->items[i].entry, &values);
    entries[i + 1] = (weft_table_entry_t){m->items[i].key, weft_str_of(NULL, values.length - begin)};
  }
  if (entries == NULL || values.failed) s = no_memory(weft_str(place->prefix));
  if (s == NULL) { /* `values` moves no more */
    const char *at = values.data;
    for (size_t i = 1; i <= m->count; i++) {
      entries[i].value.data = at;
      at += entries[i].value.length;
    }
    s = weft_bundle_place_commit(place, entries, m->count);
  } else {
    weft_bundle_place_abandon(place);
  }
  weft_strbuf_deinit(&values);
  weft_free(entries);
  return s;
}

static void remove_input(const merger_t *m, size_t i, weft_str_t prefix) {
  for (int64_t shard = -1; shard < m->num_shards[i];
       shard++) { /* the index goes first: without it the rest is no checkpoint */
    weft_strbuf_t path = WEFT_STRBUF_INIT;
    if (shard < 0) {
      weft_bundle_index_path(prefix, &path);
    } else {
      weft_bundle_data_path(prefix, shard, m->num_shards[i], &path);
    }
    if (!path.failed) weft_file_remove(path.data);
    weft_strbuf_deinit(&path);
  }
}

/* What is left of the inputs. Failing here loses nothing. */
static void clean_up(const merger_t *m, const weft_str_t *prefixes, size_t n, weft_str_t destination,
                     bool delete_old_dirs) {
  weft_str_t home = weft_file_dirname(destination);
  for (size_t i = 0; i < n; i++) {
    if (!weft_str_eq(prefixes[i], destination)) remove_input(m, i, prefixes[i]);
  }
  for (size_t i = 0; delete_old_dirs && i < n; i++) {
    weft_str_t dir = weft_file_dirname(prefixes[i]);
    if (dir.length == 0 || weft_str_eq(dir, home)) continue;
    char *path = weft_strndup(dir.data, dir.length);
    if (path != NULL) weft_file_remove_dir(path);
    weft_free(path);
  }
}

weft_status_t *weft_bundle_merge(const weft_str_t *prefixes, size_t n, weft_str_t destination,
                                 bool delete_old_dirs, bool allow_missing) {
  merger_t m = {0};
  weft_bundle_place_t place = {0};
  weft_status_t *s = read_tables(&m, prefixes, n, allow_missing);
  if (s == NULL) s = collect(&m);
  if (s == NULL) s = join_equal(&m);
  if (s == NULL) s = weft_bundle_place_init(destination, m.total_shards, &place);
  if (s == NULL) {
    s = move_data(&m, prefixes, &place);
    if (s != NULL) weft_bundle_place_abandon(&place);
  }
  if (s == NULL) s = write_index(&m, &place);
  if (s == NULL) clean_up(&m, prefixes, n, destination, delete_old_dirs);
  weft_bundle_place_deinit(&place);
  merger_deinit(&m);
  return s;
}
