/* tests/client/gpu_options_test.c - which accelerators a session of this process takes, as its ConfigProto
 * says. */
#include <stdio.h>
#include <stdlib.h>

#include "device/device.h"
#include "tests/client/client_testing.h"

/* ---- three GPUs that compute on the host ---- */

enum { NUM_GPUS = 3 };
static bool are_there;                         /* else the driver cannot say how many it has */
static weft_accelerator_options_t asked, made; /* of the last count() and create() with options */

static weft_status_t *count(const weft_device_driver_t *self, const weft_accelerator_options_t *o, int *out) {
  (void)self;
  if (!are_there) return WEFT_ERROR(UNAVAILABLE, "no driver");
  *out = NUM_GPUS;
  if (o == NULL) return NULL;
  asked = *o;
  if (o->visible[0] != '\0') *out = 1;
  return o->visible[0] == '9' ? WEFT_ERROR(INVALID_ARGUMENT, "there is no GPU 9") : NULL;
}

static weft_status_t *create(const weft_device_driver_t *self, const weft_device_spec_t *spec, int ordinal,
                             weft_device_t **out) {
  (void)self;
  if (spec->accelerators != NULL) made = *spec->accelerators;
  WEFT_RETURN_IF_ERROR(weft_cpu_driver.create(&weft_cpu_driver, spec, ordinal, out));
  (*out)->type = "GPU";
  return NULL;
}

static const weft_device_driver_t gpus = {.type = "GPU", .count = count, .create = create};

/* ---- sessions ---- */

typedef struct config {
  char bytes[512];
  size_t n;
} config_t;

static void append(config_t *c, const void *bytes, size_t n) {
  CU_ASSERT_TRUE_FATAL(c->n + n <= sizeof c->bytes);
  memcpy(c->bytes + c->n, bytes, n);
  c->n += n;
}

/* A field of bytes, shorter than 128. */
static void add_bytes(config_t *c, int field, const void *bytes, size_t n) {
  const char head[] = {(char)(field << 3 | 2), (char)n};
  append(c, head, sizeof head);
  append(c, bytes, n);
}
static void add_flag(config_t *c, int field, char value) {
  const char bytes[] = {(char)(field << 3), value};
  append(c, bytes, sizeof bytes);
}
static void add_double(config_t *c, int field, double value) {
  const char head[] = {(char)(field << 3 | 1)};
  append(c, head, sizeof head);
  append(c, &value, sizeof value);
}

/* device_count { key: "GPU" value: n } */
static void add_gpu_count(config_t *c, char n) {
  const char entry[] = {0x0a, 3, 'G', 'P', 'U', 0x10, n};
  add_bytes(c, 1, entry, sizeof entry);
}
static void add_gpu_options(config_t *c, const config_t *o) { add_bytes(c, 6, o->bytes, o->n); }

/* How many GPUs a session with that config has; -1: it is refused, and `s` says why. */
static int gpus_of(const config_t *c, TF_Status *s) {
  TF_Graph *g = TF_NewGraph();
  TF_SessionOptions *o = TF_NewSessionOptions();
  TF_SetConfig(o, c->bytes, c->n, s);
  CU_ASSERT_EQUAL(TF_GetCode(s), TF_OK);
  memset(&asked, 0, sizeof asked);
  memset(&made, 0, sizeof made);
  TF_Session *session = TF_NewSession(g, o, s);
  int n = -1;
  if (session != NULL) {
    TF_DeviceList *l = TF_SessionListDevices(session, s);
    n = 0;
    for (int i = 0; i < TF_DeviceListCount(l); i++)
      n += strstr(TF_DeviceListName(l, i, s), "/device:GPU:") != NULL;
    TF_DeleteDeviceList(l);
    TF_Status *end = TF_NewStatus();
    TF_DeleteSession(session, end);
    TF_DeleteStatus(end);
  }
  TF_DeleteSessionOptions(o);
  TF_DeleteGraph(g);
  return n;
}

static void device_count_limits_them(void) {
  are_there = true;
  TF_Status *s = TF_NewStatus();
  const config_t none = {.n = 0};
  CU_ASSERT_EQUAL(gpus_of(&none, s), NUM_GPUS);
  for (int n = 0; n <= NUM_GPUS + 1; n++) {
    config_t c = {.n = 0};
    add_gpu_count(&c, (char)n);
    CU_ASSERT_EQUAL(gpus_of(&c, s), n < NUM_GPUS ? n : NUM_GPUS);
  }
  TF_DeleteStatus(s);
}

