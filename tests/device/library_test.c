/* Device libraries that cannot be used, and what Weft gives to those that can. */
#include "kernels/loaded/library.h"

#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "executor/executor.h"
#include "kernels/loaded/loaded_kernels.h"
#include "tests/device/test_devices.h"
#include "tests/runner.h"

#define TOY_FILE "tests/device/toy/libweft_toy.so"
#define LATE_FILE "tests/device/late/libweft_late.so"

WEFT_OpenDeviceLibraryFn WEFT_OpenDeviceLibrary; /* of docs/devices.md; linked in */

/* ---- libraries that are wrong ---- */

static WEFT_DeviceLibrary given; /* what open_given() says */
static WEFT_DeviceType given_type;

static const WEFT_DeviceLibrary *open_given(const WEFT_DeviceHost *host, WEFT_Failure **out_failure) {
  (void)host;
  (void)out_failure;
  return &given;
}

/* The library of docs/devices.md under another type's name; what it says can be changed. */
static void give(const char *type) {
  WEFT_Failure *failure = NULL;
  given = *WEFT_OpenDeviceLibrary(&weft_device_host, &failure);
  given_type = *given.device;
  given_type.type = type;
  given.device = &given_type;
}

/* The last library that was seen. */
static const weft_device_library_t *last_seen(void) {
  const weft_device_library_t *l = weft_device_libraries();
  while (l != NULL && l->next != NULL) l = l->next;
  return l;
}

static void ends_as(weft_status_t *s, const char *file, const char *why) {
  CU_ASSERT_EQUAL(weft_status_code(s), WEFT_FAILED_PRECONDITION);
  if (strstr(weft_status_message(s), why) == NULL || strstr(weft_status_message(s), file) == NULL)
    fprintf(stderr, "'%s' lacks '%s' or '%s'\n", weft_status_message(s), file, why);
  CU_ASSERT_PTR_NOT_NULL(strstr(weft_status_message(s), why));
  CU_ASSERT_PTR_NOT_NULL(strstr(weft_status_message(s), file));
  weft_status_free(s);
  const weft_device_library_t *l = last_seen();
  CU_ASSERT_PTR_NOT_NULL_FATAL(l);
  CU_ASSERT_STRING_EQUAL(l->file, file);
  CU_ASSERT_PTR_NOT_NULL(strstr(l->trouble, why));
  CU_ASSERT_PTR_NULL(l->driver);
}

static void refused(const char *why) {
  ends_as(weft_device_library_add("given.so", open_given), "given.so", why);
}

static void other_versions_are_refused(void) {
  give("A");
  given.major = WEFT_DEVICE_MAJOR + 1;
  refused("made for version 2.1 of weft/device.h, and this Weft has 1.1");
  give("A");
  given.minor = WEFT_DEVICE_MINOR + 1;
  refused("made for version 1.2");
}

static WEFT_Failure *no_replay(void *queue, void *graph) {
  (void)queue, (void)graph;
  return NULL;
}

static void what_lacks_something_is_refused(void) {
  give("A");
  given.size = 4;
  refused("its WEFT_DeviceLibrary has a size of 4 bytes");
  give("A");
  given.device = NULL;
  refused("it has no type of device");
  give("A");
  given_type.size = 8;
  refused("its WEFT_DeviceType has a size of 8 bytes");
  give("A");
  given_type.copy = NULL;
  refused("its type of device A lacks the function 'copy'");
  give("A");
  given_type.size = offsetof(WEFT_DeviceType, when);
  refused("lacks the function 'when'");
  static const WEFT_DeviceCollectives nothing = {.size = sizeof nothing};
  give("A");
  given_type.collectives = &nothing;
  refused("lacks the function 'collectives'");
  static const WEFT_DeviceSharing closed = {.size = sizeof closed};
  give("A");
  given_type.sharing = &closed;
  refused("lacks the function 'sharing'");
  give("A");
  given_type.replay = no_replay; /* one of four */
  refused("lacks the function 'capture_begin'");
  give("a:0");
  refused("its type of device is called 'a:0'");
  static const WEFT_DeviceKernel empty[] = {{.op = "Exp"}, {.op = NULL}};
  give("A");
  given.kernels = empty;
  refused("its kernel for Exp has no function");
  give("A");
  given.kernel_size = 8;
  refused("its WEFT_DeviceKernel has a size of 8 bytes");
  give("A");
  given.kernel_size = 0;
  refused("its kernel_size, the size of its rows, is 0");
}

