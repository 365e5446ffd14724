/* kernels/cpu/ctc/ctc_beam.tmpl.h - a beam search through one sequence, in one type.
 *
 * Parameters, undefined below: CTC_REAL; CTC_STEM, functions are STEM_step ...; CTC_F(name), the C library's
 * function for REAL; CTC_LOG_SUM; CTC_DECODE, the function that the header declares.
 *
 * Equal probabilities are frequent, and which of two equal paths stays in the beam depends on how it is kept
 * sorted: an array until it is full, then a heap with the worst path on top. That order is what TensorFlow's
 * users see, so heap and sort make the same moves as those of the C++ library it is built with
 * (Musser, "Introspective sorting and selection algorithms", 1997).
 */
#define NAME(x) WEFT_CAT(CTC_STEM, x)
#define REAL CTC_REAL

/* Logarithms of probabilities. */
typedef struct NAME(chance) {
  REAL total, blank, label; /* all, of those that end with a blank, with the label */
} NAME(chance_t);

/* A path: its last label and the path before. */
typedef struct NAME(path) NAME(path_t);
struct NAME(path) {
  NAME(path_t) * parent, *children; /* children: one for each label; NULL: not made yet */
  NAME(chance_t) before, now;
  int32_t label;
};

/* The paths of one step, `limit` at most. */
typedef struct NAME(top) {
  NAME(path_t) * *items; /* room for limit + 1 */
  int64_t count, limit;
  bool knows_worst, is_heap; /* the worst path is the first one; the array is a heap */
} NAME(top_t);

static inline bool NAME(better)(const NAME(path_t) * a, const NAME(path_t) * b) {
  return a->now.total > b->now.total;
}

/* ---- heaps: the worst on top ---- */

static void NAME(sift_up)(NAME(path_t) * *a, int64_t hole, int64_t top, NAME(path_t) * v) {
  for (int64_t parent = (hole - 1) / 2; hole > top && NAME(better)(a[parent], v); parent = (hole - 1) / 2) {
    a[hole] = a[parent];
    hole = parent;
  }
  a[hole] = v;
}

static void NAME(sift_down)(NAME(path_t) * *a, int64_t hole, int64_t n, NAME(path_t) * v) {
  const int64_t top = hole;
  int64_t child = hole;
  while (child < (n - 1) / 2) {
    child = 2 * (child + 1);
    if (NAME(better)(a[child], a[child - 1])) child--;
    a[hole] = a[child];
    hole = child;
  }
  if ((n & 1) == 0 && child == (n - 2) / 2) {
    child = 2 * (child + 1);
    a[hole] = a[child - 1];
    hole = child - 1;
  }
  NAME(sift_up)(a, hole, top, v);
}

static void NAME(make_heap)(NAME(path_t) * *a, int64_t n) {
  for (int64_t parent = (n - 2) / 2; n >= 2 && parent >= 0; parent--)
    NAME(sift_down)(a, parent, n, a[parent]);
}

/* The first one goes to the end, the others are a heap. */
static void NAME(pop_heap)(NAME(path_t) * *a, int64_t n) {
  if (n < 2) return;
  NAME(path_t) *last = a[n - 1];
  a[n - 1] = a[0];
  NAME(sift_down)(a, 0, n - 1, last);
}

static void NAME(sort_heap)(NAME(path_t) * *a, int64_t n) {
  for (; n > 1; n--) NAME(pop_heap)(a, n);
}

/* ---- sorting: the best first ---- */

static void NAME(swap)(NAME(path_t) * *a, int64_t i, int64_t j) {
  NAME(path_t) *kept = a[i];
  a[i] = a[j];
  a[j] = kept;
}

static void NAME(insert)(NAME(path_t) * *a, int64_t i) {
  NAME(path_t) *v = a[i];
  for (; NAME(better)(v, a[i - 1]); i--) a[i] = a[i - 1];
  a[i] = v;
}

