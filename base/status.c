#include "base/status.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct weft_status {
  weft_code_t code;
  const char *file; /* __FILE__ of the first sighting; static */
  int line;
  bool is_restarted;
  char *message;
};

static char oom_message[] = "out of memory while reporting an error";
static weft_status_t oom = {WEFT_RESOURCE_EXHAUSTED, __FILE__, 0, false, oom_message};

static bool is_inside_character(char c) { return ((unsigned char)c & 0xc0) == 0x80; } /* of UTF-8 */

size_t weft_status_copy_text(const char *text, char *to, size_t max) {
  const size_t length = strlen(text);
  if (length < max) {
    memmove(to, text, length + 1);
    return length;
  }
  char mark[48];
  const size_t room = max - 1 - sizeof mark;
  size_t head = room - room / 3, from = length - room / 3;
  while (head > 0 && is_inside_character(text[head])) head--;
  while (is_inside_character(text[from])) from++;
  const size_t n = (size_t)snprintf(mark, sizeof mark, " ... (%zu bytes left out) ... ", from - head);
  memmove(to, text, head);
  memmove(to + head + n, text + from, length - from + 1);
  memcpy(to + head, mark, n);
  return head + n + length - from;
}

/* The bytes of the character of UTF-8 that `text` begins with; 0: there is none. */
static int character_bytes(const char *text) {
  const unsigned char *p = (const unsigned char *)text;
  if (p[0] < 0x80) return 1;
  const int n = p[0] >= 0xf0 ? 4 : p[0] >= 0xe0 ? 3 : 2;
  if (p[0] < 0xc2 || p[0] > 0xf4) return 0;
  for (int i = 1; i < n; i++) {
    if (!is_inside_character(text[i])) return 0;
  }
  const bool is_long = (p[0] == 0xe0 && p[1] < 0xa0) || (p[0] == 0xf0 && p[1] < 0x90);
  return is_long || (p[0] == 0xed && p[1] >= 0xa0) || (p[0] == 0xf4 && p[1] >= 0x90) ? 0 : n;
}

/* Texts travel in fields that hold UTF-8 alone; those that quote foreign bytes get a '?' for each that is
 * none.
 */
static void make_utf8(char *text) {
  while (*text != '\0') {
    const int n = character_bytes(text);
    if (n == 0) *text = '?';
    text += n == 0 ? 1 : n;
  }
}

/* Every text goes through here. Consumes `text`, of any length. */
static char *limit(char *text) {
  if (text != NULL) make_utf8(text);
  if (text == NULL || strlen(text) <= WEFT_STATUS_BYTES) return text;
  weft_status_copy_text(text, text, WEFT_STATUS_BYTES + 1);
  char *less = realloc(text, WEFT_STATUS_BYTES + 1);
  return less == NULL ? text : less;
}

static char *format(const char *fmt, va_list ap) {
  char small[256]; /* most texts fit, and are formatted once */
  va_list again;
  va_copy(again, ap);
  int n = vsnprintf(small, sizeof small, fmt, ap);
  char *text = n < 0 ? NULL : malloc((size_t)n + 1);
  if (text != NULL && (size_t)n < sizeof small) {
    memcpy(text, small, (size_t)n + 1);
  } else if (text != NULL) {
    vsnprintf(text, (size_t)n + 1, fmt, again);
  }
  va_end(again);
  return limit(text);
}

/* Consumes `message`. */
static weft_status_t *make(weft_code_t code, const char *file, int line, char *message) {
  weft_status_t *s = message == NULL ? NULL : malloc(sizeof *s);
  if (s == NULL) {
    free(message);
    return &oom;
  }
  *s = (weft_status_t){code, file, line, false, message};
  return s;
}

weft_status_t *weft_status_new(weft_code_t code, const char *file, int line, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  char *message = format(fmt, ap);
  va_end(ap);
  return make(code, file, line, message);
}

weft_status_t *weft_status_annotate(weft_status_t *s, const char *fmt, ...) {
  if (s == NULL || s == &oom) return s;
  va_list ap;
  va_start(ap, fmt);
  char *context = format(fmt, ap);
  va_end(ap);
  if (context == NULL) return s; /* the bare cause beats no cause */
  size_t size = strlen(s->message) + strlen(context) + sizeof "; ";
  char *message = malloc(size);
  if (message != NULL) {
    snprintf(message, size, "%s; %s", s->message, context);
    free(s->message);
    s->message = limit(message);
  }
  free(context);
  return s;
}

weft_status_t *weft_status_prefix(weft_status_t *s, const char *prefix) {
  if (s == NULL || s == &oom) return s;
  size_t size = strlen(s->message) + strlen(prefix) + 1;
  char *message = malloc(size);
  if (message == NULL) return s;
  snprintf(message, size, "%s%s", prefix, s->message);
  free(s->message);
  s->message = limit(message);
  return s;
}

weft_status_t *weft_status_from_wire(int code, const char *message, size_t length) {
  if (code == WEFT_OK) return NULL;
  if (code < 0 || code > WEFT_UNAUTHENTICATED) code = WEFT_UNKNOWN;
  if (length > (size_t)INT32_MAX) length = (size_t)INT32_MAX;
  return weft_status_new((weft_code_t)code, __FILE__, __LINE__, "%.*s", (int)length, message);
}

weft_status_t *weft_status_mark_derived(weft_status_t *s) {
  return weft_status_is_derived(s) ? s : weft_status_prefix(s, WEFT_DERIVED_MARK);
}

bool weft_status_is_derived(const weft_status_t *s) {
  return s != NULL && strstr(s->message, WEFT_DERIVED_MARK) != NULL;
}

weft_status_t *weft_status_mark_restarted(weft_status_t *s) {
  if (s != NULL && s != &oom) s->is_restarted = true;
  return s;
}

bool weft_status_is_restarted(const weft_status_t *s) { return s != NULL && s->is_restarted; }

weft_status_t *weft_status_join(weft_status_t *first, weft_status_t *second) {
  if (first == NULL) return second;
  if (second != NULL) first = weft_status_annotate(first, "and then: %s", second->message);
  weft_status_free(second);
  return first;
}

weft_status_t *weft_status_clone(const weft_status_t *s) {
  if (s == NULL) return NULL;
  weft_status_t *copy = weft_status_new(s->code, s->file, s->line, "%s", s->message);
  return s->is_restarted ? weft_status_mark_restarted(copy) : copy;
}

weft_code_t weft_status_code(const weft_status_t *s) { return s == NULL ? WEFT_OK : s->code; }
const char *weft_status_message(const weft_status_t *s) { return s == NULL ? "" : s->message; }

const char *weft_code_name(weft_code_t code) {
  switch (code) {
    case WEFT_OK: return "OK";
#define X(name, number) \
  case WEFT_##name: return #name;
      WEFT_STATUS_CODES(X)
#undef X
  }
  return "UNKNOWN"; /* a newer peer may send codes that we do not know */
}

void weft_status_free(weft_status_t *s) {
  if (s == NULL || s == &oom) return;
  free(s->message);
  free(s);
}
