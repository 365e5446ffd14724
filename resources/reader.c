/* resources/reader.c - the operations of a reader.
 *
 * An operation is a waiter in the reader's room, which holds one line. The first of the line takes the reader
 * when it is free, leaves the line, and has the reader, and all that is not guarded by the room's lock, until
 * it ends:
 *
 *   in line -> attempt: the reader is free -> finish(): run() -> end(): the reader is free, the next is tried
 *                                                ^    |
 *                       the queue has a name     |    v no work unit
 *                                             on_name <- waits in the queue's room
 */
#include "resources/reader.h"

#include <inttypes.h>
#include <stdatomic.h>

#include "base/alloc.h"
#include "protos/wire.h"
#include "resources/reader_work.h"

struct weft_reader {
  weft_object_t object;
  weft_reader_config_t config;
  weft_wait_room_t room;
  bool is_taken; /* guarded by room.mu: an operation has what follows */
  int64_t work_started, work_finished, num_records;
  weft_reader_work_t work;
};

enum { MAX_COMPONENTS = 8 }; /* of a queue; those with more are refused before anything is taken from them */

typedef struct reader_operation reader_operation_t;
struct reader_operation {
  weft_room_waiter_t waiter; /* first */
  void (*run)(reader_operation_t *op);
  /* Of reads. */
  weft_tensor_queue_t *queue; /* owned */
  bool is_many;
  int64_t wanted;
  weft_reader_records_t records;
  weft_value_t name[MAX_COMPONENTS]; /* what the queue gives */
  weft_status_t *status;             /* of the dequeue */
  atomic_bool has_met; /* of the dequeue's end and its caller, one has come: the other goes on */
  /* Of a restore. */
  char *state; /* owned */
  size_t state_length;
};

static void cancel_waits(weft_object_t *o) { weft_wait_cancel_line(&((weft_reader_t *)o)->room, 0); }

const weft_resource_type_t weft_reader_type = {"N10tensorflow15ReaderInterfaceE", "Reader", cancel_waits};

static void destroy(weft_object_t *o) {
  weft_reader_t *r = (weft_reader_t *)o;
  weft_reader_work_deinit(&r->work);
  weft_wait_room_deinit(&r->room);
  weft_free(r);
}

weft_status_t *weft_reader_create(const weft_reader_config_t *config, weft_object_t **out) {
  weft_reader_t *r = weft_calloc(1, sizeof *r);
  if (r == NULL) return WEFT_NO_MEMORY("creating a reader");
  atomic_init(&r->object.refs, 1);
  r->object.destroy = destroy;
  r->config = *config;
  r->work.config = &r->config;
  weft_wait_room_init(&r->room);
  *out = &r->object;
  return NULL;
}

/* ---- having the reader ---- */

static weft_reader_t *reader_of(const reader_operation_t *op) { return (weft_reader_t *)op->waiter.owner; }

static void operation_free(reader_operation_t *op) {
  if (op->queue != NULL) weft_object_release((weft_object_t *)op->queue);
  for (int i = 0; i < MAX_COMPONENTS; i++) weft_tensor_release(op->name[i].tensor);
  weft_reader_records_deinit(&op->records);
  weft_free(op->state);
  weft_free(op);
}

/* Gives the reader back and ends the call. The call may end before the next operation begins, or after. */
static void end(reader_operation_t *op, weft_status_t *s) {
  weft_object_t *owner = op->waiter.owner;
  weft_reader_t *r = reader_of(op);
  weft_resource_call_t call = op->waiter.call;
  operation_free(op);
  weft_mutex_lock(&r->room.mu);
  r->is_taken = false;
  weft_mutex_unlock(&r->room.mu);
  weft_resource_call_end(&call, s);
  weft_wait_flush(&r->room);
  weft_object_release(owner); /* of run_with_reader */
}

static weft_wait_result_t try_take(weft_room_waiter_t *w) {
  weft_reader_t *r = (weft_reader_t *)w->owner;
  if (r->is_taken) return WEFT_WAIT_STUCK;
  r->is_taken = true;
  return WEFT_WAIT_DONE;
}

