/* client/status.c - TF_Status: a code, a message and payloads.
 *
 * The message of a success is no memory of its own, so that a step that succeeds
 * allocates nothing here.
 */
#define _GNU_SOURCE /* errno values that POSIX lacks */
#include "client/status.h"

#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/str.h"

typedef struct status_payload status_payload_t;
struct status_payload {
  status_payload_t *next;
  char *key, *value; /* owned */
};

struct TSL_Status {
  TF_Code code;
  char *message;              /* owned; NULL: no_message */
  status_payload_t *payloads; /* in the order in which they were set */
};

static const char no_memory_message[] = "out of memory";

static void clear(TF_Status *s) {
  weft_free(s->message);
  s->message = NULL;
  while (s->payloads != NULL) {
    status_payload_t *p = s->payloads;
    s->payloads = p->next;
    weft_free(p->key);
    weft_free(p->value);
    weft_free(p);
  }
  s->code = TF_OK;
}

bool weft_client_end(TF_Status *out, weft_status_t *s) {
  if (out->code != TF_OK) clear(out);
  if (s == NULL) return true;
  out->code = (TF_Code)weft_status_code(s);
  out->message = weft_strdup(weft_status_message(s));
  weft_status_free(s);
  return false;
}

TF_Status *TF_NewStatus(void) { return weft_calloc(1, sizeof(TF_Status)); }

void TF_DeleteStatus(TF_Status *s) {
  if (s == NULL) return;
  clear(s);
  weft_free(s);
}

void TF_SetStatus(TF_Status *s, TF_Code code, const char *msg) {
  char *message = code == TF_OK || msg == NULL ? NULL : weft_strdup(msg); /* msg may be the status's own */
  clear(s);
  s->code = code < TF_OK || code > TF_UNAUTHENTICATED ? TF_UNKNOWN : code;
  s->message = message;
}

void TF_SetPayload(TF_Status *s, const char *key, const char *value) {
  if (s->code == TF_OK) return;
  status_payload_t **at = &s->payloads;
  while (*at != NULL && strcmp((*at)->key, key) != 0) at = &(*at)->next;
  char *copy = weft_strdup(value);
  if (copy == NULL) return;
  if (*at != NULL) {
    weft_free((*at)->value);
    (*at)->value = copy;
    return;
  }
  status_payload_t *p = weft_calloc(1, sizeof *p);
  if (p != NULL) p->key = weft_strdup(key);
  if (p == NULL || p->key == NULL) {
    weft_free(p);
    weft_free(copy);
    return;
  }
  p->value = copy;
  *at = p;
}

void TF_ForEachPayload(const TF_Status *s, TF_PayloadVisitor visitor, void *capture) {
  for (const status_payload_t *p = s->payloads; p != NULL; p = p->next) visitor(p->key, p->value, capture);
}

TF_Code TF_GetCode(const TF_Status *s) { return s->code; }

const char *TF_Message(const TF_Status *s) {
  if (s->message != NULL) return s->message;
  return s->code == TF_RESOURCE_EXHAUSTED ? no_memory_message : "";
}

