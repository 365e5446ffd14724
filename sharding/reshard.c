/* sharding/reshard.c - Dijkstra's algorithm over the shardings of one value.
 *
 * A state is one option for each axis; its number is written in mixed radix with the numbers of the options.
 * Options are few: Replicate, the Partial of either end, and a Shard of each dimension; on a mesh of more
 * than two axes only of each dimension that one of the two shardings shards anywhere. An axis that is
 * Replicate at both ends keeps only that.
 */
#include "sharding/reshard.h"

#include <math.h>

enum { MAX_OPTIONS = 3 + WEFT_MAX_DIMS, MAX_STATES = 1 << 16, SMALL_MESH = 2 };
static const weft_reshard_link_t default_link = {.latency = 20e-6, .seconds_per_byte = 8e-10};
/* Makes the shorter of two plans of equal cost win. Far below any latency. */
static const double step_seconds = 1e-12;

typedef struct search {
  const weft_mesh_t *mesh;
  const weft_shape_t *shape;
  double element_bytes;
  weft_reshard_link_t link;
  weft_axis_sharding_t options[WEFT_MESH_AXES][MAX_OPTIONS];
  int num_options[WEFT_MESH_AXES];
  int num_states;
} search_t;

typedef struct state { /* of the search */
  double seconds;
  int previous; /* -1: the start, or not reached */
  bool is_done;
} state_t;

static int option_of(const search_t *s, int axis, const weft_axis_sharding_t *sharding) {
  for (int k = 0; k < s->num_options[axis]; k++) {
    if (weft_axis_sharding_eq(&s->options[axis][k], sharding)) return k;
  }
  return -1;
}

static void add_option(search_t *s, int axis, weft_axis_sharding_t sharding) {
  if (option_of(s, axis, &sharding) < 0) s->options[axis][s->num_options[axis]++] = sharding;
}

static void collect_options(search_t *s, const weft_sharding_t *from, const weft_sharding_t *to) {
  s->num_states = 1;
  for (int i = 0; i < s->mesh->num_axes; i++) {
    const weft_axis_sharding_t *ends[2] = {&from->axes[i], &to->axes[i]};
    add_option(s, i, weft_sharding_replicate(0));
    for (int end = 0; end < 2; end++) add_option(s, i, *ends[end]);
    for (int k = 0; s->num_options[i] > 1 && k < s->mesh->num_axes; k++) {
      if (from->axes[k].kind == WEFT_SHARDING_SHARD) add_option(s, i, from->axes[k]);
      if (to->axes[k].kind == WEFT_SHARDING_SHARD) add_option(s, i, to->axes[k]);
    }
    bool is_small = s->num_options[i] > 1 && s->mesh->num_axes <= SMALL_MESH;
    for (int k = 0; is_small && k < s->shape->rank; k++) add_option(s, i, weft_sharding_shard(k, 0));
    s->num_states *= s->num_options[i];
  }
}

static void state_sharding(const search_t *s, int state, weft_sharding_t *out) {
  *out = (weft_sharding_t){0};
  for (int i = 0; i < s->mesh->num_axes; i++) {
    out->axes[i] = s->options[i][state % s->num_options[i]];
    state /= s->num_options[i];
  }
}

static int state_of(const search_t *s, const weft_sharding_t *sharding) {
  int state = 0;
  for (int i = s->mesh->num_axes; i-- > 0;) {
    state = state * s->num_options[i] + option_of(s, i, &sharding->axes[i]);
  }
  return state;
}

/* Reductions over different axes may be done in any order within a family only: sums and means are one. */
static int partial_family(weft_partial_kind_t kind) {
  return kind == WEFT_PARTIAL_MEAN ? (int)WEFT_PARTIAL_SUM : (int)kind;
}

static bool partials_commute(const weft_mesh_t *mesh, const weft_sharding_t *sharding) {
  int family = -1;
  for (int i = 0; i < mesh->num_axes; i++) {
    if (sharding->axes[i].kind != WEFT_SHARDING_PARTIAL) continue;
    int mine = partial_family(sharding->axes[i].partial);
    if (family >= 0 && family != mine) return false;
    family = mine;
  }
  return true;
}

static bool divides(const search_t *s, const weft_sharding_t *sharding) {
  int64_t pieces[WEFT_MAX_DIMS] = {0};
  for (int i = 0; i < s->mesh->num_axes; i++) {
    if (sharding->axes[i].kind != WEFT_SHARDING_SHARD) continue;
    int64_t *n = &pieces[sharding->axes[i].dim];
    *n = (*n == 0 ? 1 : *n) * s->mesh->axes[i].size;
    if (s->shape->dims[sharding->axes[i].dim] % *n != 0) return false;
  }
  return true;
}

