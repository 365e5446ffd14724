/* collectives/algorithm_table.c - every algorithm: one line each.
 *
 * A row says for which kind it is, what it costs, and how it is planned. The cheapest row of a kind is chosen
 * when the call does not name one that the kind has.
 */
#include "collectives/algorithm_table.h"

#include <math.h>

/* Until a link was measured: gRPC between processes of one machine, and a 10 Gb/s network. */
static const weft_link_t usual_near = {.alpha_s = 50e-6, .byte_s = 0.4e-9},
                         usual_far = {.alpha_s = 100e-6, .byte_s = 1e-9};
/* Reducing costs memory bandwidth; algorithms that pipeline hide it behind the transfer. */
static const double reduce_byte_s = 0.15e-9;

int weft_algorithm_hosts(const weft_group_t *g, int *hosts) {
  int n = 0;
  for (int i = 0; i < g->size; i++) {
    const weft_group_member_t *a = &g->members[i];
    hosts[i] = -1;
    for (int j = 0; j < i && hosts[i] < 0; j++) {
      const weft_group_member_t *b = &g->members[j];
      if (weft_str_eq(a->task, b->task) || (a->host.length > 0 && weft_str_eq(a->host, b->host)))
        hosts[i] = hosts[j];
    }
    if (hosts[i] < 0) hosts[i] = n++;
  }
  return n;
}

/* How many hosts, without keeping their numbers: rank i is the first of its host. */
static int count_hosts(const weft_group_t *g) {
  int n = 0;
  for (int i = 0; i < g->size; i++) {
    const weft_group_member_t *a = &g->members[i];
    bool is_first = true;
    for (int j = 0; j < i && is_first; j++) {
      const weft_group_member_t *b = &g->members[j];
      is_first = !weft_str_eq(a->task, b->task) && (a->host.length == 0 || !weft_str_eq(a->host, b->host));
    }
    n += is_first;
  }
  return n;
}

static weft_link_t measured(weft_link_t l, weft_link_t usual) {
  return l.alpha_s == 0 && l.byte_s == 0 ? usual : l;
}

static weft_link_t slowest(const weft_group_t *g, int hosts) {
  return hosts > 1 ? measured(g->far, usual_far) : measured(g->near, usual_near);
}

size_t weft_algorithm_field_bytes(const weft_group_t *g) {
  /* What pipelines. Within a host fields are summed by blocks that stay in a core's cache, and each field
   * costs an offer, an answer and a wake-up: with 1 MiB instead of 512 KiB an all-reduce of 64 MB by four
   * processes takes 13 % less processor time. */
  enum { LEAST = 256 << 10, NEAR_MOST = 1 << 20, FAR_MOST = 4 << 20 };
  const int hosts = count_hosts(g);
  const weft_link_t l = slowest(g, hosts);
  const double most = hosts > 1 ? FAR_MOST : NEAR_MOST;
  const double bytes = l.byte_s > 0 ? 24 * l.alpha_s / l.byte_s : most;
  return bytes < LEAST ? LEAST : bytes > most ? (size_t)most : (size_t)bytes;
}

static int log2_up(int n) {
  int k = 0;
  while (k < 30 && 1 << k < n) k++;
  return k;
}

/* ---- costs, in seconds: n ranks, s bytes of one rank's tensor, l the slowest link ---- */

typedef struct coll_case {
  int size, hosts;
  double n, s, rounds;
  double at_once; /* messages that a rank sends one after the other. In one host there is no wire that takes
                     one message at a time: requests wait beside each other */
  double field_s;
  weft_link_t l, near, far;
} coll_case_t;

static double ring_pass(double n, double bytes, weft_link_t l) {
  return (n - 1) * l.alpha_s + (n - 1) / n * bytes * l.byte_s;
}

