/* executor/serial.h - the program of a loop that runs as a loop. Private to the executor.
 *
 * A frame that may run serially (plan_serial.c) is compiled to a list of steps (plan_program.c), which
 * serial.c runs. Steps are nodes with a kernel, Merges that end a branch, and what reads a reference. What
 * just passes values on has been resolved: a route leads from where a value is made to the slot of each step
 * that reads it.
 *
 * A variable is what a Merge of an Enter and a NextIteration carries from iteration to iteration. The frame's
 * LoopCond steers the Switch of each variable, and nothing else. Steps that need not know its answer are the
 * condition's; the others are the body's.
 *
 * Which nodes are dead is known by branch: a guard is one side of a predicate, within another guard. A node
 * runs if its guard is live. Guard 0 is always live.
 */
#ifndef WEFT_EXECUTOR_SERIAL_H_
#define WEFT_EXECUTOR_SERIAL_H_

#include "executor/step.h"

typedef struct serial_route {
  uint32_t slot, output;
} serial_route_t;

typedef struct route_range {
  uint32_t begin, end;
} route_range_t;

typedef struct serial_step {
  uint32_t node;
  uint32_t guard;
  uint32_t sides;       /* of a Switch: the guard of its first output, the others follow; else 0 */
  route_range_t routes; /* of its outputs, those of one output adjacent */
} serial_step_t;

/* What is the same in all iterations, a constant or an invariant. */
typedef struct serial_constant {
  uint32_t index; /* in the plan's constants, or in the frame's invariants */
  bool is_invariant;
  route_range_t routes;
} serial_constant_t;

typedef struct serial_variable {
  uint32_t next_slot;             /* of its NextIteration */
  route_range_t to_cond, to_body; /* its value's */
} serial_variable_t;

struct serial_program {
  serial_step_t *steps;   /* num_steps, the first num_cond of the condition */
  serial_step_t *handles; /* num_handles; of the top level: what lasts until something is deleted */
  serial_route_t *routes;
  serial_constant_t *constants;
  serial_variable_t *variables; /* by their NextIteration's place among the frame's */
  uint32_t *variable_of_enter;  /* by the Enter's place among the frame's; of constant ones no meaning */
  uint32_t *variable_of_exit;   /* by the Exit's place among the frame's */
  route_range_t *exit_routes;   /* likewise, in the program of the frame outside; where that has one */
  bool *lasting;                /* by slot: its value stays from iteration to iteration */
  uint32_t *merge_guards;       /* by slot of a Merge: when its value is live */
  uint32_t num_steps, num_cond, num_handles, num_constants, num_guards;
  uint32_t cond;     /* the LoopCond */
  uint32_t a_switch; /* one that it steers */
};

/* plan_program.c: what is known of a frame when its program is made. Its Enters are. */
typedef struct program_source {
  weft_exec_plan_t *p;
  plan_frame_t *frame;
  const uint32_t *order; /* num_units nodes, producers first; of the Enters of a frame inside the first */
  uint32_t num_units;
  bool is_wanted; /* else it is only asked whether the frame is unruly */
} program_source_t;

/* *out is NULL if the frame has no program, or none is wanted. Frames inside must have theirs, and get their
 * exit_routes. *is_unruly: variables of the loop may end one by one, or an Exit be dead while another is not.
 */
WEFT_MUST_CHECK weft_status_t *weft_serial_program_make(const program_source_t *from, serial_program_t **out,
                                                        bool *is_unruly);

#endif /* WEFT_EXECUTOR_SERIAL_H_ */