/* What each device holds, or why the value cannot be split like that. */
static weft_status_t *local_bytes(const search_t *s, const weft_sharding_t *sharding, double *out) {
  int64_t begin[WEFT_MAX_DIMS];
  weft_shape_t size;
  WEFT_RETURN_IF_ERROR(weft_mesh_block(s->mesh, sharding, s->shape, 0, begin, &size));
  for (int i = 0; i < s->mesh->num_axes; i++) {
    if (sharding->axes[i].degree == 0) continue;
    return WEFT_ERROR(INVALID_ARGUMENT, "axis '%s': a value of degree %d is off by a factor: scale it first",
                      s->mesh->axes[i].name, sharding->axes[i].degree);
  }
  if (!partials_commute(s->mesh, sharding)) {
    return WEFT_ERROR(INVALID_ARGUMENT, "different reductions along different axes do not commute");
  }
  *out = (double)weft_shape_count(&size) * s->element_bytes;
  return NULL;
}

/* May `axis` begin or end to shard `dim`? Not while a later axis splits its parts. */
static bool is_innermost(const weft_mesh_t *mesh, const weft_sharding_t *sharding, int axis, int dim) {
  for (int i = axis + 1; i < mesh->num_axes; i++) {
    if (sharding->axes[i].kind == WEFT_SHARDING_SHARD && sharding->axes[i].dim == dim) return false;
  }
  return true;
}

static bool kind_of_step(const weft_axis_sharding_t *from, const weft_axis_sharding_t *to,
                         weft_reshard_kind_t *out) {
  bool to_shard = to->kind == WEFT_SHARDING_SHARD, to_partial = to->kind == WEFT_SHARDING_PARTIAL;
  bool is_sum = to->partial == WEFT_PARTIAL_SUM || to->partial == WEFT_PARTIAL_PROD;
  switch (from->kind) {
    case WEFT_SHARDING_REPLICATE:
      *out = to_shard ? WEFT_RESHARD_SLICE : is_sum ? WEFT_RESHARD_MASK : WEFT_RESHARD_KEEP;
      return to_shard || to_partial;
    case WEFT_SHARDING_SHARD:
      *out = to_shard ? WEFT_RESHARD_ALL_TO_ALL : WEFT_RESHARD_ALL_GATHER;
      return !to_partial;
    case WEFT_SHARDING_PARTIAL:
      *out = to_shard     ? WEFT_RESHARD_REDUCE_SCATTER
             : to_partial ? WEFT_RESHARD_SCALE
                          : WEFT_RESHARD_ALL_REDUCE;
      return !to_partial || partial_family(from->partial) == partial_family(to->partial);
    default: return false;
  }
}

static void price(const search_t *s, double bytes, weft_reshard_step_t *step) {
  double n = s->mesh->axes[step->axis].size, messages = 0;
  step->wire_bytes = 0;
  switch (step->kind) {
    case WEFT_RESHARD_ALL_REDUCE:
      messages = 2 * (n - 1);
      step->wire_bytes = 2 * (n - 1) / n * bytes;
      break;
    case WEFT_RESHARD_REDUCE_SCATTER:
    case WEFT_RESHARD_ALL_TO_ALL:
      messages = n - 1;
      step->wire_bytes = (n - 1) / n * bytes;
      break;
    case WEFT_RESHARD_ALL_GATHER:
      messages = n - 1;
      step->wire_bytes = (n - 1) * bytes;
      break;
    default: break;
  }
  step->seconds = messages * s->link.latency + step->wire_bytes * s->link.seconds_per_byte;
}

/* The step from `now` to option `k` of `axis`; false if there is none. `*next`: what then is. */
static bool make_step(const search_t *s, const weft_sharding_t *now, double bytes, int axis, int k,
                      weft_sharding_t *next, weft_reshard_step_t *out) {
  *out = (weft_reshard_step_t){.axis = axis, .from = now->axes[axis], .to = s->options[axis][k]};
  if (weft_axis_sharding_eq(&out->from, &out->to) || !kind_of_step(&out->from, &out->to, &out->kind)) {
    return false;
  }
  if (out->from.kind == WEFT_SHARDING_SHARD && !is_innermost(s->mesh, now, axis, out->from.dim)) return false;
  if (out->to.kind == WEFT_SHARDING_SHARD && !is_innermost(s->mesh, now, axis, out->to.dim)) return false;
  *next = *now;
  next->axes[axis] = out->to;
  price(s, bytes, out);
  return divides(s, next) && partials_commute(s->mesh, next);
}

static int nearest(const state_t *states, int n) {
  int best = -1;
  for (int i = 0; i < n; i++) {
    if (!states[i].is_done && isfinite(states[i].seconds) &&
        (best < 0 || states[i].seconds < states[best].seconds)) {
      best = i;
    }
  }
  return best;
}

static weft_status_t *visit(const search_t *s, state_t *states, int at) {
  weft_sharding_t now, next;
  weft_reshard_step_t step;
  double bytes = 0;
  state_sharding(s, at, &now);
  WEFT_RETURN_IF_ERROR(local_bytes(s, &now, &bytes));
  states[at].is_done = true;
  for (int axis = 0; axis < s->mesh->num_axes; axis++) {
    for (int k = 0; k < s->num_options[axis]; k++) {
      if (!make_step(s, &now, bytes, axis, k, &next, &step)) continue;
      state_t *there = &states[state_of(s, &next)];
      double seconds = states[at].seconds + step.seconds + step_seconds;
      if (there->is_done || seconds >= there->seconds) continue;
      there->seconds = seconds;
      there->previous = at;
    }
  }
  return NULL;
}

