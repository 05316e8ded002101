#!/usr/bin/env bash
kubectl delete namespace rollout-test --ignore-not-found
kubectl create namespace rollout-test
kubectl apply -f - <<YAML
apiVersion: apps/v1
kind: Deployment
metadata:
  name: web-app
  namespace: rollout-test
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - {name: nginx, image: "nginx:1.21"}
YAML
kubectl rollout status deployment/web-app -n rollout-test --timeout=60s
