/* graph/function_fingerprint.c - tells whether two serialized FunctionDefs say the same.
 *
 * A client sends its whole library with every extension of a graph, and protobuf
 * writes the entries of a map in any order. So bytes cannot be compared; we hash
 * the message so that the order of map entries does not matter.
 */
#include "graph/function_fingerprint.h"

#include "graph/attr_proto.h"
#include "protos/wire.h"

/* What a length-delimited field holds, as far as maps may be inside. */
typedef enum fingerprint_part {
  PLAIN,
  FUNCTION,
  NODE,
  VALUE,
  LIST,
  CALL,
  ARG,
  MAP_OF_PLAIN,
  MAP_OF_VALUES,
  MAP_OF_ARGS
} fingerprint_part_t;

static fingerprint_part_t part_of(fingerprint_part_t message, uint32_t number) {
  switch (message) {
    case FUNCTION:
      if (number == 3) return NODE;
      if (number == 5) return MAP_OF_VALUES;
      if (number == 7) return MAP_OF_ARGS;
      return number == 4 || (number >= 6 && number <= 8) ? MAP_OF_PLAIN : PLAIN;
    case NODE: return number == 5 ? MAP_OF_VALUES : PLAIN;
    case VALUE: return number == 1 ? LIST : number == 10 ? CALL : PLAIN;
    case LIST: return number == 9 ? CALL : PLAIN;
    case CALL: return number == 2 ? MAP_OF_VALUES : PLAIN;
    case ARG: return number == 1 ? MAP_OF_VALUES : PLAIN;
    default: return PLAIN;
  }
}

static uint64_t mix(uint64_t h, uint64_t value) {
  h = (h ^ value) * 0x9e3779b97f4a7c15u;
  return h ^ h >> 29;
}

static uint64_t hash_part(fingerprint_part_t part, weft_str_t bytes, int depth);

/* The part that a map's values are. */
static fingerprint_part_t values_of(fingerprint_part_t map) {
  if (map == MAP_OF_VALUES) return VALUE;
  return map == MAP_OF_ARGS ? ARG : PLAIN;
}

/* An entry: key (text or number) in field 1, value in field 2. */
static uint64_t hash_entry(fingerprint_part_t map, weft_str_t bytes, int depth) {
  weft_wire_reader_t r = weft_wire_reader(bytes);
  weft_wire_field_t f;
  uint64_t key = 0, value = 0;
  while (weft_wire_next(&r, &f)) {
    bool is_bytes = weft_wire_type(&f) == WEFT_WIRE_BYTES;
    if (weft_wire_number(&f) == 1) key = is_bytes ? weft_str_hash(f.bytes) : f.value;
    if (weft_wire_number(&f) == 2) value = is_bytes ? hash_part(values_of(map), f.bytes, depth + 1) : f.value;
  }
  return mix(mix(1, key), value);
}

static uint64_t hash_part(fingerprint_part_t part, weft_str_t bytes, int depth) {
  if (part == PLAIN || depth > 3 * WEFT_ATTR_MAX_DEPTH) return weft_str_hash(bytes);
  weft_wire_reader_t r = weft_wire_reader(bytes);
  weft_wire_field_t f;
  uint64_t ordered = 1, unordered = 0;
  while (weft_wire_next(&r, &f)) {
    bool is_bytes = weft_wire_type(&f) == WEFT_WIRE_BYTES;
    fingerprint_part_t inner = is_bytes ? part_of(part, weft_wire_number(&f)) : PLAIN;
    if (inner == MAP_OF_PLAIN || inner == MAP_OF_VALUES || inner == MAP_OF_ARGS) {
      unordered += mix(f.tag, hash_entry(inner, f.bytes, depth));
    } else {
      ordered = mix(mix(ordered, f.tag), is_bytes ? hash_part(inner, f.bytes, depth + 1) : f.value);
    }
  }
  return mix(ordered, unordered);
}

uint64_t weft_function_fingerprint(weft_str_t function_def) { return hash_part(FUNCTION, function_def, 0); }
