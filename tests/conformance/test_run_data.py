"""`weft run --data`: records of Examples and rows of CSV reach the inputs of a training file, each once in an epoch, with any servers."""

import csv
import gzip
import json

import numpy as np
import pytest
import tensorflow as tf

from test_export import weft_export
from test_run import run  # noqa: F401 - the fixture
from support import v1

pytestmark = pytest.mark.weft_only
ROWS, BATCH = 23, 4


def probe(path, **inputs):
    """A training file that shows what its inputs get, and counts its steps."""
    with tf.Graph().as_default() as g:
        placed = {name: v1.placeholder(dtype, shape, name=name) for name, (dtype, shape) in inputs.items()}
        count = v1.get_variable("count", initializer=0, use_resource=True)
        shown = {f"seen_{name}": tf.identity(t) for name, t in placed.items()}
        with tf.control_dependencies(list(shown.values())):
            step = count.assign_add(1).op
    weft_export.export(g, path, train={"train": step, **shown})


def seen(out):
    """What all steps showed, input by input, one behind the other."""
    steps = [line["fetches"] for line in map(json.loads, out.splitlines()) if "fetches" in line and not line.get("done")]
    sizes = [len(next(iter(s.values()))) for s in steps]
    return {name[5:]: [row for s in steps for row in s[name]] for name in steps[0]}, sizes


def feature(values):
    values = list(np.ravel(values))
    if isinstance(values[0], (str, bytes)):
        return tf.train.Feature(bytes_list=tf.train.BytesList(value=[v.encode() if isinstance(v, str) else v for v in values]))
    if isinstance(values[0], (float, np.floating)):
        return tf.train.Feature(float_list=tf.train.FloatList(value=values))
    return tf.train.Feature(int64_list=tf.train.Int64List(value=[int(v) for v in values]))


