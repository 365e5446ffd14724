"""`weft submit` of graphs that read their data, on several tasks in step: each task reads its own part.

The elements of a step are those of one device, or batches of the tasks' own files, as `input=` and the data set say.
"""

import contextlib
import json
import random
import subprocess
import types

import numpy as np
import pytest
import tensorflow as tf

from cluster import Cluster
from support import v1
from test_submit_data import build, element, kill_at, one_device, resume, start, submit

pytestmark = pytest.mark.weft_only
D = tf.data.Dataset
Policy = tf.data.experimental.AutoShardPolicy
STRATEGIES = ["multi_worker_mirrored", "parameter_server:mode=sync"]
ROWS = 53


@contextlib.contextmanager
def running(maker, folder, **tasks):
    folder.mkdir()
    c = Cluster(maker, str(folder), **tasks).start()
    try:
        yield c
        assert not c.dead()
    finally:
        c.stop()


@pytest.fixture(scope="module", params=[(2, 1), (3, 1), (2, 2)], ids=["2 workers", "3 workers", "2 workers of 2 devices"])
def workers(request, maker, tmp_path_factory):
    """Clusters of one server and so many workers, of so many devices each."""
    num_workers, cpus = request.param
    with running(maker, tmp_path_factory.mktemp("workers") / "logs", workers=num_workers, cpus=cpus) as c:
        c.num_workers = num_workers
        yield c


def policied(rows, policy):
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = policy
    return rows.with_options(options)


# ---- where elements come from: integers, in a known order ----


def write_files(folder, form, sizes):
    """Files that hold the numbers from 0 on, so many each. Gives their names."""
    folder.mkdir()
    names, at = [], 0
    for i, size in enumerate(sizes):
        names.append(str(folder / f"{i:02}.{form}"))
        numbers = [str(n).encode() for n in range(at, at + size)]
        at += size
        if form == "text":
            (folder / f"{i:02}.{form}").write_bytes(b"".join(n + b"\n" for n in numbers))
        else:
            with tf.io.TFRecordWriter(names[-1]) as to:
                for n in numbers:
                    to.write(n)
    return names


READERS = {"text": tf.data.TextLineDataset, "records": tf.data.TFRecordDataset}


def number(line):
    return tf.strings.to_number(line, tf.int32)


def numbers_of(source, folder, sizes):
    """A function that makes the data set 0, 1, ... in the current graph."""
    if source == "range":
        return lambda: D.range(sum(sizes), output_type=tf.int32)
    if source == "tensors":
        return lambda: D.from_tensor_slices(np.arange(sum(sizes), dtype=np.int32))
    form = source.partition(" ")[0]
    names = write_files(folder, form, sizes)
    if source.endswith("interleaved"):
        return lambda: D.from_tensor_slices(names).interleave(READERS[form], cycle_length=2, block_length=3, num_parallel_calls=2).map(number)
    if source.endswith("listed"):
        return lambda: D.list_files(str(folder / "*"), shuffle=False).flat_map(READERS[form]).map(number)
    return lambda: READERS[form](names).map(number)


SOURCES = ["range", "tensors", "text", "records", "records interleaved", "text listed"]


def piped(numbers, draw):
    """A pipeline over numbers whose order is fixed: stages as drawn."""
    rows, batch = numbers(), draw.choice([4, 6, 7, 8])
    if draw.random() < 0.6:
        rows = rows.shuffle(draw.randint(2, 20), seed=draw.randint(1, 9), reshuffle_each_iteration=draw.random() < 0.5)
    if draw.random() < 0.4:
        rows = rows.repeat(2)
    parallel = draw.choice([None, 2])
    drops = draw.random() < 0.3
    if draw.random() < 0.7:
        rows = rows.map(element, num_parallel_calls=parallel).batch(batch, drop_remainder=drops)
    else:
        rows = rows.batch(batch, drop_remainder=drops).map(lambda i: tf.map_fn(element, i, fn_output_signature=(tf.int32, tf.float32, tf.float32)), num_parallel_calls=parallel)
    return rows.prefetch(draw.choice([1, 3])) if draw.random() < 0.7 else rows


