/* tests/kernels/table_check_test.c - all tables of kernels agree with the op table, and the check that says
 * so finds what it should: each fault is planted in a table of its own. */
#include "tests/kernels/table_check.h"

#include <stdio.h>
#include <stdlib.h>

#include "kernels/attrs.h"
#include "tests/runner.h"

static weft_bench_t bench;

/* ---- the tables that there are ---- */

static void every_table_agrees_with_the_op_table(void) {
  weft_strbuf_t faults = WEFT_STRBUF_INIT;
  int tables = 0, n = 0;
  for (; weft_kernel_table_at(tables) != NULL; tables++)
    n += weft_table_check(weft_kernel_table_at(tables), bench.device, &faults);
  if (n > 0) fprintf(stderr, "%s", faults.data);
  CU_ASSERT_EQUAL(n, 0);
  CU_ASSERT_TRUE(tables > 0);
  weft_strbuf_deinit(&faults);
}

/* ---- planted faults ---- */

static weft_status_t *compute(weft_kernel_ctx_t *c) {
  (void)c;
  return NULL;
}

static weft_status_t *reads_misspelt(const weft_kernel_setup_t *n, void **out) {
  (void)out;
  (void)weft_knode_bool(n, "transpose_c");
  return NULL;
}

static weft_status_t *reads_other_kind(const weft_kernel_setup_t *n, void **out) {
  (void)out;
  (void)weft_knode_int(n, "transpose_a");
  return NULL;
}

static weft_status_t *reads_optional(const weft_kernel_setup_t *n, void **out) {
  (void)out;
  (void)weft_knode_int_or(n, "batch_dimz", 0);
  return NULL;
}

static weft_status_t *fails(const weft_kernel_setup_t *n, void **out) {
  (void)n;
  (void)out;
  return WEFT_ERROR(INTERNAL, "the row is wrong");
}

/* Only a true transpose_b leads to the fault. */
static weft_status_t *reads_sometimes(const weft_kernel_setup_t *n, void **out) {
  (void)out;
  if (weft_knode_bool(n, "transpose_b")) (void)weft_knode_bool(n, "tranpose_a");
  return NULL;
}

/* The table of `rows` has the fault that `line` tells, and no other; NULL: none. */
static void expect_fault(const weft_kernel_t *rows, const char *line) {
  const weft_kernel_t *const families[] = {rows, NULL};
  const weft_kernel_table_t table = {.device_type = "CPU", .families = families};
  weft_strbuf_t faults = WEFT_STRBUF_INIT;
  int n = weft_table_check(&table, bench.device, &faults);
  CU_ASSERT_EQUAL(n, line == NULL ? 0 : 1);
  CU_ASSERT_STRING_EQUAL(faults.data == NULL ? "" : faults.data, line == NULL ? "" : line);
  weft_strbuf_deinit(&faults);
}

#define ROW(op_, types_, prepare_) \
  { .op = op_, .type_attr = "T", .types = types_, .prepare = prepare_, .compute = compute }
#define F32 WEFT_DTYPE_BIT(WEFT_F32)
#define F64 WEFT_DTYPE_BIT(WEFT_F64)
#define I32 WEFT_DTYPE_BIT(WEFT_I32)

static void a_sound_table_has_no_fault(void) {
  const weft_kernel_t rows[] = {ROW("Erf", F32, NULL), ROW("Erf", F64, NULL), ROW("MatMul", F32, NULL), {0}};
  expect_fault(rows, NULL);
}

static void a_kernel_without_a_record_is_found(void) {
  const weft_kernel_t rows[] = {ROW("Eff", F32, NULL), {0}};
  expect_fault(rows, "Eff: the op table has no such op\n");
}

static void a_dtype_that_the_op_does_not_allow_is_found(void) {
  const weft_kernel_t rows[] = {ROW("Erf", F32 | I32, NULL), {0}};
  expect_fault(rows, "Erf: the op does not allow int32\n");
}

static void a_type_attribute_that_the_op_lacks_is_found(void) {
  const weft_kernel_t rows[] = {{.op = "Erf", .type_attr = "U", .types = F32, .compute = compute}, {0}};
  expect_fault(rows, "Erf: the record has no type attribute U\n");
}

static void the_same_op_twice_for_a_dtype_is_found(void) {
  const weft_kernel_t rows[] = {ROW("Erf", F32, NULL), ROW("Erf", F64 | F32, NULL), {0}};
  expect_fault(rows, "Erf: is in the table twice for a dtype\n");
}

static void a_kernel_that_computes_nothing_is_found(void) {
  const weft_kernel_t rows[] = {{.op = "Erf", .type_attr = "T", .types = F32}, {0}};
  expect_fault(rows, "Erf: needs compute or compute_async\n");
}

static void a_misspelt_attribute_is_found(void) {
  const weft_kernel_t rows[] = {ROW("MatMul", F32, reads_misspelt), {0}};
  expect_fault(rows, "MatMul: prepare reads an attribute that the record lacks: transpose_c\n");
}

static void an_attribute_of_another_kind_is_found(void) {
  const weft_kernel_t rows[] = {ROW("MatMul", F32, reads_other_kind), {0}};
  expect_fault(rows,
               "MatMul: prepare reads an attribute that is of another kind in the record: transpose_a\n");
}

static void a_misspelt_attribute_behind_another_is_found(void) {
  const weft_kernel_t rows[] = {ROW("MatMul", F32, reads_sometimes), {0}};
  expect_fault(rows, "MatMul: prepare reads an attribute that the record lacks: tranpose_a\n");
}

