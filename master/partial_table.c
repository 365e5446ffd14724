/* master/partial_table.c - the partial steps that a session keeps. */
#include "base/alloc.h"
#include "master/partial_step.h"

void weft_partial_step_release(weft_partial_step_t *p) {
  if (p == NULL || atomic_fetch_sub_explicit(&p->refs, 1, memory_order_acq_rel) != 1) return;
  weft_canceller_release(p->canceller);
  weft_graph_version_release(p->graph);
  weft_step_plan_release(p->plan);
  weft_mutex_deinit(&p->mu);
  weft_free(p->is_fed);
  weft_free(p->is_fetched);
  weft_free((void *)(uintptr_t)p->handle.data);
  weft_free(p);
}

void weft_partial_steps_abandon(weft_master_session_t *s) {
  for (;;) {
    weft_map_entry_t e = {.value = NULL};
    size_t at = 0;
    weft_mutex_lock(&s->mu);
    bool any = weft_map_next(&s->partial_steps, &at, &e);
    if (any) weft_map_remove(&s->partial_steps, e.key);
    weft_mutex_unlock(&s->mu);
    if (!any) return;
    weft_partial_step_t *p = e.value;
    weft_step_plan_cleanup_step(p->plan, p->step_id);
    weft_partial_step_release(p);
  }
}
