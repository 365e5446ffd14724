/* kernels/cpu/dataset/sql_functions.c - Snappy in SQL. Source: the extension "snapfn" of TensorFlow, whose
 * errors these are. */
#include "kernels/cpu/dataset/sql_functions.h"

#include <snappy-c.h>
#include <stdbool.h>
#include <stddef.h>

/* A copy of up to 64 bytes takes three: nothing that Snappy makes is longer in plain. */
enum { MOST_PLAIN_FOR_A_BYTE = 22, TYPE_BYTE = 1 };

static void fail(sqlite3_context *c, const char *text, int code) {
  sqlite3_result_error(c, text, -1);
  sqlite3_result_error_code(c, code);
}

static bool is_too_big(sqlite3_context *c, size_t size) {
  const bool is = size > (size_t)sqlite3_limit(sqlite3_context_db_handle(c), SQLITE_LIMIT_LENGTH, -1);
  if (is) sqlite3_result_error_toobig(c);
  return is;
}

/* Room for a result, or NULL, which the call then has failed with. */
static char *room(sqlite3_context *c, size_t size) {
  if (is_too_big(c, size)) return NULL;
  char *bytes = sqlite3_malloc64(size);
  if (bytes == NULL) sqlite3_result_error_nomem(c);
  return bytes;
}

static void snap(sqlite3_context *c, int n, sqlite3_value **args) {
  (void)n;
  const int type = sqlite3_value_type(args[0]);
  if (type != SQLITE_BLOB && type != SQLITE_TEXT) {
    sqlite3_result_value(c, args[0]);
    return;
  }
  const char *plain =
      type == SQLITE_BLOB ? sqlite3_value_blob(args[0]) : (const char *)sqlite3_value_text(args[0]);
  const size_t size = (size_t)sqlite3_value_bytes(args[0]); /* behind the call that may convert */
  size_t length = snappy_max_compressed_length(size);
  char *bytes = room(c, length + TYPE_BYTE);
  if (bytes == NULL) return;
  bytes[0] = (char)type;
  if (size == 0) {
    length = 0; /* the type alone */
  } else {
    (void)snappy_compress(plain, size, bytes + TYPE_BYTE, &length); /* there is room */
  }
  sqlite3_result_blob64(c, bytes, length + TYPE_BYTE, sqlite3_free);
}

/* Of the type that the blob's first byte was. */
static void give(sqlite3_context *c, int type, char *plain, size_t size) {
  if (type == SQLITE_TEXT) {
    sqlite3_result_text64(c, plain, size, sqlite3_free, SQLITE_UTF8);
  } else {
    sqlite3_result_blob64(c, plain, size, sqlite3_free);
  }
}

static void unpack(sqlite3_context *c, int type, const char *packed, size_t size) {
  size_t length = 0;
  if (size > 0 && snappy_uncompressed_length(packed, size, &length) != SNAPPY_OK) {
    fail(c, "snappy parse error", SQLITE_CORRUPT);
    return;
  }
  if (is_too_big(c, length)) return;
  if (length / MOST_PLAIN_FOR_A_BYTE > size) { /* so that a few bytes do not cost a gigabyte */
    fail(c, "snappy message corruption", SQLITE_CORRUPT);
    return;
  }
  char *plain = room(c, length + 1);
  if (plain == NULL) return;
  if (size > 0 && snappy_uncompress(packed, size, plain, &length) != SNAPPY_OK) {
    fail(c, "snappy message corruption", SQLITE_CORRUPT);
    sqlite3_free(plain);
    return;
  }
  give(c, type, plain, length);
}

static void unsnap(sqlite3_context *c, int n, sqlite3_value **args) {
  (void)n;
  const int type = sqlite3_value_type(args[0]);
  if (type == SQLITE_TEXT) {
    fail(c, "unsnap() invalid type", SQLITE_MISMATCH);
    return;
  }
  if (type != SQLITE_BLOB) {
    sqlite3_result_value(c, args[0]);
    return;
  }
  const char *packed = sqlite3_value_blob(args[0]);
  const int size = sqlite3_value_bytes(args[0]);
  if (size == 0) {
    sqlite3_result_zeroblob(c, 0);
  } else if (packed[0] != SQLITE_BLOB && packed[0] != SQLITE_TEXT) {
    fail(c, "unsnap() first byte is invalid type", SQLITE_CORRUPT);
  } else {
    unpack(c, packed[0], packed + TYPE_BYTE, (size_t)size - TYPE_BYTE);
  }
}

int weft_sql_add_functions(sqlite3 *database) {
  enum { FLAGS = SQLITE_UTF8 | SQLITE_DETERMINISTIC };
  const int rc = sqlite3_create_function_v2(database, "snap", 1, FLAGS, NULL, snap, NULL, NULL, NULL);
  if (rc != SQLITE_OK) return rc;
  return sqlite3_create_function_v2(database, "unsnap", 1, FLAGS, NULL, unsnap, NULL, NULL, NULL);
}
