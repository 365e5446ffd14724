/* io/lmdb.c - pages of an LMDB file, checked one by one.
 *
 * A tree is walked with one page per level. The leaves of the main tree hold nodes: a key, and a value, the
 * page where a large value begins, or, where keys have sorted duplicates, a small page or a tree of these.
 * That one is walked in the same way; its keys are the values.
 */
#include "io/lmdb.h"

#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "io/file.h"
#include "protos/wire.h"

enum {
  PAGE_HEAD = 16, /* number 8, pad 2, flags 2, lower 2, upper 2; then the places of nodes, 2 bytes each */
  NODE_HEAD = 8,  /* size of the value 4 (with the next: a page number 6), flags 2, size of the key 2 */
  DB_RECORD =
      48, /* pad 4, flags 2, depth 2, branch pages 8, leaf pages 8, large pages 8, entries 8, root 8 */
  META_BYTES = 136, /* behind the page's head: magic 4, version 4, address 8, map size 8, two records, last
                      page 8, transaction 8 */
  META_RECORDS = 24,
  META_LAST_PAGE = META_RECORDS + 2 * DB_RECORD,
  META_TRANSACTION = META_LAST_PAGE + 8,
  NUM_METAS = 2, /* pages in front */
  MIN_PAGE = 256,
  MAX_PAGE = 0x8000,
  MAX_DEPTH = 32,
  BRANCH = 1, /* flags of pages */
  LEAF = 2,
  META = 8,
  FIXED = 0x20, /* keys of one size, without nodes */
  BIG = 1,      /* flags of nodes: the value is on pages of its own */
  TREE = 2,     /* it is the record of a database */
  DUPLICATES = 4,
};
#define MAGIC UINT32_C(0xBEEFC0DE)
#define NO_PAGE UINT64_MAX

static const char corrupted[] = "MDB_CORRUPTED: Located page was wrong type",
                  not_found[] = "MDB_PAGE_NOTFOUND: Requested page not found",
                  invalid[] = "MDB_INVALID: File is not an LMDB file",
                  other_version[] = "MDB_VERSION_MISMATCH: Database environment version mismatch";

typedef struct lmdb_level {
  unsigned char *own; /* owned: room for a page; NULL: none yet */
  const unsigned char *page;
  size_t size;      /* of the page */
  uint64_t number;  /* of the page, for messages */
  size_t at, count; /* entries */
  size_t fixed;     /* the size of its keys, which have no nodes; 0: they have */
} lmdb_level_t;

typedef struct lmdb_walk {
  int depth; /* of the tree; 0: it is empty */
  uint64_t root;
  bool has_begun, is_over;
  lmdb_level_t levels[MAX_DEPTH];
} lmdb_walk_t;

struct weft_lmdb {
  char *path;              /* owned; NULL: in memory */
  weft_file_reader_t file; /* of the path */
  weft_str_t bytes;        /* in memory */
  uint64_t size;           /* of the file */
  size_t page_size;
  uint64_t last_page, entries, given;
  lmdb_walk_t main, duplicates;
  bool in_duplicates;
  weft_str_t key;         /* of the duplicates: lent by the page of the main tree */
  weft_strbuf_t large;    /* a value of pages of its own */
  weft_status_t *failure; /* owned */
};

static size_t load16(const unsigned char *p) { return (size_t)p[0] | (size_t)p[1] << 8; }
static uint32_t load32(const unsigned char *p) { return weft_wire_load32((const char *)p); }
static uint64_t load64(const unsigned char *p) { return weft_wire_load64((const char *)p); }

static weft_status_t *damaged(const weft_lmdb_t *d, uint64_t page, const char *words) {
  return WEFT_ERROR(INVALID_ARGUMENT, "%s: %s (page %" PRIu64 ")", d->path != NULL ? d->path : "<memory>",
                    words, page);
}

/* ---- pages ---- */

/* As liblmdb's errors are: all of one code. */
static weft_status_t *as_invalid(weft_status_t *s) {
  if (s == NULL || weft_status_code(s) == WEFT_RESOURCE_EXHAUSTED) return s;
  weft_status_t *other = WEFT_ERROR(INVALID_ARGUMENT, "%s", weft_status_message(s));
  weft_status_free(s);
  return other;
}

static weft_status_t *read_at(const weft_lmdb_t *d, uint64_t offset, void *to, size_t n) {
  if (d->path != NULL) return as_invalid(weft_file_read_at(&d->file, offset, to, n));
  memcpy(to, d->bytes.data + offset, n);
  return NULL;
}

