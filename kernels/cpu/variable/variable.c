/* kernels/cpu/variable/variable.c - making, reading and assigning variables, of both kinds.
 *
 * A value that is assigned is not copied: the variable holds the tensor itself,
 * and a later change copies it first if a reader still holds it.
 */
#include <inttypes.h>

#include "base/alloc.h"
#include "kernels/cpu/loops/common.h"
#include "kernels/state.h"
#include "tensor/update.h"

/* ---- VariableV2, VarHandleOp: the nodes that hold variables ---- */

typedef struct var_state {
  weft_state_name_t name;
  weft_dtype_t dtype;
  weft_shape_t shape;
  weft_memory_accounts_t *accounts; /* of the node's device, which lives longer */
  weft_memory_tag_t tag;
  weft_mutex_t mu;
  uint64_t generation;   /* guarded by mu, with what follows: of the resources when they were looked up */
  weft_object_t *object; /* NULL before the first run */
  weft_tensor_t *handle; /* of a VarHandleOp */
} var_state_t;

static void var_destroy(void *state) {
  var_state_t *v = state;
  if (v == NULL) return;
  weft_state_name_deinit(&v->name);
  weft_object_release(v->object);
  weft_tensor_release(v->handle);
  weft_mutex_deinit(&v->mu);
  weft_free(v);
}

/* What is behind a reference has a known shape; an unknown rank counts as that of a scalar. */
static weft_status_t *check_reference_shape(weft_shape_t *shape) {
  if (shape->rank < 0) *shape = WEFT_SCALAR;
  if (weft_shape_is_known(shape)) return NULL;
  return WEFT_ERROR(INVALID_ARGUMENT, "Shape %s is not fully defined", WEFT_SHAPE_TEXT(shape));
}

/* What its values are for, by the node's word: parameters, or the state of an optimizer. */
static weft_memory_tag_t said_tag(const weft_kernel_setup_t *setup) {
  const weft_attr_t *said = weft_knode_attr(setup, "_weft_memory");
  weft_memory_tag_t tag = WEFT_MEMORY_PARAM;
  if (said == NULL || said->kind != WEFT_ATTR_STRING || said->is_list) return tag;
  return weft_memory_tag_parse(said->s, &tag) && tag == WEFT_MEMORY_OPT_STATE ? tag : WEFT_MEMORY_PARAM;
}

static weft_status_t *var_prepare(const weft_kernel_setup_t *setup, void **out_state) {
  var_state_t *v = weft_calloc(1, sizeof *v);
  if (v == NULL) return WEFT_NO_MEMORY("preparing %.*s", WEFT_STR_ARGS(setup->node.name));
  weft_mutex_init(&v->mu);
  v->dtype = weft_dtype_base(weft_knode_type(setup, "dtype"));
  const weft_attr_t *shape = weft_knode_attr(setup, "shape");
  v->shape = shape == NULL || shape->kind != WEFT_ATTR_SHAPE ? WEFT_UNKNOWN_SHAPE : *shape->shape;
  v->accounts = setup->node.device == NULL ? NULL : setup->node.device->memory;
  v->tag = said_tag(setup);
  bool is_handle = !weft_dtype_is_ref(setup->node.output_types[0]);
  weft_status_t *s =
      is_handle ? weft_state_name_of_handle(&v->name, setup) : weft_state_name_init(&v->name, setup, true);
  if (s == NULL && !is_handle) s = check_reference_shape(&v->shape);
  if (s != NULL) {
    var_destroy(v);
    return s;
  }
  *out_state = v;
  return NULL;
}

static weft_status_t *var_create(void *arg, weft_object_t **out) {
  var_state_t *state = arg;
  weft_variable_t *v = NULL;
  WEFT_RETURN_IF_ERROR(weft_variable_create(weft_str(state->name.name), state->dtype, &state->shape, &v));
  weft_variable_count(v, state->accounts, state->tag);
  *out = &v->object;
  return NULL;
}

