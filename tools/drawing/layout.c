/* tools/drawing/layout.c - a level on a grid. */
#include "tools/drawing/layout.h"

#include "tools/drawing/text.h"

enum {
  FRAME_GAP = 30,
  PAD = 26,  /* beside the boxes of a frame: three tracks for arrows */
  HEAD = 46, /* of a frame: its title and subtitle */
  FOOT = 16,
  COLUMN_GAP = 54,
  BOX_WIDTH = 230,
  LEAST_WIDTH = 126,
  GROUP_HEAD = 20,
  GROUP_FOOT = 10,
  LINK = 22,
  LINKS_FOOT = 12,
  MOST_COLUMNS = 6,
  LEAST_PAGE = 420,
};

/* Heights of boxes and of what is between them, from generous to tight. */
static const struct { int box, gap; } SIZES[] = {{44, 30}, {42, 24}, {40, 18}, {36, 14}};
enum { NUM_SIZES = 4 };

static weft_status_t *no_memory(void) { return WEFT_NO_MEMORY("the layout of a drawing"); }

static int height_for_boxes(int num_links) {
  const int links = num_links > 0 ? num_links * LINK + LINKS_FOOT : 0;
  return WEFT_PAGE_HEIGHT - 2 * WEFT_MARGIN - WEFT_HEADER - WEFT_LEGEND - HEAD - FOOT - links;
}

static int width_for_boxes(int num_frames) {
  return WEFT_PAGE_WIDTH - 2 * WEFT_MARGIN - (num_frames - 1) * FRAME_GAP -
         num_frames * (2 * PAD - COLUMN_GAP);
}

int weft_layout_room(int num_frames, int num_links) {
  int rows = height_for_boxes(num_links) / (SIZES[1].box + SIZES[1].gap);
  int columns = width_for_boxes(num_frames) / (LEAST_WIDTH + COLUMN_GAP) / num_frames;
  if (rows < 3) rows = 3;
  if (columns < 1) columns = 1;
  if (columns > MOST_COLUMNS - 1) columns = MOST_COLUMNS - 1;
  return columns == 1 ? rows : (rows - 1) * columns; /* outlines of groups take room */
}

/* ---- boxes ---- */

typedef struct layout_choice {                                         /* the choice for all frames */
  int size, columns[WEFT_DRAWN_ROLES + 8], rows[WEFT_DRAWN_ROLES + 8]; /* by frame */
  int box_width;
} layout_choice_t;

static bool begins_group(const weft_level_t *l, const weft_level_frame_t *f, int i) {
  const int g = l->boxes[i].group;
  return g >= 0 && (i == f->first || l->boxes[i - 1].group != g);
}

static bool ends_group(const weft_level_t *l, const weft_level_frame_t *f, int i) {
  const int g = l->boxes[i].group;
  return g >= 0 && (i + 1 == f->first + f->num_boxes || l->boxes[i + 1].group != g);
}

/* The columns that a frame takes if none is higher than `height`; sets places within the frame. */
static int fill_columns(weft_level_t *l, const weft_level_frame_t *f, int size, int height, bool places) {
  const int box = SIZES[size].box, gap = SIZES[size].gap;
  int column = 0, y = 0;
  for (int i = f->first; i < f->first + f->num_boxes; i++) {
    weft_level_box_t *b = &l->boxes[i];
    const bool is_in_group = b->group >= 0;
    int head = begins_group(l, f, i) ? GROUP_HEAD : 0;
    const int foot = is_in_group ? GROUP_FOOT : 0;
    if (y > 0 && y + head + box + foot > height) {
      column++;
      y = 0;
      head = is_in_group ? GROUP_HEAD : 0;
    }
    if (places) {
      b->x = column;
      b->y = y + head;
      b->height = box;
    }
    y += head + box + gap + (ends_group(l, f, i) ? GROUP_FOOT : 0);
  }
  return column + 1;
}

/* The least height at which a frame has no more than so many columns. */
static int height_in(weft_level_t *l, const weft_level_frame_t *f, int size, int columns, int most) {
  const int pitch = SIZES[size].box + SIZES[size].gap;
  for (int height = pitch; height < most; height += pitch / 2) {
    if (fill_columns(l, f, size, height, false) <= columns) return height;
  }
  return most;
}

/* A page for one frame is wide, so that is filled; frames beside each other have as few columns as they can.
 */
static int columns_wanted(const weft_level_t *l, const weft_level_frame_t *f) {
  enum { EASY = 6 };
  const int n = (f->num_boxes + EASY - 1) / EASY;
  return l->num_frames > 1 || n < 1 ? 1 : n > MOST_COLUMNS - 1 ? MOST_COLUMNS - 1 : n;
}

