/* kernels/cpu/debug/watch.c - identities that the debugger inserts: copies of watched values, their dumps,
 * marks of gradients; and checks of numbers. */
#include "kernels/cpu/debug/watch.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>

#include "kernels/cpu/loops/cast.h"
#include "kernels/cpu/loops/common.h"
#include "resources/debug_events.h"

/* ---- which value ---- */

static bool read_slot(weft_str_t text, int *out) {
  int64_t slot = 0;
  size_t i = text.length > 0 && (text.data[0] == '-' || text.data[0] == '+') ? 1 : 0;
  if (i == text.length) return false;
  for (; i < text.length; i++) {
    if (!isdigit((unsigned char)text.data[i])) return false;
    slot = slot * 10 + (text.data[i] - '0');
    if (slot > INT32_MAX) return false;
  }
  *out = (int)(text.data[0] == '-' ? -slot : slot);
  return true;
}

weft_status_t *weft_watch_read(const weft_kernel_setup_t *setup, weft_watch_t *out) {
  weft_str_t name = weft_knode_string(setup, "tensor_name");
  const char *colon = name.length == 0 ? NULL : memchr(name.data, ':', name.length);
  out->key.device = weft_knode_string(setup, "device_name");
  out->key.op = setup->node.op_name;
  out->key.node = colon == NULL ? name : weft_str_of(name.data, (size_t)(colon - name.data));
  out->urls = weft_knode_attr(setup, "debug_urls");
  if (name.length == 0) return WEFT_ERROR(INVALID_ARGUMENT, "Failed to parse tensor name: \"\"");
  if (colon == NULL) return NULL;
  weft_str_t slot = weft_str_of(colon + 1, name.length - out->key.node.length - 1);
  if (slot.length > 0 && memchr(slot.data, ':', slot.length) != NULL) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Failed to parse tensor name: \"%.*s\"", WEFT_STR_ARGS(name));
  }
  if (read_slot(slot, &out->key.slot)) return NULL;
  return WEFT_ERROR(INVALID_ARGUMENT, "Invalid string value for output_slot: \"%.*s\"", WEFT_STR_ARGS(slot));
}

static bool has_scheme(weft_str_t url, const char *scheme) {
  size_t n = strlen(scheme);
  if (url.length < n) return false;
  for (size_t i = 0; i < n; i++) {
    if (tolower((unsigned char)url.data[i]) != scheme[i]) return false;
  }
  return true;
}

/* Of a "file://" URL. */
static weft_str_t path_of(weft_str_t url) {
  size_t scheme = strlen("file://");
  return weft_str_of(url.data + scheme, url.length - scheme);
}

weft_status_t *weft_watch_publish(const weft_watch_t *w, const weft_tensor_t *t) {
  for (int i = 0; i < w->urls->n; i++) {
    weft_str_t url = w->urls->list.strings[i];
    if (has_scheme(url, "grpc://")) {
      return WEFT_ERROR(UNIMPLEMENTED, "values are dumped to file:// URLs alone, not to %.*s",
                        WEFT_STR_ARGS(url));
    }
    if (!has_scheme(url, "file://")) {
      return WEFT_ERROR(INTERNAL, "Invalid debug target URL: %.*s", WEFT_STR_ARGS(url));
    }
    weft_status_t *s = weft_debug_dump_tensor(path_of(url), &w->key, t);
    if (s == NULL) continue;
    weft_status_t *told = WEFT_ERROR(
        INTERNAL, "Publishing to 1 of %d debug target URLs failed, due to the following errors: %s;",
        w->urls->n, weft_status_message(s));
    weft_status_free(s);
    return told;
  }
  return NULL;
}

static weft_status_t *watch_prepare(const weft_kernel_setup_t *setup, void **out_state) {
  weft_watch_t *w = weft_calloc(1, sizeof *w);
  if (w == NULL) return WEFT_NO_MEMORY("preparing %.*s", WEFT_STR_ARGS(setup->node.name));
  weft_status_t *s = weft_watch_read(setup, w);
  if (s == NULL) *out_state = w;
  if (s != NULL) weft_free(w);
  return s;
}

/* ---- identities ---- */

static weft_status_t *same(weft_kernel_ctx_t *c) {
  weft_cpu_out_same(c, 0, 0);
  return NULL;
}

/* Strings, handles and variants are shared, as they are immutable. */
static weft_status_t *copy(weft_kernel_ctx_t *c) {
  weft_tensor_t *x = weft_in(c, 0);
  if (weft_dtype_is_plain(x->dtype)) return weft_tensor_copy(x, &c->outputs[0].tensor);
  weft_cpu_out_same(c, 0, 0);
  return NULL;
}

static weft_status_t *debug_identity(weft_kernel_ctx_t *c) {
  WEFT_RETURN_IF_ERROR(weft_watch_publish(c->state, weft_in(c, 0)));
  return same(c);
}

/* ---- the second debugger ---- */

typedef struct trace {
  weft_debug_trace_t key; /* lent by the plan */
  const weft_attr_t *urls;
  weft_str_t run;
  int64_t buffer;
} trace_t;

