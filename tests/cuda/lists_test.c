/* tests/cuda/lists_test.c - tensor lists whose elements lie in the GPU's memory, in the host's, or in both.
 *
 * Programs are drawn: a list goes through ops that read, write, join and cut it, each on the GPU or on the
 * CPU as it comes. All that they give must be what the same program gives on the CPU alone.
 */
#include <stdio.h>
#include <stdlib.h>

#include "tests/cuda/both.h"

enum { PROGRAMS = 30, OPS = 24, MAX_ITEMS = 6, MAX_FETCHES = 64, MAX_ROWS = 2 };

typedef struct list_value {
  TF_Output handle;
  int count;
} list_value_t;

/* A program on its way. The graphs for both devices are drawn with the same numbers. */
typedef struct list_program {
  world_t w;
  bool on_cpu;
  uint64_t random, places;
  int64_t width; /* elements are [1, width] */
  int num_nodes;
  list_value_t lists[OPS + 2];
  int num_lists;
  TF_Output fetches[MAX_FETCHES];
  int num_fetches;
} list_program_t;

static uint64_t next(uint64_t *state) { /* splitmix64 */
  uint64_t z = *state += 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}
static int draw(list_program_t *p, int n) { return (int)(next(&p->random) % (uint64_t)n); }

static const char *name(list_program_t *p, const char *op) {
  static char text[64];
  snprintf(text, sizeof text, "%s_%d", op, p->num_nodes++);
  return text;
}

static TF_Output ints(list_program_t *p, int n, const int32_t *values) { /* n < 0: a scalar */
  const int64_t dims[] = {n};
  return constant(&p->w, p->w.g, name(p, "ints"), new_ints(n < 0 ? 0 : 1, n < 0 ? NULL : dims, values));
}

static TF_OperationDescription *begin(list_program_t *p, const char *op) {
  TF_OperationDescription *d = TF_NewOperation(p->w.g, op, name(p, op));
  const bool on_gpu = next(&p->places) % 3 != 0;
  TF_SetDevice(d, on_gpu && !p->on_cpu ? "/device:GPU:0" : "/device:CPU:0");
  return d;
}

static TF_Operation *finish(list_program_t *p, TF_OperationDescription *d) {
  TF_Operation *op = TF_FinishOperation(d, p->w.s);
  ASSERT_OK(&p->w);
  return op;
}

static void keep(list_program_t *p, TF_Operation *op, int count) {
  p->lists[p->num_lists++] = (list_value_t){{op, 0}, count};
}
static void fetch(list_program_t *p, TF_Operation *op, int i) {
  p->fetches[p->num_fetches++] = (TF_Output){op, i};
}

/* Rows [rows, width] that are computed, on either device. */
static TF_Output rows(list_program_t *p, int num) {
  const int64_t dims[] = {num, p->width};
  const TF_Output x =
      constant(&p->w, p->w.g, name(p, "value"), weft_both_values(TF_FLOAT, 2, dims, p->num_nodes));
  TF_OperationDescription *d = begin(p, "Neg");
  TF_AddInput(d, x);
  return (TF_Output){finish(p, d), 0};
}

static TF_Output shape_of_items(list_program_t *p) {
  const int32_t dims[] = {1, (int32_t)p->width};
  return ints(p, 2, dims);
}
static TF_Output shape_of_rows(list_program_t *p) {
  const int32_t dims[] = {-1, (int32_t)p->width};
  return ints(p, 2, dims);
}

/* ---- ops ---- */

static void set_item(list_program_t *p, list_value_t l) {
  const int32_t at = draw(p, l.count);
  const TF_Output index = ints(p, -1, &at), item = rows(p, 1);
  TF_OperationDescription *d = begin(p, "TensorListSetItem");
  TF_AddInput(d, l.handle);
  TF_AddInput(d, index);
  TF_AddInput(d, item);
  keep(p, finish(p, d), l.count);
}

static void push(list_program_t *p, list_value_t l) {
  const TF_Output item = rows(p, 1);
  TF_OperationDescription *d = begin(p, "TensorListPushBack");
  TF_AddInput(d, l.handle);
  TF_AddInput(d, item);
  keep(p, finish(p, d), l.count + 1);
}

