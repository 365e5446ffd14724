/* kernels/cpu/dataset/iterator.c - what the iterators of all classes have in common. */
#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "kernels/cpu/dataset/as_graph.h"
#include "kernels/cpu/dataset/saved.h"
#include "kernels/cpu/dataset/traversal.h"

/* `input`: which of the parent's inputs it is; -1: none of them. */
static weft_status_t *open(const weft_dataset_t *d, weft_traversal_t *traversal,
                           const weft_iterator_t *parent, int input, weft_iterator_t **out) {
  weft_iterator_t *it = weft_calloc(1, d->class->iterator_size);
  if (it == NULL) return WEFT_NO_MEMORY("an iterator");
  it->of = weft_dataset_retain(d);
  it->traversal = traversal;
  it->canceller = parent != NULL ? parent->canceller : traversal->canceller;
  it->parent = parent;
  weft_status_t *s = weft_traversal_place(traversal, input >= 0 ? parent->place : NULL, input, d, &it->place);
  if (s == NULL && d->class->opens_inputs) s = weft_iterator_open_input(it, 0, &it->input);
  if (s == NULL && d->class->begin != NULL) s = d->class->begin(it);
  if (s != NULL) {
    weft_iterator_close(it);
    return s;
  }
  *out = it;
  return NULL;
}

weft_status_t *weft_iterator_open(const weft_dataset_t *d, weft_traversal_t *traversal,
                                  const weft_iterator_t *parent, weft_iterator_t **out) {
  return open(d, traversal, parent, -1, out);
}

weft_status_t *weft_iterator_open_input(weft_iterator_t *it, int i, weft_iterator_t **slot) {
  weft_iterator_close(*slot);
  *slot = NULL;
  return open(it->of->inputs[i], it->traversal, it, i, slot);
}

void weft_iterator_close(weft_iterator_t *it) {
  if (it == NULL) return;
  if (it->of->class->end != NULL) it->of->class->end(it);
  weft_iterator_close(it->input);
  weft_dataset_release((weft_dataset_t *)(uintptr_t)it->of);
  weft_free(it);
}

/* OUT_OF_RANGE would be taken for the end. */
static weft_status_t *not_the_end(const weft_iterator_t *it, weft_status_t *s) {
  weft_strbuf_t name = WEFT_STRBUF_INIT;
  weft_iterator_name(it, &name);
  weft_status_t *other =
      WEFT_ERROR(INTERNAL, "Iterator \"%s\" returned `OutOfRange`, which is not the end of its sequence: %s",
                 name.failed ? "?" : name.data, weft_status_message(s));
  weft_strbuf_deinit(&name);
  weft_status_free(s);
  return other;
}

weft_status_t *weft_iterator_next(weft_iterator_t *it, weft_tensor_t **out, bool *is_end) {
  *is_end = it->is_over;
  memset(out, 0, (size_t)it->of->spec->n * sizeof *out);
  if (it->is_over) return NULL;
  if (weft_canceller_is_cancelled(it->canceller)) return WEFT_ERROR(CANCELLED, "Iterator was cancelled");
  weft_status_t *s = it->of->class->next(it, out, is_end);
  if (weft_status_code(s) == WEFT_OUT_OF_RANGE) s = not_the_end(it, s);
  if (s != NULL || *is_end) weft_element_release(out, it->of->spec->n);
  if (s == NULL) it->is_over = *is_end;
  it->index += !*is_end;
  it->num_given += s == NULL && !*is_end;
  return s;
}

void weft_iterator_name(const weft_iterator_t *it, weft_strbuf_t *out) {
  if (it->parent != NULL) {
    weft_iterator_name(it->parent, out);
  } else {
    weft_strbuf_puts(out, "Iterator::Root");
  }
  weft_strbuf_puts(out, "::");
  weft_strbuf_puts(out, it->of->class->name);
}

weft_status_t *weft_iterator_blame(const weft_iterator_t *it, int64_t index, weft_status_t *s) {
  if (s == NULL) return NULL;
  weft_strbuf_t name = WEFT_STRBUF_INIT;
  weft_iterator_name(it, &name);
  s = weft_status_annotate(s, "element %" PRId64 " of %s", index, name.failed ? "?" : name.data);
  weft_strbuf_deinit(&name);
  return s;
}

