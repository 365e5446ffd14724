/* kernels/cpu/io/regex.c - regular expressions over strings, by PCRE2.
 *
 * TensorFlow's patterns are RE2's, which re2_syntax.c checks and translates. PCRE2 goes back where RE2 does
 * not, so each match has a limit of steps, and fails beyond it.
 *
 * Bytes that are not UTF-8 match nothing in either, but the two do not agree on which these are. PCRE2 is
 * given a text of the same length in which RE2's opinion is plain (subject_of), and matches are cut from the
 * original.
 */
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "base/alloc.h"
#include "kernels/attrs.h"
#include "kernels/cpu/io/re2_syntax.h"
#include "kernels/kernel.h"

enum { MAX_STEPS = 10 * 1000 * 1000 }; /* about a second */

typedef struct regex {
  pcre2_code *code;
  pcre2_match_context *limits;
  weft_str_t rewrite; /* of StaticRegexReplace; lent by the plan */
  bool is_global;
} regex_t;

static void regex_free(regex_t *r) {
  if (r == NULL) return;
  pcre2_code_free(r->code);
  pcre2_match_context_free(r->limits);
  weft_free(r);
}

/* What PCRE2 refuses though it is RE2's: a pattern that is too large, for one. */
static weft_status_t *refused(weft_str_t pattern, int error) {
  PCRE2_UCHAR why[128];
  if (error == PCRE2_ERROR_NOMEMORY) return WEFT_NO_MEMORY("compiling a pattern");
  pcre2_get_error_message(error, why, sizeof why);
  return WEFT_ERROR(INVALID_ARGUMENT, "Invalid pattern: %.*s, error: %s", WEFT_STR_ARGS(pattern),
                    (const char *)why);
}

static weft_status_t *regex_new(weft_str_t pattern, regex_t **out) {
  int error = 0;
  PCRE2_SIZE at = 0;
  weft_strbuf_t translated = WEFT_STRBUF_INIT;
  regex_t *r = NULL;
  weft_strbuf_puts(&translated, "(*LF)");
  weft_status_t *s = weft_re2_translate(pattern, &translated);
  if (s != NULL) goto done;
  r = translated.failed ? NULL : weft_calloc(1, sizeof *r);
  if (r != NULL) r->limits = pcre2_match_context_create(NULL);
  if (r == NULL || r->limits == NULL) {
    s = WEFT_NO_MEMORY("compiling a pattern");
    goto done;
  }
  r->code = pcre2_compile((PCRE2_SPTR)translated.data, translated.length,
                          PCRE2_UTF | PCRE2_MATCH_INVALID_UTF | PCRE2_ALT_CIRCUMFLEX | PCRE2_DOLLAR_ENDONLY,
                          &error, &at, NULL);
  if (r->code == NULL) {
    s = refused(pattern, error);
    goto done;
  }
  pcre2_set_match_limit(r->limits, MAX_STEPS);
  *out = r;
  r = NULL;
done:
  regex_free(r);
  weft_strbuf_deinit(&translated);
  return s;
}

static bool is_trail(weft_str_t s, size_t i) { return i < s.length && ((uint8_t)s.data[i] & 0xc0) == 0x80; }

/* Bytes of the character at s[i], 0: the byte is of none. As RE2 has it, any three or four bytes that look
 * like a character are one: surrogates, long forms of small numbers, numbers above 10FFFF. */
static size_t length_at(weft_str_t s, size_t i) {
  const uint8_t c = (uint8_t)s.data[i];
  const size_t n = c < 0x80 ? 1 : c < 0xc2 ? 0 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : c < 0xf5 ? 4 : 0;
  for (size_t k = 1; k < n; k++) {
    if (!is_trail(s, i + k)) return 0;
  }
  return n;
}

/* A character of n bytes at s[i] that is a number in too many bytes, or one above 10FFFF? RE2 matches it as
 * one character, but passes over its first byte alone where nothing was matched. */
