/* tools/drawing/layout_routes.c - how arrows go between boxes that stand.
 *
 * Neighbours are joined by straight lines, the end of a column and the start of the next by an angle. What
 * skips boxes goes along the column in one of a few tracks, or behind boxes as a curve; where tracks are
 * taken, and where a gradient goes back along an arrow that is drawn, it is left out: the picture shows the
 * way through a model. What goes between frames is always drawn.
 */
#include "tools/drawing/layout.h"

enum { COLUMN_BEND = 50, TRACKS = 3, TRACK = 7, ASIDE = 12, MOST_CURVES = 8, HUB = 4, SMALL_BYTES = 64 };

typedef struct routes {
  weft_level_t *l;
  int num_curves;
} routes_t;

static void set_points(weft_level_arrow_t *a, int n, const int *xy) {
  a->num_points = n;
  for (int i = 0; i < 2 * n; i++) a->points[i] = xy[i];
}

static bool has_reverse(const weft_level_t *l, const weft_level_arrow_t *a) {
  for (int i = 0; i < l->num_arrows; i++) {
    if (l->arrows[i].from == a->to && l->arrows[i].to == a->from && !l->arrows[i].is_control) return true;
  }
  return false;
}

static int num_from(const weft_level_t *l, int box) {
  int n = 0;
  for (int i = 0; i < l->num_arrows; i++) n += l->arrows[i].from == box;
  return n;
}

/* A few bytes that go everywhere (a learning rate) say nothing of the model. */
static bool is_told(const weft_level_t *l, const weft_level_arrow_t *a) {
  const weft_flow_t *f = &a->flow;
  if (a->is_control) return false;
  const bool is_near = a->to - a->from == 1 || a->from - a->to == 1, is_hub = num_from(l, a->from) >= HUB;
  if (is_hub && !is_near && (a->role == WEFT_DRAWN_UPDATE || a->role == WEFT_DRAWN_ADDED)) return false;
  const bool is_small = f->bytes <= SMALL_BYTES && f->row_bytes == 0 && f->num_unknown == 0;
  return !is_small || !is_hub;
}

static bool is_column_end(const weft_level_t *l, int box) {
  return box + 1 >= l->num_boxes || l->boxes[box + 1].frame != l->boxes[box].frame ||
         l->boxes[box + 1].x != l->boxes[box].x;
}

static void straight(weft_level_t *l, weft_level_arrow_t *a) {
  const weft_level_box_t *from = &l->boxes[a->from], *to = &l->boxes[a->to];
  const bool is_down = a->to > a->from, is_double = has_reverse(l, a);
  const int x = from->x + from->width / 2 + (!is_double ? 0 : is_down ? -ASIDE : ASIDE);
  const int xy[] = {x, is_down ? from->y + from->height : from->y, x, is_down ? to->y : to->y + to->height};
  set_points(a, 2, xy);
}

/* From the last box of a column to the first of the next, and back. */
static void angle(weft_level_t *l, weft_level_arrow_t *a) {
  const bool is_forth = a->to > a->from;
  const weft_level_box_t *left = &l->boxes[is_forth ? a->from : a->to],
                         *right = &l->boxes[is_forth ? a->to : a->from];
  const int aside = !has_reverse(l, a) ? 0 : is_forth ? -5 : 5;
  const int x = (left->x + left->width + right->x) / 2 + aside;
  const int y1 = left->y + left->height / 2 - aside, y2 = right->y + right->height / 2 - aside;
  const int forth[] = {left->x + left->width, y1, x, y1, x, y2, right->x, y2};
  const int back[] = {right->x, y2, x, y2, x, y1, left->x + left->width, y1};
  set_points(a, 4, is_forth ? forth : back);
}

static bool overlaps(int a1, int a2, int b1, int b2) {
  const int a_low = a1 < a2 ? a1 : a2, a_high = a1 < a2 ? a2 : a1, b_low = b1 < b2 ? b1 : b2,
            b_high = b1 < b2 ? b2 : b1;
  return a_low < b_high && b_low < a_high;
}

/* Along the column: downwards on its right, upwards on its left. */
static void along(weft_level_t *l, weft_level_arrow_t *a) {
  const weft_level_box_t *from = &l->boxes[a->from], *to = &l->boxes[a->to];
  const bool is_down = a->to > a->from;
  const int side = is_down ? from->x + from->width : from->x, outwards = is_down ? 1 : -1;
  const int y1 = from->y + from->height / 2 + 8, y2 = to->y + to->height / 2 - 8;
  for (int track = 1; track <= TRACKS; track++) {
    const int x = side + outwards * track * TRACK;
    bool is_free = true;
    for (int i = 0; i < l->num_arrows && is_free; i++) {
      const weft_level_arrow_t *other = &l->arrows[i];
      if (other->num_points != 4 || other->points[2] != x || other == a) continue;
      is_free = !overlaps(other->points[3], other->points[5], y1, y2);
    }
    if (!is_free) continue;
    const int xy[] = {side, y1, x, y1, x, y2, side, y2};
    set_points(a, 4, xy);
    return;
  }
}

static void curve(routes_t *r, weft_level_arrow_t *a) {
  const weft_level_box_t *from = &r->l->boxes[a->from], *to = &r->l->boxes[a->to];
  if (r->num_curves++ >= MOST_CURVES || a->role == WEFT_DRAWN_GRADIENT) return;
  const bool is_right = to->x > from->x;
  const int x1 = is_right ? from->x + from->width : from->x, x2 = is_right ? to->x : to->x + to->width;
  const int y1 = from->y + from->height / 2 + 8, y2 = to->y + to->height / 2 - 8,
            bend = is_right ? COLUMN_BEND : -COLUMN_BEND;
  const int xy[] = {x1, y1, x1 + bend, y1, x2 - bend, y2, x2, y2};
  set_points(a, 4, xy);
  a->is_curve = true;
}

static void route(routes_t *r, weft_level_arrow_t *a) {
  weft_level_t *l = r->l;
  const weft_level_box_t *from = &l->boxes[a->from], *to = &l->boxes[a->to];
  const int step = a->to - a->from;
  const bool is_same_column = from->x == to->x;
  if (!is_told(l, a)) return;
  if (is_same_column && (step == 1 || step == -1)) {
    straight(l, a);
  } else if ((step == 1 && is_column_end(l, a->from)) || (step == -1 && is_column_end(l, a->to))) {
    angle(l, a);
  } else if (a->role == WEFT_DRAWN_GRADIENT && step < 0 && has_reverse(l, a)) {
    return;
  } else if (is_same_column) {
    along(l, a);
  } else {
    curve(r, a);
  }
}

void weft_layout_route(weft_level_t *l) {
  routes_t r = {l, 0};
  for (int distance = 1; distance < l->num_boxes;
       distance++) { /* the short ones first: they take the inner tracks */
    for (int i = 0; i < l->num_arrows; i++) {
      const int step = l->arrows[i].to - l->arrows[i].from;
      if (step == distance || step == -distance) route(&r, &l->arrows[i]);
    }
  }
}
