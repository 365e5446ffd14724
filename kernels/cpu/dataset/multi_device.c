/* kernels/cpu/dataset/multi_device.c - the elements of one pass through a data set, dealt out to several
 * devices in turn: the first to shard 0, the second to shard 1, and so on, in whatever order they are asked
 * for.
 *
 * Locking: `mu` is a leaf, but that cancellers are asked to register under it.
 */
#include "base/alloc.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "kernels/attrs.h"
#include "kernels/cpu/dataset/iterator_ops.h"
#include "kernels/cpu/dataset/options.h"

/* An element on its way to a shard. */
typedef struct dealt {
  weft_tensor_t **parts;
  weft_status_t *status;
  struct dealt *next;
} dealt_t;

/* An execution that waits for an element of its shard. */
typedef struct shard_waiter {
  weft_kernel_ctx_t *c;
  struct deal *of;
  int shard;
  int64_t since_ns; /* when it began to wait */
  uint64_t token;
  bool is_ended; /* guarded by of->mu */
  struct shard_waiter *next;
} shard_waiter_t;

typedef struct shard_line {
  dealt_t *first, *last;
  int64_t count;
  shard_waiter_t *first_waiter, *last_waiter;
} shard_line_t;

/* One pass. Counted: by the resource, and by the request that is under way. */
typedef struct deal {
  atomic_int refs;
  weft_traversal_t *traversal;
  int64_t incarnation, max_buffer;
  int num_shards, num_parts;
  weft_mutex_t mu;
  int next_shard; /* guarded by mu, as what follows */
  int64_t waited_ns, delivered;
  bool is_asking, is_over, is_closed;
  shard_line_t shards[];
} deal_t;

typedef struct multi_device {
  weft_object_t object;
  weft_element_spec_t *spec;
  int num_devices;
  weft_mutex_t mu;
  deal_t *deal; /* guarded by mu, as what follows; NULL: not initialised */
  int64_t incarnation;
  int64_t waited_ns, delivered; /* of earlier passes */
} multi_device_t;

/* ---- one pass ---- */

static void dealt_free(dealt_t *e, int n) {
  if (e == NULL) return;
  if (e->parts != NULL) weft_element_release(e->parts, n);
  weft_free(e->parts);
  weft_status_free(e->status);
  weft_free(e);
}

static void deal_unref(deal_t *d) {
  if (atomic_fetch_sub_explicit(&d->refs, 1, memory_order_acq_rel) > 1) return;
  for (int i = 0; i < d->num_shards; i++) {
    for (dealt_t *e = d->shards[i].first, *next; e != NULL; e = next) {
      next = e->next;
      dealt_free(e, d->num_parts);
    }
  }
  weft_traversal_release(d->traversal);
  weft_mutex_deinit(&d->mu);
  weft_free(d);
}

static weft_status_t *end_of_sequence(void) { return WEFT_ERROR(OUT_OF_RANGE, "End of sequence"); }

/* Ends a waiter with an element (consumed), or without one with `status`. */
static void end_waiter(shard_waiter_t *w, dealt_t *e, weft_status_t *status) {
  weft_kernel_ctx_t *c = w->c;
  deal_t *d = w->of;
  (void)weft_canceller_deregister(c->step->canceller, w->token);
  weft_mutex_lock(&d->mu);
  d->waited_ns += weft_clock_ns() - w->since_ns;
  d->delivered += e != NULL && e->status == NULL;
  weft_mutex_unlock(&d->mu);
  if (e != NULL) {
    status = e->status;
    e->status = NULL;
    if (status == NULL) {
      const weft_attr_t *const *shapes = c->state;
      status = weft_iterator_outputs(c, *shapes, d->num_parts, e->parts);
    }
    dealt_free(e, d->num_parts);
  }
  weft_free(w);
  c->done(c, status);
  deal_unref(d);
}

static dealt_t *take_dealt(shard_line_t *l) {
  dealt_t *e = l->first;
  l->first = e->next;
  if (l->first == NULL) l->last = NULL;
  l->count--;
  return e;
}

static shard_waiter_t *take_waiter(shard_line_t *l) {
  shard_waiter_t *w = l->first_waiter;
  l->first_waiter = w->next;
  if (l->first_waiter == NULL) l->last_waiter = NULL;
  w->is_ended = true;
  return w;
}

static void ask(deal_t *d);

