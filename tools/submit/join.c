/* tools/submit/join.c - sums of parts, rows one after the other. */
#include "tools/submit/join.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"

static weft_status_t *no_memory(void) {
  return WEFT_ERROR(RESOURCE_EXHAUSTED, "no memory to join the values of a step");
}

static void part_free(weft_part_t *p) {
  if (p == NULL) return;
  for (int i = 0; p->values != NULL && i < p->n; i++) TF_DeleteTensor(p->values[i]);
  weft_free(p->values);
  weft_free(p);
}

weft_status_t *weft_joiner_init(weft_joiner_t *j, const weft_run_plan_t *plan) {
  *j = (weft_joiner_t){.plan = plan};
  j->first = weft_calloc((size_t)plan->num_lanes + 1, sizeof *j->first);
  j->last = weft_calloc((size_t)plan->num_lanes + 1, sizeof *j->last);
  return j->first == NULL || j->last == NULL ? no_memory() : NULL;
}

void weft_joiner_deinit(weft_joiner_t *j) {
  for (int i = 0; j->first != NULL && i < j->plan->num_lanes; i++) {
    for (weft_part_t *p = j->first[i], *next; p != NULL; p = next) {
      next = p->next;
      part_free(p);
    }
  }
  weft_free(j->first);
  weft_free(j->last);
  *j = (weft_joiner_t){0};
}

/* ---- parts of one fetch ---- */

typedef struct parts { /* of fetch number k, by lane in their order */
  const weft_joiner_t *j;
  int k;
} parts_t;

static TF_Tensor *value_of(const parts_t *p, int lane) {
  return p->j->plan->lanes[lane].is_update ? NULL : p->j->first[lane]->values[p->k];
}

/* to += factor * from, or to = factor * from. */
static void add_scaled(TF_DataType type, void *to, const void *from, double factor, size_t n, bool is_first) {
  for (size_t i = 0; i < n; i++) {
    switch (type) {
      case TF_FLOAT: {
        double before = is_first ? 0 : (double)((const float *)to)[i];
        ((float *)to)[i] = (float)(before + factor * (double)((const float *)from)[i]);
        break;
      }
      case TF_DOUBLE:
        ((double *)to)[i] = (is_first ? 0 : ((const double *)to)[i]) + factor * ((const double *)from)[i];
        break;
      case TF_INT32:
        ((int32_t *)to)[i] = (int32_t)((uint32_t)(is_first ? 0 : ((const int32_t *)to)[i]) +
                                       (uint32_t)((const int32_t *)from)[i]);
        break;
      case TF_INT64:
        ((int64_t *)to)[i] = (int64_t)((uint64_t)(is_first ? 0 : ((const int64_t *)to)[i]) +
                                       (uint64_t)((const int64_t *)from)[i]);
        break;
      default: break;
    }
  }
}

static bool is_joinable(TF_DataType type) {
  return type == TF_FLOAT || type == TF_DOUBLE || type == TF_INT32 || type == TF_INT64;
}

static weft_status_t *misfit(const parts_t *p, int lane, const char *what) {
  return WEFT_ERROR(INVALID_ARGUMENT,
                    "fetch number %d: the %s of what lane %d has do not fit what other lanes have", p->k + 1,
                    what, lane);
}

static TF_Tensor *like(const TF_Tensor *t, int axis, int64_t length) {
  int64_t dims[64];
  int rank = TF_NumDims(t);
  if (rank > 64) return NULL;
  for (int d = 0; d < rank; d++) dims[d] = d == axis ? length : TF_Dim(t, d);
  size_t bytes = TF_TensorByteSize(t);
  if (axis >= 0) bytes = TF_DataTypeSize(TF_TensorType(t));
  for (int d = 0; axis >= 0 && d < rank; d++) bytes *= (size_t)dims[d];
  return TF_AllocateTensor(TF_TensorType(t), dims, rank, bytes);
}

static weft_status_t *sum(const parts_t *p, const weft_join_t *how, TF_Tensor **out) {
  const weft_run_plan_t *plan = p->j->plan;
  TF_Tensor *to = NULL;
  weft_status_t *s = NULL;
  for (int i = 0; s == NULL && i < plan->num_lanes; i++) {
    const TF_Tensor *part = value_of(p, i);
    double weight = p->j->first[i]->weight;
    if (part == NULL || (how->degree > 0 && weight == 0)) continue; /* the mean of nothing */
    bool is_first = to == NULL;
    if (is_first) to = like(part, -1, 0);
    if (to == NULL) {
      s = no_memory();
    } else if (TF_TensorByteSize(to) != TF_TensorByteSize(part)) {
      s = misfit(p, i, "shapes");
    } else {
      add_scaled(TF_TensorType(part), TF_TensorData(to), TF_TensorData(part), pow(weight, how->degree),
                 (size_t)TF_TensorElementCount(part), is_first);
    }
  }
  if (s != NULL) {
    TF_DeleteTensor(to);
    return s;
  }
  *out = to;
  return NULL;
}

