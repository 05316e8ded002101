#!/usr/bin/env bash
# Wait for pod to be running with kubectl wait
if kubectl wait --for=condition=Ready pod/web-server -n create-pod-test --timeout=5s; then
    exit 0
else
    exit 1
fi
