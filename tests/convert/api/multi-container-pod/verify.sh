#!/usr/bin/env bash
NAMESPACE="multi-container-logging"
POD="communication-pod"
kubectl wait --for=condition=Ready pod/$POD -n $NAMESPACE --timeout=5s || exit 1

CONTAINERS=$(kubectl get pod $POD -n $NAMESPACE -o jsonpath='{.spec.containers[*].name}')
for c in web-server logger; do
  if [[ ! " $CONTAINERS " =~ " $c " ]]; then
    echo "container $c is missing"
    exit 1
  fi
done
if ! kubectl get pod $POD -n $NAMESPACE -o jsonpath='{.spec.volumes[?(@.name=="logs-volume")].emptyDir}' | grep -q '{}'; then
  echo "logs-volume is no emptyDir"
  exit 1
fi
mounts=$(kubectl get pod $POD -n $NAMESPACE -o json | jq -r '.spec.containers[].volumeMounts[] | select(.name=="logs-volume") | .mountPath' | wc -l)
if [ $mounts -ne 2 ]; then
  echo "want 2 mounts, have $mounts"
  exit 1
fi