/* Whether pages from `page` on hold `n` bytes that the file has. */
static bool has_pages(const weft_lmdb_t *d, uint64_t page, uint64_t n) {
  if (page < NUM_METAS || page > d->last_page || page > d->size / d->page_size) return false;
  return n <= d->size - page * d->page_size;
}

/* What is in the level's page: `is_leaf` or a branch. */
static weft_status_t *check_page(const weft_lmdb_t *d, lmdb_level_t *l, bool is_leaf) {
  const unsigned char *p = l->page;
  if (l->size < PAGE_HEAD) return damaged(d, l->number, corrupted);
  const size_t flags = load16(p + 10), lower = load16(p + 12), upper = load16(p + 14);
  const size_t kind = flags & (BRANCH | LEAF), fixed = load16(p + 8);
  const bool is_fixed = (flags & FIXED) != 0;
  if (kind != (is_leaf ? LEAF : BRANCH) || (is_fixed && (!is_leaf || fixed == 0)) || lower <= PAGE_HEAD ||
      lower % 2 != 0 || lower > l->size)
    return damaged(d, l->number, corrupted);
  l->at = 0;
  l->count = (lower - PAGE_HEAD) / 2;
  l->fixed = is_fixed ? fixed : 0;
  const bool fits = is_fixed ? l->count <= (l->size - PAGE_HEAD) / fixed : lower <= upper && upper <= l->size;
  return fits ? NULL : damaged(d, l->number, corrupted);
}

static weft_status_t *read_page(const weft_lmdb_t *d, uint64_t page, lmdb_level_t *l, bool is_leaf) {
  if (!has_pages(d, page, d->page_size)) return damaged(d, page, not_found);
  if (l->own == NULL) l->own = weft_malloc(d->page_size);
  if (l->own == NULL) return WEFT_NO_MEMORY("a page of %zu bytes", d->page_size);
  WEFT_RETURN_IF_ERROR(read_at(d, page * d->page_size, l->own, d->page_size));
  l->page = l->own;
  l->size = d->page_size;
  l->number = page;
  return load64(l->page) == page ? check_page(d, l, is_leaf) : damaged(d, page, corrupted);
}

/* ---- nodes ---- */

typedef struct lmdb_node {
  const unsigned char *head; /* NULL: a key without a node */
  weft_str_t key, value;     /* value: what lies in the page */
  unsigned flags;
  uint64_t value_size;
} lmdb_node_t;

/* The entry where the level is. */
static weft_status_t *node_at(const weft_lmdb_t *d, const lmdb_level_t *l, bool is_leaf, lmdb_node_t *out) {
  const char *bytes = (const char *)l->page;
  *out = (lmdb_node_t){.head = NULL};
  if (l->fixed > 0) {
    out->key = weft_str_of(bytes + PAGE_HEAD + l->at * l->fixed, l->fixed);
    return NULL;
  }
  const size_t place = load16(l->page + PAGE_HEAD + 2 * l->at), first = PAGE_HEAD + 2 * l->count;
  if (place < first || place > l->size - NODE_HEAD) return damaged(d, l->number, corrupted);
  const size_t room = l->size - place - NODE_HEAD, key = load16(l->page + place + 6);
  out->head = l->page + place;
  if (key > room) return damaged(d, l->number, corrupted);
  out->key = weft_str_of(bytes + place + NODE_HEAD, key);
  if (!is_leaf) return NULL;
  out->flags = (unsigned)load16(out->head + 4);
  out->value_size = load32(out->head);
  const uint64_t here = (out->flags & BIG) != 0 ? 8 : out->value_size;
  if (here > room - key) return damaged(d, l->number, corrupted);
  out->value = weft_str_of(bytes + place + NODE_HEAD + key, (size_t)here);
  return NULL;
}

/* ---- trees ---- */

static void set_tree(lmdb_walk_t *w, int depth, uint64_t root) {
  w->depth = root == NO_PAGE ? 0 : depth;
  w->root = root;
  w->has_begun = false;
  w->is_over = w->depth == 0;
}

static void free_walk(lmdb_walk_t *w) {
  for (int i = 0; i < MAX_DEPTH; i++) weft_free(w->levels[i].own);
}

/* From the page of level `i`, and its entry, to the first leaf below. */
static weft_status_t *descend(const weft_lmdb_t *d, lmdb_walk_t *w, int i) {
  for (; i + 1 < w->depth; i++) {
    lmdb_node_t n;
    WEFT_RETURN_IF_ERROR(node_at(d, &w->levels[i], false, &n));
    const uint64_t child = load32(n.head) | (uint64_t)load16(n.head + 4) << 32;
    WEFT_RETURN_IF_ERROR(read_page(d, child, &w->levels[i + 1], i + 2 == w->depth));
  }
  return NULL;
}

