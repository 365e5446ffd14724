/* kernels/cpu/dataset/sql.c - SqlDataset: the rows of a query on an SQLite database.
 *
 * As TensorFlow's: the file is opened for reading and writing and made if it is not there, and the query may
 * be any one statement, with the functions of sql_functions.h.
 */
#include <sqlite3.h>
#include <string.h>

#include "base/alloc.h"
#include "kernels/cpu/dataset/dataset.h"
#include "kernels/cpu/dataset/saved.h"
#include "kernels/cpu/dataset/sql_functions.h"

enum { STEPS_PER_LOOK = 10000 }; /* of SQLite's machine, between two looks at the canceller */

typedef struct sql_params {
  weft_dataset_params_t base;
  char *file, *query; /* owned */
} sql_params_t;

typedef struct sql_iterator {
  weft_iterator_t base;
  sqlite3 *database; /* owned, like rows; NULL: not opened yet */
  sqlite3_stmt *rows;
  int64_t at; /* of the next row */
  bool is_done;
} sql_iterator_t;

/* ---- failures ---- */

static weft_code_t code_of(int rc) {
  switch (rc & 0xff) {
    case SQLITE_ABORT: return WEFT_ABORTED;
    case SQLITE_READONLY:
    case SQLITE_MISMATCH: return WEFT_FAILED_PRECONDITION;
    case SQLITE_MISUSE:
    case SQLITE_INTERNAL: return WEFT_INTERNAL;
    case SQLITE_RANGE: return WEFT_OUT_OF_RANGE;
    case SQLITE_CANTOPEN:
    case SQLITE_CONSTRAINT:
    case SQLITE_NOTFOUND:
    case SQLITE_NOTADB: return WEFT_INVALID_ARGUMENT;
    case SQLITE_CORRUPT: return WEFT_DATA_LOSS;
    case SQLITE_AUTH:
    case SQLITE_PERM: return WEFT_PERMISSION_DENIED;
    case SQLITE_FULL:
    case SQLITE_TOOBIG:
    case SQLITE_NOLFS: return WEFT_RESOURCE_EXHAUSTED;
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
    case SQLITE_PROTOCOL:
    case SQLITE_NOMEM: return WEFT_UNAVAILABLE;
    case SQLITE_INTERRUPT: return WEFT_CANCELLED;
    default: return WEFT_UNKNOWN;
  }
}

static weft_status_t *failed(const sql_iterator_t *r, const char *what, int rc) {
  return weft_status_new(code_of(rc), __FILE__, __LINE__, "%s() failed: [%d] %s: %s", what, rc,
                         sqlite3_errmsg(r->database), ((const sql_params_t *)r->base.of->params)->query);
}

/* ---- rows ---- */

static int is_cancelled(void *canceller) { return weft_canceller_is_cancelled(canceller); }

static weft_status_t *open_database(sql_iterator_t *r) {
  const char *file = ((const sql_params_t *)r->base.of->params)->file;
  const int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_PRIVATECACHE | SQLITE_OPEN_URI;
  int rc = sqlite3_open_v2(file, &r->database, flags, NULL);
  if (rc == SQLITE_OK) rc = weft_sql_add_functions(r->database);
  if (rc != SQLITE_OK) {
    sqlite3_close(r->database); /* there is one all the same */
    r->database = NULL;
    return weft_status_new(code_of(rc), __FILE__, __LINE__, "Sqlite::Open(%s) failed: %s", file,
                           sqlite3_errstr(rc));
  }
  sqlite3_extended_result_codes(r->database, 1);
  sqlite3_progress_handler(r->database, STEPS_PER_LOOK, is_cancelled, r->base.canceller);
  return NULL;
}

static weft_status_t *prepare_query(sql_iterator_t *r) {
  const int rc =
      sqlite3_prepare_v2(r->database, ((const sql_params_t *)r->base.of->params)->query, -1, &r->rows, NULL);
  if (rc != SQLITE_OK) return failed(r, "Prepare", rc);
  const int columns = sqlite3_column_count(r->rows);
  if (columns == r->base.of->spec->n) return NULL;
  sqlite3_finalize(r->rows);
  r->rows = NULL;
  return WEFT_ERROR(
      INVALID_ARGUMENT,
      "The number of columns in query (%d) must match the number of elements in output_types (%d).", columns,
      r->base.of->spec->n);
}

/* To the next row, or the end, which a failure is, too. */
static weft_status_t *step(sql_iterator_t *r) {
  if (r->database == NULL) WEFT_RETURN_IF_ERROR(open_database(r));
  if (r->rows == NULL) WEFT_RETURN_IF_ERROR(prepare_query(r));
  const int rc = sqlite3_step(r->rows);
  r->is_done = rc != SQLITE_ROW;
  if (rc == SQLITE_ROW) r->at++;
  return rc == SQLITE_ROW || rc == SQLITE_DONE ? NULL : failed(r, "Step", rc);
}

