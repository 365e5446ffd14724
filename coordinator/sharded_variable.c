/* coordinator/sharded_variable.c - tables in parts, as nodes that the C API adds.
 *
 * With `rows` rows in n parts, q = rows / n and r = rows mod n, the first r parts have q + 1 rows; row i is
 * in part max(i / (q + 1), (i - r) / q). Ids are partitioned by that, and what comes back is put in the ids'
 * order. Source: the "div" strategy of TensorFlow's embedding_lookup; strategies/shard.h has the arithmetic.
 */
#include "weft/sharded_variable.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/alloc.h"
#include "client/status.h"
#include "client/tensor.h"
#include "strategies/shard.h"

typedef struct variable_part {
  TF_Output handle;
  int64_t begin, rows;
  int device; /* among the devices of the variable */
} variable_part_t;

struct WEFT_ShardedVariable {
  TF_Graph *graph; /* borrowed */
  TF_DataType dtype;
  weft_shape_t shape;
  variable_part_t *parts; /* owned */
  char **devices;         /* owned, as the texts */
  int num_parts, num_devices;
};

/* ---- short ways to add nodes; after a failure they add nothing ---- */

typedef struct adder {
  WEFT_ShardedVariable *v;
  const char *scope;
  TF_Status *status;
} adder_t;

static const TF_Output nothing = {NULL, 0};
static bool ok(const adder_t *a) { return TF_GetCode(a->status) == TF_OK; }

static adder_t adder(WEFT_ShardedVariable *v, const char *scope, TF_Status *status) {
  TF_SetStatus(status, TF_OK, "");
  return (adder_t){v, scope, status};
}

/* "scope/name_i", or "scope/name" for i < 0, or "scope" without a name. NULL after a failure. */
static TF_OperationDescription *begin(const adder_t *a, const char *op, const char *name, int i) {
  char text[512];
  if (!ok(a)) return NULL;
  if (name == NULL)
    snprintf(text, sizeof text, "%s", a->scope);
  else if (i < 0)
    snprintf(text, sizeof text, "%s/%s", a->scope, name);
  else
    snprintf(text, sizeof text, "%s/%s_%d", a->scope, name, i);
  return TF_NewOperation(a->v->graph, op, text);
}

static TF_Output end(const adder_t *a, TF_OperationDescription *d) {
  return d == NULL ? nothing : (TF_Output){TF_FinishOperation(d, a->status), 0};
}

static TF_Output add(const adder_t *a, const char *op, const char *name, int i, const TF_Output *in, int n) {
  TF_OperationDescription *d = begin(a, op, name, i);
  for (int k = 0; d != NULL && k < n; k++) TF_AddInput(d, in[k]);
  return end(a, d);
}
static TF_Output add1(const adder_t *a, const char *op, const char *name, TF_Output x) {
  return add(a, op, name, -1, &x, 1);
}
static TF_Output add2(const adder_t *a, const char *op, const char *name, TF_Output x, TF_Output y) {
  const TF_Output in[2] = {x, y};
  return add(a, op, name, -1, in, 2);
}
static TF_Output add3(const adder_t *a, const char *op, const char *name, TF_Output x, TF_Output y,
                      TF_Output z) {
  const TF_Output in[3] = {x, y, z};
  return add(a, op, name, -1, in, 3);
}

/* A constant of int32 or int64; n < 0: a scalar. */
static TF_Output ints(const adder_t *a, const char *name, TF_DataType type, const int64_t *values, int n) {
  const int64_t dims[1] = {n}, count = n < 0 ? 1 : n;
  TF_OperationDescription *d = begin(a, "Const", name, -1);
  if (d == NULL) return nothing;
  TF_Tensor *t = TF_AllocateTensor(type, dims, n < 0 ? 0 : 1, (size_t)count * TF_DataTypeSize(type));
  for (int64_t i = 0; t != NULL && i < count; i++) {
    if (type == TF_INT64)
      ((int64_t *)TF_TensorData(t))[i] = values[i];
    else
      ((int32_t *)TF_TensorData(t))[i] = (int32_t)values[i];
  }
  TF_SetAttrType(d, "dtype", type);
  if (t != NULL) TF_SetAttrTensor(d, "value", t, a->status);
  if (t != NULL) TF_DeleteTensor(t);
  return end(a, d);
}
static TF_Output number(const adder_t *a, const char *name, TF_DataType type, int64_t value) {
  return ints(a, name, type, &value, -1);
}

