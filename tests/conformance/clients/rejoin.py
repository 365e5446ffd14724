"""One worker of a job that goes on after losses: TARGET TASK JOBS(json) LOOP STEPS DIR [PAUSE_S]; a line on standard input begins.

LOOP: saver (the first worker saves every third step in DIR; a program that fails ends with its error, and the next line
begins it anew: all begin at the last checkpoint), or monitored (MonitoredTrainingSession, which makes a new session and
restores it by itself; each worker saves every sixth step in a folder of its own, DIR.TASK). The data set begins at the row where the global step stands.
Prints a line of JSON for each step, before it saves, and for what ends a program.
"""

import json
import os
import sys
import time

from support import config, v1

import in_step
import tensorflow as tf  # noqa: E402

SAVE_EVERY = 3


def build(strategy):
    global_step = v1.train.get_or_create_global_step()
    start = tf.cast(global_step.read_value(), tf.int64) * in_step.BATCH
    data = in_step.rows().repeat().skip(start).batch(in_step.BATCH, drop_remainder=True)
    return in_step.build(strategy, strategy.make_dataset_iterator(data))


def train(sess, fetches, steps, pause, after_step):
    at = 0
    while at < steps and not (hasattr(sess, "should_stop") and sess.should_stop()):
        loss, mine, at = sess.run(fetches)
        in_step.tell(loss=float(loss), rows=[r.tolist() for r in mine], step=int(at))
        after_step(sess, int(at))
        time.sleep(pause)


def run(target, task, loop, steps, directory, pause):
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    with tf.Graph().as_default(), strategy.scope():
        initialize, *fetches = build(strategy)
        settings = strategy.update_config_proto(config())
        saver, is_chief = v1.train.Saver(), task == 0

        def save(sess, at):
            if is_chief and at % SAVE_EVERY == 0:
                in_step.tell(saving=at)
                saver.save(sess, os.path.join(directory, "model"), global_step=at)

        if loop == "saver":
            last = tf.train.latest_checkpoint(directory)
            begin = v1.global_variables_initializer()
            with v1.Session(target, config=settings) as sess:
                sess.run(tf.constant(0))  # there is a session at all workers now
                in_step.tell(beginning=True)
                if last is None:
                    sess.run(begin)
                else:
                    saver.restore(sess, last)
                sess.run(initialize)
                in_step.tell(ready=True)
                train(sess, fetches, steps, pause, save)
            return
        v1.add_to_collection(v1.GraphKeys.TABLE_INITIALIZERS, initialize)
        with v1.train.MonitoredTrainingSession(
            target, is_chief=True, checkpoint_dir=f"{directory}.{task}", hooks=[v1.train.StopAtStepHook(last_step=steps)],
            config=settings, save_checkpoint_steps=2 * SAVE_EVERY, save_checkpoint_secs=None, save_summaries_steps=None,
            save_summaries_secs=None, log_step_count_steps=None, stop_grace_period_secs=1
        ) as sess:
            in_step.tell(ready=True)
            train(sess, fetches, steps, pause, lambda sess, at: None)


def main():
    target, task, jobs, loop, steps, directory = sys.argv[1:7]
    pause = float(sys.argv[7]) if len(sys.argv) > 7 else 0.0
    task = int(task)
    os.environ["TF_CONFIG"] = json.dumps({"cluster": json.loads(jobs), "task": {"type": "worker", "index": task}})
    v1.disable_v2_behavior()
    for _ in sys.stdin:
        try:
            run(target, task, loop, int(steps), directory, pause)
            in_step.tell(over=True)
        except tf.errors.OpError as e:
            in_step.tell(error=type(e).__name__, message=e.message)


if __name__ == "__main__":
    main()
