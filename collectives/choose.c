/* collectives/choose.c - the cost model of collectives. */
#include "collectives/choose.h"

#include <math.h>

static const char *const names[] = {
    [WEFT_ALGORITHM_AUTO] = "auto",
    [WEFT_ALGORITHM_RING] = "ring",
    [WEFT_ALGORITHM_TREE] = "tree",
    [WEFT_ALGORITHM_HALVING_DOUBLING] = "halving_doubling",
    [WEFT_ALGORITHM_HIERARCHICAL] = "hierarchical",
    [WEFT_ALGORITHM_DIRECT] = "direct",
};
enum { NUM_ALGORITHMS = sizeof names / sizeof names[0] };

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

/* Where nobody has measured: gRPC between processes of one machine, and a 10 Gb/s network. */
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
  /* What stays in a core's cache, as it should within a host; what still pipelines. */
  enum { LEAST = 256 << 10, NEAR_MOST = 512 << 10, FAR_MOST = 4 << 20 };
  const int hosts = count_hosts(g);
  const weft_link_t l = slowest(g, hosts);
  const double most = hosts > 1 ? FAR_MOST : NEAR_MOST;
  const double bytes = l.byte_s > 0 ? 24 * l.alpha_s / l.byte_s : most;
  return bytes < LEAST ? LEAST : bytes > most ? (size_t)most : (size_t)bytes;
}

bool weft_algorithm_is_for(weft_collective_kind_t kind, weft_collective_algorithm_t a) {
  switch (kind) {
    case WEFT_ALL_REDUCE: return a != WEFT_ALGORITHM_AUTO;
    case WEFT_BROADCAST:
      return a == WEFT_ALGORITHM_TREE || a == WEFT_ALGORITHM_RING || a == WEFT_ALGORITHM_HIERARCHICAL ||
             a == WEFT_ALGORITHM_DIRECT;
    case WEFT_ALL_GATHER:
    case WEFT_REDUCE_SCATTER: return a == WEFT_ALGORITHM_RING || a == WEFT_ALGORITHM_DIRECT;
    case WEFT_SCATTER:
    case WEFT_GATHER:
    case WEFT_REDUCE: return a == WEFT_ALGORITHM_TREE;
    case WEFT_ALL_TO_ALL:
    case WEFT_PERMUTE:
    case WEFT_BARRIER: return a == WEFT_ALGORITHM_DIRECT;
  }
  return false;
}

static int log2_up(int n) {
  int k = 0;
  while (k < 30 && 1 << k < n) k++;
  return k;
}

static double ring_cost(double n, double bytes, weft_link_t l) {
  return (n - 1) * l.alpha_s + (n - 1) / n * bytes * l.byte_s;
}

double weft_algorithm_cost(weft_collective_kind_t kind, weft_collective_algorithm_t a, const weft_group_t *g,
                           size_t bytes) {
  if (!weft_algorithm_is_for(kind, a)) return INFINITY;
  if (g->size == 1) return 0;
  const int hosts = count_hosts(g);
  const double n = g->size, s = (double)bytes, rounds = log2_up(g->size);
  const weft_link_t l = slowest(g, hosts), near = measured(g->near, usual_near),
                    far = measured(g->far, usual_far);
  /* In one host there is no wire that takes one message at a time: requests wait beside each other. */
  const double together = hosts > 1 ? n - 1 : 1;
  const double all = kind == WEFT_ALL_GATHER ? n * s : s;
  const double passes = kind == WEFT_ALL_REDUCE ? 2 : 1;
  const double field_s = (double)weft_algorithm_field_bytes(g);
  switch (a) {
    case WEFT_ALGORITHM_RING:
      if (kind == WEFT_BROADCAST) { /* the last rank gets the first field after n-1 hops */
        const double fields = s > field_s ? ceil(s / field_s) : 1;
        return (n - 2 + fields) * (l.alpha_s + s / fields * l.byte_s);
      }
      return passes * ring_cost(n, all, l);
    case WEFT_ALGORITHM_TREE:
      if (kind == WEFT_SCATTER || kind == WEFT_GATHER) return rounds * l.alpha_s + (n - 1) / n * s * l.byte_s;
      return rounds * passes * (l.alpha_s + s * l.byte_s) +
             (kind == WEFT_BROADCAST ? 0 : rounds * s * reduce_byte_s);
    case WEFT_ALGORITHM_HALVING_DOUBLING: {
      const int power = 1 << log2_up(g->size);
      const bool is_power = power == g->size;
      const double p = is_power ? power : power / 2;
      const double fold = is_power ? 0 : 2 * (l.alpha_s + s * l.byte_s) + s * reduce_byte_s;
      return fold + 2 * (is_power ? rounds : rounds - 1) * l.alpha_s + 2 * (p - 1) / p * s * l.byte_s +
             (p - 1) / p * s * reduce_byte_s;
    }
    case WEFT_ALGORITHM_HIERARCHICAL: {
      if (hosts == 1 || hosts == g->size) return INFINITY; /* there is nothing to gain from hosts */
      const double local = n / hosts;
      if (kind == WEFT_BROADCAST) {
        return log2_up(hosts) * (far.alpha_s + s * far.byte_s) +
               log2_up((int)ceil(local)) * (near.alpha_s + s * near.byte_s);
      }
      return 2 * ring_cost(local, s, near) + 2 * ring_cost(hosts, s / local, far);
    }
    case WEFT_ALGORITHM_DIRECT:
      if (kind == WEFT_BROADCAST) return together * l.alpha_s + (n - 1) * s * l.byte_s;
      return passes * (together * l.alpha_s + (n - 1) / n * all * l.byte_s);
    case WEFT_ALGORITHM_AUTO: break;
  }
  return INFINITY;
}

weft_collective_algorithm_t weft_algorithm_choose(weft_collective_kind_t kind,
                                                  weft_collective_algorithm_t wanted, const weft_group_t *g,
                                                  size_t bytes) {
  if (weft_algorithm_is_for(kind, wanted)) return wanted;
  weft_collective_algorithm_t best = WEFT_ALGORITHM_AUTO;
  double least = INFINITY;
  for (int i = WEFT_ALGORITHM_RING; i < NUM_ALGORITHMS; i++) {
    const weft_collective_algorithm_t a = (weft_collective_algorithm_t)i;
    if (!weft_algorithm_is_for(kind, a)) continue;
    const double cost = weft_algorithm_cost(kind, a, g, bytes);
    if (best != WEFT_ALGORITHM_AUTO && !(cost < least)) continue;
    best = a;
    least = cost;
  }
  return best;
}
