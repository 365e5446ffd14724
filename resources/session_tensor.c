/* resources/session_tensor.c - each tensor is a resource in a container of its session's. */
#include "resources/session_tensor.h"

#include "base/alloc.h"

typedef struct kept_tensor {
  weft_object_t object;
  weft_tensor_t *tensor; /* owned */
} kept_tensor_t;

static const weft_resource_type_t kept_tensor_type = {"TensorHandle", "TensorHandle", NULL};

static void destroy(weft_object_t *o) {
  weft_tensor_release(((kept_tensor_t *)o)->tensor);
  weft_free(o);
}

static weft_status_t *create(void *arg, weft_object_t **out) {
  kept_tensor_t *k = weft_calloc(1, sizeof *k);
  if (k == NULL) return WEFT_NO_MEMORY("keeping a tensor for a session");
  atomic_init(&k->object.refs, 1);
  k->object.destroy = destroy;
  k->tensor = weft_tensor_retain(arg);
  *out = &k->object;
  return NULL;
}

/* The name of a session's container. Errors: RESOURCE_EXHAUSTED. */
static weft_status_t *container_of(weft_str_t session, weft_strbuf_t *out) {
  weft_strbuf_printf(out, "session/%.*s", WEFT_STR_ARGS(session));
  return out->failed ? WEFT_NO_MEMORY("naming a session's container") : NULL;
}

static weft_str_t text(const weft_strbuf_t *b) { return weft_str_of(b->data, b->length); }

weft_status_t *weft_session_tensor_keep(weft_resource_manager_t *m, weft_str_t session, weft_str_t handle,
                                        weft_tensor_t *t) {
  weft_strbuf_t container = WEFT_STRBUF_INIT;
  weft_object_t *o = NULL;
  weft_status_t *s = container_of(session, &container);
  if (s == NULL) {
    s = weft_resource_lookup_or_create(m, text(&container), handle, &kept_tensor_type, create, t, &o);
  }
  weft_object_release(o);
  weft_strbuf_deinit(&container);
  return s;
}

weft_status_t *weft_session_tensor_get(weft_resource_manager_t *m, weft_str_t session, weft_str_t handle,
                                       weft_tensor_t **out) {
  weft_strbuf_t container = WEFT_STRBUF_INIT;
  weft_object_t *o = NULL;
  weft_status_t *s = container_of(session, &container);
  if (s == NULL) s = weft_resource_lookup(m, text(&container), handle, &kept_tensor_type, &o);
  if (s == NULL) *out = weft_tensor_retain(((kept_tensor_t *)o)->tensor);
  weft_object_release(o);
  weft_strbuf_deinit(&container);
  if (weft_status_code(s) != WEFT_NOT_FOUND) return s;
  weft_status_free(s);
  return WEFT_ERROR(INVALID_ARGUMENT, "The tensor with handle '%.*s' is not in the session store.",
                    WEFT_STR_ARGS(handle));
}

weft_status_t *weft_session_tensor_delete(weft_resource_manager_t *m, weft_str_t session, weft_str_t handle) {
  weft_strbuf_t container = WEFT_STRBUF_INIT;
  weft_status_t *s = container_of(session, &container);
  if (s == NULL) s = weft_resource_delete(m, text(&container), handle, &kept_tensor_type);
  weft_strbuf_deinit(&container);
  if (weft_status_code(s) != WEFT_NOT_FOUND) return s;
  weft_status_free(s);
  return WEFT_ERROR(INVALID_ARGUMENT, "Failed to delete a tensor with handle '%.*s' in the session store.",
                    WEFT_STR_ARGS(handle));
}

void weft_session_tensors_clear(weft_resource_manager_t *m, weft_str_t session) {
  weft_strbuf_t container = WEFT_STRBUF_INIT;
  weft_status_t *s = container_of(session, &container);
  if (s == NULL) weft_resource_clear(m, text(&container));
  weft_status_free(s); /* without memory for its name the container stays until it is cleared by another */
  weft_strbuf_deinit(&container);
}
