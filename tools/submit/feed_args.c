/* tools/submit/feed_args.c - texts to tensors. */
#include "tools/submit/feed_args.h"

#include <string.h>

#include "io/npy.h"
#include "tools/submit/value.h"

static weft_str_t without_zero(weft_str_t name) {
  if (weft_str_ends_with(name, ":0")) name.length -= 2;
  return name;
}

/* The next name of "x+y:0". */
static bool next_name(weft_str_t *rest, weft_str_t *out) {
  if (rest->length == 0) return false;
  weft_str_t head = *rest, tail = WEFT_STR("");
  weft_str_split(*rest, '+', &head, &tail);
  *rest = tail;
  *out = without_zero(head);
  return true;
}

static bool is_named(const char *names, weft_str_t name) {
  weft_str_t rest = weft_str(names), one;
  while (next_name(&rest, &one)) {
    if (weft_str_eq(one, without_zero(name))) return true;
  }
  return false;
}

static bool is_file(const char *value) { return weft_str_ends_with(weft_str(value), ".npy"); }

/* `input`: what the signature says of it; NULL: nothing. */
static weft_status_t *read_value(const char *option, weft_str_t name, const weft_signature_tensor_t *input,
                                 int dtype, const char *value, weft_tensor_t **out) {
  bool is_array = is_file(value);
  weft_status_t *s =
      is_array ? weft_npy_read(value, out)
               : weft_value_parse(weft_str(value), dtype, input == NULL ? NULL : &input->shape, out);
  if (s == NULL) return NULL;
  const char *hint = is_array || strchr(value, '/') == NULL ? "" : "; a file's name ends with .npy";
  bool is_told = !is_array || strstr(weft_status_message(s), value) != NULL;
  weft_status_t *told = weft_status_new(weft_status_code(s), __FILE__, __LINE__, "%s %.*s: %s%s%s%s", option,
                                        WEFT_STR_ARGS(name), is_told ? "" : value, is_told ? "" : ": ",
                                        weft_status_message(s), hint);
  weft_status_free(s);
  return told;
}

/* What a name that is neither of the signature nor of the graph could have been. */
static weft_status_t *tell_inputs(weft_status_t *s, const weft_model_t *model) {
  const weft_signature_def_t *signature = model->signature;
  if (s == NULL || weft_status_code(s) != WEFT_NOT_FOUND) return s;
  if (model->no_output.length > 0)
    return weft_status_annotate(
        s,
        "'%.*s', which is fetched, is no output of 'train', so that names are those of "
        "nodes; with --signature train they are the entry's, too",
        WEFT_STR_ARGS(model->no_output));
  if (signature == NULL) return s;
  weft_strbuf_t names = WEFT_STRBUF_INIT;
  weft_model_print_names(signature->inputs, signature->num_inputs, &names);
  s = weft_status_annotate(s, "the inputs of signature '%.*s' are %s", WEFT_STR_ARGS(signature->key),
                           names.data == NULL ? "none" : names.data);
  weft_strbuf_deinit(&names);
  return s;
}

static weft_status_t *add_feed(WEFT_Job *job, const weft_model_t *model, const char *option, const char *spec,
                               int64_t batch, const char *batch_names) {
  weft_str_t name, rest;
  weft_tensor_t *data = NULL;
  (void)weft_str_split(weft_str(spec), '=', &name, &rest); /* it has the form: tools/option_checks.h */
  const char *value = rest.data;                           /* up to the end of the argument */
  const weft_signature_tensor_t *input = weft_model_input(model, name);
  const weft_str_t tensor = input == NULL ? name : input->tensor;
  int dtype = 0;
  WEFT_RETURN_IF_ERROR(tell_inputs(weft_job_input_dtype(job, tensor, &dtype), model));
  WEFT_RETURN_IF_ERROR(read_value(option, name, input, dtype, value, &data));
  bool is_rows = batch > 0 && is_file(value) && (batch_names == NULL || is_named(batch_names, name));
  weft_status_t *s = weft_job_add_input(job, tensor, data, is_rows, value);
  if (s == NULL || input == NULL || weft_str_eq(name, without_zero(input->tensor))) return s;
  return weft_status_annotate(s, "it is input '%.*s' of signature '%.*s'", WEFT_STR_ARGS(name),
                              WEFT_STR_ARGS(model->signature->key));
}

weft_str_t weft_submit_unfed_rows(const weft_option_texts_t *feeds, const char *batch_names) {
  weft_str_t rest = weft_str(batch_names), wanted, name, value;
  while (next_name(&rest, &wanted)) {
    bool is_given = false;
    for (int i = 0; i < feeds->n; i++) {
      is_given = is_given || (weft_str_split(weft_str(feeds->items[i]), '=', &name, &value) &&
                              is_file(value.data) && weft_str_eq(without_zero(name), wanted));
    }
    if (!is_given) return wanted;
  }
  return WEFT_STR("");
}

/* Is this input of the signature fed, by its name there or in the graph? */
static bool is_fed(const weft_option_texts_t *feeds, const weft_signature_tensor_t *input) {
  weft_str_t name, value;
  for (int i = 0; i < feeds->n; i++) {
    if (weft_str_split(weft_str(feeds->items[i]), '=', &name, &value) &&
        (weft_str_eq(name, input->key) || weft_str_eq(without_zero(name), without_zero(input->tensor))))
      return true;
  }
  return false;
}

static weft_status_t *check_signature(const weft_signature_def_t *signature, const char *option,
                                      const weft_option_texts_t *feeds) {
  for (int i = 0; signature != NULL && i < signature->num_inputs; i++) {
    const weft_signature_tensor_t *t = &signature->inputs[i];
    if (is_fed(feeds, t)) continue;
    return WEFT_ERROR(INVALID_ARGUMENT,
                      "input '%.*s' (%s %s) of signature '%.*s' is not fed; give %s %.*s=VALUE or %s "
                      "%.*s=FILE.npy",
                      WEFT_STR_ARGS(t->key), weft_dtype_name(t->dtype), WEFT_SHAPE_TEXT(&t->shape),
                      WEFT_STR_ARGS(signature->key), option, WEFT_STR_ARGS(t->key), option,
                      WEFT_STR_ARGS(t->key));
  }
  return NULL;
}

weft_status_t *weft_submit_feeds(WEFT_Job *job, const weft_model_t *model, const char *option,
                                 const weft_option_texts_t *feeds, int64_t batch, const char *batch_names) {
  WEFT_RETURN_IF_ERROR(check_signature(model->signature, option, feeds));
  for (int i = 0; i < feeds->n; i++)
    WEFT_RETURN_IF_ERROR(add_feed(job, model, option, feeds->items[i], batch, batch_names));
  return NULL;
}
