"""The comparison with TensorFlow starts: what it imports from this folder is still here, and it prints what it measured."""

import json
import os
import subprocess
import sys

REPO = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def test_compare_tensorflow_measures_the_start_of_a_server():
    command = [sys.executable, os.path.join(REPO, "benchmarks", "compare_tensorflow"), "--only", "server_start", "--rounds", "1", "--json"]
    rows = json.loads(subprocess.run(command, check=True, timeout=180, capture_output=True, text=True).stdout)
    assert [row["name"] for row in rows] == ["server_start", "server_rss"]
    assert all(0 < row["weft"] < row["tensorflow"] for row in rows), rows
