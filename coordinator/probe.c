/* coordinator/probe.c - asks tasks for their incarnations, by GetStatus of their workers. */
#include "base/alloc.h"
#include "coordinator/impl.h"
#include "services/device_codec.h"
#include "services/messages.h"

/* Probes that were sent together. On the caller's stack: it waits for all, and each has a deadline. */
typedef struct inquiry {
  weft_mutex_t mu;
  weft_cond_t all_came;
  int missing; /* guarded by mu */
} inquiry_t;
typedef struct probe_call {
  inquiry_t *inquiry;
  weft_co_answer_t *answer;
} probe_call_t;

static void read_answer(weft_message_t *response, weft_co_answer_t *out) {
  weft_arena_t arena = WEFT_ARENA_INIT;
  weft_device_list_t devices = {.arena = WEFT_ARENA_INIT};
  weft_get_status_response_msg_t body = {.device_attributes = {NULL, 0, 0}};
  weft_status_t *s = weft_fields_decode(&weft_get_status_response_type, response, &arena, &body);
  if (s == NULL) s = weft_devices_from_texts(&body.device_attributes, &devices);
  if (s == NULL && devices.n > 0) *out = (weft_co_answer_t){true, devices.devices[0].incarnation};
  weft_status_free(s); /* a task that answers nonsense has not answered */
  weft_device_list_deinit(&devices);
  weft_arena_deinit(&arena);
}

static void answered(void *arg, weft_status_t *status, weft_message_t *response) {
  probe_call_t *q = arg;
  if (status == NULL) read_answer(response, q->answer);
  weft_status_free(status);
  weft_message_destroy(response);
  weft_mutex_lock(&q->inquiry->mu);
  if (--q->inquiry->missing == 0) weft_cond_signal(&q->inquiry->all_came);
  weft_mutex_unlock(&q->inquiry->mu);
}

static void ask(WEFT_Coordinator *c, weft_co_task_t *task, int64_t timeout_ms, probe_call_t *q) {
  const weft_rpc_options_t o = {.timeout_ms = timeout_ms, .canceller = c->stop};
  const weft_empty_msg_t nothing = {0};
  weft_message_t *request = NULL;
  weft_mutex_lock(&c->mu);
  weft_rpc_channel_t *channel = task->channel == NULL ? NULL : weft_rpc_channel_retain(task->channel);
  weft_mutex_unlock(&c->mu);
  weft_status_t *s = channel == NULL ? WEFT_ERROR(UNAVAILABLE, "%s: no connection", task->name)
                                     : weft_fields_encode(&weft_empty_type, &nothing, &request);
  if (s != NULL) {
    answered(q, s, NULL);
  } else {
    weft_rpc_call(channel, "/tensorflow.WorkerService/GetStatus", request, &o, answered, q);
  }
  if (channel != NULL) weft_rpc_channel_release(channel);
}

static void connect_anew(WEFT_Coordinator *c, weft_co_task_t *task) {
  weft_rpc_channel_t *fresh = NULL, *old = NULL;
  weft_status_t *s = weft_rpc_channel_create(c->rpc, weft_str(task->address), &fresh);
  weft_status_free(s); /* then the old one stays */
  if (fresh == NULL) return;
  weft_rpc_channel_name_peer(fresh, weft_str(task->name));
  weft_mutex_lock(&c->mu);
  old = task->channel;
  task->channel = fresh;
  weft_mutex_unlock(&c->mu);
  if (old != NULL) weft_rpc_channel_release(old);
}

void weft_co_probe(WEFT_Coordinator *c, weft_co_task_t *const *tasks, int n, int64_t timeout_ms,
                   weft_co_answer_t *out) {
  probe_call_t *questions = weft_calloc((size_t)n + 1, sizeof *questions);
  inquiry_t inquiry = {.missing = n};
  for (int i = 0; i < n; i++) out[i] = (weft_co_answer_t){false, 0};
  if (questions == NULL || n == 0) {
    weft_free(questions);
    return;
  }
  weft_mutex_init(&inquiry.mu);
  weft_cond_init(&inquiry.all_came);
  for (int i = 0; i < n; i++) {
    questions[i] = (probe_call_t){&inquiry, &out[i]};
    ask(c, tasks[i], timeout_ms, &questions[i]);
  }
  weft_mutex_lock(&inquiry.mu);
  while (inquiry.missing > 0) weft_cond_wait(&inquiry.all_came, &inquiry.mu); /* woken by answered() */
  weft_mutex_unlock(&inquiry.mu);
  weft_cond_deinit(&inquiry.all_came);
  weft_mutex_deinit(&inquiry.mu);
  weft_free(questions);
  for (int i = 0; i < n; i++) {
    if (!out[i].came) connect_anew(c, tasks[i]);
  }
}
