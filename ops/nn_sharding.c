/* ops/nn_sharding.c - factor notation of convolution, pooling, biases and batch norms.
 *
 * b examples, c channels, i and o channels of the input and the output of a filter. Rows and columns of
 * images are whole: parts of them would need their neighbours' edges.
 */
#include "ops/infer.h"
#include "ops/shard.h"

static bool is_channels_first(const weft_shape_ctx_t *c) {
  return weft_str_starts_with(weft_infer_str(c, "data_format"), "NC");
}

/* The spatial dimensions of the filters or images: "__" or "___". */
static const char *space(const weft_shape_ctx_t *c) {
  return weft_infer_list_length(c, "strides") == 5 ? "___" : "__";
}

/* An image: "b__c" or "bc__"; a volume: "b___c" or "bc___". */
static void image(const weft_shape_ctx_t *c, char channel, weft_strbuf_t *out) {
  if (is_channels_first(c))
    weft_strbuf_printf(out, "b%c%s", channel, space(c));
  else
    weft_strbuf_printf(out, "b%s%c", space(c), channel);
}

static int64_t channels(const weft_shape_ctx_t *c, const weft_shape_t *image_shape) {
  return weft_infer_dim(image_shape, is_channels_first(c) ? 1 : -1);
}

/* Which letters a filter has: with groups, a part of the outputs needs a part of the inputs, and both are
 * whole; likewise where the numbers of channels are not known. */
typedef struct filter {
  char in, out;
} filter_t;
static filter_t filter_of(const weft_shape_ctx_t *c, const weft_shape_t *input, const weft_shape_t *filter) {
  int64_t a = channels(c, input), b = weft_infer_dim(filter, -2);
  return a >= 0 && a == b ? (filter_t){'i', 'o'} : (filter_t){'_', '_'};
}

bool weft_shard_conv(const weft_shape_ctx_t *c, weft_strbuf_t *out) {
  filter_t f = filter_of(c, &c->inputs[0], &c->inputs[1]);
  image(c, f.in, out);
  weft_strbuf_printf(out, ",%s%c%c->", space(c), f.in, f.out);
  image(c, f.out, out);
  return true;
}

bool weft_shard_conv_input(const weft_shape_ctx_t *c, weft_strbuf_t *out) {
  filter_t f = filter_of(c, &c->outputs[0], &c->inputs[1]);
  weft_strbuf_putc(out, '[');
  image(c, f.in, out);
  weft_strbuf_printf(out, "],%s%c%c,", space(c), f.in, f.out);
  image(c, f.out, out);
  weft_strbuf_puts(out, "->");
  image(c, f.in, out);
  return true;
}

bool weft_shard_conv_filter(const weft_shape_ctx_t *c, weft_strbuf_t *out) {
  filter_t f = filter_of(c, &c->inputs[0], &c->outputs[0]);
  image(c, f.in, out);
  weft_strbuf_printf(out, ",[%s%c%c],", space(c), f.in, f.out);
  image(c, f.out, out);
  weft_strbuf_printf(out, "->%s%c%c", space(c), f.in, f.out);
  return true;
}

/* Output channel c * multiplier + k is of input channel c: a multiple of the factor. */
bool weft_shard_depthwise(const weft_shape_ctx_t *c, weft_strbuf_t *out) {
  image(c, 'c', out);
  weft_strbuf_puts(out, ",__c_->");
  image(c, 'c', out);
  return true;
}

bool weft_shard_depthwise_input(const weft_shape_ctx_t *c, weft_strbuf_t *out) {
  weft_strbuf_putc(out, '[');
  image(c, 'c', out);
  weft_strbuf_puts(out, "],__c_,");
  image(c, 'c', out);
  weft_strbuf_puts(out, "->");
  image(c, 'c', out);
  return true;
}

bool weft_shard_depthwise_filter(const weft_shape_ctx_t *c, weft_strbuf_t *out) {
  image(c, 'c', out);
  weft_strbuf_puts(out, ",[__c_],");
  image(c, 'c', out);
  weft_strbuf_puts(out, "->__c_");
  return true;
}

/* ---- pooling ---- */

/* Element i of what is an attribute, or in newer versions input `input` or `input` + 1. */
static bool window(const weft_shape_ctx_t *c, const char *name, int input, int i, int64_t *out) {
  bool is_input = weft_op_attr(c->op, weft_str(name)) == NULL;
  if (is_input && (input >= c->num_inputs || !weft_infer_is_known(c, input))) return false;
  *out = is_input ? weft_infer_value(c, input, i) : weft_infer_list_int(c, name, i, 1);
  return true;
}

/* The dimensions that no window spans: examples, which kernels do not pool, and channels if the window is
 * known and is no wider than one. `images`: how many inputs are images. */
