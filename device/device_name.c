/* device/device_name.c - reading, printing and comparing device names.
 *
 * The grammar is a sequence of parts in any order, each of which may come again
 * and then replaces the earlier one:
 *   /job:NAME  /replica:N  /task:N  /device:TYPE[:N]  /cpu:N  /CPU:N  /gpu:N  /GPU:N
 * with "*" for NAME, TYPE or N leaving it open. "" and "/" give nothing.
 */
#include "device/device_name.h"

#include <limits.h>
#include <stdio.h>

enum { MAX_JOB = 256, MAX_TYPE = 128 };

static bool take_prefix(weft_str_t *s, const char *prefix) {
  if (!weft_str_starts_with(*s, prefix)) return false;
  size_t n = strlen(prefix);
  s->data += n;
  s->length -= n;
  return true;
}

static bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
static bool is_digit(char c) { return c >= '0' && c <= '9'; }

/* A letter, then letters, digits and '_'. */
static bool take_name(weft_str_t *s, size_t max, weft_str_t *out) {
  size_t n = 0;
  if (s->length == 0 || !is_letter(s->data[0])) return false;
  while (n < s->length && (is_letter(s->data[n]) || is_digit(s->data[n]) || s->data[n] == '_')) n++;
  if (n > max) return false;
  *out = weft_str_of(s->data, n);
  s->data += n;
  s->length -= n;
  return true;
}

static bool take_number(weft_str_t *s, int *out) {
  size_t n = 0;
  int64_t value = 0;
  while (n < s->length && is_digit(s->data[n])) {
    value = value * 10 + (s->data[n] - '0');
    if (value > INT_MAX) return false;
    n++;
  }
  if (n == 0) return false;
  *out = (int)value;
  s->data += n;
  s->length -= n;
  return true;
}

static bool take_name_or_star(weft_str_t *s, size_t max, bool *has, weft_str_t *out) {
  *has = !take_prefix(s, "*");
  return !*has || take_name(s, max, out);
}

static bool take_number_or_star(weft_str_t *s, bool *has, int *out) {
  *has = !take_prefix(s, "*");
  return !*has || take_number(s, out);
}

static bool take_part(weft_str_t *s, weft_device_name_t *n) {
  if (take_prefix(s, "/job:")) return take_name_or_star(s, MAX_JOB, &n->has_job, &n->job);
  if (take_prefix(s, "/replica:")) return take_number_or_star(s, &n->has_replica, &n->replica);
  if (take_prefix(s, "/task:")) return take_number_or_star(s, &n->has_task, &n->task);
  if (take_prefix(s, "/device:")) {
    n->has_id = false;
    if (!take_name_or_star(s, MAX_TYPE, &n->has_type, &n->type)) return false;
    return !take_prefix(s, ":") || take_number_or_star(s, &n->has_id, &n->id);
  }
  bool cpu = take_prefix(s, "/cpu:") || take_prefix(s, "/CPU:");
  if (!cpu && !take_prefix(s, "/gpu:") && !take_prefix(s, "/GPU:")) return false;
  n->has_type = true;
  n->type = cpu ? WEFT_STR("CPU") : WEFT_STR("GPU");
  return take_number_or_star(s, &n->has_id, &n->id);
}

weft_status_t *weft_device_name_parse(weft_str_t text, weft_device_name_t *out) {
  weft_device_name_t n = {0};
  weft_str_t rest = text;
  bool ok = true;
  if (weft_str_is(rest, "/")) rest.length = 0;
  while (ok && rest.length > 0) ok = take_part(&rest, &n);
  if (!ok) {
    int shown = text.length > 512 ? 512 : (int)text.length;
    return WEFT_ERROR(INVALID_ARGUMENT, "Malformed device specification '%.*s'", shown, text.data);
  }
  *out = n;
  return NULL;
}

const char *weft_device_name_print(const weft_device_name_t *n, weft_device_text_t *text) {
  size_t at = 0, size = sizeof text->text;
  text->text[0] = '\0';
  if (n->has_job) at += (size_t)snprintf(text->text + at, size - at, "/job:%.*s", WEFT_STR_ARGS(n->job));
  if (n->has_replica) at += (size_t)snprintf(text->text + at, size - at, "/replica:%d", n->replica);
  if (n->has_task) at += (size_t)snprintf(text->text + at, size - at, "/task:%d", n->task);
  if (n->has_type) {
    at += (size_t)snprintf(text->text + at, size - at, "/device:%.*s:", WEFT_STR_ARGS(n->type));
    if (n->has_id) {
      snprintf(text->text + at, size - at, "%d", n->id);
    } else {
      snprintf(text->text + at, size - at, "*");
    }
  }
  return text->text;
}

