"""Ops that write: files on the server's disk, lines in its log, and the checkpoint format of the first years."""

import time

import numpy as np
import pytest
import tensorflow as tf

from support import PS, W1, fails, session, v1

raw = tf.raw_ops


def test_files_are_written_and_read(cluster, graph, tmp_path):
    name, text = v1.placeholder(tf.string, []), v1.placeholder(tf.string, [])
    with tf.device(PS):
        write = raw.WriteFile(filename=name, contents=text)
    with tf.device(W1):
        read = raw.ReadFile(filename=name)
        found = raw.MatchingFiles(pattern=[str(tmp_path / "*.txt"), str(tmp_path / "b?")])
    with session(cluster.master, graph) as sess:
        for file, content in (("one.txt", b"first\0\xff"), ("two.txt", b""), ("b1", b"x" * 100000)):
            sess.run(write, {name: str(tmp_path / file), text: content})
            assert sess.run(read, {name: str(tmp_path / file)}) == content
        assert sorted(sess.run(found).tolist()) == sorted(
            str(tmp_path / f).encode() for f in ("one.txt", "two.txt", "b1")
        )
        sess.run(write, {name: str(tmp_path / "new" / "deep.txt"), text: b"made"})
        assert (tmp_path / "new" / "deep.txt").read_bytes() == b"made"
        with fails(tf.errors.NotFoundError):
            sess.run(read, {name: str(tmp_path / "nothing")})


def logged(cluster, job, task, text, deadline_s=60):
    """Waits until the server's standard error holds the text."""
    deadline = time.monotonic() + deadline_s
    while time.monotonic() < deadline:
        if text in cluster.servers[job, task].log_tail(10**6):
            return True
        time.sleep(0.05)
    return False


def test_printing_ends_in_the_log_of_the_task(cluster, graph, unique):
    x = v1.placeholder(tf.float32, [2])
    with tf.device(W1):
        new = raw.PrintV2(input=tf.strings.join([unique, " says ", tf.as_string(x[0])]), output_stream="stderr")
        old = raw.Print(input=x, data=[x, x[1]], message=unique + " prints ")
    with session(cluster.master, graph) as sess:
        sess.run(new, {x: [1.0, 2.0]})
        assert sess.run(old, {x: [1.0, 2.0]}).tolist() == [1.0, 2.0]
    assert logged(cluster, "worker", 1, f"{unique} says 1.000000")
    assert logged(cluster, "worker", 1, f"{unique} prints [1 2][2]")


@pytest.mark.weft_only
def test_records_of_one_length_of_the_first_reader(cluster, graph, tmp_path):
    """TensorFlow's kernel of this op fails: it asks for an attribute of the second version."""
    (tmp_path / "records").write_bytes(b"HEAD" + b"".join(b"%02d." % i for i in range(7)) + b"end")
    old = tf.compat.v1.GraphDef()
    old.versions.producer = 21
    tf.import_graph_def(old)
    reader = raw.FixedLengthRecordReader(header_bytes=4, record_bytes=2, footer_bytes=3, hop_bytes=3)
    names = raw.FIFOQueue(component_types=[tf.string], shapes=[[]])
    put = raw.QueueEnqueue(handle=names, components=[str(tmp_path / "records")])
    key, value = raw.ReaderRead(reader_handle=reader, queue_handle=names)
    with session(cluster.master, graph) as sess:
        sess.run(put)
        records = [sess.run([key, value]) for _ in range(7)]
    assert [v for _, v in records] == [b"%02d" % i for i in range(7)]
    assert records[2][0] == str(tmp_path / "records").encode() + b":2"


def test_sums_that_need_no_order(cluster, graph):
    parts = [v1.placeholder(tf.float32, [2]) for _ in range(4)]
    total = v1.accumulate_n(parts)
    with session(cluster.master, graph) as sess:
        assert sess.run(total, {p: [i, 1.0] for i, p in enumerate(parts)}).tolist() == [6.0, 4.0]


@pytest.mark.parametrize("sliced", [False, True], ids=["whole", "slice"])
def test_checkpoints_of_the_first_format(cluster, graph, tmp_path, sliced):
    path = str(tmp_path / "old.ckpt")
    data = np.arange(6, dtype=np.float32).reshape(3, 2)
    if sliced:
        save = raw.SaveSlices(filename=path, tensor_names=["w"], shapes_and_slices=["3 2 -:-"], data=[data])
        load = raw.RestoreSlice(file_pattern=path, tensor_name="w", shape_and_slice="3 2 1,2:-", dt=tf.float32)
        want = data[1:]
    else:
        save = raw.Save(filename=path, tensor_names=["w"], data=[data])
        load = raw.Restore(file_pattern=path, tensor_name="w", dt=tf.float32)
        want = data
    with session(cluster.master, graph) as sess:
        sess.run(save)
        assert sess.run(load).tolist() == want.tolist()
    assert tf.compat.v1.train.NewCheckpointReader(path).get_tensor("w").tolist() == data.tolist()
