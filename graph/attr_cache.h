/* graph/attr_cache.h - attribute lists, and the types that follow from them, that many nodes of an import
 * share.
 *
 * The key is the op and the bytes of the attributes as they came: a node whose bytes were seen before needs
 * no reading. Lists with tensors or functions, and long ones, are not kept; nor more than
 * WEFT_ATTR_CACHE_LISTS lists. For the files of this folder only. Confined.
 */
#ifndef WEFT_GRAPH_ATTR_CACHE_H_
#define WEFT_GRAPH_ATTR_CACHE_H_

#include "graph/graph.h"

enum { WEFT_ATTR_CACHE_LISTS = 1 << 16 };

typedef struct weft_attr_cache {
  weft_arena_t arena; /* of keys and entries */
  weft_map_t lists;
  weft_strbuf_t key; /* of the node that is read; empty: it has none */
} weft_attr_cache_t;

#define WEFT_ATTR_CACHE_INIT \
  { WEFT_ARENA_INIT, WEFT_MAP_INIT, WEFT_STRBUF_INIT }
void weft_attr_cache_deinit(weft_attr_cache_t *c);
/* Sets attributes, types and their numbers of `n`, whose op is set, as those of a node that was kept with the
 * same op, the same attributes in `def` (a NodeDef) and num_inputs inputs. *out_found false: there was none,
 * and nothing is set. Errors: RESOURCE_EXHAUSTED. */
WEFT_MUST_CHECK weft_status_t *weft_attr_cache_find(weft_attr_cache_t *c, weft_node_t *n, weft_str_t def,
                                                    int num_inputs, bool *out_found);
/* Keeps those of `n`, which was looked for last. Errors: RESOURCE_EXHAUSTED. */
WEFT_MUST_CHECK weft_status_t *weft_attr_cache_keep(weft_attr_cache_t *c, const weft_node_t *n);

#endif /* WEFT_GRAPH_ATTR_CACHE_H_ */
