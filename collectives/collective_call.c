/* collectives/collective_call.c - checks of a call, and its signature. */
#include "collectives/collective_call.h"

#include "collectives/reduce.h"
#include "collectives/transport.h"

bool weft_collective_has_root(weft_collective_kind_t k) {
  return k == WEFT_BROADCAST || k == WEFT_SCATTER || k == WEFT_GATHER || k == WEFT_REDUCE;
}

static bool reduces(weft_collective_kind_t k) {
  return k == WEFT_REDUCE || k == WEFT_ALL_REDUCE || k == WEFT_REDUCE_SCATTER;
}

bool weft_collective_has_rows(weft_collective_kind_t k) {
  return k == WEFT_SCATTER || k == WEFT_GATHER || k == WEFT_ALL_GATHER || k == WEFT_ALL_TO_ALL ||
         k == WEFT_REDUCE_SCATTER;
}

bool weft_collective_may_only_receive(weft_collective_kind_t k) {
  return k == WEFT_BROADCAST || k == WEFT_SCATTER;
}

static weft_status_t *check_lists(const weft_collective_t *call) {
  int64_t rows = 0;
  for (int i = 0; call->kind == WEFT_ALL_TO_ALL && call->splits != NULL && i < call->group_size; i++) {
    if (call->splits[i] < 0 || call->splits[i] > call->shape.dims[0] - rows) {
      return WEFT_ERROR(INVALID_ARGUMENT, "Collective %.*s: split %d is %lld, of %lld rows",
                        WEFT_STR_ARGS(call->name), i, (long long)call->splits[i],
                        (long long)call->shape.dims[0]);
    }
    rows += call->splits[i];
  }
  if (call->kind == WEFT_ALL_TO_ALL && call->splits != NULL && rows != call->shape.dims[0]) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Collective %.*s: splits make %lld rows, the input has %lld",
                      WEFT_STR_ARGS(call->name), (long long)rows, (long long)call->shape.dims[0]);
  }
  if (call->kind == WEFT_ALL_TO_ALL && call->splits == NULL && call->shape.dims[0] % call->group_size != 0) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Collective %.*s: %lld rows cannot be cut in %d equal blocks",
                      WEFT_STR_ARGS(call->name), (long long)call->shape.dims[0], call->group_size);
  }
  if (call->kind != WEFT_PERMUTE) return NULL;
  if (call->targets == NULL)
    return WEFT_ERROR(INVALID_ARGUMENT, "Collective %.*s: no targets", WEFT_STR_ARGS(call->name));
  for (int i = 0; i < call->group_size; i++) {
    if (call->targets[i] < -1 || call->targets[i] >= call->group_size) {
      return WEFT_ERROR(INVALID_ARGUMENT, "Collective %.*s: rank %d has target %d, of %d",
                        WEFT_STR_ARGS(call->name), i, call->targets[i], call->group_size);
    }
    for (int j = 0; j < i; j++) {
      if (call->targets[i] < 0 || call->targets[j] != call->targets[i]) continue;
      return WEFT_ERROR(INVALID_ARGUMENT, "Collective %.*s: ranks %d and %d have the same target %d",
                        WEFT_STR_ARGS(call->name), j, i, call->targets[i]);
    }
  }
  return NULL;
}

