#!/usr/bin/env bash
set -euo pipefail
NAMESPACE="service-routing"
kubectl create namespace "$NAMESPACE" --dry-run=client -o yaml | kubectl apply -f -
cat <<YAML | kubectl apply -f -
apiVersion: apps/v1
kind: Deployment
metadata:
  name: nginx
  namespace: $NAMESPACE
spec:
  replicas: 1
  selector:
    matchLabels:
      app: nginx
  template:
    metadata:
      labels:
        app: nginx
    spec:
      containers:
      - name: nginx
        image: nginx
        ports:
        - containerPort: 80
---
apiVersion: v1
kind: Service
metadata:
  name: nginx
  namespace: $NAMESPACE
spec:
  selector:
    app: web   # nobody has this label
  ports:
  - port: 80
    targetPort: 80
YAML
kubectl rollout status deployment/nginx -n "$NAMESPACE" --timeout=60s