static bool is_irregular(weft_str_t s, size_t i, size_t n) {
  const uint8_t c = (uint8_t)s.data[i], next = n >= 3 ? (uint8_t)s.data[i + 1] : 0;
  return (n == 3 && c == 0xe0 && next < 0xa0) || (n == 4 && c == 0xf0 && next < 0x90) ||
         (n == 4 && c == 0xf4 && next >= 0x90);
}

static bool is_surrogate(weft_str_t s, size_t i, size_t n) {
  return n == 3 && (uint8_t)s.data[i] == 0xed && (uint8_t)s.data[i + 1] >= 0xa0;
}

/* What PCRE2 does not take for a character is one that is not assigned, and a byte of none is 0xff, which
 * PCRE2 passes over alone: it takes the begin of a character that is cut off for one gap. `s` itself where
 * all is ASCII; else a text in `room`. Errors: RESOURCE_EXHAUSTED. */
static weft_status_t *subject_of(weft_str_t s, weft_strbuf_t *room, weft_str_t *out) {
  size_t i = 0;
  while (i < s.length && (uint8_t)s.data[i] < 0x80) i++;
  *out = s;
  if (i == s.length) return NULL;
  room->length = 0;
  weft_strbuf_append(room, s);
  if (room->failed) return WEFT_NO_MEMORY("matching a pattern");
  for (size_t n = 0; i < s.length; i += n == 0 ? 1 : n) {
    n = length_at(s, i);
    if (n == 0) room->data[i] = (char)0xff;
    if (is_irregular(s, i, n) || is_surrogate(s, i, n))
      memcpy(room->data + i, n == 3 ? "\xef\xb7\x90" : "\xf0\x9f\xbf\xbe", n); /* U+FDD0, U+1FFFE */
  }
  *out = weft_str_of(room->data, room->length);
  return NULL;
}

/* No match begins at s[i]: what is behind it there, in the text of subject_of. */
static void pass_over(weft_str_t s, size_t i, weft_strbuf_t *room) {
  const size_t n = length_at(s, i);
  if (is_irregular(s, i, n)) memset(room->data + i + 1, 0xff, n - 1);
}

/* *out: found at or behind `from`? Then `m` holds where. */
static weft_status_t *match(const regex_t *r, weft_str_t s, size_t from, uint32_t options,
                            pcre2_match_data *m, bool *out) {
  int n =
      pcre2_match(r->code, (PCRE2_SPTR)(s.data == NULL ? "" : s.data), s.length, from, options, m, r->limits);
  if (n < 0 && n != PCRE2_ERROR_NOMATCH) {
    PCRE2_UCHAR why[128];
    pcre2_get_error_message(n, why, sizeof why);
    return WEFT_NO_MEMORY("matching '%.*s': %s", WEFT_STR_ARGS(s), (const char *)why);
  }
  *out = n >= 0;
  return NULL;
}

static weft_status_t *match_prepare(const weft_kernel_setup_t *setup, void **out_state) {
  regex_t *r = NULL;
  WEFT_RETURN_IF_ERROR(regex_new(weft_knode_string(setup, "pattern"), &r));
  *out_state = r;
  return NULL;
}

static weft_status_t *replace_prepare(const weft_kernel_setup_t *setup, void **out_state) {
  WEFT_RETURN_IF_ERROR(match_prepare(setup, out_state));
  regex_t *r = *out_state;
  r->rewrite = weft_knode_string(setup, "rewrite");
  r->is_global = weft_knode_bool(setup, "replace_global");
  return NULL;
}

static void destroy(void *state) { regex_free(state); }

/* ---- full match ---- */

/* Does the match cover all of `s`? PCRE2 takes each stretch of valid UTF-8 for a subject of its own, so that
 * an anchored match may be one of such a stretch. In RE2 a byte that is not UTF-8 matches nothing. */
