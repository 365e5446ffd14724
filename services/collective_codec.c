/* services/collective_codec.c - the requests of collectives, both ways. */
#include "services/collective_codec.h"

#include <inttypes.h>

#include "base/clock.h"
#include "base/hash_map.h"
#include "services/device_codec.h"
#include "tensor/shape_proto.h"

#define HOST_PREFIX "weft-host: " /* in physical_device_desc, which is for people */
#define EXTRA_URL "type.googleapis.com/tensorflow.RecvBufRespExtra"

static weft_status_t *no_memory(const char *what) { return WEFT_NO_MEMORY("a %s", what); }

static weft_status_t *in_arena(weft_arena_t *arena, weft_strbuf_t *text, weft_str_t *out, const char *what) {
  *out = weft_arena_str(arena, weft_str_of(text->data, text->length));
  bool ok = !text->failed && out->data != NULL;
  weft_strbuf_deinit(text);
  return ok ? NULL : no_memory(what);
}

/* ---- groups ---- */

static weft_status_t *describe(weft_str_t host, weft_arena_t *arena, weft_str_t *out) {
  weft_strbuf_t text = WEFT_STRBUF_INIT;
  if (host.length > 0) weft_strbuf_printf(&text, HOST_PREFIX "%.*s", WEFT_STR_ARGS(host));
  return in_arena(arena, &text, out, "device");
}

static weft_str_t host_in(weft_str_t description) {
  size_t skip = sizeof HOST_PREFIX - 1;
  if (!weft_str_starts_with(description, HOST_PREFIX)) return WEFT_STR("");
  return weft_str_of(description.data + skip, description.length - skip);
}

static weft_status_t *add_device(const weft_device_attributes_t *d, weft_arena_t *arena, weft_texts_t *out) {
  weft_device_attributes_t copy = *d;
  weft_device_list_t one = {.arena = WEFT_ARENA_INIT, .devices = &copy, .n = 1};
  return weft_devices_to_texts(&one, arena, out);
}

weft_status_t *weft_group_request_to_msg(const weft_group_request_t *r, weft_arena_t *arena,
                                         weft_complete_group_request_msg_t *out) {
  weft_device_attributes_t d = {.name = r->device, .type = r->device_type, .incarnation = r->incarnation};
  weft_texts_t texts = {NULL, 0, 0};
  WEFT_RETURN_IF_ERROR(describe(r->host, arena, &d.description));
  WEFT_RETURN_IF_ERROR(add_device(&d, arena, &texts));
  *out = (weft_complete_group_request_msg_t){.group_key = r->group_key,
                                             .group_size = r->group_size,
                                             .device_type = r->device_type,
                                             .device_attributes = texts.items[0],
                                             .rank_plus_1 = (int64_t)r->rank + 1,
                                             .timeout_ms = r->timeout_ms};
  return NULL;
}

static bool is_int(int64_t value) { return value >= INT32_MIN && value <= INT32_MAX; }

weft_status_t *weft_group_request_from_msg(const weft_complete_group_request_msg_t *m, weft_arena_t *arena,
                                           weft_group_request_t *out) {
  weft_texts_t texts = {.items = NULL};
  weft_device_list_t list = {.arena = WEFT_ARENA_INIT};
  if (!is_int(m->group_size) || m->group_size < 1 || !is_int(m->rank_plus_1)) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "CompleteGroupRequest: group_size %" PRId64 " with rank %" PRId64 " cannot be",
                      m->group_size, m->rank_plus_1 - 1);
  }
  weft_status_t *s = weft_texts_add(&texts, arena, m->device_attributes)
                         ? weft_devices_from_texts(&texts, &list)
                         : no_memory("CompleteGroup");
  if (s == NULL && list.devices[0].name.length == 0) {
    s = WEFT_ERROR(INVALID_ARGUMENT, "CompleteGroupRequest: device_attributes has no name");
  }
  if (s == NULL) {
    const weft_device_attributes_t *d = &list.devices[0];
    *out = (weft_group_request_t){.group_key = m->group_key,
                                  .group_size = (int)m->group_size,
                                  .rank = (int)m->rank_plus_1 - 1,
                                  .device_type = m->device_type,
                                  .device = weft_arena_str(arena, d->name),
                                  .incarnation = d->incarnation,
                                  .timeout_ms = m->timeout_ms,
                                  .host = weft_arena_str(arena, host_in(d->description))};
    if (out->device_type.length == 0) out->device_type = weft_arena_str(arena, d->type);
    if (out->device.data == NULL || out->host.data == NULL) s = no_memory("CompleteGroup");
  }
  weft_device_list_deinit(&list);
  return s;
}