/* A variable without elements has its value from the start. */
static weft_status_t *var_create_shared(void *arg, weft_object_t **out) {
  WEFT_RETURN_IF_ERROR(var_create(arg, out));
  weft_variable_t *v = (weft_variable_t *)*out;
  weft_tensor_t *empty = NULL;
  v->is_shared = true;
  if (weft_shape_count(&v->shape) != 0) return NULL;
  weft_status_t *s = weft_tensor_new(v->dtype, &v->shape, NULL, &empty);
  if (s == NULL) weft_variable_write(v, empty);
  weft_tensor_release(empty);
  if (s != NULL) weft_object_release(*out);
  return s;
}

/* Looks the variable up (again) and makes the handle. */
static weft_status_t *var_refresh(var_state_t *state, weft_kernel_ctx_t *c,
                                  const weft_resource_type_t *type) {
  weft_object_t *o = NULL, *old = NULL;
  weft_tensor_t *handle = NULL, *old_handle = NULL;
  weft_resource_manager_t *m = c->device->resources;
  uint64_t generation = weft_resource_generation(m);
  WEFT_RETURN_IF_ERROR(weft_resource_lookup_or_create(
      m, weft_str(state->name.container), weft_str(state->name.name), type,
      type == &weft_variable_type ? var_create : var_create_shared, state, &o));
  weft_status_t *s = NULL;
  if (type == &weft_variable_type) {
    s = weft_state_handle(c->device, state->name.container, state->name.name, type, o, state->dtype,
                          &state->shape, &handle);
  }
  if (s == NULL) {
    weft_mutex_lock(&state->mu);
    old = state->object;
    old_handle = state->handle;
    state->object = o;
    state->handle = handle;
    state->generation = generation;
    weft_mutex_unlock(&state->mu);
    o = NULL;
  }
  weft_object_release(o);
  weft_object_release(old);
  weft_tensor_release(old_handle);
  return s;
}

/* The object and handle as of now; either may be NULL before the first run. Retained. */
static bool var_current(var_state_t *state, weft_resource_manager_t *m, weft_object_t **o,
                        weft_tensor_t **handle) {
  weft_mutex_lock(&state->mu);
  bool is_current = state->object != NULL && state->generation == weft_resource_generation(m);
  if (is_current && o != NULL) *o = weft_object_retain(state->object);
  if (is_current && handle != NULL) *handle = weft_tensor_retain(state->handle);
  weft_mutex_unlock(&state->mu);
  return is_current;
}

static weft_status_t *variable_v2(weft_kernel_ctx_t *c) {
  var_state_t *state = c->state;
  weft_object_t *o = NULL;
  while (!var_current(state, c->device->resources, &o, NULL)) {
    WEFT_RETURN_IF_ERROR(var_refresh(state, c, &weft_legacy_variable_type));
  }
  weft_variable_t *v = (weft_variable_t *)o;
  if (v->dtype != state->dtype) {
    weft_status_t *s =
        WEFT_ERROR(INTERNAL, "Output 0 of type %s does not match declared output type %s for node %.*s",
                   weft_dtype_name(v->dtype + WEFT_REF), weft_dtype_name(state->dtype + WEFT_REF),
                   WEFT_STR_ARGS(c->node->name));
    weft_object_release(o);
    return s;
  }
  c->outputs[0].ref = v;
  return NULL;
}

static weft_status_t *anonymous_handle(var_state_t *state, weft_kernel_ctx_t *c) {
  weft_object_t *o = NULL;
  weft_tensor_t *t = NULL;
  WEFT_RETURN_IF_ERROR(var_create(state, &o));
  weft_status_t *s = weft_state_handle(c->device, state->name.container, state->name.name,
                                       &weft_variable_type, o, state->dtype, &state->shape, &t);
  weft_object_release(o);
  if (s == NULL) weft_out_set(c, 0, t);
  return s;
}

