/* kernels/cpu/lookup/remap.c - taking weights over when their vocabulary changes: which old number each new
 * word had, and a stored matrix with its rows and columns in the new order. */
#include <inttypes.h>
#include <stdlib.h>

#include "io/bundle.h"
#include "kernels/attrs.h"
#include "kernels/cpu/lookup/vocabulary.h"
#include "kernels/cpu/loops/common.h"

/* ---- GenerateVocabRemapping ---- */

static weft_status_t *check_file(const weft_tensor_t *t, const char *what) {
  if (t->shape.rank != 0) {
    return WEFT_ERROR(INVALID_ARGUMENT, "%s_vocab_file should be a single string, but got %s", what,
                      WEFT_SHAPE_TEXT(&t->shape));
  }
  if (weft_tensor_str_at(t, 0).length == 0)
    return WEFT_ERROR(INVALID_ARGUMENT, "%s vocab filename cannot be empty.", what);
  return NULL;
}

static weft_status_t *load(const weft_tensor_t *path, weft_dtype_t key_dtype, weft_dtype_t value_dtype,
                           const weft_vocabulary_format_t *format, weft_lookup_table_t **out) {
  const weft_lookup_config_t config = {.kind = WEFT_LOOKUP_STATIC,
                                       .key_dtype = key_dtype,
                                       .value_dtype = value_dtype,
                                       .value_shape = WEFT_SCALAR};
  weft_object_t *o = NULL;
  WEFT_RETURN_IF_ERROR(weft_lookup_table_create(&config, &o));
  weft_status_t *s = weft_vocabulary_load((weft_lookup_table_t *)o, weft_tensor_str_at(path, 0), format);
  if (s != NULL) {
    weft_object_release(o);
    return s;
  }
  *out = (weft_lookup_table_t *)o;
  return NULL;
}

/* The old numbers of the words with the new numbers offset, offset + 1, ...; -1: a word is new. */
static weft_status_t *look_up(weft_lookup_table_t *words, weft_lookup_table_t *old_ids, int64_t offset,
                              weft_tensor_t *out) {
  const int64_t absent = -1;
  weft_tensor_t *ids = NULL, *tokens = NULL, *no_word = NULL, *no_id = NULL;
  weft_status_t *s = weft_tensor_new(WEFT_I64, &out->shape, NULL, &ids);
  if (s == NULL) s = weft_tensor_new(WEFT_STRING, &out->shape, NULL, &tokens);
  if (s == NULL) s = weft_tensor_string(WEFT_STR(""), &no_word);
  if (s == NULL) s = weft_tensor_scalar(WEFT_I64, &absent, &no_id);
  for (int64_t i = 0; s == NULL && i < ids->count; i++) ((int64_t *)ids->data)[i] = offset + i;
  if (s == NULL) s = weft_lookup_table_find(words, ids, no_word, tokens);
  if (s == NULL) s = weft_lookup_table_find(old_ids, tokens, no_id, out);
  weft_tensor_release(ids);
  weft_tensor_release(tokens);
  weft_tensor_release(no_word);
  weft_tensor_release(no_id);
  return s;
}

WEFT_ATTRS(vocab_compute, (INT, new_vocab_offset), (INT, num_new_vocab), (INT, old_vocab_size))

static weft_status_t *remap_words(weft_kernel_ctx_t *c, const vocab_compute_attrs_t *attrs,
                                  weft_lookup_table_t *words) {
  const weft_vocabulary_format_t format = {.key_index = WEFT_VOCABULARY_WHOLE_LINE,
                                           .value_index = WEFT_VOCABULARY_LINE_NUMBER,
                                           .size = attrs->old_vocab_size,
                                           .delimiter = '\t'};
  const weft_shape_t shape = weft_shape_vector(attrs->num_new_vocab);
  weft_lookup_table_t *old_ids = NULL;
  weft_tensor_t *out = NULL;
  int32_t num_present = 0;
  if (attrs->new_vocab_offset > weft_lookup_table_size(words) - attrs->num_new_vocab) {
    return WEFT_ERROR(INVALID_ARGUMENT, "lookup table size must be larger than last new vocab entry's line");
  }
  WEFT_RETURN_IF_ERROR(check_file(weft_in(c, 1), "old"));
  WEFT_RETURN_IF_ERROR(load(weft_in(c, 1), WEFT_STRING, WEFT_I64, &format, &old_ids));
  weft_status_t *s = weft_out_new(c, 0, WEFT_I64, &shape, &out);
  if (s == NULL) s = look_up(words, old_ids, attrs->new_vocab_offset, out);
  weft_object_release((weft_object_t *)old_ids);
  if (s != NULL) return s;
  for (int64_t i = 0; i < out->count; i++) num_present += ((const int64_t *)out->data)[i] != -1;
  return weft_tensor_scalar(WEFT_I32, &num_present, &c->outputs[1].tensor);
}

