#!/usr/bin/env bash
source "$(dirname "${BASH_SOURCE[0]}")/../lib/verify-vm.sh"
NS="${EVAL_NAMESPACE:-vm-test}"

verify_vm_exists "test-vm" "$NS" || exit 1
verify_run_strategy "test-vm" "$NS" "Always" || exit 1
# paused, and not stopped
if ! kubectl wait vmi/test-vm -n "$NS" --for=condition=Paused --timeout=30s; then
  echo "✗ the VM is not paused"
  exit 1
fi
exit 0