def written(g, folder):
    path = folder / "graph.pb"
    path.write_bytes(g.as_graph_def().SerializeToString())
    return path


def on(c, strategy, unique):
    return ["--master", c.master, "--container", unique, "--strategy", strategy]


def elements_of(told):
    return {name.partition("/device")[0]: d["elements"] for name, d in told[-1]["input"]["devices"].items()}


def fetches(told):
    return [line["fetches"] for line in told if line.get("done") is False]


def rows_of_one_device(g):
    told = []
    with v1.Session(graph=g) as sess:
        sess.run("init")
        sess.run("data")
        with contextlib.suppress(tf.errors.OutOfRangeError):
            while True:
                told.append(sess.run("rows:0").tolist())
    return told


# ---- the elements of one device ----


@pytest.mark.parametrize("kind", ["initialised", "one_shot"])
@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_every_task_reads_and_the_steps_are_those_of_one_device(maker, workers, tmp_path, unique, strategy, source, kind):
    draw = random.Random(f"{strategy} {source} {kind} {workers.num_workers}")
    numbers = numbers_of(source, tmp_path / "data", [draw.randint(3, 20) for _ in range(draw.choice([1, 4]))])
    state = draw.getstate()
    g = build(kind, make=lambda: piped(numbers, draw))
    draw.setstate(state)
    want_rows = rows_of_one_device(g)
    told = submit(maker, written(g, tmp_path), *on(workers, strategy, unique), "--fetch", "rows")
    assert [step["rows"] for step in fetches(told)] == want_rows
    np.testing.assert_allclose([step["loss"] for step in fetches(told)], one_device(g), rtol=1e-5)
    assert elements_of(told) == {f"/job:worker/replica:0/task:{i}": len(want_rows) for i in range(workers.num_workers)}


def stages(name):
    """Pipelines that two tasks may not read alike, and one that may not be read twice."""
    rows = D.range(ROWS, output_type=tf.int32)
    if name == "no seed":
        return rows.shuffle(9).map(element).batch(8)
    if name == "any order":
        options = tf.data.Options()
        options.deterministic = False
        return rows.map(element, num_parallel_calls=2).batch(8).with_options(options)
    if name == "random numbers":
        return rows.map(lambda i: (i, tf.random.uniform([4], seed=3), tf.ones([1]))).batch(8)
    if name == "a table":
        keys = tf.range(ROWS)
        table = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(keys, keys), -1)
        v1.add_to_collection("tables", table._init_op)
        return rows.map(lambda i: element(table.lookup(i))).batch(8)
    if name == "off":
        return policied(rows.map(element).batch(8), Policy.OFF)
    return rows.map(element).batch(8)


@pytest.mark.parametrize("why,word", [("no seed", "has no seed"), ("any order", "leaves the order open"), ("random numbers", "draws random numbers"), ("a table", "uses something"), ("off", "the options of the data set say so")])
def test_one_device_reads_what_others_might_read_otherwise(maker, cluster, tmp_path, unique, why, word):
    g = build("initialised", make=lambda: stages(why))
    with g.as_default():
        tf.group(g.get_operation_by_name("data"), *v1.get_collection("tables"), name="ready")
    path = written(g, tmp_path)
    told = submit(maker, path, *on(cluster, STRATEGIES[0], unique), "--init", "ready", "--fetch", "rows")
    assert sorted(r for step in fetches(told) for r in step["rows"]) == list(range(ROWS))
    assert elements_of(told) == {"/job:worker/replica:0/task:0": 7}
    assert word in explained(maker, path, "multi_worker_mirrored", "--init", "ready")


def explained(maker, path, strategy, *more):
    command = [maker.weft_binary, "inspect", str(path), "--strategy", strategy, "--cluster", "ps=1,worker=2", "--init", "init", "--init", "data", "--target", "train", "--fetch", "loss"]
    done = subprocess.run([*command, *more], capture_output=True, text=True, timeout=90)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_the_explanation_says_how_data_are_read(maker, tmp_path, strategy):
    path = written(build("initialised", make=lambda: stages("plain")), tmp_path)
    separator = "," if ":" in strategy else ":"
    assert "reads on each of 2 tasks: its rows of each batch" in explained(maker, path, strategy)
    assert "reads on each of 2 tasks: its own files" in explained(maker, path, f"{strategy}{separator}input=sharded")
    assert "reads on" not in explained(maker, path, f"{strategy}{separator}input=split")


