/* base/metrics.h - numbers of a process as text, in the exposition format of Prometheus (version 0.0.4).
 *
 *   weft_metrics_family(out, "weft_steps_total", "counter", "Steps that have ended.");
 *   weft_metrics_int(out, "weft_steps_total", labels, 1, 17);
 *
 * A family is named once, in front of all of its samples. Units are base units: seconds and bytes.
 */
#ifndef WEFT_BASE_METRICS_H_
#define WEFT_BASE_METRICS_H_

#include <stdatomic.h>
#include <stdint.h>

#include "base/str.h"

typedef struct weft_metric_label {
  const char *name;
  weft_str_t value; /* any bytes: they are escaped */
} weft_metric_label_t;

/* `type`: "counter", "gauge" or "histogram". */
void weft_metrics_family(weft_strbuf_t *out, const char *name, const char *type, const char *help);
void weft_metrics_int(weft_strbuf_t *out, const char *name, const weft_metric_label_t *labels, int num_labels,
                      int64_t value);
void weft_metrics_seconds(weft_strbuf_t *out, const char *name, const weft_metric_label_t *labels,
                          int num_labels, int64_t ns);

/* How long things took: how many up to each bound, and all together. Thread-safe; starts as all zero. */
enum { WEFT_HISTOGRAM_BOUNDS = 34 }; /* 100 us to 30 s, six in ten times */
typedef struct weft_histogram {
  atomic_llong counts[WEFT_HISTOGRAM_BOUNDS + 1]; /* the last: above all bounds */
  atomic_llong sum_ns;
} weft_histogram_t;
void weft_histogram_add(weft_histogram_t *h, int64_t ns);
/* The samples of a family of that name. */
void weft_metrics_histogram(weft_strbuf_t *out, const char *name, const weft_metric_label_t *labels,
                            int num_labels, weft_histogram_t *h);

#endif /* WEFT_BASE_METRICS_H_ */
