/* A mesh: its text, coordinates and groups, what part of a value a device has. */
#include "sharding/mesh.h"

#include "tests/runner.h"

static weft_mesh_t mesh_of(const char *text) {
  weft_mesh_t mesh = {0};
  weft_status_t *s = weft_mesh_parse(weft_str(text), &mesh);
  CU_ASSERT_PTR_NULL(s);
  weft_status_free(s);
  return mesh;
}

static void text_is_read_and_written(void) {
  static const char *const texts[] = {"data=4,model=2", "model=1", "stage_0=3,data=2,model=4,x=1"};
  for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
    weft_mesh_t mesh = mesh_of(texts[i]);
    weft_strbuf_t out = WEFT_STRBUF_INIT;
    weft_mesh_print(&mesh, &out);
    CU_ASSERT_STRING_EQUAL(out.data, texts[i]);
    weft_strbuf_deinit(&out);
  }
  weft_mesh_t mesh = mesh_of("data=4,model=2");
  CU_ASSERT_EQUAL(weft_mesh_num_devices(&mesh), 8);
  CU_ASSERT_EQUAL(weft_mesh_find_axis(&mesh, WEFT_STR("model")), 1);
  CU_ASSERT_EQUAL(weft_mesh_find_axis(&mesh, WEFT_STR("mode")), -1);
}

static void wrong_texts_are_refused(void) {
  static const char *const texts[] = {"",
                                      "data",
                                      "data=",
                                      "data=0",
                                      "data=-1",
                                      "data=2,",
                                      ",data=2",
                                      "=2",
                                      "2=2",
                                      "a b=2",
                                      "a=2,b=2,a=3",
                                      "a=1,b=1,c=1,d=1,e=1",
                                      "a=2x",
                                      "a==2",
                                      "a=2000,b=2000",
                                      "a=99999999999999999999",
                                      "a23456789012345678901234567890123=2"};
  for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
    weft_mesh_t mesh;
    weft_status_t *s = weft_mesh_parse(weft_str(texts[i]), &mesh);
    CU_ASSERT_EQUAL(weft_status_code(s), WEFT_INVALID_ARGUMENT);
    weft_status_free(s);
  }
}

static void devices_have_coordinates(void) {
  weft_mesh_t mesh = mesh_of("a=2,b=3,c=4");
  for (int device = 0; device < 24; device++) {
    int at[WEFT_MESH_AXES];
    weft_mesh_coordinates(&mesh, device, at);
    CU_ASSERT_EQUAL(device, at[0] * 12 + at[1] * 4 + at[2]);
    CU_ASSERT_EQUAL(weft_mesh_device(&mesh, at), device);
  }
}

static void groups_run_along_an_axis(void) {
  weft_mesh_t mesh = mesh_of("a=2,b=3,c=4");
  int devices[4];
  weft_mesh_group(&mesh, 1, 14, devices); /* 14 is at 1, 0, 2 */
  CU_ASSERT_TRUE(devices[0] == 14 && devices[1] == 18 && devices[2] == 22);
  weft_mesh_group(&mesh, 0, 14, devices);
  CU_ASSERT_TRUE(devices[0] == 2 && devices[1] == 14);
}

static void parts_cover_the_value(void) {
  weft_mesh_t mesh = mesh_of("a=2,b=2");
  weft_shape_t shape = weft_shape_matrix(8, 6), size;
  int64_t begin[WEFT_MAX_DIMS];
  weft_sharding_t both = {{weft_sharding_shard(0, 0), weft_sharding_shard(0, 0)}};
  for (int device = 0; device < 4; device++) { /* the later axis splits the parts of the earlier */
    weft_status_t *s = weft_mesh_block(&mesh, &both, &shape, device, begin, &size);
    CU_ASSERT_TRUE(s == NULL && begin[0] == 2 * device && begin[1] == 0);
    CU_ASSERT_TRUE(size.dims[0] == 2 && size.dims[1] == 6);
    weft_status_free(s);
  }
  weft_sharding_t wrong[] = {{{weft_sharding_shard(1, 0), weft_sharding_shard(1, 0)}}, /* 6 by 4 */
                             {{weft_sharding_shard(2, 0), weft_sharding_replicate(0)}},
                             {{weft_sharding_of_kind(WEFT_SHARDING_SINGLE), weft_sharding_replicate(0)}}};
  for (int i = 0; i < 3; i++) {
    weft_status_t *s = weft_mesh_block(&mesh, &wrong[i], &shape, 0, begin, &size);
    CU_ASSERT_EQUAL(weft_status_code(s), WEFT_INVALID_ARGUMENT);
    weft_status_free(s);
  }
}

int main(void) {
  CU_TestInfo tests[] = {{"text is read and written", text_is_read_and_written},
                         {"wrong texts are refused", wrong_texts_are_refused},
                         {"devices have coordinates", devices_have_coordinates},
                         {"groups run along an axis", groups_run_along_an_axis},
                         {"parts cover the value", parts_cover_the_value},
                         CU_TEST_INFO_NULL};
  return weft_run_tests("mesh", tests);
}
