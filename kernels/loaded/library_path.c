/* kernels/loaded/library_path.c - where device libraries are looked for.
 *
 * First beside the program, then where WEFT_DEVICE_PATH says. A file that was found twice is loaded once.
 */
#define _GNU_SOURCE /* dladdr */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/log.h"
#include "kernels/loaded/library.h"

#define BESIDE "libweft_cuda.so"
#define PATH "WEFT_DEVICE_PATH"
enum { MAX_FILES = 64 };

typedef struct loaded_files {
  struct {
    dev_t device;
    ino_t number;
  } all[MAX_FILES];
  int n;
} loaded_files_t;

/* False: it was loaded already, or there are too many. */
static bool is_new(loaded_files_t *l, const char *file) {
  struct stat st;
  if (stat(file, &st) != 0) return true; /* loading it says so */
  for (int i = 0; i < l->n; i++) {
    if (l->all[i].device == st.st_dev && l->all[i].number == st.st_ino) return false;
  }
  if (l->n == MAX_FILES) return false;
  l->all[l->n].device = st.st_dev;
  l->all[l->n].number = st.st_ino;
  l->n++;
  return true;
}

/* The library that was seen last. */
static const weft_device_library_t *last_seen(void) {
  const weft_device_library_t *seen = weft_device_libraries();
  while (seen != NULL && seen->next != NULL) seen = seen->next;
  return seen;
}

/* `is_asked_for`: the user has named it, and wants to know, too, if there is no driver for it. One that only
 * lies beside the program may have none: then this machine has no such device. */
static void load(loaded_files_t *l, const char *file, bool is_asked_for) {
  int n = 0;
  if (!is_new(l, file)) return;
  weft_status_t *s = weft_device_library_open(file);
  if (s != NULL) weft_log(WEFT_LOG_WARNING, "%s", weft_status_message(s));
  if (s == NULL && is_asked_for && last_seen() != NULL && last_seen()->driver != NULL) {
    s = weft_loaded_driver_count(last_seen()->driver, &n);
    if (s != NULL)
      weft_log(WEFT_LOG_WARNING, "device library %s brings no device: %s", file, weft_status_message(s));
  }
  weft_status_free(s);
}

/* ---- beside the program ---- */

/* The file that this code is in, or "". */
static void find_own_file(char *out, size_t max) {
  Dl_info info;
  ssize_t n = -1;
  out[0] = '\0';
  if (dladdr((void *)(uintptr_t)&weft_device_libraries_load, &info) != 0 && info.dli_fname != NULL &&
      strstr(info.dli_fname, ".so") != NULL) {
    char *path = realpath(info.dli_fname, NULL);
    if (path != NULL && strlen(path) < max) n = (ssize_t)strlen(strcpy(out, path));
    free(path);
  }
  if (n < 0) n = readlink("/proc/self/exe", out, max - 1);
  out[n < 0 ? 0 : n] = '\0';
}

static void load_beside(loaded_files_t *l) {
  static const char *const folders[] = {"", "weft/", "../weft/", "../lib/weft/"};
  char own[4096];
  find_own_file(own, sizeof own);
  char *end = strrchr(own, '/');
  if (end == NULL) return;
  end[1] = '\0';
  for (size_t i = 0; i < sizeof folders / sizeof folders[0]; i++) {
    weft_strbuf_t file = WEFT_STRBUF_INIT;
    weft_strbuf_printf(&file, "%s%s" BESIDE, own, folders[i]);
    if (!file.failed && access(file.data, F_OK) == 0) load(l, file.data, false);
    weft_strbuf_deinit(&file);
  }
}

/* ---- WEFT_DEVICE_PATH ---- */

static int is_library(const struct dirent *e) {
  const size_t n = strlen(e->d_name);
  return strncmp(e->d_name, "libweft_", strlen("libweft_")) == 0 && n > strlen("libweft_.so") &&
         strcmp(e->d_name + n - strlen(".so"), ".so") == 0;
}

static void load_folder(loaded_files_t *l, const char *folder) {
  struct dirent **found = NULL;
  const int n = scandir(folder, &found, is_library, alphasort);
  if (n < 0)
    weft_log(WEFT_LOG_WARNING, "the folder %s of " PATH " cannot be read: %s", folder, strerror(errno));
  for (int i = 0; i < n; i++) {
    weft_strbuf_t file = WEFT_STRBUF_INIT;
    weft_strbuf_printf(&file, "%s/%s", folder, found[i]->d_name);
    if (!file.failed) load(l, file.data, true);
    weft_strbuf_deinit(&file);
    free(found[i]);
  }
  free(found);
}

static void load_path(loaded_files_t *l, const char *path) {
  while (*path != '\0') {
    const size_t n = strcspn(path, ":");
    char *entry = n == 0 ? NULL : weft_strndup(path, n); /* an empty entry names nothing */
    struct stat st;
    if (entry != NULL && stat(entry, &st) == 0 && S_ISDIR(st.st_mode)) {
      load_folder(l, entry);
    } else if (entry != NULL) {
      load(l, entry, true);
    }
    weft_free(entry);
    path += n + (path[n] == ':');
  }
}

static void load_all(void) {
  loaded_files_t l = {.n = 0};
  const char *path = getenv(PATH);
  load_beside(&l);
  if (path != NULL) load_path(&l, path);
}

void weft_device_libraries_load(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, load_all);
}
