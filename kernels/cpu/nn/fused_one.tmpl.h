/* kernels/cpu/nn/fused_one.tmpl.h - what follows a convolution or a product, for one element type: rows
 * [begin, end), each of elements of one channel. */
static void WEFT_CAT(fused, SUFFIX)(void *arg, int64_t begin, int64_t end) {
  const fused_job_t *j = arg;
  const fused_state_t *s = j->how;
  for (int64_t r = begin; r < end; r++) {
    const int64_t c = r % j->channels;
    ELEM *y = (ELEM *)j->y + r * j->inner;
    const ELEM *addend = s->has_addend ? (const ELEM *)j->addend + r * j->inner : NULL;
    COMP shift = 0, mean = 0, factor = 1;
    if (s->has_bias) shift = LOAD(((const ELEM *)j->bias)[c]);
    if (s->has_norm) {
      shift = LOAD(((const ELEM *)j->offset)[c]);
      mean = LOAD(((const ELEM *)j->mean)[c]);
      factor = LOAD(((const ELEM *)j->scale)[c]) /
               (COMP)sqrt((double)(LOAD(((const ELEM *)j->variance)[c]) + (COMP)s->epsilon));
    }
    for (int64_t i = 0; i < j->inner; i++) {
      COMP v = (LOAD(y[i]) - mean) * factor + shift;
      if (addend != NULL) v += LOAD(addend[i]);
      y[i] = STORE((COMP)activated(s->activation, (double)v, (double)s->alpha));
    }
  }
}
