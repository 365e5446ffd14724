/* tests/jobs/example_test.c - examples/job on a cluster: it trains, goes on when it is started again, and has
 * learnt. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "tests/cluster/server_process.h"
#include "tests/directory.h"
#include "tests/runner.h"

static char said[1 << 16];

/* Runs it with quoted arguments; what it prints is in `said`. Returns the exit status. */
static int train(const char *strategy, const char *cluster, const char *prefix, int steps) {
  char command[2000];
  snprintf(command, sizeof command, "examples/job/train '%s' '%s' '%s' %d 2>&1", strategy, cluster, prefix,
           steps);
  FILE *f = popen(command, "r");
  CU_ASSERT_PTR_NOT_NULL_FATAL(f);
  size_t n = fread(said, 1, sizeof said - 1, f);
  said[n] = '\0';
  int status = pclose(f);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static bool says(const char *text) {
  bool yes = strstr(said, text) != NULL;
  if (!yes) printf("\n    no '%s' in: %s\n", text, said);
  return yes;
}

static void it_trains_here_and_on_a_cluster(void) {
  static const char *const strategies[] = {"mirrored:2", "parameter_server:mode=sync,workers=2",
                                           "parameter_server:workers=2"};
  weft_test_servers_t servers;
  weft_test_servers_start(&servers);
  for (int i = 0; i < 3; i++) {
    weft_test_directory();
    const char *cluster = i == 0 ? "" : servers.cluster, *prefix = weft_test_path("m");
    CU_ASSERT_EQUAL(train(strategies[i], cluster, prefix, 600), 0);
    CU_ASSERT_TRUE(says("step   300  loss ") && says("m-500\n") && says("m-600\n"));
    CU_ASSERT_EQUAL(train(strategies[i], cluster, prefix, 1200), 0);
    CU_ASSERT_TRUE(says("step 600 is done, as ") && says("m-1200\n"));
    const char *accuracy = strstr(said, "test accuracy: ");
    CU_ASSERT_PTR_NOT_NULL_FATAL(accuracy);
    double right = strtod(accuracy + strlen("test accuracy: "), NULL);
    if (right < 0.9) printf("\n    %s: %g are right\n", strategies[i], right);
    CU_ASSERT_TRUE(right >= 0.9);
  }
  weft_test_servers_kill(&servers);
}

int main(void) {
  static const CU_TestInfo tests[] = {
      {"it trains here and on a cluster", it_trains_here_and_on_a_cluster},
      CU_TEST_INFO_NULL,
  };
  return weft_run_tests("examples/job", tests);
}
