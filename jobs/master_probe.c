/* jobs/master_probe.c - a connection that says no more than hello. Source: RFC 9113, section 3.4. */
#define _GNU_SOURCE
#include "jobs/master_probe.h"

#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/str.h"

enum { TIMEOUT_MS = 4000, FRAME_HEADER_BYTES = 9, FRAME_TYPE_AT = 3, FRAME_SETTINGS = 4 };

/* Waits for `events` until the time is over. */
static bool is_ready(int fd, short events, int64_t deadline_ns) {
  for (;;) {
    int64_t left_ms = (deadline_ns - weft_clock_ns()) / 1000000;
    struct pollfd p = {.fd = fd, .events = events};
    int n = poll(&p, 1, left_ms > 0 ? (int)left_ms : 0);
    if (n >= 0 || errno != EINTR) return n == 1;
  }
}

static bool is_connected(int fd, const struct addrinfo *a, int64_t deadline_ns) {
  int error = 0;
  socklen_t size = sizeof error;
  if (connect(fd, a->ai_addr, a->ai_addrlen) == 0) return true;
  return errno == EINPROGRESS && is_ready(fd, POLLOUT, deadline_ns) &&
         getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) == 0 && error == 0;
}

/* A client's greeting is a fixed text and a SETTINGS frame; the first that a server sends is a SETTINGS
 * frame. *is_silent: nothing came. *is_gone: the connection was closed before anything came. */
static bool is_http2(int fd, int64_t deadline_ns, bool *is_silent, bool *is_gone) {
  static const char hello[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0";
  unsigned char frame[FRAME_HEADER_BYTES];
  size_t got = 0;
  if (send(fd, hello, sizeof hello, MSG_NOSIGNAL) !=
      (ssize_t)sizeof hello) { /* its '\0' is the frame's last */
    *is_gone = true;
    return false;
  }
  while (got < sizeof frame) {
    if (!is_ready(fd, POLLIN, deadline_ns)) {
      *is_silent = got == 0;
      return false;
    }
    ssize_t n = recv(fd, frame + got, sizeof frame - got, 0);
    if (n == 0 || (n < 0 && errno != EINTR && errno != EAGAIN)) {
      *is_gone = got == 0;
      return false;
    }
    got += n > 0 ? (size_t)n : 0;
  }
  return frame[FRAME_TYPE_AT] == FRAME_SETTINGS;
}

/* The host and the port of "grpc://HOST:PORT"; false if it is none. `*port` ends with the text. */
static bool split_master(const char *master, weft_str_t *host, const char **port) {
  static const char scheme[] = "grpc://";
  uint64_t number = 0;
  if (!weft_str_starts_with(weft_str(master), scheme)) return false;
  const weft_str_t address = weft_str(master + strlen(scheme));
  const ptrdiff_t colon = weft_str_rfind(address, ':');
  if (colon <= 0) return false;
  *host = weft_str_of(address.data, (size_t)colon);
  *port = address.data + colon + 1;
  return weft_str_to_u64(weft_str(*port), &number) && number > 0 && number <= 65535;
}

bool weft_job_is_master(const char *master) {
  weft_str_t host;
  const char *port;
  return split_master(master, &host, &port);
}

static weft_status_t *resolve(const char *option, const char *master, struct addrinfo **out) {
  weft_str_t host;
  const char *port;
  if (!split_master(master, &host, &port))
    return WEFT_ERROR(INVALID_ARGUMENT, "%s %s: give grpc://HOST:PORT", option, master);
  bool is_bracketed = host.length > 2 && host.data[0] == '[' && host.data[host.length - 1] == ']'; /* [::1] */
  char *name =
      is_bracketed ? weft_strndup(host.data + 1, host.length - 2) : weft_strndup(host.data, host.length);
  if (name == NULL) return WEFT_NO_MEMORY("an address");
  struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
  int failed = getaddrinfo(name, port, &hints, out);
  weft_free(name);
  return failed == 0 ? NULL : WEFT_ERROR(UNAVAILABLE, "%s %s: %s", option, master, gai_strerror(failed));
}

typedef struct look {
  bool is_there, is_master, is_silent, is_gone;
} look_t;

static weft_status_t *look(const char *option, const char *master, bool says_hello, look_t *out) {
  struct addrinfo *found = NULL;
  *out = (look_t){.is_there = false};
  WEFT_RETURN_IF_ERROR(resolve(option, master, &found));
  int64_t deadline_ns = weft_clock_ns() + TIMEOUT_MS * INT64_C(1000000);
  for (struct addrinfo *a = found; a != NULL && !out->is_master; a = a->ai_next) {
    int fd = socket(a->ai_family, a->ai_socktype | SOCK_NONBLOCK | SOCK_CLOEXEC, a->ai_protocol);
    if (fd < 0) continue;
    bool is_there = is_connected(fd, a, deadline_ns);
    out->is_there = out->is_there || is_there;
    out->is_master = is_there && says_hello && is_http2(fd, deadline_ns, &out->is_silent, &out->is_gone);
    close(fd);
  }
  freeaddrinfo(found);
  return NULL;
}

weft_status_t *weft_job_probe_master(const char *option, const char *master, bool *out_may_come) {
  look_t seen;
  weft_status_t *s = look(option, master, true, &seen);
  *out_may_come =
      s == NULL ? seen.is_silent || seen.is_gone || !seen.is_there : weft_status_code(s) == WEFT_UNAVAILABLE;
  if (s != NULL || seen.is_master) return s;
  if (seen.is_silent)
    return WEFT_ERROR(UNAVAILABLE, "the master at %s does not answer; is it stopped, or its host overloaded?",
                      master);
  if (seen.is_gone)
    return WEFT_ERROR(UNAVAILABLE, "the server at %s closed the connection at once; is it being stopped?",
                      master);
  if (seen.is_there)
    return WEFT_ERROR(UNAVAILABLE, "%s answers, but is no master; give the address of a `weft server`",
                      master);
  return WEFT_ERROR(UNAVAILABLE, "no server listens at %s; is `weft server` running there?", master);
}

bool weft_job_master_is_there(const char *master) {
  look_t seen;
  weft_status_t *s = look("", master, false, &seen);
  bool is_known = s == NULL; /* a name server that is away says nothing about the master */
  weft_status_free(s);
  return !is_known || seen.is_there;
}
