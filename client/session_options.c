/* client/session_options.c - TF_SessionOptions; TF_SetConfig is in config_proto.c. */
#include "client/session_options.h"

#include "base/alloc.h"
#include "weft/cluster.h"

TF_SessionOptions *TF_NewSessionOptions(void) { return weft_calloc(1, sizeof(TF_SessionOptions)); }

void TF_DeleteSessionOptions(TF_SessionOptions *options) {
  if (options == NULL) return;
  weft_free(options->target);
  weft_free(options->config);
  weft_free(options);
}

void WEFT_SetWaitForMaster(TF_SessionOptions *options, unsigned char waits) {
  options->fails_fast = waits == 0;
}

void TF_SetTarget(TF_SessionOptions *options, const char *target) {
  char *copy = weft_strdup(target);
  if (copy == NULL) return; /* the interface cannot say so */
  weft_free(options->target);
  options->target = copy;
}