def write_records(folder, rows, shards=2, end=".tfrecord"):
    """Shards of equal parts, in order."""
    folder.mkdir(exist_ok=True)
    options = tf.io.TFRecordOptions(compression_type="GZIP" if end.endswith(".gz") else "")
    each = -(-len(rows) // shards)
    for s in range(shards):
        with tf.io.TFRecordWriter(str(folder / f"part-{s}{end}"), options) as w:
            for row in rows[s * each : (s + 1) * each]:
                w.write(tf.train.Example(features=tf.train.Features(feature={k: feature(v) for k, v in row.items()})).SerializeToString())


KINDS = {
    "numbers": (tf.float32, [None], lambda i: np.float32(i / 8)),
    "vectors": (tf.float32, [None, 3], lambda i: np.float32([i, i + 0.5, -i])),
    "matrices": (tf.float32, [None, 2, 2], lambda i: np.arange(4, dtype=np.float32).reshape(2, 2) + i),
    "doubles": (tf.float64, [None], lambda i: np.float32(i / 4)),
    "halves": (tf.float16, [None, 1], lambda i: np.float32([i / 4])),
    "longs": (tf.int64, [None], lambda i: 10**12 + i),
    "ints": (tf.int32, [None, 2], lambda i: np.array([i, -i])),
    "bytes": (tf.uint8, [None], lambda i: i),
    "bools": (tf.bool, [None], lambda i: i % 2),
    "texts": (tf.string, [None], lambda i: f"text {i}"),
    "text lists": (tf.string, [None, 2], lambda i: [f"a{i}", "b"]),
}


def plain(v):
    return v.tolist() if isinstance(v, (np.ndarray, np.generic)) else v


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_features_of_every_kind(run, tmp_path, kind):  # noqa: F811
    dtype, shape, value = KINDS[kind]
    write_records(tmp_path / "records", [{"value": value(i), "other": i} for i in range(ROWS)])
    probe(tmp_path / "p.pb", value=(dtype, shape))
    got, sizes = seen(run("p.pb", "--data", "records", "--batch", str(BATCH), "--json"))
    assert sizes == [4, 4, 4, 4, 4, 3]
    want = [plain(value(i)) for i in range(ROWS)]
    assert got["value"] == ([bool(v) for v in want] if dtype == tf.bool else want)


def test_lists_of_any_length_are_filled_up(run, tmp_path):  # noqa: F811
    rows = [{"ids": list(range(1, i % 4 + 2))} for i in range(8)]
    write_records(tmp_path / "records", rows)
    probe(tmp_path / "p.pb", ids=(tf.int64, [None, None]))
    got, _ = seen(run("p.pb", "--data", "records", "--batch", "4", "--json"))
    assert got["ids"] == [r["ids"] + [0] * (4 - len(r["ids"])) for r in rows]


PLACES = {
    "a file": (["records/part-0.tfrecord"], range(0, 12)),
    "a folder": (["records"], range(ROWS)),
    "a pattern": (["records/part-*"], range(ROWS)),
    "files": (["records/part-1.tfrecord", "records/part-0.tfrecord"], range(ROWS)),
}


@pytest.mark.parametrize("place", sorted(PLACES))
def test_files_folders_and_patterns(run, tmp_path, place):  # noqa: F811
    paths, rows = PLACES[place]
    write_records(tmp_path / "records", [{"n": i} for i in range(ROWS)])
    (tmp_path / "records" / "_SUCCESS").write_text("")
    probe(tmp_path / "p.pb", n=(tf.int64, [None]))
    got, _ = seen(run("p.pb", *[a for p in paths for a in ("--data", p)], "--batch", "5", "--json"))
    assert got["n"] == list(rows)


@pytest.mark.parametrize("end", [".tfrecord", ".tfrecord.gz"])
@pytest.mark.parametrize("servers", [[], ["--workers", "1"], ["--workers", "1", "--ps", "1", "--strategy", "parameter_server:mode=async"]], ids=["none", "one", "ps"])
def test_records_compressed_or_not_on_servers(run, tmp_path, end, servers):  # noqa: F811
    write_records(tmp_path / "records", [{"n": i} for i in range(ROWS)], end=end)
    probe(tmp_path / "p.pb", n=(tf.int64, [None]))
    got, _ = seen(run("p.pb", *servers, "--data", "records", "--batch", "5", "--json"))
    assert got["n"] == list(range(ROWS))


@pytest.mark.parametrize("seed", [1, 7])
def test_shuffling_takes_every_record_once_in_an_epoch(run, tmp_path, seed):  # noqa: F811
    write_records(tmp_path / "records", [{"n": i} for i in range(ROWS)])
    probe(tmp_path / "p.pb", n=(tf.int64, [None]))
    args = ["p.pb", "--data", "records", "--batch", "5", "--epochs", "3", "--shuffle", "--seed", str(seed), "--json"]
    got, sizes = seen(run(*args))
    epochs = [got["n"][i * ROWS : (i + 1) * ROWS] for i in range(3)]
    assert sizes == 3 * [5, 5, 5, 5, 3] and all(sorted(e) == list(range(ROWS)) for e in epochs)
    assert len({tuple(e) for e in epochs}) == 3 and seen(run(*args))[0] == got


@pytest.mark.parametrize("stop", [1, 4, 5, 7])
@pytest.mark.parametrize("shuffled", [False, True])
def test_a_job_that_is_resumed_reads_the_rest(run, tmp_path, stop, shuffled):  # noqa: F811
    write_records(tmp_path / "records", [{"n": i} for i in range(ROWS)])
    probe(tmp_path / "p.pb", n=(tf.int64, [None]))
    args = ["p.pb", "--data", "records", "--batch", "5", "--epochs", "2", "--json", *(["--shuffle"] if shuffled else [])]
    whole, _ = seen(run(*args))
    first, _ = seen(run(*args, "--save", "saved", "--steps", str(stop)))
    rest, _ = seen(run(*args, "--save", "saved", "--resume"))
    assert first["n"] + rest["n"] == whole["n"]


# ---- CSV ----


def write_csv(path, header, rows, delimiter=","):
    with (gzip.open(path, "wt", newline="", encoding="utf-8") if path.name.endswith(".gz") else open(path, "w", newline="", encoding="utf-8")) as f:
        w = csv.writer(f, delimiter=delimiter)
        w.writerow(header)
        w.writerows(rows)


@pytest.mark.parametrize("name,delimiter", [("t.csv", ","), ("t.tsv", "\t"), ("t.csv.gz", ","), ("t.tsv.gz", "\t")])
def test_columns_by_name(run, tmp_path, name, delimiter):  # noqa: F811
    rows = [[i, i / 2, f"a, {i}", -i, 10**12 + i] for i in range(ROWS)]
    write_csv(tmp_path / name, ["id", "half", "said", "minus", "far"], rows, delimiter)
    probe(tmp_path / "p.pb", half=(tf.float32, [None]), said=(tf.string, [None]), id=(tf.int32, [None]), far=(tf.int64, [None, 1]), minus=(tf.float64, [None]))
    got, sizes = seen(run("p.pb", "--data", name, "--batch", str(BATCH), "--json"))
    assert sizes == [4, 4, 4, 4, 4, 3]
    assert got == {"half": [r[1] for r in rows], "said": [r[2] for r in rows], "id": [r[0] for r in rows], "far": [[r[4]] for r in rows], "minus": [r[3] for r in rows]}


def test_a_column_of_two_types_keeps_its_integers(run, tmp_path):  # noqa: F811
    rows = [2**24 + 1, 2**40 + 3]
    write_csv(tmp_path / "t.csv", ["id"], [[n] for n in rows])
    probe(tmp_path / "p.pb", x=(tf.float32, [None]), y=(tf.int64, [None]))
    got, _ = seen(run("p.pb", "--data", "t.csv", "--columns", "x=id", "--columns", "y=id", "--batch", "2", "--json"))
    assert got["y"] == rows and np.float32(got["x"]).tolist() == np.float32(rows).tolist()


def test_files_of_excel_and_files_without_rows(run, tmp_path):  # noqa: F811
    """A mark of UTF-8 stands before the first name; one of several files may be empty below its first line."""
    (tmp_path / "data").mkdir()
    for name, rows in (("a.csv", ""), ("b.csv", "1,2\r\n3,4\r\n")):
        (tmp_path / "data" / name).write_bytes(f"\ufeffage,income\r\n{rows}".encode())
    probe(tmp_path / "p.pb", age=(tf.float32, [None]), income=(tf.int64, [None]))
    got, _ = seen(run("p.pb", "--data", "data", "--batch", "1", "--json"))
    assert got == {"age": [1, 3], "income": [2, 4]}


def test_columns_side_by_side_and_used_twice(run, tmp_path):  # noqa: F811
    write_csv(tmp_path / "t.csv", ["age", "income", "height"], [[i, 2 * i, 3 * i] for i in range(ROWS)])
    probe(tmp_path / "p.pb", x=(tf.float32, [None, 3]), y=(tf.int64, [None]), z=(tf.float16, [None, 2]))
    columns = ["--columns", "x=height+age+income", "--columns", "y=age", "--columns", "z=income+income"]
    got, _ = seen(run("p.pb", "--data", "t.csv", *columns, "--batch", "6", "--json"))
    assert got["x"] == [[3.0 * i, i, 2.0 * i] for i in range(ROWS)] and got["z"] == [[2.0 * i, 2.0 * i] for i in range(ROWS)]
    assert got["y"] == list(range(ROWS))


def test_features_of_other_names_feed_the_inputs_that_name_them(run, tmp_path):  # noqa: F811
    """The order of the features' names is not that of the inputs."""
    write_records(tmp_path / "records", [{"zz": np.float32(i), "cc": np.float32([i, i + 0.5, -i]), "m": 100 + i} for i in range(ROWS)])
    probe(tmp_path / "p.pb", a=(tf.float32, [None]), b=(tf.float32, [None, 3]), c=(tf.int64, [None, 1]), d=(tf.float64, [None]))
    columns = [f for c in ["a=zz", "b=cc", "c=m", "d=zz"] for f in ("--columns", c)]
    got, _ = seen(run("p.pb", "--data", "records", *columns, "--batch", "6", "--json"))
    assert got["a"] == list(range(ROWS)) and got["d"] == got["a"]
    assert got["b"] == [[i, i + 0.5, -i] for i in range(ROWS)] and got["c"] == [[100 + i] for i in range(ROWS)]


# ---- what is refused ----


def small(tmp_path):
    write_records(tmp_path / "records", [{"n": i, "t": f"t{i}", "f": i / 2} for i in range(4)])
    write_csv(tmp_path / "t.csv", ["a", "b"], [[1, 2], [3, 4]])
    (tmp_path / "empty").mkdir()
    (tmp_path / "none.tfrecord").write_bytes(b"")
    (tmp_path / "none.csv").write_text("")
    (tmp_path / "head.csv").write_text("a,b\r\n\r\n")
    (tmp_path / "marked.csv").write_text('\ufeff"a",b\n1,2\n')
    (tmp_path / "heads").mkdir()
    for i in range(2):
        (tmp_path / "heads" / f"{i}.csv").write_text("a,b\n")
    (tmp_path / "bad.tfrecord").write_bytes(b"no record at all, but text")
    (tmp_path / "bad.csv").write_text("a,b\n1,x\n")
    with tf.io.TFRecordWriter(str(tmp_path / "text.tfrecord")) as w:
        w.write(b"\xff\xff no Example")


USAGE = ["--columns a is given twice", "--columns a: give INPUT=NAME or INPUT=NAME+NAME", "inputs are fed or read from --data, not both"]  # wrong whatever the files hold: exit code 2
MISTAKES = [
    (dict(n=(tf.int64, [None])), ["--data", "nowhere"], "--data nowhere: there is no such file"),
    (dict(n=(tf.int64, [None])), ["--data", "empty"], "the folder has no files"),
    (dict(n=(tf.int64, [None])), ["--data", "records", "--data", "t.csv"], "are files of different kinds"),
    (dict(n=(tf.int64, [None])), ["--data", "none.tfrecord"], "has no records"),
    (dict(n=(tf.int64, [None])), ["--data", "text.tfrecord"], "is no Example with features"),
    (dict(n=(tf.int64, [None])), ["--data", "bad.tfrecord"], "bad.tfrecord"),
    (dict(n=(tf.int64, [None])), ["--data", "none.csv"], "has no first line with the names of its columns"),
    (dict(a=(tf.int64, [None])), ["--data", "head.csv"], "head.csv has no rows below its first line"),
    (dict(a=(tf.int64, [None])), ["--data", "marked.csv"], "marked.csv has a byte order mark before a name in quotes"),
    (dict(a=(tf.int64, [None])), ["--data", "heads"], "0.csv has no rows below its first line, and the other files have none"),
    (dict(m=(tf.int64, [None])), ["--data", "records"], "input 'm' needs the feature 'm', but"),
    (dict(m=(tf.int64, [None])), ["--data", "records"], "has f, n, t; --columns m=NAME says another"),
    (dict(c=(tf.int64, [None])), ["--data", "t.csv"], "input 'c' needs the column 'c', but"),
    (dict(t=(tf.int64, [None])), ["--data", "records"], "holds string, but input 't' wants int64"),
    (dict(n=(tf.float32, [None])), ["--data", "records"], "holds int64, but input 'n' wants float"),
    (dict(f=(tf.string, [None])), ["--data", "records"], "holds float, but input 'f' wants string"),
    (dict(n=(tf.int64, [None, 2, None])), ["--data", "records"], "how large a row of it is cannot be known"),
    (dict(x=(tf.float32, [None, 3])), ["--data", "t.csv", "--columns", "x=a+b"], "which 2 columns cannot fill"),
    (dict(x=(tf.float32, [None, 2, 2])), ["--data", "t.csv", "--columns", "x=a+b"], "cannot fill"),
    (dict(x=(tf.int64, [None])), ["--data", "records", "--columns", "x=n+n"], "is one feature, not 2"),
    (dict(a=(tf.float32, [None])), ["--data", "t.csv", "--columns", "z=b"], "--columns z=b: there is no input 'z'; the inputs of 'train' are a"),
    (dict(n=(tf.int64, [None])), ["--data", "records", "--columns", "z=n"], "--columns z=n: there is no input 'z'"),
    (dict(a=(tf.float32, [None])), ["--data", "t.csv", "--columns", "a"], "--columns a: give INPUT=NAME or INPUT=NAME+NAME"),
    (dict(a=(tf.float32, [None])), ["--data", "t.csv", "--columns", "a=a", "--columns", "a=b"], "--columns a is given twice"),
    (dict(x=(tf.int64, [None]), y=(tf.int64, [None, 1])), ["--data", "records", "--columns", "x=n", "--columns", "y=n"], "differ in type or shape"),
    (dict(n=(tf.int64, [None, 2])), ["--data", "records"], "n"),  # a step finds one value instead of two
    (dict(b=(tf.int64, [None])), ["--data", "bad.csv"], "x"),  # a step reads a text instead of a number
    (dict(n=(tf.int64, [None])), ["--data", "records", "--feed", "n=1"], "inputs are fed or read from --data, not both"),
]


@pytest.mark.parametrize("inputs,args,said", MISTAKES, ids=[f"{' '.join(m[1])} {' '.join(m[0])} {i}" for i, m in enumerate(MISTAKES)])
def test_mistakes_are_told_in_a_line(run, tmp_path, inputs, args, said):  # noqa: F811
    small(tmp_path)
    probe(tmp_path / "p.pb", **inputs)
    err = run("p.pb", *args, "--batch", "2", code=2 if said in USAGE else 1)
    assert said in err and len(err.strip().splitlines()) <= 2, err


def test_data_need_a_batch_and_a_file_with_inputs(run, tmp_path):  # noqa: F811
    small(tmp_path)
    probe(tmp_path / "p.pb", n=(tf.int64, [None]))
    assert "--data needs --batch N" in run("p.pb", "--data", "records", code=2)
    probe(tmp_path / "q.pb")
    assert "the file reads its own data" in run("q.pb", "--data", "records", "--batch", "2", code=1)
