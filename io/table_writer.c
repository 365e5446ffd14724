/* io/table_writer.c - LevelDB's table format, written.
 *
 * Block: entries, u32 offset of each restart point, u32 their number.
 * Entry: varint shared, varint unshared, varint value length, rest of key, value.
 * On disk each block is followed by a type byte and a masked checksum of both.
 * Source: LevelDB's doc/table_format.md; block sizes are TensorFlow's.
 */
#include <inttypes.h>

#include "base/alloc.h"
#include "io/crc32c.h"
#include "io/table.h"
#include "protos/wire.h"

enum {
  BLOCK_BYTES = 262144, /* a data block is closed when it has grown to this */
  RESTART_EVERY = 16,   /* keys that share a prefix with the one before them, at most */
};

typedef struct block {
  weft_strbuf_t bytes, restarts, last_key;
  int since_restart, restart_every;
  uint32_t num_restarts;
} block_t;

typedef struct writer_place {
  uint64_t offset, size;
} writer_place_t;

static void add_u32(weft_strbuf_t *b, uint32_t value) {
  uint8_t *to = weft_wire_room(b, 4);
  if (to != NULL) weft_wire_advance(b, weft_wire_store32(to, value));
}

static void block_begin(block_t *b, int restart_every) {
  b->bytes.length = b->restarts.length = b->last_key.length = 0;
  b->since_restart = 0;
  b->restart_every = restart_every;
  b->num_restarts = 0;
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
  b->last_key.length = shared; /* what it shares with the key is there already */
  weft_strbuf_append(&b->last_key, weft_str_of(key.data + shared, key.length - shared));
  b->since_restart++;
}

static weft_status_t *block_write(block_t *b, weft_file_writer_t *w, writer_place_t *out) {
  if (b->num_restarts == 0) { /* an empty block still has its one restart point */
    add_u32(&b->restarts, 0);
    b->num_restarts = 1;
  }
  weft_strbuf_append(&b->bytes, weft_str_of(b->restarts.data, b->restarts.length));
  add_u32(&b->bytes, b->num_restarts);
  size_t size = b->bytes.length;
  weft_strbuf_putc(&b->bytes, WEFT_TABLE_PLAIN);
  if (b->bytes.failed || b->restarts.failed || b->last_key.failed) return WEFT_NO_MEMORY("writing a table");
  add_u32(&b->bytes, weft_crc32c_mask(weft_crc32c(b->bytes.data, size + 1)));
  if (b->bytes.failed) return WEFT_NO_MEMORY("writing a table");
  *out = (writer_place_t){weft_file_writer_size(w), size};
  return weft_file_writer_append(w, b->bytes.data, b->bytes.length);
}

static void add_place(weft_strbuf_t *b, writer_place_t p) {
  weft_wire_add_raw_varint(b, p.offset);
  weft_wire_add_raw_varint(b, p.size);
}

struct weft_table_writer {
  weft_file_writer_t *file; /* borrowed */
  block_t data, index;
  weft_strbuf_t last_key, text; /* the key that was added last; a block's place */
  bool has_key;
};

static weft_status_t *no_memory(void) { return WEFT_NO_MEMORY("writing a table"); }

static void block_deinit(block_t *b) {
  weft_strbuf_deinit(&b->bytes);
  weft_strbuf_deinit(&b->restarts);
  weft_strbuf_deinit(&b->last_key);
}

weft_status_t *weft_table_writer_create(weft_file_writer_t *file, weft_table_writer_t **out) {
  weft_table_writer_t *w = weft_calloc(1, sizeof *w);
  if (w == NULL) return no_memory();
  w->file = file;
  block_begin(&w->data, RESTART_EVERY);
  block_begin(&w->index, 1);
  *out = w;
  return NULL;
}

void weft_table_writer_abandon(weft_table_writer_t *w) {
  if (w == NULL) return;
  block_deinit(&w->data);
  block_deinit(&w->index);
  weft_strbuf_deinit(&w->last_key);
  weft_strbuf_deinit(&w->text);
  weft_free(w);
}

/* Ends the data block. The index gets its last key, which is a valid separator. */
static weft_status_t *close_block(weft_table_writer_t *w) {
  writer_place_t place;
  if (w->data.num_restarts == 0) return NULL;
  WEFT_RETURN_IF_ERROR(block_write(&w->data, w->file, &place));
  w->text.length = 0;
  add_place(&w->text, place);
  block_add(&w->index, weft_str_of(w->last_key.data, w->last_key.length),
            weft_str_of(w->text.data, w->text.length));
  block_begin(&w->data, RESTART_EVERY);
  return w->text.failed ? no_memory() : NULL;
}

weft_status_t *weft_table_writer_add(weft_table_writer_t *w, weft_str_t key, weft_str_t value) {
  if (w->has_key && weft_table_compare(weft_str_of(w->last_key.data, w->last_key.length), key) >= 0) {
    return WEFT_ERROR(INVALID_ARGUMENT, "keys of a table must ascend: '%.*s' twice or too late",
                      WEFT_STR_ARGS(key));
  }
  w->has_key = true;
  if (value.length >= 2 * (size_t)BLOCK_BYTES)
    WEFT_RETURN_IF_ERROR(close_block(w)); /* it gets a block of its own */
  block_add(&w->data, key, value);
  w->last_key.length = 0;
  weft_strbuf_append(&w->last_key, key);
  if (w->last_key.failed) return no_memory();
  return w->data.bytes.length + w->data.restarts.length < BLOCK_BYTES ? NULL : close_block(w);
}

static weft_status_t *finish(weft_table_writer_t *w) {
  writer_place_t meta_place = {0}, index_place = {0};
  WEFT_RETURN_IF_ERROR(close_block(w));
  WEFT_RETURN_IF_ERROR(block_write(&w->data, w->file, &meta_place)); /* empty: there is no metadata */
  WEFT_RETURN_IF_ERROR(block_write(&w->index, w->file, &index_place));
  weft_strbuf_t *footer = &w->text;
  footer->length = 0;
  add_place(footer, meta_place);
  add_place(footer, index_place);
  while (footer->length < WEFT_TABLE_FOOTER - 8 && !footer->failed) weft_strbuf_putc(footer, '\0');
  add_u32(footer, (uint32_t)WEFT_TABLE_MAGIC);
  add_u32(footer, (uint32_t)(WEFT_TABLE_MAGIC >> 32));
  return footer->failed ? no_memory() : weft_file_writer_append(w->file, footer->data, footer->length);
}

weft_status_t *weft_table_writer_finish(weft_table_writer_t *w) {
  weft_status_t *s = finish(w);
  weft_table_writer_abandon(w);
  return s;
}

weft_status_t *weft_table_write(weft_file_writer_t *file, const weft_table_entry_t *entries, size_t n) {
  weft_table_writer_t *w = NULL;
  WEFT_RETURN_IF_ERROR(weft_table_writer_create(file, &w));
  weft_status_t *s = NULL;
  for (size_t i = 0; s == NULL && i < n; i++) s = weft_table_writer_add(w, entries[i].key, entries[i].value);
  if (s == NULL) return weft_table_writer_finish(w);
  weft_table_writer_abandon(w);
  return s;
}
