"""Fuzz targets as tests of bounded time."""

load("//tools:defs.bzl", "COPTS")

def weft_fuzz_test(name, deps, **kwargs):
    """<name>.c with the driver; see fuzz.h."""
    native.cc_test(
        name = name,
        size = "small",
        srcs = [
            name + ".c",
            "fuzz.c",
            "fuzz.h",
        ],
        copts = COPTS,
        linkopts = ["-lpthread", "-lm"],
        deps = deps,
        **kwargs
    )
