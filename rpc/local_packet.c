/* rpc/local_packet.c - one system call for a packet over the socket, some more for one with a file.
 *
 * A file is sealed by its sender: it can neither change nor shrink any more, not even by the sender's hand.
 * So the receiver maps it, and reads the message where it lies, without a copy; a file without these seals is
 * refused.
 */
#define _GNU_SOURCE /* memfd_create, F_ADD_SEALS */
#include "rpc/local_packet.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/socket_file.h"

typedef struct packet_head { /* both ends are on one machine: its own byte order */
  uint16_t kind, code;
  uint8_t is_answered, is_in_file;
  uint16_t text_bytes;
  uint64_t id, message_bytes, behind;
} packet_head_t;

struct weft_packet_room {
  char bytes[sizeof(packet_head_t) + WEFT_PACKET_MAX_TEXT + WEFT_PACKET_INLINE + 1];
};

enum {
  MOST_PIECES = 62, /* of one system call, beside head and text */
  SEALS = F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE
};

weft_packet_room_t *weft_packet_room_create(void) { return weft_malloc(sizeof(weft_packet_room_t)); }
void weft_packet_room_destroy(weft_packet_room_t *r) { weft_free(r); }

/* ---- sending ---- */

/* The cast drops const: the kernel only reads. */
static struct iovec piece_of(const void *data, size_t bytes) {
  return (struct iovec){(void *)(uintptr_t)data, bytes};
}

/* Up to MOST_PIECES of the message's pieces, from the `at`th on. */
static int pieces_of(const weft_message_t *m, int at, struct iovec *out) {
  const int n = m == NULL ? 0 : weft_message_num_pieces(m);
  int taken = 0;
  while (at + taken < n && taken < MOST_PIECES) {
    const weft_str_t piece = weft_message_piece(m, at + taken);
    out[taken++] = piece_of(piece.data, piece.length);
  }
  return taken;
}

static bool write_pieces(int file, struct iovec *pieces, int n) {
  while (n > 0) {
    ssize_t written = writev(file, pieces, n);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return false;
    for (; n > 0 && (size_t)written >= pieces->iov_len; pieces++, n--) written -= (ssize_t)pieces->iov_len;
    if (n > 0) *pieces = piece_of((char *)pieces->iov_base + written, pieces->iov_len - (size_t)written);
  }
  return true;
}

