/* kernels/state.c - names, handles and look-ups for kernels of resources. */
#include "kernels/state.h"

#include <ctype.h>
#include <inttypes.h>
#include <stddef.h>

#include "base/alloc.h"

/* ---- names ---- */

/* A container's name: a letter, digit or dot first, then also - and / */
static bool container_is_valid(weft_str_t s) {
  for (size_t i = 0; i < s.length; i++) {
    char c = s.data[i];
    bool ok = isalnum((unsigned char)c) || c == '.' || (i > 0 && (c == '-' || c == '/'));
    if (!ok) return false;
  }
  return true;
}

static weft_str_t text_attr(const weft_kernel_setup_t *setup, const char *name) {
  const weft_attr_t *a = weft_knode_attr(setup, name);
  return a == NULL ? WEFT_STR("") : a->s;
}

/* Copies both names; without a name it gets a private one, unless `node_name_is_default`. */
static weft_status_t *set_names(weft_state_name_t *n, const weft_kernel_setup_t *setup, weft_str_t container,
                                weft_str_t name, bool node_name_is_default) {
  weft_strbuf_t made = WEFT_STRBUF_INIT;
  *n = (weft_state_name_t){0};
  if (name.length == 0 && node_name_is_default) name = setup->node.name;
  if (name.length == 0) {
    weft_resource_private_name(setup->node.device->resources, setup->node.name, &made);
    n->is_private = true;
    name = weft_str_of(made.data, made.length);
  }
  container = weft_resource_container(setup->node.device->resources, container);
  n->container = weft_strndup(container.data, container.length);
  n->name = made.failed ? NULL : weft_strndup(name.data, name.length);
  weft_strbuf_deinit(&made);
  if (n->container == NULL || n->name == NULL) {
    weft_state_name_deinit(n);
    return WEFT_NO_MEMORY("naming the resource of %.*s", WEFT_STR_ARGS(setup->node.name));
  }
  return NULL;
}

weft_status_t *weft_state_name_init(weft_state_name_t *n, const weft_kernel_setup_t *setup,
                                    bool node_name_is_default) {
  weft_str_t container = text_attr(setup, "container"), name = text_attr(setup, "shared_name");
  if (!container_is_valid(container)) {
    return WEFT_ERROR(INVALID_ARGUMENT, "container contains invalid characters: %.*s",
                      WEFT_STR_ARGS(container));
  }
  if (name.length > 0 && name.data[0] == '_') {
    return WEFT_ERROR(INVALID_ARGUMENT, "shared_name cannot start with '_':%.*s", WEFT_STR_ARGS(name));
  }
  return set_names(n, setup, container, name, node_name_is_default);
}

weft_status_t *weft_state_name_of_handle(weft_state_name_t *n, const weft_kernel_setup_t *setup) {
  return set_names(n, setup, text_attr(setup, "container"), text_attr(setup, "shared_name"), true);
}

void weft_state_name_deinit(weft_state_name_t *n) {
  weft_free(n->container);
  weft_free(n->name);
  *n = (weft_state_name_t){0};
}

/* ---- handles ---- */

weft_status_t *weft_state_handle(const weft_device_t *d, const char *container, const char *name,
                                 const weft_resource_type_t *type, weft_object_t *o, weft_dtype_t dtype,
                                 const weft_shape_t *shape, weft_tensor_t **out) {
  weft_tensor_t *t = NULL;
  WEFT_RETURN_IF_ERROR(weft_tensor_new(WEFT_RESOURCE, &WEFT_SCALAR, NULL, &t));
  weft_str_t type_name = weft_str(type->name);
  weft_handle_t *h = weft_handle_create(d->name, weft_str(container), weft_str(name), type_name,
                                        weft_str_hash64(type_name), o);
  if (h == NULL) {
    weft_tensor_release(t);
    return WEFT_NO_MEMORY("making a handle to %s", name);
  }
  h->dtype = dtype;
  h->shape = shape == NULL ? WEFT_UNKNOWN_SHAPE : *shape;
  ((weft_handle_t **)t->data)[0] = h;
  *out = t;
  return NULL;
}

static weft_status_t *any_handle(weft_kernel_ctx_t *c, int i, const weft_handle_t **out) {
  const weft_tensor_t *t = weft_in(c, i);
  *out = t->dtype == WEFT_RESOURCE && t->count == 1 ? ((weft_handle_t *const *)t->data)[0] : NULL;
  if (*out != NULL) return NULL;
  return WEFT_ERROR(INVALID_ARGUMENT, "input %d is not a handle to a resource: %s of shape %s", i,
                    weft_dtype_name(t->dtype), WEFT_SHAPE_TEXT(&t->shape));
}

