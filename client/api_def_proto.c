/* client/api_def_proto.c - TF_ApiDefMap: how each op of a list is documented.
 *
 * A map starts with what the ops themselves say; each text that is put overrides
 * it field by field. Rules follow TensorFlow's op_gen_lib.
 */
#include "base/alloc.h"
#include "base/hash_map.h"
#include "client/buffer.h"
#include "client/status.h"
#include "protos/api_def.pb-c.h"
#include "protos/op_def.pb-c.h"
#include "protos/text_format.h"
#include "protos/unpack.h"
#include "protos/wire.h"
#include "tensorflow/c/c_api.h"

typedef Tensorflow__ApiDef api_def_t;

/* Thread-compatible. */
struct TF_ApiDefMap {
  weft_map_t by_name; /* op name -> api_def_t*, owned */
};

static weft_status_t *no_memory(void) { return WEFT_NO_MEMORY("an ApiDef"); }

/* ---- from ops ---- */

static void write_args(weft_strbuf_t *out, uint32_t field, Tensorflow__OpDef__ArgDef **args, size_t n) {
  for (size_t i = 0; i < n; i++) {
    size_t mark = weft_wire_begin(out, field);
    weft_wire_put_text(out, 1, args[i]->name);
    weft_wire_put_text(out, 2, args[i]->name);
    weft_wire_put_text(out, 3, args[i]->description);
    weft_wire_end(out, mark);
  }
}

static weft_status_t *from_op(const Tensorflow__OpDef *op, api_def_t **out) {
  weft_strbuf_t text = WEFT_STRBUF_INIT;
  ProtobufCMessage *m = NULL;
  weft_status_t *s = NULL;
  weft_wire_put_text(&text, 1, op->name);
  size_t endpoint = weft_wire_begin(&text, 3);
  weft_wire_put_text(&text, 1, op->name);
  weft_wire_end(&text, endpoint);
  write_args(&text, 4, op->input_arg, op->n_input_arg);
  write_args(&text, 5, op->output_arg, op->n_output_arg);
  for (size_t i = 0; i < op->n_attr && s == NULL; i++) {
    size_t mark = weft_wire_begin(&text, 6);
    weft_wire_put_text(&text, 1, op->attr[i]->name);
    weft_wire_put_text(&text, 2, op->attr[i]->name);
    if (op->attr[i]->default_value != NULL) {
      size_t value = weft_wire_begin(&text, 3);
      s = weft_proto_pack(&op->attr[i]->default_value->base, &text);
      weft_wire_end(&text, value);
    }
    weft_wire_put_text(&text, 4, op->attr[i]->description);
    weft_wire_end(&text, mark);
  }
  for (size_t i = 0; i < op->n_input_arg; i++)
    weft_wire_add_bytes(&text, 11, weft_str(op->input_arg[i]->name));
  weft_wire_put_i64(&text, 2, TENSORFLOW__API_DEF__VISIBILITY__VISIBLE);
  weft_wire_put_text(&text, 7, op->summary);
  weft_wire_put_text(&text, 8, op->description);
  if (s == NULL && text.failed) s = no_memory();
  if (s == NULL)
    s = weft_proto_unpack(&tensorflow__api_def__descriptor, weft_str_of(text.data, text.length), &m);
  weft_strbuf_deinit(&text);
  *out = (api_def_t *)(void *)m;
  return s;
}

static weft_status_t *fill(TF_ApiDefMap *map, const Tensorflow__OpList *ops) {
  for (size_t i = 0; i < ops->n_op; i++) {
    api_def_t *d = NULL;
    void *old = NULL;
    WEFT_RETURN_IF_ERROR(from_op(ops->op[i], &d));
    weft_status_t *s = weft_map_put(&map->by_name, weft_str(d->graph_op_name), d, &old);
    if (s != NULL) weft_proto_free(&d->base);
    if (s != NULL) return s;
    weft_proto_free(old);
  }
  return NULL;
}

TF_ApiDefMap *TF_NewApiDefMap(TF_Buffer *op_list_buffer, TF_Status *status) {
  ProtobufCMessage *ops = NULL;
  TF_ApiDefMap *map = weft_calloc(1, sizeof *map);
  weft_status_t *s = map == NULL ? no_memory()
                                 : weft_proto_unpack(&tensorflow__op_list__descriptor,
                                                     weft_client_bytes(op_list_buffer), &ops);
  if (s != NULL && weft_status_code(s) == WEFT_INVALID_ARGUMENT) {
    weft_status_free(s);
    s = WEFT_ERROR(INVALID_ARGUMENT, "Unparseable OpList");
  }
  if (s == NULL) s = fill(map, (const Tensorflow__OpList *)(void *)ops);
  weft_proto_free(ops);
  if (weft_client_end(status, s)) return map;
  TF_DeleteApiDefMap(map);
  return NULL;
}

