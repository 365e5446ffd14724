/* executor/commands_replay.c - recordings of a command buffer.
 *
 * A recording belongs to a signature: the types and shapes of the inputs, and the bytes of those in the
 * host's memory, which kernels read when they enqueue. Of the runs with one signature
 *
 *   the first    is as ever: it loads modules, and lets libraries choose
 *   the second   takes its memory from the recording's, which gets all the blocks that it needs
 *   the third    is recorded, and what was recorded is run
 *   later ones   replay it
 *
 * Inputs that lie at the same address in the second and the third run are read there, and the recording is
 * given up if one moves; others are copied to a block of the recording in front of each replay. Outputs lie
 * in blocks of the recording, so that it cannot be replayed while anything has those of the last replay. Such
 * a run uses a second recording of the signature: in a loop whose body takes what the last iteration made,
 * and with a variable that keeps an output, the two are replayed in turns. Where both have outputs in use the
 * run is as ever.
 *
 * A device, and a library of it, may refuse to record anything; then all runs of the signature are as ever.
 *
 * Locking: `mu` guards the list and the states. A recording that is used is busy, and its owner changes it
 * outside the lock; other runs of its signature are as ever meanwhile.
 */
#include "base/alloc.h"
#include "executor/commands.h"

enum {
  MAX_RECORDINGS = 4,         /* of a buffer */
  MAX_IN_TURNS = 2,           /* of a signature */
  MAX_HOST_BYTES = 4096,      /* of an input; a larger one is not compared */
  MAX_COPIED_BYTES = 8 << 20, /* in front of each replay */
  MAX_REFUSALS = 8,           /* runs in a row that could not be recorded or replayed */
};

typedef enum recording_state { SEEN, REHEARSED, RECORDED, REFUSED } recording_state_t;

typedef struct recorded_input {
  weft_dtype_t dtype;
  weft_shape_t shape;
  weft_tensor_t *host; /* retained; of an input in the host's memory: what kernels read */
  const void *address; /* of one in the device's */
  bool moves;          /* it has been elsewhere */
  weft_tensor_t *copy; /* owned; where it is copied to; NULL: it is read where it lies */
} recorded_input_t;

typedef struct recorded_output {
  weft_tensor_t *tensor; /* owned */
  uint32_t input;        /* it has the bytes of this input; NO_INPUT: its own */
} recorded_output_t;
static const uint32_t NO_INPUT = UINT32_MAX;

typedef struct recording {
  struct recording *next;  /* guarded by mu; the last used first */
  recording_state_t state; /* guarded by mu, like all below; while it is busy its user's */
  bool is_busy;
  int num_refusals;
  weft_commands_memory_t *memory;
  void *recorded; /* the queue's */
  recorded_input_t *inputs;
  recorded_output_t *outputs;
  atomic_int refs; /* the list, and outputs that were handed on */
} recording_t;

struct commands_recordings {
  const weft_commands_t *commands;
  weft_mutex_t mu;
  recording_t *first; /* guarded by mu */
};

weft_status_t *weft_commands_recordings_create(const weft_commands_t *c, commands_recordings_t **out) {
  commands_recordings_t *r = weft_calloc(1, sizeof *r);
  if (r == NULL) return WEFT_NO_MEMORY("recordings");
  r->commands = c;
  weft_mutex_init(&r->mu);
  *out = r;
  return NULL;
}

/* ---- the life of a recording ---- */

/* Gives up what was recorded, with its memory; the signature stays. */
static void forget(const weft_commands_t *c, recording_t *r) {
  if (r->recorded != NULL) c->device->compute->ops->recording_destroy(c->device->compute, r->recorded);
  r->recorded = NULL;
  for (uint32_t i = 0; i < c->num_inputs; i++) {
    weft_tensor_release(r->inputs[i].copy);
    r->inputs[i].copy = NULL;
  }
  for (uint32_t i = 0; i < c->num_outputs; i++) {
    weft_tensor_release(r->outputs[i].tensor);
    r->outputs[i].tensor = NULL;
  }
  weft_commands_memory_release(r->memory);
  r->memory = NULL;
}

