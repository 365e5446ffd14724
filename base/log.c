/* base/log.c - "2026-01-31 12:00:00.123456 W text". */
#include "base/log.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"

static int threshold(void) {
  static atomic_int cached = -1;
  int level = atomic_load_explicit(&cached, memory_order_relaxed);
  if (level >= 0) return level;
  const char *text = getenv("WEFT_LOG_LEVEL");
  level = WEFT_LOG_INFO;
  if (text != NULL && strcmp(text, "debug") == 0) level = WEFT_LOG_DEBUG;
  if (text != NULL && strcmp(text, "warning") == 0) level = WEFT_LOG_WARNING;
  if (text != NULL && strcmp(text, "error") == 0) level = WEFT_LOG_ERROR;
  atomic_store_explicit(&cached, level, memory_order_relaxed);
  return level;
}

void weft_log(weft_log_level_t level, const char *fmt, ...) {
  if ((int)level < threshold()) return;
  char line[4096];
  int64_t now = weft_clock_micros();
  time_t seconds = (time_t)(now / 1000000);
  struct tm utc;
  gmtime_r(&seconds, &utc);
  size_t n = strftime(line, sizeof line, "%Y-%m-%d %H:%M:%S", &utc);
  n += (size_t)snprintf(line + n, sizeof line - n, ".%06d %c ", (int)(now % 1000000), "DIWE"[level]);
  va_list ap;
  va_start(ap, fmt);
  int body = vsnprintf(line + n, sizeof line - n - 1, fmt, ap);
  va_end(ap);
  if (body > 0) n += (size_t)body < sizeof line - n - 1 ? (size_t)body : sizeof line - n - 2;
  line[n++] = '\n';
  ssize_t written = write(STDERR_FILENO, line, n);
  (void)written; /* a closed stderr must not stop a server */
}

void weft_log_status(weft_log_level_t level, const char *what, weft_status_t *s) {
  if (s != NULL)
    weft_log(level, "%s: %s: %s", what, weft_code_name(weft_status_code(s)), weft_status_message(s));
  weft_status_free(s);
}

/* ---- listeners: filled from the front, never emptied ---- */

static _Atomic(weft_log_listener_fn *) listeners[WEFT_LOG_MAX_LISTENERS];

void weft_log_add_listener(weft_log_listener_fn *listener) {
  for (int i = 0; i < WEFT_LOG_MAX_LISTENERS; i++) {
    weft_log_listener_fn *none = NULL;
    if (atomic_compare_exchange_strong(&listeners[i], &none, listener)) return;
  }
}

bool weft_log_tell_listeners(const char *text) {
  int n = 0;
  for (; n < WEFT_LOG_MAX_LISTENERS; n++) {
    weft_log_listener_fn *listener = atomic_load_explicit(&listeners[n], memory_order_acquire);
    if (listener == NULL) break;
    listener(text);
  }
  return n > 0;
}
