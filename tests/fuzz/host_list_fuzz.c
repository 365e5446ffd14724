/* tests/fuzz/host_list_fuzz.c - Slurm's lists of nodes and of tasks. The first byte chooses which. */
#include "base/alloc.h"
#include "server/host_list.h"
#include "tests/fuzz/fuzz.h"

const weft_fuzz_seed_t weft_fuzz_seeds[] = {
    WEFT_FUZZ_BYTES("nn[1-3,07],gpu[0-1]x[2-3],login"),
    WEFT_FUZZ_BYTES("nr[0-1]n[1,3-4]-ib.site,n[098-101]"),
    WEFT_FUZZ_BYTES("nn[999999999999999998-999999999999999999][0][1][2]"),
    WEFT_FUZZ_BYTES("t2(x3),1,4(x2)"),
    WEFT_FUZZ_END,
};

/* Names are of letters that names have, and are found again when they are written as a list. */
static void check_names(const weft_host_list_t *l) {
  weft_host_list_t again;
  weft_strbuf_t text = WEFT_STRBUF_INIT;
  for (int i = 0; i < l->num_names; i++) {
    if (i > 0) weft_strbuf_putc(&text, ',');
    weft_strbuf_append(&text, l->names[i]);
    weft_fuzz_check(l->names[i].length > 0 && l->names[i].length <= WEFT_MAX_HOST_NAME,
                    "a name of no length");
  }
  if (text.length < 100000) {
    weft_status_t *s = weft_host_list_parse(weft_str_of(text.data, text.length), &again);
    weft_fuzz_check(s == NULL && again.num_names == l->num_names, "names that cannot be read again");
    for (int i = 0; i < l->num_names; i++)
      weft_fuzz_check(weft_str_eq(l->names[i], again.names[i]),
                      "a name that is another when it is read again");
    weft_host_list_deinit(&again);
  }
  weft_strbuf_deinit(&text);
}

void weft_fuzz_one(const uint8_t *data, size_t size) {
  if (size == 0) return;
  weft_str_t text = weft_str_of((const char *)data + 1, size - 1);
  if (data[0] == 't') {
    int *counts = NULL, num = 0;
    weft_status_t *s = weft_task_counts_parse(text, &counts, &num);
    for (int i = 0; s == NULL && i < num; i++)
      weft_fuzz_check(counts[i] > 0 && counts[i] <= WEFT_MAX_HOSTS, "a count out of range");
    weft_fuzz_check(s != NULL || (num > 0 && num <= WEFT_MAX_HOSTS), "no counts");
    weft_free(counts);
    weft_status_free(s);
    return;
  }
  weft_host_list_t l;
  weft_status_t *s = weft_host_list_parse(text, &l);
  if (s == NULL) {
    weft_fuzz_check(l.num_names > 0 && l.num_names <= WEFT_MAX_HOSTS, "no names");
    check_names(&l);
    weft_host_list_deinit(&l);
  }
  weft_status_free(s);
}