static bool try_size(weft_level_t *l, int size, layout_choice_t *out) {
  const int height = height_for_boxes(l->num_links);
  int total = 0;
  out->size = size;
  for (int i = 0; i < l->num_frames; i++) {
    const weft_level_frame_t *f = &l->frames[i];
    int columns = fill_columns(l, f, size, height, false);
    if (columns < columns_wanted(l, f)) columns = columns_wanted(l, f);
    out->columns[i] = columns;
    out->rows[i] = height_in(l, f, size, columns, height);
    total += columns;
  }
  const int width = width_for_boxes(l->num_frames) / total - COLUMN_GAP;
  out->box_width = width > BOX_WIDTH ? BOX_WIDTH : width;
  return out->box_width >= LEAST_WIDTH;
}

static void place_group(weft_level_t *l, const weft_level_box_t *b) {
  weft_level_group_t *g = &l->groups[b->group];
  enum { PARTS = sizeof g->parts / sizeof g->parts[0], AROUND = 9 };
  const int x = b->x - AROUND, y = b->y - GROUP_HEAD;
  if (g->num_parts == 0 || g->parts[g->num_parts - 1].x != x) {
    if (g->num_parts == PARTS) return;
    g->parts[g->num_parts].x = x;
    g->parts[g->num_parts].y = y;
    g->parts[g->num_parts++].width = b->width + 2 * AROUND;
  }
  g->parts[g->num_parts - 1].height = b->y + b->height + AROUND - g->parts[g->num_parts - 1].y;
}

static void place_boxes(weft_level_t *l, const layout_choice_t *o, int top) {
  int x = WEFT_MARGIN, bottom = 0;
  for (int i = 0; i < l->num_frames; i++) {
    weft_level_frame_t *f = &l->frames[i];
    const int columns = fill_columns(l, f, o->size, o->rows[i], true);
    f->x = x;
    f->y = top;
    f->width = 2 * PAD + columns * o->box_width + (columns - 1) * COLUMN_GAP;
    for (int k = f->first; k < f->first + f->num_boxes; k++) {
      weft_level_box_t *b = &l->boxes[k];
      b->x = x + PAD + b->x * (o->box_width + COLUMN_GAP);
      b->y += top + HEAD;
      b->width = o->box_width;
      if (b->y + b->height > bottom) bottom = b->y + b->height;
      if (b->group >= 0) place_group(l, b);
    }
    x += f->width + FRAME_GAP;
  }
  if (bottom == 0) bottom = top + HEAD;
  for (int i = 0; i < l->num_frames; i++) l->frames[i].height = bottom + FOOT - top;
  l->width = x - FRAME_GAP + WEFT_MARGIN;
  l->height = bottom + FOOT + WEFT_LEGEND + WEFT_MARGIN;
}

/* ---- links ---- */

/* Each link on a line of its own, the short ones below; ends beside each other on the frames. */
static void place_links(weft_level_t *l, int top) {
  int ends[WEFT_DRAWN_ROLES + 8] = {0}, used[WEFT_DRAWN_ROLES + 8] = {0}, line = 0;
  for (int i = 0; i < l->num_links; i++) {
    ends[l->links[i].from]++;
    ends[l->links[i].to]++;
  }
  for (int span = l->num_frames - 1; span > 0; span--) {
    for (int i = 0; i < l->num_links; i++) {
      weft_level_link_t *a = &l->links[i];
      if (a->to - a->from == span || a->from - a->to == span) a->y = top + LINK * line++ + LINK - 6;
    }
  }
  for (int f = 0; f < l->num_frames; f++) { /* links to the left end on the left, the highest outside */
    const weft_level_frame_t *frame = &l->frames[f];
    for (int left = 1; left >= 0; left--) {
      for (int k = 0; k < l->num_links; k++) {
        int best = -1;
        for (int i = 0; i < l->num_links; i++) {
          const weft_level_link_t *a = &l->links[i];
          const int *x = a->from == f ? &a->x1 : &a->x2, other = a->from == f ? a->to : a->from;
          if ((a->from != f && a->to != f) || *x != 0 || (other < f) != (left == 1)) continue;
          if (best < 0 || (left == 1) == (a->y < l->links[best].y)) best = i;
        }
        if (best < 0) break;
        weft_level_link_t *a = &l->links[best];
        const int x = frame->x + frame->width * (1 + used[f]++) / (ends[f] + 1);
        if (a->from == f) {
          a->x1 = x;
        } else {
          a->x2 = x;
        }
      }
    }
  }
}

weft_status_t *weft_level_lay_out(weft_level_t *l, const weft_step_nodes_t *step) {
  layout_choice_t o = {0};
  int top = WEFT_MARGIN + WEFT_HEADER;
  for (int size = 0; size < NUM_SIZES; size++) {
    if (try_size(l, size, &o)) break;
  }
  place_boxes(l, &o, top + (l->num_links > 0 ? LINK * l->num_links + LINKS_FOOT : 0));
  place_links(l, top);
  if (l->width < LEAST_PAGE) { /* the title needs some */
    l->frames[l->num_frames - 1].width += LEAST_PAGE - l->width;
    l->width = LEAST_PAGE;
  }
  weft_layout_route(l);
  return weft_layout_label(l, step) ? NULL : no_memory();
}
