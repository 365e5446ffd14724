/* tests/kernels/golden_test.c - every kernel against what TensorFlow computed.
 *
 * testdata/golden/<family>.txt holds one case per line:
 *   Op attrs | input input ... | output output ...      the expected outputs
 *   Op attrs | input ... | !CODE text                    the expected code, and a part of the message
 *   Op attrs | input ... | outputs | outputs ...         a second, third ... run of the same node
 * An output "?" is not compared. A first word "~1e-3" sets the tolerance. '#' begins a comment. Each line
 * also runs once with inputs that the kernel alone holds, so that what works in place is tested, too.
 */
#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/kernels/harness.h"
#include "tests/runner.h"

enum { MAX_TENSORS = 32, MAX_LINE = 1 << 20 };
static const char folder[] = "tests/kernels/testdata/golden";

typedef struct golden {
  weft_bench_t bench;
  int cases, failures;
  const char *file;
  int line;
} golden_t;

typedef struct tensors {
  weft_tensor_t *list[MAX_TENSORS];
  int n;
} tensors_t;

static void tensors_clear(tensors_t *t) {
  for (int i = 0; i < t->n; i++) weft_tensor_release(t->list[i]);
  *t = (tensors_t){.n = 0};
}

/* Tensors up to '|' or the end; "?" gives NULL. */
static weft_status_t *read_tensors(const char **text, tensors_t *out) {
  const char *p = *text;
  for (;;) {
    while (*p == ' ') p++;
    if (*p == '|' || *p == '\0') break;
    if (out->n == MAX_TENSORS) return WEFT_ERROR(INVALID_ARGUMENT, "too many tensors");
    if (*p == '?') {
      out->list[out->n++] = NULL;
      p++;
      continue;
    }
    WEFT_RETURN_IF_ERROR(weft_tensor_parse(&p, &out->list[out->n]));
    out->n++;
  }
  *text = p;
  return NULL;
}

static void fail(golden_t *g, const char *op, const char *why) {
  g->failures++;
  fprintf(stderr, "%s:%d: %s: %s\n", g->file, g->line, op, why);
}

static double default_tolerance(const weft_tensor_t *t) {
  switch (t->dtype) {
    case WEFT_F16: return 4e-3;
    case WEFT_BF16: return 3e-2;
    case WEFT_F32:
    case WEFT_C64: return 2e-5;
    case WEFT_F64:
    case WEFT_C128: return 1e-10;
    default: return 0;
  }
}

static void compare(golden_t *g, const char *op, const tensors_t *want, weft_tensor_t *const *got,
                    int num_got, double tolerance) {
  if (num_got != want->n) {
    fail(g, op, "another number of outputs");
    return;
  }
  for (int i = 0; i < want->n; i++) {
    if (want->list[i] == NULL) continue;
    weft_strbuf_t why = WEFT_STRBUF_INIT;
    double allowed = tolerance >= 0 ? tolerance : default_tolerance(want->list[i]);
    if (!weft_tensor_close(got[i], want->list[i], allowed, &why))
      fail(g, op, why.data == NULL ? "" : why.data);
    weft_strbuf_deinit(&why);
  }
}

/* `*rest` points at "!CODE text"; moves behind it. */
static void compare_error(golden_t *g, const char *op, const weft_status_t *s, const char **rest) {
  char code[64] = "";
  int at = 0;
  (void)sscanf(*rest + 1, "%63s%n", code, &at);
  *rest += 1 + at;
  while (**rest == ' ') (*rest)++;
  if (strcmp(weft_code_name(weft_status_code(s)), code) == 0 && strstr(weft_status_message(s), *rest) != NULL)
    return;
  char why[1024];
  (void)snprintf(why, sizeof why, "got %s \"%s\"", weft_code_name(weft_status_code(s)),
                 weft_status_message(s));
  fail(g, op, why);
}

