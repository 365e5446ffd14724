/* kernels/cpu/parsing/tensor_text.c - tensors as serialized TensorProtos. */
#include "kernels/cpu/loops/common.h"
#include "tensor/tensor_proto.h"

static weft_status_t *serialize_tensor(weft_kernel_ctx_t *c) {
  weft_strbuf_t text = WEFT_STRBUF_INIT;
  weft_status_t *s = weft_tensor_to_proto(weft_in(c, 0), &text);
  if (s == NULL && text.failed) s = WEFT_NO_MEMORY("serializing a tensor");
  if (s == NULL) s = weft_tensor_string(weft_str_of(text.data, text.length), &c->outputs[0].tensor);
  weft_strbuf_deinit(&text);
  return s;
}

static weft_status_t *parse_tensor(weft_kernel_ctx_t *c) {
  const weft_tensor_t *in = weft_in(c, 0);
  weft_dtype_t wanted = (weft_dtype_t)c->node->output_types[0];
  weft_tensor_t *t = NULL;
  if (in->shape.rank != 0) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Expected `serialized` to be a scalar, got shape: %s",
                      WEFT_SHAPE_TEXT(&in->shape));
  }
  WEFT_RETURN_IF_ERROR(weft_tensor_from_proto(weft_tensor_str_at(in, 0), &t));
  if (t->dtype != wanted) {
    weft_status_t *s = WEFT_ERROR(INVALID_ARGUMENT, "Type mismatch between parsed tensor (%s) and dtype (%s)",
                                  weft_dtype_name(t->dtype), weft_dtype_name(wanted));
    weft_tensor_release(t);
    return s;
  }
  weft_out_set(c, 0, t);
  return NULL;
}

const weft_kernel_t weft_cpu_tensor_text_kernels[] = {
    {.op = "ParseTensor", .compute = parse_tensor},
    {.op = "SerializeTensor", .compute = serialize_tensor},
    {0},
};
