/* kernels/cuda/chain.h - chains of elementwise ops and softmax (ops/chain.h): which ops, the kernel that
 * NVRTC makes of one, and its launches. For the rows of _WeftChain and _WeftAttention. */
#ifndef WEFT_KERNELS_CUDA_CHAIN_H_
#define WEFT_KERNELS_CUDA_CHAIN_H_

#include "device/cuda/compiler.h"
#include "kernels/cuda/common.h"

enum { WEFT_CUDA_CHAIN_LINKS = 64, WEFT_CUDA_CHAIN_OPERANDS = 256 };

/* WEFT_DeviceLibrary.may_link. */
int weft_cuda_may_link(const char *op, int operand, int result);

typedef struct weft_cuda_chain_op weft_cuda_chain_op_t; /* chain_source.c's */

typedef struct weft_cuda_chain_link {
  const weft_cuda_chain_op_t *op;
  bool is_by_rows;        /* it computes each row of the last dimension from a row */
  int type, operand_type; /* operand_type: of the last operand */
  int num_operands, first_operand;
} weft_cuda_chain_link_t;

/* A chain, ready. Values are numbered: the inputs first, then the links' results, of which the last one is
 * the chain's. */
typedef struct weft_cuda_chain_plan {
  weft_cuda_function_t *function; /* lives as long as the process */
  bool has_rows;                  /* a link is by rows: then a unit of the kernel is a row */
  int num_inputs, num_links, num_operands;
  int types[WEFT_CUDA_CHAIN_INPUTS];
  weft_cuda_chain_link_t links[WEFT_CUDA_CHAIN_LINKS];
  int16_t operands[WEFT_CUDA_CHAIN_OPERANDS];
} weft_cuda_chain_plan_t;

/* In prepare(): reads the node's chain and compiles it. `num_others`: the last inputs of the node, which are
 * not the chain's. The caller frees it. Failures: the compiler's; RESOURCE_EXHAUSTED; INTERNAL. */
WEFT_Failure *weft_cuda_chain_make(const WEFT_KernelSetup *s, int num_others, weft_cuda_chain_plan_t **out);

/* The arguments of its kernel for inputs of these shapes, which broadcast to `result`, but for the addresses.
 * All units are in it, of which there is none where the result is empty. */
void weft_cuda_chain_lay_out(const weft_cuda_chain_plan_t *p, const weft_cuda_shape_t *shapes,
                             const weft_cuda_shape_t *result, weft_cuda_chain_t *out);
WEFT_Failure *weft_cuda_chain_launch(WEFT_KernelContext *c, const weft_cuda_chain_plan_t *p,
                                     weft_cuda_chain_t *args);

/* What chain.cuh includes, itself first. chain_headers.c. */
extern const weft_cuda_header_t weft_cuda_chain_headers[];

#endif /* WEFT_KERNELS_CUDA_CHAIN_H_ */
