/* strategies/shard_save.c - a saver writes a sharded variable as slices of one tensor, under the variable's
 * own name.
 *
 * Restored whole or in other shards, it is one tensor.
 */
#include <inttypes.h>

#include "strategies/shard_plan.h"

static weft_status_t *no_memory(void) { return WEFT_NO_MEMORY("saving shards"); }

static const weft_tensor_t *constant(const weft_node_t *n, int input) {
  const weft_attr_t *value = weft_node_attr(n->inputs[input].node, "value");
  bool is_text = (n->inputs[input].node->flags & WEFT_OP_CONST) != 0 && value != NULL &&
                 value->kind == WEFT_ATTR_TENSOR && value->tensor->dtype == WEFT_STRING;
  return is_text ? value->tensor : NULL;
}

enum { FIRST_TENSOR = 3 }; /* after prefix, names, slices */

/* The sharded variable that input 3 + i saves whole; NULL: none. */
static weft_shard_t *saved(const weft_shard_plan_t *plan, const weft_node_t *n, const weft_tensor_t *slices,
                           int64_t i) {
  return weft_tensor_str_at(slices, i).length > 0 ? NULL
                                                  : weft_shard_behind(plan, n, (int)i + FIRST_TENSOR, false);
}

/* "10 4 0,3:-": rows [0, 3) of a matrix of 10 rows. */
static void print_slice(const weft_shard_t *v, int64_t i, weft_strbuf_t *out) {
  int64_t begin, rows;
  weft_shard_rows(v->shape.dims[0], v->n, i, &begin, &rows);
  for (int d = 0; d < v->shape.rank; d++) weft_strbuf_printf(out, "%" PRId64 " ", v->shape.dims[d]);
  weft_strbuf_printf(out, "%" PRId64 ",%" PRId64, begin, rows);
  for (int d = 1; d < v->shape.rank; d++) weft_strbuf_puts(out, ":-");
}

typedef struct lists {           /* The inputs of SaveV2, as they are extended. */
  weft_tensor_t *names, *slices; /* owned */
  weft_output_t *in;             /* in the plan's arena */
  int64_t n;
} lists_t;

static weft_status_t *append(weft_shard_plan_t *plan, lists_t *to, weft_str_t name, weft_str_t slice,
                             weft_output_t value) {
  (void)plan;
  WEFT_RETURN_IF_ERROR(weft_tensor_set_str(to->names, to->n, name));
  WEFT_RETURN_IF_ERROR(weft_tensor_set_str(to->slices, to->n, slice));
  to->in[FIRST_TENSOR + to->n] = value;
  to->n++;
  return NULL;
}

static weft_status_t *append_shards(weft_shard_plan_t *plan, lists_t *to, const weft_node_t *read,
                                    weft_shard_t *v, weft_str_t name) {
  for (int64_t i = 0; i < v->n; i++) {
    weft_strbuf_t text = WEFT_STRBUF_INIT;
    print_slice(v, i, &text);
    weft_output_t value = weft_shard_read(plan, v, i, read);
    weft_status_t *s = weft_emitter_end(&plan->b);
    if (s == NULL && text.failed) s = no_memory();
    if (s == NULL) s = append(plan, to, name, weft_str_of(text.data, text.length), value);
    weft_strbuf_deinit(&text);
    if (s != NULL) return s;
  }
  return NULL;
}

static weft_status_t *make_lists(weft_shard_plan_t *plan, const weft_node_t *n, const weft_tensor_t *names,
                                 const weft_tensor_t *slices, lists_t *out) {
  int64_t total = 0;
  for (int64_t i = 0; i < names->count; i++) {
    const weft_shard_t *v = saved(plan, n, slices, i);
    total += v == NULL ? 1 : v->n;
  }
  const weft_shape_t shape = weft_shape_vector(total);
  out->in = weft_arena_calloc(&plan->l.arena, (size_t)total + FIRST_TENSOR, sizeof *out->in);
  if (out->in == NULL) return no_memory();
  WEFT_RETURN_IF_ERROR(weft_tensor_new(WEFT_STRING, &shape, NULL, &out->names));
  WEFT_RETURN_IF_ERROR(weft_tensor_new(WEFT_STRING, &shape, NULL, &out->slices));
  for (int64_t i = 0; i < names->count; i++) {
    weft_shard_t *v = saved(plan, n, slices, i);
    weft_str_t name = weft_tensor_str_at(names, i);
    const weft_output_t from = n->inputs[i + FIRST_TENSOR];
    WEFT_RETURN_IF_ERROR(v != NULL ? append_shards(plan, out, from.node, v, name)
                                   : append(plan, out, name, weft_tensor_str_at(slices, i),
                                            weft_copier_output(&plan->c, from)));
  }
  return NULL;
}

void weft_shard_rewrite_save(weft_shard_plan_t *plan, const weft_node_t *n, bool *done) {
  if ((n->flags & WEFT_OP_SAVE) == 0 || n->num_inputs < FIRST_TENSOR) return;
  const weft_tensor_t *names = constant(n, 1), *slices = constant(n, 2);
  if (names == NULL || slices == NULL || names->count != slices->count ||
      names->count != n->num_inputs - FIRST_TENSOR)
    return;
  bool any = false;
  for (int64_t i = 0; i < names->count; i++) any = any || saved(plan, n, slices, i) != NULL;
  if (!any) return;
  weft_emitter_t *b = &plan->b;
  lists_t to = {0};
  *done = true;
  if (!weft_emitter_fail(b, make_lists(plan, n, names, slices, &to))) {
    b->scope = n->name;
    to.in[0] = weft_copier_output(&plan->c, n->inputs[0]);
    to.in[1] = weft_emit_const(b, weft_tensor_retain(to.names), "/names");
    to.in[2] = weft_emit_const(b, weft_tensor_retain(to.slices), "/slices");
    b->scope = WEFT_STR("");
    weft_output_t save =
        weft_emit(b, "SaveV2", to.in, (int)to.n + FIRST_TENSOR, NULL, 0, "%.*s", WEFT_STR_ARGS(n->name));
    weft_shard_like(plan, n, save);
    if (b->s == NULL) weft_emitter_fail(b, weft_copier_set_node(&plan->c, n, save.node));
  }
  weft_tensor_release(to.names);
  weft_tensor_release(to.slices);
}