/* ---- life ---- */

static weft_status_t *no_memory(void) { return WEFT_NO_MEMORY("a sharded variable"); }

void WEFT_DeleteShardedVariable(WEFT_ShardedVariable *v) {
  if (v == NULL) return;
  for (int i = 0; v->devices != NULL && i < v->num_devices; i++) weft_free(v->devices[i]);
  weft_free(v->devices);
  weft_free(v->parts);
  weft_free(v);
}

static weft_status_t *lay_out(WEFT_ShardedVariable *v, const char *partitioner, const char *const *devices) {
  weft_partitioner_t p;
  WEFT_RETURN_IF_ERROR(weft_partitioner_parse(weft_str(partitioner), 0, &p));
  int64_t n = weft_partitioner_count(&p, &v->shape, (weft_dtype_t)v->dtype);
  v->parts = weft_calloc((size_t)n, sizeof *v->parts);
  v->devices = weft_calloc((size_t)v->num_devices, sizeof *v->devices);
  if (v->parts == NULL || v->devices == NULL) return no_memory();
  v->num_parts = (int)n;
  for (int i = 0; i < v->num_devices; i++) {
    v->devices[i] = weft_strdup(devices[i]);
    if (v->devices[i] == NULL) return no_memory();
  }
  for (int i = 0; i < n; i++) {
    variable_part_t *t = &v->parts[i];
    if (v->shape.rank > 0) weft_shard_rows(v->shape.dims[0], n, i, &t->begin, &t->rows);
    t->device = i % v->num_devices;
  }
  return NULL;
}

static void add_handles(WEFT_ShardedVariable *v, const char *name, TF_Status *status) {
  const adder_t a = adder(v, name, status);
  for (int i = 0; i < v->num_parts && ok(&a); i++) {
    char shared_name[512];
    int64_t dims[WEFT_MAX_DIMS];
    int length = snprintf(shared_name, sizeof shared_name, "%s/part_%d", name, i);
    for (int k = 0; k < v->shape.rank; k++) dims[k] = k == 0 ? v->parts[i].rows : v->shape.dims[k];
    TF_OperationDescription *d = begin(&a, "VarHandleOp", "part", i);
    TF_SetAttrType(d, "dtype", v->dtype);
    TF_SetAttrShape(d, "shape", dims, v->shape.rank);
    TF_SetAttrString(d, "shared_name", shared_name, (size_t)length);
    TF_SetDevice(d, v->devices[v->parts[i].device]);
    v->parts[i].handle = end(&a, d);
  }
}

WEFT_ShardedVariable *WEFT_NewShardedVariable(TF_Graph *graph, const char *name, TF_DataType dtype,
                                              const int64_t *dims, int num_dims, const char *partitioner,
                                              const char *const *devices, int num_devices,
                                              TF_Status *status) {
  WEFT_ShardedVariable *v = weft_calloc(1, sizeof *v);
  weft_status_t *s = v == NULL ? no_memory() : NULL;
  if (s == NULL) s = weft_client_shape(dims, num_dims, &v->shape);
  for (int i = 0; s == NULL && i < num_dims; i++) {
    if (dims[i] < 0)
      s = WEFT_ERROR(INVALID_ARGUMENT, "the shape of sharded variable '%s' is not fully known", name);
  }
  if (s == NULL && num_dims < 0)
    s = WEFT_ERROR(INVALID_ARGUMENT, "the shape of sharded variable '%s' is not known", name);
  if (s == NULL && num_devices < 1)
    s = WEFT_ERROR(INVALID_ARGUMENT, "sharded variable '%s' has no devices", name);
  if (s == NULL) {
    v->graph = graph;
    v->dtype = dtype;
    v->num_devices = num_devices;
    s = lay_out(v, partitioner, devices);
  }
  if (weft_client_end(status, s)) {
    add_handles(v, name, status);
    if (TF_GetCode(status) == TF_OK) return v;
  }
  WEFT_DeleteShardedVariable(v);
  return NULL;
}

int WEFT_ShardedVariableNumParts(const WEFT_ShardedVariable *v) { return v->num_parts; }

