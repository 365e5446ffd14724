/* kernels/cpu/lookup/vocabulary.h - keys and values from the lines of a text file. */
#ifndef WEFT_KERNELS_CPU_LOOKUP_VOCABULARY_H_
#define WEFT_KERNELS_CPU_LOOKUP_VOCABULARY_H_

#include "resources/lookup_table.h"

/* Which part of a line; from 0 on: the field of that number. */
enum { WEFT_VOCABULARY_LINE_NUMBER = -1, WEFT_VOCABULARY_WHOLE_LINE = -2 };

typedef struct weft_vocabulary_format {
  int64_t key_index, value_index;
  int64_t size;   /* lines that the file must have; those behind are not read. -1: any number */
  int64_t offset; /* added to line numbers, and to numbers of int32 */
  char delimiter; /* between fields */
} weft_vocabulary_format_t;

/* INVALID_ARGUMENT in TensorFlow's words unless such a table can be made of such lines. */
WEFT_MUST_CHECK weft_status_t *weft_vocabulary_check(const weft_vocabulary_format_t *format,
                                                     const weft_lookup_config_t *table);

/* A source of entries; Confined. */
typedef struct weft_vocabulary {
  weft_lookup_source_t source; /* first */
  weft_vocabulary_format_t format;
  const char *name; /* of the file, for messages; lent */
  weft_str_t rest;  /* lines that are not read yet; lent */
  size_t length;    /* of the whole text */
  int64_t next_line;
  weft_tensor_t *key, *value; /* of the line at hand; owned */
  weft_strbuf_t line;         /* without its carriage returns */
} weft_vocabulary_t;

/* Reads the first line of `text`, which is lent. The caller deinits *v in any case. Errors, also of
 * source.next(): INVALID_ARGUMENT (an empty line, too few fields, no number, not `size` lines);
 * of this alone: OUT_OF_RANGE: there is no line. */
WEFT_MUST_CHECK weft_status_t *weft_vocabulary_init(weft_vocabulary_t *v, const char *name, weft_str_t text,
                                                    const weft_vocabulary_format_t *format,
                                                    weft_dtype_t key_dtype, weft_dtype_t value_dtype);
void weft_vocabulary_deinit(weft_vocabulary_t *v);

/* Fills a static table from the file `path`; one that is initialised stays as it is. Errors: those above,
 * those of the file, FAILED_PRECONDITION: a key has two values. */
WEFT_MUST_CHECK weft_status_t *weft_vocabulary_load(weft_lookup_table_t *t, weft_str_t path,
                                                    const weft_vocabulary_format_t *format);

#endif /* WEFT_KERNELS_CPU_LOOKUP_VOCABULARY_H_ */
