/* client/session_options.h - where a session runs and how. */
#ifndef WEFT_CLIENT_SESSION_OPTIONS_H_
#define WEFT_CLIENT_SESSION_OPTIONS_H_

#include <stdbool.h>

#include "base/str.h"
#include "tensorflow/c/c_api.h"

struct TF_SessionOptions {
  char *target; /* owned; NULL: "" */
  char *config; /* owned; a serialized ConfigProto */
  size_t config_bytes;
  bool fails_fast; /* where its master cannot be reached */
};

#endif /* WEFT_CLIENT_SESSION_OPTIONS_H_ */
