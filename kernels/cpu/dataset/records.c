/* kernels/cpu/dataset/records.c - the records of files: TFRecords, lines of text, records of a fixed length.
 */
#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "io/record_reader.h"
#include "kernels/cpu/dataset/files.h"
#include "kernels/cpu/dataset/saved.h"

/* The functions of a class, of its format. */
#define FILE_CLASS(of, format)                                                                             \
  static weft_status_t *of##_next(weft_iterator_t *it, weft_tensor_t **out, bool *is_end) {                \
    return weft_files_next(it, &(format), out, is_end);                                                    \
  }                                                                                                        \
  static void of##_close(weft_iterator_t *it) { weft_files_close((weft_file_iterator_t *)it, &(format)); } \
  static weft_status_t *of##_load(weft_iterator_t *it, weft_saved_t *from) {                               \
    return weft_files_load(it, &(format), from);                                                           \
  }

/* ---- TFRecordDataset ---- */

typedef struct record_iterator {
  weft_file_iterator_t base;
  weft_record_reader_t reader;
} record_iterator_t;

static weft_status_t *record_begin(weft_file_iterator_t *f) {
  record_iterator_t *r = (record_iterator_t *)f;
  const int64_t *offsets = weft_files_of(f)->offsets;
  const uint64_t offset = offsets == NULL || offsets[f->file] < 0 ? 0 : (uint64_t)offsets[f->file];
  uint64_t got = 0;
  r->reader = (weft_record_reader_t){.stream = f->stream, .offset = offset};
  return weft_byte_stream_skip(f->stream, offset, &got);
}

static void record_end(weft_file_iterator_t *f) {
  weft_record_reader_deinit(&((record_iterator_t *)f)->reader);
}

static weft_status_t *record_read(weft_file_iterator_t *f, weft_tensor_t **out, bool *is_over) {
  weft_record_reader_t *reader = &((record_iterator_t *)f)->reader;
  weft_str_t record;
  reader->offset = weft_byte_stream_position(f->stream);
  WEFT_RETURN_IF_ERROR(weft_record_reader_lend(reader, &record, is_over));
  return *is_over ? NULL : weft_tensor_string(record, &out[0]);
}

static const weft_file_format_t record_format = {
    .begin = record_begin, .read = record_read, .end = record_end, .leaves_broken = true};
FILE_CLASS(record, record_format)

static weft_status_t *offsets_in(const weft_kernel_ctx_t *c, int i, weft_dataset_files_t *p) {
  const weft_tensor_t *t = weft_in(c, i);
  if (t->shape.rank > 1) return WEFT_ERROR(INVALID_ARGUMENT, "`byte_offsets` must be a scalar or a vector.");
  if (t->shape.rank != weft_in(c, 0)->shape.rank || (t->count != p->num && t->count != 0))
    return WEFT_ERROR(INVALID_ARGUMENT, "`byte_offsets` must be of same size as `filenames`");
  if (t->count == 0) return NULL;
  p->offsets = weft_calloc((size_t)t->count, sizeof *p->offsets);
  if (p->offsets == NULL) return WEFT_NO_MEMORY("the offsets of files");
  memcpy(p->offsets, t->data, t->bytes);
  return NULL;
}

static weft_status_t *record_make(weft_kernel_ctx_t *c, int at, weft_dataset_t *d, void *params) {
  weft_dataset_files_t *p = params;
  weft_str_t compression;
  int64_t buffer_size;
  WEFT_RETURN_IF_ERROR(weft_element_spec_string(&d->spec));
  WEFT_RETURN_IF_ERROR(weft_dataset_files_in(c, at, p));
  WEFT_RETURN_IF_ERROR(weft_dataset_in_string(c, at + 1, "compression_type", &compression));
  (void)weft_compression_find(compression, &p->compression); /* unknown: none, as in TensorFlow */
  WEFT_RETURN_IF_ERROR(weft_dataset_in_int(c, at + 2, "buffer_size", &buffer_size));
  return at + 3 < c->node->num_inputs ? offsets_in(c, at + 3, p) : NULL;
}

/* ---- TextLineDataset ---- */

typedef struct line_iterator {
  weft_file_iterator_t base;
  weft_strbuf_t line;
} line_iterator_t;

static void put_without_returns(weft_strbuf_t *out, weft_str_t s) {
  while (s.length > 0) {
    const char *end = memchr(s.data, '\r', s.length);
    const size_t n = end == NULL ? s.length : (size_t)(end - s.data), used = end == NULL ? n : n + 1;
    weft_strbuf_append(out, weft_str_of(s.data, n));
    s = weft_str_of(s.data + used, s.length - used);
  }
}