void TF_DeleteApiDefMap(TF_ApiDefMap *apimap) {
  if (apimap == NULL) return;
  weft_map_entry_t e;
  for (size_t at = 0; weft_map_next(&apimap->by_name, &at, &e);)
    weft_proto_free(&((api_def_t *)e.value)->base);
  weft_map_deinit(&apimap->by_name);
  weft_free(apimap);
}

/* ---- overriding ---- */

static bool is_set(const char *text) { return text != NULL && text[0] != '\0'; }

/* Takes *from over into *to if it says something; both stay valid messages. */
static void take_text(char **to, char **from) {
  if (!is_set(*from)) return;
  char *old = *to;
  *to = *from;
  *from = old;
}

static weft_status_t *merge_args(const api_def_t *base, Tensorflow__ApiDef__Arg **to, size_t n,
                                 Tensorflow__ApiDef__Arg **from, size_t num_from) {
  for (size_t i = 0; i < num_from; i++) {
    Tensorflow__ApiDef__Arg *found = NULL;
    for (size_t k = 0; k < n && found == NULL; k++)
      found = strcmp(to[k]->name, from[i]->name) == 0 ? to[k] : NULL;
    if (found == NULL) {
      return WEFT_ERROR(FAILED_PRECONDITION, "Argument %s not defined in base api for %s", from[i]->name,
                        base->graph_op_name);
    }
    take_text(&found->rename_to, &from[i]->rename_to);
    take_text(&found->description, &from[i]->description);
  }
  return NULL;
}

static weft_status_t *merge_attrs(const api_def_t *base, const api_def_t *from) {
  for (size_t i = 0; i < from->n_attr; i++) {
    Tensorflow__ApiDef__Attr *found = NULL;
    for (size_t k = 0; k < base->n_attr && found == NULL; k++) {
      found = strcmp(base->attr[k]->name, from->attr[i]->name) == 0 ? base->attr[k] : NULL;
    }
    if (found == NULL) {
      return WEFT_ERROR(FAILED_PRECONDITION, "Attribute %s not defined in base api for %s",
                        from->attr[i]->name, base->graph_op_name);
    }
    take_text(&found->rename_to, &from->attr[i]->rename_to);
    take_text(&found->description, &from->attr[i]->description);
    if (from->attr[i]->default_value == NULL) continue;
    Tensorflow__AttrValue *old = found->default_value;
    found->default_value = from->attr[i]->default_value;
    from->attr[i]->default_value = old;
  }
  return NULL;
}

static weft_status_t *merge_order(api_def_t *base, api_def_t *from) {
  if (from->n_arg_order == 0) return NULL;
  if (from->n_arg_order != base->n_arg_order) {
    return WEFT_ERROR(FAILED_PRECONDITION, "Invalid number of arguments %zu for %s. Expected: %zu",
                      from->n_arg_order, base->graph_op_name, base->n_arg_order);
  }
  char **old = base->arg_order;
  base->arg_order = from->arg_order;
  from->arg_order = old;
  return NULL;
}

static weft_status_t *merge_descriptions(api_def_t *base, api_def_t *from) {
  take_text(&base->summary, &from->summary);
  take_text(&base->description, &from->description);
  if (!is_set(from->description_prefix) && !is_set(from->description_suffix)) return NULL;
  weft_strbuf_t text = WEFT_STRBUF_INIT;
  if (is_set(from->description_prefix))
    weft_strbuf_printf(&text, "%s%s", from->description_prefix, is_set(base->description) ? "\n" : "");
  weft_strbuf_puts(&text, base->description);
  if (is_set(from->description_suffix))
    weft_strbuf_printf(&text, "%s%s", text.length > 0 ? "\n" : "", from->description_suffix);
  char *whole = NULL;
  WEFT_RETURN_IF_ERROR(weft_strbuf_finish(&text, &whole, NULL));
  take_text(&base->description, &whole);
  if (whole != protobuf_c_empty_string) weft_free(whole);
  return NULL;
}

