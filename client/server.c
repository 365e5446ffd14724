/* client/server.c - TF_Server: a task of a cluster in this process. */
#include "server/server.h"

#include "base/alloc.h"
#include "client/config.h"
#include "client/statistics.h"
#include "client/status.h"
#include "protos/wire.h"
#include "tensorflow/c/c_api.h"

struct TF_Server {
  weft_server_t *server;
  char *target; /* owned; NULL before the start, if the port is not known yet */
};

/* A fixed port is known before the start. */
static weft_status_t *foretell_target(TF_Server *server, const weft_cluster_t *cluster, weft_str_t job,
                                      int task) {
  const weft_cluster_task_t *own = weft_cluster_find(cluster, job, task);
  if (own == NULL || weft_str_ends_with(own->address, ":0")) return NULL;
  weft_strbuf_t text = WEFT_STRBUF_INIT;
  weft_strbuf_printf(&text, "grpc://%.*s", WEFT_STR_ARGS(own->address));
  weft_status_t *s = weft_strbuf_finish(&text, &server->target, NULL);
  weft_strbuf_deinit(&text);
  return s;
}

/* ServerDef.protocol: servers of one kind are here; a definition that names none means these. */
static weft_status_t *check_protocol(weft_str_t server_def) {
  enum { FIELD_PROTOCOL = 5 };
  weft_str_t protocol = WEFT_STR("");
  weft_wire_reader_t r = weft_wire_reader(server_def);
  weft_wire_field_t f;
  while (weft_wire_next(&r, &f)) {
    if (f.tag == WEFT_WIRE_TAG(FIELD_PROTOCOL, WEFT_WIRE_BYTES)) protocol = f.bytes;
  }
  if (protocol.length == 0 || weft_str_is(protocol, "grpc")) return NULL;
  return WEFT_ERROR(NOT_FOUND,
                    "No server factory registered for the given ServerDef: protocol: \"%.*s\"\nThe available "
                    "server factories are: [ GRPC_SERVER ]",
                    WEFT_STR_ARGS(protocol));
}

/* ServerDef.default_session_config: how large the task is. */
static weft_status_t *read_config(weft_str_t server_def, weft_client_config_t *out) {
  enum { FIELD_DEFAULT_SESSION_CONFIG = 4 };
  weft_str_t config = WEFT_STR("");
  weft_wire_reader_t r = weft_wire_reader(server_def);
  weft_wire_field_t f;
  while (weft_wire_next(&r, &f)) {
    if (f.tag == WEFT_WIRE_TAG(FIELD_DEFAULT_SESSION_CONFIG, WEFT_WIRE_BYTES)) config = f.bytes;
  }
  WEFT_RETURN_IF_ERROR(weft_client_config_read(config, out, NULL));
  return weft_client_config_check(out);
}

TF_Server *TF_NewServer(const void *proto, size_t proto_len, TF_Status *status) {
  weft_cluster_t cluster = {.arena = WEFT_ARENA_INIT};
  weft_str_t job = WEFT_STR("");
  int task = 0;
  TF_Server *server = weft_calloc(1, sizeof *server);
  weft_status_t *s = server == NULL ? WEFT_NO_MEMORY("a server") : NULL;
  if (s == NULL && !weft_wire_is_message(weft_str_of(proto, proto_len))) {
    s = WEFT_ERROR(INVALID_ARGUMENT, "Could not parse provided bytes into a ServerDef protocol buffer");
  }
  if (s == NULL) s = check_protocol(weft_str_of(proto, proto_len));
  if (s == NULL) s = weft_cluster_from_server_def(weft_str_of(proto, proto_len), &cluster, &job, &task);
  weft_client_config_t config;
  if (s == NULL) s = read_config(weft_str_of(proto, proto_len), &config);
  if (s == NULL) {
    const weft_server_options_t options = {.cluster = &cluster,
                                           .job = job,
                                           .task = task,
                                           .port = -1,
                                           .num_threads = config.num_threads,
                                           .num_cpus = config.num_cpus,
                                           .accelerators = &config.accelerators,
                                           .collective_leader = config.collective_leader};
    s = weft_server_create(&options, &server->server);
    if (s == NULL) s = foretell_target(server, &cluster, job, task);
  }
  weft_cluster_deinit(&cluster);
  if (weft_client_end(status, s)) return server;
  TF_DeleteServer(server);
  return NULL;
}

void TF_ServerStart(TF_Server *server, TF_Status *status) {
  weft_status_t *s = weft_server_start(server->server);
  if (s == NULL) {
    weft_free(server->target);
    server->target = weft_strdup(weft_server_target(server->server));
    if (server->target == NULL) s = WEFT_NO_MEMORY("a server");
  }
  weft_client_end(status, s);
}

void TF_ServerStop(TF_Server *server, TF_Status *status) {
  weft_server_stop(server->server);
  weft_client_end(status, NULL);
}

void TF_ServerJoin(TF_Server *server, TF_Status *status) {
  weft_server_join(server->server);
  weft_client_end(status, NULL);
}

const char *TF_ServerTarget(TF_Server *server) { return server->target == NULL ? "" : server->target; }

void TF_DeleteServer(TF_Server *server) {
  if (server == NULL) return;
  weft_server_destroy(server->server);
  weft_free(server->target);
  weft_free(server);
}

int WEFT_ServerTransportCounters(TF_Server *server, WEFT_TransportCount *counts, int max) {
  return weft_client_counts(weft_server_counters(server->server), counts, max);
}
void WEFT_ResetServerTransportCounters(TF_Server *server) {
  weft_link_counters_reset(weft_server_counters(server->server));
}
