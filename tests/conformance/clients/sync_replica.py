"""One worker of synchronous training: TARGET TASK STEPS CHECKPOINT_DIR PS_AND_WORKERS(json) use_resource(0|1).

Both workers give the gradient of their own target, so that w must move to the mean of the two targets.
"""

import json
import sys

from support import config, tf, v1, wait_for_chief


def main():
    target, task, steps, directory, jobs, use_resource = sys.argv[1:7]
    task, steps = int(task), int(steps)
    setter = v1.train.replica_device_setter(cluster=json.loads(jobs), worker_device=f"/job:worker/task:{task}")
    with tf.Graph().as_default(), v1.device(setter):
        step = v1.train.get_or_create_global_step()
        w = v1.get_variable("w", [2], initializer=v1.zeros_initializer(), use_resource=use_resource == "1")
        loss = tf.reduce_sum(tf.square(w - [1.0 + 2.0 * task, 10.0]))
        optimizer = v1.train.SyncReplicasOptimizer(
            v1.train.GradientDescentOptimizer(0.1), replicas_to_aggregate=2, total_num_replicas=2
        )
        train = optimizer.minimize(loss, global_step=step)
        wait_for_chief(task, directory)
        hooks = [optimizer.make_session_run_hook(task == 0, num_tokens=0), v1.train.StopAtStepHook(last_step=steps)]
        with v1.train.MonitoredTrainingSession(
            target,
            is_chief=task == 0,
            checkpoint_dir=directory if task == 0 else None,
            hooks=hooks,
            config=config(),
            save_summaries_steps=None,
            save_summaries_secs=None,
            max_wait_secs=30,
            stop_grace_period_secs=1,
        ) as sess:
            value = at = None
            while not sess.should_stop():
                _, value, at = sess.run([train, w, step])
    print(json.dumps({"w": value.tolist(), "step": int(at)}))


if __name__ == "__main__":
    main()
