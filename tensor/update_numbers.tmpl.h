/* tensor/update_numbers.tmpl.h - update_reals.tmpl.h for real and complex numbers. */
#define UPDATE_COMPLEX
#include "tensor/update_reals.tmpl.h"
