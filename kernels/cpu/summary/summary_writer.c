/* kernels/cpu/summary/summary_writer.c - ops that write event files; resources/summary_writer.h has the
 * writer. */
#include "resources/summary_writer.h"

#include <limits.h>

#include "io/summary_check.h"
#include "kernels/cpu/summary/summary_common.h"
#include "kernels/state.h"
#include "protos/event.pb-c.h"
#include "protos/graph.pb-c.h"
#include "protos/unpack.h"

/* ---- the writer ---- */

typedef struct holder {
  weft_state_name_t name;
} holder_t;

static void holder_destroy(void *state) {
  holder_t *h = state;
  if (h == NULL) return;
  weft_state_name_deinit(&h->name);
  weft_free(h);
}

static weft_status_t *holder_prepare(const weft_kernel_setup_t *setup, void **out_state) {
  holder_t *h = weft_calloc(1, sizeof *h);
  if (h == NULL) return WEFT_NO_MEMORY("preparing %.*s", WEFT_STR_ARGS(setup->node.name));
  weft_status_t *s = weft_state_name_init(&h->name, setup, true);
  if (s == NULL) *out_state = h;
  if (s != NULL) holder_destroy(h);
  return s;
}

/* A handle by name alone: the writer is made by another op. */
static weft_status_t *summary_writer(weft_kernel_ctx_t *c) {
  const holder_t *h = c->state;
  const weft_shape_t scalar = WEFT_SCALAR;
  return weft_state_handle(c->device, h->name.container, h->name.name, &weft_summary_writer_type, NULL,
                           WEFT_DTYPE_INVALID, &scalar, &c->outputs[0].tensor);
}

static weft_status_t *check_scalar(const weft_kernel_ctx_t *c, int i, const char *what) {
  if (weft_in(c, i)->count == 1) return NULL;
  return WEFT_ERROR(INVALID_ARGUMENT, "%s must be a scalar", what);
}

/* What a new writer gets. */
typedef struct wish {
  weft_str_t directory, suffix;
  int32_t max_queue, flush_millis;
} wish_t;

static weft_status_t *make_writer(void *arg, weft_object_t **out) {
  const wish_t *w = arg;
  return weft_summary_writer_create(w->directory, w->suffix, w->max_queue, w->flush_millis, out);
}

static weft_status_t *create_file_writer(weft_kernel_ctx_t *c) {
  static const char *const names[] = {"writer", "logdir", "max_queue", "flush_millis", "filename_suffix"};
  const weft_handle_t *h = NULL;
  weft_object_t *o = NULL;
  WEFT_RETURN_IF_ERROR(weft_state_in_handle(c, 0, &h));
  for (int i = 1; i < 5; i++) {
    if (weft_in(c, i)->shape.rank != 0) return WEFT_ERROR(INVALID_ARGUMENT, "%s must be a scalar", names[i]);
  }
  wish_t wish = {.directory = weft_tensor_str_at(weft_in(c, 1), 0),
                 .suffix = weft_tensor_str_at(weft_in(c, 4), 0),
                 .max_queue = *(const int32_t *)weft_in(c, 2)->data,
                 .flush_millis = *(const int32_t *)weft_in(c, 3)->data};
  WEFT_RETURN_IF_ERROR(weft_resource_lookup_or_create(c->device->resources, h->container, h->name,
                                                      &weft_summary_writer_type, make_writer, &wish, &o));
  weft_object_release(o);
  return NULL;
}

static weft_status_t *flush_writer(weft_kernel_ctx_t *c) {
  weft_object_t *o = NULL;
  WEFT_RETURN_IF_ERROR(weft_state_in(c, 0, &weft_summary_writer_type, &o));
  weft_status_t *s = weft_event_file_flush(((weft_summary_writer_t *)o)->file);
  weft_object_release(o);
  return s;
}

/* What is queued is written when the last user lets go. */
static weft_status_t *close_writer(weft_kernel_ctx_t *c) {
  const weft_handle_t *h = NULL;
  WEFT_RETURN_IF_ERROR(weft_state_in_handle(c, 0, &h));
  return weft_resource_delete(c->device->resources, h->container, h->name, &weft_summary_writer_type);
}

/* ---- events: inputs writer, step, and what follows ---- */

/* Puts the event's content, one of its fields, behind time and step. */
typedef weft_status_t *put_content_fn(weft_kernel_ctx_t *c, weft_strbuf_t *event);

