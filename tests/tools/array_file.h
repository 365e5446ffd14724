/* tests/tools/array_file.h - arrays of random numbers in files, to be fed. */
#ifndef WEFT_TESTS_TOOLS_ARRAY_FILE_H_
#define WEFT_TESTS_TOOLS_ARRAY_FILE_H_

/* Writes rows x columns (0: a vector) numbers of numpy's `type` ("<f4", "<f8", "<i4") in [-scale, scale),
 * integers in [0, scale), into the test's own directory; the same ones at each call. `out` gets
 * "NAME=FILE.npy". */
void write_array(char out[600], const char *name, const char *type, int rows, int columns, double scale);

#endif /* WEFT_TESTS_TOOLS_ARRAY_FILE_H_ */
