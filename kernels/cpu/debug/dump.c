/* kernels/cpu/debug/dump.c - DumpTensor, as TensorFlow's: its values, step by step, as records of a
 * compressed file, and beside it which node they are of. The file is whole when the session has ended. */
#include "base/alloc.h"
#include "base/mutex.h"
#include "io/file.h"
#include "io/record_writer.h"
#include "kernels/kernel.h"
#include "protos/wire.h"
#include "tensor/tensor_proto.h"

typedef struct dump {
  weft_str_t folder, file, function, node; /* of the setup */
  bool is_enabled;
  weft_mutex_t mu;
  weft_record_file_t *records; /* guarded by mu; NULL before the first step */
} dump_t;

static weft_status_t *prepare(const weft_kernel_setup_t *setup, void **out_state) {
  dump_t *d = weft_calloc(1, sizeof *d);
  if (d == NULL) return WEFT_NO_MEMORY("preparing %.*s", WEFT_STR_ARGS(setup->node.name));
  d->folder = weft_knode_string(setup, "log_dir_path");
  d->file = weft_knode_string(setup, "file_name");
  d->function = weft_knode_string(setup, "func_name");
  d->node = weft_knode_string(setup, "node_name");
  d->is_enabled = weft_knode_bool(setup, "enabled");
  weft_mutex_init(&d->mu);
  *out_state = d;
  return NULL;
}

static void destroy(void *state) {
  dump_t *d = state;
  if (d == NULL) return;
  weft_status_free(weft_record_file_finish(d->records));
  weft_mutex_deinit(&d->mu);
  weft_free(d);
}

/* "<folder>/<name>"; the caller frees it. */
static weft_status_t *path_of(const dump_t *d, weft_str_t name, char **out) {
  weft_strbuf_t path = WEFT_STRBUF_INIT;
  weft_strbuf_append(&path, d->folder);
  if (d->folder.length > 0 && d->folder.data[d->folder.length - 1] != '/') weft_strbuf_putc(&path, '/');
  weft_strbuf_append(&path, name);
  return weft_strbuf_finish(&path, out, NULL);
}

/* A serialized QuantizationUnit. */
static weft_status_t *write_unit(const dump_t *d) {
  weft_strbuf_t unit = WEFT_STRBUF_INIT;
  char *path = NULL;
  if (d->node.length > 0) weft_wire_add_bytes(&unit, 2, d->node);
  if (d->function.length > 0) weft_wire_add_bytes(&unit, 3, d->function);
  weft_status_t *s = unit.failed ? WEFT_NO_MEMORY("the description of a dump") : NULL;
  if (s == NULL) s = path_of(d, WEFT_STR("quant_unit.pb"), &path);
  if (s == NULL) {
    weft_file_remove(path);
    s = weft_file_append(path, unit.data == NULL ? "" : unit.data, unit.length);
  }
  weft_free(path);
  weft_strbuf_deinit(&unit);
  return s;
}

/* Makes the folder and both files. */
static weft_status_t *begin(dump_t *d) {
  char *folder = NULL, *path = NULL;
  weft_status_t *s = path_of(d, WEFT_STR(""), &folder);
  if (s == NULL) s = weft_file_make_dirs(folder);
  if (s == NULL) s = path_of(d, d->file, &path);
  if (s == NULL) s = write_unit(d);
  if (s == NULL) s = weft_record_file_create(path, &d->records);
  weft_free(folder);
  weft_free(path);
  return s;
}

static weft_status_t *compute(weft_kernel_ctx_t *c) {
  dump_t *d = c->state;
  weft_strbuf_t value = WEFT_STRBUF_INIT;
  weft_status_t *s = d->is_enabled ? weft_tensor_to_proto_content(weft_in(c, 0), &value) : NULL;
  if (s == NULL && value.failed) s = WEFT_NO_MEMORY("a dump of a tensor");
  weft_mutex_lock(&d->mu);
  if (s == NULL && d->records == NULL) s = begin(d);
  if (s == NULL && d->is_enabled) s = weft_record_file_put(d->records, weft_str_of(value.data, value.length));
  weft_mutex_unlock(&d->mu);
  weft_strbuf_deinit(&value);
  return s;
}

const weft_kernel_t weft_cpu_dump_kernels[] = {
    {.op = "DumpTensor", .prepare = prepare, .compute = compute, .destroy = destroy, .host_inputs = 1},
    {0},
};
