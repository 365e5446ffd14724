/* tensor/memory_holders.c - a record for each block, in a hash table by address.
 *
 * Locking: `registry.mu`, then a memory's `mu`, which is a leaf.
 */
#include "tensor/memory_holders.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/mutex.h"

enum {
  NUM_CHAINS = 4096,
  NAME_BYTES = 80,
  NUM_NAMED = 8, /* of the largest holders, in a failure */
};

typedef struct holder_record {
  struct holder_record *next; /* of its chain, or of the spare ones */
  const void *block;
  size_t bytes;
  weft_memory_use_t use;
  char name[NAME_BYTES];
} holder_record_t;

struct weft_memory_holders {
  weft_memory_holders_t *next; /* guarded by registry.mu */
  const weft_memory_space_t *space;
  weft_str_t device;
  weft_memory_state_fn *state;
  void *state_arg;
  weft_mutex_t mu;
  /* guarded by mu: */
  holder_record_t *chains[NUM_CHAINS];
  holder_record_t *spare;
  size_t num_blocks;
  int64_t in_use, peak;
};

static struct {
  weft_mutex_t mu;
  weft_memory_holders_t *first; /* guarded by mu */
} registry = {.mu = WEFT_MUTEX_INITIALIZER};

static _Thread_local weft_memory_holder_t current;

weft_memory_holder_t weft_memory_hold_for(weft_memory_holder_t holder) {
  const weft_memory_holder_t before = current;
  current = holder;
  return before;
}

weft_memory_holder_t weft_memory_held_for(void) { return current; }

/* ---- records ---- */

static holder_record_t **chain_of(weft_memory_holders_t *h, const void *block) {
  return &h->chains[(uint64_t)(uintptr_t)block / 64 * UINT64_C(0x9e3779b97f4a7c15) >> 52];
}

static void set(holder_record_t *r, weft_memory_holder_t holder) {
  const size_t skipped = holder.name.length < NAME_BYTES ? 0 : holder.name.length - (NAME_BYTES - 1);
  const size_t length = holder.name.length - skipped;
  r->use = holder.use;
  if (length > 0) memcpy(r->name, holder.name.data + skipped, length);
  r->name[length] = '\0';
}

bool weft_memory_holders_add(weft_memory_holders_t *h, const void *block, size_t bytes) {
  if (h == NULL) return true;
  weft_mutex_lock(&h->mu);
  holder_record_t *r = h->spare;
  if (r != NULL) h->spare = r->next;
  weft_mutex_unlock(&h->mu);
  if (r == NULL) r = weft_malloc(sizeof *r);
  if (r == NULL) return false;
  *r = (holder_record_t){.block = block, .bytes = bytes};
  set(r, current);
  weft_mutex_lock(&h->mu);
  holder_record_t **chain = chain_of(h, block);
  r->next = *chain;
  *chain = r;
  h->num_blocks++;
  h->in_use += (int64_t)bytes;
  if (h->peak < h->in_use) h->peak = h->in_use;
  weft_mutex_unlock(&h->mu);
  return true;
}

static holder_record_t **find_locked(weft_memory_holders_t *h, const void *block) {
  holder_record_t **at = chain_of(h, block);
  while (*at != NULL && (*at)->block != block) at = &(*at)->next;
  return at;
}

void weft_memory_holders_remove(weft_memory_holders_t *h, const void *block) {
  if (h == NULL) return;
  weft_mutex_lock(&h->mu);
  holder_record_t **at = find_locked(h, block), *r = *at;
  if (r != NULL) {
    *at = r->next;
    h->num_blocks--;
    h->in_use -= (int64_t)r->bytes;
    r->next = h->spare;
    h->spare = r;
  }
  weft_mutex_unlock(&h->mu);
}

/* ---- memories ---- */

weft_memory_holders_t *weft_memory_holders_create(const weft_memory_space_t *space, weft_str_t device,
                                                  weft_memory_state_fn *state, void *arg) {
  weft_memory_holders_t *h = weft_calloc(1, sizeof *h);
  if (h == NULL) return NULL;
  h->space = space;
  h->device = device;
  h->state = state;
  h->state_arg = arg;
  weft_mutex_init(&h->mu);
  weft_mutex_lock(&registry.mu);
  h->next = registry.first;
  registry.first = h;
  weft_mutex_unlock(&registry.mu);
  return h;
}

static void free_records(holder_record_t *r) {
  for (holder_record_t *next; r != NULL; r = next) {
    next = r->next;
    weft_free(r);
  }
}

void weft_memory_holders_destroy(weft_memory_holders_t *h) {
  if (h == NULL) return;
  weft_mutex_lock(&registry.mu);
  weft_memory_holders_t **at = &registry.first;
  while (*at != h) at = &(*at)->next;
  *at = h->next;
  weft_mutex_unlock(&registry.mu);
  for (int i = 0; i < NUM_CHAINS; i++) free_records(h->chains[i]);
  free_records(h->spare);
  weft_mutex_deinit(&h->mu);
  weft_free(h);
}