static uint64_t bits_of(double value) {
  uint64_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

static double value_of(uint64_t bits) {
  double value;
  memcpy(&value, &bits, sizeof value);
  return value >= 0 && value < 1e9 ? value : 0; /* not from a NaN, either */
}

weft_status_t *weft_group_to_msg(const weft_group_t *g, weft_arena_t *arena,
                                 weft_complete_group_response_msg_t *out) {
  *out = (weft_complete_group_response_msg_t){.group_key = g->key,
                                              .group_size = g->size,
                                              .near_alpha_s = bits_of(g->near.alpha_s),
                                              .near_byte_s = bits_of(g->near.byte_s),
                                              .far_alpha_s = bits_of(g->far.alpha_s),
                                              .far_byte_s = bits_of(g->far.byte_s)};
  weft_strbuf_t key = WEFT_STRBUF_INIT;
  weft_strbuf_printf(&key, "weft-%" PRId64, g->key); /* TensorFlow's tasks only want it not to be empty */
  WEFT_RETURN_IF_ERROR(in_arena(arena, &key, &out->communicator_key, "group"));
  weft_map_t tasks = WEFT_MAP_INIT;
  weft_status_t *s = NULL;
  for (int i = 0; i < g->size && s == NULL; i++) {
    const weft_group_member_t *m = &g->members[i];
    weft_device_attributes_t d = {
        .name = m->device, .type = weft_transport_type_of(m->device), .incarnation = m->incarnation};
    s = describe(m->host, arena, &d.description);
    if (s == NULL) s = add_device(&d, arena, &out->device_attributes);
    if (s == NULL) s = weft_map_put(&tasks, m->task, out, NULL);
    if (i == 0) out->device_type = d.type;
  }
  out->num_tasks = (int)tasks.count;
  weft_map_deinit(&tasks);
  return s;
}

weft_status_t *weft_group_from_msg(const weft_complete_group_response_msg_t *m, weft_group_t **out) {
  weft_device_list_t list = {.arena = WEFT_ARENA_INIT};
  weft_group_t *g = NULL;
  weft_status_t *s = NULL;
  if (m->device_attributes.n < 1 || m->device_attributes.n != m->group_size) {
    return WEFT_ERROR(INVALID_ARGUMENT, "CompleteGroupResponse: %d devices in a group of %" PRId64,
                      m->device_attributes.n, m->group_size);
  }
  s = weft_devices_from_texts(&m->device_attributes, &list);
  if (s == NULL) g = weft_group_new(m->group_key, m->device_attributes.n);
  if (s == NULL && g == NULL) s = no_memory("group");
  for (int i = 0; s == NULL && i < list.n; i++) {
    weft_str_t device = weft_arena_str(&g->arena, list.devices[i].name);
    weft_str_t host = weft_arena_str(&g->arena, host_in(list.devices[i].description));
    if (device.data == NULL || host.data == NULL) s = no_memory("group");
    if (s == NULL) {
      g->members[i] = (weft_group_member_t){.device = device,
                                            .task = weft_transport_task_of(device),
                                            .host = host,
                                            .incarnation = list.devices[i].incarnation};
    }
  }
  weft_device_list_deinit(&list);
  if (s != NULL) {
    weft_group_release(g);
    return s;
  }
  g->near = (weft_link_t){value_of(m->near_alpha_s), value_of(m->near_byte_s)};
  g->far = (weft_link_t){value_of(m->far_alpha_s), value_of(m->far_byte_s)};
  *out = g;
  return NULL;
}

/* ---- instances ---- */

/* TensorFlow's CollectiveType, in its order, and ours. */
static const weft_collective_kind_t kinds[] = {WEFT_ALL_REDUCE, WEFT_BROADCAST,  WEFT_ALL_GATHER,
                                               WEFT_PERMUTE,    WEFT_ALL_TO_ALL, WEFT_REDUCE_SCATTER};
enum { NUM_KINDS = sizeof kinds / sizeof kinds[0] };

weft_status_t *weft_instance_to_msg(const weft_instance_request_t *r, weft_arena_t *arena,
                                    weft_complete_instance_request_msg_t *out) {
  int type = 0;
  while (type < NUM_KINDS && kinds[type] != r->kind) type++;
  *out = (weft_complete_instance_request_msg_t){.name = r->name,
                                                .device_type = weft_transport_type_of(r->device),
                                                .device = r->device,
                                                .type = type,
                                                .data_type = r->dtype,
                                                .group_key = r->group_key,
                                                .group_size = r->group_size,
                                                .instance_key = r->instance_key,
                                                .step_id = r->step_id,
                                                .is_source = r->is_source,
                                                .rank_plus_1 = (int64_t)r->rank + 1,
                                                .kind_plus_1 = (int64_t)r->kind + 1,
                                                .reduction = (int64_t)r->reduction,
                                                .algorithm = (int64_t)r->algorithm,
                                                .root_plus_1 = (int64_t)r->root + 1,
                                                .timeout_ms = r->timeout_ms,
                                                .is_mean = r->is_mean,
                                                .details = r->details};
  weft_strbuf_t shape = WEFT_STRBUF_INIT;
  weft_shape_to_proto(&r->shape, &shape);
  return in_arena(arena, &shape, &out->shape, "CompleteInstance");
}

weft_status_t *weft_instance_from_msg(const weft_complete_instance_request_msg_t *m,
                                      weft_instance_request_t *out) {
  bool ok = is_int(m->group_size) && m->group_size >= 1 && is_int(m->rank_plus_1) && is_int(m->root_plus_1) &&
            is_int(m->data_type) && m->kind_plus_1 >= 0 && m->kind_plus_1 <= WEFT_BARRIER + 1 &&
            m->reduction >= 0 && m->reduction <= WEFT_REDUCE_MAX && m->algorithm >= 0 &&
            m->algorithm <= WEFT_ALGORITHM_DIRECT &&
            (m->kind_plus_1 != 0 || (m->type >= 0 && m->type < NUM_KINDS));
  if (!ok) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "CompleteInstanceRequest of '%.*s': type %" PRId64 ", group_size %" PRId64
                      " or another number is out of range",
                      WEFT_STR_ARGS(m->name), m->type, m->group_size);
  }
  *out = (weft_instance_request_t){
      .group_key = m->group_key,
      .instance_key = m->instance_key,
      .step_id = m->step_id,
      .rank = (int)m->rank_plus_1 - 1,
      .group_size = (int)m->group_size,
      .name = m->name,
      .device = m->device,
      .kind = m->kind_plus_1 != 0 ? (weft_collective_kind_t)(m->kind_plus_1 - 1) : kinds[m->type],
      .dtype = (int)m->data_type,
      .reduction = (weft_reduction_t)m->reduction,
      .is_mean = m->is_mean,
      .is_source = m->is_source,
      .algorithm = (weft_collective_algorithm_t)m->algorithm,
      .root = (int)m->root_plus_1 - 1,
      .details = m->details,
      .timeout_ms = m->timeout_ms};
  weft_status_t *s = weft_shape_from_proto(m->shape, &out->shape);
  return s == NULL ? NULL : weft_status_prefix(s, "CompleteInstanceRequest.shape: ");
}

