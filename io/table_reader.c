/* io/table_reader.c - LevelDB's table format, read: one value by its key, or all of it. See table_writer.c.
 */
#include <inttypes.h>
#include <snappy-c.h>

#include "base/alloc.h"
#include "io/crc32c.h"
#include "io/table.h"
#include "protos/wire.h"

struct weft_table_reader {
  char *path;
  weft_file_reader_t file;
  weft_strbuf_t index; /* the index block, checked */
};

int weft_table_compare(weft_str_t a, weft_str_t b) {
  size_t n = a.length < b.length ? a.length : b.length;
  int order = n == 0 ? 0 : memcmp(a.data, b.data, n);
  return order != 0 ? order : (a.length > b.length) - (a.length < b.length);
}

/* ---- blocks ---- */

typedef struct reader_place {
  uint64_t offset, size;
} reader_place_t;

static weft_status_t *corrupt(const char *path, const char *what) {
  return WEFT_ERROR(DATA_LOSS, "%s is not a valid table: %s", path, what);
}

static weft_status_t *no_memory(const char *path) { return WEFT_NO_MEMORY("reading %s", path); }

static const uint8_t *get_place(const uint8_t *p, const uint8_t *end, reader_place_t *out) {
  p = weft_wire_get_varint(p, end, &out->offset);
  return p == NULL ? NULL : weft_wire_get_varint(p, end, &out->size);
}

/* Puts what Snappy makes of `bytes` in their place. Nothing is allocated before they are known to be good. */
static weft_status_t *uncompress(const char *path, weft_strbuf_t *bytes) {
  weft_strbuf_t plain = WEFT_STRBUF_INIT;
  size_t length = 0;
  if (snappy_validate_compressed_buffer(bytes->data, bytes->length) != SNAPPY_OK ||
      snappy_uncompressed_length(bytes->data, bytes->length, &length) != SNAPPY_OK) {
    return corrupt(path, "a compressed block is damaged");
  }
  char *to = weft_strbuf_reserve(&plain, length);
  if (to == NULL) return no_memory(path);
  if (snappy_uncompress(bytes->data, bytes->length, to, &length) != SNAPPY_OK) length = 0;
  plain.length = length;
  weft_strbuf_deinit(bytes);
  *bytes = plain;
  return NULL;
}

/* The contents of the block at `place`, checked, in *out (whatever was there is gone). */
static weft_status_t *read_block(const weft_table_reader_t *r, reader_place_t place, weft_strbuf_t *out) {
  uint64_t size = r->file.size;
  if (place.offset > size || place.size > size - place.offset ||
      WEFT_TABLE_TRAILER > size - place.offset - place.size) {
    return corrupt(r->path, "a block lies outside the file");
  }
  size_t length = (size_t)place.size;
  out->length = 0;
  char *to = weft_strbuf_reserve(out, length + WEFT_TABLE_TRAILER);
  if (to == NULL) return no_memory(r->path);
  WEFT_RETURN_IF_ERROR(weft_file_read_at(&r->file, place.offset, to, length + WEFT_TABLE_TRAILER));
  if (weft_crc32c_unmask(weft_wire_load32(to + length + 1)) != weft_crc32c(to, length + 1)) {
    return corrupt(r->path, "block checksum mismatch");
  }
  out->length = length;
  if (to[length] == WEFT_TABLE_SNAPPY) return uncompress(r->path, out);
  if (to[length] != WEFT_TABLE_PLAIN) return corrupt(r->path, "bad block type");
  return NULL;
}

typedef weft_status_t *entry_fn(void *arg, weft_str_t key, weft_str_t value, bool *is_enough);

/* Calls `fn` for each entry of a block until it says that this is enough; the key is valid during the call.
 */
