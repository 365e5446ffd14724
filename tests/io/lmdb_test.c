/* tests/io/lmdb_test.c - databases that liblmdb writes are read as it reads them; damaged ones end in a
 * status. */
#include "io/lmdb.h"

#include <lmdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "io/file.h"
#include "tests/runner.h"

enum { MAX_VALUE = 300000 };

static char directory[64];
static char filler[MAX_VALUE];

static const char *in_directory(const char *name) {
  static char path[128];
  snprintf(path, sizeof path, "%s/%s", directory, name);
  return path;
}

/* ---- databases, by liblmdb ---- */

#define LMDB(call) CU_ASSERT_EQUAL_FATAL((call), MDB_SUCCESS)

typedef struct database {
  MDB_env *env;
  MDB_txn *txn;
  MDB_dbi main;
} database_t;

static database_t begin(const char *path, unsigned env_flags, unsigned db_flags) {
  database_t d;
  LMDB(mdb_env_create(&d.env));
  LMDB(mdb_env_set_mapsize(d.env, (size_t)64 << 20));
  LMDB(mdb_env_set_maxdbs(d.env, 4));
  LMDB(mdb_env_open(d.env, path, env_flags | MDB_NOSYNC | MDB_NOLOCK, 0644));
  LMDB(mdb_txn_begin(d.env, NULL, 0, &d.txn));
  LMDB(mdb_dbi_open(d.txn, NULL, db_flags, &d.main));
  return d;
}

static void put(const database_t *d, const void *key, size_t key_bytes, const void *value, size_t n) {
  MDB_val k = {key_bytes, (void *)(uintptr_t)key}, v = {n, (void *)(uintptr_t)value};
  LMDB(mdb_put(d->txn, d->main, &k, &v, 0));
}

static void commit(database_t *d) {
  LMDB(mdb_txn_commit(d->txn));
  mdb_env_close(d->env);
}

/* `n` entries with keys of their numbers; value_bytes(i) bytes each. In a file of that name. */
static void make(const char *name, int n, size_t (*value_bytes)(int i)) {
  char key[32];
  remove(in_directory(name));
  database_t d = begin(in_directory(name), MDB_NOSUBDIR, 0);
  for (int i = 0; i < n; i++) {
    snprintf(key, sizeof key, "key %07d", (int)((int64_t)i * 7919 % n));
    put(&d, key, strlen(key), filler + i % 1000, value_bytes(i));
  }
  commit(&d);
}

static size_t small(int i) { return (size_t)i % 50; }
static size_t large(int i) { return i % 7 == 3 ? (size_t)i * 1931 % (MAX_VALUE - 1000) : (size_t)i % 900; }
static size_t page_and_more(int i) { return 2000 + (size_t)i * 11; }

/* ---- both, side by side ---- */

static bool is_same(weft_str_t got, MDB_val want) {
  return got.length == want.mv_size &&
         (want.mv_size == 0 || memcmp(got.data, want.mv_data, want.mv_size) == 0);
}

static MDB_cursor *open_cursor(const char *path, bool is_file, database_t *d) {
  MDB_cursor *c = NULL;
  LMDB(mdb_env_create(&d->env));
  LMDB(mdb_env_set_mapsize(d->env, (size_t)64 << 20));
  LMDB(mdb_env_open(d->env, path, MDB_RDONLY | MDB_NOLOCK | (is_file ? MDB_NOSUBDIR : 0), 0));
  LMDB(mdb_txn_begin(d->env, NULL, MDB_RDONLY, &d->txn));
  LMDB(mdb_dbi_open(d->txn, NULL, 0, &d->main));
  LMDB(mdb_cursor_open(d->txn, d->main, &c));
  return c;
}

/* Reads the database with both, of which ours leaves out `skipped` entries. */
static int compare(const char *path, bool is_file, uint64_t skipped) {
  database_t d;
  MDB_val k, v;
  MDB_cursor *c = open_cursor(path, is_file, &d);
  weft_lmdb_t *ours = NULL;
  weft_str_t key, value;
  bool is_end = false;
  int n = 0;
  weft_status_t *s = weft_lmdb_open(path, &ours);
  if (s == NULL) s = weft_lmdb_skip(ours, skipped);
  for (int rc = mdb_cursor_get(c, &k, &v, MDB_FIRST); s == NULL; rc = mdb_cursor_get(c, &k, &v, MDB_NEXT)) {
    if ((uint64_t)n++ < skipped && rc == MDB_SUCCESS) continue;
    s = weft_lmdb_next(ours, &key, &value, &is_end);
    CU_ASSERT_EQUAL(is_end, rc == MDB_NOTFOUND);
    if (rc != MDB_SUCCESS || is_end || s != NULL) break;
    const bool is_equal = is_same(key, k) && is_same(value, v);
    CU_ASSERT_TRUE(is_equal);
    if (!is_equal) break;
  }
  if (s != NULL) fprintf(stderr, "\n    %s: %s\n", path, weft_status_message(s));
  CU_ASSERT_PTR_NULL(s);
  weft_status_free(s);
  weft_lmdb_close(ours);
  mdb_cursor_close(c);
  mdb_txn_abort(d.txn);
  mdb_env_close(d.env);
  return n - 1;
}

