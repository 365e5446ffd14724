/* tests/ports.c - a port is held by a socket that is bound to it and never listens.
 *
 * The kernel chooses a port that no other socket is bound to. A server may bind to it all the same, because a
 * server's socket and, since it has its port, the holding one have SO_REUSEADDR, and the holding one does not
 * listen.
 */
#define _GNU_SOURCE
#include "tests/ports.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <sys/socket.h>

#include "tests/runner.h"

int weft_test_free_port(void) {
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t size = sizeof address;
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0); /* stays open */
  bool ok = fd >= 0 && bind(fd, (struct sockaddr *)&address, size) == 0 &&
            getsockname(fd, (struct sockaddr *)&address, &size) == 0 &&
            setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &(int){1}, sizeof(int)) == 0;
  CU_ASSERT_TRUE_FATAL(ok);
  return ntohs(address.sin_port);
}