static weft_status_t *walk_block(const char *path, const weft_strbuf_t *block, entry_fn *fn, void *arg) {
  bool is_enough = false;
  if (block->length < 4) return corrupt(path, "a block is too small");
  uint64_t restarts = weft_wire_load32(block->data + block->length - 4);
  if (restarts > (block->length - 4) / 4) return corrupt(path, "a block has too many restart points");
  const uint8_t *p = (const uint8_t *)block->data, *end = p + (block->length - 4 - (size_t)restarts * 4);
  weft_strbuf_t key = WEFT_STRBUF_INIT;
  weft_status_t *s = NULL;
  while (s == NULL && !is_enough && p < end) {
    uint64_t shared = 0, rest = 0, size = 0;
    p = weft_wire_get_varint(p, end, &shared);
    if (p != NULL) p = weft_wire_get_varint(p, end, &rest);
    if (p != NULL) p = weft_wire_get_varint(p, end, &size);
    if (p == NULL || shared > key.length || rest > (uint64_t)(end - p) || size > (uint64_t)(end - p) - rest) {
      s = corrupt(path, "a bad entry");
      break;
    }
    key.length = (size_t)shared;
    weft_strbuf_append(&key, weft_str_of((const char *)p, (size_t)rest));
    if (key.failed) {
      s = no_memory(path);
      break;
    }
    p += rest;
    s = fn(arg, weft_str_of(key.data, key.length), weft_str_of((const char *)p, (size_t)size), &is_enough);
    p += size;
  }
  weft_strbuf_deinit(&key);
  return s;
}

/* ---- one value ---- */

static weft_status_t *read_index(weft_table_reader_t *r) {
  uint8_t footer[WEFT_TABLE_FOOTER];
  reader_place_t meta, index;
  if (r->file.size < WEFT_TABLE_FOOTER) return WEFT_ERROR(DATA_LOSS, "file is too short to be an sstable");
  WEFT_RETURN_IF_ERROR(
      weft_file_read_at(&r->file, r->file.size - WEFT_TABLE_FOOTER, footer, WEFT_TABLE_FOOTER));
  const uint8_t *end = footer + WEFT_TABLE_FOOTER - 8;
  if (weft_wire_load64(end) != WEFT_TABLE_MAGIC)
    return WEFT_ERROR(DATA_LOSS, "not an sstable (bad magic number)");
  const uint8_t *p = get_place(footer, end, &meta);
  if (p == NULL || get_place(p, end, &index) == NULL) return corrupt(r->path, "a bad footer");
  return read_block(r, index, &r->index);
}

weft_status_t *weft_table_reader_open(const char *path, weft_table_reader_t **out) {
  weft_table_reader_t *r = weft_calloc(1, sizeof *r);
  if (r == NULL) return no_memory(path);
  r->file.fd = -1;
  r->path = weft_strdup(path);
  weft_status_t *s = r->path == NULL ? no_memory(path) : weft_file_open(r->path, &r->file);
  if (s == NULL) s = read_index(r);
  if (s == NULL) *out = r;
  if (s != NULL) weft_table_reader_close(r);
  return s;
}

void weft_table_reader_close(weft_table_reader_t *r) {
  if (r == NULL) return;
  weft_file_close(&r->file);
  weft_strbuf_deinit(&r->index);
  weft_free(r->path);
  weft_free(r);
}

typedef struct block_search {
  const weft_table_reader_t *reader;
  weft_str_t key;
  weft_strbuf_t *out;
  bool found;
} block_search_t;

static weft_status_t *search_block(void *arg, weft_str_t key, weft_str_t value, bool *is_enough) {
  block_search_t *search = arg;
  int order = weft_table_compare(key, search->key);
  *is_enough = order >= 0;
  if (order != 0) return NULL;
  search->found = true;
  weft_strbuf_append(search->out, value);
  return search->out->failed ? no_memory(search->reader->path) : NULL;
}

/* The first block whose separator is not below the key is the only one that can hold it. */
static weft_status_t *search_index(void *arg, weft_str_t key, weft_str_t value, bool *is_enough) {
  block_search_t *search = arg;
  const weft_table_reader_t *r = search->reader;
  weft_strbuf_t block = WEFT_STRBUF_INIT;
  reader_place_t place;
  if (weft_table_compare(key, search->key) < 0) return NULL;
  *is_enough = true;
  const uint8_t *p = (const uint8_t *)value.data;
  if (get_place(p, p + value.length, &place) == NULL) return corrupt(r->path, "a bad index entry");
  weft_status_t *s = read_block(r, place, &block);
  if (s == NULL) s = walk_block(r->path, &block, search_block, search);
  weft_strbuf_deinit(&block);
  return s;
}