static weft_status_t *var_handle(weft_kernel_ctx_t *c) {
  var_state_t *state = c->state;
  weft_tensor_t *t = NULL;
  if (strcmp(state->name.name, WEFT_ANONYMOUS_VARIABLE) == 0) return anonymous_handle(state, c);
  while (!var_current(state, c->device->resources, NULL, &t)) {
    WEFT_RETURN_IF_ERROR(var_refresh(state, c, &weft_variable_type));
  }
  weft_out_set(c, 0, t);
  return NULL;
}

/* ---- reading ---- */

/* Whatever the reason (consumed): the variable of a handle cannot be read. */
static weft_status_t *could_not_find(const weft_handle_t *h, weft_status_t *why) {
  if (why == NULL || weft_status_code(why) == WEFT_RESOURCE_EXHAUSTED) return why;
  weft_status_t *s = WEFT_ERROR(
      FAILED_PRECONDITION,
      "Could not find variable %.*s. This could mean that the variable has been deleted. In TF1, it can "
      "also mean the variable is uninitialized. Debug info: container=%.*s, status error message=%s",
      WEFT_STR_ARGS(h->name), WEFT_STR_ARGS(h->container), weft_status_message(why));
  weft_status_free(why);
  return s;
}

static weft_status_t *read_variable(weft_kernel_ctx_t *c) {
  const weft_handle_t *h = NULL;
  weft_variable_t *v = NULL;
  WEFT_RETURN_IF_ERROR(weft_state_in_handle(c, 0, &h));
  weft_status_t *s = weft_state_in_variable(c, 0, &v);
  weft_tensor_t *t = s == NULL ? weft_variable_read(v) : NULL;
  if (v != NULL) weft_object_release(&v->object);
  if (s == NULL && t == NULL) s = weft_state_no_variable(c, h); /* destroyed meanwhile */
  s = could_not_find(h, s);
  if (s != NULL) return s;
  weft_dtype_t dtype = weft_dtype_base(c->node->output_types[0]);
  if (t->dtype != dtype) {
    s = WEFT_ERROR(INVALID_ARGUMENT, "Trying to read variable with wrong dtype. Expected %s got %s",
                   weft_dtype_name(dtype), weft_dtype_name(t->dtype));
    weft_tensor_release(t);
    return s;
  }
  weft_out_set(c, 0, t);
  return NULL;
}

static weft_status_t *set_bool(weft_kernel_ctx_t *c, bool value) {
  uint8_t byte = value;
  return weft_tensor_scalar(WEFT_BOOL, &byte, &c->outputs[0].tensor);
}

/* IsVariableInitialized and VarIsInitializedOp: a variable that was never made is not initialised either. */
static weft_status_t *is_initialized(weft_kernel_ctx_t *c) {
  weft_variable_t *v = NULL;
  weft_status_t *s = weft_state_in_variable(c, 0, &v);
  bool is = s == NULL;
  if (v != NULL) weft_object_release(&v->object);
  if (!is && weft_status_code(s) != WEFT_NOT_FOUND && weft_status_code(s) != WEFT_FAILED_PRECONDITION)
    return s;
  weft_status_free(s);
  return set_bool(c, is);
}

static weft_status_t *variable_shape(weft_kernel_ctx_t *c) {
  weft_variable_t *v = NULL;
  WEFT_RETURN_IF_ERROR(weft_state_in_variable(c, 0, &v));
  weft_tensor_t *value = weft_variable_read(v), *t = NULL;
  weft_object_release(&v->object);
  if (value == NULL) return WEFT_ERROR(NOT_FOUND, "the variable was destroyed while its shape was read");
  weft_dtype_t dtype = (weft_dtype_t)c->node->output_types[0];
  weft_shape_t shape = weft_shape_vector(value->shape.rank);
  weft_status_t *s = weft_out_new(c, 0, dtype, &shape, &t);
  for (int i = 0; s == NULL && i < value->shape.rank; i++) {
    int64_t dim = value->shape.dims[i];
    if (dtype == WEFT_I64) {
      ((int64_t *)t->data)[i] = dim;
    } else if (dim <= INT32_MAX) {
      ((int32_t *)t->data)[i] = (int32_t)dim;
    } else {
      s = WEFT_ERROR(INVALID_ARGUMENT, "Shape output type is 32-bit  but dim %d is %" PRId64, i, dim);
    }
  }
  weft_tensor_release(value);
  return s;
}

