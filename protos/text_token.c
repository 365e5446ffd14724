/* protos/text_token.c - cuts text into tokens and undoes escapes.
 *
 * Character classes are ASCII's and spelled out, because <ctype.h> follows the locale.
 */
#include "protos/text_token.h"

#include <stdarg.h>
#include <stdio.h>

enum { MAX_QUOTED = 60 }; /* bytes of a token that an error repeats */

static bool is_digit(char c) { return c >= '0' && c <= '9'; }
static bool is_octal(char c) { return c >= '0' && c <= '7'; }
static bool is_name_start(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
static bool is_name(char c) { return is_name_start(c) || is_digit(c); }

static int hex_value(char c) {
  if (is_digit(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

weft_status_t *weft_lexer_error(const weft_lexer_t *x, const char *fmt, ...) {
  char message[512];
  va_list ap;
  va_start(ap, fmt);
  vsnprintf(message, sizeof message, fmt, ap);
  va_end(ap);
  return WEFT_ERROR(INVALID_ARGUMENT, "%s:%d:%d: %s", x->file_name, x->token_line, x->token_column, message);
}

weft_status_t *weft_lexer_expected(const weft_lexer_t *x, const char *what) {
  if (x->kind == WEFT_TOKEN_END) return weft_lexer_error(x, "Expected %s, found the end of the text.", what);
  weft_str_t t = x->text;
  bool is_long = t.length > MAX_QUOTED;
  if (is_long) t.length = MAX_QUOTED;
  return weft_lexer_error(x, "Expected %s, found %s%.*s%s%s.", what, x->kind == WEFT_TOKEN_STRING ? "" : "\"",
                          WEFT_STR_ARGS(t), is_long ? "..." : "", x->kind == WEFT_TOKEN_STRING ? "" : "\"");
}

bool weft_lexer_at(const weft_lexer_t *x, char symbol) {
  return x->kind == WEFT_TOKEN_SYMBOL && x->text.data[0] == symbol;
}

static char peek(const weft_lexer_t *x, size_t ahead) {
  return (size_t)(x->end - x->p) > ahead ? x->p[ahead] : '\0';
}

static void skip_blanks(weft_lexer_t *x) {
  for (; x->p < x->end; x->p++) {
    if (*x->p == '#') {
      while (x->p < x->end && *x->p != '\n') x->p++;
      if (x->p == x->end) return;
    }
    if (*x->p == '\n') {
      x->line++;
      x->line_start = x->p + 1;
    } else if (*x->p != ' ' && *x->p != '\t' && *x->p != '\r' && *x->p != '\v' && *x->p != '\f') {
      return;
    }
  }
}

/* The quotes must match on one line; what is inside is looked at when it is used. */
static weft_status_t *lex_string(weft_lexer_t *x) {
  char quote = *x->p++;
  x->kind = WEFT_TOKEN_STRING;
  while (x->p < x->end && *x->p != quote) {
    if (*x->p == '\n') return weft_lexer_error(x, "String literals cannot cross line boundaries.");
    if (*x->p == '\\' && x->end - x->p > 1) x->p++;
    if (*x->p == '\n') return weft_lexer_error(x, "String literals cannot cross line boundaries.");
    x->p++;
  }
  if (x->p == x->end) return weft_lexer_error(x, "Unexpected end of string.");
  x->p++;
  return NULL;
}

static void skip_digits(weft_lexer_t *x) {
  while (is_digit(peek(x, 0))) x->p++;
}

static weft_status_t *lex_number(weft_lexer_t *x) {
  x->kind = WEFT_TOKEN_INTEGER;
  if (peek(x, 0) == '0' && (peek(x, 1) == 'x' || peek(x, 1) == 'X')) {
    x->p += 2;
    if (hex_value(peek(x, 0)) < 0) return weft_lexer_error(x, "\"0x\" must be followed by hex digits.");
    while (hex_value(peek(x, 0)) >= 0) x->p++;
  } else {
    skip_digits(x);
    if (peek(x, 0) == '.') {
      x->kind = WEFT_TOKEN_FLOAT;
      x->p++;
      skip_digits(x);
    }
    if (peek(x, 0) == 'e' || peek(x, 0) == 'E') {
      x->kind = WEFT_TOKEN_FLOAT;
      x->p++;
      if (peek(x, 0) == '+' || peek(x, 0) == '-') x->p++;
      if (!is_digit(peek(x, 0))) return weft_lexer_error(x, "\"e\" must be followed by exponent.");
      skip_digits(x);
    }
    if (peek(x, 0) == 'f' || peek(x, 0) == 'F') {
      x->kind = WEFT_TOKEN_FLOAT;
      x->p++;
    }
  }
  if (is_name(peek(x, 0))) return weft_lexer_error(x, "Need space between number and identifier.");
  return NULL;
}

weft_status_t *weft_lexer_next(weft_lexer_t *x) {
  weft_status_t *s = NULL;
  skip_blanks(x);
  const char *start = x->p;
  x->token_line = x->line;
  x->token_column = (int)(start - x->line_start) + 1;
  if (x->p == x->end) {
    x->kind = WEFT_TOKEN_END;
  } else if (is_name_start(*x->p)) {
    x->kind = WEFT_TOKEN_NAME;
    while (is_name(peek(x, 0))) x->p++;
  } else if (is_digit(*x->p) || (*x->p == '.' && is_digit(peek(x, 1)))) {
    s = lex_number(x);
  } else if (*x->p == '"' || *x->p == '\'') {
    s = lex_string(x);
  } else if ((unsigned char)*x->p < ' ' || (unsigned char)*x->p >= 0x7f) {
    s = weft_lexer_error(x, "Unexpected byte \\x%02x outside of a string.", (unsigned char)*x->p);
  } else {
    x->kind = WEFT_TOKEN_SYMBOL;
    x->p++;
  }
  x->text = weft_str_of(start, (size_t)(x->p - start));
  return s;
}

weft_status_t *weft_lexer_init(weft_lexer_t *x, weft_str_t text, const char *file_name) {
  static const char nothing[] = "";
  const char *p = text.length == 0 ? nothing : text.data;
  *x = (weft_lexer_t){.p = p,
                      .end = p + text.length,
                      .line_start = p,
                      .line = 1,
                      .file_name = file_name == NULL ? "<text>" : file_name};
  return weft_lexer_next(x);
}

/* ---- escapes ---- */

static void put_utf8(weft_strbuf_t *out, uint32_t code) {
  if (code < 0x80) {
    weft_strbuf_putc(out, (char)code);
    return;
  }
  int more = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
  static const uint8_t lead[4] = {0, 0xc0, 0xe0, 0xf0};
  weft_strbuf_putc(out, (char)(lead[more] | code >> (6 * more)));
  while (more-- > 0) weft_strbuf_putc(out, (char)(0x80 | ((code >> (6 * more)) & 0x3f)));
}

/* Exactly `n` hex digits at `p`, or false. */
static bool take_hex(const char *p, const char *end, int n, uint32_t *out) {
  *out = 0;
  if (end - p < n) return false;
  for (int i = 0; i < n; i++) {
    int v = hex_value(p[i]);
    if (v < 0) return false;
    *out = *out << 4 | (uint32_t)v;
  }
  return true;
}

/* \uXXXX (two of them for a surrogate pair) or \UXXXXXXXX; `p` is behind the letter. NULL if malformed. */
static const char *unescape_unicode(char letter, const char *p, const char *end, weft_strbuf_t *out) {
  uint32_t code, low;
  int n = letter == 'u' ? 4 : 8;
  if (!take_hex(p, end, n, &code)) return NULL;
  p += n;
  if (code >= 0xd800 && code < 0xdc00 && end - p >= 6 && p[0] == '\\' && p[1] == 'u' &&
      take_hex(p + 2, end, 4, &low) && low >= 0xdc00 && low < 0xe000) {
    code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
    p += 6;
  }
  if (code > 0x10ffff || (code >= 0xd800 && code < 0xe000)) return NULL;
  put_utf8(out, code);
  return p;
}

/* One escape; `p` is behind the backslash. Returns what follows, or NULL. */
static const char *unescape_one(const char *p, const char *end, weft_strbuf_t *out) {
  static const char letters[] = "abfnrtv?'\"\\", meanings[] = "\a\b\f\n\r\t\v?'\"\\";
  if (p == end) return NULL;
  char c = *p++;
  const char *known = c == '\0' ? NULL : strchr(letters, c);
  if (known != NULL) {
    weft_strbuf_putc(out, meanings[known - letters]);
    return p;
  }
  if (is_octal(c)) {
    int value = c - '0';
    for (int i = 0; i < 2 && p < end && is_octal(*p); i++) value = value * 8 + (*p++ - '0');
    weft_strbuf_putc(out, (char)value);
    return value <= 0xff ? p : NULL;
  }
  if (c == 'x' || c == 'X') {
    int value = p < end ? hex_value(*p) : -1;
    if (value < 0) return NULL;
    p++;
    if (p < end && hex_value(*p) >= 0) value = value * 16 + hex_value(*p++);
    weft_strbuf_putc(out, (char)value);
    return p;
  }
  return c == 'u' || c == 'U' ? unescape_unicode(c, p, end, out) : NULL;
}

weft_status_t *weft_lexer_unescape(const weft_lexer_t *x, weft_strbuf_t *out) {
  const char *p = x->text.data + 1, *end = x->text.data + x->text.length - 1;
  while (p < end) {
    const char *stop = memchr(p, '\\', (size_t)(end - p));
    if (stop == NULL) stop = end;
    weft_strbuf_append(out, weft_str_of(p, (size_t)(stop - p)));
    if (stop == end) break;
    p = unescape_one(stop + 1, end, out);
    if (p == NULL) {
      weft_lexer_t at = *x; /* the error is inside of the token, which lies on one line */
      at.token_column += (int)(stop - x->text.data);
      return weft_lexer_error(&at, "Invalid escape sequence in string literal.");
    }
  }
  return NULL;
}

weft_status_t *weft_lexer_integer(const weft_lexer_t *x, uint64_t max, uint64_t *out) {
  const char *p = x->text.data, *end = p + x->text.length;
  unsigned base = 10;
  if (x->text.length > 1 && p[0] == '0') {
    base = p[1] == 'x' || p[1] == 'X' ? 16 : 8;
    p += base == 16 ? 2 : 1;
  }
  uint64_t value = 0;
  for (; p < end; p++) {
    unsigned digit = (unsigned)hex_value(*p);
    if (digit >= base) return weft_lexer_expected(x, "an octal number after a leading \"0\"");
    if (digit > max || value > (max - digit) / base) {
      return weft_lexer_error(x, "Integer out of range (%.*s).",
                              x->text.length > MAX_QUOTED ? MAX_QUOTED : (int)x->text.length, x->text.data);
    }
    value = value * base + digit;
  }
  *out = value;
  return NULL;
}
