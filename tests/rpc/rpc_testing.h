/* tests/rpc/rpc_testing.h - a server with a few methods, a client's channel to it, and what waits for both.
 */
#ifndef WEFT_TESTS_RPC_RPC_TESTING_H_
#define WEFT_TESTS_RPC_RPC_TESTING_H_

#include <stdatomic.h>

#include "base/mutex.h"
#include "rpc/channel.h"
#include "rpc/server.h"

#define ECHO "/weft.Test/Echo"       /* answers with the request's bytes */
#define MORE "/weft.Test/More"       /* as ECHO, and expects more calls */
#define PEER "/weft.Test/Peer"       /* with the caller's address, as the server knows it */
#define FAIL "/weft.Test/Fail"       /* ALREADY_EXISTS, with the request as text */
#define HOLD "/weft.Test/Hold"       /* CANCELLED, when the call is cancelled */
#define BLOCK "/weft.Test/Block"     /* takes its thread until there is an UNBLOCK */
#define UNBLOCK "/weft.Test/Unblock" /* answers with nothing, as does BLOCK */
#define LINGER "/weft.Test/Linger"   /* as HOLD, but its end waits a moment for an UNBLOCK */

/* Counts events. */
typedef struct weft_test_latch {
  weft_mutex_t mu;
  weft_cond_t changed;
  int count;
} weft_test_latch_t;

void weft_test_latch_init(weft_test_latch_t *l);
void weft_test_latch_deinit(weft_test_latch_t *l);
void weft_test_latch_add(weft_test_latch_t *l);
/* Were there so many events within a minute? */
bool weft_test_latch_wait(weft_test_latch_t *l, int count);

/* The server's side. Each HOLD, LINGER and BLOCK counts in `held`, each end of a HOLD or LINGER in
 * `cancelled`. */
typedef struct weft_test_host {
  weft_rpc_server_t *server;
  weft_test_latch_t held, cancelled, unblocked;
  atomic_int num_looked_for; /* calls to ECHO and MORE that a thread found by looking */
  atomic_int num_overtaken;  /* UNBLOCKs that were handled while a LINGER was being cancelled */
} weft_test_host_t;

void weft_test_host_init(weft_test_host_t *h);
void weft_test_host_deinit(weft_test_host_t *h); /* its server is destroyed before */
/* Starts a server on 127.0.0.1. port 0: one that is free. client NULL: it has threads of its own. */
weft_status_t *weft_test_host_serve(weft_test_host_t *h, int port, weft_rpc_client_t *client);

/* A client and a server. */
typedef struct weft_test_rpc {
  weft_rpc_client_t *client;
  weft_rpc_channel_t *channel;
  weft_test_host_t host; /* of a server in this process */
} weft_test_rpc_t;

void weft_test_rpc_init(weft_test_rpc_t *f);  /* without a server and a channel */
void weft_test_rpc_setup(weft_test_rpc_t *f); /* with both */
void weft_test_rpc_connect(weft_test_rpc_t *f, int port);
void weft_test_rpc_teardown(weft_test_rpc_t *f);

weft_message_t *weft_test_text_message(weft_str_t text);
/* Waits for the answer. */
weft_status_t *weft_test_ask(weft_test_rpc_t *f, const char *path, weft_str_t text,
                             const weft_rpc_options_t *o, weft_message_t **out);
/* Does the server echo `text`? */
bool weft_test_echoes(weft_test_rpc_t *f, weft_str_t text, const weft_rpc_options_t *o);

/* Does a call come past gRPC? */
bool weft_test_is_near(weft_test_rpc_t *f, const weft_rpc_options_t *o);
/* Calls until one does: the name of the server's socket is asked for after a few. */
void weft_test_become_near(weft_test_rpc_t *f);

/* Calls that are told of their end: how many ended with each code, and the bytes of their answers. */
typedef struct weft_test_answers {
  weft_test_latch_t latch;
  atomic_int codes[17];
  atomic_long bytes;
  char text[300]; /* of the last failure; after the latch */
} weft_test_answers_t;

void weft_test_answers_init(weft_test_answers_t *a);
void weft_test_answers_deinit(weft_test_answers_t *a);
void weft_test_answers_count(void *arg, weft_status_t *status, weft_message_t *response);
void weft_test_begin(weft_test_rpc_t *f, const char *path, weft_str_t text, const weft_rpc_options_t *o,
                     weft_test_answers_t *a);

#endif /* WEFT_TESTS_RPC_RPC_TESTING_H_ */
