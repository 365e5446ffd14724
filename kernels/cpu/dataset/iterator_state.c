/* kernels/cpu/dataset/iterator_state.c - where an iterator stands, into a tensor and back; and how long steps
 * have waited for it.
 *
 * SerializeIterator and DeserializeIterator are TensorFlow's, with a variant that only a graph can carry.
 * WeftIteratorState and WeftIteratorRestore carry the same bytes in a string, so that a client can keep them
 * in its checkpoint, and say in a second string why they cannot.
 */
#include "base/alloc.h"
#include "kernels/attrs.h"
#include "kernels/cpu/dataset/as_graph.h"
#include "kernels/cpu/dataset/iterator_ops.h"
#include "kernels/cpu/dataset/saved.h"
#include "tensor/pack.h"

/* An execution that waits for the thread of a pass. */
typedef struct state_job {
  weft_kernel_ctx_t *c;
  bool refuses_state;                 /* of functions */
  weft_iterator_resource_t *resource; /* retained, as the next */
  weft_traversal_t *traversal;
} state_job_t;

static void end_job(state_job_t *j, weft_status_t *s) {
  weft_kernel_ctx_t *c = j->c;
  weft_traversal_release(j->traversal);
  weft_object_release((weft_object_t *)j->resource);
  weft_free(j);
  c->done(c, s);
}

/* Consumes the references. */
static void start_job(weft_kernel_ctx_t *c, weft_iterator_resource_t *r, weft_traversal_t *n,
                      bool refuses_state, weft_traversal_fn *fn) {
  state_job_t *j = weft_malloc(sizeof *j);
  if (j == NULL) {
    weft_traversal_release(n);
    weft_object_release((weft_object_t *)r);
    c->done(c, WEFT_NO_MEMORY("an iterator's state"));
    return;
  }
  *j = (state_job_t){c, refuses_state, r, n};
  weft_traversal_do(n, fn, j);
}

/* ---- saving ---- */

/* The bytes of the pass as a string tensor. */
static weft_status_t *bytes_of(weft_iterator_t *root, bool refuses_state, weft_tensor_t **out) {
  weft_saved_t saved;
  weft_saved_begin(&saved);
  saved.refuses_state = refuses_state;
  weft_status_t *s = weft_iterator_save(root, &saved);
  if (s == NULL) s = weft_saved_end(&saved);
  if (s == NULL) s = weft_tensor_string(weft_str_of(saved.bytes.data, saved.bytes.length), out);
  weft_saved_deinit(&saved);
  return s;
}

static weft_status_t *save_boxed(weft_kernel_ctx_t *c, bool refuses_state, weft_iterator_t *root) {
  weft_tensor_t *bytes = NULL, *t = NULL;
  weft_pack_t *box = NULL;
  weft_status_t *s = bytes_of(root, refuses_state, &bytes);
  if (s == NULL) s = weft_pack_of(&weft_boxed_type, &bytes, 1, &box);
  if (s == NULL) s = weft_pack_scalar(box, &t);
  weft_tensor_release(bytes);
  if (s == NULL) weft_out_set(c, 0, t);
  return s;
}

static void boxed(void *arg, weft_status_t *s, weft_iterator_t *root) {
  state_job_t *j = arg;
  if (s == NULL) s = save_boxed(j->c, j->refuses_state, root);
  end_job(j, s);
}

WEFT_ATTRS_ASYNC(serialize, (INT, external_state_policy))
static void serialize(weft_kernel_ctx_t *c, const serialize_attrs_t *attrs) {
  weft_iterator_resource_t *r = NULL;
  weft_traversal_t *n = NULL;
  weft_status_t *s = weft_iterator_in(c, 0, &r);
  if (s == NULL) s = weft_iterator_resource_traversal(r, &n);
  if (s != NULL) {
    if (r != NULL) weft_object_release((weft_object_t *)r);
    c->done(c, s);
    return;
  }
  start_job(c, r, n, attrs->external_state_policy == WEFT_STATE_FAIL, boxed);
}

/* Sets output i to the message of `problem` (consumed); "" if there is none. What only stopped the execution
 * is its failure. */
static weft_status_t *answer(weft_kernel_ctx_t *c, int i, weft_status_t *problem) {
  weft_tensor_t *t = NULL;
  if (weft_status_code(problem) == WEFT_CANCELLED || weft_status_code(problem) == WEFT_RESOURCE_EXHAUSTED)
    return problem;
  weft_status_t *s =
      weft_tensor_string(problem == NULL ? WEFT_STR("") : weft_str(weft_status_message(problem)), &t);
  weft_status_free(problem);
  if (s == NULL) weft_out_set(c, i, t);
  return s;
}

/* Outputs: the state (consumed; NULL: ""), and why there is none. */
static weft_status_t *set_state(weft_kernel_ctx_t *c, weft_tensor_t *state, weft_status_t *problem) {
  weft_status_t *s = state != NULL ? NULL : weft_tensor_string(WEFT_STR(""), &state);
  if (s != NULL) {
    weft_status_free(problem);
    return s;
  }
  weft_out_set(c, 0, state);
  return answer(c, 1, problem);
}

static void stated(void *arg, weft_status_t *s, weft_iterator_t *root) {
  state_job_t *j = arg;
  weft_tensor_t *state = NULL;
  if (s == NULL) s = bytes_of(root, false, &state);
  end_job(j, set_state(j->c, state, s));
}

static weft_status_t *dealt_out(void) {
  return WEFT_ERROR(
      UNIMPLEMENTED,
      "it is a multi-device iterator: elements that its devices have not taken yet are not kept");
}

