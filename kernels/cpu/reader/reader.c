/* kernels/cpu/reader/reader.c - the kernels of readers: making one, and its operations, by handle or by
 * old-style reference. */
#include "resources/reader.h"

#include <inttypes.h>

#include "kernels/cpu/loops/common.h"
#include "kernels/state.h"

/* ---- the nodes that make readers ---- */

/* The param of a row. */
typedef struct reader_form {
  weft_state_maker_t maker; /* first */
  weft_reader_kind_t kind;
} reader_form_t;

static weft_status_t *read_size(const weft_kernel_setup_t *setup, const char *name, int64_t *out) {
  *out = weft_knode_int_or(setup, name, 0);
  if (*out >= 0) return NULL;
  return WEFT_ERROR(INVALID_ARGUMENT, "%s must be >= 0 not %" PRId64, name, *out);
}

static weft_status_t *read_fixed(const weft_kernel_setup_t *setup, weft_reader_config_t *config) {
  WEFT_RETURN_IF_ERROR(read_size(setup, "header_bytes", &config->header_bytes));
  WEFT_RETURN_IF_ERROR(read_size(setup, "record_bytes", &config->record_bytes));
  WEFT_RETURN_IF_ERROR(read_size(setup, "footer_bytes", &config->footer_bytes));
  WEFT_RETURN_IF_ERROR(read_size(setup, "hop_bytes", &config->hop_bytes));
  if (config->hop_bytes == 0) config->hop_bytes = config->record_bytes;
  const weft_attr_t *encoding = weft_knode_attr(setup, "encoding");
  bool is_known = encoding != NULL && weft_compression_find(encoding->s, &config->compression);
  if (!is_known || config->compression == WEFT_COMPRESSION_SNAPPY)
    config->compression = WEFT_COMPRESSION_NONE;
  return NULL; /* unknown: none, as in TensorFlow */
}

static weft_status_t *read_node(const weft_kernel_setup_t *setup, void *out) {
  weft_reader_config_t *config = out;
  config->kind = ((const reader_form_t *)setup->node.param)->kind;
  if (config->kind == WEFT_READER_FIXED_LENGTH) return read_fixed(setup, config);
  const weft_attr_t *compression = weft_knode_attr(setup, "compression_type");
  if (compression != NULL) {
    (void)weft_compression_find(compression->s, &config->compression); /* unknown: none, as in TensorFlow */
  }
  return read_size(setup, "skip_header_lines", &config->header_lines);
}

static weft_status_t *create(weft_kernel_ctx_t *c, const char *name, const void *node, weft_object_t **out) {
  (void)c;
  (void)name;
  return weft_reader_create(node, out);
}

/* ---- operations ---- */

static weft_status_t *in_reader(weft_kernel_ctx_t *c, weft_reader_t **out) {
  weft_object_t *o = NULL;
  WEFT_RETURN_IF_ERROR(weft_state_in(c, 0, &weft_reader_type, &o));
  *out = (weft_reader_t *)o;
  return NULL;
}

static void release(weft_reader_t *r) { weft_object_release((weft_object_t *)r); }

/* The param of a row: an operation that needs nothing but the reader. */
typedef struct reader_plain {
  void (*run)(weft_reader_t *r, const weft_resource_call_t *call);
} reader_plain_t;

static void plain(weft_kernel_ctx_t *c) {
  weft_reader_t *r = NULL;
  weft_status_t *s = in_reader(c, &r);
  if (s != NULL) {
    c->done(c, s);
    return;
  }
  weft_resource_call_t call = weft_state_call(c);
  const reader_plain_t *form = c->node->param;
  form->run(r, &call);
  release(r);
}

static weft_status_t *one_of(const weft_tensor_t *t, const char *what) {
  if (t->shape.rank == 0) return NULL;
  return WEFT_ERROR(INVALID_ARGUMENT, "%s must be scalar, but had shape: %s", what,
                    WEFT_SHAPE_TEXT(&t->shape));
}

static weft_status_t *read_count(weft_kernel_ctx_t *c, int64_t *out) {
  const weft_tensor_t *t = weft_in(c, 2);
  WEFT_RETURN_IF_ERROR(one_of(t, "num_records"));
  *out = *(const int64_t *)t->data;
  if (*out >= 0) return NULL;
  return WEFT_ERROR(INVALID_ARGUMENT, "num_records must be >= 0 not %" PRId64, *out);
}

static void read_records(weft_kernel_ctx_t *c, bool is_many) {
  weft_reader_t *r = NULL;
  weft_object_t *queue = NULL;
  int64_t n = 1;
  weft_status_t *s = in_reader(c, &r);
  if (s == NULL && is_many) s = read_count(c, &n);
  if (s == NULL) s = weft_state_in(c, 1, &weft_tensor_queue_type, &queue);
  if (s != NULL) {
    c->done(c, s);
  } else {
    weft_resource_call_t call = weft_state_call(c);
    weft_tensor_queue_t *q = (weft_tensor_queue_t *)queue;
    if (is_many) weft_reader_read_up_to(r, &call, q, n);
    if (!is_many) weft_reader_read(r, &call, q);
  }
  weft_object_release(queue);
  release(r);
}

static void read_one(weft_kernel_ctx_t *c) { read_records(c, false); }
static void read_up_to(weft_kernel_ctx_t *c) { read_records(c, true); }

static void restore(weft_kernel_ctx_t *c) {
  weft_reader_t *r = NULL;
  weft_status_t *s = in_reader(c, &r);
  if (s == NULL) s = one_of(weft_in(c, 1), "Reader state");
  if (s != NULL) {
    c->done(c, s);
  } else {
    weft_resource_call_t call = weft_state_call(c);
    weft_reader_restore(r, &call, weft_tensor_str_at(weft_in(c, 1), 0));
  }
  release(r);
}

#define MAKER(name, kind)                                                                                  \
  {                                                                                                        \
    .op = name, WEFT_STATE_MAKER, .param = &(const reader_form_t) {                                        \
      {&weft_reader_type, sizeof(weft_reader_config_t), read_node, create, NULL, NULL}, WEFT_READER_##kind \
    }                                                                                                      \
  }
#define MAKERS(name, kind) MAKER(name, kind), MAKER(name "V2", kind)
/* An operation with the handle of either kind. */
#define ASYNC(name, fn) \
  {.op = name, .compute_async = fn}, { .op = name "V2", .compute_async = fn }
#define PLAIN(name, fn)                                                              \
  {.op = name, .compute_async = plain, .param = &(const reader_plain_t){fn}}, {      \
    .op = name "V2", .compute_async = plain, .param = &(const reader_plain_t) { fn } \
  }

const weft_kernel_t weft_cpu_reader_kernels[] = {
    MAKERS("FixedLengthRecordReader", FIXED_LENGTH),
    MAKERS("IdentityReader", IDENTITY),
    MAKER("LMDBReader", LMDB),
    PLAIN("ReaderNumRecordsProduced", weft_reader_num_records),
    PLAIN("ReaderNumWorkUnitsCompleted", weft_reader_num_work_units),
    ASYNC("ReaderRead", read_one),
    ASYNC("ReaderReadUpTo", read_up_to),
    PLAIN("ReaderReset", weft_reader_reset),
    ASYNC("ReaderRestoreState", restore),
    PLAIN("ReaderSerializeState", weft_reader_serialize),
    MAKERS("TFRecordReader", TFRECORD),
    MAKERS("TextLineReader", TEXT_LINE),
    MAKERS("WholeFileReader", WHOLE_FILE),
    {0},
};
