#!/usr/bin/env bash
# Shared by several tasks.
log() { echo "[$(date +%T)] $*"; }
vm_exists() {
  local name="$1"
  local ns="$2"
  if ! kubectl get virtualmachine "$name" -n "$ns" >/dev/null 2>&1; then
    echo "VirtualMachine $name is missing in $ns"
    return 1
  fi
  echo "found $name"
  return 0
}
vm_field_is() {
  local name="$1" ns="$2" path="$3" want="$4"
  local got
  got=$(kubectl get virtualmachine "$name" -n "$ns" -o "jsonpath=$path" 2>/dev/null)
  if [[ "$got" != "$want" ]]; then
    echo "$path is $got, not $want"
    return 1
  fi
}
