/* tensor/memory_accounts.c - counting allocators.
 *
 * The accounts die when the device has let them go and no block is left:
 * `holders` counts both, and variables, which retain them. Locking: `retag_mu` is a leaf; it orders
 * concurrent moves of one tensor.
 */
#include "tensor/memory_accounts.h"

#include <stdatomic.h>

#include "base/alloc.h"
#include "base/mutex.h"

typedef struct memory_account {
  weft_allocator_t base; /* first: a tensor's allocator is this */
  weft_memory_accounts_t *all;
  atomic_llong in_use, high_water;
} memory_account_t;

struct weft_memory_accounts {
  weft_allocator_t *over;
  atomic_llong holders; /* live blocks, and the device */
  memory_account_t accounts[WEFT_NUM_MEMORY_TAGS];
};

static weft_mutex_t retag_mu = WEFT_MUTEX_INITIALIZER;

static const char *const names[] = {
#define X(id, name) [WEFT_MEMORY_##id] = name,
    WEFT_MEMORY_TAGS(X)
#undef X
};

const char *weft_memory_tag_name(weft_memory_tag_t tag) { return names[tag]; }

bool weft_memory_tag_parse(weft_str_t name, weft_memory_tag_t *out) {
  for (int i = 0; i < WEFT_NUM_MEMORY_TAGS; i++) {
    if (!weft_str_is(name, names[i])) continue;
    *out = (weft_memory_tag_t)i;
    return true;
  }
  return false;
}

static void let_go(weft_memory_accounts_t *a) {
  if (atomic_fetch_sub_explicit(&a->holders, 1, memory_order_acq_rel) == 1) weft_free(a);
}

static void count(memory_account_t *x, int64_t bytes) {
  int64_t now = atomic_fetch_add_explicit(&x->in_use, bytes, memory_order_relaxed) + bytes;
  long long most = atomic_load_explicit(&x->high_water, memory_order_relaxed);
  while (now > most && !atomic_compare_exchange_weak_explicit(&x->high_water, &most, now,
                                                              memory_order_relaxed, memory_order_relaxed)) {
  }
}

static void *allocate(weft_allocator_t *self, size_t bytes, weft_fence_t *after) {
  memory_account_t *x = (memory_account_t *)(void *)self;
  void *p = x->all->over->allocate(x->all->over, bytes, after);
  if (p == NULL) return NULL;
  atomic_fetch_add_explicit(&x->all->holders, 1, memory_order_relaxed);
  count(x, (int64_t)bytes);
  return p;
}

static void deallocate(weft_allocator_t *self, void *p, size_t bytes) {
  memory_account_t *x = (memory_account_t *)(void *)self;
  if (p == NULL) return;
  x->all->over->deallocate(x->all->over, p, bytes);
  atomic_fetch_sub_explicit(&x->in_use, (int64_t)bytes, memory_order_relaxed);
  let_go(x->all);
}

weft_memory_accounts_t *weft_memory_accounts_create(weft_allocator_t *over) {
  weft_memory_accounts_t *a = weft_calloc(1, sizeof *a);
  if (a == NULL) return NULL;
  a->over = over;
  atomic_init(&a->holders, 1);
  for (int i = 0; i < WEFT_NUM_MEMORY_TAGS; i++) {
    a->accounts[i] = (memory_account_t){
        .base = {.name = over->name, .space = over->space, .allocate = allocate, .deallocate = deallocate},
        .all = a};
  }
  return a;
}

weft_memory_accounts_t *weft_memory_accounts_retain(weft_memory_accounts_t *a) {
  if (a != NULL) atomic_fetch_add_explicit(&a->holders, 1, memory_order_relaxed);
  return a;
}

void weft_memory_accounts_release(weft_memory_accounts_t *a) {
  if (a != NULL) let_go(a);
}

weft_allocator_t *weft_memory_account(weft_memory_accounts_t *a, weft_memory_tag_t tag) {
  return &a->accounts[tag].base;
}

int64_t weft_memory_in_use(weft_memory_accounts_t *a, weft_memory_tag_t tag) {
  return atomic_load_explicit(&a->accounts[tag].in_use, memory_order_relaxed);
}

int64_t weft_memory_high_water(weft_memory_accounts_t *a, weft_memory_tag_t tag, bool reset) {
  memory_account_t *x = &a->accounts[tag];
  if (!reset) return atomic_load_explicit(&x->high_water, memory_order_relaxed);
  return atomic_exchange_explicit(&x->high_water, atomic_load_explicit(&x->in_use, memory_order_relaxed),
                                  memory_order_relaxed);
}

/* Only under retag_mu: moving a tensor to another account changes its allocator. */
static memory_account_t *account_of_locked(const weft_tensor_t *t) {
  return t->allocator != NULL && t->allocator->allocate == allocate ? (memory_account_t *)(void *)t->allocator
                                                                    : NULL;
}

void weft_memory_becomes_variable(weft_tensor_t *t, weft_memory_tag_t tag) {
  weft_mutex_lock(&retag_mu);
  memory_account_t *from = account_of_locked(t);
  memory_account_t *to = from == NULL ? NULL : &from->all->accounts[tag];
  bool stays = from == NULL || from == to || from == &from->all->accounts[WEFT_MEMORY_OPT_STATE] ||
               from == &from->all->accounts[WEFT_MEMORY_STASH];
  if (!stays) {
    atomic_fetch_sub_explicit(&from->in_use, (int64_t)t->bytes, memory_order_relaxed);
    count(to, (int64_t)t->bytes);
    t->allocator = &to->base;
  }
  weft_mutex_unlock(&retag_mu);
}

weft_allocator_t *weft_memory_account_of(const weft_tensor_t *t) {
  weft_mutex_lock(&retag_mu);
  memory_account_t *x = account_of_locked(t);
  weft_mutex_unlock(&retag_mu);
  return x == NULL ? NULL : &x->base;
}