static void options_reach_the_driver(void) {
  are_there = true;
  TF_Status *s = TF_NewStatus();
  config_t o = {.n = 0}, c = {.n = 0};
  add_double(&o, 1, 0.25);
  add_flag(&o, 4, 1);
  add_bytes(&o, 5, "2", 1);
  add_gpu_options(&c, &o);
  CU_ASSERT_EQUAL(gpus_of(&c, s), 1);
  CU_ASSERT_STRING_EQUAL(asked.visible, "2");
  CU_ASSERT_STRING_EQUAL(made.visible, "2");
  CU_ASSERT_EQUAL(made.memory_fraction, 0.25);
  CU_ASSERT_TRUE(made.allow_growth);
  CU_ASSERT_EQUAL(made.num_split, 0);
  TF_DeleteStatus(s);
}

/* experimental { virtual_devices { memory_limit_mb: [100, 200] } virtual_devices {} } */
static void add_parts(config_t *o) {
  const float limits[] = {100, 200};
  config_t first = {.n = 0}, e = {.n = 0};
  add_bytes(&first, 1, limits, sizeof limits);
  add_bytes(&e, 1, first.bytes, first.n);
  add_bytes(&e, 1, "", 0);
  add_bytes(o, 9, e.bytes, e.n);
}

static void logical_devices_reach_the_driver(void) {
  are_there = true;
  TF_Status *s = TF_NewStatus();
  config_t o = {.n = 0}, c = {.n = 0};
  add_parts(&o);
  add_gpu_options(&c, &o);
  CU_ASSERT_EQUAL(gpus_of(&c, s), NUM_GPUS);
  CU_ASSERT_EQUAL(made.num_split, 2);
  CU_ASSERT_EQUAL(made.num_logical[0], 2);
  CU_ASSERT_EQUAL(made.num_logical[1], 0);
  CU_ASSERT_EQUAL(made.logical_bytes[0], 100 << 20);
  CU_ASSERT_EQUAL(made.logical_bytes[1], 200 << 20);
  config_t e = {.n = 0}, equal = {.n = 0}, c2 = {.n = 0};
  add_flag(&e, 15, 4);
  add_bytes(&equal, 9, e.bytes, e.n);
  add_gpu_options(&c2, &equal);
  CU_ASSERT_EQUAL(gpus_of(&c2, s), NUM_GPUS);
  CU_ASSERT_EQUAL(made.num_per_device, 4);
  TF_DeleteStatus(s);
}

static void fill_wrong(config_t *c, int which) {
  config_t o = {.n = 0}, e = {.n = 0};
  switch (which) {
    case 0: /* parts and a fraction */
      add_double(&o, 1, 0.5);
      add_parts(&o);
      break;
    case 1: add_double(&o, 1, -1); break;
    case 2: /* both kinds of parts */
      add_bytes(&e, 1, "", 0);
      add_flag(&e, 15, 2);
      add_bytes(&o, 9, e.bytes, e.n);
      break;
    default: add_bytes(&o, 5, "9", 1); break; /* the driver's own refusal */
  }
  add_gpu_options(c, &o);
}

static const char *const refusals[] = {
    "It's invalid to set per_process_gpu_memory_fraction when virtual_devices is set.",
    "per_process_gpu_memory_fraction is -1", "num_virtual_devices_per_gpu", "there is no GPU 9"};

static void wrong_options_are_refused_where_there_are_gpus(void) {
  TF_Status *s = TF_NewStatus();
  for (int i = 0; i < (int)(sizeof refusals / sizeof refusals[0]); i++) {
    config_t c = {.n = 0};
    fill_wrong(&c, i);
    are_there = true;
    CU_ASSERT_EQUAL(gpus_of(&c, s), -1);
    CU_ASSERT_EQUAL(TF_GetCode(s), TF_INVALID_ARGUMENT);
    CU_ASSERT_PTR_NOT_NULL(strstr(TF_Message(s), refusals[i]));
    are_there = false;
    CU_ASSERT_EQUAL(gpus_of(&c, s), 0);
    are_there = true;
    add_gpu_count(&c, 0);
    CU_ASSERT_EQUAL(gpus_of(&c, s), 0);
  }
  TF_DeleteStatus(s);
}

static void the_cpu_goes_on_without_a_driver(void) {
  are_there = false;
  TF_Status *s = TF_NewStatus();
  const config_t none = {.n = 0};
  CU_ASSERT_EQUAL(gpus_of(&none, s), 0);
  TF_DeleteStatus(s);
}

static const CU_TestInfo tests[] = {
    {"device_count limits them", device_count_limits_them},
    {"options reach the driver", options_reach_the_driver},
    {"logical devices reach the driver", logical_devices_reach_the_driver},
    {"wrong options are refused where there are GPUs", wrong_options_are_refused_where_there_are_gpus},
    {"the CPU goes on without a driver", the_cpu_goes_on_without_a_driver},
    CU_TEST_INFO_NULL,
};

int main(void) {
  weft_status_t *s = weft_device_register(&gpus);
  if (s != NULL) return 2;
  return weft_run_tests("GPU options", tests);
}
