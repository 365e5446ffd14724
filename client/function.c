/* client/function.c - function objects: in and out of graphs, their attributes. */
#include "client/function.h"

#include "base/alloc.h"
#include "client/buffer.h"
#include "client/graph.h"
#include "client/status.h"
#include "graph/function.h"
#include "graph/graph_proto.h"
#include "protos/wire.h"

enum { FIELD_SIGNATURE = 1, FIELD_ATTR = 5 }; /* of FunctionDef */

static weft_status_t *no_memory(void) { return WEFT_NO_MEMORY("a function"); }

static weft_str_t last_field(weft_str_t message, uint32_t field) {
  weft_wire_reader_t r = weft_wire_reader(message);
  weft_wire_field_t f;
  weft_str_t found = WEFT_STR("");
  while (weft_wire_next(&r, &f)) {
    if (f.tag == WEFT_WIRE_TAG(field, WEFT_WIRE_BYTES)) found = f.bytes;
  }
  return found;
}

weft_status_t *weft_client_function_new(weft_strbuf_t *def, TF_Function **out) {
  if (def->failed) return no_memory();
  weft_str_t bytes = weft_str_of(def->data, def->length), name = WEFT_STR("");
  bool is_message = weft_wire_is_message(bytes);
  if (is_message) {
    weft_str_t signature = last_field(bytes, FIELD_SIGNATURE);
    is_message = weft_wire_is_message(signature);
    if (is_message) name = last_field(signature, 1);
  }
  if (!is_message)
    return WEFT_ERROR(INVALID_ARGUMENT, "Invalid FunctionDef given to TF_FunctionImportFunctionDef");
  TF_Function *f = weft_calloc(1, sizeof *f);
  if (f == NULL) return no_memory();
  f->name = weft_strndup(name.data, name.length);
  weft_status_t *s = f->name == NULL ? no_memory() : weft_strbuf_finish(def, &f->def, &f->def_bytes);
  if (s != NULL) {
    TF_DeleteFunction(f);
    return s;
  }
  *out = f;
  return NULL;
}

void TF_DeleteFunction(TF_Function *func) {
  if (func == NULL) return;
  weft_free(func->name);
  weft_free(func->def);
  weft_free(func);
}

const char *TF_FunctionName(TF_Function *func) { return func->name; }

void TF_FunctionToFunctionDef(TF_Function *func, TF_Buffer *output_func_def, TF_Status *status) {
  weft_strbuf_t text = WEFT_STRBUF_INIT;
  weft_strbuf_append(&text, weft_str_of(func->def, func->def_bytes));
  weft_client_end(status, weft_client_fill(output_func_def, &text));
}

static weft_status_t *from_bytes(weft_str_t bytes, TF_Function **out) {
  weft_strbuf_t text = WEFT_STRBUF_INIT;
  weft_strbuf_append(&text, bytes);
  weft_status_t *s = weft_client_function_new(&text, out);
  weft_strbuf_deinit(&text);
  return s;
}

TF_Function *TF_FunctionImportFunctionDef(const void *proto, size_t proto_len, TF_Status *status) {
  TF_Function *f = NULL;
  return weft_client_end(status, from_bytes(weft_str_of(proto, proto_len), &f)) ? f : NULL;
}

/* ---- attributes ---- */

/* The value of an entry of FunctionDef.attr if it is the one called `name`; lent. */
static bool is_attr(const weft_wire_field_t *f, const char *name, weft_str_t *out_value) {
  if (f->tag != WEFT_WIRE_TAG(FIELD_ATTR, WEFT_WIRE_BYTES) || !weft_str_is(last_field(f->bytes, 1), name))
    return false;
  *out_value = last_field(f->bytes, 2);
  return true;
}

