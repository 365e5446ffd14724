/* strategies/parameter_server_in_step.c - workers that share each batch, in step: replicas with their
 * variables on servers.
 *
 * The replication engine does all of it. Workers read variables from servers and send partial gradients
 * there, where they are added up and applied once; a value that workers need whole in the middle of a step is
 * all-reduced between them. Batches are fed at the first server and split there. Source: reference 3.3, 3.27.
 */
#include "base/alloc.h"
#include "graph/passes.h"
#include "strategies/lower.h"
#include "strategies/parameter_server.h"
#include "strategies/replicate.h"
#include "strategies/shard_graph.h"

/* Shards variables first; the result is a graph for one device, like any other. */
static weft_status_t *cut_variables(weft_ps_t *p) {
  weft_graph_t *sharded = NULL;
  WEFT_RETURN_IF_ERROR(weft_graph_copy(p->request->graph, &p->source));
  if (p->options.partitioner.kind == WEFT_PARTITION_NONE) return NULL;
  WEFT_RETURN_IF_ERROR(weft_lower_for_clients(p->source));
  WEFT_RETURN_IF_ERROR(weft_pass_infer_shapes(p->source));
  WEFT_RETURN_IF_ERROR(weft_shard_graph(p->source, p->request, &p->options.partitioner, p->out, &sharded));
  weft_graph_destroy(p->source);
  p->source = sharded;
  return NULL;
}

weft_status_t *weft_ps_replicate(weft_ps_t *p) {
  const weft_replicate_options_t o = {.strategy = "parameter_server",
                                      .devices = p->places.workers,
                                      .num_replicas = p->places.num_workers,
                                      .variables = WEFT_VARIABLES_CENTRAL,
                                      .variable_devices = p->places.servers,
                                      .num_variable_devices = p->places.num_servers,
                                      .placement = p->options.placement,
                                      .caches = p->options.caches,
                                      .host = p->places.servers[0],
                                      .sum = WEFT_SUM_BY_COLLECTIVES,
                                      .fusion = WEFT_BUCKETS_DDP,
                                      .limits = WEFT_BUCKET_LIMITS,
                                      .hint = p->options.algorithm,
                                      .timeout_seconds = p->options.timeout_seconds,
                                      .local_batch_norm = p->options.local_batch_norm,
                                      .input = p->options.input,
                                      .batch = p->options.batch};
  weft_strategy_request_t request = *p->request;
  WEFT_RETURN_IF_ERROR(cut_variables(p));
  request.graph = p->source;
  p->out->num_local_cpus = p->places.num_local_cpus;
  return weft_replicate(&request, &o, p->out);
}
