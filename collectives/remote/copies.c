/* collectives/remote/copies.c - copies the bytes of a fetch to where they belong.
 *
 * Bytes that are consumed on the way pass through blocks that stay in a core's cache; a few such blocks are
 * kept.
 */
#include "base/alloc.h"
#include "base/clock.h"
#include "collectives/remote/remote_impl.h"

void weft_remote_note_cost(weft_remote_fetch_t *f, weft_way_t way) {
  if (f->began_ns == 0 || f->f.consume != NULL) return; /* consuming takes its own time */
  double seconds = (double)(weft_clock_ns() - f->began_ns) * 1e-9;
  if (way == WEFT_WAY_NEAR)
    seconds += weft_link_costs_of(&f->t->costs, way).alpha_s; /* the message arrived before */
  weft_link_costs_note(&f->t->costs, way, f->f.bytes, seconds);
}

weft_status_t *weft_remote_check_bytes(const weft_remote_fetch_t *f, size_t bytes) {
  if (bytes == f->f.bytes) return NULL;
  return WEFT_ERROR(INTERNAL, "'%.*s' from %.*s has %zu bytes, not %zu", WEFT_STR_ARGS(f->key),
                    WEFT_STR_ARGS(f->from_task), bytes, f->f.bytes);
}

static void *take_scratch(weft_scratch_blocks_t *s) {
  void *block = NULL;
  weft_mutex_lock(&s->mu);
  for (int i = 0; i < WEFT_REMOTE_SCRATCH && block == NULL; i++) {
    block = s->blocks[i];
    s->blocks[i] = NULL;
  }
  weft_mutex_unlock(&s->mu);
  return block != NULL ? block : weft_aligned_alloc(64, WEFT_HOST_LINK_BLOCK);
}

static void give_scratch(weft_scratch_blocks_t *s, void *block) {
  weft_mutex_lock(&s->mu);
  for (int i = 0; i < WEFT_REMOTE_SCRATCH && block != NULL; i++) {
    if (s->blocks[i] != NULL) continue;
    s->blocks[i] = block;
    block = NULL;
  }
  weft_mutex_unlock(&s->mu);
  weft_free(block);
}

void weft_scratch_blocks_deinit(weft_scratch_blocks_t *s) {
  for (int i = 0; i < WEFT_REMOTE_SCRATCH; i++) weft_free(s->blocks[i]);
  weft_mutex_deinit(&s->mu);
}

static weft_status_t *read_source(const weft_remote_source_t *s, size_t at, void *to, size_t n) {
  if (s->link != NULL) return weft_host_link_read(s->link, s->address + at, to, n);
  if (s->data != NULL) {
    memcpy(to, s->data + at, n);
  } else {
    s->buf->read(s->buf, at, to, n);
  }
  return NULL;
}

weft_status_t *weft_remote_copy(weft_remote_fetch_t *f, const weft_remote_source_t *s) {
  const weft_fetch_t *w = &f->f;
  if (w->consume == NULL) return w->bytes == 0 ? NULL : read_source(s, 0, w->to, w->bytes);
  void *scratch = w->to == NULL && s->data == NULL ? take_scratch(&f->t->scratch) : NULL;
  weft_status_t *status = NULL;
  if (w->to == NULL && s->data == NULL && scratch == NULL) status = weft_remote_no_memory(f->key);
  for (size_t at = f->copied; at < w->bytes && status == NULL;) {
    size_t n = w->bytes - at < WEFT_HOST_LINK_BLOCK ? w->bytes - at : WEFT_HOST_LINK_BLOCK;
    const void *block = s->data == NULL ? scratch : s->data + at;
    if (w->to != NULL) block = (char *)w->to + at;
    /* A block of this task's memory is consumed where it lies, unless it is wanted elsewhere, too. */
    if (w->to != NULL || s->data == NULL) status = read_source(s, at, (void *)(uintptr_t)block, n);
    if (status == NULL) w->consume(w->consume_arg, at, block, n);
    at += n;
    if (status == NULL) f->copied = at;
  }
  if (scratch != NULL) give_scratch(&f->t->scratch, scratch);
  return status;
}
