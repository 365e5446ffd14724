/* strategies/replicate_alike.c - see the header.
 *
 * Equal reductions are not enough: with another optimizer or another rate on one worker, all workers would
 * run and the copies would drift apart unnoticed. So every update of the step has a fingerprint: of its op,
 * its attributes and, through its inputs, of all that it is made from. The sum over updates is compared once,
 * before initial values are sent.
 *
 * What may differ between workers of one program is left out: names and devices, seeds (all workers start
 * from the first worker's initial values), and constants of integers and strings (such as the shard of the
 * input to read); their effect on shapes is in the shapes of variables. The order in which nodes were created
 * does not count either.
 */
#include "strategies/replicate_alike.h"

#include "base/alloc.h"

static uint64_t mix(uint64_t h, uint64_t x) { /* the finalizer of SplitMix64, chained */
  h = (h ^ x) + UINT64_C(0x9e3779b97f4a7c15);
  h = (h ^ (h >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
  h = (h ^ (h >> 27)) * UINT64_C(0x94d049bb133111eb);
  return h ^ (h >> 31);
}

static uint64_t mix_text(uint64_t h, weft_str_t s) { return mix(h, weft_str_hash64(s)); }

static uint64_t mix_shape(uint64_t h, const weft_shape_t *shape) {
  h = mix(h, (uint64_t)shape->rank);
  for (int i = 0; i < shape->rank; i++) h = mix(h, (uint64_t)shape->dims[i]);
  return h;
}

/* ---- attributes ---- */

static bool may_differ(weft_str_t name) {
  static const char *const names[] = {"seed", "seed2", "shared_name", "container"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    if (weft_str_is(name, names[i])) return true;
  }
  return name.length > 0 && name.data[0] == '_';
}

static uint64_t mix_tensor(uint64_t h, const weft_tensor_t *t) {
  h = mix(h, (uint64_t)t->dtype);
  if (!weft_dtype_is_floating(t->dtype) && !weft_dtype_is_complex(t->dtype)) return h;
  h = mix_shape(h, &t->shape);
  return mix_text(h, weft_str_of(t->data, t->bytes));
}

static uint64_t float_bits(float f) {
  uint32_t bits;
  memcpy(&bits, &f, sizeof bits);
  return bits;
}

static uint64_t mix_list(uint64_t h, const weft_attr_t *a) {
  for (int i = 0; i < a->n; i++) {
    switch (a->kind) {
      case WEFT_ATTR_STRING: h = mix_text(h, a->list.strings[i]); break;
      case WEFT_ATTR_INT: h = mix(h, (uint64_t)a->list.ints[i]); break;
      case WEFT_ATTR_FLOAT: h = mix(h, float_bits(a->list.floats[i])); break;
      case WEFT_ATTR_BOOL: h = mix(h, a->list.bools[i]); break;
      case WEFT_ATTR_TYPE: h = mix(h, (uint64_t)a->list.types[i]); break;
      case WEFT_ATTR_SHAPE: h = mix_shape(h, &a->list.shapes[i]); break;
      default: break; /* functions have been inlined, or are called by names that differ */
    }
  }
  return h;
}

static uint64_t mix_attr(uint64_t h, const weft_named_attr_t *a) {
  h = mix_text(h, a->name);
  if (a->value.is_list) return mix_list(h, &a->value);
  switch (a->value.kind) {
    case WEFT_ATTR_STRING: return mix_text(h, a->value.s);
    case WEFT_ATTR_INT: return mix(h, (uint64_t)a->value.i);
    case WEFT_ATTR_FLOAT: return mix(h, float_bits(a->value.f));
    case WEFT_ATTR_BOOL: return mix(h, a->value.b);
    case WEFT_ATTR_TYPE: return mix(h, (uint64_t)a->value.type);
    case WEFT_ATTR_SHAPE: return mix_shape(h, a->value.shape);
    case WEFT_ATTR_TENSOR: return mix_tensor(h, a->value.tensor);
    default: return h;
  }
}

/* ---- nodes ---- */

/* `prints`: the fingerprints of its inputs. The back edge of a loop adds nothing: its source is also reached
 * from inside the loop. */
static uint64_t print_of(const weft_node_t *n, const uint64_t *prints) {
  uint64_t h = mix_text(1, n->op->name), controls = 0;
  for (int i = 0; i < n->num_attrs; i++) {
    if (!may_differ(n->attrs[i].name)) h = mix_attr(h, &n->attrs[i]);
  }
  for (int i = 0; i < n->num_inputs; i++)
    h = mix(mix(h, (uint64_t)n->inputs[i].index), prints[n->inputs[i].node->id]);
  for (int i = 0; i < n->num_controls; i++) controls += prints[n->controls[i]->id]; /* in any order */
  return mix(h, controls);
}

static weft_status_t *print_step(weft_replication_t *r, const bool *in_step, uint64_t *out) {
  uint64_t *prints = weft_calloc((size_t)r->source.graph->num_nodes + 1, sizeof *prints),
           sum = r->fingerprint + r->agreement;
  if (prints == NULL) return WEFT_NO_MEMORY("the fingerprint of a graph");
  for (int at = 0; at < r->source.graph->num_live; at++) {
    const weft_node_t *n = r->order[at];
    if (!in_step[n->id]) continue;
    prints[n->id] = print_of(n, prints);
    if ((n->flags & WEFT_OP_UPDATE) != 0) sum += prints[n->id];
  }
  weft_free(prints);
  *out = sum;
  return NULL;
}

/* ---- the comparison ---- */

weft_status_t *weft_replication_check_alike(weft_replication_t *r, const bool *in_step,
                                            weft_node_t **checks) {
  weft_emitter_t *e = &r->e;
  weft_output_t *values = weft_arena_calloc(&r->arena, (size_t)r->n, sizeof *values);
  uint64_t sum = 0;
  if (values == NULL) return WEFT_NO_MEMORY("the fingerprint of a graph");
  WEFT_RETURN_IF_ERROR(print_step(r, in_step, &sum));
  int64_t print = (int64_t)(sum >> 1), both[2] = {print, -print}, zero = 0,
          one = 1; /* the largest, and less the smallest */
  for (int i = 0; i < r->n && e->s == NULL; i++) {
    e->device = r->o->devices[i];
    values[i] = weft_emit_ints(e, WEFT_I64, both, 2, "replica_%d/weft/fingerprint", i);
  }
  weft_named_attr_t attrs[2] = {weft_text_attr("merge_op", WEFT_STR("Max")),
                                weft_text_attr("final_op", WEFT_STR("Id"))};
  int32_t next = r->instance_key;
  r->instance_key = 1; /* before anything that depends on the graph */
  weft_replication_collective(r, "CollectiveReduceV2", attrs, 2, "fingerprints", values);
  r->instance_key = next;
  for (int i = 0; i < r->n && e->s == NULL; i++) {
    e->device = r->o->devices[i];
    weft_output_t at0 = weft_emit_ints(e, WEFT_I64, &zero, 1, "replica_%d/weft/alike/zero", i);
    weft_output_t at1 = weft_emit_ints(e, WEFT_I64, &one, 1, "replica_%d/weft/alike/one", i);
    weft_output_t most = weft_emit3(e, "Slice", values[i], at0, at1, "replica_%d/weft/alike/most", i);
    weft_output_t least = weft_emit3(e, "Slice", values[i], at1, at1, "replica_%d/weft/alike/least", i);
    weft_output_t negative = weft_emit1(e, "Neg", least, "replica_%d/weft/alike/negative", i);
    weft_output_t equal = weft_emit2(e, "Equal", most, negative, "replica_%d/weft/alike", i);
    weft_output_t no_dims = weft_emit_ints(e, WEFT_I64, &zero, 0, "replica_%d/weft/alike/scalar", i);
    weft_output_t inputs[2] = {weft_emit2(e, "Reshape", equal, no_dims, "replica_%d/weft/is_alike", i),
                               {NULL, 0}};
    inputs[1] = weft_emit_string(e,
                                 WEFT_STR("the graph of this worker, or the checkpoint that it starts from, "
                                          "differs from that of the other workers"),
                                 "replica_%d/weft/alike/message", i);
    static const int types[1] = {WEFT_STRING};
    weft_named_attr_t t = {WEFT_STR("T"), {.kind = WEFT_ATTR_TYPE, .is_list = true, .n = 1}};
    t.value.list.types = types;
    checks[i] = weft_emit(e, "Assert", inputs, 2, &t, 1, "replica_%d/weft/alike/check", i).node;
  }
  return weft_emitter_end(e);
}
