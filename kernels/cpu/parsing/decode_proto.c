/* kernels/cpu/parsing/decode_proto.c - DecodeProtoV2: fields of serialized messages as tensors.
 *
 * Two walks over each message: one counts how often each field is there, which settles the shapes, one reads.
 * Of a field that is not repeated the last value counts. Places without a value get the field's default.
 *
 * What looks odd is TensorFlow's: a packed list in a field that is not repeated counts as one value and
 * leaves the default in place; a packed list behind as many values as any message has is DATA_LOSS, even if
 * it is empty; of two outputs of one field the last by number gets the values; a packed int32 in an int64
 * tensor is taken for unsigned.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "kernels/cpu/loops/cast.h"
#include "kernels/cpu/parsing/proto_message.h"
#include "kernels/cpu/parsing/proto_source.h"
#include "kernels/cpu/parsing/text_descriptor.h"
#include "protos/text_format.h"
#include "protos/wire.h"

typedef struct proto_state {
  weft_proto_fields_t fields;
  weft_tensor_t **defaults; /* owned; of field i, one element of its output's dtype */
  bool sanitizes;
  weft_arena_t arena;                     /* of `text` */
  const ProtobufCMessageDescriptor *text; /* NULL: messages are binary */
} proto_state_t;

static void destroy(void *state) {
  proto_state_t *st = state;
  if (st == NULL) return;
  for (int i = 0; st->defaults != NULL && i < st->fields.n; i++) weft_tensor_release(st->defaults[i]);
  weft_free(st->defaults);
  weft_proto_fields_deinit(&st->fields);
  weft_arena_deinit(&st->arena);
  weft_free(st);
}

/* ---- defaults ---- */

static weft_status_t *number_default(const weft_descriptor_t *m, const weft_descriptor_field_t *f, void *to,
                                     weft_dtype_t dtype) {
  char text[64] = "";
  size_t n = f->default_text.length < sizeof text - 1 ? f->default_text.length : sizeof text - 1;
  if (n > 0) memcpy(text, f->default_text.data, n);
  if (f->type == WEFT_FIELD_DOUBLE || f->type == WEFT_FIELD_FLOAT) {
    double real = strtod(text, NULL);
    if (f->type == WEFT_FIELD_FLOAT) real = (double)(float)real;
    weft_cpu_cast_loop(WEFT_F64, dtype)(1, &real, to);
    return NULL;
  }
  int64_t whole = 0;
  if (f->type == WEFT_FIELD_ENUM) {
    whole = weft_descriptor_enum(m->set, f->type_name, f->default_text);
  } else if (f->type == WEFT_FIELD_BOOL) {
    whole = weft_str_is(f->default_text, "true");
  } else if (f->type == WEFT_FIELD_UINT64 || f->type == WEFT_FIELD_FIXED64) {
    whole = (int64_t)strtoull(text, NULL, 10);
  } else {
    whole = strtoll(text, NULL, 10);
  }
  memcpy(to, &whole, weft_dtype_size(dtype)); /* the low bytes, little-endian */
  return NULL;
}

/* A text ends at its first zero byte, as in TensorFlow. */
static weft_status_t *text_default(const weft_descriptor_field_t *f, weft_tensor_t *to) {
  weft_strbuf_t text = WEFT_STRBUF_INIT;
  if (f->type == WEFT_FIELD_BYTES) {
    weft_proto_unescape(f->default_text, &text);
  } else if (f->type == WEFT_FIELD_STRING) {
    weft_strbuf_append(&text, f->default_text);
  }
  weft_status_t *s = text.failed ? WEFT_NO_MEMORY("a default") : NULL;
  if (s == NULL)
    s = weft_tensor_set_str(to, 0, weft_str_of(text.data, text.data == NULL ? 0 : strlen(text.data)));
  weft_strbuf_deinit(&text);
  return s;
}

static weft_status_t *make_default(proto_state_t *st, int i, int dtype) {
  const weft_descriptor_field_t *f = &st->fields.fields[i];
  if (!weft_descriptor_fits(f->type, dtype)) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Unexpected output type for %.*s: %s", WEFT_STR_ARGS(f->name),
                      weft_dtype_name(dtype));
  }
  WEFT_RETURN_IF_ERROR(weft_tensor_new((weft_dtype_t)dtype, &WEFT_SCALAR, NULL, &st->defaults[i]));
  if (dtype == WEFT_STRING) return text_default(f, st->defaults[i]);
  return number_default(&st->fields.message, f, st->defaults[i]->data, (weft_dtype_t)dtype);
}

