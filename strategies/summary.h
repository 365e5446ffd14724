/* strategies/summary.h - what a rewrite does, added up for people and programs. */
#ifndef WEFT_STRATEGIES_SUMMARY_H_
#define WEFT_STRATEGIES_SUMMARY_H_

#include "strategies/rewrite.h"

typedef struct weft_flow { /* per run of every worker loop */
  int64_t bytes;           /* of what has a known size */
  double row_bytes;        /* and per row of the batch */
  int64_t messages;
  int num_unknown; /* values of unknown size */
} weft_flow_t;

typedef struct weft_summary_place { /* a task; with one task only: a device */
  weft_str_t name;
  int num_nodes, num_variables;
  int64_t variable_bytes;
  weft_flow_t in, out; /* from and to other places */
} weft_summary_place_t;

typedef struct weft_collective_kind_sum { /* all collectives of one op */
  weft_str_t op;
  int count;
  weft_flow_t values; /* of one member */
} weft_collective_kind_sum_t;

typedef struct weft_summary { /* Texts are lent by the rewrite. */
  weft_summary_place_t *places;
  int num_places;
  bool is_by_task;
  weft_collective_kind_sum_t *kinds;
  int num_kinds;
  weft_flow_t all;   /* between places */
  int num_repeated;  /* crossings inside loops */
  int num_variables; /* each once, however many copies there are */
  int64_t variable_bytes;
  bool is_copied;             /* a copy of all variables on each replica */
  int num_steps, num_updates; /* worker loops */
} weft_summary_t;

/* Arrays are in `arena`. Errors: RESOURCE_EXHAUSTED. */
WEFT_MUST_CHECK weft_status_t *weft_rewrite_summarize(const weft_rewrite_t *r, weft_arena_t *arena,
                                                      weft_summary_t *out);

/* "27.70 kB". */
void weft_print_bytes(weft_strbuf_t *out, int64_t bytes);
/* "27.70 kB + 132 B a row + ?": what is not known ends with "?". */
void weft_print_flow(weft_strbuf_t *out, const weft_flow_t *f);
/* "worker:1 CPU:0" of "/job:worker/replica:0/task:1/device:CPU:0". Names of another kind stay. */
void weft_print_place(weft_strbuf_t *out, weft_str_t name);
/* "all-reduce" of "CollectiveReduceV2"; the op's name where people have no other. */
const char *weft_collective_kind_name(weft_str_t op);

#endif /* WEFT_STRATEGIES_SUMMARY_H_ */
