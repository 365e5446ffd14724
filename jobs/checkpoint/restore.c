/* jobs/checkpoint/restore.c - a checkpoint is held against the graph before anything runs, then its values
 * are set. */
#include <inttypes.h>

#include "base/alloc.h"
#include "jobs/checkpoint/checkpoint.h"

static weft_status_t *no_memory(void) { return WEFT_NO_MEMORY("restoring a checkpoint"); }

void weft_restore_close(weft_restore_t *r) {
  weft_source_close(r->source);
  weft_arena_deinit(&r->arena);
  *r = (weft_restore_t){.arena = WEFT_ARENA_INIT};
}

/* ---- does it fit? ---- */

typedef enum fit { FITS, IS_MISSING, HAS_OTHER_TYPE, HAS_OTHER_SHAPE } fit_t;

/* What the checkpoint has under `tensor`, wanted as `shape`. */
static fit_t look_up(const weft_restore_t *r, weft_str_t tensor, weft_dtype_t dtype,
                     const weft_shape_t *shape, weft_dtype_t *has_dtype, weft_shape_t *has_shape) {
  if (!weft_source_lookup(r->source, tensor, has_dtype, has_shape)) return IS_MISSING;
  if (*has_dtype != dtype) return HAS_OTHER_TYPE;
  return weft_shape_compatible(shape, has_shape) ? FITS : HAS_OTHER_SHAPE;
}

typedef struct misfits {
  int missing, other; /* how many */
  const weft_saved_variable_t *first_missing, *first_other;
  weft_dtype_t dtype; /* of first_other in the checkpoint */
  weft_shape_t shape;
} misfits_t;

static void compare(weft_restore_t *r, misfits_t *m) {
  for (int i = 0; i < r->variables->n; i++) {
    const weft_saved_variable_t *v = &r->variables->items[i];
    weft_dtype_t dtype;
    weft_shape_t shape;
    weft_str_t tensor = v->tensor;
    fit_t fit = look_up(r, tensor, v->dtype, v->is_part ? &v->full : &v->shape, &dtype, &shape);
    if (fit == IS_MISSING &&
        !weft_str_eq(tensor, v->node->name)) { /* saved by its own name, by a program that knew no other */
      tensor = v->node->name;
      fit = look_up(r, tensor, v->dtype, &v->shape, &dtype, &shape);
    }
    r->tensors[i] = WEFT_STR("");
    if (fit == FITS) {
      r->tensors[i] = tensor;
      r->num_found++;
    } else if (fit == IS_MISSING && v->is_needed) {
      if (m->missing++ == 0) m->first_missing = v;
    } else if (fit != IS_MISSING) {
      if (m->other++ > 0) continue;
      m->first_other = v;
      m->dtype = dtype;
      m->shape = shape;
    }
  }
}

static bool is_object_based(const weft_restore_t *r) {
  weft_dtype_t dtype;
  weft_shape_t shape;
  return weft_source_lookup(r->source, WEFT_STR("_CHECKPOINTABLE_OBJECT_GRAPH"), &dtype, &shape);
}

static weft_status_t *check_fit(weft_restore_t *r, bool is_partial) {
  misfits_t m = {0};
  compare(r, &m);
  if (m.other > 0) {
    const weft_saved_variable_t *v = m.first_other;
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "%s %.*s is the checkpoint of another model: %.*s is %s %s in it, but %s %s in the "
                      "graph (%d of %d variables "
                      "differ); nothing was changed",
                      r->option, WEFT_STR_ARGS(r->path), WEFT_STR_ARGS(v->tensor), weft_dtype_name(m.dtype),
                      WEFT_SHAPE_TEXT(&m.shape), weft_dtype_name(v->dtype),
                      WEFT_SHAPE_TEXT(v->is_part ? &v->full : &v->shape), m.other, r->variables->n);
  }
  if (m.missing > 0 && is_object_based(r) && r->num_found == 0) {
    return WEFT_ERROR(
        INVALID_ARGUMENT,
        "%s %.*s was written by tf.train.Checkpoint, which names objects, not variables; write it with "
        "tf.compat.v1.train.Saver; nothing was changed",
        r->option, WEFT_STR_ARGS(r->path));
  }
  if (m.missing > 0 && (!is_partial || r->num_found == 0)) {
    bool hints = r->num_found > 0;
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "%s %.*s is the checkpoint of another model: it lacks %.*s (%d of %d "
                      "variables)%s%s%s%s%s; nothing was "
                      "changed",
                      r->option, WEFT_STR_ARGS(r->path), WEFT_STR_ARGS(m.first_missing->tensor), m.missing,
                      r->variables->n, hints ? "; with " : "", hints ? r->words->partly : "",
                      hints ? " those keep the values that " : "", hints ? r->words->init : "",
                      hints ? " gives them" : "");
  }
  return NULL;
}

