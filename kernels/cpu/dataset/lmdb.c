/* kernels/cpu/dataset/lmdb.c - LMDBDataset: the keys and values of LMDB databases, one database after the
 * other.
 *
 * TensorFlow 2.19 has these ops without what they did, and answers UNIMPLEMENTED. Here they do what they did
 * in the versions before, but that an empty database gives no elements (there it made the pass spin) and that
 * a pass is saved and restored.
 */
#include "io/lmdb.h"

#include "kernels/cpu/dataset/files.h"
#include "kernels/cpu/dataset/saved.h"

enum { SKIPPED_AT_ONCE = 10000 }; /* entries, between two looks at the canceller */

typedef struct lmdb_iterator {
  weft_iterator_t base;
  int64_t file, at;  /* the database that is open, or the next; entries of it that were read */
  weft_lmdb_t *open; /* owned */
} lmdb_iterator_t;

static weft_status_t *open_current(lmdb_iterator_t *r) {
  const weft_dataset_files_t *p = (const weft_dataset_files_t *)r->base.of->params;
  return weft_lmdb_open(p->names[r->file], &r->open);
}

static weft_status_t *next_pair(lmdb_iterator_t *r, weft_tensor_t **out, bool *is_over) {
  weft_str_t key, value;
  if (r->open == NULL) WEFT_RETURN_IF_ERROR(open_current(r));
  WEFT_RETURN_IF_ERROR(weft_lmdb_next(r->open, &key, &value, is_over));
  if (*is_over) return NULL;
  r->at++;
  WEFT_RETURN_IF_ERROR(weft_tensor_string(key, &out[0]));
  return weft_tensor_string(value, &out[1]);
}

static weft_status_t *next(weft_iterator_t *it, weft_tensor_t **out, bool *is_end) {
  lmdb_iterator_t *r = (lmdb_iterator_t *)it;
  const weft_dataset_files_t *p = (const weft_dataset_files_t *)it->of->params;
  for (bool is_over = false; r->file < p->num; is_over = false) {
    WEFT_RETURN_IF_ERROR(next_pair(r, out, &is_over));
    if (!is_over) return NULL;
    weft_lmdb_close(r->open);
    r->open = NULL;
    r->file++;
    r->at = 0;
  }
  *is_end = true;
  return NULL;
}

static void end(weft_iterator_t *it) { weft_lmdb_close(((lmdb_iterator_t *)it)->open); }

static weft_status_t *save(weft_iterator_t *it, weft_saved_t *to) {
  weft_saved_put_int(to, ((lmdb_iterator_t *)it)->file);
  weft_saved_put_int(to, ((lmdb_iterator_t *)it)->at);
  return NULL;
}

static weft_status_t *load(weft_iterator_t *it, weft_saved_t *from) {
  lmdb_iterator_t *r = (lmdb_iterator_t *)it;
  const weft_dataset_files_t *p = (const weft_dataset_files_t *)it->of->params;
  WEFT_RETURN_IF_ERROR(weft_saved_get_int_in(from, 0, p->num, &r->file));
  WEFT_RETURN_IF_ERROR(weft_saved_get_int_in(from, 0, r->file < p->num ? INT64_MAX : 0, &r->at));
  if (r->at == 0) return NULL;
  WEFT_RETURN_IF_ERROR(open_current(r));
  for (int64_t left = r->at; left > 0; left -= SKIPPED_AT_ONCE) {
    if (weft_canceller_is_cancelled(it->canceller)) return WEFT_ERROR(CANCELLED, "Iterator was cancelled");
    const int64_t n = left < SKIPPED_AT_ONCE ? left : SKIPPED_AT_ONCE;
    WEFT_RETURN_IF_ERROR(weft_lmdb_skip(r->open, (uint64_t)n));
  }
  return NULL;
}

static const weft_dataset_class_t class = {.name = "LMDB",
                                           .iterator_size = sizeof(lmdb_iterator_t),
                                           .next = next,
                                           .end = end,
                                           .save = save,
                                           .load = load,
                                           .cardinality = weft_cardinality_unknown};

/* Keys and values are strings, whatever output_types says. */
static weft_status_t *make(weft_kernel_ctx_t *c, int at, weft_dataset_t *d, void *params) {
  weft_element_spec_t *spec = NULL;
  WEFT_RETURN_IF_ERROR(weft_dataset_files_in(c, at, params));
  WEFT_RETURN_IF_ERROR(weft_element_spec_create(2, &spec));
  for (int i = 0; i < spec->n; i++) {
    spec->dtypes[i] = WEFT_STRING;
    spec->shapes[i] = WEFT_SCALAR;
  }
  weft_element_spec_release(d->spec);
  d->spec = spec;
  return NULL;
}

static const weft_dataset_op_t op = {.class = &class,
                                     .params_size = sizeof(weft_dataset_files_t),
                                     .make = make,
                                     .deinit = weft_dataset_files_deinit};

const weft_kernel_t weft_cpu_dataset_lmdb_kernels[] = {
    WEFT_DATASET_ROW("ExperimentalLMDBDataset", op),
    WEFT_DATASET_ROW("LMDBDataset", op),
    {0},
};
