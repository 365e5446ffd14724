/* client/checkpoint_reader.c - TF_CheckpointReader: what is in a checkpoint. */
#include <stdlib.h>

#include "base/alloc.h"
#include "client/status.h"
#include "client/tensor.h"
#include "io/source.h"
#include "tensorflow/c/c_api_experimental.h"

/* Confined. */
struct TF_CheckpointReader {
  weft_arena_t arena;
  weft_source_t *source;
  const char **names; /* num_names, sorted, in the arena */
  int num_names;
};

static int compare_names(const void *a, const void *b) {
  return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static weft_status_t *list_names(TF_CheckpointReader *r) {
  weft_str_t name;
  size_t n = 0;
  for (size_t at = 0; weft_source_next(r->source, &at, &name);) n++;
  r->names = weft_arena_calloc(&r->arena, n + 1, sizeof *r->names);
  if (r->names == NULL || n > INT32_MAX) return WEFT_NO_MEMORY("a checkpoint's names");
  for (size_t at = 0; weft_source_next(r->source, &at, &name); r->num_names++) {
    r->names[r->num_names] = weft_arena_str(&r->arena, name).data;
    if (r->names[r->num_names] == NULL) return WEFT_NO_MEMORY("a checkpoint's names");
  }
  qsort(r->names, n, sizeof(*r->names), compare_names);
  return NULL;
}

TF_CheckpointReader *TF_NewCheckpointReader(const char *filename, TF_Status *status) {
  TF_CheckpointReader *r = weft_calloc(1, sizeof *r);
  weft_status_t *s = r == NULL ? WEFT_NO_MEMORY("a checkpoint reader") : NULL;
  if (s == NULL) s = weft_source_open(weft_str(filename), &r->source);
  if (s == NULL) s = list_names(r);
  if (weft_client_end(status, s)) return r;
  TF_DeleteCheckpointReader(r);
  return NULL;
}

void TF_DeleteCheckpointReader(TF_CheckpointReader *reader) {
  if (reader == NULL) return;
  weft_source_close(reader->source);
  weft_arena_deinit(&reader->arena);
  weft_free(reader);
}

static bool find(TF_CheckpointReader *r, const char *name, weft_dtype_t *dtype, weft_shape_t *shape) {
  return weft_source_lookup(r->source, weft_str(name), dtype, shape);
}

static weft_status_t *absent(const char *name) {
  return WEFT_ERROR(NOT_FOUND, "Key %s not found in checkpoint", name);
}

int TF_CheckpointReaderHasTensor(TF_CheckpointReader *reader, const char *name) {
  weft_dtype_t dtype;
  weft_shape_t shape;
  return find(reader, name, &dtype, &shape);
}

const char *TF_CheckpointReaderGetVariable(TF_CheckpointReader *reader, int index) {
  return index >= 0 && index < reader->num_names ? reader->names[index] : NULL;
}

int TF_CheckpointReaderSize(TF_CheckpointReader *reader) { return reader->num_names; }

TF_DataType TF_CheckpointReaderGetVariableDataType(TF_CheckpointReader *reader, const char *name) {
  weft_dtype_t dtype;
  weft_shape_t shape;
  return find(reader, name, &dtype, &shape) ? (TF_DataType)dtype : (TF_DataType)0;
}

int TF_CheckpointReaderGetVariableNumDims(TF_CheckpointReader *reader, const char *name) {
  weft_dtype_t dtype;
  weft_shape_t shape;
  return find(reader, name, &dtype, &shape) ? shape.rank : -1;
}

void TF_CheckpointReaderGetVariableShape(TF_CheckpointReader *reader, const char *name, int64_t *dims,
                                         int num_dims, TF_Status *status) {
  weft_dtype_t dtype;
  weft_shape_t shape;
  weft_status_t *s = find(reader, name, &dtype, &shape) ? NULL : absent(name);
  if (s == NULL && shape.rank != num_dims)
    s = WEFT_ERROR(INVALID_ARGUMENT, "Expected rank is %d but actual rank is %d", num_dims, shape.rank);
  if (s == NULL && num_dims > 0) memcpy(dims, shape.dims, (size_t)num_dims * sizeof *dims);
  weft_client_end(status, s);
}

TF_Tensor *TF_CheckpointReaderGetTensor(TF_CheckpointReader *reader, const char *name, TF_Status *status) {
  weft_tensor_t *t = NULL;
  TF_Tensor *box = NULL;
  weft_dtype_t dtype;
  weft_shape_t shape;
  weft_status_t *s = find(reader, name, &dtype, &shape)
                         ? weft_source_read(reader->source, weft_str(name), NULL, &t)
                         : absent(name);
  if (s == NULL) s = weft_client_tensor_new(t, &box);
  return weft_client_end(status, s) ? box : NULL;
}
