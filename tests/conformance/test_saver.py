"""Saver: what the servers write TensorFlow reads, and the other way round."""

import os

import numpy as np
import pytest
import tensorflow as tf

from support import PS, W1, assert_same, config, fails, local_session, session, v1


def model(use_resource, place=True, factor=1.0):
    """Variables of several shapes and dtypes on two tasks."""
    device = tf.device if place else (lambda _: tf.device(None))
    with device(PS):
        a = v1.Variable(np.arange(6, dtype=np.float32).reshape(2, 3) * factor, use_resource=use_resource, name="a")
        b = v1.Variable(tf.constant(2.5 * factor), use_resource=use_resource, name="scope/b")
    with device(W1):
        c = v1.Variable(np.linspace(0, factor, 7, dtype=np.float32), use_resource=use_resource, name="c")
        e = v1.Variable(np.zeros((0, 4), np.float32), use_resource=use_resource, name="empty")
    return [a, b, c, e]


@pytest.mark.parametrize("sharded", [False, True], ids=["whole", "sharded"])
def test_saved_and_restored(cluster, graph, use_resource, sharded, tmp_path):
    variables = model(use_resource)
    saver = v1.train.Saver(sharded=sharded)
    init = v1.global_variables_initializer()
    clear = [v1.assign(v, tf.zeros_like(v)).op for v in variables[:3]]
    with session(cluster.master, graph) as sess:
        sess.run(init)
        want = sess.run(variables)
        path = saver.save(sess, str(tmp_path / "model"), global_step=7)
        assert path == str(tmp_path / "model-7")
        sess.run(clear)
        assert sess.run(variables[1]) == 0.0
        saver.restore(sess, path)
        for got, w in zip(sess.run(variables), want):
            assert_same(got, w, exact=True)
    assert os.path.exists(path + ".index")
    assert tf.train.latest_checkpoint(str(tmp_path)) == path
    assert not [f for f in os.listdir(tmp_path) if "temp" in f]


@pytest.mark.parametrize("sharded", [False, True], ids=["whole", "sharded"])
def test_tensorflow_reads_the_servers_checkpoint(cluster, graph, use_resource, sharded, tmp_path):
    variables = model(use_resource)
    saver = v1.train.Saver(sharded=sharded)
    with session(cluster.master, graph) as sess:
        sess.run(v1.global_variables_initializer())
        want = dict(
            zip([v.op.name if not use_resource else v.name.split(":")[0] for v in variables], sess.run(variables))
        )
        path = saver.save(sess, str(tmp_path / "model"))
    reader = tf.train.load_checkpoint(path)
    assert sorted(reader.get_variable_to_shape_map()) == sorted(want)
    for name, value in want.items():
        assert_same(reader.get_tensor(name), value, exact=True, what=name)


def test_the_servers_read_tensorflows_checkpoint(cluster, unique, use_resource, tmp_path):
    with tf.Graph().as_default() as g:
        variables = model(use_resource, place=False, factor=3.0)
        saver = v1.train.Saver()
        with local_session(g) as sess:
            sess.run(v1.global_variables_initializer())
            want = sess.run(variables)
            path = saver.save(sess, str(tmp_path / "local"))
    with tf.Graph().as_default() as g, g.container(unique):
        variables = model(use_resource)
        saver = v1.train.Saver()
        with session(cluster.master, g) as sess:
            saver.restore(sess, path)
            for got, w in zip(sess.run(variables), want):
                assert_same(got, w, exact=True)


def test_part_of_a_checkpoint_and_other_names(cluster, graph, tmp_path):
    a = v1.Variable([1.0, 2.0], use_resource=True, name="a")
    b = v1.Variable([3.0], use_resource=True, name="b")
    save, load = v1.train.Saver({"first": a, "second": b}), v1.train.Saver({"first": a})
    with session(cluster.master, graph) as sess:
        sess.run(v1.global_variables_initializer())
        path = save.save(sess, str(tmp_path / "model"))
        sess.run([a.assign([9.0, 9.0], read_value=False), b.assign([9.0], read_value=False)])
        load.restore(sess, path)
        assert sess.run(a).tolist() == [1.0, 2.0]
        assert sess.run(b).tolist() == [9.0]


