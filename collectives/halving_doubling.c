/* collectives/halving_doubling.c - recursive halving, then doubling: log2 n rounds each way.
 *
 * Halving: with a partner at distance d = p/2, p/4, ..., 1 each keeps the half of its
 * blocks where its own one lies, gives the other half away and adds what it gets. At the end each
 * holds one block of the sum. Doubling: the same backwards, with copies. p is the largest power of two within
 * n; the n-p others fold their input into a partner's first, and get the whole result from it at the end.
 * Messages are not cut in fields: fields of two rounds would stand in each other's way, and bytes
 * are reduced as they arrive anyway.
 *
 * Source: Thakur, Rabenseifner and Gropp, "Optimization of collective communication operations in MPICH"
 * (2005), 4.4. They halve by neighbours first; we begin with the farthest, so that blocks keep their order.
 */
#include "collectives/algorithms.h"

typedef struct chunk_range {
  int from, to; /* blocks */
} chunk_range_t;

static chunk_range_t half_of(chunk_range_t r, int place, int distance) {
  const int middle = r.from + distance;
  return (place & distance) == 0 ? (chunk_range_t){r.from, middle} : (chunk_range_t){middle, r.to};
}

void weft_halving_doubling_all_reduce(weft_planner_t *p, weft_members_t m, weft_region_t in,
                                      weft_region_t out) {
  int power = 1, rounds = 0;
  for (; power * 2 <= m.n; power *= 2) rounds++;
  const int first = p->next_pass, last = first + 2 + 2 * rounds;
  while (p->next_pass < last) weft_plan_pass(p);
  if (m.me < 0) return;
  if (m.n == 1) {
    weft_plan_copy(p, out, in);
    return;
  }
  if (m.me >= power) { /* folded into another */
    weft_plan_send(p, m.ranks[m.me - power], first, 0, in);
    weft_plan_recv(p, m.ranks[m.me - power], last - 1, 0, out);
    return;
  }
  weft_region_t sum = in;
  const bool has_fold = m.me + power < m.n;
  if (has_fold) {
    weft_plan_recv_reduce(p, m.ranks[m.me + power], first, 0, out, in, false);
    sum = out;
  }
  chunk_range_t held = {0, power};
  chunk_range_t before[32];
  for (int round = 0; round < rounds; round++) {
    const int distance = power >> (round + 1), partner = m.me ^ distance;
    before[round] = held;
    const chunk_range_t keep = half_of(held, m.me, distance), give = half_of(held, partner, distance);
    const int pass = first + 1 + round;
    weft_plan_send(p, m.ranks[partner], pass, 0, weft_plan_parts(p, sum, give.from, give.to, power));
    weft_plan_recv_reduce(p, m.ranks[partner], pass, 0, weft_plan_parts(p, out, keep.from, keep.to, power),
                          weft_plan_parts(p, sum, keep.from, keep.to, power), round == rounds - 1);
    held = keep;
    sum = out;
  }
  for (int round = rounds - 1; round >= 0; round--) {
    const int distance = power >> (round + 1), partner = m.me ^ distance;
    const chunk_range_t other = half_of(before[round], partner, distance);
    const int pass = first + 1 + rounds + (rounds - 1 - round);
    weft_plan_send(p, m.ranks[partner], pass, 0, weft_plan_parts(p, out, held.from, held.to, power));
    weft_plan_recv(p, m.ranks[partner], pass, 0, weft_plan_parts(p, out, other.from, other.to, power));
    held = before[round];
  }
  if (has_fold) weft_plan_send(p, m.ranks[m.me + power], last - 1, 0, out);
}
