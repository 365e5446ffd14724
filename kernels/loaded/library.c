/* kernels/loaded/library.c - one device library: loaded, checked, registered, kept in the list.
 *
 * A library whose entry was called stays loaded, whatever comes of it: it may have started threads.
 */
#include "kernels/loaded/library.h"

#include <dlfcn.h>
#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/mutex.h"
#include "kernels/loaded/loaded_kernels.h"

#define ENTRY "WEFT_OpenDeviceLibrary"

/* ---- the list ---- */

static weft_mutex_t mu = WEFT_MUTEX_INITIALIZER; /* a leaf */
static weft_device_library_t *first, *last;      /* guarded by mu; what is in the list is not freed */

const weft_device_library_t *weft_device_libraries(void) {
  weft_mutex_lock(&mu);
  const weft_device_library_t *l = first;
  weft_mutex_unlock(&mu);
  return l;
}

static const char *copied(const char *text) {
  return weft_strndup(text == NULL ? "" : text, text == NULL ? 0 : strlen(text));
}

/* Keeps what came of a library; `s`, which is lent: why it cannot be used. Without memory it is not kept. */
static void keep(const char *file, const WEFT_DeviceLibrary *l, const weft_loaded_driver_t *driver,
                 const weft_status_t *s) {
  weft_device_library_t *k = weft_calloc(1, sizeof *k);
  if (k == NULL) return;
  *k = (weft_device_library_t){.file = copied(file),
                               .name = copied(l->name),
                               .version = copied(l->version),
                               .type = driver == NULL ? NULL : weft_loaded_driver_base(driver)->type,
                               .trouble = s == NULL ? NULL : copied(weft_status_message(s)),
                               .driver = driver};
  if (k->file == NULL || k->name == NULL || k->version == NULL || (s != NULL && k->trouble == NULL)) {
    weft_free((void *)(uintptr_t)k->file);
    weft_free((void *)(uintptr_t)k->name);
    weft_free((void *)(uintptr_t)k->version);
    weft_free((void *)(uintptr_t)k->trouble);
    weft_free(k);
    return;
  }
  weft_mutex_lock(&mu);
  if (last == NULL) {
    first = k;
  } else {
    last->next = k;
  }
  last = k;
  weft_mutex_unlock(&mu);
}

/* ---- checks ---- */

/* Copies what the library has of the struct; members behind that stay zero. */
static weft_status_t *read_library(const WEFT_DeviceLibrary *from, WEFT_DeviceLibrary *out) {
  *out = (WEFT_DeviceLibrary){.size = 0};
  if (from->size < offsetof(WEFT_DeviceLibrary, name))
    return WEFT_ERROR(INVALID_ARGUMENT, "its WEFT_DeviceLibrary has a size of %zu bytes", from->size);
  if (from->major != WEFT_DEVICE_MAJOR || from->minor > WEFT_DEVICE_MINOR) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "it is made for version %d.%d of weft/device.h, and this Weft has %d.%d: take the "
                      "library of this release of Weft",
                      from->major, from->minor, WEFT_DEVICE_MAJOR, WEFT_DEVICE_MINOR);
  }
  memcpy(out, from, from->size < sizeof *out ? from->size : sizeof *out);
  if (out->device == NULL) return WEFT_ERROR(INVALID_ARGUMENT, "it has no type of device");
  return NULL;
}

static weft_status_t *enter(WEFT_OpenDeviceLibraryFn *open, WEFT_DeviceLibrary *out) {
  WEFT_Failure *failure = NULL;
  const WEFT_DeviceLibrary *l = open(&weft_device_host, &failure);
  if (failure != NULL) return weft_status_of_failure(failure);
  if (l == NULL) return WEFT_ERROR(INVALID_ARGUMENT, "its " ENTRY " gives nothing, and does not say why");
  return read_library(l, out);
}

static weft_status_t *register_type(const WEFT_DeviceLibrary *l, weft_loaded_driver_t *driver) {
  weft_kernel_table_t *table = NULL;
  const weft_device_driver_t *base = weft_loaded_driver_base(driver);
  if (weft_device_driver_index(weft_str(base->type)) >= 0)
    return WEFT_ERROR(ALREADY_EXISTS, "there is a type of device %s already", base->type);
  WEFT_RETURN_IF_ERROR(weft_loaded_kernels_create(base->type, l, &table));
  weft_status_t *s = weft_kernel_table_register(table);
  if (s != NULL) {
    weft_loaded_kernels_destroy(table);
    return s;
  }
  return weft_device_register(base); /* a table without a driver is not looked into */
}

