"""Fuzz targets as tests of bounded time."""

load("//tools:defs.bzl", "COPTS")

def weft_fuzz_test(name, deps, srcs = [], linkopts = [], **kwargs):
    """<name>.c and `srcs` with the driver; see fuzz.h."""
    native.cc_test(
        name = name,
        size = "small",
        srcs = [
            name + ".c",
            "fuzz.c",
            "fuzz.h",
        ] + srcs,
        copts = COPTS,
        linkopts = ["-lpthread", "-lm"] + linkopts,
        deps = deps,
        **kwargs
    )
