/* tools/option_checks.h - what values of options have to be, for the options that several commands have.
 *
 * Each is a weft_option_check_fn (tools/options.h): it looks at the value alone, not at graphs, files or the
 * network. Thread-safe.
 */
#ifndef WEFT_TOOLS_OPTION_CHECKS_H_
#define WEFT_TOOLS_OPTION_CHECKS_H_

#include "tools/options.h"

weft_option_check_fn weft_check_cluster;   /* "job=host:port,host:port;..." */
weft_option_check_fn weft_check_sizes;     /* the same, or "job=tasks,..." */
weft_option_check_fn weft_check_strategy;  /* the name of a strategy, and options that it has */
weft_option_check_fn weft_check_passes;    /* "pass,-pass" */
weft_option_check_fn weft_check_master;    /* "grpc://host:port" */
weft_option_check_fn weft_check_container; /* the name of a container */
weft_option_check_fn weft_check_task;      /* "/job:name/task:index" */
weft_option_check_fn weft_check_feed;      /* "name=value"; the value may be empty */
weft_option_check_fn weft_check_pair;      /* the same, for what is no feed */
weft_option_check_fn weft_check_columns;   /* of files with rows */
weft_option_check_fn weft_check_array;     /* "name=file"; neither is empty */

#endif /* WEFT_TOOLS_OPTION_CHECKS_H_ */
