/* collectives/group_members.h - the leader's record of one group: which members have joined, whether they fit
 * together, their ranks, and the links between them.
 *
 * Thread-compatible: the group table calls all of this under its lock.
 */
#ifndef WEFT_COLLECTIVES_GROUP_MEMBERS_H_
#define WEFT_COLLECTIVES_GROUP_MEMBERS_H_

#include "base/name_list.h"
#include "collectives/group_table.h"
#include "collectives/group_waiter.h"

typedef struct weft_group_joined {
  struct weft_group_joined *next;
  weft_str_t device, host; /* behind the struct */
  int rank;
  uint64_t incarnation;
} weft_group_joined_t;

typedef struct weft_group_record {
  struct weft_group_record *next;
  int64_t key;
  int size, num_members;
  char device_type[32];
  weft_group_joined_t *members; /* owned */
  weft_group_waiters_t waiters;
  weft_group_t *building; /* of the thread that builds it; compared only */
  weft_group_t *group;    /* one reference once complete */
  weft_status_t *error;
  char lost_task[WEFT_MAX_DEVICE_TEXT]; /* the error ends when this task returns */
  size_t lost_task_length;
  uint64_t age; /* of the last request for it */
} weft_group_record_t;

void weft_group_record_free(weft_group_record_t *g); /* NULL is fine */

/* The order of TensorFlow's device names: numbers inside by value. Negative: `a` comes first. */
int weft_group_compare_devices(weft_str_t a, weft_str_t b);
weft_group_joined_t *weft_group_find_member(const weft_group_record_t *g, weft_str_t device); /* NULL: none */
bool weft_group_record_has_task(const weft_group_record_t *g, weft_str_t task);
weft_group_joined_t *weft_group_joined_new(const weft_group_request_t *r,
                                           weft_str_t host); /* NULL without memory */
/* Removes a member, if no other request of its waits and the group is still forming. */
void weft_group_remove_member(weft_group_record_t *g, weft_str_t device);
void weft_group_remove_members(weft_group_record_t *g);
/* The first request says what the group is: its size and device type. */
void weft_group_begin(weft_group_record_t *g, const weft_group_request_t *r);
/* The group is to be formed anew; nothing waits for it now. */
void weft_group_reset(weft_group_record_t *g, weft_group_t **old_group, weft_status_t **old_error);
/* Returns why the requesting device cannot join `g`, or NULL if it can. */
weft_status_t *weft_group_contradiction(const weft_group_record_t *g, const weft_group_request_t *r);
/* The group of all members that have joined; NULL without memory. */
weft_group_t *weft_group_build(weft_group_record_t *g);
/* DEADLINE_EXCEEDED, naming the missing ranks and the tasks of the cluster that have no member in `g`. */
weft_status_t *weft_group_too_late(const weft_group_record_t *g, const weft_group_request_t *r,
                                   const weft_str_t *tasks, int num_tasks);

/* The task without which `g` cannot be completed: it is lost, its job is that of a member, and each other
 * task of such jobs has joined or is lost, too. `is_lost`: of each task of the cluster. data NULL: there is
 * none. A chief and workers are one job. */
weft_str_t weft_group_lacks(const weft_group_record_t *g, const weft_str_t *tasks, const bool *is_lost,
                            int num_tasks);

/* One pair of tasks on one host and one pair on two hosts stand for all pairs. Without the lock. */
void weft_group_measure_links(const weft_group_table_env_t *env, weft_group_t *g);

#endif /* WEFT_COLLECTIVES_GROUP_MEMBERS_H_ */