static void types_are_brought_once(void) {
  give("CPU");
  refused("there is a type of device CPU already");
}

static const WEFT_DeviceLibrary *open_nothing(const WEFT_DeviceHost *host, WEFT_Failure **out_failure) {
  (void)host;
  (void)out_failure;
  return NULL;
}
static const WEFT_DeviceLibrary *open_failing(const WEFT_DeviceHost *host, WEFT_Failure **out_failure) {
  *out_failure = host->failure(WEFT_UNAVAILABLE, "the driver is %d years old", 9);
  return NULL;
}

static void an_entry_may_fail(void) {
  ends_as(weft_device_library_add("n.so", open_nothing), "n.so", "gives nothing");
  ends_as(weft_device_library_add("f.so", open_failing), "f.so", "the driver is 9 years old");
}

static void files_that_are_no_library_are_refused(void) {
  char file[256];
  FILE *f = fopen("text.so", "w");
  CU_ASSERT_PTR_NOT_NULL_FATAL(f);
  fputs("no library\n", f);
  fclose(f);
  CU_ASSERT_PTR_NOT_NULL_FATAL(getcwd(file, sizeof file - 16));
  strcat(file, "/text.so");
  ends_as(weft_device_library_open(file), file, "text.so");
  ends_as(weft_device_library_open("/"), "/", "/");
  ends_as(weft_device_library_open("/none/at/all.so"), "/none/at/all.so", "No such file");
  ends_as(weft_device_library_open("libm.so.6"), "libm.so.6", "no function WEFT_OpenDeviceLibrary");
  remove("text.so");
}

/* ---- where they are looked for ---- */

/* What `weft devices` says with that path. */
static void devices_with(const char *path, char *out, size_t max) {
  char command[1024];
  snprintf(command, sizeof command, "WEFT_DEVICE_PATH='%s' WEFT_LATE_DEVICES=2 tools/weft devices 2>&1",
           path);
  FILE *p = popen(command, "r");
  CU_ASSERT_PTR_NOT_NULL_FATAL(p);
  const size_t n = fread(out, 1, max - 1, p);
  out[n] = '\0';
  CU_ASSERT_EQUAL(pclose(p), 0);
}

static int count_of(const char *text, const char *part) {
  int n = 0;
  for (const char *at = text; (at = strstr(at, part)) != NULL; at += strlen(part)) n++;
  return n;
}

static void the_path_names_files_and_folders(void) {
  char text[8192];
  devices_with("", text, sizeof text);
  CU_ASSERT_EQUAL(count_of(text, "built in"), 1);
  CU_ASSERT_EQUAL(count_of(text, "no device from"), 0);
  devices_with(TOY_FILE ":" LATE_FILE, text, sizeof text); /* two libraries */
  CU_ASSERT_EQUAL(count_of(text, "\nTOY:0 "), 1);
  CU_ASSERT_EQUAL(count_of(text, "a toy that computes at once"), 1);
  CU_ASSERT_EQUAL(count_of(text, "\nLATE:0 ") + count_of(text, "\nLATE:1 "), 2);
  devices_with("::tests/device/toy::" TOY_FILE ":", text,
               sizeof text); /* once, and nothing for what is empty */
  CU_ASSERT_EQUAL(count_of(text, "\nTOY:"), 1);
  CU_ASSERT_EQUAL(count_of(text, "cannot be used"), 0);
  devices_with("/none.so:" TOY_FILE, text, sizeof text);
  CU_ASSERT_EQUAL(count_of(text, "no device from /none.so: "), 1);
  CU_ASSERT_EQUAL(count_of(text, "W device library /none.so cannot be used: "), 1);
  CU_ASSERT_EQUAL(count_of(text, "\nTOY:0 "), 1);
}

