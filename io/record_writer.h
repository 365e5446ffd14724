/* io/record_writer.h - a record of a TFRecord file, as record_reader.h describes it. */
#ifndef WEFT_IO_RECORD_WRITER_H_
#define WEFT_IO_RECORD_WRITER_H_

#include "base/str.h"

/* Appends `bytes` as a record. Out of memory sets out->failed. */
void weft_record_put(weft_strbuf_t *out, weft_str_t bytes);

#endif /* WEFT_IO_RECORD_WRITER_H_ */
