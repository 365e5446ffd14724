/* jobs/run_options.c - RunOptions, field by field: trace_level (1), experimental (8) with
 * collective_graph_key (1). */
#include "jobs/run_options.h"

#include "protos/wire.h"

enum { FULL_TRACE = 3 };

TF_Buffer *weft_job_run_options(bool is_traced, int64_t collective_graph_key) {
  weft_strbuf_t bytes = WEFT_STRBUF_INIT;
  if (is_traced) weft_wire_put_i64(&bytes, 1, FULL_TRACE);
  if (collective_graph_key != 0) {
    size_t experimental = weft_wire_begin(&bytes, 8);
    weft_wire_put_i64(&bytes, 1, collective_graph_key);
    weft_wire_end(&bytes, experimental);
  }
  TF_Buffer *out =
      bytes.failed || bytes.length == 0 ? NULL : TF_NewBufferFromString(bytes.data, bytes.length);
  weft_strbuf_deinit(&bytes);
  return out;
}
