/* kernels/cuda/chain_headers.c - the headers of a chain's source, which the build embeds as they are. */
#include "kernels/cuda/chain.h"

#define HEADER(symbol) extern const char weft_cuda_text_##symbol[];
HEADER(chain_cuh)
HEADER(binary_functions_cuh)
HEADER(unary_functions_cuh)
HEADER(rows_cuh)
HEADER(numbers_cuh)
HEADER(kernel_cuh)
HEADER(args_h)
HEADER(integers_h)
#undef HEADER

#define HEADER(file, symbol) {"kernels/cuda/" file, weft_cuda_text_##symbol},
const weft_cuda_header_t weft_cuda_chain_headers[] = {
    HEADER("chain.cuh", chain_cuh)                       /* */
    HEADER("binary_functions.cuh", binary_functions_cuh) /* */
    HEADER("unary_functions.cuh", unary_functions_cuh)   /* */
    HEADER("rows.cuh", rows_cuh)                         /* */
    HEADER("numbers.cuh", numbers_cuh)                   /* */
    HEADER("kernel.cuh", kernel_cuh)                     /* */
    HEADER("args.h", args_h)                             /* */
    HEADER("integers.h", integers_h)                     /* */
    {NULL, NULL},
};