/* The steps that lead to `goal`, first to last. */
static weft_status_t *collect_steps(const search_t *s, const state_t *states, int goal, weft_arena_t *arena,
                                    weft_reshard_plan_t *out) {
  int n = 0;
  for (int at = goal; states[at].previous >= 0; at = states[at].previous) n++;
  weft_reshard_plan_t plan = {.num_steps = n};
  plan.steps = weft_arena_calloc(arena, (size_t)n + 1, sizeof *plan.steps);
  if (plan.steps == NULL) return WEFT_NO_MEMORY("a resharding plan");
  for (int at = goal; n-- > 0; at = states[at].previous) {
    weft_sharding_t before, after, next;
    double bytes = 0;
    state_sharding(s, states[at].previous, &before);
    state_sharding(s, at, &after);
    WEFT_RETURN_IF_ERROR(local_bytes(s, &before, &bytes));
    for (int axis = 0; axis < s->mesh->num_axes; axis++) {
      if (weft_axis_sharding_eq(&before.axes[axis], &after.axes[axis])) continue;
      (void)make_step(s, &before, bytes, axis, option_of(s, axis, &after.axes[axis]), &next, &plan.steps[n]);
    }
    plan.cost.seconds += plan.steps[n].seconds;
    plan.cost.wire_bytes += plan.steps[n].wire_bytes;
  }
  *out = plan;
  return NULL;
}

weft_status_t *weft_reshard_plan(const weft_mesh_t *mesh, const weft_sharding_t *from,
                                 const weft_sharding_t *to, const weft_shape_t *shape, size_t element_bytes,
                                 const weft_reshard_link_t *link, weft_arena_t *arena,
                                 weft_reshard_plan_t *out) {
  search_t s = {.mesh = mesh, .shape = shape, .element_bytes = (double)element_bytes};
  double unused;
  s.link = link == NULL || (link->latency == 0 && link->seconds_per_byte == 0) ? default_link : *link;
  if (!weft_shape_is_known(shape)) {
    return WEFT_ERROR(INVALID_ARGUMENT, "a value of shape %s cannot be resharded", WEFT_SHAPE_TEXT(shape));
  }
  WEFT_RETURN_IF_ERROR(weft_mesh_validate(mesh));
  WEFT_RETURN_IF_ERROR(local_bytes(&s, from, &unused));
  WEFT_RETURN_IF_ERROR(local_bytes(&s, to, &unused));
  collect_options(&s, from, to);
  if (s.num_states > MAX_STATES) {
    return WEFT_ERROR(RESOURCE_EXHAUSTED, "resharding: more than %d shardings to search", MAX_STATES);
  }
  state_t *states = weft_arena_calloc(arena, (size_t)s.num_states, sizeof *states);
  if (states == NULL) return WEFT_NO_MEMORY("resharding");
  for (int i = 0; i < s.num_states; i++) states[i] = (state_t){.seconds = INFINITY, .previous = -1};
  int goal = state_of(&s, to);
  states[state_of(&s, from)].seconds = 0;
  for (int at; (at = nearest(states, s.num_states)) >= 0 && at != goal;) {
    WEFT_RETURN_IF_ERROR(visit(&s, states, at));
  }
  if (!isfinite(states[goal].seconds)) {
    return WEFT_ERROR(INTERNAL, "no steps lead from one sharding of a value of shape %s to the other",
                      WEFT_SHAPE_TEXT(shape));
  }
  return collect_steps(&s, states, goal, arena, out);
}

const char *weft_reshard_kind_name(weft_reshard_kind_t kind) {
  static const char *const names[] = {
      [WEFT_RESHARD_ALL_REDUCE] = "all-reduce", [WEFT_RESHARD_REDUCE_SCATTER] = "reduce-scatter",
      [WEFT_RESHARD_ALL_GATHER] = "all-gather", [WEFT_RESHARD_ALL_TO_ALL] = "all-to-all",
      [WEFT_RESHARD_SLICE] = "slice",           [WEFT_RESHARD_MASK] = "mask",
      [WEFT_RESHARD_SCALE] = "scale",           [WEFT_RESHARD_KEEP] = "keep"};
  return names[kind];
}

void weft_reshard_print(const weft_mesh_t *mesh, const weft_reshard_step_t *step, weft_strbuf_t *out) {
  weft_strbuf_printf(out, "%s along %s: ", weft_reshard_kind_name(step->kind), mesh->axes[step->axis].name);
  weft_axis_sharding_print(&step->from, out);
  weft_strbuf_puts(out, " -> ");
  weft_axis_sharding_print(&step->to, out);
}
