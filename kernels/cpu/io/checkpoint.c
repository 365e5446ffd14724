/* kernels/cpu/io/checkpoint.c - saving variables in TensorFlow's second checkpoint format, and restoring them
 * from both. */
#include <inttypes.h>

#include "base/alloc.h"
#include "io/bundle.h"
#include "io/checkpoint_v1.h"
#include "kernels/cpu/loops/common.h"
#include "kernels/kernel.h"

/* prefix is a scalar string, tensor_names and shape_and_slices are vectors of equal length. */
static weft_status_t *check_inputs(const weft_kernel_ctx_t *c) {
  const weft_tensor_t *prefix = weft_in(c, 0), *names = weft_in(c, 1), *slices = weft_in(c, 2);
  if (prefix->count != 1) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Input prefix should have a single element, got %" PRId64 " instead.",
                      prefix->count);
  }
  if (names->shape.rank != 1 || slices->shape.rank != 1) {
    return WEFT_ERROR(
        INVALID_ARGUMENT,
        "Input tensor_names and shape_and_slices should be an 1-D tensors, got %s and %s instead.",
        WEFT_SHAPE_TEXT(&names->shape), WEFT_SHAPE_TEXT(&slices->shape));
  }
  if (names->count != slices->count) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "tensor_names and shape_and_slices have different number of elements: %" PRId64
                      " vs. %" PRId64,
                      names->count, slices->count);
  }
  return NULL;
}

static weft_status_t *save_one(weft_bundle_writer_t *w, weft_str_t name, weft_str_t spec,
                               const weft_tensor_t *t) {
  weft_shape_t full, shape;
  weft_tensor_slice_t slice;
  if (spec.length == 0) return weft_bundle_writer_add(w, name, t);
  WEFT_RETURN_IF_ERROR(weft_tensor_slice_parse(spec, &full, &slice, &shape));
  if (!weft_shape_eq(&shape, &t->shape)) {
    return WEFT_ERROR(
        INVALID_ARGUMENT,
        "Slice in shape_and_slice specification does not match the shape of the tensor to  save: %.*s, "
        "tensor: %s",
        WEFT_STR_ARGS(spec), WEFT_SHAPE_TEXT(&t->shape));
  }
  return weft_bundle_writer_add_slice(w, name, &full, &slice, t);
}

/* TensorFlow keeps callbacks for checkpoints in the default container. Here there are none, but the container
 * exists. */
static weft_status_t *add_container(weft_kernel_ctx_t *c) {
  return weft_resource_add_container(c->device->resources, WEFT_STR(""));
}

static weft_status_t *save_v2(weft_kernel_ctx_t *c) {
  enum { FIXED = 3 };
  int64_t n = c->node->num_inputs - FIXED;
  weft_bundle_writer_t *w = NULL;
  WEFT_RETURN_IF_ERROR(check_inputs(c));
  if (weft_in(c, 1)->count != n) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Got %" PRId64 " tensor names but %" PRId64 " tensors.",
                      weft_in(c, 1)->count, n);
  }
  weft_status_t *s = weft_bundle_writer_create(weft_tensor_str_at(weft_in(c, 0), 0), &w);
  for (int64_t i = 0; s == NULL && i < n; i++) {
    s = save_one(w, weft_tensor_str_at(weft_in(c, 1), i), weft_tensor_str_at(weft_in(c, 2), i),
                 weft_in(c, (int)i + FIXED));
  }
  if (s != NULL) {
    weft_bundle_writer_abandon(w);
    return s;
  }
  s = weft_bundle_writer_finish(w);
  return s != NULL ? s : add_container(c);
}

static weft_status_t *restore_one(weft_bundle_reader_t *r, weft_str_t name, weft_str_t spec,
                                  weft_dtype_t dtype, weft_tensor_t **out) {
  weft_dtype_t stored;
  weft_shape_t stored_shape, full, shape;
  weft_tensor_slice_t slice;
  WEFT_RETURN_IF_ERROR(weft_bundle_reader_lookup(r, name, &stored, &stored_shape));
  if (stored != dtype) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "tensor_name = %.*s; expected dtype %s does not equal original dtype %s",
                      WEFT_STR_ARGS(name), weft_dtype_name(dtype), weft_dtype_name(stored));
  }
  if (spec.length == 0) return weft_bundle_reader_read(r, name, out);
  WEFT_RETURN_IF_ERROR(weft_tensor_slice_parse(spec, &full, &slice, &shape));
  if (!weft_shape_eq(&full, &stored_shape)) {
    return WEFT_ERROR(
        INVALID_ARGUMENT,
        "tensor_name = %.*s; shape in shape_and_slice spec %s does not match the shape stored in "
        "checkpoint: %s",
        WEFT_STR_ARGS(name), WEFT_SHAPE_TEXT(&full), WEFT_SHAPE_TEXT(&stored_shape));
  }
  return weft_bundle_reader_read_slice(r, name, &slice, out);
}

typedef struct wanted {
  weft_str_t name, spec;
  weft_dtype_t dtype;
  weft_tensor_t **out;
} wanted_t;

static wanted_t wanted_at(weft_kernel_ctx_t *c, int i) {
  return (wanted_t){weft_tensor_str_at(weft_in(c, 1), i), weft_tensor_str_at(weft_in(c, 2), i),
                    weft_dtype_base(c->node->output_types[i]), &c->outputs[i].tensor};
}