/* The room gives its reference to the reader back when this returns; an operation that waits needs its own.
 */
static void run_with_reader(weft_room_waiter_t *w) {
  reader_operation_t *op = (reader_operation_t *)w;
  weft_status_t *s = weft_wait_failure(w);
  if (s != NULL) {
    weft_resource_call_t call = w->call;
    operation_free(op);
    weft_resource_call_end(&call, s);
    return;
  }
  weft_object_retain(w->owner);
  op->run(op);
}

static reader_operation_t *operation_new(weft_reader_t *r, const weft_resource_call_t *call,
                                         void (*run)(reader_operation_t *)) {
  reader_operation_t *op = weft_calloc(1, sizeof *op);
  if (op == NULL) {
    weft_resource_call_end(call, WEFT_NO_MEMORY("using a reader"));
    return NULL;
  }
  op->run = run;
  op->waiter = (weft_room_waiter_t){.call = *call,
                                    .owner = weft_object_retain(&r->object),
                                    .cancelled = "Reader operation was cancelled",
                                    .attempt = try_take,
                                    .finish = run_with_reader};
  return op;
}

static void start(reader_operation_t *op) {
  if (op != NULL) weft_wait(&reader_of(op)->room, &op->waiter);
}

/* ---- reading ---- */

static weft_status_t *text_output(const weft_strbuf_t *texts, const weft_reader_records_t *records, int which,
                                  bool is_many, weft_tensor_t **out) {
  weft_shape_t shape = is_many ? weft_shape_vector(records->n) : WEFT_SCALAR;
  weft_tensor_t *t = NULL;
  size_t begin = 0;
  weft_status_t *s = weft_tensor_new(WEFT_STRING, &shape, NULL, &t);
  for (int64_t i = 0; s == NULL && i < records->n; i++) {
    size_t end_at = records->ends[i][which];
    s = weft_tensor_set_str(t, i, weft_str_of(texts->data + begin, end_at - begin));
    begin = end_at;
  }
  if (s == NULL) *out = t;
  if (s != NULL) weft_tensor_release(t);
  return s;
}

static void end_read(reader_operation_t *op, weft_status_t *s) {
  weft_value_t *outputs = op->waiter.call.outputs;
  if (s == NULL) s = text_output(&op->records.keys, &op->records, 0, op->is_many, &outputs[0].tensor);
  if (s == NULL) s = text_output(&op->records.values, &op->records, 1, op->is_many, &outputs[1].tensor);
  end(op, s);
}

static weft_status_t *take_name(reader_operation_t *op) {
  weft_reader_t *r = reader_of(op);
  const weft_tensor_t *name = op->name[0].tensor;
  weft_status_t *s = op->status;
  op->status = NULL;
  if (r->work.name != NULL) r->work.name_length = 0; /* an attempt that fails leaves no name */
  if (s != NULL) return s;
  if (weft_tensor_queue_config(op->queue)->num_components != 1) {
    s = WEFT_ERROR(INVALID_ARGUMENT, "Expected single component queue");
  } else if (name->dtype != WEFT_STRING) {
    s = WEFT_ERROR(INVALID_ARGUMENT, "Expected queue with single string component");
  } else if (name->count != 1) {
    s = WEFT_ERROR(INVALID_ARGUMENT, "Expected to dequeue a one-element string tensor");
  } else {
    s = weft_reader_work_set_name(&r->work, weft_tensor_str_at(name, 0));
  }
  for (int i = 0; i < MAX_COMPONENTS; i++) {
    weft_tensor_release(op->name[i].tensor);
    op->name[i].tensor = NULL;
  }
  WEFT_RETURN_IF_ERROR(s);
  WEFT_RETURN_IF_ERROR(weft_reader_work_start(&r->work));
  r->work_started++;
  return NULL;
}

