/* kernels/cpu/dataset/snapshot.h - elements on disk, in TensorFlow's format.
 *
 *   <directory>/snapshot.metadata                      SnapshotMetadataRecord
 *   <directory>/<run>/<shard>.shard/<part>.snapshot    TFRecords: a TensorProto for each component
 */
#ifndef WEFT_KERNELS_CPU_DATASET_SNAPSHOT_H_
#define WEFT_KERNELS_CPU_DATASET_SNAPSHOT_H_

#include "io/byte_stream.h"
#include "kernels/cpu/dataset/dataset.h"

enum { WEFT_SNAPSHOT_VERSION = 2 }; /* the one that is written and read */

typedef struct weft_snapshot_metadata {
  char run[32]; /* the name of the run's directory */
  int64_t version, num_elements;
  bool is_final;
} weft_snapshot_metadata_t;

/* Parses a serialized SnapshotMetadataRecord. Errors: DATA_LOSS. */
WEFT_MUST_CHECK weft_status_t *weft_snapshot_metadata_parse(weft_str_t bytes, weft_snapshot_metadata_t *out);
/* Of a directory. Errors: NOT_FOUND, DATA_LOSS, UNIMPLEMENTED (another version). */
WEFT_MUST_CHECK weft_status_t *weft_snapshot_metadata_read(const char *dir, weft_snapshot_metadata_t *out);
WEFT_MUST_CHECK weft_status_t *weft_snapshot_metadata_write(const char *dir,
                                                            const weft_snapshot_metadata_t *m,
                                                            const weft_element_spec_t *spec);

/* A run that is being written. Confined. */
typedef struct weft_snapshot_writer weft_snapshot_writer_t;
/* A new run in `dir`; its metadata are not final. */
WEFT_MUST_CHECK weft_status_t *weft_snapshot_writer_create(const char *dir, weft_compression_t compression,
                                                           const weft_element_spec_t *spec,
                                                           weft_snapshot_writer_t **out);
WEFT_MUST_CHECK weft_status_t *weft_snapshot_writer_put(weft_snapshot_writer_t *w, int64_t shard,
                                                        weft_tensor_t *const *element);
/* Its files are whole; metadata are final. Consumes `w`. */
WEFT_MUST_CHECK weft_status_t *weft_snapshot_writer_finish(weft_snapshot_writer_t *w);
void weft_snapshot_writer_abandon(weft_snapshot_writer_t *w); /* NULL is fine */

/* A data set whose elements are data sets: one for each shard of a run, in order. */
WEFT_MUST_CHECK weft_status_t *weft_snapshot_shards(const char *dir, const char *run,
                                                    weft_compression_t compression, weft_device_t *device,
                                                    weft_element_spec_t *spec, weft_dataset_t **out);

#endif /* WEFT_KERNELS_CPU_DATASET_SNAPSHOT_H_ */