/* Wakes those that wait, all of them, when there is nothing more. */
static void end_all(deal_t *d, bool is_cancelled) {
  weft_mutex_lock(&d->mu);
  for (int i = 0; i < d->num_shards; i++) {
    while (d->shards[i].first_waiter != NULL) {
      shard_waiter_t *w = take_waiter(&d->shards[i]);
      dealt_t *e = d->shards[i].first != NULL ? take_dealt(&d->shards[i]) : NULL;
      weft_mutex_unlock(&d->mu);
      end_waiter(w, e,
                 e != NULL      ? NULL
                 : is_cancelled ? WEFT_ERROR(CANCELLED, "Cancelled and buffer not filled.")
                                : end_of_sequence());
      weft_mutex_lock(&d->mu);
    }
  }
  weft_mutex_unlock(&d->mu);
}

static void deal_out(void *arg, weft_status_t *s, weft_tensor_t **parts, bool is_end) {
  deal_t *d = arg;
  dealt_t *e = is_end ? NULL : weft_calloc(1, sizeof *e);
  if (e != NULL) e->parts = weft_calloc((size_t)d->num_parts, sizeof *e->parts);
  const bool is_lost = !is_end && (e == NULL || e->parts == NULL);
  if (is_lost || is_end) {
    weft_status_free(s);
    dealt_free(e, 0);
    e = NULL;
  } else {
    e->status = s;
    for (int i = 0; s == NULL && i < d->num_parts; i++) {
      e->parts[i] = parts[i];
      parts[i] = NULL;
    }
  }
  shard_waiter_t *w = NULL;
  weft_mutex_lock(&d->mu);
  d->is_asking = false;
  d->is_over = e == NULL;
  const bool is_over = d->is_over;
  if (!is_over) {
    shard_line_t *l = &d->shards[d->next_shard];
    d->next_shard = (d->next_shard + 1) % d->num_shards;
    if (l->first_waiter != NULL) {
      w = take_waiter(l);
    } else {
      if (l->last != NULL) l->last->next = e;
      if (l->first == NULL) l->first = e;
      l->last = e;
      l->count++;
    }
  }
  weft_mutex_unlock(&d->mu);
  if (w != NULL) end_waiter(w, e, NULL);
  if (is_over) end_all(d, is_lost);
  ask(d);
  deal_unref(d);
}

/* Asks for the next element, unless its shard has enough. */
static void ask(deal_t *d) {
  weft_mutex_lock(&d->mu);
  const shard_line_t *l = &d->shards[d->next_shard];
  const bool is_wanted =
      !d->is_asking && !d->is_over && !d->is_closed && (l->count < d->max_buffer || l->first_waiter != NULL);
  if (is_wanted) d->is_asking = true;
  weft_mutex_unlock(&d->mu);
  if (!is_wanted) return;
  atomic_fetch_add_explicit(&d->refs, 1, memory_order_relaxed);
  const weft_traversal_request_t request = {.done = deal_out, .arg = d};
  weft_traversal_next(d->traversal, &request);
}

static void deal_close(deal_t *d) {
  weft_mutex_lock(&d->mu);
  d->is_closed = true;
  weft_mutex_unlock(&d->mu);
  weft_traversal_close(d->traversal);
  end_all(d, true);
  deal_unref(d);
}

/* ---- the resource ---- */

static void multi_device_abandon(weft_object_t *o) {
  multi_device_t *m = (multi_device_t *)o;
  weft_mutex_lock(&m->mu);
  deal_t *d = m->deal;
  m->deal = NULL;
  weft_mutex_unlock(&m->mu);
  if (d != NULL) deal_close(d);
}

static const weft_resource_type_t type = {.name = "N10tensorflow4data12_GLOBAL__N_119MultiDeviceIteratorE",
                                          .text = "MultiDeviceIterator",
                                          .abandon = multi_device_abandon};

static void destroy(weft_object_t *o) {
  multi_device_t *m = (multi_device_t *)o;
  multi_device_abandon(o);
  weft_element_spec_release(m->spec);
  weft_mutex_deinit(&m->mu);
  weft_free(m);
}

typedef struct multi_config {
  weft_element_spec_t *spec;
  int num_devices;
} multi_config_t;

static weft_status_t *config_read(const weft_kernel_setup_t *setup, void *config) {
  multi_config_t *m = config;
  m->num_devices = weft_knode_attr(setup, "devices")->n;
  return weft_iterator_spec_read(setup, &m->spec);
}

static void config_deinit(void *config) { weft_element_spec_release(((multi_config_t *)config)->spec); }

