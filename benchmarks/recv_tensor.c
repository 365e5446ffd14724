/* benchmarks/recv_tensor.c - one tensor from another process: RecvTensor against a plain TCP connection and a
 * copy.
 *
 * The sender is a child process with both a WorkerService, behind which a worker
 * always has the same tensor ready, and a TCP socket that answers every byte
 * with as many bytes as the tensor has. The receiver also copies as many bytes within
 * itself. Rounds of the three alternate, so that a machine that slows down slows all; the medians are
 * compared.
 */
#include "benchmarks/recv_tensor.h"

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "benchmarks/child.h"
#include "services/remote_worker.h"

enum { ROUNDS = 7, WAYS = 3 };

typedef struct transfer_times {
  double rpc, tcp, copy; /* seconds */
} transfer_times_t;

/* ---- the sender ---- */

typedef struct sender {
  weft_worker_client_t base; /* knows recv_tensor only */
  weft_tensor_t *tensor;
  int listener;
} sender_t;

static void give_tensor(weft_worker_client_t *w, int64_t step_id, weft_key_t key, weft_canceller_t *c,
                        weft_recv_fn *fn, void *arg) {
  (void)step_id, (void)key, (void)c;
  fn(arg, NULL, weft_tensor_retain(((sender_t *)(void *)w)->tensor), false);
}
static void destroy_nothing(weft_worker_client_t *w) { (void)w; }

static void *serve_tcp(void *arg) {
  sender_t *s = arg;
  int fd = weft_tcp_accept(s->listener);
  char ask;
  while (weft_read_all(fd, &ask, 1) && weft_write_all(fd, s->tensor->data, s->tensor->bytes)) {
  }
  close(fd);
  return NULL;
}

/* Tells its two ports on `to`, then serves until `until` ends; the process ends with it. */
static weft_status_t *send_tensors(size_t bytes, int to, int until) {
  static const weft_worker_client_ops_t ops = {.recv_tensor = give_tensor, .destroy = destroy_nothing};
  sender_t sender = {.base = {.ops = &ops}};
  atomic_init(&sender.base.refs, 1);
  weft_shape_t shape = weft_shape_vector((int64_t)(bytes / sizeof(float)));
  WEFT_RETURN_IF_ERROR(weft_tensor_new(WEFT_F32, &shape, NULL, &sender.tensor));
  memset(sender.tensor->data, 1, sender.tensor->bytes);
  int ports[2];
  sender.listener = weft_tcp_listen(&ports[1]);
  if (sender.listener < 0) return WEFT_ERROR(INTERNAL, "cannot listen: %d", errno);
  weft_rpc_server_t *server = NULL;
  weft_worker_service_t *service = NULL;
  weft_rpc_server_options_t o = {.host = "127.0.0.1"};
  WEFT_RETURN_IF_ERROR(weft_rpc_server_create(&o, &server));
  WEFT_RETURN_IF_ERROR(weft_worker_service_create(&sender.base, server, &service));
  WEFT_RETURN_IF_ERROR(weft_rpc_server_start(server));
  ports[0] = weft_rpc_server_port(server);
  pthread_t thread;
  if (pthread_create(&thread, NULL, serve_tcp, &sender) != 0)
    return WEFT_ERROR(INTERNAL, "cannot start a thread");
  char end;
  if (weft_write_all(to, ports, sizeof ports)) (void)weft_read_all(until, &end, 1);
  return NULL;
}

/* ---- the receiver ---- */

typedef struct receiver {
  sem_t is_there;
  weft_status_t *status; /* once it is there, as the next */
  size_t bytes;
  weft_rpc_client_t *rpc;
  weft_rpc_channel_t *channel;
  weft_worker_client_t *worker;
  int fd;                /* the TCP connection */
  char *buffer, *source; /* of as many bytes as the tensor */
  int64_t asked;         /* for a key of its own each time */
} receiver_t;

static void received(void *arg, weft_status_t *status, weft_tensor_t *tensor, bool is_dead) {
  (void)is_dead;
  receiver_t *r = arg;
  size_t bytes = tensor == NULL ? 0 : tensor->bytes;
  weft_tensor_release(tensor);
  r->status = status;
  r->bytes = bytes;
  sem_post(&r->is_there);
}

static weft_status_t *receive_once(receiver_t *r, size_t bytes) {
  r->worker->ops->recv_tensor(r->worker, ++r->asked, weft_key(WEFT_STR("key")), NULL, received, r);
  while (sem_wait(&r->is_there) != 0) { /* posted by received() */
  }
  if (r->status == NULL && r->bytes != bytes) return WEFT_ERROR(INTERNAL, "received %zu bytes", r->bytes);
  return r->status;
}

static weft_status_t *receive_plain(receiver_t *r, size_t bytes) {
  char ask = 1;
  if (weft_write_all(r->fd, &ask, 1) && weft_read_all(r->fd, r->buffer, bytes)) return NULL;
  return WEFT_ERROR(INTERNAL, "the TCP connection broke");
}

static int compare(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return x < y ? -1 : x > y;
}

static weft_status_t *copy(receiver_t *r, size_t bytes) {
  memcpy(r->buffer, r->source, bytes);
  atomic_signal_fence(memory_order_seq_cst); /* each copy is made */
  return NULL;
}

