/* kernels/cpu/io/regex.c - regular expressions over strings, by PCRE2.
 *
 * TensorFlow's patterns are RE2's. PCRE2 understands all of RE2 that is in common use; what it knows beyond
 * RE2 is refused. It goes back where RE2 does not, so each match has a limit of steps, and fails beyond it.
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

static weft_status_t *regex_new(weft_str_t pattern, regex_t **out) {
  int error = 0;
  PCRE2_SIZE at = 0;
  WEFT_RETURN_IF_ERROR(weft_re2_check(pattern));
  regex_t *r = weft_calloc(1, sizeof *r);
  if (r == NULL) return WEFT_NO_MEMORY("compiling a pattern");
  r->limits = pcre2_match_context_create(NULL);
  r->code = pcre2_compile((PCRE2_SPTR)(pattern.data == NULL ? "" : pattern.data), pattern.length,
                          PCRE2_UTF | PCRE2_MATCH_INVALID_UTF | PCRE2_DUPNAMES, &error, &at, NULL);
  if (r->limits == NULL || (r->code == NULL && error == PCRE2_ERROR_NOMEMORY)) {
    regex_free(r);
    return WEFT_NO_MEMORY("compiling a pattern");
  }
  if (r->code == NULL) {
    PCRE2_UCHAR why[128];
    pcre2_get_error_message(error, why, sizeof why);
    regex_free(r);
    if (error == PCRE2_ERROR_MISSING_CLOSING_PARENTHESIS) { /* RE2's words for the commonest mistake */
      return WEFT_ERROR(INVALID_ARGUMENT, "Invalid pattern: %.*s, error: missing ): %.*s",
                        WEFT_STR_ARGS(pattern), WEFT_STR_ARGS(pattern));
    }
    return WEFT_ERROR(INVALID_ARGUMENT, "Invalid pattern: %.*s, error: %s", WEFT_STR_ARGS(pattern),
                      (const char *)why);
  }
  pcre2_set_match_limit(r->limits, MAX_STEPS);
  *out = r;
  return NULL;
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
  weft_status_t *s = m == NULL ? WEFT_NO_MEMORY("matching a pattern") : NULL;
  for (int64_t i = 0; s == NULL && i < in->count; i++) {
    bool matches = false;
    const weft_str_t text = weft_tensor_str_at(in, i);
    s = match(r, text, 0, PCRE2_ANCHORED | PCRE2_ENDANCHORED, m, &matches);
    ((uint8_t *)out->data)[i] = matches && is_whole(text, m);
  }
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
static weft_status_t *replace_one(const regex_t *r, weft_str_t s, pcre2_match_data *m, weft_strbuf_t *out) {
  size_t at = 0, last_end = SIZE_MAX;
  keep(s, out);
  if (!has_groups(r->rewrite, m)) return NULL;
  out->length = 0;
  for (bool again = true; again && at <= s.length; again = r->is_global) {
    bool found = false;
    WEFT_RETURN_IF_ERROR(match(r, s, at, 0, m, &found));
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
      if (at < s.length) weft_strbuf_putc(out, s.data[at]);
      at++;
    }
  }
  if (at < s.length) weft_strbuf_append(out, weft_str_of(s.data + at, s.length - at));
  return NULL;
}

static weft_status_t *replace_all(weft_kernel_ctx_t *c, const regex_t *r) {
  const weft_tensor_t *in = weft_in(c, 0);
  weft_tensor_t *out = NULL;
  weft_strbuf_t text = WEFT_STRBUF_INIT;
  WEFT_RETURN_IF_ERROR(weft_out_new(c, 0, WEFT_STRING, &in->shape, &out));
  pcre2_match_data *m = pcre2_match_data_create_from_pattern(r->code, NULL);
  weft_status_t *s = m == NULL ? WEFT_NO_MEMORY("matching a pattern") : NULL;
  for (int64_t i = 0; s == NULL && i < in->count; i++) {
    s = replace_one(r, weft_tensor_str_at(in, i), m, &text);
    if (s == NULL && text.failed) s = WEFT_NO_MEMORY("replacing in a string");
    if (s == NULL) s = weft_tensor_set_str(out, i, weft_str_of(text.data, text.length));
  }
  pcre2_match_data_free(m);
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