/* A file with the message; -1: there is no memory, or no descriptor. */
static int to_file(const weft_message_t *m) {
  struct iovec pieces[MOST_PIECES];
  int file = memfd_create("weft-message", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  bool ok = file >= 0;
  for (int at = 0, n; ok && (n = pieces_of(m, at, pieces)) > 0; at += n) ok = write_pieces(file, pieces, n);
  if (ok && fcntl(file, F_ADD_SEALS, SEALS) == 0) return file;
  if (file >= 0) close(file);
  return -1;
}

static weft_packet_result_t send_pieces(int fd, struct iovec *pieces, int n, int file) {
  weft_socket_file_t beside;
  struct msghdr message = {.msg_iov = pieces, .msg_iovlen = (size_t)n};
  weft_socket_file_attach(&message, &beside, file);
  ssize_t sent;
  do {
    sent = sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  } while (sent < 0 && errno == EINTR);
  if (sent >= 0) return WEFT_PACKET_DONE;
  if (errno == EAGAIN || errno == EWOULDBLOCK || errno == ENOBUFS) return WEFT_PACKET_LATER;
  return errno == ENOMEM || errno == ETOOMANYREFS ? WEFT_PACKET_NO_MEMORY : WEFT_PACKET_OVER;
}

/* The pieces of a packet, with the message where it is not in a file. Returns how many. */
static int packet_pieces(const weft_packet_t *p, packet_head_t *head, struct iovec *out) {
  const size_t bytes = p->message == NULL ? 0 : weft_message_bytes(p->message);
  memset(head, 0, sizeof *head);
  head->kind = (uint16_t)p->kind;
  head->code = (uint16_t)p->code;
  head->is_answered = p->is_answered;
  head->is_in_file =
      bytes > WEFT_PACKET_INLINE || (p->message != NULL && weft_message_num_pieces(p->message) > MOST_PIECES);
  head->text_bytes =
      (uint16_t)(p->text.length > WEFT_PACKET_MAX_TEXT ? WEFT_PACKET_MAX_TEXT : p->text.length);
  head->id = p->id;
  head->message_bytes = bytes;
  head->behind = p->behind;
  out[0] = piece_of(head, sizeof *head);
  out[1] = piece_of(p->text.data, head->text_bytes);
  return 2 + (head->is_in_file ? 0 : pieces_of(p->message, 0, out + 2));
}

weft_packet_result_t weft_packet_send(int fd, const weft_packet_t *p) {
  packet_head_t head;
  struct iovec pieces[MOST_PIECES + 2];
  const int n = packet_pieces(p, &head, pieces);
  if (p->kind == WEFT_PACKET_FILE) return send_pieces(fd, pieces, n, p->file);
  const int file = head.is_in_file ? to_file(p->message) : -1;
  if (head.is_in_file && file < 0) return WEFT_PACKET_NO_MEMORY;
  const weft_packet_result_t r = send_pieces(fd, pieces, n, file);
  if (file >= 0) close(file);
  return r;
}

bool weft_packet_put(weft_local_rings_t *r, const weft_packet_t *p) {
  packet_head_t head;
  struct iovec pieces[MOST_PIECES + 2];
  const int n = packet_pieces(p, &head, pieces);
  return !head.is_in_file && weft_local_rings_put(r, pieces, n);
}

weft_local_rings_t *weft_packet_offer_rings(int fd) {
  weft_local_rings_t *r = weft_local_rings_create();
  weft_packet_result_t sent = r == NULL ? WEFT_PACKET_LATER : WEFT_PACKET_DONE;
  for (int i = 0; i < WEFT_LOCAL_RING_FILES && sent == WEFT_PACKET_DONE; i++) {
    const weft_packet_t p = {
        .kind = WEFT_PACKET_FILE, .code = (weft_code_t)i, .file = weft_local_rings_file(r, i)};
    sent = weft_packet_send(fd, &p);
  }
  if (sent == WEFT_PACKET_DONE) {
    weft_local_rings_sent(r);
    return r;
  }
  weft_local_rings_destroy(r);
  return NULL;
}

/* ---- receiving ---- */

typedef struct mapped_message {
  void *at;
  size_t bytes;
} mapped_message_t;

static void unmap(void *arg) {
  mapped_message_t *m = arg;
  munmap(m->at, m->bytes);
  weft_free(m);
}

/* False: the file is not what the packet says. */
static bool from_file(int file, uint64_t bytes, weft_packet_t *out) {
  struct stat st;
  if (file < 0 || bytes == 0 || bytes > INT32_MAX || fstat(file, &st) != 0 || st.st_size != (off_t)bytes)
    return false;
  const int seals = fcntl(file, F_GET_SEALS);
  if (seals < 0 || (seals & SEALS) != SEALS) return false;
  mapped_message_t *m = weft_malloc(sizeof *m);
  void *at = m == NULL ? MAP_FAILED : mmap(NULL, bytes, PROT_READ, MAP_SHARED | MAP_POPULATE, file, 0);
  weft_status_t *s = weft_message_create(&out->message);
  if (at == MAP_FAILED) {
    weft_free(m);
    if (s == NULL) s = WEFT_NO_MEMORY("a message of %llu bytes", (unsigned long long)bytes);
  } else {
    *m = (mapped_message_t){at, bytes};
    if (s == NULL) {
      s = weft_message_share(out->message, at, bytes, unmap, m);
    } else {
      unmap(m);
    }
  }
  out->failure = s;
  return true;
}

static bool read_packet(const weft_packet_room_t *room, size_t n, int file, weft_packet_t *out) {
  packet_head_t head;
  if (n < sizeof head) return false;
  memcpy(&head, room->bytes, sizeof head);
  const size_t rest = n - sizeof head;
  if (head.kind < WEFT_PACKET_CALL || head.kind > WEFT_PACKET_FILE || head.text_bytes > rest ||
      head.text_bytes > WEFT_PACKET_MAX_TEXT)
    return false;
  const char *at = room->bytes + sizeof head;
  *out = (weft_packet_t){.kind = (weft_packet_kind_t)head.kind,
                         .id = head.id,
                         .behind = head.behind,
                         .code = (weft_code_t)head.code,
                         .is_answered = head.is_answered != 0,
                         .text = weft_str_of(at, head.text_bytes)};
  at += head.text_bytes;
  if (head.kind == WEFT_PACKET_FILE) {
    out->file = file;
    return file >= 0 && !head.is_in_file && head.message_bytes == 0 && rest == head.text_bytes;
  }
  if (head.is_in_file) return rest == head.text_bytes && from_file(file, head.message_bytes, out);
  if (rest - head.text_bytes != head.message_bytes) return false;
  if (head.message_bytes == 0 && head.kind != WEFT_PACKET_CALL && head.kind != WEFT_PACKET_ANSWER)
    return true;
  out->failure = weft_message_create(&out->message);
  if (out->failure == NULL)
    out->failure = weft_message_append(out->message, weft_str_of(at, (size_t)head.message_bytes));
  return true;
}

weft_packet_result_t weft_packet_recv(int fd, weft_packet_room_t *room, weft_packet_t *out) {
  weft_socket_file_t beside;
  struct iovec piece = {room->bytes, sizeof room->bytes};
  struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1};
  ssize_t got;
  weft_socket_file_expect(&message, &beside);
  do {
    got = recvmsg(fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  } while (got < 0 && errno == EINTR);
  if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return WEFT_PACKET_LATER;
  if (got < 0) return WEFT_PACKET_OVER;
  const int file = weft_socket_file_take(&message);
  const bool ok = (message.msg_flags & MSG_TRUNC) == 0 && read_packet(room, (size_t)got, file, out);
  if (file >= 0 && !(ok && out->kind == WEFT_PACKET_FILE)) close(file);
  return ok ? WEFT_PACKET_DONE : WEFT_PACKET_OVER;
}

weft_packet_result_t weft_packet_take(weft_local_rings_t *r, weft_packet_room_t *room, weft_packet_t *out) {
  const ssize_t got = weft_local_rings_take(r, room->bytes);
  if (got == 0) return WEFT_PACKET_LATER;
  return got > 0 && read_packet(room, (size_t)got, -1, out) ? WEFT_PACKET_DONE : WEFT_PACKET_OVER;
}