/* ---- adding ---- */

static weft_status_t *refuse(const char *file, weft_status_t *why) {
  weft_status_t *s =
      WEFT_ERROR(FAILED_PRECONDITION, "device library %s cannot be used: %s", file, weft_status_message(why));
  weft_status_free(why);
  return s;
}

static weft_status_t *add(WEFT_OpenDeviceLibraryFn *open, WEFT_DeviceLibrary *l,
                          weft_loaded_driver_t **out_driver) {
  weft_loaded_driver_t *driver = NULL;
  WEFT_RETURN_IF_ERROR(enter(open, l));
  WEFT_RETURN_IF_ERROR(weft_loaded_driver_create(l->device, &driver));
  weft_status_t *s = register_type(l, driver);
  if (s != NULL) {
    weft_loaded_driver_destroy(driver);
    return s;
  }
  *out_driver = driver;
  return NULL;
}

weft_status_t *weft_device_library_add(const char *file, WEFT_OpenDeviceLibraryFn *open) {
  WEFT_DeviceLibrary l = {.size = 0};
  weft_loaded_driver_t *driver = NULL;
  weft_status_t *s = add(open, &l, &driver);
  keep(file, &l, driver, s);
  if (s != NULL) return refuse(file, s);
  weft_log(WEFT_LOG_DEBUG, "device library %s: %s %s, devices of type %s", file, l.name == NULL ? "" : l.name,
           l.version == NULL ? "" : l.version, weft_loaded_driver_base(driver)->type);
  return NULL;
}

/* ---- loading ---- */

/* Does the file end before its segments do? The loader maps and touches them, so that a file that was cut, as
 * by a copy that broke off, would end the process. What is no ELF file the loader refuses. */
static bool is_cut(const char *file) {
  Elf64_Ehdr h;
  Elf64_Phdr segment;
  FILE *f = fopen(file, "rb");
  if (f == NULL) return false; /* the loader looks in its own path, or says why */
  bool cut = false;
  const bool is_elf = fread(&h, sizeof h, 1, f) == 1 && memcmp(h.e_ident, ELFMAG, SELFMAG) == 0 &&
                      h.e_ident[EI_CLASS] == ELFCLASS64;
  (void)fseek(f, 0, SEEK_END);
  const long end = ftell(f);
  for (int i = 0; is_elf && !cut && i < h.e_phnum; i++) {
    const uint64_t at = h.e_phoff + (uint64_t)i * h.e_phentsize;
    cut =
        at > (uint64_t)end || fseek(f, (long)at, SEEK_SET) != 0 || fread(&segment, sizeof segment, 1, f) != 1;
    cut = cut || (segment.p_type == PT_LOAD &&
                  (segment.p_offset > (uint64_t)end || segment.p_filesz > (uint64_t)end - segment.p_offset));
  }
  (void)fclose(f);
  return cut;
}

static weft_status_t *load(const char *file, WEFT_OpenDeviceLibraryFn **out) {
  if (is_cut(file)) return WEFT_ERROR(INVALID_ARGUMENT, "the file is cut: it ends before its segments do");
  void *library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) {
    const char *why = dlerror();
    return WEFT_ERROR(INVALID_ARGUMENT, "%s", why == NULL ? "it cannot be loaded" : why);
  }
  void *entry = dlsym(library, ENTRY);
  if (entry == NULL) {
    dlclose(library);
    return WEFT_ERROR(INVALID_ARGUMENT, "it has no function " ENTRY ", so it is no device library");
  }
  memcpy(out, &entry, sizeof entry); /* as POSIX has it: C has no cast from a pointer to data */
  return NULL;
}

weft_status_t *weft_device_library_open(const char *file) {
  WEFT_OpenDeviceLibraryFn *open = NULL;
  weft_status_t *s = load(file, &open);
  if (s == NULL) return weft_device_library_add(file, open);
  keep(file, &(const WEFT_DeviceLibrary){.size = 0}, NULL, s);
  return refuse(file, s);
}
