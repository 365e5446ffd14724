/* collectives/exchange.c - pairs of ranks: all-to-all, permutation, barrier. */
#include "collectives/algorithms.h"

void weft_pairwise_all_to_all(weft_planner_t *p, weft_members_t m, weft_region_t in, weft_region_t out,
                              const size_t *in_bounds, const size_t *out_bounds) {
  const int pass = weft_plan_pass(p);
  if (m.me < 0) return;
  for (int k = 0; k < m.n;
       k++) { /* round k: to me+k, from me-k, so that no rank is the first peer of all others */
    const int to = (m.me + k) % m.n, from = (m.me - k + m.n) % m.n;
    const weft_region_t give =
        weft_region(in.buffer, in.at + in_bounds[to], in_bounds[to + 1] - in_bounds[to]);
    const weft_region_t take =
        weft_region(out.buffer, out.at + out_bounds[from], out_bounds[from + 1] - out_bounds[from]);
    if (k == 0) {
      weft_plan_copy(p, take, give);
      continue;
    }
    weft_plan_send(p, m.ranks[to], pass, 0, give);
    weft_plan_recv(p, m.ranks[from], pass, 0, take);
  }
}

void weft_exchange_permute(weft_planner_t *p, weft_members_t m, const int *targets, weft_region_t in,
                           weft_region_t out) {
  const int pass = weft_plan_pass(p);
  if (m.me < 0) return;
  int source = -1;
  for (int i = 0; i < m.n; i++) {
    if (targets[i] == m.me) source = i;
  }
  const int target = targets[m.me];
  if (target >= 0 && target != m.me) weft_plan_send(p, m.ranks[target], pass, 0, in);
  if (source < 0) weft_plan_zero(p, out);
  if (source == m.me) weft_plan_copy(p, out, in);
  if (source >= 0 && source != m.me) weft_plan_recv(p, m.ranks[source], pass, 0, out);
}

void weft_exchange_barrier(weft_planner_t *p, weft_members_t m) {
  for (int distance = 1; distance < m.n; distance *= 2) {
    const int pass = weft_plan_pass(p);
    if (m.me < 0) continue;
    weft_plan_signal(p, m.ranks[(m.me + distance) % m.n], pass);
    weft_plan_await(p, m.ranks[(m.me - distance + m.n) % m.n], pass);
  }
}
