/* kernels/cpu/optimizer/updates_together.c - _WeftUpdates: updates of many small variables in one call.
 *
 * The members run one after the other, each as the node that it was: with its own locks, its own checks and
 * its own failure. So what is seen from outside is what one order of the nodes gives, and nothing is done
 * that a member alone does not do. What is saved is what a node costs beside its arithmetic.
 */
#include <string.h>

#include "base/alloc.h"
#include "kernels/cpu/optimizer/optimizer.h"
#include "kernels/updates.h"

typedef struct opt_members {
  const weft_kernel_t *kernel;    /* of each member */
  void *state;                    /* likewise: their attributes are equal */
  weft_named_attr_t *attrs;       /* owned; what `state` was prepared of */
  int n, num_inputs, num_outputs; /* num_...: of a member */
  weft_kernel_node_t nodes[];
} opt_members_t;

static void destroy(void *state) {
  opt_members_t *x = state;
  if (x->state != NULL) x->kernel->destroy(x->state);
  weft_free(x->attrs);
  weft_free(x);
}

/* The row of the members' op; NULL: there is none that joins. */
static const weft_kernel_t *find_row(weft_str_t op) {
  const weft_kernel_t *k = weft_cpu_optimizer_kernels;
  while (k->op != NULL && !(weft_str_is(op, k->op) && k->joins)) k++;
  return k->op == NULL ? NULL : k;
}

static weft_status_t *describe(const weft_kernel_setup_t *setup, const weft_updates_t *u, opt_members_t *x) {
  WEFT_RETURN_IF_ERROR(weft_updates_member_attrs(u->op, setup->attrs, setup->num_attrs, x->attrs));
  x->kernel = find_row(u->op->name);
  if (x->kernel == NULL)
    return WEFT_ERROR(INTERNAL, "updates of %.*s are not computed together", WEFT_STR_ARGS(u->op->name));
  for (int m = 0; m < u->n; m++) weft_updates_member_node(&setup->node, u, x->kernel, m, &x->nodes[m]);
  x->n = u->n;
  x->num_inputs = u->num_inputs;
  x->num_outputs = u->num_outputs;
  return weft_updates_members_prepare(setup, u, x->kernel, x->attrs, &x->state);
}

static weft_status_t *prepare(const weft_kernel_setup_t *setup, void **out_state) {
  weft_updates_t u;
  WEFT_RETURN_IF_ERROR(weft_updates_read(setup->attrs, setup->num_attrs, &u));
  opt_members_t *x = weft_calloc(1, sizeof *x + (size_t)u.n * sizeof x->nodes[0]);
  if (x == NULL) return WEFT_NO_MEMORY("preparing %d updates", u.n);
  x->attrs = weft_calloc((size_t)u.op->num_attrs + 1, sizeof *x->attrs);
  weft_status_t *s = x->attrs == NULL ? WEFT_NO_MEMORY("preparing %d updates", u.n) : describe(setup, &u, x);
  if (s != NULL) {
    destroy(x);
    return s;
  }
  *out_state = x;
  return NULL;
}

static weft_status_t *compute(weft_kernel_ctx_t *ctx) {
  const opt_members_t *x = ctx->state;
  weft_kernel_ctx_t c = *ctx;
  c.state = x->state;
  for (int m = 0; m < x->n; m++) {
    c.node = &x->nodes[m];
    weft_status_t *s = weft_opt_compute(&c);
    if (s != NULL) {
      ctx->failed = c.node;
      return s;
    }
    c.inputs += x->num_inputs;
    c.outputs += x->num_outputs;
  }
  return NULL;
}

const weft_kernel_t weft_cpu_updates_kernels[] = {
    {.op = "_WeftUpdates", .prepare = prepare, .compute = compute, .destroy = destroy},
    {0},
};
