"""README.md and docs/ as sections of blocks."""

import os
import re

REPO = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def documents():
    names = [n for n in sorted(os.listdir(os.path.join(REPO, "docs"))) if n.endswith(".md")]
    return ["README.md", *(f"docs/{n}" for n in names)]


def text_of(path):
    with open(os.path.join(REPO, path), encoding="utf-8") as f:
        return f.read()


def sections(path):
    """(title, [(language, text)]) of each section, in order."""
    for part in re.split(r"^## ", text_of(path), flags=re.M):
        blocks = [(m[2], re.sub(rf"^{m[1]}", "", m[3], flags=re.M)) for m in re.finditer(r"^( *)```(\w*)\n(.*?)^ *```$", part, flags=re.M | re.S)]
        yield part.splitlines()[0].lstrip("# "), blocks
