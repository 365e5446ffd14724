/* collectives/direct.c - every member from every other: for members that share memory, where reading needs no
 * message.
 *
 * Chunk c is summed by the member that would finish it in the ring, c-1, from its sources in the
 * ring's order: so the bits are the ring's. Small chunks are fetched side by side and summed
 * when all are there; large ones one after the other in fields that stay in the cache.
 */
#include "collectives/algorithms.h"

enum {
  TOGETHER = 64 << 10, /* bytes of a chunk: fetched side by side, a chunk costs one latency instead of n-1 */
  SLOTS = 4, /* fields that are summed beside their place at one time: memory that stays in the cache */
};

/* out = in of `first` + ... + mine, in the order first, first+1, ..., me; the sources' bytes meet by `pass`.
 */
static void sum_chunk(weft_planner_t *p, weft_members_t m, int pass, weft_region_t mine, weft_region_t out,
                      int first) {
  const int fields = weft_plan_fields(p, out.bytes);
  const bool together = out.bytes <= TOGETHER;
  const size_t largest = (out.bytes / p->element + (size_t)fields - 1) / (size_t)fields * p->element;
  weft_region_t slots[SLOTS];
  for (int i = 0; i < SLOTS; i++)
    slots[i] = weft_plan_scratch(p, (together || p->input_is_output) && i < fields ? largest : 0);
  for (int f = 0; f < fields; f++) {
    const weft_region_t own = weft_plan_part(p, mine, f, fields), sum = weft_plan_part(p, out, f, fields);
    /* `out` may be where our own part lies, so the others are summed beside it until our own comes in, at the
     * end. */
    const bool beside = together || p->input_is_output;
    weft_region_t acc = sum;
    if (beside) acc = weft_region(slots[f % SLOTS].buffer, slots[f % SLOTS].at, sum.bytes);
    weft_plan_recv(p, m.ranks[first], pass, f, acc);
    for (int j = 1; j < m.n - 1; j++) {
      const int from = m.ranks[(first + j) % m.n];
      if (!together) {
        weft_plan_recv_reduce(p, from, pass, f, acc, acc, false);
        continue;
      }
      const weft_region_t apart = weft_plan_scratch(p, sum.bytes);
      weft_plan_recv(p, from, pass, f, apart);
      weft_plan_reduce(p, acc, acc, apart, false);
    }
    weft_plan_reduce(p, sum, acc, own, true);
  }
}

static weft_region_t block(weft_region_t r, const size_t *bounds, int i) {
  return weft_region(r.buffer, r.at + bounds[i], bounds[i + 1] - bounds[i]);
}

static void give_chunk(weft_planner_t *p, int to, int pass, weft_region_t chunk) {
  const int fields = weft_plan_fields(p, chunk.bytes);
  for (int f = 0; f < fields; f++) weft_plan_send(p, to, pass, f, weft_plan_part(p, chunk, f, fields));
}

static void take_chunk(weft_planner_t *p, int from, int pass, weft_region_t chunk) {
  const int fields = weft_plan_fields(p, chunk.bytes);
  for (int f = 0; f < fields; f++) weft_plan_recv(p, from, pass, f, weft_plan_part(p, chunk, f, fields));
}

void weft_direct_all_reduce(weft_planner_t *p, weft_members_t m, weft_region_t in, weft_region_t out) {
  const int reduce = weft_plan_pass(p), spread = weft_plan_pass(p);
  if (m.me < 0) return;
  if (m.n == 1) {
    weft_plan_copy(p, out, in);
    return;
  }
  const int own = (m.me + 1) % m.n;
  for (int j = 1; j < m.n; j++) { /* member me+j finishes chunk me+j+1 */
    const int peer = (m.me + j) % m.n;
    give_chunk(p, m.ranks[peer], reduce, weft_plan_part(p, in, (peer + 1) % m.n, m.n));
  }
  sum_chunk(p, m, reduce, weft_plan_part(p, in, own, m.n), weft_plan_part(p, out, own, m.n), own);
  for (int j = 1; j < m.n; j++) {
    const int to = (m.me + j) % m.n, from = (m.me - j + m.n) % m.n;
    give_chunk(p, m.ranks[to], spread, weft_plan_part(p, out, own, m.n));
    take_chunk(p, m.ranks[from], spread, weft_plan_part(p, out, (from + 1) % m.n, m.n));
  }
}

void weft_direct_reduce_scatter(weft_planner_t *p, weft_members_t m, weft_region_t in, weft_region_t out,
                                const size_t *bounds) {
  const int pass = weft_plan_pass(p);
  if (m.me < 0) return;
  if (m.n == 1) {
    weft_plan_copy(p, out, in);
    return;
  }
  for (int j = 1; j < m.n; j++) {
    const int peer = (m.me + j) % m.n;
    give_chunk(p, m.ranks[peer], pass, block(in, bounds, peer));
  }
  sum_chunk(p, m, pass, block(in, bounds, m.me), out, (m.me + 1) % m.n);
}

void weft_direct_all_gather(weft_planner_t *p, weft_members_t m, weft_region_t in, weft_region_t out,
                            const size_t *bounds) {
  const int pass = weft_plan_pass(p);
  if (m.me < 0) return;
  weft_plan_copy(p, block(out, bounds, m.me), in);
  for (int j = 1; j < m.n; j++) {
    const int to = (m.me + j) % m.n, from = (m.me - j + m.n) % m.n;
    give_chunk(p, m.ranks[to], pass, in);
    take_chunk(p, m.ranks[from], pass, block(out, bounds, from));
  }
}

void weft_direct_broadcast(weft_planner_t *p, weft_members_t m, int root, weft_region_t in,
                           weft_region_t out) {
  const int pass = weft_plan_pass(p);
  if (m.me < 0) return;
  if (m.me == root) weft_plan_copy(p, out, in);
  for (int j = 1; j < m.n && m.me == root; j++) weft_plan_send(p, m.ranks[(root + j) % m.n], pass, 0, in);
  if (m.me != root) weft_plan_recv(p, m.ranks[root], pass, 0, out);
}
