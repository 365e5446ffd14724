/* kernels/cpu/dataset/snapshot.h - elements on disk, in TensorFlow's format.
 *
 *   <directory>/snapshot.metadata                      SnapshotMetadataRecord
 *   <directory>/<run>/<shard>.shard/<part>.snapshot    TFRecords: a TensorProto for each component
 *
 * The parts of a shard are numbered from 0 without gaps. A run that is being written has one more each time
 * that the state of its pass is saved; when it is final a shard has one, since TensorFlow's reader fails
 * between two. Those that TensorFlow has left are read.
 */
#ifndef WEFT_KERNELS_CPU_DATASET_SNAPSHOT_H_
#define WEFT_KERNELS_CPU_DATASET_SNAPSHOT_H_

#include "io/byte_stream.h"
#include "kernels/cpu/dataset/dataset.h"

enum { WEFT_SNAPSHOT_VERSION = 2 }; /* the one that is written and read */

typedef struct weft_snapshot_metadata {
  char run[32];  /* the name of the run's directory */
  uint64_t hash; /* of the pipeline; 0: none. Written, not read */
  int64_t version, num_elements, created_us;
  bool is_final;
} weft_snapshot_metadata_t;

/* Parses a serialized SnapshotMetadataRecord. Errors: DATA_LOSS. */
WEFT_MUST_CHECK weft_status_t *weft_snapshot_metadata_parse(weft_str_t bytes, weft_snapshot_metadata_t *out);
/* Names the run. Errors: DATA_LOSS: that is no name of a run. */
WEFT_MUST_CHECK weft_status_t *weft_snapshot_metadata_set_run(weft_snapshot_metadata_t *m, weft_str_t run);
/* Of a directory. Errors: NOT_FOUND, DATA_LOSS. */
WEFT_MUST_CHECK weft_status_t *weft_snapshot_metadata_read(const char *dir, weft_snapshot_metadata_t *out);
WEFT_MUST_CHECK weft_status_t *weft_snapshot_metadata_write(const char *dir,
                                                            const weft_snapshot_metadata_t *m,
                                                            const weft_element_spec_t *spec);

/* A run that is being written. Confined. */
typedef struct weft_snapshot_writer weft_snapshot_writer_t;
/* A new run in `dir`, of a pipeline with this hash (0: none); its metadata are not final. */
WEFT_MUST_CHECK weft_status_t *weft_snapshot_writer_create(const char *dir, uint64_t hash,
                                                           weft_compression_t compression,
                                                           const weft_element_spec_t *spec,
                                                           weft_snapshot_writer_t **out);
WEFT_MUST_CHECK weft_status_t *weft_snapshot_writer_put(weft_snapshot_writer_t *w, int64_t shard,
                                                        weft_tensor_t *const *element);
/* Ends the file of each shard, and says in `to` which files there are. What is put after that goes into new
 * files. */
WEFT_MUST_CHECK weft_status_t *weft_snapshot_writer_save(weft_snapshot_writer_t *w, weft_saved_t *to);
/* A new run in `dir` that begins with the files that `from` names. They are links where the file system has
 * them, so that the run of before, which may still be written, is left alone. Errors: also DATA_LOSS: a file
 * is gone. */
WEFT_MUST_CHECK weft_status_t *weft_snapshot_writer_load(const char *dir, uint64_t hash,
                                                         weft_compression_t compression,
                                                         const weft_element_spec_t *spec, weft_saved_t *from,
                                                         weft_snapshot_writer_t **out);
/* Reads over what weft_snapshot_writer_save has saved. Errors: DATA_LOSS. */
WEFT_MUST_CHECK weft_status_t *weft_snapshot_writer_skip(weft_saved_t *from);
/* Makes the files of a shard one, and the metadata final. Consumes `w`. Errors: also CANCELLED by the
 * canceller (may be NULL), which ends the copying of large files. */
WEFT_MUST_CHECK weft_status_t *weft_snapshot_writer_finish(weft_snapshot_writer_t *w,
                                                           const weft_canceller_t *canceller);
/* Files that are not whole are gone, and so are directories without files. NULL is fine. */
void weft_snapshot_writer_abandon(weft_snapshot_writer_t *w);
/* The shard of an element, by the function. Errors: INVALID_ARGUMENT: it is no scalar int64. */
WEFT_MUST_CHECK weft_status_t *weft_snapshot_shard_of(weft_iterator_t *it,
                                                      const weft_dataset_fn_t *shard_func,
                                                      weft_tensor_t *const *element, int64_t *out);

/* A data set whose elements are data sets: one for each shard of a run, in order. Errors: UNIMPLEMENTED:
 * another version. */
WEFT_MUST_CHECK weft_status_t *weft_snapshot_shards(const char *dir, const weft_snapshot_metadata_t *m,
                                                    weft_compression_t compression, weft_device_t *device,
                                                    weft_element_spec_t *spec, weft_dataset_t **out);
/* A pass through what `reader_func` makes of that data set, for the iterator `it`, whose elements it must
 * have. Errors: INVALID_ARGUMENT: other elements; those of the function. */
WEFT_MUST_CHECK weft_status_t *weft_snapshot_open(weft_iterator_t *it, const weft_dataset_fn_t *reader_func,
                                                  const char *dir, const weft_snapshot_metadata_t *m,
                                                  weft_compression_t compression, weft_iterator_t **out);
/* Goes through `n` elements of such a pass again: its place cannot be saved, since its elements are made of
 * data sets. */
WEFT_MUST_CHECK weft_status_t *weft_snapshot_skip(weft_iterator_t *read, int64_t n);

#endif /* WEFT_KERNELS_CPU_DATASET_SNAPSHOT_H_ */