/* A prefix without an index may be a file of the first format, or a pattern for several. */
static weft_status_t *restore_first_format(weft_kernel_ctx_t *c, weft_str_t prefix) {
  weft_checkpoint_v1_reader_t *r = NULL;
  weft_status_t *s = weft_checkpoint_v1_reader_open(prefix, -1, &r);
  for (int i = 0; s == NULL && i < c->node->num_outputs; i++) {
    wanted_t w = wanted_at(c, i);
    s = weft_checkpoint_v1_reader_restore(r, w.name, w.spec, w.dtype, w.out);
  }
  weft_checkpoint_v1_reader_close(r);
  return s;
}

static weft_status_t *restore_v2(weft_kernel_ctx_t *c) {
  weft_bundle_reader_t *r = NULL;
  if (weft_in(c, 1)->count != c->node->num_outputs) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Got %" PRId64 " tensor names, but %d expected dtypes.",
                      weft_in(c, 1)->count, c->node->num_outputs);
  }
  WEFT_RETURN_IF_ERROR(check_inputs(c));
  weft_str_t prefix = weft_tensor_str_at(weft_in(c, 0), 0);
  weft_status_t *s = weft_bundle_reader_open(prefix, &r);
  if (weft_status_code(s) == WEFT_NOT_FOUND) {
    weft_status_free(s);
    return restore_first_format(c, prefix);
  }
  for (int i = 0; s == NULL && i < c->node->num_outputs; i++) {
    wanted_t w = wanted_at(c, i);
    s = restore_one(r, w.name, w.spec, w.dtype, w.out);
  }
  weft_bundle_reader_close(r);
  return s != NULL ? s : add_container(c);
}

WEFT_ATTRS(merge_v2, (BOOL, delete_old_dirs), (BOOL, allow_missing_files))
static weft_status_t *merge_v2(weft_kernel_ctx_t *c, const merge_v2_attrs_t *attrs) {
  const weft_tensor_t *prefixes = weft_in(c, 0), *destination = weft_in(c, 1);
  if (prefixes->shape.rank != 1) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Input checkpoint_prefixes should be an 1-D tensor, got %s instead.",
                      WEFT_SHAPE_TEXT(&prefixes->shape));
  }
  if (destination->shape.rank != 0) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Input destination_prefix should be a scalar tensor, got %s instead.",
                      WEFT_SHAPE_TEXT(&destination->shape));
  }
  weft_str_t *names = weft_calloc((size_t)prefixes->count + 1, sizeof *names);
  if (names == NULL) return WEFT_NO_MEMORY("merging %" PRId64 " checkpoints", prefixes->count);
  for (int64_t i = 0; i < prefixes->count; i++) names[i] = weft_tensor_str_at(prefixes, i);
  weft_status_t *s = weft_bundle_merge(names, (size_t)prefixes->count, weft_tensor_str_at(destination, 0),
                                       attrs->delete_old_dirs, attrs->allow_missing_files);
  weft_free(names);
  if (weft_status_code(s) == WEFT_NOT_FOUND && !attrs->allow_missing_files) {
    weft_status_t *told =
        WEFT_ERROR(INVALID_ARGUMENT, "allow_missing_files was set to false and a file did not exist: %s",
                   weft_status_message(s));
    weft_status_free(s);
    return told;
  }
  return s;
}

/* ---- names of shards ---- */

static weft_status_t *scalar_inputs(const weft_kernel_ctx_t *c) {
  for (int i = 0; i < c->node->num_inputs; i++) {
    if (weft_in(c, i)->count == 1) continue;
    return WEFT_ERROR(INVALID_ARGUMENT, "%.*s must be a scalar, got shape %s",
                      WEFT_STR_ARGS(c->node->op->inputs[i].name), WEFT_SHAPE_TEXT(&weft_in(c, i)->shape));
  }
  return NULL;
}

static weft_status_t *set_text(weft_kernel_ctx_t *c, weft_strbuf_t *text) {
  weft_status_t *s = text->failed
                         ? WEFT_NO_MEMORY("naming a shard")
                         : weft_tensor_string(weft_str_of(text->data, text->length), &c->outputs[0].tensor);
  weft_strbuf_deinit(text);
  return s;
}

static int32_t number(const weft_kernel_ctx_t *c, int i) { return *(const int32_t *)weft_in(c, i)->data; }

static weft_status_t *sharded_filename(weft_kernel_ctx_t *c) {
  weft_strbuf_t text = WEFT_STRBUF_INIT;
  WEFT_RETURN_IF_ERROR(scalar_inputs(c));
  weft_strbuf_printf(&text, "%.*s-%05" PRId32 "-of-%05" PRId32,
                     WEFT_STR_ARGS(weft_tensor_str_at(weft_in(c, 0), 0)), number(c, 1), number(c, 2));
  return set_text(c, &text);
}

static weft_status_t *sharded_filespec(weft_kernel_ctx_t *c) {
  weft_strbuf_t text = WEFT_STRBUF_INIT;
  WEFT_RETURN_IF_ERROR(scalar_inputs(c));
  weft_strbuf_printf(&text, "%.*s-\?\?\?\?\?-of-%05" PRId32,
                     WEFT_STR_ARGS(weft_tensor_str_at(weft_in(c, 0), 0)), number(c, 1));
  return set_text(c, &text);
}

const weft_kernel_t weft_cpu_checkpoint_kernels[] = {
    {.op = "MergeV2Checkpoints", WEFT_COMPUTE(merge_v2)},
    {.op = "RestoreV2", .compute = restore_v2},
    {.op = "SaveV2", .compute = save_v2},
    {.op = "ShardedFilename", .compute = sharded_filename},
    {.op = "ShardedFilespec", .compute = sharded_filespec},
    {0},
};