/* ---- buffers ---- */

weft_status_t *weft_buf_to_message(const weft_buf_t *buf, weft_message_t **out) {
  weft_strbuf_t head = WEFT_STRBUF_INIT;
  weft_str_t url = WEFT_STR(EXTRA_URL);
  size_t extra = weft_wire_size_bytes(1, buf->bytes);
  size_t any = weft_wire_size_bytes(1, url.length) + weft_wire_size_bytes(2, extra);
  weft_wire_put_i64(&head, 2, (int64_t)buf->bytes);
  weft_wire_put_i64(&head, 5, weft_clock_micros());
  weft_wire_add_header(&head, 4, any);
  weft_wire_add_bytes(&head, 1, url);
  weft_wire_add_header(&head, 2, extra);
  weft_wire_add_header(&head, 1, buf->bytes); /* one chunk: any parser takes it */
  weft_message_t *m = NULL;
  weft_status_t *s = buf->bytes > INT32_MAX - 4096
                         ? WEFT_ERROR(RESOURCE_EXHAUSTED,
                                      "a buffer of %zu bytes is more than a message may have", buf->bytes)
                         : weft_message_create(&m);
  if (s == NULL) s = weft_message_take(m, &head);
  weft_strbuf_deinit(&head);
  if (s != NULL) {
    if (buf->release != NULL) buf->release(buf->release_arg);
  } else {
    s = weft_message_share(m, buf->data, buf->bytes, buf->release, buf->release_arg);
  }
  if (s != NULL) {
    weft_message_destroy(m);
    return s;
  }
  *out = m;
  return NULL;
}

