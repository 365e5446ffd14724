/* tests/device/update_graphs.c - graphs with updates of variables. */
#define _GNU_SOURCE /* memmem */
#include "tests/device/update_graphs.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

const rule_t rules[] = {{"GradientDescent", "vsg"},
                        {"Momentum", "vvsgs"},
                        {"Adam", "vvvssssssg"},
                        {"AssignAdd", "vg"},
                        {"AssignSub", "vg"}};

uint32_t draw(uint64_t *seed, uint32_t below) {
  *seed = *seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return (uint32_t)(*seed >> 33) % below;
}

TF_Output finish(update_graph_t *u, TF_OperationDescription *d, const char *on) {
  TF_SetDevice(d, on);
  TF_Operation *o = TF_FinishOperation(d, u->w.s);
  ASSERT_OK(&u->w);
  return (TF_Output){o, 0};
}

static TF_Output cast(update_graph_t *u, TF_Output x, TF_DataType to, const char *on) {
  char name[32];
  if (TF_OperationOutputType(x) == to) return x;
  snprintf(name, sizeof name, "cast%d", u->num_values++);
  TF_OperationDescription *d = TF_NewOperation(u->w.g, "Cast", name);
  TF_AddInput(d, x);
  TF_SetAttrType(d, "DstT", to);
  return finish(u, d, on);
}

TF_Output value(update_graph_t *u, TF_DataType type, int64_t n, float middle, uint64_t *seed) {
  char name[32];
  const int64_t count = n < 0 ? 1 : n;
  float *v = malloc((size_t)(count + 1) * sizeof *v);
  for (int64_t i = 0; i < count; i++) v[i] = middle * (1 + (float)draw(seed, 1024) / 2048);
  TF_Tensor *t = n < 0 ? new_float(v[0]) : new_floats(1, &n, v);
  free(v);
  snprintf(name, sizeof name, "value%d", u->num_values++);
  return cast(u, constant(&u->w, u->w.g, name, t), type, "/device:CPU:0");
}

static TF_Output add_variable(update_graph_t *u, drawn_update_t *x, const char *name, bool is_ref,
                              TF_Output first, int64_t n) {
  char text[96];
  TF_OperationDescription *d = TF_NewOperation(u->w.g, is_ref ? "VariableV2" : "VarHandleOp", name);
  TF_SetAttrType(d, "dtype", TF_OperationOutputType(first));
  const bool is_hidden = u->hides_shapes && !is_ref;
  TF_SetAttrShape(d, "shape", is_hidden ? NULL : &n, is_hidden ? -1 : 1);
  const TF_Output var = finish(u, d, u->device);
  snprintf(text, sizeof text, "%s/init", name);
  d = TF_NewOperation(u->w.g, is_ref ? "Assign" : "AssignVariableOp", text);
  TF_AddInput(d, var);
  TF_AddInput(d, first);
  x->inits[x->num_vars] = finish(u, d, u->device).oper;
  snprintf(text, sizeof text, "%s/read", name);
  d = TF_NewOperation(u->w.g, is_ref ? "Identity" : "ReadVariableOp", text);
  TF_AddInput(d, var);
  if (!is_ref) TF_SetAttrType(d, "dtype", TF_OperationOutputType(first));
  x->reads[x->num_vars++] = cast(u, finish(u, d, u->device), TF_DOUBLE, "/device:CPU:0");
  return var;
}

drawn_update_t *add_update(update_graph_t *u, const update_plan_t *p, uint64_t *seed) {
  drawn_update_t *x = &u->updates[u->n];
  char name[64], op[64];
  TF_Output inputs[MAX_INPUTS];
  int num_inputs = 0, scalar = 0;
  *x = (drawn_update_t){.is_short = p->type == TF_HALF || p->type == TF_BFLOAT16};
  for (const char *kind = p->rule->inputs; *kind != '\0'; kind++) {
    TF_Output in = none;
    if (*kind == 'v') {
      snprintf(name, sizeof name, "v%d_%d", u->n, x->num_vars);
      in = add_variable(u, x, name, p->is_ref, value(u, p->type, p->n, 0.5f, seed), p->n);
    } else if (*kind == 's') {
      in = p->scalars[scalar++];
      if (in.oper == NULL) in = value(u, p->type, -1, 0.25f, seed);
    } else {
      in = p->gradient.oper != NULL ? p->gradient : value(u, p->type, p->n, 0.125f, seed);
    }
    inputs[num_inputs++] = in;
  }
  const bool is_assign = p->rule->inputs[1] == 'g';
  snprintf(op, sizeof op, "%s%s%s",
           is_assign   ? ""
           : p->is_ref ? "Apply"
                       : "ResourceApply",
           p->rule->name, is_assign && !p->is_ref ? "VariableOp" : "");
  snprintf(name, sizeof name, "update%d", u->n++);
  TF_OperationDescription *d = TF_NewOperation(u->w.g, op, name);
  for (int i = 0; i < num_inputs; i++) TF_AddInput(d, inputs[i]);
  if (p->behind != NULL) TF_AddControlInput(d, p->behind);
  x->op = finish(u, d, u->device).oper;
  return x;
}