static weft_status_t *trace_prepare(const weft_kernel_setup_t *setup, void **out_state) {
  const weft_attr_t *urls = weft_knode_attr(setup, "debug_urls");
  for (int i = 0; i < urls->n; i++) {
    if (!weft_str_starts_with(urls->list.strings[i], "file://")) {
      return WEFT_ERROR(INTERNAL, "Unsupported debug URL schema in: %.*s",
                        WEFT_STR_ARGS(urls->list.strings[i]));
    }
  }
  trace_t *t = weft_calloc(1, sizeof *t);
  if (t == NULL) return WEFT_NO_MEMORY("preparing %.*s", WEFT_STR_ARGS(setup->node.name));
  *t = (trace_t){.key = {.context = weft_knode_string(setup, "tfdbg_context_id"),
                         .op = weft_knode_string(setup, "op_name"),
                         .slot = weft_knode_int(setup, "output_slot"),
                         .mode = weft_knode_int(setup, "tensor_debug_mode")},
                 .urls = urls,
                 .run = weft_knode_string(setup, "tfdbg_run_id"),
                 .buffer = weft_knode_int(setup, "circular_buffer_size")};
  *out_state = t;
  return NULL;
}

static weft_status_t *trace_identity(weft_kernel_ctx_t *c) {
  const trace_t *t = c->state;
  weft_debug_trace_t key = t->key;
  key.device = c->device->name;
  for (int i = 0; i < t->urls->n; i++) {
    weft_debug_events_t *events = NULL;
    WEFT_RETURN_IF_ERROR(weft_debug_events_open(c->device->resources, path_of(t->urls->list.strings[i]),
                                                t->run, t->buffer, &events));
    weft_status_t *s = weft_debug_events_add(events, &key, weft_in(c, 0));
    weft_debug_events_release(events);
    WEFT_RETURN_IF_ERROR(s);
  }
  return same(c);
}

static weft_status_t *check_pinned(weft_kernel_ctx_t *c) {
  (void)c;
  return WEFT_ERROR(FAILED_PRECONDITION, "no memory of this device is pinned");
}

static weft_status_t *ref_same(weft_kernel_ctx_t *c) {
  c->outputs[0] = c->inputs[0];
  c->inputs[0] = (weft_value_t){NULL, NULL};
  return NULL;
}

/* ---- numbers ---- */

/* Calls `see` with pieces of the input, as doubles. */
typedef void see_fn(void *arg, const double *values, int64_t n);
static void each_double(const weft_tensor_t *x, see_fn *see, void *arg) {
  enum { CHUNK = 256 };
  double values[CHUNK];
  weft_cpu_cast_fn *to_double = weft_cpu_cast_loop(x->dtype, WEFT_F64);
  for (int64_t i = 0; i < x->count; i += CHUNK) {
    int64_t n = x->count - i < CHUNK ? x->count - i : CHUNK;
    to_double(n, (const char *)x->data + (size_t)i * weft_dtype_size(x->dtype), values);
    see(arg, values, n);
  }
}

typedef struct found {
  bool has_nan, has_neg_inf, has_pos_inf;
  int64_t num_nans;
} found_t;

static void find(void *arg, const double *values, int64_t n) {
  found_t *f = arg;
  for (int64_t k = 0; k < n; k++) {
    f->num_nans += isnan(values[k]) != 0;
    if (isinf(values[k])) *(values[k] < 0 ? &f->has_neg_inf : &f->has_pos_inf) = true;
  }
  f->has_nan = f->num_nans > 0;
}

WEFT_ATTRS(check_numerics_v2, (STRING, message))
static weft_status_t *check_numerics_v2(weft_kernel_ctx_t *c, const check_numerics_v2_attrs_t *attrs) {
  static const char *const told[2][2][2] = {
      {{NULL, "NaN"}, {"+Inf", "+Inf and NaN"}},
      {{"-Inf", "-Inf and NaN"}, {"-Inf and +Inf", "-Inf, +Inf, and NaN"}}};
  found_t f = {0};
  each_double(weft_in(c, 0), find, &f);
  const char *what = told[f.has_neg_inf][f.has_pos_inf][f.has_nan];
  if (what == NULL) return same(c);
  return WEFT_ERROR(INVALID_ARGUMENT, "%.*s : Tensor had %s values", WEFT_STR_ARGS(attrs->message), what);
}

static weft_status_t *nan_count(weft_kernel_ctx_t *c) {
  weft_shape_t one = weft_shape_vector(1);
  weft_tensor_t *out = NULL;
  found_t f = {0};
  each_double(weft_in(c, 0), find, &f);
  WEFT_RETURN_IF_ERROR(weft_out_new(c, 0, WEFT_I64, &one, &out));
  *(int64_t *)out->data = f.num_nans;
  return weft_watch_publish(c->state, out);
}

#define WATCH(op_, types_, compute_)                                                             \
  {                                                                                              \
    .op = op_, .type_attr = "T", .types = types_, .prepare = watch_prepare, .compute = compute_, \
    .destroy = weft_free                                                                         \
  }
const weft_kernel_t weft_cpu_watch_kernels[] = {
    WEFT_KERNEL_ATTRS("CheckNumericsV2", "T", WEFT_SET_FLOATS, check_numerics_v2),
    {.op = "CheckPinned", .compute = check_pinned},
    {.op = "Copy", .compute = copy},
    {.op = "CopyHost", .compute = copy},
    {.op = "DebugGradientIdentity", .compute = same},
    {.op = "DebugGradientRefIdentity", .compute = ref_same},
    WATCH("DebugIdentity", WEFT_SET_ALL, debug_identity),
    WATCH("DebugIdentityV3", WEFT_SET_ALL, debug_identity),
    {.op = "DebugIdentityV2", .prepare = trace_prepare, .compute = trace_identity, .destroy = weft_free},
    WATCH("DebugNanCount", WEFT_SET_REAL, nan_count),
    {0},
};