WEFT_ATTRS(destroy_resource, (BOOL, ignore_lookup_error))
static weft_status_t *destroy_resource(weft_kernel_ctx_t *c, const destroy_resource_attrs_t *attrs) {
  const weft_handle_t *h = NULL;
  WEFT_RETURN_IF_ERROR(weft_state_in_handle(c, 0, &h));
  weft_resource_manager_t *m = c->device->resources;
  bool had_value = true;
  if (weft_str_is(h->type_name,
                  weft_variable_type.name)) { /* made with its handle, but it counts from its first value */
    weft_variable_t *v = NULL;
    weft_status_t *found = weft_state_in_variable(c, 0, &v);
    had_value = found == NULL;
    weft_status_free(found);
    if (v != NULL) weft_object_release(&v->object);
  }
  weft_status_t *s = weft_resource_delete_by_type_name(m, h->container, h->name, h->type_name);
  if (!had_value && s == NULL) s = weft_resource_nothing_to_delete(m, h->container, h->name);
  if (weft_status_code(s) == WEFT_NOT_FOUND && attrs->ignore_lookup_error) {
    weft_status_free(s);
    s = NULL;
  }
  return s;
}

/* ---- assigning ---- */

/* A small view into a large tensor would keep all of it for as long as the variable lives: then a copy is
 * taken. */
static weft_status_t *worth_keeping(weft_tensor_t *t, weft_tensor_t **out) {
  if (t->space == NULL && t->owner != NULL && t->owner->bytes / 2 > t->bytes) return weft_tensor_copy(t, out);
  *out = weft_tensor_retain(t);
  return NULL;
}

/* An op on a handle has no such output, also where a device made up a reference for the run. */
static void pass_reference(weft_kernel_ctx_t *c) {
  if (c->inputs[0].ref == NULL || c->node->num_outputs == 0) return;
  c->outputs[0].ref = (weft_variable_t *)weft_object_retain(&c->inputs[0].ref->object);
}

WEFT_ATTRS(assign, (BOOL, validate_shape))
static weft_status_t *assign(weft_kernel_ctx_t *c, const assign_attrs_t *attrs) {
  weft_variable_t *v = c->inputs[0].ref;
  weft_tensor_t *value = weft_in(c, 1);
  if (v == NULL) return WEFT_ERROR(INVALID_ARGUMENT, "input 0 of Assign is not a reference");
  if (value->dtype != v->dtype) {
    return WEFT_ERROR(INVALID_ARGUMENT, "a value of type %s is assigned to variable %.*s of type %s",
                      weft_dtype_name(value->dtype), WEFT_STR_ARGS(v->name), weft_dtype_name(v->dtype));
  }
  if (attrs->validate_shape) {
    weft_tensor_t *old = weft_variable_read(v);
    weft_shape_t shape = old == NULL ? v->shape : old->shape;
    weft_tensor_release(old);
    if (!weft_shape_compatible(&shape, &value->shape)) {
      return WEFT_ERROR(INVALID_ARGUMENT,
                        "Assign requires shapes of both tensors to match. lhs shape= %s rhs shape= %s",
                        WEFT_SHAPE_TEXT(&shape), WEFT_SHAPE_TEXT(&value->shape));
    }
  }
  WEFT_RETURN_IF_ERROR(weft_variable_assign_shared(v, value));
  pass_reference(c);
  return NULL;
}

