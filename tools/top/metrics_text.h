/* tools/top/metrics_text.h - reads Prometheus's text format (base/metrics.h writes it): one sample after the
 * other.
 *
 * The text is a peer's: every byte is checked here, once.
 */
#ifndef WEFT_TOOLS_TOP_METRICS_TEXT_H_
#define WEFT_TOOLS_TOP_METRICS_TEXT_H_

#include "base/metrics.h"
#include "base/status.h"

enum {
  WEFT_METRICS_TEXT_BYTES = 16 << 20, /* the longest text that is read */
  WEFT_METRICS_TEXT_LABELS = 16,      /* of a sample */
};

typedef struct weft_metrics_sample { /* lent for the call */
  weft_str_t name;
  const char *const *label_names; /* num_labels of them, and their values with escapes undone */
  const weft_str_t *label_values;
  int num_labels;
  double value; /* any, also NaN and infinities */
} weft_metrics_sample_t;

/* The value of the label, or "". */
weft_str_t weft_metrics_sample_label(const weft_metrics_sample_t *s, const char *name);

typedef void weft_metrics_sample_fn(void *arg, const weft_metrics_sample_t *s);
/* Calls fn for each sample, in order; comments and empty lines are passed over, times of samples, too.
 * Errors: INVALID_ARGUMENT with the number of the line that is no sample: those before it were told;
 * RESOURCE_EXHAUSTED. */
WEFT_MUST_CHECK weft_status_t *weft_metrics_text_read(weft_str_t text, weft_metrics_sample_fn *fn, void *arg);

#endif /* WEFT_TOOLS_TOP_METRICS_TEXT_H_ */