/* To the next entry of a leaf; is_over: there is none. */
static weft_status_t *advance(const weft_lmdb_t *d, lmdb_walk_t *w) {
  int i = w->depth - 1;
  if (w->is_over) return NULL;
  if (!w->has_begun) {
    w->has_begun = true;
    WEFT_RETURN_IF_ERROR(read_page(d, w->root, &w->levels[0], w->depth == 1));
    return descend(d, w, 0);
  }
  for (; i >= 0 && ++w->levels[i].at == w->levels[i].count; i--) continue;
  w->is_over = i < 0;
  return w->is_over ? NULL : descend(d, w, i);
}

static weft_status_t *current(const weft_lmdb_t *d, const lmdb_walk_t *w, lmdb_node_t *out) {
  return node_at(d, &w->levels[w->depth - 1], true, out);
}

/* ---- databases ---- */

static weft_status_t *open_tree(const weft_lmdb_t *d, const unsigned char *record, uint64_t page,
                                lmdb_walk_t *out) {
  const size_t depth = load16(record + 6);
  const uint64_t root = load64(record + 40);
  if (depth > MAX_DEPTH || (depth == 0 && root != NO_PAGE)) return damaged(d, page, corrupted);
  set_tree(out, (int)depth, root);
  return NULL;
}

/* The duplicates of a key: in a page within the node's, or a tree. */
static weft_status_t *open_duplicates(weft_lmdb_t *d, const lmdb_node_t *n) {
  const uint64_t page = d->main.levels[d->main.depth - 1].number;
  lmdb_walk_t *w = &d->duplicates;
  d->key = n->key;
  d->in_duplicates = true;
  if ((n->flags & BIG) != 0) return damaged(d, page, corrupted);
  if ((n->flags & TREE) != 0) {
    if (n->value.length < DB_RECORD) return damaged(d, page, corrupted);
    WEFT_RETURN_IF_ERROR(open_tree(d, (const unsigned char *)n->value.data, page, w));
    return w->is_over ? damaged(d, page, corrupted) : NULL; /* each entry has a value */
  }
  set_tree(w, 1, page);
  w->has_begun = true;
  lmdb_level_t *l = &w->levels[0];
  l->page = (const unsigned char *)n->value.data;
  l->size = n->value.length;
  l->number = page;
  WEFT_RETURN_IF_ERROR(check_page(d, l, true));
  l->at = SIZE_MAX; /* in front of the first */
  return NULL;
}

/* The bytes behind the head of the first of some pages. */
static weft_status_t *read_large(weft_lmdb_t *d, const lmdb_node_t *n, weft_str_t *out) {
  const uint64_t page = load64((const unsigned char *)n->value.data);
  unsigned char head[PAGE_HEAD];
  if (!has_pages(d, page, PAGE_HEAD + n->value_size)) return damaged(d, page, not_found);
  WEFT_RETURN_IF_ERROR(read_at(d, page * d->page_size, head, sizeof head));
  if (load64(head) != page) return damaged(d, page, corrupted);
  d->large.length = 0;
  char *to = weft_strbuf_reserve(&d->large, (size_t)n->value_size);
  if (to == NULL) return WEFT_NO_MEMORY("a value of %" PRIu64 " bytes", n->value_size);
  *out = weft_str_of(to, (size_t)n->value_size);
  return read_at(d, page * d->page_size + PAGE_HEAD, to, (size_t)n->value_size);
}

static weft_status_t *next(weft_lmdb_t *d, bool is_skipped, weft_str_t *key, weft_str_t *value,
                           bool *is_end) {
  lmdb_node_t n;
  for (;;) {
    lmdb_walk_t *w = d->in_duplicates ? &d->duplicates : &d->main;
    WEFT_RETURN_IF_ERROR(advance(d, w));
    if (w->is_over && !d->in_duplicates) break;
    if (w->is_over) {
      d->in_duplicates = false;
      continue;
    }
    if (d->given >= d->entries) return damaged(d, w->levels[w->depth - 1].number, corrupted);
    WEFT_RETURN_IF_ERROR(current(d, w, &n));
    if (!d->in_duplicates && (n.flags & DUPLICATES) != 0) {
      WEFT_RETURN_IF_ERROR(open_duplicates(d, &n));
      continue;
    }
    *key = d->in_duplicates ? d->key : n.key;
    *value = d->in_duplicates ? n.key : n.value;
    d->given++;
    const bool is_large = !d->in_duplicates && (n.flags & BIG) != 0;
    return is_large && !is_skipped ? read_large(d, &n, value) : NULL;
  }
  *is_end = true;
  return NULL;
}

