#!/usr/bin/env bash
set -euo pipefail
SCRIPT_DIR="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
source "$SCRIPT_DIR/../lib/common.sh"
NS="${EVAL_NAMESPACE:-vm-lab}"

vm_exists "builder" "$NS" || exit 1
vm_field_is builder "$NS" '{.spec.runStrategy}' Always || exit 1
kubectl wait vm/builder -n "$NS" --for=condition=Ready --timeout=300s
