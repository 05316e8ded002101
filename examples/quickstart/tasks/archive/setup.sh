#!/usr/bin/env bash
set -euo pipefail
archive="${TMPDIR:-/tmp}/gevals-quickstart/archive"
rm -rf "$archive"
mkdir -p "$archive"
rm -f "${TMPDIR:-/tmp}/gevals-quickstart/archive.md"
