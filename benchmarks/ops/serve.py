"""What a process of compare_ops and compare_models answers: a line of JSON for each command on standard input, an answer on standard output.

  anything else     ->  maker.load(command), then {"ok": true} or {"error": "..."}: it is ready, and has run its first step
  {"answer": PATH}  ->  {"ok": true}: what one more step gives is in that .npy
  {"seconds": S}    ->  {"steps": n, "wall_s": .., "cpu_s": ..}: steps one after the other for so long
  {"memory": true}  ->  {"peak_mb": ..}: the most that this process has held
"""

import json
import resource
import sys
import time

import numpy as np


def cpu_s():
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def steps_of(step, seconds):
    began, n = time.perf_counter(), 0
    while n == 0 or time.perf_counter() - began < seconds:
        step()
        n += 1
    return n, time.perf_counter() - began


def run(maker, seconds):
    """A maker that has `steps` has a loop of its own."""
    cpu = cpu_s()
    n, wall_s = maker.steps(seconds) if hasattr(maker, "steps") else steps_of(maker.step, seconds)
    return {"steps": n, "wall_s": wall_s, "cpu_s": cpu_s() - cpu}


def peak_mb():
    """Not getrusage's, which a process inherits from the one that started it."""
    with open("/proc/self/status", encoding="utf-8") as f:
        return next(int(line.split()[1]) for line in f if line.startswith("VmHWM:")) / 1e3


def obey(maker, command):
    if "seconds" in command:
        return run(maker, command["seconds"])
    if "memory" in command:
        return {"peak_mb": peak_mb()}
    if "answer" in command:
        np.save(command["answer"], maker.answer())
    else:
        maker.load(command)
    return {"ok": True}


def serve(maker):
    for line in sys.stdin:
        try:
            answer = obey(maker, json.loads(line))
        except Exception as e:  # whatever a library raises is told, and the next command is taken
            answer = {"error": f"{type(e).__name__}: {e}"}
        print(json.dumps(answer), flush=True)