static double cost_ring_broadcast(
    const coll_case_t *c) { /* the last rank gets the first field after n-1 hops */
  const double fields = c->s > c->field_s ? ceil(c->s / c->field_s) : 1;
  return (c->n - 2 + fields) * (c->l.alpha_s + c->s / fields * c->l.byte_s);
}
static double cost_ring_pass(const coll_case_t *c) { return ring_pass(c->n, c->s, c->l); }
static double cost_ring_all_gather(const coll_case_t *c) { return ring_pass(c->n, c->n * c->s, c->l); }
static double cost_ring_all_reduce(const coll_case_t *c) { return 2 * ring_pass(c->n, c->s, c->l); }

static double cost_tree_broadcast(const coll_case_t *c) {
  return c->rounds * (c->l.alpha_s + c->s * c->l.byte_s);
}
static double cost_tree_rows(const coll_case_t *c) {
  return c->rounds * c->l.alpha_s + (c->n - 1) / c->n * c->s * c->l.byte_s;
}
static double cost_tree_reduce(const coll_case_t *c) {
  return cost_tree_broadcast(c) + c->rounds * c->s * reduce_byte_s;
}
static double cost_tree_all_reduce(const coll_case_t *c) {
  return cost_tree_broadcast(c) + cost_tree_reduce(c);
}

static double cost_halving_doubling(const coll_case_t *c) {
  const int power = 1 << log2_up(c->size);
  const bool is_power = power == c->size;
  const double p = is_power ? power : power / 2;
  const double fold = is_power ? 0 : 2 * (c->l.alpha_s + c->s * c->l.byte_s) + c->s * reduce_byte_s;
  return fold + 2 * (is_power ? c->rounds : c->rounds - 1) * c->l.alpha_s +
         2 * (p - 1) / p * c->s * c->l.byte_s + (p - 1) / p * c->s * reduce_byte_s;
}

static bool gains_from_hosts(const coll_case_t *c) { return c->hosts > 1 && c->hosts < c->size; }

static double cost_hierarchical_broadcast(const coll_case_t *c) {
  if (!gains_from_hosts(c)) return INFINITY;
  return log2_up(c->hosts) * (c->far.alpha_s + c->s * c->far.byte_s) +
         log2_up((int)ceil(c->n / c->hosts)) * (c->near.alpha_s + c->s * c->near.byte_s);
}
static double cost_hierarchical_all_reduce(const coll_case_t *c) {
  if (!gains_from_hosts(c)) return INFINITY;
  const double local = c->n / c->hosts;
  return 2 * ring_pass(local, c->s, c->near) + 2 * ring_pass(c->hosts, c->s / local, c->far);
}

static double direct_pass(const coll_case_t *c, double bytes) {
  return c->at_once * c->l.alpha_s + (c->n - 1) / c->n * bytes * c->l.byte_s;
}
static double cost_direct_broadcast(const coll_case_t *c) {
  return c->at_once * c->l.alpha_s + (c->n - 1) * c->s * c->l.byte_s;
}
static double cost_direct_pass(const coll_case_t *c) { return direct_pass(c, c->s); }
static double cost_direct_all_gather(const coll_case_t *c) { return direct_pass(c, c->n * c->s); }
static double cost_direct_all_reduce(const coll_case_t *c) { return 2 * direct_pass(c, c->s); }

/* ---- plans ---- */

#define PLAN(name, call) \
  static void name(weft_planner_t *p, const weft_algorithm_args_t *a) { call; }