static void pooled(const weft_shape_ctx_t *c, int images, char dims[5]) {
  int channel = is_channels_first(c) ? 1 : 3;
  int64_t size = 0, stride = 0;
  memcpy(dims, "b___", 5);
  bool is_known =
      window(c, "ksize", images, channel, &size) && window(c, "strides", images + 1, channel, &stride);
  if (is_known && size == 1 && stride == 1) dims[channel] = 'c';
}

bool weft_shard_pool(const weft_shape_ctx_t *c, weft_strbuf_t *out) {
  char dims[5];
  int images = c->num_inputs;
  if (weft_op_attr(c->op, WEFT_STR("ksize")) == NULL) images -= 2;
  pooled(c, images, dims);
  for (int i = 0; i < c->num_inputs; i++) {
    weft_strbuf_printf(out, "%s%s", i > 0 ? "," : "", i < images ? dims : "");
  }
  weft_strbuf_printf(out, "->%s", dims);
  return true;
}

bool weft_shard_avg_pool_grad(const weft_shape_ctx_t *c, weft_strbuf_t *out) {
  char dims[5];
  pooled(c, 2, dims);
  weft_strbuf_printf(out, "[%s],%s->%s", dims, dims, dims);
  return true;
}

/* Indices count all pixels and channels of an image, so that channels are whole; or those of all images. */
bool weft_shard_pool_argmax(const weft_shape_ctx_t *c, weft_strbuf_t *out) {
  const char *dims = weft_infer_bool(c, "include_batch_in_index") ? "____" : "b___";
  for (int i = 0; i < c->num_inputs; i++) weft_strbuf_printf(out, "%s%s", i > 0 ? "," : "", dims);
  for (int i = 0; i < c->num_outputs; i++) weft_strbuf_printf(out, "%s%s", i > 0 ? "," : "->", dims);
  return true;
}

/* ---- biases, batch norms ---- */

bool weft_shard_bias_add(const weft_shape_ctx_t *c, weft_strbuf_t *out) {
  bool has_format = weft_op_attr(c->op, WEFT_STR("data_format")) != NULL;
  weft_strbuf_puts(out, has_format && is_channels_first(c) ? "bc...,c->bc..." : "...c,c->...c");
  return true;
}

bool weft_shard_bias_add_grad(const weft_shape_ctx_t *c, weft_strbuf_t *out) {
  weft_strbuf_puts(out, is_channels_first(c) ? "bc...->c" : "...c->c");
  return true;
}

/* Statistics are of all examples and pixels; without training they are given, and examples are apart. */
static void norm_image(const weft_shape_ctx_t *c, weft_strbuf_t *out) {
  bool is_training = weft_infer_bool(c, "is_training");
  int pixels = c->inputs[0].rank - 2;
  weft_strbuf_putc(out, is_training ? '_' : 'b');
  if (is_channels_first(c)) weft_strbuf_putc(out, 'c');
  for (int i = 0; i < pixels; i++) weft_strbuf_putc(out, '_');
  if (!is_channels_first(c)) weft_strbuf_putc(out, 'c');
}

/* Statistics have one element for each channel, or none at all. */
static void statistics(const weft_shape_t *s, bool is_same, weft_strbuf_t *out) {
  if (s->rank == 1 && s->dims[0] != 0) weft_strbuf_puts(out, is_same ? "=c" : "c");
}

bool weft_shard_batch_norm(const weft_shape_ctx_t *c, weft_strbuf_t *out) {
  bool is_training = weft_infer_bool(c, "is_training");
  if (c->inputs[0].rank < 4) return false;
  for (int i = 0; i < c->num_inputs; i++) {
    if (i > 0) weft_strbuf_putc(out, ',');
    if (i == 0)
      norm_image(c, out);
    else if (!weft_shape_is_known(&c->inputs[i]))
      return false;
    else
      statistics(&c->inputs[i], false, out);
  }
  for (int i = 0; i < c->num_outputs; i++) {
    weft_strbuf_puts(out, i == 0 ? "->" : ",");
    if (i == 0)
      norm_image(c, out);
    else if (i < 5)
      weft_strbuf_puts(out, is_training ? "c" : "=c"); /* reserve_space_3 is empty */
    else
      weft_strbuf_puts(out, "=");
  }
  return true;
}

/* With training, the gradient of x needs sums over all examples; the gradients of scale and offset are such
 * sums. */
bool weft_shard_batch_norm_grad(const weft_shape_ctx_t *c, weft_strbuf_t *out) {
  if (c->inputs[0].rank < 4) return false;
  for (int i = 0; i < c->num_inputs; i++) {
    if (i > 0) weft_strbuf_putc(out, ',');
    if (i < 2)
      norm_image(c, out);
    else if (!weft_shape_is_known(&c->inputs[i]))
      return false;
    else if (i < 5)
      statistics(&c->inputs[i], false, out);
  }
  weft_strbuf_puts(out, "->");
  norm_image(c, out);
  weft_strbuf_puts(out, ",c,c,=,=");
  return true;
}
