"""The C API with odd arguments, beside TensorFlow's own library: the same codes, messages and results (c_api_calls.py has the calls).

Where Weft is different on purpose, or TensorFlow's result is that of memory that it never wrote, a pattern here says so; such a
call must still return. What kills the process under TensorFlow has no result to compare.
"""

import functools
import json
import os
import re
import subprocess
import sys

import c_api_calls
import pytest

from model_session import tensorflow_library
from support import HERE
from weft_graph import weft_library

# Cases by name, and why they are not compared.
DIFFERENT = {
    r"new (operation|constant) named.*": "names are checked where a node is added, not where a session begins",
    r"gradients with the prefix: .*": "the same, and nodes of gradients have other names",
    r"imported twice.*uniquify names 0 prefix 0": "a second node of a name is refused where it is imported",
    r"imported node named: _S.*": "a graph has no nodes of its own",
    r"(GraphDef|GraphDef under a prefix): (backwards|function of a bad argument|call with too few)": "nodes keep the GraphDef's order; signatures are checked",
    r"GraphDef.*: unknown op": "a graph may hold ops that no step needs",
    r"GraphDef to a deprecated session: .*": "sessions refuse a graph in the words of TensorFlow's servers",
    r"(FunctionDef: (no type|two nodes of a name)|call of the function: .*)": "bodies are checked at the call's step",
    r"input mapped( to another graph's)?: .*": "what an input is mapped to is checked for inputs that are not used, too",
    r"returned: output -1": "refused",
    r".*(Shape|ShapeProto) with -2": "a size below -1 is refused",
    r"set shape: -2 of .*": "the same",
    r"(own attribute|attribute of an op|attribute of a function|getter).*(Tensor|TensorList)(, room for \d)?": "values are written as bytes",
    r"attribute of an op: .*, (Placeholder|ValueProto of nothing)": "placeholders belong to functions",
    r"(own attribute|attribute of an op|getter).*(of none|ValueProto list|Metadata of no attribute).*": "TensorFlow leaves the type unset",
    r"types and consumers of: .:-1": "an edge to the end of the graph is none",
    r"type of (in|out)put: .*": "TensorFlow reads past the end",
    r"attribute number: \d": "attributes are in another order",
    r"attribute of an op: bool, .*": "of two errors TensorFlow tells that of the attribute which its hash table has first",
    r"constant value of: .*": "an output that is not there is an error",
    r"gradients: .*": "more gradients; each of equal xs has one",
    r"edge updated: (to another type|input -1)": "types are checked",
    r"loops? .*|loop: .*|loop of: .*": "an input of a loop needs no constant of its own",
    r"allocated: .*": "types and ranks that Weft lacks",
    r"wrapped: .*": "a tensor is copied where its elements need it, and refused where they cannot be",
    r"aligned results: .*": "small results lie in their tensor",
    r"reshaped: .*": "a shape of another number of elements is not taken",
    r"string of length: .*": "the capacity is the size",
    r"(from proto|bitcast): .*": "messages say more",
    r"(fed by the name|fetched by the name|run of functions|session's life): .*": "words and codes of TensorFlow's servers",
    r"session: .*": "a ConfigProto of nothing is printed as nothing; without devices there is no list",
    r"run options: pool 9": "one pool runs all steps",
    r"run: (string fed a float|fed all)": "of two errors another is told",
    r"server: .*": "a definition that is no cluster is INVALID_ARGUMENT",
    r"api definitions: rubbish": "places are printed otherwise",
    r"files: create": "an empty path is no directory",
    r"null: (NewServer|TensorFromProto)": "words",
    r"checkpoint at: /etc.*": "words",
    r"(new operation of type|device|attribute set twice): .*": "words",
    r"function of a graph: (empty name|no such operation|variable|control edge out).*": "words",
    r"GraphDef.*: (control on itself|itself|a ring)": "a cycle's nodes are named",
    r"GraphDef under a prefix: .*": "nodes have their new names in messages",
}  # fmt: skip


def observe(library):
    script = os.path.join(HERE, "c_api_calls.py")
    return json.loads(subprocess.run([sys.executable, script, library], check=True, stdout=subprocess.PIPE, timeout=1200).stdout)


@functools.cache
def observed(weft):
    return observe(weft_library(weft)), observe(tensorflow_library())


FAMILIES = sorted({name.split(":")[0] for name in c_api_calls.CASES})


@pytest.mark.weft_only
@pytest.mark.parametrize("family", FAMILIES)
def test_calls(request, family):
    got, want = observed(request.config.getoption("--weft"))
    wrong = {}
    for name in (n for n in c_api_calls.CASES if n.split(":")[0] == family):
        is_crash = isinstance(got[name], str)
        if isinstance(want[name], str) and want[name].startswith("signal"):
            continue
        is_different = any(re.fullmatch(p, name, re.DOTALL) for p in DIFFERENT)
        if is_crash if is_different else got[name] != want[name]:
            wrong[name] = (got[name], want[name])
    assert not wrong, "\n".join(f"{n}:\n  Weft {g}\n  TensorFlow {w}" for n, (g, w) in list(wrong.items())[:20])