/* ---- what libraries get ---- */

static const WEFT_DeviceHost *const host = &weft_device_host;

enum { BITS = 8 };
static char seen[512]; /* what prepare() has read */

static WEFT_Failure *read_attributes(const WEFT_KernelSetup *s, const void *param, void **out_state) {
  int64_t i = -7, list[4] = {0};
  int b = -7, t = -7;
  float f = -7;
  const char *text = "";
  size_t length = 0;
  (void)param;
  const int n = host->attr_ints(s, "strides", list, 2);
  const int num_texts = host->attr_strings(s, "strides", &text, &length, 1); /* they are no texts */
  const int num_floats = host->attr_floats(s, "strides", &f, 1);             /* nor floats */
  const int has_text = host->attr_string(s, "padding", &text, &length);
  const int has_int = host->attr_int(s, "depth_radius", &i), has_float = host->attr_float(s, "bias", &f);
  const int has_bool = host->attr_bool(s, "use_cudnn_on_gpu", &b), has_type = host->attr_type(s, "T", &t);
  snprintf(seen, sizeof seen,
           "%s %s %d/%d ints %d:%lld,%lld text %d:%.*s int %d:%lld float %d:%g bool %d:%d "
           "type %d:%d wrong %d texts %d floats %d",
           host->setup_op(s), host->setup_name(s), host->setup_input_type(s, 0), host->setup_input_type(s, 9),
           n, (long long)list[0], (long long)list[1], has_text, (int)length, text, has_int, (long long)i,
           has_float, (double)f, has_bool, b, has_type, t, host->attr_int(s, "T", &i), num_texts, num_floats);
  *out_state = malloc(1);
  return *out_state != NULL ? NULL : host->failure(WEFT_RESOURCE_EXHAUSTED, "out of memory");
}

static WEFT_Failure *fail(WEFT_KernelContext *c) {
  return host->failure(WEFT_OUT_OF_RANGE, "%s has %d inputs", host->node_name(c), host->num_inputs(c));
}

static void negate_to(const WEFT_TensorView *x, const WEFT_TensorView *y) {
  for (int64_t i = 0; i < x->count; i++) ((float *)y->data)[i] = -((const float *)x->data)[i];
}

/* In its input's bytes, if these are its own. */
static WEFT_Failure *negate_in_place(WEFT_KernelContext *c) {
  WEFT_TensorView x, y;
  int64_t dims[BITS] = {0};
  host->input(c, 0, &x);
  memcpy(dims, x.dims, (size_t)x.rank * sizeof dims[0]);
  x.dims = dims;
  WEFT_Failure *f = host->output_forwarded(c, 0, 0, x.rank, dims, &y);
  if (f == NULL) negate_to(&x, &y);
  return f;
}

/* By way of other memory, to an output of the shape that the op says. */
static WEFT_Failure *square(WEFT_KernelContext *c) {
  WEFT_TensorView x, y;
  void *between = NULL, *more = NULL;
  host->input(c, 0, &x);
  WEFT_Failure *f = host->scratch(c, x.bytes, &between);
  if (f == NULL) f = host->scratch(c, 1, &more);
  if (f == NULL) f = host->output_inferred(c, 0, &y);
  if (f != NULL) return f;
  memcpy(between, x.data, x.bytes);
  for (int64_t i = 0; i < x.count; i++) ((float *)y.data)[i] = ((float *)between)[i] * ((float *)between)[i];
  return NULL;
}

static WEFT_Failure *flatten(WEFT_KernelContext *c) {
  WEFT_TensorView x;
  host->input(c, 0, &x);
  return host->output_is_input(c, 0, 0, x.rank, x.dims);
}

static WEFT_Failure *twice(WEFT_KernelContext *c) {
  WEFT_TensorView y;
  WEFT_Failure *f = host->output(c, 0, 0, NULL, &y);
  return f != NULL ? f : host->output(c, 0, 0, NULL, &y);
}