static weft_status_t *check_assigned(bool validate_shape, const weft_tensor_t *old,
                                     const weft_tensor_t *value) {
  if (old == NULL) return NULL;
  if (old->dtype != value->dtype) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Trying to assign variable with wrong dtype. Expected %s got %s",
                      weft_dtype_name(old->dtype), weft_dtype_name(value->dtype));
  }
  if (validate_shape && !weft_shape_eq(&old->shape, &value->shape)) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "Trying to assign to variable with tensor with wrong shape. Expected %s got %s",
                      WEFT_SHAPE_TEXT(&old->shape), WEFT_SHAPE_TEXT(&value->shape));
  }
  return NULL;
}

/* With its first value a variable is there, and so is its container; an anonymous one is in none. */
static weft_status_t *add_container(weft_kernel_ctx_t *c) {
  const weft_handle_t *h = NULL;
  WEFT_RETURN_IF_ERROR(weft_state_in_handle(c, 0, &h));
  return weft_str_is(h->name, WEFT_ANONYMOUS_VARIABLE)
             ? NULL
             : weft_resource_add_container(c->device->resources, h->container);
}

WEFT_ATTRS(assign_variable, (BOOL, validate_shape))
static weft_status_t *assign_variable(weft_kernel_ctx_t *c, const assign_variable_attrs_t *attrs) {
  weft_variable_t *v = NULL;
  weft_tensor_t *mine = NULL, *value = weft_in(c, 1);
  const int dtype = c->node->input_types[1]; /* what the attribute says */
  if ((int)value->dtype != dtype) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Variable and value dtypes don't match; respectively, %s and %s",
                      weft_dtype_name(dtype), weft_dtype_name(value->dtype));
  }
  WEFT_RETURN_IF_ERROR(weft_state_in_new_variable(c, 0, &v));
  weft_tensor_t *old = weft_variable_read(v);
  weft_status_t *s = check_assigned(attrs->validate_shape, old, value);
  bool is_first = old == NULL;
  weft_tensor_release(old);
  if (s == NULL) s = worth_keeping(value, &mine);
  if (s == NULL && is_first) s = add_container(c);
  if (s == NULL) weft_variable_write(v, mine);
  weft_tensor_release(mine);
  weft_object_release(&v->object);
  return s;
}

/* ---- adding and subtracting ---- */

/* The value must fit: in TensorFlow's words for references and for handles. */
static weft_status_t *check_update_locked(const weft_kernel_ctx_t *c, const weft_variable_t *v,
                                          const weft_tensor_t *value) WEFT_REQUIRES(v->mu) {
  bool is_ref = c->inputs[0].ref != NULL;
  if (v->value == NULL) return weft_variable_uninitialized(v);
  if (v->value->dtype != value->dtype) {
    return WEFT_ERROR(INVALID_ARGUMENT, "DType of variable handle and value does not match.");
  }
  if (weft_shape_eq(&v->value->shape, &value->shape)) return NULL;
  if (is_ref) return WEFT_ERROR(INVALID_ARGUMENT, "Parameters and update must be the same size");
  return WEFT_ERROR(
      INVALID_ARGUMENT,
      "Cannot update variable with shape %s using a Tensor with shape %s, shapes must be equal.",
      WEFT_SHAPE_TEXT(&v->value->shape), WEFT_SHAPE_TEXT(&value->shape));
}

static weft_status_t *update(weft_kernel_ctx_t *c, weft_update_t what) {
  weft_variable_t *v = NULL;
  const weft_tensor_t *value = weft_in(c, 1);
  WEFT_RETURN_IF_ERROR(weft_state_in_variable(c, 0, &v));
  weft_update_fn *fn = weft_update_find(what, value->dtype);
  weft_mutex_lock(&v->mu);
  weft_status_t *s = check_update_locked(c, v, value);
  if (s == NULL && fn == NULL) {
    s = WEFT_ERROR(UNIMPLEMENTED, "%.*s of type %s", WEFT_STR_ARGS(c->node->op_name),
                   weft_dtype_name(value->dtype));
  }
  if (s == NULL) s = weft_variable_make_writable_locked(v);
  if (s == NULL) weft_update_parallel(c->device->pool, fn, v->value, value);
  weft_mutex_unlock(&v->mu);
  weft_object_release(&v->object);
  if (s == NULL) pass_reference(c);
  return s;
}

