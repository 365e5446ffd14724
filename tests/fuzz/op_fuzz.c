/* tests/fuzz/op_fuzz.c - see the header. */
#include "tests/fuzz/op_fuzz.h"

#include "tests/fuzz/fuzz.h"
#include "tests/kernels/harness.h"

enum { MAX_INPUTS = 16, MAX_OUTPUTS = 32 };

static weft_bench_t bench;
static bool has_bench;

static weft_tensor_t *next_input(const char **text, weft_str_t bytes) {
  weft_tensor_t *t = NULL;
  weft_status_t *s = NULL;
  while (**text == ' ') ++*text;
  if (**text == '$') {
    ++*text;
    s = weft_tensor_string(bytes, &t);
  } else {
    s = weft_tensor_parse(text, &t);
  }
  weft_fuzz_check(s == NULL, "an input of the target is no tensor");
  return t;
}

static void run(const weft_fuzz_op_t *o, weft_str_t bytes) {
  weft_tensor_t *inputs[MAX_INPUTS] = {NULL}, *outputs[MAX_OUTPUTS] = {NULL};
  const char *text = o->inputs;
  int n = 0, num_outputs = 0;
  while (*text != '\0' && n < MAX_INPUTS) inputs[n++] = next_input(&text, bytes);
  weft_status_t *s = weft_run_op(&bench, o->op, o->attrs, inputs, n, outputs, MAX_OUTPUTS, &num_outputs);
  weft_fuzz_check(weft_status_code(s) != WEFT_NOT_FOUND && weft_status_code(s) != WEFT_INTERNAL,
                  "the target names no kernel, or the kernel is at fault");
  weft_status_free(s);
  for (int i = 0; i < n; i++) weft_tensor_release(inputs[i]);
  for (int i = 0; i < MAX_OUTPUTS; i++) weft_tensor_release(outputs[i]);
}

void weft_fuzz_ops(const weft_fuzz_op_t *ops, int n, const uint8_t *data, size_t size) {
  if (!has_bench) {
    weft_status_t *s = weft_bench_init(&bench);
    weft_fuzz_check(s == NULL, "no bench");
    has_bench = true;
  }
  for (int i = 0; i < n; i++) run(&ops[i], weft_str_of((const char *)data, size));
}
