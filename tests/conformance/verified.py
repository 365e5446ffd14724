#!/usr/bin/env python3
"""Writes tools/verified.def: how many random cases of each op agree with TensorFlow, as test_properties notes it.

    tests/conformance/run tests/conformance/test_properties.py --cases=200 --record=record.txt
    tests/conformance/verified.py record.txt           # adds what was recorded to what stands there
    bazel-bin/tools/weft ops --markdown >docs/ops.md   # after `make build`

An op with state that other tests than random cases verify has its test in SUITES.
"""

import os
import re
import sys

PATH = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "tools", "verified.def")
KINDS = ("values", "gradients", "shapes")
SUITES = {  # how an op's name begins: the test that states what it does
    "Abort": "test_errors",
    "FixedLengthRecordReader": "test_files",
    "ExperimentalLMDB": "test_lmdb",
    "LMDB": "test_lmdb",
    "ListSnapshotChunks": "test_snapshot_files",
    "SnapshotNested": "test_snapshot_files",
    "Collective": "test_collectives",
    "TopK": "tests/kernels:top_k_test",
    "WeftCollective": "test_collectives",
    "WeftKv": "tests/cluster:kv_test",
    "WeftClock": "tests/kernels:kv_clock_test",
    "WeftEndOfData": "test_submit_input",
    "WeftIterator": "test_submit_data",
    "WeftOnce": "tests/kernels:kv_once_test",
    "WeftRandom": "tests/kernels:random_rows_test",
    "WeftMultinomialRows": "tests/kernels:random_rows_test",
    "WeftForgetVariable": "tests/jobs:stale_variables_test",
    "WeftNamedAllReduce": "tests/kernels:collective_test",
    "_WeftAttention": "tests/client:attention_test",
    "_WeftChain": "tests/device:chains_test",
    "_WeftMemoryCopy": "tests/device:mutation_test",
    "_FusedBatchNormEx": "test_fused",
    "_FusedConv3D": "test_fused",
    "_FusedDepthwiseConv2dNative": "test_fused",
    "_Arg": "tests/executor:functions_test",
    "_Retval": "tests/executor:functions_test",
    "_Send": "tests/graph:partition_test",
    "_Recv": "tests/graph:partition_test",
    "NcclAllReduce": "tests/client:collective_ops_test",
    "NcclBroadcast": "tests/client:collective_ops_test",
    "NcclReduce": "tests/client:collective_ops_test",
    "_NcclBroadcastRecv": "tests/client:collective_ops_test",
    "_NcclBroadcastSend": "tests/client:collective_ops_test",
    "_NcclReduceRecv": "tests/client:collective_ops_test",
    "_NcclReduceSend": "tests/client:collective_ops_test",
}
HEAD = """/* tools/verified.def - how many random cases of each op give TensorFlow's values, gradients and inferred shapes
 * (WEFT_VERIFIED), or which test states what it does (WEFT_VERIFIED_BY); sorted by name. tests/conformance/verified.py
 * writes it.
 */
"""


def read():
    counts = {}
    if os.path.exists(PATH):
        with open(PATH, encoding="utf-8") as f:
            for op, *numbers in re.findall(r'^WEFT_VERIFIED\("(\w+)", (\d+), (\d+), (\d+)\)', f.read(), re.M):
                counts[op] = dict(zip(KINDS, map(int, numbers)))
    return counts


def read_suites():
    """The ops that a test states as a part of whole programs, as it noted them."""
    with open(PATH, encoding="utf-8") as f:
        return dict(re.findall(r'^WEFT_VERIFIED_BY\("(\w+)", "(\S+)"\)', f.read(), re.M))


def main():
    counts, suites = read(), read_suites()
    for path in sys.argv[1:]:
        with open(path, encoding="utf-8") as f:
            for line in f:
                op, kind, n = line.split()
                if kind == "suite":
                    suites.setdefault(op, n)
                    continue
                counts.setdefault(op, dict.fromkeys(KINDS, 0))[kind] = int(n)
    with open(os.path.join(os.path.dirname(PATH), "..", "tests", "ops", "testdata", "registry.txt"), encoding="utf-8") as f:
        names = re.findall(r"^Op<name=(\w+);", f.read(), re.M)
    names += own_ops()
    lines = {op: 'WEFT_VERIFIED("%s", %d, %d, %d)' % (op, *(c[k] for k in KINDS)) for op, c in counts.items() if c["values"]}
    for name in names:
        suite = next((s for start, s in SUITES.items() if name.startswith(start)), suites.get(name))
        if suite and name not in lines:
            lines[name] = f'WEFT_VERIFIED_BY("{name}", "{suite}")'
    with open(PATH, "w", encoding="utf-8") as f:
        f.write(HEAD + "".join(lines[op] + "\n" for op in sorted(lines)))


def own_ops():
    """Those that TensorFlow does not have."""
    folder = os.path.join(os.path.dirname(PATH), "..", "ops")
    names = []
    for file in os.listdir(folder):
        if file.endswith(".def"):
            with open(os.path.join(folder, file), encoding="utf-8") as f:
                names += re.findall(r'^WEFT_OP\("(_?Weft\w+)"', f.read(), re.M)
    return names


if __name__ == "__main__":
    main()
