"""One worker of asynchronous training under MonitoredTrainingSession: TARGET TASK STEPS DIR JOBS(json)."""

import json
import sys

from support import config, tf, v1, wait_for_chief


def main():
    target, task, steps, directory, jobs = sys.argv[1:6]
    task, steps = int(task), int(steps)
    setter = v1.train.replica_device_setter(cluster=json.loads(jobs), worker_device=f"/job:worker/task:{task}")
    with tf.Graph().as_default(), v1.device(setter):
        step = v1.train.get_or_create_global_step()
        w = v1.get_variable("w", [2], initializer=v1.zeros_initializer())
        train = v1.train.AdamOptimizer(0.05).minimize(tf.reduce_sum(tf.square(w - [1.0, -1.0])), global_step=step)
        hooks = [v1.train.StopAtStepHook(last_step=steps), v1.train.StepCounterHook(every_n_steps=10)]
        filters = ["/job:ps", f"/job:worker/task:{task}"]
        wait_for_chief(task, directory)
        ran = 0
        with v1.train.MonitoredTrainingSession(
            target,
            is_chief=task == 0,
            checkpoint_dir=directory if task == 0 else None,
            hooks=hooks,
            config=config(device_filters=filters),
            save_checkpoint_steps=25,
            max_wait_secs=30,
        ) as sess:
            while not sess.should_stop():
                sess.run(train)
                ran += 1
    print(json.dumps({"ran": ran}))


if __name__ == "__main__":
    main()