static void NAME(insertion_sort)(NAME(path_t) * *a, int64_t n) {
  for (int64_t i = 1; i < n; i++) {
    if (NAME(better)(a[i], a[0])) {
      NAME(path_t) *v = a[i];
      memmove(a + 1, a, (size_t)i * sizeof *a);
      a[0] = v;
    } else {
      NAME(insert)(a, i);
    }
  }
}

/* The middle one of three goes to the front; then what is better than it to the left. Returns where the right
 * part begins. NaNs could lead the scans out of the array: they stop at its ends. */
static int64_t NAME(partition)(NAME(path_t) * *a, int64_t n) {
  const int64_t i = 1, mid = n / 2, k = n - 1;
  int64_t middle = 0;
  if (NAME(better)(a[i], a[mid])) {
    middle = NAME(better)(a[mid], a[k]) ? mid : NAME(better)(a[i], a[k]) ? k : i;
  } else {
    middle = NAME(better)(a[i], a[k]) ? i : NAME(better)(a[mid], a[k]) ? k : mid;
  }
  NAME(swap)(a, 0, middle);
  int64_t first = 1, last = n;
  for (;;) {
    while (first < n - 1 && NAME(better)(a[first], a[0])) first++;
    last--;
    while (last > 0 && NAME(better)(a[0], a[last])) last--;
    if (first >= last) return first;
    NAME(swap)(a, first, last);
    first++;
  }
}

static void NAME(sort_parts)(NAME(path_t) * *a, int64_t n, int depth) {
  while (n > CTC_SMALL_SORT) {
    if (depth-- == 0) {
      NAME(make_heap)(a, n);
      NAME(sort_heap)(a, n);
      return;
    }
    const int64_t cut = NAME(partition)(a, n);
    NAME(sort_parts)(a + cut, n - cut, depth);
    n = cut;
  }
}

static void NAME(sort)(NAME(path_t) * *a, int64_t n) {
  int depth = 0;
  for (int64_t m = n; m > 1; m /= 2) depth += 2;
  NAME(sort_parts)(a, n, depth);
  if (n <= CTC_SMALL_SORT) {
    NAME(insertion_sort)(a, n);
    return;
  }
  NAME(insertion_sort)(a, CTC_SMALL_SORT);
  for (int64_t i = CTC_SMALL_SORT; i < n; i++) {
    NAME(path_t) *v = a[i];
    int64_t at = i;
    for (; at > 0 && NAME(better)(v, a[at - 1]); at--) a[at] = a[at - 1];
    a[at] = v;
  }
}

/* ---- the best paths of a step ---- */

static void NAME(push)(NAME(top_t) * t, NAME(path_t) * p) {
  if (t->is_heap) {
    if (!NAME(better)(p, t->items[0])) return;
    NAME(pop_heap)(t->items, t->count);
    NAME(sift_up)(t->items, t->count - 1, 0, p);
    return;
  }
  t->items[t->count++] = p;
  if (t->count == t->limit + 1) {
    NAME(make_heap)(t->items, t->count);
    NAME(pop_heap)(t->items, t->count);
    t->count--;
    t->is_heap = true;
  } else if (t->knows_worst && !NAME(better)(p, t->items[0])) {
    NAME(swap)(t->items, 0, t->count - 1);
  }
}

static NAME(path_t) * NAME(worst)(NAME(top_t) * t) {
  if (!t->is_heap && !t->knows_worst) {
    int64_t worst = 0;
    for (int64_t i = 1; i < t->count; i++) {
      if (NAME(better)(t->items[worst], t->items[i])) worst = i;
    }
    if (worst != 0) NAME(swap)(t->items, 0, worst);
    t->knows_worst = true;
  }
  return t->items[0];
}

static void NAME(order)(NAME(top_t) * t) {
  if (t->is_heap) {
    NAME(sort_heap)(t->items, t->count);
  } else {
    NAME(sort)(t->items, t->count);
  }
}

/* ---- the search ---- */

static const NAME(chance_t) NAME(none) = {-(REAL)HUGE_VAL, -(REAL)HUGE_VAL, -(REAL)HUGE_VAL};

