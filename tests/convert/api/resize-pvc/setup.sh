#!/usr/bin/env bash
kubectl delete namespace resize-pv --ignore-not-found
kubectl create namespace resize-pv
kubectl apply -f artifacts/storage-pvc.yaml
kubectl wait --for=jsonpath='{.status.phase}'=Bound pvc/storage-pvc -n resize-pv --timeout=30s
