/* io/bundle.h - TensorFlow's checkpoints, second format ("tensor bundle").
 *
 * A bundle is <prefix>.index, a table from tensor names to where they lie, and
 * <prefix>.data-SSSSS-of-NNNNN, the bytes. A tensor may be stored in slices,
 * each with an entry of its own: that is how partitioned variables are saved.
 */
#ifndef WEFT_IO_BUNDLE_H_
#define WEFT_IO_BUNDLE_H_

#include "io/table.h"
#include "io/tensor_slice.h"

/* ---- writing one complete bundle of one shard; Confined ---- */
typedef struct weft_bundle_writer weft_bundle_writer_t;
/* Makes the last directory of `prefix` if it is missing. A bundle that is under `prefix` already can be read
 * until the new one is complete and on the disk, whenever the process ends. One writer at a time may write a
 * prefix. */
WEFT_MUST_CHECK weft_status_t *weft_bundle_writer_create(weft_str_t prefix, weft_bundle_writer_t **out);
/* Errors: INVALID_ARGUMENT (name given twice), UNIMPLEMENTED (resources, variants), those of the file. */
WEFT_MUST_CHECK weft_status_t *weft_bundle_writer_add(weft_bundle_writer_t *w, weft_str_t name,
                                                      const weft_tensor_t *t);
/* `t` is the part `slice` of a tensor of shape `full`. */
WEFT_MUST_CHECK weft_status_t *weft_bundle_writer_add_slice(weft_bundle_writer_t *w, weft_str_t name,
                                                            const weft_shape_t *full,
                                                            const weft_tensor_slice_t *slice,
                                                            const weft_tensor_t *t);
/* Consumes `w`; on failure no file is left. */
WEFT_MUST_CHECK weft_status_t *weft_bundle_writer_finish(weft_bundle_writer_t *w);
void weft_bundle_writer_abandon(weft_bundle_writer_t *w); /* NULL is fine */

/* ---- reading; Thread-compatible ---- */
typedef struct weft_bundle_reader weft_bundle_reader_t;
/* Errors: NOT_FOUND, DATA_LOSS. */
WEFT_MUST_CHECK weft_status_t *weft_bundle_reader_open(weft_str_t prefix, weft_bundle_reader_t **out);
void weft_bundle_reader_close(weft_bundle_reader_t *r);               /* NULL is fine */
int64_t weft_bundle_reader_num_shards(const weft_bundle_reader_t *r); /* data files */
/* The names of tensors, in order: *at starts as 0. False at the end. The name is lent until the reader is
 * closed. */
bool weft_bundle_reader_next(const weft_bundle_reader_t *r, size_t *at, weft_str_t *out_name);
/* Errors: NOT_FOUND "Key <name> not found in checkpoint". */
WEFT_MUST_CHECK weft_status_t *weft_bundle_reader_lookup(const weft_bundle_reader_t *r, weft_str_t name,
                                                         weft_dtype_t *out_dtype, weft_shape_t *out_shape);
/* A new tensor. Errors: as above; DATA_LOSS if the bytes do not match their checksum. */
WEFT_MUST_CHECK weft_status_t *weft_bundle_reader_read(weft_bundle_reader_t *r, weft_str_t name,
                                                       weft_tensor_t **out);
/* A part of it. Errors: also INVALID_ARGUMENT if the stored slices do not cover the part. */
WEFT_MUST_CHECK weft_status_t *weft_bundle_reader_read_slice(weft_bundle_reader_t *r, weft_str_t name,
                                                             const weft_tensor_slice_t *slice,
                                                             weft_tensor_t **out);

/* Makes one bundle of several by giving their data files new names and merging their indexes. They, and a
 * bundle that is at the destination already, can be read until the new one is complete and on the disk; then
 * they are removed. `delete_old_dirs`: also their directories, where these are not the destination's. Missing
 * ones may be left out. Errors: INVALID_ARGUMENT if a tensor is in two of them. */
WEFT_MUST_CHECK weft_status_t *weft_bundle_merge(const weft_str_t *prefixes, size_t n, weft_str_t destination,
                                                 bool delete_old_dirs, bool allow_missing);

/* ---- one bundle takes the place of another (bundle_commit.c), for the bundle's own files ---- */
typedef struct weft_bundle_place { /* Confined. */
  char *prefix, *directory;        /* owned */
  int64_t num_old;    /* data files of the bundle that is there; 0: there is none that can be read */
  int64_t num_shards; /* of the new one */
  int64_t num_staged; /* the number in the names of its data files until it is the one that counts */
} weft_bundle_place_t;
/* Looks at what is there, and removes temporary files of killed processes. The caller deinits *out in any
 * case. */
WEFT_MUST_CHECK weft_status_t *weft_bundle_place_init(weft_str_t prefix, int64_t num_shards,
                                                      weft_bundle_place_t *out);
void weft_bundle_place_deinit(weft_bundle_place_t *p);
/* Where the data file of a shard goes before the commit. '\0'-ended. */
void weft_bundle_place_data_path(const weft_bundle_place_t *p, int64_t shard, weft_strbuf_t *out);
/* Its data files are on the disk: writes the index of `entries[1..n]`, sorted; entries[0] is for the header.
 * On success the new bundle is there, and nothing is left of the old one. On failure one of them is, and the
 * files of the other are removed. */
WEFT_MUST_CHECK weft_status_t *weft_bundle_place_commit(const weft_bundle_place_t *p,
                                                        weft_table_entry_t *entries, size_t n);
/* Removes the data files that were staged, unless the index names them. */
void weft_bundle_place_abandon(const weft_bundle_place_t *p);

/* ---- entries (bundle_entry.c), for the bundle's own files ---- */
typedef struct weft_bundle_entry {
  weft_dtype_t dtype;
  weft_shape_t shape;
  int64_t shard, offset, size;
  uint32_t crc;         /* masked, as stored */
  weft_strbuf_t slices; /* the wire form of the repeated field, if any */
  int num_slices;
} weft_bundle_entry_t;
void weft_bundle_entry_put(const weft_bundle_entry_t *e, weft_strbuf_t *out);
/* Errors: DATA_LOSS. The caller deinits `slices`. */
WEFT_MUST_CHECK weft_status_t *weft_bundle_entry_get(weft_str_t name, weft_str_t bytes,
                                                     weft_bundle_entry_t *out);
void weft_bundle_slice_put(const weft_tensor_slice_t *slice,
                           weft_strbuf_t *out); /* appends one to entry.slices */
/* The next slice of the wire form; false at the end or on bad bytes. Lengths of full dimensions come from
 * `full`. */
bool weft_bundle_slice_next(weft_str_t *rest, const weft_shape_t *full, weft_tensor_slice_t *out);
void weft_bundle_header_put(int64_t num_shards, weft_strbuf_t *out);
WEFT_MUST_CHECK weft_status_t *weft_bundle_header_get(weft_str_t bytes, int64_t *out_num_shards);
/* "<prefix>.data-00000-of-00001" and "<prefix>.index", '\0'-ended. */
void weft_bundle_data_path(weft_str_t prefix, int64_t shard, int64_t num_shards, weft_strbuf_t *out);
void weft_bundle_index_path(weft_str_t prefix, weft_strbuf_t *out);

#endif /* WEFT_IO_BUNDLE_H_ */