static void unref(recording_t *r) {
  if (atomic_fetch_sub_explicit(&r->refs, 1, memory_order_acq_rel) != 1) return;
  weft_free(r->inputs);
  weft_free(r->outputs);
  weft_free(r);
}

/* Takes it off the list's books; outputs may still be in use, in memory that they hold. */
static void discard(const weft_commands_t *c, recording_t *r) {
  forget(c, r);
  for (uint32_t i = 0; i < c->num_inputs; i++) weft_tensor_release(r->inputs[i].host);
  unref(r);
}

void weft_commands_recordings_destroy(commands_recordings_t *all) {
  if (all == NULL) return;
  for (recording_t *next, *r = all->first; r != NULL; r = next) {
    next = r->next;
    discard(all->commands, r);
  }
  weft_mutex_deinit(&all->mu);
  weft_free(all);
}

static recording_t *recording_new(const weft_commands_t *c, const weft_value_t *in) {
  recording_t *r = weft_calloc(1, sizeof *r);
  if (r == NULL) return NULL;
  r->inputs = weft_calloc((size_t)c->num_inputs + 1, sizeof *r->inputs);
  r->outputs = weft_calloc((size_t)c->num_outputs + 1, sizeof *r->outputs);
  atomic_init(&r->refs, 1);
  if (r->inputs == NULL || r->outputs == NULL) {
    unref(r);
    return NULL;
  }
  for (uint32_t i = 0; i < c->num_inputs; i++) {
    weft_tensor_t *t = in[i].tensor;
    recorded_input_t *x = &r->inputs[i];
    *x = (recorded_input_t){.dtype = t->dtype, .shape = t->shape, .address = t->data};
    if (t->space == NULL) x->host = weft_tensor_retain(t);
    if (t->space == NULL && t->bytes > MAX_HOST_BYTES) r->state = REFUSED;
  }
  return r;
}

/* ---- signatures ---- */

static bool fits(const recorded_input_t *x, const weft_tensor_t *t) {
  if (t->dtype != x->dtype || !weft_shape_eq(&t->shape, &x->shape)) return false;
  if ((t->space == NULL) != (x->host != NULL)) return false;
  return x->host == NULL || t->bytes == 0 || x->host->data == t->data || t->bytes > MAX_HOST_BYTES ||
         memcmp(x->host->data, t->data, t->bytes) == 0;
}

static bool fits_all(const weft_commands_t *c, const recording_t *r, const weft_value_t *in) {
  for (uint32_t i = 0; i < c->num_inputs; i++) {
    if (!fits(&r->inputs[i], in[i].tensor)) return false;
  }
  return true;
}

/* Whether outputs of its last run are in use. */
static bool has_outputs_in_use(const recording_t *r) {
  if (r->state == REHEARSED) return weft_commands_memory_is_in_use(r->memory);
  return r->state == RECORDED && atomic_load_explicit(&r->refs, memory_order_acquire) > 1;
}

/* Finds a recording of the inputs' signature and moves it to the front: one that can be used, else any. NULL:
 * there is none. */
static recording_t *find_locked(const weft_commands_t *c, const weft_value_t *in, int *out_num,
                                int *out_num_fit) WEFT_REQUIRES(c->recordings->mu) {
  commands_recordings_t *all = c->recordings;
  recording_t **found = NULL;
  bool is_free = false;
  *out_num = *out_num_fit = 0;
  for (recording_t **at = &all->first; *at != NULL; at = &(*at)->next) {
    recording_t *r = *at;
    ++*out_num;
    if (!fits_all(c, r, in)) continue;
    ++*out_num_fit;
    if (found != NULL && is_free) continue;
    found = at;
    is_free = !r->is_busy && r->state != REFUSED && !has_outputs_in_use(r);
  }
  if (found == NULL) return NULL;
  recording_t *r = *found;
  *found = r->next;
  r->next = all->first;
  all->first = r;
  return r;
}

