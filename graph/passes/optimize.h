/* graph/passes/optimize.h - rewrites of a step's graph that leave its results as they are.
 *
 * A step's graph is what its fetches and targets need, with a _Recv in the place of each feed: what a feed
 * brings is not known. The passes of passes.def run over it one after the other, twice if the first round has
 * changed it. Nodes behind each pass that nothing needs any more are dropped.
 *
 * What every pass keeps: the nodes that `keep` names, nodes with an effect, the order that control inputs ask
 * for, on which device a node runs, and which nodes are dead in which branch. A node that fails is left
 * alone: the step fails with its name. Equal bits: but for the rules of arithmetic.c that say so, and for the
 * layers that remap.c makes on other devices than CPUs.
 *
 * Source: the contract of TensorFlow's Grappler (meta_optimizer.cc) as far as RewriterConfig shows it.
 */
#ifndef WEFT_GRAPH_PASSES_OPTIMIZE_H_
#define WEFT_GRAPH_PASSES_OPTIMIZE_H_

#include "graph/graph.h"

typedef enum weft_pass_id {
#define WEFT_PASS(id, name, field, means_off, function, what) WEFT_PASS_##id,
#include "graph/passes/passes.def"
#undef WEFT_PASS
  WEFT_NUM_PASSES
} weft_pass_id_t;

#define WEFT_PASS_BIT(id) (UINT32_C(1) << (id))
#define WEFT_ALL_PASSES (WEFT_PASS_BIT(WEFT_NUM_PASSES) - 1)

const char *weft_pass_name(int pass); /* of a weft_pass_id_t */
const char *weft_pass_what(int pass); /* one line for --help */

typedef struct weft_pass_settings {
  uint32_t passes;          /* WEFT_PASS_BIT of those that run */
  int min_nodes;            /* smaller graphs stay as they are */
  int rounds;               /* at most */
  int64_t max_folded_bytes; /* of a constant that is made */
} weft_pass_settings_t;

/* What sessions do without a word: all passes, on graphs of 4 nodes and more, as TensorFlow. */
weft_pass_settings_t weft_pass_defaults(void);
/* "a,b,-c": `a` and `b` without the others; "-c": all that were on, without `c`. "all" and "none" are names,
 * too. Errors: INVALID_ARGUMENT naming what is no pass. */
WEFT_MUST_CHECK weft_status_t *weft_pass_settings_parse(weft_str_t text, weft_pass_settings_t *inout);
/* Takes over what a serialized GraphOptions (ConfigProto.graph_options) says: rewrite_options (a
 * RewriterConfig) and optimizer_options. A pass runs unless one of the two turns it off. What asks for passes
 * that there are not is ignored; *out_ignored (lent, constant; NULL: nothing) says what. */
void weft_pass_settings_read(weft_str_t graph_options, weft_pass_settings_t *inout, const char **out_ignored);
/* A serialized GraphOptions that says the same, appended. */
void weft_pass_settings_write(const weft_pass_settings_t *s, weft_strbuf_t *out);
bool weft_pass_settings_eq(const weft_pass_settings_t *a, const weft_pass_settings_t *b);

/* For workers, which get a graph in parts: marks the nodes that passes of theirs could change, where these do
 * not run, and, unless `s` are the defaults, the nodes that call functions. Errors: RESOURCE_EXHAUSTED. */
WEFT_MUST_CHECK weft_status_t *weft_pass_settings_mark(weft_graph_t *g, const weft_pass_settings_t *s);
/* What nodes that call functions say of the graphs of these. Linear. */
weft_pass_settings_t weft_pass_settings_of_calls(const weft_graph_t *g);

/* Computes a node by itself, on the host. */
typedef struct weft_evaluator {
  /* outputs: num_outputs of the node, each owned by the caller afterwards, or NULL. A failure and an output
   * that is not there both mean that the node stays as it is. */
  weft_status_t *(*evaluate)(void *arg, const weft_node_t *n, weft_tensor_t *const *inputs,
                             weft_tensor_t **outputs);
  void *arg;
} weft_evaluator_t;

/* What a pass did to a node: "is a constant", "is read as", "is the same as" and the other node's name (empty
 * data: there is none). "is not needed" is said of a node that is dropped. */
typedef void weft_pass_note_fn(void *arg, const char *pass, const weft_node_t *n, const char *what,
                               weft_str_t other);

typedef struct weft_optimize_options {
  weft_pass_settings_t settings;
  const weft_str_t *keep; /* num_keep names of nodes that stay, under their names, though nothing reads them;
                             those that are not there are ignored */
  int num_keep;
  bool keeps_ends; /* nodes that nothing reads or waits for stay, too: they are what the graph is for */
  const weft_evaluator_t *evaluator; /* NULL: only what shapes tell is folded */
  /* Whether the type of device that a node is assigned to has a kernel for it: for ops that a pass makes. Of
   * the node only the op, the attributes and the device are read. NULL: such ops are made on CPUs alone. */
  bool (*has_kernel)(void *arg, const weft_node_t *n);
  void *has_kernel_arg;
  /* Makes the graph once more, as it was; for when a pass has failed. NULL: a copy is kept. */
  weft_status_t *(*rebuild)(void *arg, weft_graph_t **out);
  void *rebuild_arg;
  weft_pass_note_fn *note; /* NULL: not asked for */
  void *note_arg;
} weft_optimize_options_t;

/* Rewrites *g, which may be replaced. A pass that fails is logged and left out: the graph is then as if it
 * had not been asked for. *g is NULL only if `rebuild` fails, whose failure is then returned; all others end
 * here. Linear in nodes and edges, but for what is computed. Thread-compatible. */
WEFT_MUST_CHECK weft_status_t *weft_optimize(weft_graph_t **g, const weft_optimize_options_t *o);

/* May a node be dropped if nothing reads it? */
bool weft_node_has_effect(const weft_node_t *n);

#endif /* WEFT_GRAPH_PASSES_OPTIMIZE_H_ */
