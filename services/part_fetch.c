/* services/part_fetch.c - a window of calls over the parts of one tensor.
 *
 * Each answer's bytes are copied to their place by the thread that brings them. One thread at a time tells
 * the device's intake how far the bytes reach without a gap; others leave what they have brought to it.
 * Whichever call ends last, with no other to begin, ends the fetch.
 *
 * Locking: `mu` is a leaf.
 */
#include "services/part_fetch.h"

#include "base/alloc.h"
#include "base/mutex.h"
#include "device/tensor_intake.h"
#include "rpc/message_reader.h"
#include "tensor/tensor_proto.h"

#define PATH "/weft.WorkerService/RecvTensorPart"

enum {
  LEAST_PART = 2 << 20, /* bytes: large beside the cost of a call, small beside a tensor that is worth it */
  MOST_PARTS = 64,      /* bits of `arrived` */
};

typedef struct fetch {
  weft_rpc_channel_t *channel; /* retained */
  weft_canceller_t *canceller; /* lent */
  uint64_t id;
  weft_tensor_intake_t *intake; /* on its way to a device; NULL: `host` is the result */
  weft_tensor_t *host;          /* retained: where the parts go */
  size_t part_bytes;
  int num_parts;
  weft_transfer_fn *fn;
  void *arg;
  weft_mutex_t mu;
  int next, num_in_flight; /* guarded by mu like all below */
  uint64_t arrived;        /* parts, by bits */
  size_t noted;            /* bytes, of which the intake knows */
  bool is_noting;
  weft_status_t *failure; /* owned; the first that is a cause */
} fetch_t;

typedef struct part_call {
  fetch_t *fetch;
  int index;
} part_call_t;

static size_t begin_of(const fetch_t *f, int index) { return (size_t)index * f->part_bytes; }
static size_t bytes_of(const fetch_t *f, int index) {
  const size_t left = f->host->bytes - begin_of(f, index);
  return left < f->part_bytes ? left : f->part_bytes;
}

static void on_dropped(void *arg, weft_status_t *status, weft_message_t *response) {
  (void)arg;
  weft_status_free(status); /* the owner forgets in time without it */
  weft_message_destroy(response);
}

/* Encodes a request; NULL: a failure. */
static weft_status_t *request_of(uint64_t id, size_t offset, size_t bytes, weft_message_t **out) {
  const weft_recv_tensor_part_request_msg_t m = {
      .request_id = id, .offset = (int64_t)offset, .bytes = (int64_t)bytes};
  return weft_fields_encode(&weft_recv_tensor_part_request_type, &m, out);
}

/* The owner need not keep it any longer. */
static void let_go(weft_rpc_channel_t *channel, uint64_t id) {
  weft_message_t *m = NULL;
  const weft_rpc_options_t o = {.timeout_ms = 10000};
  weft_status_t *s = request_of(id, 0, 0, &m);
  if (s == NULL) {
    weft_rpc_call(channel, PATH, m, &o, on_dropped, NULL);
  } else {
    weft_status_free(s);
  }
}

static void fetch_free(fetch_t *f) {
  weft_tensor_release(f->host);
  weft_rpc_channel_release(f->channel);
  weft_mutex_deinit(&f->mu);
  weft_free(f);
}

static void finish(fetch_t *f) {
  weft_status_t *s = f->failure;
  weft_tensor_t *tensor = NULL;
  if (s != NULL) let_go(f->channel, f->id);
  if (f->intake != NULL) {
    weft_status_t *copied = weft_tensor_intake_end(f->intake, s == NULL, &tensor);
    if (s == NULL) {
      s = copied;
    } else {
      weft_status_free(copied); /* of a copy that is not wanted any more */
    }
  } else if (s == NULL) {
    tensor = weft_tensor_retain(f->host);
  }
  weft_transfer_fn *fn = f->fn;
  void *arg = f->arg;
  fetch_free(f);
  fn(arg, s, tensor);
}

static void leave(fetch_t *f) {
  weft_mutex_lock(&f->mu);
  const bool is_last = --f->num_in_flight == 0;
  weft_mutex_unlock(&f->mu);
  if (is_last) finish(f);
}

/* Consumes `status`. An owner that could not give one part has let go of the tensor, and says of other parts
 * that it is not kept: ABORTED is no cause if there is another. */
static void note_failure(fetch_t *f, weft_status_t *status) {
  weft_mutex_lock(&f->mu);
  if (f->failure == NULL || weft_status_code(f->failure) == WEFT_ABORTED) {
    weft_status_t *before = f->failure;
    f->failure = status;
    status = before;
  }
  weft_mutex_unlock(&f->mu);
  weft_status_free(status);
}

/* How many bytes are there without a gap. */
static size_t reach_locked(const fetch_t *f) WEFT_REQUIRES(f->mu) {
  int n = 0;
  while (n < f->num_parts && (f->arrived >> n & 1) != 0) n++;
  return n == f->num_parts ? f->host->bytes : begin_of(f, n);
}

