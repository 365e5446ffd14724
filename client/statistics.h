/* client/statistics.h - counters of links as the API gives them. */
#ifndef WEFT_CLIENT_STATISTICS_H_
#define WEFT_CLIENT_STATISTICS_H_

#include "collectives/link_counters.h"
#include "weft/statistics.h"

/* Copies at most `max` rows; returns how many there are. */
int weft_client_counts(weft_link_counters_t *counters, WEFT_TransportCount *counts, int max);

#endif /* WEFT_CLIENT_STATISTICS_H_ */
