/* io/match_files.h - files by a pattern, as TensorFlow matches them. */
#ifndef WEFT_IO_MATCH_FILES_H_
#define WEFT_IO_MATCH_FILES_H_

#include "base/status.h"
#include "base/str.h"

/* Paths, in no order. Confined. Begins as {0}. */
typedef struct weft_path_list {
  char **paths; /* owned, n of them */
  size_t n, capacity;
} weft_path_list_t;
void weft_path_list_deinit(weft_path_list_t *l);
void weft_path_list_sort(weft_path_list_t *l); /* bytewise */

/* Appends the paths that match `pattern`: '*', '?', '[...]' and '\' in any component, none of which matches a
 * '/'; a leading dot is matched as any other character. A pattern without these is a path, and matches if it
 * is there. Directories that cannot be read match nothing. One without a directory gives "./<name>" where it
 * has wildcards. Errors: RESOURCE_EXHAUSTED. */
WEFT_MUST_CHECK weft_status_t *weft_match_files(weft_str_t pattern, weft_path_list_t *out);

#endif /* WEFT_IO_MATCH_FILES_H_ */
