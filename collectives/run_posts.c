/* collectives/run_posts.c - a stage of a run: small tensors of members on one host, which all read where all
 * have posted them.
 *
 * Whether a collective goes this way depends on what all ranks know alone. If one of them cannot, the
 * transport says so to all, and the next stage moves the data.
 *
 * A reduction is made by each rank that wants it, in one round; where that is much to read, each rank makes
 * a chunk, and a second round gives the chunks to all. Chunk c is summed in the order c, c+1, ..., c-1 of the
 * ranks: so the bits are the ring's, on all ranks.
 *
 * Source: the flat algorithms of MPI implementations for shared memory, e.g. Graham and Shipman, "MPI Support
 * for Multi-core Architectures: Optimized Shared Memory Collectives" (2008), without its fan-in and fan-out
 * trees: a host has few ranks.
 */
#include "base/alloc.h"
#include "collectives/run.h"

enum {
  MOST_BYTES = 1 << 20, /* of one rank: what is more is read in the ranks' own memory, without a copy */
  ONE_ROUND_BYTES = 256 << 10, /* of all ranks: to read more takes longer than to wait once more */
  BLOCK = 16 << 10,            /* summed at a time: stays in the first-level cache */
};

typedef struct coll_posting {
  weft_coll_run_t *run;
  weft_coll_layout_t layout;
  weft_posting_t p;
  size_t *bytes, *second_bytes, *reads[2];
} coll_posting_t;

static bool may_post(const weft_coll_run_t *r) {
  const weft_collective_t *call = &r->call;
  const weft_group_t *g = r->group;
  const weft_transport_ops_t *ops = r->transport->ops;
  if (ops->post == NULL || r->is_together || g->size < 2 || g->size > ops->max_posting) return false;
  if (call->algorithm != WEFT_ALGORITHM_AUTO || call->shared_name.length > 0 || call->splits != NULL)
    return false;
  bool is_one_task = true;
  for (int i = 0; i < g->size; i++) {
    if (g->members[i].host.length == 0 || !weft_str_eq(g->members[i].host, g->members[0].host)) return false;
    is_one_task = is_one_task && weft_str_eq(g->members[i].task, g->members[0].task);
  }
  return !is_one_task;
}

/* Chunk c of the tensor, cut at element bounds. */
static size_t chunk_at(const weft_coll_run_t *r, size_t bytes, int c) {
  const size_t count = bytes / r->element, n = (size_t)r->group->size, i = (size_t)c;
  return (count / n * i + count % n * i / n) * r->element;
}
static size_t chunk_bytes(const weft_coll_run_t *r, size_t bytes, int c) {
  return chunk_at(r, bytes, c + 1) - chunk_at(r, bytes, c);
}
/* The chunk that a rank makes. */
static int chunk_of(const weft_coll_run_t *r, int rank) { return (rank + 1) % r->group->size; }

/* ---- what each rank gives and reads ---- */

static size_t block_bytes(const size_t *bounds, int i) { return bounds[i + 1] - bounds[i]; }

/* Bytes that `rank` gives in the first round. */
static size_t given_by(const coll_posting_t *x, int rank) {
  const weft_coll_run_t *r = x->run;
  const int n = r->group->size;
  const bool is_root = rank == r->source;
  switch (r->call.kind) {
    case WEFT_BROADCAST: return is_root ? x->layout.bytes : 0;
    case WEFT_SCATTER: return is_root ? x->layout.in_bounds[n] : 0;
    case WEFT_GATHER:
    case WEFT_ALL_GATHER: return block_bytes(x->layout.out_bounds, rank);
    case WEFT_ALL_TO_ALL:
    case WEFT_REDUCE_SCATTER: return x->layout.in_bounds[n];
    case WEFT_BARRIER: return 0;
    default: return x->layout.bytes; /* reduce, all-reduce, permute */
  }
}

