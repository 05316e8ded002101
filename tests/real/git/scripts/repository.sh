#!/usr/bin/env bash
set -euo pipefail
git init --quiet "$REAL_WORK/branch"
git -C "$REAL_WORK/branch" -c user.name=Ida -c user.email=ida@example.org commit --quiet --allow-empty --message start
