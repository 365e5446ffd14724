/* executor/commands_memory.c - blocks that tensors of one recording use one after the other.
 *
 * The nodes of a recording ask for the same sizes in the same order each time that they are run, and give
 * back at the same places. So with all blocks free at the beginning they get the same blocks: the smallest
 * that is large enough. Work on one queue is in order, so a block may be used again at once.
 */
#include "base/alloc.h"
#include "executor/commands.h"

typedef struct memory_block {
  weft_tensor_t *bytes; /* owned */
  bool is_used;
} memory_block_t;

struct weft_commands_memory {
  weft_allocator_t base; /* first */
  weft_allocator_t *from;
  weft_mutex_t mu;
  /* guarded by mu: */
  memory_block_t *blocks; /* owned */
  size_t num_blocks, capacity;
  size_t num_users; /* its owner, and used blocks */
  bool is_closed;
};

static void destroy(weft_commands_memory_t *m) {
  for (size_t i = 0; i < m->num_blocks; i++) weft_tensor_release(m->blocks[i].bytes);
  weft_free(m->blocks);
  weft_mutex_deinit(&m->mu);
  weft_free(m);
}

static memory_block_t *find_locked(weft_commands_memory_t *m, size_t bytes) WEFT_REQUIRES(m->mu) {
  memory_block_t *best = NULL;
  for (size_t i = 0; i < m->num_blocks; i++) {
    memory_block_t *b = &m->blocks[i];
    if (b->is_used || b->bytes->bytes < bytes || b->bytes->bytes / 2 > bytes) continue;
    if (best == NULL || b->bytes->bytes < best->bytes->bytes) best = b;
  }
  return best;
}

/* A new block; NULL: there is no memory. */
static memory_block_t *add_locked(weft_commands_memory_t *m, size_t bytes) WEFT_REQUIRES(m->mu) {
  const weft_shape_t shape = weft_shape_vector((int64_t)bytes);
  if (m->num_blocks == m->capacity) {
    const size_t capacity = m->capacity == 0 ? 16 : 2 * m->capacity;
    memory_block_t *grown = weft_realloc(m->blocks, capacity, sizeof *grown);
    if (grown == NULL) return NULL;
    m->blocks = grown;
    m->capacity = capacity;
  }
  weft_tensor_t *t = NULL;
  weft_status_t *s = weft_tensor_new(WEFT_U8, &shape, m->from, &t);
  if (s != NULL) {
    weft_status_free(s); /* the failure of the allocation says it */
    return NULL;
  }
  m->blocks[m->num_blocks] = (memory_block_t){.bytes = t};
  return &m->blocks[m->num_blocks++];
}

static void *allocate(weft_allocator_t *self, size_t bytes, weft_fence_t *after) {
  weft_commands_memory_t *m = (weft_commands_memory_t *)(void *)self;
  if (bytes == 0) bytes = 1;
  weft_mutex_lock(&m->mu);
  memory_block_t *b = find_locked(m, bytes);
  if (b == NULL && !m->is_closed) {
    b = add_locked(m, bytes);
    if (b != NULL) *after = b->bytes->fence;
  }
  if (b != NULL) {
    b->is_used = true;
    m->num_users++;
  }
  void *p = b == NULL ? NULL : b->bytes->data;
  weft_mutex_unlock(&m->mu);
  return p;
}

static void let_go(weft_commands_memory_t *m, const void *p) {
  weft_mutex_lock(&m->mu);
  for (size_t i = 0; i < m->num_blocks && p != NULL; i++) {
    if (m->blocks[i].bytes->data == p) m->blocks[i].is_used = false;
  }
  const bool is_last = --m->num_users == 0;
  weft_mutex_unlock(&m->mu);
  if (is_last) destroy(m);
}

static void deallocate(weft_allocator_t *self, void *p, size_t bytes) {
  (void)bytes;
  let_go((weft_commands_memory_t *)(void *)self, p);
}

weft_status_t *weft_commands_memory_create(weft_allocator_t *from, weft_commands_memory_t **out) {
  weft_commands_memory_t *m = weft_calloc(1, sizeof *m);
  if (m == NULL) return WEFT_NO_MEMORY("the memory of a recording");
  m->base = (weft_allocator_t){
      .name = from->name, .space = from->space, .allocate = allocate, .deallocate = deallocate};
  m->from = from;
  m->num_users = 1;
  weft_mutex_init(&m->mu);
  *out = m;
  return NULL;
}

void weft_commands_memory_release(weft_commands_memory_t *m) {
  if (m != NULL) let_go(m, NULL);
}

weft_allocator_t *weft_commands_memory_allocator(weft_commands_memory_t *m) { return &m->base; }

bool weft_commands_memory_is_in_use(weft_commands_memory_t *m) {
  weft_mutex_lock(&m->mu);
  const bool is_used = m->num_users > 1;
  weft_mutex_unlock(&m->mu);
  return is_used;
}

void weft_commands_memory_close(weft_commands_memory_t *m) {
  weft_mutex_lock(&m->mu);
  m->is_closed = true;
  weft_mutex_unlock(&m->mu);
}
