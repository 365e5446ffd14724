/* kernels/cpu/dataset/sql_functions.h - the functions that TensorFlow adds to SQLite's: snap and unsnap. */
#ifndef WEFT_KERNELS_CPU_DATASET_SQL_FUNCTIONS_H_
#define WEFT_KERNELS_CPU_DATASET_SQL_FUNCTIONS_H_

#include <sqlite3.h>

/* Adds them to a connection. snap(x): a text or blob as a blob of its type in a byte and what Snappy makes of
 * it; unsnap(x): back; numbers and NULL stay as they are. Returns SQLite's code. */
int weft_sql_add_functions(sqlite3 *database);

#endif /* WEFT_KERNELS_CPU_DATASET_SQL_FUNCTIONS_H_ */
