/* tools/top/metrics_text.c - a line at a time: NAME{LABEL="VALUE",...} NUMBER [TIME].
 *
 * Source: Prometheus, "Exposition formats", text format 0.0.4.
 */
#include "tools/top/metrics_text.h"

#include <stdlib.h>

enum { MAX_NUMBER = 64 };

typedef struct metrics_line {
  const char *at, *end;
  weft_strbuf_t names, values; /* of labels; one behind the other, each ends with '\0' */
} metrics_line_t;

weft_str_t weft_metrics_sample_label(const weft_metrics_sample_t *s, const char *name) {
  for (int i = 0; i < s->num_labels; i++) {
    if (strcmp(s->label_names[i], name) == 0) return s->label_values[i];
  }
  return weft_str_of("", 0);
}

static bool is_name(char c, bool is_first) {
  const bool is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == ':';
  return is_letter || (!is_first && c >= '0' && c <= '9');
}

/* The name that begins here; empty: there is none. */
static weft_str_t take_name(metrics_line_t *l) {
  const char *begin = l->at;
  while (l->at < l->end && is_name(*l->at, l->at == begin)) l->at++;
  return weft_str_of(begin, (size_t)(l->at - begin));
}

static void skip_spaces(metrics_line_t *l) {
  while (l->at < l->end && (*l->at == ' ' || *l->at == '\t')) l->at++;
}

static bool take(metrics_line_t *l, char c) {
  if (l->at == l->end || *l->at != c) return false;
  l->at++;
  return true;
}

/* "...": \\, \" and \n stand for a backslash, a quote and a new line. False: it does not end, or another
 * escape. */
static bool take_quoted(metrics_line_t *l, weft_strbuf_t *out) {
  if (!take(l, '"')) return false;
  while (l->at < l->end && *l->at != '"') {
    char c = *l->at++;
    if (c == '\\') {
      if (l->at == l->end) return false;
      c = *l->at++;
      if (c != '\\' && c != '"' && c != 'n') return false;
      if (c == 'n') c = '\n';
    }
    weft_strbuf_putc(out, c);
  }
  return take(l, '"');
}

typedef struct label_places {
  size_t names[WEFT_METRICS_TEXT_LABELS], values[WEFT_METRICS_TEXT_LABELS], lengths[WEFT_METRICS_TEXT_LABELS];
  int n;
} label_places_t;

/* {a="b",c="d"}, or nothing. */
static bool take_labels(metrics_line_t *l, label_places_t *out) {
  out->n = 0;
  l->names.length = l->values.length = 0;
  if (!take(l, '{')) return true;
  for (;;) {
    skip_spaces(l);
    if (take(l, '}')) return true;
    const weft_str_t name = take_name(l);
    if (name.length == 0 || out->n == WEFT_METRICS_TEXT_LABELS) return false;
    out->names[out->n] = l->names.length;
    weft_strbuf_append(&l->names, name);
    weft_strbuf_putc(&l->names, '\0');
    skip_spaces(l);
    if (!take(l, '=')) return false;
    skip_spaces(l);
    out->values[out->n] = l->values.length;
    if (!take_quoted(l, &l->values)) return false;
    out->lengths[out->n] = l->values.length - out->values[out->n];
    weft_strbuf_putc(&l->values, '\0');
    out->n++;
    skip_spaces(l);
    if (take(l, ',')) continue;
    return take(l, '}');
  }
}

static bool take_number(metrics_line_t *l, double *out) {
  char text[MAX_NUMBER], *end = NULL;
  size_t n = 0;
  while (l->at < l->end && *l->at != ' ' && *l->at != '\t') {
    if (n == sizeof text - 1 || *l->at == '\0') return false;
    text[n++] = *l->at++;
  }
  text[n] = '\0';
  *out = strtod(text, &end);
  return n > 0 && *end == '\0' && text[0] > ' ';
}

/* False: it is no sample. */
static bool read_sample(metrics_line_t *l, weft_metrics_sample_fn *fn, void *arg) {
  const char *names[WEFT_METRICS_TEXT_LABELS];
  weft_str_t values[WEFT_METRICS_TEXT_LABELS];
  label_places_t places;
  double time;
  weft_metrics_sample_t s = {.name = take_name(l), .label_names = names, .label_values = values};
  if (s.name.length == 0) return false;
  skip_spaces(l);
  if (!take_labels(l, &places)) return false;
  skip_spaces(l);
  if (!take_number(l, &s.value)) return false;
  skip_spaces(l);
  if (l->at < l->end && !take_number(l, &time)) return false;
  skip_spaces(l);
  if (l->at < l->end) return false;
  if (l->names.failed || l->values.failed) return true; /* told as a lack of memory */
  for (int i = 0; i < places.n; i++) {
    names[i] = l->names.data + places.names[i];
    values[i] = weft_str_of(l->values.data + places.values[i], places.lengths[i]);
  }
  s.num_labels = places.n;
  fn(arg, &s);
  return true;
}

weft_status_t *weft_metrics_text_read(weft_str_t text, weft_metrics_sample_fn *fn, void *arg) {
  metrics_line_t l = {.names = WEFT_STRBUF_INIT, .values = WEFT_STRBUF_INIT};
  weft_status_t *s = NULL;
  if (text.length > WEFT_METRICS_TEXT_BYTES)
    return WEFT_ERROR(INVALID_ARGUMENT, "metrics of %zu bytes are too long", text.length);
  int number = 0;
  for (const char *next = text.data, *end = text.data + text.length; s == NULL && next < end;) {
    const char *newline = memchr(next, '\n', (size_t)(end - next));
    l.at = next;
    l.end = newline == NULL ? end : newline;
    next = newline == NULL ? end : newline + 1;
    number++;
    skip_spaces(&l);
    if (l.at == l.end || *l.at == '#') continue;
    if (!read_sample(&l, fn, arg))
      s = WEFT_ERROR(INVALID_ARGUMENT, "line %d of the metrics is no sample", number);
    if (s == NULL && (l.names.failed || l.values.failed)) s = WEFT_NO_MEMORY("metrics");
  }
  weft_strbuf_deinit(&l.names);
  weft_strbuf_deinit(&l.values);
  return s;
}
