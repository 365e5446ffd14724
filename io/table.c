/* io/table.c - LevelDB's table format, written and read whole.
 *
 * Block: entries, u32 offset of each restart point, u32 their number.
 * Entry: varint shared, varint unshared, varint value length, rest of key, value.
 * On disk each block is followed by a type byte and a masked checksum of both.
 * Source: LevelDB's doc/table_format.md; block sizes are TensorFlow's.
 */
#include "io/table.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "io/crc32c.h"
#include "protos/wire.h"

enum {
  BLOCK_BYTES = 262144, /* a data block is closed when it has grown to this */
  RESTART_EVERY = 16,   /* keys that share a prefix with the one before them, at most */
  FOOTER = 48,
  TRAILER = 5,
};
static const uint64_t magic = 0xdb4775248b80fb57u;

int weft_table_compare(weft_str_t a, weft_str_t b) {
  size_t n = a.length < b.length ? a.length : b.length;
  int order = n == 0 ? 0 : memcmp(a.data, b.data, n);
  return order != 0 ? order : (a.length > b.length) - (a.length < b.length);
}

/* ---- writing ---- */

typedef struct block {
  weft_strbuf_t bytes, restarts;
  int since_restart, restart_every;
  uint32_t num_restarts;
  weft_str_t last_key; /* borrowed from the entries */
} block_t;

typedef struct place {
  uint64_t offset, size;
} place_t;

static void add_u32(weft_strbuf_t *b, uint32_t value) {
  uint8_t *to = weft_wire_room(b, 4);
  if (to != NULL) weft_wire_advance(b, weft_wire_store32(to, value));
}

static void block_begin(block_t *b, int restart_every) {
  b->bytes.length = b->restarts.length = 0;
  b->since_restart = 0;
  b->restart_every = restart_every;
  b->num_restarts = 0;
  b->last_key = WEFT_STR("");
}

static void block_add(block_t *b, weft_str_t key, weft_str_t value) {
  size_t shared = 0;
  if (b->num_restarts == 0 || b->since_restart == b->restart_every) {
    add_u32(&b->restarts, (uint32_t)b->bytes.length);
    b->num_restarts++;
    b->since_restart = 0;
  } else {
    size_t n = key.length < b->last_key.length ? key.length : b->last_key.length;
    while (shared < n && key.data[shared] == b->last_key.data[shared]) shared++;
  }
  weft_wire_add_raw_varint(&b->bytes, shared);
  weft_wire_add_raw_varint(&b->bytes, key.length - shared);
  weft_wire_add_raw_varint(&b->bytes, value.length);
  weft_strbuf_append(&b->bytes, weft_str_of(key.data + shared, key.length - shared));
  weft_strbuf_append(&b->bytes, value);
  b->last_key = key;
  b->since_restart++;
}

static weft_status_t *block_write(block_t *b, weft_file_writer_t *w, place_t *out) {
  if (b->num_restarts == 0) { /* an empty block still has its one restart point */
    add_u32(&b->restarts, 0);
    b->num_restarts = 1;
  }
  weft_strbuf_append(&b->bytes, weft_str_of(b->restarts.data, b->restarts.length));
  add_u32(&b->bytes, b->num_restarts);
  size_t size = b->bytes.length;
  weft_strbuf_putc(&b->bytes, '\0'); /* not compressed */
  if (b->bytes.failed || b->restarts.failed) return WEFT_ERROR(RESOURCE_EXHAUSTED, "writing a table");
  add_u32(&b->bytes, weft_crc32c_mask(weft_crc32c(b->bytes.data, size + 1)));
  if (b->bytes.failed) return WEFT_ERROR(RESOURCE_EXHAUSTED, "writing a table");
  *out = (place_t){weft_file_writer_size(w), size};
  return weft_file_writer_append(w, b->bytes.data, b->bytes.length);
}

static void add_place(weft_strbuf_t *b, place_t p) {
  weft_wire_add_raw_varint(b, p.offset);
  weft_wire_add_raw_varint(b, p.size);
}

