/* collectives/negotiated/execute.c - carries out what was answered, tensor by tensor or many in one buffer.
 *
 * All members have the same list and so the same plan. A member that has joined, or that is
 * asked for a tensor that it has not submitted, gives zeros.
 */
#include "base/alloc.h"
#include "collectives/negotiated/adasum.h"
#include "collectives/negotiated/controller.h"
#include "collectives/negotiated/fusion.h"

/* One tensor of a batch, at this member. */
typedef struct batch_tensor {
  const weft_named_response_t *response;
  weft_pending_t *pending; /* NULL: this member has not submitted it and contributes zeros */
} batch_tensor_t;

/* One number for one kind of data collective, so that its agreement is kept from step to step. 31 bits, as
 * TensorFlow's messages have; two kinds that meet in one number cost a question to the leader each time they
 * take turns. */
static int64_t key_of(const weft_named_request_t *r, int64_t count, int level) {
  uint64_t hash = 14695981039346656037u;
  const int64_t parts[] = {r->kind, r->dtype, r->reduction, r->is_mean, r->root, count, level};
  for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
    hash = (hash ^ (uint64_t)parts[i]) * 1099511628211u;
  int skipped = r->kind == WEFT_NAMED_ALL_GATHER ? 1 : 0;
  for (int i = skipped; r->kind != WEFT_NAMED_ALL_REDUCE && i < r->shape.rank; i++)
    hash = (hash ^ (uint64_t)r->shape.dims[i]) * 1099511628211u;
  return (int64_t)(hash >> 34 | UINT64_C(1) << 30);
}

static void scale(weft_dtype_t dtype, void *data, int64_t n, double by) {
  if (by == 1) return;
  for (int64_t i = 0; i < n; i++) {
    switch (dtype) {
      case WEFT_F32: ((float *)data)[i] = (float)(((float *)data)[i] * by); break;
      case WEFT_F64: ((double *)data)[i] *= by; break;
      case WEFT_F16:
        ((uint16_t *)data)[i] = weft_f32_to_f16((float)(weft_f16_to_f32(((uint16_t *)data)[i]) * by));
        break;
      case WEFT_BF16:
        ((uint16_t *)data)[i] = weft_f32_to_bf16((float)(weft_bf16_to_f32(((uint16_t *)data)[i]) * by));
        break;
      default: break; /* refused when it was submitted */
    }
  }
}

static int64_t count_of(const weft_named_response_t *r) { return weft_shape_count(&r->request.shape); }

static void finish(batch_tensor_t *p, weft_status_t *status, weft_tensor_t *output) {
  if (p->pending == NULL) {
    weft_status_free(status);
    weft_tensor_release(output);
    return;
  }
  weft_pending_end(p->pending, status, output);
  p->pending = NULL;
}

/* A new tensor for the parts' inputs, one after the other, scaled. */
static weft_status_t *pack(const batch_tensor_t *parts, int n, const weft_shape_t *shape,
                           weft_tensor_t **out) {
  weft_dtype_t dtype = parts[0].response->request.dtype;
  WEFT_RETURN_IF_ERROR(weft_tensor_new(dtype, shape, NULL, out));
  size_t size = weft_dtype_size(dtype);
  char *at = (*out)->data;
  for (int i = 0; i < n; i++) {
    size_t bytes = (size_t)count_of(parts[i].response) * size;
    if (bytes > 0 && parts[i].pending != NULL) memcpy(at, parts[i].pending->input->data, bytes);
    if (bytes > 0 && parts[i].pending == NULL) memset(at, 0, bytes);
    at += bytes;
  }
  scale(dtype, (*out)->data, (*out)->count, parts[0].response->request.prescale);
  return NULL;
}

