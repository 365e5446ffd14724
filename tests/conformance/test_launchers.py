"""Clusters that `weft server` finds in a launcher's environment, beside TensorFlow's resolvers in the same one."""

import json
import os
import random
import subprocess

import pytest
from tensorflow.python.distribute.cluster_resolver import slurm_cluster_resolver as tf_slurm
from tensorflow.python.distribute.cluster_resolver import tfconfig_cluster_resolver as tf_config

pytestmark = pytest.mark.weft_only


@pytest.fixture
def found(request):
    """What the server finds with these options and variables: the value of TF_CONFIG."""
    program = os.path.abspath(request.config.getoption("--weft"))

    def run(*options, **variables):
        own = {k: v for k, v in os.environ.items() if not k.startswith(("SLURM_", "OMPI_", "PMI_", "WEFT_JOBS", "TF_CONFIG"))}
        done = subprocess.run([program, "server", *options, "--print-config"], capture_output=True, text=True, timeout=60, check=False, env={**own, **variables})
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


def drawn_list(rng):
    """A list of nodes as Slurm writes them, with as many as 40 names."""
    parts = []
    for _ in range(rng.randrange(1, 5)):
        name = rng.choice(["n", "gpu-", "rack1.node", "x_y", "c0-0s"]) + str(len(parts)) + "-"
        if rng.random() < 0.3:
            parts.append(name.rstrip("-"))
            continue
        ranges = []
        for _ in range(rng.randrange(1, 4)):
            width = rng.choice([1, 1, 2, 4])
            low = rng.randrange(0, 120)
            high = low + rng.randrange(0, 5)
            ranges.append(f"{low:0{width}}" if rng.random() < 0.4 else f"{low:0{width}}-{high:0{width}}")
        parts.append(f"{name}[{','.join(ranges)}]")
    return ",".join(parts)


def drawn_counts(rng, num_nodes):
    """Tasks of each node in Slurm's short form."""
    parts = []
    while num_nodes > 0:
        times = rng.randrange(1, num_nodes + 1)
        count = rng.randrange(1, 4)
        parts.append(f"{count}(x{times})" if times > 1 or rng.random() < 0.2 else str(count))
        num_nodes -= times
    return ",".join(parts)


@pytest.mark.parametrize("seed", range(40))
def test_lists_of_nodes_are_expanded_as_tensorflow_does(found, seed):
    rng = random.Random(f"nodes {seed}")
    nodes = drawn_list(rng)
    names = list(dict.fromkeys(tf_slurm.expand_hostlist(nodes)))
    if len(names) != len(tf_slurm.expand_hostlist(nodes)):
        nodes = ",".join(names)  # a step has each node once
    counts = drawn_counts(rng, len(names))
    per_node = tf_slurm.expand_tasks_per_node(counts)
    expected = [f"{name}:{2222 + i}" for name, n in zip(names, per_node, strict=True) for i in range(n)]
    rank = rng.randrange(len(expected))
    config = json.loads(found("--slurm", SLURM_STEP_NODELIST=nodes, SLURM_STEP_TASKS_PER_NODE=counts, SLURM_PROCID=str(rank)))
    assert config == {"cluster": {"worker": expected}, "task": {"type": "worker", "index": rank}}


@pytest.mark.parametrize("rank", range(6))
@pytest.mark.parametrize("jobs", [None, {"worker": 6}, {"ps": 2, "worker": 4}, {"chief": 1, "evaluator": 1, "worker": 4}])
def test_tasks_are_those_of_tensorflows_resolver(found, monkeypatch, jobs, rank):
    """Nodes and jobs in the order of their names, by which TensorFlow sorts them."""
    step = {
        "SLURM_STEP_NODELIST": "a1,n[01-02]",
        "SLURM_STEP_TASKS_PER_NODE": "3,1,2",
        "SLURM_STEP_NUM_TASKS": "6",
        "SLURM_PROCID": str(rank),
    }
    for name, value in step.items():
        monkeypatch.setenv(name, value)
    oracle = tf_slurm.SlurmClusterResolver(jobs, port_base=7000, gpus_per_node=3, gpus_per_task=1, auto_set_gpu=False)
    expected = oracle.cluster_spec().as_dict()
    options = ["--jobs", ",".join(f"{job}={n}" for job, n in jobs.items())] if jobs else []
    config = json.loads(found("--slurm", "--port-base", "7000", *options, **step))
    assert config["cluster"] == expected
    assert (config["task"]["type"], config["task"]["index"]) == oracle.get_task_info()


@pytest.mark.parametrize("rank", range(3))
def test_tensorflow_reads_what_is_printed(found, monkeypatch, rank):
    printed = found(
        "--mpi",
        "--jobs",
        "worker=2,ps=1",
        OMPI_COMM_WORLD_RANK=str(rank),
        OMPI_COMM_WORLD_SIZE="3",
        OMPI_COMM_WORLD_LOCAL_RANK=str(rank),
        OMPI_COMM_WORLD_LOCAL_SIZE="3",
    )
    monkeypatch.setenv("TF_CONFIG", printed)
    resolver = tf_config.TFConfigClusterResolver()
    assert resolver.cluster_spec().as_dict() == {"worker": ["127.0.0.1:2222", "127.0.0.1:2223"], "ps": ["127.0.0.1:2224"]}
    assert (resolver.task_type, resolver.task_id) == [("worker", 0), ("worker", 1), ("ps", 0)][rank]
    assert found(TF_CONFIG=printed) == printed


def test_jobs_with_gaps_stay_so(found):
    config = '{"cluster":{"worker":{"1":"a:1","7":"b:1"}},"task":{"type":"worker","index":7}}'
    assert json.loads(found(TF_CONFIG=config)) == json.loads(config)


def test_a_client_of_a_batch_script_is_no_task(found):
    config = json.loads(found("--slurm", SLURM_JOB_NODELIST="n[1-2]", SLURM_TASKS_PER_NODE="1(x2)", SLURM_NTASKS="2", SLURM_PROCID="0"))
    assert config == {"cluster": {"worker": ["n1:2222", "n2:2222"]}}