typedef struct NAME(search) {
  NAME(top_t) leaves, branches; /* of this step and of the one before */
  NAME(path_t) root;
  NAME(path_t) * *blocks; /* all children, to be freed */
  int64_t num_blocks, room;
  int64_t num_labels; /* classes but for the blank */
} NAME(search_t);

static bool NAME(is_candidate)(NAME(search_t) * s, const NAME(chance_t) * c) {
  return c->total > -(REAL)HUGE_VAL &&
         (s->leaves.count < s->leaves.limit || c->total > NAME(worst)(&s->leaves)->now.total);
}

static weft_status_t *NAME(make_children)(NAME(search_t) * s, NAME(path_t) * p) {
  if (s->num_blocks == s->room) {
    const int64_t room = s->room == 0 ? 64 : 2 * s->room;
    NAME(path_t) **blocks = weft_realloc(s->blocks, (size_t)room, sizeof *blocks);
    if (blocks == NULL) return WEFT_NO_MEMORY("%" PRId64 " paths", room);
    s->blocks = blocks;
    s->room = room;
  }
  p->children = weft_calloc((size_t)s->num_labels, sizeof *p->children);
  if (p->children == NULL) return WEFT_NO_MEMORY("paths of %" PRId64 " labels", s->num_labels);
  s->blocks[s->num_blocks++] = p->children;
  for (int64_t i = 0; i < s->num_labels; i++) {
    NAME(path_t) *c = &p->children[i];
    c->parent = p;
    c->label = (int32_t)i;
    c->before = c->now = NAME(none);
  }
  return NULL;
}

/* What paths of the last step have now, if nothing is added to them. */
static void NAME(keep)(NAME(search_t) * s, const REAL *x, REAL norm) {
  for (int64_t i = 0; i < s->branches.count; i++) s->branches.items[i]->before = s->branches.items[i]->now;
  for (int64_t i = 0; i < s->branches.count; i++) {
    NAME(path_t) *p = s->branches.items[i];
    if (p->parent != NULL) {
      if (p->parent->now.total != -(REAL)HUGE_VAL) {
        const NAME(chance_t) *from = &p->parent->before;
        p->now.label = CTC_LOG_SUM(p->now.label, p->label == p->parent->label ? from->blank : from->total);
      }
      p->now.label += x[p->label] - norm;
    }
    p->now.blank = p->before.total + x[s->num_labels] - norm;
    p->now.total = CTC_LOG_SUM(p->now.blank, p->now.label);
    NAME(push)(&s->leaves, p);
  }
}

/* Adds each label to path p, where that is among the best. */
static weft_status_t *NAME(grow)(NAME(search_t) * s, NAME(path_t) * p, const REAL *x, REAL norm) {
  if (p->children == NULL) WEFT_RETURN_IF_ERROR(NAME(make_children)(s, p));
  for (int64_t k = 0; k < s->num_labels; k++) {
    NAME(path_t) *c = &p->children[k];
    if (x[k] < -(REAL)HUGE_VAL || c->now.total != -(REAL)HUGE_VAL) continue;
    c->now.blank = -(REAL)HUGE_VAL;
    c->now.label = x[k] - norm + (c->label == p->label ? p->before.blank : p->before.total);
    c->now.total = c->now.label;
    if (!NAME(is_candidate)(s, &c->now)) {
      c->before = c->now = NAME(none);
      continue;
    }
    if (s->leaves.count == s->leaves.limit) NAME(worst)(&s->leaves)->now = NAME(none);
    NAME(push)(&s->leaves, c);
  }
  return NULL;
}

