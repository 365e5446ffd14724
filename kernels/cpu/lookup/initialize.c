/* kernels/cpu/lookup/initialize.c - the kernels that fill static tables, from tensors and from text files. */
#include "kernels/attrs.h"
#include "kernels/cpu/lookup/table.h"
#include "kernels/cpu/lookup/vocabulary.h"

/* The table behind input 0, which must be static; retained. */
static weft_status_t *in_static(weft_kernel_ctx_t *c, weft_lookup_table_t **out) {
  weft_lookup_table_t *t = NULL;
  const weft_handle_t *h = NULL;
  WEFT_RETURN_IF_ERROR(weft_lookup_in(c, &t));
  if (weft_lookup_table_config(t)->kind == WEFT_LOOKUP_STATIC) {
    *out = t;
    return NULL;
  }
  weft_lookup_release(t);
  if (c->inputs[0].ref != NULL || weft_in(c, 0)->dtype != WEFT_RESOURCE)
    return WEFT_ERROR(INVALID_ARGUMENT, "the table behind input 0 is not initializable");
  WEFT_RETURN_IF_ERROR(weft_state_in_handle(c, 0, &h));
  return WEFT_ERROR(INVALID_ARGUMENT, "Table %.*s %.*s is not initializable", WEFT_STR_ARGS(h->container),
                    WEFT_STR_ARGS(h->name));
}

static weft_status_t *from_tensors(weft_kernel_ctx_t *c, weft_lookup_table_t *t) {
  const weft_tensor_t *keys = weft_in(c, 1), *values = weft_in(c, 2);
  WEFT_RETURN_IF_ERROR(weft_lookup_check_types(c, t));
  if (keys->shape.rank != 1) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Keys must be a vector, but received shape%s",
                      WEFT_SHAPE_TEXT(&keys->shape));
  }
  if (values->shape.rank != 1) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Values must be a vector, but received shape%s",
                      WEFT_SHAPE_TEXT(&values->shape));
  }
  if (keys->count != values->count) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Keys and values must have the same size %lld vs %lld",
                      (long long)keys->count, (long long)values->count);
  }
  return weft_lookup_table_import(t, keys, values);
}

static weft_status_t *tensors_compute(weft_kernel_ctx_t *c) {
  weft_lookup_table_t *t = NULL;
  WEFT_RETURN_IF_ERROR(in_static(c, &t));
  weft_status_t *s = from_tensors(c, t);
  weft_lookup_release(t);
  return s;
}

WEFT_ATTRS(file_compute, (INT, key_index), (INT, value_index), (INT, vocab_size), (STRING, delimiter),
           (INT, offset))

static weft_status_t *from_file(weft_kernel_ctx_t *c, const file_compute_attrs_t *attrs,
                                weft_lookup_table_t *t) {
  const weft_tensor_t *name = weft_in(c, 1);
  const weft_vocabulary_format_t format = {.key_index = attrs->key_index,
                                           .value_index = attrs->value_index,
                                           .size = attrs->vocab_size,
                                           .offset = attrs->offset,
                                           .delimiter = attrs->delimiter.data[0]};
  if (name->shape.rank != 0) {
    return WEFT_ERROR(INVALID_ARGUMENT, "filename should be a single string, but got %s",
                      WEFT_SHAPE_TEXT(&name->shape));
  }
  if (weft_tensor_str_at(name, 0).length == 0)
    return WEFT_ERROR(INVALID_ARGUMENT, "filename cannot be empty.");
  return weft_vocabulary_load(t, weft_tensor_str_at(name, 0), &format);
}

static weft_status_t *file_compute(weft_kernel_ctx_t *c, const file_compute_attrs_t *attrs) {
  weft_lookup_table_t *t = NULL;
  WEFT_RETURN_IF_ERROR(in_static(c, &t));
  weft_status_t *s = from_file(c, attrs, t);
  weft_lookup_release(t);
  return s;
}

static weft_status_t *file_prepare(const weft_kernel_setup_t *setup, void **out_state) {
  if (weft_knode_string(setup, "delimiter").length != 1)
    return WEFT_ERROR(INVALID_ARGUMENT, "delimiter should be only 1 char");
  return weft_attrs_prepare(setup, out_state);
}

const weft_kernel_t weft_cpu_lookup_initialize_kernels[] = {
    {.op = "InitializeTable", .compute = tensors_compute},
    {.op = "InitializeTableFromTextFile", WEFT_COMPUTE_CHECKED(file_compute, file_prepare)},
    {.op = "InitializeTableFromTextFileV2", WEFT_COMPUTE_CHECKED(file_compute, file_prepare)},
    {.op = "InitializeTableV2", .compute = tensors_compute},
    {0},
};
