/* kernels/cpu/blas/blas.h - OpenBLAS, made ready for this processor. */
#ifndef WEFT_KERNELS_CPU_BLAS_BLAS_H_
#define WEFT_KERNELS_CPU_BLAS_BLAS_H_

/* Has OpenBLAS take the kernels for the instructions that the processor has, and keeps it on the calling
 * thread. Before the first call of BLAS or LAPACK; does its work once. Thread-safe. */
void weft_blas_init(void);

#endif /* WEFT_KERNELS_CPU_BLAS_BLAS_H_ */
