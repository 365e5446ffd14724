/* io/bundle_commit.c - a bundle takes the place of the one under its prefix, in one step.
 *
 * A bundle is several files, and only one can be renamed at a time. What counts is the index: it names how
 * many data files there are, and their names hold that number. So the new data files get a number that the
 * old bundle does not have ("0 of 2" beside "0 of 1"; readers open only what the index's entries name), and
 * the rename of the index is the moment at which the new bundle takes the place of the old one:
 *
 *   1. data-i-of-M written, synced, renamed     old index, old data are whole
 *   2. index (M) written, synced, renamed       <- the commit
 *   3. data-i-of-N linked to data-i-of-M        N: the true number, which readers of file names expect
 *   4. index (N) written, synced, renamed
 *   5. all other data files removed
 *
 * M is N, and 3 and 4 fall away, unless the old bundle has N data files itself. A process that ends anywhere
 * leaves an index whose data files are whole; what else it left is removed by the next one that writes the
 * prefix. Where the file system has no links the bundle keeps the names of step 2. See
 * docs/decisions/0008-the-index-commits.md.
 */
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "base/alloc.h"
#include "io/bundle.h"

static weft_status_t *no_memory(weft_str_t prefix) {
  return WEFT_NO_MEMORY("writing checkpoint %.*s", WEFT_STR_ARGS(prefix));
}

/* ---- what is there ---- */

/* How many data files the bundle under `prefix` has; 0: there is none that can be read. Errors:
 * RESOURCE_EXHAUSTED alone. */
static weft_status_t *count_shards(weft_str_t prefix, int64_t *out) {
  weft_bundle_reader_t *old = NULL;
  weft_status_t *s = weft_bundle_reader_open(prefix, &old);
  *out = s == NULL ? weft_bundle_reader_num_shards(old) : 0;
  weft_bundle_reader_close(old);
  if (weft_status_code(s) == WEFT_RESOURCE_EXHAUSTED) return s;
  weft_status_free(s);
  return NULL;
}

typedef struct sweep {
  weft_str_t base;    /* of the prefix */
  int64_t num_shards; /* data files with another number go; -1: none */
} sweep_t;

/* Is `rest` ".data-SSSSS-of-NNNNN" and no more? */
static bool is_data(weft_str_t rest, int64_t *shard, int64_t *num_shards) {
  weft_str_t number, of, total;
  if (!weft_str_starts_with(rest, ".data-")) return false;
  rest = weft_str_of(rest.data + strlen(".data-"), rest.length - strlen(".data-"));
  return weft_str_split(rest, '-', &number, &rest) && weft_str_split(rest, '-', &of, &total) &&
         weft_str_is(of, "of") && weft_str_to_i64(number, shard) && weft_str_to_i64(total, num_shards);
}

static void sweep_name(void *arg, int dir_fd, const char *name) {
  const sweep_t *sweep = arg;
  size_t temporary = weft_file_temporary_base(name);
  weft_str_t rest = temporary > 0 ? weft_str_of(name, temporary) : weft_str(name);
  int64_t shard, num_shards;
  if (rest.length <= sweep->base.length || memcmp(name, sweep->base.data, sweep->base.length) != 0) return;
  rest = weft_str_of(rest.data + sweep->base.length, rest.length - sweep->base.length);
  bool has_data = is_data(rest, &shard, &num_shards);
  if (temporary > 0 && (has_data || weft_str_is(rest, ".index"))) weft_file_remove_stale(dir_fd, name);
  if (temporary == 0 && has_data && sweep->num_shards >= 0 &&
      (num_shards != sweep->num_shards || shard >= num_shards))
    unlinkat(dir_fd, name, 0);
}

/* As well as it goes: what stays does no harm, and the next one sweeps again. */
static void sweep(const weft_bundle_place_t *p, int64_t num_shards) {
  sweep_t sweep = {weft_file_basename(weft_str(p->prefix)), num_shards};
  weft_file_each_name(p->directory, sweep_name, &sweep);
}