weft_status_t *weft_collective_check(const weft_collective_t *call) {
  const int name_length = (int)call->name.length;
  const char *name = call->name.data == NULL ? "" : call->name.data;
  if ((unsigned)call->kind > WEFT_BARRIER)
    return WEFT_ERROR(INVALID_ARGUMENT, "Collective %.*s: unknown kind %d", name_length, name, call->kind);
  if (call->group_size < 1 || call->rank < -1 || call->rank >= call->group_size || call->root < -1 ||
      call->root >= call->group_size) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Collective %.*s: rank %d and root %d in a group of %d", name_length,
                      name, call->rank, call->root, call->group_size);
  }
  if (call->group_size > WEFT_MAX_GROUP) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Collective %.*s: a group of %d; it can have %d members at most",
                      name_length, name, call->group_size, WEFT_MAX_GROUP);
  }
  if (call->device.length == 0)
    return WEFT_ERROR(INVALID_ARGUMENT, "Collective %.*s: no device", name_length, name);
  if (call->kind == WEFT_BARRIER) return NULL;
  if (!weft_dtype_is_plain(call->dtype) || weft_dtype_size(call->dtype) == 0) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Collective %.*s: type %s cannot be sent", name_length, name,
                      weft_dtype_name(call->dtype));
  }
  if (reduces(call->kind) && weft_reduce_kernel(call->reduction, call->dtype) == NULL) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Collective %.*s: there is no %s of type %s", name_length, name,
                      weft_reduction_name(call->reduction), weft_dtype_name(call->dtype));
  }
  if (call->is_mean && !reduces(call->kind))
    return WEFT_ERROR(INVALID_ARGUMENT, "Collective %.*s: a mean without a reduction", name_length, name);
  if (!weft_shape_is_known(&call->shape) || weft_shape_count(&call->shape) < 0 ||
      (weft_collective_has_rows(call->kind) && call->shape.rank < 1)) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Collective %.*s: bad shape %s", name_length, name,
                      WEFT_SHAPE_TEXT(&call->shape));
  }
  if (call->input == NULL) {
    const bool is_giver = !weft_collective_may_only_receive(call->kind) || call->is_source ||
                          (call->rank >= 0 && call->rank == call->root);
    if (is_giver) return WEFT_ERROR(INVALID_ARGUMENT, "Collective %.*s: no input", name_length, name);
  } else if (call->input->dtype != call->dtype || !weft_shape_eq(&call->input->shape, &call->shape)) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Collective %.*s: the input is %s%s, not %s%s", name_length, name,
                      weft_dtype_name(call->input->dtype), WEFT_SHAPE_TEXT(&call->input->shape),
                      weft_dtype_name(call->dtype), WEFT_SHAPE_TEXT(&call->shape));
  }
  return check_lists(call);
}

bool weft_collective_has_counts(const weft_collective_t *call) {
  if (call->kind == WEFT_ALL_TO_ALL) return call->splits != NULL;
  return (call->kind == WEFT_ALL_GATHER || call->kind == WEFT_GATHER) && !call->is_uniform;
}

/* Is this rank the root of a scatter? Its input has the rows of all ranks. */
static bool is_scatter_root(const weft_collective_t *call) {
  return call->kind == WEFT_SCATTER &&
         (call->is_source || (call->root < 0 ? false : call->input != NULL && call->root == call->rank));
}

void weft_collective_sign(const weft_collective_t *call, weft_coll_signature_t *out) {
  memset(out, 0, sizeof *out);
  out->kind = call->kind;
  out->group_size = call->group_size;
  out->algorithm = call->algorithm;
  if (call->kind == WEFT_BARRIER) return;
  out->dtype = call->dtype;
  out->reduction = reduces(call->kind) ? (int64_t)call->reduction : 0;
  out->is_mean = call->is_mean;
  out->root = weft_collective_has_root(call->kind) ? call->root : -1;
  out->is_uniform = call->is_uniform;
  int skipped = weft_collective_has_counts(call) ? 1 : 0;
  out->rank_of_shape = call->shape.rank - skipped;
  for (int i = skipped; i < call->shape.rank; i++) out->dims[i - skipped] = call->shape.dims[i];
  if (is_scatter_root(call)) {
    const int64_t rows = call->shape.dims[0];
    out->dims[0] = rows % call->group_size == 0 ? rows / call->group_size
                                                : WEFT_UNKNOWN_DIM; /* no other rank has that */
  }
  uint64_t hash = call->kind == WEFT_ALL_TO_ALL && call->splits != NULL ? 1 : 0;
  for (int i = 0; call->kind == WEFT_PERMUTE && i < call->group_size; i++) {
    hash = (hash ^ (uint64_t)(uint32_t)call->targets[i]) * 1099511628211u + 1;
  }
  out->details = (int64_t)(hash >> 2);
  if (call->kind == WEFT_ALL_TO_ALL) out->details = (int64_t)hash;
}

uint32_t weft_collective_hash(const weft_coll_signature_t *s) {
  uint64_t hash = 14695981039346656037u;
  const unsigned char *bytes = (const unsigned char *)s;
  for (size_t i = 0; i < sizeof *s; i++) hash = (hash ^ bytes[i]) * 1099511628211u;
  return (uint32_t)(hash ^ (hash >> 32));
}
