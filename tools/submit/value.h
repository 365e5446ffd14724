/* tools/submit/value.h - tensors as text: what people type for a feed, and read of a fetch. */
#ifndef WEFT_TOOLS_SUBMIT_VALUE_H_
#define WEFT_TOOLS_SUBMIT_VALUE_H_

#include <jansson.h>

#include "tensor/tensor.h"

/* A scalar of `dtype` from all of `text`: numbers as C writes them (also nan, inf, 1e-3), true and false,
 * complex numbers as 1+2j, strings as they are. Text that starts with '[' is an array, as JSON writes it:
 * [[1, 2], [3, 4]]; but not where a string is wanted, unless `shape` says that it is a list of them. `shape`
 * is what is known of the value's; NULL: nothing. A single value where only an array can stand becomes one of
 * one element. Errors: INVALID_ARGUMENT saying what is wrong. */
WEFT_MUST_CHECK weft_status_t *weft_value_parse(weft_str_t text, int dtype, const weft_shape_t *shape,
                                                weft_tensor_t **out);

/* Appends a scalar as a number, true, false or "text"; a string that is a Summary, as TensorFlow's summary
 * ops make it, as what it has: histogram of 100 values, -1 to 2; an array of up to 1000 elements as nested
 * lists; anything else as "float of shape [100,100]". Integers are exact, floats as short as they can be read
 * back.
 */
void weft_value_print(const weft_tensor_t *t, weft_strbuf_t *out);
/* For progress: a scalar in a few letters; false, and nothing, if it is not a scalar of a kind that can be
 * printed. */
bool weft_value_print_short(const weft_tensor_t *t, weft_strbuf_t *out);
/* A scalar that is a real number or a boolean; false: it is none. */
bool weft_value_number(const weft_tensor_t *t, double *out);
/* The same for machines: numbers, booleans, strings, {"summary": [{"tag", "kind", ...}]}, [re, im], nested
 * lists; NaN and infinities are null; an array of more than 1000 elements is an object with dtype and shape.
 * NULL without memory. */
json_t *weft_value_json(const weft_tensor_t *t);

#endif /* WEFT_TOOLS_SUBMIT_VALUE_H_ */