static weft_status_t *assign_add(weft_kernel_ctx_t *c) { return update(c, WEFT_UPDATE_ADD); }
static weft_status_t *assign_sub(weft_kernel_ctx_t *c) { return update(c, WEFT_UPDATE_SUB); }

/* CountUpTo, ResourceCountUpTo: the old value, then one more, up to the limit. */
WEFT_ATTRS(count_up_to, (INT, limit))
static weft_status_t *count_up_to(weft_kernel_ctx_t *c, const count_up_to_attrs_t *attrs) {
  weft_variable_t *v = NULL;
  int64_t limit = attrs->limit, before = 0;
  weft_dtype_t dtype = (weft_dtype_t)c->node->output_types[0];
  WEFT_RETURN_IF_ERROR(weft_state_in_variable(c, 0, &v));
  weft_mutex_lock(&v->mu);
  weft_status_t *s = weft_variable_make_writable_locked(v);
  if (s == NULL && (v->value->dtype != dtype || v->value->shape.rank != 0)) {
    s = WEFT_ERROR(INVALID_ARGUMENT, "input is not a scalar of type %s: %s of shape %s",
                   weft_dtype_name(dtype), weft_dtype_name(v->value->dtype),
                   WEFT_SHAPE_TEXT(&v->value->shape));
  }
  if (s == NULL) {
    before = dtype == WEFT_I32 ? *(int32_t *)v->value->data : *(int64_t *)v->value->data;
    if (before >= limit) {
      s = WEFT_ERROR(OUT_OF_RANGE, "Reached limit of %" PRId64, limit);
    } else if (dtype == WEFT_I32) {
      ++*(int32_t *)v->value->data;
    } else {
      ++*(int64_t *)v->value->data;
    }
  }
  weft_mutex_unlock(&v->mu);
  weft_object_release(&v->object);
  if (s != NULL) return s;
  int32_t narrow = (int32_t)before;
  return weft_tensor_scalar(dtype, dtype == WEFT_I32 ? (void *)&narrow : (void *)&before,
                            &c->outputs[0].tensor);
}

/* ---- variables of one step ---- */

static weft_str_t temporary_name(weft_kernel_ctx_t *c, weft_str_t name) {
  return name.length == 0 ? c->node->name : name;
}

WEFT_ATTRS(temporary_variable, (SHAPE, shape), (STRING, var_name))
static weft_status_t *temporary_variable(weft_kernel_ctx_t *c, const temporary_variable_attrs_t *attrs) {
  const weft_shape_t *shape = attrs->shape;
  weft_dtype_t dtype = weft_dtype_base(c->node->output_types[0]);
  weft_variable_t *v = NULL;
  weft_tensor_t *t = NULL;
  weft_status_t *s = weft_tensor_new(dtype, shape, NULL, &t);
  if (s != NULL) return s;
  if (weft_dtype_is_plain(dtype) && t->bytes > 0) memset(t->data, 0, t->bytes);
  s = weft_variable_create(c->node->name, dtype, shape, &v);
  if (s == NULL) {
    v->is_shared = true;
    weft_variable_write(v, t);
    s = weft_step_container_add(c->step->container, temporary_name(c, attrs->var_name), &v->object);
  }
  weft_tensor_release(t);
  if (s == NULL) {
    c->outputs[0].ref = v;
  } else if (v != NULL) {
    weft_object_release(&v->object);
  }
  return s;
}

