/* kernels/cpu/dataset/iterator_ops.c - iterators as resources: made, initialised, asked for elements, named
 * by strings. iterator_state.c saves them.
 *
 * The resource holds the pass that goes on now. Initialising it again begins another one; requests of the old
 * one that wait end with CANCELLED.
 */
#include "kernels/cpu/dataset/iterator_ops.h"

#include "base/alloc.h"
#include "base/mutex.h"
#include "kernels/attrs.h"
#include "kernels/cpu/dataset/options.h"
#include "resources/optional.h"
#include "tensor/shape_proto.h"

struct weft_iterator_resource {
  weft_object_t object;
  weft_element_spec_t *spec; /* NULL: any */
  weft_mutex_t mu;
  weft_traversal_t *traversal; /* guarded by mu; NULL: not initialised */
  bool is_abandoned;           /* likewise */
  weft_waits_t waits;          /* likewise; of the passes before */
};

/* ---- the resource ---- */

static void set(weft_iterator_resource_t *r, weft_traversal_t *n) {
  weft_mutex_lock(&r->mu);
  weft_traversal_t *old = r->traversal;
  const bool is_abandoned = r->is_abandoned;
  r->traversal = is_abandoned ? NULL : n;
  if (old != NULL) weft_traversal_add_waits(old, &r->waits);
  weft_mutex_unlock(&r->mu);
  if (old != NULL) weft_traversal_close(old);
  weft_traversal_release(old);
  if (is_abandoned) weft_traversal_release(n);
}

static void abandon(weft_object_t *o) {
  weft_iterator_resource_t *r = (weft_iterator_resource_t *)o;
  weft_mutex_lock(&r->mu);
  r->is_abandoned = true;
  weft_mutex_unlock(&r->mu);
  set(r, NULL);
}

const weft_resource_type_t weft_iterator_resource_type = {
    .name = "N10tensorflow4data16IteratorResourceE", .text = "Iterator", .abandon = abandon};

static void destroy(weft_object_t *o) {
  weft_iterator_resource_t *r = (weft_iterator_resource_t *)o;
  if (r->traversal != NULL) weft_traversal_close(r->traversal);
  weft_traversal_release(r->traversal);
  weft_element_spec_release(r->spec);
  weft_mutex_deinit(&r->mu);
  weft_free(r);
}

weft_status_t *weft_iterator_resource_create(weft_element_spec_t *spec, weft_iterator_resource_t **out) {
  weft_iterator_resource_t *r = weft_calloc(1, sizeof *r);
  if (r == NULL) return WEFT_NO_MEMORY("an iterator");
  atomic_init(&r->object.refs, 1);
  r->object.destroy = destroy;
  r->spec = spec != NULL ? weft_element_spec_retain(spec) : NULL;
  weft_mutex_init(&r->mu);
  *out = r;
  return NULL;
}

weft_status_t *weft_iterator_resource_begin(weft_iterator_resource_t *r, const weft_tensor_t *dataset,
                                            weft_device_t *device) {
  weft_dataset_t *d = NULL;
  weft_traversal_t *n = NULL;
  WEFT_RETURN_IF_ERROR(weft_dataset_of(dataset, &d));
  if (r->spec != NULL) WEFT_RETURN_IF_ERROR(weft_element_spec_check(r->spec, d->spec));
  WEFT_RETURN_IF_ERROR(weft_traversal_create(d, device, NULL, &n));
  weft_options_apply(d, n);
  set(r, n);
  return NULL;
}

weft_status_t *weft_iterator_resource_traversal(weft_iterator_resource_t *r, weft_traversal_t **out) {
  weft_mutex_lock(&r->mu);
  *out = r->traversal != NULL ? weft_traversal_retain(r->traversal) : NULL;
  weft_mutex_unlock(&r->mu);
  if (*out != NULL) return NULL;
  return WEFT_ERROR(
      FAILED_PRECONDITION,
      "GetNext() failed because the iterator has not been initialized. Ensure that you have run the "
      "initializer operation for this iterator before getting the next element.");
}

