/* membership/node_ids.c - numbers of nodes. */
#include "membership/node_ids.h"

#include <stdlib.h>

bool weft_node_id_parse(int id, weft_node_role_t *out_role, int *out_rank) {
  if (id == WEFT_NODE_SCHEDULER) {
    *out_role = WEFT_NODE_SCHEDULER;
    *out_rank = 0;
    return true;
  }
  if (id < 8) return false;
  *out_role = id % 2 == 0 ? WEFT_NODE_SERVER : WEFT_NODE_WORKER;
  *out_rank = (id - 8) / 2;
  return true;
}

static int by_address(const void *a, const void *b) {
  const weft_member_node_t *x = a, *y = b;
  int hosts = weft_str_compare(y->host, x->host);
  return hosts != 0 ? hosts : (x->port > y->port) - (x->port < y->port);
}

void weft_nodes_number(weft_member_node_t *nodes, int n) {
  int servers = 0, workers = 0;
  if (n > 0) qsort(nodes, (size_t)n, sizeof nodes[0], by_address);
  for (int i = 0; i < n; i++) {
    weft_member_node_t *node = &nodes[i];
    node->rank = node->role == WEFT_NODE_SERVER ? servers++ : node->role == WEFT_NODE_WORKER ? workers++ : 0;
    node->id = weft_node_id(node->role, node->rank);
  }
}

bool weft_node_is_in(const weft_member_node_t *node, int id) {
  return weft_node_id_is_group(id) ? (id & (int)node->role) != 0 : node->id == id;
}

int weft_nodes_in(const weft_member_node_t *nodes, int n, int id) {
  int count = 0;
  for (int i = 0; i < n; i++) count += weft_node_is_in(&nodes[i], id);
  return count;
}
