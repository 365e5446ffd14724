/* tests/cuda/compile_cache_test.c - compiled kernels on disk: found as they were stored, or not at all. */
#include "device/cuda/compile_cache.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "tests/runner.h"

static char folder[480];

static bool finds(const char *key, const char *text, const char *want, size_t bytes) {
  char *image = NULL;
  size_t n = 0;
  if (!weft_cuda_cache_find(key, text, &image, &n)) return false;
  const bool is_same = n == bytes && memcmp(image, want, n) == 0;
  weft_free(image);
  CU_ASSERT_TRUE(is_same); /* never another one */
  return is_same;
}

/* The only file of the folder. */
static void find_file(char *path, size_t size) {
  DIR *d = opendir(folder);
  CU_ASSERT_PTR_NOT_NULL_FATAL(d);
  for (const struct dirent *e; (e = readdir(d)) != NULL;) {
    if (e->d_name[0] != '.') snprintf(path, size, "%s/%s", folder, e->d_name);
  }
  closedir(d);
}

static void begin(const char *name) {
  const char *tmp = getenv("TEST_TMPDIR");
  snprintf(folder, sizeof folder, "%s/%s/deep", tmp == NULL ? "/tmp" : tmp, name);
  setenv("WEFT_CACHE_DIR", folder, 1);
}

static void what_was_stored_is_found(void) {
  begin("stored");
  CU_ASSERT_FALSE(finds("sm_90 13.0", "text", "image", 5));
  weft_cuda_cache_store("sm_90 13.0", "text", "im\0ge", 5);
  CU_ASSERT_TRUE(finds("sm_90 13.0", "text", "im\0ge", 5));
  CU_ASSERT_FALSE(finds("sm_80 13.0", "text", "", 0));
  CU_ASSERT_FALSE(finds("sm_90 13.0", "texts", "", 0));
  weft_cuda_cache_store("sm_90 13.0", "text", "newer", 5);
  CU_ASSERT_TRUE(finds("sm_90 13.0", "text", "newer", 5));
}

/* Every byte changed, every length cut. */
static void a_damaged_file_is_not_found(void) {
  char path[800], all[512], changed[512];
  begin("damaged");
  weft_cuda_cache_store("sm_90 13.0", "the source", "the image", 9);
  find_file(path, sizeof path);
  FILE *f = fopen(path, "r");
  CU_ASSERT_PTR_NOT_NULL_FATAL(f);
  const size_t n = fread(all, 1, sizeof all, f);
  fclose(f);
  CU_ASSERT_FATAL(n > 40 && n < sizeof all);
  for (size_t i = 0; i < 2 * n; i++) {
    const size_t length = i < n ? n : i - n;
    memcpy(changed, all, n);
    if (i < n) changed[i] ^= 0x20;
    f = fopen(path, "w");
    fwrite(changed, 1, length, f);
    fclose(f);
    char *image = NULL;
    size_t bytes = 0;
    CU_ASSERT_FALSE(weft_cuda_cache_find("sm_90 13.0", "the source", &image, &bytes));
  }
  weft_cuda_cache_store("sm_90 13.0", "the source", "the image", 9);
  CU_ASSERT_TRUE(finds("sm_90 13.0", "the source", "the image", 9));
}

static void without_a_place_nothing_is_stored(void) {
  setenv("WEFT_CACHE_DIR", "", 1);
  weft_cuda_cache_store("k", "t", "i", 1);
  CU_ASSERT_FALSE(finds("k", "t", "i", 1));
  setenv("WEFT_CACHE_DIR", "/proc/no/such/place", 1);
  weft_cuda_cache_store("k", "t", "i", 1);
  CU_ASSERT_FALSE(finds("k", "t", "i", 1));
}

static const CU_TestInfo tests[] = {
    {"what was stored is found", what_was_stored_is_found},
    {"a damaged file is not found", a_damaged_file_is_not_found},
    {"without a place nothing is stored", without_a_place_nothing_is_stored},
    CU_TEST_INFO_NULL,
};

int main(void) { return weft_run_tests("compiled kernels on disk", tests); }