/* A part is there: says so to the device, unless another thread does. */
static void note_part(fetch_t *f, int index) {
  weft_mutex_lock(&f->mu);
  f->arrived |= (uint64_t)1 << index;
  if (f->intake == NULL || f->is_noting) {
    weft_mutex_unlock(&f->mu);
    return;
  }
  f->is_noting = true;
  for (size_t there; (there = reach_locked(f)) > f->noted;) {
    f->noted = there;
    weft_mutex_unlock(&f->mu);
    weft_tensor_intake_arrive(f->intake, there);
    weft_mutex_lock(&f->mu);
  }
  f->is_noting = false;
  weft_mutex_unlock(&f->mu);
}

/* Copies the answer's bytes to their place. */
static weft_status_t *take_part(fetch_t *f, int index, weft_message_t *response) {
  weft_message_reader_t r = weft_message_reader(response);
  weft_message_field_t content;
  while (weft_message_reader_next(&r, &content)) {
    if (content.tag != WEFT_WIRE_TAG(1, WEFT_WIRE_BYTES)) continue;
    if (content.length != bytes_of(f, index)) break;
    weft_message_field_copy(response, &content, 0, (char *)f->host->data + begin_of(f, index),
                            content.length);
    return NULL;
  }
  return WEFT_ERROR(INVALID_ARGUMENT, "RecvTensorPartResponse: not the %zu bytes that were asked for",
                    bytes_of(f, index));
}

static void ask_next(fetch_t *f);

static void on_part(void *arg, weft_status_t *status, weft_message_t *response) {
  part_call_t *call = arg;
  fetch_t *f = call->fetch;
  const int index = call->index;
  weft_free(call);
  if (status == NULL) status = take_part(f, index, response);
  weft_message_destroy(response);
  if (status != NULL) {
    note_failure(f, status);
  } else {
    note_part(f, index);
    ask_next(f);
  }
  leave(f);
}

/* Begins the call for the next part, if there is one to be fetched. */
static void ask_next(fetch_t *f) {
  weft_message_t *m = NULL;
  weft_mutex_lock(&f->mu);
  const bool has_next = f->failure == NULL && f->next < f->num_parts;
  const int index = f->next;
  if (has_next) {
    f->next++;
    f->num_in_flight++;
  }
  weft_mutex_unlock(&f->mu);
  if (!has_next) return;
  part_call_t *call = weft_calloc(1, sizeof *call);
  weft_status_t *s = call == NULL ? WEFT_NO_MEMORY("receiving a tensor")
                                  : request_of(f->id, begin_of(f, index), bytes_of(f, index), &m);
  if (s != NULL) {
    weft_free(call);
    note_failure(f, s);
    leave(f);
    return;
  }
  *call = (part_call_t){f, index};
  const weft_rpc_options_t o = {.canceller = f->canceller};
  weft_rpc_call(f->channel, PATH, m, &o, on_part, call);
}

/* Makes the places for what the peer describes. */
static weft_status_t *make_place(fetch_t *f, const weft_local_transport_msg_t *m,
                                 const weft_memory_space_t *space) {
  weft_tensor_head_t head;
  size_t payload_at = 0, total = 0;
  const bool is_tensor = m->bytes > 0 && weft_add_size(m->head.length, (size_t)m->bytes, &total) &&
                         weft_tensor_proto_peek(m->head, total, &head, &payload_at) &&
                         payload_at == m->head.length && weft_dtype_is_plain(head.dtype);
  if (!is_tensor) return WEFT_ERROR(INVALID_ARGUMENT, "RecvTensorResponse: parts of what is no tensor");
  if (space != NULL) {
    WEFT_RETURN_IF_ERROR(weft_tensor_intake_begin(head.dtype, &head.shape, space, &f->intake));
    f->host = weft_tensor_retain(weft_tensor_intake_host(f->intake));
  } else {
    WEFT_RETURN_IF_ERROR(weft_tensor_new(head.dtype, &head.shape, NULL, &f->host));
  }
  const size_t bytes = f->host->bytes, even = (bytes + MOST_PARTS - 1) / MOST_PARTS;
  if (bytes != (size_t)m->bytes)
    return WEFT_ERROR(INVALID_ARGUMENT, "RecvTensorResponse: %lld bytes for a tensor of %zu",
                      (long long)m->bytes, bytes);
  f->part_bytes = even < LEAST_PART ? LEAST_PART : even;
  f->num_parts = (int)((bytes + f->part_bytes - 1) / f->part_bytes);
  return NULL;
}

void weft_part_fetch(weft_rpc_channel_t *channel, int64_t id, const weft_local_transport_msg_t *place,
                     const weft_memory_space_t *space, weft_canceller_t *canceller, weft_transfer_fn *fn,
                     void *arg) {
  fetch_t *f = weft_calloc(1, sizeof *f);
  if (f == NULL) {
    let_go(channel, (uint64_t)id);
    fn(arg, WEFT_NO_MEMORY("receiving a tensor"), NULL);
    return;
  }
  f->channel = weft_rpc_channel_retain(channel);
  f->canceller = canceller;
  f->id = (uint64_t)id;
  f->fn = fn;
  f->arg = arg;
  f->num_in_flight = 1; /* this function, so that no call is the last before all have begun */
  weft_mutex_init(&f->mu);
  weft_status_t *s = make_place(f, place, space);
  if (s != NULL) note_failure(f, s);
  for (int i = 0; i < WEFT_FETCH_WINDOW; i++) ask_next(f);
  leave(f);
}
