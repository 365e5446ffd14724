/* io/npy.h - NumPy's .npy files: one array each. Versions 1 to 3, C order, little-endian; no objects. */
#ifndef WEFT_IO_NPY_H_
#define WEFT_IO_NPY_H_

#include "tensor/tensor.h"

/* Reads a whole file into a host tensor, owned by the caller. Errors: NOT_FOUND, INVALID_ARGUMENT (all name
 * the path; big-endian, Fortran order and dtypes without a counterpart are refused), DATA_LOSS (file too
 * short). */
WEFT_MUST_CHECK weft_status_t *weft_npy_read(const char *path, weft_tensor_t **out);
/* Writes a host tensor of a plain dtype that NumPy has (not bfloat16, string, ...). The file appears whole or
 * not at all (io/file.h). Errors: INVALID_ARGUMENT, and those of weft_file_writer_create. */
WEFT_MUST_CHECK weft_status_t *weft_npy_write(const char *path, const weft_tensor_t *t);

#endif /* WEFT_IO_NPY_H_ */