/* ---- is it whole? ---- */

/* The place of rows of a variable in its tensor; *is_whole: they are all of it. */
static void place(const weft_restore_t *r, const weft_saved_variable_t *v, int64_t first_row,
                  const weft_shape_t *shape, weft_tensor_slice_t *out, bool *is_whole) {
  weft_str_t tensor = r->tensors[v - r->variables->items];
  weft_saved_variable_t whole = *v;
  if (weft_str_eq(tensor, v->node->name)) whole.is_part = false;
  *is_whole = true;
  if (!weft_shape_is_known(shape)) return;
  weft_saved_variable_place(&whole, first_row, shape, out);
  for (int d = 0; d < out->rank; d++) *is_whole = *is_whole && out->is_full[d];
}

static weft_status_t *read_rows(weft_restore_t *r, const weft_saved_variable_t *v, int64_t first_row,
                                const weft_shape_t *shape, weft_tensor_t **out) {
  weft_tensor_slice_t at;
  bool is_whole;
  weft_str_t tensor = r->tensors[v - r->variables->items];
  place(r, v, first_row, shape, &at, &is_whole);
  return weft_source_read(r->source, tensor, is_whole ? NULL : &at, out);
}

/* The message of a failure that says what is wrong with which file, once. */
static weft_status_t *damaged(const weft_restore_t *r, weft_status_t *s) {
  if (s == NULL) return NULL;
  weft_code_t code = weft_status_code(s);
  bool is_missing = code == WEFT_NOT_FOUND,
       is_damaged = code == WEFT_OUT_OF_RANGE || code == WEFT_INTERNAL || code == WEFT_INVALID_ARGUMENT;
  weft_status_t *told =
      weft_status_new(is_damaged ? WEFT_DATA_LOSS : code, __FILE__, __LINE__,
                      "%s %.*s: %s: %s; nothing was changed", r->option, WEFT_STR_ARGS(r->path),
                      is_missing                       ? "a file is missing"
                      : code == WEFT_PERMISSION_DENIED ? "it cannot be read"
                                                       : "it is damaged",
                      weft_status_message(s));
  weft_status_free(s);
  return told;
}

static uint64_t mix(uint64_t h, uint64_t x) { return (h ^ x) * UINT64_C(0x9e3779b97f4a7c15) + (h >> 32); }

static weft_status_t *read_all(weft_restore_t *r) {
  for (int i = 0; i < r->variables->n; i++) {
    const weft_saved_variable_t *v = &r->variables->items[i];
    weft_tensor_t *t = NULL;
    if (r->tensors[i].length == 0) continue;
    WEFT_RETURN_IF_ERROR(read_rows(r, v, 0, &v->shape, &t));
    r->fingerprint = mix(r->fingerprint, weft_str_hash64(v->node->name));
    if (weft_dtype_is_plain(t->dtype))
      r->fingerprint = mix(r->fingerprint, weft_str_hash64(weft_str_of(t->data, t->bytes)));
    weft_tensor_release(t);
  }
  return NULL;
}

/* ---- where the job stood ---- */

static weft_status_t *read_numbers(weft_restore_t *r, weft_str_t name, int64_t *to, int64_t n,
                                   bool *is_there) {
  weft_dtype_t dtype;
  weft_shape_t shape;
  weft_tensor_t *t = NULL;
  *is_there = look_up(r, name, WEFT_I64, &WEFT_UNKNOWN_SHAPE, &dtype, &shape) == FITS &&
              weft_shape_count(&shape) == n;
  if (!*is_there) return NULL;
  WEFT_RETURN_IF_ERROR(weft_source_read(r->source, name, NULL, &t));
  memcpy(to, t->data, (size_t)n * sizeof *to);
  weft_tensor_release(t);
  return NULL;
}

