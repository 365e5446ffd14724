#include "base/name_list.h"

#include <stdlib.h>
#include <string.h>

#include "tests/runner.h"

static void up_to_ten_are_named(void) {
  weft_name_list_t l = {0};
  CU_ASSERT_STRING_EQUAL(weft_name_list_text(&l), "");
  weft_name_list_add(&l, "%d (%s)", 3, "a");
  CU_ASSERT_STRING_EQUAL(weft_name_list_text(&l), "3 (a)");
  for (int i = 1; i < 10; i++) weft_name_list_add(&l, "%d", i);
  CU_ASSERT(weft_name_list_is_full(&l));
  CU_ASSERT_STRING_EQUAL(weft_name_list_text(&l), "3 (a), 1, 2, 3, 4, 5, 6, 7, 8, 9");
}

static void the_rest_is_a_count(void) {
  weft_name_list_t l = {0};
  for (int i = 0; i < 11; i++) weft_name_list_add(&l, "%d", i);
  CU_ASSERT_STRING_EQUAL(weft_name_list_text(&l), "0, 1, 2, 3, 4, 5, 6, 7, 8, 9 and 1 more");
  for (int i = 11; i < 1000; i++) weft_name_list_add(&l, "%d", i);
  CU_ASSERT_STRING_EQUAL(weft_name_list_text(&l), "0, 1, 2, 3, 4, 5, 6, 7, 8, 9 and 990 more");
  l.n = INT64_MAX;
  CU_ASSERT_STRING_EQUAL(weft_name_list_text(&l),
                         "0, 1, 2, 3, 4, 5, 6, 7, 8, 9 and 9223372036854775797 more");
}

/* Every length of name around the limit, of characters of one to four bytes: the list stays whole and in
 * bounds. */
static void long_names_are_cut_between_characters(void) {
  static const char *const characters[] = {"x", "\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x98\x80", "\x80"};
  for (size_t c = 0; c < sizeof characters / sizeof characters[0]; c++) {
    const size_t width = strlen(characters[c]);
    for (size_t bytes = WEFT_LISTED_BYTES - 9; bytes < WEFT_LISTED_BYTES + 9; bytes++) {
      char name[WEFT_LISTED_BYTES + 32] = "";
      while (strlen(name) + width <= bytes) strcat(name, characters[c]);
      weft_name_list_t l = {0};
      for (int i = 0; i < 12; i++) weft_name_list_add(&l, "%s", name);
      const char *text = weft_name_list_text(&l);
      CU_ASSERT(strlen(text) < sizeof l.text);
      CU_ASSERT_STRING_EQUAL(text + strlen(text) - strlen(" and 2 more"), " and 2 more");
      if (strlen(name) <= WEFT_LISTED_BYTES) {
        CU_ASSERT(strncmp(text, name, strlen(name)) == 0);
        CU_ASSERT(strncmp(text + strlen(name), ", ", 2) == 0);
        continue;
      }
      const char *end = strstr(text, "..., ");
      CU_ASSERT_PTR_NOT_NULL_FATAL(end);
      CU_ASSERT(end - text <= WEFT_LISTED_BYTES && end - text > WEFT_LISTED_BYTES - 5);
      CU_ASSERT(width == 1 || (size_t)(end - text) % width == 0);
      CU_ASSERT(strncmp(text, name, (size_t)(end - text)) == 0);
    }
  }
}

static void a_name_of_ten_megabytes_is_one_name(void) {
  enum { HUGE_NAME = 10 << 20 };
  char *name = malloc(HUGE_NAME + 1);
  CU_ASSERT_PTR_NOT_NULL_FATAL(name);
  memset(name, 'n', HUGE_NAME);
  name[HUGE_NAME] = '\0';
  weft_name_list_t l = {0};
  weft_name_list_add(&l, "'%.*s'", HUGE_NAME, name);
  weft_name_list_add(&l, "b");
  const char *text = weft_name_list_text(&l);
  CU_ASSERT_EQUAL(strlen(text), WEFT_LISTED_BYTES + strlen("..., b") -
                                    (strncmp(text + WEFT_LISTED_BYTES - 1, "...", 3) == 0));
  free(name);
}

static const CU_TestInfo tests[] = {
    {"up to ten are named", up_to_ten_are_named},
    {"the rest is a count", the_rest_is_a_count},
    {"long names are cut between characters", long_names_are_cut_between_characters},
    {"a name of ten megabytes is one name", a_name_of_ten_megabytes_is_one_name},
    CU_TEST_INFO_NULL,
};

int main(void) { return weft_run_tests("name_list", tests); }
