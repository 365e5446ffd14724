/* tensor/tensor_proto.h - tensors as TensorFlow sends and stores them: TensorProto.
 *
 * Decoding takes the serialized message straight into a tensor, without
 * generated code between; what TensorFlow's decoder accepts is accepted:
 * tensor_content (also of strings: lengths, then bytes), or the typed fields,
 * where elements beyond those given repeat the last one and missing ones are
 * zero. Nothing is allocated before the message is known to be able to fill it.
 * A shape that asks for more than WEFT_TENSOR_PROTO_MAX_FILL bytes than the
 * message brings is refused: a hundred bytes must not cost a server terabytes.
 *
 * Encoding writes dtype, tensor_shape and tensor_content; strings go to
 * string_val, handles to resource_handle_val. For large tensors the part before
 * the payload can be written alone, and the payload sent from where it lies.
 */
#ifndef WEFT_TENSOR_TENSOR_PROTO_H_
#define WEFT_TENSOR_TENSOR_PROTO_H_

#include "tensor/shape_proto.h"
#include "tensor/tensor.h"

/* Bytes that a message may make us fill by repeating its last element (or zero), per tensor. */
#define WEFT_TENSOR_PROTO_MAX_FILL ((size_t)1 << 30)

/* Decodes a serialized TensorProto into CPU memory; `bytes` are copied once. The caller owns one reference.
 * Errors: INVALID_ARGUMENT "Cannot parse tensor from proto: ..." for anything malformed, any mismatch of
 * size, a shape that is too large, a type that does not exist; UNIMPLEMENTED for TensorFlow's types that we
 * lack and for variants that are no packs (tensor/pack.h); RESOURCE_EXHAUSTED. Thread-safe. */
WEFT_MUST_CHECK weft_status_t *weft_tensor_from_proto(weft_str_t bytes, weft_tensor_t **out);

/* The same, but a tensor_content of WEFT_TENSOR_PROTO_MIN_SHARE bytes and more that lies aligned to its
 * elements is not copied. Then *out_shared is true, and dealloc(data, bytes, arg) will be called once when
 * the tensor's bytes are no longer needed, on any thread; until then `bytes` must stay as they are. Otherwise
 * *out_shared is false, dealloc is never called, and `bytes` are the caller's again. On an error nothing was
 * taken. */
enum {
  WEFT_TENSOR_PROTO_MIN_SHARE = 1024
}; /* below, a copy is cheaper than keeping the whole message alive */
WEFT_MUST_CHECK weft_status_t *weft_tensor_from_proto_shared(weft_str_t bytes, weft_dealloc_fn *dealloc,
                                                             void *arg, bool *out_shared,
                                                             weft_tensor_t **out);

/* What a message says before one looks at the values. */
typedef struct weft_tensor_head {
  weft_dtype_t dtype;
  weft_shape_t shape; /* fully known */
  int64_t count;      /* elements */
  weft_str_t content; /* tensor_content, lent; empty if the values are in a typed field */
} weft_tensor_head_t;
WEFT_MUST_CHECK weft_status_t *weft_tensor_proto_read_head(weft_str_t bytes, weft_tensor_head_t *out);

/* For messages that arrive in pieces: looks only at the first `prefix` of `total` bytes. True if these tell
 * dtype and shape, the dtype is plain, and the rest, from *payload_at to the end, is exactly the tensor's
 * bytes: then they can be received straight into a new tensor (out->content is empty). False: put the message
 * together and decode it whole, which also finds what is wrong with it. */
bool weft_tensor_proto_peek(weft_str_t prefix, size_t total, weft_tensor_head_t *out, size_t *payload_at);

/* Appends the message. Host memory only.
 * Errors: UNIMPLEMENTED for a variant that is no pack; RESOURCE_EXHAUSTED. */
WEFT_MUST_CHECK weft_status_t *weft_tensor_to_proto(const weft_tensor_t *t, weft_strbuf_t *out);
/* The same, but strings go to tensor_content, too: as TensorFlow's Tensor::AsProtoTensorContent. */
WEFT_MUST_CHECK weft_status_t *weft_tensor_to_proto_content(const weft_tensor_t *t, weft_strbuf_t *out);
/* Exactly the bytes that weft_tensor_to_proto() appends. */
size_t weft_tensor_proto_size(const weft_tensor_t *t);
/* For plain dtypes: everything before the payload; t->data's t->bytes bytes must follow. The bytes may lie on
 * a device. */
void weft_tensor_proto_header(const weft_tensor_t *t, weft_strbuf_t *out);

/* ---- variants alone, as checkpoints store them: VariantTensorDataProto ---- */
/* Appends the message of element i of a variant tensor. Errors: UNIMPLEMENTED for one that is no pack. */
WEFT_MUST_CHECK weft_status_t *weft_tensor_variant_to_proto(const weft_tensor_t *t, int64_t i,
                                                            weft_strbuf_t *out);
/* Sets the element. Errors: INVALID_ARGUMENT, UNIMPLEMENTED, RESOURCE_EXHAUSTED. */
WEFT_MUST_CHECK weft_status_t *weft_tensor_variant_from_proto(weft_tensor_t *t, int64_t i, weft_str_t bytes);

/* ---- values alone, as checkpoints of the first format store them: one typed field; dtype and shape stand
 * elsewhere ---- */
/* Errors: INVALID_ARGUMENT (malformed, or fewer elements than `shape` has), RESOURCE_EXHAUSTED. */
WEFT_MUST_CHECK weft_status_t *weft_tensor_from_proto_values(weft_str_t bytes, weft_dtype_t dtype,
                                                             const weft_shape_t *shape, weft_tensor_t **out);
/* Appends the message. Errors: as weft_tensor_to_proto(). */
WEFT_MUST_CHECK weft_status_t *weft_tensor_to_proto_values(const weft_tensor_t *t, weft_strbuf_t *out);

#endif /* WEFT_TENSOR_TENSOR_PROTO_H_ */
