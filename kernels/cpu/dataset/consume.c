/* kernels/cpu/dataset/consume.c - ops that a whole data set goes into: a table, a file of records. */
#include "base/alloc.h"
#include "io/record_writer.h"
#include "kernels/cpu/dataset/own_pass.h"
#include "kernels/state.h"
#include "resources/lookup_table.h"

/* ---- InitializeTableFromDataset ---- */

/* Elements of the data set as a table's source of entries, one at a time. */
typedef struct table_source {
  weft_lookup_source_t base; /* first */
  weft_iterator_t *root;
  weft_tensor_t *parts[2];
} table_source_t;

static weft_status_t *next_entry(weft_lookup_source_t *base) {
  table_source_t *s = (table_source_t *)base;
  bool is_end = false;
  weft_element_release(s->parts, 2);
  s->base.keys = s->base.values = NULL;
  WEFT_RETURN_IF_ERROR(weft_iterator_next(s->root, s->parts, &is_end));
  if (is_end) return NULL;
  if (!weft_shape_eq(&s->parts[0]->shape, &s->parts[1]->shape))
    return WEFT_ERROR(INVALID_ARGUMENT, "keys and values cannot be empty tensors, and are of one shape each");
  s->base.keys = s->parts[0];
  s->base.values = s->parts[1];
  return NULL;
}

static weft_status_t *check_table(const weft_lookup_table_t *t, const weft_element_spec_t *spec) {
  const weft_lookup_config_t *config = weft_lookup_table_config(t);
  if (spec->n != 2) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "Dataset should have two output components; it has %d, for keys and values", spec->n);
  }
  if (spec->dtypes[0] == config->key_dtype && spec->dtypes[1] == config->value_dtype) return NULL;
  return WEFT_ERROR(INVALID_ARGUMENT, "Key and value dtypes are %s and %s, but those of the table %s and %s",
                    weft_dtype_name(spec->dtypes[0]), weft_dtype_name(spec->dtypes[1]),
                    weft_dtype_name(config->key_dtype), weft_dtype_name(config->value_dtype));
}

static weft_status_t *fill_table(weft_lookup_table_t *t, weft_iterator_t *root) {
  table_source_t s = {.base = {.next = next_entry}, .root = root};
  WEFT_RETURN_IF_ERROR(check_table(t, root->of->spec));
  const int64_t n = weft_dataset_cardinality(root->of);
  s.base.total = n > 0 ? n : 0;
  weft_status_t *status = next_entry(&s.base);
  if (status == NULL) status = weft_lookup_table_initialize(t, &s.base);
  weft_element_release(s.parts, 2);
  return status;
}

static weft_status_t *table_run(weft_kernel_ctx_t *c, weft_iterator_t *root) {
  weft_object_t *o = NULL;
  WEFT_RETURN_IF_ERROR(weft_state_in(c, 0, &weft_lookup_table_type, &o));
  weft_lookup_table_t *t = (weft_lookup_table_t *)o;
  weft_status_t *s = weft_lookup_table_is_initialized(t) ? NULL : fill_table(t, root);
  weft_object_release(o);
  return s;
}

static void table_compute(weft_kernel_ctx_t *c) { weft_dataset_pass(c, 1, table_run); }

/* ---- DatasetToTFRecord ---- */

static weft_status_t *write_all(weft_iterator_t *root, weft_record_writer_t *w) {
  for (bool is_end = false;;) {
    weft_tensor_t *record = NULL;
    WEFT_RETURN_IF_ERROR(weft_iterator_next(root, &record, &is_end));
    if (is_end) return NULL;
    weft_status_t *s = NULL;
    for (int64_t i = 0; s == NULL && i < record->count; i++)
      s = weft_record_writer_put(w, weft_tensor_str_at(record, i));
    weft_tensor_release(record);
    WEFT_RETURN_IF_ERROR(s);
  }
}

static weft_status_t *record_run(weft_kernel_ctx_t *c, weft_iterator_t *root) {
  weft_str_t name, kind;
  weft_compression_t compression = WEFT_COMPRESSION_NONE;
  weft_record_writer_t *w = NULL;
  WEFT_RETURN_IF_ERROR(weft_dataset_in_string(c, 1, "filename", &name));
  WEFT_RETURN_IF_ERROR(weft_dataset_in_string(c, 2, "compression_type", &kind));
  (void)weft_compression_find(kind, &compression); /* unknown: none, as in TensorFlow */
  if (root->of->spec->n != 1 || root->of->spec->dtypes[0] != WEFT_STRING)
    return WEFT_ERROR(INVALID_ARGUMENT, "records are elements of one string");
  char *path = weft_strndup(name.data, name.length);
  if (path == NULL) return WEFT_NO_MEMORY("writing records");
  weft_status_t *s = weft_record_writer_create(path, compression, &w);
  weft_free(path);
  WEFT_RETURN_IF_ERROR(s);
  s = write_all(root, w);
  if (s == NULL) return weft_record_writer_finish(w);
  weft_record_writer_abandon(w);
  return s;
}

static void record_compute(weft_kernel_ctx_t *c) { weft_dataset_pass(c, 0, record_run); }

const weft_kernel_t weft_cpu_dataset_consume_kernels[] = {
    {.op = "DatasetToTFRecord", .compute_async = record_compute},
    {.op = "ExperimentalDatasetToTFRecord", .compute_async = record_compute},
    {.op = "InitializeTableFromDataset", .compute_async = table_compute},
    {0},
};
