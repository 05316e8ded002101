#!/usr/bin/env bash
SCRIPT_DIR="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
source "${SCRIPT_DIR}/../lib/verify-vm.sh"
NS="${EVAL_NAMESPACE:-vm-test}"
FAILED=0

verify_vm_exists restored "$NS" || FAILED=1
verify_run_strategy restored "$NS" Halted || FAILED=1

snapshots=$(kubectl get vmsnapshot -n "$NS" -o jsonpath='{range .items[*]}{.metadata.name}{"\n"}{end}')
while read -r snap; do
  [ -z "$snap" ] && continue
  ready=$(kubectl get vmsnapshot "$snap" -n "$NS" -o jsonpath='{.status.readyToUse}')
  if [ "$ready" != "true" ]; then
    echo "snapshot $snap is not ready"
    FAILED=1
  fi
done <<< "$snapshots"

exit $FAILED
