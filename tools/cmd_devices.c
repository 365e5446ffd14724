/* tools/cmd_devices.c - `weft devices`: this machine's devices, the libraries that bring them, and why a
 * library brings none. */
#define _GNU_SOURCE
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>

#include "base/alloc.h"
#include "device/device.h"
#include "kernels/loaded/library.h"
#include "tools/command.h"
#include "tools/options.h"

/* A device that was opened and closed again, or could not be. */
typedef struct device_row {
  char name[64]; /* "GPU:0" */
  const char *type;
  const weft_device_library_t *library; /* NULL: built in */
  int64_t memory;
  int numa_node;
  char *physical, *trouble; /* owned; trouble NULL: none */
} device_row_t;

typedef struct device_rows {
  device_row_t *rows;
  int n, capacity;
} device_rows_t;

static void rows_deinit(device_rows_t *r) {
  for (int i = 0; i < r->n; i++) {
    weft_free(r->rows[i].physical);
    weft_free(r->rows[i].trouble);
  }
  weft_free(r->rows);
}

static const weft_device_library_t *library_of(const weft_device_driver_t *driver) {
  const weft_device_library_t *l = weft_device_libraries();
  while (l != NULL && (l->driver == NULL || weft_loaded_driver_base(l->driver) != driver)) l = l->next;
  return l;
}

static weft_status_t *no_memory(void) { return WEFT_NO_MEMORY("a list of devices"); }

static weft_status_t *add(device_rows_t *r, const weft_device_driver_t *driver, int ordinal) {
  if (r->n == r->capacity) {
    const int more = r->capacity * 2 + 8;
    device_row_t *rows = weft_realloc(r->rows, (size_t)more, sizeof *rows);
    if (rows == NULL) return no_memory();
    r->rows = rows;
    r->capacity = more;
  }
  device_row_t *row = &r->rows[r->n++];
  *row = (device_row_t){.type = driver->type, .library = library_of(driver), .numa_node = -1};
  snprintf(row->name, sizeof row->name, "%s:%d", driver->type, ordinal);
  const weft_device_spec_t spec = {.name = weft_str(row->name), .incarnation = 1};
  weft_device_t *d = NULL;
  weft_status_t *s = driver->create(driver, &spec, ordinal, &d);
  if (s != NULL) {
    const char *why = weft_status_message(s);
    row->trouble = weft_strndup(why, strlen(why));
    weft_status_free(s);
    return row->trouble == NULL ? no_memory() : NULL;
  }
  row->memory = d->memory_limit;
  row->numa_node = d->numa_node;
  row->physical = weft_strndup(d->physical, strlen(d->physical));
  weft_device_destroy(d);
  return row->physical == NULL ? no_memory() : NULL;
}

static weft_status_t *collect(device_rows_t *r) {
  weft_device_libraries_load();
  const weft_device_driver_t *const *drivers = weft_device_drivers();
  weft_status_t *s = NULL;
  for (int k = 0; s == NULL && drivers[k] != NULL; k++) {
    const int n = weft_device_count(drivers[k]);
    for (int i = 0; s == NULL && i < n; i++) s = add(r, drivers[k], i);
  }
  return s;
}

/* Why the library brings no device; NULL: it brings some. The caller frees it. */
static char *trouble_of(const weft_device_library_t *l) {
  int n = 0;
  if (l->trouble != NULL) return weft_strndup(l->trouble, strlen(l->trouble));
  weft_status_t *s = weft_loaded_driver_count(l->driver, &n);
  const char *why = s != NULL ? weft_status_message(s) : n == 0 ? "this machine has no such device" : NULL;
  char *text = why == NULL ? NULL : weft_strndup(why, strlen(why));
  weft_status_free(s);
  return text;
}

/* ---- as JSON ---- */

static json_t *text_or_null(const char *text) { return text == NULL ? json_null() : json_string(text); }

