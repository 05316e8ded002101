#!/usr/bin/env bash
NS="${EVAL_NAMESPACE:-vm-lab}"
kubectl delete vm builder -n "$NS" --ignore-not-found
kubectl delete namespace "$NS" --ignore-not-found