@pytest.mark.parametrize("kind", ["initialised", "one_shot"])
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_one_device_reads_for_all_when_it_is_asked_to(maker, workers, tmp_path, unique, strategy, kind):
    g = build(kind, make=lambda: stages("plain"))
    separator = "," if ":" in strategy else ":"
    told = submit(maker, written(g, tmp_path), *on(workers, f"{strategy}{separator}input=split", unique), "--fetch", "rows")
    assert [step["rows"] for step in fetches(told)] == rows_of_one_device(g)
    assert sum(elements_of(told).values()) == 7


def test_what_takes_whole_batches_gets_them(maker, workers, tmp_path, unique):
    """A sort of the whole batch, which has no rule of rows, and a reduction over it."""
    g = build("initialised", make=lambda: stages("plain"))
    with g.as_default():
        rows = g.get_tensor_by_name("rows:0")
        tf.identity(tf.unique(rows % 5).y, name="some")
        tf.reduce_sum(rows, name="sum")
    told = submit(maker, written(g, tmp_path), *on(workers, STRATEGIES[0], unique), "--fetch", "some", "--fetch", "sum")
    want = rows_of_one_device(g)
    assert [step["sum"] for step in fetches(told)] == [sum(rows) for rows in want]
    assert [step["some"] for step in fetches(told)] == [list(dict.fromkeys(r % 5 for r in rows)) for rows in want]


# ---- files of their own ----


def steps_of_files(sizes, batch, num_workers, drops):
    """How many rows each step has, by worker."""
    parts = [batch // num_workers + (k < batch % num_workers) for k in range(num_workers)]
    left = [sum(sizes[w::num_workers]) for w in range(num_workers)]
    left = [n - n % batch if drops else n for n in left]
    out, step = [], 0
    while any(left) if not drops else all(left):
        got = [min(left[w], parts[(step + w) % num_workers]) for w in range(num_workers)]
        left = [a - b for a, b in zip(left, got)]
        out.append(got)
        step += 1
    return out


@pytest.mark.parametrize("kind", ["initialised", "one_shot"])
@pytest.mark.parametrize("form", ["text", "records interleaved", "text listed"])
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_every_element_of_files_is_read_once(maker, workers, tmp_path, unique, strategy, form, kind):
    draw = random.Random(f"{strategy} {form} {kind} {workers.num_workers}")
    sizes = [draw.randint(1, 20) for _ in range(draw.randint(workers.num_workers, 7))]
    batch, drops = draw.choice([6, 7, 8]), draw.random() < 0.3
    numbers = numbers_of(form, tmp_path / "data", sizes)
    policy = draw.choice([Policy.FILE, Policy.AUTO])
    shuffles = draw.random() < 0.5

    def make():
        rows = numbers().shuffle(10) if shuffles else numbers()
        return policied(rows.map(element).batch(batch, drop_remainder=drops), policy)

    separator = "," if ":" in strategy else ":"
    asked = f"{strategy}{separator}input=sharded" if policy == Policy.AUTO else strategy
    told = submit(maker, written(build(kind, make=make), tmp_path), *on(workers, asked, unique), "--fetch", "rows")
    rows = [step["rows"] for step in fetches(told)]
    want = steps_of_files(sizes, batch, workers.num_workers, drops)
    assert [len(r) for r in rows] == [sum(step) for step in want]
    assert all(np.isfinite(step["loss"]) for step in fetches(told))
    flat = [r for step in rows for r in step]
    assert len(set(flat)) == len(flat)
    if not drops:
        assert sorted(flat) == list(range(sum(sizes)))
    if not shuffles and form == "text":  # a worker's rows come in the order of its files, and lie together
        bounds = np.concatenate([[0], np.cumsum(sizes)])
        of_file = {int(n): i for i in range(len(sizes)) for n in range(bounds[i], bounds[i + 1])}
        for step, sizes_of_step in zip(rows, want):
            owners = [of_file[r] % workers.num_workers for r in step]
            assert owners == [w for w, size in enumerate(sizes_of_step) for _ in range(size)]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["initialised", "one_shot"])
