"""Kernels compiled once per instruction-set level (base/isa.h).

The families of number-crunching kernels are compiled for the base level as everything else is, and again for each higher
level, from the same sources with other flags. All objects of a level are joined into one, in which every global name ends
with the level: weft_cpu_unary_kernels_v3. So the levels lie side by side in one program, and within a level its functions
call each other.
"""

load("@bazel_tools//tools/cpp:toolchain_utils.bzl", "find_cpp_toolchain")

# The folders that have levels: those whose time goes into loops over numbers.
FOLDERS = [
    "array",
    "audio",
    "ctc",
    "fft",
    "image",
    "learn",
    "linalg",
    "loops",
    "math",
    "nn",
    "optimizer",
    "quantize",
    "random",
    "rnn",
    "sampler",
    "sparse",
    "tile",
]

LEVELS = ["v3", "v4"]

def _setting_impl(ctx):
    return []

# The level that is compiled for: "base", "v3" or "v4". Only the transition below sets it.
isa_setting = rule(implementation = _setting_impl, build_setting = config.string())

# Are there higher levels than the base? --//kernels/cpu:levels=false where compiling time counts more.
levels_setting = rule(implementation = _setting_impl, build_setting = config.bool(flag = True))

def _to_level_impl(settings, attr):
    return {"//kernels/cpu:isa": attr.level}

_to_level = transition(implementation = _to_level_impl, inputs = [], outputs = ["//kernels/cpu:isa"])

def _level_objects_impl(ctx):
    toolchain = find_cpp_toolchain(ctx)
    libraries = []
    for dep in ctx.attr.deps:
        for linked in dep[CcInfo].linking_context.linker_inputs.to_list():
            if linked.owner.package in ["kernels/cpu/" + f for f in FOLDERS]:
                libraries += [l.pic_static_library or l.static_library for l in linked.libraries]
    unique = depset(libraries).to_list()
    out = ctx.actions.declare_file("lib%s.a" % ctx.label.name)
    ctx.actions.run_shell(
        outputs = [out],
        inputs = depset(unique, transitive = [toolchain.all_files]),
        mnemonic = "IsaLevel",
        progress_message = "Joining the kernels of level %s" % ctx.attr.level,
        command = """set -e
one=$(mktemp) && names=$(mktemp) && object=$(mktemp -d)/%{name}.o
trap 'rm -rf "$one" "$names" "${object%/*}"' EXIT
%{ld} -r -o "$one" --whole-archive %{libraries}
%{nm} -g --defined-only "$one" | awk '{ print $3, $3 "_%{level}" }' >"$names"
%{objcopy} --strip-debug --redefine-syms="$names" "$one" "$object"
%{ar} rcsD %{out} "$object" """
            .replace("%{name}", ctx.label.name)
            .replace("%{ld}", toolchain.ld_executable)
            .replace("%{nm}", toolchain.nm_executable)
            .replace("%{objcopy}", toolchain.objcopy_executable)
            .replace("%{ar}", toolchain.ar_executable)
            .replace("%{level}", ctx.attr.level)
            .replace("%{out}", out.path)
            .replace("%{libraries}", " ".join([l.path for l in unique])),
    )
    return [DefaultInfo(files = depset([out]))]

# An archive of one object: the families of `deps` for one level.
level_objects = rule(
    implementation = _level_objects_impl,
    attrs = {
        "level": attr.string(values = LEVELS),
        "deps": attr.label_list(cfg = _to_level, providers = [CcInfo]),
        "_cc_toolchain": attr.label(default = "@bazel_tools//tools/cpp:current_cc_toolchain"),
        "_allowlist_function_transition": attr.label(
            default = "@bazel_tools//tools/allowlists/function_transition_allowlist",
        ),
    },
    toolchains = ["@bazel_tools//tools/cpp:toolchain_type"],
)
