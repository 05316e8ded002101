#!/usr/bin/env bash
# Wait for the request to be 15Gi
if kubectl wait --for=jsonpath='{.spec.resources.requests.storage}'=15Gi pvc/storage-pvc -n resize-pv --timeout=3s; then
    exit 0
fi
size=$(kubectl get pvc storage-pvc -n resize-pv -o jsonpath='{.spec.resources.requests.storage}')
echo "PVC requests $size"
exit 1
