#!/usr/bin/env bash
set -euo pipefail
NAMESPACE="service-routing"
SELECTOR=$(kubectl get svc nginx -n "$NAMESPACE" -o json | jq -r '.spec.selector | to_entries | map("\(.key)=\(.value)") | join(",")')
for i in $(seq 1 5); do
  PODS=$(kubectl get pods -n "$NAMESPACE" -l "$SELECTOR" -o jsonpath='{.items[*].metadata.name}' 2>/dev/null)
  if [ -n "$PODS" ]; then
    echo "service reaches: $PODS"
    exit 0
  fi
  sleep 1
done
echo "no pod has $SELECTOR" >&2
exit 1
