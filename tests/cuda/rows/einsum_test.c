/* Einsum against the CPU's kernel: equations of Keras, diagonals, sums, ellipses that broadcast, and
 * equations that are drawn. */
#include <stdio.h>
#include <string.h>

#include "kernels/cuda/kernels.h"
#include "kernels/cuda/types.h"
#include "tests/cuda/rows/row_case.h"

enum { LETTERS = 5 };

/* An operand whose letters have the dimensions `dims`, and an ellipsis those of `dots`, of which it has the
 * last `num_dots`; with `narrow` bit i says that the i-th of them is 1. */
typedef struct drawn_operand {
  int num_dots;
  unsigned narrow;
} drawn_operand_t;

static void add_operand(weft_row_case_t *c, const char *term, size_t length, const int64_t *dims,
                        const int64_t *dots, int num_all, const drawn_operand_t *o) {
  weft_shape_t s = {.rank = 0};
  for (size_t i = 0; i < length; i++) {
    if (term[i] >= 'a' && term[i] < 'a' + LETTERS) s.dims[s.rank++] = dims[term[i] - 'a'];
    if (term[i] != '.') continue;
    for (int d = num_all - o->num_dots; d < num_all; d++)
      s.dims[s.rank++] = (o->narrow >> d & 1) != 0 ? 1 : dots[d];
    i += 2;
  }
  const bool is_half = c->dtype == WEFT_F16 || c->dtype == WEFT_BF16; /* sums of sums are rounded twice */
  weft_row_add(c, c->dtype, &s, is_half ? WEFT_ROW_POSITIVE : WEFT_ROW_SMALL);
}

static void make(weft_row_case_t *c, const char *equation) {
  int64_t dims[LETTERS], dots[3];
  const char *arrow = equation + strcspn(equation, "-"), *comma = strchr(equation, ',');
  const int num_dots = (int)weft_row_int(c, 0, 3);
  for (int i = 0; i < LETTERS; i++) dims[i] = weft_row_int(c, c->round == 2 ? 0 : 1, 5);
  for (int i = 0; i < 3; i++) dots[i] = weft_row_int(c, c->round == 2 ? 0 : 1, 3);
  if (c->round == 1) dims[weft_row_int(c, 0, LETTERS - 1)] = weft_row_int(c, 20, 70);
  const drawn_operand_t whole = {num_dots, 0};
  const drawn_operand_t part = {(int)weft_row_int(c, 0, num_dots), (unsigned)weft_row_int(c, 0, 7)};
  const bool is_first = weft_row_int(c, 0, 1) == 0;
  weft_row_attr(c, "equation='%s'", equation);
  if (comma == NULL || comma > arrow) {
    add_operand(c, equation, (size_t)(arrow - equation), dims, dots, num_dots, &whole);
    return;
  }
  add_operand(c, equation, (size_t)(comma - equation), dims, dots, num_dots, is_first ? &whole : &part);
  if (c->round == 6) dims[weft_row_int(c, 0, LETTERS - 1)] += 1; /* the operands may not fit together */
  add_operand(c, comma + 1, (size_t)(arrow - comma - 1), dims, dots, num_dots, is_first ? &part : &whole);
}

/* One equation each round. */
#define EQUATIONS(name, ...)                                                              \
  static void name(weft_row_case_t *c) {                                                  \
    static const char *const list[] = {__VA_ARGS__};                                      \
    make(c, list[(size_t)(c->round + (int)c->dtype * 3) % (sizeof list / sizeof *list)]); \
  }

/* Products of operands as they lie: EinsumDense, projections of attention, and their gradients. */
EQUATIONS(as_they_lie, "abc,cde->abde", "abde,cde->abc", "abc,abde->cde", "abc,cd->abd", "ab,cb->ac",
          "...ab,...bc->...ac", "ba,bc->ac", "ab,bc->ca", "abc,adc->abd", "abc,abd->acd", "ab,b->a",
          "abcd,cde->abe", "a...,ab->b...", "bac,bda->bcd")
/* Attention, whose heads lie between rows and columns. */
EQUATIONS(attention, "aecd,abcd->acbe", "acbe,aecd->abcd", "acbe,abcd->aecd", "abcd,aecd->acbe",
          "abcd,cde->aeb", "abc,cd->adb", "bad,cd->abc", "abcd,ace->bde")
