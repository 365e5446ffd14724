/* resources/optional.c - what an optional holds. */
#include "resources/optional.h"

#include "base/alloc.h"

static void optional_destroy(weft_variant_t *v) {
  weft_optional_t *o = (weft_optional_t *)v;
  for (int i = 0; i < o->count; i++) weft_tensor_release(o->items[i]);
  weft_free(o);
}

const weft_variant_type_t weft_optional_type = {"tensorflow::data::Optional", optional_destroy};

weft_status_t *weft_optional_create(int count, weft_optional_t **out) {
  weft_optional_t *o = weft_calloc(1, sizeof *o + (size_t)count * sizeof o->items[0]);
  if (o == NULL) return WEFT_NO_MEMORY("an optional of %d tensors", count);
  atomic_init(&o->variant.refs, 1);
  o->variant.type = &weft_optional_type;
  o->count = count;
  *out = o;
  return NULL;
}