weft_status_t *weft_state_in_handle(weft_kernel_ctx_t *c, int i, const weft_handle_t **out) {
  const weft_handle_t *h = NULL;
  WEFT_RETURN_IF_ERROR(any_handle(c, i, &h));
  if (!weft_str_eq(h->device, c->device->name)) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "Trying to access resource %.*s located in device %.*s from device %.*s",
                      WEFT_STR_ARGS(h->name), WEFT_STR_ARGS(h->device), WEFT_STR_ARGS(c->device->name));
  }
  *out = h;
  return NULL;
}

/* "N10tensorflow3VarE" -> "tensorflow::Var"; anything else as it is. */
static void print_type(weft_str_t mangled, weft_strbuf_t *out) {
  size_t at = 1;
  bool is_nested = mangled.length > 2 && mangled.data[0] == 'N' && mangled.data[mangled.length - 1] == 'E';
  while (is_nested && at < mangled.length - 1) {
    size_t n = 0, digits = 0;
    while (at < mangled.length && isdigit((unsigned char)mangled.data[at]) && digits++ < 4)
      n = n * 10 + (size_t)(mangled.data[at++] - '0');
    if (n == 0 || n > mangled.length - 1 - at) break;
    if (out->length > 0) weft_strbuf_puts(out, "::");
    weft_strbuf_append(out, weft_str_of(mangled.data + at, n));
    at += n;
  }
  if (out->length == 0) weft_strbuf_append(out, mangled);
}

weft_status_t *weft_state_wrong_type(const weft_handle_t *h, const weft_resource_type_t *type) {
  weft_strbuf_t has = WEFT_STRBUF_INIT, wants = WEFT_STRBUF_INIT;
  print_type(h->type_name, &has);
  print_type(weft_str(type->name), &wants);
  weft_status_t *s =
      WEFT_ERROR(INVALID_ARGUMENT,
                 "Trying to access a handle's resource using the wrong type. The handle points to a resource "
                 "(name '%.*s') of "
                 "type '%s' (hash code %" PRIu64
                 ") but you are trying to access the resource as type '%s' (hash code %" PRIu64 ")",
                 WEFT_STR_ARGS(h->name), has.data == NULL ? "" : has.data, h->hash_code,
                 wants.data == NULL ? "" : wants.data, weft_str_hash64(weft_str(type->name)));
  weft_strbuf_deinit(&has);
  weft_strbuf_deinit(&wants);
  return s;
}

/* A reference edge to the two strings that name an old-style queue, accumulator or barrier. */
static weft_status_t *in_reference(weft_kernel_ctx_t *c, int i, const weft_resource_type_t *type,
                                   weft_object_t **out) {
  weft_tensor_t *t = weft_variable_read(c->inputs[i].ref);
  weft_status_t *s = NULL;
  if (t == NULL || t->dtype != WEFT_STRING || t->count != 2) {
    s = WEFT_ERROR(INVALID_ARGUMENT, "Resource handle must have 2 elements, but had shape: %s",
                   t == NULL ? "<unknown>" : WEFT_SHAPE_TEXT(&t->shape));
  } else {
    s = weft_resource_lookup(c->device->resources, weft_tensor_str_at(t, 0), weft_tensor_str_at(t, 1), type,
                             out);
  }
  weft_tensor_release(t);
  return s;
}

weft_status_t *weft_state_in(weft_kernel_ctx_t *c, int i, const weft_resource_type_t *type,
                             weft_object_t **out) {
  if (c->inputs[i].ref != NULL) return in_reference(c, i, type, out);
  const weft_handle_t *h = NULL;
  if (weft_in(c, i)->dtype == WEFT_STRING &&
      weft_in(c, i)->count == 2) { /* a reference that was read on the way */
    return weft_resource_lookup(c->device->resources, weft_tensor_str_at(weft_in(c, i), 0),
                                weft_tensor_str_at(weft_in(c, i), 1), type, out);
  }
  WEFT_RETURN_IF_ERROR(weft_state_in_handle(c, i, &h));
  if (!weft_str_is(h->type_name, type->name)) return weft_state_wrong_type(h, type);
  if (h->object != NULL) {
    *out = weft_object_retain(h->object);
    return NULL;
  }
  return weft_resource_lookup(c->device->resources, h->container, h->name, type, out);
}

weft_status_t *weft_state_in_if_there(weft_kernel_ctx_t *c, int i, const weft_resource_type_t *type,
                                      weft_object_t **out) {
  const weft_handle_t *h = NULL;
  *out = NULL;
  WEFT_RETURN_IF_ERROR(any_handle(c, i, &h));
  if (h->object == NULL) {
    weft_status_t *s = weft_resource_lookup(c->device->resources, h->container, h->name, type, out);
    if (weft_status_code(s) != WEFT_NOT_FOUND) return s;
    weft_status_free(s);
    return NULL;
  }
  if (!weft_str_is(h->type_name, type->name)) return weft_state_wrong_type(h, type);
  *out = weft_object_retain(h->object);
  return NULL;
}

