/* ops/op.c - the op table: parsed once, constant afterwards.
 *
 * Locking: the first look-up builds the table under `mu`; all later ones only
 * read. If memory runs out meanwhile, that look-up finds nothing and the next one
 * tries again. The table lives until the process ends.
 */
#include "ops/op.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "base/hash_map.h"
#include "base/log.h"
#include "base/mutex.h"
#include "ops/const_fold.h"
#include "ops/op_functions.h"
#include "ops/shard.h"

/* No update is linear in an input. So in the records the bits of LINEAR_IN say of an update from which input
 * it is, plus 1 (UPDATES_FROM). */
enum { UPDATE_SHIFT = 48, MOST_UPDATED = 255, MOST_INPUTS = 16 };
#define UPDATE_BITS (UINT64_C(0xff) << UPDATE_SHIFT)
/* `i`, in a record; one that its bits have no room for does not compile. */
#define BELOW(i, limit)                                                     \
  ((i) + (int)(0 * sizeof(struct {                                          \
                 _Static_assert((i) < (limit), #i " is not below " #limit); \
                 int unused;                                                \
               })))

typedef struct entry {
  const char *name, *signature, *attrs;
  weft_shape_fn *infer_shapes;
  weft_grad_fn *gradient;
  uint64_t flags;
  const char *formula;
  weft_op_collective_t collective;
  int removed_in;
  const char *removed_why;
  const char *absent;
  int linear_together;
  const char *sharding;
  weft_shard_fn *shard;
  weft_fold_fn *fold;
  weft_batch_rule_t batch;
} entry_t;

/* The short names of ops.def's flags. */
#define STATEFUL WEFT_OP_STATEFUL
#define COMMUTATIVE WEFT_OP_COMMUTATIVE
#define AGGREGATE WEFT_OP_AGGREGATE
#define ELEMENTWISE WEFT_OP_ELEMENTWISE
#define UNINIT_OK WEFT_OP_UNINIT_OK
#define SWITCH WEFT_OP_SWITCH
#define MERGE WEFT_OP_MERGE
#define ENTER WEFT_OP_ENTER
#define EXIT WEFT_OP_EXIT
#define NEXT_ITERATION WEFT_OP_NEXT_ITERATION
#define LOOP_COND WEFT_OP_LOOP_COND
#define CONTROL_TRIGGER WEFT_OP_CONTROL_TRIGGER
#define SEND WEFT_OP_SEND
#define RECV WEFT_OP_RECV
#define CONST_VALUE WEFT_OP_CONST
#define VARIABLE WEFT_OP_VARIABLE
#define METADATA WEFT_OP_METADATA
#define BLOCKING WEFT_OP_BLOCKING
#define FUNCTIONAL WEFT_OP_FUNCTIONAL
#define COLOCATE_EXEMPT WEFT_OP_COLOCATE_EXEMPT
#define CHEAP WEFT_OP_CHEAP
#define INTERNAL WEFT_OP_INTERNAL
#define COMMUNICATION WEFT_OP_COMMUNICATION
#define ARG WEFT_OP_ARG
#define RETVAL WEFT_OP_RETVAL
#define PLACEHOLDER WEFT_OP_PLACEHOLDER
#define NOOP WEFT_OP_NOOP
#define DEFAULT_VALUE WEFT_OP_DEFAULT
#define IDENTITY WEFT_OP_IDENTITY
#define BUNDLE WEFT_OP_BUNDLE
#define READ WEFT_OP_READ
#define COPY WEFT_OP_COPY
#define VIEW WEFT_OP_VIEW
#define LOOKUP WEFT_OP_LOOKUP
#define LOOKUP_ND WEFT_OP_LOOKUP_ND
#define INITIALIZED WEFT_OP_INITIALIZED
#define SHAPE WEFT_OP_SHAPE
#define UNIQUE WEFT_OP_UNIQUE
#define SEGMENT_SUM WEFT_OP_SEGMENT_SUM
#define PARTITION WEFT_OP_PARTITION
#define EFFECT WEFT_OP_EFFECT
#define CALL WEFT_OP_CALL
#define READS_FILES WEFT_OP_READS_FILES
#define REMOTE_CALL WEFT_OP_REMOTE_CALL
#define MAY_FORWARD WEFT_OP_MAY_FORWARD
#define GRADIENT WEFT_OP_GRADIENT
#define IN_DATA_SERVICE "the tf.data service is a system of servers of its own"
#define SAVE WEFT_OP_SAVE
#define BATCH_NORM WEFT_OP_BATCH_NORM
#define BATCH_NORM_GRAD WEFT_OP_BATCH_NORM_GRAD
#define REPLACES WEFT_OP_REPLACES
#define ASSIGNS_FROM(input) (WEFT_OP_ASSIGN | UPDATES_FROM(input))
#define LINEAR_IN(i) WEFT_OP_LINEAR_IN(BELOW(i, WEFT_OP_MAX_LINEAR))
#define COLLECTIVE (WEFT_OP_STATEFUL | WEFT_OP_BLOCKING | WEFT_OP_COMMUNICATION)
#define UPDATES WEFT_OP_UPDATE /* writes its input 0, from no gradient or value */
#define UPDATES_FROM(input) (WEFT_OP_UPDATE | (uint64_t)(BELOW(input, MOST_UPDATED) + 1) << UPDATE_SHIFT)

/* Of linear_together, batch, shard and fold. */
#define INPUT(i) (1 << BELOW(i, MOST_INPUTS))
#define FOLD(name) weft_fold_##name
#define ALL_INPUTS WEFT_OP_ALL_INPUTS
#define BATCH(rule) WEFT_BATCH_##rule
#define SHARD(name) weft_shard_##name

static const entry_t entries[] = {
#define WEFT_OP(name_, signature_, attrs_, shape_, grad_, ...) \
  {.name = name_,                                              \
   .signature = signature_,                                    \
   .attrs = attrs_,                                            \
   .infer_shapes = weft_##shape_,                              \
   .gradient = weft_##grad_,                                   \
   .flags = __VA_ARGS__},
#include "ops/ops.def"
#undef WEFT_OP
};

enum { NUM_OPS = sizeof entries / sizeof entries[0] };

static struct {
  weft_mutex_t mu;
  atomic_bool is_built; /* set with release order when all else is in place; read with acquire */
  weft_arena_t arena;
  weft_op_def_t ops[NUM_OPS];
  const weft_op_def_t *sorted[NUM_OPS];
  weft_map_t by_name;
} table = {.mu = WEFT_MUTEX_INITIALIZER, .arena = WEFT_ARENA_INIT, .by_name = WEFT_MAP_INIT};

static int compare_names(const void *a, const void *b) {
  const weft_op_def_t *const *x = a, *const *y = b;
  return weft_str_compare((*x)->name, (*y)->name);
}

static weft_status_t *build_locked(void) {
  for (int i = 0; i < NUM_OPS; i++) {
    const entry_t *e = &entries[i];
    weft_op_def_t *op = &table.ops[i];
    WEFT_RETURN_IF_ERROR(weft_op_parse(&table.arena, e->name, e->signature, e->attrs, op));
    table.sorted[i] = op;
    op->infer_shapes = e->infer_shapes;
    op->gradient = e->gradient == weft_grad_missing ? NULL : e->gradient;
    const uint64_t update = (e->flags & WEFT_OP_UPDATE) != 0 ? e->flags & UPDATE_BITS : 0;
    op->flags = e->flags & ~update;
    op->update_grad_input = (int)(update >> UPDATE_SHIFT) - 1;
    op->formula = e->formula;
    op->collective = e->collective;
    op->removed_in = e->removed_in;
    op->removed_why = e->removed_why;
    op->absent = e->absent;
    op->linear_together = e->linear_together;
    op->sharding = e->sharding;
    op->shard = e->shard;
    op->fold = e->fold;
    op->batch = e->batch;
    void *old = NULL;
    WEFT_RETURN_IF_ERROR(weft_map_put(&table.by_name, op->name, op, &old));
    if (old != NULL) return WEFT_ERROR(INTERNAL, "op '%s' is in the table twice", e->name);
  }
  qsort(table.sorted, NUM_OPS, sizeof table.sorted[0], compare_names);
  return NULL;
}

static void undo_build_locked(void) {
  for (int i = 0; i < NUM_OPS && table.sorted[i] != NULL; i++) {
    const weft_op_def_t *op = table.sorted[i];
    for (int k = 0; k < op->num_attrs; k++) {
      weft_attr_t value = op->attrs[k].default_value;
      if (op->attrs[k].has_default) weft_attr_release_tensors(&value);
    }
    table.sorted[i] = NULL;
  }
  weft_map_deinit(&table.by_name);
  table.by_name = (weft_map_t)WEFT_MAP_INIT;
  weft_arena_deinit(&table.arena);
  table.arena = (weft_arena_t)WEFT_ARENA_INIT;
}

static bool is_ready(void) {
  if (atomic_load_explicit(&table.is_built, memory_order_acquire)) return true;
  weft_status_t *s = NULL;
  weft_mutex_lock(&table.mu);
  bool is_ready = atomic_load_explicit(&table.is_built, memory_order_relaxed);
  if (!is_ready) {
    s = build_locked();
    is_ready = s == NULL;
    if (!is_ready) undo_build_locked();
    atomic_store_explicit(&table.is_built, is_ready, memory_order_release);
  }
  weft_mutex_unlock(&table.mu);
  if (s != NULL) weft_log_status(WEFT_LOG_ERROR, "building the op table", s);
  return is_ready;
}

const weft_op_def_t *weft_op_find(weft_str_t name) {
  return is_ready() ? weft_map_get(&table.by_name, name) : NULL;
}

const weft_op_def_t *const *weft_op_list(int *out_n) {
  *out_n = is_ready() ? NUM_OPS : 0;
  return table.sorted;
}

bool weft_op_is_elementwise(const weft_op_def_t *op) {
  bool is_plain = op->sharding != NULL && op->sharding[strspn(op->sharding, ".,*->")] == '\0';
  return is_plain || (op->flags & WEFT_OP_ELEMENTWISE) != 0;
}

bool weft_op_keeps_shape(const weft_op_def_t *op) { return op->infer_shapes == weft_infer_unchanged; }

weft_status_t *weft_infer_unknown(weft_shape_ctx_t *c) {
  (void)c;
  return NULL;
}

weft_status_t *weft_grad_none(weft_grad_ctx_t *g) {
  (void)g;
  return NULL;
}

weft_status_t *weft_grad_missing(weft_grad_ctx_t *g) {
  return WEFT_ERROR(INTERNAL, "op '%.*s' has no gradient", WEFT_STR_ARGS(g->op->name));
}
