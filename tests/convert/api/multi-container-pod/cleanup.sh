#!/usr/bin/env bash
NAMESPACE="multi-container-logging"
kubectl delete pod communication-pod -n ${NAMESPACE} --ignore-not-found --grace-period=0 --force
kubectl delete namespace ${NAMESPACE} --ignore-not-found
