#!/usr/bin/env bash
NAMESPACE="image-pull-test"
TIMEOUT="5s"
if kubectl wait --for=condition=Available deployment/app -n "$NAMESPACE" --timeout="$TIMEOUT"; then
  echo "Verification successful: deployment is available"
  exit 0
fi
echo "Verification failed"
kubectl get pods -n "$NAMESPACE"
kubectl describe deployment app -n "$NAMESPACE"
exit 1
