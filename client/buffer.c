/* client/buffer.c - TF_Buffer: bytes and how to free them. */
#include "client/buffer.h"

#include "base/alloc.h"

static void free_data(void *data, size_t length) {
  (void)length;
  weft_free(data);
}

weft_status_t *weft_client_fill(TF_Buffer *out, weft_strbuf_t *from) {
  if (out->data != NULL) {
    weft_strbuf_deinit(from);
    return WEFT_ERROR(INVALID_ARGUMENT, "Passing non-empty TF_Buffer is invalid.");
  }
  char *data = NULL;
  size_t length = 0;
  weft_status_t *s = weft_strbuf_finish(from, &data, &length);
  if (s != NULL) {
    weft_strbuf_deinit(from);
    return s;
  }
  *out = (TF_Buffer){data, length, free_data};
  return NULL;
}

weft_status_t *weft_client_new_buffer(weft_strbuf_t *from, TF_Buffer **out) {
  TF_Buffer *b = TF_NewBuffer();
  if (b == NULL) {
    weft_strbuf_deinit(from);
    return WEFT_NO_MEMORY("a buffer");
  }
  weft_status_t *s = weft_client_fill(b, from);
  if (s != NULL) {
    TF_DeleteBuffer(b);
    return s;
  }
  *out = b;
  return NULL;
}

TF_Buffer *TF_NewBuffer(void) { return weft_calloc(1, sizeof(TF_Buffer)); }

TF_Buffer *TF_NewBufferFromString(const void *proto, size_t proto_len) {
  TF_Buffer *b = TF_NewBuffer();
  void *copy = weft_malloc(proto_len);
  if (b == NULL || copy == NULL) {
    weft_free(b);
    weft_free(copy);
    return NULL;
  }
  if (proto_len > 0) memcpy(copy, proto, proto_len);
  *b = (TF_Buffer){copy, proto_len, free_data};
  return b;
}

void TF_DeleteBuffer(TF_Buffer *buffer) {
  if (buffer == NULL) return;
  if (buffer->data_deallocator != NULL)
    buffer->data_deallocator((void *)(uintptr_t)buffer->data, buffer->length);
  weft_free(buffer);
}

TF_Buffer TF_GetBuffer(TF_Buffer *buffer) { return *buffer; }
