/* base/log.h - one line per event on standard error.
 *
 * A line is written with one write(2), so lines of different threads do not mix.
 * The level comes from WEFT_LOG_LEVEL (debug, info, warning, error; default info).
 */
#ifndef WEFT_BASE_LOG_H_
#define WEFT_BASE_LOG_H_

#include "base/status.h"

typedef enum weft_log_level {
  WEFT_LOG_DEBUG,
  WEFT_LOG_INFO,
  WEFT_LOG_WARNING,
  WEFT_LOG_ERROR
} weft_log_level_t;

/* Thread-safe; may block on standard error. Never call it under a lock. */
void weft_log(weft_log_level_t level, const char *fmt, ...) WEFT_PRINTF(2, 3);

/* Logs `s` at `level` with a prefix and frees it: one of the two ways a status ends. */
void weft_log_status(weft_log_level_t level, const char *what, weft_status_t *s);

/* What graphs print goes to these functions, if there are any, in place of the standard streams. Thread-safe;
 * a listener stays for ever. Beyond WEFT_LOG_MAX_LISTENERS they are not kept. */
enum { WEFT_LOG_MAX_LISTENERS = 16 };
typedef void weft_log_listener_fn(const char *text);
void weft_log_add_listener(weft_log_listener_fn *listener);
/* False: there are none. */
bool weft_log_tell_listeners(const char *text);

#endif /* WEFT_BASE_LOG_H_ */
