/* client/status.h - our failures turned into TF_Status. */
#ifndef WEFT_CLIENT_STATUS_H_
#define WEFT_CLIENT_STATUS_H_

#include "base/status.h"
#include "tensorflow/c/tf_status.h"

/* Sets *out to code and message of `s` (NULL: TF_OK), drops its payloads and frees `s`. True if it was OK. */
bool weft_client_end(TF_Status *out, weft_status_t *s);

#endif /* WEFT_CLIENT_STATUS_H_ */