static weft_status_t *vocab_compute(weft_kernel_ctx_t *c, const vocab_compute_attrs_t *attrs) {
  const weft_vocabulary_format_t format = {.key_index = WEFT_VOCABULARY_LINE_NUMBER,
                                           .value_index = WEFT_VOCABULARY_WHOLE_LINE,
                                           .size = -1,
                                           .delimiter = '\t'};
  weft_lookup_table_t *words = NULL;
  WEFT_RETURN_IF_ERROR(check_file(weft_in(c, 0), "new"));
  WEFT_RETURN_IF_ERROR(load(weft_in(c, 0), WEFT_I64, WEFT_STRING, &format, &words));
  weft_status_t *s = remap_words(c, attrs, words);
  weft_object_release((weft_object_t *)words);
  return s;
}

/* TensorFlow holds the attributes in 32 bits. */
static weft_status_t *vocab_prepare(const weft_kernel_setup_t *setup, void **out_state) {
  static const char *const names[] = {"new_vocab_offset", "num_new_vocab", "old_vocab_size"};
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
    const int64_t value = weft_knode_int(setup, names[i]);
    if (value > INT32_MAX || value < INT32_MIN) {
      return WEFT_ERROR(INVALID_ARGUMENT, "Attr %s has value %" PRId64 " out of range for an int32", names[i],
                        value);
    }
  }
  return weft_attrs_prepare(setup, out_state);
}

/* ---- LoadAndRemapMatrix ---- */

/* A row or column: where it was, where it goes. */
typedef struct remap_move {
  int64_t from, to;
} remap_move_t;

typedef struct remap_moves {
  remap_move_t *moves; /* by `from`; owned */
  int64_t count;
} remap_moves_t;

static int by_from(const void *a, const void *b) {
  const remap_move_t *x = a, *y = b;
  return x->from != y->from ? (x->from > y->from) - (x->from < y->from) : (x->to > y->to) - (x->to < y->to);
}

static weft_status_t *read_moves(const weft_tensor_t *remapping, remap_moves_t *out) {
  const int64_t *from = remapping->data;
  out->moves = weft_calloc((size_t)remapping->count + 1, sizeof *out->moves);
  if (out->moves == NULL) return WEFT_NO_MEMORY("a remapping of %" PRId64 " numbers", remapping->count);
  for (int64_t i = 0; i < remapping->count; i++) {
    if (from[i] >= 0) out->moves[out->count++] = (remap_move_t){from[i], i};
  }
  qsort(out->moves, (size_t)out->count, sizeof *out->moves, by_from);
  for (int64_t i = 1; i < out->count; i++) {
    const remap_move_t *a = &out->moves[i - 1], *b = &out->moves[i];
    if (a->from != b->from) continue;
    return WEFT_ERROR(UNIMPLEMENTED,
                      "Old ID %" PRId64 " is mapped to both new ID %" PRId64 " and %" PRId64
                      ", which is not supported.",
                      a->from, a->to, b->to);
  }
  return NULL;
}

WEFT_ATTRS(matrix_compute, (INT, num_rows), (INT, num_cols), (INT, max_rows_in_memory))

/* One execution. */
typedef struct remap {
  const matrix_compute_attrs_t *attrs;
  remap_moves_t rows, columns;
  bool moves_columns;
  weft_str_t name; /* of the stored tensor */
  weft_bundle_reader_t *reader;
  weft_shape_t shape; /* of the stored matrix */
  weft_tensor_t *out;
  bool *is_filled_row, *is_filled_column;
} remap_t;

