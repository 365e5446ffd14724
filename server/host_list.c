/* server/host_list.c - the lists of nodes and tasks that Slurm puts into the environment.
 *
 * A name of the list is a sequence of letters and brackets. expand() goes through it from left to right with
 * the name so far, and calls itself behind a bracket for each number in it; each call that reaches the end
 * adds a name, so that the limit of names limits the work, too.
 */
#include "server/host_list.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/alloc.h"

enum {
  MAX_BRACKETS = 8,           /* in one name */
  MAX_DIGITS = 18,            /* of a number */
  MAX_TEXT = 4 << 20,         /* bytes of a list */
  MAX_COUNT = WEFT_MAX_HOSTS, /* of tasks on one node */
};

static weft_status_t *no_memory(void) { return WEFT_NO_MEMORY("a list of hosts"); }

void weft_host_list_deinit(weft_host_list_t *l) {
  weft_arena_deinit(&l->arena);
  weft_free(l->names);
  *l = (weft_host_list_t){.arena = WEFT_ARENA_INIT};
}

typedef struct expansion {
  weft_host_list_t list;
  int capacity;
  weft_str_t part;               /* of the text: the name that is expanded */
  char name[WEFT_MAX_HOST_NAME]; /* the beginning of one that it stands for */
} expansion_t;

static weft_status_t *refuse(const expansion_t *e, const char *why) {
  int shown = e->part.length > 200 ? 200 : (int)e->part.length;
  return WEFT_ERROR(INVALID_ARGUMENT, "'%.*s' names no nodes: %s", shown, e->part.data, why);
}

static weft_status_t *too_many(void) {
  return WEFT_ERROR(INVALID_ARGUMENT, "there are more than %d nodes", WEFT_MAX_HOSTS);
}

static weft_status_t *add(expansion_t *e, size_t length) {
  weft_host_list_t *l = &e->list;
  if (length == 0) return refuse(e, "a name is empty");
  if (l->num_names == WEFT_MAX_HOSTS) return too_many();
  if (l->num_names == e->capacity) {
    int capacity = e->capacity == 0 ? 16 : 2 * e->capacity;
    weft_str_t *names = weft_realloc(l->names, (size_t)capacity, sizeof *names);
    if (names == NULL) return no_memory();
    l->names = names;
    e->capacity = capacity;
  }
  weft_str_t name = weft_arena_str(&l->arena, weft_str_of(e->name, length));
  if (name.data == NULL) return no_memory();
  l->names[l->num_names++] = name;
  return NULL;
}

static bool is_in_names(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '.' ||
         c == '_';
}

static weft_status_t *expand(expansion_t *e, weft_str_t rest, size_t length, int depth);

/* "08-11", or "7": `rest` is what follows the bracket. */
static weft_status_t *expand_range(expansion_t *e, weft_str_t range, weft_str_t rest, size_t length,
                                   int depth) {
  weft_str_t low = range, high = range;
  uint64_t from, to;
  (void)weft_str_split(range, '-', &low, &high);
  if (low.length > MAX_DIGITS || high.length > MAX_DIGITS || !weft_str_to_u64(low, &from) ||
      !weft_str_to_u64(high, &to) || from > to)
    return refuse(e, "in brackets belong numbers and ranges, as in n[1-3,07]");
  for (uint64_t i = from; i <= to; i++) {
    char digits[MAX_DIGITS + 8];
    int n = snprintf(digits, sizeof digits, "%0*" PRIu64, (int)low.length, i);
    if (length + (size_t)n > sizeof e->name) return refuse(e, "a name is too long");
    memcpy(e->name + length, digits, (size_t)n);
    WEFT_RETURN_IF_ERROR(expand(e, rest, length + (size_t)n, depth + 1));
  }
  return NULL;
}

