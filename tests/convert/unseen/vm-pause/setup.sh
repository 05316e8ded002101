#!/usr/bin/env bash
set -e
source "$(dirname "${BASH_SOURCE[0]}")/../lib/verify-vm.sh"
NS="${EVAL_NAMESPACE:-vm-test}"
kubectl delete namespace "$NS" --ignore-not-found
kubectl create namespace "$NS"
apply_vm test-vm "$NS"
wait_vm_ready test-vm "$NS" 300s
