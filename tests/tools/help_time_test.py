#!/usr/bin/python3
"""Help comes at once. Runs alone, because what runs beside it would be measured, too."""
import os
import re
import subprocess
import time
import unittest

WEFT = os.path.abspath("tools/weft")  # tests start in the root of the repository
LONGEST_HELP_S = 0.020
LONGEST_OWN_S = 0.010  # beside what the dynamic linker takes, which is most of it: on a slow machine that alone is about 20 ms
MOST_TRIES = 500  # the machine may be busy with what is none of ours


def seconds(arguments, **environment):
    began = time.monotonic()
    subprocess.run(arguments, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env={**os.environ, **environment}, check=True)
    return time.monotonic() - began


class HelpTime(unittest.TestCase):
    def test_it_comes_at_once(self):
        listed = subprocess.run([WEFT, "--help"], capture_output=True, text=True, check=True).stdout
        commands = re.findall(r"^  ([a-z]+) {2,}\S", listed, re.M)
        self.assertGreater(len(commands), 8)
        for command in commands:
            times, loads = [], []
            while len(times) < MOST_TRIES:
                times.append(seconds([WEFT, command, "--help"]))
                if min(times) < LONGEST_HELP_S:
                    break
                loads.append(seconds([WEFT], LD_TRACE_LOADED_OBJECTS="1", LD_WARN="1"))  # loads and relocates, and ends
                if min(times) < min(loads) + LONGEST_OWN_S:
                    break
            self.assertLess(min(times), max(LONGEST_HELP_S, min(loads, default=0) + LONGEST_OWN_S), command)


if __name__ == "__main__":
    unittest.main()