/* Of the median round of `times` transfers, the three ways by turns. */
static weft_status_t *race(receiver_t *r, size_t bytes, int times, transfer_times_t *out) {
  static weft_status_t *(*const ways[WAYS])(receiver_t *, size_t) = {receive_once, receive_plain, copy};
  double seconds[WAYS][ROUNDS];
  for (int way = 0; way < WAYS; way++) WEFT_RETURN_IF_ERROR(ways[way](r, bytes)); /* connects */
  for (int i = 0; i < ROUNDS * WAYS; i++) {
    int64_t begin = weft_clock_ns();
    for (int k = 0; k < times; k++) WEFT_RETURN_IF_ERROR(ways[i % WAYS](r, bytes));
    seconds[i % WAYS][i / WAYS] = (double)(weft_clock_ns() - begin) / 1e9;
  }
  for (int way = 0; way < WAYS; way++) qsort(seconds[way], ROUNDS, sizeof(double), compare);
  *out = (transfer_times_t){seconds[0][ROUNDS / 2], seconds[1][ROUNDS / 2], seconds[2][ROUNDS / 2]};
  return NULL;
}

static weft_status_t *connect_both(receiver_t *r, const int *ports, size_t bytes) {
  char target[32];
  snprintf(target, sizeof target, "127.0.0.1:%d", ports[0]);
  r->buffer = weft_malloc(bytes);
  r->source = weft_malloc(bytes);
  if (r->buffer == NULL || r->source == NULL) return WEFT_NO_MEMORY("%zu bytes", bytes);
  memset(r->buffer, 1, bytes);
  memset(r->source, 2, bytes);
  WEFT_RETURN_IF_ERROR(weft_rpc_client_create(0, &r->rpc));
  WEFT_RETURN_IF_ERROR(weft_rpc_channel_create(r->rpc, weft_str(target), &r->channel));
  WEFT_RETURN_IF_ERROR(
      weft_remote_worker_client_create(r->channel, WEFT_STR("/job:sender/replica:0/task:0"), &r->worker));
  r->fd = weft_tcp_connect(ports[1]);
  return r->fd >= 0 ? NULL : WEFT_ERROR(UNAVAILABLE, "cannot connect to port %d: %d", ports[1], errno);
}

static weft_status_t *receive_tensors(size_t bytes, int times, const int *ports, transfer_times_t *out) {
  receiver_t r = {.fd = -1};
  sem_init(&r.is_there, 0, 0);
  weft_status_t *s = connect_both(&r, ports, bytes);
  if (s == NULL) s = race(&r, bytes, times, out);
  if (r.fd >= 0) close(r.fd);
  weft_worker_client_release(r.worker);
  weft_rpc_channel_release(r.channel);
  weft_rpc_client_destroy(r.rpc);
  weft_free(r.buffer);
  weft_free(r.source);
  sem_destroy(&r.is_there);
  return s;
}

/* ---- the processes ---- */

typedef struct recv_bench {
  size_t bytes;
  int times;
  int ports[2]; /* of the sender */
} recv_bench_t;

static weft_status_t *be_sender(void *arg, int to, int until) {
  return send_tensors(((recv_bench_t *)arg)->bytes, to, until);
}
static weft_status_t *be_receiver(void *arg, int to, int until) {
  (void)until;
  const recv_bench_t *j = arg;
  transfer_times_t times;
  WEFT_RETURN_IF_ERROR(receive_tensors(j->bytes, j->times, j->ports, &times));
  return weft_write_all(to, &times, sizeof times) ? NULL
                                                  : WEFT_ERROR(INTERNAL, "the result cannot be written");
}

/* Both ends are children. */
static weft_status_t *run(size_t bytes, int times, transfer_times_t *out) {
  recv_bench_t job = {.bytes = bytes, .times = times};
  weft_child_t sender, receiver = WEFT_CHILD_INIT;
  weft_status_t *s = weft_child_start(be_sender, &job, "recv_tensor", job.ports, sizeof job.ports, &sender);
  if (s == NULL) s = weft_child_start(be_receiver, &job, "recv_tensor", out, sizeof *out, &receiver);
  weft_child_end(&receiver);
  weft_child_end(&sender);
  return s;
}

enum { SMALL = 1 << 20, LARGE = 128 << 20 };

static weft_status_t *of_tcp(size_t bytes, int times, double *out_value) {
  transfer_times_t t = {.rpc = 1};
  weft_status_t *s = run(bytes, times, &t);
  *out_value = t.tcp / t.rpc;
  return s;
}
static weft_status_t *of_copy(size_t bytes, int times, double *out_value) {
  transfer_times_t t = {.rpc = 1};
  weft_status_t *s = run(bytes, times, &t);
  *out_value = t.copy / t.rpc;
  return s;
}

weft_status_t *weft_bench_recv_tensor_1mb(const weft_bench_options_t *o, double *out_value) {
  return of_tcp(SMALL, o->is_quick ? 20 : 300, out_value);
}
weft_status_t *weft_bench_recv_tensor_128mb(const weft_bench_options_t *o, double *out_value) {
  return of_tcp(LARGE, o->is_quick ? 1 : 3, out_value);
}
weft_status_t *weft_bench_recv_memcpy_1mb(const weft_bench_options_t *o, double *out_value) {
  return of_copy(SMALL, o->is_quick ? 20 : 300, out_value);
}
weft_status_t *weft_bench_recv_memcpy_128mb(const weft_bench_options_t *o, double *out_value) {
  return of_copy(LARGE, o->is_quick ? 1 : 3, out_value);
}
