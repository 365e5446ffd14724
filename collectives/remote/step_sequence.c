/* collectives/remote/step_sequence.c - a map from graph keys to ids. `mu` is a leaf. */
#include "collectives/remote/step_sequence.h"

#include "base/alloc.h"
#include "base/hash_map.h"
#include "base/mutex.h"
#include "base/random.h"

enum { MAX_GRAPHS = 1000000 }; /* keys come from the wire */
#define ID_BITS ((UINT64_C(1) << 56) - 1)

typedef struct graph_sequence {
  int64_t next; /* 0: to be drawn */
} graph_sequence_t;

struct weft_step_sequence {
  weft_mutex_t mu;
  weft_map_t graphs; /* guarded by mu: key -> graph_sequence_t, owned */
};

weft_status_t *weft_step_sequence_create(weft_step_sequence_t **out) {
  weft_step_sequence_t *s = weft_calloc(1, sizeof *s);
  if (s == NULL) return WEFT_NO_MEMORY("the step ids of collective graphs");
  weft_mutex_init(&s->mu);
  *out = s;
  return NULL;
}

void weft_step_sequence_destroy(weft_step_sequence_t *s) {
  if (s == NULL) return;
  weft_map_entry_t e;
  for (size_t at = 0; weft_map_next(&s->graphs, &at, &e);) weft_free(e.value);
  weft_map_deinit(&s->graphs);
  weft_mutex_deinit(&s->mu);
  weft_free(s);
}

static int64_t draw(void) {
  int64_t id = (int64_t)(weft_random_id() & ID_BITS);
  return id == 0 ? 1 : id;
}

static weft_status_t *find_or_add(weft_step_sequence_t *s, int64_t key, int64_t *out) {
  graph_sequence_t *mine = weft_calloc(1, sizeof *mine);
  if (mine == NULL) return WEFT_NO_MEMORY("the step id of graph key %lld", (long long)key);
  mine->next = draw();
  int64_t fresh = draw();
  weft_status_t *status = NULL;
  weft_mutex_lock(&s->mu);
  graph_sequence_t *q = weft_map_get_u64(&s->graphs, (uint64_t)key);
  if (q == NULL && s->graphs.count >= MAX_GRAPHS) {
    status = WEFT_ERROR(RESOURCE_EXHAUSTED, "there are step ids of %d collective graphs already", MAX_GRAPHS);
  } else if (q == NULL) {
    status = weft_map_put_u64(&s->graphs, (uint64_t)key, mine, NULL);
    if (status == NULL) {
      q = mine;
      mine = NULL;
    }
  }
  if (q != NULL && q->next == 0) q->next = fresh;
  if (q != NULL) *out = q->next;
  weft_mutex_unlock(&s->mu);
  weft_free(mine);
  return status;
}

weft_status_t *weft_step_sequence_get(weft_step_sequence_t *s, const int64_t *keys, int n, int64_t *out) {
  for (int i = 0; i < n; i++) WEFT_RETURN_IF_ERROR(find_or_add(s, keys[i], &out[i]));
  return NULL;
}

void weft_step_sequence_retire(weft_step_sequence_t *s, int64_t key, int64_t step_id) {
  weft_mutex_lock(&s->mu);
  graph_sequence_t *q = weft_map_get_u64(&s->graphs, (uint64_t)key);
  if (q != NULL) q->next = q->next == step_id ? (int64_t)(((uint64_t)step_id + 1) & ID_BITS) : 0;
  weft_mutex_unlock(&s->mu);
}

void weft_step_sequence_restart(weft_step_sequence_t *s) {
  weft_map_entry_t e;
  weft_mutex_lock(&s->mu);
  for (size_t at = 0; weft_map_next(&s->graphs, &at, &e);) ((graph_sequence_t *)e.value)->next = 0;
  weft_mutex_unlock(&s->mu);
}
