#!/usr/bin/env bash
set -euo pipefail
NS=netpol-ns1
NAME=np

kubectl get networkpolicy "$NAME" -n "$NS" >/dev/null || { echo "NetworkPolicy $NAME not found in $NS"; exit 1; }

types=$(kubectl get networkpolicy $NAME -n $NS -o jsonpath='{.spec.policyTypes[*]}')
if [[ "$types" != *"Egress"* ]]; then
  echo "policyTypes are '$types', want Egress"
  exit 1
fi

selector=$(kubectl get networkpolicy $NAME -n $NS -o jsonpath='{.spec.podSelector}')
if [[ "$selector" != "{}" ]]; then
  echo "it does not select all pods: $selector"
  exit 1
fi

to=$(kubectl get networkpolicy $NAME -n $NS -o jsonpath='{.spec.egress[*].to[*].namespaceSelector.matchLabels}')
if ! echo "$to" | grep -q '"kubernetes.io/metadata.name":"netpol-ns2"'; then
  echo "egress to netpol-ns2 is not allowed"
  exit 1
fi

dns=$(kubectl get networkpolicy $NAME -n $NS -o json | jq '[.spec.egress[].ports[]? | select(.port == 53)] | length')
if [ "$dns" -lt 1 ]; then
  echo "DNS is not allowed"
  exit 1
fi
echo "network policy is right"
