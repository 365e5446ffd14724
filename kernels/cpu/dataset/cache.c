/* kernels/cpu/dataset/cache.c - CacheDataset in memory: the first whole pass through the input keeps its
 * elements, and later ones take them from there. A name for a file makes it a cache on disk (cache_file.c).
 */
#include "kernels/cpu/dataset/cache.h"

#include "base/alloc.h"
#include "base/log.h"
#include "kernels/cpu/dataset/elements.h"
#include "kernels/cpu/dataset/saved.h"
#include "kernels/state.h"

/* ---- elements ---- */

/* Elements of `width` tensors each. Counted; constant once they are a cache's. */
typedef struct elements {
  atomic_int refs;
  int width;
  weft_element_list_t list;
} elements_t;

static void elements_release(elements_t *e) {
  if (e == NULL || atomic_fetch_sub_explicit(&e->refs, 1, memory_order_acq_rel) > 1) return;
  weft_element_list_deinit(&e->list, e->width);
  weft_free(e);
}

static elements_t *elements_retain(elements_t *e) {
  if (e != NULL) atomic_fetch_add_explicit(&e->refs, 1, memory_order_relaxed);
  return e;
}

static weft_status_t *elements_create(int width, elements_t **out) {
  elements_t *e = weft_calloc(1, sizeof *e);
  if (e == NULL) return WEFT_NO_MEMORY("a cache of elements");
  atomic_init(&e->refs, 1);
  e->width = width;
  *out = e;
  return NULL;
}

/* ---- the cache ---- */

/* Thread-safe. */
typedef struct memory_cache {
  weft_object_t object; /* first */
  weft_mutex_t mu;
  elements_t *whole; /* guarded by mu; NULL: no pass has reached the end yet */
} memory_cache_t;

static const weft_resource_type_t memory_cache_type = {.name = "N10tensorflow4data18MemoryCacheManagerE",
                                                       .text = "MemoryCache"};

static void cache_destroy(weft_object_t *o) {
  memory_cache_t *c = (memory_cache_t *)o;
  elements_release(c->whole);
  weft_mutex_deinit(&c->mu);
  weft_free(c);
}

static weft_status_t *cache_create(memory_cache_t **out) {
  memory_cache_t *c = weft_calloc(1, sizeof *c);
  if (c == NULL) return WEFT_NO_MEMORY("a cache of elements");
  atomic_init(&c->object.refs, 1);
  c->object.destroy = cache_destroy;
  weft_mutex_init(&c->mu);
  *out = c;
  return NULL;
}

/* The elements of a whole pass, retained; NULL: there are none yet. */
static elements_t *cache_get(memory_cache_t *c) {
  weft_mutex_lock(&c->mu);
  elements_t *whole = elements_retain(c->whole);
  weft_mutex_unlock(&c->mu);
  return whole;
}

/* Takes the reference to `whole`; the first one stays. */
static void cache_set(memory_cache_t *c, elements_t *whole) {
  weft_mutex_lock(&c->mu);
  if (c->whole == NULL) {
    c->whole = whole;
    whole = NULL;
  }
  weft_mutex_unlock(&c->mu);
  elements_release(whole);
}

/* ---- passes ---- */

typedef struct cache_params {
  weft_cache_params_t base;
  memory_cache_t *cache; /* owned reference; NULL: on disk */
} cache_params_t;

typedef struct caching {
  weft_iterator_t base;
  elements_t *whole; /* to read from, element `at` next; NULL: this pass writes */
  elements_t *own;   /* of a pass that writes, until it is whole; NULL: another was faster, or it is */
  int64_t at;
} caching_t;

static memory_cache_t *cache_of(const weft_iterator_t *it) {
  return ((const cache_params_t *)it->of->params)->cache;
}

static weft_status_t *begin(weft_iterator_t *it) {
  caching_t *c = (caching_t *)it;
  c->whole = cache_get(cache_of(it));
  if (c->whole != NULL) return NULL;
  WEFT_RETURN_IF_ERROR(elements_create(it->of->spec->n, &c->own));
  return weft_iterator_open_input(it, 0, &it->input);
}

static void end(weft_iterator_t *it) {
  caching_t *c = (caching_t *)it;
  if (c->own != NULL && c->own->list.count > 0) weft_cache_was_cut_short();
  elements_release(c->whole);
  elements_release(c->own);
}

static void complete(caching_t *c) {
  if (c->own != NULL) cache_set(cache_of(&c->base), c->own);
  c->own = NULL;
}

static weft_status_t *next(weft_iterator_t *it, weft_tensor_t **out, bool *is_end) {
  caching_t *c = (caching_t *)it;
  const int width = it->of->spec->n;
  if (c->whole != NULL) {
    *is_end = c->at >= c->whole->list.count;
    if (*is_end) return NULL;
    for (int i = 0; i < width; i++) out[i] = weft_tensor_retain(c->whole->list.parts[c->at * width + i]);
    c->at++;
    return NULL;
  }
  /* First the room: a failure must not lose an element that the input has given. */
  if (c->own != NULL) WEFT_RETURN_IF_ERROR(weft_element_list_reserve(&c->own->list, width));
  WEFT_RETURN_IF_ERROR(weft_iterator_next(it->input, out, is_end));
  if (*is_end) complete(c);
  if (c->own == NULL || *is_end) return NULL;
  WEFT_RETURN_IF_ERROR(weft_element_list_keep(&c->own->list, out, width));
  if (c->own->list.count == weft_dataset_cardinality(it->of->inputs[0])) complete(c);
  return NULL;
}

