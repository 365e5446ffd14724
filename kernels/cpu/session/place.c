/* kernels/cpu/session/place.c - what an op tells of its place, and constants from outside of the graph:
 * Timestamp, DeviceIndex, ImmutableConst and their kin. */
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "io/file.h"
#include "kernels/cpu/loops/common.h"
#include "kernels/state.h"

static weft_status_t *fact(weft_kernel_ctx_t *c) {
  return weft_tensor_string(WEFT_STR("0! == 1"), &c->outputs[0].tensor);
}

/* What ran before on this device has ended: it has no queue. */
static weft_status_t *nothing(weft_kernel_ctx_t *c) {
  (void)c;
  return NULL;
}

static weft_status_t *timestamp(weft_kernel_ctx_t *c) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  int64_t us = (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
  double seconds = (double)us / 1e6;
  return weft_tensor_scalar(WEFT_F64, &seconds, &c->outputs[0].tensor);
}

static weft_status_t *guarantee_const(weft_kernel_ctx_t *c) {
  if (weft_in(c, 0)->dtype == WEFT_RESOURCE) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Input tensor cannot be a resource variable handle.");
  }
  weft_cpu_out_same(c, 0, 0);
  return NULL;
}

/* ---- DeviceIndex: which of the types it names is that of its device ---- */

/* "CPU" of "/job:worker/replica:0/task:1/device:CPU:0". */
static weft_str_t type_of(weft_str_t device) {
  size_t end = device.length;
  while (end > 0 && device.data[end - 1] != ':') end--;
  size_t begin = end == 0 ? 0 : end - 1;
  while (begin > 0 && device.data[begin - 1] != ':') begin--;
  return end == 0 ? device : weft_str_of(device.data + begin, end - 1 - begin);
}

static weft_status_t *device_index_prepare(const weft_kernel_setup_t *setup, void **out_state) {
  const weft_attr_t *names = weft_knode_attr(setup, "device_names");
  weft_str_t type = type_of(setup->node.device->name);
  int32_t index = 0;
  while (index < names->n && !weft_str_eq(names->list.strings[index], type)) index++;
  weft_tensor_t *t = NULL;
  WEFT_RETURN_IF_ERROR(weft_tensor_scalar(WEFT_I32, &index, &t));
  *out_state = t;
  return NULL;
}

static void tensor_destroy(void *state) { weft_tensor_release(state); }

static weft_status_t *tensor_compute(weft_kernel_ctx_t *c) {
  weft_out_set(c, 0, weft_tensor_retain(c->state));
  return NULL;
}

/* ---- ImmutableConst: the bytes of a file, mapped ---- */

typedef struct mapping {
  void *data;
  size_t bytes;
} mapping_t;

static void unmap(void *data, size_t bytes, void *arg) {
  mapping_t *m = arg;
  (void)data;
  (void)bytes;
  munmap(m->data, m->bytes);
  weft_free(m);
}

static weft_status_t *map_file(const char *path, mapping_t *out) {
  weft_file_reader_t r = {.fd = -1};
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return weft_file_error(path, errno);
  close(fd);
  weft_status_t *s = weft_file_open(path, &r);
  if (s != NULL) { /* a directory, a pipe: there, but nothing that can be mapped */
    weft_status_free(s);
    return WEFT_ERROR(NOT_FOUND, "%s; No such device", path);
  }
  out->bytes = (size_t)r.size;
  /* Private: the file stays as it is whatever is written there. */
  out->data = mmap(NULL, out->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE, r.fd, 0);
  if (out->data == MAP_FAILED) s = weft_file_error(path, errno);
  weft_file_close(&r);
  return s;
}

static weft_status_t *mapped_tensor(weft_dtype_t dtype, const weft_shape_t *shape, mapping_t *m,
                                    weft_tensor_t **out) {
  int64_t count = weft_shape_count(shape), bytes = 0;
  if (count < 0 || __builtin_mul_overflow(count, (int64_t)weft_dtype_size(dtype), &bytes)) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Shape %s is not fully defined", WEFT_SHAPE_TEXT(shape));
  }
  if ((uint64_t)bytes > m->bytes) {
    return WEFT_ERROR(INTERNAL, "Readonly memory region has wrong length (%zu) when allocating %lld",
                      m->bytes, (long long)bytes);
  }
  return weft_tensor_wrap(dtype, shape, m->data, (size_t)bytes, unmap, m, out);
}