/* Each tensor's piece of `all` goes to its request. */
static void unpack(batch_tensor_t *parts, int n, const weft_tensor_t *all) {
  size_t size = weft_dtype_size(all->dtype);
  const char *at = all->data;
  for (int i = 0; i < n; i++) {
    const weft_named_request_t *r = &parts[i].response->request;
    size_t bytes = (size_t)count_of(parts[i].response) * size;
    weft_tensor_t *piece = NULL;
    weft_status_t *s = parts[i].pending == NULL ? NULL : weft_tensor_new(r->dtype, &r->shape, NULL, &piece);
    if (piece != NULL && bytes > 0) memcpy(piece->data, at, bytes);
    if (piece != NULL) scale(r->dtype, piece->data, piece->count, r->postscale);
    finish(&parts[i], s, piece);
    at += bytes;
  }
}

static weft_status_t *all_reduce(weft_negotiator_t *n, batch_tensor_t *parts, int num) {
  const weft_named_request_t *r = &parts[0].response->request;
  weft_tensor_t *in = NULL, *out = NULL;
  int64_t count = 0;
  for (int i = 0; i < num; i++) count += count_of(parts[i].response);
  weft_shape_t shape = weft_shape_vector(count);
  WEFT_RETURN_IF_ERROR(pack(parts, num, &shape, &in));
  weft_collective_t call = {.kind = WEFT_ALL_REDUCE,
                            .name = r->name,
                            .root = -1,
                            .reduction = r->reduction,
                            .is_mean = r->is_mean,
                            .dtype = r->dtype,
                            .shape = shape,
                            .input = in,
                            .takes_input = true,
                            .instance_key = key_of(r, count, 0),
                            .iteration = n->execution};
  weft_status_t *s = weft_negotiator_run(n, r->process_set, &call, &out);
  if (s == NULL) unpack(parts, num, out);
  weft_tensor_release(in);
  weft_tensor_release(out);
  return s;
}

/* Level by level with the partner 1, 2, 4, ... ranks away: both compute the same pair. */
static weft_status_t *adasum(weft_negotiator_t *n, batch_tensor_t *part) {
  const weft_named_request_t *r = &part->response->request;
  int size = weft_process_set_size(n->o.sets, n->o.num_sets, n->o.size, r->process_set),
      rank = weft_negotiator_index(n, r->process_set);
  weft_tensor_t *mine = NULL;
  int *targets = weft_calloc((size_t)size, sizeof *targets);
  weft_status_t *s = targets == NULL ? WEFT_NO_MEMORY("Adasum") : pack(part, 1, &r->shape, &mine);
  for (int level = 1; s == NULL && level < size; level *= 2) {
    weft_tensor_t *theirs = NULL;
    for (int i = 0; i < size; i++) targets[i] = i ^ level;
    weft_collective_t call = {.kind = WEFT_PERMUTE,
                              .name = r->name,
                              .root = -1,
                              .dtype = r->dtype,
                              .shape = r->shape,
                              .input = mine,
                              .targets = targets,
                              .instance_key = key_of(r, mine->count, level),
                              .iteration = n->execution};
    s = weft_negotiator_run(n, r->process_set, &call, &theirs);
    if (s != NULL) break;
    bool is_lower = (rank & level) == 0;
    weft_tensor_t *a = is_lower ? mine : theirs, *b = is_lower ? theirs : mine;
    weft_adasum_pair(r->dtype, a->data, b->data, a->count);
    weft_tensor_release(b);
    mine = a;
  }
  weft_free(targets);
  if (s != NULL) {
    weft_tensor_release(mine);
    return s;
  }
  scale(r->dtype, mine->data, mine->count, r->postscale);
  finish(part, NULL, mine);
  return NULL;
}

static weft_status_t *move(weft_negotiator_t *n, batch_tensor_t *part, weft_collective_kind_t kind) {
  const weft_named_request_t *r = &part->response->request;
  int root = kind == WEFT_BROADCAST
                 ? weft_process_set_index(n->o.sets, n->o.num_sets, n->o.size, r->process_set, r->root)
                 : -1;
  weft_tensor_t *in = part->pending == NULL ? NULL : part->pending->input, *out = NULL, *zeros = NULL;
  if (in == NULL) {
    WEFT_RETURN_IF_ERROR(pack(part, 1, &r->shape, &zeros));
    in = zeros;
  }
  weft_collective_t call = {.kind = kind,
                            .name = r->name,
                            .root = root,
                            .dtype = r->dtype,
                            .shape = in->shape,
                            .input = in,
                            .instance_key = key_of(r, 0, 0),
                            .iteration = n->execution};
  weft_status_t *s = weft_negotiator_run(n, r->process_set, &call, &out);
  weft_tensor_release(zeros);
  if (s == NULL) finish(part, NULL, out);
  return s;
}

