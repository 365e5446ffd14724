/* resources/tensor_array.h - an array of tensors that a loop reads and writes, and its gradients.
 *
 * Each cell is written once and read any number of times (or once, if it is
 * cleared after reading). A gradient's array adds up what is written, and reads
 * zeros where nothing was: it knows the shapes from the array it belongs to.
 */
#ifndef WEFT_RESOURCES_TENSOR_ARRAY_H_
#define WEFT_RESOURCES_TENSOR_ARRAY_H_

#include "resources/resource.h"
#include "tensor/tensor.h"

typedef struct weft_tensor_array_config {
  weft_dtype_t dtype;
  weft_shape_t element_shape; /* may be partly unknown */
  bool is_dynamic;            /* writing behind the end makes it grow */
  bool clear_after_read;
  bool is_identical; /* the first element settles the shape of all */
} weft_tensor_array_config_t;

typedef struct weft_tensor_array weft_tensor_array_t; /* Thread-safe. A weft_object_t in front. */
extern const weft_resource_type_t weft_tensor_array_type;

/* Errors here and below: INVALID_ARGUMENT in TensorFlow's words (closed, index, shape, written twice),
 * RESOURCE_EXHAUSTED. `name` is copied. */
WEFT_MUST_CHECK weft_status_t *weft_tensor_array_create(const char *name, int64_t size,
                                                        const weft_tensor_array_config_t *config,
                                                        weft_tensor_array_t **out);
const char *weft_tensor_array_name(const weft_tensor_array_t *a);
weft_dtype_t weft_tensor_array_dtype(const weft_tensor_array_t *a);
/* `what` completes "but Op ... dtype": "is trying to write". */
WEFT_MUST_CHECK weft_status_t *weft_tensor_array_check_dtype(const weft_tensor_array_t *a, weft_dtype_t dtype,
                                                             const char *what);
/* How many cells there are. `of_pack`: those that go into one tensor; of a gradient's array those into which
 * the forward array's values were last unpacked or split, if ever. */
WEFT_MUST_CHECK weft_status_t *weft_tensor_array_size(weft_tensor_array_t *a, bool of_pack, int64_t *out);
/* Adds to what is known of the elements' shape. */
WEFT_MUST_CHECK weft_status_t *weft_tensor_array_refine(weft_tensor_array_t *a, const weft_shape_t *shape);
/* How values are cut and added that lie in a device's memory. Both give an owned tensor; add() is called
 * with the array's lock held. NULL instead of one: values of the host. */
typedef struct weft_array_memory {
  /* Elements `begin` on of t under that shape. */
  weft_status_t *(*part)(void *arg, weft_tensor_t *t, int64_t begin, const weft_shape_t *shape,
                         weft_tensor_t **out);
  weft_status_t *(*add)(void *arg, const weft_tensor_t *x, const weft_tensor_t *y, weft_tensor_t **out);
  void *arg;
} weft_array_memory_t;

/* `value` is retained. */
WEFT_MUST_CHECK weft_status_t *weft_tensor_array_write(weft_tensor_array_t *a, int64_t i,
                                                       weft_tensor_t *value,
                                                       const weft_array_memory_t *memory);
/* The cells at n indices, or the first n. `out` is zeroed and has room for them; the caller owns what is in
 * it, after a failure, too. */
WEFT_MUST_CHECK weft_status_t *weft_tensor_array_read(weft_tensor_array_t *a, const int32_t *indices,
                                                      int64_t n, weft_tensor_t **out);
/* Rows of `value` to the cells at `indices` (int32), or to all cells; pieces of `lengths` (int64) rows to one
 * cell after the other. */
WEFT_MUST_CHECK weft_status_t *weft_tensor_array_scatter(weft_tensor_array_t *a, const weft_tensor_t *indices,
                                                         weft_tensor_t *value,
                                                         const weft_array_memory_t *memory);
WEFT_MUST_CHECK weft_status_t *weft_tensor_array_unpack(weft_tensor_array_t *a, weft_tensor_t *value,
                                                        const weft_array_memory_t *memory);
WEFT_MUST_CHECK weft_status_t *weft_tensor_array_split(weft_tensor_array_t *a, const weft_tensor_t *lengths,
                                                       weft_tensor_t *value,
                                                       const weft_array_memory_t *memory);
void weft_tensor_array_close(weft_tensor_array_t *a); /* drops what it holds */
/* An array for gradients of `forward`, whose elements have the dimensions `front` before the forward ones.
 * From now on the forward array keeps its size. */
WEFT_MUST_CHECK weft_status_t *weft_tensor_array_gradient(weft_tensor_array_t *forward, const char *name,
                                                          const weft_shape_t *front,
                                                          weft_tensor_array_t **out);

#endif /* WEFT_RESOURCES_TENSOR_ARRAY_H_ */
