/* kernels/cpu/rnn/lstm_one.tmpl.h - one time step of an LSTM layer between its matrix products, in one type.
 *
 * Parameters, undefined below:
 *   LSTM_STEM        functions are STEM_forward ...
 *   LSTM_ELEM        the type of elements
 *   LSTM_LOAD(x), LSTM_STORE(x)   between that type and float
 *   LSTM_ROUND(x)    the nearest value that the element type has, after every operation
 *   LSTM_SIGMOID(x)
 */
#define NAME(x) WEFT_CAT(LSTM_STEM, x)
#define R(x) LSTM_ROUND(x)
#define AT(p, i) LSTM_LOAD(((const LSTM_ELEM *)(p))[i])
#define PUT(p, i, x) (((LSTM_ELEM *)(p))[i] = LSTM_STORE(x))

/* Rows of the batch [begin, end): from products in j->gates to all results. */
static void NAME(forward)(void *arg, int64_t begin, int64_t end) {
  const lstm_job_t *j = arg;
  const lstm_step_t *s = &j->step;
  const int64_t cell = j->cell;
  const float forget_bias = R(j->forget_bias), clip = R(j->cell_clip);
  for (int64_t k = begin * cell; k < end * cell; k++) {
    const int64_t c = k % cell, row = k / cell * 4 * cell;
    float gate[LSTM_GATES];
    for (int g = 0; g < LSTM_GATES; g++) {
      const int64_t at = j->gate_at[g] * cell + c;
      gate[g] = R(AT(j->gates, row + at) + AT(j->b, at));
    }
    const float before = AT(s->cs_prev, k);
    gate[LSTM_F] = R(gate[LSTM_F] + forget_bias);
    if (j->use_peephole) {
      gate[LSTM_I] = R(gate[LSTM_I] + R(before * AT(j->peep[LSTM_I], c)));
      gate[LSTM_F] = R(gate[LSTM_F] + R(before * AT(j->peep[LSTM_F], c)));
    }
    const float i = LSTM_SIGMOID(gate[LSTM_I]), f = LSTM_SIGMOID(gate[LSTM_F]);
    const float ci = R(weft_tanh_f32(gate[LSTM_C]));
    float cs = R(R(i * ci) + R(f * before));
    if (j->cell_clip > 0) {
      cs = cs < -clip ? -clip : cs;
      cs = clip < cs ? clip : cs;
    }
    const float co = R(weft_tanh_f32(cs));
    if (j->use_peephole) gate[LSTM_O] = R(gate[LSTM_O] + R(cs * AT(j->peep[LSTM_O], c)));
    const float o = LSTM_SIGMOID(gate[LSTM_O]);
    PUT(s->i, k, i);
    PUT(s->cs, k, cs);
    PUT(s->f, k, f);
    PUT(s->o, k, o);
    PUT(s->ci, k, ci);
    PUT(s->co, k, co);
    PUT(s->h, k, R(o * co));
  }
}

/* Rows of the batch [begin, end): gradients of the gates and of the state before. */
static void NAME(backward)(void *arg, int64_t begin, int64_t end) {
  const lstm_job_t *j = arg;
  const lstm_step_t *s = &j->step;
  const int64_t cell = j->cell;
  for (int64_t k = begin * cell; k < end * cell; k++) {
    const int64_t c = k % cell, row = k / cell * 4 * cell;
    const float i = AT(s->i, k), f = AT(s->f, k), o = AT(s->o, k), ci = AT(s->ci, k), co = AT(s->co, k);
    float dh = AT(s->h_grad, k), dcs = AT(s->cs_grad, k), gate[LSTM_GATES];
    if (s->h_next != NULL) {
      dh = R(AT(s->h_next, k) + dh);
      dcs = R(AT(s->cs_next, k) + dcs);
    }
    gate[LSTM_O] = R(R(R(o * R(1.0f - o)) * dh) * co);
    dcs = R(R(R(R(1.0f - R(co * co)) * dh) * o) + dcs);
    if (j->use_peephole) dcs = R(dcs + R(gate[LSTM_O] * AT(j->peep[LSTM_O], c)));
    gate[LSTM_C] = R(R(R(1.0f - R(ci * ci)) * dcs) * i);
    gate[LSTM_F] = R(R(R(f * R(1.0f - f)) * dcs) * AT(s->cs_prev, k));
    gate[LSTM_I] = R(R(R(i * R(1.0f - i)) * dcs) * ci);
    for (int g = 0; g < LSTM_GATES; g++) PUT(j->gates, row + j->gate_at[g] * cell + c, gate[g]);
    float before = R(dcs * f);
    if (j->use_peephole) {
      before =
          R(R(before + R(gate[LSTM_I] * AT(j->peep[LSTM_I], c))) + R(gate[LSTM_F] * AT(j->peep[LSTM_F], c)));
    }
    PUT(s->cs_prev_grad, k, before);
  }
}

/* Columns [begin, end) of the four gates: adds up what the rows of the batch give the bias and the peepholes.
 * The sum of one step is rounded and then added, as if all elements were of that type. */
static void NAME(weights)(void *arg, int64_t begin, int64_t end) {
  const lstm_job_t *j = arg;
  const lstm_step_t *s = &j->step;
  const int64_t cell = j->cell;
  for (int64_t c = begin; c < end; c++) {
    for (int g = 0; g < LSTM_GATES; g++) {
      const void *seen = g == LSTM_O ? s->cs : s->cs_prev;
      const int64_t at = j->gate_at[g] * cell + c;
      float bias = 0, peep = 0;
      for (int64_t r = 0; r < j->batch; r++) {
        const float d = AT(j->gates, r * 4 * cell + at);
        bias += d;
        peep += R(d * AT(seen, r * cell + c));
      }
      if (j->b_grad != NULL) PUT(j->b_grad, at, R(AT(j->b_grad, at) + R(bias)));
      if (j->use_peephole && g != LSTM_C) PUT(j->peep_grad[g], c, R(AT(j->peep_grad[g], c) + R(peep)));
    }
  }
}

#undef NAME
#undef R
#undef AT
#undef PUT
#undef LSTM_STEM
#undef LSTM_ELEM
#undef LSTM_LOAD
#undef LSTM_STORE
#undef LSTM_ROUND
#undef LSTM_SIGMOID
