#!/usr/bin/env bash
set -euo pipefail
note="${HOME}/.cache/gevals-quickstart/archive.md"
archive="${HOME}/.cache/gevals-quickstart/archive"
if ! grep -q "kept" "$note"; then
  echo "the note does not say that it is kept" >&2
  exit 1
fi
mv "$note" "$archive/"
