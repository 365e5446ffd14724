/* executor/plan_frames.c - finds out which frame each node runs in, and numbers nodes by frame.
 *
 * A node runs in the frame of its inputs; an Enter's output is in the frame that
 * it enters, an Exit's in the parent of its own. A node without inputs runs at
 * the top level. Source of the rules: TensorFlow's static control-flow analysis.
 */
#include "base/alloc.h"
#include "executor/plan.h"

enum { MAX_FRAMES = 1 << 20 };

/* Room for one more frame; capacities are powers of two. */
static bool grow_frames(weft_exec_plan_t *p) {
  size_t n = (size_t)p->num_frames;
  if (p->num_frames >= MAX_FRAMES) return false;
  if ((n & (n - 1)) != 0) return true;
  plan_frame_t *grown = weft_realloc(p->frames, n * 2, sizeof *grown);
  if (grown != NULL) p->frames = grown;
  return grown != NULL;
}

/* The frame that Enter `n`, which runs in frame `in`, enters; made if it is new. */
static weft_status_t *enter_frame(plan_builder_t *b, weft_map_t *by_key, const weft_node_t *n, int in,
                                  int *out) {
  weft_exec_plan_t *p = b->plan;
  weft_str_t name = weft_node_attr_string(n, "frame_name");
  weft_strbuf_t key = WEFT_STRBUF_INIT;
  weft_strbuf_printf(&key, "%d;", in);
  weft_strbuf_append(&key, name);
  weft_status_t *s = key.failed ? WEFT_NO_MEMORY("compiling frames") : NULL;
  if (s != NULL) goto done;
  size_t known =
      (size_t)(uintptr_t)weft_map_get(by_key, weft_str_of(key.data, key.length)); /* index, never 0 */
  if (known == 0) {
    weft_str_t kept = weft_arena_str(&p->arena, weft_str_of(key.data, key.length));
    if (kept.data == NULL || !grow_frames(p)) {
      s = WEFT_NO_MEMORY("compiling frame '%.*s' of %s", WEFT_STR_ARGS(name), n->name.data);
      goto done;
    }
    known = (size_t)p->num_frames;
    s = weft_map_put(by_key, kept, (void *)(uintptr_t)known, NULL);
    if (s != NULL) goto done;
    int64_t parallel = weft_node_attr_int(n, "parallel_iterations", 10);
    p->frames[known] = (plan_frame_t){
        .parent = in,
        .name = weft_str_of(kept.data + (kept.length - name.length), name.length),
        .name_hash = weft_str_hash64(name),
        .ordinal = p->frames[in].num_children++,
        .max_parallel = parallel < 1           ? 1
                        : parallel > INT32_MAX ? INT32_MAX
                                               : (int)parallel,
    };
    p->num_frames++;
  }
  *out = (int)known;
done:
  weft_strbuf_deinit(&key);
  return s;
}

/* Where a producer's outputs are; producers come first, so their own frame is known. */
static int frame_of_output(const plan_builder_t *b, const weft_node_t *n) {
  int in = b->frame_of[n->id];
  if (n->flags & WEFT_OP_ENTER) return b->entered[n->id];
  return n->flags & WEFT_OP_EXIT ? b->plan->frames[in].parent : in;
}

static weft_status_t *join_frame(plan_builder_t *b, const weft_node_t *n, const weft_node_t *from,
                                 const weft_node_t **first) {
  int frame = frame_of_output(b, from);
  if (*first == NULL) {
    b->frame_of[n->id] = frame;
    *first = from;
  } else if (b->frame_of[n->id] != frame) {
    weft_str_t a = b->plan->frames[b->frame_of[n->id]].name, c = b->plan->frames[frame].name;
    return WEFT_ERROR(
        INVALID_ARGUMENT,
        "{{node %s}} has inputs from different frames. The input {{node %s}} is in frame '%.*s'. The "
        "input {{node %s}} is in frame '%.*s'.",
        n->name.data, weft_plan_origin(*first)->name.data, WEFT_STR_ARGS(a),
        weft_plan_origin(from)->name.data, WEFT_STR_ARGS(c));
  }
  return NULL;
}

