#!/bin/sh
# libweft.so exports what the headers of include/weft declare, and no other of ours.
# Arguments: the library, the headers.
set -eu
library=$1
shift
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
nm -D --defined-only "$library" | awk '$2 != "A" {print $3}' | grep -v '^TF_.*@@VERS_1\.0$' | sed 's/@@WEFT_0$//' |
  LC_ALL=C sort > "$work/exported"
readelf -d "$library" | grep -q 'SONAME.*\[libweft\.so\.0\]'
cat "$@" | tr '\n' ' ' | grep -o 'TF_CAPI_EXPORT extern [^;]*;' | grep -o 'WEFT_[A-Za-z0-9]* *[(;]' | tr -d ' (;' | LC_ALL=C sort > "$work/declared"
test "$(wc -l < "$work/declared")" -gt 100
diff "$work/declared" "$work/exported"
echo "$(wc -l < "$work/declared") functions"
