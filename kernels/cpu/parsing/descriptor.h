/* kernels/cpu/parsing/descriptor.h - messages by their descriptors: what a serialized FileDescriptorSet says
 * of the fields of one message.
 *
 * The set comes from outside. Nothing is built of it: a look-up walks its bytes, and everything that it finds
 * is lent as long as these live.
 */
#ifndef WEFT_KERNELS_CPU_PARSING_DESCRIPTOR_H_
#define WEFT_KERNELS_CPU_PARSING_DESCRIPTOR_H_

#include "base/str.h"
#include "tensor/dtype.h"

/* FieldDescriptorProto.Type */
typedef enum weft_descriptor_type {
  WEFT_FIELD_DOUBLE = 1,
  WEFT_FIELD_FLOAT,
  WEFT_FIELD_INT64,
  WEFT_FIELD_UINT64,
  WEFT_FIELD_INT32,
  WEFT_FIELD_FIXED64,
  WEFT_FIELD_FIXED32,
  WEFT_FIELD_BOOL,
  WEFT_FIELD_STRING,
  WEFT_FIELD_GROUP,
  WEFT_FIELD_MESSAGE,
  WEFT_FIELD_BYTES,
  WEFT_FIELD_UINT32,
  WEFT_FIELD_ENUM,
  WEFT_FIELD_SFIXED32,
  WEFT_FIELD_SFIXED64,
  WEFT_FIELD_SINT32,
  WEFT_FIELD_SINT64,
  WEFT_FIELD_TYPES
} weft_descriptor_type_t;

typedef struct weft_descriptor_field {
  weft_str_t name; /* lent, as the other texts */
  uint32_t number;
  weft_descriptor_type_t type;
  bool is_repeated, is_required;
  bool is_packed, is_unpacked; /* as its options say; both false: they say nothing */
  bool has_presence;           /* in proto3: a zero that was set is kept */
  int oneof;                   /* number of its oneof, or -1 */
  weft_str_t type_name;        /* of a message, group or enum: ".package.Name" */
  bool has_default;
  weft_str_t default_text;
} weft_descriptor_field_t;

/* A message: the bytes of its DescriptorProto. */
typedef struct weft_descriptor {
  weft_str_t bytes, name; /* name: "package.Name" */
  weft_str_t set;         /* that it comes from */
  bool is_proto3;
} weft_descriptor_t;

/* Is it well-formed, as far as its files, messages, enums and fields go? Errors: INVALID_ARGUMENT. */
WEFT_MUST_CHECK weft_status_t *weft_descriptors_check(weft_str_t set);
/* The message of that full name, which may begin with a dot; false if there is none. */
bool weft_descriptor_find(weft_str_t set, weft_str_t name, weft_descriptor_t *out);
/* The field of that name, or the extension of that full name; false if the message has none. */
bool weft_descriptor_find_field(const weft_descriptor_t *m, weft_str_t name, weft_descriptor_field_t *out);
bool weft_descriptor_find_extension(const weft_descriptor_t *m, weft_str_t full_name,
                                    weft_descriptor_field_t *out);
/* All its fields by ascending number. *out: owned by the caller (weft_free). Errors: RESOURCE_EXHAUSTED. */
WEFT_MUST_CHECK weft_status_t *weft_descriptor_fields(const weft_descriptor_t *m,
                                                      weft_descriptor_field_t **out, int *out_n);
/* The number of an enum's value of that name, or of its first value if `value` is empty; 0 if there is none.
 */
int32_t weft_descriptor_enum(weft_str_t set, weft_str_t type_name, weft_str_t value);

/* The values of an enum, one after the other: `rest` begins as weft_descriptor_enum_values gives it, which is
 * empty for an enum that the set lacks. */
typedef struct weft_descriptor_value {
  weft_str_t name;
  int32_t number;
} weft_descriptor_value_t;
weft_str_t weft_descriptor_enum_values(weft_str_t set, weft_str_t type_name);
/* Does the enum take no numbers but those of its values? So it is in proto2. */
bool weft_descriptor_enum_is_closed(weft_str_t set, weft_str_t type_name);
bool weft_descriptor_next_value(weft_str_t *rest, weft_descriptor_value_t *out);

/* How values of a field travel: WEFT_WIRE_VARINT and its kin. */
uint32_t weft_descriptor_wire_type(weft_descriptor_type_t type);
/* May a tensor of that type hold its values? */
bool weft_descriptor_fits(weft_descriptor_type_t type, int dtype);

#endif /* WEFT_KERNELS_CPU_PARSING_DESCRIPTOR_H_ */
