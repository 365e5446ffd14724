/* io/bundle_merge.c - one bundle of several: data files are renamed, indexes merged. */
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
  int64_t *first_shard; /* of each input, in the destination */
  int64_t *num_shards;
  size_t num_inputs;
  merged_t *items;
  size_t count;
  int64_t total_shards;
} merger_t;

static weft_status_t *no_memory(weft_str_t what) {
  return WEFT_ERROR(RESOURCE_EXHAUSTED, "merging checkpoints into %.*s", WEFT_STR_ARGS(what));
}

static void merger_deinit(merger_t *m) {
  for (size_t i = 0; m->tables != NULL && i < m->num_inputs; i++) weft_table_deinit(&m->tables[i]);
  for (size_t i = 0; m->items != NULL && i < m->count; i++) weft_strbuf_deinit(&m->items[i].entry.slices);
  weft_free(m->tables);
  weft_free(m->first_shard);
  weft_free(m->num_shards);
  weft_free(m->items);
}

static weft_status_t *read_tables(merger_t *m, const weft_str_t *prefixes, size_t n, bool allow_missing) {
  m->tables = weft_calloc(n + 1, sizeof m->tables[0]);
  m->first_shard = weft_calloc(n + 1, sizeof m->first_shard[0]);
  m->num_shards = weft_calloc(n + 1, sizeof m->num_shards[0]);
  m->num_inputs = n;
  if (m->tables == NULL || m->first_shard == NULL || m->num_shards == NULL) return no_memory(WEFT_STR("one"));
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
    if (header == NULL) return WEFT_ERROR(DATA_LOSS, "checkpoint %.*s has no header", WEFT_STR_ARGS(prefixes[i]));
    WEFT_RETURN_IF_ERROR(weft_bundle_header_get(header->value, &m->num_shards[i]));
    m->first_shard[i] = m->total_shards;
    m->total_shards += m->num_shards[i];
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
      item->entry.shard += m->first_shard[i];
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
    if (last->entry.num_slices == 0 || item->entry.num_slices == 0 || last->entry.dtype != item->entry.dtype ||
        !weft_shape_eq(&last->entry.shape, &item->entry.shape)) {
      return WEFT_ERROR(INVALID_ARGUMENT, "Tensor %.*s is in more than one of the checkpoints that are merged",
                        WEFT_STR_ARGS(item->key));
    }
    weft_strbuf_append(&last->entry.slices, weft_str_of(item->entry.slices.data, item->entry.slices.length));
    last->entry.num_slices += item->entry.num_slices;
    weft_strbuf_deinit(&item->entry.slices);
  }
  m->count = out;
  return NULL;
}

static weft_status_t *rename_data(const merger_t *m, const weft_str_t *prefixes, weft_str_t destination) {
  for (size_t i = 0; i < m->num_inputs; i++) {
    for (int64_t shard = 0; shard < m->num_shards[i]; shard++) {
      weft_strbuf_t from = WEFT_STRBUF_INIT, to = WEFT_STRBUF_INIT;
      weft_bundle_data_path(prefixes[i], shard, m->num_shards[i], &from);
      weft_bundle_data_path(destination, m->first_shard[i] + shard, m->total_shards, &to);
      weft_status_t *s =
          from.failed || to.failed ? no_memory(destination) : weft_file_rename(from.data, to.data);
      weft_strbuf_deinit(&from);
      weft_strbuf_deinit(&to);
      if (s != NULL) return s;
    }
  }
  return NULL;
}

static weft_status_t *write_index(const merger_t *m, weft_str_t destination) {
  weft_strbuf_t path = WEFT_STRBUF_INIT, values = WEFT_STRBUF_INIT;
  weft_table_entry_t *entries = weft_calloc(m->count + 1, sizeof *entries);
  weft_file_writer_t *file = NULL;
  weft_status_t *s = NULL;
  weft_bundle_index_path(destination, &path);
  weft_bundle_header_put(m->total_shards, &values);
  if (entries != NULL) {
    entries[0].value.length = values.length;
    for (size_t i = 0; i < m->count; i++) {
      size_t begin = values.length;
      weft_bundle_entry_put(&m->items[i].entry, &values);
      entries[i + 1] = (weft_table_entry_t){m->items[i].key, weft_str_of(NULL, values.length - begin)};
    }
  }
  if (entries == NULL || values.failed || path.failed) s = no_memory(destination);
  if (s == NULL) { /* `values` moves no more */
    entries[0].key = WEFT_STR("");
    const char *at = values.data;
    for (size_t i = 0; i <= m->count; i++) {
      entries[i].value.data = at;
      at += entries[i].value.length;
    }
    s = weft_file_writer_create(path.data, &file);
  }
  if (s == NULL) {
    s = weft_table_write(file, entries, m->count + 1);
    if (s == NULL) {
      s = weft_file_writer_finish(file);
    } else {
      weft_file_writer_abandon(file);
    }
  }
  weft_strbuf_deinit(&path);
  weft_strbuf_deinit(&values);
  weft_free(entries);
  return s;
}

/* What is left of the inputs. Failing here loses nothing. */
static void clean_up(const weft_str_t *prefixes, size_t n, weft_str_t destination, bool delete_old_dirs) {
  weft_str_t home = weft_file_dirname(destination);
  for (size_t i = 0; i < n; i++) {
    weft_strbuf_t path = WEFT_STRBUF_INIT;
    weft_bundle_index_path(prefixes[i], &path);
    if (!path.failed) weft_file_remove(path.data);
    weft_strbuf_deinit(&path);
  }
  for (size_t i = 0; delete_old_dirs && i < n; i++) {
    weft_str_t dir = weft_file_dirname(prefixes[i]);
    if (dir.length == 0 || weft_str_eq(dir, home)) continue;
    char *path = weft_strndup(dir.data, dir.length);
    if (path != NULL) weft_file_remove_dir(path);
    weft_free(path);
  }
}

weft_status_t *weft_bundle_merge(const weft_str_t *prefixes, size_t n, weft_str_t destination, bool delete_old_dirs,
                                 bool allow_missing) {
  merger_t m = {0};
  weft_status_t *s = read_tables(&m, prefixes, n, allow_missing);
  if (s == NULL) s = collect(&m);
  if (s == NULL) s = join_equal(&m);
  if (s == NULL) s = rename_data(&m, prefixes, destination);
  if (s == NULL) s = write_index(&m, destination);
  if (s == NULL) clean_up(prefixes, n, destination, delete_old_dirs);
  merger_deinit(&m);
  return s;
}