/* Data blocks; the index gets the last key of each, which is a valid separator. */
static weft_status_t *write_data(weft_file_writer_t *w, const weft_table_entry_t *entries, size_t n, block_t *data,
                                 block_t *index) {
  weft_strbuf_t text = WEFT_STRBUF_INIT;
  weft_status_t *s = NULL;
  block_begin(data, RESTART_EVERY);
  for (size_t i = 0; s == NULL && i < n; i++) {
    if (i > 0 && weft_table_compare(entries[i - 1].key, entries[i].key) >= 0) {
      s = WEFT_ERROR(INVALID_ARGUMENT, "keys of a table must ascend: '%.*s' twice or too late",
                     WEFT_STR_ARGS(entries[i].key));
      break;
    }
    block_add(data, entries[i].key, entries[i].value);
    if (i + 1 < n && data->bytes.length + data->restarts.length < BLOCK_BYTES) continue;
    place_t place;
    s = block_write(data, w, &place);
    text.length = 0;
    add_place(&text, place);
    block_add(index, entries[i].key, weft_str_of(text.data, text.length));
    block_begin(data, RESTART_EVERY);
  }
  if (s == NULL && text.failed) s = WEFT_ERROR(RESOURCE_EXHAUSTED, "writing a table");
  weft_strbuf_deinit(&text);
  return s;
}

weft_status_t *weft_table_write(weft_file_writer_t *w, const weft_table_entry_t *entries, size_t n) {
  block_t data = {0}, index = {0};
  place_t meta_place = {0}, index_place = {0};
  weft_strbuf_t footer = WEFT_STRBUF_INIT;
  block_begin(&index, 1);
  weft_status_t *s = write_data(w, entries, n, &data, &index);
  block_begin(&data, RESTART_EVERY);
  if (s == NULL) s = block_write(&data, w, &meta_place);
  if (s == NULL) s = block_write(&index, w, &index_place);
  add_place(&footer, meta_place);
  add_place(&footer, index_place);
  while (footer.length < FOOTER - 8 && !footer.failed) weft_strbuf_putc(&footer, '\0');
  add_u32(&footer, (uint32_t)magic);
  add_u32(&footer, (uint32_t)(magic >> 32));
  if (s == NULL && footer.failed) s = WEFT_ERROR(RESOURCE_EXHAUSTED, "writing a table");
  if (s == NULL) s = weft_file_writer_append(w, footer.data, footer.length);
  weft_strbuf_deinit(&footer);
  weft_strbuf_deinit(&data.bytes);
  weft_strbuf_deinit(&data.restarts);
  weft_strbuf_deinit(&index.bytes);
  weft_strbuf_deinit(&index.restarts);
  return s;
}

/* ---- reading ---- */

static weft_status_t *corrupt(const char *path, const char *what) {
  return WEFT_ERROR(DATA_LOSS, "%s is not a valid table: %s", path, what);
}

static const uint8_t *get_place(const uint8_t *p, const uint8_t *end, place_t *out) {
  p = weft_wire_get_varint(p, end, &out->offset);
  return p == NULL ? NULL : weft_wire_get_varint(p, end, &out->size);
}

/* The contents of the block at `place`, checked. */
static weft_status_t *get_block(const char *path, weft_str_t file, place_t place, weft_str_t *out) {
  if (place.offset > file.length || place.size > file.length - place.offset ||
      TRAILER > file.length - place.offset - place.size) {
    return corrupt(path, "a block lies outside the file");
  }
  const char *at = file.data + place.offset;
  size_t size = (size_t)place.size;
  if (weft_crc32c_unmask(weft_wire_load32(at + size + 1)) != weft_crc32c(at, size + 1)) {
    return corrupt(path, "block checksum mismatch");
  }
  if (at[size] != 0) return WEFT_ERROR(UNIMPLEMENTED, "%s holds blocks compressed with method %d", path, at[size]);
  *out = weft_str_of(at, size);
  return NULL;
}

typedef weft_status_t *entry_fn(void *arg, weft_str_t key, weft_str_t value);

