/* graph/attr_cache.c - see the header. */
#include "graph/attr_cache.h"

#include "protos/wire.h"

enum { MAX_KEY = 1024 };

typedef struct described {
  const weft_named_attr_t *attrs;
  const int *input_types, *output_types;
  int num_attrs, num_inputs, num_outputs;
} described_t;

void weft_attr_cache_deinit(weft_attr_cache_t *c) {
  weft_map_deinit(&c->lists);
  weft_arena_deinit(&c->arena);
  weft_strbuf_deinit(&c->key);
}

/* Each entry's length stands before it, so that different attributes make different keys. */
static void set_key(weft_attr_cache_t *c, const weft_op_def_t *op, weft_str_t def) {
  c->key.length = 0;
  weft_strbuf_append(&c->key, weft_str_of((const char *)&op, sizeof op));
  weft_wire_reader_t r = weft_wire_reader(def);
  for (weft_wire_field_t f; weft_wire_next(&r, &f);) {
    if (f.tag != WEFT_WIRE_TAG(5, WEFT_WIRE_BYTES)) continue;
    if (f.bytes.length > MAX_KEY || c->key.length > MAX_KEY) {
      c->key.length = 0;
      return;
    }
    const uint32_t length = (uint32_t)f.bytes.length;
    weft_strbuf_append(&c->key, weft_str_of((const char *)&length, sizeof length));
    weft_strbuf_append(&c->key, f.bytes);
  }
  if (r.failed) c->key.length = 0;
}

static weft_status_t *no_memory(void) { return WEFT_NO_MEMORY("the graph"); }

weft_status_t *weft_attr_cache_find(weft_attr_cache_t *c, weft_node_t *n, weft_str_t def, int num_inputs,
                                    bool *out_found) {
  *out_found = false;
  set_key(c, n->op, def);
  if (c->key.failed) return no_memory();
  if (c->key.length == 0) return NULL;
  const described_t *d = weft_map_get(&c->lists, weft_str_of(c->key.data, c->key.length));
  if (d == NULL || d->num_inputs != num_inputs) return NULL;
  n->attrs = d->attrs;
  n->num_attrs = d->num_attrs;
  n->input_types = d->input_types;
  n->output_types = d->output_types;
  n->num_inputs = d->num_inputs;
  n->num_outputs = d->num_outputs;
  *out_found = true;
  return NULL;
}

/* What is counted belongs to one node. */
static bool is_counted(const weft_node_t *n) {
  for (int i = 0; i < n->num_attrs; i++) {
    const weft_attr_kind_t kind = n->attrs[i].value.kind;
    if (kind == WEFT_ATTR_TENSOR || kind == WEFT_ATTR_FUNC) return true;
  }
  return false;
}

weft_status_t *weft_attr_cache_keep(weft_attr_cache_t *c, const weft_node_t *n) {
  if (c->key.length == 0 || c->lists.count >= WEFT_ATTR_CACHE_LISTS || is_counted(n)) return NULL;
  weft_str_t key = weft_arena_str(&c->arena, weft_str_of(c->key.data, c->key.length));
  described_t *d = key.data == NULL ? NULL : weft_arena_alloc(&c->arena, sizeof *d);
  if (d == NULL) return no_memory();
  *d = (described_t){n->attrs, n->input_types, n->output_types, n->num_attrs, n->num_inputs, n->num_outputs};
  return weft_map_put(&c->lists, key, d, NULL);
}