static weft_status_t *read_position(weft_restore_t *r) {
  int64_t step = 0, batches[5] = {0};
  bool has_batches;
  WEFT_RETURN_IF_ERROR(read_numbers(r, WEFT_STR(WEFT_CHECKPOINT_STEP), &step, 1, &r->has_position));
  WEFT_RETURN_IF_ERROR(read_numbers(r, WEFT_STR(WEFT_CHECKPOINT_BATCHES), batches, 5, &has_batches));
  bool is_good = step >= 0 && batches[0] >= 0 && batches[1] >= 0 && batches[1] <= batches[2];
  if (!is_good)
    return WEFT_ERROR(DATA_LOSS,
                      "its counters of steps and batches, _weft/step and _weft/batches, are invalid");
  r->position = (weft_job_position_t){.step = step,
                                      .epoch = batches[0],
                                      .row = batches[1],
                                      .rows = batches[2],
                                      .is_shuffled = batches[3] != 0,
                                      .seed = (uint64_t)batches[4]};
  r->fingerprint = mix(r->fingerprint, (uint64_t)step) | 1;
  return NULL;
}

/* ---- in all ---- */

static weft_status_t *open_source(weft_restore_t *r) {
  static const char *const ends[] = {".index", ".meta", ".data-00000-of-00001"};
  weft_str_t given = r->path;
  for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
    if (!weft_str_ends_with(r->path, ends[i])) continue;
    given.length -= strlen(ends[i]);
    return WEFT_ERROR(INVALID_ARGUMENT, "%s %.*s: give the prefix of the checkpoint: %.*s", r->option,
                      WEFT_STR_ARGS(r->path), WEFT_STR_ARGS(given));
  }
  weft_status_t *s = weft_source_open(r->path, &r->source);
  bool is_absent = weft_status_code(s) == WEFT_NOT_FOUND, is_file = weft_file_exists(r->path.data);
  if (!is_absent && (r->source != NULL || !is_file)) return damaged(r, s);
  weft_status_free(s);
  if (is_absent)
    return WEFT_ERROR(NOT_FOUND, "%s %.*s: there is no such checkpoint", r->option, WEFT_STR_ARGS(r->path));
  return WEFT_ERROR(INVALID_ARGUMENT, "%s %.*s is no checkpoint, or a damaged one", r->option,
                    WEFT_STR_ARGS(r->path));
}

weft_status_t *weft_restore_open(const weft_job_words_t *words, const char *option, weft_str_t path,
                                 const weft_saved_variables_t *variables, bool is_partial,
                                 weft_restore_t *out) {
  *out = (weft_restore_t){.arena = WEFT_ARENA_INIT, .words = words, .option = option, .variables = variables};
  out->path = weft_arena_str(&out->arena, path);
  out->tensors = weft_arena_calloc(&out->arena, (size_t)variables->n + 1, sizeof *out->tensors);
  if (out->path.data == NULL || out->tensors == NULL) return no_memory();
  WEFT_RETURN_IF_ERROR(open_source(out));
  WEFT_RETURN_IF_ERROR(check_fit(out, is_partial));
  WEFT_RETURN_IF_ERROR(damaged(out, read_all(out)));
  return damaged(out, read_position(out));
}

static weft_status_t *give(void *arg, const weft_access_part_t *part, weft_tensor_t **out) {
  return read_rows(arg, part->variable, part->first_row, &part->shape, out);
}

weft_status_t *weft_restore_run(weft_restore_t *r, const weft_access_t *access, TF_Session *session) {
  bool *wanted = weft_calloc((size_t)access->n + 1, sizeof *wanted);
  if (wanted == NULL) return no_memory();
  for (int i = 0; i < access->n; i++)
    wanted[i] = r->tensors[access->parts[i].variable - r->variables->items].length > 0;
  weft_status_t *s = weft_access_write(access, session, wanted, give, r);
  weft_free(wanted);
  return s == NULL ? NULL : weft_status_annotate(s, "while restoring %.*s", WEFT_STR_ARGS(r->path));
}