static weft_status_t *add_event(weft_kernel_ctx_t *c, put_content_fn *put, weft_strbuf_t *event) {
  weft_object_t *o = NULL;
  WEFT_RETURN_IF_ERROR(weft_state_in(c, 0, &weft_summary_writer_type, &o));
  weft_status_t *s = put(c, event);
  if (s == NULL && event->failed) s = WEFT_NO_MEMORY("writing an event");
  if (s == NULL)
    s = weft_event_file_add(((weft_summary_writer_t *)o)->file, weft_str_of(event->data, event->length));
  weft_object_release(o);
  return s;
}

/* A row's param: the content, and which input is the tag (0: none). */
typedef struct event_kind {
  put_content_fn *put;
  int tag;
} event_kind_t;

static weft_status_t *put_event(weft_kernel_ctx_t *c, weft_strbuf_t *event) {
  const event_kind_t *kind = c->node->param;
  WEFT_RETURN_IF_ERROR(check_scalar(c, 1, "step"));
  if (kind->tag > 0) WEFT_RETURN_IF_ERROR(check_scalar(c, kind->tag, "tag"));
  weft_event_begin(event, *(const int64_t *)weft_in(c, 1)->data);
  return kind->put(c, event);
}

static weft_status_t *write_event(weft_kernel_ctx_t *c) {
  weft_strbuf_t event = WEFT_STRBUF_INIT;
  weft_status_t *s = add_event(c, put_event, &event);
  weft_strbuf_deinit(&event);
  return s;
}

static weft_str_t tag_of(const weft_kernel_ctx_t *c) {
  const event_kind_t *kind = c->node->param;
  return weft_tensor_str_at(weft_in(c, kind->tag), 0);
}

static weft_status_t *check_number(const weft_tensor_t *t) {
  if (t->dtype != WEFT_BF16) return NULL;
  return WEFT_ERROR(UNIMPLEMENTED, "SummaryFileWriter bfloat16 not supported.");
}

static weft_status_t *put_tensor(weft_kernel_ctx_t *c, weft_strbuf_t *event) {
  WEFT_RETURN_IF_ERROR(check_scalar(c, 4, "summary_metadata"));
  weft_str_t metadata = weft_tensor_str_at(weft_in(c, 4), 0);
  size_t summary = weft_wire_begin(event, WEFT_EVENT_SUMMARY);
  WEFT_RETURN_IF_ERROR(
      weft_summary_put_tensor(event, tag_of(c), weft_in(c, 2), metadata.length > 0 ? &metadata : NULL));
  weft_wire_end(event, summary);
  return NULL;
}

static weft_status_t *put_scalar(weft_kernel_ctx_t *c, weft_strbuf_t *event) {
  WEFT_RETURN_IF_ERROR(check_number(weft_in(c, 3)));
  if (weft_in(c, 3)->count == 0) return WEFT_ERROR(INVALID_ARGUMENT, "value must have an element");
  size_t summary = weft_wire_begin(event, WEFT_EVENT_SUMMARY);
  weft_summary_put_scalar(event, tag_of(c), weft_in(c, 3), 0);
  weft_wire_end(event, summary);
  return NULL;
}

static weft_status_t *put_histogram(weft_kernel_ctx_t *c, weft_strbuf_t *event) {
  if (weft_in(c, 3)->count > 0) WEFT_RETURN_IF_ERROR(check_number(weft_in(c, 3)));
  size_t summary = weft_wire_begin(event, WEFT_EVENT_SUMMARY);
  WEFT_RETURN_IF_ERROR(weft_summary_put_histogram(event, tag_of(c), weft_in(c, 3), tag_of(c)));
  weft_wire_end(event, summary);
  return NULL;
}

/* The state, as that of sound: the most of a batch. */
static weft_status_t *put_image(weft_kernel_ctx_t *c, weft_strbuf_t *event) {
  const weft_tensor_t *bad_color = weft_in(c, 4);
  if (bad_color->shape.rank != 1) {
    return WEFT_ERROR(INVALID_ARGUMENT, "bad_color must be a vector, got shape %s",
                      WEFT_SHAPE_TEXT(&bad_color->shape));
  }
  size_t summary = weft_wire_begin(event, WEFT_EVENT_SUMMARY);
  WEFT_RETURN_IF_ERROR(
      weft_summary_put_images(event, tag_of(c), weft_in(c, 3), *(const int64_t *)c->state, bad_color));
  weft_wire_end(event, summary);
  return NULL;
}

static weft_status_t *put_audio(weft_kernel_ctx_t *c, weft_strbuf_t *event) {
  WEFT_RETURN_IF_ERROR(check_scalar(c, 4, "sample_rate"));
  float rate = *(const float *)weft_in(c, 4)->data;
  size_t summary = weft_wire_begin(event, WEFT_EVENT_SUMMARY);
  WEFT_RETURN_IF_ERROR(
      weft_summary_put_audio(event, tag_of(c), weft_in(c, 3), *(const int64_t *)c->state, rate));
  weft_wire_end(event, summary);
  return NULL;
}

