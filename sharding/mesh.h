/* sharding/mesh.h - devices in a grid whose axes have names.
 *
 * "data=4,model=2" has eight devices. Devices are numbers from 0 in row-major order: the last axis is the one
 * along which neighbours have neighbouring numbers. A group is the devices that differ along one axis only:
 * the members of a collective along that axis.
 *
 * A dimension that several axes shard is split by the first of them, each part by the next, and so on.
 */
#ifndef WEFT_SHARDING_MESH_H_
#define WEFT_SHARDING_MESH_H_

#include "sharding/sharding.h"
#include "tensor/shape.h"

enum { WEFT_MESH_NAME = 32, WEFT_MESH_MAX_DEVICES = 1 << 20 };

typedef struct weft_mesh_axis {
  char name[WEFT_MESH_NAME]; /* a letter, then letters, digits and '_' */
  int size;                  /* at least 1 */
} weft_mesh_axis_t;

/* A plain value. */
typedef struct weft_mesh {
  int num_axes; /* 1 to WEFT_MESH_AXES */
  weft_mesh_axis_t axes[WEFT_MESH_AXES];
  const weft_str_t *devices; /* their names, one for each number; borrowed; NULL: numbers only */
} weft_mesh_t;

/* Reads "data=4,model=2". Errors: INVALID_ARGUMENT: not of that form, a name twice, a size below 1, too many
 * axes or devices. */
WEFT_MUST_CHECK weft_status_t *weft_mesh_parse(weft_str_t text, weft_mesh_t *out);
/* The same checks, for a mesh that was filled in by hand. */
WEFT_MUST_CHECK weft_status_t *weft_mesh_validate(const weft_mesh_t *mesh);
void weft_mesh_print(const weft_mesh_t *mesh, weft_strbuf_t *out);

int weft_mesh_num_devices(const weft_mesh_t *mesh);
/* The number of the axis of that name; -1: none. */
int weft_mesh_find_axis(const weft_mesh_t *mesh, weft_str_t name);
/* Where a device is: one coordinate for each axis. And back. */
void weft_mesh_coordinates(const weft_mesh_t *mesh, int device, int coordinates[WEFT_MESH_AXES]);
int weft_mesh_device(const weft_mesh_t *mesh, const int coordinates[WEFT_MESH_AXES]);
/* The devices of `device`'s group along `axis`, by their coordinate: axes[axis].size of them. */
void weft_mesh_group(const weft_mesh_t *mesh, int axis, int device, int *out_devices);

/* What part of a value of `shape` a device has: size->dims[k] elements from begin[k] on, in each dimension k.
 * Errors: INVALID_ARGUMENT: a sharding other than Replicate, Shard and Partial, a dimension that the value
 * does not have, or that the axes which shard it do not divide. */
WEFT_MUST_CHECK weft_status_t *weft_mesh_block(const weft_mesh_t *mesh, const weft_sharding_t *sharding,
                                               const weft_shape_t *shape, int device,
                                               int64_t begin[WEFT_MAX_DIMS], weft_shape_t *size);

#endif /* WEFT_SHARDING_MESH_H_ */
