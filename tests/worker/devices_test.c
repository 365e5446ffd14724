/* The devices of a task: names, incarnations, resources; and the same under another name. */
#include "worker/devices.h"

#include "base/alloc.h"
#include "tests/runner.h"

#define TASK "/job:w/replica:0/task:3"

static weft_devices_t made(int n) {
  weft_devices_t d = {NULL, 0, NULL};
  CU_ASSERT_PTR_NULL_FATAL(weft_devices_create(WEFT_STR(TASK), n, NULL, NULL, &d));
  return d;
}

static void devices_are_numbered_and_have_their_own_resources(void) {
  weft_devices_t d = made(3);
  CU_ASSERT_EQUAL(d.n, 3);
  CU_ASSERT_TRUE(weft_str_is(d.all[0]->name, TASK "/device:CPU:0"));
  CU_ASSERT_TRUE(weft_str_is(d.all[2]->name, TASK "/device:CPU:2"));
  for (int i = 0; i < 3; i++) {
    for (int k = 0; k < i; k++) {
      CU_ASSERT_NOT_EQUAL(d.all[i]->incarnation, d.all[k]->incarnation);
      CU_ASSERT_PTR_NOT_EQUAL(d.all[i]->resources, d.all[k]->resources);
    }
  }
  weft_devices_deinit(&d);
}

static void a_renamed_device_is_the_same_one(void) {
  weft_devices_t d = made(2), shared = {NULL, 0, NULL}, isolated = {NULL, 0, NULL};
  CU_ASSERT_PTR_NULL_FATAL(weft_devices_rename(&d, WEFT_STR("/job:x/replica:0/task:0"), false, &shared));
  CU_ASSERT_PTR_NULL_FATAL(weft_devices_rename(&d, WEFT_STR(TASK), true, &isolated));
  CU_ASSERT_TRUE(weft_str_is(shared.all[1]->name, "/job:x/replica:0/task:0/device:CPU:1"));
  for (int i = 0; i < 2; i++) {
    CU_ASSERT_EQUAL(shared.all[i]->incarnation, d.all[i]->incarnation);
    CU_ASSERT_PTR_EQUAL(shared.all[i]->resources, d.all[i]->resources);
    CU_ASSERT_PTR_NOT_EQUAL(isolated.all[i]->resources, d.all[i]->resources);
  }
  weft_devices_deinit(&isolated);
  weft_devices_deinit(&shared);
  weft_devices_deinit(&d);
}

static void devices_are_found_by_what_follows_the_task(void) {
  weft_devices_t d = made(2);
  CU_ASSERT_PTR_EQUAL(weft_devices_find(&d, WEFT_STR(TASK "/device:CPU:1")), d.all[1]);
  CU_ASSERT_PTR_EQUAL(weft_devices_find(&d, WEFT_STR("/job:other/replica:0/task:0/device:CPU:0")), d.all[0]);
  CU_ASSERT_PTR_NULL(weft_devices_find(&d, WEFT_STR(TASK "/device:CPU:2")));
  CU_ASSERT_PTR_NULL(weft_devices_find(&d, WEFT_STR(TASK "/device:GPU:0")));
  weft_devices_deinit(&d);
}

static void too_many_devices_and_bad_names_are_refused(void) {
  weft_devices_t d = {NULL, 0, NULL};
  weft_status_t *s = weft_devices_create(WEFT_STR(TASK), WEFT_MAX_CPUS + 1, NULL, NULL, &d);
  CU_ASSERT_EQUAL(weft_status_code(s), WEFT_INVALID_ARGUMENT);
  weft_status_free(s);
  s = weft_devices_create(WEFT_STR("/job:"), 1, NULL, NULL, &d);
  CU_ASSERT_EQUAL(weft_status_code(s), WEFT_INVALID_ARGUMENT);
  weft_status_free(s);
  CU_ASSERT_PTR_NULL(d.all);
}

static weft_status_t *make_both(void) {
  weft_devices_t d = {NULL, 0, NULL}, own = {NULL, 0, NULL};
  WEFT_RETURN_IF_ERROR(weft_devices_create(WEFT_STR(TASK), 2, NULL, NULL, &d));
  weft_status_t *s = weft_devices_rename(&d, WEFT_STR("/job:x/replica:0/task:0"), true, &own);
  weft_devices_deinit(&own);
  weft_devices_deinit(&d);
  return s;
}

static void every_failing_allocation_is_reported(void) {
  int n;
  WEFT_FAIL_EACH_ALLOCATION(n, s, make_both());
}

static const CU_TestInfo tests[] = {
    {"devices are numbered and have their own resources", devices_are_numbered_and_have_their_own_resources},
    {"a renamed device is the same one", a_renamed_device_is_the_same_one},
    {"devices are found by what follows the task", devices_are_found_by_what_follows_the_task},
    {"too many devices and bad names are refused", too_many_devices_and_bad_names_are_refused},
    {"every failing allocation is reported", every_failing_allocation_is_reported},
    CU_TEST_INFO_NULL,
};

int main(void) { return weft_run_tests("devices", tests); }