static WEFT_Failure *prepare_by_host(const WEFT_KernelSetup *s, const void *param, void **out_state) {
  (void)param;
  return host->host_kernel(s, (WEFT_HostKernel **)out_state);
}
static WEFT_Failure *add_by_host(WEFT_KernelContext *c) {
  WEFT_TensorView in[2], out;
  host->input(c, 0, &in[0]);
  host->input(c, 1, &in[1]);
  WEFT_Failure *f = host->output_inferred(c, 0, &out);
  return f != NULL ? f : host->host_kernel_run(host->state(c), in, 2, &out, 1);
}
static void free_host_kernel(void *state) { host->host_kernel_free(state); }

static const WEFT_DeviceKernel probes[] = {
    {.op = "AddV2", .compute = add_by_host, .prepare = prepare_by_host, .destroy = free_host_kernel},
    {.op = "Conv2D", .compute = fail, .prepare = read_attributes, .destroy = free},
    {.op = "DeepCopy", .compute = flatten},
    {.op = "Exp", .compute = twice},
    {.op = "LRN", .compute = fail, .prepare = read_attributes, .destroy = free},
    {.op = "Neg", .compute = negate_in_place},
    {.op = "Square", .compute = square},
    {.op = NULL},
};

typedef struct world {
  test_devices_t devices;
  weft_graph_t *g;
  weft_exec_plan_t *plan;
} world_t;

static weft_node_t *add(world_t *w, const char *op, weft_node_t *a, weft_node_t *b) {
  weft_node_t *n = NULL;
  weft_output_t in[2] = {{a, 0}, {b, 0}};
  const weft_named_attr_t arg[] = {weft_type_attr("T", WEFT_F32), weft_int_attr("index", 0)};
  const int64_t ones[] = {1, 2, 3, 1};
  const weft_named_attr_t conv[] = {
      {WEFT_STR("strides"), {.kind = WEFT_ATTR_INT, .is_list = true, .n = 4, .list = {.ints = ones}}},
      weft_text_attr("padding", WEFT_STR("SAME"))};
  const bool is_border = op[0] == '_', is_conv = strcmp(op, "Conv2D") == 0;
  const weft_node_spec_t spec = {.name = weft_str(op),
                                 .op = weft_str(op),
                                 .inputs = in,
                                 .num_inputs = a == NULL   ? 0
                                               : b == NULL ? 1
                                                           : 2,
                                 .attrs = is_border ? arg
                                          : is_conv ? conv
                                                    : NULL,
                                 .num_attrs = is_border || is_conv ? 2 : 0};
  CU_ASSERT_PTR_NULL_FATAL(weft_graph_add(w->g, &spec, &n));
  return n;
}

static weft_node_t *begin(world_t *w) {
  test_devices_init(&w->devices, NULL, NULL);
  CU_ASSERT_PTR_NULL_FATAL(weft_graph_create(&w->g));
  return add(w, "_Arg", NULL, NULL);
}

static weft_status_t *compile(world_t *w) {
  test_devices_place(&w->devices, w->g, NULL);
  const weft_plan_options_t o = {.device = w->devices.all[0],
                                 .devices = w->devices.all,
                                 .num_devices = w->devices.n,
                                 .session = WEFT_STR("s")};
  return weft_plan_create(w->g, &o, &w->plan);
}

static void end(world_t *w) {
  weft_plan_release(w->plan);
  weft_graph_destroy(w->g);
  test_devices_deinit(&w->devices);
}

static weft_status_t *run(world_t *w, weft_tensor_t *x, weft_tensor_t **out) {
  const weft_run_options_t o = {
      .step = {.id = 1, .args = &x, .num_args = 1, .results = out, .num_results = 1}, .run_inline = true};
  return weft_plan_run_sync(w->plan, &o);
}

static weft_tensor_t *numbers(void) {
  weft_tensor_t *t = NULL;
  const weft_shape_t shape = weft_shape_matrix(2, 3);
  CU_ASSERT_PTR_NULL_FATAL(weft_tensor_new(WEFT_F32, &shape, NULL, &t));
  for (int i = 0; i < 6; i++) ((float *)t->data)[i] = (float)i;
  return t;
}

