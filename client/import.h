/* client/import.h - what an import is asked to do, and what it gives. */
#ifndef WEFT_CLIENT_IMPORT_H_
#define WEFT_CLIENT_IMPORT_H_

#include "client/graph.h"

/* A tensor (or, with index -1, a node) of the GraphDef. */
typedef struct weft_client_key {
  weft_str_t name;
  int index;
} weft_client_key_t;

typedef struct weft_client_mapping {
  weft_client_key_t from;
  TF_Output to; /* index -1: a control input */
} weft_client_mapping_t;

/* A list that grows; items are plain. */
typedef struct weft_client_list {
  void *items; /* owned */
  int n, capacity;
} weft_client_list_t;

/* Confined. */
struct TF_ImportGraphDefOptions {
  weft_arena_t arena; /* all texts */
  weft_str_t prefix, device;
  bool uniquify_names, uniquify_prefix, is_out_of_memory;
  bool allows_unknown_groups;        /* nodes may be colocated with nodes that do not come with them */
  bool skip_mapped_placeholders;     /* placeholders whose output is mapped are not imported: for loops */
  weft_client_list_t mappings;       /* of weft_client_mapping_t */
  weft_client_list_t controls;       /* of TF_Operation* */
  weft_client_list_t return_outputs; /* of weft_client_key_t */
  weft_client_list_t return_nodes;   /* of weft_str_t */
};

struct TF_ImportGraphDefResults {
  weft_arena_t arena; /* all that follows */
  TF_Output *outputs;
  TF_Operation **operations;
  const char **missing_names;
  int *missing_indexes;
  int num_outputs, num_operations, num_missing;
};

/* Adds a GraphDef. On failure the graph is as it was. */
WEFT_MUST_CHECK weft_status_t *weft_client_import_locked(TF_Graph *g, weft_str_t graph_def,
                                                         const TF_ImportGraphDefOptions *o,
                                                         TF_ImportGraphDefResults *out) WEFT_REQUIRES(g->mu);

#endif /* WEFT_CLIENT_IMPORT_H_ */