/* Removes the one that was used longest ago, unless it is busy. */
static recording_t *take_last_locked(commands_recordings_t *all) WEFT_REQUIRES(all->mu) {
  recording_t **at = &all->first;
  while ((*at)->next != NULL) at = &(*at)->next;
  recording_t *last = *at;
  if (last->is_busy) return NULL;
  *at = NULL;
  return last;
}

/* Puts a new recording to the front. *old: one that has to go for it. NULL: there is no room. */
static recording_t *add_locked(const weft_commands_t *c, const weft_value_t *in, int num, recording_t **old)
    WEFT_REQUIRES(c->recordings->mu) {
  if (num >= MAX_RECORDINGS) *old = take_last_locked(c->recordings);
  recording_t *r = num < MAX_RECORDINGS || *old != NULL ? recording_new(c, in) : NULL;
  if (r == NULL) return NULL;
  r->next = c->recordings->first;
  c->recordings->first = r;
  return r;
}

/* A recording of the inputs' signature, busy from now on; NULL: the run is as ever. */
static recording_t *take(const weft_commands_t *c, const weft_value_t *in) {
  recording_t *old = NULL, *taken = NULL;
  int num = 0, num_fit = 0;
  weft_mutex_lock(&c->recordings->mu);
  recording_t *found = find_locked(c, in, &num, &num_fit);
  if (found == NULL) {
    (void)add_locked(c, in, num, &old);
  } else if (!found->is_busy && found->state != REFUSED) {
    taken = found;
    if (num_fit < MAX_IN_TURNS && has_outputs_in_use(found)) {
      recording_t *second = add_locked(c, in, num, &old);
      if (second != NULL) taken = second;
    }
    taken->is_busy = true;
  }
  weft_mutex_unlock(&c->recordings->mu);
  if (old != NULL) discard(c, old);
  return taken;
}

static void give_back(const weft_commands_t *c, recording_t *r) {
  weft_mutex_lock(&c->recordings->mu);
  r->is_busy = false;
  weft_mutex_unlock(&c->recordings->mu);
}

/* ---- rehearsing and recording ---- */

/* Runs the nodes on the recording's memory, with inputs that they cannot write to. */
static weft_status_t *run_on_memory(const weft_commands_t *c, const recording_t *r, commands_run_t *x) {
  commands_run_t own = *x;
  own.values = weft_calloc((size_t)c->num_values + c->most_inputs, sizeof *own.values);
  if (own.values == NULL) return WEFT_NO_MEMORY("recording %u nodes", c->num_commands);
  own.scratch = own.values + c->num_values;
  own.memory = weft_commands_memory_allocator(r->memory);
  for (uint32_t i = 0; i < c->num_inputs; i++) {
    weft_tensor_t *copy = r->inputs[i].copy;
    own.values[i].tensor = weft_tensor_retain(copy != NULL ? copy : x->values[i].tensor);
  }
  weft_status_t *s = weft_commands_enqueue(c, &own);
  x->failed = own.failed;
  weft_free(own.values);
  return s;
}

static void note_addresses(const weft_commands_t *c, recording_t *r, const weft_value_t *in) {
  for (uint32_t i = 0; i < c->num_inputs; i++) r->inputs[i].address = in[i].tensor->data;
}

static weft_status_t *rehearse(const weft_commands_t *c, recording_t *r, commands_run_t *x) {
  weft_allocator_t *from = weft_memory_account(c->device->memory, WEFT_MEMORY_ACTIVATION);
  WEFT_RETURN_IF_ERROR(weft_commands_memory_create(from, &r->memory));
  weft_status_t *s = run_on_memory(c, r, x);
  note_addresses(c, r, x->values);
  r->state = REHEARSED;
  if (s == NULL) return NULL;
  forget(c, r); /* the run has failed; the next one is the first again */
  r->state = SEEN;
  return s;
}

