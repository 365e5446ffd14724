/* kernels/cuda/types.h - sets of element types, for instances of kernels and for the tables that find them.
 *
 * WEFT_CUDA_<SET>(m, f) expands m(f, type) for each type of a set, in the order of TensorFlow's numbers, so
 * that a type's place in a table is the number of types of the set that come before it.
 */
#ifndef WEFT_KERNELS_CUDA_TYPES_H_
#define WEFT_KERNELS_CUDA_TYPES_H_

/* TensorFlow's numbers of the types that kernels are made for. */
enum {
  WEFT_CUDA_f32 = 1,
  WEFT_CUDA_f64 = 2,
  WEFT_CUDA_i32 = 3,
  WEFT_CUDA_u8 = 4,
  WEFT_CUDA_i16 = 5,
  WEFT_CUDA_i8 = 6,
  WEFT_CUDA_c64 = 8,
  WEFT_CUDA_i64 = 9,
  WEFT_CUDA_boolean = 10,
  WEFT_CUDA_bf16 = 14,
  WEFT_CUDA_u16 = 17,
  WEFT_CUDA_c128 = 18,
  WEFT_CUDA_f16 = 19,
  WEFT_CUDA_u32 = 22,
  WEFT_CUDA_u64 = 23
};

#define WEFT_CUDA_FLOAT(m, f) m(f, f32) m(f, f64) m(f, bf16) m(f, f16)
#define WEFT_CUDA_F32_F64(m, f) m(f, f32) m(f, f64)
#define WEFT_CUDA_F32_F64_I64(m, f) m(f, f32) m(f, f64) m(f, i64)
#define WEFT_CUDA_F32_F64_INDEX(m, f) m(f, f32) m(f, f64) m(f, i32) m(f, i64)
#define WEFT_CUDA_F32_BF16(m, f) m(f, f32) m(f, bf16)
#define WEFT_CUDA_F32_F64_F16(m, f) m(f, f32) m(f, f64) m(f, f16)
#define WEFT_CUDA_F32_HALFS(m, f) m(f, f32) m(f, bf16) m(f, f16)
/* Without int32: tensors of that type lie in the host's memory wherever TensorFlow has them there, and the
 * rows are Weft's (kernels/loaded/generic.def). */
#define WEFT_CUDA_FLOAT_SIGNED(m, f) m(f, f32) m(f, f64) m(f, i16) m(f, i8) m(f, i64) m(f, bf16) m(f, f16)
#define WEFT_CUDA_REAL(m, f) \
  m(f, f32) m(f, f64) m(f, u8) m(f, i16) m(f, i8) m(f, i64) m(f, bf16) m(f, u16) m(f, f16) m(f, u32) m(f, u64)
#define WEFT_CUDA_REAL_BOOL(m, f)                                                                        \
  m(f, f32) m(f, f64) m(f, u8) m(f, i16) m(f, i8) m(f, i64) m(f, boolean) m(f, bf16) m(f, u16) m(f, f16) \
      m(f, u32) m(f, u64)
#define WEFT_CUDA_FLOAT_I64(m, f) m(f, f32) m(f, f64) m(f, i64) m(f, bf16) m(f, f16)
/* With int32. */
#define WEFT_CUDA_FLOAT_INDEX(m, f) m(f, f32) m(f, f64) m(f, i32) m(f, i64) m(f, bf16) m(f, f16)
#define WEFT_CUDA_INT(m, f) m(f, i32) m(f, u8) m(f, i16) m(f, i8) m(f, i64) m(f, u16) m(f, u32) m(f, u64)
#define WEFT_CUDA_EVERY(m, f)                                                                            \
  m(f, f32) m(f, f64) m(f, i32) m(f, u8) m(f, i16) m(f, i8) m(f, i64) m(f, boolean) m(f, bf16) m(f, u16) \
      m(f, f16) m(f, u32) m(f, u64)
/* Of pixels, and of gradients of images whose pixels are only moved. */
#define WEFT_CUDA_PIXELS(m, f) \
  m(f, f32) m(f, f64) m(f, i32) m(f, u8) m(f, i16) m(f, i8) m(f, i64) m(f, bf16) m(f, u16) m(f, f16)
#define WEFT_CUDA_PIXEL_GRADS(m, f) m(f, f32) m(f, f64) m(f, i32) m(f, u8) m(f, i8) m(f, bf16) m(f, f16)
#define WEFT_CUDA_PROJECTED(m, f) m(f, f32) m(f, f64) m(f, i32) m(f, u8) m(f, i64) m(f, bf16) m(f, f16)
#define WEFT_CUDA_COMPLEX(m, f) m(f, c64) m(f, c128)
#define WEFT_CUDA_BOOL(m, f) m(f, boolean)
#define WEFT_CUDA_INDEX(m, f) m(f, i32) m(f, i64)
/* Elements by their size in bytes, for kernels that only move them. */
#define WEFT_CUDA_SIZED(m, f) m(f, 1) m(f, 2) m(f, 4) m(f, 8) m(f, 16)

#define WEFT_CUDA_BIT_(f, type) | (UINT32_C(1) << WEFT_CUDA_##type)
/* The set as bits, for a row of a kernel: WEFT_CUDA_SET(FLOAT). */
#define WEFT_CUDA_SET(set) (0u WEFT_CUDA_##set(WEFT_CUDA_BIT_, ))

#endif /* WEFT_KERNELS_CUDA_TYPES_H_ */