/* Says whether `b` has the part whenever `a` has it, with the same value. */
#define COVERS(a, b, has, same) (!(a)->has || ((b)->has && (same)))
#define AGREES(a, b, has, same) (!(a)->has || !(b)->has || (same))

bool weft_device_name_matches(const weft_device_name_t *pattern, const weft_device_name_t *full) {
  return COVERS(pattern, full, has_job, weft_str_eq(pattern->job, full->job)) &&
         COVERS(pattern, full, has_replica, pattern->replica == full->replica) &&
         COVERS(pattern, full, has_task, pattern->task == full->task) &&
         COVERS(pattern, full, has_type, weft_str_eq(pattern->type, full->type)) &&
         COVERS(pattern, full, has_id, pattern->id == full->id);
}

bool weft_device_name_intersects(const weft_device_name_t *a, const weft_device_name_t *b) {
  return AGREES(a, b, has_job, weft_str_eq(a->job, b->job)) &&
         AGREES(a, b, has_replica, a->replica == b->replica) && AGREES(a, b, has_task, a->task == b->task) &&
         AGREES(a, b, has_type, weft_str_eq(a->type, b->type)) && AGREES(a, b, has_id, a->id == b->id);
}

bool weft_device_name_same_task(const weft_device_name_t *a, const weft_device_name_t *b) {
  return a->has_job && b->has_job && weft_str_eq(a->job, b->job) && a->has_replica && b->has_replica &&
         a->replica == b->replica && a->has_task && b->has_task && a->task == b->task;
}

bool weft_device_name_is_full(const weft_device_name_t *n) {
  return n->has_job && n->has_replica && n->has_task && n->has_type && n->has_id;
}

static weft_status_t *incompatible(const char *what, const weft_device_name_t *a,
                                   const weft_device_name_t *b) {
  weft_device_text_t a_text, b_text;
  return WEFT_ERROR(INVALID_ARGUMENT, "Cannot merge devices with incompatible %s: '%s' and '%s'", what,
                    weft_device_name_print(a, &a_text), weft_device_name_print(b, &b_text));
}

weft_status_t *weft_device_name_merge(weft_device_name_t *into, const weft_device_name_t *other, bool soft) {
  if (!AGREES(into, other, has_job, weft_str_eq(into->job, other->job)))
    return incompatible("jobs", into, other);
  if (!AGREES(into, other, has_replica, into->replica == other->replica))
    return incompatible("replicas", into, other);
  if (!AGREES(into, other, has_task, into->task == other->task)) return incompatible("tasks", into, other);
  bool same_type = AGREES(into, other, has_type, weft_str_eq(into->type, other->type));
  bool same_id = AGREES(into, other, has_id, into->id == other->id);
  if (!same_type && !soft) return incompatible("types", into, other);
  if (same_type && !same_id && !soft) return incompatible("ids", into, other);
  if (other->has_job) into->job = other->job;
  if (other->has_replica) into->replica = other->replica;
  if (other->has_task) into->task = other->task;
  into->has_job |= other->has_job;
  into->has_replica |= other->has_replica;
  into->has_task |= other->has_task;
  if (!same_type) {
    into->has_type = into->has_id = false;
    return NULL;
  }
  if (other->has_type) into->type = other->type;
  into->has_type |= other->has_type;
  if (!same_id) {
    into->has_id = false;
    return NULL;
  }
  if (other->has_id) into->id = other->id;
  into->has_id |= other->has_id;
  return NULL;
}

weft_str_t weft_device_task_part(weft_str_t full_name) {
  static const char mark[] = "/device:";
  for (size_t i = full_name.length; i-- > 0;) {
    weft_str_t tail = weft_str_of(full_name.data + i, full_name.length - i);
    if (weft_str_starts_with(tail, mark)) return weft_str_of(full_name.data, i);
  }
  return full_name;
}