@pytest.mark.parametrize("batch", [5, 6, 8])
def test_batches_whose_size_is_not_known_are_cut_by_turns(maker, workers, tmp_path, unique, batch, kind):
    """A map behind the batches: each of them is one for all workers. The job goes on in the middle of one."""
    n = workers.num_workers
    numbers = numbers_of("text", tmp_path / "data", [3 * batch, 4 * batch + 1] * n)
    make = lambda: policied(numbers().batch(batch).map(lambda i: tf.map_fn(element, i, fn_output_signature=(tf.int32, tf.float32, tf.float32))), Policy.FILE)
    path = written(build(kind, make=make), tmp_path)
    want = fetches(submit(maker, path, *on(workers, STRATEGIES[0], unique + ".whole"), "--fetch", "rows"))
    rows = [r for step in want for r in step["rows"]]
    assert sorted(rows) == list(range((7 * batch + 1) * n))
    assert {len(step["rows"]) for step in want[: 3 * n]} == {batch}
    more, told = [*on(workers, STRATEGIES[0], unique), "--save", str(tmp_path / "model"), "--fetch", "rows"], []
    for end in ("1", "4", "9", "1000"):
        told += fetches(submit(maker, path, *more, "--steps", end, *(["--resume"] if told else [])))
    assert [step["rows"] for step in told] == [step["rows"] for step in want]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_fewer_files_than_tasks_are_cut_by_rows(maker, workers, tmp_path, unique, strategy):
    numbers = numbers_of("records", tmp_path / "data", [ROWS])
    g = build("initialised", make=lambda: numbers().map(element).batch(8))
    separator = "," if ":" in strategy else ":"
    told = submit(maker, written(g, tmp_path), *on(workers, f"{strategy}{separator}input=sharded", unique), "--fetch", "rows")
    assert [step["rows"] for step in fetches(told)] == rows_of_one_device(g)


def test_files_that_are_demanded_must_be_enough(maker, cluster, tmp_path, unique):
    numbers = numbers_of("records", tmp_path / "data", [ROWS])
    path = written(build("initialised", make=lambda: policied(numbers().map(element).batch(8), Policy.FILE)), tmp_path)
    command = [maker.weft_binary, "submit", str(path), "--init", "init", "--init", "data", "--target", "train", *on(cluster, STRATEGIES[0], unique)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=90)
    assert done.returncode != 0 and "not enough for the required 2 shards" in done.stderr.replace("\n", " ")


# ---- going on ----


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["initialised", "one_shot"])
@pytest.mark.parametrize("how", ["rows", "files"])
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_job_that_was_killed_goes_on_on_every_task(maker, workers, tmp_path, unique, strategy, how, kind):
    draw = random.Random(f"{strategy} {how} {kind} {workers.num_workers}")
    numbers = numbers_of("records", tmp_path / "data", [draw.randint(100, 260) for _ in range(6)])
    make = lambda: policied(numbers().shuffle(30, seed=4).map(element, num_parallel_calls=2).batch(7).prefetch(2), Policy.FILE if how == "files" else Policy.DATA)
    path = written(build(kind, make=make), tmp_path)
    whole = submit(maker, path, *on(workers, strategy, unique + ".whole"), "--fetch", "rows")
    want = fetches(whole)
    more = [*on(workers, strategy, unique), "--save", str(tmp_path / "model"), "--save-every", str(draw.randint(5, 15))]
    told = kill_at(start(maker, path, *more), draw.randint(30, 60))
    first, rest = resume(maker, path, *more)
    told.update(rest)
    assert first >= 15 and min(rest) == first + 1 and sorted(told) == list(range(1, len(want) + 1))
    assert [told[i]["rows"] for i in sorted(told)] == [step["rows"] for step in want]
    np.testing.assert_allclose([told[i]["loss"] for i in sorted(told)], [step["loss"] for step in want], rtol=1e-5)


