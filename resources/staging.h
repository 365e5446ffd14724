/* resources/staging.h - staging areas: tuples of tensors that wait to be taken, in order of arrival or by
 * key.
 *
 * Three kinds, as in TensorFlow: Stage and Unstage use the first; MapStage and OrderedMapStage and their kin
 * the others, which put a tuple together from parts and give it away in parts. A put waits for room and a
 * take for its tuple, both without a thread.
 */
#ifndef WEFT_RESOURCES_STAGING_H_
#define WEFT_RESOURCES_STAGING_H_

#include "resources/wait_room.h"

typedef enum weft_staging_kind {
  WEFT_STAGING_FIFO,
  WEFT_STAGING_MAP,
  WEFT_STAGING_ORDERED_MAP,
  WEFT_STAGING_KINDS
} weft_staging_kind_t;

typedef struct weft_staging_config {
  weft_staging_kind_t kind;
  int num_components;             /* of a whole tuple; of maps */
  int64_t capacity, memory_limit; /* whole tuples; bytes; 0: no limit */
} weft_staging_config_t;

typedef struct weft_staging weft_staging_t; /* Thread-safe. A weft_object_t in front. */
extern const weft_resource_type_t weft_staging_types[WEFT_STAGING_KINDS];

WEFT_MUST_CHECK weft_status_t *weft_staging_create(const weft_staging_config_t *config, weft_object_t **out);

/* Ends the call, at once or later, when `values`, n of them, are in the area. `indices` (NULL: of a FIFO)
 * says which components of the tuple `key` they are; `key_tensor` (NULL: of a FIFO) is the key in the shape
 * that a take gives back, and is retained. Errors (through the call): INVALID_ARGUMENT (indices
 * that are not in rising order or out of bounds, a component that is there), RESOURCE_EXHAUSTED (more than
 * the limit), CANCELLED. */
void weft_staging_put(weft_staging_t *st, const weft_resource_call_t *call, int64_t key,
                      weft_tensor_t *key_tensor, const weft_tensor_t *indices, const weft_value_t *values,
                      int n);

typedef enum weft_staging_choice {
  WEFT_STAGING_FIRST, /* of a FIFO or an ordered map; of another map, any */
  WEFT_STAGING_AT,    /* `key` counts from the first */
  WEFT_STAGING_BY_KEY
} weft_staging_choice_t;

/* Ends the call, at once or later, with components of a whole tuple: with all, or with those that `indices`
 * (NULL: all) says. `removes` them from the area, and the tuple with the last; else they stay. `has_key`:
 * output 0 is the tuple's key, the components come behind it. `num_outputs`: how many outputs there are in
 * all. Errors: INVALID_ARGUMENT (indices; a component that is gone; another number of outputs), CANCELLED. */
typedef struct weft_staging_wish {
  weft_staging_choice_t choice;
  int64_t key;
  const weft_tensor_t *indices;
  bool removes, has_key;
  int num_outputs;
} weft_staging_wish_t;
void weft_staging_take(weft_staging_t *st, const weft_resource_call_t *call, const weft_staging_wish_t *wish);

void weft_staging_clear(weft_staging_t *st);
int64_t weft_staging_size(weft_staging_t *st); /* whole tuples */
int64_t weft_staging_incomplete_size(weft_staging_t *st);

#endif /* WEFT_RESOURCES_STAGING_H_ */
