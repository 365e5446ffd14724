/* kernels/cuda/optimizer.cu - the rules of optimizer.def. The formulas, and where they are from, are those of
 * kernels/cpu/optimizer. Scalars are read on the device, so that none of them is waited for. */
#include "kernels/cuda/index.cuh"
#include "kernels/cuda/numbers.cuh"
#include "kernels/cuda/types.h"

namespace weft {

/* What a rule sees of one element: the variables' values, which it changes; the gradient; the scalars. */
template <class C>
struct optimizer_element {
  C var[WEFT_CUDA_VARS], g;
};
template <class C>
struct numbers_of {
  C s[WEFT_CUDA_SCALARS]; /* as many as the rule has */
  bool use_nesterov, update_slots, multiply_linear_by_lr;
};

#define WEFT_RULE(name)                                                 \
  struct name {                                                         \
    template <class C>                                                  \
    WEFT_FN void step(optimizer_element<C> &e, const numbers_of<C> &n); \
  };                                                                    \
  template <class C>                                                    \
  __device__ __forceinline__ void name::step(optimizer_element<C> &e, const numbers_of<C> &n)

template <class C>
WEFT_FN C sign_of(C x) {
  return x != x ? x : (C)((x > 0) - (x < 0));
}

WEFT_RULE(GradientDescent) { e.var[0] -= n.s[0] * e.g; }

WEFT_RULE(Momentum) {
  const C lr = n.s[0], momentum = n.s[1], a = e.var[1] * momentum + e.g;
  e.var[1] = a;
  e.var[0] -= n.use_nesterov ? e.g * lr + a * momentum * lr : a * lr;
}

WEFT_RULE(KerasMomentum) {
  const C lr = n.s[0], momentum = n.s[1], a = e.var[1] * momentum - e.g * lr;
  e.var[1] = a;
  e.var[0] += n.use_nesterov ? a * momentum - e.g * lr : a;
}

WEFT_RULE(Adagrad) {
  const C a = n.update_slots ? e.var[1] + e.g * e.g : e.var[1];
  e.var[1] = a;
  e.var[0] -= n.s[0] * e.g * (1 / sqrt(a));
}

WEFT_RULE(AdagradV2) {
  const C a = n.update_slots ? e.var[1] + e.g * e.g : e.var[1];
  e.var[1] = a;
  e.var[0] -= n.s[0] * e.g / (sqrt(a) + n.s[1]);
}

WEFT_RULE(Adadelta) {
  const C lr = n.s[0], rho = n.s[1], epsilon = n.s[2], u = e.var[2];
  const C a = e.var[1] * rho + e.g * e.g * (1 - rho);
  const C by = sqrt(u + epsilon) * (1 / sqrt(a + epsilon)) * e.g;
  e.var[1] = a;
  e.var[0] -= by * lr;
  e.var[2] = u * rho + by * by * (1 - rho);
}

template <class C>
WEFT_FN C adam_rate(const numbers_of<C> &n) {
  return n.s[2] * sqrt(1 - n.s[1]) / (1 - n.s[0]);
}

WEFT_RULE(Adam) {
  const C beta1 = n.s[3], beta2 = n.s[4], epsilon = n.s[5];
  const C m = e.var[1] + (e.g - e.var[1]) * (1 - beta1), v = e.var[2] + (e.g * e.g - e.var[2]) * (1 - beta2);
  const C direction = n.use_nesterov ? e.g * (1 - beta1) + beta1 * m : m;
  e.var[1] = m;
  e.var[2] = v;
  e.var[0] -= direction * adam_rate(n) / (sqrt(v) + epsilon);
}

WEFT_RULE(AdamWithAmsgrad) {
  const C beta1 = n.s[3], beta2 = n.s[4], epsilon = n.s[5];
  const C m = e.var[1] + (e.g - e.var[1]) * (1 - beta1), v = e.var[2] + (e.g * e.g - e.var[2]) * (1 - beta2);
  const C hat = v > e.var[3] ? v : e.var[3];
  e.var[1] = m;
  e.var[2] = v;
  e.var[3] = hat;
  e.var[0] -= m * adam_rate(n) / (sqrt(hat) + epsilon);
}

WEFT_RULE(AdaMax) {
  const C beta1 = n.s[2], beta2 = n.s[3], epsilon = n.s[4];
  const C m = e.var[1] + (e.g - e.var[1]) * (1 - beta1), decayed = e.var[2] * beta2, size = fabs(e.g);
  const C v = decayed > size ? decayed : size;
  e.var[1] = m;
  e.var[2] = v;
  e.var[0] -= n.s[1] / (1 - n.s[0]) * (m / (v + epsilon));
}

WEFT_RULE(RMSProp) {
  const C lr = n.s[0], rho = n.s[1], momentum = n.s[2], epsilon = n.s[3];
  const C s = e.var[1] + (e.g * e.g - e.var[1]) * (1 - rho);
  const C m = e.var[2] * momentum + lr * e.g / sqrt(s + epsilon);
  e.var[1] = s;
  e.var[2] = m;
  e.var[0] -= m;
}

WEFT_RULE(CenteredRMSProp) {
  const C lr = n.s[0], rho = n.s[1], momentum = n.s[2], epsilon = n.s[3];
  const C mean = e.var[1] + (e.g - e.var[1]) * (1 - rho), s = e.var[2] + (e.g * e.g - e.var[2]) * (1 - rho);
  const C m = e.var[3] * momentum + lr * e.g / sqrt(s - mean * mean + epsilon);
  e.var[1] = mean;
  e.var[2] = s;
  e.var[3] = m;
  e.var[0] -= m;
}

template <class C>
WEFT_FN void ftrl(optimizer_element<C> &e, const numbers_of<C> &n, C shrinkage, C lr_power) {
  const bool in_linear = n.multiply_linear_by_lr, is_root = lr_power == (C)-0.5;
  const C lr = n.s[0], l1 = in_linear ? n.s[1] * lr : n.s[1], l2 = in_linear ? n.s[2] * lr : n.s[2];
  const C x = e.var[0], a0 = e.var[1], a = a0 + e.g * e.g, shrunk = e.g + 2 * shrinkage * x;
  const C power = is_root ? sqrt(a) : pow(a, -lr_power), power0 = is_root ? sqrt(a0) : pow(a0, -lr_power);
  const C l =
      e.var[2] + (in_linear ? shrunk * lr - (power - power0) * x : shrunk - (power - power0) / lr * x);
  const C quadratic = (in_linear ? power : power / lr) + 2 * l2;
  e.var[1] = a;
  e.var[2] = l;
  e.var[0] = fabs(l) > l1 ? (sign_of(l) * l1 - l) / quadratic : 0;
}
WEFT_RULE(Ftrl) { ftrl(e, n, (C)0, n.s[3]); }
WEFT_RULE(FtrlV2) { ftrl(e, n, n.s[3], n.s[4]); }

WEFT_RULE(AddSign) {
  const C lr = n.s[0], alpha = n.s[1], decay = n.s[2], beta = n.s[3], m = e.var[1] * beta + e.g * (1 - beta);
  e.var[1] = m;
  e.var[0] -= lr * (alpha + decay * (sign_of(e.g) * sign_of(m))) * e.g;
}
WEFT_RULE(PowerSign) {
  const C lr = n.s[0], logbase = n.s[1], decay = n.s[2], beta = n.s[3],
          m = e.var[1] * beta + e.g * (1 - beta);
  e.var[1] = m;
  e.var[0] -= lr * exp(logbase * decay * (sign_of(e.g) * sign_of(m))) * e.g;
}

/* Of several AssignAdd or AssignSub at once: the gradient is the value. */
struct AssignAdd {
  template <class C>
  WEFT_FN void step(optimizer_element<C> &e, const numbers_of<C> &) {
    e.var[0] += e.g;
  }
};
struct AssignSub {
  template <class C>
  WEFT_FN void step(optimizer_element<C> &e, const numbers_of<C> &) {
    e.var[0] -= e.g;
  }
};

static_assert(sizeof(weft_cuda_updates_t) <= 4096, "a launch has no more bytes of arguments");

template <class T, int SCALARS>
WEFT_FN numbers_of<comp_t<T>> read_numbers(const weft_cuda_scalars_t &scalars,
                                           const weft_cuda_rule_flags_t &flags) {
  numbers_of<comp_t<T>> n = {
      {}, flags.use_nesterov != 0, flags.update_slots != 0, flags.multiply_linear_by_lr != 0};
  WEFT_UNROLL
  for (int k = 0; k < SCALARS; k++) n.s[k] = load(*(const T *)scalars.at[k]);
  return n;
}

/* A row that several indices name moves as often, in their order, as on the CPU: whichever thread has the
 * first of them does it. VARS variables, SCALARS scalars: constants, so that all of it lies in registers. */
template <class F, class T, int VARS, int SCALARS>
WEFT_FN void optimize_rows(const weft_cuda_sparse_update_t &u) {
  const numbers_of<comp_t<T>> numbers = read_numbers<T, SCALARS>(u.scalars, u.flags);
  for (int64_t i = first_index(); i < u.n; i += index_step()) {
    const int64_t piece = i / u.row, k = i - piece * u.row;
    const int64_t index = index_at(u.indices, u.index_bytes, piece);
    if (index < 0 || index >= u.num_rows || u.first[index] != piece) continue;
    const int64_t at = index * u.row + k;
    optimizer_element<comp_t<T>> e;
    WEFT_UNROLL
    for (int v = 0; v < VARS; v++) e.var[v] = load(((T *)u.vars[v])[at]);
    for (int64_t r = piece; r >= 0; r = u.next[r]) {
      e.g = load(((const T *)u.gradient)[r * u.row + k]);
      F::step(e, numbers);
      WEFT_UNROLL
      for (int v = 0; v < VARS; v++) e.var[v] = rounded<T>(e.var[v]);
    }
    WEFT_UNROLL
    for (int v = 0; v < VARS; v++) store(&((T *)u.vars[v])[at], e.var[v]);
  }
}

/* The update that has the piece. */
WEFT_FN int update_of(const weft_cuda_updates_t &u, int32_t piece) {
  int low = 0, high = u.num;
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    if (u.updates[middle].first_piece <= piece) {
      low = middle;
    } else {
      high = middle;
    }
  }
  return low;
}

