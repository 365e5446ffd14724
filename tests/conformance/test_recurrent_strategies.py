"""Recurrent nets, loops and conditionals under every synchronous strategy, against TensorFlow on one device.

Twelve steps in batches of ten, the last of each epoch of six rows, with clipping by the global norm. Losses and, at the end,
all variables and slots agree within 1e-5.
"""

import json
import subprocess

import numpy as np
import pytest

import recurrent_models

pytestmark = pytest.mark.slow

v1 = recurrent_models.v1
STEPS, BATCH = 12, 10
STRATEGIES = [
    "",  # on one device
    "mirrored:2",
    "mirrored:3",
    "data_parallel:2",
    "central_storage:2",
    "multi_worker_mirrored:workers=2",
    "multi_worker_mirrored:workers=3",
    "parameter_server:mode=sync,workers=2",
]


def on_tensorflow(graph, names):
    config = v1.ConfigProto(operation_timeout_in_ms=180000)
    with v1.Session(graph=graph, config=config) as s:
        s.run("init")
        losses = []
        for i in range(STEPS):
            begin = i * BATCH % 40
            rows = {f"{name}:0": recurrent_models.DATA[name][begin : begin + BATCH] for name in names}
            loss, after = s.run(["loss:0", "after:0"], rows)
            losses.append(loss)
    return np.array(losses, "d"), after


def on_weft(program, names, strategy, directory):
    command = [program, "submit", "graph.pb", "--batch", str(BATCH), "--steps", str(STEPS), "--init", "init"]
    command += ["--target", "train", "--fetch", "loss", "--save-fetch", "after=after.npy", "--json"]
    for name in names:
        np.save(directory / f"{name}.npy", recurrent_models.DATA[name])
        command += ["--feed", f"{name}={name}.npy"]
    if strategy:
        command += ["--strategy", strategy]
    done = subprocess.run(command, capture_output=True, timeout=180, check=False, cwd=directory)
    if done.returncode != 0:
        return None, done.stderr.decode().strip()
    lines = [json.loads(line) for line in done.stdout.decode().splitlines()]
    losses = [line["fetches"]["loss"] for line in lines if not line.get("done")]
    return np.array(losses, "d"), np.load(directory / "after.npy")


def off(got, want, least):
    return np.max(np.abs(got - want) / np.maximum(np.abs(want), least)) if got.shape == want.shape else np.inf


def check(model, v2, request, directory, strategies=tuple(STRATEGIES)):
    graph, names = recurrent_models.build(model, v2)
    (directory / "graph.pb").write_bytes(graph.as_graph_def().SerializeToString())
    losses, after = on_tensorflow(graph, names)
    wrong = []
    for strategy in strategies:
        got, variables = on_weft(request.config.getoption("--weft"), names, strategy, directory)
        if got is None:
            wrong.append(f"{strategy or 'one device'}: {variables}")
        elif off(got, losses, 1e-3) > 1e-5 or off(variables, after, 1.0) > 1e-5:
            wrong.append(f"{strategy or 'one device'}: losses {off(got, losses, 1e-3):.1e} off, variables {off(variables, after, 1.0):.1e}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("model", recurrent_models.MODELS, ids=lambda m: m.__name__)
def test_loops_of_v1_train_as_on_one_device(model, request, tmp_path):
    check(model, False, request, tmp_path)


@pytest.mark.parametrize("model", recurrent_models.MODELS, ids=lambda m: m.__name__)
def test_loops_of_v2_train_as_on_one_device(model, request, tmp_path):
    check(model, True, request, tmp_path)