TF_Output WEFT_ShardedVariablePart(const WEFT_ShardedVariable *v, int i, int64_t *begin_row, int64_t *rows) {
  if (i < 0 || i >= v->num_parts) return nothing;
  if (begin_row != NULL) *begin_row = v->parts[i].begin;
  if (rows != NULL) *rows = v->parts[i].rows;
  return v->parts[i].handle;
}

/* ---- the whole ---- */

static TF_Output read_part(const adder_t *a, int i) {
  TF_OperationDescription *d = begin(a, "ReadVariableOp", a->v->num_parts == 1 ? NULL : "read", i);
  if (d == NULL) return nothing;
  TF_AddInput(d, a->v->parts[i].handle);
  TF_SetAttrType(d, "dtype", a->v->dtype);
  TF_SetDevice(d, a->v->devices[a->v->parts[i].device]);
  return end(a, d);
}

TF_Output WEFT_ShardedVariableRead(WEFT_ShardedVariable *v, const char *name, TF_Status *status) {
  const adder_t a = adder(v, name, status);
  if (v->num_parts == 1) return read_part(&a, 0);
  TF_Output *values = weft_calloc((size_t)v->num_parts, sizeof *values), all = nothing;
  if (values == NULL) weft_client_end(status, no_memory());
  for (int i = 0; values != NULL && i < v->num_parts; i++) values[i] = read_part(&a, i);
  TF_Output axis = number(&a, "axis", TF_INT32, 0);
  TF_OperationDescription *d = begin(&a, "ConcatV2", NULL, -1);
  if (d != NULL) {
    TF_AddInputList(d, values, v->num_parts);
    TF_AddInput(d, axis);
    all = end(&a, d);
  }
  weft_free(values);
  return all;
}

/* A node that is done when all parts have had their update. */
static TF_Operation *group(const adder_t *a, const TF_Output *updates) {
  TF_OperationDescription *d = begin(a, "NoOp", NULL, -1);
  for (int i = 0; d != NULL && i < a->v->num_parts; i++) TF_AddControlInput(d, updates[i].oper);
  return end(a, d).oper;
}

static TF_Output rows_of(const adder_t *a, int i, TF_Output value) {
  char name[64];
  int64_t begins[WEFT_MAX_DIMS] = {0}, sizes[WEFT_MAX_DIMS];
  const int rank = a->v->shape.rank;
  for (int k = 0; k < rank; k++) sizes[k] = a->v->shape.dims[k];
  begins[0] = a->v->parts[i].begin;
  sizes[0] = a->v->parts[i].rows;
  snprintf(name, sizeof name, "begin_%d", i);
  TF_Output begin_at = ints(a, name, TF_INT64, begins, rank);
  snprintf(name, sizeof name, "size_%d", i);
  TF_Output size = ints(a, name, TF_INT64, sizes, rank);
  snprintf(name, sizeof name, "rows_%d", i);
  return add3(a, "Slice", name, value, begin_at, size);
}

TF_Operation *WEFT_ShardedVariableAssign(WEFT_ShardedVariable *v, const char *name, TF_Output value,
                                         TF_Status *status) {
  const adder_t a = adder(v, name, status);
  TF_Output *updates = weft_calloc((size_t)v->num_parts, sizeof *updates);
  if (updates == NULL) weft_client_end(status, no_memory());
  for (int i = 0; updates != NULL && i < v->num_parts; i++) {
    TF_Output rows = v->num_parts == 1 ? value : rows_of(&a, i, value);
    TF_OperationDescription *d = begin(&a, "AssignVariableOp", "assign", i);
    if (d == NULL) break;
    TF_AddInput(d, v->parts[i].handle);
    TF_AddInput(d, rows);
    TF_SetAttrType(d, "dtype", v->dtype);
    TF_SetDevice(d, v->devices[v->parts[i].device]);
    updates[i] = end(&a, d);
  }
  TF_Operation *all = group(&a, updates);
  weft_free(updates);
  return all;
}

/* ---- rows ---- */

static TF_Output flatten(const adder_t *a, TF_Output ids) {
  const int64_t any = -1;
  return add2(a, "Reshape", "flat", ids, ints(a, "any", TF_INT32, &any, 1));
}

