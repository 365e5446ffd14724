/* base/socket_file.h - an open file that goes along with a message of a Unix socket.
 *
 * Source: unix(7), SCM_RIGHTS. The system hands over as many files as the sender likes and the receiver has
 * room for, and rounds that room up. So a receiver that wants one may get more, and each is open in its
 * process from then on: the first is taken, the others are closed.
 */
#ifndef WEFT_BASE_SOCKET_FILE_H_
#define WEFT_BASE_SOCKET_FILE_H_

#include <sys/socket.h>

/* Room for one file beside a message; lives as long as the message's header. */
typedef union weft_socket_file {
  struct cmsghdr head;
  char bytes[CMSG_SPACE(sizeof(int))];
} weft_socket_file_t;

/* A message to send takes `file` along (lent); -1: none. */
void weft_socket_file_attach(struct msghdr *m, weft_socket_file_t *room, int file);
/* A message to receive may bring one. The caller passes MSG_CMSG_CLOEXEC to recvmsg(). */
void weft_socket_file_expect(struct msghdr *m, weft_socket_file_t *room);
/* What a received message has brought: owned by the caller. -1: none. */
int weft_socket_file_take(struct msghdr *m);

#endif /* WEFT_BASE_SOCKET_FILE_H_ */
