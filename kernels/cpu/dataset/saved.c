/* kernels/cpu/dataset/saved.c - values to bytes and back. */
#include "kernels/cpu/dataset/saved.h"

#include <string.h>

#include "tensor/tensor_proto.h"

static const char HEAD[] = "weft iterator 2\n"; /* 2: with what functions keep */

void weft_saved_begin(weft_saved_t *s) {
  *s = (weft_saved_t){.bytes = WEFT_STRBUF_INIT};
  weft_strbuf_puts(&s->bytes, HEAD);
}

void weft_saved_deinit(weft_saved_t *s) { weft_strbuf_deinit(&s->bytes); }

weft_status_t *weft_saved_broken(const char *why) {
  return WEFT_ERROR(DATA_LOSS, "the saved state of an iterator is damaged: %s", why);
}

weft_status_t *weft_saved_open(weft_saved_t *s, weft_str_t bytes, weft_device_t *device) {
  const size_t head = sizeof HEAD - 1;
  *s = (weft_saved_t){.bytes = WEFT_STRBUF_INIT, .device = device};
  if (bytes.length < head || memcmp(bytes.data, HEAD, head) != 0)
    return weft_saved_broken("it does not begin as such a state does");
  s->rest = weft_str_of(bytes.data + head, bytes.length - head);
  return NULL;
}

/* ---- writing ---- */

static void put_word(weft_saved_t *s, char kind, uint64_t v) {
  char bytes[9] = {kind};
  for (int i = 0; i < 8; i++) bytes[i + 1] = (char)(v >> 8 * i);
  weft_strbuf_append(&s->bytes, weft_str_of(bytes, sizeof bytes));
}

void weft_saved_put_int(weft_saved_t *s, int64_t v) { put_word(s, 'i', (uint64_t)v); }

static void put_bytes(weft_saved_t *s, char kind, weft_str_t v) {
  put_word(s, kind, v.length);
  weft_strbuf_append(&s->bytes, v);
}

void weft_saved_put_string(weft_saved_t *s, weft_str_t v) { put_bytes(s, 's', v); }

weft_status_t *weft_saved_put_tensor(weft_saved_t *s, const weft_tensor_t *t) {
  weft_strbuf_t proto = WEFT_STRBUF_INIT;
  weft_status_t *status = weft_tensor_to_proto(t, &proto);
  if (status == NULL && proto.failed) status = WEFT_NO_MEMORY("saving an iterator");
  if (status == NULL) put_bytes(s, 't', weft_str_of(proto.data, proto.length));
  weft_strbuf_deinit(&proto);
  return status;
}

void weft_saved_put_status(weft_saved_t *s, const weft_status_t *status) {
  weft_saved_put_int(s, (int64_t)weft_status_code(status));
  weft_saved_put_string(s, weft_str(weft_status_message(status)));
}

weft_status_t *weft_saved_end(const weft_saved_t *s) {
  return s->bytes.failed ? WEFT_NO_MEMORY("saving an iterator") : NULL;
}

/* ---- reading ---- */

static weft_status_t *get_word(weft_saved_t *s, char kind, uint64_t *out) {
  if (s->rest.length < 9) return weft_saved_broken("it ends too early");
  if (s->rest.data[0] != kind) return weft_saved_broken("a value is of another kind");
  *out = 0;
  for (int i = 0; i < 8; i++) *out |= (uint64_t)(unsigned char)s->rest.data[i + 1] << 8 * i;
  s->rest = weft_str_of(s->rest.data + 9, s->rest.length - 9);
  return NULL;
}

weft_status_t *weft_saved_get_int(weft_saved_t *s, int64_t *out) { return get_word(s, 'i', (uint64_t *)out); }

weft_status_t *weft_saved_get_int_in(weft_saved_t *s, int64_t min, int64_t max, int64_t *out) {
  int64_t v = 0;
  WEFT_RETURN_IF_ERROR(weft_saved_get_int(s, &v));
  if (v < min || v > max) return weft_saved_broken("a number is out of its range");
  *out = v;
  return NULL;
}

static weft_status_t *get_bytes(weft_saved_t *s, char kind, weft_str_t *out) {
  uint64_t n = 0;
  WEFT_RETURN_IF_ERROR(get_word(s, kind, &n));
  if (n > s->rest.length) return weft_saved_broken("it ends too early");
  *out = weft_str_of(s->rest.data, (size_t)n);
  s->rest = weft_str_of(s->rest.data + n, s->rest.length - (size_t)n);
  return NULL;
}

weft_status_t *weft_saved_get_string(weft_saved_t *s, weft_str_t *out) { return get_bytes(s, 's', out); }

weft_status_t *weft_saved_get_tensor(weft_saved_t *s, weft_tensor_t **out) {
  weft_str_t proto = WEFT_STR("");
  WEFT_RETURN_IF_ERROR(get_bytes(s, 't', &proto));
  return weft_tensor_from_proto(proto, out);
}

weft_status_t *weft_saved_get_status(weft_saved_t *s, weft_status_t **out) {
  int64_t code = 0;
  weft_str_t text = WEFT_STR("");
  WEFT_RETURN_IF_ERROR(weft_saved_get_int_in(s, 0, 16, &code));
  WEFT_RETURN_IF_ERROR(weft_saved_get_string(s, &text));
  *out = weft_status_from_wire((int)code, text.data, text.length);
  return NULL;
}