weft_status_t *weft_iterator_resource_renew(weft_iterator_resource_t *r, weft_device_t *device,
                                            weft_traversal_t **out) {
  weft_traversal_t *old = NULL;
  WEFT_RETURN_IF_ERROR(weft_iterator_resource_traversal(r, &old));
  weft_status_t *s = weft_traversal_create(old->dataset, device, NULL, out);
  weft_traversal_release(old);
  if (s != NULL) return s;
  weft_options_apply((*out)->dataset, *out);
  set(r, weft_traversal_retain(*out));
  return NULL;
}

void weft_iterator_resource_waits(weft_iterator_resource_t *r, weft_waits_t *out) {
  weft_mutex_lock(&r->mu);
  *out = r->waits;
  if (r->traversal != NULL) weft_traversal_add_waits(r->traversal, out);
  weft_mutex_unlock(&r->mu);
}

weft_status_t *weft_iterator_in(weft_kernel_ctx_t *c, int i, weft_iterator_resource_t **out) {
  weft_object_t *o = NULL;
  WEFT_RETURN_IF_ERROR(weft_state_in(c, i, &weft_iterator_resource_type, &o));
  *out = (weft_iterator_resource_t *)o;
  return NULL;
}

/* ---- making ---- */

weft_status_t *weft_iterator_spec_read(const weft_kernel_setup_t *setup, weft_element_spec_t **out) {
  const weft_attr_t *types = weft_knode_attr(setup, "output_types");
  const weft_attr_t *shapes = weft_knode_attr(setup, "output_shapes");
  *out = NULL;
  if (types == NULL || shapes == NULL || types->n == 0) return NULL;
  if (types->n != shapes->n)
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "output_types and output_shapes must be the same length, got: %d and %d", types->n,
                      shapes->n);
  WEFT_RETURN_IF_ERROR(weft_element_spec_create(types->n, out));
  for (int i = 0; i < types->n; i++) {
    (*out)->dtypes[i] = weft_dtype_base(types->list.types[i]);
    (*out)->shapes[i] = shapes->list.shapes[i];
  }
  return NULL;
}

typedef struct config {
  weft_element_spec_t *spec;
} config_t;

static weft_status_t *config_read(const weft_kernel_setup_t *setup, void *config) {
  return weft_iterator_spec_read(setup, &((config_t *)config)->spec);
}

static weft_status_t *config_create(weft_kernel_ctx_t *c, const char *name, const void *config,
                                    weft_object_t **out) {
  (void)c, (void)name;
  return weft_iterator_resource_create(((const config_t *)config)->spec, (weft_iterator_resource_t **)out);
}

static weft_status_t *config_check(const char *name, const void *config, weft_object_t *o) {
  const weft_iterator_resource_t *r = (const weft_iterator_resource_t *)o;
  const weft_element_spec_t *mine = ((const config_t *)config)->spec;
  (void)name;
  return r->spec == NULL || mine == NULL ? NULL : weft_element_spec_check(mine, r->spec);
}

static void config_deinit(void *config) { weft_element_spec_release(((config_t *)config)->spec); }

static const weft_state_maker_t maker = {.type = &weft_iterator_resource_type,
                                         .config_size = sizeof(config_t),
                                         .read = config_read,
                                         .create = config_create,
                                         .check = config_check,
                                         .deinit = config_deinit};

/* An iterator without a name, which lives as long as handles to it. A second output is TensorFlow's deleter.
 */
static weft_status_t *anonymous_prepare(const weft_kernel_setup_t *setup, void **out_state) {
  weft_element_spec_t *spec = NULL;
  WEFT_RETURN_IF_ERROR(weft_iterator_spec_read(setup, &spec));
  *out_state = spec;
  return NULL;
}

static void anonymous_destroy(void *state) { weft_element_spec_release(state); }

