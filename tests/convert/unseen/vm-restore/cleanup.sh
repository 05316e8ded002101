#!/usr/bin/env bash
NS="${EVAL_NAMESPACE:-vm-test}"
kubectl delete vmsnapshot --all -n "$NS" --ignore-not-found
kubectl delete vm restored test-vm -n "$NS" --ignore-not-found
kubectl delete namespace "$NS" --ignore-not-found
