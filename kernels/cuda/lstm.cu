/* kernels/cuda/lstm.cu - what stands between the products of a layer of long short-term memory and of its
 * gradient. The formulas are those of kernels/cpu/rnn/lstm_one.tmpl.h; half is rounded where it is stored. */
#include "kernels/cuda/lstm_args.h"
#include "kernels/cuda/types.h"
#include "kernels/cuda/unary_functions.cuh"

namespace weft {

enum { I = WEFT_CUDA_LSTM_I, C = WEFT_CUDA_LSTM_C, F = WEFT_CUDA_LSTM_F, O = WEFT_CUDA_LSTM_O };

template <class T>
WEFT_FN float element(const void *from, int64_t i) {
  return load(((const T *)from)[i]);
}
template <class T>
WEFT_FN void put(void *to, int64_t i, float v) {
  store(&((T *)to)[i], v);
}

/* All results of a step. */
template <class T>
WEFT_FN void lstm_step(const weft_cuda_lstm_t &s) {
  for (int64_t k = first_index(); k < s.batch * s.cell; k += index_step()) {
    const int64_t row = k / s.cell, c = k - row * s.cell;
    float gate[WEFT_CUDA_LSTM_GATES];
    WEFT_UNROLL
    for (int g = 0; g < WEFT_CUDA_LSTM_GATES; g++) {
      const int64_t at = s.gate_at[g] + c, product = row * 4 * s.cell + at;
      gate[g] = element<T>(s.from_x, product) + element<T>(s.from_h, product) + element<T>(s.b, at);
    }
    const float before = element<T>(s.cs_prev, k);
    gate[F] += s.forget_bias;
    if (s.use_peephole != 0) {
      gate[I] += before * element<T>(s.peep[I], c);
      gate[F] += before * element<T>(s.peep[F], c);
    }
    const float i = Sigmoid::of<float>(gate[I]), f = Sigmoid::of<float>(gate[F]),
                ci = Tanh::of<float>(gate[C]);
    float cs = i * ci + f * before;
    if (s.cell_clip > 0) {
      cs = cs < -s.cell_clip ? -s.cell_clip : cs;
      cs = s.cell_clip < cs ? s.cell_clip : cs;
    }
    const float co = Tanh::of<float>(cs);
    if (s.use_peephole != 0) gate[O] += cs * element<T>(s.peep[O], c);
    const float o = Sigmoid::of<float>(gate[O]);
    put<T>(s.i, k, i);
    put<T>(s.cs, k, cs);
    put<T>(s.f, k, f);
    put<T>(s.o, k, o);
    put<T>(s.ci, k, ci);
    put<T>(s.co, k, co);
    put<T>(s.h, k, o * co);
  }
}

/* The gradients of the gates and of the state before. */
template <class T>
WEFT_FN void lstm_step_gradient(const weft_cuda_lstm_t &s) {
  for (int64_t k = first_index(); k < s.batch * s.cell; k += index_step()) {
    const int64_t row = k / s.cell, c = k - row * s.cell;
    const float i = element<T>(s.i, k), f = element<T>(s.f, k), o = element<T>(s.o, k),
                ci = element<T>(s.ci, k), co = element<T>(s.co, k);
    float dh = element<T>(s.h_grad, k), dcs = element<T>(s.cs_grad, k), gate[WEFT_CUDA_LSTM_GATES];
    if (s.h_next != nullptr) {
      dh = element<T>(s.h_next, k) + dh;
      dcs = element<T>(s.cs_next, k) + dcs;
    }
    gate[O] = o * (1.0f - o) * dh * co;
    dcs = (1.0f - co * co) * dh * o + dcs;
    if (s.use_peephole != 0) dcs += gate[O] * element<T>(s.peep[O], c);
    gate[C] = (1.0f - ci * ci) * dcs * i;
    gate[F] = f * (1.0f - f) * dcs * element<T>(s.cs_prev, k);
    gate[I] = i * (1.0f - i) * dcs * ci;
    WEFT_UNROLL
    for (int g = 0; g < WEFT_CUDA_LSTM_GATES; g++)
      put<T>(s.gates, row * 4 * s.cell + s.gate_at[g] + c, gate[g]);
    float before = dcs * f;
    if (s.use_peephole != 0)
      before = before + gate[I] * element<T>(s.peep[I], c) + gate[F] * element<T>(s.peep[F], c);
    put<T>(s.cs_prev_grad, k, before);
  }
}

/* A block has 32 columns at a time, of each of which 8 threads sum every eighth row. */
template <class T>
WEFT_FN void lstm_sums(const weft_cuda_lstm_sums_t &s) {
  const int columns = 32, sharers = WEFT_CUDA_BLOCK / columns;
  WEFT_CUDA_SHARED(float, biases, WEFT_CUDA_BLOCK);
  WEFT_CUDA_SHARED(float, peeps, WEFT_CUDA_BLOCK);
  const int t = (int)threadIdx.x, sharer = t / columns;
  for (int64_t first = (int64_t)blockIdx.x * columns; first < 4 * s.cell;
       first += (int64_t)gridDim.x * columns) {
    const int64_t column = first + t % columns, slot = column / s.cell, c = column - slot * s.cell;
    const bool is_column = column < 4 * s.cell;
    const int gate = is_column ? s.gate_of[slot] : C;
    const bool has_peephole = s.peep_grad[gate] != nullptr;
    float bias = 0, peep = 0;
    for (int64_t r = sharer; is_column && r < s.rows; r += sharers) {
      const float d = element<T>(s.gates, r * 4 * s.cell + column);
      bias += d;
      if (!has_peephole) continue;
      const int64_t at = r * s.cell + c, of_step = s.batch * s.cell;
      peep += d * (gate == O      ? element<T>(s.cs, at)
                   : at < of_step ? element<T>(s.cs_prev, at)
                                  : element<T>(s.cs, at - of_step));
    }
    biases[t] = bias;
    peeps[t] = peep;
    __syncthreads();
    for (int half = sharers / 2; half > 0; half /= 2) {
      if (sharer < half) {
        biases[t] += biases[t + half * columns];
        peeps[t] += peeps[t + half * columns];
      }
      __syncthreads();
    }
    if (sharer == 0 && is_column) {
      if (s.b_grad != nullptr) put<T>(s.b_grad, column, biases[t]);
      if (has_peephole) put<T>(s.peep_grad[gate], c, peeps[t]);
    }
    __syncthreads(); /* before the next columns use the memory */
  }
}

}  // namespace weft

#define LSTM(f, type)                                                                               \
  WEFT_CUDA_KERNEL(weft_lstm_step_##type, (weft_cuda_lstm_t s)) { weft::lstm_step<weft::type>(s); } \
  WEFT_CUDA_KERNEL(weft_lstm_step_gradient_##type, (weft_cuda_lstm_t s)) {                          \
    weft::lstm_step_gradient<weft::type>(s);                                                        \
  }                                                                                                 \
  WEFT_CUDA_BLOCK_KERNEL(weft_lstm_sums_##type, (weft_cuda_lstm_sums_t s)) { weft::lstm_sums<weft::type>(s); }
LSTM(, f16)
LSTM(, f32)