/* Reads until there is enough, or the work unit is completed. *needs_name: there is not enough. */
static weft_status_t *read_unit(reader_operation_t *op, bool *needs_name) {
  weft_reader_t *r = reader_of(op);
  bool is_end = false;
  while (!is_end && op->records.n < op->wanted) {
    int64_t before = op->records.n;
    WEFT_RETURN_IF_ERROR(weft_reader_work_next(&r->work, &op->records, &is_end));
    r->num_records += op->records.n - before;
  }
  if (is_end) {
    weft_reader_work_close(&r->work);
    r->work_finished = r->work_started;
  }
  *needs_name = op->records.n == 0 && op->wanted > 0;
  return NULL;
}

static void run_read(reader_operation_t *op);

/* The dequeue's end. */
static void on_name(void *arg, weft_status_t *status) {
  reader_operation_t *op = arg;
  op->status = status;
  if (!atomic_exchange(&op->has_met, true)) return; /* run_read, below us on the stack, goes on */
  weft_status_t *s = take_name(op);
  if (s != NULL) end_read(op, s);
  if (s == NULL) run_read(op);
}

/* False: on_name will go on. */
static bool ask_for_name(reader_operation_t *op) {
  weft_resource_call_t call = {op->waiter.call.canceller, NULL, op->name, on_name, op};
  atomic_store(&op->has_met, false);
  if (weft_tensor_queue_config(op->queue)->num_components > MAX_COMPONENTS) {
    op->status = WEFT_ERROR(INVALID_ARGUMENT, "Expected single component queue");
    return true;
  }
  weft_tensor_queue_dequeue(op->queue, &call);
  return atomic_exchange(&op->has_met, true);
}

static void run_read(reader_operation_t *op) {
  weft_reader_t *r = reader_of(op);
  weft_status_t *s = NULL;
  bool needs_name = op->wanted > 0;
  while (s == NULL && needs_name) {
    if (r->work_finished >= r->work_started) {
      if (!ask_for_name(op)) return;
      s = take_name(op);
    }
    if (s == NULL) s = read_unit(op, &needs_name);
  }
  end_read(op, s);
}

static void read_records(weft_reader_t *r, const weft_resource_call_t *call, weft_tensor_queue_t *queue,
                         int64_t n, bool is_many) {
  reader_operation_t *op = operation_new(r, call, run_read);
  if (op == NULL) return;
  op->queue = (weft_tensor_queue_t *)weft_object_retain((weft_object_t *)queue);
  op->wanted = n;
  op->is_many = is_many;
  start(op);
}

void weft_reader_read(weft_reader_t *r, const weft_resource_call_t *call, weft_tensor_queue_t *queue) {
  read_records(r, call, queue, 1, false);
}

void weft_reader_read_up_to(weft_reader_t *r, const weft_resource_call_t *call, weft_tensor_queue_t *queue,
                            int64_t n) {
  read_records(r, call, queue, n, true);
}

/* ---- counts ---- */

static void run_num_records(reader_operation_t *op) {
  end(op, weft_tensor_scalar(WEFT_I64, &reader_of(op)->num_records, &op->waiter.call.outputs[0].tensor));
}

static void run_num_work_units(reader_operation_t *op) {
  end(op, weft_tensor_scalar(WEFT_I64, &reader_of(op)->work_finished, &op->waiter.call.outputs[0].tensor));
}

void weft_reader_num_records(weft_reader_t *r, const weft_resource_call_t *call) {
  start(operation_new(r, call, run_num_records));
}

void weft_reader_num_work_units(weft_reader_t *r, const weft_resource_call_t *call) {
  start(operation_new(r, call, run_num_work_units));
}

/* ---- state ---- */

enum { WORK_STARTED = 1, WORK_FINISHED, NUM_RECORDS, CURRENT_WORK }; /* fields of ReaderBaseState */

static bool keeps_no_place(const weft_reader_t *r) {
  return r->config.kind == WEFT_READER_IDENTITY || r->config.kind == WEFT_READER_WHOLE_FILE;
}

