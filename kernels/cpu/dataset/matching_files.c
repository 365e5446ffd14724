/* kernels/cpu/dataset/matching_files.c - MatchingFilesDataset: the names of files that match patterns, those
 * of one pattern in order, one pattern after the other. */
#include <sys/stat.h>

#include "base/alloc.h"
#include "io/file.h"
#include "io/match_files.h"
#include "kernels/cpu/dataset/saved.h"

typedef struct matching_params {
  weft_dataset_params_t base;
  weft_tensor_t *patterns; /* owned reference */
} matching_params_t;

typedef struct matching {
  weft_iterator_t base;
  int64_t pattern; /* that is looked for next */
  weft_path_list_t files;
  size_t at; /* among them */
  bool has_match;
} matching_t;

static bool is_directory(const char *path) {
  struct stat info;
  return stat(weft_file_on_disk(path), &info) == 0 && S_ISDIR(info.st_mode);
}

static weft_status_t *next(weft_iterator_t *it, weft_tensor_t **out, bool *is_end) {
  matching_t *m = (matching_t *)it;
  const weft_tensor_t *patterns = ((const matching_params_t *)it->of->params)->patterns;
  for (;;) {
    for (; m->at < m->files.n; m->at++) {
      if (is_directory(m->files.paths[m->at])) continue;
      m->has_match = true;
      return weft_tensor_string(weft_str(m->files.paths[m->at++]), &out[0]);
    }
    weft_path_list_deinit(&m->files);
    m->files = (weft_path_list_t){0};
    m->at = 0;
    if (m->pattern == patterns->count) break;
    WEFT_RETURN_IF_ERROR(weft_match_files(weft_tensor_str_at(patterns, m->pattern++), &m->files));
    weft_path_list_sort(&m->files);
  }
  if (!m->has_match) return WEFT_ERROR(NOT_FOUND, "Don't find any matched files");
  *is_end = true;
  return NULL;
}

static void end(weft_iterator_t *it) { weft_path_list_deinit(&((matching_t *)it)->files); }

/* The pattern's files are looked for anew: those behind the last one that was handed out come next. */
static weft_status_t *save(weft_iterator_t *it, weft_saved_t *to) {
  const matching_t *m = (const matching_t *)it;
  const bool has_last = m->at > 0;
  weft_saved_put_int(to, m->pattern);
  weft_saved_put_int(to, m->has_match);
  weft_saved_put_int(to, has_last);
  weft_saved_put_string(to, has_last ? weft_str(m->files.paths[m->at - 1]) : WEFT_STR(""));
  return NULL;
}

static weft_status_t *load(weft_iterator_t *it, weft_saved_t *from) {
  matching_t *m = (matching_t *)it;
  const weft_tensor_t *patterns = ((const matching_params_t *)it->of->params)->patterns;
  int64_t has_match, has_last;
  weft_str_t last;
  WEFT_RETURN_IF_ERROR(weft_saved_get_int_in(from, 0, patterns->count, &m->pattern));
  WEFT_RETURN_IF_ERROR(weft_saved_get_int_in(from, 0, 1, &has_match));
  WEFT_RETURN_IF_ERROR(weft_saved_get_int_in(from, 0, m->pattern > 0, &has_last));
  WEFT_RETURN_IF_ERROR(weft_saved_get_string(from, &last));
  m->has_match = has_match != 0;
  if (has_last == 0) return NULL;
  WEFT_RETURN_IF_ERROR(weft_match_files(weft_tensor_str_at(patterns, m->pattern - 1), &m->files));
  weft_path_list_sort(&m->files);
  while (m->at < m->files.n && weft_str_compare(weft_str(m->files.paths[m->at]), last) <= 0) m->at++;
  return NULL;
}

static const weft_dataset_class_t class = {.name = "MatchingFiles",
                                           .iterator_size = sizeof(matching_t),
                                           .next = next,
                                           .end = end,
                                           .save = save,
                                           .load = load,
                                           .cardinality = weft_cardinality_unknown};

static weft_status_t *make(weft_kernel_ctx_t *c, int at, weft_dataset_t *d, void *params) {
  ((matching_params_t *)params)->patterns = weft_tensor_retain(weft_in(c, at));
  return weft_element_spec_string(&d->spec);
}

static void deinit(void *params) { weft_tensor_release(((matching_params_t *)params)->patterns); }

static const weft_dataset_op_t op = {
    .class = &class, .params_size = sizeof(matching_params_t), .make = make, .deinit = deinit};

const weft_kernel_t weft_cpu_dataset_matching_files_kernels[] = {
    WEFT_DATASET_ROW("ExperimentalMatchingFilesDataset", op),
    WEFT_DATASET_ROW("MatchingFilesDataset", op),
    {0},
};