static void attributes_are_read_by_kind(void) {
  world_t w = {.plan = NULL};
  weft_node_t *x = begin(&w);
  add(&w, "Conv2D", x, x);
  CU_ASSERT_PTR_NULL(compile(&w));
  CU_ASSERT_STRING_EQUAL(seen,
                         "Conv2D Conv2D 1/-1 ints 4:1,2 text 1:SAME int 0:-7 float 0:-7 bool 1:1 type 1:1 "
                         "wrong 0 texts -1 floats -1");
  end(&w);
  w = (world_t){.plan = NULL};
  add(&w, "LRN", begin(&w), NULL);
  CU_ASSERT_PTR_NULL(compile(&w));
  CU_ASSERT_STRING_EQUAL(
      seen,
      "LRN LRN 1/-1 ints -1:0,0 text 0: int 1:5 float 1:1 bool 0:-7 type 1:1 wrong 0 texts -1 floats -1");
  end(&w);
}

/* -(x * x) + x, by way of all kinds of outputs. */
static void build_sum(world_t *w) {
  weft_node_t *x = begin(w);
  weft_node_t *y = add(w, "Neg", add(w, "Square", add(w, "DeepCopy", x, NULL), NULL), NULL);
  add(w, "_Retval", add(w, "AddV2", y, x), NULL);
}

static void outputs_are_made_in_each_way(void) {
  world_t w = {.plan = NULL};
  weft_tensor_t *x = numbers(), *y = NULL;
  build_sum(&w);
  CU_ASSERT_PTR_NULL(compile(&w));
  CU_ASSERT_PTR_NULL(run(&w, x, &y));
  CU_ASSERT_PTR_NOT_NULL_FATAL(y);
  CU_ASSERT_TRUE(weft_shape_eq(&x->shape, &y->shape));
  for (int i = 0; i < 6; i++) CU_ASSERT_EQUAL(((const float *)y->data)[i], (float)(i - i * i));
  weft_tensor_release(x);
  weft_tensor_release(y);
  end(&w);
}

static weft_status_t *run_once(world_t *w, weft_tensor_t *x) {
  weft_tensor_t *y = NULL;
  weft_status_t *s = run(w, x, &y);
  CU_ASSERT_EQUAL(s == NULL, y != NULL);
  weft_tensor_release(y);
  return s;
}

static weft_status_t *compile_once(world_t *w) {
  WEFT_RETURN_IF_ERROR(compile(w));
  weft_plan_release(w->plan);
  w->plan = NULL;
  return NULL;
}

static void every_failing_allocation_is_reported(void) {
  world_t w = {.plan = NULL};
  weft_tensor_t *x = numbers();
  long n = 0;
  build_sum(&w);
  WEFT_FAIL_EACH_ALLOCATION(n, s, compile_once(&w));
  CU_ASSERT_PTR_NULL(compile(&w));
  WEFT_FAIL_EACH_ALLOCATION(n, s, run_once(&w, x));
  CU_ASSERT_TRUE(n > 5);
  weft_tensor_release(x);
  end(&w);
}

static void fails(const char *op, weft_code_t code, const char *message) {
  world_t w = {.plan = NULL};
  weft_tensor_t *x = numbers();
  weft_node_t *arg = begin(&w);
  add(&w, op, arg, strcmp(op, "Conv2D") == 0 ? arg : NULL);
  CU_ASSERT_PTR_NULL(compile(&w));
  weft_status_t *s = run(&w, x, &(weft_tensor_t *){NULL});
  CU_ASSERT_EQUAL(weft_status_code(s), code);
  CU_ASSERT_PTR_NOT_NULL(strstr(weft_status_message(s), message));
  weft_status_free(s);
  weft_tensor_release(x);
  end(&w);
}

static void failures_name_their_node(void) {
  fails("Conv2D", WEFT_OUT_OF_RANGE, "Conv2D has 2 inputs\n\t [[{{node Conv2D}}]]");
  fails("Exp", WEFT_INTERNAL, "the kernel of Exp makes output 0 twice\n\t [[{{node Exp}}]]");
}

