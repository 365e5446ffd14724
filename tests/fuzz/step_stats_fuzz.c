/* tests/fuzz/step_stats_fuzz.c - what observers are told: an answer to Record, and the statistics in it, as a
 * table and as a time line.
 */
#include "base/alloc.h"
#include "jobs/trace.h"
#include "services/record_codec.h"
#include "tests/fuzz/fuzz.h"
#include "tools/observe/profile.h"
#include "tools/observe/step_gather.h"

/* The StepStats of a device with a node, its output, its memory, a transfer; and the same within an answer.
 */
#define STATS                                                                      \
  "\x0a\x8d\x01\x0a\x05/cpu0\x12\x36\x0a\x01m\x10\xe8\x07\x28\x05\x32\x12\x0a\x0d" \
  "account/param\x18\x40\x3a\x08\x1a\x06\x22\x04\x08\x90\x4e\x10\x42\x0d"          \
  "m = MatMul(a)\x68\xc0\x84\x3d\x80\x01\x88\x27\xc8\x3e\x20\xd0\x3e\x7f"          \
  "\x12\x30\x0a\x0aRecvTensor\x10\xe8\x07\x28\x05\x42\x1d[4B] [2Mb/s] e_1 from /a to /b"

const weft_fuzz_seed_t weft_fuzz_seeds[] = {
    WEFT_FUZZ_BYTES(STATS),
    WEFT_FUZZ_BYTES(
        "\x0a\x1c\x08\x05\x10\x0a\x18\x0c\x20\x03\x28\x0a\x32\x03why\x3a\x01s\x42\x01g\x4a\x05stats"
        "\x12\x02\x01\x02\x1a\x01\x03\x20\x09\x28\x90\x4e\x31\x00\x00\x00\x00\x00\x00\xf8\x3f\x42\x01\x07\x48"
        "\x01"),
    WEFT_FUZZ_END,
};

static void gather(const weft_record_answer_t *a) {
  weft_step_gather_t *g = NULL;
  weft_status_t *s = weft_step_gather_create(2, &g);
  for (int i = 0; s == NULL && i < 4; i++) { /* each task twice */
    weft_step_gather_asked(g, i % 2);
    s = weft_step_gather_add(g, i % 2, a);
    weft_fuzz_check(weft_step_gather_wait_ms(g, i % 2, 250) <= 250, "a wait that is too long");
  }
  for (weft_whole_step_t *step; s == NULL && (step = weft_step_gather_next(g)) != NULL;) {
    weft_fuzz_check(step->n > 0, "a step without parts");
    weft_whole_step_free(step);
  }
  weft_status_free(s);
  weft_step_gather_destroy(g);
}

static void read_answer(weft_str_t bytes) {
  weft_arena_t arena = WEFT_ARENA_INIT;
  weft_record_response_msg_t m;
  weft_record_answer_t a;
  memset(&m, 0, sizeof m);
  weft_status_t *s = weft_fields_decode_bytes(&weft_record_response_type, bytes, &arena, &m);
  if (s == NULL) s = weft_record_answer_from_msg(&m, &arena, &a);
  if (s == NULL) gather(&a);
  weft_status_free(s);
  weft_arena_deinit(&arena);
}

static void add_up(weft_str_t stats) {
  weft_profile_t *p = NULL;
  int n = 0;
  weft_status_t *s = weft_profile_create(WEFT_PROFILE_BY_NODE, &p);
  if (s == NULL) s = weft_profile_add(p, stats);
  const weft_profile_row_t *const *rows = s == NULL ? weft_profile_rows(p, &n) : NULL;
  for (int i = 0; i < n; i++) {
    weft_fuzz_check(rows[i]->count > 0 && rows[i]->num_flops <= rows[i]->count, "a row of nothing");
    (void)weft_profile_row_rates(rows[i], 1e9, 1e9);
  }
  weft_status_free(s);
  weft_profile_destroy(p);
}

static void draw(weft_str_t stats) {
  weft_job_trace_t *t = NULL;
  const weft_trace_part_t part = {.task = WEFT_STR("/job:worker/replica:0/task:0"),
                                  .number = 1,
                                  .session = stats,
                                  .graph = WEFT_STR("g"),
                                  .failure = WEFT_STR(""),
                                  .step_stats = stats};
  weft_status_t *s = weft_job_trace_create(&t);
  if (s == NULL) s = weft_job_trace_add_part(t, &part);
  if (s == NULL) s = weft_job_trace_write(t, "--out", "/dev/null");
  weft_status_free(s);
  weft_job_trace_destroy(t);
}

void weft_fuzz_one(const uint8_t *data, size_t size) {
  const weft_str_t bytes = weft_str_of((const char *)data, size);
  read_answer(bytes);
  add_up(bytes);
  draw(bytes);
}
