/* resources/tensor_queue_store.c - the tuples of a queue, in the order in which they leave. */
#include "resources/tensor_queue_store.h"

#include <assert.h>

#include "base/alloc.h"
#include "base/random.h"

weft_tensor_queue_item_t *weft_tensor_queue_item_new(int num_parts) {
  weft_tensor_queue_item_t *item = weft_calloc(1, sizeof *item + (size_t)num_parts * sizeof item->parts[0]);
  if (item != NULL) item->num_parts = num_parts;
  return item;
}

void weft_tensor_queue_item_free(weft_tensor_queue_item_t *item) {
  while (item != NULL) {
    weft_tensor_queue_item_t *next = item->next;
    for (int i = 0; i < item->num_parts; i++) weft_tensor_release(item->parts[i]);
    weft_free(item);
    item = next;
  }
}

/* ---- Philox4x32-10: Salmon et al., "Parallel Random Numbers: As Easy as 1, 2, 3" (2011) ---- */

static void philox(const uint32_t key_in[2], const uint32_t counter[4], uint32_t out[4]) {
  uint32_t key[2] = {key_in[0], key_in[1]};
  memcpy(out, counter, 4 * sizeof out[0]);
  for (int round = 0; round < 10; round++) {
    uint64_t a = (uint64_t)0xD2511F53u * out[0], b = (uint64_t)0xCD9E8D57u * out[2];
    uint32_t next[4] = {(uint32_t)(b >> 32) ^ out[1] ^ key[0], (uint32_t)b,
                        (uint32_t)(a >> 32) ^ out[3] ^ key[1], (uint32_t)a};
    memcpy(out, next, sizeof next);
    key[0] += 0x9E3779B9u;
    key[1] += 0xBB67AE85u;
  }
}

/* The next of a stream of numbers, the same as TensorFlow's for the same seeds. */
static uint32_t draw(weft_tensor_queue_store_t *s) {
  if (s->num_drawn == 0) {
    philox(s->key, s->counter, s->drawn);
    s->num_drawn = 4;
    if (++s->counter[0] == 0 && ++s->counter[1] == 0 && ++s->counter[2] == 0) ++s->counter[3];
  }
  return s->drawn[4 - s->num_drawn--];
}

void weft_tensor_queue_store_init(weft_tensor_queue_store_t *s, weft_tensor_queue_kind_t kind, int64_t seed,
                                  int64_t seed2) {
  *s = (weft_tensor_queue_store_t){.kind = kind};
  uint64_t low = (uint64_t)seed, high = (uint64_t)seed2;
  if (low == 0 && high == 0) {
    low = weft_random_id();
    high = weft_random_id();
  }
  s->key[0] = (uint32_t)low;
  s->key[1] = (uint32_t)(low >> 32);
  s->counter[2] = (uint32_t)high;
  s->counter[3] = (uint32_t)(high >> 32);
}

void weft_tensor_queue_store_deinit(weft_tensor_queue_store_t *s) {
  while (s->count > 0) weft_tensor_queue_item_free(weft_tensor_queue_store_pop(s));
  weft_free(s->slots);
}

/* ---- the ring, and the heap that starts at slot 0 ---- */

static weft_tensor_queue_item_t **slot(weft_tensor_queue_store_t *s, size_t i) {
  return &s->slots[(s->head + i) % s->capacity];
}

weft_tensor_queue_item_t **weft_tensor_queue_store_move(weft_tensor_queue_store_t *s,
                                                        weft_tensor_queue_item_t **slots, size_t capacity) {
  weft_tensor_queue_item_t **old = s->slots;
  for (size_t i = 0; i < s->count; i++) slots[i] = *slot(s, i);
  s->slots = slots;
  s->capacity = capacity;
  s->head = 0;
  return old;
}

/* The heap of libstdc++'s std::push_heap and std::pop_heap, to the letter: in which order tuples of one
 * priority leave is not defined, and is TensorFlow's all the same. */

/* Puts the item into the hole at slot i, or above it. */
static void sift_up(weft_tensor_queue_item_t **heap, size_t i, weft_tensor_queue_item_t *item) {
  for (; i > 0 && heap[(i - 1) / 2]->priority > item->priority; i = (i - 1) / 2) heap[i] = heap[(i - 1) / 2];
  heap[i] = item;
}

/* Moves the hole at slot 0 to the bottom of n slots, behind the lesser child each time, of equals the right
 * one; then puts the item there. */
static void sift_down(weft_tensor_queue_item_t **heap, size_t n, weft_tensor_queue_item_t *item) {
  size_t i = 0;
  for (size_t child = 2; child <= n; child = 2 * i + 2) {
    if (child == n || heap[child]->priority > heap[child - 1]->priority) child--;
    heap[i] = heap[child];
    i = child;
  }
  sift_up(heap, i, item);
}

void weft_tensor_queue_store_push(weft_tensor_queue_store_t *s, weft_tensor_queue_item_t *item) {
  assert(s->count < s->capacity);
  item->next = NULL;
  *slot(s, s->count++) = item;
  if (s->kind == WEFT_QUEUE_PRIORITY) sift_up(s->slots, s->count - 1, item);
}

void weft_tensor_queue_store_push_front(weft_tensor_queue_store_t *s, weft_tensor_queue_item_t *item) {
  if (s->kind == WEFT_QUEUE_PRIORITY || s->kind == WEFT_QUEUE_SHUFFLE) {
    weft_tensor_queue_store_push(s, item);
    return;
  }
  assert(s->count < s->capacity);
  item->next = NULL;
  s->head = (s->head + s->capacity - 1) % s->capacity;
  s->count++;
  *slot(s, 0) = item;
}

weft_tensor_queue_item_t *weft_tensor_queue_store_pop(weft_tensor_queue_store_t *s) {
  assert(s->count > 0);
  weft_tensor_queue_item_t *item = NULL;
  if (s->kind == WEFT_QUEUE_PRIORITY) {
    item = s->slots[0];
    s->count--;
    if (s->count > 0) sift_down(s->slots, s->count, s->slots[s->count]);
  } else if (s->kind == WEFT_QUEUE_SHUFFLE) {
    weft_tensor_queue_item_t **at = slot(s, draw(s) % s->count);
    item = *at;
    *at = *slot(s, --s->count);
  } else {
    item = *slot(s, 0);
    s->head = (s->head + 1) % s->capacity;
    s->count--;
  }
  return item;
}
