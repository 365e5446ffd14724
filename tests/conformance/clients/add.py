"""A client that adds to a shared variable: TARGET CONTAINER STEPS use_resource(0|1)."""

import sys

from support import PS, session, tf, v1


def main():
    target, container, steps, use_resource = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4] == "1"
    with tf.Graph().as_default() as g, g.container(container), tf.device(PS):
        v = v1.Variable([0.0] * 100, use_resource=use_resource, name="shared")
        add = v1.assign_add(v, [1.0] * 100, use_locking=True).op
        with session(target, g) as sess:
            for _ in range(steps):
                sess.run(add)
            print("read", len(sess.run(v)))


if __name__ == "__main__":
    main()
