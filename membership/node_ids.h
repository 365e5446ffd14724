/* membership/node_ids.h - numbers of nodes and of groups of nodes, as parameter servers count them.
 *
 * The scheduler is 1, server of rank r is 8 + 2r, worker of rank r is 9 + 2r. Below 8
 * a number is a group: the sum of the bits of those in it, so 4 + 2 is all servers
 * and workers. Ranks go by host from the last to the first, then by port.
 *
 * Source: ps-lite's numbering (reference strategies 3.2).
 */
#ifndef WEFT_MEMBERSHIP_NODE_IDS_H_
#define WEFT_MEMBERSHIP_NODE_IDS_H_

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"

typedef enum weft_node_role {
  WEFT_NODE_SCHEDULER = 1,
  WEFT_NODE_SERVER = 2,
  WEFT_NODE_WORKER = 4
} weft_node_role_t;
enum { WEFT_NODE_ALL = WEFT_NODE_SCHEDULER | WEFT_NODE_SERVER | WEFT_NODE_WORKER };

typedef struct weft_member_node {
  weft_node_role_t role;
  weft_str_t host; /* lent */
  int port;
  int rank, id; /* set by weft_nodes_number */
} weft_member_node_t;

static inline int weft_node_id(weft_node_role_t role, int rank) {
  return role == WEFT_NODE_SCHEDULER ? 1 : 8 + 2 * rank + (role == WEFT_NODE_WORKER ? 1 : 0);
}
static inline bool weft_node_id_is_group(int id) { return id >= 1 && id <= WEFT_NODE_ALL; }
/* Role and rank of a node's id; false for a group (1 is the scheduler, which is a group of itself). */
bool weft_node_id_parse(int id, weft_node_role_t *out_role, int *out_rank);

/* Sorts the nodes (host descending, then port ascending) and gives ranks within each role, and ids. */
void weft_nodes_number(weft_member_node_t *nodes, int n);
/* How many of the nodes are in group `id`, or 1 if it is the id of one of them. 0: no such node. */
int weft_nodes_in(const weft_member_node_t *nodes, int n, int id);
bool weft_node_is_in(const weft_member_node_t *node, int id);

#endif /* WEFT_MEMBERSHIP_NODE_IDS_H_ */
