/* benchmarks/recv_tensor.c - one tensor from another process: RecvTensor against a plain TCP connection.
 *
 * The sender is a child process with both a WorkerService, behind which a worker
 * always has the same tensor ready, and a TCP socket that answers every byte
 * with as many bytes as the tensor has. Rounds of the two alternate, so that a
 * machine that slows down slows both; the medians are compared.
 */
#include "benchmarks/recv_tensor.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "services/remote_worker.h"

enum { ROUNDS = 7 };

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

static bool write_all(int fd, const void *data, size_t n) {
  const char *p = data;
  while (n > 0) {
    ssize_t k = write(fd, p, n);
    if (k < 0 && errno == EINTR) continue;
    if (k <= 0) return false;
    p += k;
    n -= (size_t)k;
  }
  return true;
}
static bool read_all(int fd, void *data, size_t n) {
  char *p = data;
  while (n > 0) {
    ssize_t k = read(fd, p, n);
    if (k < 0 && errno == EINTR) continue;
    if (k <= 0) return false;
    p += k;
    n -= (size_t)k;
  }
  return true;
}

static void no_delay(int fd) {
  int one = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
}

static void *serve_tcp(void *arg) {
  sender_t *s = arg;
  int fd = accept(s->listener, NULL, NULL);
  char ask;
  no_delay(fd);
  while (read_all(fd, &ask, 1) && write_all(fd, s->tensor->data, s->tensor->bytes)) {
  }
  close(fd);
  return NULL;
}

static int listen_anywhere(int *out_port) {
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t length = sizeof address;
  int fd = socket(AF_INET, SOCK_STREAM, 0);
  if (fd < 0 || bind(fd, (struct sockaddr *)&address, length) != 0 || listen(fd, 1) != 0 ||
      getsockname(fd, (struct sockaddr *)&address, &length) != 0) {
    if (fd >= 0) close(fd);
    return -1;
  }
  *out_port = ntohs(address.sin_port);
  return fd;
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
  sender.listener = listen_anywhere(&ports[1]);
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
  if (write_all(to, ports, sizeof ports)) (void)read_all(until, &end, 1);
  return NULL;
}

/* ---- the receiver ---- */

typedef struct receiver {
  weft_mutex_t mu;
  weft_cond_t changed;
  bool is_there;         /* guarded by mu */
  weft_status_t *status; /* guarded by mu */
  size_t bytes;          /* guarded by mu */
  weft_rpc_client_t *rpc;
  weft_rpc_channel_t *channel;
  weft_worker_client_t *worker;
  int fd; /* the TCP connection */
  char *buffer;
  int64_t asked; /* for a key of its own each time */
} receiver_t;

static void received(void *arg, weft_status_t *status, weft_tensor_t *tensor, bool is_dead) {
  (void)is_dead;
  receiver_t *r = arg;
  size_t bytes = tensor == NULL ? 0 : tensor->bytes;
  weft_tensor_release(tensor);
  weft_mutex_lock(&r->mu);
  r->status = status;
  r->bytes = bytes;
  r->is_there = true;
  weft_cond_signal(&r->changed);
  weft_mutex_unlock(&r->mu);
}

static weft_status_t *receive_once(receiver_t *r, size_t bytes) {
  r->is_there = false;
  r->worker->ops->recv_tensor(r->worker, ++r->asked, weft_key(WEFT_STR("key")), NULL, received, r);
  weft_mutex_lock(&r->mu);
  while (!r->is_there) weft_cond_wait(&r->changed, &r->mu); /* woken by received */
  weft_mutex_unlock(&r->mu);
  if (r->status == NULL && r->bytes != bytes) return WEFT_ERROR(INTERNAL, "received %zu bytes", r->bytes);
  return r->status;
}

static weft_status_t *receive_plain(receiver_t *r, size_t bytes) {
  char ask = 1;
  if (write_all(r->fd, &ask, 1) && read_all(r->fd, r->buffer, bytes)) return NULL;
  return WEFT_ERROR(INTERNAL, "the TCP connection broke");
}

static int compare(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return x < y ? -1 : x > y;
}

/* Seconds of the median round of `times` transfers, both ways of transfer by turns. */
static weft_status_t *race(receiver_t *r, size_t bytes, int times, double *out_rpc, double *out_tcp) {
  double seconds[2][ROUNDS];
  WEFT_RETURN_IF_ERROR(receive_once(r, bytes)); /* connects */
  WEFT_RETURN_IF_ERROR(receive_plain(r, bytes));
  for (int i = 0; i < ROUNDS * 2; i++) {
    int64_t begin = weft_clock_ns();
    for (int k = 0; k < times; k++) {
      if (i % 2 == 0) WEFT_RETURN_IF_ERROR(receive_once(r, bytes));
      if (i % 2 == 1) WEFT_RETURN_IF_ERROR(receive_plain(r, bytes));
    }
    seconds[i % 2][i / 2] = (double)(weft_clock_ns() - begin) / 1e9;
  }
  qsort(seconds[0], ROUNDS, sizeof(double), compare);
  qsort(seconds[1], ROUNDS, sizeof(double), compare);
  *out_rpc = seconds[0][ROUNDS / 2];
  *out_tcp = seconds[1][ROUNDS / 2];
  return NULL;
}

