#!/usr/bin/python3
"""Help comes at once. Runs alone, because what runs beside it would be measured, too."""
import os
import re
import subprocess
import time
import unittest

WEFT = os.path.abspath("tools/weft")  # tests start in the root of the repository
LONGEST_HELP_S = 0.020
MOST_TRIES = 500  # the machine may be busy with what is none of ours


class HelpTime(unittest.TestCase):
    def test_it_comes_at_once(self):
        listed = subprocess.run([WEFT, "--help"], capture_output=True, text=True, check=True).stdout
        commands = re.findall(r"^  ([a-z]+) {2,}\S", listed, re.M)
        self.assertGreater(len(commands), 8)
        for command in commands:
            times = []
            while len(times) < MOST_TRIES and min(times, default=1) >= LONGEST_HELP_S:
                began = time.monotonic()
                subprocess.run([WEFT, command, "--help"], stdout=subprocess.DEVNULL, check=True)
                times.append(time.monotonic() - began)
            self.assertLess(min(times), LONGEST_HELP_S, command)


if __name__ == "__main__":
    unittest.main()
