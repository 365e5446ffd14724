/* kernels/cpu/dataset/graph_ops.c - data sets to graphs and back: DatasetToGraph, DatasetFromGraph,
 * DatasetFingerprint. */
#include <string.h>

#include "base/alloc.h"
#include "device/device_name.h"
#include "kernels/attrs.h"
#include "kernels/cpu/dataset/as_graph.h"
#include "protos/wire.h"

/* ---- devices in functions ---- */

/* The fields of a message one after the other, each with its bytes as they stand. */
static bool next_raw(weft_wire_reader_t *in, weft_wire_field_t *f, weft_str_t *raw) {
  const char *from = (const char *)in->p;
  if (!weft_wire_next(in, f)) return false;
  *raw = weft_str_of(from, (size_t)((const char *)in->p - from));
  return true;
}

/* "/device:CPU:0" of a device's whole name; "" of one that names only a task. */
static void write_local_device(weft_str_t device, weft_strbuf_t *out) {
  weft_device_name_t name;
  weft_device_text_t text;
  weft_status_t *s = weft_device_name_parse(device, &name);
  if (s != NULL) {
    weft_status_free(s);
    weft_wire_put_bytes(out, 4, device); /* which importing it will refuse */
    return;
  }
  name.has_job = name.has_replica = name.has_task = false;
  weft_wire_put_text(out, 4, weft_device_name_print(&name, &text));
}

/* NodeDef: op = 2, device = 4. Python's functions stay where Python is. */
static void write_stripped_node(weft_str_t node, weft_strbuf_t *out) {
  weft_wire_reader_t look = weft_wire_reader(node), in = weft_wire_reader(node);
  weft_wire_field_t f;
  weft_str_t raw;
  bool stays = false;
  while (weft_wire_next(&look, &f)) {
    if (f.tag == WEFT_WIRE_TAG(2, WEFT_WIRE_BYTES)) stays = weft_str_eq(f.bytes, WEFT_STR("PyFunc"));
  }
  while (next_raw(&in, &f, &raw)) {
    if (f.tag == WEFT_WIRE_TAG(4, WEFT_WIRE_BYTES) && !stays) {
      write_local_device(f.bytes, out);
    } else {
      weft_strbuf_append(out, raw);
    }
  }
}

/* Copies a message, with `write` for what is in field `number`. */
static void rewrite_field(weft_str_t message, uint32_t number, void (*write)(weft_str_t, weft_strbuf_t *),
                          weft_strbuf_t *out) {
  weft_wire_reader_t in = weft_wire_reader(message);
  weft_wire_field_t f;
  weft_str_t raw;
  while (next_raw(&in, &f, &raw)) {
    if (f.tag == WEFT_WIRE_TAG(number, WEFT_WIRE_BYTES)) {
      const size_t mark = weft_wire_begin(out, number);
      write(f.bytes, out);
      weft_wire_end(out, mark);
    } else {
      weft_strbuf_append(out, raw);
    }
  }
}

/* FunctionDef: node_def = 3; FunctionDefLibrary: function = 1; GraphDef: library = 2. */
static void write_stripped_function(weft_str_t function, weft_strbuf_t *out) {
  rewrite_field(function, 3, write_stripped_node, out);
}

static void write_stripped_library(weft_str_t library, weft_strbuf_t *out) {
  rewrite_field(library, 1, write_stripped_function, out);
}

static weft_status_t *strip_devices(weft_strbuf_t *graph) {
  weft_strbuf_t stripped = WEFT_STRBUF_INIT;
  rewrite_field(weft_str_of(graph->data, graph->length), 2, write_stripped_library, &stripped);
  weft_strbuf_deinit(graph);
  *graph = stripped;
  return graph->failed ? WEFT_NO_MEMORY("writing a data set as a graph") : NULL;
}

/* ---- to a graph ---- */

static weft_status_t *write_graph(const weft_dataset_t *d, weft_state_policy_t policy, weft_strbuf_t *out) {
  WEFT_RETURN_IF_ERROR(weft_dataset_as_graph(d, out));
  return policy == WEFT_STATE_FAIL ? weft_graph_check_external_state(weft_str_of(out->data, out->length))
                                   : NULL;
}

/* In TensorFlow's words. */
static weft_status_t *cannot(weft_status_t *s) {
  if (weft_status_code(s) == WEFT_RESOURCE_EXHAUSTED) return s;
  weft_status_t *all = WEFT_ERROR(FAILED_PRECONDITION, "Failed to serialize the input pipeline graph: %s",
                                  weft_status_message(s));
  weft_status_free(s);
  return all;
}