static weft_status_t *init(proto_state_t *st, const weft_kernel_setup_t *setup) {
  const weft_attr_t *types = weft_knode_attr(setup, "output_types");
  weft_str_t format = weft_knode_string(setup, "message_format");
  WEFT_RETURN_IF_ERROR(weft_proto_fields_init(&st->fields, setup, true));
  if (st->fields.n != types->n)
    return WEFT_ERROR(INVALID_ARGUMENT, "field_names and output_types attributes must have the same length");
  st->sanitizes = weft_knode_bool(setup, "sanitize");
  st->defaults = weft_calloc((size_t)types->n + 1, sizeof(weft_tensor_t *));
  if (st->defaults == NULL) return WEFT_NO_MEMORY("%d fields of a message", types->n);
  for (int i = 0; i < types->n; i++) WEFT_RETURN_IF_ERROR(make_default(st, i, types->list.types[i]));
  if (weft_str_is(format, "text"))
    return weft_text_descriptor_make(&st->fields.message, &st->arena, &st->text);
  if (!weft_str_is(format, "binary"))
    return WEFT_ERROR(INVALID_ARGUMENT, "format must be one of binary or text");
  return NULL;
}

static weft_status_t *prepare(const weft_kernel_setup_t *setup, void **out) {
  proto_state_t *st = weft_calloc(1, sizeof *st);
  if (st == NULL) return WEFT_NO_MEMORY("a kernel");
  weft_status_t *s = init(st, setup);
  if (s != NULL) {
    destroy(st);
    return s;
  }
  *out = st;
  return NULL;
}

/* ---- a walk ---- */

/* What one field of one message gets. */
typedef struct collector {
  const weft_descriptor_field_t *field;
  weft_tensor_t *out;  /* NULL: only counts */
  int64_t begin, room; /* its places in `out` */
  int64_t next;
} collector_t;

static int64_t whole_of(weft_descriptor_type_t type, uint64_t v) {
  switch (type) {
    case WEFT_FIELD_INT32:
    case WEFT_FIELD_SFIXED32:
    case WEFT_FIELD_ENUM: return weft_wire_i32(v);
    case WEFT_FIELD_UINT32:
    case WEFT_FIELD_FIXED32: return (uint32_t)v;
    case WEFT_FIELD_BOOL: return v != 0;
    case WEFT_FIELD_SINT32: return (int32_t)((uint32_t)v >> 1 ^ (0u - ((uint32_t)v & 1)));
    case WEFT_FIELD_SINT64: return (int64_t)(v >> 1 ^ (0u - (v & 1)));
    default: return (int64_t)v;
  }
}

static void put_number(const collector_t *c, int64_t i, uint64_t v, bool is_packed) {
  weft_dtype_t dtype = c->out->dtype;
  char *to = (char *)c->out->data + (size_t)(c->begin + i) * weft_dtype_size(dtype);
  if (c->field->type == WEFT_FIELD_FLOAT || c->field->type == WEFT_FIELD_DOUBLE) {
    double real = c->field->type == WEFT_FIELD_FLOAT ? (double)weft_wire_float(v) : weft_wire_double(v);
    weft_cpu_cast_loop(WEFT_F64, dtype)(1, &real, to);
    return;
  }
  int64_t whole = whole_of(c->field->type, v);
  if (is_packed && c->field->type == WEFT_FIELD_INT32 && dtype == WEFT_I64) whole = (uint32_t)v;
  memcpy(to, &whole, weft_dtype_size(dtype)); /* the low bytes, little-endian */
}

static weft_status_t *take_packed(collector_t *c, const weft_wire_field_t *f) {
  weft_wire_values_t values = weft_wire_values(f, weft_descriptor_wire_type(c->field->type));
  uint64_t v;
  int64_t n = 0;
  if (c->out != NULL && c->next >= c->room) {
    return WEFT_ERROR(DATA_LOSS,
                      "ReadPackedValues: Tried to write more entries than allowed.  Field tag: %" PRIu32
                      ", Max entries allowed: %" PRId64,
                      c->field->number, c->room);
  }
  for (; weft_wire_next_value(&values, &v); n++) {
    if (c->out != NULL && c->field->is_repeated) {
      if (c->next + n >= c->room) return WEFT_ERROR(DATA_LOSS, "more values than were counted");
      put_number(c, c->next + n, v, true);
    }
  }
  if (values.failed)
    return WEFT_ERROR(DATA_LOSS, "Corrupt packed values of field %" PRIu32, c->field->number);
  if (c->out == NULL || c->field->is_repeated) c->next += n;
  if (!c->field->is_repeated && c->next > 1) c->next = 1;
  return NULL;
}