static bool is_whole(weft_str_t s, pcre2_match_data *m) {
  const PCRE2_SIZE *ends = pcre2_get_ovector_pointer(m);
  return ends[0] == 0 && ends[1] == s.length;
}

static weft_status_t *match_all(weft_kernel_ctx_t *c, const regex_t *r) {
  const weft_tensor_t *in = weft_in(c, 0);
  weft_tensor_t *out = NULL;
  WEFT_RETURN_IF_ERROR(weft_out_new(c, 0, WEFT_BOOL, &in->shape, &out));
  pcre2_match_data *m = pcre2_match_data_create_from_pattern(r->code, NULL);
  weft_strbuf_t room = WEFT_STRBUF_INIT;
  weft_status_t *s = m == NULL ? WEFT_NO_MEMORY("matching a pattern") : NULL;
  for (int64_t i = 0; s == NULL && i < in->count; i++) {
    bool matches = false;
    weft_str_t text;
    s = subject_of(weft_tensor_str_at(in, i), &room, &text);
    if (s == NULL) s = match(r, text, 0, PCRE2_ANCHORED | PCRE2_ENDANCHORED, m, &matches);
    ((uint8_t *)out->data)[i] = matches && is_whole(text, m);
  }
  weft_strbuf_deinit(&room);
  pcre2_match_data_free(m);
  return s;
}

static weft_status_t *static_full_match(weft_kernel_ctx_t *c) { return match_all(c, c->state); }

static weft_status_t *full_match(weft_kernel_ctx_t *c) {
  const weft_tensor_t *pattern = weft_in(c, 1);
  regex_t *r = NULL;
  if (pattern->shape.rank != 0) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Pattern must be scalar, but received %s",
                      WEFT_SHAPE_TEXT(&pattern->shape));
  }
  WEFT_RETURN_IF_ERROR(regex_new(weft_tensor_str_at(pattern, 0), &r));
  weft_status_t *s = match_all(c, r);
  regex_free(r);
  return s;
}

/* ---- replace ---- */

/* The rewrite: \0 to \9 are what the groups matched, \\ is a backslash. As in RE2, it ends where another
 * character follows a backslash; false then. */
static bool put_rewrite(weft_str_t rewrite, weft_str_t s, pcre2_match_data *m, weft_strbuf_t *out) {
  const PCRE2_SIZE *ends = pcre2_get_ovector_pointer(m);
  for (size_t i = 0; i < rewrite.length; i++) {
    char c = rewrite.data[i];
    if (c != '\\') {
      weft_strbuf_putc(out, c);
      continue;
    }
    c = ++i < rewrite.length ? rewrite.data[i] : '\0';
    if (c == '\\') {
      weft_strbuf_putc(out, c);
    } else if (c >= '0' && c <= '9') {
      PCRE2_SIZE begin = ends[2 * (c - '0')], end = ends[2 * (c - '0') + 1];
      if (begin != PCRE2_UNSET) weft_strbuf_append(out, weft_str_of(s.data + begin, end - begin));
    } else {
      return false;
    }
  }
  return true;
}

/* Does the rewrite name no group beyond those of the pattern? */
static bool has_groups(weft_str_t rewrite, pcre2_match_data *m) {
  const uint32_t groups = pcre2_get_ovector_count(m);
  for (size_t i = 0; i + 1 < rewrite.length; i++) {
    if (rewrite.data[i] != '\\') continue;
    const char c = rewrite.data[++i];
    if (c >= '0' && c <= '9' && (uint32_t)(c - '0') >= groups) return false;
  }
  return true;
}

static void keep(weft_str_t s, weft_strbuf_t *out) {
  out->length = 0;
  weft_strbuf_append(out, s);
}

/* As in RE2, an empty match right behind another match is none; and the string stays as it is where the
 * rewrite names a group that is not there, or where the one replacement cannot be written. */
