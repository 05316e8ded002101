#!/usr/bin/env bash
set -e
NAMESPACE="crashloop-test"
kubectl delete namespace $NAMESPACE --ignore-not-found
kubectl create namespace $NAMESPACE
kubectl apply -n $NAMESPACE -f artifacts/
# Wait for pod to enter crashloop
for i in {1..30}; do
    if kubectl get pods -n $NAMESPACE -l app=nginx -o jsonpath='{.items[0].status.containerStatuses[0].state.waiting.reason}' | grep -q "CrashLoopBackOff"; then
        echo "Pod entered crashloop as expected"
        exit 0
    fi
    sleep 1
done
echo "Failed to simulate crashloop"
exit 1
