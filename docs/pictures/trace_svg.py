#!/usr/bin/env python3
"""One step of a trace (`weft trace`, `weft submit --trace`) as an SVG: a row for each task, its ops by time, transfers as lines between rows.

  docs/pictures/trace_svg.py trace.json >trace.svg
"""
import html
import json
import sys

WIDTH, LEFT, TOP, TRACK, GAP = 1000, 124, 46, 16, 34
COLOURS = {"forward": "#3b7dd8", "gradient": "#e08a2e", "update": "#3a9d5d", "collective": "#8e5bd0", "wait for input": "#b8b8b8"}


def kind(event):
    """What a node is for, by its name's scopes."""
    if event["cat"] != "compute":
        return event["cat"]
    name = event["name"]
    if "gradient" in name:
        return "gradient"
    return "update" if "train" in name or "/Apply" in event["args"]["label"] or "Apply" in event["args"]["label"] else "forward"


def one_step(events):
    """The events of the last step: `weft trace` marks steps, the file of a job has one."""
    steps = [e for e in events if e.get("cat") == "step"]
    if not steps:
        return events
    last = max(steps, key=lambda e: e["ts"])
    begin, end = last["ts"], last["ts"] + last["dur"]
    return [e for e in events if "ts" not in e or begin <= e["ts"] <= end]


def rows_of(spans):
    """Spans that overlap get tracks of their own: [(track, span)], how many tracks."""
    ends, placed = [], []
    for s in sorted(spans, key=lambda s: s["ts"]):
        track = next((i for i, end in enumerate(ends) if end <= s["ts"]), len(ends))
        ends[track : track + 1] = [s["ts"] + s["dur"]]
        placed.append((track, s))
    return placed, max(1, len(ends))


def main(path):
    with open(path, encoding="utf-8") as f:
        events = one_step(json.load(f)["traceEvents"])
    names = {e["pid"]: e["args"]["name"] for e in events if e.get("name") == "process_name"}
    spans = [e for e in events if e.get("ph") == "X" and e.get("cat") in ("compute", "collective", "wait for input")]
    begins = {e["id"]: e for e in events if e.get("ph") == "s"}
    arrows = [(begins[e["id"]], e) for e in events if e.get("ph") == "f" and e.get("id") in begins]
    times = [e["ts"] for e in spans] + [a["ts"] for a, _ in arrows]
    start, end = min(times), max(max(e["ts"] + e["dur"] for e in spans), max((b["ts"] for _, b in arrows), default=0))

    def x(t):
        return LEFT + (t - start) / (end - start) * (WIDTH - LEFT - 14)

    out, y, row = [], TOP, {}
    for pid in sorted({e["pid"] for e in spans}, key=lambda p: names.get(p, "")):
        placed, tracks = rows_of([s for s in spans if s["pid"] == pid])
        height = tracks * TRACK
        row[pid] = (y, y + height)
        task = names[pid].replace("/replica:0", "").replace("/job:", "").replace("/task:", " ").replace("/device:", " ")
        out.append(f'<rect x="{LEFT - 4}" y="{y - 4}" width="{WIDTH - LEFT - 6}" height="{height + 8}" rx="4" fill="#f3f5f8"/>')
        out.append(f'<text x="{LEFT - 12}" y="{y + height / 2 + 4}" text-anchor="end">{html.escape(task)}</text>')
        for track, s in placed:
            width = max(0.6, x(s["ts"] + s["dur"]) - x(s["ts"]))
            title = html.escape(f'{s["name"]}: {s["dur"]:.0f} µs')
            out.append(f'<rect x="{x(s["ts"]):.1f}" y="{y + track * TRACK}" width="{width:.1f}" height="{TRACK - 3}" fill="{COLOURS[kind(s)]}"><title>{title}</title></rect>')
        y += height + GAP
    for a, b in arrows:
        if a["pid"] not in row or b["pid"] not in row or a["pid"] == b["pid"]:
            continue
        down = row[a["pid"]][0] < row[b["pid"]][0]
        y1, y2 = (row[a["pid"]][1] + 3, row[b["pid"]][0] - 3) if down else (row[a["pid"]][0] - 3, row[b["pid"]][1] + 3)
        out.append(f'<line x1="{x(a["ts"]):.1f}" y1="{y1}" x2="{x(b["ts"]):.1f}" y2="{y2}" stroke="#c0392b" stroke-opacity="0.35"/>')
    at = LEFT
    for name, colour in [*COLOURS.items(), ("transfer", "#c0392b")]:
        if name != "transfer" and not any(kind(s) == name for s in spans):
            continue
        out.append(f'<rect x="{at}" y="14" width="12" height="12" fill="{colour}"/><text x="{at + 17}" y="24">{name}</text>')
        at += 40 + 8 * len(name)
    out.append(f'<text x="{WIDTH - 14}" y="24" text-anchor="end">{(end - start) / 1000:.2f} ms</text>')
    print(f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{y - GAP + 14}" viewBox="0 0 {WIDTH} {y - GAP + 14}" font-family="sans-serif" font-size="13">')
    print('<rect width="100%" height="100%" fill="#ffffff"/>')
    print("\n".join(out))
    print("</svg>")


if __name__ == "__main__":
    main(sys.argv[1])
