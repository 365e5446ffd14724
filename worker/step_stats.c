/* worker/step_stats.c - what the executor recorded, as TensorFlow's StepStats.
 *
 * Field numbers: reference 2.5. The label "name = Op(inputs)" is what the
 * Python timeline parses.
 */
#include <stdio.h>

#include "base/clock.h"
#include "protos/wire.h"
#include "tensor/shape_proto.h"
#include "worker/worker_impl.h"

static void put_label(weft_strbuf_t *out, const weft_kernel_node_t *n, const weft_plan_inputs_t *inputs) {
  weft_strbuf_t label = WEFT_STRBUF_INIT;
  weft_strbuf_printf(&label, "%.*s = %.*s(", WEFT_STR_ARGS(n->name), WEFT_STR_ARGS(n->op_name));
  weft_plan_inputs_print(inputs, n, &label);
  weft_strbuf_putc(&label, ')');
  weft_wire_put_bytes(out, 8, weft_str_of(label.data, label.length));
  if (label.failed) out->failed = true;
  weft_strbuf_deinit(&label);
}

static void put_output(weft_strbuf_t *out, const weft_node_stats_t *s) {
  size_t output = weft_wire_begin(out, 7);
  size_t description = weft_wire_begin(out, 3);
  weft_wire_put_i64(out, 1, s->first_dtype);
  size_t shape = weft_wire_begin(out, 2);
  weft_shape_to_proto(&s->first_shape, out);
  weft_wire_end(out, shape);
  size_t allocation = weft_wire_begin(out, 4);
  weft_wire_put_i64(out, 1, (int64_t)s->output_bytes);
  weft_wire_put_i64(out, 2, (int64_t)s->output_bytes);
  weft_wire_put_text(out, 3, s->node->device->allocator->name);
  weft_wire_end(out, allocation);
  weft_wire_end(out, description);
  weft_wire_end(out, output);
}

/* Transfers are recorded where they are made (worker/transfer_log.h). */
static bool is_transfer(const weft_kernel_node_t *n) {
  return (n->op->flags & (WEFT_OP_SEND | WEFT_OP_RECV)) != 0;
}

/* AllocatorMemoryUsed: what the output took. */
static void put_memory(weft_strbuf_t *out, const weft_node_stats_t *s) {
  size_t memory = weft_wire_begin(out, 6);
  weft_wire_put_text(out, 1, s->node->device->allocator->name);
  for (uint32_t number = 2; number <= 4; number++) weft_wire_put_i64(out, number, (int64_t)s->output_bytes);
  weft_wire_end(out, memory);
}

/* What the device's tensors take by now, and took at most, by what they are for: told once, with the first
 * node. Names are "account/param", ...; field 4 what is in use, 3 the most so far. */
static void put_accounts(weft_strbuf_t *out, const weft_device_t *d) {
  for (int tag = 0; d->memory != NULL && tag < WEFT_NUM_MEMORY_TAGS; tag++) {
    int64_t most = weft_memory_high_water(d->memory, (weft_memory_tag_t)tag, false);
    char name[40];
    if (most == 0) continue;
    snprintf(name, sizeof name, "account/%s", weft_memory_tag_name((weft_memory_tag_t)tag));
    size_t memory = weft_wire_begin(out, 6);
    weft_wire_put_text(out, 1, name);
    weft_wire_put_i64(out, 3, most);
    weft_wire_put_i64(out, 4, weft_memory_in_use(d->memory, (weft_memory_tag_t)tag));
    weft_wire_end(out, memory);
  }
}

static void put_cost(weft_strbuf_t *out, const weft_node_stats_t *s) {
  weft_wire_put_i64(out, WEFT_NODE_STATS_INPUT_BYTES, (int64_t)s->input_bytes);
  if (s->flops >= 0) weft_wire_put_i64(out, WEFT_NODE_STATS_FLOPS, s->flops);
}

static void put_node(weft_strbuf_t *out, const weft_plan_inputs_t *inputs, const weft_node_stats_t *s,
                     int64_t wall_offset_ns, bool is_first, bool for_observer) {
  int64_t scheduled = s->scheduled_ns + wall_offset_ns, start = s->start_ns + wall_offset_ns;
  int64_t took = s->end_ns - s->start_ns;
  size_t node = weft_wire_begin(out, 2);
  weft_wire_put_bytes(out, 1, s->node->name);
  weft_wire_put_i64(out, 2, start / 1000);
  weft_wire_put_i64(out, 4, took / 1000);
  weft_wire_put_i64(out, 5, took / 1000);
  if (s->output_bytes > 0) put_memory(out, s);
  if (is_first) put_accounts(out, s->node->device);
  if (s->first_dtype != WEFT_DTYPE_INVALID) put_output(out, s);
  put_label(out, s->node, inputs);
  weft_wire_put_i64(out, 9, scheduled / 1000);
  weft_wire_put_i64(out, 10, s->thread);
  weft_wire_put_i64(out, 13, start);
  weft_wire_put_i64(out, 15, took);
  weft_wire_put_i64(out, 16, took);
  weft_wire_put_i64(out, 17, scheduled);
  if (for_observer) put_cost(out, s);
  weft_wire_end(out, node);
}

static void put_device(weft_strbuf_t *out, const weft_device_t *d, const weft_plan_inputs_t *inputs,
                       const weft_step_recorder_t *r, bool for_observer) {
  int64_t wall_offset_ns = weft_clock_micros() * 1000 - weft_clock_ns();
  size_t stats = weft_wire_begin(out, 1);
  weft_wire_put_bytes(out, 1, d->name);
  bool is_first = true;
  for (size_t i = 0; i < r->count; i++) {
    const weft_kernel_node_t *n = r->stats[i].node;
    if (n->device != d || is_transfer(n)) continue;
    put_node(out, inputs, &r->stats[i], wall_offset_ns, is_first, for_observer);
    is_first = false;
  }
  weft_wire_end(out, stats);
}

void weft_step_stats_encode(const weft_devices_t *devices, const weft_exec_plan_t *p,
                            const weft_step_recorder_t *r, bool for_observer, weft_strbuf_t *out) {
  weft_plan_inputs_t *inputs = NULL;
  weft_status_t *s = weft_plan_inputs_create(p, &inputs);
  if (s != NULL) {
    out->failed = true;
    weft_status_free(s);
    return;
  }
  for (int d = 0; d < devices->n; d++) {
    bool did_something = devices->n == 1;
    for (size_t i = 0; i < r->count && !did_something; i++)
      did_something = r->stats[i].node->device == devices->all[d];
    if (did_something) put_device(out, devices->all[d], inputs, r, for_observer);
  }
  weft_plan_inputs_destroy(inputs);
}
