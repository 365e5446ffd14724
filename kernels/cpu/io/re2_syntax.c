/* kernels/cpu/io/re2_syntax.c - a parser of RE2's syntax (https://github.com/google/re2/wiki/Syntax) that
 * writes PCRE2's.
 *
 * The two share most of their syntax, and differ where a pattern is unusual: [\w-.] and [[.a.]] are errors to
 * PCRE2, \v and \s other sets, $ matches before a last newline, ^* cannot be repeated, and much is known to
 * PCRE2 alone. So nothing is handed over as it is: a literal is written as its number, a set as its ranges,
 * an anchor as the one that depends on no flag.
 */
#define PCRE2_CODE_UNIT_WIDTH 8
#include "kernels/cpu/io/re2_syntax.h"

#include <pcre2.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { MAX_REPEAT = 1000, MAX_NESTING = 1000, MAX_COUNT = 100000000, MAX_RUNE = 0x10ffff, NO_RUNE = -1 };
static const size_t none = SIZE_MAX;

typedef struct flags {
  bool fold, lines, dot_all, lazy; /* i, m, s, U */
} flags_t;

typedef struct re2_group {
  flags_t flags;   /* in front of it */
  bool is_folding; /* of the pattern that is written */
  size_t begin;    /* in `out` */
  int copies;      /* the largest of its atoms' */
} re2_group_t;

/* An atom is what a quantifier repeats: the last literal, set, anchor or group. */
typedef struct re2_parser {
  weft_str_t text;
  size_t at;
  weft_strbuf_t *out;
  flags_t flags;
  bool is_folding;  /* what is written now ignores case */
  size_t atom;      /* where in `out` the last atom begins, or `none` */
  bool is_repeated; /* that one has a quantifier */
  int copies;       /* that the counts in it make of a part of it */
  size_t repeat;    /* where the quantifier in front of `at` begins, or `none` */
  int depth;
  re2_group_t groups[MAX_NESTING + 1]; /* the pattern, and the groups that are open */
} re2_parser_t;

/* ---- sets ---- */

/* Sets of ASCII as ranges: those of backslashes by their letter, those of POSIX by name. */
static const struct {
  const char *name, *ranges;
} sets[] = {
    {"d", "0-9"},
    {"s", "\\t\\n\\f\\r\\x20"},
    {"w", "0-9A-Z_a-z"},
    {"alnum", "0-9A-Za-z"},
    {"alpha", "A-Za-z"},
    {"ascii", "\\x00-\\x7f"},
    {"blank", "\\t\\x20"},
    {"cntrl", "\\x00-\\x1f\\x7f"},
    {"digit", "0-9"},
    {"graph", "\\x21-\\x7e"},
    {"lower", "a-z"},
    {"print", "\\x20-\\x7e"},
    {"punct", "\\x21-\\x2f\\x3a-\\x40\\x5b-\\x60\\x7b-\\x7e"},
    {"space", "\\x09-\\x0d\\x20"},
    {"upper", "A-Z"},
    {"word", "0-9A-Z_a-z"},
    {"xdigit", "0-9A-Fa-f"},
};

static const char *ranges_of(weft_str_t name) {
  for (size_t i = 0; i < sizeof sets / sizeof sets[0]; i++) {
    if (weft_str_is(name, sets[i].name)) return sets[i].ranges;
  }
  return NULL;
}

/* ---- reading ---- */

static int peek(const re2_parser_t *p, size_t ahead) {
  return p->at + ahead < p->text.length ? (unsigned char)p->text.data[p->at + ahead] : -1;
}