/* Each block takes whole pieces, so that it reads the table once for thousands of elements. */
template <class F, class T, int VARS, int SCALARS>
WEFT_FN void optimize(const weft_cuda_updates_t &u) {
  for (int32_t piece = (int32_t)blockIdx.x; piece < u.num_pieces; piece += (int32_t)gridDim.x) {
    const weft_cuda_update_t &of = u.updates[update_of(u, piece)];
    const numbers_of<comp_t<T>> numbers = read_numbers<T, SCALARS>(u.scalars[of.scalars], u.flags);
    const int64_t begin = (int64_t)(piece - of.first_piece) * WEFT_CUDA_PIECE,
                  end = begin + WEFT_CUDA_PIECE < of.n ? begin + WEFT_CUDA_PIECE : of.n;
    for (int64_t i = begin + threadIdx.x; i < end; i += blockDim.x) {
      optimizer_element<comp_t<T>> e;
      e.g = load(((const T *)of.gradient)[i]);
      WEFT_UNROLL
      for (int k = 0; k < VARS; k++) e.var[k] = load(((T *)of.vars[k])[i]);
      F::step(e, numbers);
      WEFT_UNROLL
      for (int k = 0; k < VARS; k++) store(&((T *)of.vars[k])[i], e.var[k]);
    }
  }
}

