/* tests/fuzz/metrics_text_fuzz.c - a peer's metrics, and the rates between them and those of a peer that
 * tells the same in another order. */
#include <math.h>

#include "tests/fuzz/fuzz.h"
#include "tools/top/numbers.h"

#define BUCKETS                                                                                   \
  "weft_graph_run_seconds_bucket{le=\"0.001\"} 3\nweft_graph_run_seconds_bucket{le=\"+Inf\"} 5\n" \
  "weft_graph_run_seconds_sum 0.5\nweft_graph_run_seconds_count 5\n"

const weft_fuzz_seed_t weft_fuzz_seeds[] = {
    WEFT_FUZZ_BYTES("# TYPE weft_graph_runs_total counter\nweft_graph_runs_total{result=\"ok\"} 5\n" BUCKETS),
    WEFT_FUZZ_BYTES(BUCKETS
                    "weft_link_bytes_total{from=\"/job:a/task:0\",to=\"b\\\\\\n\\\"\",class=\"tensor\"} 7\n"
                    "weft_link_messages_total{from=\"/job:a/task:0\",to=\"b\",class=\"tensor\"} 2 123\n"),
    WEFT_FUZZ_BYTES(BUCKETS "weft_memory_bytes{device=\"CPU:0\",tag=\"param\"} NaN\n"
                            "weft_memory_peak_bytes{device=\"CPU:0\",tag=\"param\"} +Inf\n"
                            "weft_task_up{task=\"x\"} 1\nweft_task_losses_total{task=\"x\"} 1e308\n"),
    WEFT_FUZZ_END,
};

void weft_fuzz_one(const uint8_t *data, size_t size) {
  weft_top_numbers_t a, b;
  const size_t half = size / 2;
  weft_status_t *s = weft_top_numbers_read(weft_str_of((const char *)data, size), 1000, &a);
  weft_status_t *t = weft_top_numbers_read(weft_str_of((const char *)data + half, size - half), 2000, &b);
  if (s == NULL) {
    const weft_top_figures_t f = weft_top_figures(t == NULL ? &b : &a, &a);
    weft_fuzz_check(!(f.wait_share > 1), "a share of more than all");
    weft_fuzz_check(f.p50_seconds >= -1 && !isnan(f.p50_seconds), "a quantile that is no number");
    for (int i = 0; i < a.num_links; i++) {
      for (size_t k = 0; k < a.links[i].from.length; k++)
        weft_fuzz_check(a.links[i].from.data[k] > ' ' && a.links[i].from.data[k] <= '~',
                        "a name is not shown");
    }
  }
  weft_status_free(s);
  weft_status_free(t);
  weft_top_numbers_deinit(&a);
  weft_top_numbers_deinit(&b);
}
