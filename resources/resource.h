/* resources/resource.h - what outlives a step: variables, queues, accumulators, by container and name.
 *
 * A resource lives in (container, type, name). One manager per task (or per
 * isolated session). The default container is named as the task's job: "ps", or "localhost" in a local
 * session.
 */
#ifndef WEFT_RESOURCES_RESOURCE_H_
#define WEFT_RESOURCES_RESOURCE_H_

#include "base/timer.h"
#include "device/device.h"

/* weft_resource_manager_t is Thread-safe. A resource is a weft_object_t in front of a struct. */
typedef struct weft_resource_type {
  const char *name; /* TensorFlow's type name, in handles: "N10tensorflow3VarE" and the like */
  const char *text; /* for messages: "Variable" */
  void (*abandon)(weft_object_t *o); /* the manager has let go of it: waits on it must end. May be NULL */
  bool is_late; /* an object is made before it counts as there: weft_resource_add_container says when its
                   container is */
  void (*task_lost)(weft_object_t *o,
                    weft_str_t task); /* a task of the cluster is gone: waits for it must end. May be NULL */
} weft_resource_type_t;

WEFT_MUST_CHECK weft_status_t *weft_resource_manager_create(
    weft_resource_manager_t **out); /* of the job "localhost" */
/* `job` (copied) names the default container. */
WEFT_MUST_CHECK weft_status_t *weft_resource_manager_create_for(weft_str_t job,
                                                                weft_resource_manager_t **out);
/* Lets go of all resources: what works behind them begins to end. Others may be made afterwards. */
void weft_resource_manager_clear(weft_resource_manager_t *m);
void weft_resource_manager_destroy(weft_resource_manager_t *m); /* NULL is fine */

/* *out: retained. Errors: those of weft_resource_missing. */
WEFT_MUST_CHECK weft_status_t *weft_resource_lookup(weft_resource_manager_t *m, weft_str_t container,
                                                    weft_str_t name, const weft_resource_type_t *type,
                                                    weft_object_t **out);
/* Looks up, or makes one with create(arg) under no lock that create could need (a loser's object is
 * released). */
typedef weft_status_t *weft_resource_create_fn(void *arg, weft_object_t **out);
WEFT_MUST_CHECK weft_status_t *weft_resource_lookup_or_create(weft_resource_manager_t *m,
                                                              weft_str_t container, weft_str_t name,
                                                              const weft_resource_type_t *type,
                                                              weft_resource_create_fn *create, void *arg,
                                                              weft_object_t **out);
/* NOT_FOUND: "Resource <container>/<name>/<type> does not exist.", or that the container does not: nothing
 * has been made in it since it was last cleared. */
WEFT_MUST_CHECK weft_status_t *weft_resource_missing(weft_resource_manager_t *m, weft_str_t container,
                                                     weft_str_t name, weft_str_t type_name);
/* NOT_FOUND, as weft_resource_delete says it: "Resource <container>/<name>/<unknown> does not exist." or
 * "Container <container> does not exist." */
WEFT_MUST_CHECK weft_status_t *weft_resource_nothing_to_delete(weft_resource_manager_t *m,
                                                               weft_str_t container, weft_str_t name);
/* From now on the container exists ("" is the default one). Making a resource in it does this, too. */
WEFT_MUST_CHECK weft_status_t *weft_resource_add_container(weft_resource_manager_t *m, weft_str_t container);
/* Errors: NOT_FOUND. The object lives on while it is held. */
WEFT_MUST_CHECK weft_status_t *weft_resource_delete(weft_resource_manager_t *m, weft_str_t container,
                                                    weft_str_t name, const weft_resource_type_t *type);
/* As above by a handle's type name. */
WEFT_MUST_CHECK weft_status_t *weft_resource_delete_by_type_name(weft_resource_manager_t *m,
                                                                 weft_str_t container, weft_str_t name,
                                                                 weft_str_t type_name);
/* Drops everything in a container ("" is the default one). Waits on an object of it end with
 * CANCELLED. */
void weft_resource_clear(weft_resource_manager_t *m, weft_str_t container);
weft_str_t weft_resource_container(const weft_resource_manager_t *m,
                                   weft_str_t container); /* "" -> the default one's */
size_t weft_resource_count(weft_resource_manager_t *m);   /* of all containers */
/* Tells every resource that the task ("/job:worker/replica:0/task:1") is gone. */
void weft_resource_task_lost(weft_resource_manager_t *m, weft_str_t task);
/* Changes whenever something is deleted: a holder of an object found here looks it up again when this has
 * changed. */
uint64_t weft_resource_generation(const weft_resource_manager_t *m);
/* A name for a resource without one: "_<counter>_<node>". */
void weft_resource_private_name(weft_resource_manager_t *m, weft_str_t node, weft_strbuf_t *out);

/* For deadlines of waits on resources; lives as long as the manager. */
weft_timer_t *weft_resource_timer(weft_resource_manager_t *m);

#endif /* WEFT_RESOURCES_RESOURCE_H_ */
