/* tests/cuda/fake/streams.c - a thread for each stream, which begins its work late. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/cuda/fake/machine.h"

void fake_event_release(CUevent e) {
  if (--e->users == 0) free(e);
}

void fake_context_break(CUcontext c, CUresult r) {
  if (c->broken == CUDA_SUCCESS) c->broken = r;
  pthread_cond_broadcast(&fake.changed);
}

static void delay(CUstream s) {
  if (fake.late_us <= 0) return;
  s->random = s->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  const long us = (long)((s->random >> 33) % (uint64_t)(fake.late_us + 1));
  nanosleep(&(struct timespec){.tv_nsec = us * 1000}, NULL);
}

/* Is it all right to begin `w`? Locked. */
static bool begins(CUstream s, const fake_work_t *w) {
  if (s->context->broken != CUDA_SUCCESS) return true; /* to be dropped */
  if ((fake.hold & WEFT_FAKE_HOLD_ALL) != 0 ||
      (w->kind == FAKE_COPY && (fake.hold & WEFT_FAKE_HOLD_COPIES)) ||
      (w->kind == FAKE_HOST && (fake.hold & WEFT_FAKE_HOLD_HOST))) {
    return false;
  }
  return w->kind != FAKE_WAIT || w->event->done >= w->number || w->event->context->broken != CUDA_SUCCESS;
}

/* Do the addresses still belong to an allocation, now that the work begins? Locked. */
static bool is_sound(const fake_work_t *w) {
  if (w->kind == FAKE_KERNEL) return w->fault == CUDA_SUCCESS;
  if (w->kind == FAKE_COPY && !fake_memory_is_valid(w->from, w->bytes)) return false;
  return (w->kind != FAKE_COPY && w->kind != FAKE_FILL) || fake_memory_is_valid(w->to, w->bytes);
}

/* Without the lock. */
static void perform(fake_work_t *w, char *to, const char *from) {
  switch (w->kind) {
    case FAKE_KERNEL: w->kernel->run(w->kernel, w->closure, w->grid, w->block, w->shared); break;
    case FAKE_COPY: memmove(to, from, w->bytes); break;
    case FAKE_FILL: memset(to, w->byte, w->bytes); break;
    case FAKE_HOST: w->host(w->arg); break;
    case FAKE_RECORD:
    case FAKE_WAIT: break;
  }
}

static void note_done(CUstream s, const fake_work_t *w, long begin) {
  static const char kinds[] = {[FAKE_KERNEL] = 'k', [FAKE_COPY] = 'c', [FAKE_FILL] = 'f',
                               [FAKE_HOST] = 'h',   [FAKE_RECORD] = 0, [FAKE_WAIT] = 0};
  if (kinds[w->kind] == 0 || fake.num_done == FAKE_TRACE_MAX) return;
  fake.trace[fake.num_done++] = (weft_fake_cuda_done_t){
      .kind = kinds[w->kind], .stream = s->number, .bytes = w->bytes, .begin = begin, .end = ++fake.order};
}

static void count_bytes(const fake_work_t *w) {
  if (fake_memory_owner(w->from) == NULL || fake_memory_owner(w->to) == NULL)
    fake.live.host_bytes += w->bytes;
  if (fake_import_of(w->from) != NULL) fake.live.imported_bytes += w->bytes;
}

static void run_one_locked(CUstream s, fake_work_t *w) {
  if (s->context->broken == CUDA_SUCCESS && !is_sound(w)) {
    fake_fault("work of a stream uses memory that is not allocated");
    fake_context_break(s->context, w->kind == FAKE_KERNEL ? w->fault : CUDA_ERROR_ILLEGAL_ADDRESS);
  }
  const bool drop = s->context->broken != CUDA_SUCCESS;
  const long begin = ++fake.order;
  char *to = w->to == NULL ? NULL : fake_memory_bytes(w->to);
  const char *from = w->from == NULL ? NULL : fake_memory_bytes(w->from);
  pthread_mutex_unlock(&fake.mu);
  if (!drop) {
    delay(s);
    perform(w, to, from);
  } else if (w->kind == FAKE_KERNEL) {
    free(w->closure);
  }
  pthread_mutex_lock(&fake.mu);
  if (!drop) note_done(s, w, begin);
  if (!drop && w->kind == FAKE_COPY) count_bytes(w);
  if (w->kind == FAKE_RECORD && w->event->done < w->number) w->event->done = w->number;
  if (w->event != NULL) fake_event_release(w->event);
}

static void *run(void *arg) {
  CUstream s = arg;
  pthread_mutex_lock(&fake.mu);
  for (;;) {
    while ((s->first == NULL && !s->ends) || (s->first != NULL && !begins(s, s->first))) {
      pthread_cond_wait(&fake.changed, &fake.mu);
    }
    if (s->first == NULL) break;
    fake_work_t *w = s->first;
    s->first = w->next;
    if (s->first == NULL) s->last = &s->first;
    s->busy = true;
    run_one_locked(s, w);
    s->busy = false;
    free(w);
    pthread_cond_broadcast(&fake.changed);
  }
  pthread_mutex_unlock(&fake.mu);
  return NULL;
}

bool fake_stream_is_idle(CUstream s) { return s->first == NULL && !s->busy; }

bool fake_stream_is_stuck(CUstream s) { return !s->busy && (s->first == NULL || !begins(s, s->first)); }

void fake_stream_add(CUstream s, fake_work_t *w) {
  *s->last = w;
  s->last = &w->next;
  pthread_cond_broadcast(&fake.changed);
}

CUstream fake_stream_create(CUcontext c) {
  CUstream s = calloc(1, sizeof *s);
  if (s == NULL) return NULL;
  s->context = c;
  s->last = &s->first;
  s->random = ++fake.seed * UINT64_C(0x9e3779b97f4a7c15);
  if (pthread_create(&s->thread, NULL, run, s) != 0) {
    free(s);
    return NULL;
  }
  s->number = ++fake.num_streams;
  s->next = fake.streams;
  fake.streams = s;
  fake.live.streams++;
  return s;
}

void fake_stream_destroy(CUstream s) {
  pthread_mutex_lock(&fake.mu);
  CUstream *at = &fake.streams;
  while (*at != s) at = &(*at)->next;
  *at = s->next;
  s->ends = true;
  fake.live.streams--;
  pthread_cond_broadcast(&fake.changed);
  pthread_mutex_unlock(&fake.mu);
  pthread_join(s->thread, NULL);
  free(s);
}
