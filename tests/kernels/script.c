/* tests/kernels/script.c - runs tables of calls. */
#include "tests/kernels/script.h"

#include <stdio.h>

#include "tests/runner.h"

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
  if (s != NULL) weft_strbuf_printf(&got, "%s: %s", weft_code_name(weft_status_code(s)), weft_status_message(s));
  const char *text = got.data == NULL || got.length == 0 ? "" : got.data;
  if (strcmp(text, want) != 0) fprintf(stderr, "%s %s(%s)\n  gives %s\n  not   %s\n", op, attrs, inputs, text, want);
  CU_ASSERT_STRING_EQUAL(text, want);
  weft_strbuf_deinit(&got);
  weft_status_free(s);
  for (int i = own; i < n; i++) weft_tensor_release(in[i].tensor);
  for (int i = 0; i < MAX; i++) release(&out[i]);
  weft_harness_destroy(h);
}

void weft_expect_all(weft_bench_t *b, weft_value_t first, const weft_call_t *calls, size_t n) {
  for (size_t i = 0; i < n; i++) weft_expect(b, first, calls[i].op, calls[i].attrs, calls[i].inputs, calls[i].want);
}
