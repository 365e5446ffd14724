/* tests/tools/graphs.h - graph files for the tests of the command, as text. */
#ifndef WEFT_TESTS_TOOLS_GRAPHS_H_
#define WEFT_TESTS_TOOLS_GRAPHS_H_

#define NODE(name, op, more) "node { name: \"" name "\" op: \"" op "\" " more " }\n"
#define TYPE(key, dtype) "attr { key: \"" key "\" value { type: " dtype " } } "
#define PLACEHOLDER(name, dtype) NODE(name, "Placeholder", TYPE("dtype", dtype))
#define IDENTITY(name, input, dtype) NODE(name, "Identity", "input: \"" input "\" " TYPE("T", dtype))
#define ECHO(name, dtype) PLACEHOLDER("in_" name, dtype) IDENTITY(name, "in_" name, dtype)

/* A variable "v" that starts at 10 ("init") and grows by the number fed to "by" ("grow"); "value" reads it.
 */
#define COUNTER                                                                                                                                 \
  PLACEHOLDER("by", "DT_FLOAT")                                                                                                                 \
  NODE("v", "VarHandleOp",                                                                                             \
       TYPE("dtype", "DT_FLOAT") "attr { key: \"shape\" value { shape { } } } attr { key: \"shared_name\" value { s: \"v\" } }")                        \
  NODE("ten", "Const", TYPE("dtype", "DT_FLOAT") "attr { key: \"value\" value { tensor { dtype: DT_FLOAT tensor_shape { } float_val: 10 } } }") \
  NODE("init", "AssignVariableOp", "input: \"v\" input: \"ten\" " TYPE("dtype", "DT_FLOAT"))                                                    \
  NODE("grow", "AssignAddVariableOp", "input: \"v\" input: \"by\" " TYPE("dtype", "DT_FLOAT"))                                                  \
  NODE("value", "ReadVariableOp", "input: \"v\" input: \"^grow\" " TYPE("dtype", "DT_FLOAT"))

/* "never" waits for ever: the queue stays empty. */
#define BLOCKED                                                               \
  NODE("queue", "FIFOQueueV2",                                                \
       "attr { key: \"component_types\" value { list { type: DT_FLOAT } } } " \
       "attr { key: \"shared_name\" value { s: \"q\" } }")                    \
  NODE("never", "QueueDequeueV2",                                             \
       "input: \"queue\" attr { key: \"component_types\" value { list { type: DT_FLOAT } } }")

#endif /* WEFT_TESTS_TOOLS_GRAPHS_H_ */