EQUATIONS(nothing_is_summed, "a,b->ab", "ab,ab->ab", "ab,bc->abc", "abc,c->cab", "ab,a->ba",
          "...a,...b->...ab", ",ab->ba", "a,a->a", "ab,cd->acbd", "a,b->ba", "ab,b->aab")
EQUATIONS(diagonals, "aa->a", "aa->", "aab->b", "aba,b->a", "aab,bc->ac", "ab,bb->ab", "a->aa", "ab->aabb",
          "ab,bc->aac", "abb->ba", "aabb->ab", "aa,aa->a", "ab,bc->cca")
EQUATIONS(alone, "ab->ba", "ab->ab", "abc->ca", "ab->", "abc->b", "...a->a...", "...ab->...b", "ab->b",
          "abcd->dbca", "a...b->b...", "...->...", "->", "ab...->a...b", "...a->...")
EQUATIONS(sums_alone, "ab,c->a", "ab,ac->a", "abc,bd->db", "ab,cd->", "abc,d->db", "...a,b->...",
          "...ab,...c->...a", "...a,...a->", "ab...,b->a", "ab...,b...->a")
EQUATIONS(refused, "ab", "ab,bc->ad", "ab,bc,cd->ad", "a1->a", "ab..,b->a", "abc->a,", "...ab...->ab",
          "abcde->a")

/* Terms of letters in any order, some twice, with and without ellipses. */
static void draw_term(weft_row_case_t *c, char *out, const char *from, int most, bool has_dots) {
  const int n = (int)weft_row_int(c, 0, most), at = (int)weft_row_int(c, 0, n);
  char *p = out + strlen(out);
  for (int i = 0; i <= n; i++) {
    if (i == at && has_dots) p += sprintf(p, "...");
    if (i < n) *p++ = from[weft_row_int(c, 0, (int64_t)strlen(from) - 1)];
  }
  *p = '\0';
}

static void drawn(weft_row_case_t *c) {
  char equation[64] = "", used[64] = "";
  size_t num_used = 0;
  const bool has_dots = weft_row_int(c, 0, 2) == 0;
  draw_term(c, equation, "abcde", 4, has_dots);
  strcat(equation, ",");
  draw_term(c, equation, "abcde", 4, has_dots);
  for (const char *p = equation; *p != '\0'; p++) {
    if (*p >= 'a' && *p <= 'e') used[num_used++] = *p;
  }
  strcat(equation, "->");
  if (num_used > 0) {
    draw_term(c, equation, used, 4, has_dots && weft_row_int(c, 0, 3) != 0);
  }
  make(c, equation);
}

#define CASE(name) \
  { "Einsum", WEFT_CUDA_SET(FLOAT), name, .tolerance = 20 }
static const weft_row_op_t plain[] = {CASE(as_they_lie)};
static const weft_row_op_t ops[] = {
    CASE(attention),  CASE(nothing_is_summed),
    CASE(diagonals),  CASE(alone),
    CASE(sums_alone), CASE(refused),
    CASE(drawn),      CASE(drawn),
    CASE(drawn),      CASE(drawn),
    CASE(drawn),      CASE(drawn),
    CASE(drawn),      CASE(drawn),
    CASE(drawn),      CASE(drawn),
    CASE(drawn),      CASE(drawn),
};
enum { NUM_PLAIN = sizeof plain / sizeof plain[0], NUM = sizeof ops / sizeof ops[0] };

/* The first to run. */
static void operands_are_taken_as_they_lie(void) {
  static const char *const copies[] = {"weft_move_2",     "weft_move_4",      "weft_move_8",
                                       "weft_move_16",    "weft_transpose_2", "weft_transpose_4",
                                       "weft_transpose_8"};
  weft_row_check(weft_cuda_einsum_kernels, plain, NUM_PLAIN);
  for (size_t i = 0; i < sizeof copies / sizeof *copies; i++) CU_ASSERT(!weft_row_was_launched(copies[i]));
}
static void as_the_cpu(void) { weft_row_check(weft_cuda_einsum_kernels, ops, NUM); }
static void all_are_tested(void) { weft_row_check_covered(weft_cuda_einsum_kernels, ops, NUM); }

int main(void) {
  static const CU_TestInfo tests[] = {
      {"operands are taken as they lie", operands_are_taken_as_they_lie},
      {"as the CPU", as_the_cpu},
      {"all are tested", all_are_tested},
      CU_TEST_INFO_NULL,
  };
  return weft_run_tests("einsum", tests);
}