static weft_status_t *config_create(weft_kernel_ctx_t *c, const char *name, const void *config,
                                    weft_object_t **out) {
  const multi_config_t *from = config;
  (void)c, (void)name;
  multi_device_t *m = weft_calloc(1, sizeof *m);
  if (m == NULL) return WEFT_NO_MEMORY("an iterator");
  atomic_init(&m->object.refs, 1);
  m->object.destroy = destroy;
  m->num_devices = from->num_devices;
  m->spec = from->spec != NULL ? weft_element_spec_retain(from->spec) : NULL;
  weft_mutex_init(&m->mu);
  *out = &m->object;
  return NULL;
}

static const weft_state_maker_t maker = {.type = &type,
                                         .config_size = sizeof(multi_config_t),
                                         .read = config_read,
                                         .create = config_create,
                                         .deinit = config_deinit};

/* Without a name; a second output is TensorFlow's deleter. */
static weft_status_t *anonymous_prepare(const weft_kernel_setup_t *setup, void **out_state) {
  multi_config_t *m = weft_calloc(1, sizeof *m);
  if (m == NULL) return WEFT_NO_MEMORY("preparing %s", setup->node.name.data);
  weft_status_t *s = config_read(setup, m);
  if (s != NULL) {
    weft_free(m);
    return s;
  }
  *out_state = m;
  return NULL;
}

static void anonymous_destroy(void *state) {
  if (state != NULL) config_deinit(state);
  weft_free(state);
}

static weft_status_t *anonymous_compute(weft_kernel_ctx_t *c) {
  weft_object_t *o = NULL;
  weft_tensor_t *t = NULL;
  WEFT_RETURN_IF_ERROR(config_create(c, "", c->state, &o));
  weft_status_t *s =
      weft_state_handle(c->device, "AnonymousMultiDeviceIterator", "AnonymousMultiDeviceIterator", &type, o,
                        WEFT_DTYPE_INVALID, &WEFT_UNKNOWN_SHAPE, &t);
  weft_object_release(o);
  if (s != NULL) return s;
  weft_out_set(c, 0, t);
  if (c->node->num_outputs < 2) return NULL;
  WEFT_RETURN_IF_ERROR(weft_tensor_new(WEFT_VARIANT, &WEFT_SCALAR, NULL, &t));
  weft_out_set(c, 1, t);
  return NULL;
}

/* ---- use ---- */

static weft_status_t *in_multi(weft_kernel_ctx_t *c, int i, multi_device_t **out) {
  weft_object_t *o = NULL;
  WEFT_RETURN_IF_ERROR(weft_state_in(c, i, &type, &o));
  *out = (multi_device_t *)o;
  return NULL;
}

static weft_status_t *deal_new(const multi_device_t *m, weft_dataset_t *dataset, weft_device_t *device,
                               int64_t max_buffer, deal_t **out) {
  deal_t *d = weft_calloc(1, sizeof *d + (size_t)m->num_devices * sizeof(shard_line_t));
  if (d == NULL) return WEFT_NO_MEMORY("an iterator");
  weft_status_t *s = weft_traversal_create(dataset, device, NULL, &d->traversal);
  if (s != NULL) {
    weft_free(d);
    return s;
  }
  weft_options_apply(dataset, d->traversal);
  atomic_init(&d->refs, 1);
  d->num_shards = m->num_devices;
  d->num_parts = dataset->spec->n;
  d->max_buffer = max_buffer;
  weft_mutex_init(&d->mu);
  *out = d;
  return NULL;
}

static void add_waits(deal_t *d, int64_t *waited_ns, int64_t *delivered) {
  weft_mutex_lock(&d->mu);
  *waited_ns += d->waited_ns;
  *delivered += d->delivered;
  weft_mutex_unlock(&d->mu);
}

static weft_status_t *begin(weft_kernel_ctx_t *c, multi_device_t *m) {
  weft_dataset_t *dataset = NULL;
  weft_tensor_t *t = NULL;
  deal_t *d = NULL;
  int64_t max_buffer;
  WEFT_RETURN_IF_ERROR(weft_dataset_of(weft_in(c, 0), &dataset));
  WEFT_RETURN_IF_ERROR(weft_dataset_in_int(c, 2, "max_buffer_size", &max_buffer));
  if (m->spec != NULL) WEFT_RETURN_IF_ERROR(weft_element_spec_check(m->spec, dataset->spec));
  WEFT_RETURN_IF_ERROR(deal_new(m, dataset, c->device, max_buffer, &d));
  weft_mutex_lock(&m->mu);
  deal_t *old = m->deal;
  if (old != NULL) add_waits(old, &m->waited_ns, &m->delivered);
  d->incarnation = ++m->incarnation;
  const int64_t incarnation = d->incarnation;
  m->deal = d;
  weft_mutex_unlock(&m->mu);
  if (old != NULL) deal_close(old);
  WEFT_RETURN_IF_ERROR(weft_tensor_scalar(WEFT_I64, &incarnation, &t));
  weft_out_set(c, 0, t);
  return NULL;
}

