/* kernels/cpu/string/hash.c - strings and tensors as numbers. */
#include <inttypes.h>
#include <stdio.h>

#include "kernels/cpu/loops/common.h"
#include "kernels/cpu/loops/each_row.h"
#include "kernels/cpu/loops/fingerprint.h"

enum { HASH_GRAIN = 512, FINGERPRINT_BYTES = 8 };

typedef struct hash_run {
  const weft_tensor_t *in;
  int64_t *out;
  uint64_t buckets, key[2];
  uint64_t (*hash)(const struct hash_run *r, weft_str_t s);
} hash_run_t;

static uint64_t hash_legacy(const hash_run_t *r, weft_str_t s) {
  (void)r;
  return weft_str_hash64(s);
}

static uint64_t hash_fast(const hash_run_t *r, weft_str_t s) {
  (void)r;
  return weft_fingerprint64(s);
}

static uint64_t hash_strong(const hash_run_t *r, weft_str_t s) { return weft_siphash64(r->key, s); }

static void hash_range(void *arg, int64_t begin, int64_t end) {
  const hash_run_t *r = arg;
  for (int64_t i = begin; i < end; i++) {
    r->out[i] = (int64_t)(r->hash(r, weft_tensor_str_at(r->in, i)) % r->buckets);
  }
}

static weft_status_t *run_hash(weft_kernel_ctx_t *c, hash_run_t *r) {
  weft_tensor_t *out = NULL;
  r->in = weft_in(c, 0);
  WEFT_RETURN_IF_ERROR(weft_out_new(c, 0, WEFT_I64, &r->in->shape, &out));
  r->out = out->data;
  weft_parallel_for(c->device->pool, r->in->count, HASH_GRAIN, hash_range, r);
  return NULL;
}

WEFT_ATTRS_STRUCT(hash_buckets, (INT, num_buckets))
WEFT_ATTRS_OF(to_bucket, hash_buckets)
static weft_status_t *to_bucket(weft_kernel_ctx_t *c, const hash_buckets_attrs_t *attrs) {
  return run_hash(c, &(hash_run_t){.buckets = (uint64_t)attrs->num_buckets, .hash = hash_legacy});
}

WEFT_ATTRS_OF(to_bucket_fast, hash_buckets)
static weft_status_t *to_bucket_fast(weft_kernel_ctx_t *c, const hash_buckets_attrs_t *attrs) {
  return run_hash(c, &(hash_run_t){.buckets = (uint64_t)attrs->num_buckets, .hash = hash_fast});
}

WEFT_ATTRS(to_bucket_strong, (INT, num_buckets), (INTS, key))
static weft_status_t *to_bucket_strong(weft_kernel_ctx_t *c, const to_bucket_strong_attrs_t *attrs) {
  const int64_t *key = attrs->key->list.ints;
  return run_hash(c, &(hash_run_t){.buckets = (uint64_t)attrs->num_buckets,
                                   .hash = hash_strong,
                                   .key = {(uint64_t)key[0], (uint64_t)key[1]}});
}

static weft_status_t *strong_prepare(const weft_kernel_setup_t *setup, void **out_state) {
  const weft_attr_t *key = weft_knode_attr(setup, "key");
  if (key == NULL || key->n != 2) return WEFT_ERROR(INVALID_ARGUMENT, "Key must have 2 elements");
  return weft_attrs_prepare(setup, out_state);
}

/* Of integers with a sign it is the hash of their decimal digits; TensorFlow refuses others. */
WEFT_ATTRS_OF(tensor_to_bucket_fast, hash_buckets)
static weft_status_t *tensor_to_bucket_fast(weft_kernel_ctx_t *c, const hash_buckets_attrs_t *attrs) {
  const weft_tensor_t *in = weft_in(c, 0);
  weft_tensor_t *out = NULL;
  if ((WEFT_SET_SIGNED & WEFT_DTYPE_BIT(in->dtype)) == 0)
    return WEFT_ERROR(INVALID_ARGUMENT, "Type not supported: %s", weft_dtype_name(in->dtype));
  WEFT_RETURN_IF_ERROR(weft_out_new(c, 0, WEFT_I64, &in->shape, &out));
  for (int64_t i = 0; i < in->count; i++) {
    char text[24];
    int n = snprintf(text, sizeof text, "%" PRId64, weft_cpu_int_at(in, i));
    uint64_t hash = weft_fingerprint64(weft_str_of(text, (size_t)n));
    ((int64_t *)out->data)[i] = (int64_t)(hash % (uint64_t)attrs->num_buckets);
  }
  return NULL;
}

