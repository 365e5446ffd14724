/* kernels/cpu/dataset/elements.c - elements in memory: lists of them, data sets of them, and both as saved
 * state. */
#include "kernels/cpu/dataset/elements.h"

#include <string.h>

#include "base/alloc.h"
#include "kernels/cpu/dataset/saved.h"

/* ---- elements in memory ---- */

weft_status_t *weft_element_list_reserve(weft_element_list_t *l, int n) {
  if (l->count < l->capacity) return NULL;
  const int64_t capacity = l->capacity == 0 ? 16 : 2 * l->capacity;
  weft_tensor_t **parts = weft_realloc(l->parts, (size_t)capacity, (size_t)n * sizeof *parts);
  if (parts == NULL) return WEFT_NO_MEMORY("a buffer of elements");
  l->parts = parts;
  l->capacity = capacity;
  return NULL;
}

weft_status_t *weft_element_list_add(weft_element_list_t *l, weft_tensor_t **element, int n) {
  WEFT_RETURN_IF_ERROR(weft_element_list_reserve(l, n));
  memcpy(l->parts + l->count++ * n, element, (size_t)n * sizeof *element);
  memset(element, 0, (size_t)n * sizeof *element);
  return NULL;
}

weft_status_t *weft_element_list_keep(weft_element_list_t *l, weft_tensor_t *const *element, int n) {
  WEFT_RETURN_IF_ERROR(weft_element_list_reserve(l, n));
  for (int i = 0; i < n; i++) l->parts[l->count * n + i] = weft_tensor_retain(element[i]);
  l->count++;
  return NULL;
}

void weft_element_list_drop(weft_element_list_t *l, int64_t count, int n) {
  if (count > l->count) count = l->count;
  for (int64_t i = 0; i < count; i++) weft_element_release(l->parts + i * n, n);
  l->count -= count;
  if (l->count > 0) memmove(l->parts, l->parts + count * n, (size_t)(l->count * n) * sizeof *l->parts);
}

void weft_element_list_deinit(weft_element_list_t *l, int n) {
  weft_element_list_drop(l, l->count, n);
  weft_free(l->parts);
  *l = (weft_element_list_t){0};
}

weft_status_t *weft_element_list_save(const weft_element_list_t *l, int n, weft_saved_t *to) {
  weft_saved_put_int(to, l->count);
  for (int64_t i = 0; i < l->count; i++)
    WEFT_RETURN_IF_ERROR(weft_saved_put_element(to, l->parts + i * n, n));
  return NULL;
}

weft_status_t *weft_element_list_load(weft_element_list_t *l, const weft_element_spec_t *spec,
                                      weft_saved_t *from) {
  int64_t count;
  weft_tensor_t **element = weft_calloc((size_t)spec->n, sizeof *element);
  if (element == NULL) return WEFT_NO_MEMORY("a buffer of elements");
  weft_element_list_drop(l, l->count, spec->n);
  weft_status_t *s = weft_saved_get_int_in(from, 0, INT64_MAX, &count);
  for (int64_t i = 0; s == NULL && i < count; i++) {
    s = weft_saved_get_element(from, spec, element);
    if (s == NULL) s = weft_element_list_add(l, element, spec->n);
    weft_element_release(element, spec->n);
  }
  weft_free(element);
  return s;
}

/* ---- a window as a data set ---- */

typedef struct memory_elements {
  weft_dataset_params_t base;
  int64_t count;
  int n;
  weft_tensor_t **parts; /* n for each element */
} memory_elements_t;

typedef struct memory_elements_iterator {
  weft_iterator_t base;
  int64_t at;
} memory_elements_iterator_t;

static void elements_deinit(void *params) {
  memory_elements_t *p = params;
  for (int64_t i = 0; p->parts != NULL && i < p->count * p->n; i++) weft_tensor_release(p->parts[i]);
  weft_free(p->parts);
}

static weft_status_t *elements_next(weft_iterator_t *it, weft_tensor_t **out, bool *is_end) {
  const memory_elements_t *p = (const memory_elements_t *)it->of->params;
  memory_elements_iterator_t *e = (memory_elements_iterator_t *)it;
  *is_end = e->at >= p->count;
  for (int i = 0; !*is_end && i < p->n; i++) out[i] = weft_tensor_retain(p->parts[e->at * p->n + i]);
  e->at++;
  return NULL;
}

static weft_status_t *elements_save(weft_iterator_t *it, weft_saved_t *to) {
  weft_saved_put_int(to, ((memory_elements_iterator_t *)it)->at);
  return NULL;
}

static weft_status_t *elements_load(weft_iterator_t *it, weft_saved_t *from) {
  return weft_saved_get_int_in(from, 0, INT64_MAX, &((memory_elements_iterator_t *)it)->at);
}

static int64_t elements_cardinality(const weft_dataset_t *d) {
  return ((const memory_elements_t *)d->params)->count;
}

static const weft_dataset_class_t elements_class = {.name = "Elements",
                                                    .iterator_size = sizeof(memory_elements_iterator_t),
                                                    .next = elements_next,
                                                    .save = elements_save,
                                                    .load = elements_load,
                                                    .cardinality = elements_cardinality};