static void keys_and_values_come_in_order(void) {
  static const int counts[] = {0, 1, 2, 60, 100, 5000, 60000};
  for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
    make("a", counts[i], small);
    CU_ASSERT_EQUAL(compare(in_directory("a"), true, 0), counts[i]);
  }
}

static void large_values_are_read(void) {
  make("a", 300, large);
  CU_ASSERT_EQUAL(compare(in_directory("a"), true, 0), 300);
  make("a", 400, page_and_more);
  CU_ASSERT_EQUAL(compare(in_directory("a"), true, 0), 400);
}

static void entries_are_skipped(void) {
  static const uint64_t skipped[] = {1, 2, 299, 300, 1000};
  make("a", 300, large);
  for (size_t i = 0; i < sizeof skipped / sizeof *skipped; i++)
    (void)compare(in_directory("a"), true, skipped[i]);
}

static void the_newest_state_is_read(void) {
  make("a", 200, small);
  for (int round = 0; round < 5; round++) {
    database_t d = begin(in_directory("a"), MDB_NOSUBDIR, 0);
    char key[32];
    for (int i = round; i < 200; i += 3) {
      snprintf(key, sizeof key, "key %07d", i);
      MDB_val k = {strlen(key), key};
      const int rc = mdb_del(d.txn, d.main, &k, NULL);
      CU_ASSERT_TRUE(rc == MDB_SUCCESS || rc == MDB_NOTFOUND);
    }
    put(&d, "another", 7, filler, (size_t)round * 3000);
    commit(&d);
    CU_ASSERT_TRUE(compare(in_directory("a"), true, 0) > 0);
  }
}

static void a_directory_has_its_file(void) {
  CU_ASSERT_EQUAL_FATAL(mkdir(in_directory("folder"), 0755), 0);
  database_t d = begin(in_directory("folder"), 0, 0);
  put(&d, "k", 1, "value", 5);
  commit(&d);
  CU_ASSERT_EQUAL(compare(in_directory("folder"), false, 0), 1);
  CU_ASSERT_NOT_EQUAL(access(in_directory("folder/lock.mdb"), F_OK), 0);
}

/* A key has few duplicates, or many: these are a tree. */
static void sorted_duplicates_are_values(void) {
  static const unsigned kinds[] = {MDB_DUPSORT, MDB_DUPSORT | MDB_DUPFIXED, MDB_DUPSORT | MDB_REVERSEDUP};
  for (size_t kind = 0; kind < sizeof kinds / sizeof *kinds; kind++) {
    remove(in_directory("d"));
    database_t d = begin(in_directory("d"), MDB_NOSUBDIR, kinds[kind]);
    for (int k = 0; k < 40; k++) {
      for (int i = 0; i < (k % 10 == 4 ? 3000 : k % 3); i++) {
        char key[16], value[16];
        snprintf(key, sizeof key, "k%02d", k);
        snprintf(value, sizeof value, "%07d", i * 31 % 5000);
        put(&d, key, 3, value, 7);
      }
    }
    commit(&d);
    CU_ASSERT_TRUE(compare(in_directory("d"), true, 0) > 12000);
    (void)compare(in_directory("d"), true, 2999);
  }
}

static void other_orders_are_the_database_s(void) {
  static const unsigned kinds[] = {MDB_REVERSEKEY, MDB_INTEGERKEY};
  for (size_t kind = 0; kind < 2; kind++) {
    remove(in_directory("o"));
    database_t d = begin(in_directory("o"), MDB_NOSUBDIR, kinds[kind]);
    for (uint32_t i = 0; i < 3000; i++) {
      const uint32_t key = i * UINT32_C(2654435761);
      put(&d, &key, sizeof key, filler, i % 60);
    }
    commit(&d);
    CU_ASSERT_EQUAL(compare(in_directory("o"), true, 0), 3000);
  }
}