/* As absl maps errno. */
static const struct {
  int error;
  TF_Code code;
} codes[] = {
    {0, TF_OK},
    {EINVAL, TF_INVALID_ARGUMENT},
    {ENAMETOOLONG, TF_INVALID_ARGUMENT},
    {E2BIG, TF_INVALID_ARGUMENT},
    {EDESTADDRREQ, TF_INVALID_ARGUMENT},
    {EDOM, TF_INVALID_ARGUMENT},
    {EFAULT, TF_INVALID_ARGUMENT},
    {EILSEQ, TF_INVALID_ARGUMENT},
    {ENOPROTOOPT, TF_INVALID_ARGUMENT},
    {ENOSTR, TF_INVALID_ARGUMENT},
    {ENOTSOCK, TF_INVALID_ARGUMENT},
    {ENOTTY, TF_INVALID_ARGUMENT},
    {EPROTOTYPE, TF_INVALID_ARGUMENT},
    {ESPIPE, TF_INVALID_ARGUMENT},
    {ETIMEDOUT, TF_DEADLINE_EXCEEDED},
    {ETIME, TF_DEADLINE_EXCEEDED},
    {ENODEV, TF_NOT_FOUND},
    {ENOENT, TF_NOT_FOUND},
    {ENXIO, TF_NOT_FOUND},
    {ESRCH, TF_NOT_FOUND},
    {EEXIST, TF_ALREADY_EXISTS},
    {EADDRNOTAVAIL, TF_ALREADY_EXISTS},
    {EALREADY, TF_ALREADY_EXISTS},
    {EPERM, TF_PERMISSION_DENIED},
    {EACCES, TF_PERMISSION_DENIED},
    {EROFS, TF_PERMISSION_DENIED},
    {ENOTEMPTY, TF_FAILED_PRECONDITION},
    {EISDIR, TF_FAILED_PRECONDITION},
    {ENOTDIR, TF_FAILED_PRECONDITION},
    {EADDRINUSE, TF_FAILED_PRECONDITION},
    {EBADF, TF_FAILED_PRECONDITION},
    {EBUSY, TF_FAILED_PRECONDITION},
    {ECHILD, TF_FAILED_PRECONDITION},
    {EISCONN, TF_FAILED_PRECONDITION},
    {ENOTBLK, TF_FAILED_PRECONDITION},
    {ENOTCONN, TF_FAILED_PRECONDITION},
    {EPIPE, TF_FAILED_PRECONDITION},
    {ESHUTDOWN, TF_FAILED_PRECONDITION},
    {ETXTBSY, TF_FAILED_PRECONDITION},
    {ENOSPC, TF_RESOURCE_EXHAUSTED},
    {EDQUOT, TF_RESOURCE_EXHAUSTED},
    {EMFILE, TF_RESOURCE_EXHAUSTED},
    {EMLINK, TF_RESOURCE_EXHAUSTED},
    {ENFILE, TF_RESOURCE_EXHAUSTED},
    {ENOBUFS, TF_RESOURCE_EXHAUSTED},
    {ENODATA, TF_RESOURCE_EXHAUSTED},
    {ENOMEM, TF_RESOURCE_EXHAUSTED},
    {ENOSR, TF_RESOURCE_EXHAUSTED},
    {EUSERS, TF_RESOURCE_EXHAUSTED},
    {EFBIG, TF_OUT_OF_RANGE},
    {EOVERFLOW, TF_OUT_OF_RANGE},
    {ERANGE, TF_OUT_OF_RANGE},
    {ENOSYS, TF_UNIMPLEMENTED},
    {ENOTSUP, TF_UNIMPLEMENTED},
    {EAFNOSUPPORT, TF_UNIMPLEMENTED},
    {EPFNOSUPPORT, TF_UNIMPLEMENTED},
    {EPROTONOSUPPORT, TF_UNIMPLEMENTED},
    {ESOCKTNOSUPPORT, TF_UNIMPLEMENTED},
    {EXDEV, TF_UNIMPLEMENTED},
    {EAGAIN, TF_UNAVAILABLE},
    {ECONNREFUSED, TF_UNAVAILABLE},
    {ECONNABORTED, TF_UNAVAILABLE},
    {ECONNRESET, TF_UNAVAILABLE},
    {EINTR, TF_UNAVAILABLE},
    {EHOSTDOWN, TF_UNAVAILABLE},
    {EHOSTUNREACH, TF_UNAVAILABLE},
    {ENETDOWN, TF_UNAVAILABLE},
    {ENETRESET, TF_UNAVAILABLE},
    {ENETUNREACH, TF_UNAVAILABLE},
    {ENOLCK, TF_UNAVAILABLE},
    {ENOLINK, TF_UNAVAILABLE},
    {ENONET, TF_UNAVAILABLE},
    {EDEADLK, TF_ABORTED},
    {ESTALE, TF_ABORTED},
    {ECANCELED, TF_CANCELLED},
};

void TF_SetStatusFromIOError(TF_Status *s, int error_code, const char *context) {
  TF_Code code = TF_UNKNOWN;
  for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++) {
    if (codes[i].error == error_code) code = codes[i].code;
  }
  char reason[128];
  weft_strbuf_t text = WEFT_STRBUF_INIT;
  weft_strbuf_printf(&text, "%s; %s", context, strerror_r(error_code, reason, sizeof reason));
  TF_SetStatus(s, code, text.failed ? context : text.data);
  weft_strbuf_deinit(&text);
}