weft_status_t *weft_bundle_place_init(weft_str_t prefix, int64_t num_shards, weft_bundle_place_t *out) {
  weft_str_t dir = weft_file_dirname(prefix);
  *out = (weft_bundle_place_t){.prefix = weft_strndup(prefix.data == NULL ? "" : prefix.data, prefix.length),
                               .directory = weft_strndup(dir.length == 0 ? "" : dir.data, dir.length)};
  if (out->prefix == NULL || out->directory == NULL) return no_memory(prefix);
  WEFT_RETURN_IF_ERROR(count_shards(prefix, &out->num_old));
  out->num_shards = num_shards;
  out->num_staged = num_shards > 0 && num_shards == out->num_old ? num_shards + 1 : num_shards;
  sweep(out, -1);
  return NULL;
}

void weft_bundle_place_deinit(weft_bundle_place_t *p) {
  weft_free(p->prefix);
  weft_free(p->directory);
  *p = (weft_bundle_place_t){0};
}

void weft_bundle_place_data_path(const weft_bundle_place_t *p, int64_t shard, weft_strbuf_t *out) {
  weft_bundle_data_path(weft_str(p->prefix), shard, p->num_staged, out);
}

/* ---- the commit ---- */

static weft_status_t *write_index(const weft_bundle_place_t *p, int64_t num_shards,
                                  weft_table_entry_t *entries, size_t n) {
  weft_strbuf_t path = WEFT_STRBUF_INIT, header = WEFT_STRBUF_INIT;
  weft_file_writer_t *file = NULL;
  weft_bundle_index_path(weft_str(p->prefix), &path);
  weft_bundle_header_put(num_shards, &header);
  entries[0] = (weft_table_entry_t){WEFT_STR(""), weft_str_of(header.data, header.length)};
  weft_status_t *s = path.failed || header.failed ? no_memory(weft_str(p->prefix))
                                                  : weft_file_writer_create(path.data, &file);
  if (s == NULL) s = weft_table_write(file, entries, n + 1);
  if (s == NULL) {
    s = weft_file_writer_commit(file);
  } else {
    weft_file_writer_abandon(file);
  }
  weft_strbuf_deinit(&path);
  weft_strbuf_deinit(&header);
  return s;
}

static weft_status_t *link_data(const weft_bundle_place_t *p) {
  weft_status_t *s = NULL;
  for (int64_t i = 0; s == NULL && i < p->num_shards; i++) {
    weft_strbuf_t from = WEFT_STRBUF_INIT, to = WEFT_STRBUF_INIT;
    weft_bundle_place_data_path(p, i, &from);
    weft_bundle_data_path(weft_str(p->prefix), i, p->num_shards, &to);
    s = from.failed || to.failed ? no_memory(weft_str(p->prefix)) : weft_file_link(from.data, to.data);
    weft_strbuf_deinit(&from);
    weft_strbuf_deinit(&to);
  }
  return s != NULL ? s : weft_file_sync_dir(p->prefix);
}

/* Steps 3 and 4. The bundle is whole under the names that it has: failing here is no failure. Returns the
 * number of data files that the index on the disk names; -1: it may be either. */
static int64_t take_true_names(const weft_bundle_place_t *p, weft_table_entry_t *entries, size_t n) {
  if (p->num_staged == p->num_shards) return p->num_shards;
  int64_t result = p->num_shards;
  weft_status_t *s = link_data(p);
  if (s != NULL) {
    result = p->num_staged;
  } else if ((s = write_index(p, p->num_shards, entries, n)) != NULL) {
    result = -1;
  }
  weft_status_free(s);
  return result;
}

void weft_bundle_place_abandon(const weft_bundle_place_t *p) {
  int64_t num_now = 0;
  if (p->prefix == NULL) return;
  weft_status_t *s = count_shards(weft_str(p->prefix), &num_now);
  for (int64_t i = 0; s == NULL && num_now != p->num_staged && i < p->num_staged; i++) {
    weft_strbuf_t path = WEFT_STRBUF_INIT;
    weft_bundle_place_data_path(p, i, &path);
    if (!path.failed) weft_file_remove(path.data);
    weft_strbuf_deinit(&path);
  }
  weft_status_free(s);
}

weft_status_t *weft_bundle_place_commit(const weft_bundle_place_t *p, weft_table_entry_t *entries, size_t n) {
  weft_status_t *s = write_index(p, p->num_staged, entries, n);
  if (s != NULL) {
    weft_bundle_place_abandon(p);
    return s;
  }
  sweep(p, take_true_names(p, entries, n));
  return NULL;
}