static void named_databases_are_records(void) {
  remove(in_directory("n"));
  database_t d = begin(in_directory("n"), MDB_NOSUBDIR, 0);
  MDB_dbi other;
  LMDB(mdb_dbi_open(d.txn, "other", MDB_CREATE, &other));
  MDB_val k = {1, filler}, v = {2, filler};
  LMDB(mdb_put(d.txn, other, &k, &v, 0));
  put(&d, "plain", 5, "x", 1);
  commit(&d);
  CU_ASSERT_EQUAL(compare(in_directory("n"), true, 0), 2);
}

/* ---- damage ---- */

/* Reads all; how it ended. */
static weft_code_t read_bytes(weft_str_t bytes) {
  weft_lmdb_t *d = NULL;
  weft_str_t key, value;
  size_t n = 0;
  bool is_end = false;
  weft_status_t *s = weft_lmdb_of(bytes, &d);
  while (s == NULL && !is_end) {
    s = weft_lmdb_next(d, &key, &value, &is_end);
    n++;
  }
  CU_ASSERT_TRUE(n <= bytes.length + 1);
  const weft_code_t code = weft_status_code(s);
  weft_status_free(s);
  weft_lmdb_close(d);
  return code;
}

static bool is_answer(weft_code_t code) { return code == WEFT_OK || code == WEFT_INVALID_ARGUMENT; }

static void read_file(const char *name, char **bytes, size_t *n) {
  weft_status_t *s = weft_file_read_all(in_directory(name), bytes, n);
  CU_ASSERT_PTR_NULL_FATAL(s);
}

static void damage_each_byte(char *bytes, size_t n, size_t step) {
  static const unsigned char others[] = {0x00, 0xff, 0x01, 0x80};
  for (size_t i = 0; i < n; i += step) {
    const char was = bytes[i];
    for (size_t k = 0; k < sizeof others; k++) {
      bytes[i] = (char)others[k];
      CU_ASSERT_TRUE(is_answer(read_bytes(weft_str_of(bytes, n))));
    }
    bytes[i] = was;
  }
}

static void any_byte_may_be_another(void) {
  char *bytes;
  size_t n;
  make("a", 60, large);
  read_file("a", &bytes, &n);
  CU_ASSERT_EQUAL(read_bytes(weft_str_of(bytes, n)), WEFT_OK);
  damage_each_byte(bytes, 2 * 4096, 1);
  damage_each_byte(bytes, n, 61);
  weft_free(bytes);
}

static void duplicates_may_be_damaged(void) {
  char *bytes;
  size_t n;
  remove(in_directory("d"));
  database_t d = begin(in_directory("d"), MDB_NOSUBDIR, MDB_DUPSORT | MDB_DUPFIXED);
  for (int i = 0; i < 900; i++) put(&d, i < 4 ? "a" : "b", 1, &i, sizeof i);
  commit(&d);
  read_file("d", &bytes, &n);
  damage_each_byte(bytes, n, 7);
  weft_free(bytes);
}

static void every_cut_is_noticed(void) {
  char *bytes;
  size_t n;
  make("a", 60, large);
  read_file("a", &bytes, &n);
  for (size_t cut = 0; cut < n; cut += cut < 9000 ? 1 : 509)
    CU_ASSERT_TRUE(is_answer(read_bytes(weft_str_of(bytes, cut))));
  CU_ASSERT_EQUAL(read_bytes(weft_str_of(bytes, 4096)), WEFT_INVALID_ARGUMENT);
  CU_ASSERT_EQUAL(read_bytes(weft_str_of(bytes, 3 * 4096)), WEFT_INVALID_ARGUMENT);
  weft_free(bytes);
}

static void expect_failure(const char *path, const char *words) {
  weft_lmdb_t *d = NULL;
  weft_str_t key, value;
  bool is_end = false;
  weft_status_t *s = weft_lmdb_open(path, &d);
  while (s == NULL && !is_end) s = weft_lmdb_next(d, &key, &value, &is_end);
  CU_ASSERT_EQUAL(weft_status_code(s), WEFT_INVALID_ARGUMENT);
  CU_ASSERT_PTR_NOT_NULL(strstr(weft_status_message(s), words));
  CU_ASSERT_PTR_NOT_NULL(strstr(weft_status_message(s), path));
  weft_status_free(s);
  if (d != NULL) {
    s = weft_lmdb_next(d, &key, &value, &is_end); /* again */
    CU_ASSERT_EQUAL(weft_status_code(s), WEFT_INVALID_ARGUMENT);
    weft_status_free(s);
  }
  weft_lmdb_close(d);
}

