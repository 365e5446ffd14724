/* graph/function.c - the library of functions: kept as bytes, with their signatures parsed. */
#include "graph/function.h"

#include "base/alloc.h"
#include "graph/attr_proto.h"
#include "graph/function_fingerprint.h"
#include "protos/wire.h"

weft_status_t *weft_function_library_create(weft_function_library_t **out) {
  weft_function_library_t *l = weft_calloc(1, sizeof *l);
  if (l == NULL) return WEFT_NO_MEMORY("creating a function library");
  atomic_init(&l->refs, 1);
  weft_mutex_init(&l->mu);
  *out = l;
  return NULL;
}

weft_function_library_t *weft_function_library_retain(weft_function_library_t *l) {
  atomic_fetch_add_explicit(&l->refs, 1, memory_order_relaxed);
  return l;
}

void weft_function_library_release(weft_function_library_t *l) {
  if (l == NULL) return;
  /* Pairs with itself: the last one sees what all others did. */
  if (atomic_fetch_sub_explicit(&l->refs, 1, memory_order_acq_rel) != 1) return;
  weft_map_entry_t e;
  for (size_t at = 0; weft_map_next(&l->by_name, &at, &e);) {
    weft_function_t *f = e.value;
    weft_op_def_release(&f->signature);
  }
  weft_map_deinit(&l->by_name);
  weft_map_deinit(&l->gradients);
  weft_map_deinit(&l->unregistered);
  weft_arena_deinit(&l->arena);
  weft_mutex_deinit(&l->mu);
  weft_free(l);
}

/* Looks a name up in one of the library's maps. */
static void *get(const weft_function_library_t *l, const weft_map_t *m, weft_str_t name) {
  weft_mutex_t *mu = (weft_mutex_t *)(uintptr_t)&l->mu; /* which readers change, too */
  weft_mutex_lock(mu);
  void *found = weft_map_get(m, name);
  weft_mutex_unlock(mu);
  return found;
}

weft_function_t *weft_function_find(const weft_function_library_t *l, weft_str_t name) {
  return get(l, &l->by_name, name);
}

const weft_str_t *weft_function_gradient(const weft_function_library_t *l, weft_str_t function) {
  return get(l, &l->gradients, function);
}

static weft_op_def_t *make_stand_in(weft_function_library_t *l, weft_str_t op) {
  weft_op_def_t *made = weft_arena_calloc(&l->arena, 1, sizeof *made);
  weft_str_t name = made == NULL ? (weft_str_t){NULL, 0} : weft_arena_str(&l->arena, op);
  if (name.data == NULL) return NULL;
  made->name = name;
  made->flags = WEFT_OP_UNREGISTERED | WEFT_OP_STATEFUL;
  made->update_grad_input = -1;
  return made;
}

static weft_status_t *find_stand_in(weft_function_library_t *l, weft_str_t op, const weft_op_def_t **out) {
  *out = weft_map_get(&l->unregistered, op);
  if (*out != NULL) return NULL;
  weft_op_def_t *made = make_stand_in(l, op);
  *out = made;
  return made == NULL ? WEFT_NO_MEMORY("an op that is not registered")
                      : weft_map_put(&l->unregistered, made->name, made, NULL);
}

weft_status_t *weft_function_library_stand_in(weft_function_library_t *l, weft_str_t op,
                                              const weft_op_def_t **out) {
  weft_mutex_lock(&l->mu);
  weft_status_t *s = find_stand_in(l, op, out);
  weft_mutex_unlock(&l->mu);
  return s;
}

weft_status_t *weft_function_library_set_aside(weft_function_library_t *l, weft_str_t op,
                                               weft_status_t *failure, const weft_op_def_t **out) {
  weft_mutex_lock(&l->mu);
  weft_op_def_t *made = make_stand_in(l, op);
  weft_str_t text = made == NULL ? (weft_str_t){NULL, 0}
                                 : weft_arena_str(&l->arena, weft_str(weft_status_message(failure)));
  weft_mutex_unlock(&l->mu);
  bool is_removed = weft_status_code(failure) == WEFT_UNIMPLEMENTED;
  weft_status_free(failure);
  if (text.data == NULL) return WEFT_NO_MEMORY("a node that is not valid");
  made->absent = text.data;
  made->removed_in = is_removed ? 1 : 0;
  *out = made;
  return NULL;
}

static bool find_signature(weft_str_t def, weft_str_t *out) {
  weft_wire_reader_t r = weft_wire_reader(def);
  weft_wire_field_t f;
  *out = WEFT_STR("");
  while (weft_wire_next(&r, &f)) {
    if (f.tag == WEFT_WIRE_TAG(1, WEFT_WIRE_BYTES)) *out = f.bytes;
  }
  return !r.failed;
}

static weft_str_t find_name(weft_str_t signature) {
  weft_wire_reader_t r = weft_wire_reader(signature);
  weft_wire_field_t f;
  weft_str_t name = WEFT_STR("");
  while (weft_wire_next(&r, &f)) {
    if (f.tag == WEFT_WIRE_TAG(1, WEFT_WIRE_BYTES)) name = f.bytes;
  }
  return name;
}