static void a_misspelt_attribute_of_some_ops_is_found(void) {
  const weft_kernel_t rows[] = {ROW("MatMul", F32, reads_optional), ROW("Erf", F32, reads_optional), {0}};
  expect_fault(rows, "MatMul: no op of its family has an attribute that prepare reads: batch_dimz\n");
}

static void a_row_that_its_prepare_refuses_is_found(void) {
  const weft_kernel_t rows[] = {ROW("MatMul", F32, fails), {0}};
  expect_fault(rows, "MatMul: prepare fails: the row is wrong\n");
}

/* A compute function's own attributes: what a row for another op lacks, or has with another kind. */
WEFT_ATTRS(needs_list, (BOOL, transpose_a), (INTS, squeeze_dims))
static weft_status_t *needs_list(weft_kernel_ctx_t *c, const needs_list_attrs_t *attrs) {
  (void)c;
  return attrs->transpose_a && attrs->squeeze_dims->n > 0 ? NULL : WEFT_ERROR(INTERNAL, "unused");
}

WEFT_ATTRS(needs_int, (INT, transpose_a))
static weft_status_t *needs_int(weft_kernel_ctx_t *c, const needs_int_attrs_t *attrs) {
  (void)c;
  return attrs->transpose_a > 0 ? NULL : WEFT_ERROR(INTERNAL, "unused");
}

WEFT_ATTRS(needs_bools, (BOOL, transpose_a), (BOOL, transpose_b))
static weft_status_t *needs_bools(weft_kernel_ctx_t *c, const needs_bools_attrs_t *attrs) {
  (void)c;
  return attrs->transpose_a && attrs->transpose_b ? NULL : WEFT_ERROR(INTERNAL, "unused");
}

static void a_row_for_an_op_without_what_compute_reads_is_found(void) {
  const weft_kernel_t sound[] = {WEFT_KERNEL_ATTRS("MatMul", "T", F32, needs_bools), {0}};
  const weft_kernel_t lacks[] = {WEFT_KERNEL_ATTRS("MatMul", "T", F32, needs_list), {0}};
  const weft_kernel_t other[] = {WEFT_KERNEL_ATTRS("MatMul", "T", F32, needs_int), {0}};
  expect_fault(sound, NULL);
  expect_fault(lacks,
               "MatMul: prepare fails: op MatMul has no attribute 'squeeze_dims' as its kernel takes it\n");
  expect_fault(other,
               "MatMul: prepare fails: op MatMul has no attribute 'transpose_a' as its kernel takes it\n");
}

static weft_status_t *prepares_nothing(const weft_kernel_setup_t *setup, void **out) {
  (void)setup;
  (void)out;
  return NULL;
}

/* Prepare alone fills the struct: a row that takes the compute function and not its prepare. */
static void a_row_without_the_prepare_of_its_compute_is_found(void) {
  weft_kernel_t none[] = {WEFT_KERNEL_ATTRS("MatMul", "T", F32, needs_bools), {0}};
  none[0].prepare = NULL;
  weft_kernel_t other[] = {WEFT_KERNEL_ATTRS("MatMul", "T", F32, needs_bools), {0}};
  other[0].prepare = prepares_nothing;
  expect_fault(none, "MatMul: compute reads attributes that no prepare fills in\n");
  expect_fault(other, "MatMul: compute reads attributes that no prepare fills in\n");
}

/* An op may have any number of inputs: the last bit stands for all that have none of their own. */
static void the_last_bit_of_host_args_is_for_all_behind(void) {
  CU_ASSERT_TRUE(weft_kernel_is_host(UINT32_MAX, 31) && weft_kernel_is_host(UINT32_MAX, 200));
  CU_ASSERT_TRUE(weft_kernel_is_host(4, 2) && !weft_kernel_is_host(4, 34));
}

int main(void) {
  const CU_TestInfo tests[] = {
      {"every table agrees with the op table", every_table_agrees_with_the_op_table},
      {"a sound table has no fault", a_sound_table_has_no_fault},
      {"a kernel without a record is found", a_kernel_without_a_record_is_found},
      {"a dtype that the op does not allow is found", a_dtype_that_the_op_does_not_allow_is_found},
      {"a type attribute that the op lacks is found", a_type_attribute_that_the_op_lacks_is_found},
      {"the same op twice for a dtype is found", the_same_op_twice_for_a_dtype_is_found},
      {"a kernel that computes nothing is found", a_kernel_that_computes_nothing_is_found},
      {"a misspelt attribute is found", a_misspelt_attribute_is_found},
      {"an attribute of another kind is found", an_attribute_of_another_kind_is_found},
      {"a misspelt attribute behind another is found", a_misspelt_attribute_behind_another_is_found},
      {"a misspelt attribute of some ops is found", a_misspelt_attribute_of_some_ops_is_found},
      {"a row that its prepare refuses is found", a_row_that_its_prepare_refuses_is_found},
      {"a row for an op without what compute reads is found",
       a_row_for_an_op_without_what_compute_reads_is_found},
      {"a row without the prepare of its compute is found",
       a_row_without_the_prepare_of_its_compute_is_found},
      {"the last bit of host args is for all behind", the_last_bit_of_host_args_is_for_all_behind},
      CU_TEST_INFO_NULL,
  };
  weft_status_t *s = weft_bench_init(&bench);
  if (s != NULL) abort();
  int rc = weft_run_tests("table check", tests);
  weft_bench_deinit(&bench);
  return rc;
}
