"""compare_models: what it computes from times, and that all its networks are of the published sizes and give the same on Weft and TensorFlow."""

import importlib.machinery
import importlib.util
import json
import os
import subprocess
import sys

import numpy as np
import pytest

REPO = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SCRIPT = os.path.join(REPO, "benchmarks", "compare_models")


@pytest.fixture(scope="module")
def script():
    loader = importlib.machinery.SourceFileLoader("compare_models", SCRIPT)
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("compare_models", loader))
    loader.exec_module(module)
    return module


def test_ratios_are_of_rounds_and_best_is_the_fastest_peer_of_each(script):
    found = script.ratios({"weft": [1.0, 2.0, 3.0], "tensorflow": [2.0, 2.0, 2.0], "pytorch": [4.0, 1.0, 3.0]})
    assert found == {"tensorflow": [0.5, 1.0, 1.5], "pytorch": [0.25, 2.0, 1.0], "best": [0.5, 2.0, 1.5]}
    assert {name: script.spread(each) for name, each in found.items()} == {"tensorflow": [1.0, 0.5, 1.5], "pytorch": [1.0, 0.25, 2.0], "best": [1.5, 0.5, 2.0]}
    assert script.ratios({"tensorflow": [1.0]}) == {} and script.ratios({"weft": [], "tensorflow": []}) == {}


def test_bars_are_those_of_rows_that_were_measured(script):
    rows = [
        {"name": "resnet50 batch 1", "ratios": {"best": [1.2, 1, 2], "tensorflow": [1.0, 1, 1]}},
        {"name": "lstm batch 8", "ratios": {"best": [5.0, 1, 2]}},
        {"name": "lstm training", "ratios": {"best": [1.0, 1, 1], "tensorflow": [0.5, 1, 1]}},
        {"name": "dlrm training", "ratios": {}},
        {"name": "bert_base batch 8", "ratios": {}, "contention": {"best": [1.3, 1, 2], "tensorflow": [1.0, 1, 1]}},
        {"name": "lstm batch 1", "ratios": {}, "contention": {"best": [1.3, 1, 2], "tensorflow": [1.1, 1, 1]}},
    ]
    bars = {b["name"]: (b["value"], b["bar"]) for b in script.judged(rows)}
    assert bars == {
        "resnet50 batch 1, of the best": (1.2, 1.0),
        "lstm training, of TensorFlow's": (0.5, 1.1),
        "bert_base batch 8, loaded over quiet": (1.3, 1.2),
        "lstm batch 1, loaded over quiet": (1.1, 1.2),
    }


# What the papers say, in millions; ours have no more than a few biases more or less.
MILLIONS = {"resnet50": 25.6, "mobilenet_v2": 3.5, "efficientnet_b0": 5.3, "bert_base": 109.5, "gpt2_small": 124.4, "lstm": 19.8}


@pytest.mark.parametrize("name", MILLIONS)
def test_networks_have_the_published_sizes(script, name, monkeypatch):
    networks, layers = script.networks, script.layers_tensorflow
    monkeypatch.setattr(networks, "initial_value", lambda kind, shape, rng: np.broadcast_to(np.float32(0), shape))
    model, weights = networks.MODELS[name], {}
    inputs, _ = model.data(np.random.default_rng(1), 1)
    with layers.tf.Graph().as_default():
        net = layers.Layers(True, weights, None)
        model.network(net, *(layers.v1.placeholder(x.dtype, x.shape) for x in inputs.values()))
    count = sum(v.size for n, (_, v) in weights.items() if not n.endswith(("_mean", "_variance")))
    assert count / 1e6 == pytest.approx(MILLIONS[name], rel=0.01)


def test_a_small_model_agrees_and_is_timed():
    library = os.path.join(REPO, "bazel-bin", "client", "libtensorflow.so")
    if not os.path.exists(library):
        pytest.skip("no bazel-bin/client/libtensorflow.so")
    command = [sys.executable, SCRIPT, "--only", "dlrm batch 1", "--rounds", "1", "--seconds", "0.01", "--contended", "1", "--json"]
    done = subprocess.run(command, timeout=240, capture_output=True, text=True, env={**os.environ, "WEFT_PEERS_VENV": "/nonexistent"})
    (row,) = json.loads(done.stdout)["rows"]
    assert row["errors"] == {} and set(row["makers"]) == {"weft", "tensorflow"}
    assert all(m["ms"] > 0 and m["cpu_ms"] > 0 and m["peak_mb"] > 10 and m["first_s"] > 0 for m in row["makers"].values())
    assert all(m["loaded_ms"] > 0 and m["loaded_cpu_ms"] > 0 for m in row["makers"].values())
    (quiet,), (loaded,), (contention,) = ([row[key]["tensorflow"][0]] for key in ("ratios", "loaded_ratios", "contention"))
    assert contention == pytest.approx(loaded / quiet)
