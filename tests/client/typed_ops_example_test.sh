#!/bin/sh
# The example finds the line. Argument: the program.
set -eu
said=$("$1")
echo "$said"
test "$said" = "y = 3.000 x -1.000"