weft_status_t *weft_elements_dataset(weft_device_t *device, weft_tensor_t *const *parts, int n, int64_t count,
                                     int64_t stride, int from, weft_element_spec_t *spec,
                                     weft_dataset_t **out) {
  memory_elements_t like = {.count = count, .n = spec->n};
  weft_dataset_params_t *params = NULL;
  WEFT_RETURN_IF_ERROR(weft_dataset_params_new(&like, sizeof like, elements_deinit, &params));
  memory_elements_t *p = (memory_elements_t *)params;
  p->parts = weft_calloc((size_t)count, (size_t)spec->n * sizeof *p->parts);
  weft_status_t *s = p->parts == NULL ? WEFT_NO_MEMORY("a window of elements") : NULL;
  for (int64_t i = 0; s == NULL && i < count; i++) {
    for (int k = 0; k < spec->n; k++)
      p->parts[i * spec->n + k] = weft_tensor_retain(parts[i * stride * n + from + k]);
  }
  const weft_dataset_t of = {.class = &elements_class, .params = params, .spec = spec, .device = device};
  if (s == NULL) s = weft_dataset_create(&of, NULL, 0, out);
  weft_object_release(&params->object);
  return s;
}

/* ---- elements as saved state ---- */

enum { MAX_DEPTH = 16 }; /* of data sets in elements */

static const memory_elements_t *elements_in(const weft_tensor_t *t, const weft_dataset_t **out) {
  weft_dataset_t *d = NULL;
  if (t->dtype != WEFT_VARIANT || t->shape.rank != 0) return NULL;
  weft_status_t *s = weft_dataset_of(t, &d);
  weft_status_free(s);
  if (s != NULL || d->class != &elements_class) return NULL;
  *out = d;
  return (const memory_elements_t *)d->params;
}

/* A data set of elements: 1, its spec, its elements. Any other tensor: 0 and itself. */
static weft_status_t *put_part(weft_saved_t *s, const weft_tensor_t *t) {
  const weft_dataset_t *d = NULL;
  const memory_elements_t *e = elements_in(t, &d);
  weft_saved_put_int(s, e != NULL);
  if (e == NULL) return weft_saved_put_tensor(s, t);
  weft_saved_put_int(s, e->n);
  for (int i = 0; i < e->n; i++) {
    weft_saved_put_int(s, (int64_t)d->spec->dtypes[i]);
    weft_saved_put_int(s, d->spec->shapes[i].rank);
    for (int k = 0; k < d->spec->shapes[i].rank; k++) weft_saved_put_int(s, d->spec->shapes[i].dims[k]);
  }
  weft_saved_put_int(s, e->count);
  for (int64_t i = 0; i < e->count; i++)
    WEFT_RETURN_IF_ERROR(weft_saved_put_element(s, e->parts + i * e->n, e->n));
  return NULL;
}

weft_status_t *weft_saved_put_element(weft_saved_t *s, weft_tensor_t *const *parts, int n) {
  for (int i = 0; i < n; i++) WEFT_RETURN_IF_ERROR(put_part(s, parts[i]));
  return NULL;
}

static weft_status_t *get_spec(weft_saved_t *s, weft_element_spec_t **out) {
  int64_t n, v;
  WEFT_RETURN_IF_ERROR(weft_saved_get_int_in(s, 1, (int64_t)s->rest.length, &n));
  WEFT_RETURN_IF_ERROR(weft_element_spec_create((int)n, out));
  for (int i = 0; i < n; i++) {
    WEFT_RETURN_IF_ERROR(weft_saved_get_int_in(s, 1, WEFT_REF, &v));
    if (!weft_dtype_is_valid((int)v)) return weft_saved_broken("no such type");
    (*out)->dtypes[i] = (weft_dtype_t)v;
    WEFT_RETURN_IF_ERROR(weft_saved_get_int_in(s, -1, WEFT_MAX_DIMS, &v));
    (*out)->shapes[i].rank = (int)v;
    for (int k = 0; k < (*out)->shapes[i].rank; k++)
      WEFT_RETURN_IF_ERROR(weft_saved_get_int_in(s, -1, INT64_MAX, &(*out)->shapes[i].dims[k]));
  }
  return NULL;
}

static weft_status_t *get_dataset(weft_saved_t *s, weft_tensor_t **out) {
  weft_element_spec_t *spec = NULL;
  weft_element_list_t l = {0};
  weft_dataset_t *d = NULL;
  if (s->depth >= MAX_DEPTH) return weft_saved_broken("data sets in data sets");
  s->depth++;
  weft_status_t *status = get_spec(s, &spec);
  if (status == NULL) status = weft_element_list_load(&l, spec, s);
  if (status == NULL) status = weft_elements_dataset(s->device, l.parts, spec->n, l.count, 1, 0, spec, &d);
  if (status == NULL) status = weft_dataset_tensor(d, out);
  if (spec != NULL) weft_element_list_deinit(&l, spec->n);
  weft_element_spec_release(spec);
  s->depth--;
  return status;
}

weft_status_t *weft_saved_get_element(weft_saved_t *s, const weft_element_spec_t *spec,
                                      weft_tensor_t **parts) {
  weft_status_t *status = NULL;
  memset(parts, 0, (size_t)spec->n * sizeof *parts);
  for (int i = 0; status == NULL && i < spec->n; i++) {
    int64_t is_dataset = 0;
    status = weft_saved_get_int_in(s, 0, 1, &is_dataset);
    if (status == NULL)
      status = is_dataset != 0 ? get_dataset(s, &parts[i]) : weft_saved_get_tensor(s, &parts[i]);
    if (status == NULL && parts[i]->dtype != spec->dtypes[i])
      status = weft_saved_broken("an element is of another type");
  }
  if (status != NULL) weft_element_release(parts, spec->n);
  return status;
}