WEFT_ATTRS(destroy_temporary_variable, (STRING, var_name))
static weft_status_t *destroy_temporary_variable(weft_kernel_ctx_t *c,
                                                 const destroy_temporary_variable_attrs_t *attrs) {
  weft_variable_t *v = c->inputs[0].ref;
  if (v == NULL)
    return WEFT_ERROR(INVALID_ARGUMENT, "input 0 of DestroyTemporaryVariable is not a reference");
  weft_tensor_t *t = weft_variable_read(v);
  if (t == NULL) return weft_variable_uninitialized(v);
  weft_str_t name = temporary_name(c, attrs->var_name);
  if (weft_step_container_remove(c->step->container, name)) {
    weft_out_set(c, 0, t);
    return NULL;
  }
  weft_tensor_release(t);
  return WEFT_ERROR(NOT_FOUND, "there is no temporary variable %.*s in this step", WEFT_STR_ARGS(name));
}

/* WeftForgetVariable: not TensorFlow's. The variable is then as if it had just been made, as after
 * DestroyResourceOp of one behind a handle. */
static weft_status_t *forget_variable(weft_kernel_ctx_t *c) {
  weft_variable_t *v = c->inputs[0].ref;
  if (v == NULL) return WEFT_ERROR(INVALID_ARGUMENT, "input 0 of WeftForgetVariable is not a reference");
  weft_variable_write(v, NULL);
  return NULL;
}

static weft_status_t *disable_copy_on_read(weft_kernel_ctx_t *c) {
  const weft_handle_t *h = NULL;
  weft_variable_t *v = NULL;
  WEFT_RETURN_IF_ERROR(weft_state_in_handle(c, 0, &h));
  weft_status_t *s =
      weft_state_in_variable(c, 0, &v); /* copies are made by writers here: nothing to switch off */
  if (v != NULL) weft_object_release(&v->object);
  return could_not_find(h, s);
}

/* T may be any type: what may not be added is refused by the op's own definition. */
#define ANY .type_attr = "T", .types = WEFT_SET_ALL
#define ANY_VALUE .type_attr = "dtype", .types = WEFT_SET_ALL
#define NUMBER .type_attr = "T", .types = WEFT_SET_NUMBERS
#define NUMBER_VALUE .type_attr = "dtype", .types = WEFT_SET_NUMBERS
#define HOLDER(name, fn) \
  { .op = name, ANY_VALUE, .prepare = var_prepare, .compute = fn, .destroy = var_destroy }

const weft_kernel_t weft_cpu_variable_kernels[] = {
    WEFT_KERNEL_ATTRS("Assign", "T", WEFT_SET_ALL, assign),
    {.op = "AssignAdd", NUMBER, .compute = assign_add},
    {.op = "AssignAddVariableOp", NUMBER_VALUE, .compute = assign_add},
    {.op = "AssignSub", NUMBER, .compute = assign_sub},
    {.op = "AssignSubVariableOp", NUMBER_VALUE, .compute = assign_sub},
    WEFT_KERNEL_ATTRS("AssignVariableOp", "dtype", WEFT_SET_ALL, assign_variable),
    WEFT_KERNEL_ATTRS("CountUpTo", "T", WEFT_SET_INDEX, count_up_to),
    {.op = "DestroyResourceOp", WEFT_COMPUTE(destroy_resource)},
    {.op = "DestroyTemporaryVariable", ANY, WEFT_COMPUTE(destroy_temporary_variable)},
    {.op = "DisableCopyOnRead", .compute = disable_copy_on_read},
    {.op = "IsVariableInitialized", ANY_VALUE, .compute = is_initialized},
    {.op = "ReadVariableOp", ANY_VALUE, .compute = read_variable},
    WEFT_KERNEL_ATTRS("ResourceCountUpTo", "T", WEFT_SET_INDEX, count_up_to),
    WEFT_KERNEL_ATTRS("TemporaryVariable", "dtype", WEFT_SET_ALL, temporary_variable),
    HOLDER("VarHandleOp", var_handle),
    {.op = "VarIsInitializedOp", .compute = is_initialized},
    HOLDER("Variable", variable_v2),
    {.op = "VariableShape", .type_attr = "out_type", .types = WEFT_SET_INDEX, .compute = variable_shape},
    HOLDER("VariableV2", variable_v2),
    {.op = "WeftForgetVariable", ANY, .compute = forget_variable},
    {0},
};
