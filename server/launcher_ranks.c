/* server/launcher_ranks.c - for launchers: values of variables, and the list of ranks. */
#include "server/launcher_ranks.h"

#include <stdio.h>

enum { MAX_PORT = 65535 };

static weft_status_t *no_memory(void) { return WEFT_NO_MEMORY("the ranks of a run"); }

weft_str_t weft_ranks_variable(const weft_ranks_t *r, const char *name) {
  const char *value = r->system->variable(r->system->arg, name);
  return weft_str(value == NULL ? "" : value);
}

weft_status_t *weft_ranks_number(const weft_ranks_t *r, const char *name, int min, int max, const char *start,
                                 int *out) {
  weft_str_t value = weft_ranks_variable(r, name);
  uint64_t number;
  if (value.length == 0) return WEFT_ERROR(FAILED_PRECONDITION, "%s is not set: %s", name, start);
  if (!weft_str_to_u64(value, &number) || number < (uint64_t)min || number > (uint64_t)max) {
    return WEFT_ERROR(INVALID_ARGUMENT, "%s is '%.*s', not a number from %d to %d: %s", name,
                      value.length > 200 ? 200 : (int)value.length, value.data, min, max, start);
  }
  *out = (int)number;
  return NULL;
}

weft_status_t *weft_ranks_reserve(weft_ranks_t *r, int n) {
  r->addresses = weft_arena_calloc(&r->arena, (size_t)n, sizeof *r->addresses);
  if (r->addresses == NULL) return no_memory();
  r->num_ranks = n;
  return NULL;
}

weft_status_t *weft_ranks_set(weft_ranks_t *r, int rank, weft_str_t host, int local) {
  char text[300];
  int port = r->options->port_base + local;
  if (port > MAX_PORT) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "task %d of host '%.*s' has no port: --port-base %d + %d is over %d; lower --port-base",
                      local, WEFT_STR_ARGS(host), r->options->port_base, local, MAX_PORT);
  }
  int n = snprintf(text, sizeof text, "%.*s:%d", WEFT_STR_ARGS(host), port);
  if (n >= (int)sizeof text)
    return WEFT_ERROR(INVALID_ARGUMENT, "the host name '%.40s...' is too long", text);
  r->addresses[rank] = weft_arena_str(&r->arena, weft_str_of(text, (size_t)n));
  return r->addresses[rank].data == NULL ? no_memory() : NULL;
}
