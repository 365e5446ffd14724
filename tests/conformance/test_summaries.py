"""Summaries: made on the servers, parsed by the client, equal to the oracle's byte for byte."""

import numpy as np
import pytest
import tensorflow as tf

from support import W1, fails, on_both, session, v1


def parsed(data):
    return v1.Summary.FromString(data)


@pytest.mark.parametrize(
    "dtype", [tf.float32, tf.float64, tf.float16, tf.int32, tf.int64, tf.uint8], ids=lambda d: d.name
)
def test_scalars(cluster, graph, dtype):
    x = v1.placeholder(dtype, [])
    with tf.device(W1):
        s = v1.summary.scalar("loss", x)
    with session(cluster.master, graph) as sess:
        value = parsed(sess.run(s, {x: 3})).value
    assert [(v.tag, v.simple_value) for v in value] == [("loss", 3.0)]


def test_several_tags_in_one(cluster, graph):
    s = tf.raw_ops.ScalarSummary(tags=["a", "b"], values=[1.0, 2.0])
    with session(cluster.master, graph) as sess:
        assert [(v.tag, v.simple_value) for v in parsed(sess.run(s)).value] == [("a", 1.0), ("b", 2.0)]


def test_histograms_equal_the_oracle(cluster):
    values = np.concatenate([np.random.RandomState(0).randn(500) * 10, [0.0, 0.0, 1e-13, -1e-13, 1e15, -1e15]])

    def build(_):
        x = v1.placeholder(tf.float32)
        s = v1.summary.histogram("h", x)
        return lambda sess: [parsed(sess.run(s, {x: v})).value[0].histo for v in (values, [1.0], [-3.0, 3.0], [])]

    got, want = on_both(cluster, build)
    for g, w in zip(got, want):
        assert (g.min, g.max, g.num) == (w.min, w.max, w.num)
        assert g.sum == pytest.approx(w.sum, rel=1e-12)
        assert g.sum_squares == pytest.approx(w.sum_squares, rel=1e-12)
        np.testing.assert_allclose(g.bucket_limit, w.bucket_limit, rtol=1e-12)
        assert list(g.bucket) == list(w.bucket)


def test_merged_summaries(cluster, graph):
    x = v1.placeholder(tf.float32, [])
    v1.summary.scalar("a", x)
    v1.summary.scalar("b", x * 2.0)
    v1.summary.histogram("h", [x, x])
    merged = v1.summary.merge_all()
    with session(cluster.master, graph) as sess:
        got = parsed(sess.run(merged, {x: 2.0}))
    assert [v.tag for v in got.value] == ["a", "b", "h"]
    assert got.value[1].simple_value == 4.0
    assert got.value[2].histo.num == 2.0


def test_bad_summaries_are_refused(cluster, graph):
    x = v1.placeholder(tf.float32)
    twice = tf.raw_ops.MergeSummary(inputs=[tf.raw_ops.ScalarSummary(tags="t", values=1.0)] * 2, name="merge")
    histogram = tf.raw_ops.HistogramSummary(tag="h", values=x, name="histogram")
    scalar = tf.raw_ops.ScalarSummary(tags=["a", "b"], values=x, name="scalar")
    garbage = tf.raw_ops.MergeSummary(inputs=[tf.constant(b"\xff\xff\xff")], name="garbage")
    with session(cluster.master, graph) as sess:
        with fails(tf.errors.InvalidArgumentError, "duplicate tag", op="merge"):
            sess.run(twice)
        for bad in (np.nan, np.inf):
            with fails(tf.errors.InvalidArgumentError, op="histogram"):
                sess.run(histogram, {x: [1.0, bad]})
        with fails(tf.errors.InvalidArgumentError, op="scalar"):
            sess.run(scalar, {x: [1.0, 2.0, 3.0]})
        with pytest.raises(tf.errors.InvalidArgumentError):
            sess.run(garbage)


def test_images_and_tensors(cluster):
    def build(_):
        rng = np.random.RandomState(1)
        gray = v1.summary.image("gray", rng.randint(0, 255, (3, 5, 4, 1)).astype(np.uint8), max_outputs=2)
        tensor = v1.summary.tensor_summary("t", tf.constant([1.0, 2.0]))
        return lambda sess: sess.run([gray, tensor])

    (gray, tensor), (want_gray, want_tensor) = on_both(cluster, build)
    got, want = parsed(gray), parsed(want_gray)
    assert [(v.tag, v.image.height, v.image.width, v.image.colorspace) for v in got.value] == [
        (v.tag, v.image.height, v.image.width, v.image.colorspace) for v in want.value
    ]
    for g, w in zip(got.value, want.value):
        images = [tf.io.decode_png(v.image.encoded_image_string).numpy() for v in (g, w)]
        assert np.array_equal(*images)
    got, want = parsed(tensor).value[0], parsed(want_tensor).value[0]
    assert (got.tag, got.node_name) == (want.tag, want.node_name)
    assert np.array_equal(tf.make_ndarray(got.tensor), tf.make_ndarray(want.tensor))


def test_a_file_writer_takes_them(cluster, graph, tmp_path):
    s = v1.summary.scalar("x", v1.placeholder(tf.float32, [], name="v"))
    with session(cluster.master, graph) as sess:
        writer = v1.summary.FileWriter(str(tmp_path), graph)
        for i in range(3):
            writer.add_summary(sess.run(s, {"v:0": float(i)}), i)
        writer.close()
    files = list(tmp_path.iterdir())
    events = [e for e in v1.train.summary_iterator(str(files[0])) if e.summary.value]
    assert [(e.step, e.summary.value[0].simple_value) for e in events] == [(0, 0.0), (1, 1.0), (2, 2.0)]
