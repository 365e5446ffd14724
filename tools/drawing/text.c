/* tools/drawing/text.c - widths of a font, and texts made safe. */
#include "tools/drawing/text.h"

enum { FIRST = 32, LAST = 126, WIDE = 1000, OTHER = 660, ELLIPSIS = 1000 };

/* Thousandths of the size, of the characters from space to tilde. */
static const uint16_t REGULAR[LAST - FIRST + 1] = {
    318, 401, 460, 838, 636, 950, 780, 275, 390, 390, 500, 838, 318, 361,  318, 337, 636, 636, 636,
    636, 636, 636, 636, 636, 636, 636, 337, 337, 838, 838, 838, 531, 1000, 684, 686, 698, 770, 632,
    575, 775, 752, 295, 295, 656, 557, 863, 748, 787, 603, 787, 695, 635,  611, 732, 684, 989, 685,
    611, 685, 390, 337, 390, 838, 500, 500, 613, 635, 550, 635, 615, 352,  635, 634, 278, 278, 579,
    278, 974, 634, 612, 635, 635, 411, 521, 392, 634, 592, 818, 592, 592,  525, 636, 337, 636, 838,
};
static const uint16_t BOLD[LAST - FIRST + 1] = {
    348, 456,  521, 838, 696, 1002, 872, 306, 457, 457, 523, 838, 380, 415,  380, 365, 696, 696,  696,
    696, 696,  696, 696, 696, 696,  696, 400, 400, 838, 838, 838, 580, 1000, 774, 762, 734, 830,  683,
    683, 821,  837, 372, 372, 775,  637, 995, 837, 850, 733, 850, 770, 720,  682, 812, 774, 1103, 771,
    724, 725,  457, 365, 457, 838,  500, 500, 675, 716, 593, 716, 678, 435,  716, 712, 343, 343,  665,
    343, 1042, 712, 687, 716, 716,  493, 595, 478, 712, 652, 924, 645, 652,  582, 712, 365, 712,  838,
};

static const char REPLACEMENT[] = "\xef\xbf\xbd", DOTS[] = "\xe2\x80\xa6";

/* The bytes of the character at the start of a text, which is not empty; *code: it, or -1 if it is none. */
static size_t character(weft_str_t s, int32_t *code) {
  static const int32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
  const unsigned char first = (unsigned char)s.data[0];
  const size_t n = first < 0x80                    ? 1
                   : first >= 0xf0 && first < 0xf8 ? 4
                   : first >= 0xe0 && first < 0xf0 ? 3
                   : first >= 0xc0 && first < 0xe0 ? 2
                                                   : 0;
  *code = -1;
  if (n == 0 || n > s.length) return 1;
  int32_t value = n == 1 ? first : first & (0x7f >> n);
  for (size_t i = 1; i < n; i++) {
    if (((unsigned char)s.data[i] & 0xc0) != 0x80) return 1;
    value = value << 6 | ((unsigned char)s.data[i] & 0x3f);
  }
  if (value < least[n] || value > 0x10ffff || (value >= 0xd800 && value < 0xe000)) return 1;
  const bool is_control = value < FIRST || (value >= 0x7f && value < 0xa0) || (value & 0xfffe) == 0xfffe ||
                          (value >= 0x200b && value < 0x2010) || (value >= 0x2028 && value < 0x202f);
  *code = is_control ? -1 : value;
  return n;
}

static int width_of(int32_t code, bool is_bold) {
  if (code >= FIRST && code <= LAST) return is_bold ? BOLD[code - FIRST] : REGULAR[code - FIRST];
  if (code == 0xd7) return 838; /* the sign of multiplication */
  if (code == 0xb7) return 380;
  return code >= 0x1100 || code < 0 ? WIDE : OTHER + (is_bold ? 60 : 0);
}

double weft_text_width(weft_str_t text, int size, bool is_bold) {
  double sum = 0;
  int32_t code;
  for (size_t at = 0; at < text.length;) {
    at += character(weft_str_of(text.data + at, text.length - at), &code);
    sum += width_of(code, is_bold);
  }
  return sum * size / 1000;
}

static void put_clean(weft_strbuf_t *out, weft_str_t text) {
  int32_t code;
  for (size_t at = 0; at < text.length;) {
    const size_t n = character(weft_str_of(text.data + at, text.length - at), &code);
    if (code < 0) {
      weft_strbuf_puts(out, REPLACEMENT);
    } else {
      weft_strbuf_append(out, weft_str_of(text.data + at, n));
    }
    at += n;
  }
}

