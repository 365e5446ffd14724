/* saved_model/meta_graph.h - a graph with what one needs to use it: signatures, assets, collections, a saver.
 *
 * The message is read where it lies, once; what it says is then in plain lists. The graph itself stays the
 * bytes of a GraphDef, which the importer reads.
 */
#ifndef WEFT_SAVED_MODEL_META_GRAPH_H_
#define WEFT_SAVED_MODEL_META_GRAPH_H_

#include "base/arena.h"
#include "tensor/dtype.h"
#include "tensor/shape.h"

/* One tensor of a signature. A composite value is listed by its parts: "x.indices", "x.values" and
 * "x.dense_shape" of a sparse one, "x.0", "x.1", ... of any other. */
typedef struct weft_signature_tensor {
  weft_str_t key;    /* its name in the signature */
  weft_str_t tensor; /* in the graph: "serving_default_x:0" */
  int dtype;         /* 0: not said */
  weft_shape_t shape;
} weft_signature_tensor_t;

typedef struct weft_signature_def {
  weft_str_t key, method;                    /* "serving_default", "tensorflow/serving/predict" */
  weft_signature_tensor_t *inputs, *outputs; /* sorted by key */
  weft_signature_tensor_t *ops; /* outputs that are no tensors: `tensor` names an op that is run */
  int num_inputs, num_outputs, num_ops;
} weft_signature_def_t;

typedef struct weft_asset {
  weft_str_t tensor, filename; /* below the model's assets folder */
} weft_asset_t;

typedef struct weft_collection {
  weft_str_t key;
  const char *kind;  /* "node_list", "bytes_list", ...; "": none */
  weft_str_t *items; /* of node, bytes and any lists: NODE:0, bytes, serialized Any messages */
  int64_t n;         /* how many it has, of any kind */
} weft_collection_t;

/* Everything is in `arena` or lent by the bytes that were read. All texts may be "". */
typedef struct weft_meta_graph {
  weft_arena_t arena;
  weft_str_t bytes; /* the whole message */
  weft_str_t graph_def, tensorflow_version;
  weft_str_t filename_tensor, save_tensor, restore_op; /* of the saver */
  bool has_saver;
  weft_str_t *tags;
  weft_signature_def_t *signatures; /* sorted by key */
  weft_asset_t *assets;             /* asset_file_def */
  weft_collection_t *collections;   /* sorted by key */
  int num_tags, num_signatures, num_assets, num_collections;
} weft_meta_graph_t;

/* `bytes` have been checked to be a MetaGraphDef (weft_proto_check) and stay until *out is deinited, which is
 * also to be done after a failure. Shapes that are none count as unknown, as TensorFlow does not look at
 * them. Errors: RESOURCE_EXHAUSTED. */
WEFT_MUST_CHECK weft_status_t *weft_meta_graph_read(weft_str_t bytes, weft_meta_graph_t *out);
void weft_meta_graph_deinit(weft_meta_graph_t *m);

/* Do the graph's constants have values that one can make? Errors: FAILED_PRECONDITION, naming the node. */
WEFT_MUST_CHECK weft_status_t *weft_meta_graph_check_constants(const weft_meta_graph_t *m);
/* NULL: there is none. */
const weft_signature_def_t *weft_meta_graph_signature(const weft_meta_graph_t *m, weft_str_t key);
/* The op that runs before the graph is used, of the signature "__saved_model_init_op"; "": there is none.
 * Errors: FAILED_PRECONDITION (the signature has no output of that name). `whose` is the file that messages
 * name. */
WEFT_MUST_CHECK weft_status_t *weft_meta_graph_init_op(const weft_meta_graph_t *m, const char *whose,
                                                       weft_str_t *out);
const weft_collection_t *weft_meta_graph_collection(const weft_meta_graph_t *m, const char *key);

/* A checked AssetFileDef. Errors: RESOURCE_EXHAUSTED. */
WEFT_MUST_CHECK weft_status_t *weft_asset_read(weft_arena_t *arena, weft_str_t bytes, weft_asset_t *out);

#endif /* WEFT_SAVED_MODEL_META_GRAPH_H_ */