static bool is_octal(int c) { return c >= '0' && c <= '7'; }
static bool is_digit(int c) { return c >= '0' && c <= '9'; }
static bool is_letter(int c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

static int hex_of(int c) {
  return is_digit(c)            ? c - '0'
         : c >= 'a' && c <= 'f' ? c - 'a' + 10
         : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                : -1;
}

static weft_status_t *refuse(const re2_parser_t *p, const char *what) {
  return WEFT_ERROR(INVALID_ARGUMENT, "Invalid pattern: %.*s, error: %s", WEFT_STR_ARGS(p->text), what);
}

/* The error names the bytes from `begin` to `end`. */
static weft_status_t *refuse_part(const re2_parser_t *p, const char *what, size_t begin, size_t end) {
  if (end > p->text.length) end = p->text.length;
  return WEFT_ERROR(INVALID_ARGUMENT, "Invalid pattern: %.*s, error: %s: %.*s", WEFT_STR_ARGS(p->text), what,
                    (int)(end - begin), p->text.data + begin);
}

static weft_status_t *refuse_whole(const re2_parser_t *p, const char *what) {
  return refuse_part(p, what, 0, p->text.length);
}

static weft_status_t *refuse_escape(const re2_parser_t *p, size_t begin) {
  return refuse_part(p, "invalid escape sequence", begin, p->at);
}

/* The character at `at`, which goes behind it. As RE2 has it, a surrogate is one. */
static weft_status_t *next(re2_parser_t *p, int *out) {
  static const int least[] = {0, 0x80, 0x800, 0x10000};
  const int c = peek(p, 0);
  const size_t trail = c < 0x80 ? 0 : c < 0xe0 ? 1 : c < 0xf0 ? 2 : 3;
  bool is_good = c >= 0 && (c < 0x80 || (c >= 0xc0 && c < 0xf8));
  int rune = trail == 0 ? c : c & (0x3f >> trail);
  for (size_t i = 1; is_good && i <= trail; i++) {
    is_good = peek(p, i) >= 0 && (peek(p, i) & 0xc0) == 0x80;
    rune = rune << 6 | (peek(p, i) & 0x3f);
  }
  if (!is_good || rune < least[trail] || rune > MAX_RUNE) return refuse(p, "invalid UTF-8");
  p->at += trail + 1;
  *out = rune;
  return NULL;
}

/* \x41 or \x{41}, from behind the x. */
static weft_status_t *hexadecimal(re2_parser_t *p, size_t begin, int *out) {
  int c = 0, second = 0, digits = 0, rune = 0;
  if (peek(p, 0) < 0) return refuse_escape(p, begin);
  WEFT_RETURN_IF_ERROR(next(p, &c));
  if (c != '{') {
    if (peek(p, 0) < 0) return refuse_escape(p, begin);
    WEFT_RETURN_IF_ERROR(next(p, &second));
    if (hex_of(c) < 0 || hex_of(second) < 0) return refuse_escape(p, begin);
    *out = hex_of(c) * 16 + hex_of(second);
    return NULL;
  }
  WEFT_RETURN_IF_ERROR(next(p, &c));
  for (; hex_of(c) >= 0; digits++) {
    rune = rune * 16 + hex_of(c);
    if (rune > MAX_RUNE || peek(p, 0) < 0) return refuse_escape(p, begin);
    WEFT_RETURN_IF_ERROR(next(p, &c));
  }
  if (c != '}' || digits == 0) return refuse_escape(p, begin);
  *out = rune;
  return NULL;
}

/* A backslash and what belongs to it, where that is one character. */
static weft_status_t *escape(re2_parser_t *p, int *out) {
  static const char letters[] = "aftnrv";
  static const int runes[] = {'\a', '\f', '\t', '\n', '\r', '\v'};
  const size_t begin = p->at++;
  int c = 0;
  if (peek(p, 0) < 0) return refuse(p, "trailing \\");
  WEFT_RETURN_IF_ERROR(next(p, &c));
  const char *letter = c != '\0' && c < 0x80 ? strchr(letters, c) : NULL;
  if (c == 'x') return hexadecimal(p, begin, out);
  if (is_octal(c) && (c == '0' || is_octal(peek(p, 0)))) {
    int rune = c - '0';
    for (int i = 0; i < 2 && is_octal(peek(p, 0)); i++) rune = rune * 8 + p->text.data[p->at++] - '0';
    *out = rune;
  } else if (letter != NULL) {
    *out = runes[letter - letters];
  } else if (c < 0x80 && !is_digit(c) && !is_letter(c)) {
    *out = c;
  } else {
    return refuse_escape(p, begin);
  }
  return NULL;
}

/* ---- writing ---- */

/* A subject has U+FDD0 for its surrogates (regex.c), which PCRE2 does not know. */
static void put_rune(re2_parser_t *p, int rune) {
  if (is_digit(rune) || is_letter(rune)) {
    weft_strbuf_putc(p->out, (char)rune);
  } else {
    weft_strbuf_printf(p->out, "\\x{%x}", rune >= 0xd800 && rune < 0xe000 ? 0xfdd0 : (unsigned)rune);
  }
}

static void begin_atom(re2_parser_t *p) {
  if (p->is_folding != p->flags.fold) weft_strbuf_puts(p->out, p->flags.fold ? "(?i)" : "(?-i)");
  p->is_folding = p->flags.fold;
  p->atom = p->out->length;
  p->is_repeated = false;
  p->copies = 1;
  p->repeat = none;
}

static void put_literal(re2_parser_t *p, int rune) {
  begin_atom(p);
  put_rune(p, rune);
}

/* In brackets, so that it can be repeated. ^ and $ without the flag m are the ends of the subject; \A and \z
 * are those of each stretch of valid UTF-8. */
static void put_anchor(re2_parser_t *p, size_t length, const char *anchor) {
  begin_atom(p);
  weft_strbuf_printf(p->out, "(?:%s)", anchor);
  p->at += length;
}

static void put_set(re2_parser_t *p, size_t length, const char *set) {
  begin_atom(p);
  weft_strbuf_puts(p->out, set);
  p->at += length;
}

/* What is written of the last atom becomes a group. */
static void enclose_atom(re2_parser_t *p) {
  static const char open[] = "(?:";
  enum { LENGTH = sizeof open - 1 };
  weft_strbuf_puts(p->out, open);
  if (p->out->failed) return;
  char *begin = p->out->data + p->atom;
  memmove(begin + LENGTH, begin, p->out->length - p->atom - LENGTH);
  memcpy(begin, open, LENGTH);
  weft_strbuf_putc(p->out, ')');
}

/* ---- sets and properties ---- */

/* \d, \s, \w and their opposites: of the set `name`, without brackets. */
static void put_letter_set(re2_parser_t *p, int letter) {
  const char name[] = {(char)(letter | 0x20), '\0'};
  if (name[0] == letter) {
    weft_strbuf_puts(p->out, ranges_of(weft_str(name)));
  } else if (letter == 'S') {
    weft_strbuf_puts(p->out, "\\x00-\\x08\\x0b\\x0e-\\x1f\\x21-\\x{10ffff}");
  } else {
    weft_strbuf_printf(p->out, "\\%c", letter);
  }
}

static bool is_letter_set(int c) { return c > 0 && strchr("dDsSwW", c) != NULL; }

/* Does PCRE2 know a script of that name? It takes short names, too, and is not strict about capitals. */
static bool is_script(weft_str_t name) {
  char pattern[64];
  int error = 0;
  PCRE2_SIZE at = 0;
  for (size_t i = 0; i < name.length; i++) {
    const bool is_first = i == 0 || name.data[i - 1] == '_';
    const int c = (unsigned char)name.data[i];
    if (c == '_' ? is_first : !is_letter(c) || (is_first && c > 'Z')) return false;
  }
  const int length = snprintf(pattern, sizeof pattern, "\\p{sc:%.*s}", WEFT_STR_ARGS(name));
  if (length >= (int)sizeof pattern) return false;
  pcre2_code *code = pcre2_compile((PCRE2_SPTR)pattern, (size_t)length, PCRE2_UTF, &error, &at, NULL);
  pcre2_code_free(code);
  return code != NULL;
}

/* Has RE2 a property of that name? One, two or four letters are short names of PCRE2, but for those here. */
static bool is_property(weft_str_t name) {
  static const char *const short_names[] = {
      "C",  "Cc", "Cf", "Co", "Cs", "L",  "Ll", "Lm",   "Lo",   "Lt",   "Lu",   "M",    "Mc",   "Me",   "Mn",
      "N",  "Nd", "Nl", "No", "P",  "Pc", "Pd", "Pe",   "Pf",   "Pi",   "Po",   "Ps",   "S",    "Sc",   "Sk",
      "Sm", "So", "Z",  "Zl", "Zp", "Zs", "Yi", "Ahom", "Cham", "Kawi", "Lisu", "Modi", "Newa", "Thai",
  };
  if (name.length > 4 || name.length == 3) return weft_str_is(name, "Any") || is_script(name);
  for (size_t i = 0; i < sizeof short_names / sizeof short_names[0]; i++) {
    if (weft_str_is(name, short_names[i])) return true;
  }
  return false;
}

/* \pL, \p{Greek}, \P{^L}: for use in a set or outside of one. */
static weft_status_t *property(re2_parser_t *p) {
  const size_t begin = p->at;
  bool is_negative = peek(p, 1) == 'P';
  int c = 0;
  p->at += 2;
  size_t name = p->at;
  if (peek(p, 0) < 0) return refuse_part(p, "invalid character class range", begin, p->at);
  WEFT_RETURN_IF_ERROR(next(p, &c));
  size_t end = p->at;
  if (c == '{') {
    int skipped = 0;
    for (name = end; peek(p, 0) >= 0 && peek(p, 0) != '}';) WEFT_RETURN_IF_ERROR(next(p, &skipped));
    if (peek(p, 0) < 0) return refuse_part(p, "invalid character class range", begin, p->at);
    end = p->at++;
  }
  if (name < end && p->text.data[name] == '^') {
    is_negative = !is_negative;
    name++;
  }
  const weft_str_t given = weft_str_of(p->text.data + name, end - name);
  if (!is_property(given)) return refuse_part(p, "invalid character class range", begin, p->at);
  const bool is_case = given.length == 2 && given.data[0] == 'L' && strchr("ult", given.data[1]) != NULL;
  if (is_case && p->flags.fold) {
    weft_strbuf_printf(p->out, "\\%c{L&}", is_negative ? 'P' : 'p');
  } else {
    const bool has_script = given.length > 2 && !weft_str_is(given, "Any");
    weft_strbuf_printf(p->out, "\\%c{%s%.*s}", is_negative ? 'P' : 'p', has_script ? "sc:" : "",
                       WEFT_STR_ARGS(given));
  }
  return NULL;
}

/* [:alpha:] or [:^alpha:] in a set. *out: there is one, which may be refused. */
static weft_status_t *posix_set(re2_parser_t *p, bool *out) {
  size_t length = 2;
  *out = false;
  if (peek(p, 1) != ':') return NULL;
  while (peek(p, length) >= 0 && (peek(p, length) != ':' || peek(p, length + 1) != ']')) length++;
  if (peek(p, length) < 0) return NULL;
  *out = true;
  const bool is_negative = peek(p, 2) == '^';
  const size_t skipped = is_negative ? 3 : 2;
  const weft_str_t name =
      weft_str_of(p->text.data + p->at + skipped, length < skipped ? 0 : length - skipped);
  const char *ranges = name.length > 1 ? ranges_of(name) : NULL;
  if (ranges == NULL) return refuse_part(p, "invalid character class range", p->at, p->at + length + 2);
  if (is_negative) {
    weft_strbuf_printf(p->out, "[:^%.*s:]", WEFT_STR_ARGS(name));
  } else {
    weft_strbuf_puts(p->out, ranges);
  }
  p->at += length + 2;
  return NULL;
}

static weft_status_t *member(re2_parser_t *p, size_t begin, int *out) {
  if (peek(p, 0) < 0) return refuse_part(p, "missing ]", begin, p->text.length);
  return peek(p, 0) == '\\' ? escape(p, out) : next(p, out);
}

/* A character or a range. `begin`: of the set. */
static weft_status_t *range(re2_parser_t *p, size_t begin) {
  const size_t at = p->at;
  int low = 0, high = 0;
  WEFT_RETURN_IF_ERROR(member(p, begin, &low));
  high = low;
  if (peek(p, 0) == '-' && peek(p, 1) >= 0 && peek(p, 1) != ']') {
    p->at++;
    WEFT_RETURN_IF_ERROR(member(p, begin, &high));
    if (high < low) return refuse_part(p, "invalid character class range", at, p->at);
  }
  const bool is_cut = low >= 0xd800 && low < 0xe000, is_cut_above = high >= 0xd800 && high < 0xe000;
  if (high > low && !(is_cut && is_cut_above)) {
    put_rune(p, is_cut ? 0xe000 : low);
    weft_strbuf_putc(p->out, '-');
    put_rune(p, is_cut_above ? 0xd7ff : high);
  } else {
    put_rune(p, low);
  }
  return NULL;
}

static weft_status_t *set(re2_parser_t *p) {
  const size_t begin = p->at++;
  begin_atom(p);
  weft_strbuf_putc(p->out, '[');
  if (peek(p, 0) == '^') {
    weft_strbuf_putc(p->out, '^');
    p->at++;
  }
  for (bool is_first = true; peek(p, 0) >= 0 && (is_first || peek(p, 0) != ']'); is_first = false) {
    const int c = peek(p, 0), after = peek(p, 1);
    bool is_posix = false;
    if (c == '[') WEFT_RETURN_IF_ERROR(posix_set(p, &is_posix));
    if (is_posix) continue;
    if (c == '\\' && (after == 'p' || after == 'P') && peek(p, 2) >= 0) {
      WEFT_RETURN_IF_ERROR(property(p));
    } else if (c == '\\' && is_letter_set(after)) {
      put_letter_set(p, after);
      p->at += 2;
    } else {
      WEFT_RETURN_IF_ERROR(range(p, begin));
    }
  }
  if (peek(p, 0) < 0) return refuse_part(p, "missing ]", begin, p->text.length);
  p->at++;
  weft_strbuf_putc(p->out, ']');
  return NULL;
}

/* ---- groups ---- */

static weft_status_t *open_group(re2_parser_t *p, size_t length, const char *written, flags_t flags) {
  if (p->depth == MAX_NESTING) return refuse_whole(p, "expression nests too deeply");
  p->groups[++p->depth] =
      (re2_group_t){.flags = p->flags, .is_folding = p->is_folding, .begin = p->out->length, .copies = 1};
  weft_strbuf_puts(p->out, written);
  p->at += length;
  p->flags = flags;
  p->atom = p->repeat = none;
  return NULL;
}

/* What the last atom, which is complete, adds to the group that it is in. */
static void note_copies(re2_parser_t *p) {
  re2_group_t *g = &p->groups[p->depth];
  if (p->atom != none && p->copies > g->copies) g->copies = p->copies;
}

static weft_status_t *close_group(re2_parser_t *p) {
  if (p->depth == 0) return refuse_whole(p, "unexpected )");
  note_copies(p);
  const re2_group_t *g = &p->groups[p->depth--];
  weft_strbuf_putc(p->out, ')');
  p->at++;
  p->flags = g->flags;
  p->is_folding = g->is_folding;
  p->atom = g->begin;
  p->is_repeated = false;
  p->copies = g->copies;
  p->repeat = none;
  return NULL;
}

/* "(?" and flags: of a group, or of what follows. */
static weft_status_t *set_flags(re2_parser_t *p) {
  const size_t begin = p->at;
  flags_t flags = p->flags;
  bool is_negative = false, has_flag = false;
  for (p->at += 2; peek(p, 0) >= 0;) {
    int c = 0;
    WEFT_RETURN_IF_ERROR(next(p, &c));
    bool *flag = c == 'i'   ? &flags.fold
                 : c == 'm' ? &flags.lines
                 : c == 's' ? &flags.dot_all
                 : c == 'U' ? &flags.lazy
                            : NULL;
    if (flag != NULL) {
      *flag = !is_negative;
      has_flag = true;
    } else if (c == '-' && !is_negative) {
      is_negative = true;
      has_flag = false;
    } else if (c == ':' && (has_flag || !is_negative)) {
      return open_group(p, 0, "(?:", flags);
    } else if (c == ')' && (has_flag || !is_negative)) {
      p->flags = flags;
      p->repeat = none;
      return NULL;
    } else {
      break;
    }
  }
  return refuse_part(p, "invalid perl operator", begin, p->at);
}

static weft_status_t *named_group(re2_parser_t *p) {
  const size_t begin = p->at;
  bool is_word = peek(p, 4) != '>';
  for (p->at += 4; peek(p, 0) >= 0 && peek(p, 0) != '>';) {
    int c = 0;
    WEFT_RETURN_IF_ERROR(next(p, &c));
    is_word = is_word && (is_digit(c) || is_letter(c) || c == '_' || c >= 0x80);
  }
  if (peek(p, 0) < 0 || !is_word) return refuse_part(p, "invalid named capture group", begin, p->at + 1);
  return open_group(p, 1, "(", p->flags);
}

static weft_status_t *group(re2_parser_t *p) {
  if (peek(p, 1) != '?') return open_group(p, 1, "(", p->flags);
  if (peek(p, 2) == 'P' && peek(p, 3) == '<' && peek(p, 4) >= 0) return named_group(p);
  return set_flags(p);
}

/* ---- quantifiers ---- */

/* A number without leading zeros at `*ahead`, which goes behind it. False: there is none. */
static bool number(const re2_parser_t *p, size_t *ahead, int *out) {
  if (!is_digit(peek(p, *ahead)) || (peek(p, *ahead) == '0' && is_digit(peek(p, *ahead + 1)))) return false;
  for (*out = 0; is_digit(peek(p, *ahead)); ++*ahead) {
    if (*out >= MAX_COUNT) return false;
    *out = *out * 10 + peek(p, *ahead) - '0';
  }
  return true;
}

/* {n}, {n,} or {n,m}; a brace of anything else is a literal. `*max` is -1 where there is no end. */
static bool counts(const re2_parser_t *p, size_t *length, int *min, int *max) {
  size_t ahead = 1;
  if (!number(p, &ahead, min)) return false;
  *max = *min;
  if (peek(p, ahead) == ',') {
    *max = -1;
    if (peek(p, ++ahead) != '}' && !number(p, &ahead, max)) return false;
  }
  *length = ahead + 1;
  return peek(p, ahead) == '}';
}

/* The quantifier of `length` bytes at `at`, a mark for less not counted. */
static weft_status_t *repeat(re2_parser_t *p, size_t length, int min, int max) {
  const size_t begin = p->at, before = p->repeat;
  const bool is_marked = peek(p, length) == '?', is_lazy = is_marked != p->flags.lazy;
  const size_t end = begin + length + (is_marked ? 1 : 0);
  const int copies = max < 0 ? min : max;
  if (before != none) return refuse_part(p, "bad repetition operator", before, end);
  if (min > MAX_REPEAT || max > MAX_REPEAT || (max >= 0 && min > max)) {
    return refuse_part(p, "invalid repetition size", begin, end);
  }
  if (p->atom == none) return refuse_part(p, "no argument for repetition operator", begin, end);
  if (copies > 1 && p->copies * copies > MAX_REPEAT) {
    return refuse_part(p, "invalid repetition size", begin, end);
  }
  if (p->is_repeated) enclose_atom(p);
  if (copies > 1) p->copies *= copies;
  weft_strbuf_append(p->out, weft_str_of(p->text.data + begin, length));
  if (is_lazy) weft_strbuf_putc(p->out, '?');
  p->is_repeated = true;
  p->repeat = begin;
  p->at = end;
  return NULL;
}

static weft_status_t *brace(re2_parser_t *p) {
  size_t length = 1;
  int min = 0, max = 0;
  if (counts(p, &length, &min, &max)) return repeat(p, length, min, max);
  p->at++;
  put_literal(p, '{');
  return NULL;
}

/* ---- the whole ---- */

/* \Q and what is taken as it is, to \E or the end. */
static weft_status_t *quote(re2_parser_t *p) {
  p->repeat = none;
  for (p->at += 2; peek(p, 0) >= 0;) {
    int c = 0;
    if (peek(p, 0) == '\\' && peek(p, 1) == 'E') {
      p->at += 2;
      break;
    }
    WEFT_RETURN_IF_ERROR(next(p, &c));
    note_copies(p);
    put_literal(p, c);
  }
  return NULL;
}

static weft_status_t *backslash(re2_parser_t *p) {
  const int c = peek(p, 1);
  int rune = 0;
  switch (c) {
    case 'A': put_anchor(p, 2, "^"); return NULL;
    case 'z': put_anchor(p, 2, "$"); return NULL;
    case 'b': put_anchor(p, 2, "\\b"); return NULL;
    case 'B': put_anchor(p, 2, "\\B"); return NULL;
    case 'C': put_set(p, 2, "\\C"); return NULL;
    case 'Q': return quote(p);
    case 'p':
    case 'P': begin_atom(p); return property(p);
    default: break;
  }
  if (is_letter_set(c)) {
    const bool is_negative = c < 'a';
    put_set(p, 2, is_negative ? "[^" : "[");
    put_letter_set(p, c | 0x20);
    weft_strbuf_putc(p->out, ']');
    return NULL;
  }
  WEFT_RETURN_IF_ERROR(escape(p, &rune));
  put_literal(p, rune);
  return NULL;
}

static weft_status_t *element(re2_parser_t *p) {
  const int c = peek(p, 0);
  int rune = 0;
  switch (c) {
    case '*': return repeat(p, 1, 0, -1);
    case '+': return repeat(p, 1, 1, -1);
    case '?': return repeat(p, 1, 0, 1);
    case '{': return brace(p);
    case ')': return close_group(p);
    default: note_copies(p); break;
  }
  switch (c) {
    case '\\': return backslash(p);
    case '[': return set(p);
    case '(': return group(p);
    case '.': put_set(p, 1, p->flags.dot_all ? "(?s:.)" : "."); return NULL;
    case '^': put_anchor(p, 1, p->flags.lines ? "(?m:^)" : "^"); return NULL;
    case '$': put_anchor(p, 1, p->flags.lines ? "(?m:$)" : "$"); return NULL;
    case '|':
      weft_strbuf_putc(p->out, '|');
      p->at++;
      p->atom = p->repeat = none;
      return NULL;
    default: break;
  }
  WEFT_RETURN_IF_ERROR(next(p, &rune));
  put_literal(p, rune);
  return NULL;
}

weft_status_t *weft_re2_translate(weft_str_t pattern, weft_strbuf_t *out) {
  re2_parser_t p = {.text = pattern, .out = out, .atom = none, .repeat = none, .groups = {{.copies = 1}}};
  while (p.at < pattern.length) WEFT_RETURN_IF_ERROR(element(&p));
  return p.depth > 0 ? refuse_whole(&p, "missing )") : NULL;
}
