/* base/metrics.c - Prometheus's text format. */
#include "base/metrics.h"

#include <inttypes.h>

/* Six in ten times: a quantile is known to a fifth or so. */
static const struct {
  int64_t ns;
  const char *text;
} bounds[WEFT_HISTOGRAM_BOUNDS] = {
    {100000, "0.0001"},    {150000, "0.00015"},   {200000, "0.0002"},    {300000, "0.0003"},
    {500000, "0.0005"},    {700000, "0.0007"},    {1000000, "0.001"},    {1500000, "0.0015"},
    {2000000, "0.002"},    {3000000, "0.003"},    {5000000, "0.005"},    {7000000, "0.007"},
    {10000000, "0.01"},    {15000000, "0.015"},   {20000000, "0.02"},    {30000000, "0.03"},
    {50000000, "0.05"},    {70000000, "0.07"},    {100000000, "0.1"},    {150000000, "0.15"},
    {200000000, "0.2"},    {300000000, "0.3"},    {500000000, "0.5"},    {700000000, "0.7"},
    {1000000000, "1.0"},   {1500000000, "1.5"},   {2000000000, "2.0"},   {3000000000, "3.0"},
    {5000000000, "5.0"},   {7000000000, "7.0"},   {10000000000, "10.0"}, {15000000000, "15.0"},
    {20000000000, "20.0"}, {30000000000, "30.0"},
};

void weft_metrics_family(weft_strbuf_t *out, const char *name, const char *type, const char *help) {
  weft_strbuf_printf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void put_escaped(weft_strbuf_t *out, weft_str_t value) {
  for (size_t i = 0; i < value.length; i++) {
    const char c = value.data[i];
    if (c == '\\' || c == '"') weft_strbuf_putc(out, '\\');
    if (c == '\n') {
      weft_strbuf_append(out, WEFT_STR("\\n"));
    } else {
      weft_strbuf_putc(out, c);
    }
  }
}

/* name{a="b",le="bound"} and a space; `le` may be NULL. */
static void put_name(weft_strbuf_t *out, const char *name, const char *suffix,
                     const weft_metric_label_t *labels, int n, const char *le) {
  weft_strbuf_printf(out, "%s%s", name, suffix);
  for (int i = 0; i < n; i++) {
    weft_strbuf_printf(out, "%s%s=\"", i == 0 ? "{" : ",", labels[i].name);
    put_escaped(out, labels[i].value);
    weft_strbuf_putc(out, '"');
  }
  if (le != NULL) weft_strbuf_printf(out, "%sle=\"%s\"", n == 0 ? "{" : ",", le);
  weft_strbuf_printf(out, "%s ", n > 0 || le != NULL ? "}" : "");
}

static void put_seconds(weft_strbuf_t *out, int64_t ns) {
  weft_strbuf_printf(out, "%" PRId64 ".%09" PRId64 "\n", ns / 1000000000, ns % 1000000000);
}

void weft_metrics_int(weft_strbuf_t *out, const char *name, const weft_metric_label_t *labels, int num_labels,
                      int64_t value) {
  put_name(out, name, "", labels, num_labels, NULL);
  weft_strbuf_printf(out, "%" PRId64 "\n", value);
}

void weft_metrics_seconds(weft_strbuf_t *out, const char *name, const weft_metric_label_t *labels,
                          int num_labels, int64_t ns) {
  put_name(out, name, "", labels, num_labels, NULL);
  put_seconds(out, ns < 0 ? 0 : ns);
}

void weft_histogram_add(weft_histogram_t *h, int64_t ns) {
  int i = 0;
  while (i < WEFT_HISTOGRAM_BOUNDS && ns > bounds[i].ns) i++;
  atomic_fetch_add_explicit(&h->counts[i], 1, memory_order_relaxed);
  atomic_fetch_add_explicit(&h->sum_ns, ns, memory_order_relaxed);
}

void weft_metrics_histogram(weft_strbuf_t *out, const char *name, const weft_metric_label_t *labels,
                            int num_labels, weft_histogram_t *h) {
  int64_t count = 0;
  for (int i = 0; i <= WEFT_HISTOGRAM_BOUNDS; i++) {
    count += atomic_load_explicit(&h->counts[i], memory_order_relaxed);
    put_name(out, name, "_bucket", labels, num_labels, i < WEFT_HISTOGRAM_BOUNDS ? bounds[i].text : "+Inf");
    weft_strbuf_printf(out, "%" PRId64 "\n", count);
  }
  put_name(out, name, "_sum", labels, num_labels, NULL);
  put_seconds(out, atomic_load_explicit(&h->sum_ns, memory_order_relaxed));
  put_name(out, name, "_count", labels, num_labels, NULL);
  weft_strbuf_printf(out, "%" PRId64 "\n", count);
}
