/* resources/kv_table.h - a table from keys to values that workers push to and pull from.
 *
 * A row is made by the first push to its key; a pull of a key without a row gets
 * the initial value, which is a function of the seed and the key alone, so pulls
 * do not make the table grow. What a push does to a row is the table's rule. The
 * table has clocks in front (kv_clock_object.h), and a policy:
 *
 *   ASP      a push is applied when it comes, a pull answered when it comes
 *   SSP      a push is applied when it comes; a pull by a worker at clock c waits until the slowest is at c
 *            - staleness
 *   BSP      pushes of one clock are gathered, and applied as one when all workers have left that clock, in
 *            the order of workers: the result does not depend on the order of arrival. SSP with a
 *            staleness of 0 is this
 *   K_OF_W   the first `required` pushes of a clock are applied as one, and the table goes on to the next
 *            clock; later ones of that clock are dropped. One push per worker and clock
 *
 * A push may carry a worker and a request id: one that was seen is answered, not
 * applied. Ids of a worker grow; of each worker the last WEFT_KV_WINDOW are
 * told apart, and older ones count as seen. So no more than that many may be under
 * way at once.
 *
 * Sources: ps-lite's server handles and PS consistency models (reference
 * strategies 3.2, 3.3).
 */
#ifndef WEFT_RESOURCES_KV_TABLE_H_
#define WEFT_RESOURCES_KV_TABLE_H_

#include "base/hash_map.h"
#include "resources/kv_clock.h"

enum { WEFT_KV_WINDOW = 1024, WEFT_KV_MAX_PENDING = 1 << 16, WEFT_KV_MAX_WIDTH = 1 << 24 };

typedef enum weft_kv_rule {
  WEFT_KV_ASSIGN,
  WEFT_KV_ADD,
  WEFT_KV_SGD,
  WEFT_KV_MOMENTUM,
  WEFT_KV_ADAGRAD
} weft_kv_rule_t;
typedef enum weft_kv_policy { WEFT_KV_ASP, WEFT_KV_BSP, WEFT_KV_SSP, WEFT_KV_K_OF_W } weft_kv_policy_t;
typedef enum weft_kv_init { WEFT_KV_CONSTANT, WEFT_KV_UNIFORM, WEFT_KV_NORMAL } weft_kv_init_t;

typedef struct weft_kv_config {
  weft_dtype_t dtype; /* f32, f64, i32, i64; integers are assigned or added */
  int64_t width;      /* of a row; 0: each row has a length of its own (policies ASP and SSP only) */
  weft_kv_rule_t rule;
  double learning_rate, momentum;
  weft_kv_init_t init;
  double init_value;      /* the constant; uniform in [-v, v); the standard deviation */
  int64_t seed, max_rows; /* max_rows 0: no limit but memory */
  weft_kv_policy_t policy;
  int64_t staleness, required;
  bool is_mean; /* of what one clock gathers: divided by the number of workers that pushed */
} weft_kv_config_t;

typedef struct weft_kv_table weft_kv_table_t; /* Thread-safe. A weft_clocked_t in front. */
extern const weft_resource_type_t weft_kv_table_type;

/* Errors: INVALID_ARGUMENT (a configuration that cannot work), RESOURCE_EXHAUSTED. */
WEFT_MUST_CHECK weft_status_t *weft_kv_table_create(const weft_kv_config_t *config, int num_workers,
                                                    const weft_str_t *tasks, int num_tasks,
                                                    weft_object_t **out);
const weft_kv_config_t *weft_kv_table_config(const weft_kv_table_t *t);
int weft_kv_table_num_workers(const weft_kv_table_t *t);
int64_t weft_kv_table_size(weft_kv_table_t *t);

typedef struct weft_kv_push {
  weft_tensor_t *keys, *values; /* [n] int64; [n, width] or, with lens, flat; retained if need be */
  const weft_tensor_t *lens;    /* [n] int64; NULL: rows of equal length */
  int64_t worker;               /* -1: none in particular */
  int64_t clock;                /* -1: the worker's own */
  int64_t request_id;           /* 0 or below: none */
  bool advances;                /* the worker is done with this clock */
} weft_kv_push_t;
/* *out_is_new: not seen before and not too late. Errors: INVALID_ARGUMENT (shapes, worker, a length that
 * differs), naming the key; FAILED_PRECONDITION (a clock ahead of the worker's); RESOURCE_EXHAUSTED. A push
 * that fails has changed nothing but, with lens, rows before the culprit. */
WEFT_MUST_CHECK weft_status_t *weft_kv_table_push(weft_kv_table_t *t, const weft_kv_push_t *p,
                                                  bool *out_is_new, int64_t *out_clock);
/* Ends the call, at once or later. Outputs: 0 values ([n, width], or flat with `has_lens`), then lens if
 * so, then the table's clock. Errors as above; CANCELLED; weft_clocked_too_late's. */
void weft_kv_table_pull(weft_kv_table_t *t, const weft_resource_call_t *call, weft_tensor_t *keys,
                        int64_t worker, int64_t clock, bool has_lens, weft_clock_timeout_t timeout);
/* A worker begins, or begins again: it is back among the clocks. *out_last_id: its highest request id; 0 if
 * the table has never heard of it. `greets`: the next id is taken, so that the table has heard of it from now
 * on. */
WEFT_MUST_CHECK weft_status_t *weft_kv_table_attach(weft_kv_table_t *t, int64_t worker, bool greets,
                                                    int64_t *out_clock, int64_t *out_last_id);

/* Everything there is, as one moment saw it; keys ascend. `out`: keys, values, lens, slots (what the rule
 * remembers), state (clocks and ids). Pushes that wait for their clock are not in it: workers push them
 * again. */
WEFT_MUST_CHECK weft_status_t *weft_kv_table_export(weft_kv_table_t *t, weft_tensor_t *out[5]);
/* Replaces everything by what was exported. Errors: INVALID_ARGUMENT; the table is then as it was. */
WEFT_MUST_CHECK weft_status_t *weft_kv_table_import(weft_kv_table_t *t, weft_tensor_t *const in[5]);

#endif /* WEFT_RESOURCES_KV_TABLE_H_ */