static weft_status_t *merge(api_def_t *base, api_def_t *from) {
  if (from->visibility != TENSORFLOW__API_DEF__VISIBILITY__DEFAULT_VISIBILITY)
    base->visibility = from->visibility;
  take_text(&base->deprecation_message, &from->deprecation_message);
  if (from->deprecation_version != 0) base->deprecation_version = from->deprecation_version;
  if (from->n_endpoint > 0) {
    Tensorflow__ApiDef__Endpoint **old = base->endpoint;
    size_t n = base->n_endpoint;
    base->endpoint = from->endpoint;
    base->n_endpoint = from->n_endpoint;
    from->endpoint = old;
    from->n_endpoint = n;
  }
  WEFT_RETURN_IF_ERROR(merge_args(base, base->in_arg, base->n_in_arg, from->in_arg, from->n_in_arg));
  WEFT_RETURN_IF_ERROR(merge_args(base, base->out_arg, base->n_out_arg, from->out_arg, from->n_out_arg));
  WEFT_RETURN_IF_ERROR(merge_order(base, from));
  WEFT_RETURN_IF_ERROR(merge_attrs(base, from));
  return merge_descriptions(base, from);
}

/* ---- multi-line strings ---- */

static weft_str_t next_line(weft_str_t *rest) {
  weft_str_t line = *rest, tail = WEFT_STR("");
  if (!weft_str_split(*rest, '\n', &line, &tail)) tail = WEFT_STR("");
  *rest = tail;
  return line;
}

static void write_quoted(weft_strbuf_t *out, weft_str_t text) {
  for (size_t i = 0; i < text.length; i++) {
    char c = text.data[i];
    if (c == '"' || c == '\\') weft_strbuf_putc(out, '\\');
    if (c != '\r') weft_strbuf_putc(out, c);
  }
}

/* "field: <<END", lines, "END" becomes a quoted string: an addition of TensorFlow's to the text format. */
static void join_lines(weft_str_t text, weft_strbuf_t *out) {
  while (text.length > 0) {
    weft_str_t line = next_line(&text);
    ptrdiff_t at = -1;
    for (size_t i = 0; i + 1 < line.length && at < 0; i++)
      at = memcmp(line.data + i, "<<", 2) == 0 ? (ptrdiff_t)i : -1;
    ptrdiff_t colon = weft_str_find(line, ':'), quote = weft_str_find(line, '"');
    if (at < 0 || colon < 0 || colon > at || (quote >= 0 && quote < at)) {
      weft_strbuf_append(out, line);
      weft_strbuf_putc(out, '\n');
      continue;
    }
    weft_str_t end = weft_str_of(line.data + at + 2, line.length - (size_t)at - 2);
    weft_strbuf_append(out, weft_str_of(line.data, (size_t)at));
    weft_strbuf_putc(out, '"');
    for (bool is_first = true; text.length > 0; is_first = false) {
      line = next_line(&text);
      if (line.length >= end.length && memcmp(line.data, end.data, end.length) == 0) {
        line = weft_str_of(line.data + end.length, line.length - end.length);
        break;
      }
      if (!is_first) weft_strbuf_puts(out, "\\n");
      write_quoted(out, line);
      line = WEFT_STR("");
    }
    weft_strbuf_putc(out, '"');
    weft_strbuf_append(out, line);
    weft_strbuf_putc(out, '\n');
  }
}

void TF_ApiDefMapPut(TF_ApiDefMap *api_def_map, const char *text, size_t text_len, TF_Status *status) {
  weft_strbuf_t joined = WEFT_STRBUF_INIT;
  ProtobufCMessage *m = NULL;
  join_lines(weft_str_of(text, text_len), &joined);
  weft_status_t *s = joined.failed ? no_memory() : NULL;
  if (s == NULL) {
    s = weft_text_parse(&tensorflow__api_defs__descriptor, weft_str_of(joined.data, joined.length), NULL, &m);
  }
  const Tensorflow__ApiDefs *defs = (const Tensorflow__ApiDefs *)(void *)m;
  for (size_t i = 0; s == NULL && i < defs->n_op; i++) {
    api_def_t *base = weft_map_get(&api_def_map->by_name, weft_str(defs->op[i]->graph_op_name));
    if (base != NULL) s = merge(base, defs->op[i]); /* texts may speak of ops that are not in the list */
  }
  weft_proto_free(m);
  weft_strbuf_deinit(&joined);
  weft_client_end(status, s);
}

TF_Buffer *TF_ApiDefMapGet(TF_ApiDefMap *api_def_map, const char *name, size_t name_len, TF_Status *status) {
  const api_def_t *d = weft_map_get(&api_def_map->by_name, weft_str_of(name, name_len));
  weft_strbuf_t text = WEFT_STRBUF_INIT;
  TF_Buffer *buffer = NULL;
  if (d == NULL) { /* as TensorFlow: no ApiDef and no failure */
    weft_client_end(status, NULL);
    return NULL;
  }
  weft_status_t *s = weft_proto_pack(&d->base, &text);
  if (s == NULL) s = weft_client_new_buffer(&text, &buffer);
  weft_strbuf_deinit(&text);
  return weft_client_end(status, s) ? buffer : NULL;
}
