"""A client that waits for an element that does not come, until it is killed: argv[1] is the master, argv[2] a queue and its container."""

import sys

import tensorflow as tf

v1 = tf.compat.v1

with tf.Graph().as_default() as graph, graph.container(sys.argv[2]):
    with tf.device("/job:ps/task:0"):
        queue = tf.queue.FIFOQueue(5, [tf.int32], shapes=[[]], shared_name=sys.argv[2])
        element = queue.dequeue()
    with tf.device("/job:worker/task:1"):
        more = element + 1
    with v1.Session(sys.argv[1], graph=graph) as session:
        session.run(queue.size())
        print("ready", flush=True)
        session.run(more)
