/* jobs/container.h - a graph whose state is in a container of its own.
 *
 * Variables, queues, tables, clocks are found by container and name (resources/resource.h): two jobs of one
 * graph share them, unless their containers differ. As with tf.container(NAME) around a graph, but inner
 * containers stay apart, too: "foo" becomes "NAME/foo".
 */
#ifndef WEFT_JOBS_CONTAINER_H_
#define WEFT_JOBS_CONTAINER_H_

#include "graph/graph.h"

/* Can a container have this name? Letters, digits, dots, and behind the first one _ - / as well, as
 * TensorFlow has it. Errors: INVALID_ARGUMENT saying so, without the name. */
WEFT_MUST_CHECK weft_status_t *weft_job_container_check(weft_str_t name);
/* Every node with an attribute `container` gets it. `option` ("--container") is for messages, here and below.
 * Nodes in functions cannot be reached: INVALID_ARGUMENT for a library with a body that makes state of its
 * own. */
WEFT_MUST_CHECK weft_status_t *weft_job_container_set(weft_graph_t *g, const char *option, weft_str_t name);
/* Of a serialized GraphDef, in place. */
WEFT_MUST_CHECK weft_status_t *weft_job_container_set_bytes(weft_strbuf_t *graph_def, const char *option,
                                                            weft_str_t name);

#endif /* WEFT_JOBS_CONTAINER_H_ */
