#!/usr/bin/env bash
set -euo pipefail
mkdir "$REAL_WORK/old-hand"
[[ $PWD == */old-hand ]]
