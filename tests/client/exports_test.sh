#!/bin/sh
# The shared library exports the functions of the list, Weft's own, no other symbol, and the headers declare just these. Names
# and versions are those for which programs ask that were linked with TensorFlow's library.
# Arguments: the library, the list (a linker version script), the headers.
set -eu
library=$1 list=$2
shift 2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
sed -n 's/^ *\(TF_[A-Za-z0-9_]*\);$/\1/p' "$list" | LC_ALL=C sort > "$work/list"
nm -D --defined-only "$library" | awk '$2 != "A" {print $3}' | grep -v '^WEFT_.*@@WEFT_0$' | sed 's/@@VERS_1\.0$//' |
  LC_ALL=C sort > "$work/exported"
cat "$@" | tr '\n' ' ' | grep -o 'TF_CAPI_EXPORT extern [^;]*;' | sed 's/^[^(]*[ *]\(TF_[A-Za-z0-9_]*\)(.*/\1/' |
  LC_ALL=C sort > "$work/declared"
test "$(wc -l < "$work/list")" -gt 200
readelf -d "$library" | grep -q 'SONAME.*\[libtensorflow\.so\.2\]'
diff "$work/list" "$work/exported"
diff "$work/list" "$work/declared"
echo "$(wc -l < "$work/list") functions"