static weft_status_t *read_remappings(weft_kernel_ctx_t *c, remap_t *r) {
  const weft_tensor_t *rows = weft_in(c, 2), *columns = weft_in(c, 3);
  if (rows->shape.rank != 1) {
    return WEFT_ERROR(INVALID_ARGUMENT, "The `row_remapping` tensor must be 1-D, got a tensor of shape %s",
                      WEFT_SHAPE_TEXT(&rows->shape));
  }
  if (rows->count != r->attrs->num_rows) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "Size of row_remapping is %" PRId64 " instead of being equal to num_rows=%" PRId64,
                      rows->count, r->attrs->num_rows);
  }
  WEFT_RETURN_IF_ERROR(read_moves(rows, &r->rows));
  if (columns->shape.rank != 1) {
    return WEFT_ERROR(INVALID_ARGUMENT, "The `col_remapping` tensor must be 1-D, got a tensor of shape %s",
                      WEFT_SHAPE_TEXT(&columns->shape));
  }
  r->moves_columns = columns->count > 0;
  if (!r->moves_columns) return NULL;
  if (columns->count != r->attrs->num_cols) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "Provided col_remapping, but its size is %" PRId64
                      " instead of being equal to num_cols=%" PRId64,
                      columns->count, r->attrs->num_cols);
  }
  return read_moves(columns, &r->columns);
}

static weft_status_t *open_matrix(weft_kernel_ctx_t *c, remap_t *r) {
  const weft_tensor_t *path = weft_in(c, 0), *name = weft_in(c, 1);
  weft_dtype_t dtype = WEFT_DTYPE_INVALID;
  if (path->count != 1 || name->count != 1) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "The `ckpt_path` tensor must have exactly one element, got tensor of shape %s",
                      WEFT_SHAPE_TEXT(path->count != 1 ? &path->shape : &name->shape));
  }
  r->name = weft_tensor_str_at(name, 0);
  WEFT_RETURN_IF_ERROR(weft_bundle_reader_open(weft_tensor_str_at(path, 0), &r->reader));
  WEFT_RETURN_IF_ERROR(weft_bundle_reader_lookup(r->reader, r->name, &dtype, &r->shape));
  if (dtype != WEFT_F32) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Tensor %.*s has invalid type %s instead of expected type float",
                      WEFT_STR_ARGS(r->name), weft_dtype_name(dtype));
  }
  if (r->shape.rank != 2) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "Tensor %.*s has shape %s of invalid rank %d instead of expected shape of rank 2.",
                      WEFT_STR_ARGS(r->name), WEFT_SHAPE_TEXT(&r->shape), r->shape.rank);
  }
  if (!r->moves_columns && r->attrs->num_cols != r->shape.dims[1]) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "Tensor %.*s has shape %s, where the size of its 2nd dimension is %" PRId64
                      " instead of being equal to num_cols=%" PRId64,
                      WEFT_STR_ARGS(r->name), WEFT_SHAPE_TEXT(&r->shape), r->shape.dims[1],
                      r->attrs->num_cols);
  }
  if (r->rows.count > 0 && r->rows.moves[r->rows.count - 1].from >= r->shape.dims[0]) {
    return WEFT_ERROR(INTERNAL, "Extent in dimension 0 out of bounds: shape = %s, row = %" PRId64,
                      WEFT_SHAPE_TEXT(&r->shape), r->rows.moves[r->rows.count - 1].from);
  }
  return NULL;
}

static void move_row(remap_t *r, const float *from, int64_t to_row) {
  float *to = (float *)r->out->data + to_row * r->attrs->num_cols;
  r->is_filled_row[to_row] = true;
  if (!r->moves_columns) memcpy(to, from, (size_t)r->attrs->num_cols * sizeof *to);
  for (int64_t i = 0; i < r->columns.count; i++) {
    const remap_move_t *m = &r->columns.moves[i];
    if (m->from < r->shape.dims[1]) to[m->to] = from[m->from];
  }
}

