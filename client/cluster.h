/* client/cluster.h - what is inside a WEFT_Cluster. */
#ifndef WEFT_CLIENT_CLUSTER_H_
#define WEFT_CLIENT_CLUSTER_H_

#include "server/cluster.h"
#include "weft/cluster.h"

const weft_cluster_t *weft_client_cluster(const WEFT_Cluster *c); /* lent */

#endif /* WEFT_CLIENT_CLUSTER_H_ */
