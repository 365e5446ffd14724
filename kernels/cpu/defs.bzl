"""One room of CPU kernels: a family of ops, named as in ops/*.def."""

load("//tools:defs.bzl", "weft_library")

def weft_cpu_family(name, deps = [], contract = "off", complex = False, **kwargs):
    """All sources of the folder.

    Args:
      name: the folder's
      deps: what it needs beside what every family uses
      contract: "off": products and sums are rounded one by one, alike on every level; "fast": once, where the processor can
      complex: it multiplies complex numbers. gcc 12 makes one rounding of products and sums of their parts, whatever
        -ffp-contract says, where it vectorises straight-line code (https://gcc.gnu.org/PR107647)
      **kwargs: of the library
    """
    weft_library(
        name = name,
        srcs = native.glob(["*.c"]),
        hdrs = native.glob(["*.h"], exclude = ["*.tmpl.h"]),
        copts = [  # loops over elements: the vectoriser pays, and nothing reads errno or traps
            "-O3",
            "-fno-math-errno",
            "-fno-trapping-math",
            "-ffp-contract=" + contract,
        ] + (["-fno-tree-slp-vectorize"] if complex else []) + select({
            "//kernels/cpu:is_v3": ["-march=x86-64-v3"],
            "//kernels/cpu:is_v4": ["-march=x86-64-v4"],
            "//kernels/cpu:is_x86_64": ["-march=x86-64-v2"],
            "//conditions:default": [],
        }),
        textual_hdrs = native.glob(["*.tmpl.h", "*.bin"], allow_empty = True),
        visibility = [
            "//kernels/cpu:__subpackages__",
            "//kernels/loaded:__pkg__",  # streams of random numbers
            "//tests:__subpackages__",
        ],
        deps = [
            "//base",
            "//device",
            "//kernels",
            "//ops",
            "//resources",
            "//tensor",
            "//tensor:each_dtype",
            "//tensor:update",
        ] + deps,
        **kwargs
    )