/* Bytes that this rank reads of `rank` in the first round. */
static size_t read_of(const coll_posting_t *x, int rank) {
  const weft_coll_run_t *r = x->run;
  const int me = r->rank;
  const bool i_am_root = me == r->source;
  switch (r->call.kind) {
    case WEFT_SCATTER: return rank == r->source ? block_bytes(x->layout.in_bounds, me) : 0;
    case WEFT_GATHER:
    case WEFT_REDUCE: return i_am_root ? x->bytes[rank] : 0;
    case WEFT_ALL_TO_ALL:
    case WEFT_REDUCE_SCATTER: return block_bytes(x->layout.in_bounds, me);
    case WEFT_ALL_REDUCE:
      return x->second_bytes == NULL ? x->bytes[rank] : chunk_bytes(r, x->layout.bytes, chunk_of(r, me));
    case WEFT_PERMUTE: return r->call.targets[rank] == me ? x->bytes[rank] : 0;
    default: return x->bytes[rank]; /* broadcast, all-gather, barrier */
  }
}

/* ---- reading ---- */

/* to = the reduction of bytes [at, at+bytes) of all ranks, from `first` on. */
static void reduce_ranks(const weft_coll_run_t *r, char *to, const void *const *from, size_t at, size_t bytes,
                         int first) {
  const int n = r->group->size;
  for (size_t done = 0; done < bytes; done += BLOCK) {
    const size_t now = bytes - done < BLOCK ? bytes - done : BLOCK, count = now / r->element;
    const char *acc = (const char *)from[first] + at + done;
    for (int j = 1; j < n; j++) {
      r->reduce(to + done, acc, (const char *)from[(first + j) % n] + at + done, count);
      acc = to + done;
    }
    if (r->call.is_mean) r->divide(to + done, n, count);
  }
}

static void reduce_chunk(const weft_coll_run_t *r, char *to, const void *const *from, size_t bytes, int c) {
  reduce_ranks(r, to, from, chunk_at(r, bytes, c), chunk_bytes(r, bytes, c), c);
}

static void copy(char *to, const void *from, size_t at, size_t bytes) {
  if (bytes > 0) memcpy(to, (const char *)from + at, bytes);
}

static void gather_chunks(const coll_posting_t *x, const void *const *from) {
  const weft_coll_run_t *r = x->run;
  for (int i = 0; i < r->group->size; i++) {
    copy(r->base[WEFT_PLAN_OUTPUT] + chunk_at(r, x->layout.bytes, chunk_of(r, i)), from[i], 0,
         x->second_bytes[i]);
  }
}

static void permute(const coll_posting_t *x, char *out, const void *const *from) {
  const weft_coll_run_t *r = x->run;
  bool is_target = false;
  for (int i = 0; i < r->group->size; i++) {
    if (r->call.targets[i] != r->rank) continue;
    copy(out, from[i], 0, x->bytes[i]);
    is_target = true;
  }
  if (!is_target && r->output->bytes > 0) memset(out, 0, r->output->bytes);
}

static void read_first(const coll_posting_t *x, const void *const *from, void *second) {
  const weft_coll_run_t *r = x->run;
  const weft_coll_layout_t *l = &x->layout;
  const int n = r->group->size, me = r->rank;
  char *out = r->base[WEFT_PLAN_OUTPUT];
  switch (r->call.kind) {
    case WEFT_BROADCAST:
      if (me != r->source) copy(out, from[r->source], 0, l->bytes);
      break;
    case WEFT_SCATTER: copy(out, from[r->source], l->in_bounds[me], block_bytes(l->in_bounds, me)); break;
    case WEFT_GATHER:
    case WEFT_ALL_GATHER:
      for (int i = 0; i < n && l->has_output; i++) copy(out + l->out_bounds[i], from[i], 0, x->bytes[i]);
      break;
    case WEFT_ALL_TO_ALL:
      for (int i = 0; i < n; i++)
        copy(out + l->out_bounds[i], from[i], l->in_bounds[me], block_bytes(l->in_bounds, me));
      break;
    case WEFT_REDUCE_SCATTER:
      reduce_ranks(r, out, from, l->in_bounds[me], block_bytes(l->in_bounds, me), (me + 1) % n);
      break;
    case WEFT_REDUCE:
    case WEFT_ALL_REDUCE:
      if (second != NULL) {
        reduce_chunk(r, second, from, l->bytes, chunk_of(r, me));
      } else {
        for (int c = 0; c < n && l->has_output; c++)
          reduce_chunk(r, out + chunk_at(r, l->bytes, c), from, l->bytes, c);
      }
      break;
    case WEFT_PERMUTE: permute(x, out, from); break;
    case WEFT_BARRIER: break;
  }
}