static void pop(list_program_t *p, list_value_t l) {
  const TF_Output shape = shape_of_items(p);
  TF_OperationDescription *d = begin(p, "TensorListPopBack");
  TF_AddInput(d, l.handle);
  TF_AddInput(d, shape);
  TF_SetAttrType(d, "element_dtype", TF_FLOAT);
  TF_Operation *op = finish(p, d);
  keep(p, op, l.count - 1);
  fetch(p, op, 1);
}

static void get_item(list_program_t *p, list_value_t l) {
  const int32_t at = draw(p, l.count);
  const TF_Output index = ints(p, -1, &at), shape = shape_of_items(p);
  TF_OperationDescription *d = begin(p, "TensorListGetItem");
  TF_AddInput(d, l.handle);
  TF_AddInput(d, index);
  TF_AddInput(d, shape);
  TF_SetAttrType(d, "element_dtype", TF_FLOAT);
  fetch(p, finish(p, d), 0);
}

static void stack(list_program_t *p, list_value_t l) {
  const TF_Output shape = shape_of_items(p);
  TF_OperationDescription *d = begin(p, "TensorListStack");
  TF_AddInput(d, l.handle);
  TF_AddInput(d, shape);
  TF_SetAttrType(d, "element_dtype", TF_FLOAT);
  fetch(p, finish(p, d), 0);
}

static void gather(list_program_t *p, list_value_t l) {
  int32_t at[3];
  for (int i = 0; i < 3; i++) at[i] = draw(p, l.count);
  const TF_Output indices = ints(p, 3, at), shape = shape_of_items(p);
  TF_OperationDescription *d = begin(p, "TensorListGather");
  TF_AddInput(d, l.handle);
  TF_AddInput(d, indices);
  TF_AddInput(d, shape);
  TF_SetAttrType(d, "element_dtype", TF_FLOAT);
  fetch(p, finish(p, d), 0);
}

static void concat(list_program_t *p, list_value_t l) {
  const int64_t none[] = {0};
  const TF_Output shape = shape_of_items(p);
  const TF_Output leading =
      constant(&p->w, p->w.g, name(p, "leading"), TF_AllocateTensor(TF_INT64, none, 1, 0));
  TF_OperationDescription *d = begin(p, "TensorListConcatV2");
  TF_AddInput(d, l.handle);
  TF_AddInput(d, shape);
  TF_AddInput(d, leading);
  TF_SetAttrType(d, "element_dtype", TF_FLOAT);
  fetch(p, finish(p, d), 0);
}

static void from_tensor(list_program_t *p, list_value_t l) {
  const int num = 1 + draw(p, MAX_ITEMS);
  const TF_Output x = rows(p, num);
  const int32_t shape3[] = {num, 1, (int32_t)p->width};
  const TF_Output cut = ints(p, 3, shape3), shape = shape_of_items(p);
  (void)l;
  TF_OperationDescription *d = begin(p, "Reshape");
  TF_AddInput(d, x);
  TF_AddInput(d, cut);
  const TF_Output reshaped = {finish(p, d), 0};
  d = begin(p, "TensorListFromTensor");
  TF_AddInput(d, reshaped);
  TF_AddInput(d, shape);
  keep(p, finish(p, d), num);
}

static void split(list_program_t *p, list_value_t l) {
  const int num = 1 + draw(p, MAX_ITEMS);
  const int64_t dims[] = {num};
  const TF_Output x = rows(p, num), shape = shape_of_rows(p);
  TF_Tensor *t = TF_AllocateTensor(TF_INT64, dims, 1, (size_t)num * sizeof(int64_t));
  for (int i = 0; i < num; i++) ((int64_t *)TF_TensorData(t))[i] = 1;
  const TF_Output lengths = constant(&p->w, p->w.g, name(p, "lengths"), t);
  (void)l;
  TF_OperationDescription *d = begin(p, "TensorListSplit");
  TF_AddInput(d, x);
  TF_AddInput(d, shape);
  TF_AddInput(d, lengths);
  keep(p, finish(p, d), num);
}

static void resize(list_program_t *p, list_value_t l) {
  const int32_t size = 1 + draw(p, MAX_ITEMS);
  const TF_Output to = ints(p, -1, &size);
  TF_OperationDescription *d = begin(p, "TensorListResize");
  TF_AddInput(d, l.handle);
  TF_AddInput(d, to);
  keep(p, finish(p, d), size);
}