/* An iterator that is not initialised has no state, and no problem. */
static void get_state(weft_kernel_ctx_t *c) {
  if (weft_is_multi_device(c, 0)) {
    c->done(c, set_state(c, NULL, dealt_out()));
    return;
  }
  weft_iterator_resource_t *r = NULL;
  weft_traversal_t *n = NULL;
  weft_status_t *s = weft_iterator_in(c, 0, &r);
  if (s == NULL) s = weft_iterator_resource_traversal(r, &n);
  if (s == NULL) {
    start_job(c, r, n, false, stated);
    return;
  }
  if (r != NULL) {
    weft_object_release((weft_object_t *)r);
    weft_status_free(s);
    s = set_state(c, NULL, NULL);
  }
  c->done(c, s);
}

/* ---- restoring ---- */

static weft_status_t *load(weft_kernel_ctx_t *c, weft_str_t bytes, weft_iterator_t *root) {
  weft_saved_t saved;
  WEFT_RETURN_IF_ERROR(weft_saved_open(&saved, bytes, c->device));
  weft_status_t *s = weft_iterator_load(root, &saved);
  if (s == NULL && saved.rest.length != 0) s = weft_saved_broken("something follows it");
  return s;
}

static weft_status_t *load_boxed(weft_kernel_ctx_t *c, weft_iterator_t *root) {
  const weft_tensor_t *t = weft_in(c, 1);
  const weft_pack_t *box = t->count == 1 ? weft_pack_at(t, 0, &weft_boxed_type) : NULL;
  if (box == NULL || box->count != 1 || box->items[0]->dtype != WEFT_STRING || box->items[0]->count != 1)
    return WEFT_ERROR(INVALID_ARGUMENT, "serialized is not the state of an iterator");
  return load(c, weft_tensor_str_at(box->items[0], 0), root);
}

static void unboxed(void *arg, weft_status_t *s, weft_iterator_t *root) {
  state_job_t *j = arg;
  if (s == NULL) s = load_boxed(j->c, root);
  end_job(j, s);
}

/* What was read in part is not gone on with: the data begin anew. */
static void restored(void *arg, weft_status_t *s, weft_iterator_t *root) {
  state_job_t *j = arg;
  weft_traversal_t *anew = NULL;
  if (s == NULL) s = load(j->c, weft_tensor_str_at(weft_in(j->c, 1), 0), root);
  if (s != NULL) {
    weft_status_free(weft_iterator_resource_renew(j->resource, j->c->device, &anew));
    weft_traversal_release(anew);
  }
  end_job(j, answer(j->c, 0, s));
}

/* A new pass through the data set that the iterator was initialised with, to where the state stands. */
static weft_status_t *start_restoring(weft_kernel_ctx_t *c, weft_traversal_fn *fn) {
  weft_iterator_resource_t *r = NULL;
  weft_traversal_t *n = NULL;
  weft_status_t *s = weft_iterator_in(c, 0, &r);
  if (s == NULL) s = weft_iterator_resource_renew(r, c->device, &n);
  if (s == NULL) {
    start_job(c, r, n, false, fn);
  } else if (r != NULL) {
    weft_object_release((weft_object_t *)r);
  }
  return s;
}

static void deserialize(weft_kernel_ctx_t *c) {
  weft_status_t *s = start_restoring(c, unboxed);
  if (s != NULL) c->done(c, s);
}

static void restore(weft_kernel_ctx_t *c) {
  const weft_tensor_t *state = weft_in(c, 1);
  if (weft_is_multi_device(c, 0)) {
    c->done(c, answer(c, 0, dealt_out()));
    return;
  }
  weft_status_t *s = state->count == 1
                         ? start_restoring(c, restored)
                         : WEFT_ERROR(INVALID_ARGUMENT, "state must be a scalar, but has shape %s",
                                      WEFT_SHAPE_TEXT(&state->shape));
  if (s != NULL) c->done(c, weft_status_code(s) == WEFT_FAILED_PRECONDITION ? answer(c, 0, s) : s);
}

/* ---- waits ---- */

static weft_status_t *waits_compute(weft_kernel_ctx_t *c) {
  weft_iterator_resource_t *r = NULL;
  weft_waits_t waits;
  if (weft_is_multi_device(c, 0)) {
    WEFT_RETURN_IF_ERROR(weft_multi_device_waits(c, 0, &waits));
  } else {
    WEFT_RETURN_IF_ERROR(weft_iterator_in(c, 0, &r));
    weft_iterator_resource_waits(r, &waits);
    weft_object_release((weft_object_t *)r);
  }
  const int64_t values[] = {waits.waited_ns, waits.delivered, waits.buffered, waits.budget};
  for (int i = 0; i < 4; i++) {
    weft_tensor_t *t = NULL;
    WEFT_RETURN_IF_ERROR(weft_tensor_scalar(WEFT_I64, &values[i], &t));
    weft_out_set(c, i, t);
  }
  weft_tensor_t *device = NULL;
  WEFT_RETURN_IF_ERROR(weft_tensor_string(c->device->name, &device));
  weft_out_set(c, 4, device);
  return NULL;
}

const weft_kernel_t weft_cpu_dataset_iterator_state_kernels[] = {
    {.op = "DeserializeIterator", .compute_async = deserialize},
    {.op = "SerializeIterator", WEFT_COMPUTE_ASYNC(serialize)},
    {.op = "WeftIteratorRestore", .compute_async = restore},
    {.op = "WeftIteratorState", .compute_async = get_state},
    {.op = "WeftIteratorWaits", .compute = waits_compute},
    {0},
};
