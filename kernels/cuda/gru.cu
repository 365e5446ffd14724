/* kernels/cuda/gru.cu - what stands between the products of a gated recurrent unit and of its gradient. The
 * formulas are those of kernels/cpu/rnn/gru.c. */
#include "kernels/cuda/gru_args.h"
#include "kernels/cuda/unary_functions.cuh"

using namespace weft;

/* xh = [x, h_prev], row by row. */
WEFT_CUDA_KERNEL(weft_gru_join, (weft_cuda_gru_t g)) {
  const int64_t width = g.input + g.cell;
  for (int64_t i = first_index(); i < g.batch * width; i += index_step()) {
    const int64_t b = i / width, k = i % width;
    g.xh[i] = k < g.input ? g.x[b * g.input + k] : g.h_prev[b * g.cell + k - g.input];
  }
}

/* r and u from their products in ru; xh becomes [x, r h_prev]. */
WEFT_CUDA_KERNEL(weft_gru_gates, (weft_cuda_gru_t g)) {
  for (int64_t i = first_index(); i < g.batch * g.cell; i += index_step()) {
    const int64_t b = i / g.cell, k = i % g.cell;
    const float *ru = g.ru + b * 2 * g.cell;
    const float r = Sigmoid::of<float>(ru[k] + g.b_ru[k]);
    g.r[i] = r;
    g.u[i] = Sigmoid::of<float>(ru[g.cell + k] + g.b_ru[g.cell + k]);
    g.xh[b * (g.input + g.cell) + g.input + k] = g.h_prev[i] * r;
  }
}

/* c from its product, which lies in c, and the new state. */
WEFT_CUDA_KERNEL(weft_gru_state, (weft_cuda_gru_t g)) {
  for (int64_t i = first_index(); i < g.batch * g.cell; i += index_step()) {
    const float c = Tanh::of<float>(g.c[i] + g.b_c[i % g.cell]);
    g.c[i] = c;
    g.h[i] = g.u[i] * (g.h_prev[i] - c) + c;
  }
}

/* The gradients of what goes into the candidate's tanh and into u's sigmoid. */
WEFT_CUDA_KERNEL(weft_gru_candidate_gradient, (weft_cuda_gru_t g)) {
  for (int64_t i = first_index(); i < g.batch * g.cell; i += index_step()) {
    const float d_h = g.d_h[i], u = g.u[i], c = g.c[i];
    g.d_c_bar[i] = (d_h * (1.0f - u)) * (1.0f - c * c);
    g.d_ru_bar[i / g.cell * 2 * g.cell + g.cell + i % g.cell] = d_h * (g.h_prev[i] - c) * u * (1.0f - u);
  }
}

/* The gradient of what goes into r's sigmoid, from what comes through c, in xh2. */
WEFT_CUDA_KERNEL(weft_gru_reset_gradient, (weft_cuda_gru_t g)) {
  for (int64_t i = first_index(); i < g.batch * g.cell; i += index_step()) {
    const int64_t b = i / g.cell, k = i % g.cell;
    const float d_hr = g.xh2[b * (g.input + g.cell) + g.input + k], r = g.r[i];
    g.d_ru_bar[b * 2 * g.cell + k] = (d_hr * g.h_prev[i] * r) * (1.0f - r);
  }
}

/* d_x and d_h_prev from what comes through r and u, in xh, and through c, in xh2. */
WEFT_CUDA_KERNEL(weft_gru_input_gradient, (weft_cuda_gru_t g)) {
  const int64_t width = g.input + g.cell;
  for (int64_t i = first_index(); i < g.batch * width; i += index_step()) {
    const int64_t b = i / width, k = i % width, at = b * g.cell + k - g.input;
    if (k < g.input) {
      g.d_x[b * g.input + k] = g.xh[i] + g.xh2[i];
    } else {
      g.d_h_prev[at] = g.xh[i] + g.xh2[i] * g.r[at] + g.d_h[at] * g.u[at];
    }
  }
}