/* `rest` points behind the '|' in front of the first expectation. */
static void run_and_compare(golden_t *g, weft_harness_t *h, const char *op, const tensors_t *inputs,
                            const char *rest, double tolerance, bool owned) {
  weft_tensor_t *outputs[MAX_TENSORS] = {NULL};
  int n = weft_harness_num_outputs(h);
  for (;;) {
    tensors_t want = {.n = 0};
    weft_tensor_t *mine[MAX_TENSORS] = {NULL};
    while (*rest == ' ') rest++;
    bool wants_error = *rest == '!';
    weft_status_t *s = wants_error ? NULL : read_tensors(&rest, &want);
    for (int i = 0; s == NULL && owned && i < inputs->n; i++) s = weft_tensor_copy(inputs->list[i], &mine[i]);
    if (s == NULL)
      s = owned ? weft_harness_run_owned(h, mine, outputs) : weft_harness_run(h, inputs->list, outputs);
    if (wants_error) {
      compare_error(g, op, s, &rest);
    } else if (s != NULL) {
      fail(g, op, weft_status_message(s));
    } else {
      compare(g, op, &want, outputs, n, tolerance);
    }
    bool ran = s == NULL;
    weft_status_free(s);
    for (int i = 0; i < n; i++) weft_tensor_release(outputs[i]);
    memset(outputs, 0, sizeof outputs);
    tensors_clear(&want);
    if (!ran || *rest != '|') return;
    rest++;
  }
}

static void run_line(golden_t *g, char *line) {
  double tolerance = -1;
  const char *p = line;
  while (*p == ' ') p++;
  if (*p == '#' || *p == '\0') return;
  if (*p == '~') {
    char *end = NULL;
    tolerance = strtod(p + 1, &end);
    p = end;
    while (*p == ' ') p++;
  }
  char *bar = strchr(p, '|');
  if (bar == NULL) {
    fail(g, p, "no '|'");
    return;
  }
  *bar = '\0';
  char op[128] = "";
  int at = 0;
  (void)sscanf(p, "%127s%n", op, &at);
  const char *attrs = p + at, *rest = bar + 1;
  tensors_t inputs = {.n = 0};
  weft_harness_t *h = NULL;
  weft_status_t *s = read_tensors(&rest, &inputs);
  int types[MAX_TENSORS] = {0};
  for (int i = 0; i < inputs.n; i++) types[i] = inputs.list[i]->dtype;
  if (s == NULL && *rest == '|') rest++;
  g->cases++;
  for (int round = 0; s == NULL && round < 2; round++) {
    s = weft_harness_create(&g->bench, op, attrs, types, inputs.n, &h);
    if (s == NULL) run_and_compare(g, h, op, &inputs, rest, tolerance, round == 1);
    weft_harness_destroy(h);
    h = NULL;
  }
  while (*rest == ' ') rest++;
  if (s != NULL && *rest == '!') { /* refused before it ran */
    compare_error(g, op, s, &rest);
  } else if (s != NULL) {
    fail(g, op, weft_status_message(s));
  }
  weft_status_free(s);
  tensors_clear(&inputs);
}

static void run_file(golden_t *g, const char *path) {
  FILE *f = fopen(path, "r");
  char *line = weft_malloc(MAX_LINE);
  if (f == NULL || line == NULL) {
    fail(g, path, "cannot be read");
  } else {
    g->file = path;
    for (g->line = 1; fgets(line, MAX_LINE, f) != NULL; g->line++) {
      line[strcspn(line, "\n")] = '\0';
      run_line(g, line);
    }
  }
  weft_free(line);
  if (f != NULL) (void)fclose(f);
}

static void kernels_agree_with_tensorflow(void) {
  golden_t g = {.cases = 0};
  weft_status_t *s = weft_bench_init(&g.bench);
  CU_ASSERT_PTR_NULL_FATAL(s);
  const char *only = getenv("WEFT_GOLDEN_FILE");
  DIR *dir = opendir(folder);
  CU_ASSERT_PTR_NOT_NULL_FATAL(dir);
  for (const struct dirent *e; (e = readdir(dir)) != NULL;) {
    char path[512];
    if (strstr(e->d_name, ".txt") == NULL || (only != NULL && strstr(e->d_name, only) == NULL)) continue;
    (void)snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
    run_file(&g, path);
  }
  (void)closedir(dir);
  weft_bench_deinit(&g.bench);
  fprintf(stderr, "%d cases, %d differ\n", g.cases, g.failures);
  CU_ASSERT_EQUAL(g.failures, 0);
  CU_ASSERT_TRUE(g.cases > 0);
}

int main(void) {
  const CU_TestInfo tests[] = {
      {"kernels agree with TensorFlow", kernels_agree_with_tensorflow},
      CU_TEST_INFO_NULL,
  };
  return weft_run_tests("golden", tests);
}
