/* kernels/cpu/io/print.c - Assert, Print, PrintV2, Abort: what a graph says to the outside. */
#include <errno.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/log.h"
#include "io/file.h"
#include "kernels/cpu/io/summarize.h"
#include "kernels/cpu/loops/common.h"
#include "kernels/kernel.h"

WEFT_ATTRS(assert_true, (INT, summarize))
static weft_status_t *assert_true(weft_kernel_ctx_t *c, const assert_true_attrs_t *attrs) {
  const weft_tensor_t *condition = weft_in(c, 0);
  if (condition->shape.rank != 0) {
    return WEFT_ERROR(INVALID_ARGUMENT, "In[0] should be a scalar: %s", WEFT_SHAPE_TEXT(&condition->shape));
  }
  if (*(const uint8_t *)condition->data != 0) return NULL;
  weft_strbuf_t text = WEFT_STRBUF_INIT;
  weft_strbuf_puts(&text, "assertion failed: ");
  for (int i = 1; i < c->node->num_inputs; i++) {
    weft_strbuf_puts(&text, i == 1 ? "[" : " [");
    weft_summarize(weft_in(c, i), attrs->summarize, &text);
    weft_strbuf_puts(&text, "]");
  }
  weft_status_t *s = WEFT_ERROR(INVALID_ARGUMENT, "%s", text.failed ? "assertion failed" : text.data);
  weft_strbuf_deinit(&text);
  return s;
}

/* ---- Print: the first `first_n` times ---- */

typedef struct print_state {
  int64_t first_n, summarize;
  weft_str_t message;
  atomic_llong calls;
} print_state_t;

static weft_status_t *print_prepare(const weft_kernel_setup_t *setup, void **out_state) {
  print_state_t *st = weft_calloc(1, sizeof *st);
  if (st == NULL) return WEFT_NO_MEMORY("preparing %.*s", WEFT_STR_ARGS(setup->node.name));
  st->first_n = weft_knode_int(setup, "first_n");
  st->summarize = weft_knode_int(setup, "summarize");
  st->message = weft_knode_string(setup, "message");
  atomic_init(&st->calls, 0);
  *out_state = st;
  return NULL;
}

/* One line, as it is: it is the graph's own output, not a log line. */
static weft_status_t *write_out(int fd, weft_str_t text) {
  while (text.length > 0) {
    ssize_t n = write(fd, text.data, text.length);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return weft_file_error(fd == STDOUT_FILENO ? "stdout" : "stderr", errno);
    text = weft_str_of(text.data + n, text.length - (size_t)n);
  }
  return NULL;
}

static weft_status_t *print(weft_kernel_ctx_t *c) {
  print_state_t *st = c->state;
  weft_out_set(c, 0, weft_tensor_retain(weft_in(c, 0)));
  if (st->first_n >= 0 && atomic_fetch_add_explicit(&st->calls, 1, memory_order_relaxed) >= st->first_n)
    return NULL;
  weft_strbuf_t text = WEFT_STRBUF_INIT;
  weft_strbuf_append(&text, st->message);
  for (int i = 1; i < c->node->num_inputs; i++) {
    weft_strbuf_putc(&text, '[');
    weft_summarize(weft_in(c, i), st->summarize, &text);
    weft_strbuf_putc(&text, ']');
  }
  weft_strbuf_putc(&text, '\n');
  weft_status_t *s = text.failed ? WEFT_NO_MEMORY("printing")
                                 : write_out(STDERR_FILENO, weft_str_of(text.data, text.length));
  weft_strbuf_deinit(&text);
  return s;
}

static weft_status_t *append_to_file(weft_str_t path, weft_str_t text) {
  char *name = weft_strndup(path.data, path.length);
  if (name == NULL) return WEFT_NO_MEMORY("printing to a file");
  weft_status_t *s = weft_file_append(name, text.data, text.length);
  weft_free(name);
  return s;
}

WEFT_ATTRS(print_v2, (STRING, output_stream), (STRING, end))
static weft_status_t *print_v2(weft_kernel_ctx_t *c, const print_v2_attrs_t *attrs) {
  const weft_tensor_t *input = weft_in(c, 0);
  weft_str_t stream = attrs->output_stream;
  weft_strbuf_t text = WEFT_STRBUF_INIT;
  weft_status_t *s = NULL;
  if (input->shape.rank != 0) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Input is expected to be scalar, but got %s",
                      WEFT_SHAPE_TEXT(&input->shape));
  }
  weft_strbuf_append(&text, weft_tensor_str_at(input, 0));
  weft_strbuf_append(&text, attrs->end);
  weft_str_t line = weft_str_of(text.data, text.length);
  if (text.failed) {
    s = WEFT_NO_MEMORY("printing");
  } else if (weft_str_starts_with(stream, "file://")) {
    s = append_to_file(weft_str_of(stream.data + 7, stream.length - 7), line);
  } else if (weft_log_tell_listeners(text.data == NULL ? "" : text.data)) {
    /* the program shows it */
  } else if (weft_str_is(stream, "stdout")) {
    s = write_out(STDOUT_FILENO, line);
  } else if (weft_str_is(stream, "stderr")) {
    s = write_out(STDERR_FILENO, line);
  } else if (weft_str_starts_with(stream, "log(")) {
    weft_log_level_t level = weft_str_is(stream, "log(info)")      ? WEFT_LOG_INFO
                             : weft_str_is(stream, "log(warning)") ? WEFT_LOG_WARNING
                                                                   : WEFT_LOG_ERROR;
    weft_log(level, "%.*s", WEFT_STR_ARGS(weft_tensor_str_at(input, 0)));
  } else {
    s = WEFT_ERROR(INVALID_ARGUMENT,
                   "Unknown output stream: %.*s, expected one of stderr, stdout, log(info), log(warning), "
                   "log(error), file://",
                   WEFT_STR_ARGS(stream));
  }
  weft_strbuf_deinit(&text);
  return s;
}

/* A graph may not end the process that serves others: its step ends instead. */
WEFT_ATTRS(abort_step, (BOOL, exit_without_error), (STRING, error_msg))
static weft_status_t *abort_step(weft_kernel_ctx_t *c, const abort_step_attrs_t *attrs) {
  (void)c;
  if (attrs->exit_without_error) return NULL;
  return WEFT_ERROR(ABORTED, "Abort_op intentional failure; %.*s", WEFT_STR_ARGS(attrs->error_msg));
}

const weft_kernel_t weft_cpu_print_kernels[] = {
    {.op = "Abort", WEFT_COMPUTE(abort_step)},
    {.op = "Assert", WEFT_COMPUTE(assert_true)},
    {.op = "Print",
     .type_attr = "T",
     .types = WEFT_SET_ALL,
     .prepare = print_prepare,
     .compute = print,
     .destroy = weft_free},
    {.op = "PrintV2", WEFT_COMPUTE(print_v2)},
    {0},
};