/* Rows along an axis, of lanes in their order. Before it: `outer` blocks. */
static weft_status_t *rows(const parts_t *p, const weft_join_t *how, TF_Tensor **out) {
  const weft_run_plan_t *plan = p->j->plan;
  const TF_Tensor *first = NULL;
  int64_t length = 0;
  for (int i = 0; i < plan->num_lanes; i++) {
    const TF_Tensor *part = value_of(p, i);
    if (part == NULL) continue;
    if (TF_NumDims(part) <= how->axis) return misfit(p, i, "ranks");
    for (int d = 0; first != NULL && d < TF_NumDims(first); d++) {
      if (TF_NumDims(part) != TF_NumDims(first) || (d != how->axis && TF_Dim(part, d) != TF_Dim(first, d)))
        return misfit(p, i, "shapes");
    }
    first = first == NULL ? part : first;
    length += TF_Dim(part, how->axis);
  }
  if (first == NULL) return NULL;
  TF_DataType type = TF_TensorType(first);
  TF_Tensor *to = like(first, how->axis, length);
  if (to == NULL) return no_memory();
  size_t outer = 1, inner = TF_DataTypeSize(type), at = 0;
  for (int d = 0; d < TF_NumDims(first); d++) {
    if (d < how->axis) outer *= (size_t)TF_Dim(first, d);
    if (d > how->axis) inner *= (size_t)TF_Dim(first, d);
  }
  for (int i = 0; i < plan->num_lanes; i++) {
    const TF_Tensor *part = value_of(p, i);
    size_t bytes = part == NULL ? 0 : (size_t)TF_Dim(part, how->axis) * inner;
    double factor = pow(p->j->first[i]->weight, how->degree);
    for (size_t k = 0; bytes > 0 && k < outer; k++) {
      char *target = (char *)TF_TensorData(to) + k * (size_t)length * inner + at;
      const char *source = (const char *)TF_TensorData(part) + k * bytes;
      if (how->degree == 0) {
        memcpy(target, source, bytes);
      } else {
        add_scaled(type, target, source, factor, bytes / TF_DataTypeSize(type), true);
      }
    }
    at += bytes;
  }
  *out = to;
  return NULL;
}

/* The first lane that had rows. */
static int any_lane(const weft_joiner_t *j) {
  int fed = 0;
  for (int i = j->plan->num_lanes - 1; i >= 0; i--) {
    if (!j->plan->lanes[i].is_update && (j->first[i]->weight > 0 || i == 0)) fed = i;
  }
  return j->plan->lanes[fed].is_update ? -1 : j->first[fed]->weight > 0 ? fed : 0;
}

static weft_status_t *join(const weft_joiner_t *j, TF_Tensor **out) {
  int any = any_lane(j), n = any < 0 ? 0 : j->plan->lanes[any].num_fetches;
  weft_status_t *s = NULL;
  for (int k = 0; s == NULL && k < n; k++) {
    const parts_t parts = {j, k};
    const weft_join_t *how = &j->plan->joins[k];
    TF_DataType type = TF_TensorType(j->first[any]->values[k]);
    if (how->kind == WEFT_JOIN_SUM && is_joinable(type)) {
      s = sum(&parts, how, &out[k]);
    } else if (how->kind == WEFT_JOIN_ROWS && TF_DataTypeSize(type) > 0) {
      s = rows(&parts, how, &out[k]);
    }
    if (s != NULL || out[k] != NULL) continue;
    out[k] = j->first[any]->values[k];
    j->first[any]->values[k] = NULL;
  }
  return s;
}

/* ---- steps ---- */

static weft_status_t *keep(weft_joiner_t *j, int lane, TF_Tensor **values, double weight) {
  weft_part_t *p = weft_calloc(1, sizeof *p);
  if (p == NULL) return no_memory();
  p->n = j->plan->lanes[lane].num_fetches;
  p->weight = weight;
  p->values = weft_calloc((size_t)p->n + 1, sizeof(TF_Tensor *));
  if (p->values == NULL) {
    part_free(p);
    return no_memory();
  }
  for (int i = 0; i < p->n; i++) {
    p->values[i] = values[i];
    values[i] = NULL;
  }
  if (j->first[lane] == NULL) {
    j->first[lane] = p;
  } else {
    j->last[lane]->next = p;
  }
  j->last[lane] = p;
  return NULL;
}

weft_status_t *weft_joiner_add(weft_joiner_t *j, int lane, TF_Tensor **values, double weight, bool *is_whole,
                               TF_Tensor **out) {
  *is_whole = false;
  WEFT_RETURN_IF_ERROR(keep(j, lane, values, weight));
  for (int i = 0; i < j->plan->num_lanes; i++) {
    if (j->first[i] == NULL) return NULL;
  }
  *is_whole = true;
  weft_status_t *s = join(j, out);
  for (int i = 0; i < j->plan->num_lanes; i++) {
    weft_part_t *done = j->first[i];
    j->first[i] = done->next;
    part_free(done);
  }
  return s;
}
