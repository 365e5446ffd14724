/* collectives/tree.c - binomial trees: few rounds, the lowest latency.
 *
 * Members are numbered from the root: v = (member - root) mod n. The parent of v is v
 * without its lowest set bit; v's subtree is [v, v + that bit). A block of a subtree lies
 * in one piece by v, but in two by member where it passes member n-1: such a piece travels as two messages.
 */
#include "collectives/algorithms.h"

typedef struct tree_place {
  int v, parent; /* numbers from the root; parent -1 at the root */
  int span;      /* subtree: [v, v + span) */
} tree_place_t;

static tree_place_t node_of(weft_members_t m, int root) {
  const int v = (m.me - root + m.n) % m.n;
  int bit = 1;
  while (bit < m.n && (v & bit) == 0) bit <<= 1;
  return (tree_place_t){v, v == 0 ? -1 : v & (v - 1), v == 0 ? m.n : (bit < m.n - v ? bit : m.n - v)};
}

static int top_bit(int n) {
  int bit = 1;
  while (bit < n) bit <<= 1;
  return bit >> 1;
}

/* The first bit below which v has children. */
static int child_bit(tree_place_t node, weft_members_t m) {
  return node.v == 0 ? top_bit(m.n) : (node.v & -node.v) >> 1;
}

static int rank_of(weft_members_t m, int root, int v) { return m.ranks[(v + root) % m.n]; }

void weft_tree_broadcast(weft_planner_t *p, weft_members_t m, int root, weft_region_t in, weft_region_t out) {
  const int pass = weft_plan_pass(p);
  if (m.me < 0) return;
  const tree_place_t node = node_of(m, root);
  if (node.parent < 0) weft_plan_copy(p, out, in);
  if (node.parent >= 0) weft_plan_recv(p, rank_of(m, root, node.parent), pass, 0, out);
  for (int bit = child_bit(node, m); bit > 0; bit >>= 1) { /* the deepest subtree first */
    if (node.v + bit < m.n)
      weft_plan_send(p, rank_of(m, root, node.v + bit), pass, 0, node.parent < 0 ? in : out);
  }
}

void weft_tree_reduce(weft_planner_t *p, weft_members_t m, int root, weft_region_t in, weft_region_t out,
                      bool is_final) {
  const int pass = weft_plan_pass(p);
  if (m.me < 0) return;
  const tree_place_t node = node_of(m, root);
  weft_region_t sum = in; /* of what has arrived so far */
  weft_region_t place = out;
  const bool has_child = child_bit(node, m) > 0 && node.v + 1 < m.n;
  if (m.n == 1) {
    weft_plan_copy(p, out, in);
    return;
  }
  if (has_child && out.bytes == 0) place = p->owns_input ? in : weft_plan_scratch(p, in.bytes);
  const int top = child_bit(node, m);
  for (int bit = 1; bit <= top; bit <<= 1) { /* the shallowest subtree is done first */
    if (node.v + bit >= m.n) break;
    const bool is_last = bit == top || node.v + 2 * bit >= m.n;
    weft_plan_recv_reduce(p, rank_of(m, root, node.v + bit), pass, 0, place, sum,
                          is_final && is_last && node.parent < 0);
    sum = place;
  }
  if (node.parent >= 0) weft_plan_send(p, rank_of(m, root, node.parent), pass, 0, sum);
}

/* Bytes before the block of number v, counted along the tree. */
static size_t along(const size_t *bounds, weft_members_t m, int root, int v) {
  const int member = v + root;
  if (member <= m.n) return bounds[member] - bounds[root];
  return bounds[m.n] - bounds[root] + bounds[member - m.n];
}

/* Blocks [v, w) in one piece, where the first one along the tree is at `base`. */
static weft_region_t piece(weft_region_t r, size_t base, const size_t *bounds, weft_members_t m, int root,
                           int v, int w) {
  const size_t from = along(bounds, m, root, v), to = along(bounds, m, root, w);
  return weft_region(r.buffer, r.at + from - base, to - from);
}

