/* client/logging.c - the program's lines in our log. */
#include "tensorflow/c/logging.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "tensorflow/c/c_api.h"

enum { MAX_LINE = 4096 };

static void put(weft_log_level_t level, const char *fmt, va_list args) {
  char text[MAX_LINE];
  vsnprintf(text, sizeof text, fmt, args);
  weft_log(level, "%s", text);
}

void TF_Log(TF_LogLevel level, const char *fmt, ...) {
  va_list args;
  va_start(args, fmt);
  put(level == TF_INFO ? WEFT_LOG_INFO : level == TF_WARNING ? WEFT_LOG_WARNING : WEFT_LOG_ERROR, fmt, args);
  va_end(args);
  if (level == TF_FATAL) abort();
}

void TF_VLog(int level, const char *fmt, ...) {
  va_list args;
  (void)level;
  va_start(args, fmt);
  put(WEFT_LOG_DEBUG, fmt, args);
  va_end(args);
}

void TF_DVLog(int level, const char *fmt, ...) {
  va_list args;
  (void)level;
  va_start(args, fmt);
  put(WEFT_LOG_DEBUG, fmt, args);
  va_end(args);
}

void TF_RegisterLogListener(void (*listener)(const char *)) { weft_log_add_listener(listener); }
