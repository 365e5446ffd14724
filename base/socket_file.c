/* base/socket_file.c - control messages with open files. */
#include "base/socket_file.h"

#include <string.h>
#include <unistd.h>

void weft_socket_file_attach(struct msghdr *m, weft_socket_file_t *room, int file) {
  if (file < 0) return;
  memset(room, 0, sizeof *room);
  weft_socket_file_expect(m, room);
  struct cmsghdr *c = CMSG_FIRSTHDR(m);
  c->cmsg_level = SOL_SOCKET;
  c->cmsg_type = SCM_RIGHTS;
  c->cmsg_len = CMSG_LEN(sizeof file);
  memcpy(CMSG_DATA(c), &file, sizeof file);
}

void weft_socket_file_expect(struct msghdr *m, weft_socket_file_t *room) {
  m->msg_control = room->bytes;
  m->msg_controllen = sizeof room->bytes;
}

int weft_socket_file_take(struct msghdr *m) {
  int first = -1;
  for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c != NULL; c = CMSG_NXTHDR(m, c)) {
    if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) continue;
    for (size_t at = 0; CMSG_LEN(at + sizeof first) <= c->cmsg_len; at += sizeof first) {
      int file;
      memcpy(&file, CMSG_DATA(c) + at, sizeof file);
      if (first < 0) {
        first = file;
      } else {
        close(file);
      }
    }
  }
  return first;
}