static weft_status_t *place_node(plan_builder_t *b, weft_map_t *by_key, const weft_node_t *n) {
  const weft_node_t *first = NULL;
  for (int i = 0; i < n->num_inputs; i++) {
    const weft_node_t *from = n->inputs[i].node;
    if ((from->flags & WEFT_OP_NEXT_ITERATION) && (n->flags & WEFT_OP_MERGE)) continue; /* comes later */
    WEFT_RETURN_IF_ERROR(join_frame(b, n, from, &first));
  }
  for (int i = 0; i < n->num_controls; i++) WEFT_RETURN_IF_ERROR(join_frame(b, n, n->controls[i], &first));
  int frame = b->frame_of[n->id];
  if (frame == 0 && (n->flags & WEFT_OP_EXIT)) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "Invalid Exit op: Cannot find a corresponding Enter op. Node: {{node %s}}",
                      n->name.data);
  }
  if (frame == 0 && (n->flags & WEFT_OP_NEXT_ITERATION)) {
    return WEFT_ERROR(INVALID_ARGUMENT, "The node '%s' of type %s is not inside a loop", n->name.data,
                      n->op->name.data);
  }
  if (n->flags & WEFT_OP_ENTER) {
    WEFT_RETURN_IF_ERROR(enter_frame(b, by_key, n, frame, &b->entered[n->id]));
    b->plan->frames[b->entered[n->id]].num_enters++;
  }
  return NULL;
}

/* The edges that close loops must stay in their frame. */
static weft_status_t *check_back_edges(const plan_builder_t *b, const weft_node_t *n) {
  for (int i = 0; (n->flags & WEFT_OP_MERGE) && i < n->num_inputs; i++) {
    const weft_node_t *from = n->inputs[i].node;
    if ((from->flags & WEFT_OP_NEXT_ITERATION) && b->frame_of[from->id] != b->frame_of[n->id]) {
      return WEFT_ERROR(INVALID_ARGUMENT, "The nodes '%s' and '%s' of one loop are in different frames",
                        from->name.data, n->name.data);
    }
  }
  return NULL;
}

/* Does the node draw random numbers from a stream with a given seed? */
static bool draws_in_order(const weft_node_t *n) {
  if ((n->flags & WEFT_OP_STATEFUL) == 0 || weft_node_attr(n, "seed2") == NULL) return false;
  return weft_node_attr_int(n, "seed", 0) != 0 || weft_node_attr_int(n, "seed2", 0) != 0;
}

/* A loop that draws goes round by round: else the numbers of a round would depend on which of them is faster.
 */
static void order_rounds(plan_builder_t *b, const weft_node_t *n) {
  int frame = b->frame_of[n->id];
  if (frame == 0 || !draws_in_order(n)) return;
  for (; frame > 0; frame = b->plan->frames[frame].parent) b->plan->frames[frame].max_parallel = 1;
}

/* Sorts by frame, keeping the order within each. */
static weft_status_t *number_nodes(plan_builder_t *b) {
  weft_exec_plan_t *p = b->plan;
  weft_node_t **sorted = weft_calloc((size_t)p->num_nodes + 1, sizeof(*sorted));
  uint32_t *next = weft_calloc((size_t)p->num_frames, sizeof *next);
  weft_status_t *s = NULL;
  if (sorted == NULL || next == NULL) {
    s = WEFT_NO_MEMORY("compiling %u nodes", p->num_nodes);
    goto done;
  }
  for (uint32_t i = 0; i < p->num_nodes; i++) p->frames[b->frame_of[b->order[i]->id]].num_nodes++;
  uint32_t first = 0;
  for (int f = 0; f < p->num_frames; f++) {
    p->frames[f].first_node = next[f] = first;
    first += p->frames[f].num_nodes;
  }
  for (uint32_t i = 0; i < p->num_nodes; i++) {
    weft_node_t *n = b->order[i];
    uint32_t number = next[b->frame_of[n->id]]++;
    sorted[number] = n;
    b->number[n->id] = number;
  }
  weft_node_t **old = b->order;
  b->order = sorted;
  sorted = old;
done:
  weft_free(sorted);
  weft_free(next);
  return s;
}

weft_status_t *weft_plan_assign_frames(plan_builder_t *b) {
  weft_exec_plan_t *p = b->plan;
  weft_map_t by_key = WEFT_MAP_INIT;
  weft_status_t *s = NULL;
  p->frames = weft_calloc(1, sizeof *p->frames);
  if (p->frames == NULL) return WEFT_NO_MEMORY("compiling a plan");
  p->num_frames = 1;
  p->frames[0] = (plan_frame_t){.parent = -1, .name = WEFT_STR(""), .max_parallel = 1};
  for (uint32_t i = 0; s == NULL && i < p->num_nodes; i++) s = place_node(b, &by_key, b->order[i]);
  p->has_frames = p->num_frames > 1;
  for (uint32_t i = 0; s == NULL && p->has_frames && i < p->num_nodes; i++)
    s = check_back_edges(b, b->order[i]);
  for (uint32_t i = 0; s == NULL && p->has_frames && i < p->num_nodes; i++) order_rounds(b, b->order[i]);
  weft_map_deinit(&by_key);
  return s != NULL ? s : number_nodes(b);
}
