"""Messages: C code from .proto files by protobuf-c's compiler."""

def weft_proto_library(name, srcs, **kwargs):
    """A C library of the messages in `srcs`; include "<folder>/<file>.pb-c.h".

    The generated code is not held to our warnings. Files import each other by their path from the top.
    """
    stems = [s[:-len(".proto")] for s in srcs]
    sources = [s + ".pb-c.c" for s in stems]
    headers = [s + ".pb-c.h" for s in stems]
    native.genrule(
        name = name + "_generated",
        srcs = srcs,
        outs = sources + headers,
        cmd = "protoc-c -I. --c_out=$(BINDIR) $(SRCS)",
        message = "Generating messages",
    )
    native.cc_library(
        name = name,
        srcs = sources,
        hdrs = headers,
        copts = [
            "-std=gnu11",
            "-w",
        ],
        linkopts = ["-lprotobuf-c"],
        **kwargs
    )
