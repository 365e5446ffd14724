/* tests/base/process_memory_test.c - reading the memory of a child: while it lives, stopped, and when it is
 * gone. */
#define _GNU_SOURCE /* MAP_ANONYMOUS */
#include "base/process_memory.h"

#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/runner.h"

enum { BYTES = 3 << 20 };

/* A child with BYTES bytes of its own at `bytes`, each i * 7 + 3; it waits to be killed. */
static pid_t start(unsigned char *bytes) {
  int ready[2];
  CU_ASSERT_EQUAL_FATAL(pipe(ready), 0);
  const pid_t child = fork();
  CU_ASSERT_TRUE_FATAL(child >= 0);
  if (child == 0) {
    for (size_t i = 0; i < BYTES; i++) bytes[i] = (unsigned char)(i * 7 + 3);
    if (write(ready[1], "r", 1) != 1) _exit(1);
    for (;;) pause();
  }
  char word = 0;
  CU_ASSERT_EQUAL(read(ready[0], &word, 1), 1);
  close(ready[0]);
  close(ready[1]);
  return child;
}

static void end(pid_t child) {
  CU_ASSERT_EQUAL(kill(child, SIGKILL), 0);
  CU_ASSERT_EQUAL(waitpid(child, NULL, 0), child);
}

static unsigned char *map(void) {
  unsigned char *p = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CU_ASSERT_PTR_NOT_EQUAL_FATAL(p, MAP_FAILED);
  return p;
}

static void expect(weft_status_t *s, weft_code_t code) {
  CU_ASSERT_EQUAL(weft_status_code(s), code);
  weft_status_free(s);
}

/* A fork has its parent's word where the parent has it. */
static void bytes_of_a_child_are_read_until_it_ends(void) {
  const weft_process_memory_t owner = weft_process_memory_own();
  if (!weft_process_memory_may_read()) return; /* the system forbids it to all */
  unsigned char *theirs = map(), *mine = map();
  const pid_t child = start(theirs);
  const uint64_t at = (uint64_t)(uintptr_t)theirs;
  CU_ASSERT_EQUAL(theirs[0], 0);
  expect(weft_process_memory_read(child, owner, 0, NULL, 0), WEFT_OK);
  expect(weft_process_memory_read(child, owner, at, mine, BYTES), WEFT_OK);
  int right = 0;
  for (size_t i = 0; i < BYTES; i++) right += mine[i] == (unsigned char)(i * 7 + 3);
  CU_ASSERT_EQUAL(right, BYTES);
  CU_ASSERT_EQUAL(kill(child, SIGSTOP), 0); /* a read does not wait for it */
  expect(weft_process_memory_read(child, owner, at + 5, mine, 1), WEFT_OK);
  CU_ASSERT_EQUAL(mine[0], 5 * 7 + 3);
  end(child);
  expect(weft_process_memory_read(child, owner, at, mine, BYTES), WEFT_UNAVAILABLE);
  expect(weft_process_memory_read(child, owner, 0, NULL, 0), WEFT_UNAVAILABLE);
  munmap(theirs, BYTES);
  munmap(mine, BYTES);
}

static void another_word_and_memory_that_is_none_are_refused(void) {
  const weft_process_memory_t own = weft_process_memory_own();
  if (!weft_process_memory_may_read()) return;
  unsigned char *p = map(), to[16];
  const uint64_t at = (uint64_t)(uintptr_t)p;
  const pid_t me = getpid();
  expect(weft_process_memory_read(me, own, at, to, sizeof to), WEFT_OK);
  expect(weft_process_memory_read(me, (weft_process_memory_t){own.address, own.word + 1}, at, to, sizeof to),
         WEFT_UNAVAILABLE);
  expect(weft_process_memory_read(me, (weft_process_memory_t){8, own.word}, at, to, sizeof to),
         WEFT_UNAVAILABLE);
  expect(weft_process_memory_read(me, own, 8, to, sizeof to), WEFT_UNAVAILABLE);
  expect(weft_process_memory_read(me, own, UINT64_MAX - 3, to, sizeof to), WEFT_UNAVAILABLE);
  expect(weft_process_memory_read(me, own, at + BYTES - 8, to, 8), WEFT_OK);
  munmap(p, BYTES);
  expect(weft_process_memory_read(me, own, at, to, sizeof to), WEFT_UNAVAILABLE);
}

int main(void) {
  static const CU_TestInfo tests[] = {
      {"bytes of a child are read until it ends", bytes_of_a_child_are_read_until_it_ends},
      {"another word and memory that is none are refused", another_word_and_memory_that_is_none_are_refused},
      CU_TEST_INFO_NULL,
  };
  return weft_run_tests("process_memory", tests);
}