void open_graph(update_graph_t *u, const char *on) {
  *u = (update_graph_t){.device = on};
  world_open(&u->w);
}

void run_targets(update_graph_t *u, const TF_Operation *const *targets, int n) {
  if (u->w.session == NULL) {
    TF_SessionOptions *o = TF_NewSessionOptions();
    u->w.session = TF_NewSession(u->w.g, o, u->w.s);
    ASSERT_OK(&u->w);
    TF_DeleteSessionOptions(o);
  }
  TF_SessionRun(u->w.session, NULL, NULL, NULL, 0, NULL, NULL, 0, targets, n, NULL, u->w.s);
}

void initialize(update_graph_t *u) {
  for (int i = 0; i < u->n; i++) {
    run_targets(u, (const TF_Operation *const *)u->updates[i].inits, u->updates[i].num_vars);
    ASSERT_OK(&u->w);
  }
}

void update_all(update_graph_t *u) {
  const TF_Operation *targets[MAX_UPDATES];
  for (int i = 0; i < u->n; i++) targets[i] = u->updates[i].op;
  run_targets(u, targets, u->n);
}

int num_different(update_graph_t *a, update_graph_t *b, bool to_the_bit) {
  int wrong = 0;
  for (int i = 0; i < a->n; i++) {
    const double tolerance = to_the_bit ? 0 : a->updates[i].is_short ? 0.02 : 1e-5;
    for (int k = 0; k < a->updates[i].num_vars; k++) {
      TF_Tensor *x = run1(&a->w, none, NULL, a->updates[i].reads[k]),
                *y = run1(&b->w, none, NULL, b->updates[i].reads[k]);
      ASSERT_OK(&a->w);
      ASSERT_OK(&b->w);
      CU_ASSERT_EQUAL_FATAL(TF_TensorElementCount(x), TF_TensorElementCount(y));
      const double *p = TF_TensorData(x), *q = TF_TensorData(y);
      for (int64_t e = 0; e < TF_TensorElementCount(x); e++)
        wrong += !(fabs(p[e] - q[e]) <= tolerance * (1 + fabs(q[e])));
      TF_DeleteTensor(x);
      TF_DeleteTensor(y);
    }
  }
  return wrong;
}

TF_Output behind(update_graph_t *u, TF_Output gradient, const drawn_update_t *after) {
  char name[32];
  snprintf(name, sizeof name, "again%d", u->num_values++);
  TF_OperationDescription *d = TF_NewOperation(u->w.g, "Identity", name);
  TF_AddInput(d, gradient);
  TF_AddControlInput(d, after->op);
  return finish(u, d, u->device);
}

bool runs_together(update_graph_t *u) {
  const char full_trace[] = {0x08, 0x03}; /* RunOptions.trace_level = FULL_TRACE */
  const TF_Operation *targets[MAX_UPDATES];
  TF_Buffer *options = TF_NewBufferFromString(full_trace, sizeof full_trace), *metadata = TF_NewBuffer();
  for (int i = 0; i < u->n; i++) targets[i] = u->updates[i].op;
  TF_SessionRun(u->w.session, options, NULL, NULL, 0, NULL, NULL, 0, targets, u->n, metadata, u->w.s);
  ASSERT_OK(&u->w);
  const bool does = memmem(metadata->data, metadata->length, "_WeftUpdates", 12) != NULL;
  TF_DeleteBuffer(options);
  TF_DeleteBuffer(metadata);
  return does;
}

void names_update(const update_graph_t *u, const char *message, int update) {
  for (int i = 0; i < u->n; i++) {
    char text[32];
    snprintf(text, sizeof text, "{{node update%d}}", i);
    CU_ASSERT_EQUAL(strstr(message, text) != NULL, i == update);
  }
}
