/* tests/cuda/fake/nvrtc.c - NVRTC, played by the host's C++ compiler: libnvrtc_fake.so.
 *
 * What it compiles is a shared object for the emulator (tests/cuda/emulator), linked against the emulated
 * driver that WEFT_CUDA_DRIVER names; the driver loads such an image as a module. Options are looked at as
 * far as Weft gives some. WEFT_FAKE_NVRTC_LOG names a file that gets a line for each compilation. With
 * WEFT_FAKE_NVRTC_REAL=1 the toolkit's NVRTC, which needs no card, compiles the source as well, if it is
 * there: what it refuses fails.
 */
#include <dlfcn.h>
#include <nvrtc.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))
enum { MAX_PATH = 512, MAX_HEADERS = 32 };

/* The emulator's headers, embedded. */
extern const char weft_fake_text_cuda_on_host_h[], weft_fake_text_emulator_h[], weft_fake_text_half_h[];

struct _nvrtcProgram {
  char *source, *name;
  int num_headers;
  char *headers[MAX_HEADERS], *names[MAX_HEADERS];
  char *image, *log;
  size_t image_bytes;
  bool is_exact;
};

EXPORT const char *nvrtcGetErrorString(nvrtcResult r) {
  return r == NVRTC_SUCCESS               ? "NVRTC_SUCCESS"
         : r == NVRTC_ERROR_COMPILATION   ? "NVRTC_ERROR_COMPILATION"
         : r == NVRTC_ERROR_INVALID_INPUT ? "NVRTC_ERROR_INVALID_INPUT"
                                          : "NVRTC_ERROR";
}

EXPORT nvrtcResult nvrtcVersion(int *major, int *minor) {
  *major = 13;
  *minor = 0;
  return NVRTC_SUCCESS;
}

static const int architectures[] = {75, 80, 86, 90};
enum { NUM_ARCHITECTURES = sizeof architectures / sizeof *architectures };

EXPORT nvrtcResult nvrtcGetNumSupportedArchs(int *out) {
  *out = NUM_ARCHITECTURES;
  return NVRTC_SUCCESS;
}

EXPORT nvrtcResult nvrtcGetSupportedArchs(int *out) {
  memcpy(out, architectures, sizeof architectures);
  return NVRTC_SUCCESS;
}

EXPORT nvrtcResult nvrtcCreateProgram(nvrtcProgram *out, const char *source, const char *name,
                                      int num_headers, const char *const *headers, const char *const *names) {
  if (source == NULL || num_headers > MAX_HEADERS) return NVRTC_ERROR_INVALID_INPUT;
  nvrtcProgram p = calloc(1, sizeof *p);
  if (p == NULL) return NVRTC_ERROR_OUT_OF_MEMORY;
  p->source = strdup(source);
  p->name = strdup(name == NULL ? "default_program" : name);
  p->num_headers = num_headers;
  for (int i = 0; i < num_headers; i++) {
    p->headers[i] = strdup(headers[i]);
    p->names[i] = strdup(names[i]);
  }
  *out = p;
  return NVRTC_SUCCESS;
}

EXPORT nvrtcResult nvrtcDestroyProgram(nvrtcProgram *program) {
  nvrtcProgram p = *program;
  for (int i = 0; i < p->num_headers; i++) {
    free(p->headers[i]);
    free(p->names[i]);
  }
  free(p->source);
  free(p->name);
  free(p->image);
  free(p->log);
  free(p);
  *program = NULL;
  return NVRTC_SUCCESS;
}

/* ---- files ---- */

/* Makes the folders before the name, too. */
static bool write_file(const char *folder, const char *name, const char *text) {
  char path[MAX_PATH];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  for (char *at = strchr(path + strlen(folder) + 1, '/'); at != NULL; at = strchr(at + 1, '/')) {
    *at = '\0';
    (void)mkdir(path, 0700);
    *at = '/';
  }
  FILE *f = fopen(path, "w");
  if (f == NULL) return false;
  const bool is_good = fputs(text, f) >= 0;
  return fclose(f) == 0 && is_good;
}