static void deal_out(const adder_t *a, const char *name, TF_Output data, TF_Output shard, TF_Output *out) {
  TF_OperationDescription *d = begin(a, "DynamicPartition", name, -1);
  TF_Output all = nothing;
  if (d != NULL) {
    TF_AddInput(d, data);
    TF_AddInput(d, shard);
    TF_SetAttrInt(d, "num_partitions", a->v->num_parts);
    all = end(a, d);
  }
  for (int i = 0; i < a->v->num_parts; i++) out[i] = (TF_Output){all.oper, i};
}

/* Which part each of the flat ids is in (int32), and `local`: the rows within each part. Ids that no part has
 * go to the first or the last one, where they fail. */
static TF_Output route(const adder_t *a, TF_Output flat, TF_Output *local) {
  const WEFT_ShardedVariable *v = a->v;
  if (!ok(a)) return nothing;
  TF_DataType type = TF_OperationOutputType(flat);
  int64_t q = v->shape.dims[0] / v->num_parts, r = v->shape.dims[0] % v->num_parts;
  int64_t *begins = weft_calloc((size_t)v->num_parts, sizeof *begins);
  if (begins == NULL) {
    weft_client_end(a->status, no_memory());
    return nothing;
  }
  for (int i = 0; i < v->num_parts; i++) begins[i] = v->parts[i].begin;
  TF_Output in_long = add2(a, "FloorDiv", "in_long", flat, number(a, "long", type, q + 1));
  TF_Output past = add2(a, "Sub", "past_long", flat, number(a, "num_long", type, r));
  TF_Output in_short = add2(a, "FloorDiv", "in_short", past, number(a, "short", type, q));
  TF_Output shard = add2(a, "Maximum", "shard", in_long, in_short);
  shard = add2(a, "Minimum", "at_most", shard, number(a, "last", type, v->num_parts - 1));
  shard = add2(a, "Maximum", "at_least", shard, number(a, "first", type, 0));
  TF_OperationDescription *d = begin(a, "Cast", "shard32", -1);
  if (d != NULL) {
    TF_AddInput(d, shard);
    TF_SetAttrType(d, "DstT", TF_INT32);
    shard = end(a, d);
  }
  TF_Output first_row = add3(a, "GatherV2", "first_row", ints(a, "begins", type, begins, v->num_parts), shard,
                             number(a, "gather_axis", TF_INT32, 0));
  deal_out(a, "local", add2(a, "Sub", "within", flat, first_row), shard, local);
  weft_free(begins);
  return shard;
}

static TF_Output gather(const adder_t *a, int i, TF_Output ids, bool is_last) {
  TF_OperationDescription *d = begin(a, "ResourceGather", is_last ? NULL : "rows", i);
  if (d == NULL) return nothing;
  TF_AddInput(d, a->v->parts[i].handle);
  TF_AddInput(d, ids);
  TF_SetAttrType(d, "dtype", a->v->dtype);
  TF_SetDevice(d, a->v->devices[a->v->parts[i].device]);
  return end(a, d);
}

/* Rows of the parts in the order of the ids, in the ids' shape. */
static TF_Output put_back(const adder_t *a, TF_Output ids, const TF_Output *at, const TF_Output *rows) {
  const WEFT_ShardedVariable *v = a->v;
  TF_OperationDescription *d = begin(a, "DynamicStitch", "in_order", -1);
  if (d == NULL) return nothing;
  TF_AddInputList(d, at, v->num_parts);
  TF_AddInputList(d, rows, v->num_parts);
  TF_Output all = end(a, d);
  TF_Output shape[2] = {add1(a, "Shape", "ids_shape", ids),
                        ints(a, "row_shape", TF_INT32, v->shape.dims + 1, v->shape.rank - 1)};
  TF_Output axis = number(a, "axis", TF_INT32, 0), dims = nothing;
  d = begin(a, "ConcatV2", "shape", -1);
  if (d != NULL) {
    TF_AddInputList(d, shape, 2);
    TF_AddInput(d, axis);
    dims = end(a, d);
  }
  return add2(a, "Reshape", NULL, all, dims);
}

static bool can_have_rows(const WEFT_ShardedVariable *v, TF_Status *status) {
  if (v->shape.rank > 0) return true;
  return weft_client_end(status,
                         WEFT_ERROR(INVALID_ARGUMENT, "a sharded variable that is a scalar has no rows"));
}

