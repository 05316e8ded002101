#!/usr/bin/env bash
NAMESPACE="multi-container-logging"
kubectl delete namespace ${NAMESPACE} --ignore-not-found
kubectl create namespace ${NAMESPACE}