static void failures_have_code_and_message(void) {
  WEFT_Failure *f = host->failure(WEFT_DATA_LOSS, "%s", "gone"), *copy = host->failure_copy(f);
  CU_ASSERT_EQUAL(host->failure_code(copy), WEFT_DATA_LOSS);
  CU_ASSERT_STRING_EQUAL(host->failure_message(copy), "gone");
  host->failure_free(f);
  host->failure_free(copy);
  f = host->failure(0, "no code");
  CU_ASSERT_EQUAL(host->failure_code(f), WEFT_UNKNOWN);
  host->failure_free(f);
  CU_ASSERT_PTR_NULL(host->failure_copy(NULL));
  CU_ASSERT_EQUAL(host->failure_code(NULL), 0);
  host->failure_free(NULL);
}

static WEFT_Failure *count_nothing(const WEFT_DeviceOptions *o, int *out) {
  (void)o;
  (void)out;
  return host->failure(WEFT_UNAVAILABLE, "there is no driver");
}

static void a_library_without_a_driver_has_no_devices(void) {
  int n = 0;
  give("IDLE");
  given_type.count = count_nothing;
  CU_ASSERT_PTR_NULL(weft_device_library_add("idle.so", open_given));
  weft_status_t *s = weft_loaded_driver_count(last_seen()->driver, &n);
  CU_ASSERT_EQUAL(weft_status_code(s), WEFT_UNAVAILABLE);
  CU_ASSERT_STRING_EQUAL(weft_status_message(s), "there is no driver");
  weft_status_free(s);
  CU_ASSERT_EQUAL(weft_device_count(weft_loaded_driver_base(last_seen()->driver)), 0);
  CU_ASSERT_PTR_EQUAL(weft_device_accelerator(), NULL);
}

/* The rows as a library of 1.0 has them: `updates` is their last member. Valid until the next call. */
static const WEFT_DeviceKernel *rows_of_1_0(const WEFT_DeviceKernel *rows) {
  enum { SIZE = offsetof(WEFT_DeviceKernel, last_input_on_host), STEP = (SIZE + 7) / 8 * 8, MAX = 16 };
  static uint64_t old[MAX * STEP / 8];
  int n = 0;
  memset(old, 0xff, sizeof old); /* what lies between rows is nothing */
  do {
    CU_ASSERT_FATAL(n < MAX);
    memcpy((char *)old + n * STEP, &rows[n], SIZE);
  } while (rows[n++].op != NULL);
  return (const WEFT_DeviceKernel *)(const void *)old;
}

/* An older library: its type has no member `reaches` yet, and the library not the last ones. */
static void a_smaller_library_is_used(void) {
  give("PROBE");
  given_type.size = offsetof(WEFT_DeviceType, reaches);
  given_type.reaches = (int (*)(void *, void *))(uintptr_t)1; /* must not be looked at */
  given_type.collectives = (const WEFT_DeviceCollectives *)(const void *)&given;
  given_type.sharing = (const WEFT_DeviceSharing *)(const void *)&given;
  given.size = offsetof(WEFT_DeviceLibrary, int32_on_device);
  given.minor = 0;
  given.kernels = rows_of_1_0(probes);
  CU_ASSERT_PTR_NULL(weft_device_library_add("probe.so", open_given));
  CU_ASSERT_PTR_NULL(last_seen()->trouble);
  CU_ASSERT_STRING_EQUAL(last_seen()->type, "PROBE");
  CU_ASSERT_STRING_EQUAL(last_seen()->name, "weft_toy");
  refused("there is a type of device PROBE already");
}

static bool last_input_is_host(const char *type, const char *op) {
  const weft_kernel_t *k = weft_kernel_find(type, weft_str(op), NULL, 0);
  CU_ASSERT_PTR_NOT_NULL_FATAL(k);
  CU_ASSERT_FALSE(weft_kernel_input_is_host(k, 0, 3));
  return weft_kernel_input_is_host(k, 2, 3);
}

