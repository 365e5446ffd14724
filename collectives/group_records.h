/* collectives/group_records.h - what the leader's table is made of; for the files of the table alone. */
#ifndef WEFT_COLLECTIVES_GROUP_RECORDS_H_
#define WEFT_COLLECTIVES_GROUP_RECORDS_H_

#include "base/name_list.h"
#include "collectives/group_table.h"
#include "collectives/group_waiter.h"

enum { WEFT_GROUP_BUCKETS = 256, WEFT_INSTANCE_BUCKETS = 1024 };

typedef struct weft_group_came {
  struct weft_group_came *next;
  weft_str_t device, host; /* behind the struct */
  int rank;
  uint64_t incarnation;
} weft_group_came_t;

typedef struct weft_group_record {
  struct weft_group_record *next;
  int64_t key;
  int size, num_members;
  char device_type[32];
  weft_group_came_t *members; /* owned */
  weft_waiter_list_t waiters;
  weft_group_t *building; /* of the thread that builds it; compared only */
  weft_group_t *group;    /* one reference once complete */
  weft_status_t *error;
  char lost_task[WEFT_MAX_DEVICE_TEXT]; /* whose return ends the error */
  size_t lost_task_length;
  uint64_t age; /* of the last request for it */
} weft_group_record_t;

/* Requests of one instance in one step that wait for the others; with `error` only a memory of it. */
typedef struct weft_instance_record {
  struct weft_instance_record *next;
  int64_t group_key, instance_key, step_id;
  weft_waiter_list_t waiters;
  int num_ranks; /* that wait */
  weft_status_t *error;
  uint64_t age; /* of errors: the oldest are forgotten */
} weft_instance_record_t;

/* What the ranks of an instance agreed on last. */
typedef struct weft_instance_agreed {
  struct weft_instance_agreed *next;
  weft_instance_request_t what; /* texts: none */
  int source;
} weft_instance_agreed_t;

struct weft_group_table {
  weft_group_table_env_t env;
  weft_timer_t *timer;
  weft_mutex_t mu;
  weft_group_record_t *groups[WEFT_GROUP_BUCKETS]; /* guarded by mu, as all below */
  weft_instance_record_t *instances[WEFT_INSTANCE_BUCKETS];
  weft_instance_agreed_t *agreed[WEFT_INSTANCE_BUCKETS];
  uint64_t next_age;
  int num_errors, num_groups;
  weft_status_t *left; /* why the leader leaves; NULL: it stays */
};

/* group_members.c */

weft_group_came_t *weft_group_member_of(const weft_group_record_t *g,
                                        weft_str_t device); /* NULL: has not come */
weft_group_came_t *weft_group_came_new(const weft_group_request_t *r,
                                       weft_str_t host); /* NULL without memory */
/* Why who asks cannot be a member of g; NULL if it can. */
weft_status_t *weft_group_contradiction(const weft_group_record_t *g, const weft_group_request_t *r);
weft_group_t *weft_group_build(weft_group_record_t *g); /* all have come; NULL without memory */
/* The first pair of tasks on one host, and the first on two, stand for all. Without the lock. */
void weft_group_measure_links(const weft_group_table_env_t *env, weft_group_t *g);

/* Lets the canceller and the timeout take w from its list; *out_failed says why it cannot wait. Before w is
 * in a list. */
void weft_group_table_watch(weft_group_table_t *t, weft_waiter_t *w, weft_canceller_t *canceller,
                            int64_t timeout_ms, weft_status_t **out_failed);
/* Takes and answers w if it still waits: its canceller or timeout came before it was in the list. */
void weft_group_table_missed(weft_waiter_t *w);

/* Why a group that a lost task broke is not there, until that task joins again: a copy, or NULL. */
weft_status_t *weft_group_lost_locked(weft_group_table_t *t, int64_t key) WEFT_REQUIRES(t->mu);

/* The device's rank in a complete group; -1 if it has none. */
int weft_group_rank_locked(weft_group_table_t *t, int64_t key, weft_str_t device) WEFT_REQUIRES(t->mu);

/* The device of a rank of a complete group; lent under the lock; empty if there is none. */
weft_str_t weft_group_device_locked(weft_group_table_t *t, int64_t key, int rank) WEFT_REQUIRES(t->mu);

/* Which ranks have come, of a group that may have any size. */
typedef struct weft_rank_set {
  uint64_t words[WEFT_MAX_GROUP / 64];
} weft_rank_set_t;
static inline void weft_rank_set_add(weft_rank_set_t *s, int rank) {
  if (rank >= 0 && rank < WEFT_MAX_GROUP) s->words[rank / 64] |= UINT64_C(1) << (rank % 64);
}
/* The first ranks below `size` that are not in it, and the number of the others. */
void weft_rank_set_list_missing(const weft_rank_set_t *s, int size, weft_name_list_t *out);

weft_status_t *weft_instance_too_late(const weft_instance_record_t *r, const weft_waiter_t *w);
/* A rank has given up (`why`, consumed): the step's instance will never be complete. Its other waiters are
 * moved to `others`; what is returned is to be freed without the lock. */
weft_instance_record_t *weft_instance_leave_locked(weft_group_table_t *t, weft_instance_record_t *r,
                                                   weft_status_t *why, weft_waiter_list_t *others)
    WEFT_REQUIRES(t->mu);
void weft_instance_record_free(weft_instance_record_t *r); /* NULL is fine */
/* The group is formed anew: its instances are forgotten; who waits for one is moved to `failed`. */
void weft_instances_drop_locked(weft_group_table_t *t, int64_t group_key, weft_waiter_list_t *failed)
    WEFT_REQUIRES(t->mu);
void weft_instances_free_all(weft_group_table_t *t);

#endif /* WEFT_COLLECTIVES_GROUP_RECORDS_H_ */
