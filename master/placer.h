/* master/placer.h - gives every node a device.
 *
 * Nodes that must sit together form a class (union-find): those joined by a
 * reference or resource edge, and those that name the same colocation group
 * (`_class` = "loc:@x"). A class goes to the most preferred device that
 * satisfies what its members ask for. Source: TensorFlow's ColocationGraph and
 * Placer as restated in the reference, 3.3.
 */
#ifndef WEFT_MASTER_PLACER_H_
#define WEFT_MASTER_PLACER_H_

#include "graph/graph.h"
#include "master/device_set.h"
#include "master/master.h"

typedef struct weft_placer_options {
  const weft_device_set_t *devices;
  const weft_kernel_support_t *kernels;
  bool allow_soft_placement;
  bool log_device_placement; /* one line per node on the server's log */
} weft_placer_options_t;

/* Sets assigned_device of every node that can run. A stateful node that has one keeps it. Errors:
 * INVALID_ARGUMENT in TensorFlow's words, ending with "[[{{node n}}]]". A node that no device type has a
 * kernel for gets none: it is no error until a step needs it (weft_client_graph_build). All such are named in
 * a line of the log. */
WEFT_MUST_CHECK weft_status_t *weft_place(weft_graph_t *g, const weft_placer_options_t *o);

#endif /* WEFT_MASTER_PLACER_H_ */