PLAN(ring_broadcast, weft_ring_broadcast(p, a->m, a->root, a->in, a->out))
PLAN(ring_all_gather, weft_ring_all_gather(p, a->m, a->in, a->out, a->out_bounds))
PLAN(ring_all_reduce, weft_ring_all_reduce(p, a->m, a->in, a->out))
PLAN(ring_reduce_scatter, weft_ring_reduce_scatter(p, a->m, a->in, a->out, a->in_bounds))
PLAN(tree_broadcast, weft_tree_broadcast(p, a->m, a->root, a->in, a->out))
PLAN(tree_scatter, weft_tree_scatter(p, a->m, a->root, a->in, a->out, a->in_bounds))
PLAN(tree_gather, weft_tree_gather(p, a->m, a->root, a->in, a->out, a->out_bounds))
PLAN(tree_reduce, weft_tree_reduce(p, a->m, a->root, a->in, a->out, true))
PLAN(halving_doubling, weft_halving_doubling_all_reduce(p, a->m, a->in, a->out))
PLAN(hierarchical_broadcast, weft_hierarchical_broadcast(p, a->m, a->host_of, a->root, a->in, a->out))
PLAN(hierarchical_all_reduce, weft_hierarchical_all_reduce(p, a->m, a->host_of, a->in, a->out))
PLAN(direct_broadcast, weft_direct_broadcast(p, a->m, a->root, a->in, a->out))
PLAN(direct_all_gather, weft_direct_all_gather(p, a->m, a->in, a->out, a->out_bounds))
PLAN(direct_all_reduce, weft_direct_all_reduce(p, a->m, a->in, a->out))
PLAN(direct_reduce_scatter, weft_direct_reduce_scatter(p, a->m, a->in, a->out, a->in_bounds))
PLAN(pairwise_all_to_all, weft_pairwise_all_to_all(p, a->m, a->in, a->out, a->in_bounds, a->out_bounds))
PLAN(permute, weft_exchange_permute(p, a->m, a->targets, a->in, a->out))
PLAN(barrier, weft_exchange_barrier(p, a->m))
#undef PLAN

static void tree_all_reduce(weft_planner_t *p, const weft_algorithm_args_t *a) {
  weft_tree_reduce(p, a->m, 0, a->in, a->out, true);
  weft_tree_broadcast(p, a->m, 0, a->out, a->out);
}

/* ---- the table ---- */

static const char *const names[] = {
    [WEFT_ALGORITHM_AUTO] = "auto",
    [WEFT_ALGORITHM_RING] = "ring",
    [WEFT_ALGORITHM_TREE] = "tree",
    [WEFT_ALGORITHM_HALVING_DOUBLING] = "halving_doubling",
    [WEFT_ALGORITHM_HIERARCHICAL] = "hierarchical",
    [WEFT_ALGORITHM_DIRECT] = "direct",
};
enum { NUM_ALGORITHMS = sizeof names / sizeof names[0] };

typedef struct coll_algorithm {
  weft_collective_kind_t kind;
  weft_collective_algorithm_t algorithm;
  double (*cost)(const coll_case_t *c);
  void (*plan)(weft_planner_t *p, const weft_algorithm_args_t *a);
} coll_algorithm_t;

