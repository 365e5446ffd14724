/* services/membership_codec.h - the messages of weft.MembershipService. */
#ifndef WEFT_SERVICES_MEMBERSHIP_CODEC_H_
#define WEFT_SERVICES_MEMBERSHIP_CODEC_H_

#include "membership/store.h"
#include "rpc/fields.h"

#define WEFT_MEMBERSHIP_METHOD(name) "/weft.MembershipService/" name
/* The path of each operation on keys and values, by weft_store_op_t. */
extern const char *const weft_store_paths[WEFT_STORE_NUM_OPS];

typedef struct weft_beat_msg { /* BeatRequest, WatchRequest */
  weft_str_t task;
  uint64_t incarnation, epoch;
  int64_t timeout_ms; /* of a watch */
  uint64_t lost_service;
  bool is_leaving;
  uint64_t secret;
} weft_beat_msg_t;
extern const weft_message_type_t weft_beat_type;

typedef struct weft_beat_response_msg {
  uint64_t epoch;
} weft_beat_response_msg_t;
extern const weft_message_type_t weft_beat_response_type;

typedef struct weft_member_msg {
  weft_str_t task;
  uint64_t incarnation;
  int64_t state, silent_ms;
  int64_t losses;
  bool has_left;
} weft_member_msg_t;
extern const weft_message_type_t weft_member_type;

typedef struct weft_watch_response_msg {
  uint64_t epoch;
  weft_texts_t members; /* Member */
} weft_watch_response_msg_t;
extern const weft_message_type_t weft_watch_response_type;

typedef struct weft_store_msg { /* of every operation on keys and values */
  weft_str_t key, value, expected;
  int64_t delta, timeout_ms, size;
} weft_store_msg_t;
extern const weft_message_type_t weft_store_type;

typedef struct weft_value_msg {
  weft_str_t value;
} weft_value_msg_t;
extern const weft_message_type_t weft_value_type;

#endif /* WEFT_SERVICES_MEMBERSHIP_CODEC_H_ */