/* Rows of a library that was compiled with another header have another size. */
static void rows_have_the_size_that_the_library_says(void) {
  static struct {
    WEFT_DeviceKernel row;
    void *later; /* a member that this Weft does not know */
  } rows[] = {{.row = {.op = "ConcatV2", .compute = twice, .last_input_on_host = 1}},
              {.row = {.op = "DynamicStitch", .compute = twice, .first_half_on_host = 1}},
              {.row = {.op = "Exp", .compute = twice}},
              {.row = {.op = NULL}}};
  static const WEFT_DeviceKernel old[] = {{.op = "ConcatV2", .compute = twice, .last_input_on_host = 1},
                                          {.op = NULL}};
  give("LONGER");
  given.kernels = &rows[0].row;
  given.kernel_size = sizeof rows[0];
  CU_ASSERT_PTR_NULL(weft_device_library_add("longer.so", open_given));
  CU_ASSERT_TRUE(last_input_is_host("LONGER", "ConcatV2"));
  CU_ASSERT_FALSE(last_input_is_host("LONGER", "Exp"));
  const weft_kernel_t *k = weft_kernel_find("LONGER", WEFT_STR("DynamicStitch"), NULL, 0);
  CU_ASSERT_PTR_NOT_NULL_FATAL(k);
  CU_ASSERT_TRUE(weft_kernel_input_is_host(k, 0, 4) && weft_kernel_input_is_host(k, 1, 4));
  CU_ASSERT_FALSE(weft_kernel_input_is_host(k, 2, 4) || weft_kernel_input_is_host(k, 3, 4));
  give("OLDER"); /* 1.0: what lies behind `updates` is no member */
  given.minor = 0;
  given.size = offsetof(WEFT_DeviceLibrary, kernel_size);
  given.kernels = rows_of_1_0(old);
  CU_ASSERT_PTR_NULL(weft_device_library_add("older.so", open_given));
  CU_ASSERT_FALSE(last_input_is_host("OLDER", "ConcatV2"));
}

/* ---- Weft's own rows ---- */

static void int32_lies_in_the_hosts_memory(void) {
  const weft_named_attr_t i32 = weft_type_attr("T", WEFT_I32), f32 = weft_type_attr("T", WEFT_F32);
  const weft_kernel_t *k = weft_kernel_find("PROBE", WEFT_STR("Sub"), &i32, 1);
  CU_ASSERT_PTR_NOT_NULL_FATAL(k);
  CU_ASSERT_TRUE(weft_kernel_is_host(k->host_inputs, 1) && weft_kernel_is_host(k->host_outputs, 0));
  CU_ASSERT_PTR_NULL(weft_kernel_find("PROBE", WEFT_STR("Sub"), &f32, 1));
  k = weft_kernel_find("PROBE", WEFT_STR("Reshape"), &f32, 1);
  CU_ASSERT_PTR_NOT_NULL_FATAL(k);
  CU_ASSERT_TRUE(!weft_kernel_is_host(k->host_inputs, 0) && weft_kernel_is_host(k->host_inputs, 1));
  k = weft_kernel_find("PROBE", WEFT_STR("Switch"), &i32, 1);
  CU_ASSERT_TRUE(k != NULL && weft_kernel_is_host(k->host_outputs, 1));
  k = weft_kernel_find("PROBE", WEFT_STR("Switch"), &f32, 1);
  CU_ASSERT_TRUE(k != NULL && !weft_kernel_is_host(k->host_outputs, 1));
}

/* Each line of generic.def makes a row. */
static void each_generic_op_is_there(void) {
  static const char *const ops[] = {
#define WEFT_GENERIC(op, attr, types, host_inputs, host_outputs) op,
#include "kernels/loaded/generic.def"
#undef WEFT_GENERIC
  };
  for (size_t i = 0; i < sizeof ops / sizeof ops[0]; i++) {
    CU_ASSERT_TRUE(weft_kernel_exists("PROBE", weft_str(ops[i]), NULL));
  }
}