static weft_status_t *connect_both(receiver_t *r, const int *ports, size_t bytes) {
  char target[32];
  snprintf(target, sizeof target, "127.0.0.1:%d", ports[0]);
  r->buffer = weft_malloc(bytes);
  if (r->buffer == NULL) return WEFT_NO_MEMORY("%zu bytes", bytes);
  memset(r->buffer, 1, bytes);
  WEFT_RETURN_IF_ERROR(weft_rpc_client_create(0, &r->rpc));
  WEFT_RETURN_IF_ERROR(weft_rpc_channel_create(r->rpc, weft_str(target), &r->channel));
  WEFT_RETURN_IF_ERROR(
      weft_remote_worker_client_create(r->channel, WEFT_STR("/job:sender/replica:0/task:0"), &r->worker));
  struct sockaddr_in address = {.sin_family = AF_INET,
                                .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                                .sin_port = htons((uint16_t)ports[1])};
  r->fd = socket(AF_INET, SOCK_STREAM, 0);
  if (r->fd < 0 || connect(r->fd, (struct sockaddr *)&address, sizeof address) != 0)
    return WEFT_ERROR(UNAVAILABLE, "cannot connect to port %d: %d", ports[1], errno);
  no_delay(r->fd);
  return NULL;
}

static weft_status_t *receive_tensors(size_t bytes, int times, const int *ports, double *out_share) {
  receiver_t r = {.fd = -1};
  double rpc = 0, tcp = 0;
  weft_mutex_init(&r.mu);
  weft_cond_init(&r.changed);
  weft_status_t *s = connect_both(&r, ports, bytes);
  if (s == NULL) s = race(&r, bytes, times, &rpc, &tcp);
  if (s == NULL) *out_share = tcp / rpc;
  if (r.fd >= 0) close(r.fd);
  weft_worker_client_release(r.worker);
  weft_rpc_channel_release(r.channel);
  weft_rpc_client_destroy(r.rpc);
  weft_free(r.buffer);
  weft_cond_deinit(&r.changed);
  weft_mutex_deinit(&r.mu);
  return s;
}

/* ---- the processes ---- */

typedef struct recv_bench {
  size_t bytes;
  int times;
  int ports[2]; /* of the sender */
} recv_bench_t;

static weft_status_t *be_sender(recv_bench_t *j, int to, int until) {
  return send_tensors(j->bytes, to, until);
}
static weft_status_t *be_receiver(recv_bench_t *j, int to, int until) {
  (void)until;
  double share = 0;
  WEFT_RETURN_IF_ERROR(receive_tensors(j->bytes, j->times, j->ports, &share));
  return write_all(to, &share, sizeof share) ? NULL : WEFT_ERROR(INTERNAL, "the result cannot be written");
}

/* Both ends are children: gRPC does not survive a fork, so this process must not use it, and may then run the
 * next benchmark. Reads `n` bytes of what the child has to say; the child then waits until *stop is closed.
 */
static weft_status_t *start_child(weft_status_t *(*be)(recv_bench_t *, int, int), recv_bench_t *j, void *says,
                                  size_t n, pid_t *child, int *stop) {
  int tell[2], until[2];
  if (pipe(tell) != 0) return WEFT_ERROR(INTERNAL, "cannot make a pipe: %d", errno);
  if (pipe(until) != 0) {
    close(tell[0]);
    close(tell[1]);
    return WEFT_ERROR(INTERNAL, "cannot make a pipe: %d", errno);
  }
  *child = fork();
  if (*child == 0) {
    close(tell[0]);
    close(until[1]);
    weft_status_t *s = be(j, tell[1], until[0]);
    if (s != NULL) fprintf(stderr, "recv_tensor: %s\n", weft_status_message(s));
    _exit(s != NULL);
  }
  close(tell[1]);
  close(until[0]);
  *stop = until[1];
  weft_status_t *s = *child < 0 ? WEFT_ERROR(INTERNAL, "cannot fork: %d", errno) : NULL;
  if (s == NULL && !read_all(tell[0], says, n)) s = WEFT_ERROR(INTERNAL, "one end failed: see above");
  close(tell[0]);
  return s;
}

static void end_child(pid_t child, int stop) {
  if (stop >= 0) close(stop);
  if (child > 0) waitpid(child, NULL, 0);
}

static weft_status_t *run(size_t bytes, int times, double *out_value) {
  recv_bench_t job = {.bytes = bytes, .times = times};
  pid_t sender = -1, receiver = -1;
  int stop_sender = -1, stop_receiver = -1;
  weft_status_t *s = start_child(be_sender, &job, job.ports, sizeof job.ports, &sender, &stop_sender);
  if (s == NULL) s = start_child(be_receiver, &job, out_value, sizeof *out_value, &receiver, &stop_receiver);
  end_child(receiver, stop_receiver);
  end_child(sender, stop_sender);
  return s;
}

weft_status_t *weft_bench_recv_tensor_1mb(const weft_bench_options_t *o, double *out_value) {
  return run((size_t)1 << 20, o->is_quick ? 20 : 300, out_value);
}

weft_status_t *weft_bench_recv_tensor_128mb(const weft_bench_options_t *o, double *out_value) {
  return run((size_t)128 << 20, o->is_quick ? 1 : 3, out_value);
}