static weft_status_t *anonymous_compute(weft_kernel_ctx_t *c) {
  weft_iterator_resource_t *r = NULL;
  weft_tensor_t *t = NULL;
  WEFT_RETURN_IF_ERROR(weft_iterator_resource_create(c->state, &r));
  weft_status_t *s =
      weft_state_handle(c->device, "AnonymousIterator", "AnonymousIterator", &weft_iterator_resource_type,
                        &r->object, WEFT_DTYPE_INVALID, &WEFT_UNKNOWN_SHAPE, &t);
  weft_object_release(&r->object);
  if (s != NULL) return s;
  weft_out_set(c, 0, t);
  if (c->node->num_outputs < 2) return NULL;
  WEFT_RETURN_IF_ERROR(weft_tensor_new(WEFT_VARIANT, &WEFT_SCALAR, NULL, &t));
  weft_out_set(c, 1, t);
  return NULL;
}

static weft_status_t *delete (weft_kernel_ctx_t *c) {
  weft_iterator_resource_t *r = NULL;
  WEFT_RETURN_IF_ERROR(weft_iterator_in(c, 0, &r));
  abandon(&r->object);
  weft_object_release(&r->object);
  return NULL;
}

static weft_status_t *make_compute(weft_kernel_ctx_t *c) {
  weft_iterator_resource_t *r = NULL;
  WEFT_RETURN_IF_ERROR(weft_iterator_in(c, 1, &r));
  weft_status_t *s = weft_iterator_resource_begin(r, weft_in(c, 0), c->device);
  weft_object_release(&r->object);
  return s;
}

/* ---- elements ---- */

WEFT_ATTRS_STRUCT(get, (SHAPES, output_shapes))

static weft_status_t *check_part(const weft_kernel_ctx_t *c, const weft_attr_t *shapes,
                                 const weft_tensor_t *t, int i) {
  const weft_dtype_t wanted = weft_dtype_base(c->node->output_types[i]);
  if (t->dtype != wanted) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Data type mismatch at component %d: expected %s but got %s.", i,
                      weft_dtype_name(wanted), weft_dtype_name(t->dtype));
  }
  if (i >= shapes->n || weft_shape_compatible(&shapes->list.shapes[i], &t->shape)) return NULL;
  return WEFT_ERROR(INVALID_ARGUMENT, "Incompatible shapes at component %d: expected %s but got %s.", i,
                    WEFT_SHAPE_TEXT(&shapes->list.shapes[i]), WEFT_SHAPE_TEXT(&t->shape));
}

weft_status_t *weft_iterator_outputs(weft_kernel_ctx_t *c, const weft_attr_t *shapes, int num_parts,
                                     weft_tensor_t **parts) {
  if (num_parts != c->node->num_outputs) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Number of components does not match: expected %d types but got %d.",
                      c->node->num_outputs, num_parts);
  }
  for (int i = 0; i < num_parts; i++) WEFT_RETURN_IF_ERROR(check_part(c, shapes, parts[i], i));
  for (int i = 0; i < num_parts; i++) {
    weft_out_set(c, i, parts[i]);
    parts[i] = NULL;
  }
  return NULL;
}

/* A request under way: the traversal lives until it has ended. */
typedef struct get {
  weft_kernel_ctx_t *c;
  weft_traversal_t *traversal;
  weft_status_t *(*deliver)(weft_kernel_ctx_t *c, int num_parts, weft_tensor_t **parts, bool is_end);
} get_t;

static void got(void *arg, weft_status_t *s, weft_tensor_t **parts, bool is_end) {
  get_t *g = arg;
  weft_kernel_ctx_t *c = g->c;
  if (s == NULL) s = g->deliver(c, g->traversal->dataset->spec->n, parts, is_end);
  weft_traversal_release(g->traversal);
  weft_free(g);
  c->done(c, s);
}