static void overwrite(const char *name, long at, const void *bytes, size_t n) {
  FILE *f = fopen(in_directory(name), "r+b");
  CU_ASSERT_PTR_NOT_NULL_FATAL(f);
  fseek(f, at, SEEK_SET);
  CU_ASSERT_EQUAL(fwrite(bytes, 1, n, f), n);
  fclose(f);
}

static void errors_name_the_file_and_the_page(void) {
  expect_failure(in_directory("nothing"), "nothing/data.mdb; No such file or directory");
  overwrite("a", 0, "", 0);
  CU_ASSERT_EQUAL_FATAL(truncate(in_directory("a"), 0), 0);
  expect_failure(in_directory("a"), "MDB_INVALID: File is not an LMDB file");
  make("a", 60, small);
  overwrite("a", 16 + 4, "\x07", 1);
  expect_failure(in_directory("a"), "MDB_VERSION_MISMATCH: Database environment version mismatch (page 0)");
  make("a", 60, small);
  overwrite("a", 2 * 4096 + 10, "\xff\xff", 2);
  expect_failure(in_directory("a"), "MDB_CORRUPTED: Located page was wrong type (page 2)");
  make("a", 60, small);
  CU_ASSERT_EQUAL_FATAL(truncate(in_directory("a"), 2 * 4096 + 100), 0);
  expect_failure(in_directory("a"), "MDB_PAGE_NOTFOUND: Requested page not found (page 2)");
}

/* A branch that is its own child is found by its kind, not by an end of memory. */
static void pages_that_go_round_end(void) {
  char *bytes;
  size_t n;
  make("a", 5000, small);
  read_file("a", &bytes, &n);
  for (size_t page = 2; page < n / 4096; page++) {
    char *p = bytes + page * 4096;
    if ((p[10] & 1) == 0) continue; /* no branch */
    for (size_t i = 16; i < 16 + 40; i += 2) {
      unsigned char *node = (unsigned char *)p + ((unsigned char)p[i] | (unsigned char)p[i + 1] << 8);
      memcpy(node, &page, 2);
      CU_ASSERT_EQUAL(read_bytes(weft_str_of(bytes, n)), WEFT_INVALID_ARGUMENT);
    }
  }
  weft_free(bytes);
}

static weft_status_t *read_and_drop(void) {
  weft_lmdb_t *d = NULL;
  weft_str_t key, value;
  bool is_end = false;
  weft_status_t *s = weft_lmdb_open(in_directory("a"), &d);
  while (s == NULL && !is_end) s = weft_lmdb_next(d, &key, &value, &is_end);
  weft_lmdb_close(d);
  return s;
}

static void each_failed_allocation_is_reported(void) {
  int n;
  make("a", 60, large);
  WEFT_FAIL_EACH_ALLOCATION(n, s, read_and_drop());
  CU_ASSERT_TRUE(n >= 4);
}

static const CU_TestInfo tests[] = {
    {"keys and values come in order", keys_and_values_come_in_order},
    {"large values are read", large_values_are_read},
    {"entries are skipped", entries_are_skipped},
    {"the newest state is read", the_newest_state_is_read},
    {"a directory has its file", a_directory_has_its_file},
    {"sorted duplicates are values", sorted_duplicates_are_values},
    {"other orders are the database's", other_orders_are_the_database_s},
    {"named databases are records", named_databases_are_records},
    {"any byte may be another", any_byte_may_be_another},
    {"duplicates may be damaged", duplicates_may_be_damaged},
    {"every cut is noticed", every_cut_is_noticed},
    {"errors name the file and the page", errors_name_the_file_and_the_page},
    {"pages that go round end", pages_that_go_round_end},
    {"each failed allocation is reported", each_failed_allocation_is_reported},
    CU_TEST_INFO_NULL,
};

int main(void) {
  const char *base = getenv("TEST_TMPDIR");
  snprintf(directory, sizeof directory, "%.40s/weftlmdbXXXXXX",
           base == NULL || strlen(base) > 40 ? "/tmp" : base);
  if (mkdtemp(directory) == NULL) return 1;
  for (size_t i = 0; i < sizeof filler; i++) filler[i] = (char)(i * 131 + i / 251);
  return weft_run_tests("lmdb", tests);
}