static weft_status_t *run_batch(weft_negotiator_t *n, batch_tensor_t *parts, int num) {
  const weft_named_request_t *r = &parts[0].response->request;
  n->execution++; /* counted by non-members, too, so that it is the same everywhere */
  if (weft_negotiator_index(n, r->process_set) < 0) return NULL;
  weft_mutex_lock(&n->mu);
  n->stats.tensors += num;
  n->stats.batches++;
  weft_mutex_unlock(&n->mu);
  switch (r->kind) {
    case WEFT_NAMED_ALL_REDUCE: return all_reduce(n, parts, num);
    case WEFT_NAMED_ADASUM: return adasum(n, &parts[0]);
    case WEFT_NAMED_ALL_GATHER: return move(n, &parts[0], WEFT_ALL_GATHER);
    case WEFT_NAMED_BROADCAST: return move(n, &parts[0], WEFT_BROADCAST);
    case WEFT_NAMED_JOIN: break;
  }
  return NULL;
}

static bool fuses(const void *arg, int i, int j) {
  const batch_tensor_t *parts = arg;
  return weft_named_fuses(&parts[i].response->request, &parts[j].response->request);
}

/* Consumes the pendings in `parts`: what is left of them when the group fails, fails with it. */
static weft_status_t *run_planned(weft_negotiator_t *n, batch_tensor_t *parts, int num) {
  size_t room = (size_t)num + 1;
  int64_t *bytes = weft_calloc(room, sizeof *bytes);
  int *order = weft_calloc(room, sizeof *order);
  bool *ends = weft_calloc(room, sizeof *ends);
  batch_tensor_t *batch = weft_calloc(room, sizeof *batch);
  weft_status_t *s =
      bytes == NULL || order == NULL || ends == NULL || batch == NULL ? WEFT_NO_MEMORY("a cycle") : NULL;
  for (int i = 0; s == NULL && i < num; i++)
    bytes[i] = count_of(parts[i].response) * (int64_t)weft_dtype_size(parts[i].response->request.dtype);
  if (s == NULL) s = weft_fusion_plan(bytes, num, n->o.fusion_bytes, fuses, parts, order, ends);
  int in_batch = 0;
  for (int i = 0; s == NULL && i < num; i++) {
    batch[in_batch++] = parts[order[i]];
    parts[order[i]].pending = NULL; /* the batch's now */
    if (!ends[i]) continue;
    s = run_batch(n, batch, in_batch);
    for (int k = 0; s != NULL && k < in_batch; k++) finish(&batch[k], weft_status_clone(s), NULL);
    in_batch = 0;
  }
  for (int i = 0; s != NULL && i < num; i++) finish(&parts[i], weft_status_clone(s), NULL);
  weft_free(bytes);
  weft_free(order);
  weft_free(ends);
  weft_free(batch);
  return s;
}

weft_status_t *weft_negotiator_execute(weft_negotiator_t *n, const weft_named_response_t *responses,
                                       int num) {
  if (num == 0) return NULL;
  batch_tensor_t *parts = weft_calloc((size_t)num, sizeof *parts);
  if (parts == NULL) return WEFT_NO_MEMORY("a cycle");
  int num_parts = 0;
  for (int i = 0; i < num; i++) {
    batch_tensor_t p = {&responses[i], weft_negotiator_take(n, &responses[i].request)};
    if (responses[i].error != NULL) {
      finish(&p, weft_status_clone(responses[i].error), NULL);
    } else if (responses[i].request.kind == WEFT_NAMED_JOIN) {
      finish(&p, NULL, NULL);
    } else {
      parts[num_parts++] = p;
    }
  }
  weft_status_t *s = run_planned(n, parts, num_parts);
  weft_free(parts);
  return s;
}
