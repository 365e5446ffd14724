/* kernels/cuda/chain.h - chains of elementwise ops: which ops, and the headers of their sources. */
#ifndef WEFT_KERNELS_CUDA_CHAIN_H_
#define WEFT_KERNELS_CUDA_CHAIN_H_

#include "device/cuda/compiler.h"

/* WEFT_DeviceLibrary.may_link. */
int weft_cuda_may_link(const char *op, int operand, int result);

/* What chain.cuh includes, itself first. chain_headers.c. */
extern const weft_cuda_header_t weft_cuda_chain_headers[];

#endif /* WEFT_KERNELS_CUDA_CHAIN_H_ */
