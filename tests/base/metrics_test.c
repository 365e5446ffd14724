#include "base/metrics.h"

#include <stdlib.h>
#include <string.h>

#include "tests/runner.h"

static void expect(weft_strbuf_t *out, const char *text) {
  CU_ASSERT_FALSE_FATAL(out->failed);
  CU_ASSERT_STRING_EQUAL(out->data, text);
  weft_strbuf_deinit(out);
}

static void samples_have_their_labels(void) {
  weft_strbuf_t out = WEFT_STRBUF_INIT;
  const weft_metric_label_t labels[] = {{"a", WEFT_STR("x")}, {"b", WEFT_STR("y z")}};
  weft_metrics_family(&out, "n_total", "counter", "All.");
  weft_metrics_int(&out, "n_total", NULL, 0, -3);
  weft_metrics_int(&out, "n_total", labels, 2, INT64_MAX);
  expect(&out,
         "# HELP n_total All.\n# TYPE n_total counter\nn_total -3\nn_total{a=\"x\",b=\"y z\"} "
         "9223372036854775807\n");
}

static void labels_are_escaped(void) {
  weft_strbuf_t out = WEFT_STRBUF_INIT;
  const weft_metric_label_t label = {"a", WEFT_STR("q\" b\\ n\n")};
  weft_metrics_int(&out, "n", &label, 1, 1);
  expect(&out, "n{a=\"q\\\" b\\\\ n\\n\"} 1\n");
}

static void times_are_seconds(void) {
  weft_strbuf_t out = WEFT_STRBUF_INIT;
  weft_metrics_seconds(&out, "s", NULL, 0, 0);
  weft_metrics_seconds(&out, "s", NULL, 0, 5);
  weft_metrics_seconds(&out, "s", NULL, 0, INT64_C(12345678901));
  weft_metrics_seconds(&out, "s", NULL, 0, -5);
  expect(&out, "s 0.000000000\ns 0.000000005\ns 12.345678901\ns 0.000000000\n");
}

/* How many a bucket of that bound has. */
static int64_t bucket(weft_histogram_t *h, const char *bound) {
  weft_strbuf_t out = WEFT_STRBUF_INIT, wanted = WEFT_STRBUF_INIT;
  weft_metrics_histogram(&out, "h", NULL, 0, h);
  weft_strbuf_printf(&wanted, "h_bucket{le=\"%s\"} ", bound);
  const char *at = strstr(out.data, wanted.data);
  CU_ASSERT_PTR_NOT_NULL_FATAL(at);
  const int64_t n = strtoll(at + wanted.length, NULL, 10);
  weft_strbuf_deinit(&out);
  weft_strbuf_deinit(&wanted);
  return n;
}

static void buckets_count_all_that_is_shorter(void) {
  weft_histogram_t h = {0};
  weft_histogram_add(&h, 100000); /* on a bound: in its bucket */
  weft_histogram_add(&h, 100001);
  weft_histogram_add(&h, INT64_C(40000000000));
  CU_ASSERT_EQUAL(bucket(&h, "0.0001"), 1);
  CU_ASSERT_EQUAL(bucket(&h, "0.00015"), 2);
  CU_ASSERT_EQUAL(bucket(&h, "30.0"), 2);
  CU_ASSERT_EQUAL(bucket(&h, "+Inf"), 3);
  weft_strbuf_t out = WEFT_STRBUF_INIT;
  weft_metrics_histogram(&out, "h", NULL, 0, &h);
  CU_ASSERT_PTR_NOT_NULL(strstr(out.data, "\nh_sum 40.000200001\nh_count 3\n"));
  weft_strbuf_deinit(&out);
}

static const CU_TestInfo tests[] = {
    {"samples have their labels", samples_have_their_labels},
    {"labels are escaped", labels_are_escaped},
    {"times are seconds", times_are_seconds},
    {"buckets count all that is shorter", buckets_count_all_that_is_shorter},
    CU_TEST_INFO_NULL,
};

int main(void) { return weft_run_tests("metrics", tests); }
