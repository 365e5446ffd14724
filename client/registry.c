/* client/registry.c - which ops and kernels there are. */
#include "client/buffer.h"
#include "client/status.h"
#include "graph/graph_proto.h"
#include "kernels/kernel.h"
#include "protos/wire.h"
#include "tensorflow/c/c_api.h"
#include "weft/version.h"

/* The release whose ops, protocol and interface this library has. */
const char *TF_Version(void) { return "2.19.1"; }

const char *WEFT_Version(void) { return WEFT_VERSION; }

TF_Buffer *TF_GetAllOpList(void) {
  weft_strbuf_t text = WEFT_STRBUF_INIT;
  TF_Buffer *buffer = NULL;
  weft_status_t *s = NULL;
  int n = 0;
  const weft_op_def_t *const *ops = weft_op_list(&n);
  for (int i = 0; i < n && s == NULL; i++) {
    size_t mark = weft_wire_begin(&text, 1);
    s = weft_op_def_to_proto(ops[i], &text);
    weft_wire_end(&text, mark);
  }
  if (s == NULL) s = weft_client_new_buffer(&text, &buffer);
  weft_strbuf_deinit(&text);
  weft_status_free(s); /* the interface has no other answer than NULL */
  return buffer;
}

static void write_constraint(const char *attr, weft_dtype_set_t types, weft_strbuf_t *out) {
  if (attr == NULL || types == WEFT_SET_ALL) return;
  size_t constraint = weft_wire_begin(out, 3);
  weft_wire_put_text(out, 1, attr);
  size_t value = weft_wire_begin(out, 2), list = weft_wire_begin(out, 1), packed = weft_wire_begin(out, 6);
  for (int dtype = 1; dtype < WEFT_DTYPE_COUNT; dtype++) {
    if ((types & WEFT_DTYPE_BIT(dtype)) != 0) weft_wire_add_raw_varint(out, (uint64_t)dtype);
  }
  weft_wire_end(out, packed);
  weft_wire_end(out, list);
  weft_wire_end(out, value);
  weft_wire_end(out, constraint);
}

static void write_kernels(const weft_kernel_table_t *table, const char *op, weft_strbuf_t *out) {
  for (int i = 0; table->families[i] != NULL; i++) {
    for (const weft_kernel_t *k = table->families[i]; k->op != NULL; k++) {
      if (op != NULL && strcmp(op, k->op) != 0) continue;
      size_t mark = weft_wire_begin(out, 1);
      weft_wire_put_text(out, 1, k->op);
      weft_wire_put_text(out, 2, table->device_type);
      write_constraint(k->type_attr, k->types, out);
      write_constraint(k->type_attr2, k->types2, out);
      weft_wire_end(out, mark);
    }
  }
}

static TF_Buffer *list_kernels(const char *op, TF_Status *status) {
  weft_strbuf_t text = WEFT_STRBUF_INIT;
  TF_Buffer *buffer = NULL;
  for (int i = 0; weft_kernel_table_at(i) != NULL; i++) write_kernels(weft_kernel_table_at(i), op, &text);
  return weft_client_end(status, weft_client_new_buffer(&text, &buffer)) ? buffer : NULL;
}

TF_Buffer *TF_GetAllRegisteredKernels(TF_Status *status) { return list_kernels(NULL, status); }
TF_Buffer *TF_GetRegisteredKernelsForOp(const char *name, TF_Status *status) {
  return list_kernels(name, status);
}
