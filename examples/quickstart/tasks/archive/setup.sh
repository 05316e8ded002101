#!/usr/bin/env bash
set -euo pipefail
archive="${HOME}/.cache/gevals-quickstart/archive"
rm -rf "$archive"
mkdir -p "$archive"
rm -f "${HOME}/.cache/gevals-quickstart/archive.md"
