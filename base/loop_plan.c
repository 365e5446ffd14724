/* base/loop_plan.c - the cost model of parallel loops: see base/parallel_for.h. */
#include "base/parallel_for.h"

static const double least_piece_ns = 4000, most_piece_ns = 25000, share_ns = 2 * WEFT_HANDOFF_NS;

/* A participant's range is two numbers of pieces in 64 bits. */
enum { MAX_PIECES = 1 << 20, NUM_PIECES = 64, ALIGNMENT = 64 };

static weft_loop_plan_t cut(int64_t total, int64_t piece, int64_t max_threads) {
  const int64_t least = (total - 1) / MAX_PIECES + 1;
  weft_loop_plan_t p = {.piece = piece < least ? least : piece};
  p.num_pieces = (total - 1) / p.piece + 1;
  p.max_threads = max_threads < p.num_pieces ? max_threads : p.num_pieces;
  if (p.max_threads < 1) p.max_threads = 1;
  return p;
}

int64_t weft_loop_worth(int64_t num, int64_t ns) {
  const double threads = (double)num * (double)ns / share_ns;
  return threads < 1 ? 1 : threads < MAX_PIECES ? (int64_t)threads : MAX_PIECES;
}

weft_loop_plan_t weft_loop_plan(int64_t total, weft_unit_cost_t unit) {
  const double moving = unit.bytes / WEFT_CORE_BYTES_PER_NS,
               computing = unit.cycles / WEFT_CORE_CYCLES_PER_NS;
  double unit_ns = moving > computing ? moving : computing;
  if (!(unit_ns > 1e-3)) unit_ns = 1e-3;
  const double total_ns = unit_ns * (double)total;
  double piece_ns = total_ns / NUM_PIECES;
  if (piece_ns < least_piece_ns) piece_ns = least_piece_ns;
  if (piece_ns > most_piece_ns) piece_ns = most_piece_ns;
  int64_t piece = (int64_t)(piece_ns / unit_ns);          /* at most 2.5e7 */
  if (piece >= 2 * ALIGNMENT) piece -= piece % ALIGNMENT; /* no cache line of elements has two writers */
  if (piece < 1) piece = 1;
  const double threads = total_ns / share_ns;
  weft_loop_plan_t p = cut(total, piece, threads < MAX_PIECES ? (int64_t)threads : MAX_PIECES);
  p.is_short = total_ns < NUM_PIECES * least_piece_ns;
  return p;
}

weft_loop_plan_t weft_loop_plan_by_grain(int64_t total, int64_t grain) {
  if (grain < 1) grain = 1;
  return cut(total, grain, total / grain);
}
