#!/bin/sh
# Builds the program and puts it where gevals looks for it: beside extension.yaml.
set -eu
cd "$(dirname "$0")"
cargo build --release
cp target/release/NAME .