static void reset(weft_reader_t *r) {
  weft_reader_work_deinit(&r->work);
  r->work = (weft_reader_work_t){.config = &r->config};
  r->work_started = r->work_finished = r->num_records = 0;
}

static void run_serialize(reader_operation_t *op) {
  weft_reader_t *r = reader_of(op);
  weft_strbuf_t b = WEFT_STRBUF_INIT;
  weft_status_t *s = NULL;
  if (keeps_no_place(r)) {
    weft_wire_put_i64(&b, WORK_STARTED, r->work_started);
    weft_wire_put_i64(&b, WORK_FINISHED, r->work_finished);
    weft_wire_put_i64(&b, NUM_RECORDS, r->num_records);
    weft_wire_put_bytes(&b, CURRENT_WORK, weft_str_of(r->work.name, r->work.name_length));
    s = b.failed ? WEFT_NO_MEMORY("the state of a reader")
                 : weft_tensor_string(weft_str_of(b.data, b.length), &op->waiter.call.outputs[0].tensor);
  } else {
    s = WEFT_ERROR(UNIMPLEMENTED, "Reader SerializeState");
  }
  weft_strbuf_deinit(&b);
  end(op, s);
}

void weft_reader_serialize(weft_reader_t *r, const weft_resource_call_t *call) {
  start(operation_new(r, call, run_serialize));
}

static weft_status_t *restore(weft_reader_t *r, weft_str_t state) {
  weft_wire_reader_t reader = weft_wire_reader(state);
  weft_wire_field_t f;
  weft_str_t name = WEFT_STR("");
  if (!keeps_no_place(r)) return WEFT_ERROR(UNIMPLEMENTED, "Reader RestoreState");
  reset(r);
  while (weft_wire_next(&reader, &f)) {
    switch (f.tag) {
      case WEFT_WIRE_TAG(WORK_STARTED, WEFT_WIRE_VARINT): r->work_started = weft_wire_i64(f.value); break;
      case WEFT_WIRE_TAG(WORK_FINISHED, WEFT_WIRE_VARINT): r->work_finished = weft_wire_i64(f.value); break;
      case WEFT_WIRE_TAG(NUM_RECORDS, WEFT_WIRE_VARINT): r->num_records = weft_wire_i64(f.value); break;
      case WEFT_WIRE_TAG(CURRENT_WORK, WEFT_WIRE_BYTES): name = f.bytes; break;
      default: break;
    }
  }
  if (reader.failed) return WEFT_ERROR(INVALID_ARGUMENT, "Could not parse state for a reader");
  if (r->work_started < 0 || r->work_finished < 0 || r->num_records < 0) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "Unexpected negative value when restoring a reader: %" PRId64 " units started, %" PRId64
                      " finished, %" PRId64 " records",
                      r->work_started, r->work_finished, r->num_records);
  }
  if (r->work_started > r->work_finished) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "Inconsistent work started vs. finished when restoring a reader: %" PRId64
                      " vs. %" PRId64,
                      r->work_started, r->work_finished);
  }
  return weft_reader_work_set_name(&r->work, name);
}

static void run_restore(reader_operation_t *op) {
  weft_status_t *s = restore(reader_of(op), weft_str_of(op->state, op->state_length));
  if (s != NULL) reset(reader_of(op));
  end(op, s);
}

void weft_reader_restore(weft_reader_t *r, const weft_resource_call_t *call, weft_str_t state) {
  reader_operation_t *op = operation_new(r, call, run_restore);
  if (op == NULL) return;
  op->state = weft_strndup(state.data, state.length);
  op->state_length = state.length;
  if (op->state != NULL) {
    start(op);
    return;
  }
  weft_object_release(op->waiter.owner);
  operation_free(op);
  weft_resource_call_end(call, WEFT_NO_MEMORY("restoring a reader"));
}

static void run_reset(reader_operation_t *op) {
  reset(reader_of(op));
  end(op, NULL);
}

void weft_reader_reset(weft_reader_t *r, const weft_resource_call_t *call) {
  start(operation_new(r, call, run_reset));
}
