/* strategies/options.c - options as text, read by a table. */
#include "strategies/options.h"

#include <math.h>
#include <stdlib.h>

enum { MAX_NUMBER_TEXT = 63 };

static bool read_count(weft_str_t text, int64_t *out) {
  return weft_str_to_i64(text, out) && *out >= 0 && *out <= INT32_MAX;
}

static bool read_bytes(weft_str_t text, int64_t *out) {
  if (text.length == 0) return false;
  int shift = 0;
  switch (text.data[text.length - 1]) {
    case 'K': shift = 10; break;
    case 'M': shift = 20; break;
    case 'G': shift = 30; break;
    default: break;
  }
  if (shift > 0) text.length--;
  int64_t n = 0;
  if (!weft_str_to_i64(text, &n) || n < 0 || n > INT64_MAX >> shift) return false;
  *out = n << shift;
  return true;
}

bool weft_options_number(weft_str_t text, double *out) {
  char buffer[MAX_NUMBER_TEXT + 1];
  if (text.length == 0 || text.length > MAX_NUMBER_TEXT) return false;
  for (size_t i = 0; i < text.length; i++) { /* not "inf", "0x1p3", " 1" */
    if (strchr("0123456789+-.eE", text.data[i]) == NULL || text.data[i] == '\0') return false;
  }
  memcpy(buffer, text.data, text.length);
  buffer[text.length] = '\0';
  char *end = NULL;
  double value = strtod(buffer, &end);
  if (end != buffer + text.length || !isfinite(value)) return false;
  *out = value;
  return true;
}

static bool read_bool(weft_str_t text, int64_t *out) {
  *out = weft_str_is(text, "true") || weft_str_is(text, "1");
  return *out != 0 || weft_str_is(text, "false") || weft_str_is(text, "0");
}

static bool read_choice(const char *choices, weft_str_t text, int64_t *out) {
  weft_str_t rest = weft_str(choices);
  for (int64_t i = 0;; i++) {
    weft_str_t one = rest, tail = {NULL, 0};
    bool more = weft_str_split(rest, '|', &one, &tail);
    if (weft_str_eq(one, text)) {
      *out = i;
      return true;
    }
    if (!more) return false;
    rest = tail;
  }
}

static const char *meaning(weft_option_kind_t kind) {
  switch (kind) {
    case WEFT_OPTION_COUNT: return "a whole number, 0 or more";
    case WEFT_OPTION_BYTES: return "a number of bytes, optionally with the suffix K, M or G";
    case WEFT_OPTION_NUMBER: return "a number";
    case WEFT_OPTION_BOOL: return "true or false";
    case WEFT_OPTION_CHOICE: return "one of these";
    case WEFT_OPTION_TEXT: return "a text";
  }
  return "";
}

static weft_status_t *read_value(const char *strategy, const weft_option_def_t *def, weft_str_t text,
                                 weft_option_value_t *out) {
  bool ok = true;
  out->text = text;
  switch (def->kind) {
    case WEFT_OPTION_COUNT: ok = read_count(text, &out->i); break;
    case WEFT_OPTION_BYTES: ok = read_bytes(text, &out->i); break;
    case WEFT_OPTION_NUMBER: ok = weft_options_number(text, &out->number); break;
    case WEFT_OPTION_BOOL: ok = read_bool(text, &out->i); break;
    case WEFT_OPTION_CHOICE: ok = read_choice(def->value, text, &out->i); break;
    case WEFT_OPTION_TEXT: break;
  }
  if (ok) return NULL;
  return WEFT_ERROR(INVALID_ARGUMENT, "%s: option '%s' cannot be '%.*s'; it is %s: %s", strategy, def->name,
                    WEFT_STR_ARGS(text), meaning(def->kind), def->value);
}

static weft_status_t *unknown_option(const char *strategy, const weft_option_def_t *defs, int num_defs,
                                     weft_str_t name) {
  weft_strbuf_t b = WEFT_STRBUF_INIT;
  for (int i = 0; i < num_defs; i++) weft_strbuf_printf(&b, "%s%s", i == 0 ? "" : ", ", defs[i].name);
  weft_status_t *s = WEFT_ERROR(INVALID_ARGUMENT, "%s: no option '%.*s'; there are %s", strategy,
                                WEFT_STR_ARGS(name), b.failed || b.data == NULL ? "none" : b.data);
  weft_strbuf_deinit(&b);
  return s;
}

static weft_status_t *read_part(const char *strategy, const weft_option_def_t *defs, int num_defs,
                                weft_str_t part, bool is_first, weft_option_value_t *values) {
  weft_str_t name = part, text = WEFT_STR("true");
  int at = -1;
  bool has_value = weft_str_split(part, '=', &name, &text);
  for (int i = 0; i < num_defs && at < 0; i++) {
    if (weft_str_is(name, defs[i].name) && (has_value || defs[i].kind == WEFT_OPTION_BOOL)) at = i;
  }
  if (at < 0 && is_first && !has_value && num_defs > 0) {
    at = 0;
    text = part;
  }
  if (at < 0) return unknown_option(strategy, defs, num_defs, name);
  if (values[at].is_given)
    return WEFT_ERROR(INVALID_ARGUMENT, "%s: option '%s' is given twice", strategy, defs[at].name);
  values[at].is_given = true;
  return read_value(strategy, &defs[at], text, &values[at]);
}

weft_status_t *weft_options_parse(const char *strategy, const weft_option_def_t *defs, int num_defs,
                                  weft_str_t text, weft_option_value_t *values) {
  for (int i = 0; i < num_defs; i++) values[i] = (weft_option_value_t){0};
  bool is_first = true;
  while (text.length > 0) {
    weft_str_t part = text, tail = {NULL, 0};
    if (!weft_str_split(text, ',', &part, &tail)) tail.length = 0;
    if (part.length > 0) WEFT_RETURN_IF_ERROR(read_part(strategy, defs, num_defs, part, is_first, values));
    is_first = false;
    text = tail;
  }
  for (int i = 0; i < num_defs; i++) {
    if (!values[i].is_given && defs[i].otherwise[0] != '\0') {
      WEFT_RETURN_IF_ERROR(read_value(strategy, &defs[i], weft_str(defs[i].otherwise), &values[i]));
    }
  }
  return NULL;
}

bool weft_options_next(weft_str_t *rest, weft_str_t *part) {
  while (rest->length > 0) {
    weft_str_t tail = {NULL, 0};
    *part = *rest;
    if (!weft_str_split(*rest, '+', part, &tail)) tail.length = 0;
    *rest = tail;
    if (part->length > 0) return true;
  }
  return false;
}
