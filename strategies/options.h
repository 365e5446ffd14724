/* strategies/options.h - reads "4,bytes_per_pack=1048576,order=static" by a table.
 *
 * A strategy writes its options once, as a list of OPTION(id, KIND, "VALUE", "default", "about"):
 *
 *   #define MIRRORED_OPTIONS(OPTION) \
 *     OPTION(replicas, COUNT, "N", "2", "how many replicas") \
 *     OPTION(order, CHOICE, "ready|static", "ready", "when a pack is sent")
 *   enum { MIRRORED_OPTIONS(WEFT_OPTION_ID) NUM_OPTIONS };
 *   static const weft_option_def_t defs[] = {MIRRORED_OPTIONS(WEFT_OPTION_DEF)};
 *   ... .usage = "mirrored:N[,option=value...]\n" MIRRORED_OPTIONS(WEFT_OPTION_USAGE)
 */
#ifndef WEFT_STRATEGIES_OPTIONS_H_
#define WEFT_STRATEGIES_OPTIONS_H_

#include "base/str.h"

typedef enum weft_option_kind {
  WEFT_OPTION_COUNT,  /* 0, 1, 2, ... up to 2^31 - 1 */
  WEFT_OPTION_BYTES,  /* 0.. with an optional K, M or G (powers of 1024) behind it */
  WEFT_OPTION_NUMBER, /* decimal, with an optional point and exponent; finite */
  WEFT_OPTION_BOOL,   /* true, false, 1, 0; "name" alone means true */
  WEFT_OPTION_CHOICE, /* one of those that the definition's value lists, a|b|c */
  WEFT_OPTION_TEXT,   /* anything without a comma; lists are joined by '+' */
} weft_option_kind_t;

typedef struct weft_option_def {
  const char *name;
  weft_option_kind_t kind;
  const char *value;     /* as usage shows it; of CHOICE: the choices */
  const char *otherwise; /* the default as text; "" for none */
} weft_option_def_t;
typedef struct weft_option_value {
  bool is_given;
  weft_str_t text; /* views into the options or the definition */
  int64_t i;       /* COUNT, BYTES, BOOL; of CHOICE the index among the choices */
  double number;   /* NUMBER */
} weft_option_value_t;

#define WEFT_OPTION_ID(id, kind, value, otherwise, about) OPTION_##id,
#define WEFT_OPTION_DEF(id, kind, value, otherwise, about) {#id, WEFT_OPTION_##kind, value, otherwise},
#define WEFT_OPTION_USAGE(id, kind, value, otherwise, about) "  " #id "=" value "  " about "\n"

/* Fills values[i] for defs[i]. A first part without '=' is the value of defs[0].
 * Errors: INVALID_ARGUMENT "<strategy>: ..." naming the option: unknown (lists what there is), given twice, a
 * value that it cannot have. */
WEFT_MUST_CHECK weft_status_t *weft_options_parse(const char *strategy, const weft_option_def_t *defs,
                                                  int num_defs, weft_str_t text, weft_option_value_t *values);
/* Walks the parts of "a+b+c"; false at the end. Start with *rest = the text. Empty parts are skipped. */
bool weft_options_next(weft_str_t *rest, weft_str_t *part);

/* The whole of `text` as a number; false if it is none, or is not finite. */
bool weft_options_number(weft_str_t text, double *out);

#endif /* WEFT_STRATEGIES_OPTIONS_H_ */