static void print_json(const device_rows_t *r) {
  json_t *devices = json_array(), *libraries = json_array();
  for (int i = 0; i < r->n; i++) {
    const device_row_t *d = &r->rows[i];
    json_array_append_new(devices, json_pack("{s:s, s:s, s:I, s:o, s:i, s:o, s:o}", "name", d->name, "type",
                                             d->type, "memory", (json_int_t)d->memory, "description",
                                             text_or_null(d->physical), "numa_node", d->numa_node, "library",
                                             text_or_null(d->library == NULL ? NULL : d->library->file),
                                             "trouble", text_or_null(d->trouble)));
  }
  for (const weft_device_library_t *l = weft_device_libraries(); l != NULL; l = l->next) {
    char *trouble = trouble_of(l);
    json_array_append_new(
        libraries, json_pack("{s:s, s:s, s:s, s:o, s:o}", "file", l->file, "name", l->name, "version",
                             l->version, "type", text_or_null(l->type), "trouble", text_or_null(trouble)));
    weft_free(trouble);
  }
  json_t *root = json_pack("{s:o, s:o}", "devices", devices, "libraries", libraries);
  json_dumpf(root, stdout, JSON_INDENT(1));
  putchar('\n');
  json_decref(root);
}

/* ---- for people ---- */

static void print_memory(int64_t bytes, char *to, size_t max) {
  const double mib = (double)bytes / (1 << 20);
  if (mib < 1024) {
    snprintf(to, max, "%.0f MiB", mib);
  } else {
    snprintf(to, max, "%.1f GiB", mib / 1024);
  }
}

static void print_device(const device_row_t *d) {
  char memory[32] = "-", library[128] = "built in";
  if (d->trouble == NULL) print_memory(d->memory, memory, sizeof memory);
  if (d->library != NULL) snprintf(library, sizeof library, "%s %s", d->library->name, d->library->version);
  printf("%-10s %-6s %10s  %-20s %s%s\n", d->name, d->type, memory, library,
         d->trouble != NULL ? "cannot be opened: " : "", d->trouble != NULL ? d->trouble : d->physical);
}

static void print_table(const device_rows_t *r) {
  printf("%-10s %-6s %10s  %-20s %s\n", "device", "type", "memory", "library", "what it is");
  for (int i = 0; i < r->n; i++) print_device(&r->rows[i]);
  for (const weft_device_library_t *l = weft_device_libraries(); l != NULL; l = l->next) {
    char *trouble = trouble_of(l);
    if (trouble != NULL) printf("no device from %s: %s\n", l->file, trouble);
    weft_free(trouble);
  }
}

int weft_command_devices(int argc, char **argv) {
  bool json = false;
  int code;
  const weft_option_t options[] = {
      {"json", NULL,
       "An object: devices (name, type, memory in bytes, description, numa_node, library, trouble) and "
       "libraries (file, name, version, type, trouble)",
       .flag = &json},
  };
  static const weft_help_item_t environment[] = {
      {"WEFT_DEVICE_PATH",
       "More device libraries: files, or folders of files libweft_*.so, with colons "
       "between them"},
  };
  const weft_command_line_t line = {
      .command = "weft devices",
      .about =
          "Lists this machine's devices: those that a task of a cluster or a local session has. Says of "
          "each device library that brings none why that is.",
      .examples = "  weft devices\n  weft devices --json\n",
      .options = options,
      .num_options = sizeof options / sizeof options[0],
      .environment = environment,
      .num_environment = sizeof environment / sizeof environment[0],
  };
  if (!weft_options_read(&line, argc, argv, &code)) return code;
  device_rows_t rows = {NULL, 0, 0};
  weft_status_t *s = collect(&rows);
  if (s == NULL && json) print_json(&rows);
  if (s == NULL && !json) print_table(&rows);
  rows_deinit(&rows);
  return s != NULL ? weft_command_fail(s) : weft_command_flush(0);
}
