/* sharding/mesh.c - a mesh: text, coordinates, groups, the parts of a value. */
#include "sharding/mesh.h"

#include <ctype.h>

static bool is_name(weft_str_t s) {
  if (s.length == 0 || s.length >= WEFT_MESH_NAME || !isalpha((unsigned char)s.data[0])) return false;
  for (size_t i = 0; i < s.length; i++) {
    if (!isalnum((unsigned char)s.data[i]) && s.data[i] != '_') return false;
  }
  return true;
}

static weft_status_t *parse_axis(weft_str_t text, weft_mesh_axis_t *out) {
  weft_str_t name, size;
  int64_t n = 0;
  if (!weft_str_split(text, '=', &name, &size) || !is_name(name) || !weft_str_to_i64(size, &n) || n < 1 ||
      n > WEFT_MESH_MAX_DEVICES) {
    return WEFT_ERROR(INVALID_ARGUMENT, "mesh: '%.*s' is not an axis: want a name and its size, as model=2",
                      WEFT_STR_ARGS(text));
  }
  memcpy(out->name, name.data, name.length);
  out->name[name.length] = '\0';
  out->size = (int)n;
  return NULL;
}

weft_status_t *weft_mesh_parse(weft_str_t text, weft_mesh_t *out) {
  weft_mesh_t mesh = {0};
  weft_str_t rest = text;
  for (bool more = true; more;) {
    weft_str_t axis = rest;
    more = weft_str_split(rest, ',', &axis, &rest);
    if (mesh.num_axes == WEFT_MESH_AXES) {
      return WEFT_ERROR(INVALID_ARGUMENT, "mesh '%.*s' has more than %d axes", WEFT_STR_ARGS(text),
                        WEFT_MESH_AXES);
    }
    WEFT_RETURN_IF_ERROR(parse_axis(axis, &mesh.axes[mesh.num_axes++]));
  }
  WEFT_RETURN_IF_ERROR(weft_mesh_validate(&mesh));
  *out = mesh;
  return NULL;
}

weft_status_t *weft_mesh_validate(const weft_mesh_t *mesh) {
  int64_t devices = 1;
  if (mesh->num_axes < 1 || mesh->num_axes > WEFT_MESH_AXES) {
    return WEFT_ERROR(INVALID_ARGUMENT, "mesh: %d axes, want 1 to %d", mesh->num_axes, WEFT_MESH_AXES);
  }
  for (int i = 0; i < mesh->num_axes; i++) {
    const weft_mesh_axis_t *axis = &mesh->axes[i];
    if (memchr(axis->name, '\0', sizeof axis->name) == NULL || !is_name(weft_str(axis->name))) {
      return WEFT_ERROR(INVALID_ARGUMENT, "mesh: the name of axis %d is no name", i);
    }
    if (axis->size < 1) {
      return WEFT_ERROR(INVALID_ARGUMENT, "mesh: axis '%s' has size %d", axis->name, axis->size);
    }
    if (weft_mesh_find_axis(mesh, weft_str(axis->name)) != i) {
      return WEFT_ERROR(INVALID_ARGUMENT, "mesh: two axes are named '%s'", axis->name);
    }
    devices *= axis->size;
    if (devices > WEFT_MESH_MAX_DEVICES) {
      return WEFT_ERROR(INVALID_ARGUMENT, "mesh: more than %d devices", WEFT_MESH_MAX_DEVICES);
    }
  }
  return NULL;
}

void weft_mesh_print(const weft_mesh_t *mesh, weft_strbuf_t *out) {
  for (int i = 0; i < mesh->num_axes; i++) {
    weft_strbuf_printf(out, "%s%s=%d", i > 0 ? "," : "", mesh->axes[i].name, mesh->axes[i].size);
  }
}

int weft_mesh_num_devices(const weft_mesh_t *mesh) {
  int n = 1;
  for (int i = 0; i < mesh->num_axes; i++) n *= mesh->axes[i].size;
  return n;
}

int weft_mesh_find_axis(const weft_mesh_t *mesh, weft_str_t name) {
  for (int i = 0; i < mesh->num_axes; i++) {
    if (weft_str_is(name, mesh->axes[i].name)) return i;
  }
  return -1;
}

void weft_mesh_coordinates(const weft_mesh_t *mesh, int device, int coordinates[WEFT_MESH_AXES]) {
  for (int i = mesh->num_axes; i-- > 0;) {
    coordinates[i] = device % mesh->axes[i].size;
    device /= mesh->axes[i].size;
  }
}

int weft_mesh_device(const weft_mesh_t *mesh, const int coordinates[WEFT_MESH_AXES]) {
  int device = 0;
  for (int i = 0; i < mesh->num_axes; i++) device = device * mesh->axes[i].size + coordinates[i];
  return device;
}

void weft_mesh_group(const weft_mesh_t *mesh, int axis, int device, int *out_devices) {
  int coordinates[WEFT_MESH_AXES];
  weft_mesh_coordinates(mesh, device, coordinates);
  for (int i = 0; i < mesh->axes[axis].size; i++) {
    coordinates[axis] = i;
    out_devices[i] = weft_mesh_device(mesh, coordinates);
  }
}

weft_status_t *weft_mesh_block(const weft_mesh_t *mesh, const weft_sharding_t *sharding,
                               const weft_shape_t *shape, int device, int64_t begin[WEFT_MAX_DIMS],
                               weft_shape_t *size) {
  int coordinates[WEFT_MESH_AXES];
  weft_mesh_coordinates(mesh, device, coordinates);
  *size = *shape;
  memset(begin, 0, WEFT_MAX_DIMS * sizeof begin[0]);
  for (int i = 0; i < mesh->num_axes; i++) {
    const weft_axis_sharding_t *s = &sharding->axes[i];
    int64_t n = mesh->axes[i].size;
    if (s->kind == WEFT_SHARDING_REPLICATE || s->kind == WEFT_SHARDING_PARTIAL) continue;
    if (s->kind != WEFT_SHARDING_SHARD || s->dim < 0 || s->dim >= shape->rank || size->dims[s->dim] < 0 ||
        size->dims[s->dim] % n != 0) {
      return WEFT_ERROR(INVALID_ARGUMENT,
                        "axis '%s' of size %d does not divide a value of shape %s like that",
                        mesh->axes[i].name, mesh->axes[i].size, WEFT_SHAPE_TEXT(shape));
    }
    size->dims[s->dim] /= n;
    begin[s->dim] += coordinates[i] * size->dims[s->dim];
  }
  return NULL;
}