/* ---- variables ---- */

weft_status_t *weft_state_no_variable(const weft_kernel_ctx_t *c, const weft_handle_t *h) {
  return weft_resource_missing(c->device->resources, h->container, h->name,
                               weft_str(weft_variable_type.name));
}

typedef struct new_variable {
  const weft_handle_t *handle;
  weft_memory_accounts_t *accounts;
} new_variable_t;

static weft_status_t *new_variable(void *arg, weft_object_t **out) {
  const new_variable_t *wanted = arg;
  const weft_handle_t *h = wanted->handle;
  weft_variable_t *v = NULL;
  WEFT_RETURN_IF_ERROR(weft_variable_create(h->name, h->dtype, &h->shape, &v));
  weft_variable_count(v, wanted->accounts, WEFT_MEMORY_PARAM);
  *out = &v->object;
  return NULL;
}

/* The variable of a handle, with a value or without; a handle may have outlived its variable. */
static weft_status_t *find_variable(weft_kernel_ctx_t *c, const weft_handle_t *h, bool may_create,
                                    weft_variable_t **out) {
  weft_object_t *o = NULL;
  if (!weft_str_is(h->type_name, weft_variable_type.name))
    return weft_state_wrong_type(h, &weft_variable_type);
  if (h->object != NULL && !weft_variable_is_gone((weft_variable_t *)h->object)) {
    o = weft_object_retain(h->object);
  } else if (may_create) {
    new_variable_t wanted = {h, c->device->memory};
    WEFT_RETURN_IF_ERROR(weft_resource_lookup_or_create(c->device->resources, h->container, h->name,
                                                        &weft_variable_type, new_variable, &wanted, &o));
  } else {
    WEFT_RETURN_IF_ERROR(
        weft_resource_lookup(c->device->resources, h->container, h->name, &weft_variable_type, &o));
  }
  *out = (weft_variable_t *)o;
  return NULL;
}

weft_status_t *weft_state_in_any_variable(weft_kernel_ctx_t *c, int i, weft_variable_t **out) {
  const weft_handle_t *h = NULL;
  if (c->inputs[i].ref != NULL) {
    *out = (weft_variable_t *)weft_object_retain(&c->inputs[i].ref->object);
    return NULL;
  }
  WEFT_RETURN_IF_ERROR(weft_state_in_handle(c, i, &h));
  return find_variable(c, h, false, out);
}

weft_status_t *weft_state_in_variable(weft_kernel_ctx_t *c, int i, weft_variable_t **out) {
  weft_variable_t *v = NULL;
  WEFT_RETURN_IF_ERROR(weft_state_in_any_variable(c, i, &v));
  weft_mutex_lock(&v->mu);
  bool has_value = v->value != NULL;
  weft_mutex_unlock(&v->mu);
  if (!has_value) {
    weft_status_t *s = c->inputs[i].ref != NULL
                           ? weft_variable_uninitialized(v)
                           : weft_state_no_variable(c, ((weft_handle_t *const *)weft_in(c, i)->data)[0]);
    weft_object_release(&v->object);
    return s;
  }
  *out = v;
  return NULL;
}

weft_status_t *weft_state_in_new_variable(weft_kernel_ctx_t *c, int i, weft_variable_t **out) {
  if (c->inputs[i].ref != NULL) {
    *out = (weft_variable_t *)weft_object_retain(&c->inputs[i].ref->object);
    return NULL;
  }
  const weft_handle_t *h = NULL;
  WEFT_RETURN_IF_ERROR(weft_state_in_handle(c, i, &h));
  return find_variable(c, h, true, out);
}

/* ---- calls ---- */

static void end_call(void *arg, weft_status_t *status) {
  weft_kernel_ctx_t *c = arg;
  c->done(c, status);
}

weft_resource_call_t weft_state_call(weft_kernel_ctx_t *c) {
  return (weft_resource_call_t){.canceller = c->step == NULL ? NULL : c->step->canceller,
                                .allocator = weft_out_allocator(c, c->queue != NULL),
                                .outputs = c->outputs,
                                .done = end_call,
                                .arg = c};
}

/* ---- a node's own resource ---- */

typedef struct state_owner {
  const weft_state_maker_t *maker;
  weft_state_name_t name;
  weft_resource_manager_t *resources; /* borrowed */
  weft_mutex_t mu;
  weft_object_t *object; /* guarded by mu, with what follows; NULL before the first run */
  weft_tensor_t *handle; /* of a resource output */
  weft_variable_t *ref;  /* of a reference output: the strings (container, name) */
  max_align_t config[];
} state_owner_t;

