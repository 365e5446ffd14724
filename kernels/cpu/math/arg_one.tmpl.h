/* kernels/cpu/math/arg_one.tmpl.h - where the best element of a line is, the first among equals. Included
 * once for the largest and once for the smallest:
 *
 *   ARG_STEM     the functions' stem
 *   ARG_BEATS    > or <
 *   ARG_UPDATE   the update whose identity the search starts from
 *
 * As in TensorFlow, that is the lowest (ArgMin: the highest) finite number and index 0, so a NaN is passed
 * over, and a line without an element beyond that number gives 0.
 *
 * The elements of a line that lie side by side are compared 32 at a time, each with the best of its column,
 * so that the compiler makes vectors of them; the first one that equals the best of all is looked for after
 * that.
 */
#define ARG_LINE WEFT_CAT(ARG_STEM, WEFT_CAT(line, SUFFIX))
static int64_t ARG_LINE(const ELEM *p, int64_t n, COMP start) {
  COMP column[32], best = start;
  for (int k = 0; k < 32; k++) column[k] = start;
  int64_t i = 0;
  for (; i + 32 <= n; i += 32) {
    for (int k = 0; k < 32; k++) {
      const COMP v = LOAD(p[i + k]);
      column[k] = v ARG_BEATS column[k] ? v : column[k];
    }
  }
  for (; i < n; i++) {
    const COMP v = LOAD(p[i]);
    if (v ARG_BEATS best) best = v;
  }
  for (int k = 0; k < 32; k++) best = column[k] ARG_BEATS best ? column[k] : best;
  if (!(best ARG_BEATS start)) return 0;
  int64_t at = 0;
  for (; at + 32 <= n; at += 32) {
    int found = 0;
    for (int k = 0; k < 32; k++) found |= LOAD(p[at + k]) == best;
    if (found) break;
  }
  while (LOAD(p[at]) != best) at++; /* it is there */
  return at;
}

static void WEFT_CAT(ARG_STEM, SUFFIX)(const scan_job_t *j, int64_t begin, int64_t end) {
  const ELEM *x = j->x;
  ELEM start;
  weft_update_identity(ARG_UPDATE, ELEM_ID, 1, &start);
  for (int64_t line = begin; line < end; line++) {
    const ELEM *p = x + line / j->inner * j->axis * j->inner + line % j->inner;
    if (j->inner == 1 && j->axis >= 32) {
      put_index(j, line, ARG_LINE(p, j->axis, LOAD(start)));
      continue;
    }
    COMP best = LOAD(start);
    int64_t where = 0;
    for (int64_t i = 0; i < j->axis; i++) {
      const COMP v = LOAD(p[i * j->inner]);
      if (v ARG_BEATS best) {
        best = v;
        where = i;
      }
    }
    put_index(j, line, where);
  }
}
#undef ARG_LINE
