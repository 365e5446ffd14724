/* resources/composite.c - what a composite tensor holds. */
#include "resources/composite.h"

#include "base/alloc.h"

static void composite_destroy(weft_variant_t *v) {
  weft_composite_t *t = (weft_composite_t *)v;
  for (int i = 0; i < t->count; i++) weft_tensor_release(t->items[i]);
  weft_free(t);
}

const weft_variant_type_t weft_composite_type = {"CompositeTensorVariant", composite_destroy};

weft_status_t *weft_composite_create(int64_t type_class, int count, weft_composite_t **out) {
  weft_composite_t *t = weft_calloc(1, sizeof *t + (size_t)count * sizeof t->items[0]);
  if (t == NULL) return WEFT_NO_MEMORY("a composite tensor of %d tensors", count);
  atomic_init(&t->variant.refs, 1);
  t->variant.type = &weft_composite_type;
  t->type_class = type_class;
  t->count = count;
  *out = t;
  return NULL;
}
