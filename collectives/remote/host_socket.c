/* collectives/remote/host_socket.c - addresses of tasks on this host, and the process at the other end. */
#define _GNU_SOURCE /* struct ucred */
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "collectives/remote/host_link_impl.h"

enum { SOCKET_BYTES = 1 << 20 };

socklen_t weft_host_address(uint64_t incarnation, struct sockaddr_un *out) {
  memset(out, 0, sizeof *out);
  out->sun_family = AF_UNIX;
  int n = snprintf(out->sun_path + 1, sizeof out->sun_path - 1, "weft-host-link-%016" PRIx64, incarnation);
  return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
}

void weft_host_widen(int fd) {
  int bytes = SOCKET_BYTES; /* as far as the system allows */
  setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
  setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes);
}

/* Is the other end a process of our own user? The kernel says so, not the peer. */
bool weft_host_find_pid(int fd, pid_t *out) {
  struct ucred peer;
  socklen_t length = sizeof peer;
  if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0 || peer.uid != geteuid()) return false;
  *out = peer.pid;
  return peer.pid > 0;
}

static bool read_text(const char *path, char *to, size_t size) {
  FILE *f = fopen(path, "re");
  size_t n = f == NULL ? 0 : fread(to, 1, size - 1, f);
  if (f != NULL) fclose(f);
  while (n > 0 && (to[n - 1] == '\n' || to[n - 1] == ' ')) n--;
  to[n] = '\0';
  return n > 0;
}

/* This boot of this machine, the namespaces in which we see others, our user. */
char *weft_host_describe(void) {
  char boot[64], net[64], pid[64];
  if (!read_text("/proc/sys/kernel/random/boot_id", boot, sizeof boot)) return NULL;
  ssize_t n = readlink("/proc/self/ns/net", net, sizeof net - 1),
          p = readlink("/proc/self/ns/pid", pid, sizeof pid - 1);
  if (n <= 0 || p <= 0) return NULL;
  net[n] = pid[p] = '\0';
  weft_strbuf_t text = WEFT_STRBUF_INIT;
  weft_strbuf_printf(&text, "%s/%s/%s/%u", boot, net, pid, (unsigned)geteuid());
  char *out = NULL;
  weft_status_free(weft_strbuf_finish(&text, &out, NULL));
  return out;
}
