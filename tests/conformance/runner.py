"""Runs pytest to the end, whatever happens to it, and counts.

A bug in a server can bring down the client's process, too: a response that TensorFlow did not expect, or a
hang that only the end of the process breaks. pytest then dies in the middle. So each test notes its begin and
its end in a file; if pytest dies, the test that had begun has failed, and pytest goes on behind it.

The whole suite is run by two pytest processes (pytest-xdist), each with servers of its own: much of a test's time is one
thread of the client, or a wait for a server that starts or is killed. `-n 0` runs it in one.
"""

import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
MAX_DEATHS = 40  # a suite that dies more often than this says nothing more
PYTEST_INTERRUPTED = 2
PYTEST_OUR_EXIT = 3  # conftest.py's: there is nothing to test
PYTEST_USAGE_ERROR = 4


class Progress:
    """What the tests noted: names that passed, failed, were skipped, and the one that had begun."""

    def __init__(self):
        self.states = {}

    def read(self, path):
        with open(path, encoding="utf-8") as f:
            for line in f:
                word, _, name = line.rstrip("\n").partition(" ")
                if word != "end" or self.states.get(name) == "begin":
                    self.states[name] = word

    def unfinished(self):
        return [name for name, word in self.states.items() if word == "begin"]

    def count(self, *words):
        return sum(1 for word in self.states.values() if word in words)


def main():
    args = sys.argv[1:]
    if not any(os.path.exists(a.split("::")[0]) for a in args if not a.startswith("-")):
        args = [HERE, *args]
        if not any(a.startswith("-n") for a in args):
            args += ["-n", "2", "--dist", "worksteal"]  # a half each in the suite's order, so that a file's fixtures serve once
    deaths, broken = [], None
    progress = Progress()
    with tempfile.TemporaryDirectory() as work:
        notes, done = os.path.join(work, "progress"), os.path.join(work, "done")
        open(notes, "w", encoding="utf-8").close()
        while len(deaths) < MAX_DEATHS and broken is None:
            with open(done, "w", encoding="utf-8") as f:
                f.writelines(name + "\n" for name in progress.states)
            code = subprocess.run(
                [
                    sys.executable,
                    "-m",
                    "pytest",
                    "-c",
                    os.path.join(HERE, "pytest.ini"),
                    f"--rootdir={HERE}",
                    f"--progress={notes}",
                    f"--done={done}",
                    *args,
                ]
            ).returncode
            progress.read(notes)
            dead = [name for name in progress.unfinished() if name not in deaths]
            if code in (PYTEST_INTERRUPTED, PYTEST_OUR_EXIT, PYTEST_USAGE_ERROR):
                broken = f"pytest ended with {code} before all tests had run"
            elif not dead:
                if not progress.states:
                    broken = f"pytest ended with {code} and ran no test"
                break
            deaths.extend(dead)
    for name in deaths:
        print(f"FAILED {name} - the test process died in it")
    if broken:
        print(broken)
    failed = progress.count("failed", "begin") + (1 if broken else 0)
    failures = [name for name, word in progress.states.items() if word in ("failed", "begin")]
    for name in failures if deaths else []:
        print("failed:", name)
    skipped = progress.count("skipped")
    if skipped:
        print(f"{skipped} do not apply to these servers, or lack a program that the reason names (-rs)")
    print(f"{progress.count('end')} passed, {failed} failed", flush=True)
    return 0 if failed == 0 and progress.count("end") > 0 else 1


if __name__ == "__main__":
    sys.exit(main())