static void get_next(weft_kernel_ctx_t *c, weft_status_t *(*deliver)(weft_kernel_ctx_t *c, int num_parts,
                                                                     weft_tensor_t **parts, bool is_end)) {
  weft_iterator_resource_t *r = NULL;
  weft_traversal_t *n = NULL;
  weft_status_t *s = weft_iterator_in(c, 0, &r);
  if (s == NULL) s = weft_iterator_resource_traversal(r, &n);
  if (r != NULL) weft_object_release(&r->object);
  get_t *g = s == NULL ? weft_malloc(sizeof *g) : NULL;
  if (g == NULL) {
    weft_traversal_release(n);
    c->done(c, s != NULL ? s : WEFT_NO_MEMORY("a request for an element"));
    return;
  }
  *g = (get_t){c, n, deliver};
  const weft_traversal_request_t request = {.canceller = c->step->canceller, .done = got, .arg = g};
  weft_traversal_next(n, &request);
}

static weft_status_t *deliver_parts(weft_kernel_ctx_t *c, int num_parts, weft_tensor_t **parts, bool is_end) {
  return is_end ? WEFT_ERROR(OUT_OF_RANGE, "End of sequence")
                : weft_iterator_outputs(c, ((const get_attrs_t *)c->state)->output_shapes, num_parts, parts);
}

static weft_status_t *deliver_optional(weft_kernel_ctx_t *c, int num_parts, weft_tensor_t **parts,
                                       bool is_end) {
  weft_optional_t *o = NULL;
  weft_tensor_t *t = NULL;
  WEFT_RETURN_IF_ERROR(weft_optional_create(is_end ? 0 : num_parts, &o));
  for (int i = 0; i < o->count; i++) {
    o->items[i] = parts[i];
    parts[i] = NULL;
  }
  weft_status_t *s = weft_tensor_new(WEFT_VARIANT, &WEFT_SCALAR, NULL, &t);
  if (s != NULL) {
    weft_variant_release(&o->variant);
    return s;
  }
  *(weft_variant_t **)t->data = &o->variant;
  weft_out_set(c, 0, t);
  return NULL;
}

WEFT_ATTRS_OF_ASYNC(get_compute, get)
static void get_compute(weft_kernel_ctx_t *c, const get_attrs_t *attrs) {
  (void)attrs;
  get_next(c, deliver_parts);
}

static void get_optional(weft_kernel_ctx_t *c) { get_next(c, deliver_optional); }

/* The end of data that several iterators share: those that have ended give batches without rows. */
static weft_status_t *end_of_data(weft_kernel_ctx_t *c) {
  const weft_tensor_t *rows = weft_in(c, 0);
  const int64_t *counts = rows->data;
  bool any = false;
  for (int64_t i = 0; i < rows->count; i++) any = any || counts[i] > 0;
  if (!any) return WEFT_ERROR(OUT_OF_RANGE, "End of sequence");
  weft_out_set(c, 0, weft_tensor_retain(weft_in(c, 0)));
  return NULL;
}

/* ---- names ---- */

weft_status_t *weft_iterator_to_string(weft_kernel_ctx_t *c) {
  const weft_handle_t *h = NULL;
  weft_tensor_t *t = NULL;
  weft_strbuf_t text = WEFT_STRBUF_INIT;
  WEFT_RETURN_IF_ERROR(weft_state_in_handle(c, 0, &h));
  weft_handle_to_proto(h, &text);
  weft_status_t *s = text.failed ? WEFT_NO_MEMORY("the name of an iterator")
                                 : weft_tensor_string(weft_str_of(text.data, text.length), &t);
  weft_strbuf_deinit(&text);
  if (s == NULL) weft_out_set(c, 0, t);
  return s;
}

static weft_status_t *find_named(weft_kernel_ctx_t *c, const weft_handle_t *h,
                                 const weft_resource_type_t *type, weft_object_t **out) {
  if (!weft_str_eq(h->device, c->device->name)) {
    return WEFT_ERROR(
        INVALID_ARGUMENT,
        "Attempted create an iterator on device \"%.*s\" from handle defined on device \"%.*s\"",
        WEFT_STR_ARGS(c->device->name), WEFT_STR_ARGS(h->device));
  }
  return weft_resource_lookup(c->device->resources, h->container, h->name, type, out);
}

