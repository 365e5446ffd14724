/* strategies/parameter_server_cost.c - what is said of a rewrite for parameter servers. */
#include "strategies/parameter_server.h"

static const char *how(const weft_ps_options_t *o) {
  switch (o->mode) {
    case WEFT_PS_ASYNC: return "each worker applies its gradients at once";
    case WEFT_PS_SYNC: return "gradients are averaged, then applied once";
    case WEFT_PS_SSP: return "each worker applies its gradients at once, but waits for workers that are far behind";
  }
  return "";
}

weft_status_t *weft_ps_explain(weft_ps_t *p) {
  return weft_rewrite_note(p->out, "parameter servers: %d, workers: %d; %s", p->places.num_servers, p->places.num_workers,
                           how(&p->options));
}
