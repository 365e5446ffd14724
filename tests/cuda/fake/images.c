/* tests/cuda/fake/images.c - modules that libnvrtc_fake.so compiled: shared objects of this machine, whose
 * kernels the emulator then finds. */
#include <dlfcn.h>
#include <elf.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/cuda/fake/machine.h"

#if defined(__x86_64__)
enum { MACHINE = EM_X86_64 };
#else
enum { MACHINE = EM_AARCH64 };
#endif

/* Its sections end the file. 0: it is none for this machine. */
static size_t size_of(const void *image) {
  Elf64_Ehdr h;
  if (memcmp(image, ELFMAG, SELFMAG) != 0) return 0;
  memcpy(&h, image, sizeof h);
  return h.e_machine == MACHINE ? (size_t)h.e_shoff + (size_t)h.e_shnum * h.e_shentsize : 0;
}

bool fake_image_load(const void *image) {
  const size_t bytes = size_of(image);
  char path[64];
  if (bytes == 0) return true; /* compiled kernels for a card, which are not looked into */
  const int fd = memfd_create("weft_fake_module", 0);
  if (fd < 0) return false;
  for (size_t at = 0; at < bytes;) {
    const ssize_t n = write(fd, (const char *)image + at, bytes - at);
    if (n <= 0) {
      close(fd);
      return false;
    }
    at += (size_t)n;
  }
  snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL); /* stays: its kernels are in the emulator's list */
  if (library == NULL) fprintf(stderr, "fake driver: %s\n", dlerror());
  return library != NULL; /* and the file stays open, or the next one would have its name */
}