void TF_FunctionSetAttrValueProto(TF_Function *func, const char *attr_name, const void *proto,
                                  size_t proto_len, TF_Status *status) {
  weft_str_t value = weft_str_of(proto, proto_len), old;
  weft_strbuf_t text = WEFT_STRBUF_INIT;
  weft_status_t *s = NULL;
  if (!weft_wire_is_message(value)) {
    weft_client_end(status, WEFT_ERROR(INVALID_ARGUMENT,
                                       "Unparseable AttrValue proto passed to TF_FunctionSetAttrValueProto"));
    return;
  }
  weft_wire_reader_t r = weft_wire_reader(weft_str_of(func->def, func->def_bytes));
  weft_wire_field_t f;
  for (const uint8_t *begin = r.p; weft_wire_next(&r, &f); begin = r.p) {
    if (!is_attr(&f, attr_name, &old))
      weft_strbuf_append(&text, weft_str_of((const char *)begin, (size_t)(r.p - begin)));
  }
  size_t mark = weft_wire_begin(&text, FIELD_ATTR);
  weft_wire_put_text(&text, 1, attr_name);
  weft_wire_add_bytes(&text, 2, value);
  weft_wire_end(&text, mark);
  char *def = NULL;
  size_t bytes = 0;
  s = weft_strbuf_finish(&text, &def, &bytes);
  weft_strbuf_deinit(&text);
  if (!weft_client_end(status, s)) return;
  weft_free(func->def);
  func->def = def;
  func->def_bytes = bytes;
}

void TF_FunctionGetAttrValueProto(TF_Function *func, const char *attr_name, TF_Buffer *output_attr_value,
                                  TF_Status *status) {
  weft_str_t value = {NULL, 0};
  weft_wire_reader_t r = weft_wire_reader(weft_str_of(func->def, func->def_bytes));
  weft_wire_field_t f;
  bool is_there = false;
  while (weft_wire_next(&r, &f)) is_there |= is_attr(&f, attr_name, &value);
  weft_strbuf_t text = WEFT_STRBUF_INIT;
  weft_strbuf_append(&text, value);
  weft_status_t *s =
      is_there ? weft_client_fill(output_attr_value, &text)
               : WEFT_ERROR(INVALID_ARGUMENT, "Function '%s' has no attr named '%s'.", func->name, attr_name);
  weft_strbuf_deinit(&text);
  weft_client_end(status, s);
}

/* ---- graphs ---- */

static weft_status_t *set_gradient(weft_function_library_t *l, const TF_Function *func,
                                   const TF_Function *grad) {
  const weft_str_t *known = weft_map_get(&l->gradients, weft_str(func->name));
  if (known != NULL) {
    weft_str_t name = last_field(*known, 2);
    if (weft_str_is(name, grad->name)) return NULL;
    return WEFT_ERROR(
        INVALID_ARGUMENT,
        "Cannot assign gradient function '%s' to '%s' because it already has gradient function '%.*s'",
        grad->name, func->name, WEFT_STR_ARGS(name));
  }
  weft_strbuf_t text = WEFT_STRBUF_INIT;
  weft_wire_put_text(&text, 1, func->name);
  weft_wire_put_text(&text, 2, grad->name);
  weft_status_t *s =
      text.failed ? no_memory() : weft_function_add_gradient(l, weft_str_of(text.data, text.length));
  weft_strbuf_deinit(&text);
  return s;
}

void TF_GraphCopyFunction(TF_Graph *g, const TF_Function *func, const TF_Function *grad, TF_Status *status) {
  if (func == NULL) {
    weft_client_end(status,
                    WEFT_ERROR(INVALID_ARGUMENT, "'func' argument to TF_GraphCopyFunction cannot be null"));
    return;
  }
  weft_mutex_lock(&g->mu);
  weft_function_library_t *l = g->graph->library;
  weft_status_t *s = weft_function_add(l, weft_str_of(func->def, func->def_bytes));
  if (s == NULL && grad != NULL) s = weft_function_add(l, weft_str_of(grad->def, grad->def_bytes));
  if (s == NULL && grad != NULL) s = set_gradient(l, func, grad);
  weft_client_note_functions_locked(g);
  weft_mutex_unlock(&g->mu);
  weft_client_end(status, s);
}

int TF_GraphNumFunctions(TF_Graph *g) {
  weft_mutex_lock(&g->mu);
  int n = (int)g->graph->library->by_name.count;
  weft_mutex_unlock(&g->mu);
  return n;
}

int TF_GraphGetFunctions(TF_Graph *g, TF_Function **funcs, int max_func, TF_Status *status) {
  int n = 0;
  weft_status_t *s = NULL;
  weft_map_entry_t e;
  weft_mutex_lock(&g->mu);
  for (size_t at = 0; s == NULL && n < max_func && weft_map_next(&g->graph->library->by_name, &at, &e);) {
    s = from_bytes(((const weft_function_t *)e.value)->def, &funcs[n]);
    if (s == NULL) n++;
  }
  weft_mutex_unlock(&g->mu);
  if (weft_client_end(status, s)) return n;
  while (n > 0) TF_DeleteFunction(funcs[--n]);
  return 0;
}
