"""Every op of the tables, on the servers and in local TensorFlow: the same values, the same errors.

The cases are in cases_*.py. Those of one op share a graph and a step; the answers are kept, and each case is
a test of its own, so that a failure names op, dtype and situation.
"""

import itertools

import pytest
import tensorflow as tf

import cases_array
import cases_math
import cases_nn
import cases_string
from opcase import compare_all
from support import assert_same

MODULES = (cases_math, cases_array, cases_nn, cases_string)
BY_OP = {}
for _case in itertools.chain.from_iterable(m.cases() for m in MODULES):
    BY_OP.setdefault(_case.op, []).append(_case)
ANSWERS = {}  # op: {case name: (servers' answer, local answer)}


def answers(op, target):
    if op not in ANSWERS:
        ANSWERS[op] = compare_all(BY_OP[op], target)
    return ANSWERS[op]


@pytest.mark.parametrize("case", itertools.chain.from_iterable(BY_OP.values()), ids=lambda c: c.name)
def test_op(cluster, case):
    got, want = answers(case.op, cluster.master)[case.name]
    lacks = ("No OpKernel was registered", "do not yet support")
    if isinstance(want, tf.errors.UnimplementedError) or any(text in getattr(want, "message", "") for text in lacks):
        return  # TensorFlow has no kernel for this dtype or attribute; to have one more is no difference in a result
    if isinstance(want, Exception):
        assert isinstance(got, tf.errors.OpError), f"{type(want).__name__} expected: {want.message[-300:]}"
        assert type(got) is type(want), f"{type(got).__name__} instead of {type(want).__name__}: {got.message[-300:]}"
        return
    assert not isinstance(got, Exception), f"{type(got).__name__}: {got.message[-600:]}"
    assert len(got) == len(want)
    for i, (g, w) in enumerate(zip(got, want)):
        if w is not None:  # None: the op has no outputs, only an effect
            assert_same(g, w, rtol=case.rtol, atol=case.atol, what=f"{case.name} output {i}")
