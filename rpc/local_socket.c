/* rpc/local_socket.c - Unix sockets with abstract names. */
#define _GNU_SOURCE /* accept4, struct ucred */
#include "rpc/local_socket.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/socket_file.h"

enum { BUFFER_BYTES = 1 << 20, BACKLOG = 16 };

/* An abstract name: a zero byte in front, and no file. False if it is too long. */
static bool make_address(weft_str_t name, struct sockaddr_un *out, socklen_t *out_length) {
  memset(out, 0, sizeof *out);
  out->sun_family = AF_UNIX;
  if (name.length == 0 || name.length > sizeof out->sun_path - 1) return false;
  memcpy(out->sun_path + 1, name.data, name.length);
  *out_length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + name.length);
  return true;
}

/* Is the other end a process of our own user? The kernel says so, not the peer. */
static bool is_ours(int fd) {
  struct ucred peer;
  socklen_t length = sizeof peer;
  return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0 && peer.uid == geteuid();
}

int64_t weft_local_socket_peer(int fd) {
  struct ucred peer;
  socklen_t length = sizeof peer;
  return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0 ? peer.pid : 0;
}

static void widen(int fd) {
  int bytes = BUFFER_BYTES; /* as far as the system allows */
  setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
  setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes);
}

int weft_local_socket_listen(weft_str_t name, int type) {
  struct sockaddr_un address;
  socklen_t length;
  if (!make_address(name, &address, &length)) return -1;
  int fd = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);
  if (fd < 0) return -1;
  if (bind(fd, (struct sockaddr *)&address, length) == 0 && listen(fd, BACKLOG) == 0) return fd;
  close(fd);
  return -1;
}

int weft_local_socket_accept(int listener) {
  for (;;) {
    int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    if (fd < 0 && (errno == EINTR || errno == ECONNABORTED)) continue;
    if (fd < 0) return -1;
    if (is_ours(fd)) {
      widen(fd);
      return fd;
    }
    close(fd);
  }
}

int weft_local_socket_connect(weft_str_t name, int type, bool *is_gone) {
  struct sockaddr_un address;
  socklen_t length;
  if (!make_address(name, &address, &length)) return -1;
  /* Not blocking while it connects: a full backlog must not hold up the thread of the RPCs. */
  int fd = socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return -1;
  errno = 0;
  if (connect(fd, (struct sockaddr *)&address, length) == 0 && is_ours(fd) &&
      fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK) == 0) {
    widen(fd);
    return fd;
  }
  if (is_gone != NULL) *is_gone = errno != EAGAIN;
  close(fd);
  return -1;
}

bool weft_local_socket_read(int fd, void *to, size_t n) {
  char *p = to;
  while (n > 0) {
    ssize_t got = recv(fd, p, n, MSG_WAITALL);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    p += got;
    n -= (size_t)got;
  }
  return true;
}

bool weft_local_socket_write(int fd, const void *a, size_t num_a, const void *b, size_t num_b) {
  while (num_a + num_b > 0) {
    /* The casts drop const: the kernel only reads. */
    struct iovec pieces[2] = {{(void *)(uintptr_t)a, num_a}, {(void *)(uintptr_t)b, num_b}};
    struct msghdr message = {.msg_iov = pieces, .msg_iovlen = 2};
    ssize_t sent = sendmsg(fd, &message, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return false;
    size_t of_a = (size_t)sent < num_a ? (size_t)sent : num_a;
    a = (const char *)a + of_a;
    num_a -= of_a;
    b = (const char *)b + ((size_t)sent - of_a);
    num_b -= (size_t)sent - of_a;
  }
  return true;
}

bool weft_local_socket_read_file(int fd, void *to, size_t n, int *out_file) {
  weft_socket_file_t room;
  struct iovec piece = {to, n};
  struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1};
  ssize_t got;
  weft_socket_file_expect(&message, &room);
  do {
    got = recvmsg(fd, &message, MSG_CMSG_CLOEXEC);
  } while (got < 0 && errno == EINTR);
  *out_file = got < 0 ? -1 : weft_socket_file_take(&message);
  if (got > 0 && weft_local_socket_read(fd, (char *)to + got, n - (size_t)got)) return true;
  weft_local_socket_close(*out_file);
  *out_file = -1;
  return false;
}

bool weft_local_socket_write_file(int fd, const void *a, size_t n, int file) {
  weft_socket_file_t room;
  struct iovec piece = {(void *)(uintptr_t)a, n}; /* the cast drops const: the kernel only reads */
  struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1};
  weft_socket_file_attach(&message, &room, file);
  ssize_t sent;
  do {
    sent = sendmsg(fd, &message, MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  return sent > 0 && weft_local_socket_write(fd, (const char *)a + sent, n - (size_t)sent, NULL, 0);
}

bool weft_local_socket_write_now(int fd, const void *a, size_t n) {
  ssize_t sent;
  do {
    sent = send(fd, a, n, MSG_NOSIGNAL | MSG_DONTWAIT);
  } while (sent < 0 && errno == EINTR);
  return sent == (ssize_t)n;
}

bool weft_local_socket_is_over(int fd) {
  struct pollfd p = {.fd = fd, .events = POLLRDHUP};
  return poll(&p, 1, 0) > 0 && (p.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0;
}

void weft_local_socket_break(int fd) {
  if (fd >= 0) shutdown(fd, SHUT_RDWR);
}

void weft_local_socket_close(int fd) {
  if (fd >= 0) close(fd);
}
