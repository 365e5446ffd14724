"""Runs one of TensorFlow's own servers with the arguments and the ready line of `weft server`."""

import argparse
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")

import tensorflow as tf  # noqa: E402 (the environment must be set first)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cluster", required=True, help="job=host:port,host:port;job=…")
    parser.add_argument("--job", required=True)
    parser.add_argument("--task", type=int, required=True)
    parser.add_argument("--cpus", type=int, default=1)
    args = parser.parse_args()
    jobs = dict(entry.split("=", 1) for entry in args.cluster.split(";"))
    jobs = {job: tasks.split(",") for job, tasks in jobs.items()}
    config = tf.compat.v1.ConfigProto(device_count={"CPU": args.cpus})
    config.experimental.collective_group_leader = "/job:worker/replica:0/task:0"
    server = tf.distribute.Server(jobs, job_name=args.job, task_index=args.task, config=config)
    print(f"tensorflow: listening on {server.target}", flush=True)
    server.join()


if __name__ == "__main__":
    main()
