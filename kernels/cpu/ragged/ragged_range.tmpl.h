/* kernels/cpu/ragged/ragged_range.tmpl.h - the rows of RaggedRange in one type of numbers.
 *
 * NUMBER    the type
 * SUFFIX    of the names of the functions
 * IS_WHOLE  1: integers, which wrap
 */
#define RANGE_JOIN_(a, b) a##_##b
#define RANGE_JOIN(a, b) RANGE_JOIN_(a, b)
#define RANGE_FN(name) RANGE_JOIN(name, SUFFIX)

static NUMBER RANGE_FN(element)(const weft_tensor_t *t, int64_t row) {
  return ((const NUMBER *)t->data)[t->shape.rank == 0 ? 0 : row];
}

static weft_status_t *RANGE_FN(count)(const range_args_t *r, int64_t row, int64_t *out) {
  NUMBER start = RANGE_FN(element)(r->starts, row), limit = RANGE_FN(element)(r->limits, row),
         delta = RANGE_FN(element)(r->deltas, row);
#if IS_WHOLE
  return count_whole(r, start, limit, delta, out);
#else
  if (delta == 0) return no_delta();
  *out = 0;
  if ((delta > 0 && limit < start) || (delta < 0 && limit > start)) return NULL;
  NUMBER steps = (limit - start) / delta; /* rounded to the type */
  return take_size(r, ceil(fabs((double)steps)), out);
#endif
}

/* Each number is the one before it and delta, with the rounding errors that this brings. */
static void RANGE_FN(fill)(const range_args_t *r, int64_t row, void *out, int64_t begin, int64_t n) {
  NUMBER value = RANGE_FN(element)(r->starts, row), delta = RANGE_FN(element)(r->deltas, row);
  NUMBER *to = (NUMBER *)out + begin;
  for (int64_t i = 0; i < n; i++) {
    to[i] = value;
#if IS_WHOLE
    value = (NUMBER)((uint64_t)value + (uint64_t)delta);
#else
    value += delta;
#endif
  }
}

#undef RANGE_FN
#undef RANGE_JOIN
#undef RANGE_JOIN_
#undef NUMBER
#undef SUFFIX
#undef IS_WHOLE