weft_status_t *weft_table_reader_get(const weft_table_reader_t *r, weft_str_t key, weft_strbuf_t *out) {
  block_search_t search = {r, key, out, false};
  WEFT_RETURN_IF_ERROR(walk_block(r->path, &r->index, search_index, &search));
  return search.found ? NULL : WEFT_ERROR(NOT_FOUND, "%s has no such key", r->path);
}

uint64_t weft_table_reader_size(const weft_table_reader_t *r) { return r->file.size; }

/* ---- the whole ---- */

typedef struct reading {
  const weft_table_reader_t *reader;
  weft_table_t *table;
  weft_strbuf_t block; /* the one being read */
} reading_t;

static weft_str_t keep(weft_arena_t *arena, weft_str_t s, bool *failed) {
  char *copy = weft_arena_alloc(arena, s.length + 1);
  *failed = *failed || copy == NULL;
  if (copy == NULL) return WEFT_STR("");
  if (s.length > 0) memcpy(copy, s.data, s.length);
  copy[s.length] = '\0';
  return weft_str_of(copy, s.length);
}

static weft_status_t *take_entry(void *arg, weft_str_t key, weft_str_t value, bool *is_enough) {
  const reading_t *r = arg;
  weft_table_t *t = r->table;
  bool failed = false;
  (void)is_enough;
  if (t->count > 0 && weft_table_compare(t->entries[t->count - 1].key, key) >= 0) {
    return corrupt(r->reader->path, "keys do not ascend");
  }
  if (t->count == t->capacity) {
    size_t capacity = t->capacity == 0 ? 64 : t->capacity * 2;
    weft_table_entry_t *more = weft_realloc(t->entries, capacity, sizeof *more);
    if (more == NULL) return no_memory(r->reader->path);
    t->entries = more;
    t->capacity = capacity;
  }
  weft_table_entry_t e = {keep(&t->arena, key, &failed), keep(&t->arena, value, &failed)};
  if (failed) return no_memory(r->reader->path);
  t->entries[t->count++] = e;
  return NULL;
}

static weft_status_t *take_block(void *arg, weft_str_t key, weft_str_t value, bool *is_enough) {
  reading_t *r = arg;
  reader_place_t place;
  (void)key;
  (void)is_enough;
  const uint8_t *p = (const uint8_t *)value.data;
  if (get_place(p, p + value.length, &place) == NULL) return corrupt(r->reader->path, "a bad index entry");
  WEFT_RETURN_IF_ERROR(read_block(r->reader, place, &r->block));
  return walk_block(r->reader->path, &r->block, take_entry, r);
}

weft_status_t *weft_table_read(const char *path, weft_table_t *out) {
  weft_table_t t = {.arena = WEFT_ARENA_INIT};
  weft_table_reader_t *reader = NULL;
  WEFT_RETURN_IF_ERROR(weft_table_reader_open(path, &reader));
  reading_t r = {.reader = reader, .table = &t};
  weft_status_t *s = walk_block(path, &reader->index, take_block, &r);
  weft_strbuf_deinit(&r.block);
  weft_table_reader_close(reader);
  if (s == NULL) *out = t;
  if (s != NULL) weft_table_deinit(&t);
  return s;
}

void weft_table_deinit(weft_table_t *t) {
  weft_free(t->entries);
  weft_arena_deinit(&t->arena);
  *t = (weft_table_t){.arena = WEFT_ARENA_INIT};
}

const weft_table_entry_t *weft_table_find(const weft_table_t *t, weft_str_t key) {
  size_t low = 0, high = t->count;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    int order = weft_table_compare(t->entries[middle].key, key);
    if (order == 0) return &t->entries[middle];
    if (order < 0) low = middle + 1;
    if (order > 0) high = middle;
  }
  return NULL;
}