static void read_chunks(const weft_buf_t *buf, size_t at, void *to, size_t n) {
  /* The cast: the reader's cursor is its own affair, and it is used by one thread. */
  weft_buf_reader_t *r = (weft_buf_reader_t *)(uintptr_t)buf;
  if (at < r->chunk_at) r->at_chunk = 0, r->chunk_at = 0;
  while (n > 0 && r->at_chunk < r->num_chunks) {
    const weft_message_field_t *chunk = &r->chunks[r->at_chunk];
    if (at >= r->chunk_at + chunk->length) {
      r->chunk_at += chunk->length;
      r->at_chunk++;
      continue;
    }
    size_t from = at - r->chunk_at, part = chunk->length - from < n ? chunk->length - from : n;
    weft_message_field_copy(r->message, chunk, from, to, part);
    to = (char *)to + part;
    at += part;
    n -= part;
  }
}

static weft_status_t *add_chunk(weft_buf_reader_t *r, weft_arena_t *arena, const weft_message_field_t *f) {
  if (r->num_chunks == r->capacity) {
    int capacity = r->capacity == 0 ? 4 : r->capacity * 2;
    weft_message_field_t *chunks =
        r->capacity > INT32_MAX / 2 ? NULL : weft_arena_calloc(arena, (size_t)capacity, sizeof *chunks);
    if (chunks == NULL) return no_memory("RecvBufResponse");
    if (r->num_chunks > 0) memcpy(chunks, r->chunks, (size_t)r->num_chunks * sizeof *chunks);
    r->chunks = chunks;
    r->capacity = capacity;
  }
  r->chunks[r->num_chunks++] = *f;
  r->buf.bytes += f->length; /* within one message: cannot overflow */
  return NULL;
}

weft_status_t *weft_buf_reader_init(weft_buf_reader_t *r, const weft_message_t *m, weft_arena_t *arena) {
  *r = (weft_buf_reader_t){.buf = {.read = read_chunks}, .message = m};
  weft_message_reader_t fields = weft_message_reader(m);
  weft_message_field_t f, g, h;
  bool failed = false;
  while (weft_message_reader_next(&fields, &f)) {
    if (f.tag == WEFT_WIRE_TAG(6, WEFT_WIRE_VARINT)) r->require_ack = f.value != 0;
    if (f.tag != WEFT_WIRE_TAG(4, WEFT_WIRE_BYTES)) continue;
    weft_message_reader_t any = weft_message_field_reader(m, &f);
    while (weft_message_reader_next(&any, &g)) {
      if (g.tag != WEFT_WIRE_TAG(2, WEFT_WIRE_BYTES)) continue;
      weft_message_reader_t extra = weft_message_field_reader(m, &g);
      while (weft_message_reader_next(&extra, &h)) {
        if (h.tag == WEFT_WIRE_TAG(1, WEFT_WIRE_BYTES)) WEFT_RETURN_IF_ERROR(add_chunk(r, arena, &h));
      }
      failed = failed || extra.failed;
    }
    failed = failed || any.failed;
  }
  if (failed || fields.failed) return WEFT_ERROR(INVALID_ARGUMENT, "the bytes are not a RecvBufResponse");
  return NULL;
}