static void zeros_like(list_program_t *p, list_value_t l) {
  TF_OperationDescription *d = TF_NewOperation(p->w.g, "ZerosLike", name(p, "ZerosLike"));
  TF_AddInput(d, l.handle);
  TF_SetDevice(d, "/device:CPU:0"); /* it has no other kernel */
  keep(p, finish(p, d), l.count);
}

/* With another list of as many elements; with itself if there is none. */
static void add(list_program_t *p, list_value_t l) {
  TF_Output operands[2] = {l.handle, l.handle};
  for (int i = 0; i < p->num_lists; i++) {
    if (p->lists[i].count == l.count) operands[1] = p->lists[i].handle;
    if (p->lists[i].count == l.count && draw(p, 2) == 0) break;
  }
  TF_OperationDescription *d = begin(p, "AddN");
  TF_AddInputList(d, operands, 2);
  keep(p, finish(p, d), l.count);
}

typedef void list_op_fn(list_program_t *p, list_value_t l);
static list_op_fn *const list_ops[] = {set_item, set_item, push,  pop,    get_item,   stack,       gather,
                                       concat,   add,      split, resize, zeros_like, from_tensor, add};
enum { NUM_LIST_OPS = sizeof list_ops / sizeof *list_ops };

static void build(list_program_t *p, int seed, bool on_cpu) {
  *p = (list_program_t){.on_cpu = on_cpu,
                        .random = (uint64_t)seed,
                        .places = (uint64_t)seed + 1000,
                        .width = seed % 2 == 0 ? 64 : 5}; /* elements that are aligned, and that are not */
  world_open(&p->w);
  const int32_t n = 3;
  const TF_Output shape = shape_of_rows(p), num = ints(p, -1, &n);
  TF_OperationDescription *d = begin(p, "TensorListReserve");
  TF_AddInput(d, shape);
  TF_AddInput(d, num);
  TF_SetAttrType(d, "element_dtype", TF_FLOAT);
  keep(p, finish(p, d), n);
  for (int i = 0; i < OPS; i++) {
    const list_value_t l = p->lists[draw(p, 3) == 0 ? draw(p, p->num_lists) : p->num_lists - 1];
    list_op_fn *op = list_ops[draw(p, NUM_LIST_OPS)];
    if (l.count == 0 || (op == pop && l.count == 1)) op = push;
    op(p, l);
  }
  stack(p, p->lists[p->num_lists - 1]);
}

static void run_program(list_program_t *p, TF_Tensor **out) {
  run(&p->w, NULL, NULL, 0, p->fetches, out, p->num_fetches);
  if (TF_GetCode(p->w.s) != TF_OK) fprintf(stderr, "%s\n", TF_Message(p->w.s));
  ASSERT_OK(&p->w);
}

static void programs_give_what_the_cpu_gives(void) {
  for (int seed = 0; seed < PROGRAMS; seed++) {
    list_program_t mixed, host;
    TF_Tensor *a[MAX_FETCHES] = {NULL}, *b[MAX_FETCHES] = {NULL};
    build(&mixed, seed, false);
    build(&host, seed, true);
    CU_ASSERT_EQUAL_FATAL(mixed.num_fetches, host.num_fetches);
    run_program(&host, b);
    for (int step = 0; step < 3; step++) {
      run_program(&mixed, a);
      for (int i = 0; i < mixed.num_fetches; i++) {
        const bool is_same = TF_TensorByteSize(a[i]) == TF_TensorByteSize(b[i]) &&
                             memcmp(TF_TensorData(a[i]), TF_TensorData(b[i]), TF_TensorByteSize(a[i])) == 0;
        if (!is_same) fprintf(stderr, "program %d: %s\n", seed, TF_OperationName(mixed.fetches[i].oper));
        CU_ASSERT(is_same);
        TF_DeleteTensor(a[i]);
      }
    }
    for (int i = 0; i < host.num_fetches; i++) TF_DeleteTensor(b[i]);
    world_close(&mixed.w);
    world_close(&host.w);
  }
}

static const CU_TestInfo tests[] = {
    {"programs give what the CPU gives", programs_give_what_the_cpu_gives},
    CU_TEST_INFO_NULL,
};

int main(void) {
  weft_both_emulate();
  return weft_run_tests("tensor lists on a GPU", tests);
}
