/* collectives/ring.c - rings: bandwidth-optimal, every rank talks to its two neighbours only.
 *
 * Chunk c goes from member c to c+1, c+2, ...; each adds its own part to what arrives. The first member sends
 * its chunk from where it lies, so that nothing is copied before it is reduced. Chunks are cut in fields, and
 * a field is passed on as soon as it is there: while one is reduced others travel.
 *
 * Sources: Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms" (2009); order and names of fields as
 * in TensorFlow's ring reducer (reference strategies 3.1).
 */
#include "collectives/algorithms.h"

static int next(weft_members_t m) { return m.ranks[(m.me + 1) % m.n]; }
static int before(weft_members_t m) { return m.ranks[(m.me + m.n - 1) % m.n]; }

static size_t largest_chunk(const weft_planner_t *p, weft_region_t r, int n) {
  return (r.bytes / p->element + (size_t)n - 1) / (size_t)n * p->element;
}

void weft_ring_reduce_to_chunks(weft_planner_t *p, weft_members_t m, weft_region_t in, weft_region_t out,
                                bool is_final) {
  const int pass = weft_plan_pass(p);
  if (m.me < 0) return;
  if (m.n == 1) {
    weft_plan_copy(p, out, in);
    return;
  }
  const int fields = weft_plan_fields(p, largest_chunk(p, in, m.n));
  for (int step = 0; step < m.n; step++) { /* at step s this member holds chunk me-s */
    const int c = (m.me - step + m.n) % m.n;
    for (int f = 0; f < fields; f++) {
      const weft_region_t mine = weft_plan_part(p, weft_plan_part(p, in, c, m.n), f, fields);
      const weft_region_t sum = weft_plan_part(p, weft_plan_part(p, out, c, m.n), f, fields);
      const int field = c * fields + f;
      if (step > 0) weft_plan_recv_reduce(p, before(m), pass, field, sum, mine, is_final && step == m.n - 1);
      if (step < m.n - 1) weft_plan_send(p, next(m), pass, field, step == 0 ? mine : sum);
    }
  }
}

void weft_ring_spread_chunks(weft_planner_t *p, weft_members_t m, weft_region_t out) {
  const int pass = weft_plan_pass(p);
  if (m.me < 0 || m.n == 1) return;
  const int fields = weft_plan_fields(p, largest_chunk(p, out, m.n));
  for (int step = 0; step < m.n; step++) { /* chunk me+1 is this member's own */
    const int c = (m.me + 1 - step + m.n) % m.n;
    for (int f = 0; f < fields; f++) {
      const weft_region_t r = weft_plan_part(p, weft_plan_part(p, out, c, m.n), f, fields);
      const int field = c * fields + f;
      if (step > 0) weft_plan_recv(p, before(m), pass, field, r);
      if (step < m.n - 1) weft_plan_send(p, next(m), pass, field, r);
    }
  }
}

void weft_ring_all_reduce(weft_planner_t *p, weft_members_t m, weft_region_t in, weft_region_t out) {
  weft_ring_reduce_to_chunks(p, m, in, out, true);
  weft_ring_spread_chunks(p, m, out);
}

static weft_region_t block(weft_region_t r, const size_t *bounds, int i) {
  return weft_region(r.buffer, r.at + bounds[i], bounds[i + 1] - bounds[i]);
}

static size_t largest_block(const size_t *bounds, int n) {
  size_t most = 0;
  for (int i = 0; i < n; i++) most = bounds[i + 1] - bounds[i] > most ? bounds[i + 1] - bounds[i] : most;
  return most;
}

void weft_ring_reduce_scatter(weft_planner_t *p, weft_members_t m, weft_region_t in, weft_region_t out,
                              const size_t *bounds) {
  const int pass = weft_plan_pass(p);
  if (m.me < 0) return;
  if (m.n == 1) {
    weft_plan_copy(p, out, in);
    return;
  }
  const int fields = weft_plan_fields(p, largest_block(bounds, m.n));
  for (int step = 0; step < m.n; step++) { /* block c starts at c+1, so that it ends at c */
    const int c = (m.me - 1 - step + 2 * m.n) % m.n;
    const weft_region_t mine = block(in, bounds, c);
    /* What is passed on is kept beside the input, unless that may be overwritten; the last goes where it is
     * wanted. */
    weft_region_t sum = out;
    if (c != m.me) sum = p->owns_input || step == 0 ? mine : weft_plan_scratch(p, mine.bytes);
    for (int f = 0; f < fields; f++) {
      const weft_region_t a = weft_plan_part(p, mine, f, fields), b = weft_plan_part(p, sum, f, fields);
      const int field = c * fields + f;
      if (step > 0) weft_plan_recv_reduce(p, before(m), pass, field, b, a, step == m.n - 1);
      if (step < m.n - 1) weft_plan_send(p, next(m), pass, field, b);
    }
  }
}

void weft_ring_all_gather(weft_planner_t *p, weft_members_t m, weft_region_t in, weft_region_t out,
                          const size_t *bounds) {
  const int pass = weft_plan_pass(p);
  if (m.me < 0) return;
  weft_plan_copy(p, block(out, bounds, m.me), in);
  if (m.n == 1) return;
  const int fields = weft_plan_fields(p, largest_block(bounds, m.n));
  for (int step = 0; step < m.n; step++) {
    const int c = (m.me - step + m.n) % m.n;
    const weft_region_t r = block(out, bounds, c);
    for (int f = 0; f < fields; f++) {
      const weft_region_t part = weft_plan_part(p, r, f, fields);
      const int field = c * fields + f;
      if (step > 0) weft_plan_recv(p, before(m), pass, field, part);
      if (step == 0) weft_plan_send(p, next(m), pass, field, weft_plan_part(p, in, f, fields));
      if (step > 0 && step < m.n - 1) weft_plan_send(p, next(m), pass, field, part);
    }
  }
}

void weft_ring_broadcast(weft_planner_t *p, weft_members_t m, int root, weft_region_t in, weft_region_t out) {
  const int pass = weft_plan_pass(p);
  if (m.me < 0) return;
  if (m.me == root) weft_plan_copy(p, out, in);
  const int fields = weft_plan_fields(p, out.bytes);
  for (int f = 0; f < fields; f++) {
    const weft_region_t part = weft_plan_part(p, out, f, fields);
    if (m.me != root) weft_plan_recv(p, before(m), pass, f, part);
    if ((m.me + 1) % m.n != root)
      weft_plan_send(p, next(m), pass, f, m.me == root ? weft_plan_part(p, in, f, fields) : part);
  }
}