/* ---- state: with the elements, since the cache may be gone when it is loaded ---- */

enum { READS, WRITES, PASSES_BY }; /* PASSES_BY: the input goes on, and the cache is whole */

static weft_status_t *save(weft_iterator_t *it, weft_saved_t *to) {
  const caching_t *c = (const caching_t *)it;
  elements_t *e = c->own != NULL ? elements_retain(c->own) : cache_get(cache_of(it));
  weft_saved_put_int(to, c->whole != NULL ? READS : c->own != NULL ? WRITES : PASSES_BY);
  weft_saved_put_int(to, c->at);
  weft_status_t *s = weft_element_list_save(&e->list, e->width, to);
  elements_release(e);
  return s;
}

static weft_status_t *load(weft_iterator_t *it, weft_saved_t *from) {
  caching_t *c = (caching_t *)it;
  int64_t mode = READS;
  elements_t *e = NULL;
  WEFT_RETURN_IF_ERROR(weft_saved_get_int_in(from, READS, PASSES_BY, &mode));
  WEFT_RETURN_IF_ERROR(weft_saved_get_int_in(from, 0, INT64_MAX, &c->at));
  WEFT_RETURN_IF_ERROR(elements_create(it->of->spec->n, &e));
  weft_status_t *s = weft_element_list_load(&e->list, it->of->spec, from);
  if (s != NULL) {
    elements_release(e);
    return s;
  }
  elements_release(c->whole);
  elements_release(c->own);
  c->whole = mode == READS ? elements_retain(e) : NULL;
  c->own = mode == WRITES ? elements_retain(e) : NULL;
  if (mode != WRITES) cache_set(cache_of(it), elements_retain(e));
  elements_release(e);
  return NULL;
}

static const weft_dataset_class_t class = {.name = "MemoryCache",
                                           .keeps_batches = true,
                                           .iterator_size = sizeof(caching_t),
                                           .begin = begin,
                                           .next = next,
                                           .end = end,
                                           .save = save,
                                           .load = load};

/* ---- kernels ---- */

static void deinit(void *params) {
  cache_params_t *p = params;
  if (p->cache != NULL) weft_object_release(&p->cache->object);
  weft_free(p->base.prefix);
}

/* The cache behind input i, or one of the data set's own where the handle names none. */
static weft_status_t *cache_in(weft_kernel_ctx_t *c, int i, memory_cache_t **out) {
  weft_object_t *o = NULL;
  if (i < c->node->num_inputs) WEFT_RETURN_IF_ERROR(weft_state_in_if_there(c, i, &memory_cache_type, &o));
  if (o == NULL) return cache_create(out);
  *out = (memory_cache_t *)o;
  return NULL;
}

static weft_status_t *make(weft_kernel_ctx_t *c, int at, weft_dataset_t *d, void *params) {
  cache_params_t *p = params;
  weft_str_t prefix;
  WEFT_RETURN_IF_ERROR(weft_dataset_in_string(c, at, "filename", &prefix));
  if (prefix.length == 0) return cache_in(c, at + 1, &p->cache);
  p->base.prefix = weft_strndup(prefix.data, prefix.length);
  if (p->base.prefix == NULL) return WEFT_NO_MEMORY("a cache");
  d->class = &weft_file_cache_class;
  return NULL;
}

/* Output 1 is TensorFlow's deleter: nothing here, since the handle holds what it names. */
static weft_status_t *make_cache(weft_kernel_ctx_t *c) {
  memory_cache_t *made = NULL;
  weft_tensor_t *handle = NULL, *deleter = NULL;
  WEFT_RETURN_IF_ERROR(cache_create(&made));
  weft_status_t *s = weft_state_handle(c->device, "", "AnonymousMemoryCache", &memory_cache_type,
                                       &made->object, WEFT_DTYPE_INVALID, &WEFT_UNKNOWN_SHAPE, &handle);
  weft_object_release(&made->object);
  if (s != NULL) return s;
  weft_out_set(c, 0, handle);
  WEFT_RETURN_IF_ERROR(weft_tensor_new(WEFT_VARIANT, &WEFT_SCALAR, NULL, &deleter));
  weft_out_set(c, 1, deleter);
  return NULL;
}

static weft_status_t *forget(weft_kernel_ctx_t *c) {
  (void)c;
  return NULL;
}

static const weft_dataset_op_t op = {
    .class = &class, .num_inputs = 1, .params_size = sizeof(cache_params_t), .make = make, .deinit = deinit};

const weft_kernel_t weft_cpu_dataset_cache_kernels[] = {
    {.op = "AnonymousMemoryCache", .compute = make_cache},
    WEFT_DATASET_ROW("CacheDataset", op),
    WEFT_DATASET_ROW("CacheDatasetV2", op),
    {.op = "DeleteMemoryCache", .compute = forget},
    {0},
};
