/* tools/drawing/level.h - one picture: frames side by side, boxes in them in reading order, arrows.
 *
 * The first level has a frame for each task (with one task: each device) and in it the layers; between two
 * frames there is one arrow a direction, with the bytes of the rewrite's crossings, so that a drawing says
 * what the summary says. Every other level is the inside of a scope: a frame for its forward nodes, one for
 * its gradients, one for its updates, one for what a strategy added. Each node below the level's scope is in
 * exactly one box.
 */
#ifndef WEFT_TOOLS_DRAWING_LEVEL_H_
#define WEFT_TOOLS_DRAWING_LEVEL_H_

#include "strategies/summary.h"
#include "tools/drawing/tree.h"

typedef struct weft_level_box {
  weft_tree_scope_t *scope, *last; /* last: of those that share the box */
  int frame;
  weft_drawn_role_t role; /* of the nodes that it shows; WEFT_DRAWN_ROLES: all */
  int num_nodes, by_role[WEFT_DRAWN_ROLES], num_variables;
  int64_t variable_bytes;
  weft_drawn_kind_t kind;        /* if all of it was added for one purpose */
  int group;                     /* of boxes with an outline around them; -1 */
  int rest;                      /* so many more scopes, in order, are in this box */
  weft_str_t title, left, right; /* texts that fit; set by the layout */
  int x, y, width, height;
} weft_level_box_t;

typedef struct weft_level_group { /* an open scope, folded from several */
  weft_tree_scope_t *scope;
  weft_str_t title;
  int num_parts; /* one in each column that it is in */
  struct {
    int x, y, width, height;
  } parts[4];
} weft_level_group_t;

typedef struct weft_level_frame {
  weft_tree_scope_t *root; /* of a place; else the level's scope */
  weft_drawn_role_t role;  /* WEFT_DRAWN_ROLES: a place */
  int first, num_boxes;
  weft_flow_t among; /* between the places that it stands for */
  weft_str_t title, subtitle;
  int x, y, width, height;
} weft_level_frame_t;

typedef struct weft_level_arrow { /* between boxes of one frame */
  int from, to;
  weft_flow_t flow;       /* of different values; messages: how many */
  weft_drawn_role_t role; /* of what sends */
  bool is_control;        /* order alone */
  const weft_node_t *of;  /* a value that it carries: the largest */
  int output;
  int num_points, points[12]; /* x, y, x, y, ...; 0: not drawn */
  bool is_curve;
  weft_str_t label;
  int label_x, label_y, label_anchor; /* -1 ends there, 0 is centred, 1 begins there */
} weft_level_arrow_t;

typedef struct weft_level_link { /* all that goes from one frame to another */
  int from, to;
  weft_flow_t flow;
  int num_collectives; /* of its values: parts of collectives */
  double seconds;      /* predicted, of what has a known size, sent at once; 0: not known */
  weft_str_t label;
  int x1, x2, y;
} weft_level_link_t;

typedef struct weft_level { /* Confined. */
  weft_arena_t arena;
  weft_tree_scope_t *scope; /* NULL: the first level */
  weft_level_frame_t *frames;
  weft_level_box_t *boxes;
  weft_level_group_t *groups;
  weft_level_arrow_t *arrows;
  weft_level_link_t *links;
  int num_frames, num_boxes, num_groups, num_arrows, num_links, arrow_capacity, link_capacity;
  int width, height; /* of the picture; set by the layout */
} weft_level_t;

/* The first level. *out is deinited by the caller in any case. */
WEFT_MUST_CHECK weft_status_t *weft_level_of_step(weft_tree_t *t, const weft_rewrite_t *r, weft_level_t *out);
/* The inside of a scope, or (`scope` a place's root) of a place. */
WEFT_MUST_CHECK weft_status_t *weft_level_of_scope(weft_tree_t *t, weft_tree_scope_t *scope,
                                                   weft_level_t *out);
void weft_level_deinit(weft_level_t *l);
/* Has the scope of a box an inside that a level can show? */
bool weft_level_has_inside(const weft_level_box_t *b);

/* ---- parts of these (level_arrows.c) ---- */
WEFT_MUST_CHECK weft_status_t *weft_level_find_arrows(const weft_tree_t *t, weft_level_t *l);
WEFT_MUST_CHECK weft_status_t *weft_level_find_links(const weft_tree_t *t, const weft_rewrite_t *r,
                                                     weft_level_t *l);

#endif /* WEFT_TOOLS_DRAWING_LEVEL_H_ */
