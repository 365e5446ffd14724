/* kernels/cpu/io/re2_syntax.c - one scan of a pattern, by RE2's syntax:
 * https://github.com/google/re2/wiki/Syntax */
#include "kernels/cpu/io/re2_syntax.h"

#include <stdint.h>
#include <string.h>

enum { MAX_REPEAT = 1000, MAX_NESTING = 1000, NUMBER_DIGITS = 8, NO_ATOM = 0 };
static const size_t none = SIZE_MAX;

typedef struct re2_scan {
  weft_str_t text;
  size_t at;
  size_t repeat;                /* where the quantifier in front of `at` begins, or `none` */
  int depth, num_groups;        /* groups that are open; capturing groups so far */
  int atom;                     /* how many copies the counts in the last atom make of a part of it */
  int largest[MAX_NESTING + 1]; /* of the atoms of each open group */
} re2_scan_t;

static int peek(const re2_scan_t *s, size_t ahead) {
  return s->at + ahead < s->text.length ? (unsigned char)s->text.data[s->at + ahead] : -1;
}

/* `end`: behind what the error names, which begins at `begin`. */
static weft_status_t *refuse(const re2_scan_t *s, const char *what, size_t begin, size_t end) {
  if (end > s->text.length) end = s->text.length;
  return WEFT_ERROR(INVALID_ARGUMENT, "Invalid pattern: %.*s, error: %s: %.*s", WEFT_STR_ARGS(s->text), what,
                    (int)(end - begin), s->text.data + begin);
}

/* The next `length` bytes are an atom, or end one. */
static void pass(re2_scan_t *s, size_t length, int atom) {
  s->at += length;
  s->atom = atom;
  s->repeat = none;
  if (atom > s->largest[s->depth]) s->largest[s->depth] = atom;
}

/* The index of the first `c` at or behind `from`, or the end. */
static size_t find(const re2_scan_t *s, size_t from, char c) {
  while (from < s->text.length && s->text.data[from] != c) from++;
  return from;
}

static bool is_octal(int c) { return c >= '0' && c <= '7'; }
static bool is_digit(int c) { return c >= '0' && c <= '9'; }

/* PCRE2 takes \12 for a back-reference where there are that many groups. */
static bool is_group(const re2_scan_t *s) {
  int number = 0;
  for (size_t i = 1; is_digit(peek(s, i)) && number <= s->num_groups; i++) {
    number = number * 10 + peek(s, i) - '0';
  }
  return number <= s->num_groups;
}

/* A backslash and what belongs to it. `letters`: those that may follow. */
static weft_status_t *escape(re2_scan_t *s, const char *letters, bool in_class) {
  const int c = peek(s, 1);
  size_t length = 2;
  if (c < 0) return refuse(s, "trailing \\", s->at, s->at);
  bool fits = c < 0x80 && (c < 'A' || c > 'z' || (c > 'Z' && c < 'a'));
  if (is_digit(c)) {
    fits = c == '0' || (is_octal(c) && is_octal(peek(s, 2)) && (in_class || !is_group(s)));
  } else if (!fits) {
    fits = c != '\0' && c < 0x80 && strchr(letters, c) != NULL;
  }
  if (!fits) {
    while ((peek(s, length) & 0xc0) == 0x80 && peek(s, length) >= 0) length++;
    return refuse(s, "invalid escape sequence", s->at, s->at + length);
  }
  if ((c == 'p' || c == 'P' || c == 'x') && peek(s, 2) == '{') length = find(s, s->at, '}') + 1 - s->at;
  if (c == 'Q') {
    while (peek(s, length) >= 0 && (peek(s, length) != '\\' || peek(s, length + 1) != 'E')) length++;
    length += 2;
  }
  pass(s, length, 1);
  return NULL;
}

static weft_status_t *class(re2_scan_t *s) {
  pass(s, peek(s, 1) == '^' ? 2 : 1, 1);
  if (peek(s, 0) == ']') s->at++;
  while (peek(s, 0) >= 0 && peek(s, 0) != ']') {
    if (peek(s, 0) == '\\') {
      WEFT_RETURN_IF_ERROR(escape(s, "dDsSwWpPaftnrvx", true));
    } else if (peek(s, 0) == '[' && peek(s, 1) == ':' && (peek(s, 2) == '<' || peek(s, 2) == '>')) {
      return refuse(s, "invalid character class range", s->at, find(s, s->at, ']') + 1);
    } else if (peek(s, 0) == '[' && peek(s, 1) == ':') {
      const size_t end = find(s, s->at, ']');
      s->at = s->text.data[end - 1] == ':' && end > s->at + 2 ? end + 1 : s->at + 2;
    } else {
      s->at++;
    }
  }
  pass(s, 1, 1);
  return NULL;
}

