/* executor/commands.h - command buffers: nodes of one compute queue that run as one node, and are recorded.
 *
 * On a device whose queue can record work, nodes that only enqueue are gathered into command buffers. All of
 * a buffer's inputs are ready together, and its outputs are handed on together. The first steps run its nodes
 * one by one; then what they enqueue is recorded, and later steps with inputs of the same types, shapes and
 * host values replay the recording.
 *
 *   commands_find.c    which nodes may be together; puts a _WeftCommands in their place
 *   commands_compile.c makes a part of the plan of a buffer
 *   commands.c         runs a buffer's nodes one by one
 *   commands_memory.c  the memory of a recording: its nodes use the same addresses at each replay
 *   commands_replay.c  recordings: when they are made, when they may be replayed
 *
 * Source: docs/decisions/0016; the term is Vulkan's, and XLA's for its GPU runtime.
 */
#ifndef WEFT_EXECUTOR_COMMANDS_H_
#define WEFT_EXECUTOR_COMMANDS_H_

#include "executor/step.h"

/* ---- commands_find.c ---- */

/* The nodes that a _WeftCommands stands for. Its inputs are the values that they take from outside. */
typedef struct found_commands {
  weft_node_t *node;      /* the _WeftCommands */
  weft_node_t **members;  /* num_members, removed from the graph; producers first. They keep their attributes
                           * until the buffers go */
  weft_output_t *outputs; /* num_outputs of its own: which member's */
  int num_members, num_outputs;
  int num_removed; /* of the members; all, but after a failure */
} found_commands_t;

struct weft_command_buffers {
  weft_arena_t arena;
  found_commands_t *buffers; /* num_buffers */
  int num_buffers;
};

/* Gathers nodes of `g`. Members live as long as the graph. On failure the graph is unusable: destroy it. The
 * caller deinitializes `out` in any case. */
WEFT_MUST_CHECK weft_status_t *weft_plan_find_commands(const weft_plan_options_t *o, weft_graph_t *g,
                                                       weft_command_buffers_t *out);
void weft_command_buffers_deinit(weft_command_buffers_t *b);
/* What the node stands for, or NULL. `b` may be NULL. */
const found_commands_t *weft_command_buffers_find(const weft_command_buffers_t *b, const weft_node_t *n);

/* ---- commands_memory.c ---- */

/* Blocks of a device's memory that a recording keeps. Thread-safe. */
typedef struct weft_commands_memory weft_commands_memory_t;

/* Takes its blocks from `from`. */
WEFT_MUST_CHECK weft_status_t *weft_commands_memory_create(weft_allocator_t *from,
                                                           weft_commands_memory_t **out);
/* The blocks go with the last tensor in them. NULL is fine. */
void weft_commands_memory_release(weft_commands_memory_t *m);
weft_allocator_t *weft_commands_memory_allocator(weft_commands_memory_t *m);
bool weft_commands_memory_is_in_use(weft_commands_memory_t *m); /* by any tensor */
/* From now on it has only the blocks that it has got. */
void weft_commands_memory_close(weft_commands_memory_t *m);

/* ---- commands_compile.c ---- */

typedef struct command_operand {
  uint32_t value;
  bool is_last; /* nothing needs the value any more */
} command_operand_t;

typedef struct buffer_command {
  plan_setup_t setup;
  op_instance_t instance;
  bool forwards;          /* its output is its input */
  uint32_t first_operand; /* of its inputs */
  uint32_t first_value;   /* of its outputs */
} buffer_command_t;

typedef struct commands_recordings commands_recordings_t; /* commands_replay.c */

struct weft_commands {
  weft_device_t *device;
  buffer_command_t *commands; /* num_commands; in the plan's arena, as all below */
  command_operand_t *operands;
  bool *is_unused;   /* by value: neither a command nor the buffer's outputs need it */
  uint32_t *outputs; /* num_outputs: values */
  uint32_t num_commands, num_inputs, num_outputs;
  uint32_t num_values;  /* the inputs first */
  uint32_t most_inputs; /* of a command */
  commands_recordings_t *recordings;
};

/* Compiles `found` into the plan's arena. */
WEFT_MUST_CHECK weft_status_t *weft_commands_compile(plan_builder_t *b, const found_commands_t *found,
                                                     weft_commands_t *out);
void weft_commands_deinit(weft_commands_t *c); /* all zero is fine */
/* How many values a run's block needs behind the inputs. */
static inline uint32_t weft_commands_extra_slots(const weft_commands_t *c) {
  return c->num_values - c->num_inputs + c->most_inputs + c->num_outputs;
}

/* ---- commands.c ---- */

/* A run of a buffer. */
typedef struct commands_run {
  const weft_step_t *step;
  weft_step_recorder_t *recorder; /* NULL: none */
  uint64_t frame_id;
  int64_t iteration;
  weft_value_t *values;             /* num_values; the inputs are set, and taken out */
  weft_value_t *scratch;            /* most_inputs */
  weft_value_t *outputs;            /* num_outputs; all zero */
  weft_allocator_t *memory;         /* where nodes allocate; NULL: each from its own account */
  const weft_kernel_node_t *failed; /* the node that failed */
} commands_run_t;

/* Enqueues the nodes' work, one by one. The queue waits for the inputs already. On failure x->failed is set,
 * and nothing is left in the arrays. */
WEFT_MUST_CHECK weft_status_t *weft_commands_enqueue(const weft_commands_t *c, commands_run_t *x);

/* ---- commands_replay.c ---- */

WEFT_MUST_CHECK weft_status_t *weft_commands_recordings_create(const weft_commands_t *c,
                                                               commands_recordings_t **out);
/* Before the device goes; outputs may still be in use. NULL is fine. */
void weft_commands_recordings_destroy(commands_recordings_t *all);
/* Runs the buffer in whatever way is best. The inputs are consumed. Errors: x->failed's; NULL there: of the
 * buffer as a whole. */
WEFT_MUST_CHECK weft_status_t *weft_commands_run(const weft_commands_t *c, commands_run_t *x);

#endif /* WEFT_EXECUTOR_COMMANDS_H_ */
