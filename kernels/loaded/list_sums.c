/* kernels/loaded/list_sums.c - sums of elements of tensor lists and arrays that lie in a device's memory.
 *
 * The gradient of a loop that reads a list adds lists up, of which most elements are not there: those that
 * only one list has are passed on. Elements that several have are brought into the device's memory, and added
 * by the device's AddV2.
 */
#include "base/alloc.h"
#include "device/queue.h"
#include "device/transfer.h"
#include "kernels/cpu/list/variant.h"
#include "kernels/loaded/context.h"
#include "resources/tensor_list.h"

typedef struct list_sum {
  weft_kernel_ctx_t *c;
  int64_t count;                      /* of each list */
  const weft_tensor_list_t *lists[1]; /* num_inputs */
} list_sum_t;

static const weft_kernel_t *find_add(const weft_kernel_ctx_t *c, weft_dtype_t dtype) {
  const weft_named_attr_t t = {WEFT_STR("T"), {.kind = WEFT_ATTR_TYPE, .type = (int)dtype}};
  const weft_kernel_t *k = weft_kernel_find(c->device->type, WEFT_STR("AddV2"), &t, 1);
  return k != NULL && k->compute != NULL && k->host_inputs == 0 && k->host_outputs == 0 ? k : NULL;
}

/* x + y, of one type and shape, in the memory of the device, where they lie. */
static weft_status_t *add(void *arg, const weft_tensor_t *x, const weft_tensor_t *y, weft_tensor_t **out) {
  const weft_kernel_ctx_t *c = arg;
  const weft_kernel_t *k = find_add(c, x->dtype);
  const weft_named_attr_t t = {WEFT_STR("T"), {.kind = WEFT_ATTR_TYPE, .type = (int)x->dtype}};
  const int types[] = {(int)x->dtype, (int)x->dtype};
  weft_kernel_setup_t setup = {.node = *c->node, .attrs = &t, .num_attrs = 1, .reads = k->reads};
  setup.node.op_name = WEFT_STR("AddV2");
  setup.node.op = weft_op_find(setup.node.op_name);
  setup.node.num_inputs = 2;
  setup.node.num_outputs = 1;
  setup.node.input_types = setup.node.output_types = types;
  setup.node.param = k->param;
  setup.node.host_outputs = k->host_outputs;
  weft_value_t in[2] = {{.tensor = weft_tensor_retain((weft_tensor_t *)(uintptr_t)x)},
                        {.tensor = weft_tensor_retain((weft_tensor_t *)(uintptr_t)y)}};
  weft_value_t sum = {.tensor = NULL};
  weft_kernel_ctx_t ctx = *c;
  ctx.node = &setup.node;
  ctx.state = NULL;
  ctx.inputs = in;
  ctx.outputs = &sum;
  for (int i = 0; i < 2; i++) weft_queue_wait(c->queue, in[i].tensor->fence);
  weft_status_t *s = k->prepare == NULL ? NULL : k->prepare(&setup, &ctx.state);
  const bool is_prepared = s == NULL;
  if (s == NULL) s = k->compute(&ctx);
  if (is_prepared && k->destroy != NULL) k->destroy(ctx.state);
  for (int i = 0; i < 2; i++) weft_tensor_release(in[i].tensor);
  if (s == NULL && sum.tensor->fence.value == WEFT_FENCE_PENDING)
    sum.tensor->fence = weft_queue_mark(c->queue);
  if (s == NULL) *out = sum.tensor;
  if (s != NULL) weft_tensor_release(sum.tensor);
  return s;
}

/* Of tensor arrays, whose ops are all on one device: nothing is to be copied, unless a value is the zeros of
 * the host or of a type that the device does not add. */
static weft_status_t *add_values(weft_kernel_ctx_t *c, const weft_tensor_t *x, const weft_tensor_t *y,
                                 weft_tensor_t **out) {
  weft_tensor_t *here[2] = {NULL, NULL};
  if (find_add(c, x->dtype) == NULL) return weft_add_alike(x, y, out);
  weft_status_t *s = weft_tensor_at_sync((weft_tensor_t *)(uintptr_t)x, c->device->space, &here[0]);
  if (s == NULL) s = weft_tensor_at_sync((weft_tensor_t *)(uintptr_t)y, c->device->space, &here[1]);
  if (s == NULL) s = add(c, here[0], here[1], out);
  for (int i = 0; i < 2; i++) weft_tensor_release(here[i]);
  return s;
}
const weft_device_add_t weft_loaded_add = {add_values};

