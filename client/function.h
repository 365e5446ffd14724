/* client/function.h - TF_Function: a FunctionDef and its name. */
#ifndef WEFT_CLIENT_FUNCTION_H_
#define WEFT_CLIENT_FUNCTION_H_

#include "base/str.h"
#include "tensorflow/c/c_api.h"

/* Thread-compatible. */
struct TF_Function {
  char *name; /* owned */
  char *def;  /* owned; a serialized FunctionDef */
  size_t def_bytes;
};

/* Takes the bytes out of `def`. Errors: INVALID_ARGUMENT if they are no FunctionDef with a name. */
WEFT_MUST_CHECK weft_status_t *weft_client_function_new(weft_strbuf_t *def, TF_Function **out);

#endif /* WEFT_CLIENT_FUNCTION_H_ */