static weft_status_t *take_value(collector_t *c, const weft_wire_field_t *f) {
  int64_t i = c->field->is_repeated ? c->next : 0;
  c->next = i + 1;
  if (c->out == NULL) return NULL;
  if (i >= c->room) return WEFT_ERROR(DATA_LOSS, "more values than were counted");
  if (c->out->dtype == WEFT_STRING) return weft_tensor_set_str(c->out, c->begin + i, f->bytes);
  put_number(c, i, f->value, false);
  return NULL;
}

/* The last of the fields with that number, by which they are sorted; -1: none is wanted. */
static int find_field(const weft_proto_fields_t *p, uint32_t number) {
  int low = 0, high = p->n;
  while (low < high) {
    int middle = (low + high) / 2;
    if (p->fields[p->order[middle]].number <= number) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low > 0 && p->fields[p->order[low - 1]].number == number ? p->order[low - 1] : -1;
}

static weft_status_t *walk(const weft_proto_fields_t *p, weft_str_t bytes, collector_t *collectors) {
  weft_wire_reader_t r = weft_wire_reader(bytes);
  weft_wire_field_t f;
  while (weft_wire_next(&r, &f)) {
    int i = find_field(p, weft_wire_number(&f));
    if (i < 0) continue;
    uint32_t wanted = weft_descriptor_wire_type(p->fields[i].type);
    if (weft_wire_type(&f) == wanted) {
      WEFT_RETURN_IF_ERROR(take_value(&collectors[i], &f));
    } else if (weft_wire_type(&f) == WEFT_WIRE_BYTES && wanted != WEFT_WIRE_GROUP) {
      WEFT_RETURN_IF_ERROR(take_packed(&collectors[i], &f));
    } else if (weft_wire_type(&f) == WEFT_WIRE_BYTES && f.bytes.length > 0) {
      return WEFT_ERROR(DATA_LOSS, "TYPE_GROUP encountered as packed");
    }
  }
  return r.failed ? WEFT_ERROR(DATA_LOSS, "Failed to consume entire buffer") : NULL;
}

/* ---- all messages ---- */

typedef struct messages {
  const weft_kernel_ctx_t *ctx;
  const proto_state_t *st;
  weft_str_t *bytes;   /* owned; of each message */
  weft_strbuf_t *made; /* owned; of messages that are put into order first, else NULL */
  collector_t *fields; /* owned */
  int64_t n;
} messages_t;

static void messages_free(messages_t *m) {
  for (int64_t i = 0; m->made != NULL && i < m->n; i++) weft_strbuf_deinit(&m->made[i]);
  weft_free(m->made);
  weft_free(m->bytes);
  weft_free(m->fields);
}

/* A message in text format, as bytes. */
static weft_status_t *read_text(const proto_state_t *st, weft_str_t text, weft_strbuf_t *out) {
  weft_status_t *s = weft_text_to_binary(st->text, text, NULL, out);
  if (s == NULL || weft_status_code(s) == WEFT_RESOURCE_EXHAUSTED) return s;
  weft_status_t *told = WEFT_ERROR(DATA_LOSS, "Unable to parse text protobuf: %s", weft_status_message(s));
  weft_status_free(s);
  return told;
}

/* What TensorFlow reads and writes anew before it decodes: texts, and what is to be sanitized. */
static weft_status_t *put_in_order(const proto_state_t *st, weft_str_t given, weft_strbuf_t *out) {
  if (st->text == NULL) return weft_proto_normalize(&st->fields.message, given, out);
  weft_strbuf_t bytes = WEFT_STRBUF_INIT;
  weft_status_t *s = read_text(st, given, &bytes);
  if (s == NULL) s = weft_proto_normalize(&st->fields.message, weft_str_of(bytes.data, bytes.length), out);
  weft_strbuf_deinit(&bytes);
  return s;
}

static weft_status_t *open_messages(messages_t *m, const weft_tensor_t *in) {
  bool makes = m->st->sanitizes || m->st->text != NULL;
  m->bytes = weft_calloc((size_t)m->n, sizeof *m->bytes);
  m->fields = weft_calloc((size_t)m->st->fields.n + 1, sizeof *m->fields);
  if (makes) m->made = weft_calloc((size_t)m->n, sizeof *m->made);
  if (m->bytes == NULL || m->fields == NULL || (makes && m->made == NULL))
    return WEFT_NO_MEMORY("%" PRId64 " messages", m->n);
  for (int64_t i = 0; i < m->n; i++) {
    m->bytes[i] = weft_tensor_str_at(in, i);
    if (!makes) continue;
    WEFT_RETURN_IF_ERROR(put_in_order(m->st, m->bytes[i], &m->made[i]));
    m->bytes[i] = weft_str_of(m->made[i].data, m->made[i].length);
  }
  return NULL;
}

/* Output 0; most[k] gets how many places output k + 1 has for each message. */
static weft_status_t *count(messages_t *m, weft_tensor_t *sizes, int64_t *most) {
  const weft_proto_fields_t *p = &m->st->fields;
  for (int k = 0; k < p->n; k++) most[k] = 1;
  for (int64_t i = 0; i < m->n; i++) {
    for (int k = 0; k < p->n; k++) m->fields[k] = (collector_t){.field = &p->fields[k]};
    WEFT_RETURN_IF_ERROR(walk(p, m->bytes[i], m->fields));
    for (int k = 0; k < p->n; k++) {
      if (m->fields[k].next > INT32_MAX) return WEFT_ERROR(INVALID_ARGUMENT, "too many values in a message");
      ((int32_t *)sizes->data)[i * p->n + k] = (int32_t)m->fields[k].next;
      if (m->fields[k].next > most[k]) most[k] = m->fields[k].next;
    }
  }
  return NULL;
}

static weft_status_t *read(messages_t *m, weft_tensor_t *const *outs, const int64_t *most) {
  const weft_proto_fields_t *p = &m->st->fields;
  for (int64_t i = 0; i < m->n; i++) {
    for (int k = 0; k < p->n; k++)
      m->fields[k] = (collector_t){
          .field = &p->fields[k], .out = outs[k], .begin = i * most[k], .room = most[k], .next = 0};
    WEFT_RETURN_IF_ERROR(walk(p, m->bytes[i], m->fields));
    for (int k = 0; k < p->n; k++) {
      for (int64_t at = m->fields[k].next; at < most[k]; at++)
        WEFT_RETURN_IF_ERROR(weft_cpu_copy(outs[k], i * most[k] + at, m->st->defaults[k], 0, 1));
    }
  }
  return NULL;
}

static weft_status_t *decode(weft_kernel_ctx_t *ctx, messages_t *m, int64_t *most, weft_tensor_t **outs) {
  weft_shape_t shape = weft_in(ctx, 0)->shape;
  const weft_proto_fields_t *p = &m->st->fields;
  weft_tensor_t *sizes = NULL;
  if (shape.rank == WEFT_MAX_DIMS)
    return WEFT_ERROR(INVALID_ARGUMENT, "bytes have %d dimensions", shape.rank);
  WEFT_RETURN_IF_ERROR(open_messages(m, weft_in(ctx, 0)));
  shape.dims[shape.rank++] = p->n;
  WEFT_RETURN_IF_ERROR(weft_shape_make(shape.dims, shape.rank, &shape));
  WEFT_RETURN_IF_ERROR(weft_out_new(ctx, 0, WEFT_I32, &shape, &sizes));
  WEFT_RETURN_IF_ERROR(count(m, sizes, most));
  for (int k = 0; k < p->n; k++) {
    shape.dims[shape.rank - 1] = most[k];
    WEFT_RETURN_IF_ERROR(weft_shape_make(shape.dims, shape.rank, &shape));
    WEFT_RETURN_IF_ERROR(
        weft_out_new(ctx, k + 1, weft_dtype_base(ctx->node->output_types[k + 1]), &shape, &outs[k]));
  }
  return read(m, outs, most);
}

static weft_status_t *compute(weft_kernel_ctx_t *ctx) {
  const proto_state_t *st = ctx->state;
  messages_t m = {.ctx = ctx, .st = st, .n = weft_in(ctx, 0)->count};
  if (m.n < 1) return WEFT_ERROR(INVALID_ARGUMENT, "Bufs argument must contain at least one value");
  int64_t *most = weft_calloc((size_t)st->fields.n + 1, sizeof *most);
  weft_tensor_t **outs = weft_calloc((size_t)st->fields.n + 1, sizeof(weft_tensor_t *));
  weft_status_t *s = most == NULL || outs == NULL ? WEFT_NO_MEMORY("%d fields of messages", st->fields.n)
                                                  : decode(ctx, &m, most, outs);
  messages_free(&m);
  weft_free(most);
  weft_free(outs);
  return s;
}

const weft_kernel_t weft_cpu_decode_proto_kernels[] = {
    {.op = "DecodeProtoV2", .prepare = prepare, .compute = compute, .destroy = destroy},
    {0},
};
