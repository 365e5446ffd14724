/* tests/client/device_count_test.c - how many CPU devices a session in this process has, and a server of this
 * process. */
#include <stdio.h>

#include "tests/client/client_testing.h"

/* ConfigProto { device_count { key: "CPU" value: N } }, one byte for N. */
#define CONFIG(n)    \
  "\x0a\x07\x0a\x03" \
  "CPU"              \
  "\x10" n

static TF_Session *open_session(const char *config, size_t bytes, TF_Graph *g, TF_Status *s) {
  TF_SessionOptions *o = TF_NewSessionOptions();
  TF_SetConfig(o, config, bytes, s);
  CU_ASSERT_EQUAL(TF_GetCode(s), TF_OK);
  TF_Session *session = TF_NewSession(g, o, s);
  TF_DeleteSessionOptions(o);
  return session;
}

static void expect_devices(TF_Session *session, TF_Status *s, const char *task, int n) {
  TF_DeviceList *l = TF_SessionListDevices(session, s);
  CU_ASSERT_EQUAL_FATAL(TF_GetCode(s), TF_OK);
  CU_ASSERT_EQUAL(TF_DeviceListCount(l), n);
  for (int i = 0; i < n && i < TF_DeviceListCount(l); i++) {
    char name[128];
    snprintf(name, sizeof name, "%s/device:CPU:%d", task, i);
    CU_ASSERT_STRING_EQUAL(TF_DeviceListName(l, i, s), name);
    CU_ASSERT_STRING_EQUAL(TF_DeviceListType(l, i, s), "CPU");
    for (int k = 0; k < i; k++)
      CU_ASSERT_NOT_EQUAL(TF_DeviceListIncarnation(l, i, s), TF_DeviceListIncarnation(l, k, s));
  }
  TF_DeleteDeviceList(l);
}

static void a_session_has_as_many_devices_as_it_asks_for(void) {
  TF_Status *s = TF_NewStatus();
  TF_Graph *g = TF_NewGraph();
  TF_Session *three = open_session(CONFIG("\x03"), 9, g, s), *usual = open_session("", 0, g, s);
  CU_ASSERT_PTR_NOT_NULL_FATAL(three);
  CU_ASSERT_PTR_NOT_NULL_FATAL(usual);
  expect_devices(three, s, "/job:localhost/replica:0/task:0", 3);
  expect_devices(usual, s, "/job:localhost/replica:0/task:0", 1);
  TF_DeleteSession(three, s);
  TF_DeleteSession(usual, s);
  TF_DeleteGraph(g);
  TF_DeleteStatus(s);
}

static void a_session_without_devices_is_refused(void) {
  TF_Status *s = TF_NewStatus();
  TF_Graph *g = TF_NewGraph();
  TF_Session *none = open_session(CONFIG("\x00"), 9, g, s);
  CU_ASSERT_PTR_NULL(none);
  CU_ASSERT_EQUAL(TF_GetCode(s), TF_NOT_FOUND);
  CU_ASSERT_STRING_EQUAL(TF_Message(s), "No CPU devices are available in this process");
  TF_DeleteGraph(g);
  TF_DeleteStatus(s);
}

/* ServerDef: one task of job "worker" on any port, default_session_config as above for two devices. */
static const char server_def[] =
    "\x0a\x1b\x0a\x19\x0a\x06" "worker" "\x12\x0f\x08\x00\x12\x0b" "127.0.0.1:0"
    "\x12\x06" "worker"
    "\x22\x09" CONFIG("\x02")
    "\x2a\x04" "grpc";

static void a_server_has_as_many_devices_as_its_configuration_says(void) {
  TF_Status *s = TF_NewStatus();
  TF_Graph *g = TF_NewGraph();
  TF_Server *server = TF_NewServer(server_def, sizeof server_def - 1, s);
  CU_ASSERT_EQUAL_FATAL(TF_GetCode(s), TF_OK);
  TF_ServerStart(server, s);
  CU_ASSERT_EQUAL_FATAL(TF_GetCode(s), TF_OK);
  TF_SessionOptions *o = TF_NewSessionOptions();
  TF_SetTarget(o, TF_ServerTarget(server));
  TF_Session *session = TF_NewSession(g, o, s);
  CU_ASSERT_PTR_NOT_NULL_FATAL(session);
  expect_devices(session, s, "/job:worker/replica:0/task:0", 2);
  TF_DeleteSession(session, s);
  TF_DeleteSessionOptions(o);
  TF_ServerStop(server, s);
  TF_ServerJoin(server, s);
  TF_DeleteServer(server);
  TF_DeleteGraph(g);
  TF_DeleteStatus(s);
}

static const CU_TestInfo tests[] = {
    {"a session has as many devices as it asks for", a_session_has_as_many_devices_as_it_asks_for},
    {"a session without devices is refused", a_session_without_devices_is_refused},
    {"a server has as many devices as its configuration says",
     a_server_has_as_many_devices_as_its_configuration_says},
    CU_TEST_INFO_NULL,
};

int main(void) { return weft_run_tests("device count", tests); }
