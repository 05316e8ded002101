#!/usr/bin/env bash
set -e
source ./../lib/common.sh
fresh_namespace stateful-test
