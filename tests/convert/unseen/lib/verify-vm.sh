#!/usr/bin/env bash
# Helpers of all tasks about virtual machines.

KUBECTL="${KUBECTL:-kubectl}"

verify_vm_exists() {
  local name="$1"
  local namespace="${2:-vm-test}"
  if ! kubectl get virtualmachine "$name" -n "$namespace" > /dev/null 2>&1; then
    echo "✗ VirtualMachine $name not found in $namespace"
    return 1
  fi
  echo "✓ VirtualMachine $name exists"
  return 0
}

verify_run_strategy() {
  local name="$1" namespace="$2" wanted="$3"
  local actual
  actual=$(kubectl get virtualmachine "$name" -n "$namespace" -o jsonpath='{.spec.runStrategy}')
  if [[ "$actual" != "$wanted" ]]; then
    echo "✗ runStrategy is $actual, expected $wanted"
    return 1
  fi
}

wait_vm_ready() {
  local name=$1 ns=$2 timeout=${3:-120s}
  kubectl wait "virtualmachine/$name" -n "$ns" --for=condition=Ready --timeout="$timeout"
}

apply_vm() {
  local name=$1 ns=$2
  cat <<EOF | kubectl apply -f -
apiVersion: kubevirt.io/v1
kind: VirtualMachine
metadata:
  name: $name
  namespace: $ns
spec:
  runStrategy: Always
EOF
}
