/* strategies/shard.c - the arithmetic of partitioners. */
#include "strategies/shard.h"

#include <math.h>

enum { BYTES_OF_A_STRING = 16, MIN_SHARD_BYTES = 256 << 10, MAX_SHARDS = 1 << 16 };

/* ---- text ---- */

static bool read_number(weft_str_t text, int64_t most, int64_t *out) {
  int shift = 0;
  if (weft_str_ends_with(text, "K")) shift = 10;
  if (weft_str_ends_with(text, "M")) shift = 20;
  if (weft_str_ends_with(text, "G")) shift = 30;
  if (shift > 0) text.length--;
  if (!weft_str_to_i64(text, out) || *out < 1 || *out > most >> shift) return false;
  *out <<= shift;
  return true;
}

static bool read_parts(weft_str_t text, int default_shards, weft_partitioner_t *out) {
  weft_str_t name = text, rest = WEFT_STR(""), first, second = WEFT_STR("");
  if (!weft_str_split(text, ':', &name, &rest)) name = text;
  first = rest;
  bool has_second = weft_str_split(rest, ':', &first, &second);
  if (weft_str_is(name, "fixed")) {
    out->kind = WEFT_PARTITION_FIXED;
    return !has_second && read_number(first, MAX_SHARDS, &out->shards);
  }
  if (weft_str_is(name, "min_size")) {
    out->kind = WEFT_PARTITION_MIN_SIZE;
    out->shards = default_shards > 0 ? default_shards : 1;
    out->bytes = MIN_SHARD_BYTES;
    if (first.length > 0 && !read_number(first, INT64_MAX, &out->bytes)) return false;
    return !has_second || read_number(second, MAX_SHARDS, &out->shards);
  }
  if (!weft_str_is(name, "max_size")) return false;
  out->kind = WEFT_PARTITION_MAX_SIZE;
  return read_number(first, INT64_MAX, &out->bytes) &&
         (!has_second || read_number(second, MAX_SHARDS, &out->shards));
}

weft_status_t *weft_partitioner_parse(weft_str_t text, int default_shards, weft_partitioner_t *out) {
  *out = (weft_partitioner_t){WEFT_PARTITION_NONE, 0, 0};
  if (text.length == 0 || weft_str_is(text, "none") || read_parts(text, default_shards, out)) return NULL;
  *out = (weft_partitioner_t){WEFT_PARTITION_NONE, 0, 0};
  return WEFT_ERROR(
      INVALID_ARGUMENT,
      "'%.*s' does not say how to partition variables: none, fixed:SHARDS, min_size:BYTES[:MOST], "
      "max_size:BYTES[:MOST]",
      WEFT_STR_ARGS(text));
}

/* ---- arithmetic ---- */

static int64_t at_most(int64_t n, int64_t limit) { return n < limit ? n : limit; }

/* In doubles, as in the source: for sizes beyond 2^53 only the limits matter. */
static int64_t for_min_size(const weft_partitioner_t *p, double bytes, int64_t rows) {
  double n = ceil(bytes / (double)p->bytes);
  return n >= (double)rows ? at_most(rows, p->shards) : at_most((int64_t)n, p->shards);
}

static int64_t for_max_size(const weft_partitioner_t *p, double bytes, int64_t rows) {
  double rows_each = floor((double)p->bytes / (bytes / (double)rows)); /* a variable of no bytes: infinite */
  if (!(rows_each >= 1)) rows_each = 1;
  double n = ceil((double)rows / rows_each);
  int64_t shards = n >= (double)rows ? rows : (int64_t)n;
  return p->shards > 0 ? at_most(shards, p->shards) : shards;
}

int64_t weft_partitioner_count(const weft_partitioner_t *p, const weft_shape_t *shape, weft_dtype_t dtype) {
  if (p->kind == WEFT_PARTITION_NONE || !weft_shape_is_known(shape) || shape->rank < 1 || shape->dims[0] < 1)
    return 1;
  int64_t rows = shape->dims[0], n = 1;
  double bytes = (double)(dtype == WEFT_STRING ? BYTES_OF_A_STRING : weft_dtype_size(dtype));
  for (int i = 0; i < shape->rank; i++) bytes *= (double)shape->dims[i];
  switch (p->kind) {
    case WEFT_PARTITION_NONE: break;
    case WEFT_PARTITION_FIXED: n = at_most(p->shards, rows); break;
    case WEFT_PARTITION_MIN_SIZE: n = for_min_size(p, bytes, rows); break;
    case WEFT_PARTITION_MAX_SIZE: n = for_max_size(p, bytes, rows); break;
  }
  return n < 1 ? 1 : n;
}

void weft_shard_rows(int64_t rows, int64_t n, int64_t i, int64_t *out_begin, int64_t *out_rows) {
  int64_t each = rows / n, longer = rows % n;
  *out_begin = i * each + (i < longer ? i : longer);
  *out_rows = each + (i < longer ? 1 : 0);
}
