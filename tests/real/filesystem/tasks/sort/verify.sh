#!/bin/sh
set -eu
sort "$REAL_WORK/sort/in.txt" | diff - "$REAL_WORK/sort/out.txt"