/* ---- state ---- */

/* What the functions of its data set keep between calls. */
static weft_status_t *save_functions(const weft_iterator_t *it, weft_saved_t *to) {
  for (int i = 0; i < WEFT_MAX_FUNCTIONS && it->of->fns[i] != NULL; i++) {
    weft_strbuf_t state = WEFT_STRBUF_INIT;
    weft_status_t *s = weft_callee_save(it->place->callees[i], &state);
    if (s == NULL) weft_saved_put_string(to, weft_str_of(state.data, state.length));
    weft_strbuf_deinit(&state);
    if (s != NULL) return s;
  }
  return NULL;
}

static weft_status_t *load_functions(const weft_iterator_t *it, weft_saved_t *from) {
  for (int i = 0; i < WEFT_MAX_FUNCTIONS && it->of->fns[i] != NULL; i++) {
    weft_str_t state;
    WEFT_RETURN_IF_ERROR(weft_saved_get_string(from, &state));
    if (state.length > 0) WEFT_RETURN_IF_ERROR(weft_callee_load(it->place->callees[i], state));
  }
  return NULL;
}

weft_status_t *weft_iterator_save(weft_iterator_t *it, weft_saved_t *to) {
  const weft_dataset_class_t *class = it->of->class;
  if (to->refuses_state) WEFT_RETURN_IF_ERROR(weft_dataset_check_external_state(it->of));
  if (class->passes_state) return weft_iterator_save(it->input, to);
  weft_saved_put_string(to, weft_str(class->name));
  weft_saved_put_int(to, it->index);
  weft_saved_put_int(to, it->num_given);
  weft_saved_put_int(to, it->is_over);
  if (class->save != NULL) WEFT_RETURN_IF_ERROR(class->save(it, to)); /* before the input: it may be in use */
  WEFT_RETURN_IF_ERROR(save_functions(it, to));
  weft_saved_put_int(to, it->input != NULL);
  return it->input != NULL ? weft_iterator_save(it->input, to) : NULL;
}

weft_status_t *weft_iterator_load(weft_iterator_t *it, weft_saved_t *from) {
  const weft_dataset_class_t *class = it->of->class;
  weft_str_t name;
  int64_t is_over, has_input;
  if (class->passes_state) {
    WEFT_RETURN_IF_ERROR(weft_iterator_load(it->input, from));
    it->index = it->input->index;
    it->num_given = it->input->num_given;
    it->is_over = it->input->is_over;
    return NULL;
  }
  WEFT_RETURN_IF_ERROR(weft_saved_get_string(from, &name));
  if (!weft_str_eq(name, weft_str(class->name))) {
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "the saved iterator is of another data set: it has %.*s where this one has %s",
                      WEFT_STR_ARGS(name), class->name);
  }
  WEFT_RETURN_IF_ERROR(weft_saved_get_int_in(from, 0, INT64_MAX, &it->index));
  WEFT_RETURN_IF_ERROR(weft_saved_get_int_in(from, 0, it->index, &it->num_given));
  WEFT_RETURN_IF_ERROR(weft_saved_get_int_in(from, 0, 1, &is_over));
  it->is_over = is_over != 0;
  if (class->load != NULL) WEFT_RETURN_IF_ERROR(class->load(it, from));
  WEFT_RETURN_IF_ERROR(load_functions(it, from));
  WEFT_RETURN_IF_ERROR(weft_saved_get_int_in(from, 0, 1, &has_input));
  if (has_input == 0) {
    weft_iterator_close(it->input);
    it->input = NULL;
    return NULL;
  }
  if (it->of->num_inputs == 0)
    return WEFT_ERROR(DATA_LOSS, "the saved iterator has an input where %s has none", class->name);
  if (it->input == NULL) WEFT_RETURN_IF_ERROR(weft_iterator_open_input(it, 0, &it->input));
  return weft_iterator_load(it->input, from);
}
