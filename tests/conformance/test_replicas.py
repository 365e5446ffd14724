"""Training by several client processes: synchronous, asynchronous, and by a client of the old school."""

import json

import tensorflow as tf

from support import finish_client, spawn_client


def test_synchronous_replicas_in_two_processes(own_cluster, use_resource, tmp_path):
    clients = [
        spawn_client(
            "sync_replica.py",
            own_cluster.target("worker", task),
            task,
            30,
            tmp_path,
            json.dumps(own_cluster.jobs),
            int(use_resource),
        )
        for task in (0, 1)
    ]
    results = [json.loads(finish_client(c)) for c in clients]
    assert max(r["step"] for r in results) >= 29
    final = tf.train.load_checkpoint(str(tmp_path)).get_tensor("w")
    # Each step moves w by 0.2 of its way to the mean of the targets, [2, 10]: 1 - 0.8^30 of it is done. On a busy machine
    # both clients may have begun one more step before they see the last one.
    done = [1 - 0.8**n for n in (30, 31)]
    assert min(abs(final[0] - 2.0 * d) for d in done) < 1e-4
    assert min(abs(final[1] - 10.0 * d) for d in done) < 1e-3


def test_asynchronous_replicas_in_two_processes(own_cluster, tmp_path):
    clients = [
        spawn_client(
            "async_replica.py", own_cluster.target("worker", task), task, 300, tmp_path, json.dumps(own_cluster.jobs)
        )
        for task in (0, 1)
    ]
    ran = [json.loads(finish_client(c))["ran"] for c in clients]
    assert 300 <= sum(ran) <= 302
    reader = tf.train.load_checkpoint(str(tmp_path))
    assert reader.get_tensor("global_step") >= 300
    assert abs(reader.get_tensor("w")[0] - 1.0) < 0.05


def test_a_client_with_version_2_behaviour_off(cluster, unique, tmp_path):
    client = spawn_client("v1_behaviour.py", cluster.target("worker", 0), unique, tmp_path)
    assert finish_client(client) == "fine\n"
