#!/usr/bin/env bash
set -euo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
. "$here/lib.sh"

kubectl delete namespace "$NS" --ignore-not-found --timeout=180s
kubectl create namespace "$NS"