weft_status_t *weft_iterator_from_string(weft_kernel_ctx_t *c, const weft_resource_type_t *type,
                                         weft_object_t **out) {
  weft_str_t text;
  weft_handle_t *h = NULL;
  weft_object_t *o = NULL;
  weft_tensor_t *t = NULL;
  WEFT_RETURN_IF_ERROR(weft_dataset_in_string(c, 0, "string_handle", &text));
  weft_status_t *s = weft_handle_from_proto(text, &h);
  if (s != NULL) {
    weft_status_free(s);
    return WEFT_ERROR(INVALID_ARGUMENT, "string_handle could not be parsed as a ResourceHandle");
  }
  s = find_named(c, h, type, &o);
  if (s == NULL) s = weft_tensor_new(WEFT_RESOURCE, &WEFT_SCALAR, NULL, &t);
  if (s != NULL) {
    weft_handle_release(h);
    weft_object_release(o);
    return s;
  }
  *(weft_handle_t **)t->data = h;
  weft_out_set(c, 0, t);
  *out = o;
  return NULL;
}

static weft_status_t *to_string(weft_kernel_ctx_t *c) {
  weft_iterator_resource_t *r = NULL;
  WEFT_RETURN_IF_ERROR(weft_iterator_in(c, 0, &r));
  weft_object_release(&r->object);
  return weft_iterator_to_string(c);
}

static weft_status_t *from_string(weft_kernel_ctx_t *c) {
  const weft_element_spec_t *spec = c->state;
  weft_object_t *o = NULL;
  WEFT_RETURN_IF_ERROR(weft_iterator_from_string(c, &weft_iterator_resource_type, &o));
  const weft_iterator_resource_t *r = (const weft_iterator_resource_t *)o;
  weft_status_t *s = spec != NULL && r->spec != NULL ? weft_element_spec_check(spec, r->spec) : NULL;
  weft_object_release(o);
  return s;
}

static weft_status_t *get_device(weft_kernel_ctx_t *c) {
  weft_tensor_t *t = NULL;
  WEFT_RETURN_IF_ERROR(weft_tensor_string(c->device->name, &t));
  weft_out_set(c, 0, t);
  return NULL;
}

#define ANONYMOUS .prepare = anonymous_prepare, .compute = anonymous_compute, .destroy = anonymous_destroy

const weft_kernel_t weft_cpu_dataset_iterator_kernels[] = {
    {.op = "AnonymousIterator", ANONYMOUS},
    {.op = "AnonymousIteratorV2", ANONYMOUS},
    {.op = "AnonymousIteratorV3", ANONYMOUS},
    {.op = "DeleteIterator", .compute = delete},
    {.op = "ExperimentalIteratorGetDevice", .compute = get_device},
    {.op = "Iterator", WEFT_STATE_MAKER, .param = &maker},
    {.op = "IteratorFromStringHandle",
     .prepare = anonymous_prepare,
     .compute = from_string,
     .destroy = anonymous_destroy},
    {.op = "IteratorFromStringHandleV2",
     .prepare = anonymous_prepare,
     .compute = from_string,
     .destroy = anonymous_destroy},
    {.op = "IteratorGetDevice", .compute = get_device},
    {.op = "IteratorGetNext", WEFT_COMPUTE_ASYNC(get_compute)},
    {.op = "IteratorGetNextAsOptional", .compute_async = get_optional},
    {.op = "IteratorGetNextSync", WEFT_COMPUTE_ASYNC(get_compute)},
    {.op = "IteratorToStringHandle", .compute = to_string},
    {.op = "IteratorV2", WEFT_STATE_MAKER, .param = &maker},
    {.op = "MakeIterator", .compute = make_compute},
    {.op = "WeftEndOfData", .compute = end_of_data},
    {0},
};