static weft_status_t *replace_one(const regex_t *r, weft_str_t s, pcre2_match_data *m, weft_strbuf_t *room,
                                  weft_strbuf_t *out) {
  size_t at = 0, last_end = SIZE_MAX;
  weft_str_t subject;
  WEFT_RETURN_IF_ERROR(subject_of(s, room, &subject));
  keep(s, out);
  if (!has_groups(r->rewrite, m)) return NULL;
  out->length = 0;
  for (bool again = true; again && at <= s.length; again = r->is_global) {
    bool found = false;
    WEFT_RETURN_IF_ERROR(match(r, subject, at, 0, m, &found));
    if (!found) break;
    const PCRE2_SIZE *ends = pcre2_get_ovector_pointer(m);
    size_t begin = ends[0], end = ends[1];
    weft_strbuf_append(out, weft_str_of(s.data + at, begin - at));
    if (begin != end || end != last_end) {
      if (!put_rewrite(r->rewrite, s, m, out) && !r->is_global) {
        keep(s, out);
        return NULL;
      }
    }
    at = last_end = end;
    if (begin == end) { /* one byte goes over as it is */
      if (at < s.length) {
        weft_strbuf_putc(out, s.data[at]);
        pass_over(s, at, room);
      }
      at++;
    }
  }
  if (at < s.length) weft_strbuf_append(out, weft_str_of(s.data + at, s.length - at));
  return NULL;
}

static weft_status_t *replace_all(weft_kernel_ctx_t *c, const regex_t *r) {
  const weft_tensor_t *in = weft_in(c, 0);
  weft_tensor_t *out = NULL;
  weft_strbuf_t text = WEFT_STRBUF_INIT, room = WEFT_STRBUF_INIT;
  WEFT_RETURN_IF_ERROR(weft_out_new(c, 0, WEFT_STRING, &in->shape, &out));
  pcre2_match_data *m = pcre2_match_data_create_from_pattern(r->code, NULL);
  weft_status_t *s = m == NULL ? WEFT_NO_MEMORY("matching a pattern") : NULL;
  for (int64_t i = 0; s == NULL && i < in->count; i++) {
    s = replace_one(r, weft_tensor_str_at(in, i), m, &room, &text);
    if (s == NULL && text.failed) s = WEFT_NO_MEMORY("replacing in a string");
    if (s == NULL) s = weft_tensor_set_str(out, i, weft_str_of(text.data, text.length));
  }
  pcre2_match_data_free(m);
  weft_strbuf_deinit(&room);
  weft_strbuf_deinit(&text);
  return s;
}

static weft_status_t *static_replace(weft_kernel_ctx_t *c) { return replace_all(c, c->state); }

WEFT_ATTRS(replace, (BOOL, replace_global))
static weft_status_t *replace(weft_kernel_ctx_t *c, const replace_attrs_t *attrs) {
  const weft_tensor_t *pattern = weft_in(c, 1), *rewrite = weft_in(c, 2);
  regex_t *r = NULL;
  if (pattern->shape.rank != 0) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Pattern must be scalar, but received %s",
                      WEFT_SHAPE_TEXT(&pattern->shape));
  }
  if (rewrite->shape.rank != 0) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Rewrite must be scalar, but received %s",
                      WEFT_SHAPE_TEXT(&rewrite->shape));
  }
  WEFT_RETURN_IF_ERROR(regex_new(weft_tensor_str_at(pattern, 0), &r));
  r->rewrite = weft_tensor_str_at(rewrite, 0);
  r->is_global = attrs->replace_global;
  weft_status_t *s = replace_all(c, r);
  regex_free(r);
  return s;
}

const weft_kernel_t weft_cpu_regex_kernels[] = {
    {.op = "RegexFullMatch", .compute = full_match},
    {.op = "RegexReplace", WEFT_COMPUTE(replace)},
    {.op = "StaticRegexFullMatch",
     .prepare = match_prepare,
     .compute = static_full_match,
     .destroy = destroy},
    {.op = "StaticRegexReplace", .prepare = replace_prepare, .compute = static_replace, .destroy = destroy},
    {0},
};
