/* tests/base/socket_file_test.c - files beside messages, from senders that keep to one and from others. */
#define _GNU_SOURCE /* pipe2 */
#include "base/socket_file.h"

#include <CUnit/CUnit.h>
#include <fcntl.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "tests/runner.h"

enum { MOST = 8 };

static bool is_open(int file) { return fcntl(file, F_GETFD) >= 0; }

/* Sends a byte with `n` copies of `file`. */
static bool send_files(int fd, int file, int n) {
  union {
    struct cmsghdr head;
    char bytes[CMSG_SPACE(MOST * sizeof(int))];
  } control;
  char byte = 'x';
  struct iovec piece = {&byte, 1};
  struct msghdr m = {.msg_iov = &piece, .msg_iovlen = 1};
  memset(&control, 0, sizeof control);
  if (n > 0) {
    m.msg_control = control.bytes;
    m.msg_controllen = CMSG_SPACE((size_t)n * sizeof(int));
    struct cmsghdr *c = CMSG_FIRSTHDR(&m);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN((size_t)n * sizeof(int));
    for (int i = 0; i < n; i++) memcpy(CMSG_DATA(c) + (size_t)i * sizeof file, &file, sizeof file);
  }
  return sendmsg(fd, &m, 0) == 1;
}

static int receive(int fd) {
  char byte = 0;
  struct iovec piece = {&byte, 1};
  struct msghdr m = {.msg_iov = &piece, .msg_iovlen = 1};
  weft_socket_file_t room;
  weft_socket_file_expect(&m, &room);
  CU_ASSERT_EQUAL(recvmsg(fd, &m, MSG_CMSG_CLOEXEC), 1);
  CU_ASSERT_EQUAL(byte, 'x');
  return weft_socket_file_take(&m);
}

/* However many come, one is open behind it at most: the other end of the pipe sees its end when that and the
 * sender's are closed. */
static void one_file_is_taken_and_the_others_are_closed(void) {
  for (int type = 0; type < 2; type++) {
    int ends[2];
    CU_ASSERT_EQUAL_FATAL(socketpair(AF_UNIX, type == 0 ? SOCK_STREAM : SOCK_SEQPACKET, 0, ends), 0);
    for (int n = 0; n <= MOST; n++) {
      int pipe_ends[2];
      char byte;
      CU_ASSERT_EQUAL_FATAL(pipe2(pipe_ends, O_CLOEXEC | O_NONBLOCK), 0);
      CU_ASSERT_TRUE_FATAL(send_files(ends[0], pipe_ends[1], n));
      const int file = receive(ends[1]);
      CU_ASSERT_EQUAL(file >= 0 && is_open(file), n > 0);
      if (file >= 0) {
        CU_ASSERT_TRUE((fcntl(file, F_GETFD) & FD_CLOEXEC) != 0);
        CU_ASSERT_EQUAL(write(file, "y", 1), 1);
        CU_ASSERT_TRUE(read(pipe_ends[0], &byte, 1) == 1 && byte == 'y');
        close(file);
      }
      close(pipe_ends[1]);
      CU_ASSERT_EQUAL(read(pipe_ends[0], &byte, 1), 0); /* else EAGAIN: a copy is open */
      close(pipe_ends[0]);
    }
    close(ends[0]);
    close(ends[1]);
  }
}

static void what_is_attached_is_taken(void) {
  int ends[2], pipe_ends[2];
  CU_ASSERT_EQUAL_FATAL(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  CU_ASSERT_EQUAL_FATAL(pipe2(pipe_ends, O_CLOEXEC), 0);
  for (int with_file = 0; with_file < 2; with_file++) {
    char byte = 'x';
    struct iovec piece = {&byte, 1};
    struct msghdr m = {.msg_iov = &piece, .msg_iovlen = 1};
    weft_socket_file_t room;
    weft_socket_file_attach(&m, &room, with_file ? pipe_ends[1] : -1);
    CU_ASSERT_EQUAL(sendmsg(ends[0], &m, 0), 1);
    const int file = receive(ends[1]);
    CU_ASSERT_EQUAL(file >= 0, with_file == 1);
    if (file >= 0) close(file);
  }
  for (int i = 0; i < 2; i++) {
    close(ends[i]);
    close(pipe_ends[i]);
  }
}

static const CU_TestInfo tests[] = {
    {"one file is taken and the others are closed", one_file_is_taken_and_the_others_are_closed},
    {"what is attached is taken", what_is_attached_is_taken},
    CU_TEST_INFO_NULL,
};

int main(void) { return weft_run_tests("socket_file", tests); }