/* ---- Fingerprint ---- */

static void put_fingerprint(uint8_t *out, weft_str_t s) {
  uint64_t hash = weft_fingerprint64(s);
  for (int k = 0; k < FINGERPRINT_BYTES; k++) out[k] = (uint8_t)(hash >> (8 * k));
}

/* The fingerprints of n strings, one behind the other. */
static void fingerprint_strings(const weft_tensor_t *in, int64_t first, int64_t n, uint8_t *out) {
  for (int64_t i = 0; i < n; i++)
    put_fingerprint(out + FINGERPRINT_BYTES * i, weft_tensor_str_at(in, first + i));
}

/* Of a row of several strings it is that of their fingerprints. */
static weft_status_t *fingerprint_rows(const weft_tensor_t *in, int64_t rows, int64_t width, uint8_t *out) {
  size_t row_bytes = rows == 0 ? 0 : in->bytes / (size_t)rows;
  uint8_t *strings = NULL;
  if (in->dtype == WEFT_STRING && width == 1) {
    fingerprint_strings(in, 0, rows, out);
    return NULL;
  }
  if (in->dtype == WEFT_STRING) {
    row_bytes = (size_t)width * FINGERPRINT_BYTES;
    strings = weft_malloc(row_bytes + 1);
    if (strings == NULL) return WEFT_NO_MEMORY("the fingerprint of a row");
  }
  for (int64_t i = 0; i < rows; i++) {
    if (strings != NULL) fingerprint_strings(in, i * width, width, strings);
    const char *row =
        strings != NULL ? (const char *)strings : (const char *)in->data + (size_t)i * row_bytes;
    put_fingerprint(out + FINGERPRINT_BYTES * i, weft_str_of(row, row_bytes));
  }
  weft_free(strings);
  return NULL;
}

static weft_status_t *fingerprint(weft_kernel_ctx_t *c) {
  const weft_tensor_t *in = weft_in(c, 0), *method = weft_in(c, 1);
  weft_tensor_t *out = NULL;
  if (method->shape.rank != 0) {
    return WEFT_ERROR(INVALID_ARGUMENT, "`method` should be a scalar string: %s",
                      WEFT_SHAPE_TEXT(&method->shape));
  }
  if (!weft_str_is(weft_tensor_str_at(method, 0), "farmhash64")) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Unsupported fingerprint method: %.*s",
                      WEFT_STR_ARGS(weft_tensor_str_at(method, 0)));
  }
  if (in->shape.rank == 0) {
    return WEFT_ERROR(INVALID_ARGUMENT, "`data` should have at least one dimension: []");
  }
  int64_t rows = in->shape.dims[0];
  weft_shape_t shape = weft_shape_matrix(rows, FINGERPRINT_BYTES);
  WEFT_RETURN_IF_ERROR(weft_out_new(c, 0, WEFT_U8, &shape, &out));
  return fingerprint_rows(in, rows, weft_cpu_product(&in->shape, 1, in->shape.rank), out->data);
}

const weft_kernel_t weft_cpu_string_hash_kernels[] = {
    {.op = "Fingerprint", .compute = fingerprint},
    {.op = "StringToHashBucket", WEFT_COMPUTE(to_bucket)},
    {.op = "StringToHashBucketFast", WEFT_COMPUTE(to_bucket_fast)},
    {.op = "StringToHashBucketStrong", WEFT_COMPUTE_CHECKED(to_bucket_strong, strong_prepare)},
    {.op = "_TensorToHashBucketFast", WEFT_COMPUTE(tensor_to_bucket_fast)},
    {0},
};
