/* tensor/update_loops.tmpl.h - update_one.tmpl.h for the types chosen by EACH_..., which are undefined
 * at the end, as is UPDATE(a, b): the new value of a; both are MAP_COMP (COMP or WRAP). */
#define EACH_FILE "tensor/update_one.tmpl.h"
#include "tensor/each_dtype.tmpl.h"
#include "tensor/undef_each.tmpl.h"
#undef UPDATE