/* Gives inputs that have moved a block. False: that would be too much to copy, or there is no memory. */
static bool make_copies(const weft_commands_t *c, recording_t *r, const weft_value_t *in) {
  weft_allocator_t *from = weft_memory_account(c->device->memory, WEFT_MEMORY_ACTIVATION);
  size_t bytes = 0;
  for (uint32_t i = 0; i < c->num_inputs; i++) {
    const weft_tensor_t *t = in[i].tensor;
    if (t->space == NULL || t->bytes == 0) continue;
    if (t->data == r->inputs[i].address && !r->inputs[i].moves) continue;
    bytes += t->bytes;
    if (bytes > MAX_COPIED_BYTES) return false;
    weft_status_t *s = weft_tensor_new(t->dtype, &t->shape, from, &r->inputs[i].copy);
    if (s == NULL) weft_queue_wait(c->device->compute, r->inputs[i].copy->fence);
    weft_status_free(s); /* then the run is as ever */
    if (r->inputs[i].copy == NULL) return false;
  }
  return true;
}

/* Which input's bytes an output has; false: some, but not all of them. */
static bool find_input(const weft_commands_t *c, const recording_t *r, const weft_value_t *in,
                       recorded_output_t *out) {
  const char *begin = out->tensor->data;
  out->input = NO_INPUT;
  for (uint32_t i = 0; i < c->num_inputs && out->tensor->bytes > 0; i++) {
    const weft_tensor_t *t = r->inputs[i].copy != NULL ? r->inputs[i].copy : in[i].tensor;
    const char *at = t->data;
    if (t->bytes == 0 || begin < at || begin >= at + t->bytes) continue;
    out->input = i;
    return begin == at && out->tensor->bytes == t->bytes;
  }
  return true;
}

/* True: what the nodes enqueue is recorded, and nothing of it has run. */
static bool record(const weft_commands_t *c, recording_t *r, commands_run_t *x) {
  weft_queue_t *q = c->device->compute;
  weft_commands_memory_close(r->memory);
  if (!make_copies(c, r, x->values)) return false;
  weft_status_t *s = q->ops->record_begin(q);
  if (s == NULL) {
    s = run_on_memory(c, r, x);
    weft_status_t *end = q->ops->record_end(q, &r->recorded);
    if (s == NULL) {
      s = end;
    } else {
      weft_status_free(end);
    }
  }
  bool ok = s == NULL;
  weft_status_free(s); /* the run is as ever then, and says what is wrong */
  x->failed = NULL;
  for (uint32_t i = 0; i < c->num_outputs; i++) {
    r->outputs[i].tensor = x->outputs[i].tensor;
    x->outputs[i] = (weft_value_t){NULL, NULL};
    if (ok) ok = find_input(c, r, x->values, &r->outputs[i]);
  }
  return ok;
}

/* ---- replaying ---- */

/* An output that was handed on. The recording may be given up meanwhile, the memory may not. */
typedef struct handed_on {
  recording_t *of;       /* holds a reference */
  weft_tensor_t *tensor; /* retained */
} handed_on_t;

static void on_released(void *data, size_t bytes, void *arg) {
  (void)data;
  (void)bytes;
  handed_on_t *h = arg;
  weft_tensor_release(h->tensor);
  unref(h->of);
  weft_free(h);
}

/* Output i of a replay that ends before `fence`. */
static weft_status_t *hand_out(const weft_commands_t *c, recording_t *r, uint32_t i, const weft_value_t *in,
                               weft_fence_t fence, weft_tensor_t **out) {
  const recorded_output_t *o = &r->outputs[i];
  weft_tensor_t *t = o->tensor;
  if (o->input != NO_INPUT) return weft_tensor_view(in[o->input].tensor, t->dtype, &t->shape, out);
  if (t->space == NULL || t->bytes == 0) {
    *out = weft_tensor_retain(t);
    return NULL;
  }
  handed_on_t *h = weft_malloc(sizeof *h);
  if (h == NULL) return WEFT_NO_MEMORY("an output of a recording");
  weft_status_t *s = weft_tensor_wrap(t->dtype, &t->shape, t->data, t->bytes, on_released, h, out);
  if (s != NULL) {
    weft_free(h);
    return s;
  }
  *h = (handed_on_t){.of = r, .tensor = weft_tensor_retain(t)};
  atomic_fetch_add_explicit(&r->refs, 1, memory_order_relaxed);
  (*out)->space = c->device->space;
  (*out)->fence = fence;
  return NULL;
}

