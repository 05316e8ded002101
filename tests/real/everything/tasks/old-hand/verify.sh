#!/usr/bin/env bash
set -euo pipefail
test -d "$REAL_WORK/old-hand"
test -f prompt.txt
