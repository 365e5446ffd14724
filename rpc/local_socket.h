/* rpc/local_socket.h - what both ends of a local link do with their socket; only for this folder. */
#ifndef WEFT_RPC_LOCAL_SOCKET_H_
#define WEFT_RPC_LOCAL_SOCKET_H_

#include <stdint.h>

#include "base/str.h"

#define WEFT_LOCAL_MAGIC UINT64_C(0x316b6e696c746677) /* "wftlink1" */

typedef struct weft_local_hello {
  uint64_t magic, link;
} weft_local_hello_t;
typedef struct weft_local_frame { /* both ends are on one machine: its own byte order */
  uint64_t transfer, header_bytes, payload_bytes;
} weft_local_frame_t;
#define WEFT_LOCAL_FRAME_FILLED UINT64_MAX /* as header_bytes: nothing follows; the place is filled */
typedef struct weft_local_returned {
  uint64_t transfer, how; /* a weft_local_end_t */
} weft_local_returned_t;

/* All return -1 or false on failure, and none raises SIGPIPE. `type`: SOCK_STREAM or SOCK_SEQPACKET. */
int weft_local_socket_listen(weft_str_t name, int type);
int weft_local_socket_accept(int listener); /* blocks, if the listener does; only a peer of our own user */
/* Does not block. *is_gone: it cannot be reached; else the listener is busy, and another try may succeed. May
 * be NULL. */
int weft_local_socket_connect(weft_str_t name, int type, bool *is_gone);
int64_t weft_local_socket_peer(int fd); /* the process at the other end; 0: it is not seen from here */
bool weft_local_socket_read(int fd, void *to, size_t n);
/* Two pieces with one call where it can be. */
bool weft_local_socket_write(int fd, const void *a, size_t num_a, const void *b, size_t num_b);
/* The same with a file, -1: none, that the first byte takes along. Of a read: owned by the caller, -1: none
 * came. */
bool weft_local_socket_read_file(int fd, void *to, size_t n, int *out_file);
bool weft_local_socket_write_file(int fd, const void *a, size_t n, int file);
bool weft_local_socket_write_now(int fd, const void *a, size_t n); /* all of it, without waiting */
bool weft_local_socket_is_over(int fd);                            /* has the peer gone? Does not wait */
void weft_local_socket_break(int fd); /* ends pending reads, writes and accepts; does not close */
void weft_local_socket_close(int fd); /* -1 is fine */

#endif /* WEFT_RPC_LOCAL_SOCKET_H_ */