/* Blocks [v, w) as they lie by member; they do not pass member n-1. */
static weft_region_t by_member(weft_region_t r, const size_t *bounds, weft_members_t m, int root, int v,
                               int w) {
  const int first = (v + root) % m.n;
  return weft_region(r.buffer, r.at + bounds[first], bounds[first + (w - v)] - bounds[first]);
}

/* Where [v, w) is cut: the number of member 0, if it is inside. */
static int cut_of(weft_members_t m, int root, int v, int w) {
  const int zero = m.n - root;
  return zero > v && zero < w ? zero : w;
}

void weft_tree_scatter(weft_planner_t *p, weft_members_t m, int root, weft_region_t in, weft_region_t out,
                       const size_t *bounds) {
  const int pass = weft_plan_pass(p);
  if (m.me < 0) return;
  const tree_place_t node = node_of(m, root);
  const bool is_root = node.parent < 0, is_leaf = node.span == 1;
  const size_t base = along(bounds, m, root, node.v);
  weft_region_t mine = out;
  if (!is_root) {
    const int w = node.v + node.span, cut = cut_of(m, root, node.v, w);
    if (!is_leaf) mine = weft_plan_scratch(p, along(bounds, m, root, w) - base);
    weft_plan_recv(p, rank_of(m, root, node.parent), pass, 0,
                   piece(mine, base, bounds, m, root, node.v, cut));
    if (cut < w)
      weft_plan_recv(p, rank_of(m, root, node.parent), pass, 1, piece(mine, base, bounds, m, root, cut, w));
  }
  for (int bit = child_bit(node, m); bit > 0; bit >>= 1) {
    const int v = node.v + bit;
    if (v >= m.n) continue;
    const int w = v + bit < m.n ? v + bit : m.n, cut = cut_of(m, root, v, w), child = rank_of(m, root, v);
    weft_plan_send(
        p, child, pass, 0,
        is_root ? by_member(in, bounds, m, root, v, cut) : piece(mine, base, bounds, m, root, v, cut));
    if (cut == w) continue;
    weft_plan_send(
        p, child, pass, 1,
        is_root ? by_member(in, bounds, m, root, cut, w) : piece(mine, base, bounds, m, root, cut, w));
  }
  if (is_root) weft_plan_copy(p, out, by_member(in, bounds, m, root, 0, 1));
  if (!is_root && !is_leaf) weft_plan_copy(p, out, piece(mine, base, bounds, m, root, node.v, node.v + 1));
}

void weft_tree_gather(weft_planner_t *p, weft_members_t m, int root, weft_region_t in, weft_region_t out,
                      const size_t *bounds) {
  const int pass = weft_plan_pass(p);
  if (m.me < 0) return;
  const tree_place_t node = node_of(m, root);
  const bool is_root = node.parent < 0, is_leaf = node.span == 1;
  const size_t base = along(bounds, m, root, node.v);
  weft_region_t mine = in;
  if (!is_root && !is_leaf) {
    mine = weft_plan_scratch(p, along(bounds, m, root, node.v + node.span) - base);
    weft_plan_copy(p, piece(mine, base, bounds, m, root, node.v, node.v + 1), in);
  }
  if (is_root) weft_plan_copy(p, by_member(out, bounds, m, root, 0, 1), in);
  for (int bit = 1, top = child_bit(node, m); bit <= top; bit <<= 1) {
    const int v = node.v + bit;
    if (v >= m.n) break;
    const int w = v + bit < m.n ? v + bit : m.n, cut = cut_of(m, root, v, w), child = rank_of(m, root, v);
    weft_plan_recv(
        p, child, pass, 0,
        is_root ? by_member(out, bounds, m, root, v, cut) : piece(mine, base, bounds, m, root, v, cut));
    if (cut == w) continue;
    weft_plan_recv(
        p, child, pass, 1,
        is_root ? by_member(out, bounds, m, root, cut, w) : piece(mine, base, bounds, m, root, cut, w));
  }
  if (is_root) return;
  const int w = node.v + node.span, cut = cut_of(m, root, node.v, w), parent = rank_of(m, root, node.parent);
  weft_plan_send(p, parent, pass, 0, piece(mine, base, bounds, m, root, node.v, cut));
  if (cut < w) weft_plan_send(p, parent, pass, 1, piece(mine, base, bounds, m, root, cut, w));
}