TF_Output WEFT_ShardedVariableLookup(WEFT_ShardedVariable *v, const char *name, TF_Output ids,
                                     TF_Status *status) {
  const adder_t a = adder(v, name, status);
  if (!can_have_rows(v, status)) return nothing;
  if (v->num_parts == 1) return gather(&a, 0, ids, true);
  const size_t n = (size_t)v->num_parts;
  TF_Output *all = weft_calloc(3 * n, sizeof *all), result = nothing;
  if (all == NULL) weft_client_end(status, no_memory());
  if (all != NULL) {
    TF_Output *local = all, *at = all + n, *rows = all + 2 * n;
    TF_Output flat = flatten(&a, ids), shard = route(&a, flat, local);
    TF_OperationDescription *d = begin(&a, "Size", "count", -1);
    if (d != NULL) TF_AddInput(d, flat);
    TF_Output count = end(&a, d);
    TF_Output order =
        add3(&a, "Range", "order", number(&a, "zero", TF_INT32, 0), count, number(&a, "one", TF_INT32, 1));
    deal_out(&a, "at", order, shard, at);
    for (int i = 0; i < v->num_parts; i++) rows[i] = gather(&a, i, local[i], false);
    result = put_back(&a, ids, at, rows);
  }
  weft_free(all);
  return result;
}

/* Updates in one list of rows, whatever the shape of the ids is. */
static TF_Output flatten_rows(const adder_t *a, TF_Output updates) {
  int64_t dims[WEFT_MAX_DIMS] = {-1};
  for (int i = 1; i < a->v->shape.rank; i++) dims[i] = a->v->shape.dims[i];
  return add2(a, "Reshape", "flat_updates", updates, ints(a, "flat_shape", TF_INT32, dims, a->v->shape.rank));
}

static int ps_of(const WEFT_WorkerContext *x, const char *device) {
  for (int i = 0; i < WEFT_WorkerContextNumParameterServers(x); i++) {
    if (strcmp(WEFT_WorkerContextParameterServerDevice(x, i), device) == 0) return i;
  }
  return -1;
}

static TF_Output scatter(const adder_t *a, int i, TF_Output ids, TF_Output updates,
                         WEFT_WorkerContext *context) {
  const char *device = a->v->devices[a->v->parts[i].device];
  TF_Output values[2] = {ids, updates};
  if (context != NULL && ok(a)) {
    const TF_Output given[2] = {ids, updates};
    WEFT_WorkerContextApplyOnce(context, a->v->graph, ps_of(context, device), given, 2, values, a->status);
  }
  TF_OperationDescription *d = begin(a, "ResourceScatterAdd", "add", i);
  if (d == NULL) return nothing;
  TF_AddInput(d, a->v->parts[i].handle);
  TF_AddInput(d, values[0]);
  TF_AddInput(d, values[1]);
  TF_SetAttrType(d, "dtype", a->v->dtype);
  TF_SetDevice(d, device);
  return end(a, d);
}

TF_Operation *WEFT_ShardedVariableScatterAdd(WEFT_ShardedVariable *v, const char *name, TF_Output ids,
                                             TF_Output updates, WEFT_WorkerContext *context,
                                             TF_Status *status) {
  const adder_t a = adder(v, name, status);
  if (!can_have_rows(v, status)) return NULL;
  const size_t n = (size_t)v->num_parts;
  TF_Output *all = weft_calloc(3 * n, sizeof *all);
  TF_Operation *result = NULL;
  if (all == NULL) weft_client_end(status, no_memory());
  if (all != NULL) {
    TF_Output *local = all, *rows = all + n, *done = all + 2 * n;
    TF_Output flat = flatten(&a, ids), flat_updates = flatten_rows(&a, updates);
    if (v->num_parts == 1) {
      local[0] = flat;
      rows[0] = flat_updates;
    } else {
      TF_Output shard = route(&a, flat, local);
      deal_out(&a, "updates", flat_updates, shard, rows);
    }
    for (int i = 0; i < v->num_parts; i++) done[i] = scatter(&a, i, local[i], rows[i], context);
    result = group(&a, done);
  }
  weft_free(all);
  return result;
}
