/* tools/drawing/names.c - names of nodes taken apart. */
#include "tools/drawing/names.h"

static bool is_digit(char c) { return c >= '0' && c <= '9'; }

static bool are_digits(weft_str_t s) {
  for (size_t i = 0; i < s.length; i++) {
    if (!is_digit(s.data[i])) return false;
  }
  return s.length > 0;
}

static weft_str_t behind(weft_str_t s, size_t n) { return weft_str_of(s.data + n, s.length - n); }

/* "replica_3": which replica or worker a copy is of. */
static bool is_copy_number(weft_str_t part) {
  size_t prefix = weft_str_starts_with(part, "replica_") ? 8 : weft_str_starts_with(part, "worker_") ? 7 : 0;
  return prefix > 0 && are_digits(behind(part, prefix));
}

weft_str_t weft_drawn_plain_name(weft_str_t name) {
  weft_str_t head, rest;
  if (weft_str_split(name, '/', &head, &rest) && is_copy_number(head)) name = rest;
  if (is_copy_number(weft_drawn_last(name)) && weft_drawn_parent(name).length > 0)
    name = weft_drawn_parent(name);
  return name;
}

weft_str_t weft_drawn_parent(weft_str_t path) {
  ptrdiff_t slash = weft_str_rfind(path, '/');
  return slash < 0 ? WEFT_STR("") : weft_str_of(path.data, (size_t)slash);
}

weft_str_t weft_drawn_last(weft_str_t path) {
  ptrdiff_t slash = weft_str_rfind(path, '/');
  return slash < 0 ? path : behind(path, (size_t)slash + 1);
}

bool weft_drawn_is_below(weft_str_t path, weft_str_t scope) {
  if (scope.length == 0 || weft_str_eq(path, scope)) return true;
  return path.length > scope.length && path.data[scope.length] == '/' &&
         memcmp(path.data, scope.data, scope.length) == 0;
}

weft_str_t weft_drawn_stem(weft_str_t name) {
  size_t n = name.length;
  for (;;) {
    size_t at = n;
    while (at > 0 && is_digit(name.data[at - 1])) at--;
    if (at == n || at == 0) break;
    n = at;
    if (n > 1 && name.data[n - 1] == '_') n--;
  }
  return weft_str_of(name.data, n);
}

/* "gradients", "gradients_2", "gradient_tape": as TensorFlow and graph/passes.h name them. */
static bool is_gradient_scope(weft_str_t part) {
  weft_str_t stem = weft_drawn_stem(part);
  return weft_str_is(stem, "gradients") || weft_str_is(stem, "gradient_tape");
}

bool weft_drawn_is_gradient(weft_str_t plain, weft_str_t *out_before, weft_str_t *out_behind) {
  weft_str_t head, rest = plain;
  while (weft_str_split(rest, '/', &head, &rest)) {
    if (!is_gradient_scope(head)) continue;
    size_t start = (size_t)(head.data - plain.data);
    *out_before = weft_str_of(plain.data, start > 0 ? start - 1 : 0);
    *out_behind = rest;
    return true;
  }
  return false;
}

/* The first part of a name below a strategy's scope, or its last one, says what it is for. */
static weft_drawn_kind_t kind_by_word(weft_str_t first, weft_str_t last) {
  static const struct {
    const char *word;
    weft_drawn_kind_t kind;
  } words[] = {
      {"bucket_", WEFT_DRAWN_COLLECTIVE},
      {"all_reduce", WEFT_DRAWN_COLLECTIVE},
      {"all_gather", WEFT_DRAWN_COLLECTIVE},
      {"broadcast", WEFT_DRAWN_COLLECTIVE},
      {"group_", WEFT_DRAWN_COLLECTIVE},
      {"sum", WEFT_DRAWN_SUM},
      {"weighted", WEFT_DRAWN_WEIGHTS},
      {"by_rows", WEFT_DRAWN_WEIGHTS},
      {"per_row", WEFT_DRAWN_WEIGHTS},
      {"all_rows", WEFT_DRAWN_WEIGHTS},
      {"rows", WEFT_DRAWN_WEIGHTS},
      {"kept_", WEFT_DRAWN_KEPT},
      {"round", WEFT_DRAWN_KEPT},
      {"if_last", WEFT_DRAWN_KEPT},
      {"init_accumulators", WEFT_DRAWN_KEPT},
      {"input_", WEFT_DRAWN_SPLIT},
      {"axes", WEFT_DRAWN_OTHER},
      {"mask", WEFT_DRAWN_OTHER},
      {"counts", WEFT_DRAWN_OTHER},
      {"others", WEFT_DRAWN_OTHER},
      {"constant", WEFT_DRAWN_OTHER},
  };
  static const char *const weights[] = {"weight", "weights", "share", "rows_each", "rows_all"};
  for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
    if (weft_str_starts_with(first, words[i].word)) return words[i].kind;
  }
  for (size_t i = 0; i < sizeof weights / sizeof weights[0]; i++) {
    if (weft_str_is(last, weights[i])) return WEFT_DRAWN_WEIGHTS;
  }
  return WEFT_DRAWN_SPLIT; /* of a feed, whose name comes first */
}

weft_drawn_kind_t weft_drawn_kind_of(weft_str_t plain, weft_str_t *out_behind) {
  weft_str_t head, rest = plain, first;
  *out_behind = plain;
  if (weft_str_starts_with(plain, "parameter_server/")) {
    *out_behind = behind(plain, sizeof "parameter_server/" - 1);
    return WEFT_DRAWN_TRANSFER;
  }
  while (weft_str_split(rest, '/', &head, &rest)) {
    if (!weft_str_is(head, "weft")) continue;
    *out_behind = rest;
    return kind_by_word(weft_str_split(rest, '/', &first, &head) ? first : rest, weft_drawn_last(rest));
  }
  return WEFT_DRAWN_USER;
}

const char *weft_drawn_kind_name(weft_drawn_kind_t kind) {
  static const char *const names[WEFT_DRAWN_KINDS] = {
      [WEFT_DRAWN_USER] = "the model's own",    [WEFT_DRAWN_SPLIT] = "batch split",
      [WEFT_DRAWN_WEIGHTS] = "replica weights", [WEFT_DRAWN_COLLECTIVE] = "all-reduce",
      [WEFT_DRAWN_SUM] = "gradient sums",       [WEFT_DRAWN_KEPT] = "accumulation",
      [WEFT_DRAWN_TRANSFER] = "server updates", [WEFT_DRAWN_OTHER] = "additions"};
  return names[kind];
}

const char *weft_drawn_role_name(weft_drawn_role_t role) {
  static const char *const names[WEFT_DRAWN_ROLES] = {"forward", "gradient", "update", "added"};
  return names[role];
}
