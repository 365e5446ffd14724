/* rpc/local_packet.h - what two processes of one host say to each other about calls, a packet at a time; only
 * for this folder.
 *
 * A packet is a head, a text and the bytes of a message. Small ones go through the connection's rings
 * (rpc/local_ring.h), all others over its socket, a Unix socket of type SOCK_SEQPACKET, which keeps packets
 * whole: any number of threads may send and receive at one socket. Messages of more than WEFT_PACKET_INLINE
 * bytes travel in a file in memory (memfd) whose descriptor goes with the packet, so every packet fits into
 * the socket's buffer and is sent whole or not at all.
 */
#ifndef WEFT_RPC_LOCAL_PACKET_H_
#define WEFT_RPC_LOCAL_PACKET_H_

#include "rpc/local_ring.h"
#include "rpc/message.h"

enum { WEFT_PACKET_INLINE = 64 << 10, WEFT_PACKET_MAX_TEXT = 4096 };

typedef enum weft_packet_kind {
  WEFT_PACKET_CALL = 1, /* text: the path; message: the request */
  WEFT_PACKET_ANSWER,   /* message: the response */
  WEFT_PACKET_FAILURE,  /* code, text, is_answered */
  WEFT_PACKET_CANCEL,   /* the caller does not wait any more */
  WEFT_PACKET_PING,     /* is to be answered with */
  WEFT_PACKET_PONG,
  WEFT_PACKET_FILE /* a caller's, at first: code: which file of its rings; the file goes with the packet */
} weft_packet_kind_t;

typedef struct weft_packet {
  weft_packet_kind_t kind;
  uint64_t id;     /* of the call, chosen by the caller */
  uint64_t behind; /* of CALL: it comes behind so many of the CANCELs of the other way, ring or socket */
  weft_code_t code;
  bool is_answered;        /* a handler has failed the call; else no handler has seen it */
  weft_str_t text;         /* at most WEFT_PACKET_MAX_TEXT bytes; of one received: lent by the room */
  weft_message_t *message; /* NULL is an empty one; of one received: owned by the receiver */
  weft_status_t *failure;  /* of one received, owned: its message could not be kept */
  int file;                /* of FILE; of one sent: lent; of one received: owned by the receiver */
  bool was_looked_for;     /* of one received: by a thread that did not sleep until it came */
} weft_packet_t;

typedef struct weft_packet_room weft_packet_room_t;   /* where a thread receives packets. Confined. */
weft_packet_room_t *weft_packet_room_create(void);    /* NULL without memory */
void weft_packet_room_destroy(weft_packet_room_t *r); /* NULL is fine */

typedef enum weft_packet_result {
  WEFT_PACKET_DONE,
  WEFT_PACKET_LATER,    /* the buffer is full, or empty */
  WEFT_PACKET_OVER,     /* the other end is gone, or does not speak our language */
  WEFT_PACKET_NO_MEMORY /* nothing was sent: no memory, or no descriptor, for a large message */
} weft_packet_result_t;

/* Over the socket. Neither waits nor raises SIGPIPE. Sending only reads the packet. */
weft_packet_result_t weft_packet_send(int fd, const weft_packet_t *p);
weft_packet_result_t weft_packet_recv(int fd, weft_packet_room_t *room, weft_packet_t *out);

/* Through the rings. False: it is too large, or there is no room in the ring: it can go over the socket. */
bool weft_packet_put(weft_local_rings_t *r, const weft_packet_t *p);
/* DONE, LATER: there is none, or OVER: the other end does not speak our language. */
weft_packet_result_t weft_packet_take(weft_local_rings_t *r, weft_packet_room_t *room, weft_packet_t *out);

/* A caller's new rings, which it has told the server of over the socket; NULL: packets go over the socket. */
weft_local_rings_t *weft_packet_offer_rings(int fd);

#endif /* WEFT_RPC_LOCAL_PACKET_H_ */