weft_status_t *weft_lmdb_next(weft_lmdb_t *d, weft_str_t *key, weft_str_t *value, bool *is_end) {
  *is_end = false;
  if (d->failure == NULL) d->failure = next(d, false, key, value, is_end);
  return d->failure == NULL ? NULL : weft_status_clone(d->failure);
}

weft_status_t *weft_lmdb_skip(weft_lmdb_t *d, uint64_t n) {
  bool is_end = false;
  weft_str_t key, value;
  for (; d->failure == NULL && n > 0 && !is_end; n--) d->failure = next(d, true, &key, &value, &is_end);
  return d->failure == NULL ? NULL : weft_status_clone(d->failure);
}

/* ---- opening ---- */

static weft_status_t *read_meta(const weft_lmdb_t *d, uint64_t offset, unsigned char *out) {
  unsigned char head[PAGE_HEAD];
  const uint64_t page = offset == 0 ? 0 : 1;
  if (d->size < offset || d->size - offset < PAGE_HEAD + META_BYTES) return damaged(d, page, invalid);
  WEFT_RETURN_IF_ERROR(read_at(d, offset, head, sizeof head));
  WEFT_RETURN_IF_ERROR(read_at(d, offset + PAGE_HEAD, out, META_BYTES));
  if ((load16(head + 10) & META) == 0 || load32(out) != MAGIC) return damaged(d, page, invalid);
  return load32(out + 4) == 1 ? NULL : damaged(d, page, other_version);
}

/* The newer of the two pages in front says where the trees are. */
static weft_status_t *read_metas(weft_lmdb_t *d) {
  unsigned char one[META_BYTES], other[META_BYTES];
  WEFT_RETURN_IF_ERROR(read_meta(d, 0, one));
  const size_t size = load32(one + META_RECORDS); /* of a page: the pad of the first record */
  if (size < MIN_PAGE || size > MAX_PAGE || (size & (size - 1)) != 0) return damaged(d, 0, invalid);
  d->page_size = size;
  WEFT_RETURN_IF_ERROR(read_meta(d, size, other));
  const bool is_newer = load64(other + META_TRANSACTION) > load64(one + META_TRANSACTION);
  const unsigned char *meta = is_newer ? other : one, *record = meta + META_RECORDS + DB_RECORD;
  d->last_page = load64(meta + META_LAST_PAGE);
  d->entries = load64(record + 32);
  if (d->entries > d->size) return damaged(d, is_newer, corrupted);
  return open_tree(d, record, is_newer, &d->main);
}

static bool is_file(const char *path) {
  struct stat info;
  return stat(weft_file_on_disk(path), &info) == 0 && S_ISREG(info.st_mode);
}

static weft_status_t *open_file(const char *path, weft_lmdb_t *d) {
  weft_strbuf_t name = WEFT_STRBUF_INIT;
  weft_strbuf_puts(&name, path);
  if (!is_file(path)) weft_strbuf_puts(&name, "/data.mdb");
  d->path = name.failed ? NULL : weft_strdup(name.data);
  weft_strbuf_deinit(&name);
  if (d->path == NULL) return WEFT_NO_MEMORY("an LMDB database");
  WEFT_RETURN_IF_ERROR(as_invalid(weft_file_open(d->path, &d->file)));
  d->size = d->file.size;
  return NULL;
}

static weft_status_t *open_any(const char *path, weft_str_t bytes, weft_lmdb_t **out) {
  weft_lmdb_t *d = weft_calloc(1, sizeof *d);
  if (d == NULL) return WEFT_NO_MEMORY("an LMDB database");
  d->file.fd = -1;
  d->bytes = bytes;
  d->size = bytes.length;
  weft_status_t *s = path == NULL ? NULL : open_file(path, d);
  if (s == NULL) s = read_metas(d);
  if (s == NULL) *out = d;
  if (s != NULL) weft_lmdb_close(d);
  return s;
}

weft_status_t *weft_lmdb_open(const char *path, weft_lmdb_t **out) {
  return open_any(path, WEFT_STR(""), out);
}

weft_status_t *weft_lmdb_of(weft_str_t bytes, weft_lmdb_t **out) { return open_any(NULL, bytes, out); }

void weft_lmdb_close(weft_lmdb_t *d) {
  if (d == NULL) return;
  weft_file_close(&d->file);
  free_walk(&d->main);
  free_walk(&d->duplicates);
  weft_strbuf_deinit(&d->large);
  weft_status_free(d->failure);
  weft_free(d->path);
  weft_free(d);
}