static char *read_file(const char *folder, const char *name, size_t *out_bytes) {
  char path[MAX_PATH];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  FILE *f = fopen(path, "r");
  if (f == NULL) return NULL;
  (void)fseek(f, 0, SEEK_END);
  const long bytes = ftell(f);
  (void)fseek(f, 0, SEEK_SET);
  char *all = bytes < 0 ? NULL : calloc(1, (size_t)bytes + 1);
  if (all != NULL && fread(all, 1, (size_t)bytes, f) != (size_t)bytes) {
    free(all);
    all = NULL;
  }
  (void)fclose(f);
  *out_bytes = all == NULL ? 0 : (size_t)bytes;
  return all;
}

static void note(const char *name) {
  const char *path = getenv("WEFT_FAKE_NVRTC_LOG");
  FILE *f = path == NULL ? NULL : fopen(path, "a");
  if (f == NULL) return;
  fprintf(f, "%s\n", name);
  (void)fclose(f);
}

/* ---- compiling ---- */

static bool write_sources(const struct _nvrtcProgram *p, const char *folder) {
  bool is_good = write_file(folder, "tests/cuda/emulator/cuda_on_host.h", weft_fake_text_cuda_on_host_h) &&
                 write_file(folder, "tests/cuda/emulator/emulator.h", weft_fake_text_emulator_h) &&
                 write_file(folder, "tensor/half.h", weft_fake_text_half_h) &&
                 write_file(folder, "source.cc", p->source);
  for (int i = 0; i < p->num_headers; i++)
    is_good = is_good && write_file(folder, p->names[i], p->headers[i]);
  return is_good;
}

typedef struct real_nvrtc {
  __typeof__(&nvrtcCreateProgram) create;
  __typeof__(&nvrtcCompileProgram) compile;
  __typeof__(&nvrtcGetProgramLogSize) log_size;
  __typeof__(&nvrtcGetProgramLog) log;
  __typeof__(&nvrtcDestroyProgram) destroy;
} real_nvrtc_t;

static bool open_real(real_nvrtc_t *out) {
  static const char *const places[] = {"libnvrtc.so.13", "libnvrtc.so.12",
                                       "/usr/local/cuda/lib64/libnvrtc.so.13",
                                       "/usr/local/cuda/lib64/libnvrtc.so.12"};
  const char *wanted = getenv("WEFT_FAKE_NVRTC_REAL");
  void *library = NULL;
  if (wanted == NULL || strcmp(wanted, "1") != 0) return false;
  for (size_t i = 0; i < sizeof places / sizeof *places && library == NULL; i++)
    library = dlopen(places[i], RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) {
    fprintf(stderr, "skipped: no NVRTC to compile chains with\n");
    return false;
  }
  *(void **)&out->create = dlsym(library, "nvrtcCreateProgram");
  *(void **)&out->compile = dlsym(library, "nvrtcCompileProgram");
  *(void **)&out->log_size = dlsym(library, "nvrtcGetProgramLogSize");
  *(void **)&out->log = dlsym(library, "nvrtcGetProgramLog");
  *(void **)&out->destroy = dlsym(library, "nvrtcDestroyProgram");
  return out->create != NULL && out->compile != NULL && out->log_size != NULL && out->log != NULL &&
         out->destroy != NULL;
}

/* Whether the real one refuses it; then p has its log. */
static bool is_refused(nvrtcProgram p, int num_options, const char *const *options) {
  real_nvrtc_t real;
  nvrtcProgram theirs = NULL;
  size_t bytes = 0;
  if (!open_real(&real)) return false;
  nvrtcResult r = real.create(&theirs, p->source, p->name, p->num_headers, (const char *const *)p->headers,
                              (const char *const *)p->names);
  if (r == NVRTC_SUCCESS) r = real.compile(theirs, num_options, options);
  if (r != NVRTC_SUCCESS && theirs != NULL && real.log_size(theirs, &bytes) == NVRTC_SUCCESS) {
    p->log = calloc(1, bytes + 1);
    if (p->log != NULL) (void)real.log(theirs, p->log);
  }
  if (theirs != NULL) (void)real.destroy(&theirs);
  return r != NVRTC_SUCCESS;
}