static weft_status_t *init_compute(weft_kernel_ctx_t *c) {
  multi_device_t *m = NULL;
  WEFT_RETURN_IF_ERROR(in_multi(c, 1, &m));
  weft_status_t *s = begin(c, m);
  weft_object_release(&m->object);
  return s;
}

static void step_cancelled(void *arg) {
  shard_waiter_t *w = arg;
  deal_t *d = w->of;
  weft_mutex_lock(&d->mu);
  const bool was_ended = w->is_ended;
  if (!was_ended) {
    shard_line_t *l = &d->shards[w->shard];
    shard_waiter_t **at = &l->first_waiter, *before = NULL;
    while (*at != w) {
      before = *at;
      at = &before->next;
    }
    *at = w->next;
    if (l->last_waiter == w) l->last_waiter = before;
    w->is_ended = true;
  }
  weft_mutex_unlock(&d->mu);
  if (was_ended) return;
  weft_kernel_ctx_t *c = w->c;
  weft_free(w);
  c->done(c, WEFT_ERROR(CANCELLED, "GetNextFromShard was cancelled"));
  deal_unref(d);
}

/* The pass behind input 0; retained. */
static weft_status_t *in_deal(weft_kernel_ctx_t *c, int *shard, deal_t **out) {
  multi_device_t *m = NULL;
  int64_t shard64, incarnation;
  WEFT_RETURN_IF_ERROR(weft_dataset_in_int(c, 1, "shard_num", &shard64));
  WEFT_RETURN_IF_ERROR(weft_dataset_in_int(c, 2, "incarnation_id", &incarnation));
  WEFT_RETURN_IF_ERROR(in_multi(c, 0, &m));
  weft_mutex_lock(&m->mu);
  deal_t *d = m->deal;
  if (d != NULL) atomic_fetch_add_explicit(&d->refs, 1, memory_order_relaxed);
  weft_mutex_unlock(&m->mu);
  weft_object_release(&m->object);
  weft_status_t *s = NULL;
  if (d == NULL) return WEFT_ERROR(FAILED_PRECONDITION, "the multi-device iterator has not been initialized");
  if (d->incarnation != incarnation) {
    s = WEFT_ERROR(INVALID_ARGUMENT, "Invalid incarnation id. Provided: %lld; Expected: %lld",
                   (long long)incarnation, (long long)d->incarnation);
  } else if (shard64 < 0 || shard64 >= d->num_shards) {
    s = WEFT_ERROR(INVALID_ARGUMENT, "shard_num %lld is not below %d", (long long)shard64, d->num_shards);
  }
  if (s != NULL) {
    deal_unref(d);
    return s;
  }
  *shard = (int)shard64;
  *out = d;
  return NULL;
}

static weft_status_t *join_line(deal_t *d, shard_waiter_t *w, dealt_t **e) WEFT_REQUIRES(&d->mu) {
  shard_line_t *l = &d->shards[w->shard];
  if (l->first != NULL) {
    *e = take_dealt(l);
    return NULL;
  }
  if (d->is_over) return end_of_sequence();
  if (d->is_closed) return WEFT_ERROR(CANCELLED, "Cancelled Multidevice iterator");
  if (!weft_canceller_register(w->c->step->canceller, step_cancelled, w, &w->token))
    return weft_canceller_is_cancelled(w->c->step->canceller)
               ? WEFT_ERROR(CANCELLED, "GetNextFromShard was cancelled")
               : WEFT_NO_MEMORY("GetNextFromShard");
  if (l->last_waiter != NULL) l->last_waiter->next = w;
  if (l->first_waiter == NULL) l->first_waiter = w;
  l->last_waiter = w;
  return NULL;
}

