"""docs/from_tensorflow.md: its four cases are run as they stand, with small data."""

import os
import re
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

pytestmark = pytest.mark.weft_only
HERE = os.path.dirname(os.path.abspath(__file__))
REPO = os.path.dirname(os.path.dirname(HERE))
ROWS = 96


def cases():
    """The sections that have a program: name, and its blocks as (language, text)."""
    with open(os.path.join(REPO, "docs", "from_tensorflow.md"), encoding="utf-8") as f:
        sections = re.split(r"^## ", f.read(), flags=re.M)
    found = {s.splitlines()[0]: re.findall(r"^```(\w+)\n(.*?)^```$", s, flags=re.M | re.S) for s in sections}
    return {name: blocks for name, blocks in found.items() if blocks}


def make_data(folder):
    rng = np.random.default_rng(1)
    np.save(folder / "images.npy", rng.random((ROWS, 28, 28, 1), np.float32))
    np.save(folder / "labels.npy", rng.integers(0, 10, ROWS))
    np.save(folder / "tokens.npy", rng.integers(0, 100, (ROWS, 32)).astype(np.int32))
    words = ["good", "bad", "long", "film", "play", "never", "always"]
    lines = [f"{rng.integers(0, 2)}\t{' '.join(rng.choice(words, rng.integers(1, 9)))}" for _ in range(ROWS)]
    (folder / "reviews.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    for shard in range(2):
        with tf.io.TFRecordWriter(str(folder / f"ratings-{shard}.tfrecord")) as writer:
            for _ in range(ROWS):
                texts = {k: tf.train.Feature(bytes_list=tf.train.BytesList(value=[f"{k} {rng.integers(0, 20)}".encode()])) for k in ("user", "film")}
                rating = tf.train.Feature(float_list=tf.train.FloatList(value=[rng.random()]))
                writer.write(tf.train.Example(features=tf.train.Features(feature={**texts, "rating": rating})).SerializeToString())


def run(args, env, folder):
    done = subprocess.run(args, cwd=folder, env=env, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]


def test_there_are_four_cases():
    assert len(cases()) == 4


@pytest.mark.parametrize("case", sorted(cases()))
def test_a_case_runs_as_it_stands(request, tmp_path, case):
    """As one program: what the shell does comes between its two parts."""
    make_data(tmp_path)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "weft").symlink_to(os.path.abspath(request.config.getoption("--weft")))
    env = {**os.environ, "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}", "PYTHONPATH": os.path.join(REPO, "python")}
    (first, program), (second, commands), (third, rest) = cases()[case]
    assert (first, second, third) == ("python", "sh", "python")
    whole = program + f"\nimport subprocess\nsubprocess.run(['sh', '-e', '-c', {commands!r}], check=True)\n" + rest
    run([sys.executable, "-c", whole], env, tmp_path)