static weft_status_t *conflict(weft_str_t name) {
  return WEFT_ERROR(
      INVALID_ARGUMENT,
      "Cannot add function '%.*s' because a different function with the same name already exists.",
      WEFT_STR_ARGS(name));
}

static weft_status_t *add(weft_function_library_t *l, weft_str_t function_def) {
  weft_str_t signature;
  if (!find_signature(function_def, &signature))
    return WEFT_ERROR(INVALID_ARGUMENT, "a FunctionDef cannot be parsed");
  weft_str_t name = find_name(signature);
  weft_function_t *known = weft_map_get(&l->by_name, name);
  if (known != NULL) {
    bool is_same = weft_str_eq(known->def, function_def) ||
                   weft_function_fingerprint(known->def) == weft_function_fingerprint(function_def);
    return is_same ? NULL : conflict(name);
  }
  if (weft_op_find(name) != NULL) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "Cannot add function '%.*s' because an op with the same name already exists.",
                      WEFT_STR_ARGS(name));
  }
  weft_function_t *f = weft_arena_calloc(&l->arena, 1, sizeof *f);
  weft_str_t def = f == NULL ? (weft_str_t){NULL, 0} : weft_arena_str(&l->arena, function_def);
  if (def.data == NULL) return WEFT_NO_MEMORY("adding function '%.*s'", WEFT_STR_ARGS(name));
  f->def = def;
  weft_status_t *s = weft_op_def_from_proto(&l->arena, signature, &f->signature);
  if (s != NULL) return weft_status_annotate(s, "in the signature of function '%.*s'", WEFT_STR_ARGS(name));
  f->name = f->signature.name;
  f->signature.flags |= WEFT_OP_FUNCTIONAL;
  s = weft_map_put(&l->by_name, f->name, f, NULL);
  if (s != NULL) weft_op_def_release(&f->signature);
  return s;
}

weft_status_t *weft_function_add(weft_function_library_t *l, weft_str_t function_def) {
  weft_mutex_lock(&l->mu);
  weft_status_t *s = add(l, function_def);
  weft_mutex_unlock(&l->mu);
  return s;
}

static weft_status_t *add_gradient(weft_function_library_t *l, weft_str_t gradient_def) {
  weft_str_t key, gradient;
  if (!weft_map_entry_read(gradient_def, &key, &gradient)) { /* field 1 and field 2, like an entry of a map */
    return WEFT_ERROR(INVALID_ARGUMENT, "a GradientDef cannot be parsed");
  }
  weft_str_t *def = weft_arena_alloc(&l->arena, sizeof *def);
  weft_str_t name = weft_arena_str(&l->arena, key);
  if (def == NULL || name.data == NULL) return WEFT_NO_MEMORY("adding a GradientDef");
  *def = weft_arena_str(&l->arena, gradient_def);
  if (def->data == NULL) return WEFT_NO_MEMORY("adding a GradientDef");
  return weft_map_put(&l->gradients, name, def, NULL);
}

weft_status_t *weft_function_add_gradient(weft_function_library_t *l, weft_str_t gradient_def) {
  weft_mutex_lock(&l->mu);
  weft_status_t *s = add_gradient(l, gradient_def);
  weft_mutex_unlock(&l->mu);
  return s;
}

/* The values of a map of `l`, copied out: adding takes another library's lock, and may take long. Free with
 * weft_free; NULL without memory. */
static void **values_of(weft_function_library_t *l, const weft_map_t *m, size_t *out_n) {
  weft_map_entry_t e;
  size_t n = 0;
  weft_mutex_lock(&l->mu);
  void **all = weft_calloc(m->count + 1, sizeof *all);
  for (size_t at = 0; all != NULL && weft_map_next(m, &at, &e);) all[n++] = e.value;
  weft_mutex_unlock(&l->mu);
  *out_n = n;
  return all;
}

static weft_status_t *add_missing_gradient(weft_function_library_t *l, weft_str_t gradient_def) {
  weft_str_t function, gradient;
  if (!weft_map_entry_read(gradient_def, &function, &gradient))
    return NULL; /* it was read when it was added */
  return weft_function_gradient(l, function) != NULL ? NULL : weft_function_add_gradient(l, gradient_def);
}

weft_status_t *weft_function_library_add_missing(weft_function_library_t *l, weft_function_library_t *from) {
  size_t num_functions = 0, num_gradients = 0;
  void **functions = values_of(from, &from->by_name, &num_functions);
  void **gradients = values_of(from, &from->gradients, &num_gradients);
  weft_status_t *s = functions == NULL || gradients == NULL ? WEFT_NO_MEMORY("a function library") : NULL;
  for (size_t i = 0; s == NULL && i < num_functions; i++) {
    const weft_function_t *f = functions[i];
    if (weft_function_find(l, f->name) == NULL) s = weft_function_add(l, f->def);
  }
  for (size_t i = 0; s == NULL && i < num_gradients; i++)
    s = add_missing_gradient(l, *(const weft_str_t *)gradients[i]);
  weft_free(functions);
  weft_free(gradients);
  return s;
}