WEFT_ATTRS_ASYNC(get_compute, (SHAPES, output_shapes))
static void get_compute(weft_kernel_ctx_t *c, const get_compute_attrs_t *attrs) {
  deal_t *d = NULL;
  int shard = 0;
  dealt_t *e = NULL;
  (void)attrs;
  shard_waiter_t *w = weft_calloc(1, sizeof *w);
  weft_status_t *s = w == NULL ? WEFT_NO_MEMORY("a request for an element") : in_deal(c, &shard, &d);
  if (s != NULL) {
    weft_free(w);
    c->done(c, s);
    return;
  }
  w->c = c;
  w->of = d;
  w->shard = shard;
  w->since_ns = weft_clock_ns();
  atomic_fetch_add_explicit(&d->refs, 1, memory_order_relaxed); /* for `ask`: the waiter's may go at once */
  weft_mutex_lock(&d->mu);
  s = join_line(d, w, &e);
  weft_mutex_unlock(&d->mu);
  if (e != NULL || s != NULL) end_waiter(w, e, s);
  ask(d);
  deal_unref(d);
}

bool weft_is_multi_device(weft_kernel_ctx_t *c, int i) {
  const weft_handle_t *h = NULL;
  weft_status_t *s = weft_state_in_handle(c, i, &h);
  const bool is = s == NULL && weft_str_eq(h->type_name, weft_str(type.name));
  weft_status_free(s);
  return is;
}

weft_status_t *weft_multi_device_waits(weft_kernel_ctx_t *c, int i, weft_waits_t *out) {
  multi_device_t *m = NULL;
  *out = (weft_waits_t){0};
  WEFT_RETURN_IF_ERROR(in_multi(c, i, &m));
  weft_mutex_lock(&m->mu);
  deal_t *d = m->deal;
  if (d != NULL) weft_traversal_add_waits(d->traversal, out); /* what was made ahead, and how much may be */
  out->waited_ns = m->waited_ns;
  out->delivered = m->delivered;
  if (d != NULL) add_waits(d, &out->waited_ns, &out->delivered);
  weft_mutex_unlock(&m->mu);
  weft_object_release(&m->object);
  return NULL;
}

static weft_status_t *to_string(weft_kernel_ctx_t *c) {
  multi_device_t *m = NULL;
  WEFT_RETURN_IF_ERROR(in_multi(c, 0, &m));
  weft_object_release(&m->object);
  return weft_iterator_to_string(c);
}

static weft_status_t *from_string(weft_kernel_ctx_t *c) {
  const weft_element_spec_t *spec = c->state;
  weft_object_t *o = NULL;
  WEFT_RETURN_IF_ERROR(weft_iterator_from_string(c, &type, &o));
  const multi_device_t *m = (const multi_device_t *)o;
  weft_status_t *s = spec != NULL && m->spec != NULL ? weft_element_spec_check(spec, m->spec) : NULL;
  weft_object_release(o);
  return s;
}

static weft_status_t *spec_prepare(const weft_kernel_setup_t *setup, void **out_state) {
  weft_element_spec_t *spec = NULL;
  WEFT_RETURN_IF_ERROR(weft_iterator_spec_read(setup, &spec));
  *out_state = spec;
  return NULL;
}

static void spec_destroy(void *state) { weft_element_spec_release(state); }

static weft_status_t *forget(weft_kernel_ctx_t *c) {
  multi_device_t *m = NULL;
  WEFT_RETURN_IF_ERROR(in_multi(c, 0, &m));
  multi_device_abandon(&m->object);
  weft_object_release(&m->object);
  return NULL;
}

#define ANONYMOUS .prepare = anonymous_prepare, .compute = anonymous_compute, .destroy = anonymous_destroy

const weft_kernel_t weft_cpu_dataset_multi_device_kernels[] = {
    {.op = "AnonymousMultiDeviceIterator", ANONYMOUS},
    {.op = "AnonymousMultiDeviceIteratorV3", ANONYMOUS},
    {.op = "DeleteMultiDeviceIterator", .compute = forget},
    {.op = "MultiDeviceIterator", WEFT_STATE_MAKER, .param = &maker},
    {.op = "MultiDeviceIteratorFromStringHandle",
     .prepare = spec_prepare,
     .compute = from_string,
     .destroy = spec_destroy},
    {.op = "MultiDeviceIteratorGetNextFromShard", WEFT_COMPUTE_ASYNC(get_compute)},
    {.op = "MultiDeviceIteratorInit", .compute = init_compute},
    {.op = "MultiDeviceIteratorToStringHandle", .compute = to_string},
    {0},
};
