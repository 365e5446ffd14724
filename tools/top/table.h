/* tools/top/table.h - a view of a cluster as lines of text: for a screen, or printed once. */
#ifndef WEFT_TOOLS_TOP_TABLE_H_
#define WEFT_TOOLS_TOP_TABLE_H_

#include "tools/top/view.h"

typedef enum weft_top_style {
  WEFT_TOP_PLAIN,
  WEFT_TOP_TITLE,   /* of a section */
  WEFT_TOP_TROUBLE, /* a task that is not up */
  WEFT_TOP_WARNING, /* a straggler */
} weft_top_style_t;

typedef struct weft_top_line {
  weft_str_t text; /* ASCII; any length; ends with '\0' */
  weft_top_style_t style;
} weft_top_line_t;

typedef struct weft_top_table {
  weft_arena_t arena;
  weft_top_line_t *lines;
  int n, room;
  bool has_failed; /* without memory: lines are missing */
} weft_top_table_t;

typedef struct weft_top_table_options {
  weft_top_order_t order;
  bool shows_memory, shows_traffic, shows_nodes;
} weft_top_table_options_t;

/* Fills *out: a line for all, then sections with an empty line between. The caller deinits it in any case. */
void weft_top_table_make(const weft_top_view_t *v, const weft_top_table_options_t *o, weft_top_table_t *out);
void weft_top_table_deinit(weft_top_table_t *t);

/* "/job:worker/replica:0/task:1/device:CPU:0" as "worker:1 CPU:0", a task as "worker:1"; other texts as they
 * are. */
void weft_top_print_place(weft_str_t name, weft_strbuf_t *out);
/* "512 B", "1.5 KiB"; "980 us", "12.3 ms", "1.50 s"; "35 s", "3:20", "1:05:00", "3 d 4 h". */
void weft_top_print_bytes(double bytes, weft_strbuf_t *out);
void weft_top_print_seconds(double seconds, weft_strbuf_t *out);
void weft_top_print_age(double seconds, weft_strbuf_t *out);

#endif /* WEFT_TOOLS_TOP_TABLE_H_ */
