/* tests/kernels/script.c - runs tables of calls. */
#include "tests/kernels/script.h"

#include <stdio.h>

enum { MAX = 16 };

weft_made_t weft_make(weft_bench_t *b, const char *op, const char *attrs) {
  weft_made_t m = {0};
  weft_value_t out[MAX] = {{0}};
  weft_status_t *s = weft_harness_create(b, op, attrs, NULL, 0, &m.node);
  if (s == NULL) s = weft_harness_run_values(m.node, NULL, out);
  if (s != NULL) fprintf(stderr, "%s %s: %s\n", op, attrs, weft_status_message(s));
  CU_ASSERT_PTR_NULL_FATAL(s);
  m.value = out[0];
  return m;
}

static void release(weft_value_t *v) {
  weft_tensor_release(v->tensor);
  if (v->ref != NULL) weft_object_release(&v->ref->object);
  *v = (weft_value_t){0};
}

void weft_made_drop(weft_made_t *m) {
  release(&m->value);
  weft_harness_destroy(m->node);
}

static int type_of(const weft_value_t *v) {
  return v->ref != NULL ? (int)v->ref->dtype + WEFT_REF : (int)v->tensor->dtype;
}

static void print_outputs(const weft_value_t *out, int n, weft_strbuf_t *to) {
  for (int i = 0; i < n; i++) {
    if (out[i].tensor == NULL) continue;
    if (to->length > 0) weft_strbuf_putc(to, ' ');
    weft_tensor_print(out[i].tensor, to);
  }
}

void weft_expect(weft_bench_t *b, weft_value_t first, const char *op, const char *attrs, const char *inputs,
                 const char *want) {
  weft_value_t in[MAX] = {{0}}, out[MAX] = {{0}};
  int types[MAX], n = 0;
  weft_harness_t *h = NULL;
  weft_strbuf_t got = WEFT_STRBUF_INIT;
  if (first.tensor != NULL || first.ref != NULL) in[n++] = first;
  int own = n;
  for (const char *at = inputs; *at != '\0'; n++) {
    CU_ASSERT_PTR_NULL_FATAL(weft_tensor_parse(&at, &in[n].tensor));
    while (*at == ' ') at++;
  }
  for (int i = 0; i < n; i++) types[i] = type_of(&in[i]);
  weft_status_t *s = weft_harness_create(b, op, attrs, types, n, &h);
  if (s == NULL) s = weft_harness_run_values(h, in, out);
  if (s == NULL) print_outputs(out, weft_harness_num_outputs(h), &got);
  if (s != NULL)
    weft_strbuf_printf(&got, "%s: %s", weft_code_name(weft_status_code(s)), weft_status_message(s));
  const char *text = got.data == NULL || got.length == 0 ? "" : got.data;
  if (strcmp(text, want) != 0)
    fprintf(stderr, "%s %s(%s)\n  gives %s\n  not   %s\n", op, attrs, inputs, text, want);
  CU_ASSERT_STRING_EQUAL(text, want);
  weft_strbuf_deinit(&got);
  weft_status_free(s);
  for (int i = own; i < n; i++) weft_tensor_release(in[i].tensor);
  for (int i = 0; i < MAX; i++) release(&out[i]);
  weft_harness_destroy(h);
}

void weft_expect_all(weft_bench_t *b, weft_value_t first, const weft_call_t *calls, size_t n) {
  for (size_t i = 0; i < n; i++)
    weft_expect(b, first, calls[i].op, calls[i].attrs, calls[i].inputs, calls[i].want);
}

int weft_tensors_parse(const char *text, weft_tensor_t **out, int most) {
  int n = 0;
  for (; *text != '\0'; n++) {
    CU_ASSERT_TRUE_FATAL(n < most);
    CU_ASSERT_PTR_NULL_FATAL(weft_tensor_parse(&text, &out[n]));
    while (*text == ' ') text++;
  }
  return n;
}

static weft_status_t *run_once(weft_bench_t *b, const weft_call_t *call, weft_tensor_t *const *inputs,
                               int n) {
  weft_tensor_t *outputs[MAX] = {NULL};
  int num_outputs = 0;
  weft_status_t *s = weft_run_op(b, call->op, call->attrs, inputs, n, outputs, MAX, &num_outputs);
  for (int i = 0; i < MAX; i++) weft_tensor_release(outputs[i]);
  return s;
}

void weft_fail_allocations(weft_bench_t *b, const weft_call_t *calls, size_t n) {
  for (size_t i = 0; i < n; i++) {
    weft_tensor_t *inputs[MAX] = {NULL};
    int num_inputs = weft_tensors_parse(calls[i].inputs, inputs, MAX);
    long tries = 0;
    WEFT_FAIL_EACH_ALLOCATION(tries, s, run_once(b, &calls[i], inputs, num_inputs));
    CU_ASSERT_TRUE(tries > 0);
    for (int k = 0; k < num_inputs; k++) weft_tensor_release(inputs[k]);
  }
}

int weft_run_bench_tests(const char *suite, const CU_TestInfo *tests, weft_bench_t *b) {
  weft_status_t *s = weft_bench_init(b);
  if (s != NULL) {
    fprintf(stderr, "%s: %s\n", suite, weft_status_message(s));
    weft_status_free(s);
    return 1;
  }
  int status = weft_run_tests(suite, tests);
  weft_bench_deinit(b);
  return status;
}