/* At most MAX_BRACKETS deep. */
static weft_status_t *expand(expansion_t *e, weft_str_t rest, size_t length, int depth) {
  size_t i = 0;
  for (; i < rest.length && rest.data[i] != '['; i++) {
    if (!is_in_names(rest.data[i]))
      return refuse(e, "names have letters, digits, '-', '.', '_' and numbers in brackets");
    if (length == sizeof e->name) return refuse(e, "a name is too long");
    e->name[length++] = rest.data[i];
  }
  if (i == rest.length) return add(e, length);
  if (depth == MAX_BRACKETS) return refuse(e, "there are too many brackets");
  weft_str_t inside = weft_str_of(rest.data + i + 1, rest.length - i - 1), behind;
  if (!weft_str_split(inside, ']', &inside, &behind)) return refuse(e, "a bracket is not closed");
  while (inside.data != NULL) {
    weft_str_t range = inside, tail = {NULL, 0};
    (void)weft_str_split(inside, ',', &range, &tail);
    WEFT_RETURN_IF_ERROR(expand_range(e, range, behind, length, depth));
    inside = tail;
  }
  return NULL;
}

/* The bytes before the first comma that is not in brackets. */
static size_t length_of_part(weft_str_t text) {
  bool is_inside = false;
  size_t i = 0;
  for (; i < text.length && (is_inside || text.data[i] != ','); i++) {
    if (text.data[i] == '[') is_inside = true;
    if (text.data[i] == ']') is_inside = false;
  }
  return i;
}

weft_status_t *weft_host_list_parse(weft_str_t text, weft_host_list_t *out) {
  expansion_t e = {.list = {.arena = WEFT_ARENA_INIT}};
  weft_status_t *s = NULL;
  if (text.length > MAX_TEXT) return too_many();
  for (bool is_last = false; s == NULL && !is_last;) {
    size_t length = length_of_part(text);
    e.part = weft_str_of(text.data, length);
    s = expand(&e, e.part, 0, 0);
    is_last = length == text.length;
    if (!is_last) text = weft_str_of(text.data + length + 1, text.length - length - 1);
  }
  if (s != NULL) {
    weft_host_list_deinit(&e.list);
    return s;
  }
  *out = e.list;
  return NULL;
}

/* ---- tasks of each node ---- */

/* "2(x3)", or "1". */
static bool read_count(weft_str_t part, uint64_t *count, uint64_t *times) {
  weft_str_t head = part, tail;
  *times = 1;
  if (weft_str_split(part, '(', &head, &tail)) {
    if (tail.length < 3 || tail.data[0] != 'x' || tail.data[tail.length - 1] != ')' ||
        !weft_str_to_u64(weft_str_of(tail.data + 1, tail.length - 2), times))
      return false;
  }
  return weft_str_to_u64(head, count) && *count >= 1 && *count <= MAX_COUNT && *times >= 1;
}

weft_status_t *weft_task_counts_parse(weft_str_t text, int **out, int *out_num) {
  int *counts = NULL;
  size_t num = 0;
  weft_status_t *s = NULL;
  while (s == NULL && text.data != NULL) {
    weft_str_t part = text, tail = {NULL, 0};
    uint64_t count, times;
    (void)weft_str_split(text, ',', &part, &tail);
    text = tail;
    if (!read_count(part, &count, &times)) {
      s = WEFT_ERROR(INVALID_ARGUMENT, "'%.*s' is not a number of tasks, as in 2(x3),1",
                     part.length > 200 ? 200 : (int)part.length, part.data);
    } else if (times > WEFT_MAX_HOSTS - num) {
      s = too_many();
    } else {
      int *grown = weft_realloc(counts, num + times, sizeof *grown);
      if (grown != NULL) counts = grown;
      if (grown == NULL) s = no_memory();
      for (uint64_t i = 0; s == NULL && i < times; i++) counts[num++] = (int)count;
    }
  }
  if (s != NULL) {
    weft_free(counts);
    return s;
  }
  *out = counts;
  *out_num = (int)num;
  return NULL;
}
