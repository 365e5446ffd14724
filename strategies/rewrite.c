/* strategies/rewrite.c - the notes that a rewrite takes of what it did. */
#include "strategies/rewrite.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/alloc.h"

static weft_status_t *no_memory(void) { return WEFT_NO_MEMORY("the result of a strategy"); }

void weft_rewrite_deinit(weft_rewrite_t *r) {
  if (r == NULL) return;
  weft_graph_destroy(r->graph);
  weft_arena_deinit(&r->arena);
  *r = (weft_rewrite_t){.arena = WEFT_ARENA_INIT};
}

/* Makes room for element n of an array that grows by doubling at powers of two. NULL without memory. */
static void *grow(weft_arena_t *arena, void *items, int n, size_t size) {
  if (n > 0 && (n & (n - 1)) != 0) return items;
  char *bigger = weft_arena_calloc(arena, n == 0 ? 1 : (size_t)n * 2, size);
  if (bigger != NULL && n > 0) memcpy(bigger, items, (size_t)n * size);
  return bigger;
}

weft_status_t *weft_rewrite_note(weft_rewrite_t *r, const char *fmt, ...) {
  va_list args;
  va_start(args, fmt);
  int length = vsnprintf(NULL, 0, fmt, args);
  va_end(args);
  if (length < 0) return WEFT_ERROR(INTERNAL, "a note cannot be formatted");
  char *text = weft_arena_calloc(&r->arena, (size_t)length + 1, 1);
  weft_str_t *notes = grow(&r->arena, r->notes, r->num_notes, sizeof *notes);
  if (text == NULL || notes == NULL) return no_memory();
  va_start(args, fmt);
  vsnprintf(text, (size_t)length + 1, fmt, args);
  va_end(args);
  r->notes = notes;
  r->notes[r->num_notes++] = weft_str_of(text, (size_t)length);
  return NULL;
}

weft_status_t *weft_rewrite_add_crossing(weft_rewrite_t *r, const weft_crossing_t *c) {
  weft_crossing_t *crossings = grow(&r->arena, r->crossings, r->num_crossings, sizeof *crossings);
  if (crossings == NULL) return no_memory();
  r->crossings = crossings;
  r->crossings[r->num_crossings++] = *c;
  return NULL;
}

weft_status_t *weft_rewrite_crossing(weft_rewrite_t *r, weft_str_t from, weft_str_t to, weft_str_t what,
                                     int64_t bytes) {
  weft_crossing_t c = {.from = weft_arena_str(&r->arena, from),
                       .to = weft_arena_str(&r->arena, to),
                       .what = weft_arena_str(&r->arena, what),
                       .bytes = bytes,
                       .messages = 1};
  if (c.from.data == NULL || c.to.data == NULL || c.what.data == NULL) return no_memory();
  return weft_rewrite_add_crossing(r, &c);
}

weft_status_t *weft_rewrite_collective(weft_rewrite_t *r, int64_t instance_key, weft_str_t what) {
  weft_rewrite_collective_t *collectives =
      grow(&r->arena, r->collectives, r->num_collectives, sizeof *collectives);
  weft_str_t own = weft_arena_str(&r->arena, what);
  if (collectives == NULL || own.data == NULL) return no_memory();
  r->collectives = collectives;
  r->collectives[r->num_collectives++] =
      (weft_rewrite_collective_t){.instance_key = instance_key, .what = own, .bytes = -1};
  return NULL;
}

weft_status_t *weft_rewrite_sharding(weft_rewrite_t *r, weft_output_t value,
                                     const weft_axis_sharding_t *data) {
  weft_rewrite_sharding_t *shardings = grow(&r->arena, r->shardings, r->num_shardings, sizeof *shardings);
  weft_strbuf_t name = WEFT_STRBUF_INIT;
  weft_strbuf_printf(&name, "%.*s:%d", WEFT_STR_ARGS(value.node->name), value.index);
  weft_str_t own =
      name.failed ? (weft_str_t){NULL, 0} : weft_arena_str(&r->arena, weft_str_of(name.data, name.length));
  weft_strbuf_deinit(&name);
  if (shardings == NULL || own.data == NULL) return no_memory();
  r->shardings = shardings;
  r->shardings[r->num_shardings++] = (weft_rewrite_sharding_t){own, *data};
  return NULL;
}
