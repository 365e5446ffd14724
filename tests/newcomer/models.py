"""One of the four models of docs/from_tensorflow.md: exported as the text says, trained by `weft run` under three strategies, loaded back.

python models.py NAME, in a folder of its own, with weft_export on the path.
"""

import json
import pathlib
import subprocess
import sys

import numpy as np

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "conformance"))
from documents import sections  # noqa: E402
from scenes import ROWS, from_tensorflow  # noqa: E402

STRATEGIES = {"replicas": ["--workers", "2"], "servers": ["--workers", "2", "--ps", "1"], "mirrored": ["--strategy", "mirrored:2"]}
FEEDS = {"cnn": ["x=images.npy", "y=labels.npy"], "transformer": ["tokens=tokens.npy"]}  # the other two read their files themselves
INPUTS = {
    "lstm": {"sentence": ["good film", "never long bad", "play"]},
    "recommender": {"user": ["user 1", "user 2"], "film": ["film 3", "film 19"]},
}
BATCH = 16


def weft(*args):
    done = subprocess.run(["weft", *args], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def program(name):
    """The text's section that exports NAME.pb: its first program."""
    return next(text for _, blocks in sections("docs/from_tensorflow.md") for language, text in blocks if language == "python" and f'"{name}.pb"' in text and "export(" in text)


def feed(*pairs):
    return [word for pair in pairs for word in ("--feed", pair)]


def as_keras(name, names, prefix, how):
    """Are the predictions of the trained file those of the Keras model that its weights were loaded into?"""
    if name == "transformer":  # it exports a step alone: the next step's loss is that of the function
        rows = np.load("tokens.npy")
        step = int(prefix.rpartition("-")[2])
        at = step * BATCH % ROWS
        theirs = names["train"](rows[at : at + BATCH])["loss"].numpy()
        last = json.loads(weft("run", f"{name}.pb", *feed(*FEEDS[name]), "--batch", str(BATCH), "--steps", str(step + 1), "--save", prefix.rpartition("-")[0], "--resume", "--json", *how).splitlines()[-1])
        return np.allclose(last["fetches"]["loss"], theirs, rtol=1e-4)
    if name == "cnn":
        weft("submit", f"{name}.pb", "--signature", "predict", "--restore", prefix, *feed("x=images.npy"), "--save-fetch", "predictions=out.npy")
        return np.allclose(np.load("out.npy"), names["model"].predict(np.load("images.npy"), verbose=0), atol=1e-4)
    inputs = INPUTS[name]
    weft("submit", f"{name}.pb", "--signature", "predict", "--restore", prefix, *feed(*(f"{k}={json.dumps(v)}" for k, v in inputs.items())), "--save-fetch", "predictions=out.npy")
    import tensorflow as tf

    given = {k: tf.constant(v) for k, v in inputs.items()}
    theirs = names["model"](given if len(given) > 1 else next(iter(given.values())))
    return np.allclose(np.load("out.npy"), theirs, atol=1e-4)


def main(name):
    folder = pathlib.Path.cwd()
    if not (folder / "images.npy").exists():
        from_tensorflow(folder)
    names = {"__name__": "__main__"}
    exec(compile(program(name), "docs/from_tensorflow.md", "exec"), names)
    import weft_export

    for strategy, how in STRATEGIES.items():
        save = f"run/{name}-{strategy}"
        args = [*feed(*FEEDS[name]), "--batch", str(BATCH), "--epochs", "2"] if name in FEEDS else []
        weft("run", f"{name}.pb", *args, *how, "--save", save, "--logdir", f"run/logs/{name}/{strategy}")
        saved = sorted(folder.glob(f"{save}-*.index"), key=lambda p: int(p.stem.rpartition("-")[2]))[-1]
        prefix = str(saved.relative_to(folder))[: -len(".index")]
        what = [names["net"], names["optimizer"]] if name == "transformer" else [names["model"]]
        weft_export.load(f"{name}.pb", prefix, *what)
        assert as_keras(name, names, prefix, how), f"{name} under {strategy}: other predictions than Keras's"
        print(f"{name}: {strategy}: {prefix}, predictions as Keras's")


if __name__ == "__main__":
    main(sys.argv[1])
