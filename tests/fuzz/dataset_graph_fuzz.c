/* tests/fuzz/dataset_graph_fuzz.c - graphs of data sets as bytes: their fingerprints, the state that they
 * depend on, and the functions that they reach. */
#include "base/alloc.h"
#include "graph/function.h"
#include "kernels/cpu/dataset/as_graph.h"
#include "protos/wire.h"
#include "tests/fuzz/fuzz.h"

const weft_fuzz_seed_t weft_fuzz_seeds[] = {
    WEFT_FUZZ_FILE("tests/graph/testdata/mlp_v1.pb"),
    WEFT_FUZZ_FILE("tests/graph/testdata/control_v2.pb"),
    WEFT_FUZZ_FILE("tests/graph/testdata/tf_function.pb"),
    WEFT_FUZZ_END,
};

/* The bytes and a result: node "dataset", a _Retval of "out2". */
static void check_fingerprint(weft_str_t bytes) {
  weft_strbuf_t graph = WEFT_STRBUF_INIT;
  uint64_t one = 0, again = 1;
  weft_strbuf_append(&graph, bytes);
  const size_t node = weft_wire_begin(&graph, 1);
  weft_wire_put_text(&graph, 1, "dataset");
  weft_wire_put_text(&graph, 2, "_Retval");
  weft_wire_put_text(&graph, 3, "out2");
  weft_wire_end(&graph, node);
  const weft_str_t whole = weft_str_of(graph.data, graph.length);
  if (weft_graph_fingerprint(whole, &one)) {
    weft_fuzz_check(weft_graph_fingerprint(whole, &again) && one == again, "a graph has two fingerprints");
  }
  weft_strbuf_deinit(&graph);
}

/* Functions that can be kept can be written, and what is written can be kept. */
static void check_reachable(weft_str_t bytes) {
  weft_function_library_t *l = NULL, *other = NULL;
  weft_status_t *s = weft_function_library_create(&l);
  if (s == NULL) s = weft_function_library_create(&other);
  weft_wire_reader_t in = weft_wire_reader(bytes);
  weft_wire_field_t f, each;
  while (s == NULL && weft_wire_next(&in, &f)) {
    if (f.tag != WEFT_WIRE_TAG(2, WEFT_WIRE_BYTES)) continue;
    weft_wire_reader_t library = weft_wire_reader(f.bytes);
    while (weft_wire_next(&library, &each)) {
      if (each.tag == WEFT_WIRE_TAG(1, WEFT_WIRE_BYTES)) weft_status_free(weft_function_add(l, each.bytes));
      if (each.tag == WEFT_WIRE_TAG(2, WEFT_WIRE_BYTES))
        weft_status_free(weft_function_add_gradient(l, each.bytes));
    }
  }
  weft_map_t written = WEFT_MAP_INIT;
  weft_strbuf_t out = WEFT_STRBUF_INIT;
  weft_map_entry_t e;
  for (size_t at = 0; s == NULL && weft_map_next(&l->by_name, &at, &e);)
    s = weft_function_write_reachable(l, e.key, &written, &out);
  weft_fuzz_check(s == NULL && written.count == l->by_name.count, "a function is not written");
  s = weft_function_library_add_missing(other, l);
  weft_fuzz_check(s == NULL && other->by_name.count == l->by_name.count, "a function is not added");
  weft_map_deinit(&written);
  weft_strbuf_deinit(&out);
  weft_function_library_release(l);
  weft_function_library_release(other);
}

void weft_fuzz_one(const uint8_t *data, size_t size) {
  const weft_str_t bytes = weft_str_of((const char *)data, size);
  check_fingerprint(bytes);
  weft_status_free(weft_graph_check_external_state(bytes));
  check_reachable(bytes);
}
