/* kernels/cpu/dataset/snapshot_v1.h - elements in the files of snapshots of version 1, TensorFlow's.
 *
 * A file is records: a length in eight bytes and the bytes, with no checksums. An element is
 *
 *   plain, or in one gzip stream   one record, a SnapshotRecord: the components as TensorProtos
 *   with Snappy                    two: a SnapshotTensorMetadata, the shapes and sizes of the components; and
 *                                  what Snappy makes of these, one behind the other: bytes where the dtype
 *                                  has no others, else a TensorProto
 */
#ifndef WEFT_KERNELS_CPU_DATASET_SNAPSHOT_V1_H_
#define WEFT_KERNELS_CPU_DATASET_SNAPSHOT_V1_H_

#include "io/byte_stream.h"
#include "io/record_writer.h"
#include "kernels/cpu/dataset/dataset.h"

enum { WEFT_SNAPSHOT_V1 = 1 };

/* Appends an element of `spec` to a file that has been created without Snappy. Errors: those of the writer,
 * UNIMPLEMENTED (a variant that has no bytes). */
WEFT_MUST_CHECK weft_status_t *weft_snapshot_v1_put(weft_record_writer_t *w, bool is_snappy,
                                                    const weft_element_spec_t *spec,
                                                    weft_tensor_t *const *element);
/* The next element; *is_over: there was none. `out` may hold some tensors after a failure. Errors: DATA_LOSS,
 * with the offset in the decompressed file: truncated or damaged (TensorFlow takes what is truncated for the
 * end); those of the stream. */
WEFT_MUST_CHECK weft_status_t *weft_snapshot_v1_next(weft_byte_stream_t *s, bool is_snappy,
                                                     const weft_element_spec_t *spec, weft_tensor_t **out,
                                                     bool *is_over);

#endif /* WEFT_KERNELS_CPU_DATASET_SNAPSHOT_V1_H_ */