static weft_status_t *open_group(re2_scan_t *s, size_t length) {
  pass(s, length, NO_ATOM);
  if (s->depth == MAX_NESTING) return refuse(s, "expression nests too deeply", 0, s->text.length);
  s->largest[++s->depth] = 1;
  return NULL;
}

static void close_group(re2_scan_t *s) {
  const int largest = s->largest[s->depth];
  if (s->depth > 0) s->depth--;
  pass(s, 1, largest);
}

/* "(?" and flags: of a group, or of what follows. */
static weft_status_t *flags(re2_scan_t *s) {
  bool is_negative = false, has_flag = false;
  for (size_t i = 2;; i++) {
    const int c = peek(s, i);
    if (c == 'i' || c == 'm' || c == 's' || c == 'U') {
      has_flag = true;
    } else if (c == '-' && !is_negative) {
      is_negative = true;
      has_flag = false;
    } else if (c == ':' && (has_flag || !is_negative)) {
      return open_group(s, i + 1);
    } else if (c == ')' && (has_flag || !is_negative)) {
      s->at += i + 1;
      s->repeat = none;
      return NULL;
    } else {
      return refuse(s, "invalid perl operator", s->at, s->at + i + 1);
    }
  }
}

static weft_status_t *group(re2_scan_t *s) {
  if (peek(s, 1) != '?') {
    s->num_groups++;
    return open_group(s, 1);
  }
  if (peek(s, 2) != 'P' || peek(s, 3) != '<') return flags(s);
  const size_t end = find(s, s->at, '>');
  if (end == s->text.length) return refuse(s, "invalid named capture group", s->at, end);
  s->num_groups++;
  return open_group(s, end + 1 - s->at);
}

/* A number of up to NUMBER_DIGITS digits at `*ahead`, which goes behind it. False: there is none. */
static bool number(const re2_scan_t *s, size_t *ahead, int *out) {
  const size_t begin = *ahead;
  for (*out = 0; is_digit(peek(s, *ahead)) && *ahead < begin + NUMBER_DIGITS; ++*ahead) {
    *out = *out * 10 + peek(s, *ahead) - '0';
  }
  return *ahead > begin;
}

/* {n}, {n,} or {n,m}; a brace of anything else is a literal. `*max` is n where there is no m. */
static bool counts(const re2_scan_t *s, size_t *length, int *min, int *max) {
  size_t ahead = 1;
  if (!number(s, &ahead, min)) return false;
  *max = *min;
  if (peek(s, ahead) == ',') {
    ahead++;
    if (peek(s, ahead) != '}' && !number(s, &ahead, max)) return false;
  }
  *length = ahead + 1;
  return peek(s, ahead) == '}';
}

/* A quantifier of `length` bytes that makes `copies` of the last atom. */
static weft_status_t *repeat(re2_scan_t *s, size_t length, int copies) {
  const size_t begin = s->at, before = s->repeat, end = begin + length + (peek(s, length) == '?' ? 1 : 0);
  if (before != none) return refuse(s, "bad repetition operator", before, end);
  if (s->atom == NO_ATOM) return refuse(s, "no argument for repetition operator", begin, end);
  if (copies > 1 && s->atom * copies > MAX_REPEAT) {
    return refuse(s, "invalid repetition size", begin, begin + length);
  }
  pass(s, end - begin, copies > 1 ? s->atom * copies : s->atom);
  s->repeat = begin;
  return NULL;
}

static weft_status_t *brace(re2_scan_t *s) {
  size_t length = 1;
  int min = 0, max = 0;
  if (!counts(s, &length, &min, &max)) {
    pass(s, 1, 1);
    return NULL;
  }
  if (min > MAX_REPEAT || max > MAX_REPEAT || min > max) {
    return refuse(s, "invalid repetition size", s->at, s->at + length);
  }
  return repeat(s, length, max);
}

weft_status_t *weft_re2_check(weft_str_t pattern) {
  re2_scan_t s = {.text = pattern, .repeat = none, .largest = {1}};
  while (s.at < pattern.length) {
    switch (pattern.data[s.at]) {
      case '\\': WEFT_RETURN_IF_ERROR(escape(&s, "AbBzCdDsSwWpPQaftnrvx", false)); break;
      case '[': WEFT_RETURN_IF_ERROR(class(&s)); break;
      case '(': WEFT_RETURN_IF_ERROR(group(&s)); break;
      case '*':
      case '+':
      case '?': WEFT_RETURN_IF_ERROR(repeat(&s, 1, 1)); break;
      case '{': WEFT_RETURN_IF_ERROR(brace(&s)); break;
      case '|': pass(&s, 1, NO_ATOM); break;
      case ')': close_group(&s); break;
      default: pass(&s, 1, 1); break;
    }
  }
  return NULL;
}