weft_status_t *weft_state_maker_prepare(const weft_kernel_setup_t *setup, void **out_state) {
  const weft_state_maker_t *maker = setup->node.param;
  state_owner_t *w = weft_calloc(1, sizeof *w + maker->config_size);
  if (w == NULL) return WEFT_NO_MEMORY("preparing %.*s", WEFT_STR_ARGS(setup->node.name));
  w->maker = maker;
  w->resources = setup->node.device->resources;
  weft_mutex_init(&w->mu);
  weft_status_t *s = maker->read(setup, w->config);
  bool node_name_is_default = weft_knode_bool_or(setup, "use_node_name_sharing", false);
  if (s == NULL) s = weft_state_name_init(&w->name, setup, node_name_is_default);
  if (s == NULL) *out_state = w;
  if (s != NULL) weft_state_maker_destroy(w);
  return s;
}

void weft_state_maker_destroy(void *state) {
  state_owner_t *w = state;
  if (w == NULL) return;
  if (w->object != NULL && w->name.is_private) {
    weft_status_free(weft_resource_delete(w->resources, weft_str(w->name.container), weft_str(w->name.name),
                                          w->maker->type));
  }
  weft_object_release(w->object);
  weft_tensor_release(w->handle);
  if (w->ref != NULL) weft_object_release(&w->ref->object);
  if (w->maker->deinit != NULL) w->maker->deinit(w->config);
  weft_state_name_deinit(&w->name);
  weft_mutex_deinit(&w->mu);
  weft_free(w);
}

static weft_status_t *create_object(void *arg, weft_object_t **out) {
  weft_kernel_ctx_t *c = arg;
  const state_owner_t *w = c->state;
  return w->maker->create(c, w->name.name, w->config, out);
}

weft_status_t *weft_state_reference(const char *container, const char *name, weft_variable_t **out) {
  weft_tensor_t *strings = NULL;
  weft_variable_t *v = NULL;
  weft_shape_t two = weft_shape_vector(2);
  weft_status_t *s = weft_tensor_new(WEFT_STRING, &two, NULL, &strings);
  if (s == NULL) s = weft_tensor_set_str(strings, 0, weft_str(container));
  if (s == NULL) s = weft_tensor_set_str(strings, 1, weft_str(name));
  if (s == NULL) s = weft_variable_create(weft_str(name), WEFT_STRING, &two, &v);
  if (s == NULL) {
    weft_variable_write(v, strings);
    *out = v;
  }
  weft_tensor_release(strings);
  return s;
}

/* Everything that the output needs, made by the first execution; one that comes second drops its own. */
static weft_status_t *owner_make(state_owner_t *w, weft_kernel_ctx_t *c) {
  weft_object_t *o = NULL;
  weft_tensor_t *handle = NULL;
  weft_variable_t *ref = NULL;
  weft_status_t *s =
      weft_resource_lookup_or_create(w->resources, weft_str(w->name.container), weft_str(w->name.name),
                                     w->maker->type, create_object, c, &o);
  if (s == NULL && w->maker->check != NULL) s = w->maker->check(w->name.name, w->config, o);
  if (s != NULL) goto done;
  if (weft_dtype_is_ref(c->node->output_types[0])) {
    s = weft_state_reference(w->name.container, w->name.name, &ref);
  } else {
    s = weft_state_handle(c->device, w->name.container, w->name.name, w->maker->type, o, WEFT_DTYPE_INVALID,
                          NULL, &handle);
  }
  if (s != NULL) goto done;
  weft_mutex_lock(&w->mu);
  if (w->object == NULL) {
    w->object = o;
    w->handle = handle;
    w->ref = ref;
    o = NULL;
    handle = NULL;
    ref = NULL;
  }
  weft_mutex_unlock(&w->mu);
done:
  weft_object_release(o);
  weft_tensor_release(handle);
  if (ref != NULL) weft_object_release(&ref->object);
  return s;
}

weft_status_t *weft_state_maker_compute(weft_kernel_ctx_t *c) {
  state_owner_t *w = c->state;
  weft_mutex_lock(&w->mu);
  bool is_made = w->object != NULL;
  weft_mutex_unlock(&w->mu);
  if (!is_made) WEFT_RETURN_IF_ERROR(owner_make(w, c));
  weft_mutex_lock(&w->mu);
  if (w->ref != NULL) c->outputs[0].ref = (weft_variable_t *)weft_object_retain(&w->ref->object);
  if (w->handle != NULL) c->outputs[0].tensor = weft_tensor_retain(w->handle);
  weft_mutex_unlock(&w->mu);
  return NULL;
}
