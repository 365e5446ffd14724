"""A process that saves over one prefix again and again is killed at random moments: what is there always loads.

Three kinds: SaveV2, two SaveV2 merged by MergeV2Checkpoints (a sharded Saver), SaveSlices (the first format). Weft reads
the checkpoint after each kill, TensorFlow after some. `--kills=200` is the whole of it; the default is a sample.
"""

import json
import os
import random
import subprocess
import time

import numpy as np
import pytest
import tensorflow as tf

v1 = tf.compat.v1
pytestmark = pytest.mark.weft_only

NAMES, ROWS = ["a", "b", "c"], 200_000  # 800 kB each: writing takes several calls


def saving(kind, prefix, variables):
    """The op that saves, as a Saver's nodes do it."""
    slices = [""] * len(variables)
    if kind == "whole":
        return tf.raw_ops.SaveV2(prefix=prefix, tensor_names=NAMES, shape_and_slices=slices, tensors=variables)
    if kind == "first":
        return tf.raw_ops.SaveSlices(filename=prefix, tensor_names=NAMES, shapes_and_slices=slices, data=variables)
    parts = [f"{prefix}_temp/part-{i:05d}-of-00002" for i in range(2)]
    saves = [
        tf.raw_ops.SaveV2(prefix=p, tensor_names=NAMES[k], shape_and_slices=slices[k], tensors=variables[k])
        for p, k in zip(parts, (slice(0, 2), slice(2, 3)))
    ]
    with tf.control_dependencies(saves):
        return tf.raw_ops.MergeV2Checkpoints(checkpoint_prefixes=parts, destination_prefix=prefix)


def save_graph(kind, prefix):
    """`save` adds 1 to all variables and saves them."""
    with tf.Graph().as_default() as g:
        variables = [v1.Variable(tf.zeros([ROWS]), name=n, use_resource=False) for n in NAMES]
        tf.group(*[v.initializer for v in variables], name="init")
        added = [v1.assign_add(v, tf.ones([ROWS])) for v in variables]
        with tf.control_dependencies([saving(kind, prefix, [tf.identity(a) for a in added])]):
            tf.identity(tf.constant(1), name="save")
    return g


def load_graph(kind, prefix):
    """`low` and `high`: of all elements of all variables."""
    with tf.Graph().as_default() as g:
        if kind == "first":
            values = [tf.raw_ops.Restore(file_pattern=prefix, tensor_name=n, dt=tf.float32) for n in NAMES]
        else:
            values = tf.raw_ops.RestoreV2(prefix=prefix, tensor_names=NAMES, shape_and_slices=[""] * 3, dtypes=[tf.float32] * 3)
        tf.reduce_min(tf.concat(values, 0), name="low")
        tf.reduce_max(tf.concat(values, 0), name="high")
    return g


def spawn(weft, graph, *more):
    command = [weft, "submit", str(graph), "--json", *more]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def main_file(kind, prefix):
    return prefix if kind == "first" else prefix + ".index"


def identity(path):
    """Another one after each save."""
    try:
        info = os.stat(path)
        return info.st_ino, info.st_mtime_ns
    except FileNotFoundError:
        return None


def wait_for_a_save(process, path, before):
    deadline = time.monotonic() + 60
    while identity(path) == before and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.001)


def load(weft, graph):
    process = spawn(weft, graph, "--fetch", "low", "--fetch", "high", "--steps", "1")
    out, error = process.communicate(timeout=60)
    assert process.returncode == 0, error
    fetches = [json.loads(line) for line in out.splitlines()][0]["fetches"]
    assert fetches["low"] == fetches["high"], "tensors of two saves"
    return fetches["low"]


def load_in_tensorflow(prefix):
    reader = tf.train.load_checkpoint(prefix)
    values = np.concatenate([reader.get_tensor(n) for n in NAMES])
    assert values.shape == (3 * ROWS,) and values.min() == values.max()
    return values[0]


@pytest.mark.parametrize("kind", ["whole", "sharded", "first"])
def test_a_killed_process_leaves_a_checkpoint(request, tmp_path, kind):
    weft, kills = request.config.getoption("--weft"), request.config.getoption("--kills")
    folder = tmp_path / "run"
    folder.mkdir()
    prefix = str(folder / "model")
    for name, graph in (("save.pb", save_graph(kind, prefix)), ("load.pb", load_graph(kind, prefix))):
        (tmp_path / name).write_bytes(graph.as_graph_def().SerializeToString())
    chance = random.Random(kills)
    for n in range(kills):
        before = identity(main_file(kind, prefix))
        process = spawn(weft, tmp_path / "save.pb", "--init", "init", "--fetch", "save", "--steps", "1000000")
        wait_for_a_save(process, main_file(kind, prefix), before)
        time.sleep(chance.random() * 0.1)  # the moment: a save takes some hundredths of a second
        is_alive = process.poll() is None
        process.kill()
        assert is_alive, process.communicate()[1]
        process.communicate()
        value = load(weft, tmp_path / "load.pb")
        assert value >= 1
        if n % 10 == 0:
            assert load_in_tensorflow(prefix) == value
    process = spawn(weft, tmp_path / "save.pb", "--init", "init", "--fetch", "save", "--steps", "1")
    assert process.wait(60) == 0, process.stderr.read()
    shards = {"whole": 1, "sharded": 2, "first": 0}[kind]
    files = [f"model.data-{i:05d}-of-{shards:05d}" for i in range(shards)] + ["model.index"]
    assert sorted(os.listdir(folder)) == (files if shards else ["model"])
    assert load(weft, tmp_path / "load.pb") == 1 == load_in_tensorflow(prefix)
