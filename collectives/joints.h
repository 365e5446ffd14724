/* collectives/joints.h - a task's communicators with other tasks, and the order of what is done in them.
 *
 * What devices do together waits on them for the parts of all ranks, so all tasks must begin collectives in
 * one order, whatever their groups. For each collective a task sends a *vote* to the task of the group's
 * first rank, which decides: by way of the host, or in a communicator, behind collectives that were decided
 * earlier. A *token* is the number of one of a task's votes. A decision lists the tokens of the task that
 * come before, as far as the deciding task does not know that they are settled; a token is settled when the
 * collective has been begun here or has ended in any other way. So a decision that got lost with its
 * collective holds up nothing.
 *
 *   vote --> decided: host ---------------------------------------------> ended
 *        \-> decided: joint --those before are settled--> begun --> ran --^
 *         \________________\______failed____________________\_____________/
 *
 * A task lets one other task decide at a time, because the orders of two would contradict each other: to the
 * others it votes that it cannot, and the collective goes by way of the host on all ranks.
 *
 * Where the places cannot make a communicator, or do a collective, although they said that they could, that
 * one fails. It may be another task's doing, which has broken off; after the second time in a row the task
 * votes for the host, as long as the group is the same.
 *
 * One thread begins collectives; it waits for tasks that have not joined a communicator yet. A collective
 * that fails after its vote breaks its communicator on all tasks, because its parts may wait on some of them:
 * the next vote says so, and the decision then is to make a new one.
 */
#ifndef WEFT_COLLECTIVES_JOINTS_H_
#define WEFT_COLLECTIVES_JOINTS_H_

#include "collectives/transport.h"

typedef struct weft_joints weft_joints_t; /* Of a task. Thread-safe. */
typedef struct weft_joint weft_joint_t;   /* One collective. Thread-safe, but for its end */

/* Votes of a task from its first one that is not settled on; what comes behind goes by way of the host. */
enum { WEFT_JOINT_WINDOW = 2048 };

/* A set of tokens from `first` on. */
typedef struct weft_joint_tokens {
  uint64_t first, bits[WEFT_JOINT_WINDOW / 64];
} weft_joint_tokens_t;

/* What tasks send; both ends are of one byte order, as of all that collectives send. Ids of the task's places
 * come behind it. */
typedef struct weft_joint_vote {
  uint64_t life;    /* of the task's process */
  uint64_t token;   /* larger than all before */
  uint64_t settled; /* all smaller ones are */
  uint64_t broken;  /* the last token of this group that failed; 0: none */
  uint64_t can;     /* not 0: its members can be in a communicator, and it lets this task decide */
} weft_joint_vote_t;

typedef struct weft_joint_decision {
  uint64_t epoch;  /* of the communicator; 0: by way of the host */
  uint64_t is_new; /* it is to be made, with `id` */
  weft_joint_tokens_t before;
  uint8_t id[WEFT_JOINT_ID_BYTES];
} weft_joint_decision_t;

/* A task of a group, by the order of its first rank. */
typedef struct weft_joint_task {
  int first, num_ranks; /* its first rank, and how many it has */
  const weft_joint_vote_t *vote;
  const uint8_t *ids; /* num_ranks */
  weft_joint_decision_t *decision;
} weft_joint_task_t;

WEFT_MUST_CHECK weft_status_t *weft_joints_create(weft_joints_t **out);
void weft_joints_destroy(weft_joints_t *js); /* all joints have ended. NULL is fine */

/* A task's members `places` (NULL: they cannot) of a group begin a collective that `decider` decides. *vote,
 * and the ids behind it, are filled in. Errors: RESOURCE_EXHAUSTED. */
WEFT_MUST_CHECK weft_status_t *weft_joints_begin(weft_joints_t *js, weft_group_t *group, weft_str_t decider,
                                                 weft_collective_place_t *const *places, const int *ranks,
                                                 int num_own, weft_joint_vote_t *vote, uint8_t *ids,
                                                 weft_joint_t **out);
/* At the decider, whose joint this is: all have voted. */
void weft_joints_decide(weft_joints_t *js, const weft_joint_t *j, weft_joint_task_t *tasks, int num_tasks);
/* It was decided that it is joint: begins it in its turn. done(arg, status) is called once, on any thread:
 * UNIMPLEMENTED, by way of the host after all; ABORTED, it was broken off. `t` lives until then. */
void weft_joints_run(weft_joints_t *js, weft_joint_t *j, const weft_joint_decision_t *d,
                     const weft_collective_together_t *t, void (*done)(void *arg, weft_status_t *status),
                     void *arg);
/* It has failed elsewhere: what waits for it here ends. */
void weft_joints_fail(weft_joints_t *js, weft_joint_t *j);
/* Consumes `j`, of which nothing is under way. */
void weft_joints_end(weft_joints_t *js, weft_joint_t *j, bool has_failed);

#endif /* WEFT_COLLECTIVES_JOINTS_H_ */
