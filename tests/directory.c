/* tests/directory.c - below TEST_TMPDIR, under a name that is free. */
#include "tests/directory.h"

#include <CUnit/CUnit.h>
#include <stdio.h>
#include <stdlib.h>

static char directory[300];

const char *weft_test_directory(void) {
  const char *root = getenv("TEST_TMPDIR");
  snprintf(directory, sizeof directory, "%s/test.XXXXXX", root == NULL ? "/tmp" : root);
  CU_ASSERT_PTR_NOT_NULL_FATAL(mkdtemp(directory));
  return directory;
}

const char *weft_test_path(const char *name) {
  static char paths[8][400];
  static int next;
  char *path = paths[next++ % 8];
  snprintf(path, sizeof paths[0], "%s/%s", directory, name);
  return path;
}