static weft_status_t *NAME(step)(NAME(search_t) * s, const REAL *x) {
  REAL max = x[0], sum = 0;
  for (int64_t k = 1; k <= s->num_labels; k++) max = x[k] > max ? x[k] : max;
  for (int64_t k = 0; k <= s->num_labels; k++) sum += CTC_F(exp)(x[k] - max);
  const REAL norm = max + CTC_F(log)(sum);
  const NAME(top_t) old = s->leaves;
  s->leaves = s->branches;
  s->branches = old;
  NAME(order)(&s->branches);
  s->leaves.count = 0;
  s->leaves.knows_worst = s->leaves.is_heap = false;
  NAME(keep)(s, x, norm);
  for (int64_t i = 0; i < s->branches.count; i++) {
    NAME(path_t) *p = s->branches.items[i];
    if (NAME(is_candidate)(s, &p->before)) WEFT_RETURN_IF_ERROR(NAME(grow)(s, p, x, norm));
  }
  return NULL;
}

static weft_status_t *NAME(put)(weft_ctc_path_t *out, const NAME(path_t) * p, bool merge_repeated) {
  const int64_t start = out->count;
  int32_t before = -1;
  for (; p->parent != NULL; p = p->parent) {
    if (!merge_repeated || p->label != before) WEFT_RETURN_IF_ERROR(weft_ctc_path_push(out, p->label));
    before = p->label;
  }
  for (int64_t i = start, j = out->count - 1; i < j; i++, j--) {
    const int32_t kept = out->labels[i];
    out->labels[i] = out->labels[j];
    out->labels[j] = kept;
  }
  return NULL;
}

static weft_status_t *NAME(best)(NAME(search_t) * s, weft_ctc_decoder_t *d, int64_t b, bool merge_repeated) {
  if (d->num_paths > s->leaves.count)
    return WEFT_ERROR(INVALID_ARGUMENT, "Less leaves in the beam search than requested.");
  NAME(top_t) top = {.items = s->branches.items, .limit = d->num_paths};
  for (int64_t i = 0; i < s->leaves.count; i++) NAME(push)(&top, s->leaves.items[i]);
  NAME(order)(&top);
  for (int64_t i = 0; i < d->num_paths; i++) {
    WEFT_RETURN_IF_ERROR(NAME(put)(&d->paths[i], top.items[i], merge_repeated));
    ((REAL *)d->scores->data)[b * d->num_paths + i] = top.items[i]->now.total;
  }
  return NULL;
}

weft_status_t *CTC_DECODE(weft_ctc_decoder_t *d, int64_t b, int64_t beam_width, bool merge_repeated) {
  NAME(search_t) s = {.num_labels = d->num_classes - 1, .root = {.label = -1}};
  /* A beam has no more paths than its steps can make, so that its width alone takes no memory. */
  int64_t room = beam_width, made = 1;
  for (int64_t t = 0; t < d->lengths[b] && made < beam_width; t++) {
    if (__builtin_mul_overflow(made, d->num_classes, &made)) made = beam_width;
  }
  if (made < room) room = made;
  s.leaves.limit = s.branches.limit = beam_width;
  weft_status_t *status = NULL;
  if (room < INT64_MAX / 64) {
    s.leaves.items = weft_calloc((size_t)room + 2, sizeof *s.leaves.items);
    s.branches.items = weft_calloc((size_t)room + 2, sizeof *s.branches.items);
  }
  if (s.leaves.items == NULL || s.branches.items == NULL) status = WEFT_NO_MEMORY("a beam of %" PRId64, room);
  s.root.now.label = -(REAL)HUGE_VAL;
  s.root.before = NAME(none);
  if (status == NULL) NAME(push)(&s.leaves, &s.root);
  for (int64_t t = 0; status == NULL && t < d->lengths[b]; t++)
    status = NAME(step)(&s, (const REAL *)d->inputs->data + (t * d->batch + b) * d->num_classes);
  if (status == NULL) status = NAME(best)(&s, d, b, merge_repeated);
  for (int64_t i = 0; i < s.num_blocks; i++) weft_free(s.blocks[i]);
  weft_free(s.blocks);
  weft_free(s.leaves.items);
  weft_free(s.branches.items);
  return status;
}

#undef NAME
#undef REAL
#undef CTC_REAL
#undef CTC_STEM
#undef CTC_F
#undef CTC_LOG_SUM
#undef CTC_DECODE
