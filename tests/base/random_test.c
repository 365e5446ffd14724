/* Random ids: no two alike, also not in a child of the process. */
#include "base/random.h"

#include <sys/wait.h>
#include <unistd.h>

#include "tests/runner.h"

static void a_child_has_ids_of_its_own(void) {
  enum { IDS = 200 };
  uint64_t mine[IDS], theirs[IDS];
  int ends[2];
  CU_ASSERT_NOT_EQUAL(weft_random_id(), 0); /* now some are ready */
  CU_ASSERT_EQUAL_FATAL(pipe(ends), 0);
  pid_t child = fork();
  CU_ASSERT_TRUE_FATAL(child >= 0);
  if (child == 0) {
    for (int i = 0; i < IDS; i++) theirs[i] = weft_random_id();
    _exit(write(ends[1], theirs, sizeof theirs) == (ssize_t)sizeof theirs ? 0 : 1);
  }
  int status = -1;
  CU_ASSERT_EQUAL_FATAL(waitpid(child, &status, 0), child);
  CU_ASSERT_EQUAL_FATAL(read(ends[0], theirs, sizeof theirs), (ssize_t)sizeof theirs);
  for (int i = 0; i < IDS; i++) mine[i] = weft_random_id();
  int alike = 0;
  for (int i = 0; i < IDS; i++) {
    for (int k = 0; k < IDS; k++) alike += mine[i] == theirs[k];
  }
  CU_ASSERT_EQUAL(alike, 0);
  close(ends[0]);
  close(ends[1]);
}

int main(void) {
  static const CU_TestInfo tests[] = {
      {"a child has ids of its own", a_child_has_ids_of_its_own},
      CU_TEST_INFO_NULL,
  };
  return weft_run_tests("random", tests);
}
