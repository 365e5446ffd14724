/* protos/text_token.h - the words of the text format, with their places. Only for protos/text_format*.c. */
#ifndef WEFT_PROTOS_TEXT_TOKEN_H_
#define WEFT_PROTOS_TEXT_TOKEN_H_

#include "base/status.h"
#include "base/str.h"

typedef enum weft_token_kind {
  WEFT_TOKEN_END,     /* of the text */
  WEFT_TOKEN_NAME,    /* letters, digits, '_' */
  WEFT_TOKEN_INTEGER, /* decimal, 0x..., 0... */
  WEFT_TOKEN_FLOAT,   /* with '.', exponent or suffix f */
  WEFT_TOKEN_STRING,  /* with its quotes, escapes not yet undone */
  WEFT_TOKEN_SYMBOL,  /* one character */
} weft_token_kind_t;

/* Confined. Borrows the text. */
typedef struct weft_lexer {
  const char *p, *end;
  const char *line_start;
  int line;
  const char *file_name; /* borrowed */
  /* The current token: */
  weft_token_kind_t kind;
  weft_str_t text;
  int token_line, token_column; /* from 1 */
} weft_lexer_t;

/* Sets up and reads the first token. Errors here and below: INVALID_ARGUMENT, with the place. */
WEFT_MUST_CHECK weft_status_t *weft_lexer_init(weft_lexer_t *x, weft_str_t text, const char *file_name);
/* Steps to the next token. */
WEFT_MUST_CHECK weft_status_t *weft_lexer_next(weft_lexer_t *x);
bool weft_lexer_at(const weft_lexer_t *x, char symbol); /* is this the current token? */

/* "file:line:column: <message>" for the current token. */
WEFT_MUST_CHECK weft_status_t *weft_lexer_error(const weft_lexer_t *x, const char *fmt, ...)
    WEFT_PRINTF(2, 3);
/* "Expected <what>, found <current token>." */
WEFT_MUST_CHECK weft_status_t *weft_lexer_expected(const weft_lexer_t *x, const char *what);

/* Appends what the current STRING token means. */
WEFT_MUST_CHECK weft_status_t *weft_lexer_unescape(const weft_lexer_t *x, weft_strbuf_t *out);
/* The value of the current INTEGER token, at most `max`. */
WEFT_MUST_CHECK weft_status_t *weft_lexer_integer(const weft_lexer_t *x, uint64_t max, uint64_t *out);

#endif /* WEFT_PROTOS_TEXT_TOKEN_H_ */