static weft_status_t *to_graph(weft_kernel_ctx_t *c, weft_state_policy_t policy, bool strips) {
  weft_dataset_t *d = NULL;
  weft_tensor_t *t = NULL;
  weft_strbuf_t graph = WEFT_STRBUF_INIT;
  WEFT_RETURN_IF_ERROR(weft_dataset_of(weft_in(c, 0), &d));
  weft_status_t *s = write_graph(d, policy, &graph);
  if (s == NULL && strips) s = strip_devices(&graph);
  if (s != NULL) s = cannot(s);
  if (s == NULL) s = weft_out_new(c, 0, WEFT_STRING, &WEFT_SCALAR, &t);
  if (s == NULL) s = weft_tensor_set_str(t, 0, weft_str_of(graph.data, graph.length));
  weft_strbuf_deinit(&graph);
  return s;
}

WEFT_ATTRS(to_graph_1, (BOOL, allow_stateful), (BOOL, strip_device_assignment))
static weft_status_t *to_graph_1(weft_kernel_ctx_t *c, const to_graph_1_attrs_t *attrs) {
  return to_graph(c, attrs->allow_stateful ? WEFT_STATE_WARN : WEFT_STATE_FAIL,
                  attrs->strip_device_assignment);
}

WEFT_ATTRS(to_graph_2, (INT, external_state_policy), (BOOL, strip_device_assignment))
static weft_status_t *to_graph_2(weft_kernel_ctx_t *c, const to_graph_2_attrs_t *attrs) {
  return to_graph(c, (weft_state_policy_t)attrs->external_state_policy, attrs->strip_device_assignment);
}

static weft_status_t *fingerprint(weft_kernel_ctx_t *c) {
  weft_dataset_t *d = NULL;
  weft_tensor_t *t = NULL;
  uint64_t number = 0;
  WEFT_RETURN_IF_ERROR(weft_dataset_of(weft_in(c, 0), &d));
  weft_status_t *s = weft_dataset_fingerprint(d, &number);
  if (s != NULL) return cannot(s);
  WEFT_RETURN_IF_ERROR(weft_out_new(c, 0, WEFT_U64, &WEFT_SCALAR, &t));
  *(uint64_t *)t->data = number;
  return NULL;
}

/* ---- from a graph ---- */

static weft_status_t *from_prepare(const weft_kernel_setup_t *setup, void **out_state) {
  if (setup->functions == NULL)
    return WEFT_ERROR(INVALID_ARGUMENT, "%s: a graph is run only within a graph", setup->node.name.data);
  return setup->functions->runner(setup->functions, setup->node.device, (weft_graph_runner_t **)out_state);
}

static void from_destroy(void *state) { weft_graph_runner_destroy(state); }

static void from_done(void *arg, weft_status_t *s, weft_tensor_t **results) {
  weft_kernel_ctx_t *c = arg;
  if (s == NULL && results[0]->dtype != WEFT_VARIANT) {
    s = WEFT_ERROR(INVALID_ARGUMENT, "The graph's result is of type %s, where a data set is expected",
                   weft_dtype_name(results[0]->dtype));
  }
  if (s == NULL) {
    weft_out_set(c, 0, results[0]);
    results[0] = NULL;
  }
  c->done(c, s);
}

static void from_graph(weft_kernel_ctx_t *c) {
  weft_str_t graph_def;
  weft_status_t *s = weft_dataset_in_string(c, 0, "graph_def", &graph_def);
  if (s != NULL) {
    c->done(c, s);
    return;
  }
  const weft_function_call_t call = {
      .num_results = 1, .canceller = c->step->canceller, .step = c->step, .done = from_done, .arg = c};
  weft_graph_runner_run(c->state, graph_def, &call);
}

const weft_kernel_t weft_cpu_dataset_graph_kernels[] = {
    {.op = "DatasetFingerprint", .compute = fingerprint},
    {.op = "DatasetFromGraph", .prepare = from_prepare, .compute_async = from_graph, .destroy = from_destroy},
    {.op = "DatasetToGraph", WEFT_COMPUTE(to_graph_1)},
    {.op = "DatasetToGraphV2", WEFT_COMPUTE(to_graph_2)},
    {0},
};
