/* tests/directory.h - a directory of a test's own, empty at first. Bazel removes it with the test's other
 * files. */
#ifndef WEFT_TESTS_DIRECTORY_H_
#define WEFT_TESTS_DIRECTORY_H_

/* Makes a new one, which weft_test_path is about from now on. A failure fails the test. The path is good
 * until the next call. */
const char *weft_test_directory(void);
/* The path of `name` in it; good until the next 8 calls. */
const char *weft_test_path(const char *name);

#endif /* WEFT_TESTS_DIRECTORY_H_ */
