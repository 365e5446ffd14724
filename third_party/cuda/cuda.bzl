"""The CUDA toolkit of the machine as the repository @cuda.

Looked for in CUDA_HOME ("none": there is none), where nvcc of the PATH is, and in /usr/local/cuda. Without one @cuda is there, too, and is empty:
what needs it has `target_compatible_with = CUDA` and is left out of //... .

WEFT_CUDA_ARCHITECTURES says which devices kernels are compiled for, by compute capability: "80 90" if it is not set. Later devices use the
last one's intermediate code.

@cuda//:headers         cuda.h, cublasLt.h, ... No library: all of them are opened at run time
@cuda//:defs.bzl        CUDA, the constraint; weft_cuda_fatbin, kernels as an object file
"""

_BUILD = """package(default_visibility = ["//visibility:public"])

constraint_setting(name = "toolkit")

# No platform has it: a target that asks for it is left out.
constraint_value(
    name = "found",
    constraint_setting = ":toolkit",
)

cc_library(
    name = "headers",
    hdrs = glob(["include/*.h", "include/*.hpp", "include/crt/**"]),
    includes = ["include"],
)
"""

_DEFS = """CUDA = {constraint}
_NVCC = "{nvcc}"
_ARCHITECTURES = {architectures}

def weft_cuda_fatbin(name, src, hdrs = [], **kwargs):
    \"\"\"The kernels of <src>.cu for devices of WEFT_CUDA_ARCHITECTURES and later, in an object file.

    A cc_library that defines `const unsigned char weft_cuda_fatbin_<name>[]` and, behind it,
    `weft_cuda_fatbin_<name>_end`. As a tool of its copy the object belongs to no configuration: nvcc runs once, whatever
    compiler or sanitizer builds the rest.
    \"\"\"
    symbol = "weft_cuda_fatbin_" + name
    native.genrule(
        name = name + "_copy",
        outs = [name + "_fatbin.o"],
        tools = [name + "_object.o"],
        cmd = "cp $(execpath " + name + "_object.o) $@",
        target_compatible_with = CUDA,
    )
    native.genrule(
        name = name + "_object",
        srcs = [src] + hdrs,
        outs = [name + "_object.o"],
        cmd = " && ".join([
            "%s -std=c++17 -O3 -I. -fatbin --compress-mode=size -Werror all-warnings -diag-suppress 177 %s -o $@.fatbin $(location %s)" % (
                _NVCC,
                " ".join(_ARCHITECTURES),
                src,
            ),
            ("printf '.section .rodata\\\\n.balign 64\\\\n.globl {{0}}\\\\n.hidden {{0}}\\\\n{{0}}:\\\\n.incbin \\"%s\\"\\\\n" +
             ".globl {{0}}_end\\\\n.hidden {{0}}_end\\\\n{{0}}_end:\\\\n.byte 0\\\\n" +
             ".section .note.GNU-stack,\\"\\",%%progbits\\\\n' $@.fatbin > $@.s").format(symbol),
            "as -o $@ $@.s",
            "rm $@.fatbin $@.s",
        ]),
        message = "Compiling CUDA kernels",
        tags = ["manual"],  # in no configuration but the tools'
        target_compatible_with = CUDA,
    )
    native.cc_library(
        name = name,
        srcs = [name + "_fatbin.o"],
        alwayslink = True,
        target_compatible_with = CUDA,
        **kwargs
    )
"""

def _find(ctx):
    places = [ctx.os.environ.get("CUDA_HOME", "")]
    if places[0] == "none":
        return None
    nvcc = ctx.which("nvcc")
    if nvcc != None:
        places.append(str(nvcc.realpath.dirname.dirname))
    places.append("/usr/local/cuda")
    for place in places:
        if place != "" and ctx.path(place + "/bin/nvcc").exists and ctx.path(place + "/include/cuda.h").exists:
            return place
    return None

def _cuda_toolkit(ctx):
    place = _find(ctx)
    if place != None:
        ctx.symlink(place + "/include", "include")
    ctx.file("BUILD", _BUILD)
    numbers = (ctx.os.environ.get("WEFT_CUDA_ARCHITECTURES") or "80 90").split(" ")
    ctx.file("defs.bzl", _DEFS.format(
        architectures = ["-gencode arch=compute_%s,code=sm_%s" % (n, n) for n in numbers] +
                        ["-gencode arch=compute_%s,code=compute_%s" % (numbers[-1], numbers[-1])],
        constraint = "[]" if place != None else '["@cuda//:found"]',
        nvcc = "" if place == None else place + "/bin/nvcc",
    ))

cuda_toolkit = repository_rule(
    implementation = _cuda_toolkit,
    doc = "Finds the CUDA toolkit of this machine.",
    environ = ["CUDA_HOME", "PATH", "WEFT_CUDA_ARCHITECTURES"],
    local = True,
)
