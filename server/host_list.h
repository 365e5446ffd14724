/* server/host_list.h - Slurm's short forms: names of nodes, and how many tasks each node has.
 *
 * Both texts come from the environment and are checked here: nothing is made for more than WEFT_MAX_HOSTS
 * nodes, however short the text is that asks for them.
 */
#ifndef WEFT_SERVER_HOST_LIST_H_
#define WEFT_SERVER_HOST_LIST_H_

#include "base/arena.h"

enum { WEFT_MAX_HOSTS = 100000, WEFT_MAX_HOST_NAME = 255 };

/* A plain struct; deinit frees it. */
typedef struct weft_host_list {
  weft_arena_t arena; /* of the names */
  weft_str_t *names;  /* owned */
  int num_names;
} weft_host_list_t;

void weft_host_list_deinit(weft_host_list_t *l);

/* The names that "n[1-3,07],gpu[0-1]x[2-3],login" stands for, in the order in which `scontrol show hostnames`
 * writes them. A number keeps the width of the begin of its range: [08-11] is 08, 09, 10, 11. Of several
 * brackets in a name the last varies first.
 * Errors: INVALID_ARGUMENT naming the part; RESOURCE_EXHAUSTED. */
WEFT_MUST_CHECK weft_status_t *weft_host_list_parse(weft_str_t text, weft_host_list_t *out);

/* The numbers that "2(x3),1" stands for: 2, 2, 2, 1. The caller frees *out with weft_free().
 * Errors: INVALID_ARGUMENT naming the part; RESOURCE_EXHAUSTED. */
WEFT_MUST_CHECK weft_status_t *weft_task_counts_parse(weft_str_t text, int **out, int *out_num);

#endif /* WEFT_SERVER_HOST_LIST_H_ */
