/* base/status.h - why something failed, and what the caller can do about it.
 *
 * A function that can fail returns weft_status_t*: NULL is success, so the happy
 * path costs one compare. A failure is created once, where it is first seen,
 * with WEFT_ERROR; callers pass it up unchanged or add context; exactly one place
 * ends it (logs it, or turns it into an RPC status) and frees it.
 *
 * Codes are gRPC's numbers, so a failure keeps its meaning across processes.
 *
 * A text has at most WEFT_STATUS_BYTES bytes, whatever the names in it: of a longer one the middle is left
 * out.
 */
#ifndef WEFT_BASE_STATUS_H_
#define WEFT_BASE_STATUS_H_

#include <stdbool.h>
#include <stddef.h>

#define WEFT_STATUS_CODES(X)                                       \
  X(CANCELLED, 1)           /* the caller no longer wants it    */ \
  X(UNKNOWN, 2)             /* a peer failed without a reason   */ \
  X(INVALID_ARGUMENT, 3)    /* can never work; fix the call     */ \
  X(DEADLINE_EXCEEDED, 4)   /* took longer than the caller gave */ \
  X(NOT_FOUND, 5)           /* no such node, key or device      */ \
  X(ALREADY_EXISTS, 6)      /* the name is taken                */ \
  X(PERMISSION_DENIED, 7)   /* known caller, may not do this    */ \
  X(RESOURCE_EXHAUSTED, 8)  /* out of memory or over a limit    */ \
  X(FAILED_PRECONDITION, 9) /* wrong state; a retry won't help  */ \
  X(ABORTED, 10)            /* the step died; run a new step    */ \
  X(OUT_OF_RANGE, 11)       /* past the end: inputs are used up */ \
  X(UNIMPLEMENTED, 12)      /* no such op, kernel or method     */ \
  X(INTERNAL, 13)           /* our bug                          */ \
  X(UNAVAILABLE, 14)        /* the peer is away; retry later    */ \
  X(DATA_LOSS, 15)          /* a file or message is corrupt     */ \
  X(UNAUTHENTICATED, 16)    /* unknown caller                   */

typedef enum weft_code {
  WEFT_OK = 0,
#define X(name, number) WEFT_##name = number,
  WEFT_STATUS_CODES(X)
#undef X
} weft_code_t;

enum {
  WEFT_STATUS_BYTES = 16 << 10, /* of a message, its '\0' not counted: room for what Assert prints */
  WEFT_STATUS_WIRE_BYTES =
      3072, /* of one that travels: TensorFlow's limit; gRPC's clients take 8 KiB of trailers */
};

#define WEFT_MUST_CHECK __attribute__((warn_unused_result))
#define WEFT_PRINTF(f, a) __attribute__((format(printf, f, a)))

/* Thread-compatible: one owner at a time. NULL is OK everywhere below. */
typedef struct weft_status weft_status_t;

/* Creates a failure. Never returns NULL: out of memory yields a static
 * RESOURCE_EXHAUSTED status, which is safe to pass to every function here. */
WEFT_MUST_CHECK weft_status_t *weft_status_new(weft_code_t code, const char *file, int line, const char *fmt,
                                               ...) WEFT_PRINTF(4, 5);
#define WEFT_ERROR(code, ...) weft_status_new(WEFT_##code, __FILE__, __LINE__, __VA_ARGS__)
/* An allocation has failed: "out of memory: creating queue q". The first argument is a literal. */
#define WEFT_NO_MEMORY(...) WEFT_ERROR(RESOURCE_EXHAUSTED, "out of memory: " __VA_ARGS__)

/* Consumes `s` and returns it with "; <context>" appended (OK stays OK). */
WEFT_MUST_CHECK weft_status_t *weft_status_annotate(weft_status_t *s, const char *fmt, ...) WEFT_PRINTF(2, 3);

/* Consumes both and returns the first failure, mentioning the second: cleanup
 * that also fails must not hide why we were cleaning up. */
WEFT_MUST_CHECK weft_status_t *weft_status_join(weft_status_t *first, weft_status_t *second);

/* Consumes `s` and returns it with `prefix` put before its message (OK stays OK). */
WEFT_MUST_CHECK weft_status_t *weft_status_prefix(weft_status_t *s, const char *prefix);

/* A status from a peer: its number and text as they came. OK (0) gives NULL; a
 * number that we do not know becomes UNKNOWN. `message` is copied. */
WEFT_MUST_CHECK weft_status_t *weft_status_from_wire(int code, const char *message, size_t length);

/* Secondary failures carry TensorFlow's mark "[_Derived_]" in their text, so that code that collects several
 * failures can prefer the cause to its echo. */
#define WEFT_DERIVED_MARK "[_Derived_]"
WEFT_MUST_CHECK weft_status_t *weft_status_mark_derived(weft_status_t *s); /* consumes; idempotent */
bool weft_status_is_derived(const weft_status_t *s);

/* ABORTED because this process does not know what it must have known before: it was probably restarted.
 * TensorFlow's masters look for that mark beside the text; it travels between processes, and copies keep it.
 */
WEFT_MUST_CHECK weft_status_t *weft_status_mark_restarted(weft_status_t *s); /* consumes */
bool weft_status_is_restarted(const weft_status_t *s);

/* Returns an independent copy, for handing one failure to several owners. */
WEFT_MUST_CHECK weft_status_t *weft_status_clone(const weft_status_t *s);

/* Copies as much of the text as fits `max` bytes to `to`, '\0'-ended: of a longer one its begin, the number
 * of bytes that are left out, and its end. Returns the length. `max` is at least 64; `to` may be `text`. */
size_t weft_status_copy_text(const char *text, char *to, size_t max);

weft_code_t weft_status_code(const weft_status_t *s);
const char *weft_status_message(const weft_status_t *s); /* "" when OK; lives as long as `s` */
const char *weft_code_name(weft_code_t code);            /* "NOT_FOUND"; static */
void weft_status_free(weft_status_t *s);

/* For functions that own nothing yet; otherwise set `s` and goto done. */
#define WEFT_RETURN_IF_ERROR(expr) \
  do {                             \
    weft_status_t *s_ = (expr);    \
    if (s_ != NULL) return s_;     \
  } while (0)

#endif /* WEFT_BASE_STATUS_H_ */