static weft_status_t *launch(const weft_commands_t *c, recording_t *r, commands_run_t *x) {
  weft_queue_t *q = c->device->compute;
  weft_status_t *s = NULL;
  for (uint32_t i = 0; i < c->num_inputs && s == NULL; i++) {
    if (r->inputs[i].copy != NULL) s = q->ops->copy(q, x->values[i].tensor, r->inputs[i].copy);
  }
  if (s == NULL) s = q->ops->replay(q, r->recorded);
  const weft_fence_t fence = weft_queue_mark(q);
  for (uint32_t i = 0; i < c->num_outputs && s == NULL; i++)
    s = hand_out(c, r, i, x->values, fence, &x->outputs[i].tensor);
  for (uint32_t i = 0; i < c->num_outputs && s != NULL; i++) value_release(&x->outputs[i]);
  return s;
}

/* Has an input moved that is read where it lies? It will be copied from now on. */
static bool has_moved(const weft_commands_t *c, recording_t *r, const weft_value_t *in) {
  bool any = false;
  for (uint32_t i = 0; i < c->num_inputs; i++) {
    recorded_input_t *x = &r->inputs[i];
    if (x->host != NULL || x->copy != NULL || in[i].tensor->bytes == 0) continue;
    if (in[i].tensor->data == x->address) continue;
    any = x->moves = true;
  }
  return any;
}

/* The run is as ever; after some in a row the signature is never recorded again. False. */
static bool refuse(const weft_commands_t *c, recording_t *r) {
  if (++r->num_refusals < MAX_REFUSALS) return false;
  forget(c, r);
  r->state = REFUSED;
  return false;
}

static bool use(const weft_commands_t *c, recording_t *r, commands_run_t *x, weft_status_t **out_status) {
  switch (r->state) {
    case SEEN: *out_status = rehearse(c, r, x); return true;
    case REHEARSED:
      if (has_outputs_in_use(r)) return refuse(c, r);
      if (!record(c, r, x)) {
        forget(c, r);
        r->state = REFUSED;
        return false;
      }
      r->state = RECORDED;
      break;
    case RECORDED:
      if (has_outputs_in_use(r)) return refuse(c, r);
      if (has_moved(c, r, x->values)) {
        forget(c, r);
        r->state = SEEN;
        return refuse(c, r);
      }
      break;
    case REFUSED: return false;
  }
  *out_status = launch(c, r, x);
  if (r->state == RECORDED) r->num_refusals = 0;
  return true;
}

/* Replays a recording, or runs the nodes so that they can be recorded later. False: neither, and nothing has
 * happened; true: *out_status says how it went. The inputs stay. */
static bool run_recorded(const weft_commands_t *c, commands_run_t *x, weft_status_t **out_status) {
  recording_t *r = take(c, x->values);
  if (r == NULL) return false;
  const bool used = use(c, r, x, out_status);
  give_back(c, r);
  return used;
}

weft_status_t *weft_commands_run(const weft_commands_t *c, commands_run_t *x) {
  weft_status_t *s = NULL;
  for (uint32_t i = 0; i < c->num_inputs; i++) {
    if (x->values[i].tensor != NULL) weft_queue_wait(c->device->compute, x->values[i].tensor->fence);
  }
  if (x->recorder == NULL && run_recorded(c, x, &s)) {
    for (uint32_t i = 0; i < c->num_inputs; i++) value_release(&x->values[i]);
    return s;
  }
  return weft_commands_enqueue(c, x);
}