static weft_status_t *check_message(const ProtobufCMessageDescriptor *type, weft_str_t bytes,
                                    const char *name) {
  weft_status_t *s = weft_proto_check(type, bytes);
  if (s == NULL) return NULL;
  weft_status_free(s);
  return WEFT_ERROR(DATA_LOSS, "Bad tf.%s binary proto tensor string", name);
}

static weft_status_t *put_graph(weft_kernel_ctx_t *c, weft_strbuf_t *event) {
  WEFT_RETURN_IF_ERROR(check_scalar(c, 2, "tensor"));
  weft_str_t graph = weft_tensor_str_at(weft_in(c, 2), 0);
  WEFT_RETURN_IF_ERROR(check_message(&tensorflow__graph_def__descriptor, graph, "GraphDef"));
  weft_wire_add_bytes(event, WEFT_EVENT_GRAPH, graph);
  return NULL;
}

/* Summaries of any number become one: messages one behind the other are their union. */
static weft_status_t *put_summaries(weft_kernel_ctx_t *c, weft_strbuf_t *event) {
  const weft_tensor_t *t = weft_in(c, 2);
  if (t->count == 0) return NULL;
  size_t summary = weft_wire_begin(event, WEFT_EVENT_SUMMARY);
  for (int64_t i = 0; i < t->count; i++) {
    weft_str_t bytes = weft_tensor_str_at(t, i);
    if (!weft_summary_is_valid(bytes)) {
      return WEFT_ERROR(DATA_LOSS, "Bad tf.compat.v1.Summary binary proto tensor string at index %lld",
                        (long long)i);
    }
    weft_strbuf_append(event, bytes);
  }
  weft_wire_end(event, summary);
  return NULL;
}

/* An event as it came, with its own time and step. */
static weft_status_t *put_imported(weft_kernel_ctx_t *c, weft_strbuf_t *event) {
  WEFT_RETURN_IF_ERROR(check_scalar(c, 1, "event"));
  weft_str_t bytes = weft_tensor_str_at(weft_in(c, 1), 0);
  WEFT_RETURN_IF_ERROR(check_message(&tensorflow__event__descriptor, bytes, "Event"));
  weft_strbuf_append(event, bytes);
  return NULL;
}

static weft_status_t *import_event(weft_kernel_ctx_t *c) {
  weft_strbuf_t event = WEFT_STRBUF_INIT;
  weft_status_t *s = add_event(c, put_imported, &event);
  weft_strbuf_deinit(&event);
  return s;
}

/* State: the most of a batch, an int64_t; 0 of an op that has no batch. */
static weft_status_t *event_prepare(const weft_kernel_setup_t *setup, void **out_state) {
  int64_t max = weft_knode_int_or(setup, "max_images", weft_knode_int_or(setup, "max_outputs", 0));
  if (max > INT32_MAX) return WEFT_ERROR(INVALID_ARGUMENT, "max_images and max_outputs must be < 2^31");
  int64_t *state = weft_calloc(1, sizeof *state);
  if (state == NULL) return WEFT_NO_MEMORY("preparing %.*s", WEFT_STR_ARGS(setup->node.name));
  *state = max;
  *out_state = state;
  return NULL;
}

#define EVENT(op_, put_, tag_)                                                         \
  {                                                                                    \
    .op = op_, .prepare = event_prepare, .compute = write_event, .destroy = weft_free, \
    .param = &(const event_kind_t) {                                                   \
      put_, tag_                                                                       \
    }                                                                                  \
  }

const weft_kernel_t weft_cpu_summary_writer_kernels[] = {
    {.op = "CloseSummaryWriter", .compute = close_writer},
    {.op = "CreateSummaryFileWriter", .compute = create_file_writer},
    {.op = "FlushSummaryWriter", .compute = flush_writer},
    {.op = "ImportEvent", .compute = import_event},
    {.op = "SummaryWriter", .prepare = holder_prepare, .compute = summary_writer, .destroy = holder_destroy},
    EVENT("WriteAudioSummary", put_audio, 2),
    EVENT("WriteGraphSummary", put_graph, 0),
    EVENT("WriteHistogramSummary", put_histogram, 2),
    EVENT("WriteImageSummary", put_image, 2),
    EVENT("WriteRawProtoSummary", put_summaries, 0),
    EVENT("WriteScalarSummary", put_scalar, 2),
    EVENT("WriteSummary", put_tensor, 3),
    {0},
};