/* Calls `fn` for each entry of a block; the key is valid during the call. */
static weft_status_t *walk_block(const char *path, weft_str_t block, entry_fn *fn, void *arg) {
  if (block.length < 4) return corrupt(path, "a block is too small");
  uint64_t restarts = weft_wire_load32(block.data + block.length - 4);
  if (restarts > (block.length - 4) / 4) return corrupt(path, "a block has too many restart points");
  const uint8_t *p = (const uint8_t *)block.data, *end = p + (block.length - 4 - (size_t)restarts * 4);
  weft_strbuf_t key = WEFT_STRBUF_INIT;
  weft_status_t *s = NULL;
  while (s == NULL && p < end) {
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
      s = WEFT_ERROR(RESOURCE_EXHAUSTED, "reading %s", path);
      break;
    }
    p += rest;
    s = fn(arg, weft_str_of(key.data, key.length), weft_str_of((const char *)p, (size_t)size));
    p += size;
  }
  weft_strbuf_deinit(&key);
  return s;
}

typedef struct reading {
  weft_table_t *table;
  const char *path;
  weft_str_t file;
} reading_t;

static weft_str_t keep(weft_arena_t *arena, weft_str_t s, bool *failed) {
  char *copy = weft_arena_alloc(arena, s.length + 1);
  *failed = *failed || copy == NULL;
  if (copy == NULL) return WEFT_STR("");
  if (s.length > 0) memcpy(copy, s.data, s.length);
  copy[s.length] = '\0';
  return weft_str_of(copy, s.length);
}

static weft_status_t *take_entry(void *arg, weft_str_t key, weft_str_t value) {
  const reading_t *r = arg;
  weft_table_t *t = r->table;
  bool failed = false;
  if (t->count > 0 && weft_table_compare(t->entries[t->count - 1].key, key) >= 0) {
    return corrupt(r->path, "keys do not ascend");
  }
  if (t->count == t->capacity) {
    size_t capacity = t->capacity == 0 ? 64 : t->capacity * 2;
    weft_table_entry_t *more = weft_realloc(t->entries, capacity, sizeof *more);
    if (more == NULL) return WEFT_ERROR(RESOURCE_EXHAUSTED, "reading %s", r->path);
    t->entries = more;
    t->capacity = capacity;
  }
  weft_table_entry_t e = {keep(&t->arena, key, &failed), keep(&t->arena, value, &failed)};
  if (failed) return WEFT_ERROR(RESOURCE_EXHAUSTED, "reading %s", r->path);
  t->entries[t->count++] = e;
  return NULL;
}

static weft_status_t *take_index_entry(void *arg, weft_str_t key, weft_str_t value) {
  reading_t *r = arg;
  place_t place;
  weft_str_t block = WEFT_STR("");
  (void)key;
  const uint8_t *p = (const uint8_t *)value.data;
  if (get_place(p, p + value.length, &place) == NULL) return corrupt(r->path, "a bad index entry");
  WEFT_RETURN_IF_ERROR(get_block(r->path, r->file, place, &block));
  return walk_block(r->path, block, take_entry, r);
}

static weft_status_t *read_blocks(reading_t *r) {
  place_t meta, index;
  weft_str_t block = WEFT_STR("");
  if (r->file.length < FOOTER) return corrupt(r->path, "it is too small");
  const uint8_t *footer = (const uint8_t *)r->file.data + r->file.length - FOOTER;
  if (weft_wire_load64(footer + FOOTER - 8) != magic) return corrupt(r->path, "bad magic number");
  const uint8_t *p = get_place(footer, footer + FOOTER - 8, &meta);
  if (p == NULL || get_place(p, footer + FOOTER - 8, &index) == NULL) return corrupt(r->path, "a bad footer");
  WEFT_RETURN_IF_ERROR(get_block(r->path, r->file, index, &block));
  return walk_block(r->path, block, take_index_entry, r);
}

weft_status_t *weft_table_read(const char *path, weft_table_t *out) {
  weft_table_t t = {.arena = WEFT_ARENA_INIT};
  char *bytes = NULL;
  size_t length = 0;
  WEFT_RETURN_IF_ERROR(weft_file_read_all(path, &bytes, &length));
  reading_t r = {&t, path, weft_str_of(bytes, length)};
  weft_status_t *s = read_blocks(&r);
  weft_free(bytes);
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