/* Column i of the row. Numbers of fewer bits are the low ones of 64. */
static weft_status_t *column(sqlite3_stmt *rows, int i, weft_dtype_t dtype, weft_tensor_t **out) {
  if (dtype == WEFT_STRING) {
    const char *bytes = sqlite3_column_blob(rows, i); /* before its length: it may convert */
    return weft_tensor_string(weft_str_of(bytes, bytes == NULL ? 0 : (size_t)sqlite3_column_bytes(rows, i)),
                              out);
  }
  if (dtype == WEFT_F64) {
    const double value = sqlite3_column_double(rows, i);
    return weft_tensor_scalar(dtype, &value, out);
  }
  const int64_t value = sqlite3_column_int64(rows, i);
  const bool is_true = value != 0;
  WEFT_RETURN_IF_ERROR(weft_tensor_new(dtype, &WEFT_SCALAR, NULL, out));
  memcpy((*out)->data, dtype == WEFT_BOOL ? (const void *)&is_true : &value, weft_dtype_size(dtype));
  return NULL;
}

static weft_status_t *next(weft_iterator_t *it, weft_tensor_t **out, bool *is_end) {
  sql_iterator_t *r = (sql_iterator_t *)it;
  if (!r->is_done) WEFT_RETURN_IF_ERROR(step(r));
  *is_end = r->is_done;
  for (int i = 0; !r->is_done && i < it->of->spec->n; i++) {
    WEFT_RETURN_IF_ERROR(column(r->rows, i, it->of->spec->dtypes[i], &out[i]));
  }
  return NULL;
}

static void end(weft_iterator_t *it) {
  sql_iterator_t *r = (sql_iterator_t *)it;
  sqlite3_finalize(r->rows);
  sqlite3_close(r->database);
}

static weft_status_t *save(weft_iterator_t *it, weft_saved_t *to) {
  const sql_iterator_t *r = (const sql_iterator_t *)it;
  weft_saved_put_int(to, r->at);
  weft_saved_put_int(to, r->is_done);
  return NULL;
}

/* Rows have no addresses: those before are read again. */
static weft_status_t *load(weft_iterator_t *it, weft_saved_t *from) {
  sql_iterator_t *r = (sql_iterator_t *)it;
  int64_t at, is_done;
  WEFT_RETURN_IF_ERROR(weft_saved_get_int_in(from, 0, INT64_MAX, &at));
  WEFT_RETURN_IF_ERROR(weft_saved_get_int_in(from, 0, 1, &is_done));
  while (r->at < at && !r->is_done) WEFT_RETURN_IF_ERROR(step(r));
  if (is_done != 0) r->is_done = true;
  return NULL;
}

/* ---- kernels ---- */

static bool is_of_column(int dtype) {
  static const int dtypes[] = {WEFT_STRING, WEFT_I8,  WEFT_I16,  WEFT_I32, WEFT_I64,
                               WEFT_U8,     WEFT_U16, WEFT_BOOL, WEFT_F64};
  for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++) {
    if (dtypes[i] == dtype) return true;
  }
  return false;
}

static weft_status_t *read(const weft_kernel_setup_t *setup, void *params) {
  const weft_attr_t *types = weft_knode_attr(setup, "output_types"),
                    *shapes = weft_knode_attr(setup, "output_shapes");
  (void)params;
  for (int i = 0; i < types->n; i++) {
    if (!is_of_column(types->list.types[i])) {
      return WEFT_ERROR(
          INVALID_ARGUMENT,
          "Each element of `output_types_` must be one of: DT_STRING, DT_INT8, DT_INT16, DT_INT32, "
          "DT_INT64, DT_UINT8, DT_UINT16, DT_BOOL, DT_DOUBLE ");
    }
  }
  for (int i = 0; i < shapes->n; i++) {
    if (shapes->list.shapes[i].rank != 0) {
      return WEFT_ERROR(INVALID_ARGUMENT, "Each element of `output_shapes_` must be a scalar.");
    }
  }
  return NULL;
}

static weft_status_t *make(weft_kernel_ctx_t *c, int at, weft_dataset_t *d, void *params) {
  sql_params_t *p = params;
  weft_str_t driver, file, query;
  (void)d;
  WEFT_RETURN_IF_ERROR(weft_dataset_in_string(c, at, "driver_name", &driver));
  WEFT_RETURN_IF_ERROR(weft_dataset_in_string(c, at + 1, "data_source_name", &file));
  WEFT_RETURN_IF_ERROR(weft_dataset_in_string(c, at + 2, "query", &query));
  if (!weft_str_is(driver, "sqlite")) {
    return WEFT_ERROR(
        INVALID_ARGUMENT,
        "The database type, %.*s, is not supported by SqlDataset. The set of supported databases "
        "is: {'sqlite'}.",
        WEFT_STR_ARGS(driver));
  }
  p->file = weft_strndup(file.data, file.length);
  p->query = weft_strndup(query.data, query.length);
  return p->file == NULL || p->query == NULL ? WEFT_NO_MEMORY("a data set") : NULL;
}

static void deinit(void *params) {
  sql_params_t *p = params;
  weft_free(p->file);
  weft_free(p->query);
}

static const weft_dataset_class_t class = {.name = "Sql",
                                           .iterator_size = sizeof(sql_iterator_t),
                                           .next = next,
                                           .end = end,
                                           .save = save,
                                           .load = load,
                                           .cardinality = weft_cardinality_unknown};

static const weft_dataset_op_t op = {
    .class = &class, .params_size = sizeof(sql_params_t), .read = read, .make = make, .deinit = deinit};

const weft_kernel_t weft_cpu_dataset_sql_kernels[] = {
    WEFT_DATASET_ROW("ExperimentalSqlDataset", op),
    WEFT_DATASET_ROW("SqlDataset", op),
    {0},
};