constexpr int count(const char *inputs, char kind) {
  return *inputs == '\0' ? 0 : (*inputs == kind) + count(inputs + 1, kind);
}

}  // namespace weft

using namespace weft;

/* first and last are filled with 0x7f and 0xff. */
WEFT_CUDA_KERNEL(weft_sparse_rows, (const void *indices, int32_t index_bytes, int64_t num, int64_t num_rows,
                                    int32_t *first, int32_t *last)) {
  for (int64_t i = first_index(); i < num; i += index_step()) {
    const int64_t index = index_at(indices, index_bytes, i);
    if (index < 0 || index >= num_rows) continue;
    atomicMin(&first[index], (int32_t)i);
    atomicMax(&last[index], (int32_t)i);
  }
}
/* Only indices that come again are looked for. */
WEFT_CUDA_KERNEL(weft_sparse_next, (const void *indices, int32_t index_bytes, int64_t num, int64_t num_rows,
                                    const int32_t *last, int32_t *next)) {
  for (int64_t i = first_index(); i < num; i += index_step()) {
    const int64_t index = index_at(indices, index_bytes, i);
    int64_t at = -1;
    if (index >= 0 && index < num_rows && last[index] != i) {
      at = i + 1;
      while (index_at(indices, index_bytes, at) != index) at++;
    }
    next[i] = (int32_t)at;
  }
}

#define INSTANCE(name, type)                                        \
  WEFT_CUDA_KERNEL(weft_##name##_##type, (weft_cuda_updates_t u)) { \
    optimize<name, type, vars_##name, scalars_##name>(u);           \
  }
#define SPARSE_INSTANCE(name, type)                                              \
  WEFT_CUDA_KERNEL(weft_sparse_##name##_##type, (weft_cuda_sparse_update_t u)) { \
    optimize_rows<name, type, vars_##name, scalars_##name>(u);                   \
  }
#define WEFT_CUDA_OPTIMIZER(name, inputs)                   \
  static constexpr int vars_##name = count(inputs, 'v');    \
  static constexpr int scalars_##name = count(inputs, 's'); \
  WEFT_CUDA_FLOAT(INSTANCE, name)
#define WEFT_CUDA_RESOURCE_OPTIMIZER(name, inputs) WEFT_CUDA_OPTIMIZER(name, inputs)
#define WEFT_CUDA_SPARSE_OPTIMIZER(name) WEFT_CUDA_FLOAT(SPARSE_INSTANCE, name)
#define WEFT_CUDA_RESOURCE_SPARSE_OPTIMIZER(name) WEFT_CUDA_SPARSE_OPTIMIZER(name)
#include "kernels/cuda/optimizer.def"
#undef WEFT_CUDA_SPARSE_OPTIMIZER
#undef WEFT_CUDA_RESOURCE_SPARSE_OPTIMIZER
#undef WEFT_CUDA_OPTIMIZER
#undef WEFT_CUDA_RESOURCE_OPTIMIZER

static constexpr int vars_AssignAdd = 1, scalars_AssignAdd = 0, vars_AssignSub = 1, scalars_AssignSub = 0;
WEFT_CUDA_FLOAT(INSTANCE, AssignAdd)
WEFT_CUDA_FLOAT(INSTANCE, AssignSub)