WEFT_ATTRS(immutable_const, (TYPE, dtype), (SHAPE, shape), (STRING, memory_region_name))
static weft_status_t *immutable_const(weft_kernel_ctx_t *c, const immutable_const_attrs_t *attrs) {
  weft_dtype_t dtype = (weft_dtype_t)attrs->dtype;
  weft_shape_t shape = attrs->shape->rank < 0 ? WEFT_SCALAR : *attrs->shape; /* unknown: a scalar, as there */
  if (dtype == WEFT_RESOURCE || dtype == WEFT_VARIANT) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Resource and variant dtypes are invalid for this op.");
  }
  if (!weft_shape_is_known(&shape)) {
    return WEFT_ERROR(INVALID_ARGUMENT, "Shape %s is not fully defined", WEFT_SHAPE_TEXT(&shape));
  }
  char *path = weft_strndup(attrs->memory_region_name.data, attrs->memory_region_name.length);
  mapping_t *m = weft_calloc(1, sizeof *m);
  bool is_mapped = false;
  weft_status_t *s = path == NULL || m == NULL ? WEFT_NO_MEMORY("mapping a file") : map_file(path, m);
  if (s == NULL) is_mapped = true;
  if (s == NULL && dtype == WEFT_STRING) {
    s = WEFT_ERROR(UNIMPLEMENTED, "Sorry, DT_STRING is not currently supported for ImmutableConstOp.");
  }
  if (s == NULL) s = mapped_tensor(dtype, &shape, m, &c->outputs[0].tensor);
  if (s != NULL && is_mapped) munmap(m->data, m->bytes);
  if (s != NULL) weft_free(m);
  weft_free(path);
  return s;
}

/* ---- handles ---- */

/* Of an anonymous resource: no name finds it, its handles keep it alive. */
static bool is_counting(const weft_handle_t *h) {
  return h != NULL && h->object != NULL && weft_str_is(h->name, "cd2c89b7-88b7-44c8-ad83-06c2a9158347");
}

static weft_status_t *in_handle(const weft_kernel_ctx_t *c, const weft_handle_t **out) {
  const weft_tensor_t *t = weft_in(c, 0);
  if (t->count < 1) {
    return WEFT_ERROR(INVALID_ARGUMENT, "handle must be a scalar, got shape %s", WEFT_SHAPE_TEXT(&t->shape));
  }
  *out = ((weft_handle_t *const *)t->data)[0];
  return NULL;
}

static weft_status_t *is_ref_counting(weft_kernel_ctx_t *c) {
  const weft_handle_t *h = NULL;
  WEFT_RETURN_IF_ERROR(in_handle(c, &h));
  uint8_t result = is_counting(h);
  return weft_tensor_scalar(WEFT_BOOL, &result, &c->outputs[0].tensor);
}

static weft_status_t *weak_handle(weft_kernel_ctx_t *c) {
  const weft_handle_t *h = NULL;
  WEFT_RETURN_IF_ERROR(in_handle(c, &h));
  weft_tensor_t *t = NULL;
  WEFT_RETURN_IF_ERROR(weft_tensor_new(WEFT_RESOURCE, &WEFT_SCALAR, NULL, &t));
  weft_handle_t *dup = h == NULL ? NULL
                                 : weft_handle_create(h->device, h->container, h->name, h->type_name,
                                                      h->hash_code, is_counting(h) ? NULL : h->object);
  if (dup == NULL && h != NULL) {
    weft_tensor_release(t);
    return WEFT_NO_MEMORY("copying a handle");
  }
  if (dup != NULL) {
    dup->dtype = h->dtype;
    dup->shape = h->shape;
  }
  ((weft_handle_t **)t->data)[0] = dup;
  weft_out_set(c, 0, t);
  return NULL;
}

const weft_kernel_t weft_cpu_place_kernels[] = {
    {.op = "DeviceIndex",
     .prepare = device_index_prepare,
     .compute = tensor_compute,
     .destroy = tensor_destroy},
    {.op = "Fact", .compute = fact},
    {.op = "GuaranteeConst", .compute = guarantee_const},
    {.op = "ImmutableConst", WEFT_COMPUTE(immutable_const)},
    {.op = "IsResourceHandleRefCounting", .compute = is_ref_counting},
    {.op = "MakeWeakResourceHandle", .compute = weak_handle},
    {.op = "SyncDevice", .compute = nothing},
    {.op = "Timestamp", .compute = timestamp},
    {0},
};
