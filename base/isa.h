/* base/isa.h - the instruction-set level of the processor, for which kernels are compiled several times.
 *
 * The levels of x86-64 are those of the x86-64 psABI (section 3.1.1, "micro-architecture levels"). Other
 * architectures have one level, which is the compiler's own.
 */
#ifndef WEFT_BASE_ISA_H_
#define WEFT_BASE_ISA_H_

#include <stdbool.h>

#include "base/str.h"

typedef enum weft_isa {
  WEFT_ISA_BASE, /* x86-64-v2: SSE4.2 */
  WEFT_ISA_V3,   /* AVX2, FMA, F16C */
  WEFT_ISA_V4,   /* AVX-512 F, BW, CD, DQ, VL */
  WEFT_ISA_COUNT
} weft_isa_t;

/* The level that kernels are taken from: the highest that the processor has, or the one that the environment
 * variable WEFT_ISA names if the processor has it; a name that cannot be followed is reported in the log. It
 * is chosen by the first call and stays. Thread-safe. */
weft_isa_t weft_isa(void);

/* Can this processor run code of that level? */
bool weft_isa_is_supported(weft_isa_t isa);

/* "x86-64-v3", as WEFT_ISA and compilers spell it; WEFT_ISA takes "v3", too. */
const char *weft_isa_name(weft_isa_t isa);

/* The level of that name. False: there is none. */
bool weft_isa_of_name(weft_str_t name, weft_isa_t *out);

#endif /* WEFT_BASE_ISA_H_ */