/* A list with the elements that were brought here, else its own. */
static weft_status_t *with_moved(const weft_tensor_list_t *l, weft_tensor_t *const *moved,
                                 weft_tensor_list_t **out) {
  WEFT_RETURN_IF_ERROR(weft_tensor_list_copy(l, out));
  for (int64_t i = 0; i < l->count; i++) {
    if (moved[i] == NULL) continue;
    weft_tensor_release((*out)->items[i]);
    (*out)->items[i] = weft_tensor_retain(moved[i]);
  }
  return NULL;
}

static weft_status_t *add_up(const list_sum_t *x, weft_tensor_t *const *moved) {
  const weft_element_add_t adder = {add, x->c};
  weft_tensor_list_t *sum = NULL;
  weft_tensor_t *t = NULL;
  weft_status_t *s = with_moved(x->lists[0], moved, &sum);
  for (int i = 1; s == NULL && i < x->c->node->num_inputs; i++) {
    weft_tensor_list_t *other = NULL, *next = NULL;
    s = with_moved(x->lists[i], &moved[i * x->count], &other);
    if (s == NULL) s = weft_add_lists(sum, other, &adder, &next);
    if (other != NULL) weft_variant_release(&other->variant);
    weft_variant_release(&sum->variant);
    sum = next;
  }
  if (s == NULL) s = weft_tensor_new(WEFT_VARIANT, &WEFT_SCALAR, NULL, &t);
  if (s != NULL) {
    if (sum != NULL) weft_variant_release(&sum->variant);
    return s;
  }
  ((weft_variant_t **)t->data)[0] = &sum->variant;
  weft_out_set(x->c, 0, t);
  return NULL;
}

static void on_there(void *arg, weft_status_t *status, weft_tensor_t **moved, int64_t n) {
  list_sum_t *x = arg;
  weft_kernel_ctx_t *c = x->c;
  if (status == NULL) status = add_up(x, moved);
  weft_tensors_free(moved, n);
  weft_free(x);
  c->done(c, status);
}

/* Are all inputs lists of as many elements, of a type that the device adds? */
static bool are_lists(const weft_kernel_ctx_t *c, list_sum_t *x) {
  for (int i = 0; i < c->node->num_inputs; i++) {
    weft_status_t *s = weft_tensor_list_of(weft_in(c, i), &x->lists[i]);
    if (s != NULL) {
      weft_status_free(s); /* another variant, which the CPU's kernel adds or refuses */
      return false;
    }
    if (x->lists[i]->count != x->lists[0]->count || x->lists[i]->dtype != x->lists[0]->dtype) return false;
  }
  x->count = x->lists[0]->count;
  return find_add(c, x->lists[0]->dtype) != NULL;
}

static void add_n(weft_kernel_ctx_t *c) {
  const int n = c->node->num_inputs;
  list_sum_t *x = weft_calloc(1, sizeof *x + (size_t)n * sizeof(void *));
  if (x == NULL) {
    c->done(c, WEFT_NO_MEMORY("a sum of lists"));
    return;
  }
  x->c = c;
  if (!are_lists(c, x)) {
    weft_free(x);
    c->done(c, weft_add_n_variants(c));
    return;
  }
  weft_tensor_t **wanted = weft_calloc((size_t)(n * x->count) + 1, sizeof(weft_tensor_t *));
  if (wanted == NULL) {
    weft_free(x);
    c->done(c, WEFT_NO_MEMORY("a sum of lists"));
    return;
  }
  for (int64_t i = 0; i < x->count; i++) {
    int present = 0;
    for (int k = 0; k < n; k++) present += x->lists[k]->items[i] != NULL;
    for (int k = 0; k < n && present > 1; k++) wanted[k * x->count + i] = x->lists[k]->items[i];
  }
  weft_tensors_at(wanted, n * x->count, c->device->space, on_there, x); /* `x` may be gone afterwards */
  weft_free(wanted);
}

const weft_kernel_t weft_loaded_add_lists_kernel = {
    .op = "AddN", .type_attr = "T", .types = WEFT_DTYPE_BIT(WEFT_VARIANT), .compute_async = add_n};
