"""One worker of training in step, as programs of the 1.x line write it: TARGET TASK JOBS(json) STRATEGY INPUT LOOP STEPS [DIR [PAUSE_S]].

STRATEGY: collective (tf.distribute.MultiWorkerMirroredStrategy), experimental (the same under its older name), v1 (its
version 1 class), mirrored (MirroredStrategy over this task's devices), ps (version 1's ParameterServerStrategy).
INPUT: dataset (make_dataset_iterator), distributed (experimental_distribute_dataset), function
(distribute_datasets_from_function), input_fn (make_input_fn_iterator).
LOOP: session, or monitored (MonitoredTrainingSession; all workers save, each in a folder of its own, DIR.TASK; with ps
the first one alone).
Prints a line of JSON for each step, as soon as it is over, and one for what ended the loop.
"""

import json
import os
import sys
import time

from support import config, v1, wait_for_chief

import tensorflow as tf  # noqa: E402

ROWS, BATCH = 96, 12  # an epoch has eight global batches


def rows():
    """Rows whose first column is their number: what each replica got can be read from it."""
    return tf.data.Dataset.range(ROWS, output_type=tf.int32).map(row)


def row(i):
    x = tf.cast(4 * i + tf.range(4), tf.float32) % 7.0 / 7.0
    return i, x, tf.reduce_sum(x * [1.0, -2.0, 3.0, 0.5], keepdims=True) + 0.25


def make_strategy(name):
    if name == "collective":
        return tf.distribute.MultiWorkerMirroredStrategy()
    if name == "experimental":
        return tf.distribute.experimental.MultiWorkerMirroredStrategy()
    if name == "v1":
        return v1.distribute.experimental.MultiWorkerMirroredStrategy()
    if name == "ps":
        return v1.distribute.experimental.ParameterServerStrategy()
    return v1.distribute.MirroredStrategy(["/cpu:0", "/cpu:1"])


def sharded(context):
    batch = context.get_per_replica_batch_size(BATCH)
    return rows().shard(context.num_input_pipelines, context.input_pipeline_id).batch(batch, drop_remainder=True)


def make_iterator(strategy, kind):
    if kind == "dataset":
        return strategy.make_dataset_iterator(rows().batch(BATCH, drop_remainder=True))
    if kind == "input_fn":
        return strategy.make_input_fn_iterator(sharded)
    if kind == "function":
        return v1.data.make_initializable_iterator(strategy.distribute_datasets_from_function(sharded))
    return v1.data.make_initializable_iterator(strategy.experimental_distribute_dataset(rows().batch(BATCH)))


def build(strategy, iterator):
    """The program's graph: what initializes the input, what trains a step, and what a step tells."""
    global_step = v1.train.get_or_create_global_step()
    optimizer = v1.train.MomentumOptimizer(0.1, 0.5)

    def step(batch):
        index, x, y = batch
        w = v1.get_variable("w", [4, 1], initializer=v1.constant_initializer(0.25), use_resource=True)
        b = v1.get_variable("b", [1], initializer=v1.zeros_initializer(), use_resource=True)
        loss = tf.reduce_sum(tf.square(tf.matmul(x, w) + b - y)) / BATCH
        train = optimizer.minimize(loss, global_step=global_step)
        with tf.control_dependencies([train]):
            return tf.identity(loss), tf.identity(index)

    batch = iterator.get_next()
    # Version 1's ParameterServerStrategy.run returns nothing.
    loss, index = strategy.extended.call_for_each_replica(step, args=(batch,))
    total = strategy.reduce(tf.distribute.ReduceOp.SUM, loss, axis=None)
    mine = strategy.experimental_local_results(index)
    with tf.control_dependencies([total]):
        at = tf.identity(global_step.read_value() if hasattr(global_step, "read_value") else global_step)
    initialize = iterator.initialize() if hasattr(iterator, "initialize") else iterator.initializer
    return initialize, total, mine, at


def tell(**fields):
    print(json.dumps(fields), flush=True)


def train(sess, fetches, steps, pause):
    ran = 0
    while ran < steps and not (hasattr(sess, "should_stop") and sess.should_stop()):
        loss, mine, at = sess.run(fetches)
        tell(loss=float(loss), rows=[r.tolist() for r in mine], step=int(at))
        ran += 1
        time.sleep(pause)


def main():
    target, task, jobs, name, kind, loop, steps = sys.argv[1:8]
    directory = sys.argv[8] if len(sys.argv) > 8 else None
    pause = float(sys.argv[9]) if len(sys.argv) > 9 else 0.0
    task, steps, jobs = int(task), int(steps), json.loads(jobs)
    os.environ["TF_CONFIG"] = json.dumps({"cluster": jobs, "task": {"type": "worker", "index": task}})
    v1.disable_v2_behavior()
    strategy = make_strategy(name)
    with tf.Graph().as_default(), strategy.scope():
        initialize, *fetches = build(strategy, make_iterator(strategy, kind))
        missing = v1.report_uninitialized_variables()
        settings = strategy.update_config_proto(config())
        try:
            if loop == "session":
                with v1.Session(target, config=settings) as sess:
                    if name != "ps" or task == 0:
                        sess.run(v1.global_variables_initializer())
                    while len(sess.run(missing)):
                        time.sleep(0.01)
                    sess.run(initialize)
                    tell(ready=True)
                    train(sess, fetches, steps, pause)
            else:
                v1.add_to_collection(v1.GraphKeys.TABLE_INITIALIZERS, initialize)
                chief = strategy.extended.experimental_should_init
                if name == "ps":
                    wait_for_chief(task, directory + ".0")
                with v1.train.MonitoredTrainingSession(
                    target, is_chief=chief, checkpoint_dir=f"{directory}.{task}" if name != "ps" or chief else None,
                    hooks=[v1.train.StopAtStepHook(last_step=steps)], config=settings, save_checkpoint_steps=4,
                    save_checkpoint_secs=None, save_summaries_steps=None, save_summaries_secs=None,
                    log_step_count_steps=None, stop_grace_period_secs=1
                ) as sess:
                    tell(ready=True)
                    train(sess, fetches, 1 << 30, pause)
        except tf.errors.OpError as e:
            tell(error=type(e).__name__, message=e.message)


if __name__ == "__main__":
    main()