static weft_memory_holders_t *holders_of_locked(const weft_memory_space_t *space) WEFT_REQUIRES(registry.mu) {
  weft_memory_holders_t *h = registry.first;
  while (h != NULL && h->space != space) h = h->next;
  return h;
}

void weft_memory_belongs_to(const weft_tensor_t *t, weft_memory_holder_t holder) {
  if (t == NULL || t->space == NULL) return;
  const weft_tensor_t *root = t->owner != NULL ? t->owner : t;
  weft_mutex_lock(&registry.mu);
  weft_memory_holders_t *h = holders_of_locked(root->space);
  if (h != NULL) {
    weft_mutex_lock(&h->mu);
    holder_record_t *r = *find_locked(h, root->data);
    if (r != NULL) set(r, holder);
    weft_mutex_unlock(&h->mu);
  }
  weft_mutex_unlock(&registry.mu);
}

/* ---- failures ---- */

/* Scratch memory of a node, its outputs and a variable of that name are three holders. */
static int by_name(const void *a, const void *b) {
  const holder_record_t *x = a, *y = b;
  return x->use != y->use ? (x->use < y->use ? -1 : 1) : strcmp(x->name, y->name);
}

static int by_bytes(const void *a, const void *b) {
  const holder_record_t *x = a, *y = b;
  return x->bytes != y->bytes ? (x->bytes < y->bytes ? 1 : -1) : by_name(a, b);
}

/* A copy of all records; NULL without memory. */
static holder_record_t *copy_locked(weft_memory_holders_t *h, size_t *out_n) {
  holder_record_t *all = weft_calloc(h->num_blocks + 1, sizeof *all);
  size_t n = 0;
  for (int i = 0; all != NULL && i < NUM_CHAINS; i++) {
    for (const holder_record_t *r = h->chains[i]; r != NULL; r = r->next) all[n++] = *r;
  }
  *out_n = n;
  return all;
}

/* Makes one record of all of a holder; the largest come first. Returns how many there are then. */
static size_t sum_up(holder_record_t *all, size_t n) {
  size_t num = 0;
  qsort(all, n, sizeof *all, by_name);
  for (size_t i = 0; i < n; i++) {
    if (num > 0 && by_name(&all[num - 1], &all[i]) == 0) {
      all[num - 1].bytes += all[i].bytes;
    } else {
      all[num++] = all[i];
    }
  }
  qsort(all, num, sizeof *all, by_bytes);
  return num;
}

static void print_holders(const holder_record_t *all, size_t n, weft_strbuf_t *out) {
  static const char *const uses[] = {
      [WEFT_HELD_BY_OTHER] = "constants",
      [WEFT_HELD_BY_NODE] = "node",
      [WEFT_HELD_BY_SCRATCH] = "scratch memory of node",
      [WEFT_HELD_BY_VARIABLE] = "variable",
  };
  size_t i = 0, rest = 0;
  for (; i < n && i < NUM_NAMED; i++) {
    weft_strbuf_printf(out, "%s%s", i == 0 ? "; held by " : ", ", uses[all[i].use]);
    if (all[i].name[0] != '\0') weft_strbuf_printf(out, " '%s'", all[i].name);
    weft_strbuf_printf(out, " (%zu bytes)", all[i].bytes);
  }
  const size_t num_rest = n - i;
  for (; i < n; i++) rest += all[i].bytes;
  if (num_rest > 0) weft_strbuf_printf(out, " and %zu more (%zu bytes)", num_rest, rest);
}

void weft_memory_explain(const weft_allocator_t *allocator, weft_strbuf_t *out) {
  if (allocator->space == NULL) return;
  weft_mutex_lock(&registry.mu); /* so that it stays */
  weft_memory_holders_t *h = holders_of_locked(allocator->space);
  if (h != NULL) {
    weft_memory_state_t state = {.limit = -1, .largest_free = -1};
    size_t n = 0;
    h->state(h->state_arg, &state);
    weft_mutex_lock(&h->mu);
    const int64_t in_use = h->in_use, peak = h->peak;
    holder_record_t *all = copy_locked(h, &n);
    weft_mutex_unlock(&h->mu);
    weft_strbuf_printf(out, " on %.*s by allocator %s: %" PRId64, WEFT_STR_ARGS(h->device), allocator->name,
                       in_use);
    if (state.limit >= 0) weft_strbuf_printf(out, " of %" PRId64, state.limit);
    weft_strbuf_printf(out, " bytes are in use, %" PRId64 " at most so far", peak);
    if (state.largest_free >= 0)
      weft_strbuf_printf(out, ", the largest free block has %" PRId64, state.largest_free);
    if (all != NULL) print_holders(all, sum_up(all, n), out);
    weft_free(all);
  }
  weft_mutex_unlock(&registry.mu);
}
