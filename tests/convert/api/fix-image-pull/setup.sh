#!/usr/bin/env bash
kubectl delete namespace image-pull-test --ignore-not-found
kubectl create namespace image-pull-test
kubectl create deployment app --image=nginx:nonexistent-tag -n image-pull-test

# Wait for the pull to fail
for i in {1..30}; do
    if kubectl get pods -n image-pull-test -o jsonpath='{.items[*].status.containerStatuses[*].state.waiting.reason}' | grep -qE "ImagePullBackOff|ErrImagePull"; then
        echo "Pod entered ImagePullBackOff state as expected"
        exit 0
    fi
    sleep 1
done
echo "Pod did not fail to pull"
exit 1