/* The longest start of a clean text that is no wider. */
static size_t start_within(weft_str_t text, int size, bool is_bold, double width) {
  double sum = 0;
  int32_t code;
  size_t at = 0;
  while (at < text.length) {
    const size_t n = character(weft_str_of(text.data + at, text.length - at), &code);
    sum += (double)width_of(code, is_bold) * size / 1000;
    if (sum > width) break;
    at += n;
  }
  return at;
}

static size_t end_within(weft_str_t text, int size, bool is_bold, double width) {
  size_t at = text.length;
  while (at > 0) { /* characters begin where no byte continues one */
    size_t next = at - 1;
    while (next > 0 && ((unsigned char)text.data[next] & 0xc0) == 0x80) next--;
    if (weft_text_width(weft_str_of(text.data + next, text.length - next), size, is_bold) > width) break;
    at = next;
  }
  return at;
}

static weft_str_t fit(weft_arena_t *arena, weft_str_t text, int size, bool is_bold, double width,
                      double first_share) {
  enum { MOST = 4096 }; /* no label needs more */
  weft_strbuf_t clean = WEFT_STRBUF_INIT, cut = WEFT_STRBUF_INIT;
  if (text.length > MOST) text.length = MOST;
  put_clean(&clean, text);
  const weft_str_t whole = weft_str_of(clean.data == NULL ? "" : clean.data, clean.length);
  if (weft_text_width(whole, size, is_bold) <= width) {
    weft_strbuf_append(&cut, whole);
  } else {
    const double room = width - (double)ELLIPSIS * size / 1000, first = room * first_share;
    if (room > 0) {
      const size_t n = start_within(whole, size, is_bold, first);
      const double used = weft_text_width(weft_str_of(whole.data, n), size, is_bold);
      const size_t end = first_share < 1 ? end_within(whole, size, is_bold, room - used) : whole.length;
      weft_strbuf_append(&cut, weft_str_of(whole.data, n));
      weft_strbuf_puts(&cut, DOTS);
      weft_strbuf_append(&cut, weft_str_of(whole.data + end, whole.length - end));
    }
  }
  weft_str_t out = weft_arena_str(arena, weft_str_of(cut.data == NULL ? "" : cut.data, cut.length));
  if (clean.failed || cut.failed || out.data == NULL) out = (weft_str_t){NULL, 0};
  weft_strbuf_deinit(&clean);
  weft_strbuf_deinit(&cut);
  return out;
}

weft_str_t weft_text_fit(weft_arena_t *arena, weft_str_t text, int size, bool is_bold, double width) {
  return fit(arena, text, size, is_bold, width, 1);
}

weft_str_t weft_text_fit_middle(weft_arena_t *arena, weft_str_t text, int size, bool is_bold, double width) {
  return fit(arena, text, size, is_bold, width, 0.5);
}

void weft_text_put_xml(weft_strbuf_t *out, weft_str_t text) {
  int32_t code;
  for (size_t at = 0; at < text.length;) {
    const size_t n = character(weft_str_of(text.data + at, text.length - at), &code);
    const char c = text.data[at];
    if (code < 0) {
      weft_strbuf_puts(out, REPLACEMENT);
    } else if (c == '<' || c == '>' || c == '&' || c == '"' || c == '\'') {
      weft_strbuf_puts(out, c == '<'   ? "&lt;"
                            : c == '>' ? "&gt;"
                            : c == '&' ? "&amp;"
                            : c == '"' ? "&quot;"
                                       : "&#39;");
    } else {
      weft_strbuf_append(out, weft_str_of(text.data + at, n));
    }
    at += n;
  }
}

void weft_text_put_json(weft_strbuf_t *out, weft_str_t text) {
  int32_t code;
  weft_strbuf_putc(out, '"');
  for (size_t at = 0; at < text.length;) {
    const size_t n = character(weft_str_of(text.data + at, text.length - at), &code);
    const char c = text.data[at];
    if (code < 0) {
      weft_strbuf_puts(out, REPLACEMENT);
    } else if (c == '"' || c == '\\') {
      weft_strbuf_putc(out, '\\');
      weft_strbuf_putc(out, c);
    } else if (c == '<' || c == '>' || c == '&') { /* no end of a script in it, and no comment */
      weft_strbuf_printf(out, "\\u%04x", (unsigned)c);
    } else {
      weft_strbuf_append(out, weft_str_of(text.data + at, n));
    }
    at += n;
  }
  weft_strbuf_putc(out, '"');
}
