/* kernels/attrs.c - fills the structs of attributes. */
#include "kernels/attrs.h"

static void fill(const weft_attr_t *a, void *member) {
  if (a->is_list) {
    *(const weft_attr_t **)member = a;
    return;
  }
  switch (a->kind) {
    case WEFT_ATTR_BOOL: *(bool *)member = a->b; break;
    case WEFT_ATTR_FLOAT: *(float *)member = a->f; break;
    case WEFT_ATTR_INT: *(int64_t *)member = a->i; break;
    case WEFT_ATTR_SHAPE: *(const weft_shape_t **)member = a->shape; break;
    case WEFT_ATTR_STRING: *(weft_str_t *)member = a->s; break;
    case WEFT_ATTR_TYPE: *(int *)member = a->type; break;
    default: break; /* no macro makes such a field */
  }
}

weft_status_t *weft_attrs_prepare(const weft_kernel_setup_t *setup, void **out_state) {
  const weft_attr_struct_t *want = setup->reads;
  char *state = weft_calloc(1, want->size);
  if (state == NULL) return WEFT_NO_MEMORY("preparing %s", setup->node.name.data);
  for (const weft_attr_field_t *f = want->fields; f->name != NULL; f++) {
    const weft_attr_t *a = weft_attr_find(setup->attrs, setup->num_attrs, f->name);
    bool fits = a != NULL && a->is_list == f->is_list && (a->kind == f->kind || (a->is_list && a->n == 0));
    if (!fits) {
      weft_free(state);
      return WEFT_ERROR(INTERNAL, "op %s has no attribute '%s' as its kernel takes it",
                        setup->node.op_name.data, f->name);
    }
    fill(a, state + f->offset);
  }
  *out_state = state;
  return NULL;
}