static nvrtcResult compile(nvrtcProgram p, const char *folder) {
  char command[4 * MAX_PATH], driver[4096];
  size_t bytes = 0;
  const char *named = getenv("WEFT_CUDA_DRIVER");
  if (named == NULL || realpath(named, driver) == NULL || strlen(driver) >= MAX_PATH)
    return NVRTC_ERROR_INTERNAL_ERROR;
  if (!write_sources(p, folder)) return NVRTC_ERROR_INTERNAL_ERROR;
  snprintf(command, sizeof command,
           "cd '%s' && c++ -std=c++17 -O0 -shared -fPIC -I. -include tests/cuda/emulator/cuda_on_host.h -o "
           "image.so "
           "source.cc '%s' > log 2>&1",
           folder, driver);
  const int code = system(command); /* NOLINT(cert-env33-c): a test */
  p->log = read_file(folder, "log", &bytes);
  if (code != 0) return NVRTC_ERROR_COMPILATION;
  p->image = read_file(folder, "image.so", &p->image_bytes);
  return p->image == NULL ? NVRTC_ERROR_INTERNAL_ERROR : NVRTC_SUCCESS;
}

EXPORT nvrtcResult nvrtcCompileProgram(nvrtcProgram p, int num_options, const char *const *options) {
  char folder[MAX_PATH], command[MAX_PATH + 16];
  const char *tmp = getenv("TEST_TMPDIR");
  for (int i = 0; i < num_options; i++) {
    if (strncmp(options[i], "--gpu-architecture=sm_", 22) == 0) p->is_exact = true;
  }
  note(p->name);
  if (is_refused(p, num_options, options)) return NVRTC_ERROR_COMPILATION;
  snprintf(folder, sizeof folder, "%s/fake_nvrtc.XXXXXX", tmp == NULL ? "/tmp" : tmp);
  if (mkdtemp(folder) == NULL) return NVRTC_ERROR_INTERNAL_ERROR;
  const nvrtcResult r = compile(p, folder);
  snprintf(command, sizeof command, "rm -rf '%s'", folder);
  (void)!system(command); /* NOLINT(cert-env33-c): a test */
  return r;
}

static nvrtcResult size_of(nvrtcProgram p, bool is_wanted, size_t *out) {
  *out = is_wanted && p->image != NULL ? p->image_bytes : 0;
  return *out == 0 ? NVRTC_ERROR_INVALID_PROGRAM : NVRTC_SUCCESS;
}

static nvrtcResult take(nvrtcProgram p, bool is_wanted, char *out) {
  if (!is_wanted || p->image == NULL) return NVRTC_ERROR_INVALID_PROGRAM;
  memcpy(out, p->image, p->image_bytes);
  return NVRTC_SUCCESS;
}

EXPORT nvrtcResult nvrtcGetCUBINSize(nvrtcProgram p, size_t *out) { return size_of(p, p->is_exact, out); }
EXPORT nvrtcResult nvrtcGetCUBIN(nvrtcProgram p, char *out) { return take(p, p->is_exact, out); }
EXPORT nvrtcResult nvrtcGetPTXSize(nvrtcProgram p, size_t *out) { return size_of(p, !p->is_exact, out); }
EXPORT nvrtcResult nvrtcGetPTX(nvrtcProgram p, char *out) { return take(p, !p->is_exact, out); }

EXPORT nvrtcResult nvrtcGetProgramLogSize(nvrtcProgram p, size_t *out) {
  *out = p->log == NULL ? 1 : strlen(p->log) + 1;
  return NVRTC_SUCCESS;
}

EXPORT nvrtcResult nvrtcGetProgramLog(nvrtcProgram p, char *out) {
  memcpy(out, p->log == NULL ? "" : p->log, p->log == NULL ? 1 : strlen(p->log) + 1);
  return NVRTC_SUCCESS;
}
