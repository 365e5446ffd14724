/* tests/fuzz/csv_fuzz.c - files of comma-separated values, gone through as data sets. The first byte chooses
 * options. */
#include <stdio.h>
#include <stdlib.h>

#include "kernels/cpu/dataset/traversal.h"
#include "tests/fuzz/fuzz.h"
#include "tests/kernels/harness.h"

const weft_fuzz_seed_t weft_fuzz_seeds[] = {
    WEFT_FUZZ_BYTES("\x00"
                    "1,a,2.5\n2,\"b, c\",3\r\n,\"\"\"\",\n"),
    WEFT_FUZZ_BYTES("\x01"
                    "x,y,z\r1,\"open\n2,b\"c,3"),
    WEFT_FUZZ_BYTES("\x02"
                    "1,,\n,,\n\n"),
    WEFT_FUZZ_BYTES("\x03"
                    "\"a\",NA,nan\n"),
    WEFT_FUZZ_END,
};

static weft_bench_t bench;
static char path[512];

static void begin(void) {
  const char *dir = getenv("TEST_TMPDIR");
  weft_status_t *s = weft_bench_init(&bench);
  weft_fuzz_check(s == NULL, "no bench");
  (void)snprintf(path, sizeof path, "%s/fuzz.csv", dir == NULL ? "/tmp" : dir);
}

/* No more elements than there are bytes; an error ends no pass. */
static void go_through(weft_dataset_t *d, size_t size) {
  weft_traversal_t *t = NULL;
  weft_iterator_t *it = NULL;
  bool is_end = false;
  weft_status_t *s = weft_traversal_create(d, bench.device, NULL, &t);
  if (s == NULL) s = weft_iterator_open(d, t, NULL, &it);
  weft_fuzz_check(s == NULL, "no iterator");
  for (size_t n = 0; !is_end; n++) {
    weft_tensor_t *parts[3] = {NULL};
    weft_status_free(weft_iterator_next(it, parts, &is_end));
    weft_element_release(parts, 3);
    weft_fuzz_check(n <= size + 2, "a file without an end");
  }
  weft_iterator_close(it);
  weft_traversal_release(t);
}

void weft_fuzz_one(const uint8_t *data, size_t size) {
  if (path[0] == '\0') begin();
  if (size == 0) return;
  FILE *f = fopen(path, "wb");
  weft_fuzz_check(f != NULL && fwrite(data + 1, 1, size - 1, f) == size - 1, "no file");
  (void)fclose(f);
  weft_tensor_t *in[12] = {NULL}, *out[1] = {NULL};
  char text[1024];
  int num_outputs = 0, n = 0;
  (void)snprintf(
      text, sizeof text,
      "string[]:'%s' string[]:'' int64[]:7 bool[]:%d string[]:',' bool[]:%d string[]:'NA' int64[0]: "
      "int32[1]:5 string[0]: float[1]:1.5 int64[0]:",
      path, data[0] & 1, data[0] >> 1 & 1);
  const char *rest = text;
  for (; n < 12; n++) {
    while (*rest == ' ') rest++;
    weft_status_t *s = weft_tensor_parse(&rest, &in[n]);
    weft_fuzz_check(s == NULL, "an input of the target is no tensor");
  }
  weft_status_t *s =
      weft_run_op(&bench, "CSVDatasetV2", "output_types=[int32,string,float] output_shapes=[[],[],[]]", in, n,
                  out, 1, &num_outputs);
  weft_dataset_t *d = NULL;
  if (s == NULL) s = weft_dataset_of(out[0], &d);
  weft_fuzz_check(s == NULL, "no data set");
  go_through(d, size);
  for (int i = 0; i < n; i++) weft_tensor_release(in[i]);
  weft_tensor_release(out[0]);
}