static const coll_algorithm_t rows[] = {
    {WEFT_BROADCAST, WEFT_ALGORITHM_RING, cost_ring_broadcast, ring_broadcast},
    {WEFT_BROADCAST, WEFT_ALGORITHM_TREE, cost_tree_broadcast, tree_broadcast},
    {WEFT_BROADCAST, WEFT_ALGORITHM_HIERARCHICAL, cost_hierarchical_broadcast, hierarchical_broadcast},
    {WEFT_BROADCAST, WEFT_ALGORITHM_DIRECT, cost_direct_broadcast, direct_broadcast},
    {WEFT_SCATTER, WEFT_ALGORITHM_TREE, cost_tree_rows, tree_scatter},
    {WEFT_GATHER, WEFT_ALGORITHM_TREE, cost_tree_rows, tree_gather},
    {WEFT_ALL_GATHER, WEFT_ALGORITHM_RING, cost_ring_all_gather, ring_all_gather},
    {WEFT_ALL_GATHER, WEFT_ALGORITHM_DIRECT, cost_direct_all_gather, direct_all_gather},
    {WEFT_ALL_TO_ALL, WEFT_ALGORITHM_DIRECT, cost_direct_pass, pairwise_all_to_all},
    {WEFT_REDUCE, WEFT_ALGORITHM_TREE, cost_tree_reduce, tree_reduce},
    {WEFT_ALL_REDUCE, WEFT_ALGORITHM_RING, cost_ring_all_reduce, ring_all_reduce},
    {WEFT_ALL_REDUCE, WEFT_ALGORITHM_TREE, cost_tree_all_reduce, tree_all_reduce},
    {WEFT_ALL_REDUCE, WEFT_ALGORITHM_HALVING_DOUBLING, cost_halving_doubling, halving_doubling},
    {WEFT_ALL_REDUCE, WEFT_ALGORITHM_HIERARCHICAL, cost_hierarchical_all_reduce, hierarchical_all_reduce},
    {WEFT_ALL_REDUCE, WEFT_ALGORITHM_DIRECT, cost_direct_all_reduce, direct_all_reduce},
    {WEFT_REDUCE_SCATTER, WEFT_ALGORITHM_RING, cost_ring_pass, ring_reduce_scatter},
    {WEFT_REDUCE_SCATTER, WEFT_ALGORITHM_DIRECT, cost_direct_pass, direct_reduce_scatter},
    {WEFT_PERMUTE, WEFT_ALGORITHM_DIRECT, cost_direct_pass, permute},
    {WEFT_BARRIER, WEFT_ALGORITHM_DIRECT, cost_direct_pass, barrier},
};
enum { NUM_ROWS = sizeof rows / sizeof rows[0] };

static const coll_algorithm_t *find_row(weft_collective_kind_t kind, weft_collective_algorithm_t a) {
  for (int i = 0; i < NUM_ROWS; i++) {
    if (rows[i].kind == kind && rows[i].algorithm == a) return &rows[i];
  }
  return NULL;
}

bool weft_collective_algorithm_parse(weft_str_t text, weft_collective_algorithm_t *out) {
  if (text.length == 0 || weft_str_is(text, "nccl")) {
    *out = WEFT_ALGORITHM_AUTO;
    return true;
  }
  for (int i = 0; i < NUM_ALGORITHMS; i++) {
    if (!weft_str_is(text, names[i])) continue;
    *out = (weft_collective_algorithm_t)i;
    return true;
  }
  return false;
}

const char *weft_collective_algorithm_name(weft_collective_algorithm_t a) {
  return (unsigned)a < NUM_ALGORITHMS ? names[a] : "unknown";
}

static coll_case_t case_of(const weft_group_t *g, size_t bytes) {
  const int hosts = count_hosts(g);
  return (coll_case_t){.size = g->size,
                       .hosts = hosts,
                       .n = g->size,
                       .s = (double)bytes,
                       .rounds = log2_up(g->size),
                       .at_once = hosts > 1 ? g->size - 1 : 1,
                       .field_s = (double)weft_algorithm_field_bytes(g),
                       .l = slowest(g, hosts),
                       .near = measured(g->near, usual_near),
                       .far = measured(g->far, usual_far)};
}

weft_collective_algorithm_t weft_algorithm_choose(weft_collective_kind_t kind,
                                                  weft_collective_algorithm_t wanted, const weft_group_t *g,
                                                  size_t bytes) {
  if (find_row(kind, wanted) != NULL) return wanted;
  const coll_case_t c = case_of(g, bytes);
  weft_collective_algorithm_t best = WEFT_ALGORITHM_AUTO;
  double least = INFINITY;
  for (int i = 0; i < NUM_ROWS; i++) {
    if (rows[i].kind != kind) continue;
    const double cost = g->size == 1 ? 0 : rows[i].cost(&c);
    if (best != WEFT_ALGORITHM_AUTO && !(cost < least)) continue;
    best = rows[i].algorithm;
    least = cost;
  }
  return best;
}

void weft_algorithm_plan(weft_collective_kind_t kind, weft_collective_algorithm_t algorithm,
                         weft_planner_t *p, const weft_algorithm_args_t *args) {
  find_row(kind, algorithm)->plan(p, args);
}