def test_partitioned_variables_are_saved_as_one(cluster, unique, tmp_path):
    def build(parts):
        with v1.variable_scope("p", partitioner=v1.fixed_size_partitioner(parts)):
            return v1.get_variable("w", [6, 2], initializer=v1.random_uniform_initializer(seed=5))

    results = []
    path = str(tmp_path / "model")
    for parts in (2, 3):
        with tf.Graph().as_default() as g, g.container(f"{unique}.{parts}"):
            whole = tf.convert_to_tensor(build(parts))
            saver = v1.train.Saver()
            with session(cluster.master, g) as sess:
                if parts == 2:
                    sess.run(v1.global_variables_initializer())
                    saver.save(sess, path)
                else:
                    saver.restore(sess, path)
                results.append(sess.run(whole))
    assert_same(results[1], results[0], exact=True)
    assert_same(tf.train.load_checkpoint(path).get_tensor("p/w"), results[0], exact=True)


def test_a_missing_checkpoint_and_a_missing_name(cluster, graph, tmp_path):
    prefix, name = v1.placeholder(tf.string, []), v1.placeholder(tf.string, [1])
    value = tf.raw_ops.RestoreV2(
        prefix=prefix, tensor_names=name, shape_and_slices=[""], dtypes=[tf.float32], name="load"
    )
    v = v1.Variable([1.0], use_resource=True, name="v")
    saver = v1.train.Saver()
    with session(cluster.master, graph) as sess:
        sess.run(v.initializer)
        path = saver.save(sess, str(tmp_path / "model"))
        assert sess.run(value, {prefix: path, name: ["v"]})[0].tolist() == [1.0]
        with fails(tf.errors.NotFoundError, "nothing/here"):
            sess.run(value, {prefix: str(tmp_path / "nothing/here"), name: ["v"]})
        with fails(tf.errors.NotFoundError, "stranger"):
            sess.run(value, {prefix: path, name: ["stranger"]})
        with fails(tf.errors.DataLossError, "Invalid size in bundle entry: key ; stored size 0; expected size 4"):
            sess.run(value, {prefix: path, name: [""]})  # the index's header, read as an entry
        for suffix in (".index", ".data-00000-of-00001"):
            with open(path + suffix, "r+b") as f:
                f.truncate(3)
        with pytest.raises(tf.errors.OpError):
            sess.run(value, {prefix: path, name: ["v"]})
        assert sess.run(v).tolist() == [1.0]


def test_old_checkpoints_are_deleted_by_the_saver(cluster, graph, tmp_path):
    v = v1.Variable(1.0, use_resource=True)
    saver = v1.train.Saver(max_to_keep=2)
    with session(cluster.master, graph) as sess:
        sess.run(v.initializer)
        for step in range(4):
            saver.save(sess, str(tmp_path / "m"), global_step=step, write_meta_graph=False)
    assert {f for f in os.listdir(tmp_path) if f.endswith(".index")} == {"m-2.index", "m-3.index"}


def test_a_monitored_session_saves_and_goes_on(cluster, unique, use_resource, tmp_path):
    """Ten steps, a checkpoint by the hook; a new session in a new container takes up from it."""
    totals = []
    for attempt in range(2):
        with tf.Graph().as_default() as g, g.container(f"{unique}.{attempt}"):
            with tf.device(PS):
                step = v1.train.get_or_create_global_step()
                w = v1.Variable(0.0, use_resource=use_resource, name="w")
            train = v1.group(v1.assign_add(w, 1.5), v1.assign_add(step, 1))
            with v1.train.MonitoredTrainingSession(
                cluster.master,
                is_chief=True,
                checkpoint_dir=str(tmp_path),
                save_checkpoint_steps=4,
                save_summaries_steps=None,
                save_summaries_secs=None,
                log_step_count_steps=5,
                config=config(),
                hooks=[tf.compat.v1.train.StopAtStepHook(num_steps=10)],
            ) as sess:
                while not sess.should_stop():
                    value, at = sess.run([w, step, train])[:2]
            totals.append((float(value), int(at)))
    assert tf.train.latest_checkpoint(str(tmp_path)).endswith("-20")
    assert tf.train.load_checkpoint(str(tmp_path)).get_tensor("w") == 30.0
    assert totals[1][1] >= 19
