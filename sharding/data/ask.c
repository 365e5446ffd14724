/* sharding/data/ask.c - what a rule may ask of the analysis under way. */
#include <stdarg.h>
#include <stdio.h>

#include "base/alloc.h"
#include "sharding/data/analysis.h"

void *weft_data_alloc(const weft_data_ctx_t *c, size_t bytes) {
  void *memory = weft_arena_calloc(&c->analysis->arena, 1, bytes);
  if (memory == NULL) c->analysis->failed = true;
  return memory;
}

weft_status_t *weft_data_note(weft_data_analysis_t *a, const char *fmt, ...) {
  char text[512];
  va_list args;
  va_start(args, fmt);
  (void)vsnprintf(text, sizeof text, fmt, args);
  va_end(args);
  weft_data_plan_t *p = a->plan;
  if (p->num_notes >= WEFT_DATA_NOTES) return NULL;
  weft_str_t copy = weft_arena_str(&p->arena, weft_str(text));
  if (copy.data == NULL) return WEFT_NO_MEMORY("analysing a graph for replicas");
  p->notes[p->num_notes++] = copy;
  return NULL;
}

void weft_data_force_true(weft_data_ctx_t *c, int id) { c->analysis->asked[id] = c->analysis->round; }

bool weft_data_in_loop(const weft_data_ctx_t *c) {
  const weft_frames_t *f = &c->analysis->frames;
  return f->frame_of != NULL && f->frame_of[c->node->id] != 0;
}

const weft_shape_t *weft_data_shape_of(const weft_data_analysis_t *a, const weft_node_t *n, int output) {
  static const weft_shape_t unknown = {.rank = WEFT_UNKNOWN_DIM};
  if (a->shapes[n->id] != NULL) return &a->shapes[n->id][output];
  return n->output_shapes == NULL ? &unknown : &n->output_shapes[output];
}