/* Reads the old rows from the first to the last one that is wanted, max_rows_in_memory at a time. */
static weft_status_t *move_rows(remap_t *r) {
  const int64_t limit = r->attrs->max_rows_in_memory, n = r->rows.count;
  const remap_move_t *moves = r->rows.moves;
  int64_t at = 0;
  while (at < n) {
    weft_tensor_slice_t slice = weft_tensor_slice_whole(&r->shape);
    const int64_t begin = moves[at].from, rows = moves[n - 1].from - begin + 1;
    weft_tensor_t *part = NULL;
    slice.is_full[0] = false;
    slice.start[0] = begin;
    slice.length[0] = limit > 0 && limit < rows ? limit : rows;
    WEFT_RETURN_IF_ERROR(weft_bundle_reader_read_slice(r->reader, r->name, &slice, &part));
    for (; at < n && moves[at].from - begin < slice.length[0]; at++) {
      move_row(r, (const float *)part->data + (moves[at].from - begin) * r->shape.dims[1], moves[at].to);
    }
    weft_tensor_release(part);
  }
  return NULL;
}

static weft_status_t *fill_rest(remap_t *r, const weft_tensor_t *values) {
  int64_t used = 0;
  for (int64_t i = 0; i < r->attrs->num_rows; i++) {
    for (int64_t j = 0; j < r->attrs->num_cols; j++) {
      if (r->is_filled_row[i] && r->is_filled_column[j]) continue;
      if (used == values->count) {
        return WEFT_ERROR(INVALID_ARGUMENT,
                          "initializing_values contained %" PRId64
                          " elements, but more missing values remain.",
                          values->count);
      }
      ((float *)r->out->data)[i * r->attrs->num_cols + j] = ((const float *)values->data)[used++];
    }
  }
  if (used == values->count) return NULL;
  return WEFT_ERROR(INVALID_ARGUMENT,
                    "initializing_values contained %" PRId64 " elements, but only %" PRId64
                    " elements were used to fill in missing values.",
                    values->count, used);
}

static weft_status_t *remap_matrix(weft_kernel_ctx_t *c, remap_t *r) {
  const weft_shape_t shape = weft_shape_matrix(r->attrs->num_rows, r->attrs->num_cols);
  WEFT_RETURN_IF_ERROR(read_remappings(c, r));
  WEFT_RETURN_IF_ERROR(open_matrix(c, r));
  WEFT_RETURN_IF_ERROR(weft_out_new(c, 0, WEFT_F32, &shape, &r->out));
  if (r->out->bytes > 0) memset(r->out->data, 0, r->out->bytes);
  r->is_filled_row = weft_calloc((size_t)r->attrs->num_rows + 1, sizeof *r->is_filled_row);
  r->is_filled_column = weft_calloc((size_t)r->attrs->num_cols + 1, sizeof *r->is_filled_column);
  if (r->is_filled_row == NULL || r->is_filled_column == NULL)
    return WEFT_NO_MEMORY("a matrix of shape %s", WEFT_SHAPE_TEXT(&shape));
  for (int64_t i = 0; i < r->columns.count; i++) r->is_filled_column[r->columns.moves[i].to] = true;
  for (int64_t j = 0; !r->moves_columns && j < r->attrs->num_cols; j++) r->is_filled_column[j] = true;
  WEFT_RETURN_IF_ERROR(move_rows(r));
  return fill_rest(r, weft_in(c, 4));
}

static weft_status_t *matrix_compute(weft_kernel_ctx_t *c, const matrix_compute_attrs_t *attrs) {
  remap_t r = {.attrs = attrs};
  weft_status_t *s = remap_matrix(c, &r);
  weft_bundle_reader_close(r.reader);
  weft_free(r.rows.moves);
  weft_free(r.columns.moves);
  weft_free(r.is_filled_row);
  weft_free(r.is_filled_column);
  return s;
}

const weft_kernel_t weft_cpu_lookup_remap_kernels[] = {
    {.op = "GenerateVocabRemapping", WEFT_COMPUTE_CHECKED(vocab_compute, vocab_prepare)},
    {.op = "LoadAndRemapMatrix", WEFT_COMPUTE(matrix_compute)},
    {0},
};
