/* services/membership_codec.c - the tables of weft.MembershipService's messages: number, kind, name,
 * member. */
#include "services/membership_codec.h"

const char *const weft_store_paths[WEFT_STORE_NUM_OPS] = {
    [WEFT_STORE_SET] = WEFT_MEMBERSHIP_METHOD("Set"),
    [WEFT_STORE_GET] = WEFT_MEMBERSHIP_METHOD("Get"),
    [WEFT_STORE_ADD] = WEFT_MEMBERSHIP_METHOD("Add"),
    [WEFT_STORE_COMPARE_SET] = WEFT_MEMBERSHIP_METHOD("CompareSet"),
    [WEFT_STORE_DELETE] = WEFT_MEMBERSHIP_METHOD("Delete"),
    [WEFT_STORE_BARRIER] = WEFT_MEMBERSHIP_METHOD("Barrier"),
};

static const weft_field_t beat[] = {
    {1, WEFT_FIELD_TEXT, "task", offsetof(weft_beat_msg_t, task)},
    {2, WEFT_FIELD_FIXED64, "incarnation", offsetof(weft_beat_msg_t, incarnation)},
    {3, WEFT_FIELD_FIXED64, "epoch", offsetof(weft_beat_msg_t, epoch)},
    {4, WEFT_FIELD_I64, "timeout_ms", offsetof(weft_beat_msg_t, timeout_ms)},
    {5, WEFT_FIELD_FIXED64, "lost_service", offsetof(weft_beat_msg_t, lost_service)},
    {6, WEFT_FIELD_BOOL, "is_leaving", offsetof(weft_beat_msg_t, is_leaving)},
    {7, WEFT_FIELD_FIXED64, "secret", offsetof(weft_beat_msg_t, secret)},
};
const weft_message_type_t weft_beat_type = WEFT_MESSAGE_TYPE("BeatRequest", beat);

static const weft_field_t beat_response[] = {
    {1, WEFT_FIELD_FIXED64, "epoch", offsetof(weft_beat_response_msg_t, epoch)},
};
const weft_message_type_t weft_beat_response_type = WEFT_MESSAGE_TYPE("BeatResponse", beat_response);

static const weft_field_t member[] = {
    {1, WEFT_FIELD_TEXT, "task", offsetof(weft_member_msg_t, task)},
    {2, WEFT_FIELD_FIXED64, "incarnation", offsetof(weft_member_msg_t, incarnation)},
    {3, WEFT_FIELD_I64, "state", offsetof(weft_member_msg_t, state)},
    {4, WEFT_FIELD_I64, "silent_ms", offsetof(weft_member_msg_t, silent_ms)},
    {5, WEFT_FIELD_I64, "losses", offsetof(weft_member_msg_t, losses)},
    {6, WEFT_FIELD_BOOL, "has_left", offsetof(weft_member_msg_t, has_left)},
};
const weft_message_type_t weft_member_type = WEFT_MESSAGE_TYPE("Member", member);

static const weft_field_t watch_response[] = {
    {1, WEFT_FIELD_FIXED64, "epoch", offsetof(weft_watch_response_msg_t, epoch)},
    {2, WEFT_FIELD_MESSAGES, "member", offsetof(weft_watch_response_msg_t, members)},
};
const weft_message_type_t weft_watch_response_type = WEFT_MESSAGE_TYPE("WatchResponse", watch_response);

static const weft_field_t store[] = {
    {1, WEFT_FIELD_BYTES, "key", offsetof(weft_store_msg_t, key)},
    {2, WEFT_FIELD_BYTES, "value", offsetof(weft_store_msg_t, value)},
    {3, WEFT_FIELD_BYTES, "expected", offsetof(weft_store_msg_t, expected)},
    {4, WEFT_FIELD_I64, "delta", offsetof(weft_store_msg_t, delta)},
    {5, WEFT_FIELD_I64, "timeout_ms", offsetof(weft_store_msg_t, timeout_ms)},
    {6, WEFT_FIELD_I64, "size", offsetof(weft_store_msg_t, size)},
};
const weft_message_type_t weft_store_type = WEFT_MESSAGE_TYPE("StoreRequest", store);

static const weft_field_t value[] = {
    {1, WEFT_FIELD_BYTES, "value", offsetof(weft_value_msg_t, value)},
};
const weft_message_type_t weft_value_type = WEFT_MESSAGE_TYPE("StoreResponse", value);
