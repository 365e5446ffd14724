/* kernels/step_resource.c - naming and finding what lives for one step. */
#include "kernels/step_resource.h"

#include <inttypes.h>

#include "base/alloc.h"

weft_status_t *weft_step_resource_name(weft_kernel_ctx_t *c, weft_str_t base, char **out) {
  weft_strbuf_t text = WEFT_STRBUF_INIT;
  size_t length = 0;
  if (base.length == 0) base = c->node->name;
  weft_strbuf_printf(&text, "%.*s_%" PRIu64, WEFT_STR_ARGS(base),
                     weft_step_container_number(c->step->container));
  return weft_strbuf_finish(&text, out, &length);
}

/* Types have name spaces of their own in the step's container. */
static weft_status_t *key_of(const weft_resource_type_t *type, weft_str_t name, weft_strbuf_t *out) {
  weft_strbuf_printf(out, "%s/%.*s", type->text, WEFT_STR_ARGS(name));
  return out->failed ? WEFT_NO_MEMORY("naming %.*s", WEFT_STR_ARGS(name)) : NULL;
}

/* A handle between the old-style reference and a resource: the same two strings, by value. */
static weft_status_t *strings_of(const weft_resource_type_t *type, const char *name, weft_tensor_t **out) {
  const weft_shape_t two = weft_shape_vector(2);
  weft_tensor_t *t = NULL;
  weft_status_t *s = weft_tensor_new(WEFT_STRING, &two, NULL, &t);
  if (s == NULL) s = weft_tensor_set_str(t, 0, weft_str(type->text));
  if (s == NULL) s = weft_tensor_set_str(t, 1, weft_str(name));
  if (s != NULL) {
    weft_tensor_release(t);
    return s;
  }
  *out = t;
  return NULL;
}

weft_status_t *weft_step_resource_handle(weft_kernel_ctx_t *c, const weft_resource_type_t *type,
                                         const char *name, weft_object_t *o) {
  if (weft_dtype_is_ref(c->node->output_types[0]))
    return weft_state_reference(type->text, name, &c->outputs[0].ref);
  if (c->node->output_types[0] == WEFT_STRING) return strings_of(type, name, &c->outputs[0].tensor);
  return weft_state_handle(c->device, "", name, type, o, WEFT_DTYPE_INVALID, NULL, &c->outputs[0].tensor);
}

weft_status_t *weft_step_resource_output(weft_kernel_ctx_t *c, const weft_resource_type_t *type,
                                         const char *name, weft_object_t *o) {
  weft_strbuf_t key = WEFT_STRBUF_INIT;
  weft_status_t *s = key_of(type, weft_str(name), &key);
  if (s == NULL) s = weft_step_container_add(c->step->container, weft_str_of(key.data, key.length), o);
  weft_strbuf_deinit(&key);
  return s != NULL ? s : weft_step_resource_handle(c, type, name, o);
}

weft_object_t *weft_step_resource_find(weft_kernel_ctx_t *c, const weft_resource_type_t *type,
                                       const char *name) {
  weft_strbuf_t key = WEFT_STRBUF_INIT;
  weft_object_t *o = NULL;
  weft_status_t *s = key_of(type, weft_str(name), &key);
  if (s == NULL) o = weft_step_container_find(c->step->container, weft_str_of(key.data, key.length));
  weft_status_free(s); /* without memory it is not found */
  weft_strbuf_deinit(&key);
  return o;
}

static weft_status_t *by_name(weft_kernel_ctx_t *c, const weft_resource_type_t *type, weft_str_t name,
                              weft_object_t **out) {
  char *text = weft_strndup(name.data, name.length);
  weft_object_t *o = text == NULL ? NULL : weft_step_resource_find(c, type, text);
  weft_free(text);
  if (o == NULL) {
    return WEFT_ERROR(NOT_FOUND, "Resource %s/%.*s/%s does not exist.", type->text, WEFT_STR_ARGS(name),
                      type->name);
  }
  *out = o;
  return NULL;
}

weft_status_t *weft_step_resource_in(weft_kernel_ctx_t *c, int i, const weft_resource_type_t *type,
                                     weft_object_t **out) {
  weft_tensor_t *strings =
      c->inputs[i].ref != NULL ? weft_variable_read(c->inputs[i].ref) : weft_tensor_retain(weft_in(c, i));
  weft_status_t *s = NULL;
  if (strings != NULL && strings->dtype == WEFT_STRING && strings->count == 2) {
    s = by_name(c, type, weft_tensor_str_at(strings, 1), out);
    weft_tensor_release(strings);
    return s;
  }
  weft_tensor_release(strings);
  const weft_handle_t *h = NULL;
  if (c->inputs[i].ref != NULL)
    return WEFT_ERROR(INVALID_ARGUMENT, "input %d is not a handle of two strings", i);
  WEFT_RETURN_IF_ERROR(weft_state_in_handle(c, i, &h));
  if (!weft_str_is(h->type_name, type->name)) return weft_state_wrong_type(h, type);
  if (h->object != NULL) {
    *out = weft_object_retain(h->object);
    return NULL;
  }
  return by_name(c, type, h->name, out);
}
