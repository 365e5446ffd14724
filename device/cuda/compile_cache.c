/* device/cuda/compile_cache.c - WEFT_CACHE_DIR, weft/ of XDG_CACHE_HOME or of ~/.cache.
 *
 * A file: "weft kernels 1\n", the lengths of key, text and image (64 bits each, of this machine's byte
 * order), key, text, image, a hash of all that.
 */
#include "device/cuda/compile_cache.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"

enum { MAX_PATH = 1024, MAX_BYTES = 64 << 20 };
static const char magic[] = "weft kernels 1\n";

static uint64_t hash_on(uint64_t h, const void *p, size_t n) { /* FNV-1a */
  for (size_t i = 0; i < n; i++) h = (h ^ ((const unsigned char *)p)[i]) * UINT64_C(0x100000001b3);
  return h;
}
static const uint64_t hash_begin = UINT64_C(0xcbf29ce484222325);

/* The folder, made if `make`. False: there is none. */
static bool find_folder(bool make, char out[MAX_PATH]) {
  const char *named = getenv("WEFT_CACHE_DIR"), *xdg = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
  int n = -1;
  if (named != NULL) {
    n = *named == '\0' ? -1 : snprintf(out, MAX_PATH, "%s", named);
  } else if (xdg != NULL && *xdg != '\0') {
    n = snprintf(out, MAX_PATH, "%s/weft", xdg);
  } else if (home != NULL && *home != '\0') {
    n = snprintf(out, MAX_PATH, "%s/.cache/weft", home);
  }
  if (n < 0 || n >= MAX_PATH) return false;
  for (char *at = strchr(out + 1, '/'); make && at != NULL; at = strchr(at + 1, '/')) {
    *at = '\0';
    (void)mkdir(out, 0777);
    *at = '/';
  }
  return !make || mkdir(out, 0700) == 0 || errno == EEXIST;
}

static bool find_file(const char *key, const char *text, bool make, char out[MAX_PATH]) {
  char folder[MAX_PATH];
  const uint64_t a = hash_on(hash_on(hash_begin, key, strlen(key) + 1), text, strlen(text));
  const uint64_t b = hash_on(hash_on(a ^ UINT64_C(0x9e3779b97f4a7c15), text, strlen(text)), key, strlen(key));
  if (!find_folder(make, folder)) return false;
  const int n =
      snprintf(out, MAX_PATH, "%s/cuda-%016llx%016llx", folder, (unsigned long long)a, (unsigned long long)b);
  return n > 0 && n < MAX_PATH;
}

static char *read_whole(const char *path, size_t *out_bytes) {
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return NULL;
  struct stat st;
  const bool fits = fstat(fd, &st) == 0 && st.st_size > 0 && st.st_size <= MAX_BYTES;
  char *all = fits ? weft_malloc((size_t)st.st_size) : NULL;
  size_t at = 0;
  while (all != NULL && at < (size_t)st.st_size) {
    const ssize_t n = read(fd, all + at, (size_t)st.st_size - at);
    if (n <= 0) break;
    at += (size_t)n;
  }
  close(fd);
  if (all != NULL && at < (size_t)st.st_size) {
    weft_free(all);
    return NULL;
  }
  *out_bytes = at;
  return all;
}

/* Moves *at over `n` bytes of a file that are to equal `want`. */
static bool take(const char *all, size_t bytes, size_t *at, const void *want, size_t n) {
  if (n > bytes - *at || memcmp(all + *at, want, n) != 0) return false;
  *at += n;
  return true;
}

bool weft_cuda_cache_find(const char *key, const char *text, char **out_image, size_t *out_bytes) {
  char path[MAX_PATH];
  size_t bytes = 0, at = 0;
  uint64_t lengths[3] = {strlen(key), strlen(text), 0};
  char *all = find_file(key, text, false, path) ? read_whole(path, &bytes) : NULL;
  if (all == NULL) return false;
  bool is_good = take(all, bytes, &at, magic, sizeof magic - 1) &&
                 take(all, bytes, &at, lengths, 2 * sizeof lengths[0]) && bytes - at >= sizeof lengths[2];
  if (is_good) {
    memcpy(&lengths[2], all + at, sizeof lengths[2]);
    at += sizeof lengths[2];
    is_good = take(all, bytes, &at, key, lengths[0]) && take(all, bytes, &at, text, lengths[1]);
  }
  is_good = is_good && bytes - at >= sizeof(uint64_t) && lengths[2] == bytes - at - sizeof(uint64_t);
  if (is_good) {
    const uint64_t h = hash_on(hash_begin, all, bytes - sizeof h);
    is_good = memcmp(all + bytes - sizeof h, &h, sizeof h) == 0;
  }
  if (!is_good) {
    weft_free(all);
    return false;
  }
  memmove(all, all + at, lengths[2]);
  *out_image = all;
  *out_bytes = lengths[2];
  return true;
}

static bool write_all(int fd, const void *p, size_t n, uint64_t *h) {
  *h = hash_on(*h, p, n);
  for (size_t at = 0; at < n;) {
    const ssize_t k = write(fd, (const char *)p + at, n - at);
    if (k <= 0) return false;
    at += (size_t)k;
  }
  return true;
}

void weft_cuda_cache_store(const char *key, const char *text, const char *image, size_t bytes) {
  char path[MAX_PATH], part[MAX_PATH + 32];
  const uint64_t lengths[3] = {strlen(key), strlen(text), bytes};
  if (!find_file(key, text, true, path)) return;
  snprintf(part, sizeof part, "%s.XXXXXX", path);
  const int fd = mkstemp(part);
  if (fd < 0) return;
  uint64_t h = hash_begin;
  bool is_good = write_all(fd, magic, sizeof magic - 1, &h) && write_all(fd, lengths, sizeof lengths, &h) &&
                 write_all(fd, key, lengths[0], &h) && write_all(fd, text, lengths[1], &h) &&
                 write_all(fd, image, bytes, &h);
  const uint64_t end = h;
  is_good = is_good && write_all(fd, &end, sizeof end, &h);
  is_good = close(fd) == 0 && is_good && rename(part, path) == 0;
  if (!is_good) (void)unlink(part);
}
