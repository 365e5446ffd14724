/* rpc/arguments.c - the settings of gRPC that every connection of ours has. */
#include "rpc/arguments.h"

#include <limits.h>

#define SET(name, number) \
  { .type = GRPC_ARG_INTEGER, .key = (name), .value.integer = (number) }

/* On both ends. */
#define COMMON                                                                                           \
  SET(GRPC_ARG_MAX_SEND_MESSAGE_LENGTH, INT_MAX), /* as TensorFlow; gRPC's own limit is 4 MiB */         \
      SET(GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH, INT_MAX),                                                 \
      SET(GRPC_ARG_MAX_METADATA_SIZE,                                                                    \
          64 << 10),                  /* a status text of 3 KiB, percent-encoded, and its details */     \
      SET(GRPC_ARG_MINIMAL_STACK, 1), /* no unused filters: each costs on every message */               \
      SET(GRPC_ARG_ENABLE_DEADLINE_CHECKS, 1),           /* ... but this one */                          \
      SET(GRPC_ARG_ENABLE_PER_MESSAGE_DECOMPRESSION, 1), /* TensorFlow clients may compress */           \
      SET(GRPC_ARG_ENABLE_CHANNELZ, 0),                                                                  \
      SET(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, 8 << 20), /* how much may be under way on one stream */ \
      SET(GRPC_ARG_HTTP2_MAX_FRAME_SIZE, 4 << 20), SET(GRPC_ARG_HTTP2_WRITE_BUFFER_SIZE, 4 << 20),       \
      SET(GRPC_ARG_TCP_READ_CHUNK_SIZE, 256 << 10), SET(GRPC_ARG_TCP_MAX_READ_CHUNK_SIZE, 256 << 10)

const grpc_channel_args *weft_rpc_channel_arguments(void) {
  static grpc_arg table[] = {
      COMMON,
      SET(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100), /* ms; a restarted server is found soon */
      SET(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1000),    /* ms; as TensorFlow */
      SET(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS,
          4000), /* ms; for one attempt: a stopped server's host accepts and says nothing */
      SET(GRPC_ARG_DNS_MIN_TIME_BETWEEN_RESOLUTIONS_MS, 1000),
      SET(GRPC_ARG_SERVICE_CONFIG_DISABLE_RESOLUTION, 1),
      SET(GRPC_ARG_ENABLE_RETRIES, 0), /* callers repeat by TensorFlow's rules */
      SET(GRPC_ARG_ENABLE_HTTP_PROXY, 0),
      SET(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1), /* a channel's connection is its own */
      SET(GRPC_ARG_CLIENT_IDLE_TIMEOUT_MS, INT_MAX),
      /* while there are calls: a server that is frozen keeps its connections, and answers no ping.
         UNAVAILABLE after 3.5 s */
      SET(GRPC_ARG_KEEPALIVE_TIME_MS, 1500),
      SET(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 2000),
      SET(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0),
      SET(GRPC_ARG_HTTP2_MIN_SENT_PING_INTERVAL_WITHOUT_DATA_MS, 1000),
  };
  static const grpc_channel_args args = {sizeof table / sizeof table[0], table};
  return &args;
}

const grpc_channel_args *weft_rpc_server_arguments(void) {
  static grpc_arg table[] = {
      COMMON,
      SET(GRPC_ARG_ALLOW_REUSEPORT, 0), /* a port that is taken is an error, as with TensorFlow */
      /* Clients ping while they wait; gRPC's default would take long steps for an attack. */
      SET(GRPC_ARG_HTTP2_MAX_PING_STRIKES, 0),
  };
  static const grpc_channel_args args = {sizeof table / sizeof table[0], table};
  return &args;
}
