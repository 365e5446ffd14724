/* services/local_transport.c - a LocalTransport in a google.protobuf.Any. */
#include "services/local_transport.h"

void weft_local_transport_to_any(const weft_local_transport_msg_t *m, weft_strbuf_t *out) {
  weft_strbuf_t value = WEFT_STRBUF_INIT;
  weft_fields_encode_bytes(&weft_local_transport_type, m, &value);
  weft_any_msg_t wrapped = {WEFT_STR(WEFT_LOCAL_TRANSPORT_URL), weft_str_of(value.data, value.length)};
  weft_fields_encode_bytes(&weft_any_type, &wrapped, out);
  if (value.failed) out->failed = true;
  weft_strbuf_deinit(&value);
}

bool weft_local_transport_from_any(weft_str_t bytes, weft_arena_t *arena, weft_local_transport_msg_t *out) {
  weft_any_msg_t wrapped = {{NULL, 0}, {NULL, 0}};
  if (bytes.length == 0) return false;
  weft_status_t *s = weft_fields_decode_bytes(&weft_any_type, bytes, arena, &wrapped);
  bool ok = s == NULL && weft_str_is(wrapped.type_url, WEFT_LOCAL_TRANSPORT_URL);
  if (ok) s = weft_fields_decode_bytes(&weft_local_transport_type, wrapped.value, arena, out);
  ok = ok && s == NULL;
  weft_status_free(s); /* not for us: the tensor goes its ordinary way */
  return ok;
}