def test_other_tasks_begin_their_parts_anew_and_say_so(maker, tmp_path):
    numbers = numbers_of("records", tmp_path / "data", [30] * 6)
    path = written(build("initialised", make=lambda: policied(numbers().map(element).batch(6), Policy.FILE)), tmp_path)
    with running(maker, tmp_path / "logs", workers=3) as c:
        more = ["--master", c.master, "--save", str(tmp_path / "model"), "--fetch", "rows"]
        submit(maker, path, *more, "--strategy", "multi_worker_mirrored:2", "--steps", "4")
        told = submit(maker, path, *more, "--strategy", "multi_worker_mirrored:3", "--steps", "6", "--resume")
    notes = [line["note"] for line in told if "note" in line]
    assert any("begins anew" in note for note in notes)
    assert [len(step["rows"]) for step in fetches(told)] == [6, 6]


@pytest.mark.parametrize("kind", ["initialised", "one_shot"])
def test_another_strategy_goes_on_with_the_next_element(maker, tmp_path, kind):
    """The rows of each batch on other tasks, more of them, or fewer, or on one device."""
    numbers = numbers_of("text", tmp_path / "data", [90, 40])
    g = build(kind, make=lambda: numbers().shuffle(20, seed=2).map(element).batch(7).repeat(2).prefetch(2))
    want, path, told = rows_of_one_device(g), written(g, tmp_path), []
    with running(maker, tmp_path / "logs", workers=3) as c:
        runs = [[], *[["--master", c.master, "--strategy", f"multi_worker_mirrored:{n}"] for n in (2, 3, 2)], ["--strategy", "mirrored:2"], ["--master", c.master, "--strategy", "parameter_server:mode=sync"], []]
        for i, run in enumerate(runs):
            more = [*run, "--save", str(tmp_path / "model"), "--fetch", "rows", *([] if i == 0 else ["--resume"])]
            lines = submit(maker, path, *more, *(["--steps", str(5 * i + 4)] if i < len(runs) - 1 else []))
            assert not any("note" in line for line in lines)
            told += [step["rows"] for step in fetches(lines)]
    assert told == want


@pytest.mark.parametrize("policy,how_often", [(Policy.DATA, 1), (Policy.FILE, 2)])
def test_a_place_in_the_data_that_all_tasks_share_is_saved_once(maker, cluster, tmp_path, unique, policy, how_often):
    numbers = numbers_of("text", tmp_path / "data", [20, 20])
    path = written(build("initialised", make=lambda: policied(numbers().map(element).batch(8), policy)), tmp_path)
    submit(maker, path, *on(cluster, STRATEGIES[0], unique), "--save", str(tmp_path / "model"), "--steps", "2")
    (index,) = tmp_path.glob("model*.index")
    saved = [name for name, _ in tf.train.list_variables(str(index.with_suffix(""))) if name.startswith("_weft/iterator/")]
    assert len(saved) == how_often


@pytest.mark.slow
@pytest.mark.parametrize("policy", [Policy.DATA, Policy.FILE])
@pytest.mark.parametrize("end", [6, 7, 8, 13])
def test_a_round_that_was_broken_is_repeated_on_every_task(maker, workers, tmp_path, unique, end, policy):
    numbers = numbers_of("records", tmp_path / "data", [60] * 6)
    path = written(build("initialised", make=lambda: policied(numbers().shuffle(9, seed=3).map(element).batch(6).prefetch(2), policy)), tmp_path)
    strategy = "multi_worker_mirrored:accumulate=3"
    want = fetches(submit(maker, path, *on(workers, strategy, unique + ".whole"), "--fetch", "rows", "--steps", "18"))
    more = [*on(workers, strategy, unique), "--save", str(tmp_path / "model"), "--fetch", "rows", "--steps"]
    submit(maker, path, *more, str(end))
    told = fetches(submit(maker, path, *more, "18", "--resume"))
    assert [step["rows"] for step in told] == [step["rows"] for step in want[end - end % 3 :]]
    np.testing.assert_allclose([step["loss"] for step in told], [step["loss"] for step in want[end - end % 3 :]], rtol=1e-5)
