"""Variants on edges between tasks: sparse matrices, ragged tensors, tensors in boxes arrive as they were."""

import numpy as np
import pytest
import tensorflow as tf

from support import PS, W1, session

RAW = tf.raw_ops
SPLITS = [np.asarray([0, 2, 3], np.int64), np.asarray([0, 1, 1, 4], np.int64)]


def sparse_matrix(dtype):
    dense = tf.constant([[1, 0, 2], [0, 0, 0], [0, 3, 0]], dtype)
    with tf.device(PS):
        m = RAW.DenseToCSRSparseMatrix(dense_input=dense, indices=np.asarray([[0, 0], [0, 2], [2, 1]], np.int64))
    with tf.device(W1):
        return RAW.CSRSparseMatrixToDense(sparse_input=m, type=dtype), dense


def ragged(dtype):
    values = tf.constant(["a", "b", "c", "d"]) if dtype == tf.string else tf.cast([1, 2, 3, 4], dtype)
    with tf.device(PS):
        box = RAW.RaggedTensorToVariant(rt_nested_splits=SPLITS, rt_dense_values=values, batched_input=True)
    with tf.device(W1):
        out = RAW.RaggedTensorFromVariant(encoded_ragged=box, input_ragged_rank=1, output_ragged_rank=2, Tvalues=dtype, Tsplits=tf.int64)
        return out.output_dense_values, values


def boxed(dtype):
    values = tf.constant(["a", "b"]) if dtype == tf.string else tf.cast([5, 6], dtype)
    with tf.device(PS):
        box = RAW.SerializeSparse(sparse_indices=np.asarray([[1], [3]], np.int64), sparse_values=values, sparse_shape=np.asarray([9], np.int64), out_type=tf.variant)
    with tf.device(W1):
        return RAW.DeserializeSparse(serialized_sparse=box, dtype=dtype).sparse_values, values


@pytest.mark.parametrize("dtype", [tf.float32, tf.complex128], ids=lambda t: t.name)
def test_a_sparse_matrix_goes_to_another_task(cluster, dtype):
    check(cluster, sparse_matrix, dtype)


@pytest.mark.parametrize("dtype", [tf.float32, tf.string], ids=lambda t: t.name)
def test_ragged_tensors_go_to_another_task(cluster, dtype):
    check(cluster, ragged, dtype)


@pytest.mark.parametrize("dtype", [tf.int64, tf.string], ids=lambda t: t.name)
def test_tensors_in_boxes_go_to_another_task(cluster, dtype):
    check(cluster, boxed, dtype)


def check(cluster, build, dtype):
    with tf.Graph().as_default() as graph:
        got, want = build(dtype)
        with session(cluster.master, graph) as sess:
            got, want = sess.run([got, want])
    np.testing.assert_array_equal(got, want)