/* A line ends with '\n'; every '\r' is left out. What lies in the stream's window as a whole is not copied
 * before its tensor. */
static weft_status_t *line_read(weft_file_iterator_t *f, weft_tensor_t **out, bool *is_over) {
  line_iterator_t *l = (line_iterator_t *)f;
  weft_str_t window;
  l->line.length = 0;
  for (bool is_first = true;; is_first = false) {
    WEFT_RETURN_IF_ERROR(weft_byte_stream_peek(f->stream, 1, &window));
    if (window.length == 0) break;
    const char *end = memchr(window.data, '\n', window.length);
    const weft_str_t part =
        weft_str_of(window.data, end == NULL ? window.length : (size_t)(end - window.data));
    weft_byte_stream_take(f->stream, part.length + (end != NULL));
    if (end != NULL && is_first && memchr(part.data, '\r', part.length) == NULL)
      return weft_tensor_string(part, &out[0]);
    put_without_returns(&l->line, part);
    if (end != NULL) return weft_tensor_string(weft_str_of(l->line.data, l->line.length), &out[0]);
  }
  if (l->line.failed) return WEFT_NO_MEMORY("reading a line");
  *is_over = l->line.length == 0;
  return *is_over ? NULL : weft_tensor_string(weft_str_of(l->line.data, l->line.length), &out[0]);
}

static const weft_file_format_t line_format = {.read = line_read};
FILE_CLASS(line, line_format)

static void lines_close(weft_iterator_t *it) {
  line_close(it);
  weft_strbuf_deinit(&((line_iterator_t *)it)->line);
}

static weft_status_t *line_make(weft_kernel_ctx_t *c, int at, weft_dataset_t *d, void *params) {
  WEFT_RETURN_IF_ERROR(weft_element_spec_string(&d->spec));
  WEFT_RETURN_IF_ERROR(weft_dataset_files_in(c, at, params));
  WEFT_RETURN_IF_ERROR(weft_dataset_files_compression_in(c, at + 1, params));
  return weft_dataset_files_buffer_in(c, at + 2, 0, "`buffer_size` must be >= 0 (0 == default)");
}

/* ---- FixedLengthRecordDataset ---- */

typedef struct fixed_params {
  weft_dataset_files_t base;
  int64_t header, record, footer; /* bytes */
} fixed_params_t;

static const fixed_params_t *fixed_of(const weft_file_iterator_t *f) {
  return (const fixed_params_t *)f->base.of->params;
}

static weft_status_t *wrong_length(const weft_file_iterator_t *f, weft_code_t code, uint64_t body) {
  const fixed_params_t *p = fixed_of(f);
  return weft_status_new(code, __FILE__, __LINE__,
                         "Excluding the header (%" PRId64 " bytes) and footer (%" PRId64
                         " bytes), input file \"%s\" has body length %" PRIu64
                         " bytes, which is not an exact multiple of the record length (%" PRId64 " bytes).",
                         p->header, p->footer, p->base.names[f->file], body, p->record);
}

/* A plain file's length is checked before anything of it is handed out. */
static weft_status_t *fixed_begin(weft_file_iterator_t *f) {
  const fixed_params_t *p = fixed_of(f);
  const uint64_t size = weft_byte_stream_rest(f->stream);
  const uint64_t body = (size == UINT64_MAX ? 0 : size) - (uint64_t)p->header - (uint64_t)p->footer;
  const bool is_plain = p->base.compression == WEFT_COMPRESSION_NONE;
  weft_str_t footer = WEFT_STR("");
  uint64_t got = 0;
  if (is_plain && body % (uint64_t)p->record != 0) {
    weft_status_t *s = wrong_length(f, WEFT_INVALID_ARGUMENT, body);
    weft_byte_stream_close(f->stream);
    f->stream = NULL;
    return s;
  }
  WEFT_RETURN_IF_ERROR(weft_byte_stream_skip(f->stream, (uint64_t)p->header, &got));
  if (got == (uint64_t)p->header && !is_plain)
    WEFT_RETURN_IF_ERROR(weft_byte_stream_peek(f->stream, (size_t)p->footer, &footer));
  if (got < (uint64_t)p->header || (!is_plain && footer.length < (uint64_t)p->footer))
    return WEFT_ERROR(OUT_OF_RANGE, "%s ends within its header or footer", p->base.names[f->file]);
  return NULL;
}

