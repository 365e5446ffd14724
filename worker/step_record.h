/* worker/step_record.h - what a worker tells an observer of the steps that it runs.
 *
 * An observer (`weft trace`, `weft profile`, `weft top`) is no client of the cluster: it looks at the steps
 * of other programs. It opens a recording at each task, asks for what was recorded since it asked last, and
 * ends the recording. The source of the records is worker/step_recording.h.
 */
#ifndef WEFT_WORKER_STEP_RECORD_H_
#define WEFT_WORKER_STEP_RECORD_H_

#include "base/status.h"
#include "base/str.h"

/* Longest id of an observer, in bytes. Ids have printable characters only. */
enum { WEFT_MAX_OBSERVER_ID = 200 };

typedef struct weft_record_request {
  weft_str_t observer; /* its id: the same in all of its requests, different from that of all others */
  bool is_first;       /* opens the recording */
  bool is_last;        /* ends it: what was not taken is forgotten */
  int64_t wait_ms;     /* how long the answer may wait for something to tell; at most a second */
  bool measures_peaks; /* asks for the peaks alone, and no recording: the first time takes some 0.2 s */
} weft_record_request_t;

/* One run of a graph of the task: its part of a step. */
typedef struct weft_step_record {
  int64_t step_id;
  int64_t start_micros, end_micros; /* of the task's clock, since 1970 */
  int64_t calls;                    /* of the observer that had arrived when the run began: 1 or more */
  weft_code_t code;                 /* how it ended */
  weft_str_t message;               /* empty for WEFT_OK */
  weft_str_t session;               /* handle; empty: graphs without a session */
  weft_str_t graph;                 /* handle */
  weft_str_t step_stats; /* serialized StepStats; each NodeExecStats has two more fields: see below */
} weft_step_record_t;

/* Fields of Weft's own in the NodeExecStats of a record: TensorFlow's readers skip them. */
enum {
  WEFT_NODE_STATS_INPUT_BYTES = 1001, /* int64: bytes of the tensors that the node read */
  WEFT_NODE_STATS_FLOPS = 1002,       /* int64: operations on numbers, from the shapes; absent: not known */
};

/* Lent during the callback. */
typedef struct weft_record_answer {
  const weft_step_record_t *records; /* in order of their end */
  int num_records;
  /* Steps that are over: the master has the results of all tasks, and no run of them is in progress here. A
   * step's last record of this task comes before, or with, its end. */
  const int64_t *ended_steps;
  int num_ended_steps;
  /* Steps that this recording does not have whole: they had begun before it was opened, or a record was
   * dropped because too much was waiting to be taken. */
  const int64_t *partial_steps;
  int num_partial_steps;
  /* Steps with recorded runs in progress. When another task has told the end of a step, and this one answers
   * a later request without has_more and without the step in here, it has no more records of the step. */
  const int64_t *running_steps;
  int num_running_steps;
  bool has_more;        /* there was too much for one answer: ask again at once */
  int64_t num_dropped;  /* records, since the recording was opened */
  int64_t clock_micros; /* the task's clock when it answered */
  double peak_flops;    /* operations a second, float32; 0: not asked for */
  double peak_bytes;    /* bytes a second, read and written; 0: not asked for */
} weft_record_answer_t;

/* Owns `status`; `answer` is NULL on failure. */
typedef void weft_record_fn(void *arg, weft_status_t *status, const weft_record_answer_t *answer);

#endif /* WEFT_WORKER_STEP_RECORD_H_ */
