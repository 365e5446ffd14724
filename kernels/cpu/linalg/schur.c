/* kernels/cpu/linalg/schur.c - see the header. */
#include "kernels/cpu/linalg/schur.h"

#define EACH_FILE "kernels/cpu/linalg/schur.tmpl.h"
#include "kernels/cpu/linalg/each_scalar.tmpl.h"