/* No record is made of the footer: a compressed file does not tell where it ends. */
static weft_status_t *fixed_read(weft_file_iterator_t *f, weft_tensor_t **out, bool *is_over) {
  const fixed_params_t *p = fixed_of(f);
  const uint64_t need = (uint64_t)p->record + (uint64_t)p->footer;
  weft_str_t ahead;
  if (need <= weft_byte_stream_rest(f->stream)) {
    WEFT_RETURN_IF_ERROR(weft_byte_stream_peek(f->stream, (size_t)need, &ahead));
    if (ahead.length >= need) {
      weft_byte_stream_take(f->stream, (size_t)p->record);
      return weft_tensor_string(weft_str_of(ahead.data, (size_t)p->record), &out[0]);
    }
  } else {
    ahead.length = 0;
  }
  *is_over = ahead.length <= (uint64_t)p->footer;
  if (*is_over) return NULL;
  return wrong_length(
      f, WEFT_DATA_LOSS,
      weft_byte_stream_position(f->stream) + ahead.length - (uint64_t)p->header - (uint64_t)p->footer);
}

static const weft_file_format_t fixed_format = {.begin = fixed_begin, .read = fixed_read};
static const weft_file_format_t packed_format = {
    .begin = fixed_begin, .read = fixed_read, .leaves_broken = true};
FILE_CLASS(fixed, fixed_format)
FILE_CLASS(packed, packed_format)

/* ---- kernels ---- */

#define RECORDS(name_, iterator, of, end_)                                              \
  {                                                                                     \
    .name = name_, .iterator_size = sizeof(iterator), .next = of##_next, .end = end_,   \
    .save = weft_files_save, .load = of##_load, .cardinality = weft_cardinality_unknown \
  }
static const weft_dataset_class_t record_class = RECORDS("TFRecord", record_iterator_t, record, record_close),
                                  line_class = RECORDS("TextLine", line_iterator_t, line, lines_close),
                                  fixed_class =
                                      RECORDS("FixedLengthRecord", weft_file_iterator_t, fixed, fixed_close),
                                  packed_class = RECORDS("FixedLengthRecord", weft_file_iterator_t, packed,
                                                         packed_close);

static weft_status_t *size_in(const weft_kernel_ctx_t *c, int i, const char *name, int64_t min,
                              int64_t *out) {
  WEFT_RETURN_IF_ERROR(weft_dataset_in_int(c, i, name, out));
  if (*out >= min) return NULL;
  return WEFT_ERROR(INVALID_ARGUMENT, "`%s` must be %s", name, min == 0 ? ">= 0" : "> 0");
}

static weft_status_t *fixed_make(weft_kernel_ctx_t *c, int at, weft_dataset_t *d, void *params) {
  fixed_params_t *p = params;
  WEFT_RETURN_IF_ERROR(weft_element_spec_string(&d->spec));
  WEFT_RETURN_IF_ERROR(weft_dataset_files_in(c, at, &p->base));
  WEFT_RETURN_IF_ERROR(size_in(c, at + 1, "header_bytes", 0, &p->header));
  WEFT_RETURN_IF_ERROR(size_in(c, at + 2, "record_bytes", 1, &p->record));
  WEFT_RETURN_IF_ERROR(size_in(c, at + 3, "footer_bytes", 0, &p->footer));
  WEFT_RETURN_IF_ERROR(weft_dataset_files_buffer_in(c, at + 4, 0, "`buffer_size` must be >= 0"));
  if (at + 5 < c->node->num_inputs)
    WEFT_RETURN_IF_ERROR(weft_dataset_files_compression_in(c, at + 5, &p->base));
  if (p->base.compression != WEFT_COMPRESSION_NONE) d->class = &packed_class;
  return NULL;
}

#define OP(of, params)                                                      \
  {                                                                         \
    .class = &of##_class, .params_size = sizeof(params), .make = of##_make, \
    .deinit = weft_dataset_files_deinit                                     \
  }
static const weft_dataset_op_t record_op = OP(record, weft_dataset_files_t),
                               line_op = OP(line, weft_dataset_files_t), fixed_op = OP(fixed, fixed_params_t);

const weft_kernel_t weft_cpu_dataset_records_kernels[] = {
    WEFT_DATASET_ROW("FixedLengthRecordDataset", fixed_op),
    WEFT_DATASET_ROW("FixedLengthRecordDatasetV2", fixed_op),
    WEFT_DATASET_ROW("TFRecordDataset", record_op),
    WEFT_DATASET_ROW("TFRecordDatasetV2", record_op),
    WEFT_DATASET_ROW("TextLineDataset", line_op),
    {0},
};