/* As a copy that broke off leaves it. */
static void a_file_that_was_cut_is_refused(void) {
  static char all[4 << 20];
  FILE *f = fopen(LATE_FILE, "rb");
  CU_ASSERT_PTR_NOT_NULL_FATAL(f);
  const size_t n = fread(all, 1, sizeof all, f);
  fclose(f);
  CU_ASSERT_FATAL(n > 8192 && n < sizeof all);
  const size_t lengths[] = {0, 10, 64, 100, 1000, 4000, 8192, n / 4};
  for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
    char file[] = "/tmp/weft_cut_XXXXXX";
    const int fd = mkstemp(file);
    CU_ASSERT_EQUAL_FATAL(write(fd, all, lengths[i]), (ssize_t)lengths[i]);
    close(fd);
    ends_as(weft_device_library_open(file), file, lengths[i] < 64 ? "file too short" : "the file is cut");
    unlink(file);
  }
}

/* ---- the end of a device ---- */

static sem_t callback_is_over, device_is_closed;
static void (*close_of_given)(void *device);

/* As a device's that waits for the threads of its queues. */
static void close_behind_callbacks(void *device) {
  sem_wait(&callback_is_over);
  close_of_given(device);
  sem_post(&device_is_closed);
}

static void *allocate_pinned(void *device, size_t bytes) {
  (void)device;
  return malloc(bytes);
}
static void deallocate_pinned(void *device, void *p, size_t bytes) {
  (void)device, (void)bytes;
  free(p);
}

static void the_last_pinned_block_may_be_given_back_by_a_callback(void) {
  const weft_device_spec_t spec = {.name = WEFT_STR("/job:a/replica:0/task:0/device:P:0"), .incarnation = 1};
  const weft_shape_t shape = weft_shape_vector(100);
  weft_loaded_driver_t *driver = NULL;
  weft_device_t *d = NULL;
  weft_tensor_t *t = NULL;
  give("P");
  close_of_given = given_type.close;
  given_type.close = close_behind_callbacks;
  given_type.host_allocate = allocate_pinned;
  given_type.host_deallocate = deallocate_pinned;
  CU_ASSERT_EQUAL_FATAL(sem_init(&callback_is_over, 0, 0) + sem_init(&device_is_closed, 0, 0), 0);
  CU_ASSERT_PTR_NULL_FATAL(weft_loaded_driver_create(&given_type, &driver));
  const weft_device_driver_t *base = weft_loaded_driver_base(driver);
  CU_ASSERT_PTR_NULL_FATAL(base->create(base, &spec, 0, &d));
  CU_ASSERT_PTR_NULL_FATAL(weft_tensor_new(WEFT_F32, &shape, d->host_allocator, &t));
  weft_device_destroy(d); /* the block keeps it open */
  weft_tensor_release(t); /* as a callback of its queue does: this thread is what the close waits for */
  sem_post(&callback_is_over);
  sem_wait(&device_is_closed);
  sem_destroy(&callback_is_over);
  sem_destroy(&device_is_closed);
}

static const CU_TestInfo tests[] = {
    {"other versions are refused", other_versions_are_refused},
    {"what lacks something is refused", what_lacks_something_is_refused},
    {"types are brought once", types_are_brought_once},
    {"an entry may fail", an_entry_may_fail},
    {"a file that was cut is refused", a_file_that_was_cut_is_refused},
    {"files that are no library are refused", files_that_are_no_library_are_refused},
    {"the path names files and folders", the_path_names_files_and_folders},
    {"failures have code and message", failures_have_code_and_message},
    {"a library without a driver has no devices", a_library_without_a_driver_has_no_devices},
    {"a smaller library is used", a_smaller_library_is_used},
    {"attributes are read by kind", attributes_are_read_by_kind},
    {"rows have the size that the library says", rows_have_the_size_that_the_library_says},
    {"outputs are made in each way", outputs_are_made_in_each_way},
    {"failures name their node", failures_name_their_node},
    {"every failing allocation is reported", every_failing_allocation_is_reported},
    {"int32 lies in the host's memory", int32_lies_in_the_hosts_memory},
    {"each generic op is there", each_generic_op_is_there},
    {"the last pinned block may be given back by a callback",
     the_last_pinned_block_may_be_given_back_by_a_callback},
    CU_TEST_INFO_NULL,
};

int main(void) { return weft_run_tests("device/library", tests); }