static void read_round(void *arg, int round, const void *const *from, void *second) {
  const coll_posting_t *x = arg;
  if (round == 0) {
    read_first(x, from, second);
  } else {
    gather_chunks(x, from);
  }
}

/* ---- the stage ---- */

static void on_posted(void *arg, weft_status_t *s) {
  coll_posting_t *x = arg;
  weft_coll_run_t *r = x->run;
  const bool goes_on = weft_status_code(s) == WEFT_UNIMPLEMENTED;
  weft_coll_layout_deinit(&x->layout);
  r->is_posted = s == NULL;
  if (goes_on) { /* by the next stage, without a member that was lost meanwhile */
    weft_status_free(s);
    weft_mutex_lock(&r->mu);
    r->is_posting = false;
    s = r->loss;
    r->loss = NULL;
    weft_mutex_unlock(&r->mu);
  }
  weft_coll_run_end(r, s);
}

/* The sizes of all parts; false: they are too large. */
static bool measure(coll_posting_t *x) {
  const weft_coll_run_t *r = x->run;
  const int n = r->group->size;
  size_t sum = 0;
  for (int i = 0; i < n; i++) {
    x->bytes[i] = given_by(x, i);
    if (x->bytes[i] > MOST_BYTES) return false;
    sum += x->bytes[i];
  }
  if (r->call.kind != WEFT_ALL_REDUCE || sum <= ONE_ROUND_BYTES || n == 2) x->second_bytes = NULL;
  for (int i = 0; i < n; i++) {
    x->reads[0][i] = read_of(x, i);
    if (x->second_bytes == NULL) continue;
    x->second_bytes[i] = x->reads[1][i] = chunk_bytes(r, x->layout.bytes, chunk_of(r, i));
  }
  return true;
}

weft_status_t *weft_coll_run_post(weft_coll_run_t *r) {
  if (!may_post(r)) return NULL;
  const size_t n = (size_t)r->group->size;
  coll_posting_t *x = weft_arena_calloc(&r->arena, 1, sizeof *x);
  size_t *sizes = weft_arena_calloc(&r->arena, 4 * n, sizeof *sizes);
  char text[WEFT_KEY_TEXT];
  const weft_str_t name = weft_arena_str(&r->arena, weft_coll_run_part(r, text, "s"));
  if (x == NULL || sizes == NULL || name.data == NULL)
    return WEFT_NO_MEMORY("collective %.*s", WEFT_STR_ARGS(r->call.name));
  x->run = r;
  x->bytes = sizes;
  x->second_bytes = sizes + n;
  x->reads[0] = sizes + 2 * n;
  x->reads[1] = sizes + 3 * n;
  weft_status_t *s = weft_coll_run_lay_out(r, &x->layout);
  const bool is_small = s == NULL && measure(x);
  if (is_small) s = weft_coll_run_make_output(r, &x->layout);
  if (s != NULL || !is_small) {
    weft_coll_layout_deinit(&x->layout);
    return s;
  }
  const weft_collective_kind_t k = r->call.kind;
  x->p = (weft_posting_t){.step_id = r->call.step_id,
                          .run = name,
                          .group = r->group,
                          .rank = r->rank,
                          .data = r->call.input == NULL ? NULL : r->call.input->data,
                          .bytes = x->bytes,
                          .second_bytes = x->second_bytes,
                          .reads = {x->reads[0], x->reads[1]},
                          .waits_for_readers = weft_collective_has_root(k),
                          .keeps_thread = r->call.waits && pthread_equal(r->caller, pthread_self()),
                          .read = read_round,
                          .arg = x};
  weft_mutex_lock(&r->mu);
  r->is_posting = true;
  weft_mutex_unlock(&r->mu);
  weft_coll_run_begin(r);
  r->transport->ops->post(r->transport, &x->p, r->canceller, on_posted, x);
  return NULL;
}
