#!/usr/bin/env bash
NAMESPACE="crashloop-test"
# Wait for the deployment to be available
if ! kubectl wait --for=condition=Available=True --timeout=10s deployment/app -n $NAMESPACE; then
    echo "Deployment did not become available"
    exit 1
fi
RESTARTS=$(kubectl get pods -n $NAMESPACE -l app=nginx -o jsonpath='{.items[0].status.containerStatuses[0].restartCount}')
if [ "$RESTARTS" -gt 0 ]; then
    echo "Pod still restarts"
    exit 1
fi
exit 0
